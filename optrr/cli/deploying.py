"""optrr export and serve: what devices need to randomize by a design, and surveys."""

import os
from pathlib import Path
from typing import Any, Literal

import click

from optrr.allocation.sampled_tables import SampledTables, load_sampled_tables
from optrr.allocation.sampled_uses import export_questions
from optrr.cli.designing import PRESERVE
from optrr.cli.inputs import Signed, refuse_longitudinal, split_names
from optrr.cli.options import argument, command, group, option, refuse_options
from optrr.cli.outputs import OUTPUT, Target
from optrr.cli.printing import give, is_json, print_json, progress, warn, watched
from optrr.core.design import Design, Preserve, load_design
from optrr.core.display import amount, epsilon_text
from optrr.core.errors import InvalidInput, not_installed
from optrr.core.files import DEFAULT_SIZE
from optrr.core.provenance import SAMPLED_TABLES, content_of, kind_of
from optrr.core.records import formula_doubts, refuse_replacing
from optrr.devices.export import compressed_size

# What --events means without names.
_ALL = "*"


@command
def export(
    design_file: Path = argument(metavar="DESIGN"),
    output: Path = option("File to write.", "-o", required=True, type=OUTPUT),
    size: int | None = option("Most bytes of the file, compressed; by default 65536.", type=click.IntRange(min=256)),
    matrix: str | None = option(
        "Write the distortion matrix of these attributes instead (csv, npz, json); a comma inside a name is written twice.",
        metavar="A,B",
    ),
    events: str | None = option(
        "Write the probability of each change set instead, of all attributes or of these (csv, npz, json), named as there.",
        metavar="[A,B]",
        is_flag=False,
        flag_value=_ALL,
    ),
    program: Literal["npz"] | None = option("Write POR's linear program A, b, A_eq, b_eq instead.", metavar="npz"),
    signed: Signed = group(Signed),
) -> None:
    """Write what a device needs to randomize one person's record by DESIGN (docs/deployment-format.md).

    Where the mechanism is too large for the size, it is solved again on a coarser grid, or every attribute is randomized on
    its own; the design to estimate with is then written beside OUTPUT, where no other design is kept. DESIGN may be sampled
    tables (optrr allocate -o), one of which each device answers. With --matrix, --events or --program: for other software.
    """
    if sum(x is not None for x in (matrix, events, program, size)) > 1:
        raise InvalidInput("give one of --size, --matrix, --events and --program")
    if str(output) == "-":
        raise InvalidInput("export writes a file and not standard output; name it: --output sampler.json")
    held = content_of(design_file, "design file")
    refuse_longitudinal(held)
    signed.check(held)
    if kind_of(held) == SAMPLED_TABLES:
        refuse_options(
            "is of designs of whole records; leave it out with sampled tables", "matrix", "events", "program"
        )
        _keep(design_file, output)
        _questions(load_sampled_tables(held), output, size)
        return
    design = load_design(held)
    _keep(design_file, output)
    if matrix is None and events is None and program is None:
        _deployment(design, design_file, output, size)
        return
    from optrr.devices.tables import save_events, save_matrix, save_program  # noqa: PLC0415

    if matrix is not None:
        what = save_matrix(design.mechanism, _named(design, matrix), output)
    elif events is not None:
        what = save_events(design.mechanism, output, None if events == _ALL else _named(design, events))
    else:
        what = save_program(design.solution.problem, design.domain.names, output)
    warn(formula_doubts(output, design.domain))
    give(
        lambda: {"output": str(output), **what},
        lambda: click.echo(f"{output}: {', '.join(f'{v} {k}' for k, v in what.items())}"),
    )


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
    from optrr.devices.export import keep_design  # noqa: PLC0415

    refuse_replacing(
        written, [design_file], f"{design_file} is the design itself and would be written over; give another --output"
    )
    keep_design(written)


