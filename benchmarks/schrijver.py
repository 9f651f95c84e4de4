"""A. Schrijver's semidefinite program over triples of records, as a lower bound on the error of every ε-LDP mechanism.

It sharpens Delsarte's (optrr_solvers.allocation.delsarte, whose letters are used here). Let T(x, y, z) be the chance that x, y
and z lie in A after a random permutation of every attribute's categories and of alike attributes. It depends only on the
pattern of equal categories. With p = |A|/N and f_xy = T(x, x, y) the matrices

    M = (T(0, x, y))_{x,y}     and     M' = ((1 − p, p − f_0y), (p − f_0x, f_xy − T(0, x, y)))_{x,y}

are averages of v vᵀ over A that hold 0, and that do not, so they are positive semidefinite. As v has |A| ones,
M (1 − pN 1_0) = 0 and M' (−pN, 1, …, 1) = 0. Symmetries that keep 0 split them into blocks: of n attributes with r categories,
b have a contrast of two categories other than 0, 2k are paired antisymmetrically, the others symmetric. The chance that some of
three records lie in A and the others do not is not negative either, and for binary attributes and odd |A| no w_S is below 1/N²,
since N² w_S is an odd square. A variable T is at most p, and at most (pN)² p over how many (x, y) have its pattern.
With multipliers of all these, Z = L Lᵀ for blocks, for given c_S ≥ 0,

    Σ_S c_S w_S ≤ U(p) = u_0 + u_1 p + u p²     for every A,     error ≥ (Σ_S √(a_S c_S))²/max_p min_U U(p) g²/(1 + gp)².

A. Schrijver, New code upper bounds from the Terwilliger algebra and semidefinite programming, IEEE Transactions on Information
Theory 51, 2005; D. Gijswijt, A. Schrijver, H. Tanaka, New upper bounds for nonbinary codes based on the Terwilliger algebra and
semidefinite programming, Journal of Combinatorial Theory A 113, 2006.
"""

import math
from collections import Counter
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import cvxpy as cp
import numpy as np
from scipy.optimize import linprog

from optrr_solvers.allocation.delsarte import roots
from optrr_solvers.allocation.workload import pairs
from optrr_solvers.partition import alike

# Multipliers are multiples of this; a share p is tried if it lowers the bound by more than this, relative.
UNIT, GAIN = 2.0**-32, 3e-7
PRECISE = {"solver": "CLARABEL", "tol_gap_rel": 1e-10, "tol_gap_abs": 1e-10, "tol_feas": 1e-10}
FINE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}

# For each class, how many attributes of a triple (0, x, y) have 0 = x = y, only 0 = x, only 0 = y, only x = y, all different.
Pattern = tuple[tuple[int, ...], ...]


def canonical(pattern: Pattern) -> Pattern:
    """The same for all orders of the three records."""
    return max(tuple((c[0], *(c[k] for k in order), c[4]) for c in pattern) for order in permutations((1, 2, 3)))


