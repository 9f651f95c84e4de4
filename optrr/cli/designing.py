"""optrr design, compare and cluster: from a specification to a design, or to questions (--accuracy variance)."""

from pathlib import Path
from typing import Any, Literal, cast

import click
import numpy as np

from optrr.allocation.sampled_tables import SampledTables
from optrr.cli.inputs import DESIGN_FILE, INPUT, PUBLIC, keep_input, split_names
from optrr.cli.options import argument, command, option, refuse_options
from optrr.cli.outputs import DESIGN, DESIGN_OUTPUT, REPORT, write_report
from optrr.cli.printing import TABLE_DECIMALS, give, is_json, print_json, print_shown, print_table, say, warn, watched
from optrr.core.design import (
    Asking,
    Design,
    Preserve,
    Specification,
    load_design,
    parse_attributes,
    read_specification,
    save_design,
)
from optrr.core.design import compare as compare_methods
from optrr.core.design import design as make_design
from optrr.core.display import SHOWN, Page, amount, bound_text, crossed, epsilon_text
from optrr.core.domain import PublicColumns
from optrr.core.errors import InvalidInput
from optrr.core.estimation import impossible
from optrr.core.protocols import (
    Algorithm,
    ClusterMatrix,
    choose_clusters,
    cluster_design,
    combinations_of,
    dependences_from_tables,
    pair_tables,
)
from optrr.core.provenance import Release, Spent
from optrr.core.records import RecordsAt, held_back, refuse_replacing
from optrr_solvers import METHODS, SolveOptions, Status
from optrr_solvers.allocation.any_mechanism import total_bound

SPEC = argument(required=False)
ATTRIBUTE = option("An attribute, instead of SPEC; repeatable.", "--attribute", metavar="NAME=SIZE:EPSILON")
PRESERVE = option("pairs: every pair stays at least as visible as under Kronecker.", default="marginals")
PEOPLE = option("How many people will answer.", type=click.IntRange(min=1))


def read_wanted(spec: Path | None, attributes: tuple[str, ...]) -> Specification:
    """The specification from SPEC or from --attribute, exactly one of them."""
    if (spec is None) == (not attributes):
        raise InvalidInput("give either SPEC (a .toml or .json file) or --attribute name=size:epsilon")
    return read_specification(spec) if spec is not None else parse_attributes(attributes)


def keep_specification(spec: Path | None, *written: Path | None) -> None:
    """Refuse to write over the specification. Raises InvalidInput."""
    for path in written:
        if spec is not None and path is not None:
            refuse_replacing(path, [spec], f"{path} is the specification itself; write to another file")


class MethodName(click.ParamType[str]):
    """``auto`` or a name in the solvers' table, which is read when the command runs."""

    name = "method"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """All names, for the help."""
        return f"[{'|'.join(['auto', *METHODS])}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name; refused where there is no such method."""
        return click.Choice(["auto", *METHODS]).convert(value, param, ctx)


def method_option(text: str) -> Any:
    """The option --method; ``text`` is its help."""
    return option(text, type=MethodName(), default="auto")


@command
def design(
    spec: Path | None = SPEC,
    attributes: tuple[str, ...] = ATTRIBUTE,
    output: Path | None = DESIGN_OUTPUT,
    total_epsilon: float | None = option(
        "Spend this total, in nats: the epsilons of SPEC are then proportions (all alike where it gives none)."
    ),
    method: str = method_option("Solver, the best one by default; por, inductive and kronecker are baselines."),
    preserve: Preserve = PRESERVE,
    conditional_cap: float | None = option("Largest conditional epsilon, in nats (up to 10 attributes)."),
    tolerance: float | None = option(
        "Largest accepted gap between the bounds, in nats; by default 1e-9 (ball: 1e-3), times the total if that is above 1."
    ),
    time_limit: float | None = option("Seconds after which methods auto and ball return the best bracket so far."),
    accuracy: Literal["flips", "variance"] = option(
        "What is to be as under randomized response at each epsilon: how rarely attributes are flipped, or how little their "
        "estimates vary, by one random question a person; no records are kept then.",
        default="flips",
    ),
    n: int | None = PEOPLE,
    public: tuple[str, ...] = PUBLIC,
    report: Path | None = REPORT,
) -> None:
    """Find the mechanism with the smallest total epsilon for the accuracies in SPEC (TOML or JSON).

    With --total-epsilon: the most accurate one of that total, with the accuracies in the proportions of SPEC.
    """
    wanted = read_wanted(spec, attributes)
    keep_specification(spec, output, report)
    beside = wanted.public.merged(PublicColumns.parsed(public))
    options = watched(tolerance=tolerance, time_limit=time_limit)
    if accuracy == "variance":
        unfit = ("total_epsilon", "method", "preserve", "conditional_cap", "report")
        refuse_options("is for --accuracy flips; leave it out", *unfit)
        flips = make_design(wanted.domain, wanted.required_epsilons(), options=options, public=beside)
        give_variance_design(flips, options, n, output)
        return
    refuse_options("is for --accuracy variance; leave it out", "n")
    made = make_design(
        wanted.domain,
        wanted.required_epsilons() if total_epsilon is None else wanted.proportions(),
        total=total_epsilon,
        method=method,
        preserve=preserve,
        conditional_cap=conditional_cap,
        options=options,
        public=beside,
    )
    with held_back():
        if output is not None:
            save_design(made, output)
        write_report(report, lambda: _page(made, output))
    warn(made.warnings)
    give(made.summary, lambda: show_design(made))


