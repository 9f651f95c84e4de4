"""The report on a status and a genotype with the most information on their association (theory §3.10).

A report names one of several sets of cells of the table genotype × status; set y has the probability w_y if the true
cell is outside the set and e^ε w_y if it is inside. Each output of any ε-LDP channel is a mixture of such sets, and
observing the component never reduces the information, so the best report of this form is the best of all reports on the
two.

In a population of independent genotype and status let u_δ be the score of the log odds ratio per copy of an allele, and
u_η those of the nuisance parameters: the proportion of cases and the frequencies of the genotypes. With u_y the mean of
u given y,

    I(w) = Σ_y Pr(y) u_y u_yᵀ + known,      J(w) = min_c (1, −c) I(w) (1, −c)ᵀ

is the information on δ that one report keeps; ``known`` is the information of other reports on the proportion of cases.
J is the minimum of functions linear in w, so its largest mean over populations is found by cutting planes, and each
linear program is an upper bound for all reports. The bounds of :mod:`optrr_solvers.allocation.delsarte` add nothing:
the program is over all sets of the six cells, and J in populations that are not uniform is no sum of a_S/e_S.

Letters: w weight of a set, y a set, u score, δ effect, η nuisance, c coefficients of the nuisance's scores.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optrr_solvers.arrays import FloatArray

# Proportion of answers that name one cell each, which makes all nuisance parameters identifiable.
_EVERY_CELL = 0.01
# Cutting planes end where the bound is so near, or after so many rounds; they took two to thirty.
_TOLERANCE, _ROUNDS = 1e-3, 60
# Sets of so small a weight, of a largest of 1, are rounding.
_LEAST_WEIGHT = 1e-7
_GENOTYPES = 3


@dataclass(frozen=True)
class Population:
    """Genotypes in Hardy–Weinberg proportions, independent of case status.

    ``frequency`` is the allele's, ``cases`` the proportion of cases.

    ``known``: the information of all other reports on the logit of the proportion of cases, per respondent.
    """

    frequency: float
    cases: float
    known: float = 0.0

    @property
    def chances(self) -> FloatArray:
        """Probabilities of the cells, by genotype, control before case, (6,)."""
        f = self.frequency
        genotypes = np.asarray([(1 - f) ** 2, 2 * f * (1 - f), f * f])
        return np.outer(genotypes, [1 - self.cases, self.cases]).ravel()

    @property
    def scores(self) -> FloatArray:
        """Scores of the log odds ratio, the logit of ``cases`` and the genotypes.

        The shape is (4, 6); the last two rows are the scores of the genotypes' two log odds.
        """
        copies, status = np.repeat(np.arange(3.0), 2), np.tile([0.0, 1.0], 3) - self.cases
        chance = self.chances
        one, two = ((copies == g) - float(chance[copies == g].sum()) for g in (1, 2))
        return np.stack([(copies - 2 * self.frequency) * status, status, one, two])

    @property
    def whole(self) -> float:
        """Information of a true record about the log odds ratio."""
        return 2 * self.frequency * (1 - self.frequency) * self.cases * (1 - self.cases)

    def information(self, likelihoods: FloatArray) -> FloatArray:
        """Compute the information I of a channel, including ``known``.

        ``likelihoods`` has shape (outputs, 6), the result (4, 4).
        """
        joint = likelihoods * self.chances
        seen = joint @ self.scores.T
        out = seen.T @ (seen / joint.sum(axis=1)[:, None])
        out[1, 1] += self.known
        return np.asarray(out)

    def kept(self, likelihoods: FloatArray) -> float:
        """Compute J of a channel as a proportion of the information of a true record."""
        return float(_left(self.information(likelihoods))[0]) / self.whole


@dataclass(frozen=True)
class SetReport:
    """A report that names one of these sets of cells, of this relative weight each."""

    sets: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]

    def likelihoods(self, total: float) -> FloatArray:
        """Compute the chance of naming each set, given the true cell, shape (sets, 6)."""
        holds = np.asarray([[cell in cells for cell in range(2 * _GENOTYPES)] for cells in self.sets])
        return np.asarray(self.weights)[:, None] * np.where(holds, math.exp(total), 1.0)

    def mirrored(self) -> "SetReport":
        """Return the same report for copies of the other allele."""
        turned = tuple(tuple(sorted(2 * (2 - cell // 2) + cell % 2 for cell in cells)) for cells in self.sets)
        return SetReport(turned, self.weights)


@dataclass(frozen=True)
class BestReport:
    """Report, the mean proportion of information it keeps, and the upper bound."""

    report: SetReport
    kept: float
    bound: float


def best_report(populations: Sequence[Population], total: float) -> BestReport:
    """Find the report that keeps most information on average over populations.

    The bound exceeds ``kept`` by 0.1 %, plus the cost of naming one cell in one of a hundred answers, which makes all
    parameters identifiable.
    """
    from scipy.optimize import linprog  # noqa: PLC0415 (slow to import)

    task = _CuttingPlanes(populations, total)
    count = len(populations)
    # the weights, how often a true cell is held, and of each population what is kept
    objective = np.concatenate([np.zeros(task.sets + 1), np.full(count, -1 / count)])
    best, chosen, bound = -math.inf, task.cells, math.inf
    report = chosen
    for _ in range(_ROUNDS):
        kept = task.kept(chosen)
        if kept > best:
            best, report = kept, chosen
        if bound * (1 - _EVERY_CELL) - best < _TOLERANCE * bound:
            break
        planes, offsets = task.planes(chosen)
        solved = linprog(
            objective,
            A_ub=planes,
            b_ub=offsets,
            A_eq=np.hstack([task.balance, np.zeros((2 * _GENOTYPES + 1, count))]),
            b_eq=task.balanced,
            method="highs",
        )
        if solved.x is None:
            # the report found so far and its bound are valid
            break
        bound = min(bound, -float(solved.fun) * task.scale)
        chosen = task.completed(np.asarray(solved.x))
    named = np.flatnonzero(report)
    sets = tuple(tuple(k for k in range(2 * _GENOTYPES) if (s + 1) >> k & 1) for s in named.tolist())
    return BestReport(SetReport(sets, tuple(report[named].tolist())), best, max(bound, best))


class _CuttingPlanes:
    """Cutting planes of J, with each population's scores and chances of each set.

    Set k holds the cells whose bits are set in k + 1.

    The linear program's variables are v = w (1 + g/2), g = e^ε − 1, and β, how much of v holds a true cell, whichever
    it is:

        Σ_S v_S 1[x ∈ S] = β for each cell x,      (Σ_S v_S + g β)/(1 + g/2) = 1,

    whose numbers are of ordinary size at any ε: ``balance`` (7, sets + 1) and ``balanced``. Kept information is in
    units of ``scale``, about its maximum. ``cells`` are the weights of naming one cell, by randomized response, shape
    (sets,).
    """

    def __init__(self, populations: Sequence[Population], total: float) -> None:
        numbers, cells = np.arange(1, (1 << 2 * _GENOTYPES) - 1), np.arange(2 * _GENOTYPES)
        self.populations, self.gain, self.sets = populations, math.expm1(total), numbers.size
        self.holds = (numbers[:, None] >> cells & 1).astype(np.float64)
        self.masses = [1 + self.gain * self.holds @ p.chances for p in populations]
        # the scores' means are 0, so that only what is held counts
        self.seen = [self.gain * (self.holds * p.chances) @ p.scores.T for p in populations]
        self.scale, one = (self.gain / (2 + self.gain)) ** 2, 1 + self.gain / 2
        whole = np.append(np.full(self.sets, 1 / one), self.gain / one)
        self.balance = np.vstack([np.hstack([self.holds.T, -np.ones((cells.size, 1))]), whole])
        self.balanced = np.append(np.zeros(cells.size), 1.0)
        self.cells = np.zeros(self.sets)
        self.cells[(1 << cells) - 1] = 1 / (self.gain + cells.size)
        self.rows: list[FloatArray] = []
        self.offsets: list[float] = []

    def planes(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Add the planes that touch each population's J at these weights; return all."""
        for place, population in enumerate(self.populations):
            mass, seen, unit = self.masses[place], self.seen[place], population.whole * self.scale
            information = seen.T @ ((weights / mass)[:, None] * seen)
            information[1, 1] += population.known
            taken = np.concatenate([[1.0], -_left(information)[1:]])
            row = np.zeros(self.sets + 1 + len(self.populations))
            row[: self.sets] = -((seen @ taken) ** 2) / mass / (1 + self.gain / 2) / unit
            row[self.sets + 1 + place] = 1.0
            self.rows.append(row)
            self.offsets.append(population.known * float(taken[1]) ** 2 / unit)
        return np.stack(self.rows), np.asarray(self.offsets)

    def completed(self, solution: FloatArray) -> FloatArray:
        """Remove rounding errors from weights, and add those of naming single cells.

        The result is nonzero for the sets of the solution and for each single cell, and holds each true cell equally
        often.
        """
        half, weights = 1 + self.gain / 2, solution[: self.sets]
        out = (1 - _EVERY_CELL) * np.where(weights > _LEAST_WEIGHT * weights.max(), weights, 0.0)
        out += _EVERY_CELL * half * self.cells
        named = np.append(np.flatnonzero(out), self.sets)
        known = np.append(out, float(np.mean(out @ self.holds)))[named]
        # every single cell is named, so there is a solution, and the nearest one differs by rounding
        system = self.balance[:, named]
        known = known + np.linalg.lstsq(system, self.balanced - system @ known, rcond=None)[0]
        out[named[:-1]] = np.maximum(known[:-1], 0.0)
        return np.asarray(out / half)

    def kept(self, weights: FloatArray) -> float:
        """Compute the mean proportion of the information that these weights keep."""
        named = np.flatnonzero(weights)
        channel = weights[named, None] * (1 + self.gain * self.holds[named])
        return float(np.mean([p.kept(channel) for p in self.populations]))


def _left(information: FloatArray) -> FloatArray:
    """Compute J and the minimizing c, shape (4,)."""
    nuisance, shared = information[1:, 1:], information[1:, 0]
    taken = np.linalg.solve(nuisance, shared)
    return np.concatenate([[information[0, 0] - shared @ taken], taken])
