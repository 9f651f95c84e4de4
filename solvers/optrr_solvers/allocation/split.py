"""Baselines for an allocation: the total ε split over blocks, each answered by randomized response on its product.

Blocks of one attribute are independent randomized response; one block is randomized response on the whole record;
anything between is a clustering (MDR §4). With R_b = Π_{i∈b} r_i and λ_b = (e^{ε_b}−1)/(e^{ε_b}−1+R_b) every effect has
λ_W = Π λ_b over the blocks that W touches, so

    F(ε) = Σ_W C_W Π_{b∩W≠∅} λ_b(ε_b)^{−2},     Σ_b ε_b = E,

and ln F is convex: ln λ_b is concave, its second derivative being −e^ε/(e^ε−1)² − (R−1)e^ε/(e^ε+R−1)².
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import Infeasible, SolveFailed
from optrr_solvers.laws.excess import log_expm1
from optrr_solvers.problem import EPSILON_RANGE
from optrr_solvers.threads import one_thread

# The optimal split is accepted when ln F is within this of its linearised lower bound.
SPLIT_TOLERANCE = 1e-5


@dataclass(frozen=True, eq=False)
class Split:
    """Split of the total: ε_b of all blocks, λ_W of every effect, error and gap.

    ``gap`` bounds the distance of ln F from its minimum.
    """

    epsilons: FloatArray
    eigenvalues: FloatArray
    error: float
    gap: float


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of attributes, in kinds of alike ones.

    ``touched``, shape (effects, kinds), counts the blocks of each kind that an effect touches.
    """

    log_sizes: FloatArray
    counts: IntArray
    touched: FloatArray
    kind_of: IntArray

    def log_eigenvalues(self, epsilons: FloatArray) -> FloatArray:
        """Compute ln λ_b of each kind, shape (kinds,)."""
        gain = log_expm1(epsilons)
        return np.asarray(gain - np.logaddexp(gain, self.log_sizes))

    def slopes(self, epsilons: FloatArray) -> FloatArray:
        """Compute derivatives of log eigenvalues, d ln λ_b / dε_b."""
        gain = log_expm1(epsilons)
        return np.asarray(np.exp(epsilons - gain) - np.exp(epsilons - np.logaddexp(gain, self.log_sizes)))


def single_blocks(workload: TableWorkload) -> Blocks:
    """Return one block per attribute, as in independent randomized response.

    Alike attributes are of one kind.
    """
    touched = np.stack(
        [np.bincount(workload.class_of[list(w)], minlength=len(workload.classes)) for w in workload.effects]
    ).astype(np.float64)
    sizes = np.asarray([int(workload.sizes[c[0]]) for c in workload.classes], dtype=np.float64)
    counts = np.asarray([c.size for c in workload.classes])
    return Blocks(np.log(sizes), counts, touched, workload.class_of)


def cluster_blocks(workload: TableWorkload, clusters: Sequence[Sequence[int]]) -> Blocks:
    """Return the blocks of the given attributes, which must partition 0..m−1.

    The workload's classes must be of one attribute.
    """
    where = np.empty(workload.m, dtype=np.int64)
    for b, members in enumerate(clusters):
        where[list(members)] = b
    touched = np.zeros((len(workload.effects), len(clusters)))
    for k, w in enumerate(workload.effects):
        touched[k, np.unique(where[list(w)])] = 1
    logs = np.asarray([float(np.sum(np.log(workload.sizes[list(members)]))) for members in clusters])
    return Blocks(logs, np.ones(len(clusters), dtype=np.int64), touched, np.arange(len(clusters)))


def even_split(workload: TableWorkload, blocks: Blocks, total: float) -> Split:
    """Split the total evenly over the blocks."""
    each = np.full(blocks.counts.size, total / float(blocks.counts.sum()))
    return _split(workload, blocks, each, np.inf)


