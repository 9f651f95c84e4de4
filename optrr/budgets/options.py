"""The ways of asking that advice compares, each with its predicted error and as something that can be carried out.

Errors are the workload's Σ weight G_U; what each way gives up stands beside it in words. How many attributes there are does not
matter: alike ones are counted once, and the way of asking itself is built only when somebody wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from optrr.budgets.result import Allocation
from optrr.budgets.workload import Workload
from optrr.designs.asking import Asking
from optrr.designs.baseline import baseline_design
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.show.result import in_json
from optrr.ways.protocols.sampled_tables import MAX_CELLS, SampledTables
from optrr.ways.protocols.supports import best_report, report_error
from optrr_solvers import SolveFailed
from optrr_solvers.allocating.split import Split, best_split, cluster_blocks, even_split, single_blocks
from optrr_solvers.arrays import FloatArray
from optrr_solvers.laws import BlockLaw, ProductLaw
from optrr_solvers.laws.joint import joint_law


@dataclass(frozen=True)
class Option:
    """One way of asking beside others: what it promises for the workload and what it gives up.

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
    build: Callable[[], Asking] = field(repr=False, compare=False)

    @cached_property
    def asking(self) -> Asking:
        """What can be saved, asked and estimated from."""
        return self.build()

    @property
    def family(self) -> str:
        """The way of asking, whatever its budget split."""
        return self.name.removesuffix("-even")

    def summary(self) -> dict[str, Any]:
        """As plain values; an impossible error is null."""
        return {
            "name": self.name,
            "title": self.title,
            "error": in_json(self.error),
            "keeps_records": self.keeps_records,
            "conditional_epsilon": self.conditional_epsilon,
            "pair_visibility": self.pair_visibility,
            "gives_up": list(self.gives_up),
        }


def optimum(allocation: Allocation) -> Option:
    """The most accurate law of change sets."""
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
        lambda: design,
    )


def kronecker(domain: Domain, wanted: Workload, total: float) -> list[Option]:
    """Every attribute on its own: the total split evenly, and as well as it can be where that is found."""
    arrays = wanted.arrays(domain)
    blocks = single_blocks(arrays)

    def option(name: str, title: str, split: Split) -> Option:
        return Option(
            name,
            title,
            split.error,
            True,
            float(split.epsilons.max()),
            1.0,
            ("accuracy only: pairs, records and conditional privacy are all kept",),
            lambda: baseline_design(domain, ProductLaw(domain.sizes, _within(split, total)), name),
        )

    even = even_split(arrays, blocks, total)
    out = [option("kronecker-even", "Every attribute on its own (even split)", even)]
    # where the best split is not found, the even split is still compared
    with suppress(SolveFailed):
        best = best_split(arrays, blocks, total)
        out.append(option("kronecker", "Every attribute on its own (best split)", best))
    return out


def _within(split: Split, total: float) -> FloatArray:
    """The split's ε with their sum at most ``total``: rounding may have left it above."""
    return np.asarray(split.epsilons * min(1.0, total / float(split.epsilons.sum()) * (1 - 2.0**-50)))


def whole_record(domain: Domain, wanted: Workload, total: float) -> Option:
    """One randomized response on the product of all attributes."""
    # every attribute is a class of its own, as clusters need it
    arrays = wanted.arrays(domain, [np.arange(domain.m, dtype=np.float64)])
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
        lambda: baseline_design(domain, joint_law(domain.sizes, total), "whole-record"),
    )


def clustered(domain: Domain, wanted: Workload, total: float, clusters: Sequence[Sequence[str]]) -> Option:
    """One randomized response on the product of each cluster (MDR §4), the total split as well as it can be."""
    groups = partition(domain, clusters)
    # every attribute is a class of its own, as clusters need it
    arrays = wanted.arrays(domain, [np.arange(domain.m, dtype=np.float64)])
    split = best_split(arrays, cluster_blocks(arrays, groups), total)
    shown = ", ".join("{" + ", ".join(domain.names[i] for i in g) + "}" for g in groups if len(g) > 1)

    def build() -> Asking:
        each = zip(groups, _within(split, total).tolist(), strict=True)
        law = BlockLaw([(list(g), joint_law(domain.sizes[list(g)], epsilon)) for g, epsilon in each])
        return baseline_design(domain, law, "clusters")

    return Option(
        "clusters",
        f"Clusters {shown} (best split)",
        split.error,
        True,
        float(split.epsilons.max()),
        1.0,
        ("conditional privacy inside a cluster", "pairs across clusters are as under Kronecker"),
        build,
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
    """Each person answers one random table: drawn evenly, and with the best probabilities √(weight V).

    Empty where a table has more cells than can be reported.
    """
    if max(t.cells(domain) for t in wanted.tables) > MAX_CELLS:
        return []
    each = report_errors(domain, wanted, total)
    weights = np.asarray([t.weight for t in wanted.tables])
    what = "attribute" if all(len(t.attributes) == 1 for t in wanted.tables) else "table"
    gives_up = (
        f"full records: each person answers one {what}, and no other table can be estimated, now or later",
        f"conditional privacy (epsilon {total:.3g} on the {what} asked)",
    )
    best = float(np.sum(np.sqrt(weights * each)) ** 2)

    def option(name: str, title: str, error: float) -> Option:
        even = name.endswith("-even")
        return Option(
            name, title, error, False, total, None, gives_up, lambda: sampled_tables(domain, wanted, total, even=even)
        )

    if len(each) == 1:
        return [option("sampling", f"One report on {wanted.tables[0].title} from everyone", best)]
    return [
        option("sampling-even", f"One random {what} per person (drawn evenly)", float(len(each) * (weights @ each))),
        option("sampling", f"One random {what} per person (best probabilities)", best),
    ]


def sampled_tables(domain: Domain, wanted: Workload, total: float, even: bool = False) -> SampledTables:
    """The workload's tables, one asked of each person: drawn with the best probabilities √(weight V), or evenly.

    Each is reported in the most accurate way.
    """
    weights = np.asarray([t.weight for t in wanted.tables])
    shares = np.ones(weights.size) if even else np.sqrt(weights * report_errors(domain, wanted, total))
    return SampledTables(domain, tuple(t.attributes for t in wanted.tables), shares / shares.sum(), total)


def report_errors(domain: Domain, wanted: Workload, total: float) -> FloatArray:
    """V of each table answered by everyone with its best report, shape (tables,)."""
    cells = [t.cells(domain) for t in wanted.tables]
    return np.asarray([report_error(best_report(c, total), c, total) for c in cells])


def sampled_if_better(allocation: Allocation, total: float) -> Allocation:
    """The allocation with one random table each in place of its design, where that is more accurate and meets all required."""
    domain, wanted = allocation.design.domain, allocation.workload
    best = next((o for o in sampling(domain, wanted, total) if o.name == "sampling"), None)
    if best is None or not best.error < allocation.error:
        return allocation
    asking = sampled_tables(domain, wanted, total)
    predictions = tuple(replace(p, error=asking.table_error(p.attributes)) for p in allocation.predictions)
    if any(p.required is not None and not (p.standard_error or np.inf) <= p.required for p in predictions):
        return allocation
    return replace(
        allocation, sampled=asking, method="sampling", error=best.error, lower_error=None, predictions=predictions
    )
