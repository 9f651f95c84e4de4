"""Both stages of a longitudinal design, and the ε of one report, of T reports, and of a lifetime (theory §9.2).

**The memoized response** is the optimum with less of its uniform part, so that one report can be that optimum. Every optimum
has densities q = 1 + x with x ≥ 0 (theory §3.3): a mixture of uniform answers and a sharper part. With a larger proportion of
the sharper part, q' = 1 + k x has any total ε_∞ above that of q, k = (e^{ε_∞} − 1)/(e^ε − 1), and q is a mixture of q' and
uniform answers: ν = c ν' + (1 − c) μ, so that λ_U = c λ'_U for all nonempty U.

**A coin** keeps the whole record with probability c, and otherwise replaces it by a uniformly random one. As a second stage it
multiplies every effect by the same c, so the distribution of one report is c times that of the memoized response plus (1 − c)
times the uniform one, which has the form of the optimum. With one attribute it is the second stage of L-GRR. The coin
compares a 64-bit word with a whole number, so c is a fraction of 2^64 and all computations are exact.

**ε of T reports.** All reports are drawn from one memoized response y, so all information of a report sequence z about the
record x passes through y: Pr(z | x) = Σ_y P(y | x) L(y) with L(y) = (1 − c)^T N^-T g^{n_y}, g = 1 + cN/(1−c), N the number of
records and n_y the number of reports equal to y. Σ_y (g^{n_y} − 1) is largest if all reports are equal. Hence, exactly,

    ε_T = ln (1 + K q_max)/(1 + K q_min),    K = (g^T − 1)/N,

with q the density of the memoized response relative to the uniform answer. Distributions without an automaton, and more
than 1000 reports, have a bound instead: L stays within a factor e^{T ε_I}, so with the memoized response's ε_P and the
coin's ε_I

    ε_T ≤ ln (1 + e^{ε_P + T ε_I})/(e^{ε_P} + e^{T ε_I}).

T times the ε of one report is not a bound: many reports together may reveal more than T times as much as one
(proofs/prove_longitudinal.py has a case).

**One report** is the memoized response followed by the coin, as one mechanism. Both stages are diagonal in the same
effects (theory §3.2), so λ_U of the report is the product of theirs. Estimates, tests and intervals use this mechanism like
any other.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import atanh, prod, tanh

import numpy as np
from numpy.typing import NDArray

from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms import EffectKernel, Mechanism, Randomizer
from optrr.core.provenance import digest_of
from optrr.devices.exact import MOST_WORK, extremes, work
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import log_ceiling
from optrr_solvers.laws import Law
from optrr_solvers.randomness import BitSource, bounded
from optrr_solvers.sampling.diagram import ChoiceLayer, Layers

WORD = 1 << 64
# Reports for which the power g^T is written out: some hundred thousand bits. For more, all for ever is the bound.
MOST_REPORTS = 1000
# What a logarithm, a product and a sum can be off, relative to 1 + the number, with a factor of 8 to spare.
_ROUNDING = 2.0**-50
# What the way from ε_i to λ_i and back can lose, relative to 1 + ε_i: a dozen roundings.
_REPORT_ROUNDING = 2.0**-48


def sharpened(law: Law, epsilon: float) -> Law:
    """Scale a noise distribution to the total ``epsilon``, in nats.

    Its densities 1 + x become 1 + k x.

    Raises InvalidInput where the law's total is not below that, or is 0; MethodTooLarge for laws of other kinds over more than
    20 attributes.
    """
    if not 0 < law.epsilon < epsilon:
        raise InvalidInput(
            f"``lifetime_epsilon`` {epsilon:g}: must be larger than the {law.epsilon:.6g} nats of one report, and these above 0"
        )
    return law.sharpened(epsilon)


@dataclass(frozen=True, eq=False)
class WholeOrUniform(Randomizer):
    """Mechanism that keeps a record whole or draws a uniform one.

    The record of ``domain`` is kept with probability ``threshold``/2^64.

    Raises InvalidInput for a threshold outside 1..2^64−1.
    """

    domain: Domain
    threshold: int

    def __post_init__(self) -> None:
        if not 0 < self.threshold < WORD:
            raise InvalidInput(
                f"the probability of keeping a record is {self.threshold}/2^64; it must be above 0 and below 1"
            )

    @property
    def share(self) -> Fraction:
        """Probability c that the coin keeps the record, exactly.

        Every eigenvalue λ_U except λ_∅ equals c.
        """
        return Fraction(self.threshold, WORD)

    @cached_property
    def growth(self) -> Fraction:
        """Ratio of probabilities of the true record and of any other, exactly.

        1 + c Π r_i / (1 − c).
        """
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
        """Conditional ε of each attribute, shape (m,); equal to the total.

        An attacker who knows the other attributes can see that the coin kept the record.
        """
        return np.full(self.domain.m, self.epsilon)

    @cached_property
    def digest(self) -> str:
        """Digest of the domain and the threshold."""
        return digest_of(self.domain, {"threshold": str(self.threshold)})

    def kernel(self, names: str | Iterable[str]) -> EffectKernel:
        """Build the kernel, with λ_W = c for all nonempty W."""
        chosen = self.domain.indices(names)
        eigenvalues = np.full((2,) * len(chosen), float(self.share))
        eigenvalues.flat[0] = 1.0
        return EffectKernel(self.domain.sizes[list(chosen)], eigenvalues, (self.domain.names[i] for i in chosen))

    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes where they stand, shape (n, m)."""
        replaced = np.flatnonzero(source.words(codes.shape[0]) >= np.uint64(self.threshold))
        for i, r in enumerate(self.domain.sizes):
            codes[replaced, i] = bounded(source, replaced.size, int(r))


