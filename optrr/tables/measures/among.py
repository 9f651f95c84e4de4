"""Tables of the people whose true answers are among some categories: women of two ages, say, or everybody who answered.

The restriction is on what is true, and who it leaves out is not known: a report in a category that is left out may come from
anybody. So no report is left out. A share among those kept is the ratio of a cell's proportion to that of all kept cells,
both estimated from all reports, and its interval inverts the equation (1 − v) π_cell = v π_others, which divides by nothing
(:mod:`optrr.tables.measures.quantities`). The attributes of the restriction are counted beside those of the table, and a cell
of the table adds up all cells of the counts that are in it and are kept.

Who gave no answer is a category of its own where an attribute declares a missing value. *Among those who answered* is the
restriction to all its other categories. Shares of one attribute within groups of the others are then those of everybody if,
among people alike in these others, who answers does not depend on the answer (ignorable: Rubin, Biometrika 63, 1976); shares of
a whole table, if it depends on none of its attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from optrr.domain.domain import Attribute, Category, Domain, category_text, listed, shown
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Randomizer
from optrr.records.counts import Counts
from optrr.show.text import category_word
from optrr.tables.estimation.estimator import Estimate, check_confidence, check_records
from optrr.tables.estimation.impossible import CountedTable, counted_table
from optrr.tables.estimation.queries import box
from optrr.tables.measures import quantities
from optrr.tables.measures.quantities import Inversion, Odds
from optrr_solvers.arrays import FloatArray, IntArray

# By attribute the categories that are kept, or the only one.
Among = Mapping[str, Category | Sequence[Category]]
# A total this near to 0, in standard errors, leaves the shares of it open.
_FAINT = 3.0
# Sums of cells times cells of the counts: an interval takes some 60 laws of so many cells, a few seconds in all.
MOST_WORK = 1 << 18


@dataclass(frozen=True, eq=False)
class Kept:
    """A table of some of the people counted: its ``domain``, and which of its cells each cell of the counts adds to, −1 for none.

    ``texts`` are the categories that are kept of each attribute that is restricted, as people read them.
    """

    domain: Domain
    place: IntArray
    texts: dict[str, list[str]]

    @staticmethod
    def of(counted: Domain, among: Among, attributes: Sequence[str] | None = None) -> Kept:
        """The table of these ``attributes``, of all that are counted unless given, among people of these categories.

        Raises InvalidInput for attributes that are not counted, unknown categories, and an attribute of the table that keeps
        fewer than two.
        """
        names = counted.names if attributes is None else tuple(attributes)
        codes = kept_codes(counted, among)
        alone = next((name for name in names if name in codes and len(codes[name]) < 2), None)
        if alone is not None:
            raise InvalidInput(
                f"of {alone!r} only one category is kept; keep two or more, or leave it out of the table, whose condition it "
                "stays"
            )
        table = tuple(_only(counted[name], codes.get(name)) for name in names)
        sizes = tuple(int(r) for r in counted.sizes)
        place = np.zeros(sizes, dtype=np.int64)
        for attribute in table:
            axis = counted.index(attribute.name)
            own = np.zeros(sizes[axis], dtype=np.int64)
            own[codes.get(attribute.name, range(sizes[axis]))] = np.arange(attribute.size)
            place = place * attribute.size + np.expand_dims(own, [k for k in range(counted.m) if k != axis])
        place[~marked(counted, among)] = -1
        return Kept(Domain(table), place.ravel(), said_categories(counted, codes))

    def odds(self, odds: Odds) -> Odds:
        """A measure of the table's cells as one of the cells that are counted: those that are left out have weight 0."""
        return replace(odds, sums=np.where(self.place >= 0, odds.sums[:, self.place], 0.0))

    def totals(self, cells: FloatArray) -> FloatArray:
        """The table's cells from those that are counted, of its sizes."""
        inside = self.place >= 0
        sizes = tuple(int(r) for r in self.domain.sizes)
        flat = np.bincount(self.place[inside], cells.ravel()[inside], int(np.prod(sizes)))
        return flat.reshape(sizes)


def kept_codes(domain: Domain, among: Among) -> dict[str, list[int]]:
    """The codes that are kept of each attribute, in order. Raises InvalidInput for what is not counted or declared."""
    unknown = [name for name in among if name not in domain.names]
    if unknown:
        raise InvalidInput(
            f"people are restricted by {unknown[0]!r}, which is not among the counted {listed(domain.names)}; count it, too"
        )
    return {name: _codes(domain[name], as_list(kept)) for name, kept in among.items()}


def marked(domain: Domain, among: Among) -> np.ndarray:
    """Which cells of the domain are kept, a table of true and false."""
    return box(domain, {name: as_list(kept) for name, kept in among.items()})


def as_list(kept: Category | Sequence[Category]) -> list[Category]:
    """Categories as a list; a single one stands for itself."""
    return list(kept) if isinstance(kept, Sequence) and not isinstance(kept, str) else [kept]  # type: ignore[list-item]


