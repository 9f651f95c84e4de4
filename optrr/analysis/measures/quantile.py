"""Quantiles of an attribute whose categories have an order, by inverting the test of its distribution function (theory §4.5).

The q-quantile is at value u if the proportion of people below u is at most q and the proportion up to u at least q. The
test of F = q is that of every measure (:mod:`optrr.analysis.measures.quantities`), without the delta method's division
by the density, which noise may leave near 0: the lower limit is the smallest value u with F(u) not significantly below
q, the upper one the largest with F(just below u) not significantly above. Each errs with probability (1 − confidence)/2
at most, however many values there are: the lower limit is above the quantile only if the one test at the quantile
rejects (Woodruff, JASA 47, 1952, with that test in place of his normal one).

Categories that are numbers, have scores or are only ordered are the values themselves, so that coverage is above the
confidence, because F jumps. Within a bin numbers are assumed to be spread evenly; between edges F(t) is a weighted sum
of proportions, and the limits are continuous. An outer bin without an edge has no such distribution: a limit there is
infinite, or the bin's only edge.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan

import numpy as np
from numpy.typing import ArrayLike

from optrr.analysis.measures import quantities
from optrr.analysis.measures.measure import Measures, Row
from optrr.analysis.measures.quantities import Inversion
from optrr.analysis.measures.subgroups import Among, Kept, check_work, complete_where
from optrr.core.domain import Attribute, checked_scores, has_numbers
from optrr.core.errors import InvalidInput
from optrr.core.estimation import EstimatedTable, check_confidence, check_records, projection
from optrr_solvers.arrays import FloatArray

SPREAD = "numbers are taken to be spread evenly within each bin"


@dataclass(frozen=True, eq=False)
class Scale:
    """Ascending ``values`` of an attribute with r categories, and F at each.

    ``below`` (V, r): row j marks the categories up to value j. Where ``even``, values are edges and F is linear between them.
    """

    values: FloatArray
    below: FloatArray
    even: bool

    @staticmethod
    def of(attribute: Attribute, scores: ArrayLike | None) -> "Scale":
        """Build the scale from scores, or from the edges of numeric bins.

        Raises InvalidInput if the categories have no order.
        """
        bins = attribute.bins
        if scores is None and bins is not None and not bins.of_dates:
            edges = np.array([float(e) for e in bins.edges])  # type: ignore[arg-type]  # no dates
            return Scale(edges, np.tri(edges.size, attribute.size, -1), True)
        if scores is None and not (attribute.ordered or has_numbers(attribute)):
            raise InvalidInput(
                f"the categories of {attribute.name!r} have no order, and quantiles need one; declare it ordered, or give "
                "scores"
            )
        given = checked_scores(attribute, scores)
        values = np.unique(given)
        return Scale(values, (given <= values[:, None]).astype(np.float64), False)

    def up_to(self, t: float) -> FloatArray:
        """Compute how much of each category counts in F(t), (r,)."""
        j = int(np.searchsorted(self.values, t))
        # at an edge, which may be infinite, nothing is divided
        if not self.even or self.values[j] == t:
            return np.asarray(self.below[j])
        share = (t - self.values[j - 1]) / (self.values[j] - self.values[j - 1])
        return np.asarray(self.below[j - 1] + share * (self.below[j] - self.below[j - 1]))

    def at(self, table: FloatArray, q: float) -> float:
        """Compute the q-quantile of a distribution (r,); NaN in a bin without an edge."""
        shares = self.below @ table
        j = min(int(np.searchsorted(shares, q)), shares.size - 1)
        if not self.even:
            return float(self.values[j])
        j = max(j, 1)
        low, high = self.values[j - 1], self.values[j]
        if not isfinite(low) or not isfinite(high):
            return nan
        return float(low + (high - low) * np.clip((q - shares[j - 1]) / (shares[j] - shares[j - 1]), 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class _DistributionTests:
    """F at every value of a scale, tested on one table of reports."""

    scale: Scale
    kept: Kept
    table: EstimatedTable

    def excess(self, t: float, q: float, tail: float, side: int) -> float:
        """Compute the tail probability at F(t) = q less ``tail``.

        The probability of an estimate as high (side 0) or as low (side 1) as the one observed.

        Over its part of the error probability, twice ``tail`` (:meth:`optrr.analysis.measures.quantities.Inversion.excesses`).
        """
        inside = self.scale.up_to(t)
        if not inside.any() or (inside.all() and inside.min() == 1):
            # F is 0 or 1 for all records, and is not tested
            return float((side == 0) == (not inside.any())) - tail
        odds = self.kept.odds(quantities.share(inside, 1 - inside))
        return Inversion.of(odds, self.table.sampling, self.table.observed.ravel()).excesses(q, tail)[side]

    def limits(self, q: float, tail: float) -> tuple[float, float]:
        """Find the smallest and largest values not rejected as the q-quantile.

        Where noise hides the group itself, tests of different values may contradict each other, and then exclude nothing.
        """
        values = self.scale.values
        if self.scale.even:
            first = next(j for j in range(1, values.size) if self.excess(values[j], q, tail, 1) >= 0)
            last = next(j for j in range(values.size - 2, -1, -1) if self.excess(values[j], q, tail, 0) >= 0)
            lower, upper = self._within(first - 1, q, tail, 1), self._within(last, q, tail, 0)
        else:
            lower = float(next(t for t in values if self.excess(t, q, tail, 1) >= 0))
            below = zip(values[:0:-1], values[-2::-1], strict=True)
            upper = float(next((t for t, before in below if self.excess(before, q, tail, 0) >= 0), values[0]))
        return (lower, upper) if lower <= upper else (float(values[0]), float(values[-1]))

    def _within(self, j: int, q: float, tail: float, side: int) -> float:
        """Find the limit in bin j, of which one edge is rejected."""
        from scipy.optimize import brentq  # noqa: PLC0415 (slow to import, and tables need none of it)

        low, high = self.scale.values[j : j + 2]
        if not isfinite(low) or not isfinite(high):
            return float(low if side else high)

        def excess(t: float) -> float:
            return self.excess(t, q, tail, side)

        if excess(low if side else high) >= 0:
            return float(low if side else high)
        return float(brentq(excess, low, high, xtol=_PRECISION * (high - low)))


# Precision of limits within a bin, relative to its width.
_PRECISION = 1e-4


def quantiles(  # noqa: PLR0913 (each argument is one question a user answers)
    table: EstimatedTable,
    probabilities: float | Sequence[float] = 0.5,
    *,
    where: Among | None = None,
    scores: ArrayLike | None = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> Measures:
    """Estimate quantiles of the first attribute with intervals by test inversion.

    The target is the population.

    Raises InvalidInput for a restriction by the attribute itself, categories without order, probabilities outside 0..1, and
    what :func:`optrr.analysis.measures.measure` refuses.

    Parameters
    ----------
    table
        Table of the attribute, then of those that only define the subgroup.
    probabilities
        Probabilities of the quantiles, strictly between 0 and 1; the median unless given.
    where
        True categories of the subgroup, by other attribute. A missing value has no quantile: where the attribute
        declares one, it is left out, and the result states this.
    scores
        values of the kept categories; the edges of bins, the categories' own numbers or their positions unless given.
    """
    check_confidence(confidence)
    check_records(table.n)
    wanted = [float(q) for q in np.atleast_1d(np.asarray(probabilities, dtype=np.float64))]
    wrong = [q for q in wanted if not 0 < q < 1]
    if wrong or not wanted:
        raise InvalidInput(f"``probabilities``: {wrong or 'none is given'}; give numbers between 0 and 1, such as 0.5")
    outcome, given = table.domain.attributes[0], dict(where or {})
    if outcome.name in given:
        # its own categories restricted would be another scale, and who did not answer has no place on any
        raise InvalidInput(
            f"``where``: quantiles of {outcome.name!r} are of all its categories; restrict by other attributes"
        )
    if None in outcome.codes:
        given = dict(complete_where(table.domain.subset(outcome.name), given))
    kept = Kept.of(table.domain, given, [outcome.name])
    check_work(1, table.domain)
    left = kept.domain.attributes[0]
    scale = Scale.of(left, scores)
    table.kernel.check_invertible()
    cells = kept.totals(table.kernel.solve(table.observed))
    near = projection(cells / cells.sum()) if cells.sum() > 0 else np.full(cells.shape, 1 / cells.size)
    tested, tail = _DistributionTests(scale, kept, table), (1 - confidence) / 2 / (len(wanted) if simultaneous else 1)
    rows = tuple(_row(left, tested, near, q, tail) for q in wanted)
    nothing = (
        "the records have no information on the quantile {}; collect more, or give the attributes a larger epsilon"
    )
    return Measures(
        statistic="quantile",
        attributes=(left.name,),
        n=table.n,
        confidence=confidence,
        simultaneous=simultaneous,
        rows=rows,
        warnings=(
            *(
                nothing.format(row.outcome)
                for row in rows
                if (row.lower, row.upper) == (scale.values[0], scale.values[-1]) and scale.values.size > 1
            ),
            *table.notes,
        ),
        scores=None if scale.even else tuple(checked_scores(left, scores).tolist()),
        where=kept.texts,
        note=SPREAD if scale.even else "",
        sample=table.sample,
    )


def _row(attribute: Attribute, tested: _DistributionTests, near: FloatArray, q: float, tail: float) -> Row:
    scale, (lower, upper) = tested.scale, tested.limits(q, tail)
    whole = (lower, upper) == (scale.values[0], scale.values[-1])
    middle = nan if whole else scale.at(near, q)
    estimate = middle if np.isnan(middle) else min(max(middle, lower), upper)
    return Row(outcome=f"{q:g}", estimate=estimate, standard_error=nan, lower=lower, upper=upper)
