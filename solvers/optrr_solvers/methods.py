"""The table of methods, with their inputs and guarantees. A new solver is registered only here.

``auto``, the list of applicable methods, the command line's choices and the tests that run every solver on every case
all read this table.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from optrr_solvers import baselines, closed_form
from optrr_solvers.balls import solve as ball
from optrr_solvers.errors import InvalidProblem
from optrr_solvers.laws.base import MAX_TABLE
from optrr_solvers.options import SolveOptions
from optrr_solvers.problem import MAX_ATTRIBUTES, Problem
from optrr_solvers.programs import capped, lp, reduced
from optrr_solvers.solution import Solution

# With more cells than this a lattice takes minutes, and the ball solver is faster.
_CLASSES_CELLS = 1 << 19
# With a row for each pair, the program on all change sets takes half a minute at this size, and minutes with two
# attributes more.
_PAIRS_AUTOMATIC = 17
# POR's program takes up to a quarter of a minute here (small ε_i); up to lp.MAX_LP if it is requested.
_LP_IN_COMPARISONS = 12


class Guarantee(StrEnum):
    """Guarantee of a method."""

    EXACT = "exact"  # the optimum, up to rounding
    CERTIFIED = "certified"  # an upper and a lower bound, with the gap between them stated
    # the method does not try to reach the optimum; accuracies are reported, and some may be below the request
    BASELINE = "baseline"


@dataclass(frozen=True)
class Method:
    """One solver.

    Parameters
    ----------
    name
        what users call it.
    run
        the solver; it raises InvalidProblem or MethodTooLarge for unsupported problems.
    guarantee
        guarantee of its solutions.
    summary
        one line for lists of methods.
    pairs, caps
        whether it takes preserved pairs and caps on the conditional ε.
    fewest, most
        numbers of attributes it takes.
    options
        those fields of :class:`SolveOptions` that it heeds, of "tolerance" and "time_limit".
    fits
        whether it takes this problem in reasonable time, beyond the limits of the fields above; comparisons run it
        then.
    automatic
        whether ``auto`` should try it. Exact methods are tried in the table's order until one succeeds; of all others,
        the best law that keeps every requirement is returned.
    """

    name: str
    run: Callable[[Problem, SolveOptions], Solution]
    guarantee: Guarantee
    summary: str
    pairs: bool = False
    caps: bool = False
    fewest: int = 1
    most: int = MAX_ATTRIBUTES
    options: tuple[str, ...] = ()
    fits: Callable[[Problem], bool] = lambda problem: True
    automatic: Callable[[Problem], bool] = lambda problem: True

    def takes(self, problem: Problem) -> bool:
        """Check whether the method should solve this problem in reasonable time."""
        return (
            self.fewest <= problem.m <= self.most
            and (self.pairs or not problem.pairs)
            and (self.caps or problem.caps is None)
            and self.fits(problem)
        )

    def solve(self, problem: Problem, options: SolveOptions = SolveOptions()) -> Solution:
        """Run the method.

        Raises InvalidProblem if the method does not have a given option, and the solver's errors.
        """
        for field in ("tolerance", "time_limit"):
            if getattr(options, field) is not None and field not in self.options:
                what = field.replace("_", " ")
                raise InvalidProblem(f"method {self.name!r} has no {what}; drop it, or use method 'auto' or 'ball'")
        return self.run(problem, options)


def _cells(problem: Problem) -> int:
    groups = problem.classes
    return math.prod((groups.counts + 1).tolist()) if len(groups) <= 64 else 1 << 64


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "closed-form",
            closed_form.solve,
            Guarantee.EXACT,
            "one attribute, two (POR §IV-B1), or any number of alike ones",
            options=("tolerance",),
            fits=closed_form.applies,
        ),
        Method(
            "lp",
            lp.solve,
            Guarantee.EXACT,
            "POR's own linear program over all events (POR §IV-A)",
            most=_LP_IN_COMPARISONS,
            options=("tolerance",),
            automatic=lambda problem: False,
        ),
        Method(
            "classes",
            reduced.solve_classes,
            Guarantee.EXACT,
            "the reduced program on counts of alike attributes",
            pairs=True,
            options=("tolerance", "time_limit"),
            fits=lambda problem: _cells(problem) <= _CLASSES_CELLS,
            # counting alike attributes halves the lattice at least, or makes it small where there is no other
            automatic=lambda problem: problem.m > MAX_TABLE or _cells(problem) <= 1 << (problem.m - 1),
        ),
        Method(
            "reduced",
            reduced.solve,
            Guarantee.EXACT,
            "the reduced program on all change sets",
            pairs=True,
            caps=True,
            most=MAX_TABLE,
            options=("tolerance", "time_limit"),
            fits=lambda problem: problem.m <= capped.MAX_CAPPED or not capped.binding(problem).size,
            automatic=lambda problem: not problem.pairs or problem.m <= _PAIRS_AUTOMATIC,
        ),
        Method(
            "ball",
            lambda problem, options: ball.solve(problem, ball.BallOptions.of(options)),
            Guarantee.CERTIFIED,
            "weighted balls for any number of different attributes",
            pairs=True,
            fewest=2,
            options=("tolerance", "time_limit"),
        ),
        Method(
            "por",
            baselines.solve_por,
            Guarantee.BASELINE,
            "POR's published pipeline: closed form, linear program, then the heuristic, which may replace epsilons",
            fewest=2,
            automatic=lambda problem: False,
        ),
        Method(
            "inductive",
            lambda problem, options: baselines.solve_inductive(problem),
            Guarantee.BASELINE,
            "POR's inductive heuristic (POR §IV-B3), which may replace epsilons",
            fewest=2,
        ),
        Method(
            "kronecker",
            lambda problem, options: baselines.solve_kronecker(problem),
            Guarantee.BASELINE,
            "independent randomized response per attribute",
            pairs=True,
            caps=True,
            fits=lambda problem: not problem.pairs or problem.kappa <= 1,
        ),
    )
}


def applicable(problem: Problem) -> tuple[str, ...]:
    """List the methods that take this problem, exact ones first.

    Used in comparisons.
    """
    return tuple(name for name, method in METHODS.items() if method.takes(problem))


def register(method: Method) -> None:
    """Add a method to the table. Raises InvalidProblem where the name is taken."""
    if method.name in METHODS:
        raise InvalidProblem(f"method {method.name!r} exists already; give the new one another name")
    METHODS[method.name] = method
