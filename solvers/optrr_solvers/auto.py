"""The table of methods, and which of them suits a problem.

auto takes the first that applies: closed form (one or two attributes, or all alike), classes where counting alike
attributes makes the lattice small, reduced up to 20 attributes, and beyond them the certified ball solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from optrr_solvers import classes, closed_form, inductive, kronecker, lp, reduced
from optrr_solvers.laws.table import MAX_TABLE
from optrr_solvers.problem import InvalidProblem, MethodTooLarge, Problem
from optrr_solvers.solution import Solution

# Lattices above this many cells take minutes; the ball solver is faster there.
_CLASSES_CELLS = 1 << 19


@dataclass(frozen=True)
class SolveOptions:
    """What every caller may ask of any method; None leaves the method's own default.

    ``tolerance``: largest gap in nats; ``time_limit``: seconds; ``progress``: called with (fraction, upper, lower).
    """

    tolerance: float | None = None
    time_limit: float | None = None
    progress: Callable[[float, float, float], None] | None = None


def _with_tolerance(kind: type, options: SolveOptions) -> object:
    return kind() if options.tolerance is None else kind(tolerance=options.tolerance)


METHODS: dict[str, Callable[[Problem, SolveOptions], Solution]] = {
    "closed-form": lambda p, o: closed_form.solve(p, _with_tolerance(closed_form.ClosedFormOptions, o)),  # type: ignore[arg-type]
    "lp": lambda p, o: lp.solve(p, _with_tolerance(lp.LpOptions, o)),  # type: ignore[arg-type]
    "reduced": lambda p, o: reduced.solve(p, _with_tolerance(reduced.ReducedOptions, o)),  # type: ignore[arg-type]
    "classes": lambda p, o: classes.solve(p, _with_tolerance(classes.ClassesOptions, o)),  # type: ignore[arg-type]
    "inductive": lambda p, o: inductive.solve(p),
    "kronecker": lambda p, o: kronecker.solve(p),
}


def solve(problem: Problem, method: str = "auto", options: SolveOptions = SolveOptions()) -> Solution:
    """Solve by name. Raises InvalidProblem for an unknown method, and whatever the method raises."""
    if method == "auto":
        return _auto(problem, options)
    if method not in METHODS:
        raise InvalidProblem(f"unknown method {method!r}; choose among auto, {', '.join(METHODS)}")
    return METHODS[method](problem, options)


def applicable(problem: Problem) -> tuple[str, ...]:
    """Methods that can take this problem, for comparisons; the exact ones first."""
    out = ["closed-form"] if closed_form.applies(problem) else []
    if problem.m <= min(lp.MAX_LP, 12) and not problem.constrained:
        out.append("lp")
    if problem.m <= MAX_TABLE:
        out.append("reduced")
    if problem.caps is None and _cells(problem) <= _CLASSES_CELLS:
        out.append("classes")
    if not problem.constrained and problem.m >= 2:
        out.append("inductive")
    return (*out, "kronecker")


def _cells(problem: Problem) -> int:
    return math.prod(c.size + 1 for c in problem.classes[:64]) if len(problem.classes) <= 64 else 1 << 64


def _auto(problem: Problem, options: SolveOptions) -> Solution:
    if closed_form.applies(problem):
        return METHODS["closed-form"](problem, options)
    small = problem.m <= MAX_TABLE
    if problem.caps is None and _cells(problem) <= (
        min(_CLASSES_CELLS, 1 << (problem.m - 1)) if small else _CLASSES_CELLS
    ):
        try:
            return METHODS["classes"](problem, options)
        except InvalidProblem:
            # pairs were named that treat alike attributes differently
            if not small:
                raise
    if small:
        return METHODS["reduced"](problem, options)
    return _fallback(problem, options)


def _fallback(problem: Problem, options: SolveOptions) -> Solution:
    """POR's heuristic or Kronecker, whichever has the smaller total; uncertified, and the notes say so."""
    baseline = kronecker.solve(problem)
    if problem.constrained:
        raise MethodTooLarge(f"pairs and caps take up to {MAX_TABLE} different attributes, got {problem.m}; name fewer")
    heuristic = inductive.solve(problem)
    return heuristic if heuristic.upper < baseline.upper else baseline
