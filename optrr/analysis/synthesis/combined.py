"""Estimates from several synthetic data sets, combined, with intervals that count the error of randomization.

Each of m sets is drawn from a separate law, which differs from the fitted law as that does from the truth
(:mod:`optrr.analysis.synthesis.laws`). The estimate of a number Q from set l is q_l = Q + e + e_l + s_l: e is the error
of the fitted law, which all sets share, e_l that of the set's own law, both of variance U, and s_l that of drawing
records, of variance S. With q̄ the mean and b = Σ(q_l − q̄)²/(m − 1),

    E b = U + S,      Var(q̄ − Q) = U + (U + S)/m,

so that the variance is estimated without bias by T = (1 + 1/m) b − S. U counts the sampling of the people and the
randomization of their answers. For sets that are random samples S is the mean v̄ of the sets' own squared errors, the rule for
fully synthetic data (Raghunathan, Reiter & Rubin, J. Off. Stat. 19, 2003), whose T may be negative. Here sets are systematic
samples of their laws (:func:`optrr.analysis.synthesis.laws.drawn`): S is next to 0, and

    T = (1 + 1/m) b,      (q̄ − Q)/√T ~ t with m − 1 degrees of freedom,

which is never negative, and is conservative by S. The rule for partially synthetic data (Reiter, Surv. Methodol. 29,
2003), T = v̄ + b/m, does not hold: v̄ is the variance for as many true answers. So the sets' own errors are not used.
`benchmarks/results/synthesis.md` has the coverage of each rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from optrr.core.display import TableResult, amount, arrow_rows, intervals_said
from optrr.core.errors import InvalidInput
from optrr.core.estimation import check_confidence, norm, t
from optrr.core.records import open_source
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBERS = ("estimate", "standard_error", "lower", "upper")


@dataclass(frozen=True)
class CombinedEstimate:
    """A number from all sets: their mean, its standard error and interval."""

    parameter: str
    estimate: float
    standard_error: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False, repr=False)
class Combined(TableResult):
    """Estimates combined over several synthetic data sets.

    ``rows`` have intervals at ``confidence``.
    """

    rows: tuple[CombinedEstimate, ...]
    sets: int
    confidence: float

    in_summary = ("sets", "df", "confidence", "rows", "warnings")

    @property
    def df(self) -> int:
        """Degrees of freedom of the intervals."""
        return self.sets - 1

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the reader."""
        wide = f"{amount(self.sets, 'set')} make intervals {self._wider:.0%} wider than many sets would; draw 20"
        alike = [row.parameter for row in self.rows if isnan(row.standard_error)]
        same = (
            f"all sets have the same estimate of {', '.join(alike)}, which shows no error; give the sets of one draw "
            "with sets=20, not "
            "one set several times, and combine estimates that differ"
        )
        return (*((wide,) if self._wider > _WIDE else ()), *((same,) if alike else ()))

    @property
    def _wider(self) -> float:
        tail = (1 - self.confidence) / 2
        return float(sqrt(1 + 1 / self.sets) * t.isf(tail, self.df) / norm.isf(tail)) - 1

    def headline(self) -> str:
        """Summarize the numbers and the data sets."""
        return f"{amount(len(self.rows), 'estimate')} from {amount(self.sets, 'synthetic set')}, combined"

    def sentences(self) -> Sequence[str]:
        """Explain the intervals."""
        return [f"{intervals_said(self.confidence)}, which count the error of randomization"]

    def to_arrow(self) -> "pa.Table":
        """Convert to a table with one row per number."""
        return arrow_rows(self.rows, ("parameter",), _NUMBERS)

    def _axis(self) -> tuple[str, float | None]:
        return f"estimate, {intervals_said(self.confidence)}", None


# Intervals this much wider than with many sets are worth a word.
_WIDE = 0.25


