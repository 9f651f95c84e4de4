"""What people release who answer one table each: two columns, ``table`` and ``cells``.

``table`` says which table was asked (1, 2, …), ``cells`` which of its cells the report supports: numbers from 0 in row-major
order, last attribute fastest, separated by spaces; an empty text supports none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr.domain.domain import Attribute, Domain
from optrr.errors import InvalidInput, TooFewRecords
from optrr.records.reading.registry import record_batches
from optrr.show.printable import category_word, crossed
from optrr_solvers.arrays import FloatArray

SCHEMA = pa.schema([("table", pa.int32()), ("cells", pa.string())])
# A domain that names the two columns for the readers; it declares placeholders, because their values are read in this module.
_COLUMNS = Domain((Attribute("table", ("1", "2")), Attribute("cells", ("", "0"))))


def report_texts(answers: NDArray[np.integer]) -> NDArray[np.object_]:
    """Each report as text, shape (n,): its category's number, or the numbers of the bits that are 1."""
    if answers.ndim == 1:
        return answers.astype(str).astype(object)
    return np.asarray([" ".join(map(str, np.flatnonzero(row))) for row in answers], dtype=object)


def released(asked: NDArray[np.integer], cells: NDArray[np.object_]) -> pa.RecordBatch:
    """One batch, from the number of the table that each person was asked (from 0) and the texts of the reports."""
    return pa.RecordBatch.from_arrays([pa.array(asked + 1, pa.int32()), pa.array(cells, pa.string())], schema=SCHEMA)


def counted(answers: Any, table: int, size: int, supported: int | None) -> tuple[FloatArray, int]:
    """How many answers support each cell of a table (numbered from 0), shape (size,), and how many answers there are.

    Every answer supports ``supported`` different cells; None where that may be any number. An answer that named a cell twice
    would count twice for it, so that one fake could move an estimate anywhere.

    Raises
    ------
    InvalidInput
        for cells outside the table, texts that are no cell numbers, answers that support another number of cells or one of
        them twice, or a table that nobody was asked.
    """
    n, out = 0, np.zeros(size)
    for batch in record_batches(answers, _COLUMNS, None):
        chosen = batch.column("table").cast(pa.string()).to_numpy(zero_copy_only=False) == str(table + 1)
        texts = batch.column("cells").cast(pa.string()).to_numpy(zero_copy_only=False)[chosen]
        n += int(chosen.sum())
        cells = _numbers(texts)
        if cells.size and (cells.min() < 0 or cells.max() >= size):
            raise InvalidInput(f"an answer names a cell outside 0..{size - 1}; estimate with the file it was asked by")
        _check_supports(texts, cells, size, supported)
        out += np.bincount(cells, minlength=size)
    if not n:
        raise TooFewRecords(f"nobody was asked for table {table + 1}; collect from more people")
    return out, n


def in_words(answers: Any, tables: Sequence[Domain]) -> pa.Table:
    """The answers as people read them, a row each: what each is ``about``, and the categories that it ``supports``.

    Raises
    ------
    InvalidInput
        for answers that are none to these tables.
    """
    about: list[str] = []
    supported: list[list[str]] = []
    titles, labels = [crossed(table.names) for table in tables], [_cell_texts(table) for table in tables]
    for batch in record_batches(answers, _COLUMNS, None):
        asked, cells = (batch.column(name).cast(pa.string()).to_pylist() for name in SCHEMA.names)
        for number, text in zip(asked, cells, strict=True):
            if number not in _numbered(len(tables)):
                raise InvalidInput(
                    f"an answer is to none of the {len(tables)} tables; read it by the file it was asked by"
                )
            k, named = int(number) - 1, _numbers([text]).tolist()
            if named and not 0 <= min(named) <= max(named) < len(labels[k]):
                raise InvalidInput(
                    f"an answer names a cell outside 0..{len(labels[k]) - 1}; read it by the file it was asked by"
                )
            about.append(titles[k])
            supported.append([labels[k][c] for c in named])
    return pa.table({"about": pa.array(about, pa.string()), "supports": pa.array(supported, pa.list_(pa.string()))})


@cache
def _numbered(tables: int) -> frozenset[str]:
    return frozenset(str(k + 1) for k in range(tables))


def _cell_texts(table: Domain) -> list[str]:
    """Each cell's categories, in the order of the cells' numbers."""
    return [crossed(map(category_word, cell)) for cell in product(*(a.texts for a in table))]


def _check_supports(texts: Sequence[Any], cells: NDArray[np.int64], size: int, supported: int | None) -> None:
    """Refuse answers that name a cell twice, or not as many as an answer to this table does."""
    lengths = np.array([len(text.split()) if text else 0 for text in texts], dtype=np.int64)
    if supported is not None and np.any(lengths != supported):
        raise InvalidInput(
            f"an answer names {lengths[lengths != supported][0]} cells where every answer to this table names {supported}; "
            "take the answers that perturb wrote"
        )
    each = np.repeat(np.arange(lengths.size), lengths) * size + cells
    if np.unique(each).size < each.size:
        raise InvalidInput("an answer names a cell twice; take the answers that perturb wrote")


def _numbers(texts: Sequence[Any]) -> NDArray[np.int64]:
    """All numbers in the texts, one after another; an empty answer supports nothing."""
    joined = " ".join(text for text in texts if text)
    try:
        return np.asarray(joined.split(), dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise InvalidInput("an answer is no list of cell numbers; give the file that perturb wrote") from error
