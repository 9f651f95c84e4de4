"""Genotypes from a CSV or Parquet table: one row for each person, one column for each variant, values 0, 1, 2 or empty.

Columns of other tables are read here, too: of phenotypes and covariates, also in PLINK's files.

A table is stored by person, so all of it is decoded at once: n · variants bytes. PLINK files are the format for very many
variants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.genomics.genotypes import GENOTYPES, MISSING, Codes, MatrixGenotypes, Texts, Variants, checked_people
from optrr.genomics.layout import variant_alleles
from optrr.genomics.plink_tables import is_plink_table, names_of_people, plink_blocks, plink_columns
from optrr.records.frames import FrameCodec
from optrr.records.reading.registry import open_source

# 0, 1, 2, and the missing value, whether or not a design randomizes it.
_CATEGORIES = (*range(GENOTYPES), None)

# Rows of a table: names and values of people are held as text, about 1 GB in all. A compressed table may hold any number.
MOST_ROWS = 5_000_000


def _variants(domain: Domain) -> Variants:
    """Variants of which names are known, and alleles where the categories name them."""
    named = Variants.named(list(domain.names))
    pairs = [variant_alleles(a) for a in domain]
    a1, a2 = (np.array([pair[k] or "." for pair in pairs], dtype=object) for k in (0, 1))
    return replace(named, a1=a1, a2=a2)


def table_columns(path: Path) -> list[str]:
    """Names of the table's columns."""
    return plink_columns(path) if is_plink_table(path) else list(open_source(path).schema.names)


def text_column(path: Path, column: str) -> list[str | None]:
    """A column as text, None where it is empty. Raises InvalidInput where it is missing or longer than ``MOST_ROWS``."""
    out: list[str | None] = []
    for values in plink_blocks(path, column) if is_plink_table(path) else _blocks(path, column):
        _check_rows(path, len(out) + len(values))
        out += values
    return out


def people_column(path: Path, column: str | None) -> list[str | None]:
    """Names of the table's people: that column, or else ``sample``, or in PLINK's files IID (with FID where it repeats)."""
    if column is not None or not is_plink_table(path):
        return text_column(path, column or "sample")
    families = text_column(path, "FID") if "FID" in table_columns(path) else None
    return names_of_people(families, text_column(path, "IID"))


def _blocks(path: Path, column: str) -> Iterator[list[str | None]]:
    file = open_source(path)
    if column not in file.schema.names:
        raise InvalidInput(f"{path} has no column {column!r}; it has {', '.join(map(repr, file.schema.names[:10]))}")
    for batch in file.batches([column]):
        yield [None if v is None or str(v).strip() in ("", "NA") else str(v) for v in batch.column(0).to_pylist()]


def read_csv_genotypes(
    path: Path, sample_column: str | None, not_variants: Sequence[str] = (), declared: Domain | None = None
) -> MatrixGenotypes:
    """Every column but ``sample_column`` and ``not_variants`` is a variant; people are numbered without the former.

    ``declared``: the domain of the design that randomized the table, whose categories the genotypes are; 0, 1, 2 elsewhere.

    Raises
    ------
    InvalidInput
        naming the column, the kind of value and the record for anything but 0, 1, 2 or empty; for no variants, and
        repeated ones.
    """
    skip = {sample_column, *not_variants}
    names = [name for name in table_columns(path) if name not in skip]
    if not names:
        raise InvalidInput(
            f"{path} has no variant columns beside {sorted(x for x in skip if x)}; give one for each variant"
        )
    twice, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InvalidInput(f"{path} has {times} columns {twice!r}; give each variant one")
    known = {} if declared is None else {a.name: (*a.categories[:GENOTYPES], None) for a in declared}
    domain = Domain.of({name: known.get(name, _CATEGORIES) for name in names})
    file = open_source(path, domain)
    codec: FrameCodec | None = None
    blocks: list[Codes] = []
    rows = 0
    for batch in file.batches(names):
        rows += batch.num_rows
        _check_rows(path, rows)
        codec = codec or FrameCodec(domain, batch.schema)
        blocks.append(codec.encode(batch).astype(np.int8))
    if not blocks:
        raise InvalidInput(f"{path} holds no people; give at least two")
    codes = np.concatenate(blocks)
    codes[codes == GENOTYPES] = MISSING
    skipped: Mapping[str, int] = {}
    return MatrixGenotypes(_variants(domain), _people(path, sample_column, codes.shape[0]), codes, skipped)


def _check_rows(path: Path, rows: int) -> None:
    if rows > MOST_ROWS:
        raise InvalidInput(
            f"{path} has more than {MOST_ROWS:,} rows; split it by people, or convert genotypes to PLINK"
        )


def _people(path: Path, sample_column: str | None, n: int) -> Texts:
    if sample_column is None:
        return checked_people([str(k + 1) for k in range(n)], str(path))
    names = text_column(path, sample_column)
    if any(name is None for name in names):
        raise InvalidInput(f"{path}, column {sample_column!r}: record {names.index(None) + 1} has no name; give one")
    return checked_people([str(name) for name in names], str(path))
