"""Phenotype and covariate files as PLINK has them: fields between blanks, below a line that names them.

That line begins with ``FID IID``, ``#FID IID`` or ``#IID``. People are named by IID, or by FID_IID where an IID occurs in
several families, as in PLINK's fam files. Lines that begin with ``##`` before it say nothing here.

A line is read up to a megabyte, and a value that is not what its column should hold is told by its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from optrr.domain.domain import listed
from optrr.errors import InvalidInput, did_you_mean

# Endings that PLINK's users give such files, and that no other reader has: without a line of names they are refused.
PLINK_TABLES = (".txt", ".pheno", ".phe", ".cov", ".covar", ".psam")
# Endings of files that are read as such tables where their first line says so.
_PERHAPS = (*PLINK_TABLES, ".tsv", ".tab", ".dat", "")
_FAMILY, _PERSON = "FID", "IID"
_LONGEST_LINE = 1 << 20
# Texts of a value that is not there.
_NOTHING = ("", "NA", "nan", "NaN")
# Values handed on at once.
_ROWS = 1 << 14


def is_plink_table(path: Path) -> bool:
    """Whether the file begins with PLINK's line of names.

    Raises
    ------
    InvalidInput
        for a file whose ending is of such tables, without that line; for what cannot be read.
    """
    ending = path.suffix.lower()
    if ending not in _PERHAPS or not path.is_file():
        return False
    if _names(path):
        return True
    if ending in PLINK_TABLES:
        raise InvalidInput(
            f"{path} has no line of names as PLINK has it; begin it with 'FID IID' or '#IID' and the names of the other "
            "columns, or save it as .csv"
        )
    return False


def plink_columns(path: Path) -> list[str]:
    """Names of the columns, of FID and IID first."""
    return _names(path)


def plink_blocks(path: Path, column: str) -> Iterator[list[str | None]]:
    """The values of a column, some at a time, None where there is none.

    Raises
    ------
    InvalidInput
        for a column that is not there, and for lines of another number of fields than the first has.
    """
    names = _names(path)
    if column not in names:
        raise InvalidInput(f"{path} has no column {column!r}; it has {listed(names)}{did_you_mean(column, names)}")
    at, block = names.index(column), []
    for fields in _records(path, len(names)):
        block.append(None if fields[at] in _NOTHING else fields[at])
        if len(block) == _ROWS:
            yield block
            block = []
    yield block


def names_of_people(families: Sequence[str | None] | None, persons: Sequence[str | None]) -> list[str | None]:
    """IIDs, or FID_IID where an IID occurs in several families."""
    if families is None or len(set(persons)) == len(persons):
        return list(persons)
    return [f"{f}_{i}" for f, i in zip(families, persons, strict=True)]


def _names(path: Path) -> list[str]:
    """Names of the columns; empty where the first line does not begin as PLINK's does."""
    for line in _lines(path):
        if line.startswith("##"):
            continue
        names = line.split()
        if names:
            names[0] = names[0].removeprefix("#")
        return names if names[:1] == [_PERSON] or names[:2] == [_FAMILY, _PERSON] else []
    return []


def _records(path: Path, fields: int) -> Iterator[list[str]]:
    """The fields of each line below the names."""
    above = True
    for number, line in enumerate(_lines(path), start=1):
        if above:
            above = line.startswith("##")
            continue
        record = line.split()
        if record and len(record) != fields:
            raise InvalidInput(
                f"{path}, line {number} has {len(record)} fields, and the line of names {fields}; write NA for a value that is "
                "not there"
            )
        if record:
            yield record


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            while line := file.readline(_LONGEST_LINE + 1):
                if len(line) > _LONGEST_LINE:
                    raise InvalidInput(
                        f"{path} has a line of more than {_LONGEST_LINE >> 20} MiB; check that it is a table"
                    )
                yield line
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8; save it in that encoding") from error
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}; check that it is a table") from error
