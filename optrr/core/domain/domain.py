"""The domain: all columns with their categories, declared and never inferred silently from protected data (theory §2).

The categories that occur in the protected records are private information: a domain computed from the data would
publish a category that only one person has. So a domain is written down beforehand, or read from public reference data
(:func:`optrr.core.records.observed.observed_domain`).

Categories are compared by canonical text, because the same record may come from CSV (all text) and from Parquet
(typed): a number by its shortest digits (``3`` for 3.0), a boolean by ``true`` or ``false``, a date by its ISO form,
text by itself. ``None`` is the missing value, a category like any other, which must be declared; so must be the marks
that mean it (``NA``, ``.``, 99). Numbers and dates become categories by declared bins (:mod:`optrr.core.domain.bins`).

Records are an integer array of codes, shape (n, m), the positions of their categories; a table is one row per cell, the
categories first.

Scores are the numbers that categories count as in means, trends, correlations and linear models. An attribute whose
categories are all finite numbers counts by these: 0, 1, 5, 10 cigarettes a day are no evenly spaced steps. Every other
one counts by its categories' positions 0..r−1. Analyses accept other numbers.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from optrr.core.display.result import TableResult, in_json
from optrr.core.display.text import brief
from optrr.core.domain.arrays import array_of
from optrr.core.domain.bins import Bins, Closed, bins_of, edge_text, interval_of_floats, number_text
from optrr.core.errors import InvalidInput
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import written
from optrr_solvers.problem import SIZE_RANGE

Category = str | int | float | bool | None

# Types of categories that need no second look.
_PLAIN = {str, int, bool, type(None)}
# Types of which different categories have different texts, as long as all are of one.
_WITH_OWN_TEXTS = ({int}, {str})
# Number of names or categories that an error message lists before it counts the rest.
_LISTED = 10
# Characters of one name or category that a message shows.
_LONGEST = 60


def category_text(value: Category | date) -> str | None:
    """Return the canonical text of a category or a date; None stays None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, date):
        return edge_text(value)
    return value if value is None or isinstance(value, str) else str(value)


def shown(text: str) -> str:
    """Format external text for a message: quoted, escaped, and cut if long."""
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def listed(values: Sequence[object]) -> str:
    """List the first values for an error message and count the others."""
    more = f", … ({len(values)} in all)" if len(values) > _LISTED else ""
    return ", ".join(shown(v) if isinstance(v, str) else repr(v) for v in values[:_LISTED]) + more


class MultiSelect(NamedTuple):
    """An option of a multi-select column: the column, separator and option."""

    column: str
    separator: str
    option: str


# Categories of an option of a multi-select column.
NO_YES = ("no", "yes")
# Attributes that a domain names when it is printed.
_SHOWN = 8


