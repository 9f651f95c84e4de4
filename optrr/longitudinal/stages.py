"""Both stages of a longitudinal design: what is drawn, and what one report, T of them, or all for ever cost (design §9.2).

**Densities**, as whole numbers: q_S is the probability of one particular output with change set S, up to one constant. Two laws
of change sets commute, and on every axis the sum and the difference of (kept, changed) multiply:

    k + (r−1) c  and  k − c   of the whole  =  the products of those of the two.

Nothing is rounded, so ε that are computed from these numbers are those of what is drawn.

**The permanent law** is the optimum with less of its uniform part, so that one report can be that optimum. Every optimum has
densities q = 1 + x with x ≥ 0 (design §3.3): uniform answers mixed with something sharper. With a larger share of the sharper
part, q' = 1 + k x has any total ε_∞ above that of q, k = (e^{ε_∞} − 1)/(e^ε − 1), and q is q' mixed with uniform answers again:
ν = c ν' + (1 − c) μ, so that λ_U = c λ'_U for every U but the empty one.

**A coin** keeps the whole record with probability c, and otherwise replaces it by a uniformly random one. As the second of two
stages this shrinks every effect by the same c, so one report's law is c times the permanent law plus (1 − c) times the uniform
one: the shape of the optimum. With one attribute it is the second stage of L-GRR. The coin is a 64-bit word against a whole
number, so c is a fraction of 2^64 and everything here is exact.

**What reports cost.** All reports are drawn from one permanent answer y, so whatever a report sequence z tells of the record x
passes through y: Pr(z | x) = Σ_y P(y | x) L(y) with L(y) = Π_t I(z_t | y). With ε_P the permanent law's total, three results,
each rounded up:

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

**One report** is the permanent law, then the instantaneous one, as one mechanism. Both stages are diagonal in the same
effects (design §3.2), so λ_U of the report is the product of theirs. Estimates, tests and intervals take this mechanism like
any other.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement, islice
from math import atanh, comb, prod, tanh
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms import EffectKernel, Mechanism, Randomizer
from optrr.core.provenance import digest_of
from optrr.devices.exact import MOST_WORK as MOST_WORDS
from optrr.devices.exact import component_chances, thresholds, work
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import log_ceiling
from optrr_solvers.laws import Law
from optrr_solvers.laws.base import record_of
from optrr_solvers.randomness import BitSource, bounded
from optrr_solvers.sampling.diagram import ChoiceLayer, Layer, Layers

WORD = 1 << 64
# Change sets are listed for at most this many attributes: 4096 whole numbers of some thousand bits.
MOST_ATTRIBUTES = 12
# Python's whole numbers, shape (2,)*m, index 1 on an axis where the attribute changed.
Densities = NDArray[Any]
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
# ln of a correctly rounded ratio is off by less than this.
_LOG_ROUNDING = 2.0**-51
# What the way from ε_i to λ_i and back can lose, relative to 1 + ε_i: a dozen roundings.
_REPORT_ROUNDING = 2.0**-48


def sharpened(law: Law, epsilon: float) -> Law:
    """The law with densities 1 + k x whose total is ``epsilon`` nats, where the given one's are 1 + x.

    Raises InvalidInput where the law's total is not below that, or is 0; MethodTooLarge for laws of other kinds over more than
    20 attributes.
    """
    if not 0 < law.epsilon < epsilon:
        raise InvalidInput(
            f"one report costs {law.epsilon:.6g} nats and all of them may cost {epsilon:g}; the second must be larger, and the "
            "first above 0"
        )
    return law.sharpened(epsilon)


@dataclass(frozen=True, eq=False)
class WholeOrUniform(Randomizer):
    """Keeps a record of ``domain`` whole with probability ``threshold``/2^64; otherwise any record, each as likely.

    Raises InvalidInput for a threshold outside 1..2^64−1.
    """

    domain: Domain
    threshold: int

    second: ClassVar[str] = "whole"

    @property
    def record(self) -> dict[str, Any]:
        """The keys of a design's file."""
        return {"threshold": str(self.threshold)}

    def __post_init__(self) -> None:
        if not 0 < self.threshold < WORD:
            raise InvalidInput(
                f"records are kept with probability {self.threshold}/2^64; it must be above 0 and below 1"
            )

    @property
    def share(self) -> Fraction:
        """c, the probability that the coin keeps the record, exactly; every eigenvalue λ_U but λ_∅."""
        return Fraction(self.threshold, WORD)

    @cached_property
    def growth(self) -> Fraction:
        """How many times likelier a record's own report is than any other one, exactly: 1 + c Π r_i / (1 − c)."""
        records = prod(int(r) for r in self.domain.sizes)
        return 1 + Fraction(self.threshold * records, WORD - self.threshold)

    @cached_property
    def epsilon(self) -> float:
        """Total ε in nats, rounded up."""
        return log_ceiling(self.growth)

    @cached_property
    def attribute_epsilons(self) -> FloatArray:
        """ε_i in nats of each attribute alone, rounded up, shape (m,)."""
        odds = Fraction(self.threshold, WORD - self.threshold)
        return np.array([log_ceiling(1 + int(r) * odds) for r in self.domain.sizes])

    @property
    def conditional_epsilons(self) -> FloatArray:
        """The total: who knows the other attributes can see that the coin kept the record; shape (m,)."""
        return np.full(self.domain.m, self.epsilon)

    @cached_property
    def digest(self) -> str:
        """Of the domain and the threshold."""
        return digest_of(self.domain, {"threshold": str(self.threshold)})

    def kernel(self, names: str | Iterable[str]) -> EffectKernel:
        """λ_W = c for every W but the empty one."""
        chosen = self.domain.indices(names)
        eigenvalues = np.full((2,) * len(chosen), float(self.share))
        eigenvalues.flat[0] = 1.0
        return EffectKernel(self.domain.sizes[list(chosen)], eigenvalues, (self.domain.names[i] for i in chosen))

    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes where they stand, shape (n, m)."""
        replaced = np.flatnonzero(source.words(codes.shape[0]) >= np.uint64(self.threshold))
        for i, r in enumerate(self.domain.sizes):
            codes[replaced, i] = bounded(source, replaced.size, int(r))


@dataclass(frozen=True, eq=False)
class EachAgain(Mechanism):
    """Randomizes every attribute again on its own, by a product law."""

    second: ClassVar[str] = "kronecker"

    @property
    def record(self) -> dict[str, Any]:
        """The keys of a design's file."""
        return {"each": record_of(self.law)["epsilons"]}


