"""The best law for a linear goal: maximise E_ν[h] over laws of total ε at most E, and a bound that no such law exceeds.

With y = 1/(e^E − 1) a law is ν = z μ (1 + t/y), 0 ≤ t ≤ 1, z = y/(y + E_μ t). Where E_μ h = 0 its goal is
E_μ[t h]/(y + E_μ t), a fractional knapsack: t = 1 where h > v, 0 elsewhere, with v the root of

    φ(v) = E_μ[(h − v)⁺] − y v = 0,

and any v with φ(v) ≤ 0 bounds the goal of every law. v is found by Dinkelbach's iteration, which climbs to the root in a
few passes. Caps on the conditional ε tie cells together; then the goal is a linear program, solved by HiGHS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from optrr_solvers.allocating.effects import EffectLattice
from optrr_solvers.allocating.problem import AllocationProblem
from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import MethodTooLarge
from optrr_solvers.programs import backend
from optrr_solvers.programs.backend import LinearProgram

# Programs with caps have m 2^m rows and are solved some dozens of times.
MAX_CAPPED_CELLS = 1 << 9
# HiGHS's multipliers may break their constraints by 1e-10 in scaled units; the bound is widened by more than that.
_LP_SLACK = 1e-8


@dataclass(frozen=True, eq=False)
class Atom:
    """A law of total ε at most E: ν = μ (uniform + excess), both ≥ 0, excess ≤ (e^E − 1) uniform."""

    uniform: float
    excess: FloatArray

    def mass(self, mu: FloatArray) -> FloatArray:
        """ν, shape of ``mu``."""
        return np.asarray(mu * (self.uniform + self.excess))


@dataclass(frozen=True, eq=False)
class KnapsackOracle:
    """All laws of total ε at most E; exact, a few passes over the cells."""

    mu: FloatArray
    total: float

    def best(self, h: FloatArray) -> tuple[float, Atom]:
        """Bound and law; the bound is the smallest v seen with φ(v) ≤ 0, up to rounding."""
        y = 1 / math.expm1(self.total)
        value = 0.0
        while True:
            inside = h > value
            mass = float(self.mu[inside].sum())
            raised = float(self.mu[inside] @ h[inside]) / (y + mass)
            # each pass can only raise the value; it stops rising when the set no longer changes
            if not raised > value * (1 + 2.0**-50):
                break
            value = raised
        return value, Atom(y / (y + mass), inside / (y + mass))


class CappedOracle:
    """Laws of total ε at most E with capped conditional ε: a linear program over all cells, classes of one attribute."""

    def __init__(self, lattice: EffectLattice, problem: AllocationProblem) -> None:
        if lattice.cells > MAX_CAPPED_CELLS or any(c.size > 1 for c in lattice.classes):
            raise MethodTooLarge(
                f"conditional caps take up to {int(math.log2(MAX_CAPPED_CELLS))} attributes in an allocation, got "
                f"{lattice.workload.m}; drop the caps or split the record"
            )
        self.mu, self.total = lattice.mu, problem.total
        caps = problem.cap[[int(c[0]) for c in lattice.classes]]
        self._rows = cap_rows(lattice.shape, caps, problem.total)

    def best(self, h: FloatArray) -> tuple[float, Atom]:
        """Bound (to HiGHS's tolerance) and law, whose caps and total hold to rounding after a touch of uniform answers."""
        n = self.mu.size
        flat = self.mu.ravel()
        # columns: q_S and their maximum; q between e^−E times it and it, mean 1
        spread = math.exp(-self.total)
        box = sp.hstack([sp.eye_array(n), sp.csr_array(np.full((n, 1), -spread))])
        top = sp.hstack([-sp.eye_array(n), sp.csr_array(np.ones((n, 1)))])
        caps = sp.hstack([self._rows, sp.csr_array((self._rows.shape[0], 1))])
        scale = 1 / float(flat.max())
        mean = sp.csr_array(np.append(flat * scale, 0.0)[None, :])
        matrix = sp.csc_array(sp.vstack([box, top, caps, mean]))
        height = max(float(np.abs(h).max()), 1e-300)
        lower = np.zeros(matrix.shape[0])
        lower[-1] = 1.0
        upper = np.full(matrix.shape[0], np.inf)
        upper[-1] = 1.0
        program = LinearProgram(
            cost=-np.append(flat * scale * h.ravel() / height, 0.0),
            matrix=matrix,
            row_lower=lower,
            row_upper=upper,
            lower=np.zeros(n + 1),
            upper=np.full(n + 1, np.inf),
        )
        answer = backend.solve(program, method="allocate")
        q = np.maximum(answer.values[:n], 0)
        q /= float(q @ flat)
        bound = float((q * flat) @ h.ravel()) + _LP_SLACK * height
        low = float(q.min())
        return bound, Atom(low, (q - low).reshape(h.shape))


# Finds the best law for h, shape of the lattice, with E_μ h = 0.
Oracle = KnapsackOracle | CappedOracle


def cap_rows(shape: tuple[int, ...], caps: FloatArray, total: float) -> sp.csr_array:
    """e^η q_other − q_capped ≥ 0, divided by e^η, in both directions for every step; caps above the total are no caps."""
    m, cells = len(shape), np.arange(math.prod(shape))
    blocks = []
    for i in np.flatnonzero(caps < total):
        stride = 1 << (m - 1 - int(i))
        low = cells[(cells // stride) % 2 == 0]
        for capped, other in ((low, low + stride), (low + stride, low)):
            row = np.arange(low.size)
            values = np.concatenate([np.ones(low.size), np.full(low.size, -math.exp(-caps[i]))])
            places = (np.concatenate([row, row]), np.concatenate([other, capped]))
            blocks.append(sp.coo_array((values, places), shape=(low.size, cells.size)))
    return sp.csr_array(sp.vstack(blocks)) if blocks else sp.csr_array((0, cells.size))
