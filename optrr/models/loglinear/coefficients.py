"""Intervals of a log-linear model's coefficients by test inversion: a value is in where the score test does not reject it.

"β_k is v" is a smaller model: the others are free, and k's column stays with the coefficient v. It is fitted as any model under
test (:mod:`optrr.models.loglinear.margins`): from the larger model's fit to its margins, moved to v while the expectations of
all other columns stay, and on by the likelihood where noise took no margin out of the proportions. The test's score for k then
has the others' directions taken out. Where cells go to 0 a coefficient has no finite estimate, but a value can still be tested,
so that intervals end where the records end them, and are infinite on a side where they do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from math import copysign, isfinite, prod

import numpy as np
from scipy.stats import norm

from optrr.models.loglinear.comparing import ModelTest
from optrr.models.loglinear.margins import NullModel, TableFits, scaled_solve
from optrr.models.loglinear.terms import Terms
from optrr.tables.estimation.invert import GROWTH, LIMIT, invert, outward
from optrr_solvers.arrays import FloatArray

# Newton steps that bring the other columns' expectations back, how near they come, and the longest step of an exponent.
_STEPS, _NEAR, _LONGEST = 40, 1e-9, 3.0
# A share that counts as 0 in logarithms.
_FLOOR = 1e-300
# First step from the estimate towards a limit in standard errors, and the farthest value, odds of e^25: those beyond it count
# as infinite.
_FIRST, _FARTHEST = 2.0, 25.0
# Where a cell goes to 0 its standard error is of no use; steps of this size do not miss a limit.
_LARGEST_ERROR = 1.0
# Parameters cubed times cells: a limit takes some ten fits, so that the intervals of such a model take about ten seconds.
_MOST_WORK = 20_000_000


@dataclass(frozen=True, eq=False)
class PinnedModel(NullModel):
    """A model one of whose coefficients, the one of column ``pinned``, is held at a value."""

    pinned: int

    @cached_property
    def columns(self) -> FloatArray:
        """Those whose coefficients are free, (p − 1, *sizes); where there are none, a column of zeros, which moves nothing."""
        others = np.delete(self.terms.columns(), self.pinned, axis=0)
        return others if len(others) else np.zeros_like(self.column)

    @cached_property
    def column(self) -> FloatArray:
        """The pinned one, (1, *sizes)."""
        return self.terms.columns()[[self.pinned]]

    @cached_property
    def _reading(self) -> FloatArray:
        """(R,) what of the logarithms of a table of the model makes the coefficient."""
        flat = self.terms.columns().reshape(self.terms.parameters, -1)
        design = np.vstack([np.ones(flat.shape[1]), flat]).T
        return np.asarray(np.linalg.pinv(design)[1 + self.pinned])

    def estimated(self, fits: TableFits) -> FloatArray:
        """The coefficient of tables of the model, (B,)."""
        return np.asarray(np.log(np.maximum(fits.proportions.reshape(len(fits.proper), -1), _FLOOR)) @ self._reading)

    def at(self, values: FloatArray, tables: FloatArray, fits: TableFits) -> TableFits:
        """The fit of tables (B, *sizes), which the whole model fits by ``fits``, with the coefficient at ``values`` (B,)."""
        n = tables.sum(axis=self.kernel.axes)
        moved = self._moved(values, fits)
        start = TableFits(moved, self._expected(moved), fits.proper)
        return self._likeliest(tables / n.reshape(-1, *(1,) * (tables.ndim - 1)), n, start)

    def _moved(self, values: FloatArray, fits: TableFits) -> FloatArray:
        """Tables with the coefficient at these values and the other columns' expectations as they were."""
        b = values.size
        flat = self.columns.reshape(len(self.columns), -1)
        shares = fits.proportions.reshape(b, -1)
        wanted = shares @ flat.T
        logs = np.log(np.maximum(shares, _FLOOR)) + (values - self.estimated(fits))[:, None] * self.column.reshape(
            1, -1
        )
        for _ in range(_STEPS):
            shares = _proportions(logs)
            missed = wanted - shares @ flat.T
            if np.abs(missed).max(initial=0.0) <= _NEAR:
                break
            centred = flat[None] - (shares @ flat.T)[:, :, None]
            information = (centred * shares[:, None, :]) @ np.swapaxes(centred, 1, 2)
            step = scaled_solve(information, missed[:, :, None])[:, :, 0] @ flat
            step = step - np.sum(step * shares, axis=1, keepdims=True)
            logs = logs + step * np.minimum(1.0, _LONGEST / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-300))
        return _proportions(logs).reshape(fits.proportions.shape)

    def error(self, tables: FloatArray, fits: TableFits) -> float:
        """Standard error of the coefficient of the first table, from the information at its fit."""
        first = TableFits(fits.proportions[:1], fits.expected[:1], fits.proper[:1])
        weights = ModelTest("coefficient", self, self.column).influence(first)[0, 0]
        information = float(tables[0].sum() * np.sum(weights**2 * first.expected.ravel()))
        return float(min(1 / np.sqrt(max(information, np.finfo(np.float64).tiny)), _LARGEST_ERROR))

    def deviations(self, values: FloatArray, tables: FloatArray, fits: TableFits) -> FloatArray:
        """How many standard deviations the score for the coefficient lies above 0 where it is at ``values``, (B,)."""
        b = values.size
        pinned = self.at(values, tables, fits)
        weights = ModelTest("coefficient", self, self.column).influence(pinned)[:, 0]
        lam = pinned.expected.reshape(b, -1)
        n = tables.sum(axis=self.kernel.axes)
        distance = tables.reshape(b, -1) / n[:, None] - lam
        return np.asarray(np.sqrt(n) * np.sum(weights * distance, axis=1) / np.sqrt(np.sum(weights**2 * lam, axis=1)))


