"""The most accurate mixture of local queries for a workload at a total ε (theory §3.9).

Each respondent answers one query, drawn at random. Reports on several queries
(:mod:`optrr_solvers.allocation.questions`) are combined by their information, so proportions π of the queries have the
error

    F = Σ_S C_S dim_S / Σ_a π_a e_S(a),

convex in π. A question helps if Σ_S u_S e_S(a) > F with u_S = C_S dim_S/(Σ π e_S)². Of all densities between 1 and e^ε
that sum is largest, being convex, at one with two values. It is climbed by turns: the likely patterns L give v_S = u_S
E f Φ_S and the sum E f s with the score s = Σ_S v_S Φ_S, and L' = {s > E f s} has E f' s ≥ E f s (Dinkelbach's step for
a ratio), hence, as a convex function lies above its tangent, no smaller sum.

Optimality is not proved here; :mod:`optrr_solvers.allocation.delsarte` has the lower bound for any mechanism.

Letters: S effect, F error, π share, u weight of an effect's energy, κ chance of a match, φ and Φ one's and several
attributes' effect.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from optrr_solvers.allocation.questions import (
    CELL_BITS,
    MAX_CELLS,
    MOST_PATTERNS,
    MOST_SUBSETS,
    Question,
    SubsetReport,
    at_patterns,
    chances,
    growth,
    responses,
    whole_table,
)
from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import MethodTooLarge
from optrr_solvers.threads import one_thread

# Questions about up to so many attributes are searched, and of so many kinds of effects.
MOST_ATTRIBUTES = 5
MOST_EFFECTS = 6_000
# Records are kept of up to so many attributes: a report on them has 2^m patterns of matches.
MOST_WHOLE = 12
# Groups of attributes, and candidates with their subset sizes, looked at in one round for one number of attributes.
_GROUPS, _CANDIDATES = 1_500, 1_500
# Larger groups, which gain nothing up to this ε, have so many patterns in all in one round for one number of
# attributes.
_BALLS_ABOVE, _BALL_PATTERNS = 4.5, 1 << 15
# Numbers of a batch of candidates, of which some ten arrays are held: 256 KB each, which a cache holds.
_BATCH = 1 << 15
# Rounds, questions that each adds, and turns of each climb; starts of a climb, and climbs of one batch that all may
# have more.
_ROUNDS, _ADDED, _TURNS = 30, 300, 6
_STARTS, _CLIMBS = 12, 1_000
# Smallest gain, relative to the error, of a candidate that continues the search; smallest proportion that is kept.
_TOLERANCE, _LEAST_SHARE = 5e-5, 1e-6
# How long the vector is that the search for shares starts from.
_FAR = 8.0
# Groups that are widened by one attribute.
_GROWN = 40
# Smallest energy in divisions.
_NOTHING = 1e-100
# Where records are kept: share of the people asked about everything, and by how many questions.
_KEPT, _OF_EVERYTHING = 0.1, 16
# Up to so many effects, the questions are thinned out by a linear program to hardly more than there are effects.
_THINNED = 600


@dataclass(frozen=True, eq=False)
class MixedQuestions:
    """Questions, their shares, shape (questions,), and the workload's error."""

    questions: tuple[Question, ...]
    shares: FloatArray
    error: float


def best_shares(workload: TableWorkload, questions: Sequence[Question], total: float) -> MixedQuestions:
    """Compute the proportions of the given questions with the smallest error.

    Each effect of the workload must be in one of the questions.

    A question represents all alike ones, among which its proportion is divided evenly.
    """
    task = Task(workload, total).asking(questions)
    return MixedQuestions(tuple(questions), shares := task.shares(None), task.error(shares))


def shared_error(workload: TableWorkload, questions: Sequence[Question], shares: FloatArray, total: float) -> float:
    """Compute the workload's error with these proportions of questions."""
    return Task(workload, total).asking(questions).error(shares)


