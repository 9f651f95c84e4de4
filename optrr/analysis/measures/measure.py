"""Measures of two attributes from randomized records: the groups in the rows, the outcomes that are compared in the columns.

Each may be restricted to people whose true answers are among some categories
(:mod:`optrr.analysis.measures.subgroups`): a measure is an equation of the same degree in all cells, without division,
so that the cells that are left out have weight 0.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf, isfinite, isnan, nan, prod
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from optrr.analysis.measures import quantities
from optrr.analysis.measures.quantities import Inversion, Odds
from optrr.analysis.measures.subgroups import Among, Kept, code_of, ignored, said_where
from optrr.core.display import (
    COLOURS,
    OneTable,
    Table,
    TableResult,
    Text,
    arrow_rows,
    category_word,
    crossed,
    interval_figure,
    intervals_said,
    plain_logarithms,
    sentence,
)
from optrr.core.domain import Category, Domain, checked_scores, told_scores
from optrr.core.errors import InvalidInput
from optrr.core.estimation import STATISTICS, EstimatedTable, check_confidence, check_records
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure


MeasureName = Literal[
    "row-proportions",
    "column-proportions",
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
# An ordinal measure's matrices have the square of this many entries, 2 MB each.
MAX_CELLS = 512
# Proportion of all positions above which an interval has almost no information.
_WIDE = 0.9


@dataclass(frozen=True)
class Row:
    """A measure of one group, with its error and interval.

    None as reference group or outcome means that it does not apply.
    """

    group: str | None = None
    reference: str | None = None
    outcome: str | None = None
    estimate: float = nan
    standard_error: float = nan
    lower: float = nan
    upper: float = nan


@dataclass(frozen=True, eq=False, repr=False)
class Measures(TableResult):
    """A measure of each group and outcome that it compares.

    ``attributes`` name groups before outcomes.

    ``estimate`` solves the equation of :mod:`optrr.analysis.measures.quantities` without bias and lies in the measure's
    range; it is NaN if the interval is that whole range, as nothing is known then. ``lower`` and ``upper`` invert a
    test and hold for each row alone, or for all rows together where ``simultaneous``; an infinite limit means that the
    noise is too large for a finite one. ``standard_error`` is the delta method's at the estimate, of a weighted sample
    Taylor's at the plain ratio of weighted proportions, NaN if undefined; intervals are not made from it. ``scores``
    are the numbers that the outcomes counted as, for means; ``where`` the restriction of true answers, ``note`` the
    assumptions, ``sample`` how weighted records were sampled.
    """

    statistic: str
    attributes: tuple[str, ...]
    n: int
    confidence: float
    simultaneous: bool
    rows: tuple[Row, ...]
    warnings: tuple[str, ...] = ()
    scores: tuple[float, ...] | None = None
    where: dict[str, list[str]] = field(default_factory=dict)
    note: str = ""
    sample: str = ""

    in_summary = ("attributes", "statistic", "n", "confidence", "simultaneous", "rows", "warnings", "scores")

    def headline(self) -> str:
        """Summarize the measure and the number of records."""
        first = self.rows[0]
        value = "without a value" if isnan(first.estimate) else f"{first.estimate:.4g}"
        one = f" {value} [{first.lower:.4g}, {first.upper:.4g}]" if len(self.rows) == 1 else ""
        title = crossed(self.attributes)
        sampled = f"weighted: {self.sample}" if self.sample else f"{self.n} records"
        return f"{self.statistic} of {title}{one}, {sampled}{said_where(self.where)}"

    def sentences(self) -> list[str]:
        """State the intervals' coverage, the scores and the assumptions."""
        scores = told_scores(self.attributes[-1:], None if self.scores is None else [self.scores], 2)
        return [intervals_said(self.confidence, self.simultaneous), *scores, *([self.note] if self.note else [])]

    def on_page(self, **_beside: Any) -> OneTable:
        """Build the content of the HTML report."""
        title = crossed(self.attributes)
        covered = "All intervals together have" if self.simultaneous else "Each interval has"
        lead = (
            f"{self.statistic.replace('-', ' ').capitalize()} of {title} from {self.n} randomized records"
            f"{said_where(self.where)}. {covered} {100 * self.confidence:g} % confidence; an "
            "infinite limit means that the noise is too large for a finite one."
        )
        notes = [Text(sentence(line)) for line in self.sentences()[1:]]
        chart = f"{self.statistic} of {title} with intervals"
        return OneTable(f"{title}: {self.statistic}", lead, "Comparisons", chart, notes=notes)

    def to_arrow(self) -> "pa.Table":
        """Convert to a table with one row per comparison.

        Group, reference, outcome (null if it does not apply), and the four numbers.
        """
        numbers = ("estimate", "standard_error", "lower", "upper")
        return arrow_rows(self.rows, ("group", "reference", "outcome"), numbers)

    def shown(self, most: int | None = None) -> Table:
        """Build the printed table without empty columns."""
        plain, filled = super().shown(most), self.to_arrow()
        kept = [k for k in range(len(plain.columns)) if filled.column(k).null_count < filled.num_rows]
        rows = [[row[k] for k in kept] for row in plain.rows]
        return replace(plain, columns=[plain.columns[k] for k in kept], rows=rows)

    def row_names(self) -> list[str]:
        """Name the comparison in each row."""
        return [label(row) or self.statistic for row in self.rows]

    def plot(self) -> "Figure":
        """Draw a forest plot.

        Every comparison with its interval and a line of no difference; ratios have a log axis.
        """
        ratio = self.statistic in RATIOS
        values = [v for r in self.rows for v in (r.estimate, r.lower, r.upper) if isfinite(v) and (v > 0 or not ratio)]
        ends = (min(values, default=1.0) / 2, max(values, default=1.0) * 2) if ratio else (-inf, inf)
        low, high, middle = (
            np.clip([getattr(r, of) for r in self.rows], *ends) for of in ("lower", "upper", "estimate")
        )
        said = f"{self.statistic}, {intervals_said(self.confidence, self.simultaneous)}"
        figure = interval_figure(self.row_names(), middle, (low, high), said)
        (axes,) = figure.axes
        if ratio:
            axes.set_xscale("log")
            plain_logarithms(axes.xaxis)
        if self.statistic in _AGAINST_REFERENCE or self.statistic in _ORDINAL:
            axes.axvline(1.0 if ratio else 0.0, color=COLOURS[4], linewidth=0.8)
        return figure

    def summary(self) -> dict[str, Any]:
        """Return the JSON object; None for numbers that are not finite."""
        said = {"where": self.where, "note": self.note, "sample": self.sample}
        return super().summary() | {name: value for name, value in said.items() if value}


