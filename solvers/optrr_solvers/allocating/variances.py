"""The least total ε at which one random question a person estimates every attribute with a required variance (design §3.9).

Randomized response at ε_i has the energy t_i = (r_i − 1) λ_i² on attribute i, and n times the summed variance of unbiased
estimates is (r_i − 1)²/e_i over r_i, so that shares π of questions a are as accurate on every attribute where

    min_i Σ_a π_a e_i(a)/t_i ≥ 1.

At a given total the best shares are a linear program, whose multipliers y (y ≥ 0, Σ y = 1) bound it: no shares of any questions
have more than max_a Σ_i y_i e_i(a)/t_i. A question of a larger sum than the program's value helps, so the search adds questions
and lowers the total by turns. Of a question about a group of attributes with subsets of k_i categories

    e_i(a) = (g/(1 + g p))² c_i,      c_i = (Σ_{z likely} P(z) φ_i(z))²,      p = Σ_{z likely} P(z),      g = e^ε − 1,

grows with ε by the same factor for every i, and ln e_i at a rate of at most that of 2 ln(1 − e^{−ε}) where ε falls. That turns
what questions promise at a total into a bound on the totals at which they could do.

Which patterns z are likely is climbed as in :mod:`optrr_solvers.allocating.mixture`, with the gain that matters here, of single
attributes, compared at every threshold. Groups grow by one attribute at a time from the most promising ones.

Letters: π share, t required energy, y multiplier, κ chance of a match, φ an attribute's effect, g = e^ε − 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from optrr_solvers.allocating.questions import Question, SubsetReport
from optrr_solvers.allocating.workload import eigenvalues_of
from optrr_solvers.arrays import FloatArray, IntArray

# Questions about up to so many attributes are looked at: a report on more has too many patterns of matches.
MOST_ATTRIBUTES = 8
# Groups kept of each number of attributes, candidates looked at from them, and questions that a round adds for each attribute.
_KEPT, _CANDIDATES, _ADDED = 40, 500, 2
# Rounds, turns of a climb, and its starts.
_ROUNDS, _TURNS, _STARTS = 40, 6, 3
# The search ends where no question promises more than this share; relative. Shares below the second are left out.
TOLERANCE, _LEAST_SHARE = 1e-4, 1e-9
# The total is found to this, relative, and rounded up by it.
_ROUNDED = 1e-9


@dataclass(frozen=True, eq=False)
class SufficientQuestions:
    """Questions with shares, shape (questions,), whose energies are at least what is required at ``total``, in nats.

    ``least`` is a total, in nats, below which no mixture of all questions that some round looked at is so accurate. It is no
    bound for others: that is :func:`optrr_solvers.allocating.energy.total_bound`.
    """

    questions: tuple[Question, ...]
    shares: FloatArray
    total: float
    least: float


def required_energies(sizes: IntArray, epsilons: FloatArray) -> FloatArray:
    """t_i = (r_i − 1) λ_i² of randomized response at ε_i in nats, shape (m,)."""
    return np.asarray((sizes - 1) * eigenvalues_of(sizes, epsilons) ** 2)


def sufficient_questions(
    sizes: IntArray, epsilons: FloatArray, most: float, progress: Callable[[float], None] | None = None
) -> SufficientQuestions | None:
    """Questions of a total of at most ``most`` that estimate attribute i as well as randomized response at ε_i.

    Parameters
    ----------
    sizes, epsilons
        r_i and ε_i in nats, shape (m,) each.
    most
        a total in nats; None is returned where no mixture that was found does with as much.
    progress
        called with the total so far.

    Questions about up to 8 attributes are looked at; the same ones for the same arguments. The total is within 1e-4 of the
    promise of all that were looked at; how near it is to that of any mechanism, ``total_bound`` says.
    """
    search = _Search(sizes.astype(np.int64), required_energies(sizes, epsilons))
    for i, r in enumerate(sizes.tolist()):
        search.add([_Candidate((i,), (k,), (1,)) for k in _subset_sizes(r, 1, most)])
    total, value, multipliers = search.least(most)
    least = 0.0
    for _ in range(_ROUNDS):
        if progress is not None:
            progress(total)
        promise, found = search.priced(total, multipliers)
        promise = max(promise, value)
        # a question's energies are smaller by at least the promise here
        least = max(least, -math.log1p(math.expm1(-total) / math.sqrt(max(promise, 1.0))))
        if promise <= value * (1 + TOLERANCE):
            break
        search.add(found)
        total, value, multipliers = search.least(total)
    return search.chosen(total, least) if value >= 1 else None


@dataclass(frozen=True, order=True)
class _Candidate:
    """A group of attributes, ascending, how many categories of each are named, and the likely patterns of matches."""

    group: tuple[int, ...]
    sizes: tuple[int, ...]
    likely: tuple[int, ...]


@dataclass(eq=False)
class _Search:
    """The questions so far, p of each, its c_i/t_i, shape (questions, m), and the best shares of the total last tried."""

    sizes: IntArray
    required: FloatArray
    candidates: dict[_Candidate, None] = field(default_factory=dict)
    p: FloatArray = field(default_factory=lambda: np.zeros(0))
    c: FloatArray = field(init=False)
    shares: FloatArray = field(default_factory=lambda: np.zeros(0))
    source: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def __post_init__(self) -> None:
        self.c = np.zeros((0, self.sizes.size))

    def add(self, new: Sequence[_Candidate]) -> None:
        """Take questions among those to draw from."""
        fresh = [c for c in dict.fromkeys(new) if c not in self.candidates]
        p, rows = np.zeros(len(fresh)), np.zeros((len(fresh), self.sizes.size))
        for row, one in enumerate(fresh):
            chance, phi = _patterns(np.asarray([one.sizes]) / self.sizes[list(one.group)])
            likely = list(one.likely)
            p[row] = chance[0, likely].sum()
            rows[row, list(one.group)] = (chance[0, likely] @ phi[0, likely]) ** 2
        self.candidates |= dict.fromkeys(fresh)
        self.p, self.c = np.concatenate([self.p, p]), np.concatenate([self.c, rows / self.required])

    def energies(self, total: float) -> FloatArray:
        """e_i/t_i of every question, shape (questions, m)."""
        return np.asarray(_factor(self.p, total)[:, None] * self.c)

    def best(self, total: float) -> tuple[float, FloatArray, FloatArray]:
        """max_π min_i Σ π e_i/t_i, its shares, and the multipliers y."""
        from scipy.optimize import linprog  # noqa: PLC0415 (slow to import)

        energies = self.energies(total)
        count, m = energies.shape
        solved = linprog(
            np.append(np.zeros(count), -1.0),
            A_ub=np.hstack([-energies.T, np.ones((m, 1))]),
            b_ub=np.zeros(m),
            A_eq=np.append(np.ones(count), 0.0)[None],
            b_eq=[1.0],
            method="highs-ds",
        )
        shares = np.where(solved.x[:count] > _LEAST_SHARE, solved.x[:count], 0.0)
        multipliers = np.maximum(-solved.ineqlin.marginals, 0.0)
        shares, multipliers = shares / shares.sum(), multipliers / multipliers.sum()
        return float((shares @ energies).min()), shares, multipliers

    def least(self, most: float) -> tuple[float, float, FloatArray]:
        """The least total up to ``most`` of the questions so far, their value there, and the multipliers; keeps the shares.

        Where the questions do not reach 1 at ``most``, it is that.
        """
        total = most
        value, self.shares, multipliers = self.best(total)
        for _ in range(_ROUNDS):
            lower = self._where_sufficient(total)
            if value < 1 or lower >= total * (1 - _ROUNDED):
                break
            total = lower
            value, self.shares, multipliers = self.best(total)
        return total, value, multipliers

    def _where_sufficient(self, total: float) -> float:
        """The least total at which these shares have what is required, rounded up; energies grow with it."""
        low, high = 0.0, total
        while high - low > _ROUNDED / 4 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if (self.shares @ self.energies(middle)).min() >= 1 else (middle, high)
        return high

    def chosen(self, total: float, least: float) -> SufficientQuestions:
        """What was found, without the questions that nobody is asked."""
        asked, questions = np.flatnonzero(self.shares > 0), list(self.candidates)
        return SufficientQuestions(
            tuple(Question(q.group, SubsetReport(q.sizes, q.likely)) for q in (questions[k] for k in asked)),
            self.shares[asked],
            total,
            min(least, total),
        )

    def priced(self, total: float, multipliers: FloatArray) -> tuple[float, list[_Candidate]]:
        """The largest Σ y_i e_i/t_i of all questions looked at, and the most promising ones of each attribute and number."""
        worth, top = multipliers / self.required, 0.0
        found: list[_Candidate] = []
        kept: list[_Candidate] = [_Candidate((), (), ())]
        for count in range(1, min(MOST_ATTRIBUTES, self.sizes.size) + 1):
            values, looked = self._climbed(self._grown(kept, count, total), worth, total)
            more = self._climbed(self._changed([looked[k] for k in np.argsort(-values)[:_KEPT]]), worth, total)
            values, looked = np.concatenate([values, more[0]]), looked + more[1]
            top = max(top, float(values.max()))
            order = np.argsort(-values, kind="stable").tolist()
            kept = [looked[k] for k in order[:_KEPT]]
            added = np.zeros(self.sizes.size, dtype=np.int64)
            for k in order:
                group = list(looked[k].group)
                if (added[group] < _ADDED).any():
                    added[group] += 1
                    found.append(looked[k])
        return top, found

    def _grown(self, kept: Sequence[_Candidate], count: int, total: float) -> list[_Candidate]:
        """Each group with one attribute more, all or some of them drawn at random."""
        pairs = [(one, i) for one in kept for i in range(self.sizes.size) if i not in one.group]
        if len(pairs) > max(_CANDIDATES, self.sizes.size):
            pairs = [pairs[k] for k in self.source.choice(len(pairs), _CANDIDATES, replace=False).tolist()]
        sizes = [_subset_sizes(int(r), count, total) for r in self.sizes]
        return list(dict.fromkeys(_joined(one, i, k) for one, i in pairs for k in sizes[i]))

    def _changed(self, kept: Sequence[_Candidate]) -> list[_Candidate]:
        """Each with one category more or fewer of one attribute, or with half of them."""
        changed: dict[_Candidate, None] = dict.fromkeys(kept)
        for one in kept:
            for place, (i, k) in enumerate(zip(one.group, one.sizes, strict=True)):
                half = int(self.sizes[i]) // 2
                for other in (k - 1, k + 1, half):
                    if 1 <= other <= half:
                        changed[_Candidate(one.group, (*one.sizes[:place], other, *one.sizes[place + 1 :]), ())] = None
        return list(changed)

    def _climbed(
        self, looked: list[_Candidate], worth: FloatArray, total: float
    ) -> tuple[FloatArray, list[_Candidate]]:
        """The largest Σ u_i e_i that was climbed to with each candidate's subsets, and the candidates with those patterns."""
        groups = np.asarray([c.group for c in looked])
        chance, phi = _patterns(np.asarray([c.sizes for c in looked]) / self.sizes[groups])
        u = worth[groups]
        best, chosen = np.full(len(looked), -1.0), np.zeros(chance.shape, dtype=np.bool_)
        for start in range(_STARTS):
            signs = (1.0, -1.0)[start] if start < 2 else self.source.uniform(-1, 1, u.shape)
            direction = np.sqrt(u) * signs
            for _ in range(_TURNS):
                value, likely, effect = _threshold(chance, phi, u, direction, total)
                better = value > best * (1 + 1e-12)
                best[better], chosen[better] = value[better], likely[better]
                direction = u * effect
        likely = (tuple(np.flatnonzero(row).tolist()) for row in chosen)
        return best, [_Candidate(c.group, c.sizes, z) for c, z in zip(looked, likely, strict=True)]


