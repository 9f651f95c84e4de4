"""Baselines: every attribute on its own, POR's inductive heuristic, and the pipeline that POR published.

``kronecker`` (POR equation 1) randomizes each attribute independently: all accuracies are met exactly, conditional ε_i
= ε_i, and the total is Σ ε_i, more than the optimum's.

``inductive`` (POR §IV-B2, §IV-B3) has one density for each change set of two or more attributes, so a law is m + 2
numbers. POR carries densities y_0 (nothing changes), y_j (only j changes), relative to "two or more change" = 1, from
k−1 to k attributes by y_j = r_k x_j − r_k + 1 and two linear equations. For the masses above the uniform answer,

    e_0 = (y_0 − 1)/p,   e_j = (r_j − 1)(y_j − 1)/p,   p = Π r_j,

the same step reads: e_j stays (j < k), and e_0 splits into e_k and the new e_0. So E = e_0 + Σ e_j is settled by the
first two attributes (the closed form for two), and attribute k changes with probability (e_k + d_k)/(1 + E), hence

    e_k = f_k E − (d_k − f_k).

The step is POR's as long as 1 ≤ y_k and y_j ≤ y_0 for each j; otherwise POR's fallback is e_k = 0, and attribute k is
changed with probability d_k/(1 + E) regardless of the request. Nothing grows, so nothing overflows: POR's y_j, as large
as p, appear in logarithms only. O(m) instead of POR's O(m²).

``por`` (POR §IV) takes the closed form for two attributes (§IV-B1), the linear program over all events for a few
(§IV-A), by HiGHS, and the inductive heuristic beyond. It is here to compare with: method 'auto' keeps every ε_i and has
the smallest total that is known for them.

Letters: x, y densities before and after a step, e masses, d uniform flips, f flips. All ε in nats.
"""

import time
from dataclasses import replace

import numpy as np

from optrr_solvers import closed_form
from optrr_solvers.arrays import FloatArray
from optrr_solvers.closed_form import two_attributes
from optrr_solvers.errors import InvalidProblem
from optrr_solvers.laws.base import Law
from optrr_solvers.laws.few_changes import FewChangesLaw
from optrr_solvers.laws.product import ProductLaw
from optrr_solvers.options import SolveOptions
from optrr_solvers.problem import Problem
from optrr_solvers.programs import lp
from optrr_solvers.solution import Solution, checked


def solve_kronecker(problem: Problem) -> Solution:
    """Build independent RR at the requested ε_i with the KL lower bound.

    A ProductLaw; status BASELINE, O(m), any m.

    Meets every cap, and every pair requirement with κ ≤ 1. Raises InvalidProblem for pairs with κ > 1.
    """
    started = time.perf_counter()
    if problem.pairs and problem.kappa > 1:
        raise InvalidProblem(f"kappa = {problem.kappa:g}: method 'kronecker' supports only kappa = 1; use 'reduced'")
    law = ProductLaw(problem.sizes, problem.epsilons)
    return checked(problem, "kronecker", law, None, started=started, tolerance=None)


# An achieved ε that differs by more than this from the requested one, relative to 1 + ε, counts as replaced. Rounding
# makes a smaller difference.
CHANGED = 1e-9


def solve_inductive(problem: Problem) -> Solution:
    """Build POR's near-optimal heuristic with the KL lower bound.

    Status BASELINE, O(m), any m.

    The attributes are taken in the order given, as POR does. Sorting is not offered: the order decides which ε_i are
    replaced, so no order is better for each total and every accuracy. The achieved ε_i are the law's; ``notes`` has the
    number that differ from the request. Raises InvalidProblem where pairs or caps are asked for.
    """
    started = time.perf_counter()
    if problem.constrained:
        raise InvalidProblem("method 'inductive' supports no pairs or caps; use 'reduced', 'classes' or 'kronecker'")
    law: Law = ProductLaw(problem.sizes, problem.epsilons) if problem.m == 1 else few_changes(problem)
    notes = changed_epsilons(problem, law)
    return checked(problem, "inductive", law, None, started=started, tolerance=None, notes=notes)


