"""Method "search": an allocation for any number of attributes, by mixtures of laws of one weighted total (theory §3.7).

A law that looks at one weighted total X = Σ w_i 1[i∈S] only has totals x for cells; with the conditional means
K_W(x) = E_μ[χ_W | X = x] a law of density q(X) has

    λ_W = Σ_x μ(x) q(x) K_W(x) / Σ_x μ(x) q(x),

so such laws form a lattice like that of :mod:`optrr_solvers.allocation.lattice`, and the same descent serves it. μ(x)
K_W(x) is a product of one sparse polynomial per class. They are multiplied along a binary tree that shares the products
over attributes outside W, and only non-negative numbers are ever added to μ(x): relative errors of some m roundings.

The best law puts its mass where h(S) = Σ g_W χ_W(S) is large, g the multipliers of all effects. Around the sets that
are likely there, one attribute's change lowers h by about

    w_i = r_i/(r_i−1) Σ_{W∋i} g_W λ_{W∖i},                        (λ given that the answer is not uniform)

so totals of these weights order the change sets nearly as h does. Every generation takes the laws of such totals, mixes
the best of them with the law so far by the fully corrected descent, and reads off the next w. It starts from w_i = ε_i
of the best split for independent randomized response, whose density is one of them: e^{−X}.

With up to some ten attributes totals distinguish all change sets and the result is the optimum. With more attributes,
laws of totals are a little less accurate than the optimum of the lattice: by 0.02 to 0.25 % for pairs among 17
different attributes at totals from 0.5 to 8. They lose much where the tables wanted are disjoint (8 pairs of 16
attributes: 10 % at a total of 2, 36 % at 8). There, a second change in a pair with one change does not reduce h, and no
weights w_i can express this.

Kept pairs, conditional caps, and one-way tables of very many attributes are a search over profiles of ε_i with the
certified design solver (:mod:`optrr_solvers.allocation.profiles`).
"""

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from optrr_solvers.allocation import profiles
from optrr_solvers.allocation.bound import lower_error
from optrr_solvers.allocation.lattice import (
    Atom,
    Cells,
    Corner,
    Descent,
    KnapsackOracle,
    Mixture,
    effect_usage,
    kronecker_split,
    mean_effects,
)
from optrr_solvers.allocation.problem import AllocatedLaw, AllocationProblem, Pairs
from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import MethodTooLarge
from optrr_solvers.laws.ball import BallLaw, MixedBall
from optrr_solvers.laws.count import log_change_counts
from optrr_solvers.laws.weighted_ball import WeightedBall

# Effects × totals that are held at once: 128 MB.
_ENTRIES = 1 << 24
# Maximum number of totals of a grid: a finer grid would distinguish no more change sets.
_MOST_TOTALS = 1 << 15
# Totals less likely than this are left out: next to underflow, products would lose their digits.
_FAINT = 1e-280

_Usage = tuple[int, ...]
# No further generation is made after two in a row that gained less than this, relatively.
_LITTLE = 1e-4
# The relative gap that a generation aims at, the most corners that it may take, and the most generations.
_TOLERANCE = 1e-5
_ROUNDS = 300
_GENERATIONS = 16
# Smallest weight of a component that is kept; dropping smaller ones changes the error by about the same fraction.
_FAINT_SHARE = 1e-9
# Attributes above which profiles of one-way tables are quicker.
_MANY = 500