@dataclass(frozen=True)
class Attribute:
    """A column and its declared categories.

    Raises InvalidInput for fewer than two categories, two with the same text, a value of another type than those below,
    or another number of categories than bins.

    Parameters
    ----------
    name
        the column's name, not empty.
    categories
        2 to 10^6 different values: text, numbers, booleans, dates (kept as their ISO text), or None for "missing". A
        category's position is its code. With bins their labels, unless given.
    ordered
        whether the order of the categories means something, from the least to the greatest.
    bins
        Edges of numbers or dates, whose labels are the categories (except None for the missing value).
    missing
        texts or numbers that mean the missing value in the data, such as ``NA``; None is then a category.
    rest
        the category that every undeclared value is read as, such as ``other``; None refuses such values.
    label
        text that results show beside the name, such as the place of a variant; it changes nothing.
    multi_select
        column, separator and option of the multi-select column that the attribute, of categories "no" and "yes", is read from;
        with a ``rest``, every undeclared option counts as this one.

    Examples
    --------
    >>> import optrr
    >>> optrr.Attribute("smokes", ("yes", "no")).size
    2
    >>> optrr.Attribute("age", bins=optrr.Bins((0, 18, 65, float("inf")))).categories
    ('[0, 18)', '[18, 65)', '>= 65')
    """

    name: str
    categories: tuple[Category, ...] = ()
    ordered: bool = False
    bins: Bins | None = None
    missing: tuple[str, ...] = ()
    rest: str | None = None
    label: str = field(default="", compare=False)
    multi_select: MultiSelect | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInput(f"an attribute is named {self.name!r}; give a name that is text and not empty")
        if isinstance(self.categories, str) or not isinstance(self.categories, Iterable):
            raise InvalidInput(f"attribute {self.name!r} has categories {self.categories!r}; give a list of them")
        if not (self.bins is None or isinstance(self.bins, Bins)):
            raise InvalidInput(f"attribute {self.name!r} has bins {brief(self.bins)}; give optrr.Bins([18, 30, 65])")
        given = tuple(self.categories) or (NO_YES if self.multi_select else self.bins.labels if self.bins else ())
        if not set(map(type, given)) <= _PLAIN:
            given = tuple(self._checked(c) for c in given)
        object.__setattr__(self, "categories", given)
        if self.missing != ():
            self._check_missing()
        if self.multi_select is not None:
            self._check_multi_select(self.multi_select)
        if self.rest is not None and self.rest not in self.codes:
            raise InvalidInput(
                f"attribute {self.name!r} reads the rest as {self.rest!r}, which is not a category; add it to the "
                "categories"
            )
        if self.bins is not None:
            object.__setattr__(self, "ordered", True)
            labels = sum(c is not None for c in self.categories)
            if labels != len(self.bins.labels):
                raise InvalidInput(
                    f"attribute {self.name!r} has {len(self.bins.labels)} bins and {labels} categories; give each bin its "
                    "label, or leave the categories out"
                )
        if not SIZE_RANGE[0] <= self.size <= SIZE_RANGE[1]:
            raise InvalidInput(_bad_size(self.name, self.size))
        # whole numbers, or texts, that differ have texts that differ, which need not be made for it
        kinds = set(map(type, self.categories))
        kinds.discard(type(None))
        if len(set(self.categories if kinds in _WITH_OWN_TEXTS else self.texts)) < self.size:
            raise InvalidInput(f"attribute {self.name!r} lists category {self._repeated()!r} twice; list it once")

    def _checked(self, value: object) -> Category:
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, date):
            return edge_text(plain)
        if isinstance(plain, float) and math.isfinite(plain):
            return int(plain) if plain.is_integer() else plain
        if plain is None or isinstance(plain, str | int):
            return plain
        raise InvalidInput(
            f"attribute {self.name!r} has category {value!r}; categories are text, finite numbers, dates, true/false or "
            "null: write it as text"
        )

    def _check_missing(self) -> None:
        marks = (self.missing,) if isinstance(self.missing, str | int | float) else self.missing
        texts = tuple(category_text(self._checked(mark)) for mark in marks)
        for text in texts:
            if text is None or text in self.codes:
                raise InvalidInput(
                    f"attribute {self.name!r} has {text!r} among the marks of a missing value and among its categories; "
                    "keep it in one of the two"
                )
        object.__setattr__(self, "missing", texts)
        if texts and None not in self.categories:
            object.__setattr__(self, "categories", (*self.categories, None))
            for known in ("texts", "codes"):
                self.__dict__.pop(known, None)

    def _check_multi_select(self, given: tuple[str, ...]) -> None:
        if len(given) != len(MultiSelect._fields) or not all(isinstance(text, str) and text for text in given):
            raise InvalidInput(
                f"attribute {self.name!r} has multi_select {brief(given)}; give three texts: column, separator and option"
            )
        if set(self.categories) - {None} != set(NO_YES):
            raise InvalidInput(
                f"attribute {self.name!r} is an option of a multi-select column; its categories are {NO_YES}"
            )
        object.__setattr__(self, "multi_select", MultiSelect(*given))

    def _repeated(self) -> str | None:
        seen: set[str | None] = set()
        return next(t for t in self.texts if t in seen or seen.add(t))  # type: ignore[func-returns-value]

    @property
    def numbers(self) -> int | None:
        """Number of categories if they are 0, 1, …, without a final missing value.

        None if they are others.
        """
        known = self.categories[: self.size - (self.categories[-1:] == (None,))]
        # True and 1.0 are equal to 1, and are other categories
        return len(known) if known == tuple(range(len(known))) and set(map(type, known)) == {int} else None

    @property
    def size(self) -> int:
        """r_i, the number of categories."""
        return len(self.categories)

    @cached_property
    def texts(self) -> tuple[str | None, ...]:
        """Canonical text of every category, in order; None for the missing value."""
        return tuple(category_text(c) for c in self.categories)

    @cached_property
    def codes(self) -> dict[str | None, int]:
        """Position of every category, by its text."""
        return {text: code for code, text in enumerate(self.texts)}

    @cached_property
    def readings(self) -> dict[str, int]:
        """Other texts of the categories with their codes.

        Formats of numbers, booleans and intervals by other programs.
        """
        out: dict[str, int] = {}
        for code, category in enumerate(self.categories):
            if isinstance(category, bool):
                out |= {str(category): code, str(category).upper(): code}
            elif isinstance(category, int):
                out[f"{category}.0"] = code  # pandas, where a value of the column is missing
            elif isinstance(category, float):
                out[str(pa.scalar(category).cast(pa.string()))] = code  # Arrow: 1e-7 for 1e-07
            elif isinstance(category, str) and (floats := interval_of_floats(category)):
                out[floats] = code
        if self.bins is not None:
            out |= {text: self.bin_codes[k] for text, k in self.bins.readings().items()}
        return {text: code for text, code in out.items() if text not in self.codes}

    @cached_property
    def bin_codes(self) -> tuple[int, ...]:
        """The code of each bin: the categories in order, the missing value left out."""
        return tuple(code for code, category in enumerate(self.categories) if category is not None)

    @property
    def missing_code(self) -> int | None:
        """Position of the missing value; None if it is not declared."""
        return self.codes.get(None)