def label(row: Row) -> str:
    """Describe a comparison in words; empty for the whole table."""
    against = f"{row.group} against {row.reference}" if row.reference is not None else row.group
    return ": ".join(part for part in (row.outcome, against) if part is not None)


@dataclass(frozen=True)
class Comparing:
    """References and scores of a comparison.

    References are by category, None for the first declared one; scores are of the outcomes.
    """

    reference: Category | None = None
    reference_outcome: Category | None = None
    scores: ArrayLike | None = None


def measure(  # noqa: PLR0913 (each argument is one question a user answers)
    table: EstimatedTable,
    name: MeasureName,
    comparing: Comparing | None = None,
    *,
    attributes: Sequence[str] | None = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
    where: Among | None = None,
    missing_at_random: str | None = None,
) -> Measures:
    """Estimate a measure of the true records with intervals by test inversion.

    The target is the population.

    Each interval takes some 60 evaluations of a law, O(R) each for proportions, ratios and means, O(R³) for ordinal
    measures. Raises InvalidInput for an unknown measure or category, another number of attributes, fewer than two
    records or groups, or scores that do not differ. SingularMarginal if the mechanism hides the table.

    Parameters
    ----------
    table
        Table of two attributes: the groups, then the outcomes; for means any number of groups, or none. At most 512
        cells for ordinal measures, which take the categories in their declared order.
    name
        one of `MEASURES`; :mod:`optrr.analysis.measures.quantities` defines them. Column proportions are those of the
        groups within an outcome.
    comparing
        reference group (for differences and ratios), reference outcome (for odds ratios), and the outcomes' scores (for means;
        their numbers where all categories are numbers, else 0..r−1; the result says which).
    attributes
        Attributes of the table, all counted ones unless given; the others only define the subgroup.
    simultaneous
        intervals that hold for all rows together (Bonferroni).
    where
        True categories of the subgroup by attribute, two or more of groups and outcomes
        (:mod:`optrr.analysis.measures.subgroups`); scores are then those of the outcomes that are kept.
    missing_at_random
        one of the two, whose missing answers depend on the other alone: the measure is then that of all people, and
        refused where it would be biased (:func:`optrr.analysis.measures.subgroups.ignored`).
    """
    check_confidence(confidence)
    comparing, restricted, note = comparing or Comparing(), where or {}, ""
    named = table.domain.names if attributes is None else attributes
    if missing_at_random is not None:
        restricted, note = ignored(table.domain.subset(named), missing_at_random, name, restricted)
    kept = Kept.of(table.domain, restricted, named)
    check_records(table.n)
    _check(kept.domain, name, comparing)
    table.kernel.check_invertible()
    compared = [(row, kept.odds(odds)) for row, odds in asked(kept.domain, name, comparing)]
    tail = (1 - confidence) / 2 / (len(compared) if simultaneous else 1)
    rows, warnings = tested(compared, name, table, tail)
    outcomes = kept.domain.attributes[-1]
    scores = tuple(checked_scores(outcomes, comparing.scores).tolist()) if name in _SCORED else None
    return Measures(
        statistic=name,
        attributes=kept.domain.names,
        n=table.n,
        confidence=confidence,
        simultaneous=simultaneous,
        rows=rows,
        warnings=(*warnings, *table.notes),
        scores=scores,
        where=kept.texts,
        note=note,
        sample=table.sample,
    )


