"""Dependence of every two attributes, from true records or from randomized ones that were collected anyway (MDR §4.1).

Measures from a table (MDR §4 equations 8, 9; SIC §4 equations 5–7):

    ordinal with ordinal    |r|, Pearson's correlation of the categories' scores (:mod:`optrr.core.domain.domain`)
    otherwise               V = sqrt( (χ²/n) / min(r−1, c−1) ),   χ²/n = φ² = Σ (π_ab − π_a π_b)² / (π_a π_b)

Both papers print f^j_ab in the denominator of χ²; it is e_ab. Empty categories add nothing to φ² but stay in min(r−1,
c−1), as in the papers. Small samples inflate φ² by about (r−1)(c−1)/(n−1); Bergsma's correction takes that off.

Every party sends its record with each attribute randomized on its own; one collector tabulates all pairs: O(n m²), and
then O(Σ r_i r_j) to measure; each party sends O(m), the collector receives O(n m). Covariances shrink by λ_i λ_j (MDR
Proposition 1), so with one λ for all attributes their order is kept (Corollary 1). Cramér's V need not keep its order:
tables with unlike marginals shrink unlike. ``correct`` undoes the shrinking by the unbiased estimate, for any
mechanism. With eigenvalues λ_a, λ_b, λ_ab of the pair and δ the indicator of a randomized record's cell, that estimate
from one record is (theory §3.2)

    û_ab = 1/(r c) + (δ_a − 1/r)/(c λ_a) + (δ_b − 1/c)/(r λ_b) + (δ_a − 1/r)(δ_b − 1/c)/λ_ab,

so under independent randomization, where λ_ab = λ_a λ_b, covariances shrink by λ_a λ_b (proved, with the extra term of other
laws, in ``proofs/prove_dependence.py``). Each û_ab takes four values, so the sampling variance of ĉ_ab = π̂_ab − π̂_a π̂_b
(delta method) costs no more than the table. Its sum Σ Var(ĉ_ab)/(π_a π_b) is what noise adds to φ² on average; subtracting it
is Bergsma's correction carried over to randomized data (λ = 1 gives (r−1)(c−1)/n under independence).
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from optrr.core.domain.domain import Domain, PairScores, checked_scores
from optrr.core.errors import InvalidInput
from optrr.core.estimation.plausibility import warn_of_records
from optrr.core.mechanisms.kernel import EffectKernel
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.core.provenance.accounting import Account, Spent
from optrr.core.records.counts import Counts, count_many
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.base import BoolArray


def phi_squared(table: ArrayLike) -> float:
    """Compute φ² = χ²/n of a table of counts or proportions, at least 0."""
    joint = _proportions(table)
    expected = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    seen = expected > 0
    return float(np.sum((joint[seen] - expected[seen]) ** 2 / expected[seen]))


def cramers_v(table: ArrayLike) -> float:
    """Compute Cramér's V of a table, in 0..1.

    0 under independence, 1 if the attribute with more categories determines the other.
    """
    shape = np.shape(table)
    return min(1.0, math.sqrt(phi_squared(table) / (min(shape) - 1)))


def bias_corrected_v(table: ArrayLike, n: int) -> float:
    """Compute V with Bergsma's small-sample correction.

    For a table of ``n`` true records; 0 if φ² is below its own bias.
    """
    if n < 2:
        raise InvalidInput(f"the corrected V got n = {n}; it needs at least 2 records")
    r, c = np.shape(table)
    phi2 = max(0.0, phi_squared(table) - (r - 1) * (c - 1) / (n - 1))
    rows, columns = (k - (k - 1) ** 2 / (n - 1) for k in (r, c))
    room = min(rows - 1, columns - 1)
    return min(1.0, math.sqrt(phi2 / room)) if room > 0 else 0.0


def pearson(table: ArrayLike, scores: PairScores) -> float:
    """Compute |r| in 0..1 of the categories' scores; 0 if one does not vary."""
    return correlation_size(_proportions(table), scores)


