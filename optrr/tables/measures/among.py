"""Tables and measures of the people whose true answers are among some categories: without those who did not answer, say.

The restriction is on what is true, and who it leaves out is not known: a report in a category that is left out may come from
anybody. So no report is left out. A share among those kept is the ratio of a cell's proportion to that of all kept cells,
both estimated from all reports, and its interval inverts the equation (1 − v) π_cell = v π_others, which divides by nothing
(:mod:`optrr.tables.measures.inversion`). Every measure is an equation of the same degree in all cells, so that it needs no
division either: the cells that are left out have weight 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from optrr.domain.domain import Attribute, Category, Domain, category_text, listed, shown
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import Kernel
from optrr.mechanisms.randomizer import Randomizer, checked_mechanism
from optrr.records.counts import Counts
from optrr.show.printable import category_word
from optrr.tables.estimation.impossible import warn_of_records
from optrr.tables.estimation.intervals import Sampling
from optrr.tables.estimation.result import Estimate, check_confidence, check_records
from optrr.tables.measures import quantities
from optrr.tables.measures.inversion import Inversion
from optrr.tables.measures.quantities import Odds
from optrr_solvers.arrays import FloatArray, IntArray

# By attribute the categories that are kept.
Among = Mapping[str, Sequence[Category]]
# Intervals take some 60 laws each, O(R) operations for R cells: a few seconds in all.
MAX_CELLS = 512
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

    def counts(self, counts: Counts) -> Counts:
        """The reports in the kept cells: for their names and sizes, not for what is true of them."""
        return Counts(self.domain, counts.table.ravel()[self.cells], counts.origins)


def _codes(attribute: Attribute, kept: Sequence[Category]) -> list[int]:
    given = [kept] if isinstance(kept, str) or not isinstance(kept, Sequence) else list(kept)
    texts = [None if each is None else category_text(each) for each in given]
    known = {text: code for code, text in enumerate(attribute.texts)}
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
    counts: Counts, mechanism: Randomizer, among: Among, *, confidence: float = 0.95, simultaneous: bool = False
) -> EstimateAmong:
    """Proportions of the true records among those whose true answers are in the given categories.

    Parameters
    ----------
    counts
        of randomized records over the attributes of the table, all of them: none is to be left out beforehand.
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
    kernel = checked_mechanism(mechanism).kernel(counts.domain.names)
    kernel.check_invertible()
    warn_of_records([counts], mechanism)
    error, low, high = _intervals(counts, kernel, kept, (1 - confidence) / (kept.cells.size if simultaneous else 1))
    # the unbiased table over its own sum, so that the shares sum to 1
    cells = kernel.solve(counts.proportions).ravel()[kept.cells]
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
        warnings=(faint,) if total < _FAINT * _deviation(counts, kernel, kept) else (),
        among=texts,
        share=total,
    )


def _intervals(counts: Counts, kernel: Kernel, kept: Kept, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Standard errors, lower and upper ends of the shares, of the kept cells' shape; ``level`` is each one's chance to err."""
    sampling, observed = Sampling(kernel, counts.n), counts.proportions.ravel()
    each = [Inversion.of(kept.odds(quantities.share(m, 1 - m)), sampling, observed) for m in np.eye(kept.cells.size)]
    ends = [(inversion.deviation(), *inversion.limits(level / 2)) for inversion in each]
    error, low, high = (np.array(column).reshape(kept.cells.shape) for column in zip(*ends, strict=True))
    return error, low, high


def _deviation(counts: Counts, kernel: Kernel, kept: Kept) -> float:
    """The standard error of the kept cells' sum."""
    marks = kept.sums(np.ones((1, kept.cells.size))).reshape(kernel.sizes)
    return float(np.sqrt(kernel.functional_variance(marks, counts.proportions, counts.n)))


def said_among(texts: Mapping[str, Sequence[str]]) -> str:
    """Among whom, as the end of a sentence; empty where it is everybody."""
    each = (f"{name} {' or '.join(map(shown, kept))}" for name, kept in texts.items())
    return f", among people with {' and '.join(each)}" if texts else ""
