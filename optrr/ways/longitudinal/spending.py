"""What reports of one person cost: one, T, or all for ever; from what both stages draw, rounded up (design §9.2)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

import numpy as np

from optrr.devices.deployment.exact import MOST_WORK as MOST_WORDS
from optrr.devices.deployment.exact import work
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Mechanism
from optrr.ways.longitudinal.drawn import MOST_ATTRIBUTES, Densities, composed, density_range, drawn_densities
from optrr.ways.longitudinal.growth import MOST_REPORTS, MOST_WORK, WholeGrowth, cascade, enumerated, enumeration_work
from optrr.ways.longitudinal.whole import WholeOrUniform
from optrr_solvers.arrays import FloatArray
from optrr_solvers.automaton.layers import Layer, Layers
from optrr_solvers.enclosure import log_ceiling

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
