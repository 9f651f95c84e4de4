"""FewChangesLaw: one density for "nothing changes", one for each "only i changes", and 1 for everything else.

The shape of POR's inductive mechanism (§IV-B). In logarithms throughout, because Π r_i leaves the range of a double
near m = 440 at r = 5.

RR-Joint is the case where no single change is singled out: one randomized response on the whole product of the attributes
(MDR §3.2, §6.3.2 corrected). The record is kept with probability p_C and otherwise replaced by any *other* record, each as
likely,

    p_C = 1 / (1 + (Π r_i − 1) e^{−ε}),      off the diagonal  p_C e^{−ε}.

SIC's inverse-distance matrix (SIC §6.2, equations 10 and 11, the latter corrected) keeps the record with probability p;
otherwise an output that differs in w attributes is as likely as 1/w:

    p_uv = (1−p) d_uv / Z,   d_uv = 1/w,   Z = Σ_{w=1}^{m} (1/w) e_w(r_1−1, …, r_m−1),

with e_w the elementary symmetric polynomial: the number of records that differ in exactly w attributes. (Printed
equation 11 has 1/r in place of 1/w, and r for m.) As long as the record itself stays the most likely answer,

    ε = ln( p m Z / (1−p) ),   hence   p = 1 / (1 + m Z e^{−ε}).
"""

import math
from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import InvalidProblem, MethodTooLarge
from optrr_solvers.laws.base import MAX_TABLE, BoolArray, Law, TableLaw, bounded_nats, checked_subset, uniform_marginal
from optrr_solvers.laws.excess import ExcessTable, accuracies_drawn, log_expm1, uniform_changes
from optrr_solvers.randomness import BitSource
from optrr_solvers.sampling.diagram import MOST_STATES, Diagram, Step, reduced


class FewChangesRecord(msgspec.Struct, forbid_unknown_fields=True):
    """ln y_0 and ln y_i."""

    log_none: float
    log_single: list[float]


