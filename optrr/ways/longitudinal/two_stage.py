"""One report: the permanent law, then the instantaneous one, as one mechanism to estimate with.

Both stages are diagonal in the same effects (design §3.2), so λ_U of the report is the product of theirs. Estimates, tests and
intervals take this mechanism like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optrr.domain.domain import Domain
from optrr.mechanisms.kernel import EffectKernel
from optrr.mechanisms.mechanism import Mechanism
from optrr.mechanisms.randomizer import Randomizer
from optrr.releases.provenance import digest_of
from optrr.ways.longitudinal.spending import Spending
from optrr.ways.longitudinal.whole import WholeOrUniform
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import BitSource

# What the way from ε_i to λ_i and back can lose, relative to 1 + ε_i: a dozen roundings.
_ROUNDING = 2.0**-48


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
        return np.asarray(out + _ROUNDING * (1 + out) * (out > 0))

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