def few_changes(problem: Problem) -> FewChangesLaw:
    """Build the distribution of POR's Algorithm 3 for m ≥ 2 attributes."""
    none, single = masses(problem)
    log_outputs = np.log(problem.sizes).sum()
    with np.errstate(divide="ignore"):
        log_single = np.logaddexp(0.0, np.log(single) - np.log(problem.sizes - 1.0) + log_outputs)
    return FewChangesLaw(problem.sizes, float(np.logaddexp(0.0, np.log(none) + log_outputs)), log_single)


def masses(problem: Problem) -> tuple[float, FloatArray]:
    """Compute e_0 and e_j ≥ 0, shape (m,), relative to a uniform part of 1."""
    none, first, second = _first_two(problem)
    total = none + first + second
    wanted = problem.flips * total - problem.gaps
    wanted[:2] = first, second
    # the largest y_j − 1 so far, times 1/p, which y_0 − 1 must not fall below
    tallest = max(first / (problem.sizes[0] - 1), second / (problem.sizes[1] - 1))
    out = np.zeros(problem.m)
    out[:2] = wanted[:2]
    heights = (wanted / (problem.sizes - 1)).tolist()
    for k, e_k in enumerate(wanted.tolist()[2:], start=2):
        if e_k >= 0 and none - e_k >= max(tallest, heights[k]):
            out[k] = e_k
            none -= e_k
            tallest = max(tallest, heights[k])
    return none, out


def _first_two(problem: Problem) -> tuple[float, float, float]:
    """Compute e_0, e_1, e_2 of the optimum for the first two attributes."""
    a, b = problem.sizes[:2].astype(float)
    table = np.expm1(two_attributes(Problem(problem.sizes[:2], problem.epsilons[:2]))) / (a * b)
    return float(table[0, 0]), float(table[1, 0] * (a - 1)), float(table[0, 1] * (b - 1))


def changed_epsilons(problem: Problem, law: Law) -> tuple[str, ...]:
    """State how many ε_i differ from the request, and by how much.

    Empty if none does.
    """
    difference = law.attribute_epsilons() - problem.epsilons
    changed = np.abs(difference) > CHANGED * (1 + problem.epsilons)
    if not changed.any():
        return ()
    difference = difference[changed]
    return (
        f"{changed.sum()} of {problem.m} epsilons were replaced: {(difference > 0).sum()} are larger than requested "
        f"(by up to {max(difference.max(), 0.0):.3g}) and {(difference < 0).sum()} smaller "
        f"(by up to {max(-difference.min(), 0.0):.3g})",
    )


# POR solves its program at ten attributes in every figure. At eleven it takes a tenth of a second where the ε_i are
# some nats, and two seconds where they are below 1; at twelve a quarter of a second, and fifteen seconds.
MOST_BY_PROGRAM = 11


def solve_por(problem: Problem, options: SolveOptions = SolveOptions()) -> Solution:
    """Build POR's solution: optimal up to eleven attributes.

    Beyond, status BASELINE with the heuristic in O(m).

    The first note states the method and whether all ε_i are the requested ones; the achieved ones are the law's.
    Raises InvalidProblem where pairs or caps are asked for, SolveFailed where the program's answer fails its check.
    """
    if problem.constrained:
        raise InvalidProblem("method 'por' supports no pairs or caps; use 'auto' or 'reduced'")
    if problem.m <= 2:
        return _labelled(closed_form.solve(problem, options), "the closed form; every requested epsilon is kept")
    if problem.m <= MOST_BY_PROGRAM:
        return _labelled(lp.solve(problem, options), "the linear program; every requested epsilon is kept")
    heuristic = solve_inductive(problem)
    kept = "" if heuristic.notes else "; every requested epsilon is kept"
    return _labelled(heuristic, f"the inductive heuristic, beyond {MOST_BY_PROGRAM} attributes{kept}")


def _labelled(solution: Solution, stage: str) -> Solution:
    return replace(solution, method="por", notes=(f"POR's pipeline took {stage}", *solution.notes))