def binned(name: str, bins: Bins, missing: Iterable[str] = ()) -> Attribute:
    """Build the attribute whose categories are the labels of these bins."""
    return Attribute(name, bins.labels, ordered=True, bins=bins, missing=tuple(missing))


@dataclass(frozen=True, repr=False)
class Domain:
    """Attributes with different names, in the order of a record. Iterates over them.

    Raises InvalidInput if it has no attribute, or two of one name.

    Examples
    --------
    >>> import optrr
    >>> domain = optrr.Domain.of({"sex": ["F", "M"], "rooms": 4})
    >>> domain.names, domain.sizes.tolist()
    (('sex', 'rooms'), [2, 4])
    """

    attributes: tuple[Attribute, ...]

    def __repr__(self) -> str:
        shown = ", ".join(f"{a.name}: {a.size}" for a in self.attributes[:_SHOWN])
        return f"<Domain: {shown}{', …' if self.m > _SHOWN else ''}>"

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        if not self.attributes:
            raise InvalidInput("the domain has no attributes; declare at least one")
        if len(self._positions) < len(self.attributes):
            names = [a.name for a in self.attributes]
            twice = next(n for k, n in enumerate(names) if self._positions[n] != k)
            raise InvalidInput(f"attribute {twice!r} is declared twice; give every attribute its own name")

    @classmethod
    def of(cls, declared: "Domain | Mapping[str, int | Bins | Iterable[Category]]") -> "Domain":
        """Build a domain from ``{"sex": ["F", "M"], "age": 5}``.

        A number r means the categories 0..r−1, and bins mean theirs.
        """
        if isinstance(declared, Domain):
            return declared
        if not isinstance(declared, Mapping):
            raise InvalidInput(
                f"got a {type(declared).__name__} for a domain; give names with their categories, like {{'sex': ['F', 'M']}}"
            )
        attributes = []
        for name, value in declared.items():
            if isinstance(value, Bins):
                attributes.append(binned(name, value))
            elif isinstance(value, int | np.integer) and not isinstance(value, bool):
                if not SIZE_RANGE[0] <= value <= SIZE_RANGE[1]:
                    raise InvalidInput(_bad_size(name, int(value)))
                attributes.append(Attribute(name, tuple(range(int(value)))))
            elif isinstance(value, str) or not isinstance(value, Iterable):
                raise InvalidInput(
                    f"attribute {name!r} is declared as {value!r}; give its size or the list of its categories"
                )
            else:
                attributes.append(Attribute(name, tuple(value)))
        return cls(tuple(attributes))

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {a.name: i for i, a in enumerate(self.attributes)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(self._positions)

    @cached_property
    def columns(self) -> frozenset[str]:
        """Names of columns that records may have, with multi-select columns."""
        return frozenset((*self.names, *(a.multi_select.column for a in self.attributes if a.multi_select)))

    @cached_property
    def sizes(self) -> IntArray:
        """r_i, shape (m,), read-only."""
        out = np.array([a.size for a in self.attributes], dtype=np.int64)
        out.setflags(write=False)
        return out

    @property
    def m(self) -> int:
        """Number of attributes."""
        return len(self.attributes)

    def index(self, name: str) -> int:
        """Find the position of an attribute by name."""
        if name not in self._positions:
            raise InvalidInput(f"there is no attribute {name!r}; the domain has {listed(self.names)}")
        return self._positions[name]

    def indices(self, names: str | Iterable[str]) -> tuple[int, ...]:
        """Find the positions of attributes by name, in this order.

        A single text is one name.

        Raises InvalidInput for an unknown name, a name given twice, or none at all.
        """
        chosen = (names,) if isinstance(names, str) else tuple(names)
        if (wrong := next((n for n in chosen if not isinstance(n, str)), None)) is not None:
            raise InvalidInput(f"``attributes``: {brief(wrong)} is not a name; give the names one by one, as texts")
        out = tuple(self.index(n) for n in chosen)
        if not out:
            raise InvalidInput(f"``attributes``: no attributes were named; choose among {listed(self.names)}")
        if len(set(out)) < len(out):
            twice = next(n for k, n in enumerate(chosen) if n in chosen[:k])
            raise InvalidInput(f"attribute {twice!r} is named twice; name it once")
        return out

    def subset(self, names: str | Iterable[str]) -> "Domain":
        """Select these attributes, in this order."""
        return Domain(tuple(self.attributes[i] for i in self.indices(names)))

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.index(name)]

    def __len__(self) -> int:
        return self.m

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)


