"""Workloads: tables of attributes to estimate, each with a weight and, optionally, a maximum standard error.

A workload is "marginals" (every attribute on its own), "pairs" (every two), another subclass of :class:`Workload` by its word,
or named tables, given in code or in a TOML or JSON file:

    {"tables": [{"attributes": ["sex", "income"], "weight": 2, "standard_error": 0.01}, {"attributes": ["race"]}],
     "marginals": 1, "pairs": 0.5}

where ``marginals`` and ``pairs`` add all such tables with that weight. A table's standard error is the root mean square
over its cells, of proportions: √(n E‖π̂_U − π_U‖² / (n Π r_i)).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from pathlib import Path
from typing import ClassVar, Self, TypeVar

import msgspec
import numpy as np

from optrr.core.design import read_declared
from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput, in_one_line
from optrr_solvers.allocation.any_mechanism import accuracy_bound, error_bound
from optrr_solvers.allocation.error_certificate import ErrorCertificate, error_certificate
from optrr_solvers.allocation.workload import MAX_EFFECTS, TableWorkload, marginals, pairs
from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import Infeasible
from optrr_solvers.partition import alike, singles

Spec = TypeVar("Spec")
# Smallest standard error that all people on earth could reach.
_LEAST_ERROR = 1e-9


@dataclass(frozen=True)
class WantedTable:
    """A table over ``attributes`` of a workload.

    Its error counts ``weight`` times; ``standard_error`` is its maximum, if given.
    """

    attributes: tuple[str, ...]
    weight: float = 1.0
    standard_error: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", _names(self.attributes))
        if not (np.isfinite(self.weight) and self.weight > 0):
            raise InvalidInput(
                f"table {self.title}: its weight {self.weight} is not allowed; give a positive number, or leave it out"
            )
        if self.standard_error is not None and not _LEAST_ERROR <= self.standard_error <= 1:
            raise InvalidInput(
                f"table {self.title}: its standard error {self.standard_error} is not allowed; give a number from "
                f"{_LEAST_ERROR:g} to 1"
            )

    @property
    def title(self) -> str:
        """Its attributes, as people write a table's name."""
        return " × ".join(self.attributes)

    def cells(self, domain: Domain) -> int:
        """Compute the number of cells, Π r_i."""
        return prod(domain[name].size for name in self.attributes)


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


# Classes of workloads that a word names.
WORKLOADS: dict[str, type["Workload"]] = {}