class FewChangesLaw(Law):
    """Noise distribution by ln y_0 ≥ 0 and ln y_i ≥ 0, shape (m,).

    Densities relative to "two or more change"; m at least 2.
    """

    kind = "few-changes"
    Record = FewChangesRecord

    def __init__(self, sizes: IntArray, log_none: float, log_single: FloatArray) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.log_none = float(log_none)
        self.log_single = np.asarray(log_single, dtype=np.float64)
        if self.m < 2 or self.log_single.shape != self.sizes.shape:
            raise ValueError("a FewChangesLaw needs one log density for each of at least two attributes")
        if not (np.isfinite(self.log_none) and self.log_none >= 0 and np.all(self.log_single >= 0)):
            raise ValueError("the log densities of a FewChangesLaw must be finite and at least 0")

    def to_record(self) -> FewChangesRecord:
        """Return the stored numbers ln y_0 and ln y_i."""
        return FewChangesRecord(self.log_none, self.log_single.tolist())

    @classmethod
    def from_record(cls, record: FewChangesRecord, sizes: IntArray) -> "FewChangesLaw":
        """Build the noise distribution of a record."""
        nats = bounded_nats([record.log_none, *record.log_single], sizes.size)
        return cls(sizes, record.log_none, nats[1:])

    def epsilon_parts(self) -> list[float]:
        """Return the largest number; the smallest is 0."""
        return [max(self.log_none, float(self.log_single.max()))]

    def joint_eigenvalues(self, others: IntArray, center: int) -> FloatArray:
        """Compute eigenvalues λ_ic of pairs with one attribute, in O(m).

        Two attributes change together only in a uniform answer, whose probability is known.
        """
        d = 1 - 1 / self.sizes
        changed = self.one_way()[:, 1]
        both = self._uniform * d[others] * d[center]
        # E[χ_i χ_c] with χ = 1 − (changed)/d
        return np.asarray(
            1 - changed[others] / d[others] - changed[center] / d[center] + both / (d[others] * d[center])
        )

    @cached_property
    def _log_excess(self) -> FloatArray:
        """ln of the unnormalized mass above uniform of ∅ and of each {i}, (m+1,)."""
        above = log_expm1(np.append(self.log_none, self.log_single))
        return np.asarray(above - self._log_outputs + np.append(0.0, np.log(self.sizes - 1.0)))

    @cached_property
    def _log_outputs(self) -> float:
        return float(np.sum(np.log(self.sizes)))

    @cached_property
    def _masses(self) -> FloatArray:
        """Normalised excess of ∅ and of each {i}: shape (m+1,); the rest is uniform."""
        return np.asarray(np.exp(self._log_excess - np.logaddexp(0.0, logsumexp(self._log_excess))))

    @cached_property
    def _uniform(self) -> float:
        return float(np.exp(-np.logaddexp(0.0, logsumexp(self._log_excess))))

    def one_way(self) -> FloatArray:
        """Compute Pr(kept), Pr(changed) per attribute, shape (m, 2); O(m)."""
        changed = self._masses[1:] + self._uniform * (1 - 1 / self.sizes)
        others = np.maximum(self._masses.sum() - self._masses[1:], 0.0)
        return np.stack([others + self._uniform / self.sizes, changed], axis=1)

    def marginal(self, subset: Sequence[int]) -> FloatArray:
        """Return the probabilities of a subset's flip patterns.

        The uniform part plus the excess of each change set.
        """
        chosen = checked_subset(subset, self.m)
        out = uniform_marginal(self.sizes[list(chosen)], self._uniform)
        inside = self._masses[1:][list(chosen)]
        for axis, mass in enumerate(inside):
            out[tuple(int(a == axis) for a in range(len(chosen)))] += mass
        out[(0,) * len(chosen)] += max(self._masses.sum() - inside.sum(), 0.0)
        return out

    def log_density_range(self) -> tuple[float, float]:
        """Return 0 (two or more changes) and the largest stored number."""
        return 0.0, max(self.log_none, float(self.log_single.max()))

    def conditional_epsilons(self) -> FloatArray:
        """Compute max(|ln y_0/y_i|, max over j ≠ i of ln y_j), rounded up; O(m).

        Steps between two or more changes are 0.
        """
        top, second = np.partition(np.append(self.log_single, 0.0), (-2, -1))[[-1, -2]]
        beside = np.where(self.log_single == top, second, top)
        beside = np.where(np.count_nonzero(self.log_single == top) > 1, top, beside)
        steps = np.maximum(np.abs(self.log_none - self.log_single), beside)
        return np.where(steps > 0, np.nextafter(steps, np.inf), 0.0)

    def diagram(self, most: int = MOST_STATES) -> Diagram | None:
        """Build states of no change, two or more changes, and single changes.

        One for each density of the single change so far.
        """
        levels, number = np.unique(self.log_single, return_inverse=True)
        # states are numbered by their first appearance, so that early attributes have few of them
        first = np.full(levels.size, self.m)
        np.minimum.at(first, number, np.arange(self.m))
        rank = np.argsort(np.argsort(first, kind="stable"), kind="stable")
        seen = np.array([int(np.count_nonzero(first < i)) for i in range(self.m + 1)])
        if int(seen.sum()) + 2 * self.m > most:
            return None
        nodes = []
        for i in range(self.m):
            kept = np.arange(seen[i] + 2, dtype=np.int64)
            changed = np.ones(kept.size, dtype=np.int64)
            changed[0] = 2 + rank[number[i]]
            nodes.append(Step(i, kept[:1], changed[:1]) if i == 0 else Step(i, kept, changed))
        return reduced(Diagram(tuple(nodes), np.concatenate([[self.log_none, 0.0], levels[np.argsort(rank)]])))

    @cached_property
    def _excess(self) -> ExcessTable:
        # ln Π r_i is numpy's pairwise sum: blocks of 128, then pairs
        error = 2.0**-53 * (128 + np.log2(self.m)) * (self._log_outputs + np.log(self.sizes.max()))
        return ExcessTable(self._log_excess, error)

    def drawn_accuracies(self) -> FloatArray:
        """Compute the accuracies after the sampler's rounding."""
        return accuracies_drawn(self.one_way(), self.sizes, self._excess.gain)

    def sample_directly(self, n: int, source: BitSource) -> BoolArray:
        """Draw uniform answers, "nothing" and single changes."""
        cells = self._excess.draw(n, source)
        out = np.zeros((n, self.m), dtype=np.bool_)
        single = np.flatnonzero(cells > 0)
        out[single, cells[single] - 1] = True
        uniform = np.flatnonzero(cells < 0)
        out[uniform] = uniform_changes(uniform.size, self.sizes, source)
        return out


