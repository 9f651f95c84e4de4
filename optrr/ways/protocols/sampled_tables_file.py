"""The file of sampled tables: versioned JSON that both the people asked and those who estimate work from.

One object: ``format``, ``software``, ``epsilon`` (what the answers spend as they are drawn), ``answer_epsilon`` (what they are
made for), ``attributes`` (:mod:`optrr.domain.declaration`) and ``tables`` (attributes, share, report: grr, oue or ss).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from optrr.domain.declaration import DeclaredAttribute, declaration
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput, in_one_line
from optrr.records.whole_files import whole_file
from optrr.releases.sealed import Sealed
from optrr.releases.small_files import Given, read_small
from optrr.version import SOFTWARE

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


_SEALED = Sealed(SampledTablesRecord, FORMAT, "", "cannot be read", lambda _: "")


def save_sampled_tables(
    domain: Domain, tables: Sequence[TableRecord], epsilons: tuple[float, float], path: str | Path
) -> None:
    """Write the file, whole or not at all; ``epsilons`` are what the answers spend as drawn, and what they are made for."""
    attributes = [DeclaredAttribute(**declaration(a)) for a in domain]
    record = SampledTablesRecord(FORMAT, SOFTWARE, *epsilons, attributes, list(tables))
    with whole_file(Path(path)) as partial:
        text = json.dumps(msgspec.to_builtins(record), indent=1, ensure_ascii=False)
        partial.write_text(text + "\n", encoding="utf-8")


def read_sampled_tables(path: Given) -> SampledTablesRecord:
    """What a file holds. Raises InvalidInput where it cannot be read or is of another version."""
    try:
        raw = read_small(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {in_one_line(error)}") from error
    return _SEALED.decoded(raw, path)
