"""One random table each: a person answers one table of the workload only, drawn at random, with the whole ε (SMP).

The table is drawn with public probabilities that do not depend on the record, its cell is reported by the best local report
(:mod:`optrr.protocols.oracles`), so the record's ε is the largest of the reports'. Nobody's answers can be linked: only the
tables asked for can ever be estimated. With one table, everybody answers it.

The released form is a table of two columns: ``table`` says which table was asked (1, 2, …), ``cells`` which of its cells the
report supports (numbers from 0 in row-major order, last attribute fastest, separated by spaces). A table asked of N people
has C_v supports of cell v, binomial with chance q + π_v (p − q), so

    π̂_v = (C_v/N − q)/(p − q)

is unbiased, and its interval inverts the exact binomial test of every share (:mod:`optrr.estimation.score_interval`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr import __version__
from optrr.account import checked_epsilon
from optrr.errors import InvalidInput, in_one_line
from optrr.estimation.score_interval import score_intervals
from optrr.estimation.weighted_mean import cell_means
from optrr.kernel import MatrixKernel
from optrr.protocols.oracles import BITS, Oracle, best_report, drawn_epsilon, report, support_probabilities
from optrr.records.cells import cells_table
from optrr.records.domain import Attribute, Domain
from optrr.records.files import RecordWriter, checked_suffix, whole_file
from optrr.records.frames import FrameCodec
from optrr.records.reading.registry import record_batches
from optrr.results import TableResult
from optrr_solvers.arrays import FloatArray
from optrr_solvers.randomness import BitSource, RandomState, as_source

FORMAT = "optrr-sampled-tables/1"
# A report by bits holds one for each cell; a table of more cells should be coarsened first.
MAX_CELLS = 1 << 16
# Shares of the tables are drawn as whole numbers of 2^-32: no table's share is off by more.
_SHARE_BITS = 32

# The columns of a released file; their values are read here, not by the declared categories.
_RELEASED = Domain((Attribute("table", ("1", "2")), Attribute("cells", ("", "0"))))
SCHEMA = pa.schema([("table", pa.int32()), ("cells", pa.string())])


@dataclass(frozen=True, eq=False, repr=False)
class TableEstimate(TableResult):
    """Unbiased proportions of one sampled table, with intervals by test inversion; arrays of the table's shape."""

    domain: Domain
    n: int
    proportions: FloatArray
    standard_errors: FloatArray
    lower: FloatArray
    upper: FloatArray
    confidence: float

    def headline(self) -> str:
        """Which table, from how many answers."""
        return f"{' × '.join(self.domain.names)} from {self.n} answers"

    def summary(self) -> dict[str, Any]:
        """As a JSON object with the keys of other estimates."""
        return {
            "attributes": list(self.domain.names),
            "categories": [list(a.categories) for a in self.domain],
            "estimate": self.proportions.tolist(),
            "standard_error": self.standard_errors.tolist(),
            "n": self.n,
            "lower": self.lower.tolist(),
            "upper": self.upper.tolist(),
            "confidence": self.confidence,
            "method": "sampled-table",
        }

    def to_arrow(self) -> pa.Table:
        """One row per cell: the categories' texts (null where missing), estimate, standard_error, lower, upper."""
        numbers = {
            "estimate": self.proportions,
            "standard_error": self.standard_errors,
            "lower": self.lower,
            "upper": self.upper,
        }
        return cells_table(self.domain, numbers)


