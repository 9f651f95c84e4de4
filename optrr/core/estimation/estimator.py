"""Estimation of the proportions of true records from counts of randomized ones, by any of the methods.

    unbiased     π̂ = (Pᵀ)⁻¹ λ̂ (RVL eq. 17, MDR eq. 2); for independent RR RIJ's RR-Ind-Joint (Algorithm 3)
    norm-sub     its Euclidean projection, where Norm-Sub's steps end
    projection   the same
    clip         negatives to 0, rescaled (MDR §6.4)
    mle          maximum likelihood: closed form for one attribute, `ibu` for joints
    ibu          iterative Bayesian update (EM), finished by Newton's method or L-BFGS-B
    adjusted     RR-Adjustment (MDR Algorithm 2) on the distinct records

Intervals are the same for all methods, with one exception. A test by the unbiased estimate, inverted, covers the truth as often
as it says (:mod:`optrr.core.estimation.score_interval`); where another method's estimate lies outside, the interval is moved
outwards to it, which can only make it cover more.

RR-Adjustment of a whole file starts from its records, because the weights depend on all attributes and on which of them
were randomized together. Its associations stay attenuated as in the randomized records.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from optrr.core.display.charts import figure_svg
from optrr.core.display.pages import CHARTED, ROWS
from optrr.core.display.parts import Chart, Part
from optrr.core.display.result import intervals_said
from optrr.core.display.text import crossed
from optrr.core.domain.domain import CellsResult, Domain
from optrr.core.errors import InvalidInput, TooFewRecords
from optrr.core.estimation import plausibility, simplex
from optrr.core.estimation.adjustment import adjust_to_estimates, margin_groups
from optrr.core.estimation.score_interval import binomial, cell_intervals
from optrr.core.estimation.simplex import Convergence, FittedTable
from optrr.core.estimation.table import EstimatedTable, counted_table
from optrr.core.mechanisms.kernel import MatrixKernel, SingularMarginal
from optrr.core.mechanisms.mechanism import Randomizer, checked_mechanism
from optrr.core.records.counts import Counts, distinct
from optrr.core.records.reading.registry import origins_of
from optrr_solvers.arrays import FloatArray

# Target of the intervals: the population of which the records are a sample, or exactly these records.
Target = Literal["population", "data"]


def check_confidence(confidence: float) -> None:
    """Raise InvalidInput for a confidence that no interval can have."""
    if not 0 < confidence < 1:
        raise InvalidInput(f"``confidence``: {confidence}; give a number above 0 and below 1, such as 0.95")


def check_records(n: int) -> None:
    """Raise InvalidInput if there are too few records for standard errors."""
    if n < 2:
        raise TooFewRecords(f"{n} {'record has' if n == 1 else 'records have'} no standard error; count at least 2")


# Cells of a shaded table on a page.
_SHADED = 400


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(CellsResult):
    """Estimated proportions of one table from ``n`` records.

    Arrays have the shape of the ``domain``'s sizes.

    ``standard_error`` is the unbiased estimate's; NaN if a cell cannot be estimated without bias, or all reports
    with information on it are equal. ``lower`` and ``upper`` are the ends of each cell's interval, within [0, 1], at
    ``confidence`` for that cell alone, or for all of them together where ``simultaneous``, for the ``target``. They are
    those of the unbiased estimate (:mod:`optrr.core.estimation.score_interval`), whatever the method, moved outwards to
    contain ``estimate``; NaN if ``interval`` is "none". ``bias`` is one sentence on that of the method, and
    ``convergence`` None if nothing iterates.
    """

    domain: Domain
    n: int
    method: str
    estimate: FloatArray
    standard_error: FloatArray
    lower: FloatArray
    upper: FloatArray
    confidence: float
    interval: Literal["score", "none"]
    bias: str
    target: Target = "population"
    simultaneous: bool = False
    convergence: Convergence | None = None
    warnings: tuple[str, ...] = ()

    in_cells: ClassVar[tuple[str, ...]] = ("estimate", "standard_error", "lower", "upper")
    in_summary: ClassVar[tuple[str, ...]] = (
        *("n", "confidence", "method", "target", "interval", "interval_note", "simultaneous", "errors", "bias"),
        *("convergence", "warnings"),
    )

    @property
    def counts(self) -> FloatArray:
        """Estimated counts n π̂, same shape."""
        return self.n * self.estimate

    @property
    def errors(self) -> Literal["unbiased", "none"]:
        """Name of the estimator whose standard errors are given."""
        return "none" if self.interval == "none" else "unbiased"

    @property
    def method_note(self) -> str:
        """One sentence on the method and its bias."""
        return f"method {self.method}: {self.bias.removeprefix(f'{self.method}; ')}"

    @property
    def interval_note(self) -> str:
        """One sentence on the coverage and the method of the intervals."""
        if self.interval == "none":
            return "no intervals"
        covered = "the table's population" if self.target == "population" else "exactly these records"
        each = f"all {self.estimate.size} cells together" if self.simultaneous else "each cell alone"
        said = (
            f"intervals for {covered}, {100 * self.confidence:g}% for {each}, by inverting a test of every proportion"
        )
        if self.method == "unbiased":
            return said
        return f"{said} with the unbiased estimate, moved outwards where the {self.method} estimate lies beyond"

    def marginal(self, names: str | Iterable[str]) -> FloatArray:
        """Sum the proportions to these attributes, axes in the order given."""
        chosen = self.domain.indices(names)
        rest = tuple(i for i in range(self.domain.m) if i not in chosen)
        return np.transpose(self.estimate.sum(axis=rest), np.argsort(np.argsort(chosen)))

    def projected(self) -> "Estimate":
        """Project the proportions (`norm-sub`), and move the intervals outwards to contain them."""
        shares = simplex.projection(self.estimate.ravel()).reshape(self.estimate.shape)
        lower, upper = np.minimum(self.lower, shares), np.maximum(self.upper, shares)
        return replace(self, method="projection", bias=_PROJECTED, estimate=shares, lower=lower, upper=upper)

    def headline(self) -> str:
        """Summarize the table, the records and the method."""
        return f"{crossed(self.domain.names)} of {self.n} records, method {self.method}"

    def sentences(self) -> list[str]:
        """Explain the method's bias and the intervals."""
        return [self.method_note, self.interval_note]

    def page_parts(self, counts: Counts | None = None) -> list[Part]:
        """List the chart and the table, with randomized ``counts`` if given."""
        shown, m = self.shown(), self.domain.m
        heads, rows = shown.columns, shown.rows
        if counts is not None:
            heads = [*heads[:m], "randomized reports", *heads[m:]]
            tallies = counts.table.ravel().tolist()
            rows = [[*row[:m], reports, *row[m:]] for row, reports in zip(rows, tallies, strict=True)]
        note = f"Proportions of the true answers; {self.interval_note}."
        table = replace(shown, columns=heads, rows=rows, note=note).first(ROWS)
        if self.estimate.size > (_SHADED if m == 2 else CHARTED) or self.interval == "none":
            return [table]
        of = crossed(self.domain.names)
        said = f"Estimated proportions of {of} with {100 * self.confidence:g}% intervals, as in the table"
        return [Chart(figure_svg(self.plot()), description=said), table]

    def _axis(self) -> tuple[str, None]:
        return f"proportion, {intervals_said(self.confidence, self.simultaneous)}", None


