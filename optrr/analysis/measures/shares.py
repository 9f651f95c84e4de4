"""Proportions of a table's cells in a subpopulation, and linear combinations of such proportions (theory §4.5).

Among people who are kept (:mod:`optrr.analysis.measures.subgroups`) a cell's proportion is π_cell/Σ π. Where missing
answers about one attribute of the table are declared ignorable, the table is that of all people, whether they answered
or not: with x the cells of the table's other attributes and y the answer,

    share of (x, y) = π_x/Σ π · π_xy/π_x,answered,

and "it is v" is (1 − v) π_x π_xy = v (π_x,answered Σ π − π_x π_xy), which divides by nothing, as the equation of every measure.

A contrast is any weighted sum of proportions (shares), θ = Σ w_k (share k): the difference of two shares, in one group
or in two; a difference of differences; a sum of cells. Each is that of the cells ``of`` among those of a group
``where``. Shares of one group are added first, and are the mean of a score Σ w_k 1[cell in ``of`` k] over it, so that θ
= Σ_g A_g/D_g, A_g = Σ s π and D_g = Σ π over the cells of the group, and "θ has this value" is multiplied by all D_g
(:func:`optrr.analysis.measures.quantities.sum_of_means`). All sums are estimated from one table of all attributes that
are named, so that their covariance is exact, whether groups overlap or not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, sqrt
from typing import Any

import numpy as np

from optrr.analysis.measures import quantities
from optrr.analysis.measures.measure import Measures, Row, tested
from optrr.analysis.measures.quantities import Inversion, Odds
from optrr.analysis.measures.subgroups import (
    Among,
    Kept,
    answers_of,
    check_work,
    complete_where,
    kept_codes,
    marked,
    said_categories,
    said_missing_at_random,
    said_of,
    said_people,
    said_where,
)
from optrr.core.display import brief
from optrr.core.domain import Category, Domain, listed
from optrr.core.errors import InvalidInput
from optrr.core.estimation import CLEAR_OF_ZERO, Estimate, EstimatedTable, check_confidence, check_records, clear_with
from optrr_solvers.arrays import FloatArray, real

# Groups of different people in one contrast; an equation of higher degree would be tested by ever rougher laws.
_MOST_GROUPS = 8
_BIAS = "a ratio of unbiased estimates, biased less and less as the number of records grows; cells may be negative"


@dataclass(frozen=True, eq=False, repr=False)
class EstimateAmong(Estimate):
    """Estimated proportions among people with the categories of ``where``.

    Membership is by true answers.

    ``n`` is the number of all records, and ``share`` the estimated proportion of the subgroup among all people.
    ``note`` states the assumption where missing answers are missing at random, and ``sample`` how weighted records were
    sampled.
    """

    where: dict[str, list[str]] = field(default_factory=dict)
    share: float = 1.0
    note: str = ""
    sample: str = ""

    in_summary = (*Estimate.in_summary, "where", "share", "note")

    @property
    def counts(self) -> FloatArray:
        """Estimated counts, same shape.

        In the records, or in the population if records are weighted.
        """
        return np.asarray(self.n * self.share * self.estimate)

    def summary(self) -> dict[str, Any]:
        """Return the JSON object."""
        return super().summary() | ({"sample": self.sample} if self.sample else {})

    def headline(self) -> str:
        """Summarize the table, the number of records and the subgroup."""
        note = "".join(f"; {said}" for said in (self.note, self.sample and f"weighted: {self.sample}") if said)
        return f"{super().headline()}{said_where(self.where)}, estimated as {100 * self.share:.3g}% of all{note}"


def estimate_where(  # noqa: PLR0913 (each argument is one question a user answers)
    table: EstimatedTable,
    where: Among,
    *,
    attributes: Sequence[str] | None = None,
    missing_at_random: str | None = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> EstimateAmong:
    """Estimate proportions among people whose true answers are in a subgroup.

    Raises InvalidInput for unknown attributes or categories, a large table, or too few records. SingularMarginal if the
    mechanism hides an effect of the counted table.

    Parameters
    ----------
    table
        Table of randomized records over the attributes of the table and of ``where``, all records: leave none out
        beforehand.
    where
        Categories that are kept, by attribute; attributes that are not named keep all.
    attributes
        Attributes of the table, all counted ones unless given; the others only define the subgroup.
    missing_at_random
        an attribute of the table whose missing answers depend on its other attributes alone: the proportions are those
        of all people who are kept, as if they had answered.
    """
    check_confidence(confidence)
    check_records(table.n)
    kept = Kept.of(table.domain, where, attributes)
    wanted = (
        _Cells.of(kept.domain)
        if missing_at_random is None
        else _Cells.without_missing(kept.domain, missing_at_random, where)
    )
    sizes = tuple(int(r) for r in wanted.domain.sizes)
    cells = int(np.prod(sizes))
    check_work(cells, table.domain)
    kernel, sampling, observed = table.kernel, table.sampling, table.observed.ravel()
    kernel.check_invertible()
    tail = (1 - confidence) / (cells if simultaneous else 1) / 2
    each = [Inversion.of(kept.odds(odds), sampling, observed) for odds in wanted.odds()]
    ends = [(inversion.standard_error(inversion.position), *inversion.limits(tail)) for inversion in each]
    error, low, high = (np.array(column).reshape(sizes) for column in zip(*ends, strict=True))
    # the unbiased table over its sum, so that the proportions sum to 1
    unbiased = kept.totals(kernel.solve(table.observed))
    total = float(unbiased.sum())
    shares = wanted.shares(unbiased)
    inside = np.clip(shares, 0.0, 1.0)
    return EstimateAmong(
        domain=wanted.domain,
        n=table.n,
        method="unbiased",
        estimate=shares,
        standard_error=error,
        lower=np.fmin(low, inside),
        upper=np.fmax(high, inside),
        confidence=confidence,
        target="population",
        interval="score",
        bias=_BIAS,
        simultaneous=simultaneous,
        warnings=(*_faint(kept, table), *table.notes),
        where=kept.texts,
        share=total,
        note=wanted.note,
        sample=table.sample,
    )


def _faint(kept: Kept, table: EstimatedTable) -> list[str]:
    """Warn if noise may hide the subgroup."""
    sampling, observed = replace(table.sampling, sums=np.where(kept.place >= 0, 1.0, 0.0)[None]), table.observed.ravel()
    error = sqrt(max(float(sampling.mechanism_noise(observed)[0, 0]), 0.0))
    share = float((observed @ sampling.influence)[0])
    if share >= CLEAR_OF_ZERO * error and share > 0:
        return []
    return [
        f"the records have almost no information on {said_people(kept.texts)}, whose proportion cannot be "
        "distinguished from 0; "
        f"{clear_with(table.n, share / error if error > 0 else 0.0)}"
    ]


@dataclass(frozen=True, eq=False)
class _Cells:
    """The cells of ``domain`` whose proportions are required.

    The table may have one category more of one ``axis``.

    ``sizes`` are the table's, ``answers`` the codes of the axis that are answers; without an axis the table itself is meant.
    """

    domain: Domain
    sizes: tuple[int, ...]
    axis: int | None = None
    answers: tuple[int, ...] = ()
    note: str = ""

    @staticmethod
    def of(table: Domain) -> "_Cells":
        return _Cells(table, tuple(int(r) for r in table.sizes))

    @staticmethod
    def without_missing(table: Domain, name: str, where: Among) -> "_Cells":
        if name not in table.names:
            raise InvalidInput(f"``missing``: {name!r} is not in the table of {listed(table.names)}; name one of these")
        answers = answers_of(table, name, where)
        codes = tuple(table[name].codes[text] for text in table[name].texts if text is not None)
        others = [each for each in table.names if each != name]
        sizes = tuple(int(r) for r in table.sizes)
        left = Kept.of(table, {name: answers}).domain
        return _Cells(left, sizes, table.index(name), codes, said_missing_at_random(name, others))

    def odds(self) -> Iterator[Odds]:
        """Iterate over each cell's proportion among the cells of the table."""
        places = np.arange(int(np.prod(self.sizes))).reshape(self.sizes)
        if self.axis is None:
            for mark in np.eye(places.size):
                yield quantities.share(mark, 1 - mark)
            return
        told = np.take(places, self.answers, axis=self.axis)
        for at in np.ndindex(told.shape):
            row = tuple(slice(None) if k == self.axis else i for k, i in enumerate(at))
            marks = [
                np.isin(places, within).ravel().astype(np.float64) for within in (places[row], told[at], told[row])
            ]
            yield quantities.imputed(*marks)

    def shares(self, unbiased: FloatArray) -> FloatArray:
        """Compute proportions from the unbiased table; NaN if a total is not positive."""
        total = float(unbiased.sum())
        if self.axis is None:
            return unbiased / total if total > 0 else np.full(unbiased.shape, np.nan)
        told = np.take(unbiased, self.answers, axis=self.axis)
        rows, answered = unbiased.sum(axis=self.axis, keepdims=True), told.sum(axis=self.axis, keepdims=True)
        divided = np.divide(
            told * rows, answered * total, out=np.full(told.shape, np.nan), where=(answered > 0) & (total > 0)
        )
        return np.asarray(divided)


