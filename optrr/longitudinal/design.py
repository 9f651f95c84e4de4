"""A longitudinal design: what one person draws once and keeps, and what is drawn from it for every report (design §9).

Three numbers belong together and are always shown together: ε of one report, ε of several, and ε of all reports for ever. The
last one is spent once per person, however many rounds there are, as long as the person's record stays as it is.

A file is versioned JSON that holds the optimum's design file and both stages. One object: ``format``, ``software``,
``optimum`` (a design file's object, with its certificate and its digest), ``permanent`` (the permanent law's record; left out
where it is the optimum's), ``threshold`` of the coin (decimal text) or ``each`` (ε_i of the second stage), ``requested`` and
``attributes`` (ε_i of one report), ``one_report`` and ``epsilon`` (total ε of one report and for ever), and ``digest``.
Whoever reads it repeats the optimum's checks, and recomputes every number of one report and of all from what both stages
draw.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, get_args

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
from optrr.core.display import SOFTWARE, TableResult, amount, epsilon_text
from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput, in_one_line
from optrr.core.mechanisms import Mechanism
from optrr.core.provenance import LONGITUDINAL, MEMOIZED, Given, Sealed, encoded, sha256_of
from optrr.core.records import whole_file
from optrr.longitudinal.stages import (
    WORD,
    EachAgain,
    ReportsEpsilon,
    TwoStage,
    WholeOrUniform,
    eigenvalues_of,
    epsilons_of,
    losses_between,
    losses_of,
    sharpened,
)
from optrr_solvers import SolveOptions, solve
from optrr_solvers.arrays import FloatArray, real
from optrr_solvers.calibrate import calibrate
from optrr_solvers.laws import ProductLaw
from optrr_solvers.laws.base import law_of, record_of
from optrr_solvers.problem import EPSILON_RANGE

FORMAT = "optrr-longitudinal/1"
_THRESHOLD = re.compile(r"[1-9][0-9]{0,19}")
# Numbers of reports whose ε is listed where nobody asks for others.
LISTED = (1, 2, 5, 10, 30, 100)
Second = Literal["whole", "kronecker"]
SECONDS: tuple[str, ...] = get_args(Second)
# Halvings of the share that a report keeps: its total is then met to 2^-40 of it.
_HALVINGS = 40
# What a second stage loses is lowered by what it is off in doubles, so that no accuracy is missed by rounding.
_LOWERED = 1 - 2.0**-48
# The label of a law exceeds the total that it was made for by a few last places at most.
_BELOW = 1 - 2.0**-49
# Nats of each attribute that a file's law may hold; far fewer leave nothing hidden.
_MOST_NATS = 500.0
# So far below its total one report is made for, as the coin is rounded towards accuracy; totals are met within 1e-6 of them.
_BELOW_ONE = 1 - 2.0**-36
# Below this, scales of eigenvalues differ too little from 1 for doubles: an attribute is asked for at 19 nats or more.
_TOLD_FROM_ONE = 1 + 1e-8
# ε of a second stage in nats where nothing is to be lost in it; what this loses is nothing beside the largest accuracy.
_MOST_EPSILON = 2 * EPSILON_RANGE[1]


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
    lambda raw, source: refuse_specification(raw, source, "longitudinal-design {} --lifetime-epsilon EPSILON -o {}"),
)


@dataclass(frozen=True, eq=False, repr=False)
class LongitudinalDesign(TableResult):
    """Two stages, and the certified optimum behind them. A table of its attributes.

    ``optimum`` is a design: with the second stage "whole" that of one report, with "kronecker" that of the permanent answer.
    ``mechanism`` is one report, what estimates and tests take: the permanent law, then the instantaneous one.
    ``requested_epsilons`` are the ε_i that were asked of one report, nats, shape (m,).
    """

    optimum: Design
    mechanism: TwoStage
    requested_epsilons: FloatArray

    in_summary = ("epsilon", "lower_bound", "second", "warnings")
    drawn = ("epsilon",)
    mechanism_name = MEMOIZED
    file_format = LONGITUDINAL

    @property
    def domain(self) -> Domain:
        """The attributes of every report."""
        return self.optimum.domain

    @property
    def permanent(self) -> Mechanism:
        """What a person draws once, and keeps."""
        return self.mechanism.permanent

    @property
    def instantaneous(self) -> EachAgain | WholeOrUniform:
        """What is drawn from the permanent answer for every report."""
        return self.mechanism.instantaneous

    @property
    def second(self) -> str:
        """The kind of the second stage: whole or kronecker."""
        return self.instantaneous.second

    def spent(self, reports: int | None = None) -> ReportsEpsilon:
        """ε of so many reports of one person; None: of all for ever."""
        return self.mechanism.spent(reports)

    @property
    def epsilon(self) -> float:
        """What a person spends for ever, in nats, rounded up."""
        return self.permanent.epsilon

    @property
    def lower_bound(self) -> float:
        """No mechanism with what the optimum was asked for is below this, in nats: of one report, with "kronecker" for ever."""
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
    record = _LongitudinalContent(
        format=FORMAT,
        software=SOFTWARE,
        optimum=msgspec.Raw(encoded_design(design.optimum)),
        requested=design.requested_epsilons.tolist(),
        attributes=mechanism.attribute_epsilons.tolist(),
        one_report=mechanism.epsilon,
        epsilon=mechanism.permanent.epsilon,
        # of two laws of change sets the permanent one is the optimum
        permanent=record_of(mechanism.permanent.law) if mechanism.permanent.law is not design.optimum.law else None,
        **second.record,
    )
    record.digest = _digest(record)
    with whole_file(Path(path)) as partial:
        partial.write_bytes(encoded(record))


@dataclass(frozen=True, eq=False)
class LongitudinalRecord:
    """What a file holds, unchecked: a design, what is stated of it and of its ``optimum``, and whether it is intact."""

    design: LongitudinalDesign
    optimum: DesignRecord
    stated: _LongitudinalContent
    intact: bool


def decoded_longitudinal(raw: bytes, source: Given) -> LongitudinalRecord:
    """What the content of a file holds, unchecked; ``source`` is where it stands, for messages.

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
        raise InvalidInput(f"its accuracies are not one for each of {domain.m} attributes")
    if (record.threshold is None) == (record.each is None):
        raise InvalidInput("it has both a coin and a second law, or neither; one of them makes the reports")
    law = optimum.design.law if record.permanent is None else law_of(record.permanent, domain.sizes)
    permanent = Mechanism(domain, law)
    if record.threshold is None:
        return TwoStage(
            permanent, EachAgain(domain, law_of({"kind": "product", "epsilons": record.each}, domain.sizes))
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
    design, mechanism, stated = record.design, record.design.mechanism, record.stated
    asked, given, listed = design.requested_epsilons, mechanism.attribute_epsilons, np.asarray(stated.attributes)
    same = bool(np.all(np.abs(listed - given) <= LAST_PLACES * (1 + given)))
    met = bool(np.all(given >= asked - SAME * (1 + given)))
    how = "exact, rounded up" if mechanism.spent(1).exact else "upper bound"
    return [
        _total("epsilon of one report", stated.one_report, mechanism.epsilon, how),
        _total("epsilon for ever", stated.epsilon, mechanism.permanent.epsilon, "rounded up"),
        Check("accuracies of one report", ends_text(listed), ends_text(given), "both stages", same),
        Check("accuracies asked for", ends_text(asked), ends_text(given), "of one report", met),
        _certified(design),
    ]


def _certified(design: LongitudinalDesign) -> Check:
    """The stage that the optimum's lower bound speaks of is as accurate as the optimum."""
    coin = design.second == "whole"
    stage = design.mechanism if coin else design.permanent
    asked, given = design.optimum.law.labels.attribute, stage.attribute_epsilons
    holds = bool(np.all(given >= asked - SAME * (1 + asked)))
    of = "one report" if coin else "for ever"
    return Check("accuracies of the optimum", ends_text(asked), ends_text(given), of, holds)


def _total(name: str, stated: float, value: float, how: str) -> Check:
    return Check(name, repr(stated), repr(value), how, bool(value <= stated <= value + SAME * (1 + value)))


def _checks_of(record: LongitudinalRecord) -> Verification:
    return Verification((*checks(record.optimum.design, record.optimum.stated), *stage_checks(record)), record.intact)


def _is_heavy(record: LongitudinalRecord) -> bool:
    """Whether the checks of either law may take long."""
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
    """Recompute every number of a file, its optimum's certificate included; see :func:`optrr.verify`."""
    return LONGITUDINAL_DESIGNS.verified(path, limited=limited)


@dataclass(frozen=True)
class Stages:
    """How both stages are made.

    ``second`` is "whole": a coin sends the permanent answer whole, or a uniformly random record; one report is then the
    certified optimum for its accuracies. Or "kronecker": every attribute is randomized again on its own, after a permanent
    answer that is the certified optimum for its own accuracies; one report costs more, and an answer is never sent untouched by
    design. ``method``, ``preserve`` and ``kappa`` are those of the stage that is solved for (:func:`optrr.design`), ``options``
    the solver's.
    """

    second: Second = "whole"
    method: str = "auto"
    preserve: Preserve = "marginals"
    kappa: float = 1.0
    options: SolveOptions = field(default_factory=SolveOptions)

    def __post_init__(self) -> None:
        if self.second not in SECONDS:
            raise InvalidInput(f"second = {self.second!r}; give one of {', '.join(SECONDS)}")

    def optimum(self, domain: Domain, epsilons: FloatArray, total: float | None = None) -> Design:
        """The certified optimum at these accuracies, or in their proportions at a total."""
        return design(
            domain,
            epsilons,
            total=total,
            method=self.method,
            constraints=Constraints(preserve=self.preserve, kappa=self.kappa),
            options=self.options,
        )


def longitudinal(
    domain: Domain | Mapping[str, int | Iterable[Any]],
    epsilons: float | ArrayLike | Mapping[str, float],
    forever: float | Mapping[str, float],
    *,
    one_report: float | None = None,
    stages: Stages = Stages(),
) -> LongitudinalDesign:
    """A permanent law and an instantaneous one for people who report again and again (design §9).

    Parameters
    ----------
    domain
        a Domain, or a mapping of names to categories or sizes.
    epsilons
        ε_i in nats: one report is as accurate on attribute i as randomized response at ε_i; with ``one_report``, proportions.
    forever
        ε_∞ in nats: what everything that a person ever reports may cost in all, while the record stays as it is. A mapping by
        name: how accurate the permanent answer is on each attribute, which only the second stage "kronecker" can be asked for.
    one_report
        ε_1 in nats: what one report may cost in all. Accuracies are then the best in the proportions ``epsilons``.
    stages
        the kind of the second stage, and how the optimum is solved for.

    Raises
    ------
    InvalidInput, Infeasible
        where one report alone costs more than ``forever``; and what :func:`optrr.design` raises.
    """
    declared = Domain.of(domain)
    asked = epsilon_vector(declared, epsilons)
    if isinstance(forever, Mapping):
        if stages.second != "kronecker" or one_report is not None:
            raise InvalidInput(
                "accuracies for ever need the second stage 'kronecker' and no total for one report; give forever as one number"
            )
        return _kronecker(stages.optimum(declared, epsilon_vector(declared, forever)), asked)
    for name, total in (("forever", forever), ("one_report", one_report)):
        if total is not None and not 0 < real(total) < math.inf:
            raise InvalidInput(f"{name} = {total!r}; give a positive number of nats")
    if forever > _MOST_NATS * declared.m:
        raise InvalidInput(f"forever = {forever:g}; give at most {_MOST_NATS:g} nats for each attribute")
    if one_report is not None and one_report >= forever:
        raise InvalidInput(
            f"one report may cost {one_report:g} nats and all of them {forever:g}; give one report less, or use a design "
            "without rounds, whose answer is sent once"
        )
    if stages.second == "whole":
        design = with_coin(stages.optimum(declared, asked, one_report and one_report * _BELOW_ONE), float(forever))
        if one_report is not None and design.mechanism.epsilon > one_report:
            raise _too_fine(one_report)
        return design
    if one_report is not None:
        return _kronecker_at_totals(stages.optimum(declared, asked, float(forever)), one_report)
    return _kronecker(_at_accuracies(declared, asked, float(forever), stages), asked)


def with_coin(optimum: Design, forever: float) -> LongitudinalDesign:
    """Reports by a given optimum, from a permanent answer of total ``forever`` and a coin.

    Raises InvalidInput where the optimum costs as much itself, or a coin of 64 bits replaces too much for its accuracies.
    """
    # what is drawn is labelled some last places above the law's own total, and the label is to keep to what was asked for
    permanent = Mechanism(optimum.domain, sharpened(optimum.law, forever * _BELOW))
    before, after = permanent.law.attribute_epsilons(), optimum.law.attribute_epsilons()
    # all attributes lose the same share, which doubles tell best by the most accurate one
    lost = float(losses_between(before, after, optimum.domain.sizes)[np.argmax(after)]) * _LOWERED
    replaced = math.floor(Fraction(lost) * WORD)
    if not replaced:
        raise _too_fine(optimum.epsilon)
    coin = WholeOrUniform(optimum.domain, WORD - replaced)
    return LongitudinalDesign(optimum, TwoStage(permanent, coin), optimum.requested_epsilons)


def _too_fine(one_report: float) -> InvalidInput:
    return InvalidInput(
        f"one report of {epsilon_text(one_report)} nats would need a coin of more than 64 bits; ask for less accuracy, or take "
        "the second stage 'kronecker'"
    )


def _at_accuracies(domain: Domain, asked: FloatArray, forever: float, stages: Stages) -> Design:
    """The optimum whose λ_i are those asked for over the smallest share c that ε_∞ allows."""
    alone = stages.optimum(domain, asked)
    if alone.epsilon >= forever:
        raise InvalidInput(
            f"one report with these accuracies costs {epsilon_text(alone.epsilon)} nats, so all of them cannot cost "
            f"{forever:g}; raise forever, or ask for less accuracy"
        )
    sizes, wishes = domain.sizes, Constraints(stages.preserve, stages.kappa)
    eigenvalues = eigenvalues_of(asked, sizes)
    # at half of the largest ε, eigenvalues are still told from 1
    most = eigenvalues_of(np.full(domain.m, EPSILON_RANGE[1] / 2), sizes)

    largest = float((most / eigenvalues).min())
    if largest < _TOLD_FROM_ONE:
        return alone

    def solved(scale: float) -> Any:
        return solve(wishes.problem(domain, epsilons_of(scale * eigenvalues, sizes)), stages.method, stages.options)

    return Design(domain, calibrate(solved, forever, (1.0, largest)).solution)


def _kronecker(permanent: Design, asked: FloatArray) -> LongitudinalDesign:
    """The second stage after which every attribute is at least as accurate as asked for."""
    known = permanent.attribute_epsilons
    missing = asked - known - SAME * (1 + asked)
    if missing.max() > 0:
        i = int(np.argmax(missing))
        raise InvalidInput(
            f"attribute {permanent.domain.names[i]!r} is asked for at epsilon {asked[i]:g} in one report and less for ever; "
            "ask for more for ever"
        )
    return _each(permanent, losses_between(known, asked, permanent.domain.sizes) * _LOWERED, asked)


def _each(permanent: Design, losses: FloatArray, asked: FloatArray | None) -> LongitudinalDesign:
    """Both stages where the second loses these shares of every λ_i, shape (m,)."""
    sizes = permanent.domain.sizes
    lost = np.maximum(losses, losses_of(np.full(sizes.size, _MOST_EPSILON), sizes))
    law = ProductLaw(sizes, np.log1p(sizes * (1 - lost) / lost))
    both = TwoStage(permanent.mechanism, EachAgain(permanent.domain, law))
    return LongitudinalDesign(permanent, both, both.attribute_epsilons if asked is None else asked)


def _kronecker_at_totals(permanent: Design, one_report: float) -> LongitudinalDesign:
    """The largest share of every permanent λ_i with which one report stays within its total."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        share = (low + high) / 2
        fits = _each(permanent, np.full(permanent.domain.m, 1 - share), None).mechanism.epsilon <= one_report
        low, high = (share, high) if fits else (low, share)
    if not low:
        raise InvalidInput(f"no report costs as little as {one_report:g} nats; give more")
    return _each(permanent, np.full(permanent.domain.m, 1 - low), None)
