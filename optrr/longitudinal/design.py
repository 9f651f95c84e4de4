"""Longitudinal designs: a memoized response, which a person draws once, and the reports drawn from it (theory §9).

Three numbers are always shown together: the ε of one report, of several, and of all reports over a lifetime. The last
one is consumed once per person, for any number of waves, as long as the person's record stays the same.

A file is versioned JSON with the optimum's design file and both stages. One object: ``format``, ``software``,
``optimum`` (a design file's object, with its certificate and its digest), ``permanent`` (the record of the memoized
response), ``threshold`` of the coin (decimal text), ``requested`` and ``attributes`` (ε_i of one report),
``one_report`` and ``epsilon`` (total ε of one report and of a lifetime), and ``digest``. Reading a file repeats the
checks of the optimum, and recomputes every number from the distributions of both stages.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from optrr.core.design import (
    LAST_PLACES,
    SAME,
    Check,
    CheckedFiles,
    Constraints,
    Design,
    DesignRecord,
    Preserve,
    Verification,
    checks,
    decoded_design,
    design,
    encoded_design,
    ends_text,
    epsilon_vector,
    is_heavy,
    refuse_specification,
    solution_warnings,
)
from optrr.core.display import SOFTWARE, Table, TableResult, amount, bound_text, epsilon_text
from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput, in_one_line
from optrr.core.mechanisms import Mechanism
from optrr.core.provenance import LONGITUDINAL, MEMOIZED, Given, Sealed, encoded, sha256_of
from optrr.core.records import whole_file
from optrr.longitudinal.stages import (
    WORD,
    ReportsEpsilon,
    TwoStage,
    WholeOrUniform,
    losses_between,
    sharpened,
)
from optrr_solvers import SolveOptions
from optrr_solvers.arrays import FloatArray, real
from optrr_solvers.laws.base import law_of, record_of

FORMAT = "optrr-longitudinal/1"
_THRESHOLD = re.compile(r"[1-9][0-9]{0,19}")
# Default numbers of reports for which ε is listed.
LISTED = (1, 2, 5, 10, 30, 100)
# Rounding margin of the second stage in doubles, so that no accuracy is missed by rounding.
_LOWERED = 1 - 2.0**-48
# Relative excess of a stated ε over the required total, a few last places.
_BELOW = 1 - 2.0**-49
# Maximum nats per attribute in a file; far fewer already offer no protection.
_MOST_NATS = 500.0
# So far below its total one report is made for, as the coin is rounded towards accuracy; totals are met within 1e-6 of them.
_BELOW_ONE = 1 - 2.0**-36


class _LongitudinalContent(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    format: str
    software: str
    optimum: msgspec.Raw
    requested: list[float]
    attributes: list[float]
    one_report: float
    epsilon: float
    permanent: dict[str, Any]
    threshold: str
    digest: str = ""


_SEALED = Sealed(
    _LongitudinalContent,
    FORMAT,
    "",
    "is not a longitudinal design",
    lambda _: ": design again, with optrr waves design",
    lambda raw, source: refuse_specification(raw, source, "waves design {} ``lifetime_epsilon=EPSILON`` -o {}"),
)


@dataclass(frozen=True, eq=False, repr=False)
class LongitudinalDesign(TableResult):
    """A two-stage protocol with the certified optimum of one report.

    Converts to a table of its attributes.

    ``mechanism`` is one report, what estimates and tests take: the permanent law, then a coin that keeps the answer whole.
    ``requested_epsilons`` are the ε_i that were asked of one report, nats, shape (m,).
    """

    optimum: Design
    mechanism: TwoStage
    requested_epsilons: FloatArray

    in_summary = ("epsilon", "lower_bound", "warnings")
    drawn = ("epsilon",)
    mechanism_name = MEMOIZED
    file_format = LONGITUDINAL

    @property
    def domain(self) -> Domain:
        """The attributes of every report."""
        return self.optimum.domain

    @property
    def permanent(self) -> Mechanism:
        """Noise distribution of the memoized response, drawn once per person."""
        return self.mechanism.permanent

    @property
    def instantaneous(self) -> WholeOrUniform:
        """Noise distribution of each report, given the memoized response."""
        return self.mechanism.instantaneous

    def spent(self, reports: int | None = None) -> ReportsEpsilon:
        """Compute ε of so many reports of one person; None means a lifetime."""
        return self.mechanism.spent(reports)

    @property
    def epsilon(self) -> float:
        """Lifetime ε of a person, in nats, rounded up."""
        return self.permanent.epsilon

    @property
    def lower_bound(self) -> float:
        """No mechanism whose single report is as accurate costs less for it, in nats."""
        return self.optimum.lower_bound

    @property
    def digest(self) -> str:
        """Identity of the design in its reports."""
        return self.mechanism.digest

    def headline(self) -> str:
        """Summarize both totals and the number of attributes."""
        one = self.spent(1)
        return (
            f"epsilon {epsilon_text(one.epsilon)} of one report, {epsilon_text(self.epsilon)} over a lifetime, "
            f"{amount(self.domain.m, 'attribute')}"
        )

    def to_arrow(self) -> pa.Table:
        """Convert to a table with one row per attribute.

        Accuracy required and reached by one report, conditional ε, and both over a lifetime.
        """
        return pa.table(
            {
                "name": list(self.domain.names),
                "size": self.domain.sizes,
                "requested_epsilon": self.requested_epsilons,
                "epsilon": self.mechanism.attribute_epsilons,
                "conditional_epsilon": self.mechanism.conditional_epsilons,
                "lifetime_epsilon": self.permanent.attribute_epsilons,
                "lifetime_conditional_epsilon": self.permanent.conditional_epsilons,
            }
        )

    def tables_shown(self, most: int | None = None) -> list[Table]:
        """List the tables to print: ε by number of reports, then the attributes."""
        each = [
            (x.reports, epsilon_text(x.epsilon), "exact" if x.exact else "at most") for x in map(self.spent, LISTED)
        ]
        rows = [*each, ("lifetime", epsilon_text(self.epsilon), "exact")]
        return [Table(["reports", "total epsilon", ""], rows, "one person's reports"), self.shown(most)]

    def sentences(self) -> list[str]:
        """State the lower bound of one report."""
        return [f"certified lower bound of one report: {bound_text(self.lower_bound)}"]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to read before using the design, one line each."""
        return (
            *solution_warnings(self.optimum),
            "the lifetime epsilon holds while a person's record stays the same: each further record of a person "
            f"consumes another {epsilon_text(self.epsilon)} nats, and reports may reveal when it changed",
        )

    def summary(self, reports: Sequence[int] = LISTED) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "one_report_epsilon": self.spent(1).epsilon,
            "reports": [
                {"reports": each.reports, "epsilon": each.epsilon, "exact": each.exact}
                for each in map(self.spent, reports)
            ],
            "method": self.optimum.method,
            "attributes": self.to_arrow().to_pylist(),
            **super().summary(),
        }


