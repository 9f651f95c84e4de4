"""Advice: which way of asking gives the smallest error for *this* workload at this total ε, and what each gives up.

Compared at one total ε, all by predicted error (an upper bound over populations, exact for the uniform one):

    optimum          the most accurate law of change sets (:mod:`optrr.allocating.allocate`)
    Kronecker        every attribute on its own, the total split evenly, and split as well as it can be
    clusters         randomized response on the product of each cluster (MDR §4), best split
    whole record     one randomized response on the product of everything
    sampling         each person answers one table only, drawn at random, with the whole ε, by the local report that is
                     most accurate for it (:mod:`optrr.protocols.oracles`); where one table is wanted, everybody answers it

Sampling gives up records: nobody's answers can be linked, so only the tables asked for can ever be estimated. For one-way
tables at small ε it beats every mechanism that keeps full records, and the advice says so (design §3.7). With a share p of the
people, n E‖π̂ − π‖² is at most V/p, V the report's error. Whatever wins can be carried out: :attr:`Advice.recommended` is a
design, or :class:`optrr.protocols.sampled_tables.SampledTables`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa

from optrr.allocating.allocate import Allocation, allocate
from optrr.allocating.workload import Workload, WorkloadLike, workload_of
from optrr.designing.design import Design
from optrr.errors import InvalidInput
from optrr.protocols.oracles import best_report, report_error
from optrr.protocols.sampled_tables import SampledTables
from optrr.records.domain import Domain
from optrr.results import TableResult
from optrr_solvers import SolveFailed
from optrr_solvers.allocating.split import Split, best_split, cluster_blocks, even_split, single_blocks
from optrr_solvers.allocating.workload import TableWorkload
from optrr_solvers.arrays import FloatArray

# Two options within this of each other, relative, are called equal.
_EQUAL = 0.01
# Within this factor a skewed population may turn the order of sampling and the rest (Adult: 44 against the bound's 65).
_NEAR = 1.7


@dataclass(frozen=True)
class Option:
    """One way of asking, what it promises and what it gives up.

    ``error`` is the workload's, ``inf`` where the option cannot estimate some table; ``conditional_epsilon`` the largest over
    attributes; ``pair_visibility`` the λ_ij/(λ_i λ_j) nearest to 0 (None where pairs cannot be had or are too many).
    """

    name: str
    title: str
    error: float
    keeps_records: bool
    conditional_epsilon: float
    pair_visibility: float | None
    gives_up: tuple[str, ...]

    @property
    def family(self) -> str:
        """The way of asking, whatever its budget split."""
        return self.name.removesuffix("-even")

    def summary(self) -> dict[str, Any]:
        """As plain values; an impossible error is null."""
        return {
            "name": self.name,
            "title": self.title,
            "error": self.error if np.isfinite(self.error) else None,
            "keeps_records": self.keeps_records,
            "conditional_epsilon": self.conditional_epsilon,
            "pair_visibility": self.pair_visibility,
            "gives_up": list(self.gives_up),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Advice(TableResult):
    """Options by increasing error, with the allocation behind the optimum."""

    domain: Domain
    workload: Workload
    total_epsilon: float
    n: int | None
    options: tuple[Option, ...]
    allocation: Allocation

    @cached_property
    def best(self) -> Option:
        """Smallest error of all."""
        return self.options[0]

    @cached_property
    def best_with_records(self) -> Option:
        """Smallest error among those that keep full records."""
        return next(o for o in self.options if o.keeps_records)

    @cached_property
    def recommended(self) -> Design | SampledTables:
        """The best option as what can be saved, randomized with and estimated from."""
        if self.best.keeps_records:
            return self.allocation.design
        return sampled_tables(self.domain, self.workload, self.total_epsilon, even=self.best.name == "sampling-even")

    def ratio(self, option: Option) -> float:
        """Its error relative to the smallest."""
        return option.error / self.best.error

    def typical_standard_error(self, option: Option) -> float | None:
        """Root mean square over all cells of all tables, by weight; None without n."""
        if self.n is None:
            return None
        cells = sum(t.weight * t.cells(self.domain) for t in self.workload.tables)
        return sqrt(option.error / (self.n * cells)) if np.isfinite(option.error) else None

    def sentences(self) -> tuple[str, ...]:
        """The advice in words: who wins, by how much, and what that gives up."""
        # an even and a best variant of one way are one way
        runner = next(o for o in self.options if o.family != self.best.family)
        if not np.isfinite(runner.error):
            lead = f"{self.best.title} is the only one that can estimate every table."
        elif self.ratio(runner) < 1 + _EQUAL:
            lead = (
                f"{self.best.title} and {runner.title[0].lower()}{runner.title[1:]} are equally accurate (within 1 %)."
            )
        else:
            second = runner.title[0].lower() + runner.title[1:]
            lead = (
                f"{self.best.title} wins: next best is {second}, with {_times(self.ratio(runner))} its squared error."
            )
        out = [lead + " It gives up: " + ("; ".join(self.best.gives_up) or "nothing") + "."]
        if not self.best.keeps_records:
            record = self.best_with_records
            out.append(
                f"If full records are needed, {record.title[0].lower()}{record.title[1:]} is best, with "
                f"{_times(self.ratio(record))} the squared error of the winner."
            )
        near = [o for o in self.options if o.error <= _NEAR * self.best.error]
        if len({o.keeps_records for o in near}) > 1:
            out.append(
                "These are bounds over all populations, and for skewed tables sampling's is the looser one: so near the "
                "crossing sampling may be ahead of what is shown here."
            )
        kronecker = next((o for o in self.options if o.name == "kronecker"), None)
        optimum = next(o for o in self.options if o.name == "optimum")
        if kronecker is not None:
            out.append(
                f"Kronecker's best split has {_times(kronecker.error / optimum.error)} the optimum's squared error, at "
                f"conditional epsilon {kronecker.conditional_epsilon:.3g} instead of {optimum.conditional_epsilon:.3g}."
            )
        return tuple(out)

    def headline(self) -> str:
        """Who wins, and by how much."""
        return self.sentences()[0]

    def to_arrow(self) -> pa.Table:
        """One row per way of asking: its name, errors, what it keeps, conditional epsilon and faintest pair."""
        rows = [{k: v for k, v in row.items() if k != "gives_up"} for row in self.summary()["options"]]
        return pa.Table.from_pylist(rows)

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object."""
        rows = []
        for o in self.options:
            extra = {"relative_error": self.ratio(o) if np.isfinite(o.error) else None}
            rows.append(o.summary() | extra | {"standard_error": self.typical_standard_error(o)})
        return {
            "total_epsilon": self.total_epsilon,
            "workload": self.workload.name,
            "n": self.n,
            "best": self.best.name,
            "best_with_records": self.best_with_records.name,
            "advice": list(self.sentences()),
            "options": rows,
        }


