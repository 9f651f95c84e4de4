"""Public columns for randomized genotypes: covariates, strata, and a trait that is not randomized.

They are matched to people by name. A numeric column is a covariate as it is; a text column is categorical, with an
indicator column for each category but the first, and so are strata. Empty values, NA and PLINK's −9 are missing: people
without a value of a used column are left out, and counted. These columns are not covered by ε.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optrr.core.domain import listed, shown
from optrr.core.errors import InvalidInput, did_you_mean
from optrr.core.records import open_source
from optrr.genomics.genotypes import Texts
from optrr.genomics.people_tables import is_plink_table, people_column, table_columns, text_column
from optrr_solvers.arrays import FloatArray, IntArray

# Columns of people's names, in the order in which they are looked for, and one that names families.
_SAMPLE, _FAMILY = ("sample", "IID", "#IID"), ("FID", "#FID")
_MISSING = ("", "na", "nan", "none", "-9", "-9.0")
# A column counts as a combination of those before it where it leaves less than this of its length.
_DEPENDENT = 1e-7
# Of a leverage this near to 1, what is left is rounding.
ALONE = 1e-9
# More categories than this are names or numbers of people, not categories.
_MOST_CATEGORIES = 100

NOT_COVERED = (
    "{} are not covered by epsilon: they are used without randomization; use only public values, or values computed "
    "from public ones"
)


@dataclass(frozen=True)
class CovariateColumns:
    """Location of covariates: a table, and the names of its columns.

    ``table``: CSV, Parquet or PLINK's blank-separated text, a data frame, or an array with a row for each of the
    people, in their order. ``sample`` is the column of names (``sample`` or ``IID`` unless given). Without
    ``covariates``, ``strata`` and ``trait`` all other columns of the table are covariates; with any of them only the
    named columns are used.
    """

    table: Any
    sample: str | None = None
    covariates: tuple[str, ...] = ()
    strata: str | None = None
    trait: str | None = None


@dataclass(frozen=True, eq=False)
class CovariateValues:
    """The public values of those of a cohort's people who have all of them.

    ``rows`` are their numbers among the cohort's people, (n,). ``columns``, (n, k), are standardized, without an
    intercept, and no combination of each other: covariates, whose names are ``labels``, and strata. ``trait``, (n,), is
    the trait if there is one; ``left_out`` counts people by reason.
    """

    rows: IntArray
    columns: FloatArray
    labels: tuple[str, ...] = ()
    strata_name: str | None = None
    trait: FloatArray | None = None
    trait_name: str | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        said = ", ".join(self.labels)
        if self.strata_name is not None:
            said += f"{' and ' if said else ''}strata by {self.strata_name}"
        return said or "none"

    @property
    def names(self) -> list[str]:
        """Names of all public columns that are used."""
        return [*self.labels, *(name for name in (self.strata_name, self.trait_name) if name is not None)]

    @property
    def only_strata(self) -> bool:
        """Whether people are compared within strata, and nothing else is adjusted for."""
        return self.strata_name is not None and not self.labels

    @property
    def is_binary(self) -> bool:
        """Whether the trait has two values, as that of cases and controls."""
        return self.trait is not None and np.unique(self.trait).size == 2


def read_covariates(asked: CovariateColumns, people: Texts) -> CovariateValues:
    """Read the covariates of these people.

    ``people`` are their names, shape (n,).

    Raises
    ------
    InvalidInput
        For columns that do not exist, are not numeric but must be, are constant or combinations of others; for tables
        that name none of these people, or a person twice; if no person has all values.
    """
    where = f"{asked.table}" if isinstance(asked.table, (Path, str)) else "the table of covariates"
    table, names = _opened(asked, people, where)
    wanted = _wanted(asked, list(table), where)
    place, absent = _places(names, people, where)
    texts = {name: [None if k is None else table[name][k] for k in place] for name in wanted}
    known = np.array([k is not None for k in place])
    has = {name: np.array([text is not None for text in column]) for name, column in texts.items()}
    complete = known & np.logical_and.reduce([known, *has.values()])
    rows = np.flatnonzero(complete)
    if not rows.size:
        raise InvalidInput(f"{where}: none of the {people.size} people has all of {listed(wanted)}")
    own = {name: [str(column[k]) for k in rows] for name, column in texts.items()}
    labels = [name for name in wanted if name not in (asked.strata, asked.trait)]
    parts = [coded(own[name], name, where, False) for name in labels]
    if asked.strata is not None:
        parts.append(coded(own[asked.strata], asked.strata, where, True))
    left_out = {
        "not in the table of covariates": absent,
        "without a value of some covariate": int(people.size - rows.size),
    }
    left_out["without a value of some covariate"] -= absent
    return CovariateValues(
        rows,
        independent(parts, [*labels, *([asked.strata] if asked.strata else [])], where, rows.size),
        tuple(labels),
        asked.strata,
        None if asked.trait is None else trait(own[asked.trait], asked.trait, where),
        asked.trait,
        {reason: count for reason, count in left_out.items() if count},
    )


def _opened(
    asked: CovariateColumns, people: Texts, where: str
) -> tuple[dict[str, list[str | None]], list[str | None] | None]:
    """Read columns as text and people's names.

    Missing values become None. Without names, as for an array, people are in order.
    """
    table, n = asked.table, people.size
    if isinstance(table, (Path, str)):
        path = Path(table)
        present = table_columns(path)
        read = {name: text_column(path, name) for name in _read(asked, present, where)}
        if "IID" in read and asked.sample is None:
            # where several families have the same IID, PLINK's people are named by both
            read["IID"] = people_column(path, None if is_plink_table(path) else "IID", people.tolist())
    elif isinstance(table, np.ndarray):
        array = table[:, None] if table.ndim == 1 else table
        present = [f"column {k + 1}" for k in range(array.shape[1] if array.ndim == 2 else 0)]
        read = {name: [str(x) for x in array[:, present.index(name)]] for name in _read(asked, present, where)}
    else:
        source = open_source(table)
        present = list(source.schema.names)
        read = {name: [] for name in _read(asked, present, where)}
        for batch in source.batches(list(read)):
            for name in read:
                column = batch.column(batch.schema.get_field_index(name))
                read[name] += [None if v is None else str(v) for v in column.to_pylist()]
    read = {
        name: [None if text is None or text.strip().casefold() in _MISSING else text for text in column]
        for name, column in read.items()
    }
    sample = asked.sample or next((name for name in _SAMPLE if name in present), None)
    if sample is None:
        if isinstance(table, (Path, str)):
            raise InvalidInput(
                f"{where} has no column of people's names ({listed(_SAMPLE[:2])}); name it (``id_column``)"
            )
        rows = len(next(iter(read.values()), []))
        if rows != n:
            raise InvalidInput(
                f"{where}: {rows} rows for {n} people; give one for each, or a column {_SAMPLE[0]!r} of names"
            )
        return read, None
    return {name: column for name, column in read.items() if name not in (sample, *_SAMPLE, *_FAMILY)}, read[sample]


def _read(asked: CovariateColumns, present: Sequence[str], where: str) -> list[str]:
    """List the columns to read: covariates, or all, and the names of people.

    Raises InvalidInput for a name that is not there.
    """
    named = [name for name in (*asked.covariates, asked.strata, asked.trait) if name is not None]
    for name in (*named, *([] if asked.sample is None else [asked.sample])):
        if name not in present:
            raise InvalidInput(
                f"{where} has no column {shown(name)}; it has {listed(present)}{did_you_mean(name, present)}"
            )
    return [name for name in present if not named or name in named or name in (*_SAMPLE, asked.sample)]


def _wanted(asked: CovariateColumns, present: list[str], where: str) -> list[str]:
    """List the columns in use without repeats: covariates, strata, trait."""
    special = [name for name in (asked.strata, asked.trait) if name is not None]
    wanted = [*(asked.covariates or ([] if special else present)), *special]
    for name in wanted:
        if name not in present:
            raise InvalidInput(
                f"column {shown(name)} of {where} holds people's names, which cannot be a covariate; name another "
                "column"
            )
        if wanted.count(name) > 1:
            raise InvalidInput(f"column {shown(name)} is named twice; use it as a covariate, as strata or as the trait")
    if not wanted:
        raise InvalidInput(f"{where} has no columns beside people's names; give one for each covariate")
    return wanted


def _places(names: list[str | None] | None, people: Texts, where: str) -> tuple[list[int | None], int]:
    """Find each person's row in the table and count those without one."""
    if names is None:
        return list(range(people.size)), 0
    place = {name: k for k, name in enumerate(names) if name is not None}
    if len(place) < sum(name is not None for name in names):
        raise InvalidInput(f"{where} names a person twice; list each once")
    places = [place.get(str(person)) for person in people]
    if all(k is None for k in places):
        raise InvalidInput(
            f"{where} names none of the {people.size} people of the randomized genotypes; they are matched by name, "
            "so these "
            "must keep their names when they are randomized"
        )
    return places, places.count(None)