def save_longitudinal(design: LongitudinalDesign, path: str | Path) -> None:
    """Write the file that both sides work from, whole or not at all."""
    mechanism = design.mechanism
    record = _LongitudinalContent(
        format=FORMAT,
        software=SOFTWARE,
        optimum=msgspec.Raw(encoded_design(design.optimum)),
        requested=design.requested_epsilons.tolist(),
        attributes=mechanism.attribute_epsilons.tolist(),
        one_report=mechanism.epsilon,
        epsilon=mechanism.permanent.epsilon,
        permanent=record_of(mechanism.permanent.law),
        threshold=str(mechanism.instantaneous.threshold),
    )
    record.digest = _digest(record)
    with whole_file(Path(path)) as partial:
        partial.write_bytes(encoded(record))


@dataclass(frozen=True, eq=False)
class LongitudinalRecord:
    """Unchecked content of a file: the design, stated numbers, and its integrity."""

    design: LongitudinalDesign
    optimum: DesignRecord
    stated: _LongitudinalContent
    intact: bool


def decoded_longitudinal(raw: bytes, source: Given) -> LongitudinalRecord:
    """Decode the content of a file without checking it.

    ``source`` is its location in messages.

    Raises InvalidInput where it is malformed, or of an unknown version.
    """
    record = _SEALED.decoded(raw, source)
    optimum = decoded_design(bytes(record.optimum), source)
    try:
        mechanism = _mechanism(record, optimum)
    except (ValueError, ArithmeticError) as error:
        raise InvalidInput(f"longitudinal design {source}: {in_one_line(error)}") from error
    intact = optimum.intact and record.digest == _digest(record)
    design = LongitudinalDesign(optimum.design, mechanism, np.asarray(record.requested))
    return LongitudinalRecord(design, optimum, record, intact)


