"""The allocation problem, the minimal error of a workload at a fixed total ε, and its result.

Letters: F the workload's error, G_U a table's (:mod:`workload`), E the total ε in nats.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optrr_solvers.allocation.workload import TableWorkload, eigenvalues_of, needed_epsilon
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import Infeasible, InvalidProblem
from optrr_solvers.laws.base import Law
from optrr_solvers.problem import EPSILON_RANGE
from optrr_solvers.solution import Solution

# e^E must stay a finite double, with room for products.
MAX_TOTAL = 500.0
# How messages call a floor and a ceiling.
_LEAST, _MOST = "smallest epsilon", "largest epsilon"

# Pairs of attributes to preserve.
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class AllocationProblem:
    """A workload, the total ε, and limits on each attribute.

    Parameters
    ----------
    workload
        workload whose error is minimized.
    total
        E in nats, above 0, at most 500.
    floors, ceilings
        limits on ε_i in nats, shape (m,), equal within a class; 0 and ``inf`` for no limit.
    caps
        upper limits on the conditional ε, shape (m,), ``inf`` for no limit.
    targets
        upper limits on G_U of every table, shape (tables,), ``inf`` for no limit. On a single attribute they are floors
        on its ε.
    names
        names of the attributes for messages.
    progress
        called during the search with the workload's error so far and a lower bound.

    Raises
    ------
    InvalidProblem, Infeasible
        With the attribute and a value that would be feasible.
    """

    workload: TableWorkload
    total: float
    floors: FloatArray | None = None
    ceilings: FloatArray | None = None
    caps: FloatArray | None = None
    targets: FloatArray | None = None
    names: tuple[str, ...] = ()
    progress: Callable[[float, float], None] | None = None

    def __post_init__(self) -> None:
        least = EPSILON_RANGE[0] * self.workload.m
        if not (np.isfinite(self.total) and least <= self.total <= MAX_TOTAL):
            raise InvalidProblem(
                f"total epsilon {self.total}: out of range; for {self.workload.m} attributes give nats from {least:g} "
                f"to {MAX_TOTAL:g}"
            )
        for what, values in ((_LEAST, self.floors), (_MOST, self.ceilings), ("conditional cap", self.caps)):
            self._check(what, values)
        for what, most in ((_MOST, self.ceiling), ("conditional cap", self.cap)):
            bad = np.flatnonzero(self.floor > most)
            if bad.size:
                i = int(bad[0])
                raise Infeasible(
                    f"{self.name(i)} needs epsilon {self.floor[i]:.6g} for its {_LEAST} or accuracy, more than its "
                    f"{what} "
                    f"{most[i]:g}; allow at least {self.floor[i]:.6g}"
                )

    def _check(self, what: str, values: FloatArray | None) -> None:
        if values is None:
            return
        low = 0.0 if what == _LEAST else EPSILON_RANGE[0]
        bad = np.flatnonzero(~(np.asarray(values) >= low))
        if bad.size:
            i = int(bad[0])
            raise InvalidProblem(f"{self.name(i)} has {what} {values[i]}; give nats of at least {low:g}")

    def report(self, error: float, lower: float) -> None:
        """Report the solver's progress to the callback, if there is one."""
        if self.progress is not None:
            self.progress(error, lower)

    def name(self, i: int) -> str:
        """Return the name of attribute i for messages."""
        return f"attribute {self.names[i]!r}" if self.names else f"attribute {i}"

    def _filled(self, values: FloatArray | None, default: float) -> FloatArray:
        return np.full(self.workload.m, default) if values is None else np.array(values, dtype=np.float64)

    @cached_property
    def floor(self) -> FloatArray:
        """Floors, including those of one-way targets, shape (m,); 0 for no floor."""
        out = self._filled(self.floors, 0.0)
        for table, target in zip(self.workload.tables, self.target, strict=True):
            if len(table) == 1 and np.isfinite(target):
                members = self.workload.classes[self.workload.class_of[table[0]]]
                out[members] = np.maximum(
                    out[members], needed_epsilon(int(self.workload.sizes[table[0]]), float(target))
                )
        return out

    @cached_property
    def target(self) -> FloatArray:
        """Targets, shape (tables,), ``inf`` for no target."""
        if self.targets is None:
            return np.full(len(self.workload.tables), np.inf)
        return np.asarray(self.targets, dtype=np.float64)

    @cached_property
    def joint_targets(self) -> IntArray:
        """Numbers of the tables over several attributes that have a target."""
        several = [k for k, table in enumerate(self.workload.tables) if len(table) > 1 and np.isfinite(self.target[k])]
        return np.asarray(several, dtype=np.int64)

    @cached_property
    def ceiling(self) -> FloatArray:
        """Ceilings, shape (m,), ``inf`` for no ceiling."""
        return self._filled(self.ceilings, np.inf)

    @cached_property
    def cap(self) -> FloatArray:
        """Conditional caps, shape (m,), ``inf`` for no cap."""
        return self._filled(self.caps, np.inf)

    def limits(self, rows: int) -> tuple[FloatArray, FloatArray]:
        """Compute floors and ceilings on λ for each row of a lattice.

        Shape (rows,) each; −inf and inf for no limit.
        """
        low, high = np.full(rows, -np.inf), np.full(rows, np.inf)
        firsts = np.asarray([int(c[0]) for c in self.workload.classes])
        sizes, floor, ceiling = self.workload.sizes[firsts], self.floor[firsts], self.ceiling[firsts]
        low[-firsts.size :] = np.where(floor > 0, eigenvalues_of(sizes, floor), -np.inf)
        high[-firsts.size :] = np.where(np.isfinite(ceiling), eigenvalues_of(sizes, ceiling), np.inf)
        return low, high

    @property
    def limited(self) -> bool:
        """Whether any ε_i has a floor or a ceiling."""
        return bool((self.floor > 0).any() or np.isfinite(self.ceiling).any())

    @property
    def capped(self) -> bool:
        """Whether any conditional ε has a cap."""
        return bool(np.isfinite(self.cap).any())


@dataclass(frozen=True, eq=False)
class AllocatedLaw:
    """Noise distribution of total ε at most E, its error F, and a lower bound.

    ``lower_error`` ≤ smallest possible F ≤ ``error``. ``multipliers``: −∂F/∂λ at the solution, by effect.
    ``design``: the certified design that the law is, where the method has one.
    """

    problem: AllocationProblem
    method: str
    law: Law
    eigenvalues: FloatArray
    error: float
    lower_error: float
    multipliers: FloatArray
    seconds: float
    iterations: int
    design: Solution | None = None

    @classmethod
    def of(  # noqa: PLR0913 (what a law is judged by)
        cls, problem: AllocationProblem, method: str, law: Law, lower: float, started: float, iterations: int
    ) -> "AllocatedLaw":
        """Build the result, with eigenvalues and error recomputed from ``law``.

        ``started`` is a time of :func:`time.perf_counter`.
        """
        lam = problem.workload.eigenvalues(law)
        error = problem.workload.error(lam)
        return cls(
            problem=problem,
            method=method,
            law=law,
            eigenvalues=lam,
            error=error,
            lower_error=min(lower, error),
            multipliers=2 * problem.workload.coefficients / lam**3,
            seconds=time.perf_counter() - started,
            iterations=iterations,
        )

    @property
    def gap(self) -> float:
        """By how much, relative to the error, a better law is not excluded."""
        return max(self.error - self.lower_error, 0.0) / self.error