def _codes(attribute: Attribute, kept: Sequence[Category]) -> list[int]:
    unknown = [each for each in kept if category_text(each) not in attribute.codes]
    if unknown:
        raise InvalidInput(
            f"attribute {attribute.name!r} has no category {unknown[0]!r}; choose among {listed(attribute.texts)}"
        )
    if not kept:
        raise InvalidInput(f"no category of {attribute.name!r} is kept; name one, or leave {attribute.name!r} out")
    return sorted({attribute.codes[category_text(each)] for each in kept})


def _only(attribute: Attribute, codes: list[int] | None) -> Attribute:
    """The attribute with some of its categories; all of them leave it as it is."""
    if codes is None or len(codes) == attribute.size:
        return attribute
    bins = attribute.bins if tuple(codes) == attribute.bin_codes else None
    return Attribute(attribute.name, tuple(attribute.categories[c] for c in codes), attribute.ordered, bins)


def said_categories(domain: Domain, codes: Mapping[str, Iterable[int]]) -> dict[str, list[str]]:
    """Categories as people read them, by attribute."""
    return {name: [category_word(domain[name].texts[c]) for c in kept] for name, kept in codes.items()}


def said_of(texts: Mapping[str, Sequence[str]]) -> str:
    """Categories of attributes in words; empty where there are none."""
    return " and ".join(f"{name} {' or '.join(map(shown, kept))}" for name, kept in texts.items())


def said_among(texts: Mapping[str, Sequence[str]]) -> str:
    """Among whom, as the end of a sentence; empty where it is everybody."""
    return f", among people with {said_of(texts)}" if texts else ""


def who_answered(domain: Domain, among: Among | None) -> Among:
    """The restriction, and for every other attribute of the domain that declares a missing value all its other categories.

    Raises InvalidInput where no attribute of the domain declares one, as nobody is left out then.
    """
    given = dict(among or {})
    missing = [each for each in domain if None in each.codes]
    if not missing:
        raise InvalidInput(
            f"no attribute of {listed(domain.names)} declares a missing value, so that everybody answered; leave out answered"
        )
    answers = {each.name: [c for c in each.categories if c is not None] for each in missing if each.name not in given}
    return {**given, **answers}


def check_work(sums: int, domain: Domain) -> None:
    """Raise InvalidInput for more sums of cells than are tested in a few seconds."""
    cells = int(np.prod(domain.sizes))
    if sums * cells > MOST_WORK:
        raise InvalidInput(
            f"{sums} shares of {cells} cells of {listed(domain.names)} are asked for, and at most {MOST_WORK} shares times "
            "cells take a few seconds; ask for fewer, or restrict by fewer attributes"
        )


@dataclass(frozen=True, eq=False, repr=False)
class EstimateAmong(Estimate):
    """Estimated proportions among the people whose true answers are in the categories of ``among``.

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


def estimate_among(  # noqa: PLR0913 (each argument is one question a user answers)
    counts: Counts | CountedTable,
    mechanism: Randomizer | None,
    among: Among,
    *,
    attributes: Sequence[str] | None = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> EstimateAmong:
    """Proportions of the true records among those whose true answers are in the given categories.

    Parameters
    ----------
    counts
        of randomized records over the attributes of the table and of ``among``, all records: none is to be left out beforehand.
        Or a table that is estimated already, without a mechanism.
    among
        by attribute the categories that are kept; attributes that are not named keep all.
    attributes
        of the table, all that are counted unless given; the others only restrict who counts.
    confidence, simultaneous
        of the intervals, as in :func:`optrr.estimate`.

    Raises
    ------
    InvalidInput
        for unknown attributes or categories, a large table, or too few records. SingularMarginal where the mechanism
        hides an effect of what is counted.
    """
    check_confidence(confidence)
    check_records(counts.n)
    kept = Kept.of(counts.domain, among, attributes)
    sizes = tuple(int(r) for r in kept.domain.sizes)
    wanted = int(np.prod(sizes))
    check_work(wanted, counts.domain)
    table = counted_table(counts, mechanism)
    kernel, sampling, observed = table.kernel, table.sampling, table.observed.ravel()
    kernel.check_invertible()
    tail = (1 - confidence) / (wanted if simultaneous else 1) / 2
    each = [Inversion.of(kept.odds(quantities.share(m, 1 - m)), sampling, observed) for m in np.eye(wanted)]
    ends = [(inversion.deviation(), *inversion.limits(tail)) for inversion in each]
    error, low, high = (np.array(column).reshape(sizes) for column in zip(*ends, strict=True))
    everybody = replace(sampling, sums=(kept.place >= 0).astype(np.float64)[None])
    total_error = float(np.sqrt(np.maximum(everybody.covariance(observed, counts.n - 1), 0.0))[0, 0])
    # the unbiased table over its own sum, so that the shares sum to 1
    cells = kept.totals(kernel.solve(table.observed))
    total = float(cells.sum())
    shares = cells / total if total > 0 else np.full(sizes, np.nan)
    faint = f"the kept share{said_among(kept.texts)}, cannot be told from 0, so the records say next to nothing on them"
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
        among=kept.texts,
        share=total,
    )
