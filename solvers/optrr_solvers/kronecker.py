"""The Kronecker baseline: every attribute randomized on its own (POR equation 1). Total ε = Σ ε_i.

Every accuracy is met exactly and conditional ε_i = ε_i: the price is the total, which the optimum undercuts.
"""

import time

from optrr_solvers.errors import InvalidProblem
from optrr_solvers.laws.product import ProductLaw
from optrr_solvers.problem import Problem
from optrr_solvers.solution import Solution, checked


def solve(problem: Problem) -> Solution:
    """ProductLaw with every ε_i as asked, and the KL lower bound; status BASELINE, O(m), any m.

    Meets every cap, and every pair requirement with κ ≤ 1. Raises InvalidProblem for pairs with κ > 1.
    """
    started = time.perf_counter()
    if problem.pairs and problem.kappa > 1:
        raise InvalidProblem(
            f"kappa = {problem.kappa:g}: method 'kronecker' keeps pairs exactly as visible as kappa = 1; use 'reduced'"
        )
    law = ProductLaw(problem.sizes, problem.epsilons)
    return checked(problem, "kronecker", law, None, started=started, tolerance=None)