def _page(made: Design, output: Path | None) -> Page:
    from optrr.core.design import design_page  # noqa: PLC0415 (pages bring charts)

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


@command
def compare(
    spec: Path | None = SPEC,
    attributes: tuple[str, ...] = ATTRIBUTE,
    preserve: Preserve = PRESERVE,
    report: Path | None = REPORT,
) -> None:
    """Compare every applicable method on SPEC.

    Example: optrr compare spec.toml --preserve pairs
    """
    wanted = read_wanted(spec, attributes)
    made = compare_methods(wanted.domain, wanted.required_epsilons(), preserve=preserve)

    def page() -> Page:
        from optrr.core.design import comparison_page  # noqa: PLC0415 (pages bring charts)

        return comparison_page(made.designs, list(made.failed.items()))

    write_report(report, page)
    warn(made.warnings)
    give(made)


@command
def cluster(
    input: RecordsAt = INPUT,
    design_file: Path = DESIGN_FILE,
    max_combinations: int = option(
        "Most combinations of categories that a cluster may have.",
        required=True,
        type=click.IntRange(min=2),
        metavar="T_V",
    ),
    min_dependence: float = option(
        "Weakest dependence, 0 to 1, at which attributes are put into one cluster.",
        required=True,
        type=click.FloatRange(0, 1),
        metavar="T_D",
    ),
    algorithm: Algorithm = option("How attributes are clustered.", default="greedy"),
    clusters: int = option(
        "Number of groups, for the algorithms pic and spectral.", type=click.IntRange(min=1), default=3
    ),
    ordinal: str = option(
        "Attributes whose categories are in order; pairs of them are measured by correlation.",
        default="",
        show_default=False,
        metavar="A,B",
    ),
    attenuated: bool = option("Measure dependence in the randomized records, without undoing the noise (MDR §4.1)."),
    matrix: ClusterMatrix = option("How a cluster is randomized in the second round.", default="joint"),
    output: Path | None = option("Design file to write, for the second round.", "-o", type=DESIGN),
) -> None:
    """Cluster attributes by the dependences seen in randomized records.

    INPUT holds records randomized by the design (first round). The design written by -o randomizes each cluster jointly
    (second round) and spends the sum of the first design's attribute epsilons, Kronecker's total; with --matrix
    least-epsilon less. Whoever takes part in both rounds spends both totals.
    """
    if algorithm == "greedy":
        refuse_options("is for the algorithms pic and spectral; leave it out", "clusters")
    if output is not None:
        keep_input(output, input)
        keep_input(output, RecordsAt(design_file))
    first = load_design(design_file)
    reports = first.reports(input)
    doubts = reports.unweighted_doubts
    tables = pair_tables(reports.places[0], first.mechanism)
    learned = dependences_from_tables(
        tables,
        first.mechanism,
        ordinal=split_names(ordinal) if ordinal else (),
        correct=not attenuated,
        small_sample=not attenuated,
    )
    chosen = choose_clusters(first.domain, learned, max_combinations, min_dependence, algorithm, clusters)
    doubts += impossible(tables.values(), first.mechanism)
    # the releases that made the records; if these have no provenance, one without an id
    earlier = [r for each in reports.stated for r in each.releases] or [Release.of(first)]
    second = cluster_design(first, chosen, matrix, learned.account, earlier)
    if output is not None:
        save_design(second, output)
    both = learned.account.plus(Spent("release", second.epsilon))
    spent = {"learning": learned.account.epsilon, "release": second.epsilon, "total": both.epsilon}
    sizes = first.domain.sizes.tolist()
    combinations = [combinations_of(first.domain.indices(c), sizes) for c in chosen]
    oversized = [
        f"{c[0]!r} alone has {first.domain[c[0]].size} categories, more than {max_combinations}; merge some (coarsen)"
        for c, number in zip(chosen, combinations, strict=True)
        if number > max_combinations
    ]
    warn([*doubts, *oversized])
    if is_json():
        print_json(
            {
                "clusters": [list(c) for c in chosen],
                "combinations": combinations,
                "algorithm": algorithm,
                "method": second.method,
                "epsilon": spent,
                "attributes": list(first.domain.names),
                "dependence": learned.matrix.tolist(),
                "doubts": doubts,
            }
        )
        return
    rows = [(", ".join(c), number) for c, number in zip(chosen, combinations, strict=True)]
    print_table("clusters", ["attributes", "combinations"], rows)
    click.echo(
        f"total epsilon {epsilon_text(spent['total'])}: {epsilon_text(spent['learning'])} for learning, "
        f"{epsilon_text(spent['release'])} for the release"
    )