@dataclass(frozen=True)
class Workload:
    """Tables to be estimated.

    A subclass with a ``word`` builds its tables for any domain, and is selected by that word.

    Examples
    --------
    >>> import optrr
    >>> from optrr.allocation import WantedTable
    >>> workload = optrr.Workload((WantedTable(("sex", "income"), weight=2), WantedTable(("sex",))))
    >>> optrr.allocate({"sex": 2, "income": 3}, 1.0, workload=workload).workload.name
    'tables'
    """

    tables: tuple[WantedTable, ...]
    word: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if cls.word:
            WORKLOADS[cls.word] = cls

    @classmethod
    def of(cls, domain: Domain) -> Self:
        """Build the workload of the word; raise InvalidInput for another word."""
        raise NotImplementedError(f"{cls.__name__} defines no tables for a domain")

    @property
    def name(self) -> str:
        """The word that names it; "tables" where none does."""
        return self.word or "tables"

    @property
    def required(self) -> bool:
        """Whether any table has a standard error to reach."""
        return any(t.standard_error is not None for t in self.tables)

    def arrays(self, domain: Domain, keys: Sequence[FloatArray] = ()) -> TableWorkload:
        """Return the workload as arrays.

        If its tables treat attributes alike, those of equal ``keys`` may form one class.
        """
        del keys
        tables = tuple(domain.indices(t.attributes) for t in self.tables)
        weights = np.asarray([t.weight for t in self.tables])
        return TableWorkload(domain.sizes, singles(domain.m), tables, weights)

    def counts(self, domain: Domain) -> FloatArray:
        """Count the tables that each table of the arrays represents."""
        return np.ones(len(self.arrays(domain).tables))

    def requiring(self, standard_error: float | None) -> "Workload":
        """Require this standard error of tables without one."""
        if standard_error is None:
            return self
        own = (t.standard_error if t.standard_error is not None else standard_error for t in self.tables)
        return replace(self, tables=tuple(replace(t, standard_error=s) for t, s in zip(self.tables, own, strict=True)))

    def error_bound(self, domain: Domain, total: float) -> float:
        """Compute the lower bound of the error of any mechanism of this total ε.

        See :mod:`optrr_solvers.allocation.any_mechanism`.
        """
        return error_bound(self.arrays(domain), total)

    def error_certificate(self, domain: Domain, total: float) -> ErrorCertificate:
        """Compute the lower bound with the multipliers that prove it.

        Raises InvalidProblem if the tables are too many for one.
        """
        tables = [list(domain.indices(t.attributes)) for t in self.tables]
        return error_certificate(domain.sizes.tolist(), tables, [float(t.weight) for t in self.tables], total)

    def total_bound(self, domain: Domain, n: int | None, progress: Callable[[float], None] | None = None) -> float:
        """Compute the lower bound of the total ε for the required standard errors.

        For any mechanism with n people (same module).
        """
        arrays = self.arrays(domain)
        return accuracy_bound(arrays, self.limits(domain, arrays, n), progress)

    def typical_standard_error(self, domain: Domain, error: float, n: int | None) -> float | None:
        """Compute the weighted root mean square error over all cells.

        None without n or a finite one.
        """
        if n is None or not np.isfinite(error):
            return None
        return float(np.sqrt(error / (n * sum(t.weight * t.cells(domain) for t in self.tables))))

    def limits(self, domain: Domain, arrays: TableWorkload, n: int | None) -> FloatArray:
        """Compute the largest n E‖π̂_U − π_U‖² allowed per table.

        ``inf`` if nothing is required.

        Raises InvalidInput where n is needed and missing; Infeasible where sampling alone leaves more, naming the standard
        error and the number of people that would do.
        """
        if not self.required:
            return np.full(len(arrays.tables), np.inf)
        if n is None:
            raise InvalidInput("``standard_error``: requires the number of respondents; give ``n``, too")
        wanted = {frozenset(domain.indices(t.attributes)): t for t in self.tables}
        out = np.full(len(arrays.tables), np.inf)
        for k, members in enumerate(arrays.tables):
            table = wanted[frozenset(members)]
            if table.standard_error is None:
                continue
            cells = table.cells(domain)
            out[k], least = n * cells * table.standard_error**2, 1 - 1 / cells
            if out[k] <= least:
                possible, people = (least / (n * cells)) ** 0.5, least / (cells * table.standard_error**2)
                raise Infeasible(
                    f"table {table.title}: the standard error {table.standard_error:g} cannot be reached at any "
                    f"epsilon with n = {n}, because sampling alone causes {possible:.4g}; require more than that, "
                    f"or use more than {int(np.ceil(people))} people"
                )
        return out


class Marginals(Workload):
    """Every attribute on its own; attributes of equal sizes are alike."""

    word = "marginals"

    @classmethod
    def of(cls, domain: Domain) -> Self:
        """Build one table per attribute."""
        return cls(tuple(WantedTable((name,)) for name in domain.names))

    def arrays(self, domain: Domain, keys: Sequence[FloatArray] = ()) -> TableWorkload:
        """Build one table per class of attributes of equal sizes and ``keys``."""
        return marginals(domain.sizes, alike([domain.sizes.astype(np.float64), *keys]))

    def counts(self, domain: Domain) -> FloatArray:
        """Count the attributes of each class."""
        return self.arrays(domain).weights


class Pairs(Workload):
    """Every pair of attributes; attributes of equal sizes are alike."""

    word = "pairs"

    @classmethod
    def of(cls, domain: Domain) -> Self:
        """Build one table per pair."""
        if domain.m < 2:
            raise InvalidInput("one attribute has no pairs; use the workload 'marginals'")
        if domain.m * (domain.m + 1) // 2 > MAX_EFFECTS:
            raise InvalidInput(f"{domain.m} attributes have too many pairs; name the important tables in a file")
        return cls(tuple(WantedTable(pair) for pair in combinations(domain.names, 2)))

    def arrays(self, domain: Domain, keys: Sequence[FloatArray] = ()) -> TableWorkload:
        """Build one table for each two classes of equal sizes and ``keys``."""
        return pairs(domain.sizes, alike([domain.sizes.astype(np.float64), *keys]))

    def counts(self, domain: Domain) -> FloatArray:
        """Count the pairs that each table represents."""
        return self.arrays(domain).weights


