"""The best ε_i for a given total, for any number of attributes: a search over the certified design solver (design §3.7).

Fixed ratios of ε_i scale to a total by a one-dimensional search, because the smallest total grows with every ε_i. The
ratios then descend along the weights of the design's certificate. Where a certificate with weights w proves that flips with
w·f' ≤ w·f need more than E, every law of total at most E has w·f' > w·f, that is

    Σ_i w_i d_i λ_i < Σ_i w_i (d_i − f_i)                                                        (cut)

(design §3.3, dual). The laws' λ form a convex set and the cuts bound it from outside, so the next ratios are those that
minimise the workload's error subject to all cuts so far (Kelley's method, :mod:`optrr_solvers.allocation.bound`). For one-way
tables that minimum is a lower bound for every mechanism of that total. Where tables of several attributes meet kept pairs or
caps, their errors are moved onto the λ_i by ∂F/∂λ_i at the current law, and nothing is bounded here.
"""

import time
from dataclasses import dataclass, replace

import numpy as np

from optrr_solvers.allocation.bound import Cut, minimum_under_cuts
from optrr_solvers.allocation.problem import AllocatedLaw, AllocationProblem, Pairs
from optrr_solvers.allocation.split import best_split, single_blocks
from optrr_solvers.allocation.workload import eigenvalues_of
from optrr_solvers.arrays import FloatArray
from optrr_solvers.auto import solve as design
from optrr_solvers.calibrate import TOLERANCE as TOTAL_TOLERANCE
from optrr_solvers.calibrate import calibrate
from optrr_solvers.certificates.certificate import Certificate, lower_bound
from optrr_solvers.errors import Infeasible, InvalidCertificate, MethodTooLarge, SolveFailed
from optrr_solvers.problem import EPSILON_RANGE, Problem
from optrr_solvers.solution import Solution

# While ratios are still searched, totals are met only to this, relatively: the error of the workload is then off by as much.
_ON_THE_WAY = 2e-4
# Relative gap to stop at, and profiles tried at most.
_TOLERANCE = 1e-3
_ROUNDS = 40
# The search ends after this many rounds without an improvement of a quarter of the tolerance.
_IDLE_ROUNDS = 5


@dataclass(frozen=True, eq=False)
class Family:
    """Design problems along a ray of ε_i: which pairs each keeps, and what solves them."""

    problem: AllocationProblem
    pairs: Pairs = ()
    kappa: float = 1.0

    def at(self, epsilons: FloatArray) -> Problem:
        """The design problem with these ε_i, kept within the supported range."""
        caps = np.maximum(self.problem.cap, EPSILON_RANGE[0]) if self.problem.capped else None
        inside = np.clip(epsilons, *EPSILON_RANGE)
        if caps is not None:
            inside = np.minimum(inside, caps)
        sizes = self.problem.workload.sizes
        return Problem(sizes, inside, pairs=self.pairs, kappa=self.kappa, caps=caps, names=self.problem.names)

    def limited(self, epsilons: FloatArray) -> FloatArray:
        """The same ε_i within floors and ceilings."""
        low, high = EPSILON_RANGE
        return np.clip(epsilons, np.maximum(self.problem.floor, low), np.minimum(self.problem.ceiling, high))

    def solve(self, epsilons: FloatArray) -> Solution:
        """The design for these ε_i."""
        return design(self.at(self.limited(epsilons)))


def solve(problem: AllocationProblem, pairs: Pairs = ()) -> AllocatedLaw:
    """The most accurate law of all profiles tried, with its design; ``pairs`` stay as visible as under Kronecker at its ε_i.

    For one-way tables and no pairs the bound holds for every mechanism of that total; otherwise it is the trivial one. Cost:
    a handful of designs a round.

    Raises
    ------
    Infeasible
        where the floors need more than the total; the message says how much.
    MethodTooLarge, SolveFailed
        from the design solver.
    """
    return _ProfileSearch(Family(problem, pairs)).run(time.perf_counter())


