"""Checks of a longitudinal design: its optimum's, and every number of one report and of all, from what both stages draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optrr.designs.apart import checked_apart, is_long
from optrr.designs.checks import LAST_PLACES, SAME, Check, Verification, checks, ends_text
from optrr.designs.design import Design
from optrr.designs.work import refuse_large
from optrr.errors import InvalidInput, in_one_line
from optrr.releases.small_files import Given, read_named
from optrr.ways.longitudinal.design_file import LongitudinalRecord, decoded_longitudinal
from optrr.ways.longitudinal.whole import WholeOrUniform

if TYPE_CHECKING:
    from optrr.ways.longitudinal.two_stage import TwoStage

# What is asked of another process (optrr.designs.apart).
_CHECKS = "optrr.ways.longitudinal.verify:verification_of"

__all__ = ["verification_of", "verified_bytes", "verified_longitudinal", "verify_longitudinal"]


def verify_longitudinal(path: Given, *, limited: bool = True) -> Verification:
    """Recompute every number of a file, its optimum's certificate included; see :func:`optrr.verify`.

    Raises
    ------
    InvalidInput
        where it cannot be read, or its checks take too long; a number that does not hold is in the result.
    """
    if limited:
        refuse_large(path)
    return verified_bytes(read_named(path, "longitudinal design"), path, limited=limited)


def verification_of(raw: bytes, source: Given) -> Verification:
    """The checks of a file's content, without a limit; ``source`` is where it stands, for messages."""
    return verified_bytes(raw, source, limited=False)


def verified_bytes(raw: bytes, source: Given, *, limited: bool, loading: bool = False) -> Verification:
    """All checks of a file's content; errors as :func:`verified_longitudinal`, and where it is no longitudinal design."""
    if limited and is_long(raw):
        return checked_apart(_CHECKS, raw, source, loading)
    return verified_longitudinal(decoded_longitudinal(raw, source), source, limited=limited)


def verified_longitudinal(record: LongitudinalRecord, source: Given, *, limited: bool) -> Verification:
    """All checks of what a file holds; where they may take long and are ``limited``, in a process of their own.

    Raises
    ------
    InvalidInput
        where a law cannot be computed with, or the checks take too long.
    """
    try:
        if not (limited and record.is_heavy):
            optimum = Design(record.optimum.domain, record.optimum.solution)
            return Verification((*checks(optimum, record.optimum.stated), *stage_checks(record)), record.intact)
    except (ValueError, ArithmeticError) as error:
        raise InvalidInput(f"longitudinal design {source}: {in_one_line(error)}") from error
    return checked_apart(_CHECKS, record.raw, source)


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
    asked, given = record.optimum.solution.law.labels.attribute, stage.attribute_epsilons
    holds = bool(np.all(given >= asked - SAME * (1 + asked)))
    return Check(
        "accuracies of the optimum", ends_text(asked), ends_text(given), "one report" if coin else "for ever", holds
    )


def _how(mechanism: TwoStage) -> str:
    return "exact, rounded up" if mechanism.spending.on(1).exact else "upper bound"


def _total(name: str, stated: float, value: float, how: str) -> Check:
    return Check(name, repr(stated), repr(value), how, bool(value <= stated <= value + SAME * (1 + value)))