def drawn_densities(automaton: Layers) -> Densities:
    """The density of every change set, up to one constant; for at most 12 attributes."""
    order = [layer.attribute for layer in automaton.steps]
    return np.transpose(_walked(automaton, lambda x: x).reshape((2,) * len(order)), np.argsort(order))


def _walked(automaton: Layers, kept: Callable[[Densities], Densities]) -> Densities:
    """What is ``kept`` of the densities that follow a state, from the last layer to the first, flat."""
    after = [np.array([1], dtype=object)]
    for layer in reversed(automaton.layers):
        if isinstance(layer, ChoiceLayer):
            chances = component_chances(layer, automaton.bits)
            after = [sum(c * after[s] for c, s in zip(chances, layer.next_states.tolist(), strict=True))]
        else:
            size = int(automaton.sizes[layer.attribute])
            after = [kept(each) for each in _before(layer, automaton.bits, size, after)]
    (flat,) = after
    return flat


def _before(layer: Layer, bits: int, size: int, after: list[Densities]) -> list[Densities]:
    """Densities of what follows each state: first those that keep the layer's attribute, then those that change it."""
    if layer.uniform:
        return [np.concatenate([after[s], after[s]]) for s in layer.kept.tolist()]
    second = layer.changed if layer.high is None else layer.high
    states = zip(layer.kept.tolist(), layer.changed.tolist(), second.tolist(), *thresholds(layer), strict=True)
    whole = 1 << bits
    # the states after the last attribute are one, whatever their numbers
    at = (
        after
        if len(after) > 1
        else after * (1 + max(int(layer.kept.max()), int(layer.changed.max()), int(second.max())))
    )
    return [
        np.concatenate([(whole - a) * (size - 1) * at[kept], (a - b) * at[changed] + b * at[high]])
        for kept, changed, high, a, b in states
    ]


def composed(first: Densities, second: Densities, sizes: IntArray) -> Densities:
    """The densities of one law after the other, up to one constant."""
    product = _to_effects(first, sizes) * _to_effects(second, sizes)
    for axis, r in enumerate(sizes.tolist()):
        whole, part = np.split(product, 2, axis=axis)
        product = np.concatenate([whole + (r - 1) * part, whole - part], axis=axis)
    return product


