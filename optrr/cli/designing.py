"""optrr design, optrr compare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from optrr.cli.inputs import FILE
from optrr.cli.outputs import design_output_option, report_option, write_report
from optrr.cli.printing import TABLE_DECIMALS, json_option, print_json, print_shown, print_table, say, warn, watched
from optrr.cli.public_columns import public_option
from optrr.designs.design import Design
from optrr.designs.design_file import save_design
from optrr.designs.solving import design as make_design
from optrr.designs.specification import Specification, parse_attributes, read_specification
from optrr.designs.wishes import Wishes
from optrr.domain.public import PublicColumns
from optrr.errors import InvalidInput
from optrr.show.parts import Page
from optrr.show.result import SHOWN
from optrr.show.rounding import bound_text, epsilon_text
from optrr_solvers import METHODS, InvalidProblem, MethodTooLarge, SolveFailed, Status, applicable

_Command = TypeVar("_Command", bound=Callable[..., Any])

spec_argument = click.argument("spec", required=False, type=FILE)
attribute_option = click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME=SIZE:EPSILON",
    help="An attribute, instead of SPEC; repeatable.",
)


def preserving(pairs: str) -> Callable[[_Command], _Command]:
    """The option --preserve; ``pairs`` says which pairs it keeps."""
    return click.option(
        "--preserve",
        type=click.Choice(["marginals", "pairs"]),
        default="marginals",
        show_default=True,
        help=f"pairs: {pairs} stays at least as visible as under Kronecker.",
    )


preserve_option = preserving("every pair")


def read_wanted(spec: Path | None, attributes: tuple[str, ...]) -> Specification:
    """The specification from SPEC or from --attribute, exactly one of them."""
    if (spec is None) == (not attributes):
        raise InvalidInput("give either SPEC (a .toml or .json file) or --attribute name=size:epsilon")
    return read_specification(spec) if spec is not None else parse_attributes(attributes)


def keep_specification(spec: Path | None, *written: Path | None) -> None:
    """Refuse to write over the specification. Raises InvalidInput."""
    for path in written:
        if spec is not None and path is not None and path.exists() and path.samefile(spec):
            raise InvalidInput(f"{path} is the specification itself; write to another file")


class MethodName(click.ParamType[str]):
    """``auto`` or a name in the solvers' table, which is read when the command runs."""

    name = "method"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """All names, for the help."""
        return f"[{'|'.join(['auto', *METHODS])}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name; refused where there is no such method."""
        return click.Choice(["auto", *METHODS]).convert(value, param, ctx)


def method_option(text: str) -> Callable[[_Command], _Command]:
    """The option --method; ``text`` is its help."""
    return click.option("--method", type=MethodName(), default="auto", show_default=True, help=text)


@click.command()
@spec_argument
@attribute_option
@design_output_option
@click.option(
    "--total-epsilon",
    type=float,
    help="Spend this total, in nats: the epsilons of SPEC are then proportions (all alike where it gives none).",
)
@method_option("Solver, the best one by default; por, inductive and kronecker are baselines.")
@preserve_option
@click.option("--conditional-cap", type=float, help="Largest conditional epsilon, in nats (up to 10 attributes).")
@click.option(
    "--tolerance",
    type=float,
    help="Largest accepted gap between the bounds, in nats; by default 1e-9 (ball: 1e-3), times the total if that is above 1.",
)
@click.option(
    "--time-limit", type=float, help="Seconds after which methods auto and ball return the best bracket so far."
)
@public_option
@report_option
@json_option
def design(
    spec: Path | None,
    attributes: tuple[str, ...],
    output: Path | None,
    total_epsilon: float | None,
    method: str,
    preserve: str,
    conditional_cap: float | None,
    tolerance: float | None,
    time_limit: float | None,
    public: tuple[str, ...],
    report: Path | None,
    as_json: bool,
) -> None:
    """Find the mechanism with the smallest total epsilon for the accuracies in SPEC (TOML or JSON).

    With --total-epsilon: the most accurate one of that total, with the accuracies in the proportions of SPEC.
    """
    wanted = read_wanted(spec, attributes)
    keep_specification(spec, output, report)
    beside = wanted.public.merged(PublicColumns.parsed(public))
    with watched("designing", tolerance=tolerance, time_limit=time_limit) as options:
        made = make_design(
            wanted.domain,
            wanted.required_epsilons() if total_epsilon is None else wanted.proportions(),
            total_epsilon=total_epsilon,
            method=method,
            preserve=preserve,  # type: ignore[arg-type]  # the choices are the literals
            conditional_cap=conditional_cap,
            options=options,
            public=beside,
        )
    if output is not None:
        save_design(made, output)
    write_report(report, lambda: _page(made, output))
    warn(made.warnings)
    if as_json:
        print_json(made.summary())
    else:
        show_design(made)