def around_unbiased(  # noqa: PLR0913 (what an estimate is made of)
    table: EstimatedTable,
    fitted: FittedTable,
    *,
    method: str,
    bias: str,
    confidence: float,
    simultaneous: bool,
    target: Target = "population",
    warnings: tuple[str, ...] = (),
) -> Estimate:
    """Combine a fitted table with the unbiased estimate's errors and intervals.

    Warns if the table has no standard errors.

    The fields of :class:`Estimate` are as there.
    """
    kernel, observed, n = table.kernel, table.observed, table.n
    unknown = np.full(fitted.proportions.shape, np.nan)
    plain = Estimate(
        domain=table.domain,
        n=n,
        method=method,
        estimate=fitted.proportions,
        standard_error=unknown,
        lower=unknown,
        upper=unknown,
        confidence=confidence,
        interval="none",
        bias=bias,
        target=target,
        simultaneous=simultaneous,
        convergence=fitted.convergence,
        warnings=warnings,
    )
    fixed = target == "data"
    try:
        variances = (kernel.data_variance if fixed else kernel.variance)(observed, n)
    except SingularMarginal as reason:
        warning = f"no standard errors, and the table is not identified by the data alone: {reason}"
        return replace(plain, warnings=(warning, *warnings))
    level = (1 - confidence) / (kernel.cells if simultaneous else 1)
    low, high = (end.reshape(unknown.shape) for end in cell_intervals(kernel, observed, n, level, fixed))
    inside = np.clip(fitted.proportions, 0.0, 1.0)
    # all reports with information on a cell are equal here, so they show no variance, although there is one
    alike = np.full(unknown.shape, False) if fixed else variances * (n - 1) <= kernel.rounding(observed)
    return replace(
        plain,
        standard_error=np.where(alike, np.nan, np.sqrt(variances)),
        lower=np.minimum(low, inside),
        upper=np.maximum(high, inside),
        interval="score",
        warnings=(*without_error(alike, "the reports with information on them are"), *warnings),
    )


def without_error(alike: NDArray[np.bool_], what: str) -> tuple[str, ...]:
    """Warn of cells whose reports are all alike."""
    if not alike.any():
        return ()
    cells = f"{np.count_nonzero(alike)} of {alike.size} cells"
    return (f"{cells} have no standard error: {what} all equal; count more records",)


