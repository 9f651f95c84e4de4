"""The field's protocols for m attributes at once, at a total ε and with the reports that their papers use, as comparators.

    SPL      every attribute reported, each with ε/m (the budget is split)
    SMP      one attribute drawn at random, its name told, reported with all of ε
    RS+FD    one attribute drawn at random and *not* told, reported with ε'; all others get fake, uniform answers

A report is k-ary randomized response (grr), one category that it supports, or optimised unary encoding (oue), r bits of which
it supports those that are 1. It supports the true category with probability p and each other one with probability q:

    grr   p = e^ε/(e^ε + r − 1)            q = 1/(e^ε + r − 1)
    oue   p = 1/2                          q = 1/(e^ε + 1)                              (bits independent)

Whatever the protocol, category v of attribute i is supported by an answer with probability a where it is true and b where it
is not, so with C_v supports among N answers

    π̂_v = (C_v/N − b)/(a − b),      E π̂_v = π_v,
    var π̂_v = γ_v(1 − γ_v) / (N (a − b)²),  γ_v = b + π_v(a − b)          (people drawn at random)

and nothing is clipped. Under SMP N is binomial, and 1/N is replaced by its mean.

**What RS+FD's ε means.** The papers set ε' = ln(m(e^ε − 1) + 1), "amplified by sampling". That argument needs answers that
do not depend on the record when the attribute is not drawn; but *some* attribute is always drawn. Compare two records
that differ everywhere, with a report that agrees with one of them everywhere: the probability ratio is e^{ε'} exactly
(``proofs/prove_fake_data.py``). The published ε is what is lost when *one* attribute changes and all are of one size.

**Two-way tables.** Under SPL, with z_v = (1[v supported] − q)/(p − q) for each attribute, the mean of z_v z'_w over people is
unbiased for π_vw, because the two reports of one person are independent given the record. Under SMP nobody reports two
attributes (sample pairs instead: give the protocol the pairs' product domains). Under RS+FD a report holds at most one true
answer, so the joint distribution of two answers shows the two marginals and nothing else: the eigenvalue λ_ij is 0.

Sources: Wang, Blocki, Li & Jha (2017); Arcolezi, Couchot, Al Bouna & Xiao (2021), *Random sampling plus fake data*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, expm1, log1p
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from scipy.stats import binom

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.problem import flip_probabilities, keep_probabilities
from optrr_solvers.randomness import BitSource, RandomState, as_source, bounded, threshold

Oracle = Literal["grr", "oue"]
Kind = Literal["SPL", "SMP", "RS+FD"]
# Beyond this many standard deviations a binomial has less than 1e-30 of its mass.
_DEVIATIONS = 12


def support_probabilities(oracle: Oracle, size: int, epsilon: float) -> tuple[float, float]:
    """(p, q): how often a report supports the true category, and each other one; ε in nats."""
    if oracle == "oue":
        return 0.5, float(expit(-epsilon))
    return float(keep_probabilities(size, epsilon)), float(flip_probabilities(size, epsilon)) / (size - 1)


def report_error(oracle: Oracle, size: int, epsilon: float) -> float:
    """n times the summed variance of the unbiased proportions, at most, over all populations; the uniform one reaches it."""
    # written so that nothing cancels at small ε or overflows at large ε
    away = -expm1(-epsilon)
    if oracle == "grr":
        return (1 - 1 / size) * (1 + size * exp(-epsilon) / away) ** 2
    return 4 * size * exp(-epsilon) / away**2 + 2 - 1 / size


def report(codes: IntArray, oracle: Oracle, size: int, epsilon: float, source: BitSource) -> NDArray[np.integer]:
    """Randomized reports on true categories, shape (n,): codes (n,) for grr, bits (n, r) as uint8 for oue.

    A code of −1 stands for nobody's category: oue of the zero vector (used as fake data); grr has no such report.
    """
    if oracle == "oue":
        p, q = support_probabilities("oue", size, epsilon)
        words = source.words(codes.size * size).reshape(codes.size, size)
        bits = words < threshold(q)
        rows = np.flatnonzero(codes >= 0)
        bits[rows, codes[rows]] = words[rows, codes[rows]] < threshold(p)
        return bits.astype(np.uint8)
    moved = source.words(codes.size) < threshold(float(flip_probabilities(size, epsilon)))
    out = codes.copy()
    rows = np.flatnonzero(moved)
    out[rows] = (out[rows] + 1 + bounded(source, rows.size, size - 1)) % size
    return out


def indicators(answers: NDArray[np.integer], size: int) -> FloatArray:
    """Which categories each report supports, shape (n, r), zeros and ones."""
    if answers.ndim == 2:
        return answers.astype(np.float64)
    return np.asarray(np.eye(size)[answers])


@dataclass(frozen=True, eq=False)
class FieldProtocol:
    """One of the three, for attributes of given sizes r_i, shape (m,). Make it with split, sample or fake_data.

    ``answer_epsilon`` is what one attribute's true answer is randomized with, in nats; ``oracles`` are the reports of the
    attributes. Fake answers are those to a uniformly random category, or, with ``zeros``, OUE of the zero vector.
    """

    sizes: IntArray
    kind: Kind
    answer_epsilon: float
    oracles: tuple[Oracle, ...]
    zeros: bool = False

    @property
    def m(self) -> int:
        """Number of attributes."""
        return int(self.sizes.size)

    def support(self, i: int) -> tuple[float, float]:
        """a and b of attribute i: Pr(v supported | v true), Pr(v supported | v not true)."""
        size = int(self.sizes[i])
        p, q = support_probabilities(self.oracles[i], size, self.answer_epsilon)
        if self.kind != "RS+FD":
            return p, q
        by_chance = 1 / size if self.oracles[i] == "grr" else q if self.zeros else q + (p - q) / size
        return (p + (self.m - 1) * by_chance) / self.m, (q + (self.m - 1) * by_chance) / self.m

    def table_error(self, table: Sequence[int]) -> float:
        """n E‖π̂ − π‖² at the uniform population, where it is largest: one attribute, or two under SPL; else ``inf``."""
        if len(table) == 1:
            (a, b), size = self.support(table[0]), int(self.sizes[table[0]])
            gamma = b + (a - b) / size
            return (self.m if self.kind == "SMP" else 1) * size * gamma * (1 - gamma) / (a - b) ** 2
        if len(table) == 2 and self.kind == "SPL":
            sizes = [int(self.sizes[i]) for i in table]
            joint = np.full(sizes, 1 / math.prod(sizes))
            return float(pair_variance(self, table[0], table[1], joint, 1).sum())
        return math.inf

    def second_moments(self, i: int) -> tuple[float, float]:
        """E[z_v²] of attribute i's answer z_v = (1[v supported] − q)/(p − q), where v is true and where it is not."""
        p, q = support_probabilities(self.oracles[i], int(self.sizes[i]), self.answer_epsilon)
        return (p * (1 - q) ** 2 + (1 - p) * q**2) / (p - q) ** 2, q * (1 - q) / (p - q) ** 2

    def data_variance(self, proportions: Sequence[ArrayLike], n: int) -> tuple[FloatArray, ...]:
        """Variance of every π̂_v around these n people's own proportions, per attribute shape (r_i,): the protocol's randomness.

        It is var π̂_v without the chance that draws people, π_v(1−π_v)/n (under SMP also through drawing them without
        replacement).
        """
        out = []
        for i, given in enumerate(proportions):
            pi = np.asarray(given, dtype=np.float64)
            a, b = self.support(i)
            within = (pi * a * (1 - a) + (1 - pi) * b * (1 - b)) / (a - b) ** 2
            inverse = mean_reciprocal(n, 1 / self.m) if self.kind == "SMP" else 1 / n
            drawn = (n * inverse - 1) / (n - 1) if n > 1 else 0.0
            out.append(within * inverse + pi * (1 - pi) * drawn)
        return tuple(out)