def combine(estimates: Any, *, confidence: float = 0.95) -> Combined:
    """Combine estimates from several synthetic data sets.

    Each number gets one estimate and interval.

    The sets must be those of one :func:`optrr.analysis.synthesize` with ``sets``; the intervals then count the sampling of the
    people, the randomization of their answers, and the drawing of the sets.

    Parameters
    ----------
    estimates
        Estimates of each set in turn: (m,) numbers, (m, k) arrays, or m mappings or series by parameter; or a frame
        with a row a set.
    confidence
        Confidence of the intervals.

    Raises
    ------
    InvalidInput
        for fewer than two sets, sets that disagree on the parameters, or a number that is not finite.

    A number that is the same in all sets has no error and no interval, and a warning states this.
    """
    check_confidence(confidence)
    names, values = _table(estimates)
    if len(values) < 2:
        raise InvalidInput(
            "one synthetic set does not show how far it may be from the truth; draw several, with sets=20, and give "
            "the "
            "estimates of each"
        )
    _check_finite(names, values)
    m, tail = len(values), (1 - confidence) / 2
    middle = values.mean(axis=0)
    error = np.sqrt((1 + 1 / m) * values.var(axis=0, ddof=1))
    # equal sets show no error, as one set that is given several times does
    error = np.where(np.ptp(values, axis=0) > 0, error, nan)
    half = float(t.isf(tail, m - 1)) * error
    rows = zip(names, middle, error, middle - half, middle + half, strict=True)
    return Combined(tuple(CombinedEstimate(name, *map(float, row)) for name, *row in rows), m, confidence)


_PARAMETER, _ESTIMATE = "parameter", "estimate"


def read_estimates(place: Any) -> list[dict[str, float]]:
    """Read each set's estimates by parameter.

    Records have the columns parameter and estimate, with the sets in the same order.

    Raises InvalidInput for missing columns, values that are not numbers, and parameters with different numbers of
    estimates.
    """
    source = open_source(place)
    absent = [name for name in (_PARAMETER, _ESTIMATE) if name not in source.column_names()]
    if absent:
        raise InvalidInput(
            f"{place}: no column {absent[0]!r}; give the columns parameter and estimate, a row for each set"
        )
    found: dict[str, list[float]] = {}
    for batch in source.batches([_PARAMETER, _ESTIMATE]):
        columns = (batch.column(name).to_pylist() for name in (_PARAMETER, _ESTIMATE))
        for parameter, value in zip(*columns, strict=True):
            try:
                found.setdefault(str(parameter), []).append(float(str(value)))
            except ValueError:
                raise InvalidInput(
                    f"{place}: {value!r} in the column {_ESTIMATE!r} is not a number; correct it"
                ) from None
    sets = {len(values) for values in found.values()}
    if len(sets) != 1:
        said = ", ".join(f"{name} {len(values)}" for name, values in found.items()) or "none"
        raise InvalidInput(f"{place}: estimates of {said}; give as many of every parameter, one for each set")
    return [{name: values[k] for name, values in found.items()} for k in range(*sets)]


def _table(given: Any) -> tuple[tuple[str, ...], FloatArray]:
    """Return names of the parameters (k,) and estimates (m, k)."""
    if hasattr(given, "columns") and hasattr(given, "to_numpy"):
        return tuple(map(str, given.columns)), _numbers(given.to_numpy())
    rows = list(given) if np.iterable(given) else []
    if rows and all(hasattr(row, "keys") for row in rows):
        keys = [tuple(row.keys()) for row in rows]
        odd = next((k for k, each in enumerate(keys) if each != keys[0]), None)
        if odd is not None:
            raise InvalidInput(
                f"the estimates of set {odd + 1} are of {', '.join(map(str, keys[odd]))}, those of set 1 of "
                f"{', '.join(map(str, keys[0]))}; give the same parameters of every set, in one order"
            )
        return tuple(map(str, keys[0])), _numbers([[row[key] for key in keys[0]] for row in rows])
    values = _numbers(rows)
    if values.ndim == 1:
        values = values[:, None]
    return tuple(f"number {k + 1}" for k in range(values.shape[1])), values


def _numbers(given: ArrayLike) -> FloatArray:
    try:
        out = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("the estimates are not numbers of one shape for each set; give (m, k) numbers") from None
    if out.ndim not in (1, 2) or not out.size:
        raise InvalidInput(f"the estimates have shape {out.shape}; give one row of numbers for each set")
    return out


def _check_finite(names: Sequence[str], values: FloatArray) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if bad.size:
        row, column = bad[0]
        raise InvalidInput(
            f"the estimate of {names[column]} in set {row + 1} is not a finite number, as where a set has an empty cell; "
            "combine estimates that every set has, or name fewer attributes, or collect more records"
        )
