"""optrr cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from optrr.cli.inputs import design_option, input_argument, keep_input, split_names
from optrr.cli.printing import json_option, print_json, print_table, warn
from optrr.cli.refusals import refuse_options
from optrr.cli.targets import DESIGN
from optrr.designs.cluster.choose import Algorithm, NamedClusters, choose_clusters
from optrr.designs.cluster.greedy import combinations_of
from optrr.designs.dependence.from_records import dependences_from_tables, pair_tables
from optrr.designs.dependence.learned import Dependences
from optrr.designs.design import Design
from optrr.designs.design_file import save_design
from optrr.domain.domain import Domain
from optrr.records.reading.source import RecordsAt
from optrr.records.reports import Reports
from optrr.releases.account import Release
from optrr.releases.spent import Spent
from optrr.show.rounding import epsilon_text
from optrr.tables.estimation.impossible import impossible
from optrr.ways.protocols.cluster_design import cluster_design
from optrr.ways.protocols.cluster_laws import ClusterMatrix


@click.command()
@input_argument
@design_option
@click.option(
    "--max-combinations",
    required=True,
    type=click.IntRange(min=2),
    metavar="T_V",
    help="Most combinations of categories that a cluster may have.",
)
@click.option(
    "--min-dependence",
    required=True,
    type=click.FloatRange(0, 1),
    metavar="T_D",
    help="Weakest dependence, 0 to 1, at which attributes are put into one cluster.",
)
@click.option(
    "--algorithm",
    type=click.Choice(get_args(Algorithm)),
    default="greedy",
    show_default=True,
    help="How attributes are clustered.",
)
@click.option(
    "--clusters",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Number of groups, for the algorithms pic and spectral.",
)
@click.option(
    "--ordinal",
    default="",
    metavar="A,B",
    help="Attributes whose categories are in order; pairs of them are measured by correlation.",
)
@click.option(
    "--attenuated",
    is_flag=True,
    help="Measure dependence in the randomized records, without undoing the noise (MDR §4.1).",
)
@click.option(
    "--matrix",
    type=click.Choice(get_args(ClusterMatrix)),
    default="joint",
    show_default=True,
    help="How a cluster is randomized in the second round.",
)
@click.option("-o", "--output", type=DESIGN, help="Design file to write, for the second round.")
@json_option
def cluster(
    input: RecordsAt,
    design_file: Path,
    max_combinations: int,
    min_dependence: float,
    algorithm: Algorithm,
    clusters: int,
    ordinal: str,
    attenuated: bool,
    matrix: ClusterMatrix,
    output: Path | None,
    as_json: bool,
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
    first = Design.load(design_file)
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
    second = cluster_design(first, chosen, matrix, learned.account, _first_round(reports, first))
    if output is not None:
        save_design(second, output)
    spent = _spent(learned, second)
    warn([*doubts, *_oversized(first.domain, chosen, max_combinations)])
    if as_json:
        print_json(_summary(first.domain, chosen, learned, spent, algorithm, second.method) | {"doubts": doubts})
    else:
        _show(first.domain, chosen, spent)


def _spent(learned: Dependences, second: Design) -> dict[str, float]:
    """ε in nats of either round, and of both together."""
    both = learned.account.plus(Spent("release", second.epsilon))
    return {"learning": learned.account.epsilon, "release": second.epsilon, "total": both.epsilon}


def _show(domain: Domain, clusters: NamedClusters, spent: dict[str, float]) -> None:
    sizes = domain.sizes.tolist()
    print_table(
        "clusters",
        ["attributes", "combinations"],
        [(", ".join(c), combinations_of(domain.indices(c), sizes)) for c in clusters],
    )
    click.echo(
        f"total epsilon {epsilon_text(spent['total'])}: {epsilon_text(spent['learning'])} for learning, "
        f"{epsilon_text(spent['release'])} for the release"
    )


def _first_round(reports: Reports, first: Design) -> list[Release]:
    """The releases that made the records; where the records do not say, one release without an id."""
    return [r for each in reports.stated for r in each.releases] or [Release(first.digest, first.epsilon)]


def _summary(
    domain: Domain,
    clusters: NamedClusters,
    learned: Dependences,
    spent: dict[str, float],
    algorithm: str,
    method: str,
) -> dict[str, Any]:
    sizes = domain.sizes.tolist()
    return {
        "clusters": [list(c) for c in clusters],
        "combinations": [combinations_of(domain.indices(c), sizes) for c in clusters],
        "algorithm": algorithm,
        "method": method,
        "epsilon": spent,
        "attributes": list(domain.names),
        "dependence": learned.matrix.tolist(),
    }


def _oversized(domain: Domain, clusters: NamedClusters, max_combinations: int) -> list[str]:
    sizes = domain.sizes.tolist()
    large = [c for c in clusters if combinations_of(domain.indices(c), sizes) > max_combinations]
    return [
        f"{c[0]!r} alone has {domain[c[0]].size} categories, more than {max_combinations}; merge some (coarsen)"
        for c in large
    ]
