"""Protocols that randomize the same people's genotypes and status at the same total ε, for comparison.

    optimum       the certified optimum over all variants and the status
    association   the local queries with the most information for the trend test, tested by likelihood
                  (:mod:`optrr.genomics.designing`), for the panel's proportion of cases and frequencies, as if these
                  were known from elsewhere
    inductive     POR's heuristic (status first, so that its ε is not the one replaced)
    kronecker     independent randomized response
    unrandomized  the ordinary scan of true records, without privacy

Each turns true records into tests of all variants, an estimate of each true χ², and odds ratios.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from optrr.core.design import Design
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms import unrandomized
from optrr.genomics.designing import Budget, Wanted, genomic_design, sampled_variants
from optrr.genomics.genotypes import GENOTYPES, MISSING, Codes
from optrr.genomics.layout import Layout, genomic_domain, layout_of, star_kernel
from optrr.genomics.odds import odds_ratios
from optrr.genomics.randomize import called, randomize_records
from optrr.genomics.sampled_scan import associations_of, expected_noncentralities, likelihood_tests
from optrr.genomics.sampled_variants import SampledVariants
from optrr.genomics.scan import EffectColumns
from optrr.genomics.score_tests import (
    Scores,
    association_chi_squared,
    genotype_tables,
    naive_score_test,
    noncentralities,
    score_test,
)
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import as_source

# Variants counted at once.
_BLOCK = 2048
# Frequencies that a design is made for are not nearer to 0 and 1.
_RAREST = 0.005


def record_tables(records: Codes, layout: Layout) -> IntArray:
    """Count the tables of all variants from records, shape (V, R, 2)."""
    status, at = records[:, layout.status], layout.attributes
    out = np.empty((at.size, GENOTYPES + layout.missing, 2), dtype=np.int64)
    for start in range(0, at.size, _BLOCK):
        chosen = slice(start, start + _BLOCK)
        out[chosen] = genotype_tables(called(records[:, at[chosen]], layout), status, layout.missing)
    return out


@dataclass(frozen=True, eq=False)
class Seen:
    """Results of one randomized copy.

    The tests, those that take it for true records where that has a meaning, an estimate of each true χ², (V,), and odds
    ratios of the variants of these numbers.
    """

    scores: Scores
    naive: Scores | None
    chi_squared: FloatArray
    odds_of: Callable[[IntArray], EffectColumns]


class StudiedWay(ABC):
    """A protocol.

    ``epsilon`` is the total per person in nats, infinite without privacy; ``reported`` how many variants a person's
    record or answer is about. ``per_copy``: whether odds ratios are per copy, by a logistic model, or of alleles; in
    Hardy–Weinberg proportions these agree. ``labels``: the design's statements on attributes in addition to its total.
    """

    epsilon: float
    reported: int
    per_copy: ClassVar[bool] = False
    labels: Mapping[str, float] = {}

    @abstractmethod
    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """Test one randomized copy of ``records`` (n, 1 + V; status first)."""

    @abstractmethod
    def expected(self, tables: NDArray[np.number], which: IntArray, test: str) -> FloatArray:
        """Compute the tests' noncentrality per person of the cohort.

        ``tables`` (V, R, 2) are the true tables of these variants.
        """


class WholeRecords(StudiedWay):
    """Whole records of all people through a design."""

    def __init__(self, design: Design) -> None:
        self.design, self.layout, self.epsilon = design, layout_of(design.domain), design.epsilon
        self.reported = self.layout.variants
        self.kernel = star_kernel(design.law, self.layout.attributes, self.layout.status)
        achieved = design.attribute_epsilons
        self.labels = {
            "lower_bound": design.lower_bound,
            "variant_epsilon": float(np.median(achieved[1:])),
            "status_epsilon": float(achieved[0]),
            "max_conditional_epsilon": float(design.conditional_epsilons.max()),
            "joint_eigenvalue": float(np.median(np.abs(self.kernel.eigenvalues[..., 1, 1]))),
        }

    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """Test one randomized copy of the records; see :class:`StudiedWay`."""
        randomized = records.copy()
        randomize_records(randomized, self.design.mechanism, generator)
        tables = record_tables(randomized, self.layout)
        people = np.maximum(tables.sum(axis=(1, 2)), 1)
        estimate = association_chi_squared(tables, self.kernel, test) * _called(records) / people
        odds = lambda which: odds_ratios(tables[which], self.kernel.part(which))  # noqa: E731
        return Seen(score_test(tables, self.kernel, test), naive_score_test(tables, test), estimate, odds)

    def expected(self, tables: NDArray[np.number], which: IntArray, test: str) -> FloatArray:
        """Compute the tests' noncentrality; see :class:`StudiedWay`."""
        return noncentralities(tables, self.kernel.part(which), test)


