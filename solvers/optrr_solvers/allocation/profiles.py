"""The best ε_i for a given total, for any number of attributes, by the certified design solver (theory §3.7).

Fixed ratios of ε_i scale to a total by a one-dimensional search, because the smallest total grows with every ε_i. The
first ratios are those of the best split for independent randomized response. With kept pairs many more are tried, which
may save 40 % of the error; without, the third is within 1.4 % of the best. The design's certificate gives the tangent
at the current law of the surface of constant total, and the next λ_i are those of the least error on it. Errors of
tables of several attributes are moved onto the λ_i by ∂F/∂λ_i.
"""

import time
from dataclasses import dataclass, replace

import numpy as np

from optrr_solvers.allocation.bound import Cut, lower_error, minimum_under_cut
from optrr_solvers.allocation.problem import AllocatedLaw, AllocationProblem, Pairs
from optrr_solvers.allocation.split import best_split, single_blocks
from optrr_solvers.allocation.workload import eigenvalues_of
from optrr_solvers.arrays import FloatArray
from optrr_solvers.auto import solve as design
from optrr_solvers.calibrate import TOLERANCE as TOTAL_TOLERANCE
from optrr_solvers.calibrate import calibrate
from optrr_solvers.errors import Infeasible, MethodTooLarge, SolveFailed
from optrr_solvers.problem import EPSILON_RANGE, Problem
from optrr_solvers.solution import Solution

# While ratios are still searched, totals are met only to this, relatively: the error of the workload is then off by as
# much.
_ON_THE_WAY = 2e-4
# Profiles tried at most, with kept pairs and without; the search ends after so many without an improvement of this
# share.
_ROUNDS, _FEW_ROUNDS, _IDLE_ROUNDS, _LITTLE = 40, 3, 5, 2.5e-4


@dataclass(frozen=True, eq=False)
class Family:
    """Design problems along a ray of ε_i, all with the same pairs kept."""

    problem: AllocationProblem
    pairs: Pairs = ()

    def at(self, epsilons: FloatArray) -> Problem:
        """Return the design problem with these ε_i, clipped to the supported range."""
        caps = np.maximum(self.problem.cap, EPSILON_RANGE[0]) if self.problem.capped else None
        inside = np.clip(epsilons, *EPSILON_RANGE)
        if caps is not None:
            inside = np.minimum(inside, caps)
        sizes = self.problem.workload.sizes
        return Problem(sizes, inside, pairs=self.pairs, caps=caps, names=self.problem.names)

    def limited(self, epsilons: FloatArray) -> FloatArray:
        """Limit these ε_i to floors and ceilings."""
        low, high = EPSILON_RANGE
        return np.clip(epsilons, np.maximum(self.problem.floor, low), np.minimum(self.problem.ceiling, high))

    def solve(self, epsilons: FloatArray) -> Solution:
        """Solve the design problem for these ε_i."""
        return design(self.at(self.limited(epsilons)))


def solve(problem: AllocationProblem, pairs: Pairs = ()) -> AllocatedLaw:
    """Find the most accurate distribution of all profiles tried, with its design.

    ``pairs`` keep at least the eigenvalues that they have under independent randomized response at the same ε_i.

    Cost: a handful of designs a round.

    Raises
    ------
    Infeasible
        If the floors need more than the total; the message states how much.
    MethodTooLarge, SolveFailed
        from the design solver.
    """
    return _ProfileSearch(Family(problem, pairs)).run(time.perf_counter())


def scaled_to_total(
    family: Family, ratios: FloatArray, guess: float = 1.0, tolerance: float = TOTAL_TOLERANCE
) -> tuple[Solution, float]:
    """Find the design with ε_i = s · ratios and a total within ``tolerance`` below E.

    Returns the design and s. The ε_i are clipped to their limits.

    Where even the ceilings leave the total unused, the design at the ceilings. Raises Infeasible where the floors need
    more.
    """
    total = family.problem.total
    # beyond these scales every ε_i is at a limit
    nothing, everything = family.limited(np.zeros_like(ratios)), family.limited(np.full_like(ratios, np.inf))
    scales = float(np.min(nothing / ratios)), float(np.max(everything / ratios))
    try:
        calibrated = calibrate(lambda s: family.solve(s * ratios), total, scales, guess=guess, tolerance=tolerance)
    except Infeasible as reason:
        least = family.solve(nothing).upper
        raise Infeasible(
            f"the minimum epsilons need a total of {least:.6g}, more than {total:g}; raise the total or lower a "
            "minimum epsilon"
        ) from reason
    return calibrated.solution, calibrated.scale


