"""optrr export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from optrr.cli.inputs import key_option, refuse_longitudinal, signature_option, split_names
from optrr.cli.printing import json_option, late_bar, print_json, warn
from optrr.cli.targets import OUTPUT, Target
from optrr.designs.design import Design
from optrr.designs.signing import require_signed
from optrr.errors import InvalidInput
from optrr.records.spreadsheets import formula_doubts
from optrr.releases.small_files import content_of
from optrr.show.rounding import epsilon_text

# What --events means without names.
_ALL = "*"


@click.command()
@click.argument("design_file", metavar="DESIGN", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=OUTPUT, help="File to write.")
@click.option("--size", type=click.IntRange(min=256), help="Most bytes of the file, compressed; by default 65536.")
@click.option(
    "--matrix",
    metavar="A,B",
    help="Write the distortion matrix of these attributes instead (csv, npz, json); a comma inside a name is written twice.",
)
@click.option(
    "--events",
    metavar="[A,B]",
    is_flag=False,
    flag_value=_ALL,
    help="Write the probability of each change set instead, of all attributes or of these (csv, npz, json), named as there.",
)
@click.option(
    "--program", metavar="npz", type=click.Choice(["npz"]), help="Write POR's linear program A, b, A_eq, b_eq instead."
)
@key_option
@signature_option
@json_option
def export(
    design_file: Path,
    output: Path,
    size: int | None,
    matrix: str | None,
    events: str | None,
    program: str | None,
    key: Path | None,
    signature: Path | None,
    as_json: bool,
) -> None:
    """Write what a device needs to randomize one person's record by DESIGN (docs/deployment-format.md).

    Where the mechanism is too large for the size, it is solved again on a coarser grid, or every attribute is randomized on
    its own; the design to estimate with is then written beside OUTPUT, where no other design is kept. With --matrix, --events
    or --program: what other software needs.
    """
    if sum(x is not None for x in (matrix, events, program, size)) > 1:
        raise InvalidInput("give one of --size, --matrix, --events and --program")
    if str(output) == "-":
        raise InvalidInput("export writes a file and not standard output; name it: --output sampler.json")
    held = content_of(design_file, "design file")
    refuse_longitudinal(held)
    require_signed(held, key, signature)
    design = Design.load(held)
    _keep(design_file, output)
    if matrix is None and events is None and program is None:
        _deployment(design, design_file, output, size, as_json)
        return
    from optrr.devices.deployment.tables import save_events, save_matrix, save_program  # noqa: PLC0415

    if matrix is not None:
        what = save_matrix(design.mechanism, _named(design, matrix), output)
    elif events is not None:
        what = save_events(design.mechanism, output, None if events == _ALL else _named(design, events))
    else:
        what = save_program(design.solution.problem, design.domain.names, output)
    warn(formula_doubts(output, design.domain))
    _report({"output": str(output), **what}, f"{output}: {', '.join(f'{v} {k}' for k, v in what.items())}", as_json)


def _named(design: Design, text: str) -> tuple[str, ...]:
    """The attributes of a list; an unknown name says how a comma inside a name is written, where some name has one."""
    names = split_names(text)
    try:
        design.domain.indices(names)
    except InvalidInput as error:
        if any("," in name for name in design.domain.names):
            raise InvalidInput(f"{error}; a comma inside a name is written twice: 'in,,come,sex'") from error
        raise
    return names


def _keep(design_file: Path, written: Path) -> None:
    """Refuse to write over a design, the one that is exported or another, before any work is done."""
    from optrr.devices.deployment.fit import keep_design  # noqa: PLC0415

    if written.exists() and written.samefile(design_file):
        raise InvalidInput(f"{design_file} is the design itself and would be written over; give another --output")
    keep_design(written)


def _deployment(design: Design, design_file: Path, output: Path, size: int | None, as_json: bool) -> None:
    Target("a deployment file", ".json").convert(output, None, None)
    from optrr.devices.deployment.fit import DEFAULT_SIZE, design_beside, fitted_deployment  # noqa: PLC0415

    with late_bar() as show:
        fitted = fitted_deployment(design, DEFAULT_SIZE if size is None else size, show)
    summary: dict[str, Any] = {
        "output": str(output),
        "epsilon": float(fitted.deployment.stated.total),
        "states": fitted.deployment.automaton.states,
        "compressed_bytes": fitted.size,
        "cost": fitted.design.epsilon - design.epsilon,
    }
    if fitted.anew:
        summary["design"] = str(design_beside(output))
    left_out = design.public.left_out("a deployment file")
    if left_out:
        summary["warnings"] = left_out
    solved = []
    if fitted.anew:
        cost, before = epsilon_text(fitted.design.epsilon - design.epsilon), epsilon_text(design.epsilon)
        how = "every attribute on its own" if fitted.design.method == "kronecker" else "solved again on a coarser grid"
        solved = [f"{how} to fit, {cost} nats above {before}; estimate with {summary['design']}"]
    fitted.save(output)
    warn([*left_out, *solved])
    line = (
        f"{output}: total epsilon {epsilon_text(fitted.design.epsilon)}, {summary['states']} states, "
        f"{fitted.size} bytes compressed"
    )
    _report(summary, line, as_json)


def _report(summary: dict[str, Any], line: str, as_json: bool) -> None:
    if as_json:
        print_json(summary)
    else:
        click.echo(line)