@dataclass(frozen=True, eq=False)
class SampledTables:
    """A way of asking: which tables, how often each, and the ε that one person spends.

    Parameters
    ----------
    domain
        the attributes that the tables are of.
    tables
        attribute names of each table.
    shares
        probability of each table, shape (number of tables,); positive, summing to 1.
    answer_epsilon
        ε in nats of the one answer, 1e-6..50.

    Raises
    ------
    InvalidInput
        for tables of unknown or repeated attributes or more than 65,536 cells, or shares that are no probabilities.
    """

    domain: Domain
    tables: tuple[tuple[str, ...], ...]
    shares: FloatArray
    answer_epsilon: float

    def __post_init__(self) -> None:
        checked_epsilon(self.answer_epsilon)
        if not self.tables or len({frozenset(t) for t in self.tables}) != len(self.tables):
            raise InvalidInput("sampled tables must be one or more, each named once")
        shares = np.asarray(self.shares, dtype=np.float64)
        if shares.shape != (len(self.tables),) or not (shares > 0).all() or abs(float(shares.sum()) - 1) > 1e-9:
            raise InvalidInput(f"{len(self.tables)} tables need as many positive shares that sum to 1")
        for names, size in zip(self.tables, self.sizes, strict=True):
            if size > MAX_CELLS:
                raise InvalidInput(
                    f"table {' × '.join(names)} has {size} cells; at most {MAX_CELLS} can be reported: merge categories"
                )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each table."""
        return tuple(prod(self.domain.attributes[i].size for i in self.domain.indices(t)) for t in self.tables)

    @cached_property
    def oracles(self) -> tuple[Oracle, ...]:
        """The report that each table is answered with: the one of smallest error at this ε."""
        return tuple(best_report(size, self.answer_epsilon) for size in self.sizes)

    @cached_property
    def epsilon(self) -> float:
        """Total ε in nats of the record, of the answers as drawn; rounded up."""
        return max(drawn_epsilon(o, r, self.answer_epsilon) for o, r in zip(self.oracles, self.sizes, strict=True))

    def perturb(self, data: Any, random_state: RandomState = None) -> pa.Table:
        """Everybody's answer, one row per person in the order of the data; columns ``table`` and ``cells``.

        Parameters
        ----------
        data
            a data frame, a file's path or record batches, with one column per attribute.
        random_state
            None draws from the operating system's entropy; anything else is for studies.
        """
        batches = list(self.batches(data, random_state))
        if not batches:
            raise InvalidInput("the data holds no records; give at least one")
        return pa.Table.from_batches(batches, schema=SCHEMA)

    def perturb_file(
        self, source: str | os.PathLike[str], target: str | os.PathLike[str], random_state: RandomState = None
    ) -> int:
        """Everybody's answer from one CSV or Parquet file into another, whole or not at all; returns how many there are."""
        path, people = Path(target), 0
        checked_suffix(path)
        with whole_file(path) as partial:
            with RecordWriter(partial, path, SCHEMA) as writer:
                for batch in self.batches(source, random_state):
                    people += batch.num_rows
                    writer.write(batch)
            if not people:
                raise InvalidInput(f"{source} holds no records; give at least one")
        return people

    def batches(self, data: Any, random_state: RandomState = None) -> Iterator[pa.RecordBatch]:
        """The same, batch by batch: time O(n R) for a table of R cells, memory of one batch."""
        source = as_source(random_state)
        codec: FrameCodec | None = None
        for batch in record_batches(data, self.domain, self.domain):
            if codec is None or not batch.schema.equals(codec.schema):
                codec = FrameCodec(self.domain, batch.schema, first_record=0 if codec is None else codec.records)
            codes = codec.encode(batch)
            if codes.shape[0]:
                yield self._answers(codes, source)

    def _answers(self, codes: NDArray[np.int32], source: BitSource) -> pa.RecordBatch:
        asked = self._drawn(codes.shape[0], source)
        cells = np.empty(codes.shape[0], dtype=object)
        for k, (names, size, oracle) in enumerate(zip(self.tables, self.sizes, self.oracles, strict=True)):
            rows = np.flatnonzero(asked == k)
            if not rows.size:
                continue
            members = list(self.domain.indices(names))
            shape = tuple(self.domain.attributes[i].size for i in members)
            true = np.ravel_multi_index(tuple(codes[rows][:, members].T), shape)
            answers = report(true, oracle, size, self.answer_epsilon, source)
            cells[rows] = _texts(answers) if oracle in BITS else answers.astype(str)
        return pa.RecordBatch.from_arrays(
            [pa.array(asked + 1, pa.int32()), pa.array(cells, pa.string())], schema=SCHEMA
        )

    def _drawn(self, n: int, source: BitSource) -> NDArray[np.int64]:
        """Which table each of n people is asked, shape (n,)."""
        ends = np.round(np.cumsum(self.shares) * 2.0**_SHARE_BITS).astype(np.uint64)
        words = source.words(n) >> np.uint64(64 - _SHARE_BITS)
        return np.minimum(np.searchsorted(ends, words, side="right"), len(self.tables) - 1)

    def estimate(self, reports: Any, attributes: str | Iterable[str], confidence: float = 0.95) -> TableEstimate:
        """Proportions of one of the tables from the released answers, a frame or a file; axes in the table's order.

        Raises
        ------
        InvalidInput
            for a table that was not asked, answers that this way of asking cannot give, or a table nobody was asked.
        """
        names = {attributes} if isinstance(attributes, str) else set(attributes)
        place = next((k for k, t in enumerate(self.tables) if set(t) == names), None)
        if place is None:
            asked = "; ".join(",".join(t) for t in self.tables[:5])
            raise InvalidInput(
                f"nobody was asked for the table {' × '.join(sorted(names))}; the tables asked are {asked}"
                + (", …" if len(self.tables) > len(self.tables[:5]) else "")
            )
        if not 0 < confidence < 1:
            raise InvalidInput(f"confidence = {confidence}; give a number above 0 and below 1, such as 0.95")
        supports, n = self._supports(reports, place)
        return self._estimated(place, supports, n, confidence)

    def _supports(self, reports: Any, place: int) -> tuple[FloatArray, int]:
        """How many answers support each cell of a table, shape (R,), and how many answers there are."""
        size, n = self.sizes[place], 0
        out = np.zeros(size)
        for batch in record_batches(reports, _RELEASED, None):
            chosen = batch.column("table").cast(pa.string()).to_numpy(zero_copy_only=False) == str(place + 1)
            texts = batch.column("cells").cast(pa.string()).to_numpy(zero_copy_only=False)[chosen]
            n += int(chosen.sum())
            supported = _numbers(texts)
            if supported.size and (supported.min() < 0 or supported.max() >= size):
                raise InvalidInput(
                    f"an answer names a cell outside 0..{size - 1}; estimate with the file it was asked by"
                )
            out += np.bincount(supported, minlength=size)
        if not n:
            raise InvalidInput(f"nobody was asked for table {place + 1}; collect from more people")
        return out, n

    def _estimated(self, place: int, supports: FloatArray, n: int, confidence: float) -> TableEstimate:
        p, q = support_probabilities(self.oracles[place], self.sizes[place], self.answer_epsilon)
        domain = self.domain.subset(self.tables[place])
        shape = tuple(a.size for a in domain)
        observed = supports / n
        # "holds the cell" is a binary attribute that is reported by the supports
        kernel = MatrixKernel([[p, 1 - p], [q, 1 - q]])
        means = cell_means(kernel, np.stack([observed, 1 - observed], axis=1), n)
        held = np.arange(0, 2 * supports.size, 2)
        lower, upper = (x.reshape(shape) for x in score_intervals(means[held], 1 - confidence))
        error = np.sqrt(observed * (1 - observed) / max(n - 1, 1)) / (p - q)
        return TableEstimate(
            domain, n, ((observed - q) / (p - q)).reshape(shape), error.reshape(shape), lower, upper, confidence
        )

    def save(self, path: str | Path) -> None:
        """Write the way of asking as a JSON file, whole or not at all."""
        record = {
            "format": FORMAT,
            "software": f"optrr {__version__}",
            "epsilon": self.epsilon,
            "answer_epsilon": self.answer_epsilon,
            "attributes": [{"name": a.name, "categories": list(a.categories)} for a in self.domain],
            "tables": [
                {"attributes": list(t), "share": s} for t, s in zip(self.tables, self.shares.tolist(), strict=True)
            ],
        }
        with whole_file(Path(path)) as partial:
            partial.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