def _deployment(design: Design, design_file: Path, output: Path, size: int | None) -> None:
    Target("a deployment file", ".json").convert(output, None, None)
    from optrr.devices.export import design_beside, fitted_deployment  # noqa: PLC0415

    fitted = fitted_deployment(design, DEFAULT_SIZE if size is None else size, progress)
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
        keeps = "" if fitted.own_size is None else f", or keep the design as it is (--size {fitted.own_size})"
        solved = [f"{how} to fit, {cost} nats above {before}; estimate with {summary['design']}{keeps}"]
    fitted.save(output)
    warn([*left_out, *solved])
    line = (
        f"{output}: total epsilon {epsilon_text(fitted.design.epsilon)}, {summary['states']} states, "
        f"{fitted.size} bytes compressed"
    )
    give(lambda: summary, lambda: click.echo(line))


def _questions(asking: SampledTables, output: Path, size: int | None) -> None:
    Target("a deployment file", ".json").convert(output, None, None)
    made = export_questions(asking, output, DEFAULT_SIZE if size is None else size)
    compressed = compressed_size(made)
    summary = {
        "output": str(output),
        "epsilon": float(made.total),
        "questions": len(made.questions),
        "compressed_bytes": compressed,
        "most_report_bytes": made.most_report_bytes,
    }
    line = (
        f"{output}: total epsilon {epsilon_text(asking.epsilon)}, {amount(len(made.questions), 'question')}, "
        f"{compressed} bytes compressed; a report takes at most {made.most_report_bytes} bytes"
    )
    give(lambda: summary, lambda: click.echo(line))


_TOKEN = "OPTRR_RESULTS_TOKEN"
_DATABASE = "OPTRR_DATABASE"


@command
def serve(
    source: Path = argument(metavar="SPEC_OR_DESIGN"),
    database: str | None = option(
        "postgresql://… or the path of a SQLite file; by default NAME.db beside SPEC_OR_DESIGN.",
        metavar="URL",
        envvar=_DATABASE,
    ),
    host: str = option("Address to listen on.", default="127.0.0.1"),
    port: int = option("0 takes a free one.", type=click.IntRange(0, 65535), default=8000),
    wording: Path | None = option("With a design: the specification whose texts are shown."),
    public_url: str | None = option(
        "Address that people use, where a proxy stands before this one: https://…", metavar="URL"
    ),
    preserve: Preserve = PRESERVE,
    signed: Signed = group(Signed),
) -> None:
    """Run a survey: its page, the collector of its reports, and the results.

    Answers are randomized in the browser; only the result is sent, and it is on disk before it is acknowledged. SPEC is
    designed first, and the design saved beside it. Of sampled tables (optrr allocate -o) everybody is asked one. The results'
    token is drawn anew, or taken from OPTRR_RESULTS_TOKEN.
    """
    try:
        # the survey package imports a web server and a database
        from optrr.survey.app import Settings, started  # noqa: PLC0415
        from optrr.survey.results import new_token  # noqa: PLC0415
        from optrr.survey.server import listening, run  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise not_installed(error, "optrr serve needs", "serve") from error

    held = content_of(source, "specification or design")
    signed.check(held)
    refuse_longitudinal(held)
    given = os.environ.get(_TOKEN)
    token = given or new_token()
    settings = Settings(held, token, database, wording, public_url, preserve)
    start = started(settings, watched())
    warn(start.warnings)
    with listening(host, port) as bound:
        base = (public_url or _own_address(host, bound.getsockname()[1])).rstrip("/")
        said = {
            "survey": f"{base}/",
            "epsilon": start.epsilon,
            "results": f"{base}/results",
            "database": start.database,
        }
        # a token that was given is known already, and what is printed is often kept in a log
        _show({**said, "token": None if given else token})
        run(start.app, bound)
    _close(start.app.loss())


def _close(loss: str | None) -> None:
    """The last line, and status 1 where acknowledged reports may be lost."""
    if loss is None:
        click.echo("stopped; every acknowledged report is kept", err=True)
        return
    click.echo(f"stopped; acknowledged reports are in the files that were opened, or lost with them: {loss}", err=True)
    raise click.exceptions.Exit(1)


def _own_address(host: str, port: int) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"


def _show(said: dict[str, Any]) -> None:
    if is_json():
        print_json(said)
        return
    click.echo(f"survey at total epsilon {epsilon_text(said['epsilon'])}: {said['survey']}")
    click.echo(f"results: {said['results']}   token: {said['token'] or f'from {_TOKEN}'}")
    click.echo(f"reports are kept in {said['database']}")