def coded(texts: Sequence[str], name: str, where: str, categorical: bool) -> FloatArray:
    """Convert a column to numbers.

    The shape is (n, 1), or one column per category but the first, (n, k − 1).
    """
    values = None if categorical else numbers(texts)
    if values is not None:
        return values[:, None]
    categories, which = np.unique(np.array(texts), return_inverse=True)
    if categories.size > _MOST_CATEGORIES and 2 * categories.size > len(texts):
        raise InvalidInput(
            f"{where}, column {shown(name)} has {categories.size} different texts; give numbers, or fewer categories"
        )
    return np.asarray(which[:, None] == np.arange(1, max(categories.size, 2)), dtype=np.float64)


def numbers(texts: Sequence[str]) -> FloatArray | None:
    """Parse the texts as numbers; None if one is not a number."""
    try:
        values = np.array([float(text) for text in texts])
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def trait(texts: Sequence[str], name: str, where: str) -> FloatArray:
    """Parse a quantitative trait, shape (n,).

    Raises InvalidInput if a value is not a number, or all are equal.
    """
    values = numbers(texts)
    if values is None:
        raise InvalidInput(
            f"{where}, column {shown(name)}: a value of the trait is not a number; write NA for unknown values"
        )
    if np.unique(values).size < 2:
        raise InvalidInput(f"{where}, column {shown(name)}: all values are equal; give a trait that varies")
    return values


