"""Shares in sub-populations, and any sum of them with weights: one number θ with an interval.

A share is that of the cells ``of`` among those of a group ``among``, each given by categories of several attributes.
θ = Σ w_k (share k): the difference of two shares, in one group or in two; a difference of differences; a sum of cells.
Shares of one group are added first, and are the mean of a score Σ w_k 1[cell in ``of`` k] over the group, so that θ is a sum of
one mean for each different group:

    θ = Σ_g A_g/D_g,    A_g = Σ s π and D_g = Σ π over the cells of the group.

"θ has this value" is multiplied by all D_g and then divides by nothing (:func:`optrr.tables.measures.quantities.sum_of_means`).
All sums are estimated from one table of all attributes that are named, so that how they vary together is exact, whether groups
overlap or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import numpy as np

from optrr.domain.domain import Category, Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Randomizer
from optrr.records.counts import Counts
from optrr.show.text import brief
from optrr.tables.estimation.estimator import check_confidence, check_records
from optrr.tables.estimation.impossible import CountedTable, counted_table
from optrr.tables.measures import quantities
from optrr.tables.measures.among import check_work, kept_codes, marked, said_categories, said_of, who_answered
from optrr.tables.measures.measure import Measures, Named, tested
from optrr.tables.measures.quantities import Odds
from optrr_solvers.arrays import FloatArray, real

# Groups of different people in one contrast; an equation of higher degree would be tested by ever rougher laws.
_MOST_GROUPS = 8


@dataclass(frozen=True)
class WeightedShare:
    """The share of the people ``of`` some categories among the people ``among`` others, everybody unless given, times a weight.

    Both are categories, a list or a single one, by attribute.
    """

    of: Mapping[str, Category | Sequence[Category]]
    among: Mapping[str, Category | Sequence[Category]] = field(default_factory=dict)
    weight: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that it is about."""
        return tuple(dict.fromkeys([*self.of, *self.among]))


def read_shares(given: Iterable[WeightedShare | Mapping[str, Any]]) -> list[WeightedShare]:
    """Shares from objects with the keys ``of``, ``among``, ``weight``, as JSON holds them. Raises InvalidInput for others."""
    return [each if isinstance(each, WeightedShare) else _read(each) for each in given]


def _read(given: Any) -> WeightedShare:
    known = {"of", "among", "weight"}
    if not isinstance(given, Mapping) or not {"of"} <= set(given) <= known:
        raise InvalidInput(
            f"a share is given as {brief(given)}; give an object with 'of' and, if need be, 'among' and 'weight', such as "
            "{'of': {'income': '>50K'}, 'among': {'sex': 'F'}, 'weight': -1}"
        )
    for key in ("of", "among"):
        if not isinstance(given.get(key, {}), Mapping):
            raise InvalidInput(f"a share has {key!r} {brief(given[key])}; give categories by attribute: {{'sex': 'F'}}")
    return WeightedShare(given["of"], given.get("among", {}), given.get("weight", 1.0))


def names_of(shares: Iterable[WeightedShare]) -> tuple[str, ...]:
    """All attributes that the shares are about, each once. Raises InvalidInput for none."""
    names = tuple(dict.fromkeys(name for share in shares for name in share.names))
    if not names:
        raise InvalidInput("no share names a category; give at least one, such as WeightedShare({'income': '>50K'})")
    return names


def contrast(
    counts: Counts | CountedTable,
    mechanism: Randomizer | None,
    shares: Sequence[WeightedShare],
    *,
    answered: bool = False,
    confidence: float = 0.95,
) -> Measures:
    """The sum of some shares of the true records, each with its weight, and its interval by test inversion.

    Parameters
    ----------
    counts
        over all attributes that the shares name. Or a table that is estimated already, without a mechanism.
    shares
        with finite weights, of at most 8 different groups of people.
    answered
        leave out of each share the people who gave no answer to an attribute that it is about.

    Returns
    -------
    Measures
        "share" for one share of weight 1, else "contrast", with one row. Its range is what the sum can be in any population;
        the estimate is NaN where the interval is that whole range.

    Raises
    ------
    InvalidInput
        for unknown attributes or categories, weights that are not finite, a sum that is the same for all populations, large
        tables, or fewer than two records. SingularMarginal where the mechanism hides an effect of what is counted.
    """
    check_confidence(confidence)
    check_records(counts.n)
    domain, given = counts.domain, _among_answers(counts.domain, shares) if answered else list(shares)
    for share in given:
        if not isfinite(real(share.weight)):
            raise InvalidInput(f"a share has the weight {brief(share.weight)}; give a finite number, such as -1")
    odds = _sum_of(domain, given)
    check_work(len(odds.sums), domain)
    table = counted_table(counts, mechanism)
    table.kernel.check_invertible()
    alone = len(given) == 1 and given[0].weight == 1
    name = "share" if alone else "contrast"
    rows, warnings = tested([(Named(outcome=_said(domain, given)), odds)], name, table, (1 - confidence) / 2)
    return Measures(
        measure=name,
        attributes=tuple(given[0].of) if alone else domain.names,
        n=counts.n,
        confidence=confidence,
        simultaneous=False,
        rows=rows,
        warnings=(*warnings, *table.notes),
        among=said_categories(domain, kept_codes(domain, given[0].among)) if alone else {},
        sample=table.sample,
    )


def _among_answers(domain: Domain, shares: Sequence[WeightedShare]) -> list[WeightedShare]:
    answers = who_answered(domain, None)
    return [
        replace(s, among={**{name: answers[name] for name in s.names if name in answers}, **s.among}) for s in shares
    ]


def _sum_of(domain: Domain, shares: Sequence[WeightedShare]) -> Odds:
    scores: dict[bytes, tuple[FloatArray, FloatArray]] = {}
    for share in shares:
        kept_codes(domain, {**share.of, **share.among})
        group, hit = (marked(domain, each).ravel() for each in (share.among, share.of))
        none = np.zeros(group.size), group.astype(np.float64)
        scores.setdefault(group.tobytes(), none)[0][:] += share.weight * (hit & group)
    parts = [(s, group) for s, group in scores.values() if np.ptp(s[group > 0]) > 0]
    if not parts:
        raise InvalidInput(
            f"{_said(domain, shares, True)} is the same whatever people answered; ask for other categories"
        )
    if len(parts) > _MOST_GROUPS:
        raise InvalidInput(f"{len(parts)} different groups are compared; a contrast takes at most {_MOST_GROUPS}")
    fixed = sum(float(s[group > 0].min()) for s, group in scores.values() if np.ptp(s[group > 0]) == 0)
    odds = quantities.sum_of_means(parts)
    return replace(odds, low=odds.low + fixed, high=odds.high + fixed)


def _said(domain: Domain, shares: Sequence[WeightedShare], with_group: bool = False) -> str:
    """The sum in words; of a single share what it is among only ``with_group``: a result says that beside it."""
    each = []
    for share in shares:
        of, among = (said_of(said_categories(domain, kept_codes(domain, s))) for s in (share.of, share.among))
        alone = len(shares) == 1 and share.weight == 1
        times = "" if alone else f"{'-' if share.weight < 0 else '+'} {abs(share.weight):g} × "
        each.append(f"{times}{of}{f' among {among}' if among and (with_group or not alone) else ''}")
    return " ".join(each).removeprefix("+ ")
