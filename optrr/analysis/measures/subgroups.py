"""Subpopulations by true answers, such as women of two ages, or people without missing answers (theory §4.5).

It is not known whom a restriction on true values leaves out: a report in a category that is left out may come from any
respondent. So no report is left out: the attributes of the restriction are counted together with those of a table, a
cell of the table adds up all cells of the counts that are in it and are kept, and proportions are ratios of such sums,
tested by equations without division (:mod:`optrr.analysis.measures.quantities`).

Respondents without an answer are a separate category where an attribute declares a missing value. *Among those who
answered* is the restriction to all its other categories, and its results hold for these people alone, unless the
missing answers are *ignorable*: given the other attributes, whether a person answers does not depend on the answer
(missing at random: Rubin, Biometrika 63, 1976). Under this assumption the numbers are of all people
(:mod:`optrr.analysis.measures.shares` for tables, :func:`ignored` for measures).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optrr.analysis.measures.quantities import Odds
from optrr.core.display import MISSING, brief, category_word
from optrr.core.domain import Attribute, Category, Domain, Missing, category_text, check_missing, listed, shown
from optrr.core.errors import InvalidInput
from optrr_solvers.arrays import FloatArray, IntArray

# By attribute the categories that are kept, or the only one.
Among = Mapping[str, Category | Sequence[Category]]
# Sums of cells times cells of the counts: an interval takes some 60 laws of so many cells, a few seconds in all.
MOST_WORK = 1 << 18


@dataclass(frozen=True, eq=False)
class Kept:
    """A table of a subgroup.

    Its ``domain``, and the cell to which each counted cell is added; −1 for none.

    ``texts`` are the categories that are kept of each attribute that is restricted, as printed texts.
    """

    domain: Domain
    place: IntArray
    texts: dict[str, list[str]]

    @staticmethod
    def of(counted: Domain, where: Among, attributes: Sequence[str] | None = None) -> "Kept":
        """Build the table of ``attributes`` among people with these categories.

        All counted attributes by default.

        Raises InvalidInput for attributes that are not counted, unknown categories, and an attribute of the table that keeps
        fewer than two.
        """
        names = counted.names if attributes is None else tuple(attributes)
        codes = kept_codes(counted, where)
        alone = next((name for name in names if name in codes and len(codes[name]) < 2), None)
        if alone is not None:
            raise InvalidInput(
                f"``where``: keeps only one category of {alone!r}; keep two or more, or leave {alone!r} out of the "
                "table, where it can still be a condition"
            )
        table = tuple(_only(counted[name], codes.get(name)) for name in names)
        sizes = tuple(int(r) for r in counted.sizes)
        place = np.zeros(sizes, dtype=np.int64)
        for attribute in table:
            axis = counted.index(attribute.name)
            own = np.zeros(sizes[axis], dtype=np.int64)
            own[codes.get(attribute.name, range(sizes[axis]))] = np.arange(attribute.size)
            place = place * attribute.size + np.expand_dims(own, [k for k in range(counted.m) if k != axis])
        place[~marked(counted, where)] = -1
        return Kept(Domain(table), place.ravel(), said_categories(counted, codes))

    def odds(self, odds: Odds) -> Odds:
        """Extend a measure of the table to all counted cells, with weight 0 outside."""
        return replace(odds, sums=np.where(self.place >= 0, odds.sums[:, self.place], 0.0))

    def totals(self, cells: FloatArray) -> FloatArray:
        """Sum the counted cells to the table's cells."""
        inside = self.place >= 0
        sizes = tuple(int(r) for r in self.domain.sizes)
        flat = np.bincount(self.place[inside], cells.ravel()[inside], int(np.prod(sizes)))
        return np.asarray(flat.reshape(sizes), dtype=np.float64)


def kept_codes(domain: Domain, where: Among) -> dict[str, list[int]]:
    """Find the codes kept of each attribute, in order.

    Raises InvalidInput for attributes not counted or categories not declared.
    """
    unknown = [name for name in where if name not in domain.names]
    if unknown:
        raise InvalidInput(f"``where``: {unknown[0]!r} is not among the counted {listed(domain.names)}; count it, too")
    return {name: _codes(domain[name], as_list(kept)) for name, kept in where.items()}


def marked(domain: Domain, where: Among) -> np.ndarray:
    """Mark the kept cells of the domain in a Boolean table."""
    out = np.ones(tuple(domain.sizes), dtype=np.bool_)
    for name, kept in where.items():
        i = domain.index(name)
        inside = np.zeros(domain.attributes[i].size, dtype=np.bool_)
        inside[[code_of(domain.attributes[i], c) for c in as_list(kept)]] = True
        out &= inside.reshape([-1 if k == i else 1 for k in range(domain.m)])
    return out


def as_list(kept: Category | Sequence[Category]) -> list[Category]:
    """Return categories as a list, also a single one."""
    return list(kept) if isinstance(kept, Sequence) and not isinstance(kept, str) else [kept]


def _codes(attribute: Attribute, kept: Sequence[Category]) -> list[int]:
    if not kept:
        raise InvalidInput(
            f"``where``: keeps no category of {attribute.name!r}; name one, or leave {attribute.name!r} out"
        )
    return sorted({code_of(attribute, each) for each in kept})


def _only(attribute: Attribute, codes: list[int] | None) -> Attribute:
    """Restrict the attribute to some categories; all leave it unchanged."""
    if codes is None or len(codes) == attribute.size:
        return attribute
    bins = attribute.bins if tuple(codes) == attribute.bin_codes else None
    return Attribute(attribute.name, tuple(attribute.categories[c] for c in codes), attribute.ordered, bins)