Method = Literal["unbiased", "norm-sub", "clip", "projection", "mle", "ibu", "adjusted"]
METHODS: tuple[str, ...] = get_args(Method)

_PROJECTED = "biased upwards in small cells and downwards in large ones, less and less as the number of records grows"
BIAS = {
    "unbiased": "unbiased; cells may be negative",
    "norm-sub": _PROJECTED,
    "projection": _PROJECTED,
    "clip": _PROJECTED + "; rescaling shrinks every positive cell in proportion",
    "mle": "biased where cells are at or near 0, less and less as the number of records grows",
    "ibu": "biased where cells are at or near 0, less and less as the number of records grows",
    "adjusted": (
        "margins as for clip; associations stay attenuated as in the randomized records, for any number of records: "
        "use another method for associations"
    ),
}

# Updates on a joint too large for Newton: 10^6 cells take about 0.2 s each, and about 900 of them.
_LARGE_ITERATIONS = 2000
# The tolerance for those joints: over all records a tenth of a nat, which no test can distinguish from the best fit.
_LARGE_TOLERANCE = 0.1


Fitter = Callable[[EstimatedTable], FittedTable]


def _simplex(made_proper: Callable[[FloatArray], FloatArray]) -> Fitter:
    """Build the fitter that projects the unbiased table by this function."""

    def method(data: EstimatedTable) -> FittedTable:
        raw = data.kernel.solve(data.observed)
        return FittedTable(made_proper(raw.ravel()).reshape(raw.shape))

    return method


def _ibu(data: EstimatedTable) -> FittedTable:
    from optrr.core.estimation import likelihood  # noqa: PLC0415 (brings optimizers, which take long to import)

    if data.kernel.cells > likelihood.MAX_NEWTON:
        return likelihood.ibu(data.observed, data.kernel, _LARGE_TOLERANCE / data.n, _LARGE_ITERATIONS, data.n)
    return likelihood.ibu(data.observed, data.kernel, n=data.n)


def _mle(data: EstimatedTable) -> FittedTable:
    from optrr.core.estimation import likelihood  # noqa: PLC0415 (as above)

    chances = data.kernel.own_and_other
    # of one attribute whose other categories are all as likely
    if chances is not None and np.size(chances[1]) == 1 and chances[0] > chances[1]:
        data.kernel.check_invertible()
        return FittedTable(likelihood.closed_form(data.observed, float(chances[1])))
    return _ibu(data)


def _adjusted(mechanism: Randomizer, domain: Domain) -> Fitter:
    """Build the fitter of RR-Adjustment to jointly randomized attributes."""
    groups = margin_groups(mechanism, domain)

    def method(data: EstimatedTable) -> FittedTable:
        seen = np.argwhere(data.observed > 0)
        fitted = adjust_to_estimates(seen, data.observed[data.observed > 0], groups)
        out = np.zeros_like(data.observed)
        out[tuple(seen.T)] = fitted.weights
        return FittedTable(out, fitted.convergence)

    return method


# All but "adjusted", which must know the jointly randomized sets.
_FITTERS: dict[str, Fitter] = {
    "unbiased": lambda data: FittedTable(data.kernel.solve(data.observed)),
    "norm-sub": _simplex(simplex.projection),
    "clip": _simplex(simplex.clip),
    "projection": _simplex(simplex.projection),
    "mle": _mle,
    "ibu": _ibu,
}


def estimate(  # noqa: PLR0913 (public: each argument is one choice of the user)
    counts: Counts,
    mechanism: Randomizer,
    *,
    method: str = "unbiased",
    confidence: float = 0.95,
    target: Target = "population",
    simultaneous: bool = False,
) -> Estimate:
    """Estimate proportions of the true records for the counts' attributes.

    Raises InvalidInput for an unknown method, counts of another domain, or too few records. SingularMarginal if the
    mechanism hides an effect of the attribute set and the method needs it; `ibu` and `adjusted` do not, and say so.

    Parameters
    ----------
    counts
        Counts of randomized records over any attributes of the mechanism; at least 2 records.
    mechanism
        Mechanism that randomized the records, or any object with a ``domain`` and a ``kernel(names)``.
    method
        one of `METHODS`.
    confidence
        Confidence of each cell's interval, above 0 and below 1.
    target
        "population" (the records are a sample) or "data" (exactly these records).
    simultaneous
        intervals with that confidence jointly, by Bonferroni's inequality, instead of each alone.

    Examples
    --------
    >>> import numpy as np, optrr
    >>> design = optrr.design({"sex": ["F", "M"]}, 1.0)
    >>> counts = optrr.Counts(design.domain, np.array([520, 480]))  # of randomized records
    >>> optrr.estimate(counts, design.mechanism).to_pandas()["estimate"].round(3).tolist()
    [0.543, 0.457]
    """
    if method not in METHODS:
        raise InvalidInput(f"``method``: {method!r} is unknown; choose among {', '.join(METHODS)}")
    check_confidence(confidence)
    if target not in ("population", "data"):
        raise InvalidInput(f"target = {target!r}; give 'population' or 'data'")
    data = counted_table(counts, mechanism)
    check_records(data.n)
    fit = _adjusted(mechanism, data.domain) if method == "adjusted" else _FITTERS[method]
    warnings: tuple[str, ...] = ()
    if method == "adjusted" and data.domain.m < mechanism.domain.m:
        warnings = (
            f"adjusted to the margins of {', '.join(data.domain.names)} alone; estimate_adjusted(data, …) uses those of all "
            f"{mechanism.domain.m} attributes, as MDR's Algorithm 2 does",
        )
    return around_unbiased(
        data,
        fit(data),
        method=method,
        bias=BIAS[method],
        confidence=confidence,
        simultaneous=simultaneous,
        target=target,
        warnings=warnings,
    )