def give_variance_design(flips: Design, options: SolveOptions, n: int | None, output: Path | None) -> None:
    """Write and print what estimates each attribute as well as ``flips`` was asked to; ``n`` people give standard errors."""
    from optrr.allocation.variances import accuracies, variance_design  # noqa: PLC0415 (as above)
    from optrr.core import files  # noqa: PLC0415 (most designs ask no questions)

    asked, least = variance_design(flips, options)
    mixed = None if asked.budgets else cast(SampledTables, asked)
    made = carried(asked, flips.public)
    warn(made.warnings)
    if output is not None:
        files.save(made, output)
    rows = accuracies(asked, flips.requested_epsilons)
    if n is not None:
        for row in rows:
            row["standard_error"] = float(np.sqrt(row["error"] / (n * row["size"])))
    out: dict[str, Any] = {
        "accuracy": "variance",
        "method": "questions" if mixed else flips.method,
        "epsilon": made.epsilon,
        "flips_epsilon": flips.epsilon,
        "least_of_questions": least,
        "total_bound": total_bound(flips.domain.sizes, flips.requested_epsilons),
        "keeps_records": made.keeps_records,
        "n": n,
        "attributes": rows,
        "tables": _tables(mixed) if mixed else [],
        "questions": _questions(mixed) if mixed else [],
    }
    give(lambda: out, lambda: _show_variances(out))


def _tables(asked: SampledTables) -> list[list[str]]:
    """The groups of attributes whose common table can be estimated beside single attributes: those that are asked together."""
    return [list(t) for t in dict.fromkeys(asked.tables) if len(t) > 1 and np.isfinite(asked.table_error(t))]


def _questions(asked: SampledTables) -> list[dict[str, Any]]:
    rows = zip(asked.tables, asked.shares.tolist(), asked.subset_reports, strict=True)
    return [
        {"attributes": list(names), "share": share, "subset_sizes": list(r.subset_sizes), "likely": list(r.likely)}
        for names, share, r in rows
    ]


def _show_variances(out: dict[str, Any]) -> None:
    questions = out["questions"]
    say(
        f"total epsilon {epsilon_text(out['epsilon'])}   "
        + (
            f"each person answers one of {amount(len(questions), 'question')}"
            if questions
            else f"method {out['method']}"
        )
    )
    if questions:
        say(f"flipping as rarely as randomized response at each epsilon takes {epsilon_text(out['flips_epsilon'])}")
        say(
            f"no mixture of the questions that were looked at has a total below {bound_text(out['least_of_questions'])}"
        )
    say(
        "no mechanism, whatever people send, estimates every attribute with as little variance at a total below "
        f"{bound_text(out['total_bound'], TABLE_DECIMALS)}"
    )
    if questions:
        say(
            "no records are kept: only the shares of each attribute"
            + (", and tables of those asked together," if out["tables"] else "")
            + " can be estimated, now or later"
        )
    if questions:
        print_table(
            _of("questions", len(questions)),
            ["about", "share of people", "categories named of each"],
            [(crossed(q["attributes"]), q["share"], ", ".join(map(str, q["subset_sizes"]))) for q in questions[:SHOWN]],
        )
    n = out["n"]
    heads = [
        "attribute",
        "categories",
        "epsilon",
        "n × squared error",
        "of randomized response",
        "standard errors' ratio",
    ]
    print_table(
        _of("how well each attribute is estimated" + (f" from {n} people" if n else ""), len(out["attributes"])),
        heads + (["standard error"] if n else []),
        [tuple(row.values()) for row in out["attributes"][:SHOWN]],
    )


def _of(title: str, count: int) -> str:
    return f"{title} (first {SHOWN} of {count})" if count > SHOWN else title


def carried(asking: Asking, public: PublicColumns) -> Asking:
    """A way of asking with a specification's public columns, or a warning where it does not keep whole records."""
    if not asking.budgets:
        warn(left_out(public))
    return asking.beside(public)


def left_out(public: PublicColumns) -> list[str]:
    """One line where public columns are declared and whatever is made knows nothing of them."""
    if not public:
        return []
    return [
        f"the specification's public columns ({public.said()}) are left out: only designs of whole records pass them on"
    ]
