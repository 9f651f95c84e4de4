"""Solve by name, or let the problem choose.

``auto`` takes the first exact method that suits: the closed form (one or two attributes, or all alike), counts of alike
attributes where these make the lattice small, and the reduced program up to 20 attributes, with pairs up to 17. Beyond
them, or where half of a time limit was not enough for an exact method, it tries the problem without its caps and pairs,
the certified ball solver and, unless these closed the gap, products of blocks, POR's heuristic and independent
randomized response. It returns the smallest total of all laws that meet every requirement, with the largest lower bound
of all certificates.

Products of blocks: heavy attributes apart from light ones, with the optimum of each block (MDR §4). Independent blocks
meet every accuracy, pair (the eigenvalue of a pair across blocks is the product of its attributes') and cap if each
block does, and their totals add up. Such a distribution is no better than the optimum, but never worse than independent
randomized response, and it is available if the optimum of all attributes together cannot be found. The cut is made on
sorted ε_i, where neighbours differ most; with caps, after every eight attributes.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from optrr_solvers.arrays import IntArray
from optrr_solvers.certificates.certificate import Certificate
from optrr_solvers.errors import Infeasible, InvalidProblem, OptrrError, SolveFailed
from optrr_solvers.laws.base import Law
from optrr_solvers.laws.block import BlockLaw
from optrr_solvers.laws.product import ProductLaw
from optrr_solvers.methods import METHODS, Guarantee, Method
from optrr_solvers.options import SolveOptions
from optrr_solvers.problem import Problem
from optrr_solvers.solution import Solution, Status, checked, require
from optrr_solvers.threads import one_thread

Solver = Callable[[Problem, SolveOptions], Solution]

# Where there are caps, only the exact method serves; blocks are then of this size, which takes half a second each.
_CAPPED_BLOCK = 8
# How long products of blocks may take: seconds where no time limit is given, otherwise a share of the limit.
_BLOCK_SECONDS, _BLOCK_SHARE = 15.0, 0.3
# The share of a limit after which an exact method is given up, so that the ball solver can still answer in time.
_EXACT_SHARE = 0.5
# With fewer seconds left than this, no further solver is started.
_LEAST_SECONDS = 0.05
# The gap, relative to the total, up to which the best of all is called optimal; as the ball solver does.
_OPTIMAL = 1e-3


def best_blocks(problem: Problem, solver: Solver, seconds: float) -> BlockLaw | None:
    """Find a good product of blocks with ``solver`` in about ``seconds``.

    Returns None if no cut is suitable.
    """
    order = np.argsort(-problem.epsilons, kind="stable")
    cuts = _cuts(problem, order)
    if not cuts:
        return None
    deadline, parts = time.perf_counter() + seconds, np.split(order, cuts)
    blocks: list[tuple[list[int], Law]] = []
    for k, members in enumerate(parts):
        law: Law = ProductLaw(problem.sizes[members], problem.epsilons[members])
        solution = _timed_block(problem, members, solver, (deadline - time.perf_counter()) / (len(parts) - k))
        if solution is not None and solution.upper < law.epsilon:
            law = solution.law
        blocks.append((members.tolist(), law))
    return BlockLaw(blocks)


def _cuts(problem: Problem, order: IntArray) -> list[int]:
    """Choose where new blocks begin in the sorted ε_i.

    At the largest decreases, or after as many as have caps together.
    """
    if problem.caps is not None:
        return list(range(_CAPPED_BLOCK, problem.m, _CAPPED_BLOCK))
    falls = -np.diff(np.log(problem.epsilons[order]))
    return [int(np.argmax(falls)) + 1] if falls.max(initial=0.0) > 0 else []


def restricted(problem: Problem, members: IntArray) -> Problem:
    """Return the problem with these attributes only, in this order.

    Pairs and caps among them are kept.
    """
    position = {int(i): k for k, i in enumerate(members)}
    return replace(
        problem,
        sizes=problem.sizes[members],
        epsilons=problem.epsilons[members],
        pairs=tuple((position[i], position[j]) for i, j in problem.pairs if i in position and j in position),
        caps=None if problem.caps is None else problem.caps[members],
        names=tuple(problem.names[i] for i in members) if problem.names else (),
    )


def _timed_block(problem: Problem, members: IntArray, solver: Solver, seconds: float) -> Solution | None:
    if members.size == 1 or not seconds > 0:
        return None
    try:
        return solver(restricted(problem, members), SolveOptions(time_limit=seconds))
    except OptrrError:
        return None


@one_thread
def solve(problem: Problem, method: str = "auto", options: SolveOptions = SolveOptions()) -> Solution:
    """Solve by name.

    Raises InvalidProblem for an unknown method and for an option that the named method does not have, and whatever the
    method raises.
    """
    if method in METHODS:
        return METHODS[method].solve(problem, options)
    if method != "auto":
        raise InvalidProblem(f"``method``: {method!r} is unknown; choose among auto, {', '.join(METHODS)}")
    started = time.perf_counter()
    failures: list[str] = []
    limit = None if options.time_limit is None else _EXACT_SHARE * options.time_limit
    exact = _exact(problem, replace(options, time_limit=limit), failures)
    if exact is not None:
        return exact
    deadline = options.deadline(started)
    tried = _Tried(problem, failures)
    _relaxed(tried, options, deadline)
    _certified(tried, options, deadline)
    if tried.best is None or tried.best.status is not Status.OPTIMAL:
        # POR's heuristic, if it keeps all ε_i, and independent randomized response
        for baseline in METHODS.values():
            if baseline.guarantee is Guarantee.BASELINE and baseline.takes(problem) and baseline.automatic(problem):
                tried.add(baseline.solve(problem))
        _blocks(tried, deadline)
    return tried.answer(options, started)


def _exact(problem: Problem, options: SolveOptions, failures: list[str]) -> Solution | None:
    """Solve with the first exact method; None if none applies or it fails."""
    for method in METHODS.values():
        if method.guarantee is Guarantee.EXACT and method.takes(problem) and method.automatic(problem):
            try:
                return method.solve(problem, _heeded(method, options))
            except Infeasible:
                raise
            except OptrrError as failed:
                # a program that double precision cannot solve, or pairs that treat alike attributes differently
                failures.append(f"{method.name}: {failed}" if isinstance(failed, InvalidProblem) else str(failed))
    return None


def _heeded(method: Method, options: SolveOptions) -> SolveOptions:
    """Drop the options that the method does not have."""
    return SolveOptions(
        tolerance=options.tolerance if "tolerance" in method.options else None,
        time_limit=options.time_limit if "time_limit" in method.options else None,
        progress=options.progress,
    )


@dataclass
class _Tried:
    """Best noise distribution and lower bound so far, with reasons of failures."""

    problem: Problem
    failures: list[str]
    best: Solution | None = None
    certificate: Certificate | None = None
    lower: float = 0.0

    def add(self, solution: Solution) -> None:
        """Keep the law where it meets every requirement and has a smaller total.

        Its lower bound is taken in any case, because it always holds.
        """
        if solution.certificate is not None and solution.lower > self.lower:
            self.lower, self.certificate = solution.lower, solution.certificate
        try:
            require(self.problem, solution.method, solution.law)
        except SolveFailed as failed:
            self.failures.append(str(failed))
            return
        if self.best is None or solution.upper < self.best.upper:
            self.best = solution

    def answer(self, options: SolveOptions, started: float) -> Solution:
        """Combine the best distribution with the best bound.

        Raises SolveFailed if nothing meets every requirement.
        """
        if self.best is None:
            why = self.failures[0] if self.failures else "auto: no method takes this problem"
            raise SolveFailed(why)
        best = self.best
        if best.certificate is not None and best.certificate is self.certificate:
            return self._with_failures(best, started)
        if self.certificate is None:
            note = "this is a baseline without a certified bracket; allow more time, or use less extreme epsilons"
            return self._with_failures(replace(best, notes=(note, *best.notes)), started)
        solution = checked(
            self.problem, best.method, best.law, self.certificate, started=started,
            tolerance=options.tolerance_or(_OPTIMAL * best.upper), bracketed=True, notes=best.notes,
        )  # fmt: skip
        return self._with_failures(solution, started)

    def _with_failures(self, solution: Solution, started: float) -> Solution:
        notes = tuple(
            f"solved by {solution.method!r}, because an exact program failed ({why})" for why in self.failures[:1]
        )
        return replace(solution, notes=(*notes, *solution.notes), seconds=time.perf_counter() - started)


def _relaxed(tried: _Tried, options: SolveOptions, deadline: float) -> None:
    """Solve without caps, then without pairs.

    Lower bounds remain valid, and solutions may satisfy them anyway.
    """
    problem = tried.problem
    without_caps = replace(problem, caps=None)
    for dropped, relaxed in (
        (problem.caps is not None, without_caps),
        (bool(problem.pairs), replace(without_caps, pairs=(), kappa=1.0)),
    ):
        left = deadline - time.perf_counter()
        if dropped and left >= _LEAST_SECONDS:
            limit = None if left == math.inf else _BLOCK_SHARE * left
            plain = _exact(relaxed, replace(options, time_limit=limit), failures=[])
            if plain is not None:
                tried.add(replace(plain, problem=problem))


def _certified_methods() -> list[Method]:
    return [method for method in METHODS.values() if method.guarantee is Guarantee.CERTIFIED]


def _certified(tried: _Tried, options: SolveOptions, deadline: float) -> None:
    """Run certified methods in turn, reserving time for products of blocks."""
    for method in _certified_methods():
        left = deadline - time.perf_counter()
        if not method.automatic(tried.problem) or left < _LEAST_SECONDS:
            continue
        limit = None if left == math.inf else (1 - _BLOCK_SHARE) * left
        # the lower bound of the problem without caps holds with them
        dropped = tried.problem.caps is not None and not method.caps
        relaxed = replace(tried.problem, caps=None) if dropped else tried.problem
        if not method.takes(relaxed):
            continue
        try:
            tried.add(method.solve(relaxed, _heeded(method, replace(options, time_limit=limit))))
        except OptrrError as failed:
            tried.failures.append(str(failed))


def _blocks(tried: _Tried, deadline: float) -> None:
    """Try products of blocks if they can be better."""
    left = deadline - time.perf_counter()
    seconds = _BLOCK_SECONDS if left == math.inf else 0.8 * left
    if seconds < _LEAST_SECONDS or (tried.problem.pairs and tried.problem.kappa > 1):
        return
    law = best_blocks(tried.problem, _block, seconds)
    if law is not None:
        notes = (
            "blocks of attributes are randomized independently: no distribution found for all of them together has a "
            "smaller total",
        )
        started = time.perf_counter()
        tried.add(checked(tried.problem, "blocks", law, None, started=started, tolerance=None, notes=notes))


def _block(problem: Problem, options: SolveOptions) -> Solution:
    """Solve one block by the first exact or certified method, without products."""
    exact = _exact(problem, options, failures=[])
    if exact is not None:
        return exact
    for method in _certified_methods():
        if method.takes(problem) and method.automatic(problem):
            return method.solve(problem, _heeded(method, options))
    raise SolveFailed(f"no method takes a block of {problem.m} attributes")
