"""The file of sampled tables: versioned JSON that both the people asked and those who estimate work from.

One object: ``format``, ``software``, ``epsilon`` (what the answers spend as they are drawn), ``answer_epsilon`` (what they are
made for), ``attributes`` (:mod:`optrr.domain.declaration`) and ``tables`` (attributes, share, report: grr, oue or ss).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from optrr.designs.design_file import refuse_repeats
from optrr.domain.declaration import DeclaredAttribute, declaration
from optrr.errors import InvalidInput, in_one_line
from optrr.records.whole_files import whole_file
from optrr.releases.small_files import Given, opens_with, read_small, refuse_pipe
from optrr.version import SOFTWARE

if TYPE_CHECKING:
    from optrr.ways.protocols.sampled_tables import SampledTables

FORMAT = "optrr-sampled-tables/1"


class TableRecord(msgspec.Struct, forbid_unknown_fields=True):
    """One table as it stands in the file; without a report it is the most accurate one."""

    attributes: list[str]
    share: float
    report: str | None = None


class SampledTablesRecord(msgspec.Struct, forbid_unknown_fields=True):
    """What the file holds."""

    format: str
    software: str
    epsilon: float
    answer_epsilon: float
    attributes: list[DeclaredAttribute]
    tables: list[TableRecord]


def is_sampled_tables(path: Given) -> bool:
    """Whether a file says that it is a way of asking of this kind. Raises InvalidInput for a pipe, which is read once only."""
    refuse_pipe(path)
    return opens_with(path, FORMAT)


def save_sampled_tables(asking: SampledTables, path: str | Path) -> None:
    """Write the file, whole or not at all."""
    rows = zip(asking.tables, asking.shares.tolist(), asking.oracles, strict=True)
    record = SampledTablesRecord(
        FORMAT,
        SOFTWARE,
        asking.epsilon,
        asking.answer_epsilon,
        [DeclaredAttribute(**declaration(a)) for a in asking.domain],
        [TableRecord(list(names), share, oracle) for names, share, oracle in rows],
    )
    with whole_file(Path(path)) as partial:
        text = json.dumps(msgspec.to_builtins(record), indent=1, ensure_ascii=False)
        partial.write_text(text + "\n", encoding="utf-8")


def read_sampled_tables(path: Given) -> SampledTablesRecord:
    """What a file holds. Raises InvalidInput where it cannot be read or is of another version."""
    try:
        raw = read_small(path)
        record = msgspec.json.decode(raw, type=SampledTablesRecord)
        refuse_repeats(raw)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"{path} cannot be read: {in_one_line(error)}") from error
    if record.format != FORMAT:
        raise InvalidInput(f"{path} has format {record.format[:40]!r}; this version reads {FORMAT!r}")
    return record
