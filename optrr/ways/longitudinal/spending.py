"""What reports of one person cost: one, T, or all for ever; from what both stages draw, rounded up (design §9.2).

The formulas behind ``spending``: ε of T reports of one person, between one report and all for ever (design §9.2).

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

One report: the permanent law, then the instantaneous one, as one mechanism to estimate with.

Both stages are diagonal in the same effects (design §3.2), so λ_U of the report is the product of theirs. Estimates, tests and
intervals take this mechanism like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement, islice
from math import atanh, comb, prod, tanh

import numpy as np
from numpy.typing import NDArray

from optrr.devices.exact import MOST_WORK as MOST_WORDS
from optrr.devices.exact import work
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import EffectKernel
from optrr.mechanisms.mechanism import Mechanism, Randomizer
from optrr.releases.provenance import digest_of
from optrr.ways.longitudinal.stages import (
    MOST_ATTRIBUTES,
    Densities,
    WholeOrUniform,
    cell_probabilities,
    change_sets,
    composed,
    density_range,
    drawn_densities,
)
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.automaton.layers import Layer, Layers
from optrr_solvers.enclosure import log_ceiling
from optrr_solvers.randomness import BitSource

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


# ln of a correctly rounded ratio is off by less than this.
_LOG_ROUNDING = 2.0**-51


@dataclass(frozen=True, eq=False)
class ReportsEpsilon:
    """ε in nats of ``reports`` reports of one person (None: all for ever): total, and conditional of shape (m,).

    Neither is below the truth. ``exact``: the total is the truth up to the last places, and not only an upper bound.
    """

    reports: int | None
    epsilon: float
    conditional: FloatArray
    exact: bool


@dataclass(frozen=True, eq=False)
class Spending:
    """What reports through two stages cost."""

    permanent: Mechanism
    instantaneous: Mechanism | WholeOrUniform

    @property
    def forever(self) -> ReportsEpsilon:
        """All reports that a person can ever give: the permanent answer itself, which they reveal in the limit."""
        return ReportsEpsilon(None, self.permanent.epsilon, self.permanent.conditional_epsilons, exact=True)

    def on(self, reports: int) -> ReportsEpsilon:
        """Of this many reports, at least one.

        Raises
        ------
        InvalidInput
            for fewer than one.
        """
        if reports < 1:
            raise InvalidInput(f"{reports} reports cost nothing; give a number of at least 1")
        return self._computed[reports] if reports in self._computed else self._compute(reports)

    @cached_property
    def _computed(self) -> dict[int, ReportsEpsilon]:
        return {}

    def _compute(self, reports: int) -> ReportsEpsilon:
        if isinstance(self.instantaneous, WholeOrUniform):
            out = self._of_whole(reports)
        elif self._densities is not None and reports == 1:
            out = self._of_one(*self._densities)
        else:
            out = self._enumerated(reports)
        self._computed[reports] = out or self._bounded(reports)
        return self._computed[reports]

    def _bounded(self, reports: int) -> ReportsEpsilon:
        known, each = self.forever, self.instantaneous.epsilon
        conditional = np.array([cascade(c, each, reports) for c in known.conditional.tolist()])
        return ReportsEpsilon(reports, cascade(known.epsilon, each, reports), conditional, exact=False)

    @cached_property
    def _whole(self) -> WholeGrowth | None:
        automaton = self._layers
        if not isinstance(self.instantaneous, WholeOrUniform) or automaton is None or work(automaton) > MOST_WORDS:
            return None
        low, high = density_range(automaton)
        records = prod(int(r) for r in automaton.sizes)
        return WholeGrowth(low, high, self.instantaneous.growth, records, self.forever.conditional)

    def _of_whole(self, reports: int) -> ReportsEpsilon | None:
        if self._whole is None or self._layers is None or reports > MOST_REPORTS:
            return None
        # rounding may put an exact number an ulp above the permanent label
        total = min(self._whole.total(reports), self.forever.epsilon)
        return ReportsEpsilon(reports, total, self._whole.conditionals(reports), _one_path_each(self._layers))

    @property
    def _layers(self) -> Layers | None:
        automaton = self.permanent.law.automaton
        return None if automaton is None else automaton.layers

    @cached_property
    def _densities(self) -> tuple[Densities, Densities] | None:
        """Exact densities of both stages; None for more than 12 attributes, or without an automaton."""
        second = None if isinstance(self.instantaneous, WholeOrUniform) else self.instantaneous.law.automaton
        if self._layers is None or second is None or self.permanent.domain.m > MOST_ATTRIBUTES:
            return None
        return drawn_densities(self._layers), drawn_densities(second.layers)

    def _of_one(self, first: Densities, second: Densities) -> ReportsEpsilon:
        densities = composed(first, second, self.permanent.domain.sizes)
        steps = np.array([_largest_step(densities, axis) for axis in range(densities.ndim)])
        return ReportsEpsilon(1, log_ceiling(Fraction(densities.max(), densities.min())), steps, exact=True)

    def _enumerated(self, reports: int) -> ReportsEpsilon | None:
        sizes = self.permanent.domain.sizes
        if self._densities is None or enumeration_work(sizes, reports) > MOST_WORK:
            return None
        worst = enumerated(*self._densities, sizes, reports)
        if worst is None:
            return None
        worst = np.minimum(worst, [self.forever.epsilon, *self.forever.conditional])
        return ReportsEpsilon(reports, float(worst[0]), worst[1:], exact=True)


def _one_path_each(automaton: Layers) -> bool:
    return all(isinstance(layer, Layer) and layer.high is None for layer in automaton.layers)


def _largest_step(densities: Densities, axis: int) -> float:
    kept, changed = np.split(densities, 2, axis=axis)
    ratios = [max(a, b) / min(a, b) for a, b in zip(kept.ravel(), changed.ravel(), strict=True)]
    most = max(ratios)
    return 0.0 if most == 1 and (kept == changed).all() else float(np.log(most) * (1 + _LOG_ROUNDING) + _LOG_ROUNDING)


# What the way from ε_i to λ_i and back can lose, relative to 1 + ε_i: a dozen roundings.
_REPORT_ROUNDING = 2.0**-48


@dataclass(frozen=True, eq=False)
class TwoStage(Randomizer):
    """``permanent``, then ``instantaneous``, on one record; both over one domain."""

    permanent: Mechanism
    instantaneous: Mechanism | WholeOrUniform

    @property
    def domain(self) -> Domain:  # type: ignore[override]  # a field of other mechanisms, and never assigned to
        """The attributes of both stages."""
        return self.permanent.domain

    @cached_property
    def spending(self) -> Spending:
        """What any number of reports costs."""
        return Spending(self.permanent, self.instantaneous)

    @cached_property
    def attribute_epsilons(self) -> FloatArray:
        """ε_i in nats of the randomized response that is as accurate on attribute i alone, rounded up, shape (m,)."""
        sizes = self.domain.sizes
        stages = [stage.attribute_epsilons for stage in (self.permanent, self.instantaneous)]
        first, second = (eigenvalues_of(each, sizes) for each in stages)
        # 1 − λ of both, as a sum of what each stage loses: the plain difference cancels where both are near 1
        lost = [sizes * np.exp(-each) / (1 + (sizes - 1) * np.exp(-each)) for each in stages]
        out = np.log1p(sizes * first * second / (lost[0] + first * lost[1]))
        return np.asarray(out + _REPORT_ROUNDING * (1 + out) * (out > 0))

    @property
    def epsilon(self) -> float:
        """Total ε of one report in nats, rounded up."""
        return self.spending.on(1).epsilon

    @property
    def conditional_epsilons(self) -> FloatArray:
        """Conditional ε of one report in nats, rounded up, shape (m,)."""
        return self.spending.on(1).conditional

    @cached_property
    def digest(self) -> str:
        """Of both stages."""
        return digest_of(self.domain, {"permanent": self.permanent.digest, "instantaneous": self.instantaneous.digest})

    def kernel(self, names: str | Iterable[str]) -> EffectKernel:
        """The kernel on the named attributes: λ_W of the permanent law times λ_W of the instantaneous one."""
        chosen = [self.domain.names[i] for i in self.domain.indices(names)]
        first, second = self.permanent.kernel(chosen), self.instantaneous.kernel(chosen)
        return EffectKernel(first.sizes, first.eigenvalues * second.eigenvalues, chosen)

    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """A first report of everybody, whose permanent answers nobody keeps: codes in place, shape (n, m)."""
        self.permanent.randomize_in_place(codes, source)
        self.instantaneous.randomize_in_place(codes, source)


def eigenvalues_of(epsilons: FloatArray, sizes: IntArray) -> FloatArray:
    """λ_i = (e^{ε_i} − 1)/(e^{ε_i} + r_i − 1), shape (m,)."""
    shrunk = np.exp(-epsilons)
    return np.asarray(-np.expm1(-epsilons) / (1 + (sizes - 1) * shrunk))


def epsilons_of(eigenvalues: FloatArray, sizes: IntArray) -> FloatArray:
    """The inverse: ε_i = ln (1 + r_i λ_i/(1 − λ_i)), shape (m,)."""
    return np.asarray(np.log1p(sizes * eigenvalues / (1 - eigenvalues)))