def _bad_size(name: str, size: int) -> str:
    low, high = SIZE_RANGE
    remedy = {0: "give categories, or bins", 1: "drop it, it carries no information"}.get(size, "merge categories")
    return f"attribute {name!r} has {written(size)} categories; an attribute needs {low} to {high}: {remedy}"


class DeclaredAttribute(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One attribute of a file.

    Undeclared fields are not written, so that files without them do not change.
    """

    name: str
    categories: list[str | int | float | bool | None]
    ordered: bool | msgspec.UnsetType = msgspec.UNSET
    bins: list[float | str] | msgspec.UnsetType = msgspec.UNSET
    closed: Closed | msgspec.UnsetType = msgspec.UNSET
    missing: list[str] | msgspec.UnsetType = msgspec.UNSET
    rest: str | msgspec.UnsetType = msgspec.UNSET
    label: str | msgspec.UnsetType = msgspec.UNSET
    multi_select: MultiSelect | msgspec.UnsetType = msgspec.UNSET

    def attribute(self) -> Attribute:
        """Build the attribute; raise InvalidInput if it is invalid."""
        bins = None if self.bins is msgspec.UNSET else bins_of(self.bins, self.closed or "left")
        return Attribute(
            self.name,
            tuple(self.categories),
            ordered=self.ordered is True,
            bins=bins,
            missing=() if self.missing is msgspec.UNSET else tuple(self.missing),
            rest=None if self.rest is msgspec.UNSET else self.rest,
            label="" if self.label is msgspec.UNSET else self.label,
            multi_select=None if self.multi_select is msgspec.UNSET else self.multi_select,
        )


def declaration(attribute: Attribute) -> dict[str, Any]:
    """Return the fields of a :class:`DeclaredAttribute` for this attribute."""
    out: dict[str, Any] = {"name": attribute.name, "categories": list[Category](attribute.categories)}
    if attribute.bins is not None:
        out |= {"bins": attribute.bins.record(), "closed": attribute.bins.closed}
    elif attribute.ordered:
        out["ordered"] = True
    if attribute.missing:
        out["missing"] = list(attribute.missing)
    if attribute.rest is not None:
        out["rest"] = attribute.rest
    if attribute.label:
        out["label"] = attribute.label
    if attribute.multi_select is not None:
        out["multi_select"] = attribute.multi_select
    return out


def checked_codes(codes: NDArray[np.integer], domain: Domain) -> NDArray[np.integer]:
    """Check an array of codes of this domain, shape (n, m), n at least 1.

    Raises InvalidInput for another shape or type, or a code outside 0..r_i−1.
    """
    array = np.asarray(codes)
    if array.ndim != 2 or array.shape[1] != domain.m or not np.issubdtype(array.dtype, np.integer):
        raise InvalidInput(
            f"an array of shape {array.shape} and type {array.dtype} is not codes of this domain; "
            f"give integers of shape (n, {domain.m})"
        )
    if not array.shape[0]:
        raise InvalidInput("the array contains no records; give at least one row")
    bad = (array.min(axis=0) < 0) | (array.max(axis=0) >= domain.sizes)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        row = int(np.flatnonzero((array[:, i] < 0) | (array[:, i] >= domain.sizes[i]))[0])
        raise InvalidInput(
            f"attribute {domain.names[i]!r} has a code outside its categories in record {row + 1}; "
            f"its codes are 0..{domain.sizes[i] - 1}"
        )
    return array


class CellsResult(TableResult):
    """A result with numbers for each cell of ``domain``."""

    domain: Domain
    # Attributes that hold numbers of cells.
    in_cells: ClassVar[tuple[str, ...]] = ()

    def numbers(self) -> dict[str, Any]:
        """Return the numbers of the cells by name, in the domain's shape."""
        return {name: getattr(self, name) for name in self.in_cells}

    def _keys(self) -> int:
        return self.domain.m

    def to_arrow(self) -> pa.Table:
        """Convert to a table with one row per cell.

        The categories' texts, null where missing, then :meth:`numbers`.
        """
        return cells_table(self.domain, self.numbers())

    def summary(self) -> dict[str, Any]:
        """Return the JSON object; tables are nested lists by ``attributes``."""
        categories = [list(a.categories) for a in self.domain]
        named = {"attributes": list(self.domain.names), "categories": categories}
        tables: dict[str, Any] = in_json(self.numbers())
        return named | tables | super().summary()


def cells_table(domain: Domain, numbers: Mapping[str, ArrayLike]) -> pa.Table:
    """Build a table with one row per cell, last attribute fastest.

    The categories' texts, null where missing, then ``numbers``.

    Each array of ``numbers`` has the shape of ``domain.sizes``. An attribute may be called as one of them: its column keeps
    the name, and ours gets an underscore.
    """
    places = np.indices(tuple(domain.sizes)).reshape(domain.m, -1)
    columns: dict[str, Any] = {
        a.name: array_of(a.texts, pa.string()).take(array_of(at, pa.int64()))
        for a, at in zip(domain, places, strict=True)
    }
    for name, values in numbers.items():
        free = name
        while free in columns:
            free += "_"
        column = np.ravel(values)
        columns[free] = array_of(column, pa.string() if column.dtype == object else pa.from_numpy_dtype(column.dtype))
    return pa.table(columns)


PairScores = tuple[FloatArray, FloatArray]
PlainScores = tuple[tuple[float, ...], tuple[float, ...]]
GivenScores = tuple[ArrayLike | None, ArrayLike | None]
# Squares and products of larger scores, or of smaller differences between them, leave the range of doubles.
_LARGEST, _CLOSEST = 1e100, 1e-100
# Scores that one line names of each attribute.
_SCORES_SHOWN = 10


def has_numbers(attribute: Attribute) -> bool:
    """Check whether all categories are finite numbers."""
    return all(isinstance(c, int | float) and not isinstance(c, bool) for c in attribute.categories)


def checked_scores(attribute: Attribute, scores: ArrayLike | None) -> FloatArray:
    """Return the scores (r,) of an attribute's categories.

    As given, or the categories' own numbers, or 0..r−1.

    Raises InvalidInput for another number of scores than categories, or scores that are not finite or all alike.
    """
    given: Any = scores
    if given is None:
        given = attribute.categories if has_numbers(attribute) else range(attribute.size)
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"the scores of {attribute.name!r} must be numbers; give {attribute.size} of them") from None
    except OverflowError:
        values = np.full(attribute.size, np.inf)
    if values.shape != (attribute.size,) or not np.abs(values).max() <= _LARGEST:
        raise InvalidInput(
            f"{attribute.name!r} has {attribute.size} categories; give a finite score for each of them, at most "
            f"{_LARGEST:g} in size"
        )
    if np.ptp(values) < _CLOSEST:
        raise InvalidInput(
            f"the scores of {attribute.name!r} are all equal, so means of them cannot differ; give different ones"
        )
    return values


