"""optrr design, compare, allocate and cluster: from a specification to a design, or another protocol."""

from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal

import click

from optrr.allocation.allocating import allocate as make_allocation
from optrr.cli.inputs import DESIGN_FILE, INPUT, PUBLIC, keep_input, split_names
from optrr.cli.options import argument, command, group, option
from optrr.cli.outputs import DESIGN, DESIGN_OUTPUT, REPORT, write_report
from optrr.cli.printing import give, progress, warn, watched
from optrr.core import files
from optrr.core.design import (
    Constraints,
    Preserve,
    Specification,
    load_design,
    parse_attributes,
    read_specification,
)
from optrr.core.design import compare as compare_methods
from optrr.core.design import design as make_design
from optrr.core.display import Result
from optrr.core.domain import PublicColumns
from optrr.core.errors import InvalidInput
from optrr.core.protocols import Algorithm, ClusterMatrix
from optrr.core.records import RecordsAt, held_back, refuse_replacing
from optrr_solvers import METHODS

SPEC = argument(required=False)
ATTRIBUTE = option(
    "Attribute name=size:epsilon, instead of SPEC; repeatable.", "--attribute", metavar="NAME=SIZE:EPSILON"
)
PRESERVE = option(
    ("pairs: keep the association of every pair at least as strong as with independent randomized response."),
    default="marginals",
)
PEOPLE: Any = option("Number of respondents.")
WORKLOAD = option(
    'Tables to estimate; FILE (.toml or .json) lists them, such as {"tables": [{"attributes": ["a", "b"]}]}.',
    default="marginals",
    metavar="marginals|pairs|FILE",
)
RECORDS_ONLY = option("Use only protocols that randomize whole records, so that any table can be estimated later.")
PROTOCOL = option("Protocol to use instead of the best, by its name in the table.", metavar="NAME")
EPSILON_EACH = "[NAME=]EPSILON"


def wanted(spec: Path | None = SPEC, attributes: tuple[str, ...] = ATTRIBUTE) -> Specification:
    """Return the specification from SPEC or --attribute, exactly one of them."""
    if (spec is None) == (not attributes):
        given = "neither is given" if spec is None else f"{spec} and --attribute are both given; leave one out"
        raise InvalidInput(f"give either SPEC (a .toml or .json file) or --attribute name=size:epsilon: {given}")
    return read_specification(spec) if spec is not None else parse_attributes(attributes)


WANTED = group(wanted)


def keep_specification(*written: Path | None) -> None:
    """Refuse to write over the specification. Raises InvalidInput."""
    spec = click.get_current_context().params.get("spec")
    for path in filter(None, written):
        refuse_replacing(path, [spec] if spec else [], f"{path} is the specification itself; write to another file")


def method_option(text: str) -> Any:
    """Create the option --method with this help."""
    return option(text, default="auto", metavar=f"[{'|'.join(['auto', *METHODS])}]")


def finish(
    made: Result,
    saved: Callable[[], Any],
    output: Path | None,
    html: Path | None,
    page: str,
    shown: Result | None = None,
) -> None:
    """Warn, write the ``saved`` files and the page of the result, whole or not at all, and print it, or the text ``shown``."""
    warn(made.warnings)
    with held_back():
        if output is not None:
            files.save(saved(), output)
        # pages bring charts
        write_report(html, lambda: resolve_name(page)(made, None if output is None else output.name))
    give(shown or made)


@command
def design(
    wanted: Specification = WANTED,
    output: Path | None = DESIGN_OUTPUT,
    total: float | None = option(
        "Total privacy budget epsilon, in nats; the epsilons of SPEC then set proportions (equal by default).",
        "--total-epsilon",
    ),
    method: str = method_option("Solver; default: the best one. por, inductive and kronecker are baselines."),
    preserve: Preserve = PRESERVE,
    conditional_cap: float | None = option("Maximum conditional epsilon, in nats (up to 10 attributes)."),
    tolerance: float | None = option(
        "Maximum gap between the bounds, in nats; default: 1e-9 (ball: 1e-3), times the total if that is more than 1."
    ),
    time_limit: float | None = option("Seconds after which the methods auto and ball return the best bracket so far."),
    public: tuple[str, ...] = PUBLIC,
    purpose: Literal["records", "device"] = option(
        (
            "device: print the epsilon of a respondent's device, and write the design that it uses (weights may be "
            "coarser)."
        ),
        "--for",
        default="records",
    ),
    html: Path | None = REPORT,
) -> None:
    """Find the mechanism with the smallest total epsilon.

    The mechanism has the accuracies in SPEC (TOML or JSON). With --total-epsilon, it is the most accurate mechanism of
    that total, with accuracies in the proportions of SPEC.

    Example: optrr design spec.toml --preserve pairs -o design.json
    """
    keep_specification(output, html)
    made = make_design(
        wanted,
        total=total,
        method=method,
        constraints=Constraints(preserve=preserve, conditional_cap=conditional_cap),
        options=watched(tolerance=tolerance, time_limit=time_limit),
        public=PublicColumns.parsed(public),
    )
    shown = None
    if purpose == "device":
        shown = made.for_devices()
        made = shown.design

    finish(made, lambda: made, output, html, "optrr.core.design:design_page", shown)