def _page(made: Design, output: Path | None) -> Page:
    from optrr.pages.design_page import design_page  # noqa: PLC0415 (pages bring charts)

    return design_page(made, None if output is None else output.name)


def show_design(made: Design) -> None:
    """Print totals and one row per attribute; a baseline's lower bound says nothing of it, and is left to --json."""
    bound = f"certified lower bound {bound_text(made.lower_bound)}   gap {max(made.gap, 0.0):.2g}   "
    say(
        f"total epsilon {epsilon_text(made.epsilon)}   {'' if made.solution.status is Status.BASELINE else bound}"
        f"method {made.method} ({made.solution.status}, {made.solution.seconds:.2f} s)"
    )
    saved = made.kronecker_epsilon / made.epsilon if made.epsilon else 1.0
    say(f"Kronecker's total {epsilon_text(made.kronecker_epsilon)}, {saved:.2f} times as much")
    if made.faintest_pair is not None:
        ratio, a, b = made.faintest_pair
        say(f"faintest pair eigenvalue ratio {ratio:.4f} ({a} × {b})")
    show_attributes(made)


def show_attributes(made: Design) -> None:
    """Print one row per attribute."""
    first = f" (first {SHOWN} of {made.domain.m})" if made.domain.m > SHOWN else ""
    print_shown(f"epsilon per attribute, in nats{first}", made.shown(SHOWN))


@click.command()
@spec_argument
@attribute_option
@preserve_option
@report_option
@json_option
def compare(spec: Path | None, attributes: tuple[str, ...], preserve: str, report: Path | None, as_json: bool) -> None:
    """Every applicable method on SPEC, side by side."""
    wanted = read_wanted(spec, attributes)
    made, failed = compare_methods(wanted, preserve)
    notes = [f"{d.method}: {note}" for d in made for note in d.solution.notes]
    warn([*notes, *(f"{f['method']}: {f['error']}" for f in failed)])

    def page() -> Page:
        from optrr.pages.advice_pages import comparison_page  # noqa: PLC0415 (pages bring charts)

        return comparison_page(made, [(f["method"], f["error"]) for f in failed])

    write_report(report, page)
    if as_json:
        print_json({"methods": [d.summary() for d in made], "failed": failed})
    else:
        print_table(
            "methods, epsilon in nats",
            ["method", "total", "at least", "gap", "status", "faintest pair", "max conditional", "s"],
            [
                (
                    d.method,
                    epsilon_text(d.epsilon, TABLE_DECIMALS),
                    bound_text(d.lower_bound, TABLE_DECIMALS),
                    f"{max(d.gap, 0.0):.2g}",
                    d.solution.status,
                    d.faintest_pair[0] if d.faintest_pair else None,
                    epsilon_text(float(d.conditional_epsilons.max()), TABLE_DECIMALS),
                    round(d.solution.seconds, 2),
                )
                for d in made
            ],
        )


def compare_methods(wanted: Specification, preserve: str) -> tuple[list[Design], list[dict[str, Any]]]:
    """Designs by every applicable method, and the methods that failed with their reasons."""
    epsilons = wanted.required_epsilons()
    problem = Wishes(preserve=preserve).problem(wanted.domain, epsilons)  # type: ignore[arg-type]
    made, failed = [], []
    for method in applicable(problem):
        try:
            made.append(make_design(wanted.domain, epsilons, method=method, preserve=preserve))  # type: ignore[arg-type]
        except (SolveFailed, MethodTooLarge, InvalidProblem) as error:
            failed.append({"method": method, "error": str(error)})
    return made, failed