def tested(
    compared: Iterable[tuple[Row, Odds]], name: str, table: EstimatedTable, tail: float
) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """Compute each measure with its interval, and warnings.

    ``tail`` is the error probability on either side. Warnings concern measures that are not informative.
    """
    rows, warnings = [], []
    for row, odds in compared:
        inversion = Inversion.of(odds, table.sampling, table.observed.ravel())
        limits = inversion.limits(tail)
        rows.append(_filled(row, inversion, limits))
        if limits[1] - limits[0] > _WIDE:
            remedy = "collect more, merge categories, or give the attributes a larger epsilon"
            warnings.append(f"the records have almost no information on {label(row) or name}; {remedy}")
    return tuple(rows), tuple(warnings)


def _filled(row: Row, inversion: Inversion, limits: tuple[float, float]) -> Row:
    odds = inversion.odds
    if limits == (0.0, 1.0):
        # every value that the measure has is possible: none of them is an estimate
        return replace(row, lower=odds.low, upper=odds.high)
    position = min(max(inversion.position, limits[0]), limits[1])
    error = inversion.standard_error(position)
    return replace(
        row,
        estimate=odds.shown(position),
        standard_error=error if isfinite(error) else nan,
        lower=odds.shown(limits[0]),
        upper=odds.shown(limits[1]),
    )


def _check(domain: Domain, name: str, comparing: Comparing) -> None:
    if name not in MEASURES:
        raise InvalidInput(f"``statistic``: {name!r} is unknown; choose among {', '.join((*MEASURES, *STATISTICS))}")
    sizes = tuple(map(int, domain.sizes))
    if len(sizes) != 2 and name != "means":
        raise InvalidInput(f"``attributes``: {name} takes two, groups and outcomes, not {len(sizes)}; name two")
    if name in _ORDINAL and prod(sizes) > MAX_CELLS:
        raise InvalidInput(f"the table has {prod(sizes)} cells; {name} takes at most {MAX_CELLS}")
    unused = {
        "reference": comparing.reference is not None and name not in _AGAINST_REFERENCE,
        "reference_outcome": comparing.reference_outcome is not None and name != "odds-ratio",
        "scores": comparing.scores is not None and name not in _SCORED,
    }
    for option, given in unused.items():
        if given:
            raise InvalidInput(f"``coding``: {name} does not accept {option.replace('_', ' ')}; leave ``coding`` out")


def asked(domain: Domain, name: str, comparing: Comparing) -> Iterator[tuple[Row, Odds]]:
    """Iterate over the comparisons of a measure in a table; see :func:`measure`."""
    *groups, outcomes = domain
    *of_groups, of_outcome = (list(map(category_word, each.texts)) for each in domain)
    of_group = list(map(" × ".join, product(*of_groups)))
    shape = (len(of_group), outcomes.size)
    group_of_cell, outcome_of_cell = (each.reshape(-1) for each in np.indices(shape))
    if name in _ORDINAL:
        yield Row(), _ORDINAL[name](shape)
    elif name in ("row-proportions", "column-proportions"):
        for g, c in np.ndindex(shape):
            in_group, in_outcome = group_of_cell == g, outcome_of_cell == c
            cell, within = in_group & in_outcome, in_group if name == "row-proportions" else in_outcome
            row = Row(of_group[g], outcome=of_outcome[c])
            yield row, quantities.share(_marks(cell), _marks(within & ~cell))
    elif name == "means":
        scores = checked_scores(outcomes, comparing.scores)[outcome_of_cell]
        for g, group in enumerate(of_group):
            yield Row(group if groups else None), quantities.mean(_marks(group_of_cell == g), scores)
    else:
        yield from _against_reference(domain, name, comparing)


def _against_reference(domain: Domain, name: str, comparing: Comparing) -> Iterator[tuple[Row, Odds]]:
    groups, outcomes = domain
    of_group, of_outcome = (list(map(category_word, each.texts)) for each in domain)
    group_of_cell, outcome_of_cell = (each.reshape(-1) for each in np.indices((groups.size, outcomes.size)))
    h = 0 if comparing.reference is None else code_of(groups, comparing.reference)
    for g in range(groups.size):
        if g == h:
            continue
        group, reference = _marks(group_of_cell == g), _marks(group_of_cell == h)
        names = (of_group[g], of_group[h])
        if name == "mean-difference":
            scores = checked_scores(outcomes, comparing.scores)[outcome_of_cell]
            yield Row(*names), quantities.difference(scores, group, reference)
            continue
        z = 0 if comparing.reference_outcome is None else code_of(outcomes, comparing.reference_outcome)
        # of two outcomes the proportions sum to 1, so that the second is enough; odds are of every outcome against the
        # reference
        for c in [c for c in range(outcomes.size) if c != z or (outcomes.size > 2 and name != "odds-ratio")]:
            hit, miss = _marks(outcome_of_cell == c), _marks(outcome_of_cell == z)
            if name == "odds-ratio":
                odds = quantities.odds_ratio(hit, miss, group, reference)
            else:
                of_hit = quantities.risk_ratio if name == "risk-ratio" else quantities.difference
                odds = of_hit(hit, group, reference)
            yield Row(*names, of_outcome[c]), odds


def _marks(cells: np.ndarray) -> FloatArray:
    return cells.astype(np.float64)
