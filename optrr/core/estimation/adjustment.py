"""RR-Adjustment (MDR §5, Algorithm 2): reweight the randomized records until their margins are the estimated ones.

Every distinct record r gets a weight w_r, at first its proportion of the records. For each group of attributes in turn,
w_r is multiplied by π̂(value of the group in r) / Σ of the weights with that value; this is iterative proportional
fitting. The paper runs it on all n rows, O(n m) a round; rows that are equal always have equal weights, so distinct
records are enough.

The limit is the distribution on the observed records with these margins that is nearest to the randomized data in relative
entropy. Where margins force a record's weight to 0, fitting only creeps towards it (like 1/round in MDR's Example 1): such
records are found by a linear program and removed, after which convergence is geometric. Where no weights have these margins,
fitting cycles, and the result says that it did not converge.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.core.domain.domain import Domain
from optrr.core.estimation.simplex import Convergence, clip
from optrr.core.mechanisms.kernel import Kernel
from optrr.core.mechanisms.mechanism import Randomizer
from optrr_solvers.arrays import FloatArray, IntArray

# Positions of attributes, and the kernel of their table.
Group = tuple[tuple[int, ...], Kernel]

# Largest difference of a margin's cell from its target. Margins are estimates with errors far above this.
TOLERANCE = 1e-9
MAX_ROUNDS = 10_000
# Rounds of plain fitting before the records are searched for weights that are forced to 0.
_FIRST_ROUNDS = 200
# The search is a linear program with two unknowns per distinct record.
_MAX_SEARCHED = 50_000
# Largest possible proportion of a record, scaled to 1 where free, below which it is forced to 0: solvers are precise to
# 1e-7.
_FORCED = 1e-6


@dataclass(frozen=True, eq=False)
class AdjustedRecords:
    """Distinct records with adjusted weights that estimate the joint distribution.

    ``codes`` (N, m) and ``weights`` (N,) that sum to 1.

    ``convergence.value`` is the largest distance of a margin from its target; ``forced`` counts records whose weight the
    margins force to 0.
    """

    codes: IntArray
    weights: FloatArray
    convergence: Convergence
    forced: int


def margin_groups(mechanism: Randomizer, domain: Domain) -> tuple[Group, ...]:
    """List the groups of attributes to which records are adjusted.

    Positions in ``domain`` and their kernels.

    MDR §5 adjusts to the estimates of the jointly randomized sets: clusters, else single attributes.
    """
    names = mechanism.domain.names
    blocks = [sorted(members) for members in mechanism.blocks] or [[i] for i in range(len(names))]
    groups = [[names[i] for i in block if names[i] in domain.names] for block in blocks]
    return tuple((domain.indices(group), mechanism.kernel(group)) for group in groups if group)


def adjust_to_estimates(
    rows: IntArray, weights: FloatArray, groups: Sequence[Group], max_rounds: int = MAX_ROUNDS
) -> AdjustedRecords:
    """Adjust distinct records to the estimated table of each group (MDR §6.4).

    Estimates are unbiased, with negatives set to 0 and rescaled.
    """
    margins = []
    for axes, kernel in groups:
        cells = np.ravel_multi_index(tuple(rows[:, list(axes)].T), kernel.sizes)
        observed = np.bincount(cells, weights=weights, minlength=kernel.cells).reshape(kernel.sizes) / weights.sum()
        margins.append(clip(kernel.solve(observed).ravel()).reshape(kernel.sizes))
    return adjust(rows, weights, margins, [axes for axes, _ in groups], max_rounds=max_rounds)


def adjust_once(weights: FloatArray, positions: IntArray, target: FloatArray) -> FloatArray:
    """Apply Adjust_weights of Algorithm 2: w_r ← w_r π̂_v/s_v.

    v = positions[r], and s_v sums the weights at v.

    A value with s_v = 0 has no records to reweight; the others are left as they are.
    """
    sums = np.bincount(positions, weights=weights, minlength=target.size)
    factor = np.divide(target, sums, out=np.zeros_like(target), where=sums > 0)
    return np.asarray(weights * factor[positions])


def adjust(  # noqa: PLR0913 (the algorithm's three inputs, its groups, and when to stop)
    codes: NDArray[np.integer],
    weights: ArrayLike,
    margins: Sequence[ArrayLike],
    groups: Sequence[Sequence[int]] | None = None,
    tolerance: float = TOLERANCE,
    max_rounds: int = MAX_ROUNDS,
) -> AdjustedRecords:
    """Apply Algorithm 2 to distinct records ``codes`` (N, m).

    The initial ``weights`` (N,) are proportions of the randomized records.

    ``margins`` are the groups' estimated distributions (at least 0, sum 1), of the shape of their sizes; ``groups`` the
    positions of their attributes, "clusters" in MDR's words, and single attributes unless given. Stops when every cell of every
    margin is within the tolerance of its target, or after so many rounds.
    """
    rows = np.asarray(codes, dtype=np.int64)
    chosen = groups if groups is not None else [(i,) for i in range(rows.shape[1])]
    targets = [np.asarray(m, dtype=np.float64) for m in margins]
    # each record's cell in every margin
    positions = [
        np.ravel_multi_index(tuple(rows[:, list(group)].T), target.shape)
        for group, target in zip(chosen, targets, strict=True)
    ]
    flat = [t.ravel() for t in targets]
    w = np.asarray(weights, dtype=np.float64)
    w, distance, rounds = _fitted(w / w.sum(), positions, flat, tolerance, min(_FIRST_ROUNDS, max_rounds))
    forced = 0
    if distance > tolerance and rounds < max_rounds:
        free = _not_forced(positions, flat) if rows.shape[0] <= _MAX_SEARCHED else None
        if free is not None:
            forced = int(np.count_nonzero(~free))
            w = np.where(free, w, 0.0)
        w, distance, more = _fitted(w, positions, flat, tolerance, max_rounds - rounds)
        rounds += more
    convergence = Convergence(
        iterations=rounds,
        converged=bool(distance <= tolerance),
        criterion="largest distance of a margin's cell from its target",
        value=distance,
        tolerance=tolerance,
    )
    return AdjustedRecords(rows, w / w.sum(), convergence, forced)


def _fitted(
    weights: FloatArray, positions: list[IntArray], targets: list[FloatArray], tolerance: float, rounds: int
) -> tuple[FloatArray, float, int]:
    """Adjust in rounds until every margin is met; also return distance and rounds."""
    distance = _distance(weights, positions, targets)
    used = 0
    while used < rounds and distance > tolerance:
        for at, target in zip(positions, targets, strict=True):
            weights = adjust_once(weights, at, target)
        distance = _distance(weights, positions, targets)
        used += 1
    return weights, distance, used


def _distance(weights: FloatArray, positions: list[IntArray], targets: list[FloatArray]) -> float:
    return max(
        float(np.abs(np.bincount(at, weights=weights, minlength=t.size) - t).max())
        for at, t in zip(positions, targets, strict=True)
    )


def _not_forced(positions: list[IntArray], targets: list[FloatArray]) -> NDArray[np.bool_] | None:
    """Find records that can have positive weight; None if margins are infeasible.

    The largest support of {w ≥ 0: A w = b}: maximise Σ z over z + y = w, 0 ≤ z ≤ 1, y ≥ 0, A w = τ b, τ ≥ 1.
    """
    # they take long to import, and most margins force no record to 0
    from scipy.optimize import linprog  # noqa: PLC0415
    from scipy.sparse import csr_array, hstack, vstack  # noqa: PLC0415

    n = positions[0].size
    ones, columns_of = np.ones(n), np.arange(n)
    a = vstack(
        [csr_array((ones, (at, columns_of)), shape=(t.size, n)) for at, t in zip(positions, targets, strict=True)]
    )
    b = np.concatenate(targets)
    columns = hstack([a, a, csr_array(-b[:, None])], format="csr")
    bounds = [(0, 1)] * n + [(0, None)] * n + [(1, None)]
    answer = linprog(np.append(np.full(n, -1.0), np.zeros(n + 1)), A_eq=columns, b_eq=np.zeros(b.size), bounds=bounds)
    if answer.status != 0:
        return None
    return np.asarray(answer.x[:n] + answer.x[n : 2 * n] > _FORCED)