def mean_reciprocal(n: int, probability: float) -> float:
    """E[1/N | N ≥ 1] for N ~ Binomial(n, probability), by summation around the mean."""
    mean, deviation = n * probability, np.sqrt(n * probability)
    low = max(1, int(mean - _DEVIATIONS * deviation))
    high = min(n, int(mean + _DEVIATIONS * deviation) + _DEVIATIONS)
    counts = np.arange(low, high + 1)
    weights = binom.pmf(counts, n, probability)
    return float(np.sum(weights / counts) / np.sum(weights))


@dataclass(frozen=True, eq=False)
class FieldReports:
    """Answers to every attribute: codes (N_i,) from GRR, bits (N_i, r_i) from OUE."""

    protocol: FieldProtocol
    answers: tuple[NDArray[np.integer], ...]

    def estimate(self) -> tuple[FloatArray, ...]:
        """Unbiased proportions π̂ of every attribute, shape (r_i,), not clipped."""
        out = []
        for i, answers in enumerate(self.answers):
            a, b = self.protocol.support(i)
            out.append((indicators(answers, int(self.protocol.sizes[i])).mean(axis=0) - b) / (a - b))
        return tuple(out)

    def estimate_pair(self, i: int, j: int) -> FloatArray:
        """Unbiased two-way proportions under SPL of two different attributes, shape (r_i, r_j), not clipped."""
        left, right = (self._debiased(k) for k in (i, j))
        return np.asarray(left.T @ right / left.shape[0])

    def _debiased(self, i: int) -> FloatArray:
        size = int(self.protocol.sizes[i])
        p, q = support_probabilities(self.protocol.oracles[i], size, self.protocol.answer_epsilon)
        return (indicators(self.answers[i], size) - q) / (p - q)


