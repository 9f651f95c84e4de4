"""The most accurate mixture of weighted balls for tables of several attributes, for any number of attributes (design §3.7).

The best law puts its mass where h(S) = Σ g_W χ_W(S) is large, g the multipliers of all effects. Around the sets that are
likely there, one attribute's change lowers h by about

    w_i = r_i/(r_i−1) Σ_{W∋i} g_W λ_{W∖i},                        (λ given that the answer is not uniform)

so totals X = Σ w_i 1[i∈S] order the change sets nearly as h does. Every generation takes the laws of such totals
(:mod:`optrr_solvers.allocation.totals`), mixes the best of them with the law so far by the fully corrected descent, and
reads off the next w. It starts from w_i = ε_i of Kronecker's best split, whose law is one of them: e^{−X}.

With up to some ten attributes totals tell all change sets apart and the result is the optimum. With more attributes, laws of
totals are a little less accurate than the optimum of the lattice: by 0.02 to 0.25 % for pairs among 17 different attributes at
totals from 0.5 to 8. They lose much where the tables wanted are disjoint (8 pairs of 16 attributes: 10 % at a total of 2, 36 %
at 8). There, a second change in a pair that is already spoilt costs h nothing, and no weights w_i can express this.
"""

import math
import time
from dataclasses import dataclass

import numpy as np

from optrr_solvers.allocation.bound import lower_error
from optrr_solvers.allocation.descent import Corner, Descent, Mixture
from optrr_solvers.allocation.lattice import kronecker_split
from optrr_solvers.allocation.oracle import Atom, KnapsackOracle, effect_usage
from optrr_solvers.allocation.problem import AllocatedLaw, AllocationProblem
from optrr_solvers.allocation.totals import EffectTotals, grid_weights
from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import MethodTooLarge
from optrr_solvers.laws.ball import BallLaw, MixedBall

# No further generation is made after two in a row that gained less than this, relatively.
_LITTLE = 1e-4
# The relative gap that a generation aims at, the most corners that it may take, and the most generations.
_TOLERANCE = 1e-5
_ROUNDS = 300
_GENERATIONS = 16
# Laws with a smaller share of the mixture are dropped. This costs a share of the error of about the same size.
_FAINT_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class _Share:
    """A share of the law: its totals, and uniform part and excess of its density."""

    totals: EffectTotals
    atom: Atom

    def times(self, share: float) -> "_Share":
        return _Share(self.totals, Atom(self.atom.uniform * share, self.atom.excess * share))


@dataclass(frozen=True, eq=False)
class _State:
    """The law so far as parts, its λ by row and its error."""

    parts: tuple[_Share, ...]
    effects: FloatArray
    error: float

    @property
    def uniform(self) -> float:
        """Smallest density: the uniform answer's share of the mass."""
        return float(sum(p.atom.uniform for p in self.parts))


def solve(problem: AllocationProblem) -> AllocatedLaw:
    """Best mixture of weighted balls found at total ε at most E, with a bound for all laws of that total.

    Floors and ceilings hold as for :mod:`optrr_solvers.allocation.lattice`. Cost: for pairs among m different attributes a
    generation takes O(m² ln m · L) for its L = 2^25/m² totals (at most 2^15) and O(m² L) a round, a cut of the bound O(m 2^20)
    (at most 2^27); at most 16 generations. Some ten seconds for 20 to 100 attributes, a minute at totals below 2.

    Raises
    ------
    MethodTooLarge
        for conditional caps, and for targets on tables of several attributes.
    SolveFailed
        where no such law of that total meets the floors.
    """
    started = time.perf_counter()
    if problem.joint_targets.size or problem.capped:
        raise MethodTooLarge(
            "method 'search' takes neither conditional caps nor accuracies required of tables of several attributes; use "
            "method 'program', with few different attributes"
        )
    weights = kronecker_split(problem)
    state: _State | None = None
    mixture: Mixture | None = None
    rounds, idle = 0, 0
    for _ in range(_GENERATIONS):
        totals = EffectTotals(problem.workload, grid_weights(problem.workload, weights))
        before = state
        state, mixture = _generation(problem, totals, state)
        rounds += mixture.rounds
        idle = idle + 1 if before is not None and state.error > before.error * (1 - _LITTLE) else 0
        if idle == 2:
            break
        steered = steering(problem.workload, state.effects, state.uniform, mixture.push)
        weights = np.sqrt(weights / weights.sum() * steered)
    assert state is not None and mixture is not None
    law = _law(problem, state)
    return AllocatedLaw.of(problem, "search", law, lower_error(problem, law, mixture.push), started, rounds)