def scores_of_pair(domain: Domain, scores: GivenScores | None) -> PairScores:
    """Apply :func:`checked_scores` to the first two attributes.

    None means the categories' scores, for one attribute or both.
    """
    try:
        x, y = (None, None) if scores is None else scores
    except (TypeError, ValueError):
        raise InvalidInput(
            "the scores of two attributes are a pair; give (scores of the first, of the second)"
        ) from None
    first, second = domain.attributes[:2]
    return checked_scores(first, x), checked_scores(second, y)


def scores_by_name(scores: Mapping[str, ArrayLike] | None, names: Sequence[str]) -> GivenScores | None:
    """Order scores given by name of one or two attributes.

    None for an attribute without scores, or if none are given.

    Raises InvalidInput for another attribute.
    """
    if not scores:
        return None
    unknown = next((name for name in scores if name not in names), None)
    if unknown is not None:
        raise InvalidInput(
            f"``scores``: {unknown!r} is not among {listed(names)}, whose scores count here; leave {unknown!r} out"
        )
    first, second = (*map(scores.get, names), None)[:2]
    return first, second


def plain_scores(pair: PairScores | None) -> PlainScores | None:
    """Convert scores for results."""
    return None if pair is None else (tuple(pair[0].tolist()), tuple(pair[1].tolist()))


def told_scores(names: Sequence[str], scores: Sequence[Sequence[float]] | None, least: int = 3) -> list[str]:
    """State the scores of attributes with at least ``least`` categories.

    In one line. Any two scores show the same trend in two categories.
    """
    told = [
        f"{name} {', '.join(map(number_text, each[:_SCORES_SHOWN]))}{', …' if len(each) > _SCORES_SHOWN else ''}"
        for name, each in zip(names, scores or (), strict=False)
        if len(each) >= least
    ]
    return [f"scores of the categories: {'; '.join(told)}"] if told else []
