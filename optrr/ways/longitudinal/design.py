"""A longitudinal design: what one person draws once and keeps, and what is drawn from it for every report (design §9).

Three numbers belong together and are always shown together: ε of one report, ε of several, and ε of all reports for ever. The
last one is spent once per person, however many rounds there are, as long as the person's record stays as it is.

Files of longitudinal designs: versioned JSON that holds the optimum's design file and both stages.

One JSON object: ``format``, ``software``, ``optimum`` (a design file's object, with its certificate and its digest),
``permanent`` (the permanent law's record; left out where it is the optimum's), ``threshold`` of the coin (decimal text) or
``each`` (ε_i of the second stage), ``requested`` and ``attributes`` (ε_i of one report), ``one_report`` and ``epsilon`` (total
ε of one report and for ever), and ``digest``. Whoever reads it recomputes every ε from what is drawn.

Checks of a longitudinal design: its optimum's, and every number of one report and of all, from what both stages draw.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from optrr.designs.checks import LAST_PLACES, SAME, Check, CheckedFiles, Verification, is_heavy
from optrr.designs.design import Design, solution_warnings
from optrr.designs.design_file import DesignRecord, checks, decoded_design, encoded_design, ends_text
from optrr.designs.specification import refuse_specification
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput, in_one_line
from optrr.mechanisms.mechanism import Mechanism
from optrr.records.whole_files import whole_file
from optrr.releases.sealed import Given, Sealed, encoded, sha256_of
from optrr.show.result import TableResult
from optrr.show.text import amount, epsilon_text
from optrr.show.version import SOFTWARE
from optrr.ways.longitudinal.spending import ReportsEpsilon, TwoStage
from optrr.ways.longitudinal.stages import WholeOrUniform
from optrr_solvers.arrays import FloatArray
from optrr_solvers.laws.record import law_of, record_of

FORMAT = "optrr-longitudinal/1"
_THRESHOLD = re.compile(r"[1-9][0-9]{0,19}")

__all__ = [
    "FORMAT",
    "LongitudinalDesign",
    "LongitudinalRecord",
    "decoded_longitudinal",
    "load_longitudinal",
    "save_longitudinal",
    "verify_longitudinal",
]


class _LongitudinalContent(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
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


_SEALED = Sealed(
    _LongitudinalContent,
    FORMAT,
    "",
    "is no longitudinal design",
    lambda _: ": design again, with optrr longitudinal-design",
    lambda raw, source: refuse_specification(raw, source, "longitudinal-design {} --forever EPSILON -o {}"),
)


@dataclass(frozen=True, eq=False)
class LongitudinalRecord:
    """What a file holds, unchecked: the optimum's record, one report, what was asked for and is stated, whether it is intact.

    ``stated`` has ``one_report`` and ``epsilon``, one number each, and ``attributes``.
    """

    optimum: DesignRecord
    mechanism: TwoStage
    requested: FloatArray
    stated: dict[str, FloatArray]
    intact: bool

    @property
    def is_heavy(self) -> bool:
        """Whether the checks of either law may take long; see :func:`optrr.designs.checks.is_heavy`."""
        solution = self.optimum.design.solution
        return is_heavy(solution, replace(solution, law=self.mechanism.permanent.law))


def decoded_longitudinal(raw: bytes, source: Given) -> LongitudinalRecord:
    """What the content of a file holds, unchecked; ``source`` is where it stands, for messages.

    Raises
    ------
    InvalidInput
        where it is malformed, or of an unknown version.
    """
    record = _SEALED.decoded(raw, source)
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
    return LongitudinalRecord(optimum, mechanism, np.asarray(record.requested), stated, intact)


def _mechanism(record: _LongitudinalContent, optimum: DesignRecord) -> TwoStage:
    domain = optimum.design.domain
    if not len(record.requested) == len(record.attributes) == domain.m:
        raise InvalidInput(f"its accuracies are not one for each of {domain.m} attributes")
    if (record.threshold is None) == (record.each is None):
        raise InvalidInput("it has both a coin and a second law, or neither; one of them makes the reports")
    law = optimum.design.law if record.permanent is None else law_of(record.permanent, domain.sizes)
    permanent = Mechanism(domain, law)
    if record.threshold is None:
        return TwoStage(
            permanent, Mechanism(domain, law_of({"kind": "product", "epsilons": record.each}, domain.sizes))
        )
    if not _THRESHOLD.fullmatch(record.threshold):
        raise InvalidInput("the coin's threshold is no whole number from 1 to 2^64 - 1")
    return TwoStage(permanent, WholeOrUniform(domain, int(record.threshold)))


def _digest(record: _LongitudinalContent) -> str:
    content = msgspec.json.decode(msgspec.json.encode(record))
    content.pop("digest", None)
    return sha256_of(content)


def stage_checks(record: LongitudinalRecord) -> list[Check]:
    """Totals never below what is drawn; accuracies as they are, within rounding, and no less than was asked for."""
    mechanism, stated = record.mechanism, record.stated
    accuracies = mechanism.attribute_epsilons
    scale = 1 + accuracies
    same = np.abs(stated["attributes"] - accuracies) <= LAST_PLACES * scale
    met = accuracies >= record.requested - SAME * scale
    return [
        _total("epsilon of one report", float(stated["one_report"][0]), mechanism.epsilon, _how(mechanism)),
        _total("epsilon for ever", float(stated["epsilon"][0]), mechanism.permanent.epsilon, "rounded up"),
        Check(
            "accuracies of one report",
            ends_text(stated["attributes"]),
            ends_text(accuracies),
            "both stages",
            bool(same.all()),
        ),
        Check(
            "accuracies asked for", ends_text(record.requested), ends_text(accuracies), "of one report", bool(met.all())
        ),
        _certified(record),
    ]


def _certified(record: LongitudinalRecord) -> Check:
    """The stage that the optimum's lower bound speaks of is as accurate as the optimum."""
    coin = isinstance(record.mechanism.instantaneous, WholeOrUniform)
    stage = record.mechanism if coin else record.mechanism.permanent
    asked, given = record.optimum.design.law.labels.attribute, stage.attribute_epsilons
    holds = bool(np.all(given >= asked - SAME * (1 + asked)))
    return Check(
        "accuracies of the optimum", ends_text(asked), ends_text(given), "one report" if coin else "for ever", holds
    )