@one_thread
def best_split(
    workload: TableWorkload,
    blocks: Blocks,
    total: float,
    floors: FloatArray | None = None,
    ceilings: FloatArray | None = None,
) -> Split:
    """Find the split with the smallest workload error, within limits.

    Limits are per kind of block, shape (kinds,).

    Where all ceilings together are below the total, every block is at its ceiling. Certified: ``gap`` bounds ln F minus
    its minimum by the linearisation of ln F at the answer, minimised over all splits.

    Raises
    ------
    Infeasible
        where the floors add up to more than the total.
    SolveFailed
        where that gap is above 1e-5.
    """
    low = np.maximum(EPSILON_RANGE[0], 0.0 if floors is None else floors) * np.ones(blocks.counts.size)
    high = np.minimum(total, np.inf if ceilings is None else ceilings) * np.ones(blocks.counts.size)
    if float(low @ blocks.counts) > total * (1 + 1e-12):
        raise Infeasible(
            f"the minimum epsilons add up to {float(low @ blocks.counts):.6g} nats, more than the total {total:g}; "
            "raise the total or lower a minimum epsilon"
        )
    if float(high @ blocks.counts) <= total:
        return _split(workload, blocks, high, 0.0)
    epsilons = _descend(workload, blocks, total, low, high)
    _, gradient = _log_error(workload, blocks, epsilons)
    gap = float(gradient @ epsilons - gradient @ _cheapest(gradient, blocks.counts, total, low, high))
    if gap > SPLIT_TOLERANCE:
        raise SolveFailed(
            f"the best split of total epsilon {total:g} is certified only within {gap:.2g} of ln F; use another method"
        )
    return _split(workload, blocks, epsilons, max(gap, 0.0))


def _descend(workload: TableWorkload, blocks: Blocks, total: float, low: FloatArray, high: FloatArray) -> FloatArray:
    share = (total - float(low @ blocks.counts)) / float((high - low) @ blocks.counts)
    answer = minimize(
        lambda x: _log_error(workload, blocks, x),
        low + share * (high - low),
        jac=True,
        method="SLSQP",
        bounds=list(zip(low, high, strict=True)),
        constraints={
            "type": "eq",
            "fun": lambda x: float(x @ blocks.counts) - total,
            "jac": lambda x: blocks.counts.astype(np.float64),
        },
        options={"maxiter": 500, "ftol": 1e-14},
    )
    inside = np.clip(answer.x, low, high)
    # after rounding the total is off by a few units in the last place; put the difference where there is room
    room = high - inside if float(inside @ blocks.counts) < total else inside - low
    missing = total - float(inside @ blocks.counts)
    return np.asarray(inside + room * missing / max(float(room @ blocks.counts), 1e-300))


def _log_error(workload: TableWorkload, blocks: Blocks, epsilons: FloatArray) -> tuple[float, FloatArray]:
    """Compute ln F and its gradient."""
    logs = np.log(workload.coefficients) - 2 * blocks.touched @ blocks.log_eigenvalues(epsilons)
    value = float(logsumexp(logs))
    return value, -2 * (np.exp(logs - value) @ blocks.touched) * blocks.slopes(epsilons)


def _cheapest(gradient: FloatArray, counts: IntArray, total: float, low: FloatArray, high: FloatArray) -> FloatArray:
    """Find the split with the smallest gradient·ε.

    Blocks are filled up in turn, first those where a nat lowers it most.
    """
    out, left = low.copy(), total - float(low @ counts)
    for b in np.argsort(gradient / counts, kind="stable"):
        step = min(high[b] - low[b], left / counts[b])
        out[b] += step
        left -= step * counts[b]
    return out


def _split(workload: TableWorkload, blocks: Blocks, epsilons: FloatArray, gap: float) -> Split:
    eigenvalues = np.exp(blocks.touched @ blocks.log_eigenvalues(epsilons))
    return Split(epsilons[blocks.kind_of], eigenvalues, workload.error(eigenvalues), gap)