def _mechanism(record: _LongitudinalContent, optimum: DesignRecord) -> TwoStage:
    domain = optimum.design.domain
    if not len(record.requested) == len(record.attributes) == domain.m:
        raise InvalidInput(f"it does not have one accuracy for each of {domain.m} attributes")
    if not _THRESHOLD.fullmatch(record.threshold):
        raise InvalidInput("the coin's threshold is not a whole number from 1 to 2^64 - 1")
    permanent = Mechanism(domain, law_of(record.permanent, domain.sizes))
    return TwoStage(permanent, WholeOrUniform(domain, int(record.threshold)))


def _digest(record: _LongitudinalContent) -> str:
    content = msgspec.json.decode(msgspec.json.encode(record))
    content.pop("digest", None)
    return sha256_of(content)


def stage_checks(record: LongitudinalRecord) -> list[Check]:
    """Check the stated totals and accuracies.

    Totals must not be below those of the drawn distributions; accuracies must agree within rounding and reach the
    required ones.
    """
    design, mechanism, stated = record.design, record.design.mechanism, record.stated
    asked, given, listed = design.requested_epsilons, mechanism.attribute_epsilons, np.asarray(stated.attributes)
    same = bool(np.all(np.abs(listed - given) <= LAST_PLACES * (1 + given)))
    met = bool(np.all(given >= asked - SAME * (1 + given)))
    how = "exact, rounded up" if mechanism.spent(1).exact else "upper bound"
    return [
        _total("epsilon of one report", stated.one_report, mechanism.epsilon, how),
        _total("lifetime epsilon", stated.epsilon, mechanism.permanent.epsilon, "rounded up"),
        Check("accuracies of one report", ends_text(listed), ends_text(given), "both stages", same),
        Check("required accuracies", ends_text(asked), ends_text(given), "of one report", met),
        _certified(design),
    ]


def _certified(design: LongitudinalDesign) -> Check:
    """Check that one report is as accurate as the optimum with the lower bound."""
    asked, given = design.optimum.law.labels.attribute, design.mechanism.attribute_epsilons
    holds = bool(np.all(given >= asked - SAME * (1 + asked)))
    return Check("accuracies of the optimum", ends_text(asked), ends_text(given), "one report", holds)


def _total(name: str, stated: float, value: float, how: str) -> Check:
    return Check(name, repr(stated), repr(value), how, bool(value <= stated <= value + SAME * (1 + value)))


def _checks_of(record: LongitudinalRecord) -> Verification:
    return Verification((*checks(record.optimum.design, record.optimum.stated), *stage_checks(record)), record.intact)


def _is_heavy(record: LongitudinalRecord) -> bool:
    """Check whether verifying either noise distribution may take long."""
    solution = record.optimum.design.solution
    return is_heavy(solution, replace(solution, law=record.design.permanent.law))


LONGITUDINAL_DESIGNS = CheckedFiles(
    "longitudinal design",
    "optrr.longitudinal.design:LONGITUDINAL_DESIGNS.checked",
    decoded_longitudinal,
    _checks_of,
    _is_heavy,
)


def load_longitudinal(path: Given, *, limited: bool = True) -> LongitudinalDesign:
    """Read a file and recompute every number in it; see :func:`optrr.load`.

    Raises InvalidInput where it is missing, malformed, of an unknown version, edited, or states a number that does not hold.
    """
    return LONGITUDINAL_DESIGNS.loaded(path, limited=limited).design


def verify_longitudinal(path: Given, *, limited: bool = True) -> Verification:
    """Recompute every number of a file and the certificate of its optimum.

    See :func:`optrr.verify`.
    """
    return LONGITUDINAL_DESIGNS.verified(path, limited=limited)