@one_thread
def mixture(
    workload: TableWorkload,
    total: float,
    progress: Callable[[float], None] | None = None,
    whole: bool = False,
    known: Iterable[Question] = (),
) -> MixedQuestions:
    """Find questions, and proportions of them, with a small workload error.

    Attributes are distinguished, so the classes of the workload must be single attributes.

    Queries of up to 5 attributes are searched, all of them if they are few; if ε is above 4.5, also some of up to 12
    attributes whose likely patterns have at least a given number of matches. Time grows with the effects of the
    workload: about a second for all pairs of 9 attributes, half a minute for those of 100. ``progress`` is called with
    the error so far. The search starts from the workload's tables and from the questions that are ``known`` to be good,
    of which there may be none.

    With ``whole``, queries about all attributes are included, and all effects stay estimable: each effect keeps at
    least a tenth of the energy that it has if all respondents answer about all attributes (:func:`everything`); if
    necessary, a tenth of the respondents do. The error is at most 10/9 of that without this option. Time and memory
    then grow with the 2^m patterns, too.

    Raises
    ------
    MethodTooLarge
        with ``whole``, for more than 12 attributes, or 2^62 combinations of their categories.
    """
    task = Task(workload, total, whole, balls=workload.coefficients.size <= _THINNED)
    extra = everything(workload.sizes.tolist(), total) if whole else ()
    task.start()
    task.asking(known)
    shares = task.shares(None)
    for _ in range(_ROUNDS):
        if progress is not None:
            progress(task.error(shares))
        if not task.grow(shares):
            break
        before, shares = task.error(shares), task.shares(shares)
        if task.error(shares) > before * (1 - _TOLERANCE):
            break
    mixed = task.mixture(task.thinned(shares))
    if not whole or _keeps(mixed, extra, workload.sizes, total):
        return mixed
    task.asking(extra)
    most = dict(zip(mixed.questions, mixed.shares.tolist(), strict=True))
    return task.mixture(
        np.asarray([most.get(q, 0.0) * (1 - _KEPT) + (q in extra) * _KEPT / len(extra) for q in task.questions])
    )