class _AttributeRecord(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    categories: list[str | int | bool | None]


class _TableRecord(msgspec.Struct, forbid_unknown_fields=True):
    attributes: list[str]
    share: float


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    software: str
    epsilon: float
    answer_epsilon: float
    attributes: list[_AttributeRecord]
    tables: list[_TableRecord]


def is_sampled_tables(path: str | Path) -> bool:
    """Whether a file says that it is a way of asking of this kind."""
    try:
        with Path(path).open("rb") as file:
            return FORMAT.encode() in file.read(200)
    except OSError:
        return False


def load_sampled_tables(path: str | Path) -> SampledTables:
    """Read what :meth:`SampledTables.save` wrote. Raises InvalidInput where it is malformed or its ε is not the one drawn."""
    try:
        record = msgspec.json.decode(Path(path).read_bytes(), type=_Record)
        if record.format != FORMAT:
            raise InvalidInput(f"{path} has format {record.format!r}; this version reads {FORMAT!r}")
        domain = Domain(tuple(Attribute(a.name, tuple(a.categories)) for a in record.attributes))
        made = SampledTables(
            domain,
            tuple(tuple(t.attributes) for t in record.tables),
            np.asarray([t.share for t in record.tables]),
            record.answer_epsilon,
        )
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {in_one_line(error)}") from error
    if not record.epsilon >= made.epsilon * (1 - 1e-12):
        raise InvalidInput(
            f"{path} states a total epsilon of {record.epsilon:g} and its answers spend {made.epsilon:g}"
        )
    return made


def _texts(bits: NDArray[np.integer]) -> list[str]:
    """Numbers of the columns that are 1, separated by spaces, for each row."""
    return [" ".join(map(str, np.flatnonzero(row))) for row in bits]


def _numbers(texts: Sequence[Any]) -> NDArray[np.int64]:
    """All numbers in the texts, one after another; an empty answer supports nothing."""
    joined = " ".join(text for text in texts if text)
    try:
        return np.asarray(joined.split(), dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise InvalidInput("an answer is no list of cell numbers; give the file that perturb wrote") from error
