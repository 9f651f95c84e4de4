"""The ways of asking that advice compares, each with its predicted error and as something that can be carried out.

Errors are the workload's Σ weight G_U; what each way gives up stands beside it in words. How many attributes there are does not
matter: alike ones are counted once, and the way of asking itself is built only when somebody wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from optrr.budgets.workload import Workload
from optrr.designs.asking import Asking
from optrr.designs.baseline import baseline_design
from optrr.designs.design import Design
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.show.result import in_json
from optrr.ways.protocols.sampled_tables import SampledTables
from optrr_solvers import SolveFailed
from optrr_solvers.allocating.mixture import MOST_EFFECTS, MixedQuestions, best_shares, mixture, shared_error
from optrr_solvers.allocating.questions import MAX_CELLS, Question, whole_table
from optrr_solvers.allocating.split import Split, best_split, cluster_blocks, even_split, single_blocks
from optrr_solvers.arrays import FloatArray
from optrr_solvers.laws import BlockLaw, ProductLaw
from optrr_solvers.laws.joint import joint_law
from optrr_solvers.problem import EPSILON_RANGE

# A mixture of questions is worth its questions where it saves this share of the error.
_GAINED = 1e-3
# The smallest share of a table that is asked.
_LEAST_SHARE = 1e-6


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


def every_way(  # noqa: PLR0913 (what is asked for, and what was chosen with records)
    domain: Domain,
    wanted: Workload,
    total: float,
    design: Design,
    error: float,
    clusters: Sequence[Sequence[str]] | None = None,
    progress: Callable[[float], None] | None = None,
) -> tuple[Option, ...]:
    """All of them by increasing error; ``design`` is the most accurate law of change sets, and ``error`` what it has."""
    ways = [optimum(design, wanted, error), *kronecker(domain, wanted, total)]
    if domain.m > 1:
        ways.append(whole_record(domain, wanted, total))
    ways += sampling(domain, wanted, total, progress)
    if clusters:
        ways.append(clustered(domain, wanted, total, clusters))
    # options that differ by rounding only keep this order, in which the optimum is first
    return tuple(sorted(ways, key=lambda o: float(f"{o.error:.9g}")))


def optimum(design: Design, wanted: Workload, error: float) -> Option:
    """The most accurate law of change sets."""
    conditional = float(design.conditional_epsilons.max())
    faint = design.faintest_pair
    gives_up = [f"conditional privacy (conditional epsilon up to {conditional:.3g})"]
    if faint is not None and abs(faint[0]) < 1:
        which = "pairs" if wanted.name == "pairs" else "pairs outside the workload"
        gives_up.append(
            f"some visibility of {which} (down to {abs(faint[0]):.3g} of Kronecker's: {faint[1]} × {faint[2]})"
        )
    return Option(
        "optimum",
        "The optimum over full records",
        error,
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


def sampling(
    domain: Domain, wanted: Workload, total: float, progress: Callable[[float], None] | None = None
) -> list[Option]:
    """Each person answers one question drawn at random: a table, drawn evenly or as well as can be, or one of a mixture.

    The mixture is :func:`optrr_solvers.allocating.mixture.mixture`'s. Empty where one report cannot be on so many
    cells, or of so many nats.
    """
    if max(t.cells(domain) for t in wanted.tables) > MAX_CELLS or not EPSILON_RANGE[0] <= total <= EPSILON_RANGE[1]:
        return []
    what = "attribute" if all(len(t.attributes) == 1 for t in wanted.tables) else "table"
    conditional = f"conditional privacy (epsilon {total:.3g} on the {what} asked)"
    only = f"full records: each person answers one {what}, and no other table can be estimated, now or later"

    def option(name: str, title: str, error: float, build: Callable[[], Asking], gives_up: str = only) -> Option:
        return Option(name, title, error, False, total, None, (gives_up, conditional), build)

    arrays, best = wanted.arrays(domain), _best_shares(domain, wanted, total)

    def tables(even: bool) -> Callable[[], Asking]:
        return lambda: sampled_tables(domain, wanted, total, even=even)

    if len(wanted.tables) == 1:
        return [option("sampling", f"One report on {wanted.tables[0].title} from everyone", best.error, tables(False))]
    error = shared_error(arrays, best.questions, _numbers(domain, wanted) / len(wanted.tables), total)
    out = [
        option("sampling-even", f"One random {what} per person (drawn evenly)", error, tables(True)),
        option("sampling", f"One random {what} per person (best probabilities)", best.error, tables(False)),
    ]
    single = wanted.arrays(domain, [np.arange(domain.m, dtype=np.float64)]) if domain.m <= MOST_EFFECTS else None
    if single is not None and len(single.effects) <= MOST_EFFECTS:
        mixed = mixture(single, total, progress)
        # where nothing is gained, tables are simpler
        if mixed.error < best.error * (1 - _GAINED):
            gives_up = "full records: each person answers one question, and only the workload's tables can be estimated"
            title = "One random question per person (the most accurate)"
            out.append(option("mixture", title, mixed.error, lambda: _asked(domain, mixed, total), gives_up))
    return out


def _asked(domain: Domain, mixed: MixedQuestions, total: float) -> SampledTables:
    """A mixture's questions, as what people are asked."""
    names = tuple(tuple(domain.names[i] for i in q.attributes) for q in mixed.questions)
    return SampledTables(domain, names, mixed.shares, total, tuple(q.report for q in mixed.questions))


def _best_shares(domain: Domain, wanted: Workload, total: float) -> MixedQuestions:
    """How often each kind of table is best asked, each answered in the most accurate way."""
    arrays = wanted.arrays(domain)
    return best_shares(
        arrays, [Question(t, whole_table(domain.sizes[list(t)].tolist(), total)) for t in arrays.tables], total
    )


def _numbers(domain: Domain, wanted: Workload) -> FloatArray:
    """How many tables there are of each kind."""
    arrays = wanted.arrays(domain)
    return arrays.weights if wanted.name in ("marginals", "pairs") else np.ones(len(arrays.tables))


def sampled_tables(domain: Domain, wanted: Workload, total: float, even: bool = False) -> SampledTables:
    """The workload's tables, one asked of each person: drawn with the best probabilities, or evenly.

    Each is reported in the most accurate way.
    """
    arrays = wanted.arrays(domain)
    if even:
        shares = np.ones(len(wanted.tables))
    else:
        each = _best_shares(domain, wanted, total).shares / _numbers(domain, wanted)
        place = {arrays.key(t): k for k, t in enumerate(arrays.tables)}
        # a table that others tell enough about keeps a share that can be drawn
        shares = np.maximum(
            [each[place[arrays.key(domain.indices(t.attributes))]] for t in wanted.tables], _LEAST_SHARE
        )
    return SampledTables(domain, tuple(t.attributes for t in wanted.tables), shares / shares.sum(), total)