@command
def compare(wanted: Specification = WANTED, preserve: Preserve = PRESERVE) -> None:
    """Compare the designs of every applicable method.

    Example: optrr compare spec.toml --preserve pairs
    """
    made = compare_methods(wanted, constraints=Constraints(preserve=preserve))
    warn(made.warnings)
    give(made)


@command
def allocate(
    wanted: Specification = WANTED,
    total: float | None = option(
        "Total privacy budget epsilon, in nats; default: the smallest for the standard errors.",
        "--total-epsilon",
    ),
    workload: str = WORKLOAD,
    n: int | None = PEOPLE,
    standard_error: float | None = option("Required standard error of every table (needs --n)."),
    records_only: bool = RECORDS_ONLY,
    min_epsilon: tuple[str, ...] = option(
        "Minimum epsilon of all attributes, or of one; repeatable.", metavar=EPSILON_EACH
    ),
    max_epsilon: tuple[str, ...] = option(
        "Maximum epsilon of all attributes, or of one; repeatable.", metavar=EPSILON_EACH
    ),
    conditional_cap: float | None = option("Maximum conditional epsilon, in nats (up to 9 attributes)."),
    preserve: Preserve = PRESERVE,
    protocol: str | None = PROTOCOL,
    output: Path | None = option("Protocol file to write, for optrr randomize and optrr estimate.", "-o", type=DESIGN),
    html: Path | None = REPORT,
) -> None:
    """Compare protocols for a workload at a total epsilon.

    Without --total-epsilon, find the smallest total for the required standard errors. Epsilons in SPEC are ignored.

    Example: optrr allocate spec.toml --total-epsilon 2 --workload pairs --n 1000
    """
    keep_specification(output, html)
    names, what = wanted.domain.names, "error" if total is not None else "total epsilon"
    made = make_allocation(
        wanted,
        total,
        workload=workload,
        n=n,
        standard_error=standard_error,
        records_only=records_only,
        constraints=Constraints(
            preserve=preserve,
            conditional_cap=conditional_cap,
            min_epsilon=_by_name(names, min_epsilon, "min_epsilon"),
            max_epsilon=_by_name(names, max_epsilon, "max_epsilon"),
        ),
        progress=lambda so_far, lower: progress(f"allocate: {lower:.6g} ≤ {what} ≤ {so_far:.6g}"),
    ).choosing(protocol)

    finish(made, made.certified, output, html, "optrr.allocation.pages:allocation_page")


def _by_name(names: tuple[str, ...], texts: tuple[str, ...], parameter: str) -> dict[str, float] | None:
    """Parse ``name=epsilon``; a bare number holds for attributes not named."""
    of_all: dict[str, float] = {}
    of_one: dict[str, float] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        try:
            number = float(value)
        except ValueError as error:
            raise InvalidInput(
                f"``{parameter}``: {text!r} is not understood; write name=epsilon or epsilon, like sex=0.5"
            ) from error
        if name in of_one:
            raise InvalidInput(f"``{parameter}``: given twice for {name!r}, and only one can count; give it once")
        (of_one if equals else of_all).update({name: number} if equals else dict.fromkeys(names, number))
    return of_all | of_one or None


@command
def cluster(
    input: RecordsAt = INPUT,
    design_file: Path = DESIGN_FILE,
    max_combinations: int = option(
        "Maximum number of category combinations of a cluster, 2 or more.", required=True, metavar="T_V"
    ),
    min_dependence: float = option(
        "Minimum dependence, 0 to 1, of attributes in one cluster.", required=True, metavar="T_D"
    ),
    algorithm: Algorithm = option("Clustering algorithm.", default="greedy"),
    clusters: int | None = option("Number of groups of the algorithm pic; default: 3."),
    ordinal: str | None = option(
        "Attributes with ordered categories; dependence of a pair of them is measured by correlation.", metavar="A,B"
    ),
    attenuated: bool = option(
        "Measure dependence in the randomized records, without correction for the noise (MDR §4.1)."
    ),
    matrix: ClusterMatrix = option("Mechanism of a cluster in the second release.", default="joint"),
    output: Path | None = option("Design file to write, for the second release.", "-o", type=DESIGN),
) -> None:
    """Cluster attributes by their dependences.

    INPUT has records randomized by the design (first release). The design written by -o randomizes each cluster
    jointly. It consumes the sum of the first design's attribute epsilons, the total of independent randomized response;
    with --matrix least-epsilon it consumes less. A person in both releases consumes both totals.

    Example: optrr cluster randomized.csv --design design.json --max-combinations 12 --min-dependence 0.1
    """
    if output is not None:
        keep_input(output, input)
        keep_input(output, RecordsAt(design_file))
    reports = load_design(design_file).reports(input)
    made = reports.cluster(
        max_combinations,
        min_dependence,
        algorithm,
        clusters=clusters,
        ordinal=split_names(ordinal) if ordinal else (),
        attenuated=attenuated,
        matrix=matrix,
    )
    finish(made, lambda: made.design, output, None, "")