def said_categories(domain: Domain, codes: Mapping[str, Iterable[int]]) -> dict[str, list[str]]:
    """Format categories for output, by attribute."""
    return {name: [category_word(domain[name].texts[c]) for c in kept] for name, kept in codes.items()}


def said_of(texts: Mapping[str, Sequence[str]]) -> str:
    """Describe categories of attributes in words; empty without any."""
    return " and ".join(f"{name} {' or '.join(map(shown, kept))}" for name, kept in texts.items())


def said_where(texts: Mapping[str, Sequence[str]]) -> str:
    """Describe the subgroup at the end of a sentence; empty for all people."""
    return f", among {said_people(texts)}" if texts else ""


def said_people(texts: Mapping[str, Sequence[str]]) -> str:
    """Describe the people of the subgroup."""
    return f"people with {said_of(texts)}" if texts else "everybody"


def complete_where(domain: Domain, where: Among | None) -> Among:
    """Add to the restriction the non-missing categories of other attributes.

    Those that declare a missing value.

    Raises InvalidInput if no attribute of the domain declares one, as no record is left out then.
    """
    given = dict(where or {})
    missing = [each for each in domain if None in each.codes]
    if not missing:
        raise InvalidInput(
            f"``missing``: no attribute of {listed(domain.names)} declares a missing value, so all cases are complete; leave "
            "it out"
        )
    answers = {each.name: [c for c in each.categories if c is not None] for each in missing if each.name not in given}
    return {**given, **answers}


# Measures of groups (first) and outcomes (second) that are unbiased for all people if people without an answer are left
# out, where a missing answer depends on the other attribute alone.
_IGNORABLE = (
    ("column-proportions", "odds-ratio"),
    ("row-proportions", "risk-difference", "risk-ratio", "odds-ratio", "means", "mean-difference"),
)


def ignored(domain: Domain, name: str, measure: str, where: Among) -> tuple[Among, str]:
    """Return the restriction of a measure under missing at random.

    The measure is of the domain's first two attributes, and one has missing values.

    Also the assumption, in one sentence. Proportions within groups are those of all people where answers about outcomes
    are missing; where those about groups are missing, odds ratios and proportions within outcomes are.

    Raises InvalidInput for another attribute than the two, for one that declares no missing value, and for a measure
    that would be biased.
    """
    two = domain.names
    if len(two) != 2:
        raise InvalidInput(
            f"``missing``: at random is for measures of two attributes, not of {len(two)}; take complete cases"
        )
    if name not in two:
        raise InvalidInput(f"``missing``: {name!r} is not among {listed(two)}; name one of them")
    answers, place = answers_of(domain, name, where), two.index(name)
    if measure not in _IGNORABLE[place]:
        fitting = ", ".join(_IGNORABLE[place])
        raise InvalidInput(
            f"``missing``: if {name!r} is missing at random, {measure} cannot be estimated for all people; choose "
            f"{fitting}, with {name!r} as {'the outcome' if place else 'the groups'}, or use complete cases"
        )
    return {**where, name: answers}, said_missing_at_random(name, [two[1 - place]])


def answers_of(domain: Domain, name: str, where: Among) -> list[Category]:
    """List the non-missing categories of an attribute.

    Raises InvalidInput if it has no missing value or is already restricted.
    """
    if name in where:
        raise InvalidInput(
            f"``where``: restricts {name!r}, which is missing at random; leave {name!r} out of ``where`` or of ``missing``"
        )
    if None not in domain[name].codes:
        raise InvalidInput(
            f"``missing``: attribute {name!r} declares no missing value, so all respondents answered; leave "
            "``missing`` out"
        )
    return [c for c in domain[name].categories if c is not None]


def said_missing_at_random(name: str, given: Sequence[str]) -> str:
    """State the assumption."""
    alike = f"among people with the same {' and '.join(map(repr, given))} " if given else ""
    return f"of all people, if {alike}whether they answered {name!r} does not depend on the answer, as is declared"


def restriction(
    domain: Domain, attributes: Sequence[str], where: Among | None, missing: Missing
) -> tuple[list[str], Among]:
    """Return the attributes to count, the table's first, and the subgroup."""
    if where is not None and not isinstance(where, Mapping):
        raise InvalidInput(f"``where``: {brief(where)}; give categories by attribute, such as {{'age': '30-59'}}")
    names = [*attributes, *(name for name in where or {} if name not in attributes)]
    complete = check_missing(missing) == "complete-cases"
    return names, complete_where(domain.subset(names), where) if complete else where or {}


def check_work(sums: int, domain: Domain) -> None:
    """Raise InvalidInput for more sums of cells than are tested in a few seconds."""
    cells = int(np.prod(domain.sizes))
    if sums * cells > MOST_WORK:
        raise InvalidInput(
            f"{sums} proportions over a table of {cells} cells of {listed(domain.names)} are too many: their product "
            f"may be at most {MOST_WORK}; ask for fewer, or restrict by fewer attributes"
        )


def code_of(attribute: Attribute, category: Category) -> int:
    """Find the code of a declared category.

    The missing value also has the word it is printed as, unless a category has that name.

    Raises InvalidInput for another one.
    """
    text = category_text(category)
    if text == MISSING and text not in attribute.codes:
        text = None
    if text not in attribute.codes:
        raise InvalidInput(
            f"attribute {attribute.name!r} has no category {category!r}; choose among "
            f"{listed([category_word(each) for each in attribute.texts])}"
        )
    return attribute.codes[text]