def _how(mechanism: TwoStage) -> str:
    return "exact, rounded up" if mechanism.spending.on(1).exact else "upper bound"


def _total(name: str, stated: float, value: float, how: str) -> Check:
    return Check(name, repr(stated), repr(value), how, bool(value <= stated <= value + SAME * (1 + value)))


# Numbers of reports whose ε is listed where nobody asks for others.
LISTED = (1, 2, 5, 10, 30, 100)


@dataclass(frozen=True, eq=False, repr=False)
class LongitudinalDesign(TableResult):
    """Two stages, and the certified optimum behind them. A table of its attributes.

    Parameters
    ----------
    optimum
        a design: with the second stage "whole" that of one report, with "kronecker" that of the permanent answer.
    mechanism
        one report: the permanent law, then the instantaneous one. What estimates and tests take.
    requested_epsilons
        ε_i that were asked of one report, nats, shape (m,).
    """

    optimum: Design
    mechanism: TwoStage
    requested_epsilons: FloatArray

    in_summary = ("epsilon", "lower_bound", "second", "warnings")
    drawn = ("epsilon",)

    @property
    def domain(self) -> Domain:
        """The attributes of every report."""
        return self.optimum.domain

    @property
    def permanent(self) -> Mechanism:
        """What a person draws once, and keeps."""
        return self.mechanism.permanent

    @property
    def instantaneous(self) -> Mechanism | WholeOrUniform:
        """What is drawn from the permanent answer for every report."""
        return self.mechanism.instantaneous

    @property
    def second(self) -> str:
        """The kind of the second stage: whole or kronecker."""
        return "whole" if isinstance(self.instantaneous, WholeOrUniform) else "kronecker"

    def spent(self, reports: int | None = None) -> ReportsEpsilon:
        """ε of so many reports of one person; None: of all for ever."""
        spending = self.mechanism.spending
        return spending.forever if reports is None else spending.on(reports)

    @property
    def epsilon(self) -> float:
        """What a person spends for ever, in nats, rounded up."""
        return self.permanent.epsilon

    @property
    def lower_bound(self) -> float:
        """No mechanism with these accuracies has a total below this, in nats: of one report, with "kronecker" for ever."""
        return self.optimum.lower_bound

    @property
    def digest(self) -> str:
        """What identifies it wherever its reports go."""
        return self.mechanism.digest

    def headline(self) -> str:
        """Both totals, how many attributes, and the kind of the second stage."""
        one = self.spent(1)
        return (
            f"epsilon {epsilon_text(one.epsilon)} of one report, {epsilon_text(self.epsilon)} for ever, "
            f"{amount(self.domain.m, 'attribute')}, second stage {self.second}"
        )

    def to_arrow(self) -> pa.Table:
        """One row per attribute: accuracy asked for and given by one report, conditional ε, and both for ever."""
        return pa.table(
            {
                "name": list(self.domain.names),
                "size": self.domain.sizes,
                "requested_epsilon": self.requested_epsilons,
                "epsilon": self.mechanism.attribute_epsilons,
                "conditional_epsilon": self.mechanism.conditional_epsilons,
                "forever_epsilon": self.permanent.attribute_epsilons,
                "forever_conditional_epsilon": self.permanent.conditional_epsilons,
            }
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user must know before using this design, one line each."""
        return (
            *solution_warnings(self.optimum),
            f"for ever means while a person's record stays as it is: each further record that a person comes to have spends "
            f"another {epsilon_text(self.epsilon)} nats, and reports may show when it changed",
        )

    def summary(self, reports: Sequence[int] = LISTED) -> dict[str, Any]:
        """The command line's JSON object."""
        return {
            "one_report_epsilon": self.spent(1).epsilon,
            "reports": [
                {"reports": each.reports, "epsilon": each.epsilon, "exact": each.exact}
                for each in map(self.spent, reports)
            ],
            "lower_bound_of": "one report" if self.second == "whole" else "for ever",
            "method": self.optimum.method,
            "attributes": self.to_arrow().to_pylist(),
            **super().summary(),
        }


def save_longitudinal(design: LongitudinalDesign, path: str | Path) -> None:
    """Write the file that both sides work from, whole or not at all."""
    mechanism, second = design.mechanism, design.instantaneous
    coin = isinstance(second, WholeOrUniform)
    record = _LongitudinalContent(
        format=FORMAT,
        software=SOFTWARE,
        optimum=msgspec.Raw(encoded_design(design.optimum)),
        requested=design.requested_epsilons.tolist(),
        attributes=mechanism.attribute_epsilons.tolist(),
        one_report=mechanism.epsilon,
        epsilon=mechanism.permanent.epsilon,
        permanent=record_of(mechanism.permanent.law) if coin else None,
        threshold=str(second.threshold) if isinstance(second, WholeOrUniform) else None,
        each=None if isinstance(second, WholeOrUniform) else record_of(second.law)["epsilons"],
    )
    record.digest = _digest(record)
    with whole_file(Path(path)) as partial:
        partial.write_bytes(encoded(record))


def _checks_of(record: LongitudinalRecord) -> Verification:
    return Verification((*checks(record.optimum.design, record.optimum.stated), *stage_checks(record)), record.intact)


LONGITUDINAL_DESIGNS = CheckedFiles(
    "longitudinal design",
    "optrr.ways.longitudinal.design:LONGITUDINAL_DESIGNS.checked",
    decoded_longitudinal,
    _checks_of,
    lambda record: record.is_heavy,
)


def load_longitudinal(path: Given, *, limited: bool = True) -> LongitudinalDesign:
    """Read a file and recompute every number in it; see :func:`optrr.load`.

    Raises
    ------
    InvalidInput
        where it is missing, malformed, of an unknown version, edited, or states a number that does not hold.
    """
    record = LONGITUDINAL_DESIGNS.loaded(path, limited=limited)
    return LongitudinalDesign(record.optimum.design, record.mechanism, record.requested)


def verify_longitudinal(path: Given, *, limited: bool = True) -> Verification:
    """Recompute every number of a file, its optimum's certificate included; see :func:`optrr.verify`."""
    return LONGITUDINAL_DESIGNS.verified(path, limited=limited)