def density_range(automaton: Layers) -> tuple[Fraction, Fraction]:
    """Bound the density relative to the uniform distribution, below and above.

    Exact where no two paths of the automaton have the same change set; otherwise sums of extremes bound the extreme of sums.
    """
    scale = Fraction(1)
    for layer in automaton.layers:
        if isinstance(layer, ChoiceLayer):
            scale /= 1 << automaton.bits
        elif not layer.uniform:
            size = int(automaton.sizes[layer.attribute])
            scale *= Fraction(size, (size - 1) << automaton.bits)
    low, high = extremes(automaton)
    return low * scale, high * scale


def cascade(permanent: float, instantaneous: float, reports: int = 1) -> float:
    """Bound ε of T reports from above, in nats, rounded up.

    Valid for total and conditional ε of the memoized stage.
    """
    product = tanh(permanent / 2) * tanh(reports * instantaneous / 2) * (1 + _ROUNDING)
    if product >= 1:
        return permanent
    return min(2 * atanh(product) * (1 + _ROUNDING), permanent)


@dataclass(frozen=True, eq=False)
class ReportsEpsilon:
    """Total and conditional ε of ``reports`` reports of one person, in nats.

    Conditional ε has shape (m,); ``reports`` None means a lifetime.

    Neither is below the truth. ``exact``: the total is the truth up to the last places, and not only an upper bound.
    """

    reports: int | None
    epsilon: float
    conditional: FloatArray
    exact: bool