@dataclass(frozen=True)
class WeightedShare:
    """A weighted proportion of some categories among other categories.

    ``of`` the categories, ``where`` the subgroup, by default all people.

    Both are categories, a list or a single one, by attribute.
    """

    of: Mapping[str, Category | Sequence[Category]]
    where: Mapping[str, Category | Sequence[Category]] = field(default_factory=dict)
    weight: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that it is about."""
        return tuple(dict.fromkeys([*self.of, *self.where]))


def read_shares(given: Iterable[WeightedShare | Mapping[str, Any]]) -> list[WeightedShare]:
    """Parse proportions from objects with the keys ``of``, ``where``, ``weight``.

    Raises InvalidInput for other objects.
    """
    return [each if isinstance(each, WeightedShare) else _read(each) for each in given]


def _read(given: Any) -> WeightedShare:
    known = {"of", "where", "weight"}
    if not isinstance(given, Mapping) or not {"of"} <= set(given) <= known:
        raise InvalidInput(
            f"a proportion is given as {brief(given)}; give an object with 'of' and, if needed, 'where' and 'weight', such as "
            "{'of': {'income': '>50K'}, 'where': {'sex': 'F'}, 'weight': -1}"
        )
    for key in ("of", "where"):
        if not isinstance(given.get(key, {}), Mapping):
            raise InvalidInput(
                f"{key!r} of a proportion is {brief(given[key])}; give categories by attribute, such as {{'sex': 'F'}}"
            )
    return WeightedShare(given["of"], given.get("where", {}), given.get("weight", 1.0))


def names_of(shares: Iterable[WeightedShare]) -> tuple[str, ...]:
    """List all attributes of the proportions once; raise InvalidInput for none."""
    names = tuple(dict.fromkeys(name for share in shares for name in share.names))
    if not names:
        raise InvalidInput("no share names a category; give at least one, such as WeightedShare({'income': '>50K'})")
    return names


def contrast(
    table: EstimatedTable,
    shares: Sequence[WeightedShare],
    *,
    complete_cases: bool = False,
    confidence: float = 0.95,
) -> Measures:
    """Estimate a weighted sum of proportions with an interval by test inversion.

    Raises InvalidInput for unknown attributes or categories, weights that are not finite, a sum that is the same for
    all populations, large tables, or fewer than two records. SingularMarginal if the mechanism hides an effect of the
    counted table.

    Parameters
    ----------
    table
        over all attributes that the shares name.
    shares
        with finite weights, of at most 8 different groups of people.
    complete_cases
        leave out of each share the people with a missing value in one of its attributes.

    Returns
    -------
    Measures
        "proportion" for one share of weight 1, else "contrast", with one row. Its range has the values of the sum in
        all populations; the estimate is NaN if the interval is that whole range.
    """
    check_confidence(confidence)
    check_records(table.n)
    domain, given = table.domain, list(shares)
    if complete_cases:
        answers = complete_where(domain, None)
        told = [{name: answers[name] for name in share.names if name in answers} for share in given]
        given = [replace(share, where={**own, **share.where}) for share, own in zip(given, told, strict=True)]
    for share in given:
        if not isfinite(real(share.weight)):
            raise InvalidInput(f"a share has the weight {brief(share.weight)}; give a finite number, such as -1")
    odds = _sum_of(domain, given)
    check_work(len(odds.sums), domain)
    table.kernel.check_invertible()
    alone = len(given) == 1 and given[0].weight == 1
    name = "proportion" if alone else "contrast"
    rows, warnings = tested([(Row(outcome=_said(domain, given)), odds)], name, table, (1 - confidence) / 2)
    return Measures(
        statistic=name,
        attributes=tuple(given[0].of) if alone else domain.names,
        n=table.n,
        confidence=confidence,
        simultaneous=False,
        rows=rows,
        warnings=(*warnings, *table.notes),
        where=said_categories(domain, kept_codes(domain, given[0].where)) if alone else {},
        sample=table.sample,
    )


def _sum_of(domain: Domain, shares: Sequence[WeightedShare]) -> Odds:
    scores: dict[bytes, tuple[FloatArray, FloatArray]] = {}
    for share in shares:
        kept_codes(domain, {**share.of, **share.where})
        group, hit = (marked(domain, each).ravel() for each in (share.where, share.of))
        none = np.zeros(group.size), group.astype(np.float64)
        scores.setdefault(group.tobytes(), none)[0][:] += share.weight * (hit & group)
    parts = [(s, group) for s, group in scores.values() if np.ptp(s[group > 0]) > 0]
    if not parts:
        raise InvalidInput(f"{_said(domain, shares, True)} is the same for all answers; name other categories")
    if len(parts) > _MOST_GROUPS:
        raise InvalidInput(f"{len(parts)} different groups are compared; a contrast takes at most {_MOST_GROUPS}")
    fixed = sum(float(s[group > 0].min()) for s, group in scores.values() if np.ptp(s[group > 0]) == 0)
    odds = quantities.sum_of_means(parts)
    return replace(odds, low=odds.low + fixed, high=odds.high + fixed)


def _said(domain: Domain, shares: Sequence[WeightedShare], with_group: bool = False) -> str:
    """Describe the sum in words.

    ``with_group`` adds the subgroup of a single proportion, which a result states separately.
    """
    each = []
    for share in shares:
        of, where = (said_of(said_categories(domain, kept_codes(domain, s))) for s in (share.of, share.where))
        alone = len(shares) == 1 and share.weight == 1
        times = "" if alone else f"{'-' if share.weight < 0 else '+'} {abs(share.weight):g} × "
        each.append(f"{times}{of}{f' among {where}' if where and (with_group or not alone) else ''}")
    return " ".join(each).removeprefix("+ ")
