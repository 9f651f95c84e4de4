"""A certified lower bound on the error of any ε-LDP mechanism, with its multipliers as plain values for files.

Readers recompute the bound from them (:mod:`optrr_solvers.allocation.delsarte`); so does
``proofs/check_any_mechanism.py``, in exact rationals and without the limits of energies.
"""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from optrr_solvers.allocation.any_mechanism import FEW_CELLS, best_multipliers
from optrr_solvers.allocation.delsarte import Multipliers, delsarte_program
from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.errors import InvalidProblem
from optrr_solvers.partition import singles
from optrr_solvers.problem import EPSILON_RANGE
from optrr_solvers.threads import one_thread

# Effects of tables, each counted in every table, that are listed in a second: all pairs of 128 attributes.
_MOST_LISTED = 1 << 15
# Weights and multipliers that are used, so that none of their products overflows.
_NUMBERS = 1e-100, 1e100
# Relative rounding of what is stated, so that another machine's last places prove it, too.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class ShareMultipliers:
    """Multipliers β and y of each pattern, for all p or for one p = j/N.

    A pattern is given by its number of members in every group.
    """

    beta: float
    patterns: list[tuple[list[int], float]]


@dataclass(frozen=True)
class ErrorCertificate:
    """Lower bound of the error of every ε-LDP mechanism, with its multipliers.

    Σ weight n E‖π̂_U − π_U‖² is at least ``bound`` for tables U, under every mechanism of this total ε in nats.

    ``groups`` are attributes among which a pattern's members are counted; ``limits`` the numbers of
    :func:`optrr_solvers.allocation.delsarte.energy_limits` that have a multiplier, with it.
    """

    sizes: list[int]
    tables: list[list[int]]
    weights: list[float]
    total: float
    groups: list[list[int]]
    sets: list[ShareMultipliers]
    limits: list[tuple[int, float]]
    bound: float

    def proved(self) -> float:
        """Compute the bound that the multipliers prove, rounded down.

        Raises InvalidProblem if the multipliers are invalid.
        """
        used = sorted(i for group in self.groups for i in group)
        positive = [*self.weights, self.total, *(s.beta for s in self.sets)]
        numbers = [*positive, *(z for _, z in self.limits), *(y for s in self.sets for _, y in s.patterns)]
        if (
            not used
            or used != sorted({i for table in self.tables for i in table})
            or not 0 <= used[0] <= used[-1] < len(self.sizes)
            or not all(
                _NUMBERS[0] <= x <= _NUMBERS[1] or (x == 0 and k >= len(positive)) for k, x in enumerate(numbers)
            )
            or len(self.weights) != len(self.tables)
            or any(k < 0 for k, _ in self.limits)
            or self.total < EPSILON_RANGE[0]
        ):
            raise InvalidProblem("the bound's tables, groups or multipliers are not valid; allocate again")
        workload = listed(self.sizes, self.tables, self.weights)
        groups = tuple(np.asarray(group, dtype=np.int64) for group in self.groups)
        program = delsarte_program(workload, self.total, groups=groups)
        shape = [g.size + 1 for g in groups]
        if len(self.sets) != 1 and not len(self.sets) == program.cells // 2 <= FEW_CELLS // 2:
            raise InvalidProblem(
                "the bound needs one set of multipliers, or one for each share p = j/N up to 1/2; allocate again"
            )
        y = np.zeros((len(self.sets), math.prod(shape)))
        beta, z = np.asarray([s.beta for s in self.sets]), np.asarray([z for _, z in self.limits])
        try:
            for row, one in zip(y, self.sets, strict=True):
                for members, value in one.patterns:
                    row[np.ravel_multi_index(tuple(members), shape)] = value
            chosen = program.choosing(np.asarray([k for k, _ in self.limits], dtype=np.int64))
            return chosen.proved(Multipliers(beta, y[:, 1:], z))
        except (ValueError, IndexError, ArithmeticError, TypeError) as error:
            raise InvalidProblem(
                "the bound's multipliers underflow, or name an unknown pattern or limit; allocate again"
            ) from error


def listed(sizes: list[int], tables: list[list[int]], weights: list[float]) -> TableWorkload:
    """Build a workload without classes.

    Raises InvalidProblem if it is too large for a certificate.
    """
    if sum(1 << min(len(table), 64) for table in tables) > _MOST_LISTED:
        raise InvalidProblem(
            f"the tables have more than {_MOST_LISTED} effects, too many for a certificate; leave out tables or attributes"
        )
    every = tuple(tuple(table) for table in tables)
    return TableWorkload(np.asarray(sizes, dtype=np.int64), singles(len(sizes)), every, np.asarray(weights))


@one_thread
def error_certificate(
    sizes: list[int], tables: list[list[int]], weights: list[float], total: float
) -> ErrorCertificate:
    """Compute the best bound of the multipliers found, as a certificate.

    Raises InvalidProblem if the tables are too many for a certificate.
    """
    program = delsarte_program(listed(sizes, tables, weights), total)
    found = best_multipliers(program)
    members = [list(m) for m in product(*(range(g.size + 1) for g in program.groups))][1:]
    # above every Y_S in rationals, too
    beta = np.maximum(found.beta, (found.y @ program.guards.T).max(axis=1)) * (1 + _ROUNDING)
    sets = [
        ShareMultipliers(float(b), [(members[k], float(y[k])) for k in np.flatnonzero(y > _NUMBERS[0])])
        for b, y in zip(beta, found.y, strict=True)
    ]
    limits = [(int(program.chosen[k]), float(found.z[k])) for k in np.flatnonzero(found.z > _NUMBERS[0])]
    bound = program.proved(Multipliers(beta, found.y, found.z)) * (1 - 4 * _ROUNDING)
    groups = [g.tolist() for g in program.groups]
    return ErrorCertificate(sizes, tables, weights, total, groups, sets, limits, bound)