def _generation(problem: AllocationProblem, totals: EffectTotals, before: _State | None) -> tuple[_State, Mixture]:
    """The best mixture of laws of these totals with the law so far."""
    oracle = KnapsackOracle(totals.mu, problem.total)
    if before is None:
        # e^{−X} with X scaled to Kronecker's best split, which is randomized response on every attribute
        counts = np.asarray([c.size for c in totals.classes])
        reach = min(float(kronecker_split(problem) @ counts), problem.total)
        logs = reach * (1 - totals.totals / totals.most)
        mean = float(totals.mu @ np.exp(logs))
        first = Atom(1 / mean, np.expm1(logs) / mean)
        start = Corner(totals.effects_of(first.mass(totals.mu)), first)
    else:
        start = Corner(before.effects, None)
    mixture = Descent(problem, totals, oracle, (start,)).run(_TOLERANCE, _ROUNDS)
    old = sum(w for w, c in zip(mixture.weights, mixture.corners, strict=True) if c.atom is None)
    parts = () if before is None or old < _FAINT_SHARE else tuple(p.times(float(old)) for p in before.parts)
    if old < 1 - _FAINT_SHARE:
        parts = (*parts, _Share(totals, mixture.of_cells()))
    effects = mixture.effects
    used = effects[: len(problem.workload.effects)]
    return _State(parts, effects, problem.workload.error(used)), mixture


def steering(workload: TableWorkload, effects: FloatArray, uniform: float, push: FloatArray) -> FloatArray:
    """w_i above of one member of each class, shape (G,), up to scale.

    ``effects`` λ and ``push`` the limits' multipliers by row, shape (rows,) each; ``uniform``: the uniform answers' share.
    """
    usage = effect_usage(workload)
    place = {tuple(row): k for k, row in enumerate(usage.tolist())}
    out = np.zeros(usage.shape[1])
    multipliers = push.copy()
    used = len(workload.effects)
    multipliers[:used] += 2 * workload.coefficients / effects[:used] ** 3
    for row, g in zip(usage, multipliers.tolist(), strict=True):
        for c in np.flatnonzero(row) if g != 0 else ():
            rest = row.copy()
            rest[c] -= 1
            others = effects[place[tuple(rest.tolist())]] / (1 - uniform) if rest.any() else 1.0
            out[c] += g * others * row[c] / workload.classes[c].size
    sizes = np.asarray([float(workload.sizes[members[0]]) for members in workload.classes])
    out = np.maximum(out, 0) * sizes / (sizes - 1)
    # no law is left out here, because the next generation may need it
    return np.asarray(np.maximum(out / out.sum(), 1e-6))


def _law(problem: AllocationProblem, state: _State) -> BallLaw:
    """Densities 1 + (e^E − 1) Σ share · level; the shares are the parts of the uniform answer."""
    whole = state.uniform
    balls = []
    for part in state.parts:
        share = float(part.atom.uniform) / whole
        inside = part.atom.excess / (math.expm1(problem.total) * part.atom.uniform)
        # rounded down: together at most 1
        balls.append(MixedBall(share * (1 - 2.0**-40), part.totals.ball(inside)))
    # the law's ε is this rounded up
    log_ratio = float(np.nextafter(np.nextafter(problem.total, 0), 0))
    return BallLaw(problem.workload.sizes, problem.workload.classes, balls, log_ratio)
