"""The protocols that an allocation compares, each with its predicted error and a way to build it.

    optimum          the most accurate noise distribution (:mod:`optrr.allocation.allocating`)
    kronecker        independent randomized response per attribute, with the best split of the total
    whole-record     one randomized response on the product of all attributes
    sampling         each respondent answers one random table, with the whole ε, by the subset of its cells that is most
                     accurate for it
    mixture          each respondent answers one random query, of those that are most accurate together
                     (:mod:`optrr_solvers.allocation.mixture`, :mod:`optrr_solvers.allocation.required`)
    mixture-with-records
                     the same with some queries about all attributes, so that any table can be estimated later

Sampling and the mixture keep no whole records: answers cannot be linked, so only tables can be estimated, each from all
answers that contain information about it. These are all tables if the queries together observe every effect, otherwise
the workload's. Errors are the workload's Σ weight G_U, upper bounds over populations and exact for the uniform one. The
number of attributes hardly matters: alike ones are counted once, and a protocol is built only when it is used, or if a
query is about all attributes.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from optrr.allocation.sampled_tables import SampledTables
from optrr.allocation.workload import Workload
from optrr.core.design import Asking, Design, baseline_design
from optrr.core.display import named_in_json
from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput
from optrr_solvers import SolveFailed
from optrr_solvers.allocation.mixture import MOST_EFFECTS, MOST_WHOLE, MixedQuestions, best_shares, mixture
from optrr_solvers.allocation.problem import AllocationProblem
from optrr_solvers.allocation.program import kronecker_epsilons
from optrr_solvers.allocation.questions import CELL_BITS, MAX_CELLS, Question, whole_table
from optrr_solvers.allocation.required import required_questions
from optrr_solvers.allocation.split import Split, best_split, cluster_blocks, even_split, single_blocks
from optrr_solvers.allocation.workload import TableWorkload, eigenvalues_of
from optrr_solvers.arrays import FloatArray
from optrr_solvers.laws import ProductLaw
from optrr_solvers.laws.few_changes import joint_law
from optrr_solvers.problem import EPSILON_RANGE

# Minimum relative reduction of the error that justifies a mixture of queries.
_GAINED = 1e-3
# Minimum share of a sampled table.
_LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class Strategy:
    """One protocol in a comparison at total ``epsilon``.

    Its errors for the workload and its limitations.

    ``error`` is the workload's, ``inf`` where the protocol cannot estimate some table; ``conditional_epsilon`` the largest over
    attributes; ``pair_visibility`` the λ_ij/(λ_i λ_j) nearest to 0 (None where pairs cannot be had or are too many); ``suits``
    says whether it has all that was asked for beside a small error.
    """

    name: str
    title: str
    epsilon: float
    error: float
    keeps_records: bool
    conditional_epsilon: float
    pair_visibility: float | None
    gives_up: tuple[str, ...]
    build: Callable[[], Asking] = field(repr=False, compare=False)
    suits: bool = True

    @cached_property
    def asking(self) -> Asking:
        """Protocol to save, randomize and estimate with."""
        return self.build()

    @property
    def asks_one(self) -> bool:
        """Whether each person answers one question, drawn at random."""
        return self.name.startswith(("sampling", "mixture"))

    @property
    def words(self) -> str:
        """Its name, as in the table, and its title within a sentence."""
        return f"{self.name} ({self.title[0].lower()}{self.title[1:]})"

    def without(self, missing: str) -> "Strategy":
        """Return the protocol marked as lacking a requirement."""
        return replace(self, gives_up=(*self.gives_up, missing), suits=False)

    def summary(self) -> dict[str, Any]:
        """Return plain values; an impossible error is null."""
        return named_in_json(self, [f.name for f in fields(self) if f.name != "build"])


def comparable(number: float) -> float:
    """Round to nine digits.

    Protocols that differ by rounding only then compare as equal and keep their order.
    """
    return float(f"{number:.9g}")


def sufficient_ways(
    domain: Domain,
    wanted: Workload,
    problem: AllocationProblem,
    n: int | None,
    progress: Callable[[float], None] | None = None,
) -> list[Strategy]:
    """List protocols that reach the standard errors with n people.

    Each at the least total found for it.

    Questions are looked for up to the problem's total.
    """
    ways, arrays = [], problem.workload
    with suppress(SolveFailed):
        epsilons = kronecker_epsilons(problem)
        error = arrays.error(arrays.products(eigenvalues_of(domain.sizes, epsilons)))
        ways.append(_on_its_own(domain, "Independent randomized response per attribute", epsilons, error))
    single = _single(domain, wanted)
    if single is None or not _reportable(domain, wanted, problem.total):
        return ways
    targets = wanted.limits(domain, single, n)
    tables = required_questions(single, targets, problem.total, None, tables_only=True)
    most = problem.total if tables is None else tables[1] * (1 - _GAINED)
    questions = None if len(wanted.tables) == 1 else required_questions(single, targets, most, progress)
    return [
        *ways,
        *([] if tables is None else [_questions(domain, wanted, *tables, "sampling")]),
        *([] if questions is None else [_questions(domain, wanted, *questions, "mixture")]),
    ]


def at_total(option: Strategy, wanted: Workload, total: float) -> Strategy:
    """Return the same queries at another total."""
    asked = cast(SampledTables, option.asking)
    asking = SampledTables.within(asked.domain, asked.tables, asked.shares, total, asked.subset_reports)
    error = float(sum(t.weight * asking.table_error(t.attributes) for t in wanted.tables))
    return _asked_at_random(wanted, option.name, total, error, lambda: asking, option.keeps_records)


def optimum(design: Design, wanted: Workload, error: float) -> Strategy:
    """Build the protocol of the most accurate noise distribution."""
    conditional = float(design.conditional_epsilons.max())
    faint = design.faintest_pair
    gives_up = [f"conditional privacy (conditional epsilon up to {conditional:.3g})"]
    if faint is not None and abs(faint[0]) < 1:
        which = "pairs" if wanted.word == "pairs" else "pairs outside the workload"
        gives_up.append(
            f"some power for {which} (down to {abs(faint[0]):.3g} of independent RR's: {faint[1]} × {faint[2]})"
        )
    visible = None if faint is None else faint[0]
    title, build = "The optimum over full records", lambda: design
    return Strategy("optimum", title, design.epsilon, error, True, conditional, visible, tuple(gives_up), build)


def kronecker(domain: Domain, wanted: Workload, total: float) -> Strategy:
    """Build independent RR with the best split of the total.

    Even if the best split is not found.
    """
    arrays = wanted.arrays(domain)
    blocks = single_blocks(arrays)
    try:
        split, kind = best_split(arrays, blocks, total), "best"
    except SolveFailed:
        split, kind = even_split(arrays, blocks, total), "even"
    title = f"Independent randomized response per attribute, {kind} split"
    return _on_its_own(domain, title, _within(split, total), split.error)


def _on_its_own(domain: Domain, title: str, epsilons: FloatArray, error: float) -> Strategy:
    """Build independent randomized response per attribute at these ε."""
    gives_up = ("accuracy only: pairs, records and conditional privacy are all kept",)

    def build() -> Asking:
        return baseline_design(domain, ProductLaw(domain.sizes, epsilons), "kronecker")

    total, largest = float(epsilons.sum()), float(epsilons.max())
    return Strategy("kronecker", title, total, error, True, largest, 1.0, gives_up, build)


def _within(split: Split, total: float) -> FloatArray:
    """Scale the split's ε so that their stated sum is at most ``total``.

    Noise distributions round up per block.
    """
    return np.asarray(split.epsilons * min(1.0, total / float(split.epsilons.sum()) * (1 - 2.0**-46)))


def whole_record(domain: Domain, wanted: Workload, total: float) -> Strategy:
    """Build one randomized response on the product of all attributes."""
    # a block needs a separate class per attribute
    arrays = wanted.arrays(domain, [np.arange(domain.m, dtype=np.float64)])
    split = even_split(arrays, cluster_blocks(arrays, [range(domain.m)]), total)
    # the eigenvalue underflows with a thousand attributes
    share = float(split.eigenvalues[0])
    visible = None if domain.m == 1 else 1 / share if share > 0 else math.inf
    (epsilon,) = _within(split, total).tolist()
    gives_up: tuple[str, ...] = (
        f"conditional privacy (conditional epsilon {total:.3g})",
        "accuracy of single attributes, for equal attenuation of all effects",
    )
    logs, least = np.log(domain.sizes), EPSILON_RANGE[0]
    suits = bool(logs.min() + epsilon + np.log(-np.expm1(-epsilon)) - logs.sum() >= np.log(np.expm1(least)))
    if not suits:
        gives_up += (f"for some attribute, an answer is less accurate than randomized response at {least:g} nats",)

    def build() -> Asking:
        if not suits:
            raise InvalidInput(f"protocol 'whole-record': {gives_up[-1]}; raise the total, or choose another protocol")
        return baseline_design(domain, joint_law(domain.sizes, epsilon), "whole-record")

    title = "One randomized response on the whole record"
    return Strategy("whole-record", title, total, split.error, True, total, visible, gives_up, build, suits)


def sampling(
    domain: Domain, wanted: Workload, total: float, progress: Callable[[float], None] | None = None
) -> list[Strategy]:
    """List protocols in which each person answers one random query.

    A table, or one query of a mixture.

    The mixture is :func:`optrr_solvers.allocation.mixture.mixture`'s. Empty where one report cannot be on so many
    cells, or of so many nats.
    """
    if not _reportable(domain, wanted, total):
        return []
    best = _best_shares(domain, wanted, total)

    whole = any(len(t.attributes) == domain.m for t in wanted.tables)
    out = [
        _asked_at_random(wanted, "sampling", total, best.error, lambda: sampled_tables(domain, wanted, total), whole)
    ]
    if len(wanted.tables) == 1:
        return out
    single = _single(domain, wanted)
    if single is not None:
        mixed = mixture(single, total, progress)
        # without a gain, tables are simpler
        if mixed.error < best.error * (1 - _GAINED):
            out.append(_questions(domain, wanted, mixed, total, "mixture"))
    if single is not None and 1 < domain.m <= MOST_WHOLE and int(np.sum(np.log2(domain.sizes))) < CELL_BITS:
        recorded = mixture(single, total, progress, whole=True, known=mixed.questions)
        kept = _questions(domain, wanted, recorded, total, "mixture-with-records")
        # if the best queries keep records already, there is nothing to add
        if kept.keeps_records and not (out[-1].keeps_records and out[-1].error * (1 - _GAINED) <= kept.error):
            out.append(kept)
    return out


def _reportable(domain: Domain, wanted: Workload, total: float) -> bool:
    """Check that one report can be on every table and of so many nats."""
    return max(t.cells(domain) for t in wanted.tables) <= MAX_CELLS and EPSILON_RANGE[0] <= total <= EPSILON_RANGE[1]


def _single(domain: Domain, wanted: Workload) -> TableWorkload | None:
    """Return the workload with single attributes, if queries can be searched."""
    if domain.m > MOST_EFFECTS:
        return None
    single = wanted.arrays(domain, [np.arange(domain.m, dtype=np.float64)])
    return single if len(single.effects) <= MOST_EFFECTS else None


def _questions(domain: Domain, wanted: Workload, mixed: MixedQuestions, total: float, name: str) -> Strategy:
    """Build the protocol of queries with their proportions."""
    names = tuple(tuple(domain.names[i] for i in q.attributes) for q in mixed.questions)

    def build() -> Asking:
        return SampledTables.within(domain, names, mixed.shares, total, tuple(q.report for q in mixed.questions))

    return _asked_at_random(wanted, name, total, mixed.error, build, any(len(t) == domain.m for t in names))


def _asked_at_random(  # noqa: PLR0913 (what an option is made of)
    wanted: Workload, name: str, total: float, error: float, build: Callable[[], Asking], whole: bool
) -> Strategy:
    """Build the protocol of queries of which each person answers one.

    ``whole`` states whether some are about all attributes.
    """
    what = "attribute" if all(len(t.attributes) == 1 for t in wanted.tables) else "table"
    title = {
        "mixture": "One random question per person, with the most accurate questions",
        "mixture-with-records": "One random question per person, some of them about everything",
        "sampling": f"One random {what} per person, with the best probabilities",
    }[name]
    asked, tables = what, "no other table can be estimated, now or later"
    if name.startswith("mixture"):
        asked, tables = "question", "only the workload's tables can be estimated"
    elif len(wanted.tables) == 1:
        title = f"One report on {wanted.tables[0].title} from everyone"
    gives_up: tuple[str, ...] = (
        f"full records: each person answers one {asked}, and {tables}",
        f"conditional privacy (epsilon {total:.3g} on the {what} asked)",
    )
    keeps = False
    if whole:
        # only such queries keep records, so the others need not be built
        asking = build()
        build, keeps = (lambda: asking), asking.keeps_records
    if keeps:
        tenth = ", about which only a tenth of the people answer" if name == "mixture-with-records" else ""
        gives_up = (
            "analyses other than of tables: each person answers one question, but any table can be estimated",
            f"accuracy of tables outside the workload{tenth}",
            gives_up[1],
        )
    return Strategy(name, title, total, error, keeps, total, None, gives_up, build)


def _best_shares(domain: Domain, wanted: Workload, total: float) -> MixedQuestions:
    """Compute the best proportions of tables, each answered most accurately."""
    arrays = wanted.arrays(domain)
    return best_shares(
        arrays, [Question(t, whole_table(domain.sizes[list(t)].tolist(), total)) for t in arrays.tables], total
    )


def sampled_tables(domain: Domain, wanted: Workload, total: float) -> SampledTables:
    """Build sampled tables of the workload with the best probabilities.

    Each is reported in the most accurate way.
    """
    arrays = wanted.arrays(domain)
    each = _best_shares(domain, wanted, total).shares / wanted.counts(domain)
    place = {arrays.key(t): k for k, t in enumerate(arrays.tables)}
    # a table that other tables cover keeps a share that can be drawn
    of_tables = [each[place[arrays.key(domain.indices(t.attributes))]] for t in wanted.tables]
    shares = np.maximum(of_tables, _LEAST_SHARE)
    return SampledTables.within(domain, tuple(t.attributes for t in wanted.tables), shares / shares.sum(), total)
