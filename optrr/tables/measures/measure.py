"""Measures of two attributes from randomized records: the groups in the rows, what is compared between them in the columns.

Tables and measures may be of the people whose true answers are among some categories: without those who did not answer, say.
The restriction is on what is true, and who it leaves out is not known: a report in a category that is left out may come from
anybody. So no report is left out. A share among those kept is the ratio of a cell's proportion to that of all kept cells,
both estimated from all reports, and its interval inverts the equation (1 − v) π_cell = v π_others, which divides by nothing
(:mod:`optrr.tables.measures.quantities`). Every measure is an equation of the same degree in all cells, so that it needs no
division either: the cells that are left out have weight 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite, isnan, nan, prod
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from optrr.domain.domain import Attribute, Category, Domain, category_text, listed, shown
from optrr.domain.scores import checked_scores
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Randomizer
from optrr.records.counts import Counts
from optrr.show.charts import COLOURS, interval_figure, plain_logarithms
from optrr.show.parts import Table
from optrr.show.result import TableResult, arrow_rows, intervals_said
from optrr.show.text import category_word, records_enough
from optrr.tables.estimation.derived import enough
from optrr.tables.estimation.estimator import Estimate, check_confidence, check_records
from optrr.tables.estimation.impossible import CountedTable, counted_table
from optrr.tables.estimation.queries import code_of
from optrr.tables.measures import quantities
from optrr.tables.measures.quantities import Inversion, Odds
from optrr_solvers.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure


# By attribute the categories that are kept.
Among = Mapping[str, Sequence[Category]]
# A total this near to 0, in standard errors, leaves the shares of it open.
_FAINT = 3.0


@dataclass(frozen=True, eq=False)
class Kept:
    """Which cells of a table are kept: the table's domain without the other categories, and their places, of its sizes."""

    domain: Domain
    cells: IntArray
    all: int

    @staticmethod
    def of(domain: Domain, among: Among) -> Kept:
        """Raises InvalidInput for attributes or categories that are not declared, and fewer than two categories."""
        unknown = [name for name in among if name not in domain.names]
        if unknown:
            raise InvalidInput(f"{unknown[0]!r} is not in the table of {listed(domain.names)}; restrict what is in it")
        codes = [_codes(each, among[each.name]) if each.name in among else list(range(each.size)) for each in domain]
        left = tuple(_only(each, kept) for each, kept in zip(domain, codes, strict=True))
        cells = np.arange(int(np.prod(domain.sizes))).reshape(tuple(domain.sizes))[np.ix_(*codes)]
        return Kept(Domain(left), cells, int(np.prod(domain.sizes)))

    def sums(self, sums: FloatArray) -> FloatArray:
        """Sums (K, kept cells) as sums of all cells, (K, R): those that are left out have weight 0."""
        out = np.zeros((len(sums), self.all))
        out[:, self.cells.ravel()] = sums
        return out

    def odds(self, odds: Odds) -> Odds:
        """A measure of the kept cells as one of the whole table."""
        return replace(odds, sums=self.sums(odds.sums))

    def texts(self, among: Among) -> dict[str, list[str]]:
        """What is kept of the attributes that are named, as people read it."""
        return {name: [category_word(text) for text in self.domain[name].texts] for name in among}


def _codes(attribute: Attribute, kept: Sequence[Category]) -> list[int]:
    given = [kept] if isinstance(kept, str) or not isinstance(kept, Sequence) else list(kept)
    texts, known = [category_text(each) for each in given], attribute.codes
    unknown = [each for each, text in zip(given, texts, strict=True) if text not in known]
    if unknown:
        raise InvalidInput(
            f"attribute {attribute.name!r} has no category {unknown[0]!r}; choose among {listed(attribute.texts)}"
        )
    if len(set(texts)) < 2:
        raise InvalidInput(
            f"of {attribute.name!r} only one category is kept; keep two or more, or measure row-shares for those within one"
        )
    return sorted({known[text] for text in texts})


def _only(attribute: Attribute, codes: list[int]) -> Attribute:
    """The attribute with some of its categories; all of them leave it as it is."""
    if len(codes) == attribute.size:
        return attribute
    return Attribute(attribute.name, tuple(attribute.categories[c] for c in codes), attribute.ordered)


