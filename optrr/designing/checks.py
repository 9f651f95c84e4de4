"""The checks of a design: every number recomputed from its law and its certificate alone (design §3.4).

The upper side comes from the law, the lower side from the certificate; nothing that a solver reported is used. For small
domains both are exact rational arithmetic; elsewhere doubles with outward error bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from optrr.results import TableResult
from optrr_solvers import SolveFailed, Status, lower_bound
from optrr_solvers.certificates.certificate import EXACT_CELLS, cell_count
from optrr_solvers.errors import InvalidCertificate
from optrr_solvers.solution import require, shortfalls

if TYPE_CHECKING:
    from optrr.designing.design import Design

# Numbers may differ by this much, because exp and log of another machine differ in the last places; an edit by hand changes
# more.
SAME = 1e-9


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


@dataclass(frozen=True, repr=False)
class Verification(TableResult):
    """All checks of one design, and whether its file is as it was written (None where it comes from no file)."""

    checks: tuple[Check, ...]
    digest: bool | None = None

    @property
    def holds(self) -> bool:
        """Whether every check holds and the file was not changed."""
        return self.digest is not False and all(c.holds for c in self.checks)

    def headline(self) -> str:
        """Verified or not, and what fails."""
        failed = [c.name for c in self.checks if not c.holds] + (["digest"] if self.digest is False else [])
        return f"verified, {len(self.checks)} checks hold" if self.holds else "NOT verified: " + ", ".join(failed)

    def to_arrow(self) -> pa.Table:
        """One row per check: name, holds, stated, recomputed, how."""
        return pa.Table.from_pylist([c.summary() for c in self.checks])

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object."""
        return {"holds": self.holds, "digest": self.digest, "checks": [c.summary() for c in self.checks]}


def checks(design: Design, stated: Mapping[str, Sequence[float]] | None = None) -> list[Check]:
    """All checks of a design against the numbers ``stated`` (by default its own)."""
    claims = stated or {
        "epsilon": [design.epsilon],
        "lower_bound": [design.lower_bound],
        "attribute_epsilons": design.attribute_epsilons.tolist(),
        "conditional_epsilons": design.conditional_epsilons.tolist(),
    }
    return [
        _total(design, claims["epsilon"][0]),
        _lower(design, claims["lower_bound"][0]),
        _attributes(design, np.asarray(claims["attribute_epsilons"])),
        _conditional(design, np.asarray(claims["conditional_epsilons"])),
        _requirements(design),
        _optimality(design, claims["lower_bound"][0]),
    ]


def failed_checks(design: Design, stated: Mapping[str, Sequence[float]] | None = None) -> list[Check]:
    """The checks that do not hold; empty for a sound design."""
    return [c for c in checks(design, stated) if not c.holds]


def _total(design: Design, stated: float) -> Check:
    exact = design.law.epsilon_ceiling()
    value = design.law.epsilon if exact is None else exact
    # a label below the exact total is refused; above it, one that is further away than rounding is wrong, too
    floor = value - SAME * (1 + value) if exact is None else value
    holds = floor <= stated <= value + SAME * (1 + value)
    return Check("total epsilon", repr(stated), repr(value), "rounded up" if exact is None else "exact", bool(holds))


def _lower(design: Design, stated: float) -> Check:
    solution, epsilon = design.solution, design.epsilon
    certificate = solution.certificate
    exact = certificate is not None and not certificate.effects and cell_count(certificate) <= EXACT_CELLS
    how = "exact rationals" if exact else "KL bound" if certificate is None else "outward error bounds"
    try:
        value = lower_bound(solution.problem, certificate)
    except (InvalidCertificate, IndexError, MemoryError) as error:
        return Check("lower bound", repr(stated), str(error), how, holds=False)
    if value > epsilon:
        # a law that misses its accuracies by rounding may undercut the bound by as much
        value = min(value, epsilon + SAME * (1 + epsilon))
        return Check("lower bound", repr(stated), repr(value), how, bool(abs(stated - epsilon) <= SAME * (1 + epsilon)))
    same = stated == value if exact else abs(stated - value) <= SAME * (1 + value)
    return Check("lower bound", repr(stated), repr(value), how, bool(same))


def _attributes(design: Design, stated: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Check:
    bounds = design.law.attribute_epsilon_bounds()
    value = design.law.attribute_epsilons()
    low, high = (value, value) if bounds is None else bounds
    slack = SAME * (1 + np.abs(value))
    holds = stated.shape == value.shape and np.all((stated >= low - slack) & (stated <= high + slack))
    how = "doubles" if bounds is None else "exact rationals"
    return Check("attribute epsilons", _range(stated), _range(value), how, bool(holds))


def _conditional(design: Design, stated: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Check:
    value = design.law.conditional_epsilons()
    holds = stated.shape == value.shape and np.all(np.abs(stated - value) <= SAME * (1 + value))
    return Check("conditional epsilons", _range(stated), _range(value), "from the law, rounded up", bool(holds))


def _requirements(design: Design) -> Check:
    if design.solution.status is Status.BASELINE:
        short = float(shortfalls(design.solution.problem, design.law).max())
        value = "met" if short == 0 else f"{short:.3g} nats short"
        return Check("requested accuracies", "baseline", value, "not claimed", holds=True)
    try:
        require(design.solution.problem, design.method, design.law)
    except SolveFailed as error:
        return Check("requested accuracies", "met", str(error), "from the law", holds=False)
    return Check("requested accuracies", "met", "met", "from the law", holds=True)


def _optimality(design: Design, lower: float) -> Check:
    """What the status claims, from the law's total and the stated lower bound, which has a check of its own."""
    solution, how = design.solution, "from both bounds"
    if solution.status is not Status.OPTIMAL:
        return Check("optimality", str(solution.status), str(solution.status), "not claimed", holds=True)
    gap = design.epsilon - lower
    if solution.tolerance is None:
        return Check("optimality", "no tolerance", f"gap of {gap:.3g}", how, holds=False)
    # a bound recomputed on another machine may differ in the last places
    holds = gap <= solution.tolerance + SAME * (1 + design.epsilon)
    return Check("optimality", f"gap of at most {solution.tolerance:g}", f"{max(gap, 0.0):.3g}", how, bool(holds))


def _range(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    return f"{values.min():.9g}..{values.max():.9g}"