WorkloadLike = str | Path | Workload | Iterable[WantedTable | Mapping[str, object] | Sequence[str]]


def workload_of(given: WorkloadLike, domain: Domain) -> Workload:
    """Convert "marginals", "pairs", a file's path, or tables to a workload.

    It is checked against the domain.

    Raises InvalidInput for an unknown word, a bad file, an unknown attribute, a table given twice, or too many tables.
    """
    if isinstance(given, Workload):
        workload = given
    elif isinstance(given, str | Path):
        workload = _named(str(given), domain)
    else:
        workload = Workload(tuple(_table(t) for t in given))
    if not workload.tables:
        raise InvalidInput("the workload has no tables; name at least one, or use 'marginals'")
    seen: set[frozenset[int]] = set()
    for table in workload.tables:
        key = frozenset(domain.indices(table.attributes))
        if key in seen:
            raise InvalidInput(f"table {table.title} is in the workload twice; name it once")
        seen.add(key)
    return workload


def _table(given: WantedTable | Mapping[str, object] | Sequence[str]) -> WantedTable:
    if isinstance(given, WantedTable):
        return given
    if isinstance(given, str):
        return WantedTable(tuple(name.strip() for name in given.split("×")))
    if isinstance(given, Mapping):
        return _converted(dict(given), "the workload", _TableSpec).table()
    return WantedTable(_names(given))


def _named(text: str, domain: Domain) -> Workload:
    if text in WORKLOADS:
        return WORKLOADS[text].of(domain)
    path = Path(text)
    if path.suffix.lower() not in (".toml", ".json"):
        raise InvalidInput(
            f"``workload``: {text!r} is unknown; give {', '.join(WORKLOADS)}, or a .toml or .json file of tables"
        )
    return read_workload(path, domain)


class _TableSpec(msgspec.Struct, forbid_unknown_fields=True):
    attributes: list[str] | str
    weight: float = 1.0
    standard_error: float | None = None

    def table(self) -> WantedTable:
        return WantedTable(_names(self.attributes), self.weight, self.standard_error)


class _FileSpec(msgspec.Struct, forbid_unknown_fields=True):
    tables: list[_TableSpec] = []
    marginals: float | None = None
    pairs: float | None = None


_FORM = '; write tables as {"tables": [{"attributes": ["a", "b"]}]}'


def _converted(raw: object, where: str, kind: type[Spec]) -> Spec:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        said = in_one_line(error)
        # such as a list of names in place of a table
        remedy = _FORM if kind is _FileSpec and said.startswith(("Expected `object`", "Expected `array`")) else ""
        raise InvalidInput(f"{where}: {said}{remedy}") from error
    except UnicodeEncodeError as error:
        # JSON may contain unpaired surrogates, which are not text
        raise InvalidInput(f"{where}: a text contains an unpaired surrogate; write the whole character") from error


def read_workload(path: str | Path, domain: Domain) -> Workload:
    """Read the workload of a TOML or JSON file.

    Raises InvalidInput with the place in the file and the remedy.
    """
    source = Path(path)
    spec = _converted(read_declared(source, "workload", "tables"), f"workload {source}", _FileSpec)
    try:
        tables = [t.table() for t in spec.tables]
        taken = {frozenset(t.attributes) for t in tables}
        for size, weight in ((1, spec.marginals), (2, spec.pairs)):
            if weight is not None:
                # a table that is named separately keeps its weight
                rest = (c for c in combinations(domain.names, size) if frozenset(c) not in taken)
                tables += [WantedTable(c, weight) for c in rest]
        return workload_of(Workload(tuple(tables)), domain)
    except InvalidInput as error:
        raise InvalidInput(f"workload {source}: {error}") from error