def longitudinal(  # noqa: PLR0913 (what is asked for, and three options of the solver)
    domain: Domain | Mapping[str, int | Iterable[Any]],
    epsilons: float | ArrayLike | Mapping[str, float],
    lifetime_epsilon: float,
    *,
    report_epsilon: float | None = None,
    method: str = "auto",
    preserve: Preserve = "marginals",
    options: SolveOptions = SolveOptions(),
) -> LongitudinalDesign:
    """Find a memoized response and its reports for respondents of several waves.

    A respondent draws a memoized response once. Each report is that response, or with a probability that is the same for
    everybody a uniformly random record. One report is then the certified optimum for its accuracies (theory §9).

    Parameters
    ----------
    domain : Domain or mapping
        Attributes; a mapping gives categories or sizes by name.
    epsilons : float, array_like of shape (m,), or mapping
        ε_i in nats: one report is as accurate on attribute i as randomized response at ε_i. With ``report_epsilon``,
        proportions.
    lifetime_epsilon : float
        ε_∞ in nats: maximum privacy loss of everything that a respondent ever reports, while the record stays as it is.
    report_epsilon : float, optional
        ε_1 in nats: maximum privacy loss of one report. Accuracies are then the best in the proportions ``epsilons``.
    method, options
        As in :func:`optrr.design`, for the optimum.
    preserve : {"marginals", "pairs"}
        As in :class:`optrr.Constraints`.

    Returns
    -------
    LongitudinalDesign

    Raises
    ------
    InvalidInput, Infeasible
        If one report alone costs more than ``lifetime_epsilon``; and as :func:`optrr.design`.

    References
    ----------
    Erlingsson, Pihur and Korolova, RAPPOR, CCS 2014; Arcolezi, Couchot, Al Bouna and Xiao, 2022 (memoization).

    Examples
    --------
    >>> from optrr.longitudinal import longitudinal
    >>> waves = longitudinal({"smokes": 2, "age": 4}, 1.0, lifetime_epsilon=4.0)
    >>> waves.spent(1).epsilon < waves.spent(10).epsilon < waves.epsilon <= 4.0
    True
    """
    declared = Domain.of(domain)
    asked = epsilon_vector(declared, epsilons)
    for name, total in (("lifetime_epsilon", lifetime_epsilon), ("report_epsilon", report_epsilon)):
        if total is not None and not 0 < real(total) < math.inf:
            raise InvalidInput(f"``{name}`` {total!r}: not a privacy budget; give a positive number of nats")
    if lifetime_epsilon > _MOST_NATS * declared.m:
        raise InvalidInput(
            f"``lifetime_epsilon`` {lifetime_epsilon:g}: too large; give at most {_MOST_NATS:g} nats per attribute"
        )
    if report_epsilon is not None and report_epsilon >= lifetime_epsilon:
        raise InvalidInput(
            f"``report_epsilon`` {report_epsilon:g}: must be less than the lifetime's {lifetime_epsilon:g}; give less, or use "
            "a design without waves, whose report is sent once"
        )
    total = report_epsilon and report_epsilon * _BELOW_ONE
    constraints = Constraints(preserve=preserve)
    optimum = design(declared, asked, total=total, method=method, constraints=constraints, options=options)
    made = with_coin(optimum, float(lifetime_epsilon))
    if report_epsilon is not None and made.mechanism.epsilon > report_epsilon:
        raise _too_fine(report_epsilon)
    return made


def with_coin(optimum: Design, lifetime_epsilon: float) -> LongitudinalDesign:
    """Build the protocol that reports by an optimum from a memoized response.

    The memoized response has total ``lifetime_epsilon`` and is drawn with a coin.

    Raises InvalidInput where the optimum costs as much itself, or a coin of 64 bits replaces too much for its accuracies.
    """
    # the stated ε is a few last places above the exact total, and must not exceed the required one
    permanent = Mechanism(optimum.domain, sharpened(optimum.law, lifetime_epsilon * _BELOW))
    before, after = permanent.law.attribute_epsilons(), optimum.law.attribute_epsilons()
    # all attributes lose the same proportion, which is computed most precisely from the most accurate one
    lost = float(losses_between(before, after, optimum.domain.sizes)[np.argmax(after)]) * _LOWERED
    replaced = math.floor(Fraction(lost) * WORD)
    if not replaced:
        raise _too_fine(optimum.epsilon)
    coin = WholeOrUniform(optimum.domain, WORD - replaced)
    return LongitudinalDesign(optimum, TwoStage(permanent, coin), optimum.requested_epsilons)


def _too_fine(one_report: float) -> InvalidInput:
    return InvalidInput(
        f"one report of {epsilon_text(one_report)} nats would need a coin of more than 64 bits; require less accuracy"
    )