@dataclass(frozen=True, eq=False)
class TwoStage(Randomizer):
    """Two stages on one record, ``permanent`` then ``instantaneous``."""

    permanent: Mechanism
    instantaneous: WholeOrUniform

    @property
    def domain(self) -> Domain:  # type: ignore[override]  # a field of other mechanisms, and never assigned to
        """The attributes of both stages."""
        return self.permanent.domain

    @cached_property
    def attribute_epsilons(self) -> FloatArray:
        """Attribute ε, rounded up, in nats, shape (m,).

        ε_i of the randomized response that is as accurate on attribute i alone.
        """
        sizes = self.domain.sizes
        stages = [stage.attribute_epsilons for stage in (self.permanent, self.instantaneous)]
        first, second = (eigenvalues_of(each, sizes) for each in stages)
        # 1 − λ of both, as a sum of what each stage loses: the plain difference cancels where both are near 1
        lost = [losses_of(each, sizes) for each in stages]
        out = np.log1p(sizes * first * second / (lost[0] + first * lost[1]))
        return np.asarray(out + _REPORT_ROUNDING * (1 + out) * (out > 0))

    @cached_property
    def epsilon(self) -> float:
        """Total ε of one report in nats, rounded up."""
        return self.spent(1).epsilon

    @property
    def conditional_epsilons(self) -> FloatArray:
        """Conditional ε of one report in nats, rounded up, shape (m,)."""
        return self.spent(1).conditional

    @cached_property
    def digest(self) -> str:
        """Digest of both stages."""
        return digest_of(self.domain, {"permanent": self.permanent.digest, "instantaneous": self.instantaneous.digest})

    def kernel(self, names: str | Iterable[str]) -> EffectKernel:
        """Build the kernel on the named attributes.

        Its λ_W is the product of those of the memoized and the instantaneous stage.
        """
        chosen = [self.domain.names[i] for i in self.domain.indices(names)]
        first, second = self.permanent.kernel(chosen), self.instantaneous.kernel(chosen)
        return EffectKernel(first.sizes, first.eigenvalues * second.eigenvalues, chosen)

    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Draw everybody's first report in place, codes of shape (n, m).

        The memoized responses are not kept.
        """
        self.permanent.randomize_in_place(codes, source)
        self.instantaneous.randomize_in_place(codes, source)

    def spent(self, reports: int | None = None) -> ReportsEpsilon:
        """Compute ε of so many reports of one person, at least one.

        None means a lifetime, which reveals the memoized response itself.

        Raises InvalidInput for fewer than one.
        """
        known = self.permanent
        if reports is None:
            return ReportsEpsilon(None, known.epsilon, known.conditional_epsilons, exact=True)
        if reports < 1:
            raise InvalidInput(f"``reports``: {reports} is not a number of reports; give at least 1")
        if self._range is None or reports > MOST_REPORTS:
            each = self.instantaneous.epsilon
            conditional = np.array([cascade(c, each, reports) for c in known.conditional_epsilons.tolist()])
            return ReportsEpsilon(reports, cascade(known.epsilon, each, reports), conditional, exact=False)
        low, high, exact = self._range
        mass = (self.instantaneous.growth**reports - 1) / prod(self.domain.sizes.tolist())
        # rounding may put an exact number an ulp above the permanent label
        total = min(log_ceiling((1 + mass * high) / (1 + mass * low)), known.epsilon)
        # ln (1 + K q_max)/(1 + K q_max e^{−η_i}), rounded up: no pair of records that differ in i tells more
        most, apart = float(min(mass * high, Fraction(10) ** 300)), known.conditional_epsilons
        shrunk = np.log1p(most * -np.expm1(-apart) / (1 + most * np.exp(-apart)))
        conditional = np.minimum(shrunk * (1 + _ROUNDING) + _ROUNDING * (shrunk > 0), apart)
        return ReportsEpsilon(reports, total, conditional, exact)

    @cached_property
    def _range(self) -> tuple[Fraction, Fraction, bool] | None:
        """Bounds of the memoized stage's density, and whether they are exact.

        None if no automaton of workable size draws it.
        """
        automaton = self.permanent.law.automaton
        if automaton is None or work(automaton.layers) > MOST_WORK:
            return None
        return *density_range(automaton.layers), not automaton.layers.hidden


def eigenvalues_of(epsilons: FloatArray, sizes: IntArray) -> FloatArray:
    """Compute eigenvalues of randomized response from ε_i, shape (m,).

    λ_i = (e^{ε_i} − 1)/(e^{ε_i} + r_i − 1).
    """
    shrunk = np.exp(-epsilons)
    return np.asarray(-np.expm1(-epsilons) / (1 + (sizes - 1) * shrunk))


def losses_of(epsilons: FloatArray, sizes: IntArray) -> FloatArray:
    """Compute 1 − λ_i without cancellation, shape (m,)."""
    shrunk = np.exp(-epsilons)
    return np.asarray(sizes * shrunk / (1 + (sizes - 1) * shrunk))


def losses_between(before: FloatArray, after: FloatArray, sizes: IntArray) -> FloatArray:
    """Compute 1 − λ_i/λ'_i without cancellation, shape (m,).

    This is the loss of a stage that reduces ε'_i ``before`` to ε_i ``after``.
    """
    return np.asarray(losses_of(after, sizes) * np.expm1(after - before) / np.expm1(-before))