def _to_effects(densities: Densities, sizes: IntArray) -> Densities:
    out = densities
    for axis, r in enumerate(sizes.tolist()):
        kept, changed = np.split(out, 2, axis=axis)
        out = np.concatenate([kept + (r - 1) * changed, kept - changed], axis=axis)
    return out


def cell_probabilities(densities: Densities, sizes: IntArray) -> FloatArray:
    """Probability of one particular output by its change set, shape (2,)*m, each correctly rounded."""
    outputs = np.array(1, dtype=object)
    for r in sizes.tolist():
        outputs = np.multiply.outer(outputs, np.array([1, r - 1], dtype=object))
    total = int((densities * outputs).sum())
    return np.asarray(np.frompyfunc(lambda x: int(x) / total, 1, 1)(densities), dtype=np.float64)


def density_range(automaton: Layers) -> tuple[Fraction, Fraction]:
    """Bounds of the density relative to the uniform answer: none is below the first or above the second.

    Exact where no two paths of the automaton have the same change set; otherwise sums of extremes bound the extreme of sums.
    """
    scale = Fraction(1)
    for layer in automaton.layers:
        if isinstance(layer, ChoiceLayer):
            scale /= 1 << automaton.bits
        elif not layer.uniform:
            size = int(automaton.sizes[layer.attribute])
            scale *= Fraction(size, (size - 1) << automaton.bits)
    low, high = _walked(automaton, lambda x: x.min(keepdims=True)), _walked(automaton, lambda x: x.max(keepdims=True))
    return int(low[0]) * scale, int(high[0]) * scale


def change_sets(sizes: IntArray) -> IntArray:
    """The change set between every two records, as a flat index into (2,)*m: shape (N, N), N = Π r_i."""
    count = prod(int(r) for r in sizes)
    out = np.zeros((count, count), dtype=np.int64)
    for axis in np.unravel_index(np.arange(count), tuple(int(r) for r in sizes)):
        out = 2 * out + (axis[:, None] != axis[None, :])
    return out


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


@dataclass(frozen=True, eq=False)
class ReportsEpsilon:
    """ε in nats of ``reports`` reports of one person (None: all for ever): total, and conditional of shape (m,).

    Neither is below the truth. ``exact``: the total is the truth up to the last places, and not only an upper bound.
    """

    reports: int | None
    epsilon: float
    conditional: FloatArray
    exact: bool


def _largest_step(densities: Densities, axis: int) -> float:
    kept, changed = np.split(densities, 2, axis=axis)
    ratios = [max(a, b) / min(a, b) for a, b in zip(kept.ravel(), changed.ravel(), strict=True)]
    most = max(ratios)
    return 0.0 if most == 1 and (kept == changed).all() else float(np.log(most) * (1 + _LOG_ROUNDING) + _LOG_ROUNDING)