def joint_law(sizes: ArrayLike, epsilon: float) -> Law:
    """Build RR-Joint with total ε = |epsilon|; a table up to 20 attributes.

    A negative ``epsilon`` makes the true record the *least* likely answer. No one should want that, but MDR's own
    numbers contain it (ε_A without its absolute value), so up to 20 attributes it can be built.

    Raises InvalidProblem where ε is 0 or not finite (nothing could be estimated), or negative with more than 20 attributes.
    """
    r = np.asarray(sizes, dtype=np.int64)
    if not math.isfinite(epsilon) or epsilon == 0:
        raise InvalidProblem(f"RR-Joint got epsilon {epsilon}; give a finite number of nats other than 0")
    if r.size <= MAX_TABLE:
        density = np.zeros(1 << r.size)
        density[0] = epsilon
        return TableLaw(r, density)
    if epsilon < 0:
        raise InvalidProblem(f"RR-Joint over {r.size} attributes got epsilon {epsilon}; give a number above 0")
    return FewChangesLaw(r, epsilon, np.zeros(r.size))


def retention_epsilons(sizes: ArrayLike, retention: float, signed: bool = False) -> FloatArray:
    """Compute ε of randomized response that keeps a value with probability p.

    |ln(p (r−1)/(1−p))|, shape (m,) (MDR §6.3.1).

    MDR prints r in place of r−1, with which the rows do not sum to 1. ``signed`` leaves the absolute value out, as
    MDR's tables do: where p < 1/r the result is negative, and no measure of privacy.

    Raises InvalidProblem for a probability that is not strictly between 0 and 1.
    """
    if not 0 < retention < 1:
        raise InvalidProblem(f"values are kept with probability {retention}; give one greater than 0 and less than 1")
    odds = np.log(np.asarray(sizes, dtype=np.float64) - 1) + math.log(retention) - math.log1p(-retention)
    return np.asarray(odds if signed else np.abs(odds))


def records_at_distance(sizes: ArrayLike) -> FloatArray:
    """Count the records at each Hamming distance, e_w(r−1) for w = 0..m.

    The shape is (m+1,), O(m²).
    """
    out = np.ones(1)
    for r in np.asarray(sizes, dtype=np.float64):
        out = np.convolve(out, [1.0, r - 1.0])
    return out


def inverse_distance_normaliser(sizes: ArrayLike) -> float:
    """Compute Z = Σ_k d_uk, the same for each record u."""
    counts = records_at_distance(sizes)
    return float(np.sum(counts[1:] / np.arange(1, counts.size)))


def inverse_distance_retention(sizes: ArrayLike, epsilon: float) -> float:
    """Find p at which the matrix has total ``epsilon`` nats.

    Above ln m, so that the kept record stays the likeliest answer.

    Raises InvalidProblem below ln m: there the ratio 1 : m between distances alone costs more.
    """
    m = np.size(sizes)
    if not epsilon > math.log(m) or not math.isfinite(epsilon):
        raise InvalidProblem(
            f"the inverse-distance matrix over {m} attributes got epsilon {epsilon:g}; it needs a finite number above "
            f"ln {m} = {math.log(m):.4g}, or use RR-Joint"
        )
    return 1 / (1 + m * inverse_distance_normaliser(sizes) * math.exp(-epsilon))


def inverse_distance_law(sizes: ArrayLike, retention: float) -> TableLaw:
    """Build the distribution that keeps the record with probability ``retention``.

    Strictly between 0 and 1; up to 20 attributes.

    Its ε is recomputed from the table, so it is right also where p is below the other answers' probabilities.
    """
    r = np.asarray(sizes, dtype=np.int64)
    if not 0 < retention < 1:
        raise InvalidProblem(
            f"the inverse-distance matrix got retention {retention}; give one greater than 0 and less than 1"
        )
    if r.size > MAX_TABLE:
        raise MethodTooLarge(
            f"the inverse-distance matrix takes up to {MAX_TABLE} attributes, got {r.size}; use RR-Joint"
        )
    changed = np.asarray([bin(s).count("1") for s in range(1 << r.size)], dtype=np.float64)
    density = np.log(retention) * np.ones(changed.size)
    density[1:] = math.log1p(-retention) - math.log(inverse_distance_normaliser(r)) - np.log(changed[1:])
    return TableLaw(r, density)