# The most rounds of reweighting: many more than estimates with sampling error need.
ADJUSTMENT_ROUNDS = 200


def estimate_adjusted(
    data: Any,
    mechanism: Randomizer,
    attributes: str | Iterable[str],
    *,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> Estimate:
    """Estimate a table from the adjusted records of a file.

    Axes are in the order given.

    Raises InvalidInput for unknown attributes, categories that are not declared, or fewer than two records. SingularMarginal
    where the mechanism hides an attribute or a cluster.

    Parameters
    ----------
    data
        randomized records over all attributes of the mechanism: whatever `count` takes, further columns allowed.
    mechanism
        Mechanism that randomized the records. Attributes of one cluster are adjusted to the cluster's table, others one
        by one.
    """
    check_confidence(confidence)
    domain = checked_mechanism(mechanism).domain
    chosen = domain.indices(attributes)
    origins = tuple(origins_of(data))
    rows, numbers = distinct(data, domain, allow_extra=True)
    check_records(int(numbers.sum()))
    fitted = adjust_to_estimates(rows, numbers.astype(np.float64), margin_groups(mechanism, domain), ADJUSTMENT_ROUNDS)
    asked = domain.subset([domain.names[i] for i in chosen])
    sizes = tuple(int(r) for r in asked.sizes)
    cells = np.ravel_multi_index(tuple(rows[:, list(chosen)].T), sizes)

    def table(of: Any) -> Any:
        return np.bincount(cells, weights=of, minlength=prod(sizes)).reshape(sizes)

    return around_unbiased(
        counted_table(Counts(asked, table(numbers), origins), mechanism),
        FittedTable(table(fitted.weights), fitted.convergence),
        method="adjusted",
        bias=BIAS["adjusted"],
        confidence=confidence,
        simultaneous=simultaneous,
    )


def estimate_of_supports(
    domain: Domain, supports: FloatArray, n: int, chances: tuple[float, float], confidence: float
) -> Estimate:
    """Estimate proportions from C_v of n reports, shape (R,).

    ``chances`` are p and q.

    Raises InvalidInput for fewer than 2 reports.
    """
    check_records(n)
    p, q = chances
    observed, both = supports / n, np.stack([supports, n - supports], axis=1).astype(np.int64)
    alike = (supports == 0) | (supports == n)
    error = np.where(alike, np.nan, np.sqrt(observed * (1 - observed) / (n - 1)) / (p - q))
    # "holds the cell" is a binary attribute that is reported by the supports
    kernel = MatrixKernel([[p, 1 - p], [q, 1 - q]])
    warnings = (
        *without_error(alike, "the answers with information on them are"),
        *plausibility.impossible_tables([plausibility.Observed(" × ".join(domain.names), both, kernel)]),
    )
    ends = binomial(supports, n, p, q, 1 - confidence)
    return unbiased_estimate(domain, n, (observed - q) / (p - q), error, confidence, ends, warnings)


def unbiased_estimate(  # noqa: PLR0913 (what an estimate is made of)
    domain: Domain,
    n: int,
    proportions: FloatArray,
    errors: FloatArray,
    confidence: float,
    ends: tuple[FloatArray, FloatArray],
    warnings: tuple[str, ...] = (),
) -> Estimate:
    """Build the estimate from known cells, errors and interval limits.

    Cells are in the domain's order.
    """
    proportions, errors, low, high = (x.reshape(tuple(domain.sizes)) for x in (proportions, errors, *ends))
    return Estimate(
        domain=domain,
        n=n,
        method="unbiased",
        estimate=proportions,
        standard_error=errors,
        lower=low,
        upper=high,
        confidence=confidence,
        interval="score",
        bias=BIAS["unbiased"],
        warnings=warnings,
    )