class _ProfileSearch:
    """The profiles tried and the best law."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.problem, self.workload = family.problem, family.problem.workload
        if self.problem.capped and self.workload.m > 10:
            raise MethodTooLarge(f"conditional caps take up to 10 attributes, got {self.workload.m}; drop the caps")
        self.rounds, self.idle = 0, 0
        limits = np.stack(
            [self.workload.sizes, np.nan_to_num(self.problem.floor), np.nan_to_num(self.problem.ceiling)], 1
        )
        _, self.kind = np.unique(limits, axis=0, return_inverse=True)
        self.best: tuple[float, Solution] | None = None

    def run(self, started: float) -> AllocatedLaw:
        # the best split for independent randomized response, without limits: scaling applies them
        split = best_split(self.workload, single_blocks(self.workload), self.problem.total)
        ratios, scale = np.maximum(split.epsilons, EPSILON_RANGE[0]), 1.0
        for _ in range(_ROUNDS if self.family.pairs else _FEW_ROUNDS):
            self.rounds += 1
            try:
                solution, scale = scaled_to_total(self.family, ratios, scale, _ON_THE_WAY)
            except SolveFailed:
                if self.best is None:
                    raise
                # the design solver fails at an extreme profile: go half the way only
                ratios = np.sqrt(ratios * self.best[1].attribute_epsilons)
                continue
            self._record(solution)
            assert self.best is not None
            self.problem.report(self.best[0], float(self.workload.coefficients.sum()))
            if self.idle > _IDLE_ROUNDS:
                break
            # ε_i = ln(1 + r λ/(1−λ)), within the supported range
            inside = np.clip(self._next(solution), 0, 1 - 1e-16)
            following = np.clip(np.log1p(self.workload.sizes * inside / (1 - inside)), *EPSILON_RANGE)
            if np.allclose(following, scale * ratios, rtol=1e-9):
                break
            ratios, scale = following, 1.0
        return self._answer(started)

    def _record(self, solution: Solution) -> None:
        lam = self.workload.eigenvalues(solution.law)
        error = self.workload.error(lam) if np.all(lam > 0) else np.inf
        gained = self.best is None or error < self.best[0] * (1 - _LITTLE)
        self.idle = 0 if gained else self.idle + 1
        if self.best is None or error < self.best[0]:
            self.best = (error, solution)

    def _averaged(self, normal: FloatArray) -> FloatArray:
        """Compute the mean over exchanges of attributes of one size and limits."""
        sums = np.bincount(self.kind, weights=normal)
        return np.asarray((sums / np.bincount(self.kind))[self.kind])

    def _steer(self, solution: Solution) -> Cut:
        """Compute the tangent of the surface of constant total at the distribution.

        Its normal is w_i d_i + κ Σ_j v_ij (r_i−1)(r_j−1) λ_j.
        """
        certificate = solution.certificate
        if certificate is None:
            raise SolveFailed("the search has no certificate at this total; give a smaller total")
        m, sizes, lam = self.workload.m, self.workload.sizes, solution.problem.eigenvalues
        normal = np.zeros(m)
        for members, w in zip(certificate.classes, certificate.weights, strict=True):
            normal[list(members)] = float(w) * (1 - 1 / sizes[list(members)])
        for a, b, v in certificate.pairs:
            for i in certificate.classes[a]:
                for j in certificate.classes[b]:
                    if i < j or (a != b and i != j):
                        each = float(v) * solution.problem.kappa * float((sizes[i] - 1) * (sizes[j] - 1))
                        normal[i] += each * lam[j]
                        normal[j] += each * lam[i]
        normal = self._averaged(normal / normal.sum())
        return Cut(normal, float(normal @ solution.law.one_way_eigenvalues()))

    def _next(self, solution: Solution) -> FloatArray:
        """Compute the best λ_i along the tangent, shape (m,)."""
        low = eigenvalues_of(self.workload.sizes, np.maximum(self.problem.floor, EPSILON_RANGE[0]))
        # no ε_i exceeds the total
        most = min(self.problem.total, EPSILON_RANGE[1])
        high = eigenvalues_of(self.workload.sizes, np.minimum(self.problem.ceiling, most))
        return minimum_under_cut(self._effective(solution), self._steer(solution), low, high)[0]

    def _effective(self, solution: Solution) -> FloatArray:
        """Compute a_i with −2 a_i/λ_i³ = ∂F/∂λ_i if λ_W moves like Π λ_i.

        a_i = λ_i² Σ_{W∋i} C_W/λ_W² / |class|.
        """
        lam = self.workload.eigenvalues(solution.law)
        one = solution.law.one_way_eigenvalues()
        # a non-identifiable effect counts as under independent randomized response
        lam = np.where(lam > 0, lam, self.workload.products(one))
        out = np.zeros(self.workload.m)
        for w, c, value in zip(self.workload.effects, self.workload.coefficients, lam, strict=True):
            for i in w:
                members = self.workload.classes[self.workload.class_of[i]]
                out[members] += c / value**2 * one[i] ** 2 / members.size
        return out

    def _answer(self, started: float) -> AllocatedLaw:
        assert self.best is not None
        self._record(scaled_to_total(self.family, self.best[1].problem.epsilons)[0])
        error, solution = self.best
        if not np.isfinite(error):
            raise SolveFailed(
                "search: an effect of the workload is non-identifiable under every distribution found; preserve "
                "pairs, or use method 'lattice'"
            )
        # the bound of all laws of that total holds with pairs and caps, too
        lower = lower_error(replace(self.problem, caps=None), solution.law)
        law = AllocatedLaw.of(self.problem, "search", solution.law, lower, started, self.rounds)
        return replace(law, design=solution)
