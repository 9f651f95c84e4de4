"""The file of sampled variants, that both the people asked and those who test work from.

Versioned JSON, one object: ``format``, ``software``, ``digest``, ``epsilon`` (what the answers spend as they are
drawn), ``answer_epsilon`` (what they are made for), ``variants`` (name and alleles; ``report``, the number of its report),
``each``, ``status_share`` and ``reports`` (sets of cells 2·genotype + status, and their weights).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from optrr.designs.checks import Check, Verification, total_check
from optrr.errors import InvalidInput
from optrr.genomics.sampled_variants import SampledVariants
from optrr.records.whole_files import whole_file
from optrr.releases.sealed import Given, Sealed, encoded, read_named
from optrr.show.version import SOFTWARE
from optrr_solvers.allocating.association import SetReport

FORMAT = "optrr-sampled-variants/1"


class _VariantRecord(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    a1: str
    a2: str
    report: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class _ReportRecord(msgspec.Struct, forbid_unknown_fields=True):
    sets: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]


class SampledVariantsRecord(msgspec.Struct, forbid_unknown_fields=True):
    """What the file holds."""

    format: str
    software: str
    digest: str
    epsilon: float
    answer_epsilon: float
    each: int
    status_share: float
    variants: list[_VariantRecord]
    reports: list[_ReportRecord]


_SEALED = Sealed(SampledVariantsRecord, FORMAT, "", "cannot be read", lambda _: "")


def save_sampled_variants(made: SampledVariants, path: str | Path) -> None:
    """Write the way of asking as a JSON file, whole or not at all."""
    record = SampledVariantsRecord(
        FORMAT,
        SOFTWARE,
        made.digest,
        made.epsilon,
        made.answer_epsilon,
        made.each,
        made.status_share,
        [
            _VariantRecord(name, a1, a2, int(report))
            for name, (a1, a2), report in zip(made.names, made.alleles, made.report_of, strict=True)
        ],
        [_ReportRecord(r.sets, r.weights) for r in made.reports],
    )
    with whole_file(Path(path)) as partial:
        partial.write_bytes(encoded(record) + b"\n")


def load_sampled_variants(path: Given) -> SampledVariants:
    """Read a file of sampled variants.

    Raises
    ------
    InvalidInput
        where it cannot be read, is malformed or of another version, was changed, or its ε is not the one drawn.
    """
    record, made = _decoded(path)
    if not _total(record, made).holds:
        raise InvalidInput(
            f"{path} states a total epsilon of {record.epsilon:g} and its answers spend {made.epsilon:g}"
        )
    if record.digest != made.digest:
        raise InvalidInput(f"{path} was changed after it was written (its digest differs); design again")
    return made


def verify_sampled_variants(path: Given) -> Verification:
    """The total ε recomputed from the thresholds that are drawn, and whether the file is as it was written.

    Raises
    ------
    InvalidInput
        where it cannot be read, or is malformed or of another version.
    """
    record, made = _decoded(path)
    return Verification((_total(record, made),), record.digest == made.digest, made.digest)


def _total(record: SampledVariantsRecord, made: SampledVariants) -> Check:
    how = "the largest over all answers, of 64-bit thresholds in exact rationals"
    return total_check(record.epsilon, made.epsilon, how)


def _decoded(path: Given) -> tuple[SampledVariantsRecord, SampledVariants]:
    record = _SEALED.decoded(read_named(path, "design file"), path)
    rows = record.variants
    return record, SampledVariants(
        tuple(v.name for v in rows),
        tuple((v.a1, v.a2) for v in rows),
        record.answer_epsilon,
        record.each,
        record.status_share,
        tuple(SetReport(r.sets, r.weights) for r in record.reports),
        np.asarray([v.report for v in rows], dtype=np.int64),
    )
