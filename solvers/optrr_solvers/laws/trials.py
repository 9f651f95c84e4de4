"""Weighted balls drawn by rejection, in whole numbers and with the same work for each record (theory §7).

A ball law answers uniformly with probability α; else it draws a change set S from one of its balls, μ(S)
E[G(X)]/E_μ[t], where the total X = Σ_{i∈S} W_i has weights rounded at random (:mod:`optrr_solvers.laws.weighted_ball`).
For any ρ > 0

    μ(S) G(X) ∝ [Π_{i∉S} (1 − p_i) Π_{i∈S} p_i] · G(X) ρ^{X},      p_i/(1 − p_i) = (r_i − 1) E[ρ^{−W_i}],

so one trial is a draw of independent changes, which is accepted with probability a(X) ∝ G(X) ρ^X. The device chooses a
ball k with probability s_k, makes ``count`` trials whatever happens, and takes the first that was accepted. If none
was, it answers uniformly; that happens with probability F_k = (1 − a_k)^count, where a_k = E[a(X)] is the chance of one
trial, and takes the place of a part of α: with probability u, where α = u + (1 − u) Σ s_k F_k, the device answers
uniformly anyway. So the number of trials is the least for which the F_k fit into α, and costs nothing. With β_k = (1 −
u) s_k (1 − F_k) the chance of ball k,

    q_S = α + Σ_k β_k Pr_k(S and accepted)/(a_k μ(S))
        ≤ α + Σ_k β_k A_k Π_i max((1 − p_i) r_i, p_i E[ρ^{W_i}] r_i/(r_i − 1))/a_k,

with A the largest a(x) ρ^{−x} (for falling profiles equality holds up to rounding), and q_S ≥ α. All of this is
computed from the integers. Sums have positive terms: 1 − p, 1 − u and shares are differences of integers, 1 − a is the
sum of the rejected masses, and 1 − F comes from its logarithm. So doubles err by less than ``ROUNDING`` for each
attribute.

A file of m attributes holds m weights and thresholds of each ball, and one acceptance for each total near its radius. A
draw takes m·count words; the sums take m·end operations, with ``end`` the largest total that is accepted, of all balls
together.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.ball import BallLaw
from optrr_solvers.laws.base import BoolArray
from optrr_solvers.laws.weighted_ball import WeightedBall
from optrr_solvers.randomness import BitSource, Words, bounded, threshold

# The unit of ln ρ in a file.
LOG_UNIT = 2.0**-40
# Words are 64 bits for changes and 32 for acceptance.
WORD, ACCEPTANCE = 2.0**64, 2.0**32
# Relative error of a sum for each attribute, and of a ratio: five times what rounding of doubles can add.
ROUNDING = 2.0**-49
# Most trials of one answer: a second of work at a thousand attributes.
MOST_TRIALS = 1 << 12
# Attributes times totals of all balls: a client in plain Python takes some seconds for so many.
MOST_SUMS = 1 << 24
# |ln ρ| times the number of totals, at most: ρ^x is then known to 1e-12.
MOST_TILT = 2500.0
# The least chance of an accepted trial, and of a uniform answer, that doubles hold.
LEAST_CHANCE = 1e-290
# Balls hold all of a law that is not uniform, but for so much.
_REST = 1e-12
# ln ρ times the radius, at most: all of a ball's mass is at its edge then.
_STEEPEST = 2400.0
# Records that are drawn at once, times attributes.
_CELLS = 1 << 22


@dataclass(frozen=True, eq=False)
class TrialBall:
    """One ball: a trial of it.

    Parameters
    ----------
    sizes, weights
        r_i and the whole part of W_i, shape (m,).
    thresholds, second
        an attribute changes where a word of 64 bits is below the first, and weighs one more where it is below the
        second.
    least, acceptance
        a total x is accepted where a word of 32 bits is below ``acceptance[x - least]``; totals beyond the table never
        are.
    log_ratio
        ln ρ in units of 2^-40.
    """

    sizes: IntArray
    weights: IntArray
    thresholds: Words
    second: Words
    least: int
    acceptance: NDArray[np.uint32]
    log_ratio: int

    @property
    def m(self) -> int:
        """Number of attributes."""
        return self.sizes.size

    @property
    def end(self) -> int:
        """Number of totals up to the largest that is accepted."""
        return self.least + self.acceptance.size

    @cached_property
    def _kept(self) -> FloatArray:
        """1 − p_i."""
        return np.array([float((1 << 64) - t) for t in self.thresholds.tolist()]) / WORD

    @cached_property
    def _lighter(self) -> FloatArray:
        """The part of p_i that weighs no more than the whole part."""
        return (self.thresholds - self.second) / WORD

    @cached_property
    def _heavier(self) -> FloatArray:
        """The part of p_i that weighs one more."""
        return self.second / WORD

    @cached_property
    def accepted(self) -> FloatArray:
        """a(x) for the totals 0..end − 1."""
        return np.concatenate([np.zeros(self.least), self.acceptance / ACCEPTANCE])

    def passed(self, f: FloatArray, i: int) -> tuple[FloatArray, FloatArray]:
        """Compute probabilities of totals after attribute i, kept and changed."""
        changed = np.zeros(self.end)
        p, q, a = self._lighter[i], self._heavier[i], int(self.weights[i])
        if a < self.end:
            changed[a:] = p * f[: self.end - a]
        if a + 1 < self.end:
            changed[a + 1 :] += q * f[: self.end - a - 1]
        return self._kept[i] * f, changed

    def totals(self, attributes: Iterable[int]) -> FloatArray:
        """Compute probabilities of every total of these attributes."""
        f = np.zeros(self.end)
        f[0] = 1.0
        for i in attributes:
            kept, changed = self.passed(f, i)
            f = kept + changed
        return f

    @cached_property
    def chances(self) -> tuple[float, float]:
        """Probability a that one trial is accepted, and 1 − a.

        The latter is beyond all totals or rejected.
        """
        f, beyond = np.zeros(self.end), 0.0
        f[0] = 1.0
        for i in range(self.m):
            a = int(self.weights[i])
            beyond += float(self._lighter[i] * f[max(0, self.end - a) :].sum())
            beyond += float(self._heavier[i] * f[max(0, self.end - a - 1) :].sum())
            kept, changed = self.passed(f, i)
            f = kept + changed
        rejected = (ACCEPTANCE - self.acceptance) / ACCEPTANCE
        return float(f @ self.accepted), beyond + float(f[: self.least].sum() + f[self.least :] @ rejected)

    @property
    def chance(self) -> float:
        """a."""
        return self.chances[0]

    def log_none(self, count: int) -> float:
        """Compute the log probability ln F that no trial of so many is accepted."""
        a, rejected = self.chances
        return count * (math.log1p(-a) if a < 1 / 2 else math.log(rejected))

    @cached_property
    def log_density(self) -> float:
        """Upper bound of ln of the largest accepted density over the uniform one."""
        rho = self.log_ratio * LOG_UNIT
        x = np.arange(self.least, self.end)
        with np.errstate(divide="ignore"):
            largest = float(np.max(np.log(self.acceptance / ACCEPTANCE) - rho * x))
            r = self.sizes
            weighted = np.logaddexp(np.log(self._lighter), np.log(self._heavier) + rho) + rho * self.weights
            steps = np.maximum(np.log(self._kept * r), weighted + np.log(r / (r - 1)))
        return largest + math.fsum(steps) - math.log(self.chance)

    def changes(self, chosen: Sequence[int]) -> FloatArray:
        """Compute probabilities of the chosen attributes' flip patterns, (2^k,).

        The trial is an accepted one.
        """
        tables = [self.totals(sorted(set(range(self.m)) - set(chosen)))]
        for i in chosen:
            tables = [part for table in tables for part in self.passed(table, i)]
        return np.array([table @ self.accepted for table in tables]) / self.chance

    @cached_property
    def flips(self) -> FloatArray:
        """Probabilities that each attribute is kept and changes, shape (2, m).

        The trial is an accepted one.

        A pass forwards and one backwards, 8·m·end bytes.
        """
        before = np.zeros((self.m + 1, self.end))
        before[0, 0] = 1.0
        for i in range(self.m):
            kept, changed = self.passed(before[i], i)
            before[i + 1] = kept + changed
        after, inside = self.accepted, np.zeros((2, self.m))
        for i in reversed(range(self.m)):
            p, q, a = self._lighter[i], self._heavier[i], int(self.weights[i])
            moved = np.zeros(self.end)
            moved[: max(0, self.end - a)] = p * after[a:]
            moved[: max(0, self.end - a - 1)] += q * after[a + 1 :]
            kept = self._kept[i] * after
            inside[:, i] = before[i] @ kept, before[i] @ moved
            after = kept + moved
        return inside / self.chance

    def trial(self, n: int, source: BitSource) -> tuple[BoolArray, BoolArray]:
        """Draw flip patterns of n trials, shape (n, m), and which are accepted."""
        words = source.words(n * self.m).reshape(n, self.m)
        sets = words < self.thresholds
        totals = (sets @ self.weights) + (words < self.second).sum(axis=1)
        inside = (totals >= self.least) & (totals < self.end)
        limits = self.acceptance[np.where(inside, totals - self.least, 0)]
        return sets, inside & ((source.words(n) >> np.uint64(32)) < limits)


@dataclass(frozen=True, eq=False)
class Trials:
    """Integers with which a device draws.

    Parameters
    ----------
    balls
        at least one.
    ends
        the ball is the one whose number is how many of these a word of 64 bits is not below; one fewer than balls.
    uniform
        the answer is uniform where a word of 64 bits is below this.
    count
        number of trials, at least 1.
    """

    balls: tuple[TrialBall, ...]
    ends: tuple[int, ...]
    uniform: int
    count: int

    @property
    def sizes(self) -> IntArray:
        """r_i, shape (m,)."""
        return self.balls[0].sizes

    @property
    def m(self) -> int:
        """Number of attributes."""
        return self.sizes.size

    @property
    def work(self) -> int:
        """Operations of the sums."""
        return sum(ball.m * ball.end for ball in self.balls)

    @cached_property
    def chances(self) -> tuple[float, FloatArray]:
        """α, the chance of a uniform answer, and β_k, that of each ball."""
        bounds = [0, *self.ends, 1 << 64]
        shares = np.array([float(high - low) for low, high in pairwise(bounds)]) / WORD
        tried = float((1 << 64) - self.uniform) / WORD * shares
        none = np.array([ball.log_none(self.count) for ball in self.balls])
        return self.uniform / WORD + float(tried @ np.exp(none)), tried * -np.expm1(none)

    @cached_property
    def epsilon(self) -> float:
        """Upper bound of the total ε in nats.

        Attained up to rounding if the balls have decreasing profiles.
        """
        alpha, beta = self.chances
        excess = np.log(beta) - math.log(alpha) + [ball.log_density for ball in self.balls]
        # F = (1 − a)^count has the error of a, times count
        return float(np.logaddexp(0.0, logsumexp(excess))) + (2 * self.count + 3) * self.m * ROUNDING

    def changes(self, chosen: Sequence[int]) -> FloatArray:
        """Compute probabilities of the chosen attributes' flip patterns, (2,)*k.

        Takes O(m·end + 2^k·end) time per ball.
        """
        (alpha, beta), free = self.chances, np.ones(1)
        for i in chosen:
            free = np.outer(free, [1 / self.sizes[i], 1 - 1 / self.sizes[i]]).ravel()
        inside = sum(b * ball.changes(chosen) for b, ball in zip(beta, self.balls, strict=True))
        return np.asarray(alpha * free + inside).reshape((2,) * len(chosen))

    @cached_property
    def flips(self) -> FloatArray:
        """Chances that each attribute is kept, and changes, shape (2, m)."""
        alpha, beta = self.chances
        inside = sum(b * ball.flips for b, ball in zip(beta, self.balls, strict=True))
        return np.asarray(alpha * np.stack([1 / self.sizes, 1 - 1 / self.sizes]) + inside)

    @property
    def flaw(self) -> str:
        """What of it doubles cannot bound; empty where they can."""
        if any(abs(ball.log_ratio) * LOG_UNIT * ball.end > MOST_TILT for ball in self.balls):
            return f"a ratio times its totals is above {MOST_TILT:g}"
        if min(ball.chance for ball in self.balls) < LEAST_CHANCE or self.chances[0] < LEAST_CHANCE:
            return "hardly any trial is accepted, or no answer is uniform"
        return ""

    def randomize(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize records, shape (n, m), in place.

        It stops at the first accepted trial, which devices must not do.
        """
        n = max(1, _CELLS // self.m)
        for first in range(0, len(codes), n):
            self._randomize(codes[first : first + n], source)

    def _randomize(self, codes: NDArray[np.integer], source: BitSource) -> None:
        n = len(codes)
        # none is chosen where the answer is uniform
        chosen = np.searchsorted(np.array(self.ends, dtype=np.uint64), source.words(n), side="right")
        chosen[source.words(n) < np.uint64(self.uniform)] = -1
        changed, drawn = np.zeros((n, self.m), dtype=bool), np.zeros(n, dtype=bool)
        for k, ball in enumerate(self.balls):
            waiting = np.flatnonzero(chosen == k)
            for _ in range(self.count):
                if not waiting.size:
                    break
                sets, accepted = ball.trial(waiting.size, source)
                changed[waiting[accepted]], drawn[waiting[accepted]] = sets[accepted], True
                waiting = waiting[~accepted]
        for i, r in enumerate(self.sizes.tolist()):
            free, step = bounded(source, n, r), 1 + bounded(source, n, r - 1)
            moved = np.where(changed[:, i], (codes[:, i] + step) % r, codes[:, i])
            codes[:, i] = np.where(drawn, moved, free)


def trials_of(law: BallLaw) -> Trials | None:
    """Build the trials of a noise distribution.

    Returns None if it needs more trials or sums than a file has, or is not only balls.
    """
    shares = np.array([mixed.share for mixed in law.balls])
    if law.log_ratio == 0 or math.fsum(shares) < 1 - _REST:
        return None
    if law.m * sum(mixed.ball.end for mixed in law.balls) > MOST_SUMS:
        return None
    alpha, beta = law.mixture
    balls = [_ball_of(mixed.ball, law) for mixed in law.balls]
    chances = np.array([ball.chance for ball in balls])
    if not np.all((chances > 0) & (chances < 1)):
        return None
    count = max(1, math.ceil(math.log(alpha) / math.log1p(-float(chances.max()))))
    while count <= MOST_TRIALS:
        # the chances to try each ball, of which the rest is for uniform answers
        tried = beta / -np.expm1(count * np.log1p(-chances))
        if tried.sum() <= 1:
            break
        count += max(1, count // 16)
    else:
        return None
    ends = tuple(int(threshold(float(x))) for x in np.cumsum(tried)[:-1] / tried.sum())
    return Trials(tuple(balls), ends, int(threshold(1 - float(tried.sum()))), count)


def _ball_of(ball: WeightedBall, law: BallLaw) -> TrialBall:
    floors, fractions = ball.floors[law.class_of], ball.fractions[law.class_of]
    log_ratio = round(_best_log_ratio(ball, law.sizes, floors, fractions) / LOG_UNIT)
    rho = log_ratio * LOG_UNIT
    # of a change: as likely as it is under ρ, and heavier as often as the rounding says
    lighter, heavier = (1 - fractions) * np.exp(-rho * floors), fractions * np.exp(-rho * (floors + 1))
    odds = (law.sizes - 1) * (lighter + heavier)
    chances = odds / (1 + odds)
    part = np.divide(heavier, lighter + heavier, out=np.zeros_like(heavier), where=heavier > 0)
    thresholds, second = (np.array([threshold(p) for p in each.tolist()]) for each in (chances, chances * part))
    x = np.arange(ball.end)
    with np.errstate(divide="ignore"):
        logs = np.log(ball.profile(x)) + rho * x
    accepted = np.floor(np.exp(logs - logs.max()) * (ACCEPTANCE - 1))
    least, last = np.flatnonzero(accepted)[[0, -1]].tolist()
    table = accepted[least : last + 1].astype(np.uint32)
    # where one change is too many its weight does not matter
    weights = np.minimum(floors, last + 1)
    return TrialBall(law.sizes, weights, thresholds, np.minimum(second, thresholds), least, table, log_ratio)


def _best_log_ratio(ball: WeightedBall, sizes: IntArray, floors: IntArray, fractions: FloatArray) -> float:
    """Find ln ρ at which a trial is accepted most often.

    It minimizes the bound ln E[ρ^{−X}] + max ln(G ρ^x).
    """
    x = np.arange(ball.end)
    with np.errstate(divide="ignore"):
        profile = np.log(ball.profile(x))

    def cost(log_rho: float) -> float:
        weights = (1 - fractions) * np.exp(-log_rho * floors) + fractions * np.exp(-log_rho * (floors + 1))
        return float(np.log1p((sizes - 1) * weights).sum() + np.max(profile + log_rho * x))

    bounds = (0.0, _STEEPEST / max(1, ball.end))
    return float(minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-9}).x)