def _proportions(logs: FloatArray) -> FloatArray:
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def affordable(terms: Terms) -> bool:
    """Whether the intervals of a model's coefficients end in about ten seconds."""
    return terms.parameters**3 * prod(map(int, terms.domain.sizes)) <= _MOST_WORK


def coefficient_intervals(model: NullModel, table: FloatArray, estimates: FloatArray, confidence: float) -> FloatArray:
    """Limits of every coefficient, (p, 2), for a table of counts; infinite where the records leave none on that side.

    They hold the ``estimates`` (p,), infinite ones too, and end where values are first rejected on the way out. The score test
    may accept values beyond that again, where cells are nearly 0 and hardly move its score; the likelihood rejects nearly all.
    """
    tables, quantile = table[None].astype(np.float64), float(norm.isf((1 - confidence) / 2))
    fits = model.fitted(tables)
    out = np.empty((model.terms.parameters, 2))
    for k, estimate in enumerate(estimates):
        pinned = PinnedModel(model.terms, model.kernel, model.parts, k)

        @cache
        def deviation(value: float, pinned: PinnedModel = pinned) -> float:
            return float(pinned.deviations(np.array([value]), tables, fits)[0])

        start, error = float(pinned.estimated(fits)[0]), pinned.error(tables, fits)
        middle = _middle(deviation, start, error, quantile)
        low, high = (_limit(deviation, middle, side * error, quantile) for side in (-1, 1))
        # an estimate without a limit is NaN, and moves no end
        out[k] = np.fmin(low, estimate), np.fmax(high, estimate)
    return out


def _middle(deviation: Callable[[float], float], start: float, error: float, quantile: float) -> float:
    """A value near the estimate at which the score is 0. Scores fall as values rise.

    Where it stays on one side of 0 however far the value is, the estimate is infinite: the value of the least score, if that is
    not rejected, and the estimate's otherwise.
    """
    start = float(np.clip(start, -_FARTHEST, _FARTHEST))
    side = copysign(1.0, deviation(start))
    middle = invert(lambda value: side * deviation(value), start, side * error, side * _FARTHEST)
    if isfinite(middle):
        return middle
    points = outward(start, side * error, GROWTH, side * _FARTHEST)
    least = min(points, key=lambda value: abs(deviation(value)))
    return least if abs(deviation(least)) < quantile else start


def _limit(deviation: Callable[[float], float], middle: float, error: float, quantile: float) -> float:
    """Where values, on the way in the direction of ``error``, are first rejected."""
    side = copysign(1.0, error)

    def excess(value: float) -> float:
        return quantile + side * deviation(value)

    if excess(middle) <= 0:
        return middle
    return invert(excess, middle, _FIRST * error, side * _FARTHEST, precision=LIMIT / _FIRST)