def _times(ratio: float) -> str:
    return f"{ratio:.3g} times"


def advise(
    domain: Domain | Mapping[str, int | Iterable[Any]],
    total_epsilon: float,
    *,
    workload: WorkloadLike = "marginals",
    n: int | None = None,
    clusters: Sequence[Sequence[str]] | None = None,
) -> Advice:
    """Compare the ways of asking for ``workload`` at one total ε in nats.

    Parameters
    ----------
    domain
        a Domain, or a mapping of names to categories or sizes.
    total_epsilon, workload, n
        as for :func:`optrr.allocate`; required standard errors play no part here.
    clusters
        lists of attribute names to randomize together; attributes in none stand alone.

    Raises
    ------
    InvalidInput, InvalidProblem, MethodTooLarge
        one line each: what is wrong and the remedy.
    """
    declared = domain if isinstance(domain, Domain) else Domain.of(domain)
    wanted = _without_requirements(workload_of(workload, declared))
    allocation = allocate(declared, total_epsilon, workload=wanted, n=n)
    arrays = wanted.arrays(declared)
    total = float(total_epsilon)
    options = [_optimum(allocation), *_kronecker(arrays, total)]
    if declared.m > 1:
        options.append(_whole(declared, wanted, total))
    options += sampling(declared, wanted, total)
    if clusters:
        options.append(_clustered(declared, wanted, total, clusters))
    # what differs by rounding only keeps this order, the optimum first
    ordered = sorted(options, key=lambda o: float(f"{o.error:.9g}"))
    return Advice(declared, wanted, total, n, tuple(ordered), allocation)


def _without_requirements(wanted: Workload) -> Workload:
    return Workload(wanted.name, tuple(replace(t, standard_error=None) for t in wanted.tables))


def _optimum(allocation: Allocation) -> Option:
    design = allocation.design
    conditional = float(design.conditional_epsilons.max())
    faint = design.faintest_pair
    gives_up = [f"conditional privacy (conditional epsilon up to {conditional:.3g})"]
    if faint is not None and abs(faint[0]) < 1:
        which = "pairs" if allocation.workload.name == "pairs" else "pairs outside the workload"
        gives_up.append(
            f"some visibility of {which} (down to {abs(faint[0]):.3g} of Kronecker's: {faint[1]} × {faint[2]})"
        )
    return Option(
        "optimum",
        "The optimum over full records",
        allocation.error,
        True,
        conditional,
        None if faint is None else faint[0],
        tuple(gives_up),
    )