@dataclass(frozen=True, eq=False)
class TwoStage(Randomizer):
    """``permanent``, then ``instantaneous``, on one record; both over one domain."""

    permanent: Mechanism
    instantaneous: EachAgain | WholeOrUniform

    @property
    def domain(self) -> Domain:  # type: ignore[override]  # a field of other mechanisms, and never assigned to
        """The attributes of both stages."""
        return self.permanent.domain

    @cached_property
    def attribute_epsilons(self) -> FloatArray:
        """ε_i in nats of the randomized response that is as accurate on attribute i alone, rounded up, shape (m,)."""
        sizes = self.domain.sizes
        stages = [stage.attribute_epsilons for stage in (self.permanent, self.instantaneous)]
        first, second = (eigenvalues_of(each, sizes) for each in stages)
        # 1 − λ of both, as a sum of what each stage loses: the plain difference cancels where both are near 1
        lost = [losses_of(each, sizes) for each in stages]
        out = np.log1p(sizes * first * second / (lost[0] + first * lost[1]))
        return np.asarray(out + _REPORT_ROUNDING * (1 + out) * (out > 0))

    @property
    def epsilon(self) -> float:
        """Total ε of one report in nats, rounded up."""
        return self.spent(1).epsilon

    @property
    def conditional_epsilons(self) -> FloatArray:
        """Conditional ε of one report in nats, rounded up, shape (m,)."""
        return self.spent(1).conditional

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

    def spent(self, reports: int | None = None) -> ReportsEpsilon:
        """ε of so many reports of one person, at least one; None: of all for ever, which reveal the permanent answer itself.

        Raises InvalidInput for fewer than one.
        """
        if reports is None:
            return ReportsEpsilon(None, self.permanent.epsilon, self.permanent.conditional_epsilons, exact=True)
        if reports < 1:
            raise InvalidInput(f"{reports} reports cost nothing; give a number of at least 1")
        if reports not in self._spent:
            if isinstance(self.instantaneous, WholeOrUniform):
                out = self._of_whole(reports)
            elif self._densities is not None and reports == 1:
                out = self._of_one(*self._densities)
            else:
                out = self._enumerated(reports)
            self._spent[reports] = out or self._bounded(reports)
        return self._spent[reports]

    @cached_property
    def _spent(self) -> dict[int, ReportsEpsilon]:
        return {}

    def _bounded(self, reports: int) -> ReportsEpsilon:
        known, each = self.spent(), self.instantaneous.epsilon
        conditional = np.array([cascade(c, each, reports) for c in known.conditional.tolist()])
        return ReportsEpsilon(reports, cascade(known.epsilon, each, reports), conditional, exact=False)

    @cached_property
    def _whole(self) -> WholeGrowth | None:
        automaton = self._layers
        if not isinstance(self.instantaneous, WholeOrUniform) or automaton is None or work(automaton) > MOST_WORDS:
            return None
        low, high = density_range(automaton)
        records = prod(int(r) for r in automaton.sizes)
        return WholeGrowth(low, high, self.instantaneous.growth, records, self.permanent.conditional_epsilons)

    def _of_whole(self, reports: int) -> ReportsEpsilon | None:
        if self._whole is None or self._layers is None or reports > MOST_REPORTS:
            return None
        # rounding may put an exact number an ulp above the permanent label
        total = min(self._whole.total(reports), self.permanent.epsilon)
        return ReportsEpsilon(reports, total, self._whole.conditionals(reports), not self._layers.hidden)

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
        return self._within(1, log_ceiling(Fraction(densities.max(), densities.min())), steps)

    def _within(self, reports: int, total: float, conditional: FloatArray) -> ReportsEpsilon:
        """Exact numbers, which rounding may have put an ulp above those of all reports for ever."""
        known = self.spent()
        return ReportsEpsilon(
            reports, min(total, known.epsilon), np.minimum(conditional, known.conditional), exact=True
        )

    def _enumerated(self, reports: int) -> ReportsEpsilon | None:
        sizes = self.permanent.domain.sizes
        records = prod(sizes.tolist())
        # every multiset of reports, one of them fixed by symmetry
        if self._densities is None or comb(records + reports - 2, reports - 1) * records**2 > MOST_WORK:
            return None
        worst = enumerated(*self._densities, sizes, reports)
        if worst is None:
            return None
        return self._within(reports, float(worst[0]), worst[1:])


def eigenvalues_of(epsilons: FloatArray, sizes: IntArray) -> FloatArray:
    """λ_i = (e^{ε_i} − 1)/(e^{ε_i} + r_i − 1), shape (m,)."""
    shrunk = np.exp(-epsilons)
    return np.asarray(-np.expm1(-epsilons) / (1 + (sizes - 1) * shrunk))


def losses_of(epsilons: FloatArray, sizes: IntArray) -> FloatArray:
    """1 − λ_i without cancellation, shape (m,)."""
    shrunk = np.exp(-epsilons)
    return np.asarray(sizes * shrunk / (1 + (sizes - 1) * shrunk))


def losses_between(before: FloatArray, after: FloatArray, sizes: IntArray) -> FloatArray:
    """1 − λ_i/λ'_i without cancellation, shape (m,): what a stage loses that leaves ε_i ``after`` of ε'_i ``before``."""
    return np.asarray(losses_of(after, sizes) * np.expm1(after - before) / np.expm1(-before))


def epsilons_of(eigenvalues: FloatArray, sizes: IntArray) -> FloatArray:
    """The inverse: ε_i = ln (1 + r_i λ_i/(1 − λ_i)), shape (m,)."""
    return np.asarray(np.log1p(sizes * eigenvalues / (1 - eigenvalues)))