def _factor(p: FloatArray, total: float) -> FloatArray:
    """(g/(1 + g p))², without overflow."""
    return np.asarray((-math.expm1(-total) / (math.exp(-total) - math.expm1(-total) * p)) ** 2)


def _subset_sizes(size: int, count: int, total: float) -> list[int]:
    """Of r categories one, a quarter, half, and about what is best if every match alone had a factor e^{ε/count}."""
    share = size / (1 + math.exp(min(total / count, 700.0)))
    wanted = (1, size // 4, size // 2, math.floor(share), math.ceil(share))
    return sorted({max(1, min(size // 2, k)) for k in wanted})


def _joined(one: _Candidate, attribute: int, size: int) -> _Candidate:
    """The group with this attribute, too, in ascending order."""
    pairs = sorted([*zip(one.group, one.sizes, strict=True), (attribute, size)])
    return _Candidate(tuple(i for i, _ in pairs), tuple(k for _, k in pairs), ())


def _patterns(kappa: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of B groups with chances κ, shape (B, t): each pattern's chance (B, 2^t), and φ_i at each, (B, 2^t, t)."""
    t = kappa.shape[1]
    match = np.arange(1 << t)[:, None] >> np.arange(t) & 1 == 1
    chance = np.where(match, kappa[:, None], 1 - kappa[:, None]).prod(axis=2)
    odds = np.sqrt((1 - kappa) / kappa)[:, None]
    return chance, np.where(match, odds, -1 / odds)


def _threshold(
    chance: FloatArray, phi: FloatArray, u: FloatArray, direction: FloatArray, total: float
) -> tuple[FloatArray, NDArray[np.bool_], FloatArray]:
    """Of the patterns by decreasing Σ v_i φ_i, as many as make Σ u_i e_i largest: it, which, and their Σ P φ, (B, t)."""
    order = np.argsort(-(phi @ direction[:, :, None])[:, :, 0], axis=1, kind="stable")
    share = np.cumsum(np.take_along_axis(chance, order, 1), axis=1)[:, :-1]
    effect = np.cumsum(np.take_along_axis(chance[:, :, None] * phi, order[:, :, None], 1), axis=1)[:, :-1]
    value = _factor(share, total) * np.einsum("bpt,bt->bp", effect**2, u)
    last = np.argmax(value, axis=1)
    likely = np.empty(order.shape, dtype=np.bool_)
    np.put_along_axis(likely, order, np.arange(order.shape[1]) <= last[:, None], 1)
    rows = np.arange(len(last))
    return value[rows, last], likely, effect[rows, last]
