"""Files of longitudinal designs: versioned JSON that holds the optimum's design file and both stages.

One JSON object: ``format``, ``software``, ``optimum`` (a design file's object, with its certificate and its digest),
``permanent`` (the permanent law's record; left out where it is the optimum's), ``threshold`` of the coin (decimal text) or
``each`` (ε_i of the second stage), ``requested`` and ``attributes`` (ε_i of one report), ``one_report`` and ``epsilon`` (total
ε of one report and for ever), and ``digest``. Whoever reads it recomputes every ε from what is drawn.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from optrr.designs.design_file import DesignRecord, decoded_design, encoded_design, refuse_repeats
from optrr.designs.specification_record import refuse_specification
from optrr.designs.work import is_heavy
from optrr.errors import InvalidInput, in_one_line
from optrr.mechanisms.mechanism import Mechanism
from optrr.records.whole_files import whole_file
from optrr.releases.small_files import Given, opens_with, read_named, refuse_pipe
from optrr.version import SOFTWARE
from optrr.ways.longitudinal.two_stage import TwoStage
from optrr.ways.longitudinal.whole import WholeOrUniform
from optrr_solvers.arrays import FloatArray
from optrr_solvers.laws.record import law_of, record_of

if TYPE_CHECKING:
    from optrr.ways.longitudinal.design import LongitudinalDesign

FORMAT = "optrr-longitudinal/1"
_THRESHOLD = re.compile(r"[1-9][0-9]{0,19}")

__all__ = [
    "FORMAT",
    "LongitudinalRecord",
    "decoded_longitudinal",
    "is_longitudinal",
    "read_longitudinal_file",
    "save_longitudinal",
]


class _Record(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    format: str
    software: str
    optimum: msgspec.Raw
    requested: list[float]
    attributes: list[float]
    one_report: float
    epsilon: float
    permanent: dict[str, Any] | None = None
    threshold: str | None = None
    each: list[float] | None = None
    digest: str = ""


class _Versioned(msgspec.Struct):
    format: str


@dataclass(frozen=True, eq=False)
class LongitudinalRecord:
    """What a file holds, unchecked: the optimum's record, one report, what was asked for and is stated, whether it is intact.

    ``stated`` has ``one_report`` and ``epsilon``, one number each, and ``attributes``; ``raw`` is the file's content, for
    checks in another process.
    """

    optimum: DesignRecord
    mechanism: TwoStage
    requested: FloatArray
    stated: dict[str, FloatArray]
    intact: bool
    raw: bytes

    @property
    def is_heavy(self) -> bool:
        """Whether the checks of either law may take long; see :func:`optrr.designs.work.is_heavy`."""
        solution = self.optimum.solution
        return is_heavy(solution, replace(solution, law=self.mechanism.permanent.law))


def save_longitudinal(design: LongitudinalDesign, path: str | Path) -> None:
    """Write the file, whole or not at all."""
    second = design.instantaneous
    coin = isinstance(second, WholeOrUniform)
    record = _Record(
        format=FORMAT,
        software=SOFTWARE,
        optimum=msgspec.Raw(encoded_design(design.optimum)),
        requested=design.requested_epsilons.tolist(),
        attributes=design.mechanism.attribute_epsilons.tolist(),
        one_report=design.mechanism.epsilon,
        epsilon=design.epsilon,
        permanent=record_of(design.permanent.law) if coin else None,
        threshold=str(second.threshold) if isinstance(second, WholeOrUniform) else None,
        each=None if isinstance(second, WholeOrUniform) else record_of(second.law)["epsilons"],
    )
    record.digest = _digest(record)
    with whole_file(Path(path)) as partial:
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1))


def is_longitudinal(path: Given) -> bool:
    """Whether a file says that it is a longitudinal design, of whatever version; False where it cannot be read.

    Raises
    ------
    InvalidInput
        for a pipe, of which nothing would be left to read.
    """
    refuse_pipe(path)
    return opens_with(path, f"{FORMAT.partition('/')[0]}/")


def read_longitudinal_file(path: Given) -> LongitudinalRecord:
    """The content of a file, unchecked.

    Raises
    ------
    InvalidInput
        where the file is missing, malformed, or of an unknown version.
    """
    return decoded_longitudinal(read_named(path, "longitudinal design"), path)


def decoded_longitudinal(raw: bytes, source: Given) -> LongitudinalRecord:
    """What the content of a file holds, unchecked; ``source`` is where it stands, for messages.

    Raises
    ------
    InvalidInput
        where it is malformed, or of an unknown version.
    """
    record = _decoded(raw, source)
    optimum = decoded_design(bytes(record.optimum), source)
    try:
        mechanism = _mechanism(record, optimum)
    except (ValueError, ArithmeticError) as error:
        raise InvalidInput(f"longitudinal design {source}: {in_one_line(error)}") from error
    stated = {
        "one_report": np.array([record.one_report]),
        "epsilon": np.array([record.epsilon]),
        "attributes": np.asarray(record.attributes),
    }
    intact = optimum.intact and record.digest == _digest(record)
    return LongitudinalRecord(optimum, mechanism, np.asarray(record.requested), stated, intact, raw)


def _decoded(raw: bytes, source: Given) -> _Record:
    try:
        written = msgspec.json.decode(raw, type=_Versioned).format
        if written != FORMAT:
            remedy = "design again, with optrr longitudinal-design"
            raise InvalidInput(f"{source} has format {written[:40]!r}; this version reads {FORMAT!r}: {remedy}")
        record = msgspec.json.decode(raw, type=_Record)
        refuse_repeats(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        refuse_specification(raw, source, "longitudinal-design {} --forever EPSILON -o {}")
        raise InvalidInput(f"{source} is no longitudinal design: {in_one_line(error)}") from error
    return record


def _mechanism(record: _Record, optimum: DesignRecord) -> TwoStage:
    domain = optimum.domain
    if not len(record.requested) == len(record.attributes) == domain.m:
        raise InvalidInput(f"its accuracies are not one for each of {domain.m} attributes")
    if (record.threshold is None) == (record.each is None):
        raise InvalidInput("it has both a coin and a second law, or neither; one of them makes the reports")
    law = optimum.solution.law if record.permanent is None else law_of(record.permanent, domain.sizes)
    permanent = Mechanism(domain, law)
    if record.threshold is None:
        return TwoStage(
            permanent, Mechanism(domain, law_of({"kind": "product", "epsilons": record.each}, domain.sizes))
        )
    if not _THRESHOLD.fullmatch(record.threshold):
        raise InvalidInput("the coin's threshold is no whole number from 1 to 2^64 - 1")
    return TwoStage(permanent, WholeOrUniform(domain, int(record.threshold)))


def _digest(record: _Record) -> str:
    content = msgspec.json.decode(msgspec.json.encode(record))
    content.pop("digest", None)
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()
