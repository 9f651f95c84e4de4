"""BallLaw: "answer uniformly at random" mixed with draws from weighted Hamming balls around the true record (theory §3.3).

    q_S = 1 + (Q−1) t_S,    t_S = Σ_k p_k t_{k,S} ∈ [0, 1],    Σ p_k ≤ 1,

each t_k a weighted ball (:mod:`weighted_ball`). ε = ln Q whatever the weights, by construction; only the accuracies
need computing (:mod:`weighted_ball`). Alike attributes are one class and share all work.

Sampling (:mod:`ball_sampler`) runs the dynamic program backwards.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
from scipy.special import logsumexp

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.ball_sampler import BallSampler, most_gain
from optrr_solvers.laws.base import (
    BoolArray,
    Labels,
    Law,
    bounded_nats,
    checked_subset,
    joint_by_class,
    uniform_marginal,
)
from optrr_solvers.laws.count import CountLaw
from optrr_solvers.laws.excess import accuracies_drawn, log_expm1
from optrr_solvers.laws.weighted_ball import (
    MAX_COUNTED,
    MAX_NODES,
    BallSums,
    WeightedBall,
    ball_sums,
    countable,
    totals_of,
)
from optrr_solvers.partition import partition
from optrr_solvers.randomness import BitSource
from optrr_solvers.sampling.diagram import (
    MOST_LAYERS,
    MOST_STATES,
    Diagram,
    Step,
    Totals,
    mixture,
    table_diagram,
    totals_diagram,
)
from optrr_solvers.work import STATE, STEP, Work, of_states

# An (m, m) table of pairs at this many attributes fills 128 MB.
MAX_PAIR_TABLE = 4096
# So many change sets, or vectors of their counts, are listed where balls are shells.
MOST_LISTED = 1 << 12
# Seconds for one ball, however small: for each of its layers, and for its sums.
_LAYER, _BALL = 2e-4, 3e-3
# Seconds and bytes for one frequency of one class: exponentials of complex numbers, a dozen vectors of them at once.
_FREQUENCY, _FREQUENCY_BYTES, _CLASSES_AT_ONCE = 1.3e-6, 200, 32


@dataclass(frozen=True, eq=False)
class MixedBall:
    """One ball and its share p_k of t."""

    share: float
    ball: WeightedBall


class MixedBallRecord(msgspec.Struct, forbid_unknown_fields=True):
    """One ball of a BallLaw: its share, weights of the classes, and profile."""

    share: float
    floors: list[int]
    fractions: list[float]
    knots: list[int]
    levels: list[float]

    @classmethod
    def of(cls, mixed: MixedBall) -> "MixedBallRecord":
        """Build the record of a ball."""
        ball = mixed.ball
        numbers = (ball.floors.tolist(), ball.fractions.tolist(), ball.knots.tolist(), ball.levels.tolist())
        return cls(mixed.share, *numbers)

    def mixed(self) -> MixedBall:
        """Build the ball of a record."""
        # as integers and doubles explicitly: a value beyond 64 bits is refused here and not wrapped
        floors, knots = np.array(self.floors, dtype=np.int64), np.array(self.knots, dtype=np.int64)
        return MixedBall(self.share, WeightedBall(floors, np.array(self.fractions), knots, np.array(self.levels)))


class BallRecord(msgspec.Struct, forbid_unknown_fields=True):
    """Classes, balls, ln Q."""

    classes: list[list[int]]
    balls: list[MixedBallRecord]
    log_ratio: float


class BallLaw(Law):
    """Uniform answers mixed with weighted balls.

    Parameters
    ----------
    sizes
        r_i, shape (m,); alike within a class.
    classes
        index arrays that partition 0..m−1.
    balls
        at least one, each with a weight for each class; positive shares that add up to at most 1.
    log_ratio
        ln Q ≥ 0 in nats: the law's ε.
    """

    # a call passes over the whole program, so it is cheap to draw many change sets in it: a byte a cell, and one more while the
    # cell is put in place
    sampling_bytes = 2

    def __init__(
        self, sizes: IntArray, classes: Sequence[Sequence[int] | IntArray], balls: Sequence[MixedBall], log_ratio: float
    ) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.classes = partition(classes, self.m)
        self.balls = tuple(balls)
        self.log_ratio = float(log_ratio)
        if np.any(self.sizes != self.class_sizes[self.class_of]):
            raise ValueError("attributes of one class must have the same size")
        if not self.balls or any(x.ball.floors.size != len(self.classes) for x in self.balls):
            raise ValueError(f"a BallLaw of {len(self.classes)} classes needs balls with as many weights")
        shares = [x.share for x in self.balls]
        if not (all(p > 0 for p in shares) and math.fsum(shares) <= 1):
            raise ValueError(
                f"the shares of the balls must be positive and add up to at most 1, got {math.fsum(shares)}"
            )
        if not (math.isfinite(self.log_ratio) and self.log_ratio >= 0):
            raise ValueError(f"log_ratio = {self.log_ratio}; give a finite number of nats from 0")

    kind = "ball"
    Record = BallRecord

    def to_record(self) -> BallRecord:
        """Return the classes, balls and ln Q."""
        return BallRecord(
            [c.tolist() for c in self.classes], [MixedBallRecord.of(x) for x in self.balls], self.log_ratio
        )

    @classmethod
    def from_record(cls, record: BallRecord, sizes: IntArray) -> "BallLaw":
        """Build the noise distribution of a record."""
        balls = [x.mixed() for x in record.balls]
        log_ratio = float(bounded_nats([record.log_ratio], sizes.size)[0])
        return cls(sizes, record.classes, balls, log_ratio)

    def epsilon_parts(self) -> list[float]:
        """Return the single part ln Q of the total ε."""
        return [self.log_ratio]

    def joint_eigenvalues(self, others: IntArray, center: int) -> FloatArray:
        """Compute λ_ic from one marginal per class."""
        return joint_by_class(self, self.class_of, others, center)

    def sharpened(self, epsilon: float) -> "BallLaw":
        """Return the same balls with another ln Q, keeping computed properties."""
        return BallLaw(self.sizes, self.classes, self.balls, epsilon)

    @cached_property
    def class_of(self) -> IntArray:
        """Class number of each attribute, shape (m,)."""
        return self.classes.numbers

    @cached_property
    def counts(self) -> IntArray:
        """Attributes per class, shape (G,)."""
        return self.classes.counts

    @cached_property
    def class_sizes(self) -> IntArray:
        """r of each class, shape (G,)."""
        return self.sizes[self.classes.first]

    @cached_property
    def inside(self) -> tuple[BallSums, ...]:
        """Each ball with its mass and marginals."""
        return tuple(ball_sums(x.ball, self.sizes, self.classes) for x in self.balls)

    @property
    def _log_gain(self) -> FloatArray:
        """ln(Q − 1)."""
        return log_expm1(np.asarray(self.log_ratio))

    @cached_property
    def _log_excess(self) -> FloatArray:
        """ln of each ball's unnormalized mass above the uniform distribution, (K,).

        (Q−1) p_k E_μ[t_k].
        """
        masses = np.array([np.log(x.share) + part.log_mass for x, part in zip(self.balls, self.inside, strict=True)])
        return masses + self._log_gain

    @cached_property
    def mixture(self) -> tuple[float, FloatArray]:
        """Pr(uniform answer) and Pr(ball k), shape (K,): together 1."""
        total = np.logaddexp(0.0, logsumexp(self._log_excess))
        return float(np.exp(-total)), np.exp(self._log_excess - total)

    @cached_property
    def _changed(self) -> FloatArray:
        """Pr(changed) per class, shape (G,)."""
        alpha, shares = self.mixture
        out = alpha * (1 - 1 / self.class_sizes)
        for p, part in zip(shares, self.inside, strict=True):
            out = out + p * part.changed
        return np.asarray(out)

    def one_way(self) -> FloatArray:
        """Compute Pr(kept), Pr(changed) per attribute, shape (m, 2)."""
        changed = self._changed[self.class_of]
        return np.stack([1 - changed, changed], axis=1)

    def marginal(self, subset: Sequence[int]) -> FloatArray:
        """Compute the marginal, shape (2,)*k; O(2^k × nodes) time per ball."""
        chosen = checked_subset(subset, self.m)
        alpha, shares = self.mixture
        out = uniform_marginal(self.sizes[list(chosen)], alpha)
        for p, part in zip(shares, self.inside, strict=True):
            out = out + p * part.marginal(self.class_of[list(chosen)])
        return np.asarray(out)

    def class_pair_eigenvalues(self) -> FloatArray:
        """Compute λ_ij for i in class g and another j in class h, shape (G, G).

        A class of one attribute has no pair inside.
        """
        # the uniform answer's pair eigenvalues are 0
        _, shares = self.mixture
        out = np.zeros((self.counts.size, self.counts.size))
        chi = 1 / (1 - 1 / self.class_sizes)  # 1 − χ is this where the attribute changed
        for p, part in zip(shares, self.inside, strict=True):
            kept = 1 - chi * part.changed
            out += p * (kept[:, None] + kept[None, :] - 1 + np.outer(chi, chi) * part.both_changed())
        return out

    def pair_eigenvalues(self) -> FloatArray:
        """Compute λ_ij off the diagonal and λ_i on it.

        Takes one matrix product over classes, repeated for the members.
        """
        if self.m > MAX_PAIR_TABLE:
            raise ValueError(
                f"a table of all pairs of {self.m} attributes does not fit; ask for eigenvalues((i, j)), "
                "or class_pair_eigenvalues() where attributes are alike"
            )
        out = self.class_pair_eigenvalues()[np.ix_(self.class_of, self.class_of)]
        np.fill_diagonal(out, self.one_way_eigenvalues())
        return out

    def log_density_range(self) -> tuple[float, float]:
        """Return the log densities outside and inside all balls, 0 and ln Q."""
        return 0.0, self.log_ratio

    def conditional_epsilons(self) -> FloatArray:
        """Bound the conditional ε from above, rounded up, shape (m,).

        Uses the largest step of each ball's profile over the attribute's weight.

        A mixture's ratio is at most the largest ratio of its parts. Totals of other attributes that cannot occur are
        counted in, so that the true conditional ε may be smaller; it is never above ``log_ratio``. Exact where change
        sets can be counted.
        """
        if self.counted is not None:
            return self.counted.conditional_epsilons()
        out = np.zeros(self.counts.size)
        for x in self.balls:
            out = np.maximum(out, _largest_steps(x.ball, self.log_ratio))
        return np.minimum(np.where(out > 0, np.nextafter(out, np.inf), 0.0), self.log_ratio)[self.class_of]

    @cached_property
    def counted(self) -> CountLaw | None:
        """The same distribution as densities of all vectors of counts.

        Returns None if they are many.
        """
        if not all(countable(x.ball, self.classes) for x in self.balls):
            return None
        inside = sum(x.share * x.ball.profile(totals_of(self.counts, x.ball)) for x in self.balls)
        return CountLaw(self.sizes, self.classes, self._log_density(np.asarray(inside)))

    def diagram(self, most: int = MOST_STATES) -> Diagram | None:
        """Build a choice of ball, then one state for each total.

        Totals that no longer matter share a state.

        Among several shells, or roundings of one, no change set need have the largest density of each, so that the ε of a
        choice would only be bounded. Where change sets are few, their own densities are drawn from instead: their ε is exact.
        """
        hidden = len(self.balls) > 1 or bool(self.balls[0].ball.fractions.any())
        if hidden and not all(x.ball.falls for x in self.balls):
            if self.counted is not None and self.counted.log_density.size <= MOST_LISTED:
                return self.counted.diagram(most)
            if 1 << self.m <= MOST_LISTED:
                return table_diagram(self._log_density(_degrees(self)))
        parts = []
        for x in self.balls:
            part = self._ball_diagram(x.ball, most)
            if part is None:
                return None
            parts.append((x.share, part))
            most -= part.states
        rest = 1 - math.fsum(share for share, _ in parts)
        if rest > 0 and self.log_ratio > 0:
            only = np.zeros(1, dtype=np.int64)
            steps = tuple(Step(i, only, only) for i in self._visited.tolist())
            parts.append((rest, Diagram(steps, np.zeros(1))))
        return mixture(parts)

    @cached_property
    def _visited(self) -> IntArray:
        """Attributes in the order of visits: heavy ones first.

        Few states then remain for the others.
        """
        return np.argsort(-self.balls[0].ball.weights[self.class_of], kind="stable")

    def _ball_diagram(self, ball: WeightedBall, most: int) -> Diagram | None:
        floors, fractions = ball.floors[self.class_of], ball.fractions[self.class_of]
        reach = (floors + (fractions > 0))[self._visited]
        # before attribute k, totals from which the first knot is out of reach are as good as the highest of them
        lowest = int(ball.knots[0]) - np.append(np.cumsum(reach[::-1])[::-1], 0)

        def clamped(k: int, totals: IntArray) -> IntArray:
            return np.clip(totals, min(lowest[k], ball.end), ball.end)

        totals = Totals(floors, lambda x: self._log_density(ball.profile(x)), floors + 1, fractions, clamped)
        return totals_diagram(totals, most, self._visited)

    def _log_density(self, inside: FloatArray) -> FloatArray:
        """Compute ln(1 + (Q−1) t) for degrees t, of any shape."""
        with np.errstate(divide="ignore"):
            logs = np.logaddexp(0.0, np.log(inside) + self._log_gain)
        return np.minimum(logs, self.log_ratio)

    def work(self) -> Work:
        """Estimate the work of the sums, then of the totals' automaton.

        The sums of one ball finish before those of the next begin.
        """
        sums = [self._work_of_sums(x.ball) for x in self.balls]
        out = Work(sum(x.seconds for x in sums), max(x.memory for x in sums))
        if self.m > MOST_LAYERS:
            return out
        states = 0.0
        for x in self.balls:
            # at most two or three times those before every attribute, and no more than fit up to the end
            reach = np.sort((x.ball.floors + (x.ball.fractions > 0))[self.class_of].astype(np.float64))[::-1]
            widths = np.minimum(np.cumsum(reach), max(x.ball.end, 0)) + 1
            branches = (3.0 if x.ball.fractions.any() else 2.0) ** np.minimum(np.arange(1, self.m + 1), 64.0)
            states += float(min(np.minimum(widths, branches).sum(), MOST_STATES))
        return out + Work(STATE * states) + of_states(min(states, MOST_STATES), self.log_ratio)

    def pair_work(self) -> Work:
        """Estimate the work of one matrix product over the frequencies of each ball."""
        nodes = sum(self._most_nodes(x.ball) for x in self.balls)
        return Work(STEP * len(self.classes) ** 2 * nodes, 32.0 * self.m**2)

    def _work_of_sums(self, ball: WeightedBall) -> Work:
        groups = len(self.classes)
        cells = math.prod(int(n) + 1 for n in self.counts) if groups <= math.log2(MAX_COUNTED) else math.inf
        if cells <= MAX_COUNTED and not ball.fractions.any():
            sums = Work(STEP * cells * (groups + 8) * 2, 64.0 * cells)
        else:
            nodes, held = self._most_nodes(ball), min(groups, _CLASSES_AT_ONCE)
            sums = Work(_FREQUENCY * nodes * (4 + groups / 2), _FREQUENCY_BYTES * nodes * (1 + held / 2))
        return sums + Work(_BALL + _LAYER * min(self.m, MOST_LAYERS))

    def _most_nodes(self, ball: WeightedBall) -> float:
        """Bound the number of frequencies of the ball's transform."""
        reach = min(float(self.counts @ (ball.floors + 1.0)), 4.0 * MAX_NODES)
        return min(1.1 * (reach + 2 * float(ball.knots[-1] - min(int(ball.knots[0]), 0)) + 64), MAX_NODES)

    @cached_property
    def labels(self) -> Labels:
        """Stated ε, as for each noise distribution.

        Without an automaton accuracies include the sampler's rounding.
        """
        if self.automaton is not None:
            return super().labels
        own = self.conditional_epsilons()
        if self.counted is not None:
            drawn = self.counted.labels
            return Labels(max(self.epsilon, drawn.epsilon), drawn.attribute, np.maximum(own, drawn.conditional))
        return Labels(self.epsilon, accuracies_drawn(self.one_way(), self.sizes, most_gain(self.m)), own)

    @cached_property
    def _sampler(self) -> BallSampler:
        return BallSampler(self.sizes, self.class_of, [(x.share, x.ball) for x in self.balls], self.log_ratio)

    def sample_directly(self, n: int, source: BitSource) -> BoolArray:
        """Draw uniform answers and balls.

        The sampled mechanism's ε is never above the stored one (:mod:`ball_sampler`).
        """
        if self.counted is not None:
            return self.counted.sample(n, source)
        return self._sampler.draw(n, source)


