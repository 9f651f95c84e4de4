"""Tables of people, column by column, as texts: CSV, Parquet, and phenotype and covariate files as PLINK has them.

PLINK's have fields between blanks, below a line that names them and begins with ``FID IID``, ``#FID IID`` or ``#IID``,
which fam files lack. People are named by IID, or by FID_IID where an IID occurs in several families; next to a genotype
file by the kind of names in that file, because among some of its people an IID may occur once. Lines that begin with
``##`` are ignored. A value that is not what its column should hold is reported by its place.
"""

from collections.abc import Collection, Iterator, Sequence
from io import BufferedReader, TextIOWrapper
from itertools import islice
from pathlib import Path

import pyarrow as pa

from optrr.core.domain import listed
from optrr.core.errors import InvalidInput, did_you_mean, in_one_line
from optrr.core.records import open_source

# Endings that PLINK's users give such files, and that no other reader has: without a line of names they are refused.
PLINK_TABLES = (".txt", ".pheno", ".phe", ".cov", ".covar", ".psam", ".fam")
# Extensions of files that are read as such tables if their first line is a PLINK header.
_PERHAPS = (*PLINK_TABLES, ".tsv", ".tab", ".dat", "")
_FAMILY, _PERSON = "FID", "IID"
# Column of the sexes, and all columns of a fam file, with PLINK 2's names.
SEX = "SEX"
_FAM_COLUMNS = [_FAMILY, _PERSON, "PAT", "MAT", SEX, "PHENO1"]
_LONGEST_LINE = 1 << 26
# Texts of a value that is not there.
_NOTHING = ("", "NA", "nan", "NaN")


def is_plink_table(path: Path) -> bool:
    """Check whether the file begins with PLINK's header line.

    Raises InvalidInput for a file with the extension of such tables but without that line, and for unreadable files.
    """
    ending = path.suffix.lower()
    if ending not in _PERHAPS or not path.is_file():
        return False
    if _plink_names(path):
        return True
    if ending in PLINK_TABLES:
        raise InvalidInput(
            f"{path} has no PLINK header line; begin it with 'FID IID' or '#IID' and the names of the other columns, "
            "or save it as .csv"
        )
    return False


def table_columns(path: Path) -> list[str]:
    """List the columns of a table."""
    return _plink_names(path) if is_plink_table(path) else list(open_source(path).schema.names)


def check_column(path: Path, column: str, names: Sequence[str]) -> None:
    """Raise InvalidInput for a column that is not among a table's ``names``."""
    if column not in names:
        raise InvalidInput(f"{path} has no column {column!r}; it has {listed(names)}{did_you_mean(column, names)}")


def text_column(path: Path, column: str) -> list[str | None]:
    """Read a column as text, None where it is empty.

    Raises InvalidInput if the column is missing.
    """
    names = table_columns(path)
    check_column(path, column, names)
    if is_plink_table(path):
        values = _plink_values(path, names, column)
    else:
        values = (v for batch in open_source(path).batches([column]) for v in batch.column(0).to_pylist())
    return [None if value is None or str(value).strip() in _NOTHING else str(value) for value in values]


def people_column(path: Path, column: str | None, known: Collection[str] = ()) -> list[str | None]:
    """Read the names of the table's people.

    They are in that column, in ``sample``, or in PLINK's files in IID, or FID_IID if an IID repeats.

    ``known``: names of a genotype file; each person is called by the one of both that it has.
    """
    if column is not None or not is_plink_table(path):
        return text_column(path, column or "sample")
    persons = text_column(path, _PERSON)
    if _FAMILY not in table_columns(path):
        return persons
    repeated, known = len(set(persons)) < len(persons), frozenset(known)
    pairs = [(i, f"{f}_{i}") for f, i in zip(text_column(path, _FAMILY), persons, strict=True)]
    return [both if both in known or (repeated and i not in known) else i for i, both in pairs]


def _plink_values(path: Path, names: Sequence[str], column: str) -> Iterator[str]:
    """Yield a column; raise InvalidInput if lines differ in their field count."""
    at = names.index(column)
    for number, fields in islice(fields_of(path), path.suffix != ".fam", None):
        if len(fields) != len(names):
            raise InvalidInput(
                f"{path}, line {number} has {len(fields)} fields instead of {len(names)}; write NA for a missing value"
            )
        yield fields[at]


def _plink_names(path: Path) -> list[str]:
    """List the columns; empty if the first line is not PLINK's header."""
    if path.suffix == ".fam":
        return _FAM_COLUMNS
    _, (first, *others) = next(fields_of(path), (0, [""]))
    names = [first.removeprefix("#"), *others]
    return names if names[0] == _PERSON or names[:2] == [_FAMILY, _PERSON] else []


def fields_of(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Iterate over a text file's lines: number and fields between blanks.

    A .zst file is decompressed.

    Blank lines are left out, and those that begin with ``##``. Raises InvalidInput for files that are not text, and for
    longer lines.
    """
    try:
        packed = path.suffix == ".zst"
        raw = BufferedReader(pa.input_stream(str(path), compression="zstd")) if packed else path.open("rb")
        with raw, TextIOWrapper(raw, encoding="utf-8-sig") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    raise InvalidInput(
                        f"{path} has a line of more than {_LONGEST_LINE >> 20} MiB; check that it is a table"
                    )
                if not line.startswith("##") and (fields := line.split()):
                    yield number, fields
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8; save it as UTF-8") from error
    except (OSError, pa.ArrowException) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InvalidInput(f"cannot read {path}: {in_one_line(said)}; check that it is a table") from error