def collect(protocol: FieldProtocol, codes: NDArray[np.integer], random_state: RandomState = None) -> FieldReports:
    """Every person's report; codes of shape (n, m), whole numbers 0..r_i−1.

    O(n Σ r_i) time and bytes with OUE, O(n m) with GRR.
    """
    source = as_source(random_state)
    chosen = None if protocol.kind == "SPL" else bounded(source, codes.shape[0], protocol.m)
    columns = (codes[:, i].astype(np.int64) for i in range(protocol.m))
    answers = tuple(_answers(protocol, i, column, chosen, source) for i, column in enumerate(columns))
    return FieldReports(protocol, answers)


def _answers(
    protocol: FieldProtocol, i: int, column: NDArray[np.int64], chosen: NDArray[np.int64] | None, source: BitSource
) -> NDArray[np.integer]:
    oracle, size = protocol.oracles[i], int(protocol.sizes[i])
    if protocol.kind != "RS+FD" or chosen is None:
        return report(column if chosen is None else column[chosen == i], oracle, size, protocol.answer_epsilon, source)
    true = chosen == i
    fake = np.full(column.size, -1) if protocol.zeros else bounded(source, column.size, size)
    if oracle == "grr":
        fake[true] = report(column[true], oracle, size, protocol.answer_epsilon, source)
        return fake
    return report(np.where(true, column, fake), oracle, size, protocol.answer_epsilon, source)


def pair_variance(protocol: FieldProtocol, i: int, j: int, joint: FloatArray, n: int) -> FloatArray:
    """Variance of SPL's two-way estimate in every cell, shape (r_i, r_j), for people drawn at random.

    n var = Σ over (v true or not) × (w true or not) of Pr · E[z_v²] E[z'_w²] − π_vw².
    """
    true_i, false_i = protocol.second_moments(i)
    true_j, false_j = protocol.second_moments(j)
    row, column = joint.sum(axis=1, keepdims=True), joint.sum(axis=0, keepdims=True)
    second = (
        joint * true_i * true_j
        + (row - joint) * true_i * false_j
        + (column - joint) * false_i * true_j
        + (1 - row - column + joint) * false_i * false_j
    )
    return np.asarray((second - joint**2) / n)


def split(sizes: ArrayLike, epsilon: float, oracle: Oracle | Literal["best"] = "best") -> FieldProtocol:
    """SPL at total ε. ``best`` takes for each attribute the report with the smaller variance (see :func:`best_oracle`)."""
    r = np.asarray(sizes, dtype=np.int64)
    each = epsilon / r.size
    return FieldProtocol(r, "SPL", each, _oracles(r, each, oracle))


def sample(sizes: ArrayLike, epsilon: float, oracle: Oracle | Literal["best"] = "best") -> FieldProtocol:
    """SMP at total ε; for pairs give the sizes of the pairs' product domains, and their codes when collecting."""
    r = np.asarray(sizes, dtype=np.int64)
    return FieldProtocol(r, "SMP", epsilon, _oracles(r, epsilon, oracle))


def fake_data(
    sizes: ArrayLike, epsilon: float, oracle: Oracle = "grr", *, zeros: bool = False, published: bool = False
) -> FieldProtocol:
    """RS+FD at this ε of the whole record, or, ``published``, as its paper counts it: the record's is ln(m(e^ε − 1) + 1)."""
    r = np.asarray(sizes, dtype=np.int64)
    local = log1p(r.size * expm1(epsilon)) if published else epsilon
    return FieldProtocol(r, "RS+FD", local, (oracle,) * r.size, zeros)


def best_oracle(size: int, epsilon: float) -> Oracle:
    """The report with the smaller summed variance: about grr for r < 3e^ε + 2, else oue."""
    return min(get_args(Oracle), key=lambda oracle: report_error(oracle, size, epsilon))


def _oracles(sizes: IntArray, epsilon: float, oracle: Oracle | Literal["best"]) -> tuple[Oracle, ...]:
    if oracle == "best":
        return tuple(best_oracle(int(r), epsilon) for r in sizes)
    return (oracle,) * sizes.size