def grid_weights(workload: TableWorkload, real: FloatArray) -> IntArray:
    """Round positive weights per class, shape (G,), to integers.

    Their total is as large as memory allows.
    """
    counts = np.asarray([c.size for c in workload.classes])
    most = min(_MOST_TOTALS, _ENTRIES // (len(workload.effects) + len(counts)))
    scaled = real * max(most - workload.m, 1) / float(real @ counts)
    return np.maximum(np.round(scaled), 1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class EffectTotals(Cells):
    """Totals of the given integer weights per class, shape (G,).

    Takes time O(effects · ln m · totals) for one-way tables and pairs, memory (effects, totals).
    """

    weights: IntArray

    @cached_property
    def most(self) -> int:
        """The largest total."""
        return int(self.weights @ np.asarray([c.size for c in self.classes]))

    @cached_property
    def _kernels(self) -> list[FloatArray]:
        """Pr(k members change) · (mean χ of u members given k), for each class.

        The shape is (most used + 1, n + 1).
        """
        out = []
        for members, used in zip(self.classes, self._usage.max(axis=0).tolist(), strict=True):
            r = int(self.workload.sizes[members[0]])
            out.append(np.exp(log_change_counts(members.size, r)) * mean_effects(members.size, r, used))
        return out

    @cached_property
    def _given_totals(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Totals that occur, μ of each, and K, shape (rows, totals)."""
        keys = [tuple(row) for row in self._usage.tolist()]
        nothing = (0,) * len(self.classes)
        start = np.zeros(self.most + 1)
        start[0] = 1.0
        products = self._products(0, len(self.classes), {*keys, nothing}, start)
        mass = products[nothing]
        at = np.flatnonzero(mass > _FAINT)
        return at, mass[at], np.stack([products[key][at] for key in keys]) / mass[at]

    def _products(self, low: int, high: int, wanted: set[_Usage], start: FloatArray) -> dict[_Usage, FloatArray]:
        """Compute ``start`` times the polynomials of classes low..high−1.

        One product for each wanted usage of these classes.
        """
        if high - low == 1:
            return {u: self._times(start, low, u[0]) for u in wanted}
        half = (high - low) // 2
        middle = low + half
        on_left, on_right = {u for u in wanted if not any(u[half:])}, {u for u in wanted if not any(u[:half])}
        out: dict[_Usage, FloatArray] = {}
        # a half of the classes that no effect involves is multiplied only once, for all effects
        if on_right:
            after = self._unused(low, middle, start)
            rights = self._products(middle, high, {u[half:] for u in on_right}, after)
            out |= {(0,) * half + right: values for right, values in rights.items()}
        if on_left - on_right:
            after = self._unused(middle, high, start)
            lefts = self._products(low, middle, {u[:half] for u in on_left - on_right}, after)
            out |= {left + (0,) * (high - middle): values for left, values in lefts.items()}
        across: dict[_Usage, set[_Usage]] = {}
        for u in wanted - on_left - on_right:
            across.setdefault(u[:half], set()).add(u[half:])
        if across:
            for left, part in self._products(low, middle, set(across), start).items():
                for right, values in self._products(middle, high, across[left], part).items():
                    out[left + right] = values
        return out

    def _unused(self, low: int, high: int, values: FloatArray) -> FloatArray:
        for g in range(low, high):
            values = self._times(values, g, 0)
        return values

    def _times(self, values: FloatArray, g: int, used: int) -> FloatArray:
        weight, (first, *others) = int(self.weights[g]), self._kernels[g][used]
        out = first * values
        for k, factor in enumerate(others, start=1):
            out[k * weight :] += factor * values[: values.size - k * weight]
        return np.asarray(out)

    @property
    def totals(self) -> IntArray:
        """The totals that occur, shape (cells,)."""
        return self._given_totals[0]

    @property
    def mu(self) -> FloatArray:
        """Their law under uniformly random answers, shape (cells,)."""
        return self._given_totals[1]

    def effects_of(self, mass: FloatArray) -> FloatArray:
        """Compute λ of a distribution (or of any mass on the cells), shape (rows,)."""
        return np.asarray(self._given_totals[2] @ mass)

    def cells_of(self, multipliers: FloatArray) -> FloatArray:
        """Compute the mean of the dual function on every cell, shape (cells,).

        E_μ[Σ multipliers · χ | X = x].
        """
        return np.asarray(multipliers @ self._given_totals[2])

    def ball(self, inside: FloatArray) -> WeightedBall:
        """Build the weighted ball that holds each total to the degree ``inside``.

        ``inside`` has shape (cells,), with values in [0, 1].
        """
        # totals that do not occur get the density of the next one below, so that the profile has few steps
        at = np.searchsorted(self.totals, np.arange(self.most + 1), side="right") - 1
        levels = np.clip(inside, 0.0, 1.0)[np.maximum(at, 0)]
        steps = np.flatnonzero(levels != levels[0])
        first = int(steps[0]) - 1 if steps.size else self.most
        last = int(np.flatnonzero(levels)[-1])
        knots = np.arange(min(first, last), last + 2)
        return WeightedBall(self.weights, np.zeros(len(self.classes)), knots, np.append(levels[knots[:-1]], 0.0))


@dataclass(frozen=True, eq=False)
class _Share:
    """Component of the distribution: its totals, and uniform part and excess of its density."""

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


def solve(problem: AllocationProblem, pairs: Pairs = ()) -> AllocatedLaw:
    """Find the best distribution by mixtures of balls, with a lower bound.

    The bound holds for all distributions of that total. ``pairs`` keep at least the eigenvalues that they have under
    independent randomized response.

    With pairs or caps the bound is the one without them, which is weaker. Floors and ceilings hold as for
    :mod:`optrr_solvers.allocation.lattice`. Cost: for pairs among m different attributes a generation takes O(m² ln m ·
    L) for its L = 2^25/m² totals (at most 2^15) and O(m² L) a round, a cut of the bound O(m 2^20) (at most 2^27); at
    most 16 generations. Some ten seconds for 20 to 100 attributes, a minute at totals below 2.

    Raises
    ------
    Infeasible
        If the floors need more than the total; the message states how much.
    MethodTooLarge
        for targets on tables of several attributes, and from the solvers.
    SolveFailed
        where no such law of that total meets the floors, and from the solvers.
    """
    if problem.joint_targets.size:
        raise MethodTooLarge("method 'search' takes no targets on tables of several attributes; use method 'program'")
    several = any(len(w) > 1 for w in problem.workload.effects)
    if not pairs and not problem.capped and (several or problem.workload.m <= _MANY):
        return _by_balls(problem)
    paired = profiles.solve(problem, pairs)
    if not pairs and not several:
        return paired
    free = solve(replace(problem, caps=None))
    return replace(paired, lower_error=min(max(free.lower_error, paired.lower_error), paired.error))


def _by_balls(problem: AllocationProblem) -> AllocatedLaw:
    """Find the best mixture of weighted balls."""
    started = time.perf_counter()
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
    """Combine distributions of these totals with the distribution found so far."""
    oracle = KnapsackOracle(totals.mu, problem.total)
    if before is None:
        # e^{−X} with X scaled to the best split: independent randomized response
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
    """Compute the module's w_i for one member of each class, shape (G,), up to scale.

    ``effects`` λ and ``push`` the limits' multipliers by row, shape (rows,) each; ``uniform``: the uniform answers'
    share.
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
    """Build the noise distribution of densities 1 + (e^E − 1) Σ share · level.

    The shares are proportions of the uniform answer.
    """
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
