"""Case status and sex, read from a table's columns and checked.

Unless the values of cases are given, they are PLINK's: 2 is a case, 1 a control, and 0, -9 and NA are unknown.

Messages state the kind of an invalid value, never the value: it is private.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from optrr.core.display import amount
from optrr.core.errors import InvalidInput
from optrr.genomics.genotypes import Codes, Texts
from optrr.genomics.people_tables import people_column, text_column

UNKNOWN = -1

# What PLINK's values of a status mean, and texts of a value that is not there.
_PLINK_STATUS = {1.0: 0, 2.0: 1, 0.0: UNKNOWN, -9.0: UNKNOWN}
_NO_VALUE = ("-9", "NA", "")
# Texts for male, female, and unknown sex.
_SEXES = {
    **dict.fromkeys(("1", "m", "male", "man"), 1),
    **dict.fromkeys(("2", "f", "female", "woman"), 0),
    **dict.fromkeys(("0", "-9", "", "na", "nan", "u", "unknown"), UNKNOWN),
}


@dataclass(frozen=True)
class PhenotypeColumns:
    """Location of the status in a table.

    ``table``: CSV, Parquet or a file of PLINK's; None takes the fam or psam file, or for genotypes in a table that
    table itself. ``sample`` is the column of people's names, ``sample`` or IID by default. ``cases`` and ``controls``
    are values of ``column``, or without it of the only phenotype; without ``controls`` all other people with a value
    are controls. Without ``cases`` values are PLINK's. ``sex``: the column of sexes, male (1, M) and female (2, F);
    None takes that of the fam or psam file.

    Raises
    ------
    InvalidInput
        for controls without cases.
    """

    table: Path | None = None
    sample: str | None = None
    column: str | None = None
    cases: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    sex: str | None = None

    def __post_init__(self) -> None:
        # the command line gives a Path, and whoever writes Python often a text
        if self.table is not None:
            object.__setattr__(self, "table", Path(self.table))
        if self.controls and not self.cases:
            raise InvalidInput("``controls`` needs ``cases``; name the values of cases too")


def coded_status(values: Sequence[str | None], phenotype: PhenotypeColumns, where: str) -> Codes:
    """Convert values to status: 0 control, 1 case, −1 unknown; shape (n,).

    Raises InvalidInput for values that only who made the file can make cases and controls of, and for 0 and 1 without
    2; where cases are named, for one that does not occur.
    """
    if phenotype.cases:
        named = dict.fromkeys(phenotype.controls, 0) | dict.fromkeys(phenotype.cases, 1)
        known = [None if value in _NO_VALUE and value not in named else value for value in values]
        _check_values(where, phenotype, {v for v in known if v is not None})
        others = UNKNOWN if phenotype.controls else 0
        return np.array([UNKNOWN if v is None else named.get(v, others) for v in known], dtype=np.int8)
    numbers = [-9.0 if value is None else _number(value) for value in values]
    odd = next((k for k, x in enumerate(numbers) if x not in _PLINK_STATUS), None)
    if odd is not None:
        raise InvalidInput(
            f"{where}: record {odd + 1} is not one of PLINK's values (cases 2, controls 1, unknown 0); give the "
            "values of cases and controls (``cases`` and ``controls``)"
        )
    if {0.0, 1.0} <= set(numbers) and 2.0 not in numbers:
        raise InvalidInput(
            f"{where} has only the values 0 and 1, which PLINK reads as unknown and control; if 1 is a case, add "
            "``cases`` 1 ``controls`` 0, and if 0 is unknown, write -9"
        )
    return np.array([_PLINK_STATUS[x] for x in numbers], dtype=np.int8)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def table_status(people: Texts, phenotype: PhenotypeColumns, genotypes: Path) -> tuple[Codes, dict[str, int]]:
    """Read the status of a genotype file's people from a table.

    Also returns the numbers of people left out, by reason.

    Raises InvalidInput for values that do not occur, and tables that name none of these people, or a person twice.
    """
    by_person, where = _by_person(phenotype.column, people, phenotype, genotypes)
    coded = dict(zip(by_person, coded_status(list(by_person.values()), phenotype, where).tolist(), strict=True))
    status = np.array([coded.get(person, UNKNOWN) for person in people], dtype=np.int8)
    absent = sum(person not in by_person for person in people)
    return status, {
        "in the phenotype table only": len(by_person) - (people.size - absent),
        "not in the phenotype table": absent,
        "without a phenotype": int(np.sum(status == UNKNOWN)) - absent,
    }


def table_sexes(people: Texts, phenotype: PhenotypeColumns, genotypes: Path) -> Codes:
    """Read sexes from a table: 1 male, 0 female, −1 not stated; shape (n,)."""
    by_person, where = _by_person(phenotype.sex, people, phenotype, genotypes)
    return sexes([by_person.get(person) or "" for person in people], where)


def sexes(texts: Sequence[str], where: str) -> Codes:
    """Parse sexes: 1 male, 0 female, −1 unknown.

    Raises InvalidInput for other texts, naming their place.
    """
    codes = [_SEXES.get(text.strip().casefold()) for text in texts]
    if None in codes:
        raise InvalidInput(
            f"{where}: record {codes.index(None) + 1} is not a sex; write 1, M or male for males, 2, F or female for "
            "females, 0 for unknown"
        )
    return np.array(codes, dtype=np.int8)


def _by_person(
    column: str | None, people: Texts, phenotype: PhenotypeColumns, genotypes: Path
) -> tuple[Mapping[str | None, str | None], str]:
    """Map people to the column's values; also return the column's description."""
    table = phenotype.table
    assert table is not None
    assert column is not None
    values, where = text_column(table, column), f"{table}, column {column!r}"
    if table == genotypes:
        return dict(zip(people, values, strict=True)), where
    names = people_column(table, phenotype.sample, people.tolist())
    which = "column of people's names" if phenotype.sample is None else f"column {phenotype.sample!r}"
    by_person = dict(zip(names, values, strict=True))
    if len(by_person) < len(names):
        raise InvalidInput(f"{table}, {which} names a person twice; list each once")
    if not any(person in by_person for person in people):
        raise InvalidInput(
            f"{table}, {which} names none of the {people.size} people of the genotype file; give a table with the "
            "same names, and their column (``sample``)"
        )
    return by_person, where


def _check_values(where: str, phenotype: PhenotypeColumns, present: set[str]) -> None:
    """Raise InvalidInput for a value that does not occur or is given twice.

    Among few people all may be cases, or controls. So a value may be absent if both kinds are given, and each person
    has one of them.
    """
    if both := set(phenotype.cases) & set(phenotype.controls):
        raise InvalidInput(f"{sorted(both)[0]!r} is a value of both cases and controls; give it once")
    named = (*phenotype.cases, *phenotype.controls)
    absent = [value for value in named if value not in present]
    if absent and not (phenotype.controls and present and present <= set(named)):
        hint = (
            ""
            if phenotype.controls
            else ", or name the value of controls too (``controls``) if no person here is a case"
        )
        raise InvalidInput(
            f"{where} has no value {absent[0]!r} among its {amount(len(present), 'value')}; write it as in the "
            f"table{hint}"
        )
