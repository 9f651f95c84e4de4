"""The pipeline that POR published (§IV): which of its three methods it uses for how many attributes.

Two attributes: the closed form (§IV-B1). A few: the linear program over all events (§IV-A), by HiGHS. More: the inductive
heuristic (§IV-B2, §IV-B3), which may replace requested ε_i. It is here to compare with: method 'auto' keeps every ε_i and has
the smallest total that is known for them.
"""

from dataclasses import replace

from optrr_solvers import closed_form, inductive
from optrr_solvers.errors import InvalidProblem
from optrr_solvers.options import SolveOptions
from optrr_solvers.problem import Problem
from optrr_solvers.programs import lp
from optrr_solvers.solution import Solution

METHOD = "por"
# POR solves its program at ten attributes in every figure. At eleven it takes a tenth of a second where the ε_i are some nats,
# and two seconds where they are below 1; at twelve a quarter of a second, and fifteen seconds.
MOST_BY_PROGRAM = 11


def solve(problem: Problem, options: SolveOptions = SolveOptions()) -> Solution:
    """POR's law: optimal up to eleven attributes, status BASELINE with the heuristic beyond; O(m) there.

    The first note says which method it was and whether every ε_i is the requested one; the achieved ones are the law's.
    Raises InvalidProblem where pairs or caps are asked for, SolveFailed where the program's answer fails its check.
    """
    if problem.constrained:
        raise InvalidProblem(f"method {METHOD!r} knows no pairs or caps; use 'auto' or 'reduced'")
    if problem.m <= 2:
        return _labelled(closed_form.solve(problem, options), "the closed form; every requested epsilon is kept")
    if problem.m <= MOST_BY_PROGRAM:
        return _labelled(lp.solve(problem, options), "the linear program; every requested epsilon is kept")
    heuristic = inductive.solve(problem)
    kept = "" if heuristic.notes else "; every requested epsilon is kept"
    return _labelled(heuristic, f"the inductive heuristic, beyond {MOST_BY_PROGRAM} attributes{kept}")


def _labelled(solution: Solution, stage: str) -> Solution:
    return replace(solution, method=METHOD, notes=(f"POR's pipeline took {stage}", *solution.notes))