@dataclass(frozen=True, eq=False, repr=False)
class EstimateAmong(Estimate):
    """Estimated proportions among the people whose true answers are in the categories of ``domain``.

    ``n`` is the number of all records, and ``share`` the estimated share of the people in question among their people.
    """

    among: dict[str, list[str]] = field(default_factory=dict)
    share: float = 1.0

    in_summary = (*Estimate.in_summary, "among", "share")

    @property
    def counts(self) -> FloatArray:
        """Estimated counts in the records, same shape."""
        return np.asarray(self.n * self.share * self.proportions)

    def headline(self) -> str:
        """Which table, of how many records, among whom."""
        return f"{super().headline()}{said_among(self.among)}, estimated as {100 * self.share:.3g}% of all"


def estimate_among(
    counts: Counts | CountedTable,
    mechanism: Randomizer | None,
    among: Among,
    *,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> EstimateAmong:
    """Proportions of the true records among those whose true answers are in the given categories.

    Parameters
    ----------
    counts
        of randomized records over the attributes of the table, all of them: none is to be left out beforehand. Or a table that
        is estimated already, without a mechanism.
    among
        by attribute the categories that are kept, two or more; attributes that are not named keep all.
    confidence, simultaneous
        of the intervals, as in :func:`optrr.estimate`.

    Raises
    ------
    InvalidInput
        for unknown attributes or categories, more than 512 cells, or too few records. SingularMarginal where the mechanism
        hides an effect of the table.
    """
    check_confidence(confidence)
    check_records(counts.n)
    kept = Kept.of(counts.domain, among)
    if kept.all > MAX_CELLS:
        raise InvalidInput(f"the table has {kept.all} cells; among some categories it has at most {MAX_CELLS}")
    table = counted_table(counts, mechanism)
    kernel, sampling, observed = table.kernel, table.sampling, table.observed.ravel()
    kernel.check_invertible()
    tail = (1 - confidence) / (kept.cells.size if simultaneous else 1) / 2
    each = [Inversion.of(kept.odds(quantities.share(m, 1 - m)), sampling, observed) for m in np.eye(kept.cells.size)]
    ends = [(inversion.deviation(), *inversion.limits(tail)) for inversion in each]
    error, low, high = (np.array(column).reshape(kept.cells.shape) for column in zip(*ends, strict=True))
    everybody = replace(sampling, sums=kept.sums(np.ones((1, kept.cells.size))))
    total_error = float(np.sqrt(np.maximum(everybody.covariance(observed, counts.n - 1), 0.0))[0, 0])
    # the unbiased table over its own sum, so that the shares sum to 1
    cells = kernel.solve(table.observed).ravel()[kept.cells]
    total = float(cells.sum())
    shares = cells / total if total > 0 else np.full(cells.shape, np.nan)
    texts = kept.texts(among)
    faint = f"the kept share{said_among(texts)}, cannot be told from 0, so the records say next to nothing on them"
    inside = np.clip(shares, 0.0, 1.0)
    return EstimateAmong(
        domain=kept.domain,
        n=counts.n,
        method="unbiased",
        proportions=shares,
        standard_errors=error,
        lower=np.fmin(low, inside),
        upper=np.fmax(high, inside),
        confidence=confidence,
        target="population",
        interval="score",
        bias="a ratio of unbiased estimates, biased less and less as the number of records grows; cells may be negative",
        simultaneous=simultaneous,
        warnings=(faint,) if total < _FAINT * total_error else (),
        among=texts,
        share=total,
    )


def said_among(texts: Mapping[str, Sequence[str]]) -> str:
    """Among whom, as the end of a sentence; empty where it is everybody."""
    each = (f"{name} {' or '.join(map(shown, kept))}" for name, kept in texts.items())
    return f", among people with {' and '.join(each)}" if texts else ""


MeasureName = Literal[
    "row-shares",
    "column-shares",
    "risk-difference",
    "risk-ratio",
    "odds-ratio",
    "means",
    "mean-difference",
    "gamma",
    "tau-b",
    "somers-d",
]
MEASURES: tuple[str, ...] = get_args(MeasureName)
# Those that run from 0 to infinity, and are drawn on a logarithmic axis.
RATIOS = ("risk-ratio", "odds-ratio")
_AGAINST_REFERENCE = ("risk-difference", "risk-ratio", "odds-ratio", "mean-difference")
_SCORED = ("means", "mean-difference")
_ORDINAL = {"gamma": quantities.gamma, "tau-b": quantities.tau_b, "somers-d": quantities.somers_d}
# An ordinal measure's matrices have the square of this many entries, 2 MB each; intervals among some categories take some 60
# laws of so many cells, a few seconds in all.
MAX_CELLS = 512
# An interval over more than this share of all positions says next to nothing.
_WIDE = 0.9


@dataclass(frozen=True)
class Named:
    """What a measure compares: which group, against which, in which outcome; None where it is about all of them."""

    group: str | None = None
    reference: str | None = None
    outcome: str | None = None


@dataclass(frozen=True)
class Row(Named):
    """A measure of what it compares, with its error and interval."""

    estimate: float = nan
    standard_error: float = nan
    lower: float = nan
    upper: float = nan


@dataclass(frozen=True, eq=False, repr=False)
class Measures(TableResult):
    """A measure of the attributes ``groups`` × ``outcomes``, for every group and outcome that it compares.

    ``estimate`` solves the equation of :mod:`optrr.tables.measures.quantities` without bias and lies in the measure's range; it
    is NaN where the interval is that whole range, as nothing is known then.
    ``lower`` and ``upper`` invert a test and hold for each row alone, or for all rows together where ``simultaneous``; an
    infinite limit says that the noise leaves none. ``standard_error`` is the delta method's at the estimate, NaN where there is
    none; intervals are not made from it. ``scores`` are the numbers by which the outcomes counted, for means; ``among``
    what people's true answers were restricted to.
    """

    measure: str
    groups: str
    outcomes: str
    n: int
    confidence: float
    simultaneous: bool
    rows: tuple[Row, ...]
    warnings: tuple[str, ...] = ()
    scores: tuple[float, ...] | None = None
    among: dict[str, list[str]] = field(default_factory=dict)

    in_summary = ("measure", "n", "confidence", "simultaneous", "rows", "warnings", "scores")

    def headline(self) -> str:
        """What is measured, of how many records."""
        first = self.rows[0]
        value = "without a value" if isnan(first.estimate) else f"{first.estimate:.4g}"
        one = f" {value} [{first.lower:.4g}, {first.upper:.4g}]" if len(self.rows) == 1 else ""
        return f"{self.measure} of {self.groups} × {self.outcomes}{one}, {self.n} records{said_among(self.among)}"

    def to_arrow(self) -> pa.Table:
        """One row per comparison: group, reference, outcome (null where there is none), and the four numbers."""
        numbers = ("estimate", "standard_error", "lower", "upper")
        return arrow_rows(self.rows, ("group", "reference", "outcome"), numbers)

    def shown(self, most: int | None = None) -> Table:
        """The table as people read it, without the columns that this measure leaves empty."""
        plain, filled = super().shown(most), self.to_arrow()
        kept = [k for k in range(len(plain.columns)) if filled.column(k).null_count < filled.num_rows]
        rows = [[row[k] for k in kept] for row in plain.rows]
        return replace(plain, columns=[plain.columns[k] for k in kept], rows=rows)

    def row_names(self) -> list[str]:
        """What is compared in each row."""
        return [label(row) or self.measure for row in self.rows]

    def plot(self) -> Figure:
        """Every comparison with its interval, and a line where nothing differs (a forest plot); ratios on a log axis."""
        ratio = self.measure in RATIOS
        values = [v for r in self.rows for v in (r.estimate, r.lower, r.upper) if isfinite(v) and (v > 0 or not ratio)]
        ends = (min(values, default=1.0) / 2, max(values, default=1.0) * 2) if ratio else (-inf, inf)
        low, high, middle = (
            np.clip([getattr(r, of) for r in self.rows], *ends) for of in ("lower", "upper", "estimate")
        )
        said = f"{self.measure}, {intervals_said(self.confidence, self.simultaneous)}"
        figure = interval_figure(self.row_names(), middle, (low, high), said)
        (axes,) = figure.axes
        if ratio:
            axes.set_xscale("log")
            plain_logarithms(axes.xaxis)
        if self.measure in _AGAINST_REFERENCE or self.measure in _ORDINAL:
            axes.axvline(1.0 if ratio else 0.0, color=COLOURS[4], linewidth=0.8)
        return figure

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object; None for what is not a finite number."""
        among = {"among": self.among} if self.among else {}
        return {"attributes": [self.groups, self.outcomes], **super().summary(), **among}


def label(row: Named) -> str:
    """What is compared, in words; empty where it is the whole table."""
    against = f"{row.group} against {row.reference}" if row.reference is not None else row.group
    return ": ".join(part for part in (row.outcome, against) if part is not None)


@dataclass(frozen=True)
class Comparing:
    """What is compared with what: references by category, None for the first one declared; scores of the outcomes."""

    reference: Category | None = None
    reference_outcome: Category | None = None
    scores: ArrayLike | None = None


def measure(  # noqa: PLR0913 (each argument is one question a user answers)
    counts: Counts | CountedTable,
    mechanism: Randomizer | None,
    name: MeasureName,
    comparing: Comparing | None = None,
    *,
    confidence: float = 0.95,
    simultaneous: bool = False,
    among: Among | None = None,
) -> Measures:
    """A measure of the true records, with intervals by test inversion; the target is the population.

    Parameters
    ----------
    counts
        of two attributes: the groups, then what is compared between them. At most 512 cells for ordinal measures, which take
        the categories in their declared order. Or a table that is estimated already, without a mechanism.
    name
        one of `MEASURES`; :mod:`optrr.tables.measures.quantities` defines them. Column shares are those of the groups within an
        outcome.
    comparing
        reference group (for differences and ratios), reference outcome (for odds ratios), and the outcomes' scores (for means;
        their numbers where all categories are numbers, else 0..r−1; the result says which).
    simultaneous
        intervals that hold for all rows together (Bonferroni).
    among
        by attribute the categories, two or more, that a person's true answers must be among to count
        (:mod:`optrr.tables.measures.measure`); scores are then those of the outcomes that are kept.

    Each interval takes some 60 evaluations of a law, O(R) each for shares, ratios and means, O(R³) for ordinal measures.

    Raises
    ------
    InvalidInput
        for an unknown measure or category, another number of attributes, fewer than two records or groups, or scores that do
        not differ. SingularMarginal where the mechanism hides the table.
    """
    check_confidence(confidence)
    comparing, restricted = comparing or Comparing(), among or {}
    kept = Kept.of(counts.domain, restricted)
    check_records(counts.n)
    _check(kept.domain, name, comparing)
    table = counted_table(counts, mechanism)
    table.kernel.check_invertible()
    compared = [(named, kept.odds(odds)) for named, odds in asked(kept.domain, name, comparing)]
    tail = (1 - confidence) / 2 / (len(compared) if simultaneous else 1)
    rows, wide = [], dict[str, Inversion]()
    for named, odds in compared:
        inversion = Inversion.of(odds, table.sampling, table.observed.ravel())
        limits = inversion.limits(tail)
        rows.append(_row(named, inversion, limits))
        if limits[1] - limits[0] > _WIDE:
            wide[label(named) or name] = inversion
    groups, outcomes = kept.domain
    scores = tuple(checked_scores(outcomes, comparing.scores).tolist()) if name in _SCORED else None
    return Measures(
        measure=name,
        groups=groups.name,
        outcomes=outcomes.name,
        n=counts.n,
        confidence=confidence,
        simultaneous=simultaneous,
        rows=tuple(rows),
        warnings=_said_of_wide(wide, tail),
        scores=scores,
        among=kept.texts(restricted),
    )


def _row(named: Named, inversion: Inversion, limits: tuple[float, float]) -> Row:
    odds = inversion.odds
    if limits == (0.0, 1.0):
        # every value that the measure has is possible: none of them is an estimate
        return Row(**vars(named), lower=odds.low, upper=odds.high)
    position = min(max(inversion.position, limits[0]), limits[1])
    error = inversion.deviation() * odds.slope(position)
    return Row(
        **vars(named),
        estimate=odds.shown(position),
        standard_error=error if isfinite(error) else nan,
        lower=odds.shown(limits[0]),
        upper=odds.shown(limits[1]),
    )


def _said_of_wide(wide: Mapping[str, Inversion], tail: float) -> tuple[str, ...]:
    """A sentence for each, with the records that would say something of the one that is known worst."""
    if not wide:
        return ()
    worst = max(wide.values(), key=lambda inversion: np.nan_to_num(inversion.deviation(), nan=inf))

    def narrow(n: float) -> bool:
        low, high = worst.of_records(round(n)).limits(tail)
        return high - low <= _WIDE

    n = enough(worst.sampling.n, narrow)
    remedy = f"{records_enough(n)}; else" if n < inf else "collect more, or"
    return tuple(
        f"the records say next to nothing on {what}; {remedy} give the attributes a larger epsilon" for what in wide
    )


def _check(domain: Domain, name: str, comparing: Comparing) -> None:
    if name not in MEASURES:
        raise InvalidInput(f"there is no measure {name!r}; choose among {', '.join(MEASURES)}")
    sizes = tuple(map(int, domain.sizes))
    if len(sizes) != 2:
        raise InvalidInput(f"{name!r} needs two attributes, groups and outcomes, got {len(sizes)}; count a pair")
    if name in _ORDINAL and prod(sizes) > MAX_CELLS:
        raise InvalidInput(f"the table has {prod(sizes)} cells; {name} takes at most {MAX_CELLS}")
    unused = {
        "reference": comparing.reference is not None and name not in _AGAINST_REFERENCE,
        "reference_outcome": comparing.reference_outcome is not None and name != "odds-ratio",
        "scores": comparing.scores is not None and name not in _SCORED,
    }
    for option, given in unused.items():
        if given:
            raise InvalidInput(f"{name!r} takes no {option.replace('_', ' ')}; leave it out")


def asked(domain: Domain, name: str, comparing: Comparing) -> Iterator[tuple[Named, Odds]]:
    """What a measure compares in a table, row by row; see :func:`measure`."""
    groups, outcomes = domain
    of_group, of_outcome = (list(map(category_word, each.texts)) for each in domain)
    shape = (groups.size, outcomes.size)
    row, column = (each.reshape(-1) for each in np.indices(shape))
    if name in _ORDINAL:
        yield Named(), _ORDINAL[name](shape)
    elif name in ("row-shares", "column-shares"):
        for g, c in np.ndindex(shape):
            cell, within = (row == g) & (column == c), row == g if name == "row-shares" else column == c
            named = Named(of_group[g], outcome=of_outcome[c])
            yield named, quantities.share(_marks(cell), _marks(within & ~cell))
    elif name == "means":
        scores = checked_scores(outcomes, comparing.scores)[column]
        for g in range(groups.size):
            yield Named(of_group[g]), quantities.mean(_marks(row == g), scores)
    else:
        yield from _against_reference(domain, name, comparing)


def _against_reference(domain: Domain, name: str, comparing: Comparing) -> Iterator[tuple[Named, Odds]]:
    groups, outcomes = domain
    of_group, of_outcome = (list(map(category_word, each.texts)) for each in domain)
    row, column = (each.reshape(-1) for each in np.indices((groups.size, outcomes.size)))
    h = 0 if comparing.reference is None else code_of(groups, comparing.reference)
    for g in range(groups.size):
        if g == h:
            continue
        group, reference, names = _marks(row == g), _marks(row == h), (of_group[g], of_group[h])
        if name == "mean-difference":
            scores = checked_scores(outcomes, comparing.scores)[column]
            yield Named(*names), quantities.difference(scores, group, reference)
            continue
        z = 0 if comparing.reference_outcome is None else code_of(outcomes, comparing.reference_outcome)
        # of two outcomes the shares sum to 1, so that the second says all; odds are of every outcome against the reference
        for c in [c for c in range(outcomes.size) if c != z or (outcomes.size > 2 and name != "odds-ratio")]:
            hit, miss = _marks(column == c), _marks(column == z)
            if name == "odds-ratio":
                odds = quantities.odds_ratio(hit, miss, group, reference)
            else:
                of_hit = quantities.risk_ratio if name == "risk-ratio" else quantities.difference
                odds = of_hit(hit, group, reference)
            yield Named(*names, of_outcome[c]), odds


def _marks(cells: np.ndarray) -> FloatArray:
    return cells.astype(np.float64)