class VariantQuestions(StudiedWay):
    """Queries about a few variants; a naive test of the answers is meaningless."""

    per_copy = True

    def __init__(self, asking: SampledVariants) -> None:
        self.asking, self.epsilon, self.reported = asking, asking.epsilon, asking.each

    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """Test one set of answers; see :class:`StudiedWay`."""
        question, answer = self.asking.answered(records, as_source(generator))
        given = answer >= 0
        told = self.asking.told([(question[given], answer[given])])
        scanned = associations_of(self.asking, told)
        whole = _called(records) / np.maximum(scanned.n, 1)
        # the statistic less what noise adds on average, for as many true records as there are
        kept = np.maximum(likelihood_tests(self.asking, told).kept, 1e-12)
        estimate = np.clip(1 + (scanned.scores.statistic - 1) / kept * whole, 0, whole * scanned.n)
        return Seen(scanned.scores, None, estimate, scanned.odds_of)

    def expected(self, tables: NDArray[np.number], which: IntArray, test: str) -> FloatArray:
        """Compute the tests' noncentrality; see :class:`StudiedWay`."""
        people = float(tables.sum()) / len(tables)
        return expected_noncentralities(self.asking, tables[:, :GENOTYPES], which, people)


class TrueRecords(StudiedWay):
    """The ordinary scan of true records."""

    epsilon = float("inf")

    def __init__(self, layout: Layout) -> None:
        self.layout, self.reported = layout, layout.variants

    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """Test the true records; see :class:`StudiedWay`."""
        tables = record_tables(records, self.layout)
        plain = unrandomized(tables.shape[1:])
        scores = score_test(tables, plain, test)
        return Seen(scores, None, scores.statistic, lambda which: odds_ratios(tables[which], plain))

    def expected(self, tables: NDArray[np.number], which: IntArray, test: str) -> FloatArray:
        """Compute the tests' noncentrality; see :class:`StudiedWay`."""
        return noncentralities(tables, unrandomized(tables.shape[1:]), test)


def _called(records: Codes) -> IntArray:
    """Count the people with a call of each variant, (V,)."""
    return np.asarray(np.count_nonzero(records[:, 1:] != MISSING, axis=0))


@dataclass(frozen=True, eq=False)
class StudiedPanel:
    """Setting for which protocols are made.

    Variants, a total, the test, and the proportion of cases and frequencies of A1 if known.
    """

    names: NDArray[np.object_]
    total: float
    missing: bool = False
    test: str = "trend"
    cases: float | None = None
    frequencies: FloatArray | None = None

    def whole_records(self, solver: str) -> WholeRecords:
        """Design whole records with this solver."""
        wanted = Wanted(list(self.names), missing=self.missing, method=solver)
        return WholeRecords(genomic_design(wanted, Budget(total=self.total)))


def _questions(panel: StudiedPanel) -> VariantQuestions:
    if panel.missing:
        raise InvalidInput("answers about a few variants have no category for missing calls; leave missing calls out")
    if panel.test != "trend":
        raise InvalidInput(f"answers about a few variants have no {panel.test} test; compare the trend test")
    known = None if panel.frequencies is None else np.clip(panel.frequencies, _RAREST, 1 - _RAREST)
    return VariantQuestions(sampled_variants(Wanted([str(n) for n in panel.names]), panel.total, panel.cases, known))


# Makes each protocol for a panel. Raises InvalidInput where it cannot reach so small a total (POR's heuristic, for many
# variants), has no place for missing calls, or lacks this test.
METHODS: Mapping[str, Callable[[StudiedPanel], StudiedWay]] = {
    "optimum": lambda panel: panel.whole_records("auto"),
    "association": _questions,
    "inductive": lambda panel: panel.whole_records("inductive"),
    "kronecker": lambda panel: panel.whole_records("kronecker"),
    "unrandomized": lambda panel: TrueRecords(
        layout_of(genomic_domain([str(n) for n in panel.names], missing=panel.missing))
    ),
}
