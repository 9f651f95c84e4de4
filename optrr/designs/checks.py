"""The checks of a design: every number recomputed from its law and its certificate alone (design §3.4).

The upper side comes from the law, the lower side from the certificate; nothing that a solver reported is used. For small
domains both are exact rational arithmetic; elsewhere doubles with outward error bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from optrr.designs.design import FELT, Design
from optrr.domain.public import NONE, PublicColumns
from optrr.mechanisms.mechanism import drawn_epsilon
from optrr.show.result import TableResult
from optrr_solvers import Solution, SolveFailed, Status, lower_bound
from optrr_solvers.arrays import FloatArray
from optrr_solvers.certificates.certificate import EXACT_CELLS, cell_count
from optrr_solvers.solution import require, shortfalls

# Numbers may err by this much to the side that promises less: a total or conditional ε that is too high, an accuracy or a lower
# bound that is too low.
SAME = 1e-9
# To the other side they may not err; where they come from exp and log they may differ in the last places, which another
# machine rounds otherwise. 2^-46 of 1 + the number is sixty times what one exp and one log do to it.
LAST_PLACES = 2.0**-46
# "optimal" means: at most this far above the lower bound, in nats and relative to a total above one nat. The solvers aim at no
# wider gap unless asked to, and what a file says of its own tolerance does not widen it.
OPTIMAL_GAP = 1e-3
# Laws whose conditional ε are differences of the numbers stored, so that no machine rounds them otherwise.
_STORED = ("product", "table", "count")


@dataclass(frozen=True)
class Check:
    """One claim: its name, what was stated, what was recomputed, how, and whether it holds."""

    name: str
    stated: str
    recomputed: str
    how: str
    holds: bool

    def line(self) -> str:
        """The check in one line."""
        verb = "holds" if self.holds else "FAILS"
        return f"{self.name} {verb}: stated {self.stated}, recomputed {self.recomputed} ({self.how})"

    def summary(self) -> dict[str, Any]:
        """As a JSON object."""
        return {k: getattr(self, k) for k in ("name", "holds", "stated", "recomputed", "how")}


def total_check(stated: float, drawn: float, how: str) -> Check:
    """Whether a total ε that is stated, in nats, is the one that is drawn: not below it, nor above by more than rounding."""
    holds = drawn - LAST_PLACES * (1 + drawn) <= stated <= drawn + SAME * (1 + drawn)
    return Check("total epsilon", f"{stated:.9g}", f"{drawn:.9g}", how, holds)


@dataclass(frozen=True, repr=False)
class Verification(TableResult):
    """All checks of one design, and whether its file is as it was written (None where it comes from no file).

    Of a design file also ``design``, the digest that reports and randomized records name it by, and the columns
    that it does not protect. ``unchecked`` is what a file states that cannot be known from it alone, one line each.
    """

    checks: tuple[Check, ...]
    digest: bool | None = None
    design: str | None = None
    public: PublicColumns = NONE
    unchecked: tuple[str, ...] = ()

    in_summary = ("holds", "digest", "checks")
    drawn = ("holds",)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that do not hold; empty for a sound design."""
        return tuple(c for c in self.checks if not c.holds)

    @property
    def holds(self) -> bool:
        """Whether every check holds and the file was not changed."""
        return self.digest is not False and not self.failed

    def headline(self) -> str:
        """Verified or not, and what fails."""
        failed = [c.name for c in self.failed] + (["digest"] if self.digest is False else [])
        return f"verified, {len(self.checks)} checks hold" if self.holds else "NOT verified: " + ", ".join(failed)

    def to_arrow(self) -> pa.Table:
        """One row per check: name, holds, stated, recomputed, how."""
        return pa.Table.from_pylist([c.summary() for c in self.checks])

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object."""
        return super().summary() | ({"unchecked": list(self.unchecked)} if self.unchecked else {})


def verification(design: Design) -> Verification:
    """Every number recomputed from the law and the certificate alone."""
    return Verification(tuple(checks(design)))


def checks(design: Design, stated: Mapping[str, Sequence[float]] | None = None) -> list[Check]:
    """All checks of a design against the numbers ``stated`` (by default its own)."""
    claims = stated or {
        "epsilon": [design.epsilon],
        "lower_bound": [design.lower_bound],
        "attribute_epsilons": design.attribute_epsilons.tolist(),
        "conditional_epsilons": design.conditional_epsilons.tolist(),
    }
    with np.errstate(divide="ignore"):
        # probabilities too small for a double make numbers infinite, and those are refused
        return _all(design, claims, design.solution.status if stated else provable_status(design.solution))


def _all(design: Design, claims: Mapping[str, Sequence[float]], status: Status) -> list[Check]:
    return [
        _total(design, claims["epsilon"][0]),
        _lower(design, claims["lower_bound"][0]),
        _attributes(design, np.asarray(claims["attribute_epsilons"])),
        _conditional(design, np.asarray(claims["conditional_epsilons"])),
        _requirements(design),
        _optimality(design, claims["lower_bound"][0], status),
    ]


def provable_status(solution: Solution) -> Status:
    """The status that a file may state: "bracketed" for a gap that was asked for and is wider than "optimal" means."""
    asked = solution.tolerance is not None and solution.gap <= solution.tolerance
    wide = not solution.gap <= OPTIMAL_GAP * max(1.0, solution.upper)
    return Status.BRACKETED if solution.status is Status.OPTIMAL and asked and wide else solution.status


def _total(design: Design, stated: float) -> Check:
    exact = design.law.epsilon_ceiling()
    value = drawn_epsilon(design.law, design.law.epsilon if exact is None else exact)
    # above the recomputed total, a label that is further away than rounding is wrong, too
    holds = value <= stated <= value + SAME * (1 + value)
    return Check("total epsilon", repr(stated), repr(value), "rounded up" if exact is None else "exact", bool(holds))


def _lower(design: Design, stated: float) -> Check:
    solution, epsilon = design.solution, design.epsilon
    certificate = solution.certificate
    exact = certificate is not None and not certificate.effects and cell_count(certificate) <= EXACT_CELLS
    how = "exact rationals" if exact else "KL bound" if certificate is None else "outward error bounds"
    try:
        value = lower_bound(solution.problem, certificate)
    except (ValueError, ArithmeticError, IndexError, MemoryError) as error:
        return Check("lower bound", repr(stated), str(error) or type(error).__name__, how, holds=False)
    # a law that misses its accuracies by rounding may undercut the bound by as much; its file then states its total
    value, exact = (epsilon, False) if value > epsilon else (value, exact)
    holds = stated == value if exact else _within(stated, value, below=SAME, above=LAST_PLACES)
    return Check("lower bound", repr(stated), repr(value), how, bool(holds))


def _attributes(design: Design, stated: FloatArray) -> Check:
    bounds = design.law.attribute_epsilon_bounds()
    value = design.attribute_epsilons
    how = "doubles" if bounds is None else "exact rationals"
    # earlier versions stated the law's own accuracies where these differ from what is drawn by rounding only
    law = design.law.attribute_epsilons()
    # no comparison holds of what is infinite
    with np.errstate(invalid="ignore"):
        most = np.where(np.abs(law - value) <= SAME, np.maximum(law, value), value)
    holds = stated.shape == value.shape and np.all(
        _within(stated, value, below=SAME, above=SAME) & _within(stated, most, below=SAME, above=_rounding(design))
    )
    if holds and bounds is not None:
        slack = SAME * (1 + np.abs(value))
        holds = np.all((stated >= bounds[0] - slack) & (stated <= bounds[1] + slack))
    return Check("attribute epsilons", ends_text(stated), ends_text(value), how, bool(holds))


def _conditional(design: Design, stated: FloatArray) -> Check:
    value = design.conditional_epsilons
    below = 0.0 if design.law.kind in _STORED else LAST_PLACES
    holds = stated.shape == value.shape and np.all(_within(stated, value, below=below, above=SAME))
    return Check("conditional epsilons", ends_text(stated), ends_text(value), "from the law, rounded up", bool(holds))


def _rounding(design: Design) -> float:
    """By how much accuracies may differ between machines: sums over very many attributes add up more than the last places."""
    return SAME if design.law.automaton is None else LAST_PLACES


def _within(stated: Any, value: Any, *, below: float, above: float) -> Any:
    """Whether a number is at most so far below and above another, relative to 1 + its size; False for what is not finite."""
    scale = 1 + np.abs(value)
    with np.errstate(invalid="ignore"):
        return np.isfinite(value) & (stated >= value - below * scale) & (stated <= value + above * scale)


def _requirements(design: Design) -> Check:
    if design.solution.status is Status.BASELINE:
        short = float(shortfalls(design.solution.problem, design.law).max())
        value = "met" if short == 0 else f"{short:.3g} nats short"
        return Check("requested accuracies", "baseline", value, "not claimed", holds=True)
    try:
        require(design.solution.problem, design.method, design.law)
    except SolveFailed as error:
        return Check("requested accuracies", "met", str(error), "from the law", holds=False)
    short = float(np.max(design.requested_epsilons - design.attribute_epsilons))
    most = float(np.max(LAST_PLACES * (1 + design.requested_epsilons)))
    # of a design without an automaton, whose accuracies as drawn are stated beside, only what is felt
    said = short > (FELT if design.law.automaton is None else most)
    value = f"met; {short:.2g} nats short as drawn" if said else "met"
    return Check("requested accuracies", "met", value, "from the law", holds=True)


def _optimality(design: Design, lower: float, status: Status) -> Check:
    """What the status claims, from the law's total and the stated lower bound, which has a check of its own."""
    solution, how = design.solution, "from both bounds"
    if status is not Status.OPTIMAL:
        return Check("optimality", str(status), str(status), "not claimed", holds=True)
    gap = design.epsilon - lower
    if solution.tolerance is None:
        return Check("optimality", "no tolerance", f"gap of {gap:.3g}", how, holds=False)
    # the file's own tolerance may be narrower than what "optimal" means, never wider
    most = min(solution.tolerance, OPTIMAL_GAP * max(1.0, design.epsilon))
    # a bound recomputed on another machine may differ in the last places
    holds = gap <= most + SAME * (1 + design.epsilon)
    return Check("optimality", f"gap of at most {most:g}", f"{max(gap, 0.0):.3g}", how, bool(holds))


def ends_text(values: FloatArray) -> str:
    """The least and the largest of some numbers, for people."""
    return f"{values.min():.9g}..{values.max():.9g}"
