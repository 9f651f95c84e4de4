"""The table of methods, and which of them suits a problem.

auto takes the first that applies: closed form (one or two attributes, or all alike), classes where counting alike
attributes makes the lattice small, reduced up to 20 attributes, and beyond them the certified ball solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from optrr_solvers import closed_form, inductive, kronecker
from optrr_solvers.balls import solve as ball
from optrr_solvers.errors import InvalidProblem, MethodTooLarge, SolveFailed
from optrr_solvers.laws.table import MAX_TABLE
from optrr_solvers.problem import Problem
from optrr_solvers.programs import classes, lp, reduced
from optrr_solvers.solution import Solution, shortfalls

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

    def __post_init__(self) -> None:
        for what, value, unit in (("tolerance", self.tolerance, "nats"), ("time limit", self.time_limit, "seconds")):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InvalidProblem(f"{what} = {value}; give a finite number of {unit} above 0")


def _with_tolerance(kind: type, options: SolveOptions) -> object:
    return kind() if options.tolerance is None else kind(tolerance=options.tolerance)


def _ball_options(options: SolveOptions) -> ball.BallOptions:
    # whoever names a tolerance in nats means it, so the relative one that large totals are granted does not apply
    usual = ball.BallOptions()
    return ball.BallOptions(
        tolerance=usual.tolerance if options.tolerance is None else options.tolerance,
        relative_tolerance=usual.relative_tolerance if options.tolerance is None else 0.0,
        time_limit=options.time_limit,
        progress=options.progress,
    )


METHODS: dict[str, Callable[[Problem, SolveOptions], Solution]] = {
    "closed-form": lambda p, o: closed_form.solve(p, _with_tolerance(closed_form.ClosedFormOptions, o)),  # type: ignore[arg-type]
    "lp": lambda p, o: lp.solve(p, _with_tolerance(lp.LpOptions, o)),  # type: ignore[arg-type]
    "reduced": lambda p, o: reduced.solve(p, _with_tolerance(reduced.ReducedOptions, o)),  # type: ignore[arg-type]
    "classes": lambda p, o: classes.solve(p, _with_tolerance(classes.ClassesOptions, o)),  # type: ignore[arg-type]
    "ball": lambda p, o: ball.solve(p, _ball_options(o)),
    "inductive": lambda p, o: inductive.solve(p),
    "kronecker": lambda p, o: kronecker.solve(p),
}


# Which of tolerance and time limit a method has; "auto" hands on what the method it chooses has.
_HAS = {
    **dict.fromkeys(("closed-form", "lp", "reduced", "classes"), ("tolerance",)),
    "ball": ("tolerance", "time limit"),
    "inductive": (),
    "kronecker": (),
}


def _refuse_what_is_ignored(method: str, options: SolveOptions) -> None:
    """Raise InvalidProblem where a tolerance or a time limit is given to a method that has none."""
    for what, value in (("tolerance", options.tolerance), ("time limit", options.time_limit)):
        if value is not None and what not in _HAS[method]:
            raise InvalidProblem(f"method {method!r} has no {what}; drop it, or use method 'auto' or 'ball'")


def solve(problem: Problem, method: str = "auto", options: SolveOptions = SolveOptions()) -> Solution:
    """Solve by name.

    Raises InvalidProblem for an unknown method and for an option that the named method does not have, and whatever the method
    raises.
    """
    if method == "auto":
        return _auto(problem, options)
    if method not in METHODS:
        raise InvalidProblem(f"unknown method {method!r}; choose among auto, {', '.join(METHODS)}")
    _refuse_what_is_ignored(method, options)
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
    if problem.caps is None and problem.m >= 2:
        out.append("ball")
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
            return _exact("classes", problem, options)
        except InvalidProblem:
            # pairs were named that treat alike attributes differently
            if not small:
                raise
    if small:
        return _exact("reduced", problem, options)
    try:
        return METHODS["ball"](problem, options)
    except SolveFailed:
        if options.time_limit is None or problem.constrained:
            raise
        return _baseline(problem)


def _exact(method: str, problem: Problem, options: SolveOptions) -> Solution:
    """A linear program, or the ball's bracket where double precision cannot solve the program (ε_i of 30 nats and more)."""
    try:
        return METHODS[method](problem, options)
    except SolveFailed as failed:
        if problem.caps is not None:
            raise SolveFailed(f"{failed}; or drop the conditional caps") from failed
        try:
            bracket = METHODS["ball"](problem, options)
        except (SolveFailed, MethodTooLarge):
            raise SolveFailed(
                f"neither method {method!r} nor 'ball' solves this in double precision; use milder epsilons, or method "
                "'kronecker'"
            ) from failed
        return replace(bracket, notes=(f"solved by 'ball', since the exact program failed ({failed})", *bracket.notes))


def _baseline(problem: Problem) -> Solution:
    """POR's heuristic where it keeps every ε_i and beats Kronecker, else Kronecker: all that is left without any time."""
    product, heuristic = kronecker.solve(problem), inductive.solve(problem)
    kept = not shortfalls(problem, heuristic.law).any()
    better = heuristic if kept and heuristic.upper < product.upper else product
    note = "the time limit struck before any bracket was found: this is a baseline; allow more time"
    return replace(better, notes=(note, *better.notes))