def correlation_size(joint: FloatArray, scores: PairScores) -> float:
    """Compute |r| of proportions, which may be unbiased estimates.

    0 if an estimated variance is not positive, as happens with few records.
    """
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    a, b = scores[0] - rows @ scores[0], scores[1] - columns @ scores[1]
    variances = float(rows @ a**2), float(columns @ b**2)
    covariance = abs(float(a @ joint @ b))
    return min(1.0, covariance / math.sqrt(variances[0] * variances[1])) if min(variances) > 0 else 0.0


def dependence_of(table: IntArray, scores: PairScores | None, small_sample: bool = False) -> float:
    """Compute the dependence in a table of true records.

    |r| of the scores, or V without them, with Bergsma's correction for a ``small_sample``.
    """
    if scores is not None:
        return pearson(table, scores)
    return bias_corrected_v(table, int(np.sum(table))) if small_sample else cramers_v(table)


def _proportions(table: ArrayLike) -> FloatArray:
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2 or min(values.shape) < 2 or values.min() < 0 or not values.sum() > 0:
        raise InvalidInput(
            f"a table of shape {values.shape} has no measure of dependence; give a two-way table of at least two "
            "categories "
            "each, with no negative entry and some positive one"
        )
    return np.asarray(values / values.sum())


@dataclass(frozen=True, eq=False)
class Dependences:
    """Dependence of every two attributes, in 0..1.

    Shape (m, m), symmetric, 1 on the diagonal.

    ``account`` is one respondent's ε for learning it.
    """

    names: tuple[str, ...]
    matrix: FloatArray
    account: Account = field(default_factory=Account)

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", checked_matrix(self.matrix, len(self.names)))

    def require(self, domain: Domain) -> None:
        """Raise InvalidInput if they are not of this domain's attributes."""
        if self.names != domain.names:
            raise InvalidInput("the dependences are of other attributes than the domain's; learn them for this domain")

    def of(self, a: str, b: str) -> float:
        """Return the dependence of two named attributes."""
        return float(self.matrix[self.names.index(a), self.names.index(b)])


def checked_matrix(dependence: ArrayLike, m: int) -> FloatArray:
    """Convert the matrix to floats and check it.

    Raises InvalidInput unless it is m by m, symmetric, with entries in 0..1.
    """
    values = np.asarray(dependence, dtype=np.float64)
    if values.shape != (m, m) or not np.array_equal(values, values.T, equal_nan=True):
        raise InvalidInput(
            f"dependences of {m} attributes got an array of shape {values.shape}; give it symmetric, m by m"
        )
    if not np.all((values >= 0) & (values <= 1)):
        raise InvalidInput("a dependence is not between 0 and 1; give |r| or Cramér's V")
    return values


def needing_pairs(domain: Domain) -> Domain:
    """Return the domain; raise InvalidInput if it has no pair of attributes."""
    if domain.m < 2:
        raise InvalidInput(f"dependences need at least two attributes; the domain has only {domain.names[0]!r}")
    return domain


def dependence_matrix(
    domain: Domain, ordinal: Collection[str], measure: Callable[[tuple[str, str], PairScores | None], float]
) -> FloatArray:
    """Fill a symmetric matrix from ``measure(names, scores)``, shape (m, m).

    m(m−1)/2 calls.

    Pairs that are not both ordinal have None as scores.

    Raises InvalidInput if ``ordinal`` names an unknown attribute.
    """
    scores = {name: checked_scores(domain[name], None) for name in ordinal}
    out = np.eye(domain.m)
    for a, b in combinations(domain.names, 2):
        i, j = domain.index(a), domain.index(b)
        both = (scores[a], scores[b]) if a in scores and b in scores else None
        out[i, j] = out[j, i] = measure((a, b), both)
    return out


# Standard errors that a category's estimated proportion must exceed to enter the noise-corrected V. Without rarer ones
# V is a little lower; with them, their noise would be multiplied by the inverse of a proportion that is itself noise.
_RESOLVED = 2.0