class Triples:
    """The program's arrays for one list of sizes. The variables are 1, p, and T of every pattern, in this order."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.workload = pairs(np.asarray(sizes), alike([np.asarray(sizes)]))
        self.records, self.classes = math.prod(sizes), sorted(Counter(sizes).items())
        self.sizes, self.members = np.array(sizes), [np.flatnonzero(np.equal(sizes, r)) for r, _ in self.classes]
        self.x = np.stack(np.unravel_index(np.arange(self.records), sizes), axis=1)
        zero, same = self.x == 0, self.x[:, None] == self.x
        kinds = np.select([zero[:, None] & zero, zero[:, None], zero, same], [0, 1, 2, 3], 4)
        numbers = np.stack([(kinds[..., own] == k).sum(axis=-1) for own in self.members for k in range(5)], axis=-1)
        rows, which = np.unique(numbers.reshape(same[..., 0].size, -1), axis=0, return_inverse=True)
        patterns = [canonical(tuple(map(tuple, row.reshape(-1, 5).tolist()))) for row in rows]
        alone = tuple((n, 0, 0, 0, 0) for _, n in self.classes)
        self.place = {p: k for k, p in enumerate(dict.fromkeys([alone, *patterns]), 1)}
        # the variables T(0, x, y) and f_xy for all records
        self.triples = np.array([self.place[p] for p in patterns])[which].reshape(same.shape[:2])
        self.pairs = self.triples[0, np.ravel_multi_index(tuple(np.moveaxis(~same, -1, 0).astype(int)), sizes)]
        keys = product(
            *([(b, k) for b in range(n + 1 if r > 2 else 1) for k in range((n - b) // 2 + 1)] for r, n in self.classes)
        )
        self.blocks = [block for key in keys for block in self._blocks(key)]
        # of every kind of effect, how many attributes of each class it has
        self.effects = [tuple(int(np.isin(s, own).sum()) for own in self.members) for s in self.workload.effects]
        self.energies = np.array([self._energy(s) for s in self.effects])
        self.mean = self._energy((0,) * len(self.classes))
        self.chances = self._chances()
        # how many (x, y) have a variable's pattern
        self.counts = self._sums(np.ones(same.shape[:2]), self.triples)
        square = np.eye(1, len(self.place) + 1)[0] / self.records**2
        effects = range(1, len(sizes) + 1) if set(sizes) == {2} else ()
        self.odd = {tuple(self._energy((s,)) - square): ("odd", str(s)) for s in effects}
        # of how many different records a variable is the chance
        self.points = np.array(
            [0] + [min(1 + sum(any(c[k] for c in p) for k in (1, 2, 3, 4, 4)), 3) for p in self.place]
        )

    def _chances(self) -> dict[tuple[float, ...], tuple[str, str]]:
        """Chances that of three records the marked ones lie in A and the others do not, as combinations of variables."""
        out = {}
        for pattern, inside in product(self.place, product("01", repeat=3)):
            row = np.zeros(len(self.place) + 1)
            for chosen in product("01", repeat=3):
                if all(i <= c for i, c in zip(inside, chosen, strict=True)):
                    one = {"000": 0, "100": 1, "010": 1, "001": 1, "111": self.place[pattern]}
                    kind = {"110": 1, "101": 2, "011": 3}.get(key := "".join(chosen))
                    at = one[key] if kind is None else self.pair(tuple(sum(c[1:]) - c[kind] for c in pattern))
                    row[at] += (-1) ** (chosen.count("1") - inside.count("1"))
            letters = "".join("01234"[k] * number for c in pattern for k, number in enumerate(c))
            if row.any() and inside != ("1", "1", "1"):
                out.setdefault(tuple(row), (letters, "".join(inside)))
        return out

    def signs(self, chosen: list[int]) -> dict[tuple[float, ...], tuple[str, str]]:
        """Combinations of variables that are not negative for sets of so many records."""
        return self.chances | (self.odd if len(chosen) == 1 and chosen[0] % 2 else {})

    def pair(self, differ: tuple[int, ...]) -> int:
        """The variable f_D of so many attributes in each class."""
        return self.place[canonical(tuple((n - d, 0, 0, d, 0) for (_, n), d in zip(self.classes, differ, strict=True)))]

    def _sums(self, values: np.ndarray, variables: np.ndarray) -> np.ndarray:
        """A combination of variables."""
        return np.bincount(variables.ravel(), values.ravel(), len(self.place) + 1)

    def _blocks(self, key: tuple[tuple[int, int], ...]) -> tuple[np.ndarray, np.ndarray]:
        """Block of the first matrix and of the second, shape (variables, order, order)."""
        parts = []
        for own, (b, k) in zip(self.members, key, strict=True):
            one, two, free = self.x[:, own[:b]], self.x[:, own[b : b + 2 * k]] == 0, self.x[:, own[b + 2 * k :]]
            # a contrast of the categories 1 and 2 of some, differences of two by two, and how many others are not 0
            vector = ((one == 1) * 1 - (one == 2)).prod(axis=1) * (two[:, ::2] * 1 - two[:, 1::2]).prod(axis=1)
            parts.append([vector * ((free != 0).sum(axis=1) == i) for i in range(free.shape[1] + 1)])
        vectors = [np.prod(each, axis=0) for each in product(*parts)]
        scale = 2 ** sum(b + k for b, k in key)
        first, second = (
            np.stack([self._sums(np.outer(v, w), of) / scale for v in vectors for w in vectors], axis=1)
            for of in (self.triples, self.pairs)
        )
        first, second = (block.reshape(-1, len(vectors), len(vectors)) for block in (first, second - first))
        if not any(map(any, key)):
            # the row of 0 is 0: the border takes its place
            second[:2, 0, 0] = 1, -1
            for i, v in enumerate(vectors[1:], 1):
                second[:, 0, i] = second[:, i, 0] = v.sum() * np.eye(len(second))[1] - self._sums(v, self.pairs[0])
        return first, second

    def _energy(self, effect: tuple[int, ...]) -> np.ndarray:
        """w_S as a combination of the variables."""
        inside = np.concatenate([own[:k] for own, k in zip(self.members, effect, strict=True)])
        values = (self.sizes[inside] * (self.x[:, inside] == 0) - 1).prod(axis=1)
        return self._sums(values, self.pairs[0]) / self.records


@dataclass(frozen=True)
class Limit:
    """Integers that prove Σ_S c_S w_S ≤ U(p), for p = share/N alone or for every p; and what is left of the variables."""

    share: int | None
    factors: list[np.ndarray]
    sums: list[np.ndarray]
    signs: dict[tuple[str, str], int]
    u: int
    left: np.ndarray


@dataclass(frozen=True)
class Rules:
    """What holds of energies' sums over sets, as cvxpy has it. ``rows`` are the factors of every block's rows."""

    often: Any
    variables: Any
    equal: list[Any]
    others: list[Any]
    blocks: list[Any]
    rows: list[np.ndarray]
    size: np.ndarray


class Search:
    """The best c_S for one total, and the multipliers that limit Σ_S c_S w_S for every p = j/N up to 1/2."""

    def __init__(self, program: Triples, total: float) -> None:
        self.program, gain = program, math.expm1(total)
        self.shares = np.arange(1, program.records // 2 + 1) / program.records
        self.scale = (gain / (1 + gain * self.shares)) ** 2
        # the largest values of the variables
        self.most = np.minimum(self.shares, self.shares**3 * program.records**2 / program.counts[2:, None])
        self.unit = gain / 4 * (gain / (1 + gain))
        self.root, self.alike = roots(program.workload), program.workload.alike
        near = program.records / (gain + 2) * np.array([0.6, 1.0, 1.6])
        self.tried = sorted({int(np.clip(round(j), 1, self.shares.size)) for j in near})

    def feasible(self, chosen: list[int]) -> Rules:
        """Sums of g²/(1 + gp)² times the variables over sets that have p = j/N so often; near 1 for random sets."""
        j, program = np.array(chosen), self.program
        p, scale = self.shares[j - 1], self.scale[j - 1] / self.unit
        often = cp.Variable(j.size, nonneg=True)
        size = float(np.exp(np.log(p).mean())) ** (program.points - 1.0)
        own = cp.Variable(size.size, nonneg=True)
        variables = cp.multiply(size, own)
        equal = [
            row @ variables == (scale * p**k) @ often for k, row in enumerate((*np.eye(2, size.size), program.mean))
        ]
        chances = np.array(list(program.signs(chosen))) * size
        chances /= np.abs(chances).max(axis=1)[:, None]
        others, blocks, rows = [chances @ own >= 0], [], []
        for k, raw in enumerate(program.blocks):
            d = 1 / np.sqrt(np.maximum(np.einsum("kii,k->i", raw, size), 1e-300))
            if alone := j.size == 1 and k < 2:
                others.append(
                    (np.einsum("kxy,x->yk", raw, kernel(d.size, k, chosen[0])) * size * d[:, None]) @ own == 0
                )
            # there the last row is a combination of the others
            kept = d.size - alone
            scaled = (size[:, None, None] * raw * d[:, None] * d)[:, :kept, :kept].reshape(size.size, -1)
            matrix = cp.reshape(scaled.T @ own, (kept, kept), order="C")
            blocks.append((matrix + matrix.T) / 2 >> 0)
            rows.append(d)
        return Rules(often, variables, equal, others, blocks, rows, size)

    def best_coefficients(self) -> np.ndarray:
        """c_S, as integers, where only the shares tried so far occur."""
        parts = [self.feasible([j]) for j in self.tried]
        needs, energies = self.root**2 / self.alike, cp.Variable(self.root.size)
        rules = [rule for part in parts for rule in (*part.equal, *part.others, *part.blocks)]
        rules += [sum(cp.sum(part.often) for part in parts) == 1]
        rules += [energies == sum(self.program.energies @ part.variables for part in parts)]
        cp.Problem(cp.Minimize((needs / needs.sum()) @ cp.inv_pos(energies)), rules).solve(**PRECISE)
        # the multipliers are more precise than what they are the derivatives of
        c = np.abs(rules[-1].dual_value)
        return np.rint(c / self.alike / (c @ energies.value * self.unit) / UNIT)

    def limit(self, c: np.ndarray, chosen: list[int]) -> tuple[Limit, int]:
        """The limit found whose largest U(p) g²/(1 + gp)² at these p = j/N is the smallest, and where that is reached."""
        part, program = self.feasible(chosen), self.program
        left = (self.alike * c * UNIT) @ program.energies
        rules = [*part.equal, *part.others, *part.blocks, cp.sum(part.often) == 1]
        cp.Problem(cp.Maximize(self.unit * (left @ part.variables)), rules).solve(**PRECISE)
        factors = []
        for rule, d, block in zip(part.blocks, part.rows, program.blocks, strict=True):
            values, vectors = np.linalg.eigh(rule.dual_value / self.unit)
            kept = values > 1e-13 * max(values[-1], 1e-13)
            factor = np.zeros((d.size, int(kept.sum())))
            factor[: len(vectors)] = np.rint(d[: len(vectors), None] * vectors[:, kept] * np.sqrt(values[kept]) / UNIT)
            factors.append(factor)
            left = left + np.einsum("kij,ij->k", block, factor @ factor.T) * UNIT**2
        # given these, all other multipliers are a linear program: signs, sums, and u
        signs = program.signs(chosen)
        columns = [np.array(list(signs)), -program.mean[None]]
        if len(chosen) == 1:
            null = [np.einsum("kxy,x->yk", program.blocks[k], kernel(part.rows[k].size, k, chosen[0])) for k in (0, 1)]
            columns += null
        free = np.concatenate(columns).T
        found = np.rint(self.repaired(left, free, len(signs), part.size, chosen) / UNIT)
        u, sums = found[len(signs)], found[len(signs) + 1 :]
        of_sums = np.split(sums, [part.rows[0].size]) if len(chosen) == 1 else []
        used = {key: int(v) for key, v in zip(signs.values(), found[: len(signs)], strict=True) if v}
        of = Limit(chosen[0] if len(chosen) == 1 else None, factors, of_sums, used, int(u), left + free @ found * UNIT)
        return of, chosen[int(np.argmax(part.often.value))]

    def repaired(
        self, left: np.ndarray, free: np.ndarray, signed: int, size: np.ndarray, chosen: list[int]
    ) -> np.ndarray:
        """Multipliers of the columns, the first ``signed`` of which must not be negative, that make the largest value least."""
        j = np.array(chosen) - 1
        p, scale, inner = self.shares[j], self.scale[j], size[2:, None]
        unit = np.abs(free * size[:, None]).max(axis=0)
        columns, count = free / unit, size.size - 2
        powers = np.array([p**0, p, *self.most[:, j]]) * scale
        # the largest value, multipliers, and what is left of every variable where that is positive
        value = np.hstack([-np.ones((j.size, 1)), powers[:2].T @ columns[:2], powers[2:].T / inner.T])
        value[:, 1 + signed] += p**2 * scale / unit[signed]
        slack = np.hstack([np.zeros((count, 1)), inner * columns[2:], -np.eye(count)])
        limits = np.concatenate([-powers[:2].T @ left[:2], -inner[:, 0] * left[2:]])
        bounds = [(None, None)] + [(0, None)] * signed + [(None, None)] * (free.shape[1] - signed) + [(0, None)] * count
        # where the solver cannot be as precise as that, it is less so
        tried = (
            linprog(np.eye(1, value.shape[1])[0], np.vstack([value, slack]), limits, bounds=bounds, options=options)
            for options in (FINE, {})
        )
        found = next(answer.x[1 : 1 + free.shape[1]] / unit for answer in tried if answer.x is not None)
        return np.concatenate([np.maximum(found[:signed], 0), found[signed:]])

    def values(self, of: Limit) -> np.ndarray:
        """U(p) g²/(1 + gp)² at every p = j/N, infinite where the limit does not hold."""
        p = self.shares
        values = of.left[0] + of.left[1] * p + of.u * UNIT * p**2 + np.maximum(of.left[2:], 0) @ self.most
        return np.where((of.share is None) | (np.arange(1, p.size + 1) == of.share), values * self.scale, np.inf)

    def largest(self, of: Limit, chosen: list[int]) -> float:
        """The largest of these values at some p = j/N."""
        return float(self.values(of)[np.array(chosen) - 1].max())

    def run(self) -> tuple[float, np.ndarray, list[Limit]]:
        """The bound, c, and limits that prove it."""
        while True:
            c = self.best_coefficients()
            limits = [self.limit(c, [j])[0] for j in self.tried]
            most = max(self.largest(of, [j]) for of, j in zip(limits, self.tried, strict=True)) * (1 + GAIN)
            # one limit for all other shares; where it is too large, the worst share has its own
            rest = [j for j in range(1, self.shares.size + 1) if j not in self.tried]
            while rest:
                of, worst = self.limit(c, rest)
                if self.largest(of, rest) <= most:
                    limits.append(of)
                    break
                limits.append(self.limit(c, [worst])[0])
                if self.largest(limits[-1], [worst]) > most:
                    self.tried.append(worst)
                    break
                rest.remove(worst)
            if self.tried[-1] not in rest:
                most = np.min([self.values(of) for of in limits], axis=0).max()
                return float((self.root @ np.sqrt(c * UNIT)) ** 2 / most) * (1 - 1e-9), c, limits


def kernel(order: int, k: int, j: int) -> np.ndarray:
    """The vector that M, or M' where k = 1, carries to 0 for sets of j records."""
    z = np.ones(order)
    z[0] -= j + k
    return z
