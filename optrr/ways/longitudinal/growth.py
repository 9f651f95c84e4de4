"""The formulas behind ``spending``: ε of T reports of one person, between one report and all for ever (design §9.2).

All reports are drawn from one permanent answer y, so whatever a report sequence z tells of the record x passes through y:
Pr(z | x) = Σ_y P(y | x) L(y) with L(y) = Π_t I(z_t | y). With ε_P the permanent law's total, three results, each rounded up:

whole
    exact for every T where the second stage keeps or replaces records whole. L(y) = (1 − c)^T N^-T g^{n_y} with
    g = 1 + cN/(1−c) and n_y the number of reports equal to y; Σ_y (g^{n_y} − 1) is largest when all reports are equal. Hence
    ε_T = ln (1 + K q_max)/(1 + K q_min) with K = (g^T − 1)/N and q the permanent density relative to the uniform answer.
enumerated
    exact (up to rounding) by looking at every multiset of T reports, up to a limit of work.
cascade
    for any stages: L stays within a factor e^{T ε_I}, so ε_T ≤ ln (1 + e^{ε_P + T ε_I})/(e^{ε_P} + e^{T ε_I}), which is below
    ε_P and below T ε_I. T times the ε of one report is no bound: many reports together may tell what each hardly does
    (proofs/prove_longitudinal.py has a case).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, islice
from math import atanh, comb, prod, tanh

import numpy as np

from optrr.ways.longitudinal.drawn import Densities, cell_probabilities, change_sets
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import log_ceiling

# Multiplications of one enumeration: some seconds.
MOST_WORK = 1 << 29
# Multisets looked at together.
_PIECE = 1 << 13
# Reports for which the power g^T is written out: some hundred thousand bits. For more, all for ever is the bound.
MOST_REPORTS = 1000
# A report's largest and smallest probability may be this many nats apart over all T reports, so that no product underflows.
_MOST_NATS = 600.0
# What a logarithm, a product and a sum can be off, relative to 1 + the number, with a factor of 8 to spare.
_ROUNDING = 2.0**-50


def cascade(permanent: float, instantaneous: float, reports: int = 1) -> float:
    """Upper bound of ε_T in nats, rounded up; for total and conditional ε of the permanent law alike."""
    product = tanh(permanent / 2) * tanh(reports * instantaneous / 2) * (1 + _ROUNDING)
    if product >= 1:
        return permanent
    return min(2 * atanh(product) * (1 + _ROUNDING), permanent)


@dataclass(frozen=True, eq=False)
class WholeGrowth:
    """T reports whose second stage keeps records whole: exact total, and an upper bound of the conditional ε.

    ``low`` and ``high`` bound the permanent density relative to the uniform answer; ``growth`` is g, ``records`` is N, and
    ``conditional`` the permanent law's conditional ε, shape (m,).
    """

    low: Fraction
    high: Fraction
    growth: Fraction
    records: int
    conditional: FloatArray

    def mass(self, reports: int) -> Fraction:
        """K = (g^T − 1)/N."""
        return (self.growth**reports - 1) / self.records

    def total(self, reports: int) -> float:
        """ε_T in nats, rounded up."""
        mass = self.mass(reports)
        return log_ceiling((1 + mass * self.high) / (1 + mass * self.low))

    def conditionals(self, reports: int) -> FloatArray:
        """ln (1 + K q_max)/(1 + K q_max e^{−η_i}), rounded up, shape (m,): no pair of records that differ in i tells more."""
        most = float(min(self.mass(reports) * self.high, Fraction(10) ** 300))
        shrunk = np.log1p(most * -np.expm1(-self.conditional) / (1 + most * np.exp(-self.conditional)))
        return np.asarray(np.minimum(shrunk * (1 + _ROUNDING) + _ROUNDING * (shrunk > 0), self.conditional))


def enumeration_work(sizes: IntArray, reports: int) -> int:
    """Multiplications to look at every multiset of ``reports`` reports, one of them fixed by symmetry."""
    records = prod(int(r) for r in sizes)
    return comb(records + reports - 2, reports - 1) * records**2


def enumerated(permanent: Densities, instantaneous: Densities, sizes: IntArray, reports: int) -> FloatArray | None:
    """Total ε_T, then the conditional ε_T of every attribute, in nats, rounded up: shape (1 + m,).

    None where probabilities reach too far. All laws treat records alike up to a shift, so that one report is the first record.
    """
    at = change_sets(sizes)
    logs = np.log(cell_probabilities(instantaneous, sizes).ravel())[at]
    spread = float(logs.max() - logs.min()) * reports
    if not spread <= _MOST_NATS:
        return None
    answers = cell_probabilities(permanent, sizes).ravel()[at]
    worst = np.zeros(1 + sizes.size)
    for counts in _multisets(len(at), reports):
        likelihood = counts @ logs
        likelihood -= likelihood.max(axis=1, keepdims=True)
        chances = np.log(np.exp(likelihood) @ answers).reshape(-1, *sizes.tolist())
        steps = [np.ptp(chances.reshape(len(counts), -1), axis=1).max()]
        steps += [np.ptp(chances, axis=1 + i).max() for i in range(sizes.size)]
        worst = np.maximum(worst, steps)
    return np.where(worst > 0, worst + _ROUNDING * (len(at) + reports + spread), 0.0)


def _multisets(records: int, reports: int) -> Iterator[FloatArray]:
    """How often each record is reported, the first at least once, in pieces of shape (k, N)."""
    others = combinations_with_replacement(range(records), reports - 1)
    while piece := list(islice(others, _PIECE)):
        chosen = np.asarray(piece, dtype=np.int64).reshape(len(piece), reports - 1)
        counts = np.zeros((len(piece), records))
        counts[:, 0] = 1
        np.add.at(counts, (np.arange(len(piece))[:, None], chosen), 1)
        yield counts