@dataclass(frozen=True, eq=False)
class RandomizedPair:
    """Counts of two randomized attributes, shape (r, c), with their kernel.

    Raises InvalidInput for a table without records; SingularMarginal if an eigenvalue is nearly 0 and a correction is asked
    for.
    """

    counts: IntArray
    kernel: EffectKernel

    def __post_init__(self) -> None:
        if not self.n:
            raise InvalidInput(f"the table of {', '.join(self.kernel.names)} counts no records; give at least one")

    @classmethod
    def of(cls, counts: IntArray, mechanism: Mechanism, names: tuple[str, str]) -> "RandomizedPair":
        """Build the pair of these attributes under a mechanism."""
        indices = mechanism.domain.indices(names)
        sizes = mechanism.domain.sizes[list(indices)]
        return cls(counts, EffectKernel(sizes, mechanism.law.eigenvalues(indices), names))

    @property
    def n(self) -> int:
        """Number of records."""
        return int(np.sum(self.counts))

    @cached_property
    def observed(self) -> FloatArray:
        """Observed proportions of the randomized records, shape (r, c)."""
        return np.asarray(self.counts / self.n, dtype=np.float64)

    @cached_property
    def unbiased(self) -> FloatArray:
        """Unbiased estimate of the true proportions, shape (r, c).

        Values may be below 0 or above 1.
        """
        return self.kernel.solve(self.observed)

    @cached_property
    def proper(self) -> FloatArray:
        """Unbiased estimate with negatives set to 0, rescaled (MDR §6.4); (r, c)."""
        clipped = np.maximum(self.unbiased, 0.0)
        return np.asarray(clipped / clipped.sum())

    def attenuated(self, scores: PairScores | None = None) -> float:
        """Compute |r| of the scores, or V, of the randomized records (MDR §4.1).

        It is smaller than that of the true records.
        """
        return dependence_of(self.counts, scores)

    def corrected(self, scores: PairScores | None = None, small_sample: bool = False) -> float:
        """Estimate |r| or V of the true records.

        ``small_sample`` also removes the noise from V.
        """
        if scores is not None:
            return correlation_size(self.unbiased, scores)
        if not small_sample:
            return cramers_v(self.proper)
        rows, columns = self._marginals
        expected = np.outer(rows, columns)
        contrast = self.unbiased - np.outer(self.unbiased.sum(axis=1), self.unbiased.sum(axis=0))
        seen = np.outer(*self._resolved)
        phi2 = float(np.sum((contrast**2 - self._contrast_variance)[seen] / expected[seen]))
        return min(1.0, math.sqrt(max(0.0, phi2) / (min(expected.shape) - 1)))

    @cached_property
    def _marginals(self) -> tuple[FloatArray, FloatArray]:
        rows, columns = (np.maximum(self.unbiased.sum(axis=axis), 0.0) for axis in (1, 0))
        return rows / rows.sum(), columns / columns.sum()

    @cached_property
    def _resolved(self) -> tuple[BoolArray, BoolArray]:
        """Categories whose estimated proportion is clear of its noise.

        A proportion near 0 would be a denominator.
        """
        out = []
        for axis, marginal, lam in ((1, self._marginals[0], (1, 0)), (0, self._marginals[1], (0, 1))):
            seen = self.observed.sum(axis=axis)
            error = np.sqrt(seen * (1 - seen) / self.n) / abs(float(self.kernel.eigenvalues[lam]))
            out.append(np.asarray(marginal > _RESOLVED * error))
        return out[0], out[1]

    @cached_property
    def _contrast_variance(self) -> FloatArray:
        """Delta-method variance of every ĉ_ab, shape (r, c)."""
        r, c = self.observed.shape
        lam = self.kernel.eigenvalues
        rows, columns = self._marginals
        seen_rows, seen_columns = self.observed.sum(axis=1)[:, None], self.observed.sum(axis=0)[None, :]
        mean, square = np.zeros((r, c)), np.zeros((r, c))
        for in_row in (0, 1):
            for in_column in (0, 1):
                chance = _cell_chance(self.observed, seen_rows, seen_columns, in_row, in_column)
                u_row = 1 / r + (in_row - 1 / r) / lam[1, 0]
                u_column = 1 / c + (in_column - 1 / c) / lam[0, 1]
                u_both = u_row / c + u_column / r - 1 / (r * c) + (in_row - 1 / r) * (in_column - 1 / c) / lam[1, 1]
                influence = u_both - u_row * columns[None, :] - u_column * rows[:, None]
                mean += chance * influence
                square += chance * influence**2
        return np.asarray((square - mean**2) / self.n)