def _kronecker(arrays: TableWorkload, total: float) -> list[Option]:
    blocks = single_blocks(arrays)
    gives_up = ("accuracy only: pairs, records and conditional privacy are all kept",)
    out = []
    for name, title, split in (
        ("kronecker-even", "Every attribute on its own (even split)", even_split(arrays, blocks, total)),
        ("kronecker", "Every attribute on its own (best split)", _best(arrays, total)),
    ):
        if split is not None:
            out.append(Option(name, title, split.error, True, float(split.epsilons.max()), 1.0, gives_up))
    return out


def _best(arrays: TableWorkload, total: float) -> Split | None:
    try:
        return best_split(arrays, single_blocks(arrays), total)
    except SolveFailed:
        return None


def _single(domain: Domain, wanted: Workload) -> TableWorkload:
    """The workload with every attribute a class of its own, as clusters need it."""
    return wanted.arrays(domain, [np.arange(domain.m, dtype=np.float64)])


def _whole(domain: Domain, wanted: Workload, total: float) -> Option:
    arrays = _single(domain, wanted)
    split = even_split(arrays, cluster_blocks(arrays, [range(domain.m)]), total)
    visible = 1 / float(split.eigenvalues[0]) if domain.m > 1 else None
    return Option(
        "whole-record",
        "One randomized response on the whole record",
        split.error,
        True,
        total,
        visible,
        (
            f"conditional privacy (conditional epsilon {total:.3g})",
            "one-way accuracy, for equal visibility of all effects",
        ),
    )


def _clustered(domain: Domain, wanted: Workload, total: float, clusters: Sequence[Sequence[str]]) -> Option:
    groups = partition(domain, clusters)
    arrays = _single(domain, wanted)
    split = best_split(arrays, cluster_blocks(arrays, groups), total)
    shown = ", ".join("{" + ", ".join(domain.names[i] for i in g) + "}" for g in groups if len(g) > 1)
    return Option(
        "clusters",
        f"Clusters {shown} (best split)",
        split.error,
        True,
        float(split.epsilons.max()),
        1.0,
        ("conditional privacy inside a cluster", "pairs across clusters are as under Kronecker"),
    )


def partition(domain: Domain, clusters: Sequence[Sequence[str]]) -> list[tuple[int, ...]]:
    """Clusters as index tuples, attributes in none of them alone. Raises InvalidInput for one named twice."""
    groups = [domain.indices(c) for c in clusters]
    named = [i for g in groups for i in g]
    twice = next((i for k, i in enumerate(named) if i in named[:k]), None)
    if twice is not None:
        raise InvalidInput(f"attribute {domain.names[twice]!r} is in two clusters; put it in one")
    return [*groups, *((i,) for i in range(domain.m) if i not in set(named))]


def sampling(domain: Domain, wanted: Workload, total: float) -> list[Option]:
    """Each person answers one random table: drawn evenly, and with the best probabilities √(weight V)."""
    each = _report_errors(domain, wanted, total)
    weights = np.asarray([t.weight for t in wanted.tables])
    what = "attribute" if all(len(t.attributes) == 1 for t in wanted.tables) else "table"
    gives_up = (
        f"full records: each person answers one {what}, and no other table can be estimated, now or later",
        f"conditional privacy (epsilon {total:.3g} on the {what} asked)",
    )
    even = float(len(each) * (weights @ each))
    best = float(np.sum(np.sqrt(weights * each)) ** 2)
    if len(each) == 1:
        title = f"One report on {wanted.tables[0].title} from everyone"
        return [Option("sampling", title, best, False, total, None, gives_up)]
    return [
        Option("sampling-even", f"One random {what} per person (drawn evenly)", even, False, total, None, gives_up),
        Option("sampling", f"One random {what} per person (best probabilities)", best, False, total, None, gives_up),
    ]


def sampled_tables(domain: Domain, wanted: Workload, total: float, even: bool = False) -> SampledTables:
    """The way of asking behind the option "sampling": its tables drawn with the best probabilities, or evenly."""
    weights = np.asarray([t.weight for t in wanted.tables])
    shares = np.ones(weights.size) if even else np.sqrt(weights * _report_errors(domain, wanted, total))
    return SampledTables(domain, tuple(t.attributes for t in wanted.tables), shares / shares.sum(), total)


def _report_errors(domain: Domain, wanted: Workload, total: float) -> FloatArray:
    """V of each table answered by everyone with its best report, shape (tables,)."""
    cells = [t.cells(domain) for t in wanted.tables]
    return np.asarray([report_error(best_report(c, total), c, total) for c in cells])