def _degrees(law: BallLaw) -> FloatArray:
    """Compute t of every flip pattern over all roundings of the weights, (2,)*m."""
    out = np.zeros(1 << law.m)
    for x in law.balls:
        # attribute after attribute: totals without what is rounded up, and the chances of so much more, shape (sets, m + 1)
        totals, chances = np.zeros(1, dtype=np.int64), np.eye(1, law.m + 1)
        for g in law.class_of:
            b = float(x.ball.fractions[g])
            more = (1 - b) * chances
            more[:, 1:] += b * chances[:, :-1]
            totals = np.stack([totals, totals + x.ball.floors[g]], axis=1).ravel()
            chances = np.stack([chances, more], axis=1).reshape(totals.size, -1)
        out += x.share * (chances * x.ball.profile(totals[:, None] + np.arange(law.m + 1))).sum(axis=1)
    return out.reshape((2,) * law.m)


def _largest_steps(ball: WeightedBall, log_ratio: float) -> FloatArray:
    """Compute max over totals x of |ln q(x) − ln q(x + w)|, shape (G,).

    With either rounding of w, for q = 1 + (Q−1)G.
    """
    with np.errstate(divide="ignore"):
        levels = np.logaddexp(0.0, np.log(ball.levels) + log_expm1(np.asarray(log_ratio)))
    if levels[0] == levels.max() and np.all(np.diff(levels) <= 0):
        # falling: a step over w starts where a constant stretch or a knot does; longer steps are larger
        reach = ball.floors + (ball.fractions > 0)
        if int(ball.knots[-1] - ball.knots[0]) >= ball.knots.size:
            return np.where(reach > 0, levels[0], 0.0)
        padded = np.append(levels, 0.0)
        out = np.full(reach.shape, levels[0])
        for w in np.unique(reach[reach < levels.size]):
            out[reach == w] = np.max(padded[: padded.size - w] - padded[w:])
        return out
    return np.where(ball.weights > 0, levels.max(), 0.0)
