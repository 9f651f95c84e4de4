"""Products of blocks: heavy attributes apart from light ones, each block with the optimum of its own (MDR §4).

Independent blocks meet every accuracy, pair (a pair across blocks is as visible as its attributes) and cap if each block does,
and their totals add up. No such law beats the optimum, but it is never above Kronecker, and it is safe where the optimum of all
attributes together cannot be found. Cuts are made on sorted ε_i, where neighbours differ most; which of them to use is settled
by dynamic programming over the blocks between any two cuts.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from optrr_solvers.arrays import IntArray
from optrr_solvers.errors import OptrrError
from optrr_solvers.laws.block import BlockLaw
from optrr_solvers.laws.product import ProductLaw
from optrr_solvers.options import SolveOptions
from optrr_solvers.problem import Problem
from optrr_solvers.solution import Solution

Solver = Callable[[Problem, SolveOptions], Solution]

# At most this many cuts are made, which give (cuts + 1)(cuts + 2)/2 blocks to try.
_CUTS = 2
# Where there are caps, only the exact method serves; blocks are then of this size, which takes half a second each.
_CAPPED_BLOCK = 8


def best_blocks(problem: Problem, solver: Solver, seconds: float) -> BlockLaw | None:
    """The product of blocks with the smallest total that ``solver`` finds in about ``seconds``; None where no cut suits."""
    order = np.argsort(-problem.epsilons, kind="stable")
    ends = [0, *_cuts(problem, order), problem.m]
    if len(ends) == 2:
        return None
    deadline, left = time.perf_counter() + seconds, [len(ends) * (len(ends) - 1) // 2 - 1]

    @cache
    def solved(start: int, stop: int) -> Solution | None:
        left[0] -= 1
        share = (deadline - time.perf_counter()) / (left[0] + 1)
        return _block(problem, order[start:stop], solver, share)

    def total(start: int, stop: int) -> float:
        solution = solved(start, stop)
        alone = float(problem.epsilons[order[start:stop]].sum())
        return alone if solution is None else min(solution.upper, alone)

    # best[k] is the smallest total of the attributes before cut k, with the cut at which its last block begins
    best: list[tuple[float, int]] = [(0.0, 0)]
    for k in range(1, len(ends)):
        # the caller has already tried all attributes in one block
        choices = [(best[j][0] + total(ends[j], ends[k]), j) for j in range(k) if (j, k) != (0, len(ends) - 1)]
        best.append(min(choices))
    blocks: list[tuple[list[int], ProductLaw | object]] = []
    k = len(ends) - 1
    while k > 0:
        j = best[k][1]
        members = order[ends[j] : ends[k]]
        solution = solved(ends[j], ends[k])
        alone = ProductLaw(problem.sizes[members], problem.epsilons[members])
        law = alone if solution is None or solution.upper >= alone.epsilon else solution.law
        blocks.append((members.tolist(), law))
        k = j
    return BlockLaw(blocks)  # type: ignore[arg-type]


def _cuts(problem: Problem, order: IntArray) -> list[int]:
    """Positions in the sorted ε_i where a new block may begin."""
    if problem.caps is not None:
        return list(range(_CAPPED_BLOCK, problem.m, _CAPPED_BLOCK))
    falls = -np.diff(np.log(problem.epsilons[order]))
    places = np.argsort(-falls, kind="stable")[:_CUTS]
    return sorted(int(k) + 1 for k in places if falls[k] > 0)


def restricted(problem: Problem, members: IntArray) -> Problem:
    """The problem of these attributes alone, in this order, with the pairs and caps among them."""
    position = {int(i): k for k, i in enumerate(members)}
    return replace(
        problem,
        sizes=problem.sizes[members],
        epsilons=problem.epsilons[members],
        pairs=tuple((position[i], position[j]) for i, j in problem.pairs if i in position and j in position),
        caps=None if problem.caps is None else problem.caps[members],
        names=tuple(problem.names[i] for i in members) if problem.names else (),
    )


def _block(problem: Problem, members: IntArray, solver: Solver, seconds: float) -> Solution | None:
    if members.size == 1 or not seconds > 0:
        return None
    try:
        return solver(restricted(problem, members), SolveOptions(time_limit=seconds))
    except OptrrError:
        return None