def scaled_to_total(
    family: Family, ratios: FloatArray, guess: float = 1.0, tolerance: float = TOTAL_TOLERANCE
) -> tuple[Solution, float]:
    """The design with ε_i = s · ratios whose total is within ``tolerance`` below E, and s. Limits bend the ray.

    Where even the ceilings leave the total unused, the design at the ceilings. Raises Infeasible where the floors need more.
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
            f"the floors need a total epsilon of {least:.6g}, more than {total:g}; raise the total or lower a floor"
        ) from reason
    return calibrated.solution, calibrated.scale


class _ProfileSearch:
    """The profiles tried, the cuts found, the best law."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.problem, self.workload = family.problem, family.problem.workload
        if self.problem.capped and self.workload.m > 10:
            raise MethodTooLarge(f"conditional caps take up to 10 attributes, got {self.workload.m}; drop the caps")
        self.rounds, self.idle = 0, 0
        # these are cuts of all laws; with preserved pairs, tangents that hold only near the law where they were taken
        self.steers: list[Cut] = []
        limits = np.stack(
            [self.workload.sizes, np.nan_to_num(self.problem.floor), np.nan_to_num(self.problem.ceiling)], 1
        )
        _, self.kind = np.unique(limits, axis=0, return_inverse=True)
        self.uniform_flips = 1 - 1 / self.workload.sizes
        self.best: tuple[float, Solution] | None = None
        self.lower = float(self.workload.coefficients.sum())

    def run(self, started: float) -> AllocatedLaw:
        # Kronecker's best split, without limits: scaling applies them
        split = best_split(self.workload, single_blocks(self.workload), self.problem.total)
        ratios, scale = np.maximum(split.epsilons, EPSILON_RANGE[0]), 1.0
        for _ in range(_ROUNDS):
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
            # with preserved pairs the cuts hold too, but say little
            cut = self._steer(solution) if self.family.pairs else self._cut(solution)
            if cut is None:
                break
            self.steers.append(cut)
            assert self.best is not None
            profile = self._outer(solution)
            self.problem.report(self.best[0], self.lower)
            if self.best[0] - self.lower <= _TOLERANCE * self.best[0] or self.idle > _IDLE_ROUNDS:
                break
            # ε_i = ln(1 + r λ/(1−λ)), within the supported range
            inside = np.clip(profile, 0, 1 - 1e-16)
            following = np.clip(np.log1p(self.workload.sizes * inside / (1 - inside)), *EPSILON_RANGE)
            if np.allclose(following, scale * ratios, rtol=1e-9):
                break
            ratios, scale = following, 1.0
        return self._answer(started)

    def _record(self, solution: Solution) -> None:
        lam = self.workload.eigenvalues(solution.law)
        error = self.workload.error(lam) if np.all(lam > 0) else np.inf
        gained = self.best is None or error < self.best[0] * (1 - _TOLERANCE / 4)
        self.idle = 0 if gained else self.idle + 1
        if self.best is None or error < self.best[0]:
            self.best = (error, solution)

    def _cut(self, solution: Solution) -> Cut | None:
        """The cut that the design's certificate proves at total E; None where there is no certificate."""
        if solution.certificate is None:
            return None
        plain = Certificate(solution.certificate.classes, solution.certificate.weights)
        # per attribute, the largest 1
        top, weights = max(plain.weights) or 1, np.zeros(self.workload.m)
        for members, w in zip(plain.classes, plain.weights, strict=True):
            weights[list(members)] = w / top
        ray = solution.problem.epsilons
        goal = self.problem.total
        low, high = 1.0, 1.0
        try:
            while lower_bound(self._plain(high * ray), plain) <= goal:
                low, high = high, high * 1.02
                if high > 64:
                    return None
            while high - low > 1e-7 * high:
                middle = 0.5 * (low + high)
                if lower_bound(self._plain(middle * ray), plain) > goal:
                    high = middle
                else:
                    low = middle
        except (InvalidCertificate, ValueError):
            return None
        gaps = self._plain(high * ray).gaps
        scale = float(weights @ self.uniform_flips)
        normal = self._averaged(weights * self.uniform_flips / scale)
        return Cut(normal, float(weights @ gaps) / scale * (1 + 1e-12))

    def _averaged(self, normal: FloatArray) -> FloatArray:
        """The mean over exchanges of attributes of one size and limits: each exchanged cut holds, so their mean does."""
        sums = np.bincount(self.kind, weights=normal)
        return np.asarray((sums / np.bincount(self.kind))[self.kind])

    def _steer(self, solution: Solution) -> Cut:
        """The tangent at the current law of the surface of constant total: w_i d_i + κ Σ_j v_ij (r_i−1)(r_j−1) λ_j."""
        certificate = solution.certificate
        if certificate is None:
            raise SolveFailed("no certificate steers the search for accuracies at this total; ask for a smaller one")
        m, sizes, lam = self.workload.m, self.workload.sizes, solution.problem.eigenvalues
        normal = np.zeros(m)
        for members, w in zip(certificate.classes, certificate.weights, strict=True):
            normal[list(members)] = float(w) * self.uniform_flips[list(members)]
        for a, b, v in certificate.pairs:
            for i in certificate.classes[a]:
                for j in certificate.classes[b]:
                    if i < j or (a != b and i != j):
                        each = float(v) * solution.problem.kappa * float((sizes[i] - 1) * (sizes[j] - 1))
                        normal[i] += each * lam[j]
                        normal[j] += each * lam[i]
        normal = self._averaged(normal / normal.sum())
        return Cut(normal, float(normal @ solution.law.one_way_eigenvalues()))

    def _plain(self, epsilons: FloatArray) -> Problem:
        return Problem(self.workload.sizes, np.clip(epsilons, *EPSILON_RANGE))

    def _outer(self, solution: Solution) -> FloatArray:
        """Best λ_i subject to all cuts, shape (m,); raises the lower bound of F on the way."""
        low = eigenvalues_of(self.workload.sizes, np.maximum(self.problem.floor, EPSILON_RANGE[0]))
        # no ε_i exceeds the total
        most = min(self.problem.total, EPSILON_RANGE[1])
        high = eigenvalues_of(self.workload.sizes, np.minimum(self.problem.ceiling, most))
        # the set of laws that preserve pairs is not convex, so that only the latest tangent is used, and it bounds nothing
        cuts = self.steers[-1:] if self.family.pairs else self.steers
        profile, value = minimum_under_cuts(self._effective(solution), cuts, low, high)
        if not self.family.pairs and all(len(w) == 1 for w in self.workload.effects):
            self.lower = max(self.lower, value)
        return profile

    def _effective(self, solution: Solution) -> FloatArray:
        """a_i with −2 a_i/λ_i³ = ∂F/∂λ_i where λ_W moves like Π λ_i: a_i = λ_i² Σ_{W∋i} C_W/λ_W² / |class|."""
        lam = self.workload.eigenvalues(solution.law)
        one = solution.law.one_way_eigenvalues()
        # an effect that the law hides counts as under Kronecker
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
                "search: every law found hides an effect of the workload; keep pairs, or use method 'lattice'"
            )
        law = AllocatedLaw.of(self.problem, "search", solution.law, self.lower, started, self.rounds)
        return replace(law, design=solution)
