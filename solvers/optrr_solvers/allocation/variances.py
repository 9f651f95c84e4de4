"""The least total ε at which one random question a person estimates every attribute with a required variance (design §3.9).

Randomized response at ε_i has the energy t_i = (r_i − 1) λ_i² on attribute i, and n times the summed variance of unbiased
estimates is (r_i − 1)²/e_i over r_i, so that shares π of questions a are as accurate on every attribute where

    min_i Σ_a π_a e_i(a)/t_i ≥ 1.

At a given total the best shares are a linear program, whose multipliers y (y ≥ 0, Σ y = 1) bound it: no shares of any questions
have more than max_a Σ_i y_i e_i(a)/t_i. A question of a larger sum than the program's value helps, so the search adds questions
and lowers the total by turns; :mod:`optrr_solvers.allocation.promising` looks for it. The energies of a question grow with ε by
the same factor (g/(1 + g p))², g = e^ε − 1, whose logarithm grows at least as fast as 2 ln(1 − e^{−ε}). That turns what
questions promise at a total into a bound on the totals at which they could do.

Letters: π share, t required energy, y multiplier, g = e^ε − 1, p share of likely patterns, c_i = e_i without its factor.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from optrr_solvers.allocation.promising import Candidate, Promising, factor, parts, subset_sizes
from optrr_solvers.allocation.questions import Question, SubsetReport
from optrr_solvers.allocation.workload import eigenvalues_of
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import SolveFailed
from optrr_solvers.threads import one_thread

# Rounds of the search, and of each least total in it; fewer where there are many attributes, on each of which a round takes
# some milliseconds.
_ROUNDS, _FEWEST_ROUNDS, _ATTRIBUTES_LOOKED_AT = 40, 8, 2_000
# The search ends where no question promises more than this share; relative. Shares below the second are left out.
TOLERANCE, _LEAST_SHARE = 1e-4, 1e-9
# The total is found to this, relative, and rounded up by it.
_ROUNDED = 1e-9
# How much less a promise may be than it is, relative: some roundings.
_HIDDEN = 2.0**-46


@dataclass(frozen=True, eq=False)
class SufficientQuestions:
    """Questions with shares, shape (questions,), whose energies are at least what is required at ``total``, in nats.

    ``least`` is a total, in nats, below which no mixture of all questions that one round looked at is so accurate, the round
    that proves most. It is no bound for others: that is :func:`optrr_solvers.allocation.any_mechanism.total_bound`.
    """

    questions: tuple[Question, ...]
    shares: FloatArray
    total: float
    least: float


def required_energies(sizes: IntArray, epsilons: FloatArray) -> FloatArray:
    """t_i = (r_i − 1) λ_i² of randomized response at ε_i in nats, shape (m,)."""
    return np.asarray((sizes - 1) * eigenvalues_of(sizes, epsilons) ** 2)


@one_thread
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

    Raises SolveFailed where doubles do not resolve the shares: one attribute needs many orders of magnitude more than another.
    """
    search = _Search(sizes.astype(np.int64), required_energies(sizes, epsilons))
    promising = Promising(search.sizes)
    for i, r in enumerate(sizes.tolist()):
        search.add([Candidate((i,), (k,), (1,)) for k in subset_sizes(r, 1, most)])
    total, value, multipliers = search.least(most)
    least = 0.0
    for _ in range(min(_ROUNDS, max(_FEWEST_ROUNDS, _ATTRIBUTES_LOOKED_AT // sizes.size))):
        if progress is not None:
            progress(total)
        promise, more = promising.most(multipliers / search.required, total)
        promise = max(promise, value)
        if promise < 1:
            return None
        # there, every question's energies are smaller by the promise at least; what rounding hid of it is taken off
        above = math.expm1(math.log(promise) / 2)
        least = max(least, math.log1p(above) - math.log(above + math.exp(-total) + _HIDDEN))
        if promise <= value * (1 + TOLERANCE):
            break
        search.add(more)
        total, value, multipliers = search.least(total)
    return search.chosen(total, least) if value >= 1 else None


@dataclass(eq=False)
class _Search:
    """The questions so far, p of each, its c_i/t_i, shape (questions, m), and the best shares of the total last tried."""

    sizes: IntArray
    required: FloatArray
    candidates: dict[Candidate, None] = field(default_factory=dict)
    p: FloatArray = field(default_factory=lambda: np.zeros(0))
    c: FloatArray = field(init=False)
    shares: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        self.c = np.zeros((0, self.sizes.size))

    def add(self, new: Sequence[Candidate]) -> None:
        """Take questions among those to draw from."""
        fresh = [c for c in dict.fromkeys(new) if c not in self.candidates]
        p, rows = np.zeros(len(fresh)), np.zeros((len(fresh), self.sizes.size))
        for row, one in enumerate(fresh):
            p[row], rows[row, list(one.group)] = parts(one, self.sizes)
        self.candidates |= dict.fromkeys(fresh)
        self.p, self.c = np.concatenate([self.p, p]), np.concatenate([self.c, rows / self.required])

    def energies(self, total: float) -> FloatArray:
        """e_i/t_i of every question, shape (questions, m)."""
        return np.asarray(factor(self.p, total)[:, None] * self.c)

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
        if solved.status != 0:
            raise SolveFailed("the program of the questions' shares was not solved; ask for milder epsilons")
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
            lower = self._where_sufficient(total) if value >= 1 else total
            if lower >= total * (1 - _ROUNDED):
                break
            total = lower
            value, shares, multipliers = self.best(total)
            if value < 1:
                # by rounding: the shares from before have what is required here
                return total, 1.0, multipliers
            self.shares = shares
        return total, value, multipliers

    def _where_sufficient(self, total: float) -> float:
        """The least total at which these shares have what is required, rounded up; energies grow with it."""
        asked = np.flatnonzero(self.shares > 0)
        p, c, shares = self.p[asked], self.c[asked], self.shares[asked]
        low, high = 0.0, total
        while high - low > _ROUNDED / 4 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if ((shares * factor(p, middle)) @ c).min() >= 1 else (middle, high)
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