def independent(parts: Sequence[FloatArray], names: Sequence[str], where: str, n: int) -> FloatArray:
    """Standardize all columns.

    Raises InvalidInput for a column that is constant or a combination of those before it.
    """
    basis: NDArray[np.float64] = np.full((n, 1), n**-0.5)
    kept = []
    for part, name in zip(parts, names, strict=True):
        for column in part.T:
            length = float(np.linalg.norm(column))
            centred = column - column.mean()
            if np.linalg.norm(centred) <= _DEPENDENT * length or not length:
                raise InvalidInput(f"{where}, column {shown(name)} is constant; leave the column out")
            centred = centred / np.linalg.norm(centred)
            left = _beside(basis, centred)
            if np.linalg.norm(left) <= _DEPENDENT:
                raise InvalidInput(
                    f"{where}, column {shown(name)} is a linear combination of the columns before it; leave the "
                    "column out"
                )
            basis = np.column_stack([basis, left / np.linalg.norm(left)])
            kept.append(centred * np.sqrt(n))
        if basis.shape[1] + 2 > n:
            raise InvalidInput(f"{where}: {basis.shape[1] - 1} columns for {n} people; give fewer covariates")
    return np.column_stack(kept) if kept else np.empty((n, 0))


def _beside(basis: FloatArray, column: FloatArray) -> FloatArray:
    """Compute the component of a column orthogonal to a basis (n, k), (n,)."""
    left = column - basis @ (basis.T @ column)
    # twice, because the first projection leaves rounding errors
    return np.asarray(left - basis @ (basis.T @ left))


def told_apart(columns: FloatArray) -> tuple[NDArray[np.bool_], FloatArray]:
    """Find the people whose covariate values are not unique.

    Returns a mask (n,) and the standardized columns among ``columns`` (n, k) that distinguish these people.

    A person alone in a stratum is fitted exactly whatever the answer, and cannot be compared.
    """
    people = np.ones(len(columns), dtype=np.bool_)
    while True:
        own = columns[people]
        basis: NDArray[np.float64] = np.full((len(own), 1), max(len(own), 1) ** -0.5)
        kept = []
        for column in own.T:
            centred = column - column.mean() if column.size else column
            left = _beside(basis, centred)
            if np.linalg.norm(left) > _DEPENDENT * np.linalg.norm(column):
                basis = np.column_stack([basis, left / np.linalg.norm(left)])
                kept.append(centred / centred.std())
        alone = np.sum(basis**2, axis=1) > 1 - ALONE
        if not alone.any() or not len(own):
            return people, np.column_stack(kept) if kept else np.empty((len(own), 0))
        people[np.flatnonzero(people)[alone]] = False