def _cell_chance(joint: FloatArray, rows: FloatArray, columns: FloatArray, in_row: int, in_column: int) -> FloatArray:
    """Compute proportions of records in or outside row a and column b.

    One for each cell (a, b).
    """
    if in_row:
        return joint if in_column else rows - joint
    return columns - joint if in_column else 1 - rows - columns + joint


def dependences_from_randomized(
    data: Any,
    mechanism: Mechanism,
    *,
    ordinal: Collection[str] = (),
    correct: bool = True,
    small_sample: bool = False,
) -> Dependences:
    """Estimate dependences of all pairs from records randomized by ``mechanism``.

    Raises InvalidInput if a pair's eigenvalue is nearly 0, for unusable records, and for records with the provenance
    of another design.

    Parameters
    ----------
    data
        randomized records: anything :func:`optrr.core.records.counts.count` takes; columns beyond the mechanism's are ignored.
    ordinal
        attributes whose categories are in order; pairs of them are measured by |r|, all others by V.
    correct
        from the unbiased estimates; False measures the randomized records as they are (attenuated).
    small_sample
        also take the noise's part off V: unrelated attributes then come out near 0 instead of near the noise.
    """
    tables = pair_tables(data, mechanism)
    warn_of_records(list(tables.values()), mechanism)
    return dependences_from_tables(tables, mechanism, ordinal=ordinal, correct=correct, small_sample=small_sample)


def pair_tables(data: Any, mechanism: Mechanism) -> dict[tuple[str, ...], Counts]:
    """Count all pairs of attributes in one pass over the data."""
    domain = needing_pairs(mechanism.domain)
    return count_many(data, domain, list(combinations(domain.names, 2)), allow_extra=True)


def dependences_from_tables(
    tables: Mapping[tuple[str, ...], Counts],
    mechanism: Mechanism,
    *,
    ordinal: Collection[str] = (),
    correct: bool = True,
    small_sample: bool = False,
) -> Dependences:
    """Estimate dependences from :func:`pair_tables`.

    For records whose design is already checked.
    """
    domain = needing_pairs(mechanism.domain)

    def measure(names: tuple[str, str], scores: PairScores | None) -> float:
        pair = RandomizedPair.of(tables[names].table, mechanism, names)
        return pair.corrected(scores, small_sample) if correct else pair.attenuated(scores)

    matrix = dependence_matrix(domain, ordinal, measure)
    return Dependences(domain.names, matrix, Account((Spent("randomized records for dependence", mechanism.epsilon),)))


def dependences_of(
    data: Any, domain: Domain, *, ordinal: Collection[str] = (), small_sample: bool = False
) -> Dependences:
    """Compute dependences of TRUE records.

    For public or reference data and for studies; otherwise no ε covers them.
    """
    tables = count_many(data, needing_pairs(domain), list(combinations(domain.names, 2)))
    matrix = dependence_matrix(
        domain, ordinal, lambda names, scores: dependence_of(tables[names].table, scores, small_sample)
    )
    warning = "true records: not differentially private unless they are public"
    account = Account((Spent("dependences of true records", float("inf"), warning),))
    return Dependences(domain.names, matrix, account)