def everything(sizes: Sequence[int], total: float) -> tuple[Question, ...]:
    """Build questions about all attributes with energy on every effect.

    All questions are asked equally often.

    An order of j attributes gets about 1/j² as much as the single ones, shared out among its effects as their tables
    need: the likely patterns are those where Σ ± √(w_S) Φ_S is large, w_S = Π (r_i − 1)/√r_i over its order's sum and
    j², with signs that differ from question to question. The same each time.

    Raises
    ------
    MethodTooLarge
        for more than 12 attributes, or 2^62 combinations of their categories.
    """
    m = len(sizes)
    if m > MOST_WHOLE or math.prod(sizes) > 1 << CELL_BITS:
        raise MethodTooLarge(
            f"whole records of {m} attributes and {math.prod(sizes):.3g} combinations: at most {MOST_WHOLE} "
            f"attributes and 2^{CELL_BITS} combinations are supported; leave attributes out, or merge categories"
        )
    wished, orders = np.ones(1), np.zeros(1, dtype=np.int64)
    for r in sizes:
        wished, orders = np.concatenate([wished, wished * (r - 1) / math.sqrt(r)]), np.concatenate([orders, orders + 1])
    wished[0] = 0
    for j in range(1, m + 1):
        wished[orders == j] /= wished[orders == j].sum() * j**2
    named = tuple(max(1, min(r // 2, round(r / (1 + math.exp(total / m))))) for r in sizes)
    kappa, source = (np.asarray(named) / np.asarray(sizes))[:, None], np.random.default_rng(0)
    out: dict[Question, None] = {}
    for _ in range(_OF_EVERYTHING):
        direction = np.sqrt(wished) * source.choice([-1.0, 1.0], wished.size)
        likely = _threshold(chances(kappa), at_patterns(kappa, direction[:, None]), math.expm1(total))
        out[Question(tuple(range(m)), SubsetReport(named, tuple(np.flatnonzero(likely).tolist())))] = None
    return tuple(out)


def _keeps(mixed: MixedQuestions, extra: Sequence[Question], sizes: IntArray, total: float) -> bool:
    """Check that each effect has a tenth of its energy from questions about all."""
    held = np.zeros(1 << sizes.size)
    for question, share in zip(mixed.questions, mixed.shares, strict=True):
        subsets = np.zeros(1, dtype=np.int64)
        for i in question.attributes:
            subsets = np.concatenate([subsets, subsets + (1 << i)])
        held[subsets] += share * question.report.energies(sizes[list(question.attributes)].tolist(), total)
    every = np.mean([q.report.energies(sizes.tolist(), total) for q in extra], axis=0)
    return bool((held >= _KEPT * every).all())


@dataclass(eq=False)
class Task:
    """The questions found so far, with their energies at a total ε in nats.

    ``whole``: whether queries about all attributes are included, ``balls``: whether some of more than five attributes
    are.
    """

    workload: TableWorkload
    total: float
    whole: bool = False
    balls: bool = False
    questions: dict[Question, dict[int, float]] = field(default_factory=dict)
    source: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    @cached_property
    def place(self) -> dict[tuple[int, ...], int]:
        """Number of each kind of effect of the workload."""
        return {self.workload.key(w): k for k, w in enumerate(self.workload.effects)}

    @cached_property
    def widest(self) -> int:
        """Number of attributes of the workload's largest effect."""
        return max(map(len, self.workload.effects))

    @cached_property
    def needs(self) -> FloatArray:
        """C_S dim_S."""
        return np.asarray(self.workload.coefficients * self.workload.dims)

    def weighing(self, weights: FloatArray) -> "Task":
        """Return the same questions for tables with other weights."""
        return replace(self, workload=self.workload.reweighted(weights))

    def at(self, total: float) -> "Task":
        """Return the same questions at another total.

        All energies of one question grow by one factor.
        """
        p = np.asarray(
            [q.report.likely_share(self.workload.sizes[list(q.attributes)].tolist()) for q in self.questions]
        )
        grown = (growth(p, total) / growth(p, self.total)).tolist()
        rows = zip(self.questions.items(), grown, strict=True)
        return replace(self, total=total, questions={q: {k: e * by for k, e in row.items()} for (q, row), by in rows})

    def start(self) -> None:
        """Add queries that together have energy on all effects of the workload."""
        sizes = self.workload.sizes
        for table in (*self.workload.tables, *(w for w in self.workload.effects if len(w) == 1)):
            self.add(Question(tuple(sorted(table)), whole_table(sizes[list(table)].tolist(), self.total)))
        if not self.whole:
            return
        everyone, ones = tuple(range(sizes.size)), (1,) * sizes.size
        if math.prod(sizes.tolist()) <= MAX_CELLS:
            self.add(Question(everyone, whole_table(sizes.tolist(), self.total)))
        # balls of change sets, which are best where a large total and many attributes meet
        for matches in range(1, sizes.size + 1):
            ball = (p for p in range(1 << sizes.size) if p.bit_count() >= matches)
            self.add(Question(everyone, SubsetReport(ones, tuple(ball))))

    def asking(self, questions: Iterable[Question]) -> "Task":
        """Add these questions and return the task."""
        for question in questions:
            self.add(question)
        return self

    def add(self, question: Question) -> None:
        """Take a question among those to draw from."""
        energies = question.report.energies(self.workload.sizes[list(question.attributes)].tolist(), self.total)
        row = self.questions[question] = {}
        subsets, places = self._places([question.attributes])
        for at, e in zip(places[:, 0].tolist(), energies[subsets].tolist(), strict=True):
            if at >= 0 and e > 0:
                # of an effect, on average over the alike ones
                row[at] = row.get(at, 0.0) + e / self.workload.alike[at]

    def _places(self, groups: Sequence[tuple[int, ...]]) -> tuple[IntArray, IntArray]:
        """List all subsets of groups with their effects in the workload.

        Σ 2^i over the members of every subset, and the number of its effect in each group, −1 for none.

        Shapes (subsets,) and (subsets, groups); all groups have the same number of attributes.
        """
        of, count = self.workload.class_of[np.asarray(groups)], len(groups[0])
        subsets, places = [], []
        for k in range(1, min(self.widest, count) + 1):
            members = np.asarray(list(combinations(range(count), k)))
            keys = np.sort(of[:, members], axis=-1).reshape(-1, k).tolist()
            subsets.append(np.sum(1 << members, axis=1))
            places.append(np.reshape([self.place.get(tuple(key), -1) for key in keys], (-1, len(members))))
        return np.concatenate(subsets), np.concatenate(places, axis=1).T

    def energies(self) -> sp.csr_array:
        """Return e_S of every question, shape (questions, effects)."""
        rows = self.questions.values()
        values = [e for row in rows for e in row.values()]
        places = ([k for k, row in enumerate(rows) for _ in row], [at for row in rows for at in row])
        return sp.csr_array(sp.coo_array((values, places), shape=(len(rows), self.needs.size)))

    def error(self, shares: FloatArray) -> float:
        """Compute F of the first questions in these proportions."""
        return float(np.sum(self.needs / (self.energies()[: shares.size].T @ shares)))

    def shares(self, before: FloatArray | None) -> FloatArray:
        """Find the best proportions of all questions, from those of the first ones."""
        options = {"maxiter": 400, "ftol": 1e-13, "gtol": 1e-9}
        return climbed_shares(self.energies(), sp.csr_array(self.needs[None]), before, (1.0,), options)

    def grow(self, shares: FloatArray) -> bool:
        """Add the questions that promise most; False where none promises anything."""
        held = self.energies().T @ shares
        error, worth = float(np.sum(self.needs / held)), self.needs / held**2
        promising: list[tuple[float, Question]] = []
        before: list[tuple[int, ...]] = []
        for count in self._counts():
            groups = self._groups(count, shares, before)
            groups = [g for g in groups if math.prod(self.workload.sizes[list(g)].tolist()) <= 1 << CELL_BITS]
            priced = list(self._priced(groups, worth)) if groups else []
            before = [question.attributes for _, question in priced[:_GROWN]]
            promising += [one for one in priced if one[0] > error * (1 + _TOLERANCE / 3)]
        promising.sort(key=lambda one: -one[0])
        if not promising or promising[0][0] < error * (1 + _TOLERANCE):
            return False
        self.asking(question for _, question in promising[: max(_ADDED, self.needs.size)])
        return True

    def _counts(self) -> list[int]:
        """List the numbers of attributes of the groups to search."""
        m, most = self.workload.m, MOST_ATTRIBUTES
        if self.balls and self.total > _BALLS_ABOVE:
            # after thinning there are no more questions than effects, and those about everything
            room = MOST_PATTERNS - (_OF_EVERYTHING << m if self.whole else 0)
            most = max(most, min(MOST_SUBSETS, (room // self.needs.size).bit_length() - 1))
        return [*range(1, min(most, m) + 1), *([m] if self.whole and m > most else [])]

    def _groups(self, count: int, shares: FloatArray, before: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """List groups of ``count`` attributes: all of them, or a random selection.

        The selection includes groups that widen good groups and questions with large proportions.
        """
        m = self.workload.m
        most = _GROUPS if count <= MOST_ATTRIBUTES else _BALL_PATTERNS >> count
        if math.comb(m, count) <= most:
            return list(combinations(range(m), count))
        chosen: dict[tuple[int, ...], None] = {}
        asked = list(self.questions)
        for k in np.argsort(-shares, kind="stable")[: most // 2].tolist():
            group = {*asked[k].attributes[:count]}
            while len(group) < count:
                group.add(int(self.source.integers(m)))
            chosen[tuple(sorted(group))] = None
        wider = [(*group, i) for group in before for i in range(m) if len(group) == count - 1 and i not in group]
        for k in self.source.permutation(len(wider))[: most // 3].tolist():
            chosen[tuple(sorted(wider[k]))] = None
        while len(chosen) < most:
            chosen[tuple(sorted(self.source.choice(m, count, replace=False).tolist()))] = None
        return list(chosen)

    def _priced(self, groups: list[tuple[int, ...]], worth: FloatArray) -> Iterator[tuple[float, Question]]:
        """Yield the best question of every group with its promised gain, best first."""
        count = len(groups[0])
        choices = [_subset_sizes(int(r), count, self.total) for r in self.workload.sizes]
        balls = count > MOST_ATTRIBUTES and not (self.whole and count == self.workload.m)
        most = max(1, (_CANDIDATES >> max(0, count - MOST_ATTRIBUTES)) // len(groups))
        # the number of the group and the subset sizes of each candidate
        of: list[int] = []
        sizes: list[tuple[int, ...]] = []
        for g, group in enumerate(groups):
            each = [choices[i] for i in group]
            some = set(product(*each)) if math.prod(map(len, each)) <= most else self._drawn(each, most)
            of += [g] * len(some)
            sizes += sorted(some)
        wanted, (subsets, places) = np.zeros((1 << count, len(groups))), self._places(groups)
        wanted[subsets] = np.where(places >= 0, worth[places], 0.0)
        kappa = np.asarray(sizes).T / self.workload.sizes[np.asarray(groups)[of]].T
        gain, step = math.expm1(self.total), max(1, _BATCH >> count)
        parts = [slice(start, start + step) for start in range(0, len(of), step)]
        tasks = ((kappa[:, part], wanted[:, of[part]], gain) for part in parts)
        priced = [_of_balls(*task) if balls else _climbed(*task, self.source) for task in tasks]
        value, likely = (np.concatenate(each, axis=-1) for each in zip(*priced, strict=True))
        seen: set[int] = set()
        for k in np.argsort(-value, kind="stable").tolist():
            if of[k] not in seen:
                seen.add(of[k])
                report = SubsetReport(sizes[k], tuple(np.flatnonzero(likely[:, k]).tolist()))
                yield float(value[k]), Question(groups[of[k]], report)

    def _drawn(self, choices: list[list[int]], most: int) -> set[tuple[int, ...]]:
        """Sample some subset sizes from the choices of each attribute."""
        drawn = self.source.integers([len(ks) for ks in choices], size=(most, len(choices))).tolist()
        some = {tuple(ks[k] for ks, k in zip(choices, row, strict=True)) for row in drawn}
        if self.whole:
            some |= {tuple(ks[0] for ks in choices), tuple(ks[-1] for ks in choices)}
        return some

    def thinned(self, shares: FloatArray) -> FloatArray:
        """Reduce the questions to about as many as there are effects.

        The new proportions give no effect less energy.
        """
        from scipy.optimize import linprog  # noqa: PLC0415 (slow to import)

        kept = np.flatnonzero(shares > _LEAST_SHARE)
        if self.needs.size > _THINNED or kept.size <= self.needs.size:
            return np.where(shares > _LEAST_SHARE, shares, 0.0)
        energies = self.energies()[kept]
        held = energies.T @ shares[kept]
        # of all shares that give each effect what it has, the smallest sum; a vertex has no more positive shares than
        # effects
        vertex = linprog(
            np.ones(kept.size), A_ub=-(energies.T / held[:, None]), b_ub=-np.ones(held.size), method="highs-ds"
        )
        out = np.zeros(shares.size)
        out[kept] = vertex.x if vertex.status == 0 else shares[kept]
        return np.where(out > _LEAST_SHARE * out.sum(), out, 0.0)

    def mixture(self, shares: FloatArray) -> MixedQuestions:
        """Return the questions found, without those of proportion 0."""
        asked = np.flatnonzero(shares > 0)
        share = np.zeros(shares.size)
        share[asked] = shares[asked] / shares[asked].sum()
        questions = list(self.questions)
        return MixedQuestions(tuple(questions[k] for k in asked), share[asked], self.error(share))


def climbed_shares(
    energies: sp.csr_array,
    parts: sp.csr_array,
    before: FloatArray | None,
    exponents: Sequence[float],
    options: Mapping[str, float],
) -> FloatArray:
    """Minimize a power mean of the errors parts·(1/E) over the proportions π.

    E = energiesᵀ π; the search starts from the proportions of the first questions.

    Each of the exponents starts where the one before ended; ``options`` are those of L-BFGS-B.
    """
    from scipy.optimize import minimize  # noqa: PLC0415 (slow to import)

    across, back, count = sp.csr_array(energies.T), sp.csr_array(parts.T), energies.shape[0]
    z = np.full(count, 1e-3 if before is not None else 1.0) / math.sqrt(count)
    if before is not None:
        z[: before.size] += np.sqrt(before)
    # the mean does not depend on the scale of z, and the first step, of length 1, must not take all of a share away
    z *= _FAR / np.linalg.norm(z)

    def objective(z: FloatArray, exponent: float) -> tuple[float, FloatArray]:
        # the mean times Σπ does not depend on the scale of π = z², which needs no constraints
        share = z * z
        held = np.maximum(across @ share, _NOTHING)
        errors = parts @ (1 / held)
        top, size = float(errors.max()), float(share.sum())
        powers = (errors / top) ** exponent
        weights = powers / powers.sum() / errors
        slope = 2 * z * (1 / size - energies @ ((back @ weights) / held**2))
        return math.log(top) + math.log(powers.sum()) / exponent + math.log(size), slope

    for exponent in exponents:
        z = minimize(objective, z, (exponent,), jac=True, method="L-BFGS-B", options=options).x
    return np.asarray(z**2 / np.sum(z**2))


def _subset_sizes(size: int, count: int, total: float) -> list[int]:
    """List candidate subset sizes of an attribute of ``size`` categories.

    One category, a quarter and half of them, and the best size if every match alone had a factor e^{ε/count}.
    """
    share = round(size / (1 + math.exp(total / count)))
    return sorted({max(1, min(size // 2, k)) for k in (1, size // 4, size // 2, share)})


def _climbed(
    kappa: FloatArray, worth: FloatArray, gain: float, source: np.random.Generator
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Maximize Σ u_S e_S over likely patterns by ascent, for B groups.

    Returns the largest sums, shape (B,), and the likely patterns, (2^t, B).
    """
    count, width = kappa.shape
    best, chosen = np.zeros(width), np.zeros(worth.shape, dtype=np.bool_)
    starts = max(_STARTS, _CLIMBS // width >> max(0, count - MOST_ATTRIBUTES))
    # many starts at once, for with few groups each of them would be a few numbers
    step = max(1, _BATCH // worth.size)
    for first in range(0, starts, step):
        many = min(step, starts - first)
        # all effects alike, all against, then at random
        signs = [np.full(worth.shape, sign) for sign in (1.0, -1.0)[first : first + many]]
        signs += list(source.uniform(-1, 1, (many - len(signs), *worth.shape)))
        of, weights = np.tile(kappa, many), np.tile(worth, many)
        likely = _threshold(chances(of), at_patterns(of, np.sqrt(weights) * np.concatenate(signs, axis=1)), gain)
        for turn in range(_TURNS):
            response = responses(of, likely, gain)
            direction = weights * response
            value = np.sum(direction * response, axis=0)
            if turn < _TURNS - 1:
                likely = at_patterns(of, direction) > value
        for k in range(many):
            part = slice(k * width, (k + 1) * width)
            better = value[part] > best * (1 + 1e-12)
            best[better], chosen[:, better] = value[part][better], likely[:, part][:, better]
    return best, chosen


def _of_balls(kappa: FloatArray, worth: FloatArray, gain: float) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Maximize Σ u_S e_S over the patterns of at least some number of matches.

    The number decreases from all matches to where the next number is worse.
    """
    matches = np.asarray([pattern.bit_count() for pattern in range(len(worth))])
    best, chosen = np.zeros(kappa.shape[1]), np.zeros(worth.shape, dtype=np.bool_)
    for least in range(len(kappa), 0, -1):
        likely = np.broadcast_to((matches >= least)[:, None], worth.shape)
        value = np.sum(worth * responses(kappa, likely, gain) ** 2, axis=0)
        better = value > best
        if not better.any():
            break
        best[better], chosen[:, better] = value[better], likely[:, better]
    return best, chosen


def _threshold(chance: FloatArray, score: FloatArray, gain: float) -> NDArray[np.bool_]:
    """Select the patterns of the largest scores, shape (2^t, B).

    Their number gives the largest mean of score × density.
    """
    level = np.zeros(score.shape[1])
    while True:
        # the mean with the patterns above a level is a level with a larger mean (Dinkelbach)
        likely = score > level
        held = np.where(likely, chance, 0.0)
        before, level = level, gain * np.sum(held * score, axis=0) / (1 + gain * np.sum(held, axis=0))
        if not (level > before * (1 + 1e-12)).any():
            return likely
