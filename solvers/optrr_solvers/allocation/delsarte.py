"""Lower bounds on the error of any ε-LDP mechanism: Delsarte's linear program over sets of records, and energy limits.

Setting: records X = Π {1..r_i}, N = |X|, uniform reference population; n people, one report each through any ε-LDP
channel, of any output alphabet, which may differ between people and depend on earlier answers; estimates unbiased near
the uniform population. The attributes in no table are dropped: a mechanism that averages over them is ε-LDP too.

Of a report y let d_y(x) = Q(y|x)/mean_x Q(y|x), and e_S its mean square on the effects of the attribute set S, averaged
over y.

1. Information. n Σ_U weight_U E‖π̂_U − π_U‖² ≥ Σ_S a_S/e_S, a_S = dim_S² Σ_{U⊇S} weight_U/Π_{i∈U} r_i, dim_S = Π_{i∈S} (r_i−1).
2. Sets. d_y lies in a cube, so it is an average of densities (1 + g 1_A)/(1 + gp), g = e^ε − 1, A ⊂ X, p = |A|/N = j/N; e_S is
   convex, so it is at most an average of w_S g²/(1 + gp)², w_S = ‖P_S 1_A‖². Its complement has the same w_S: p ≤ 1/2 suffices.
3. Delsarte. f_D, the mean of 1_A(x) 1_A(x') over all pairs that differ exactly in the attributes D, is not negative, and

       f_D = Σ_S w_S λ_S(D),     λ_S(D) = Π_{i∈S∩D} −1/(r_i−1),     w_∅ = p²,     Σ_S w_S = f_∅ = p.

So for all y_D ≥ 0 and β with Y_S = Σ_D y_D λ_S(D) ≤ β for each S ≠ ∅, and Y = Σ_D y_D,

    Σ_{S≠∅} (β − Y_S) w_S  =  β (p − p²) + Y p² − Σ_D y_D f_D,

where the last term is ≤ 0. Limits Σ_S b_lS e_S ≤ cap_l of energies hold too (theory §3.9), with multipliers z_l ≥ 0:

    every table U  Σ_{∅≠S⊆U} e_S ≤ cap_K(ε), K its number of cells: averaging over the other attributes widens no ratio
    every effect   e_S ≤ dim_S
    parts          Σ_B c_B Σ_{∅≠S⊆B} e_S ≤ κ_R(ε), disjoint sets B: the relative entropy of d_y to the uniform law is
                   at least the sum of those of its margins d_B, and each of these at least c_B times the energy of B

where cap_K(ε) = max_{1≤j<K} p(1−p) g²/(1+gp)², p = j/K, which is below sinh²(ε/2) and tends to it, κ_R(ε) = max_j of
the entropy of the same two-valued density, and c_B = f(t)/(t−1)², f(t) = t ln t − t + 1, at the largest value t = K
e^ε/(K − 1 + e^ε) that a margin over K cells can have. The last helps where ε is large and attributes are many.

With c_S = β − Y_S + Σ_l z_l b_lS the Cauchy–Schwarz inequality proves

    Σ_S a_S/e_S  ≥  (Σ_S √(a_S c_S))² / (max_p [β (p − p²) + Y p²] g²/(1 + gp)² + Σ_l z_l cap_l).                       (*)

Any multipliers prove it, so the search for the best (:mod:`optrr_solvers.allocation.any_mechanism`) need not be
trusted. One set (β, y) for each p = j/N, with the least c_S of all, proves more than one for all p. y = z = 0 is the
bound by sinh²(ε/2).

y_D is the same for all D with as many attributes of every group. Where a group's sizes differ, Y_S is affine in each of
its rates 1/(r_i−1), so its largest value is where each of them is the least or the greatest.

P. Delsarte, An algebraic approach to the association schemes of coding theory, Philips Research Reports Supplements 10,
1973.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
import scipy.sparse as sp

from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import InvalidProblem

# Largest ε: beyond it only the sampling error is left; squares of its exponential are finite.
MOST_EPSILON = 300.0
# Number of cells beyond which the best share is not rounded to a multiple of 1/N, which raises the cap by less than
# 1e-6 of it.
MANY_CELLS = 1 << 20
# Largest t − 1 at which c_B is a series, whose error is at most a third of the last term above.
_SERIES = 1e-2
# Most patterns, and λ_S(D) listed for each of so many: those of twelve different attributes, whose multipliers take 3
# s. Beyond fewer, attributes of equal sizes are counted together: their multipliers are nearly equal, and the search
# among ties is slow.
MOST_PATTERNS, _MOST_ROWS, _MANY_PATTERNS = 4096, 4200, 512
# Limits that have multipliers: those that the energies of y = z = 0 reach to this share, and the most of them.
_REACHED, _MOST_LIMITS = 0.9, 500
# Unit roundoff, and the relative rounding of the last sums, which add positive numbers only.
_ROUNDOFF, _ROUNDING = 2.0**-53, 1e-10


def energy_cap(cells: float, total: float) -> float:
    """Compute the largest variance of an ε-bounded density over equal cells.

    Its values lie within a factor e^ε; ε in nats.
    """
    return _largest_share(
        cells, total, lambda p, gain: p * (1 - p) * (gain / (1 + gain * p)) ** 2, lambda e: 1 / (1 + e)
    )


def entropy_cap(cells: float, total: float) -> float:
    """Compute the largest relative entropy of such a density to the uniform one.

    The result is in nats; such densities are those of :func:`energy_cap`.
    """

    def entropy(p: float, gain: float) -> float:
        return p * (1 + gain) * math.log1p(gain) / (1 + gain * p) - math.log1p(gain * p)

    # where the derivative in p vanishes
    return _largest_share(cells, total, entropy, lambda e: (e * math.log(e) / (e - 1) - 1) / (e - 1))


def _largest_share(
    cells: float, total: float, value: Callable[[float, float], float], best: Callable[[float], float]
) -> float:
    """Maximize ``value`` over the shares j/cells.

    ``best`` gives the maximizing share among all real ones, from the factor e^ε.
    """
    grown = math.exp(min(total, MOST_EPSILON))
    share = best(grown)
    if cells > MANY_CELLS:
        return float(value(share, grown - 1))
    below = min(max(math.floor(share * cells), 1), int(cells) - 1)
    return max(float(value(j / cells, grown - 1)) for j in (below, min(below + 1, int(cells) - 1)))


def energy_limits(workload: TableWorkload, total: float) -> tuple[sp.csc_array, FloatArray]:
    """Compute the limits of energies of tables, effects and parts.

    Returns b_lS, divided by the number of effects like S, and cap_l: shapes (effects, limits) and (limits,).
    """
    place = {workload.key(w): k for k, w in enumerate(workload.effects)}
    rows: list[dict[int, float]] = []
    caps: list[float] = []

    def add(block: tuple[int, ...], row: dict[int, float], factor: float = 1.0) -> None:
        for k in range(1, len(block) + 1):
            for inside in combinations(block, k):
                at = place.get(workload.key(inside))
                if at is not None:
                    row[at] = row.get(at, 0.0) + factor

    for table in workload.tables:
        rows.append({})
        add(table, rows[-1])
        caps.append(energy_cap(math.prod(workload.sizes[list(table)].tolist()), total))
    rows += [{k: 1.0} for k in range(len(workload.effects))]
    caps += workload.dims.tolist()
    cells = float(np.exp(min(np.log(workload.sizes).sum(), 700.0)))
    most = entropy_cap(round(cells) if cells < MANY_CELLS else cells, total)
    for parts in _partitions(workload):
        rows.append({})
        for block in parts:
            add(block, rows[-1], _entropy_rate(math.prod(workload.sizes[list(block)].tolist()), total))
        caps.append(most)
    shapes = sp.coo_array(
        (
            [v / workload.alike[at] for row in rows for at, v in row.items()],
            ([at for row in rows for at in row], [k for k, row in enumerate(rows) for _ in row]),
        ),
        shape=(len(workload.effects), len(rows)),
    )
    return sp.csc_array(shapes), np.asarray(caps)


def _entropy_rate(cells: int, total: float) -> float:
    """Compute c_B, the least ratio of relative entropy to variance of a margin.

    The margin has ``cells`` cells.
    """
    above = (cells - 1) * -math.expm1(-total) / (1 + (cells - 1) * math.exp(-total))
    if above < _SERIES:
        # the differences would cancel; the series alternates, and ends below its sum
        return 1 / 2 - above / 6 + above**2 / 12 - above**3 / 20
    return ((1 + above) * math.log1p(above) - above) / above**2


def _partitions(workload: TableWorkload) -> list[list[tuple[int, ...]]]:
    """List the partition into single attributes and the rounds of a tournament.

    In the rounds every two attributes meet once.
    """
    m = workload.m
    out: list[list[tuple[int, ...]]] = [[(i,) for i in range(m)]]
    if m > 64 or m < 2:
        return out
    wheel = [*range(m), *([-1] if m % 2 else [])]
    for _ in range(len(wheel) - 1):
        half = len(wheel) // 2
        out.append(
            [
                tuple(sorted(i for i in pair if i >= 0))
                for pair in zip(wheel[:half], wheel[: half - 1 : -1], strict=True)
            ]
        )
        wheel = [wheel[0], wheel[-1], *wheel[1:-1]]
    return out


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Non-negative β (sets,), y (sets, patterns) and z (limits,).

    There is one set for all p, or one for each p = j/N.
    """

    beta: FloatArray
    y: FloatArray
    z: FloatArray


@dataclass(frozen=True, eq=False)
class DelsarteProgram:
    """The arrays of (*) for one workload and total ε.

    Parameters
    ----------
    workload, total
        Tables and ε in nats.
    groups
        Attributes among which the members of a pattern are counted; none where there are too many patterns.
    effects, guards
        λ_S(D) averaged over each kind of pattern D ≠ ∅, for the workload's effects and for each kind of set S, shape
        (effects or sets, patterns). The first guard is 0, for β ≥ 0.
    chosen, limits, caps
        Which limits have multipliers; b_lS, over the number of effects like S, and cap_l: (effects, limits) and
        (limits,).
    """

    workload: TableWorkload
    total: float
    groups: tuple[IntArray, ...]
    effects: FloatArray
    guards: FloatArray
    chosen: IntArray
    limits: FloatArray
    caps: FloatArray

    @property
    def gain(self) -> float:
        """g = e^ε − 1."""
        return math.expm1(min(self.total, MOST_EPSILON))

    @cached_property
    def cells(self) -> int:
        """N, of the attributes that are in tables."""
        return math.prod(self.workload.sizes[np.concatenate(_used(self.workload))].tolist())

    @cached_property
    def root(self) -> FloatArray:
        """Sums of √a_S over alike effects, shape (effects,)."""
        return roots(self.workload)

    @property
    def shares(self) -> FloatArray:
        """Every p = j/N up to 1/2."""
        return np.asarray(np.arange(1, self.cells // 2 + 1) / self.cells)

    def pairs_alike(self) -> FloatArray:
        """Count the records at each kind of pattern from one record.

        The count is approximate if the sizes within a group differ.
        """
        out: FloatArray = np.ones(1)
        for group in self.groups:
            others = float(np.exp(np.log(self.workload.sizes[group] - 1.0).mean()))
            out = np.outer(out, [math.comb(group.size, k) * others**k for k in range(group.size + 1)]).ravel()
        return out[1:]

    def at(self, total: float) -> "DelsarteProgram":
        """Return the same program at another total ε, valid for the same multipliers."""
        shapes, caps = energy_limits(self.workload, total)
        return replace(self, total=total, limits=shapes[:, self.chosen].toarray(), caps=caps[self.chosen])

    def choosing(self, limits: IntArray) -> "DelsarteProgram":
        """Return the same program with these limits."""
        return replace(self, chosen=limits).at(self.total)

    def sides(self, given: Multipliers) -> tuple[FloatArray, float]:
        """Compute c_S, rounded down, and the denominator of (*).

        β is raised to the largest Y_S.
        """
        sums = given.y.sum(axis=1)
        # λ is a recursion of convex combinations, one for each attribute, and Y_S a sum of positive multiples of it
        steps = 8 * sum(g.size for g in self.groups) + np.count_nonzero(given.y, axis=1) + 16
        slack = steps * _ROUNDOFF * (sums + given.beta)
        beta = np.maximum(given.beta, (given.y @ self.guards.T).max(axis=1) + slack)
        left = np.maximum((beta - slack)[:, None] - given.y @ self.effects.T, 0).min(axis=0) + self.limits @ given.z
        if beta.size > 1:
            most = max(_at(*of_share, self.gain) for of_share in zip(beta, sums, self.shares, strict=True))
        else:
            most = _largest(beta[0], sums[0], self.cells, self.gain)
        return left, most + float(self.caps @ given.z)

    def proved(self, given: Multipliers) -> float:
        """Compute the right side of (*), rounded down."""
        left, most = self.sides(given)
        return float((self.root @ np.sqrt(left)) ** 2 / most * (1 - _ROUNDING))


def roots(workload: TableWorkload) -> FloatArray:
    """Compute √a_S summed over alike effects, shape (effects,)."""
    return np.asarray(np.sqrt(workload.coefficients * workload.dims * workload.alike))


def _at(beta: float, y: float, p: float, gain: float) -> float:
    return float((beta * (p - p * p) + y * p * p) * (gain / (1 + gain * p)) ** 2)


def _largest(beta: float, y: float, cells: int, gain: float) -> float:
    """Maximize [β (p − p²) + Y p²] g²/(1 + gp)² over p = j/N ≤ 1/2.

    The function is a parabola in p/(1 + gp), which increases in p.
    """
    share = beta / max(beta * (gain + 2) - 2 * y, 2 * beta) if beta else 0.5
    if cells > MANY_CELLS:
        return _at(beta, y, share, gain)
    below = min(max(math.floor(share * cells), 1), cells // 2)
    return max(_at(beta, y, j / cells, gain) for j in (below, min(below + 1, cells // 2)))


def delsarte_program(
    workload: TableWorkload, total: float, patterns: int = MOST_PATTERNS, groups: tuple[IntArray, ...] = ()
) -> DelsarteProgram:
    """Set up (*) with at most this many patterns, and with these groups, if any.

    Takes time O(entries of λ times attributes).

    Raises InvalidProblem where the groups that are given have more patterns.
    """
    if groups and _too_many(workload, groups, patterns):
        raise InvalidProblem("the groups of a bound have too many patterns; merge groups")
    groups, kinds = groups or _groups(workload, patterns), len(workload.effects)
    effects: FloatArray = np.ones((kinds, 1))
    guards: FloatArray = np.ones((1, 1))
    for group in groups:
        rates = dict(zip(group.tolist(), (1 / (workload.sizes[group] - 1)).tolist(), strict=True))
        of_effects = [tuple(rates[i] for i in s if i in rates) for s in workload.effects]
        place = {of_effect: k for k, of_effect in enumerate(dict.fromkeys(of_effects))}
        table = _averages(group.size, list(place))[[place[of_effect] for of_effect in of_effects]]
        effects = (effects[:, :, None] * table[:, None, :]).reshape(kinds, -1)
        guards = np.asarray(np.kron(guards, _averages(group.size, _extremes(np.asarray(list(rates.values()))))))
    guards[0] = 0
    none = np.zeros(0, dtype=np.int64)
    program = DelsarteProgram(
        workload, total, groups, effects[:, 1:], guards[:, 1:], none, np.zeros((kinds, 0)), np.zeros(0)
    )
    shapes, caps = energy_limits(workload, total)
    energies = program.root * (program.gain / 4 * (program.gain / (1 + program.gain)) / program.root.sum())
    reached = (energies @ shapes) / caps
    chosen = np.argsort(-reached, kind="stable")[: min(_MOST_LIMITS, int(np.count_nonzero(reached > _REACHED)))]
    return program.choosing(chosen)


def _used(workload: TableWorkload) -> list[IntArray]:
    return [
        workload.classes[k] for k in sorted({int(workload.class_of[i]) for table in workload.tables for i in table})
    ]


def _groups(workload: TableWorkload, most: int) -> tuple[IntArray, ...]:
    """Group the attributes in tables by class; merge groups if patterns are too many.

    The groups of the nearest rates are merged first.
    """
    groups = sorted(_used(workload), key=lambda c: int(workload.sizes[c[0]]))
    rates = 1 / (workload.sizes - 1.0)
    while _too_many(workload, groups, min(most, _MANY_PATTERNS)):
        if len(groups) == 1:
            return ()
        apart = [float(rates[one[0]] - rates[other[-1]]) for one, other in pairwise(groups)]
        k = int(np.argmin(apart))
        if apart[k] > 0 and not _too_many(workload, groups, most):
            break
        groups[k : k + 2] = [np.concatenate(groups[k : k + 2])]
    return tuple(groups)


def _too_many(workload: TableWorkload, groups: Sequence[IntArray], most: int) -> bool:
    alike = [int(np.ptp(workload.sizes[g])) == 0 for g in groups]
    patterns = math.prod(g.size + 1 for g in groups)
    sets = math.prod(
        g.size + 1 if same else (g.size + 1) * (g.size + 2) // 2 for g, same in zip(groups, alike, strict=True)
    )
    return patterns > most or patterns * (sets + len(workload.effects)) > most * _MOST_ROWS


def _extremes(rates: FloatArray) -> list[tuple[float, ...]]:
    """List the rates of every number of members, each the least or the greatest."""
    n, low, high = rates.size, float(rates.min()), float(rates.max())
    return [(low,) * k + (high,) * (s - k) for s in range(n + 1) for k in (range(s + 1) if low < high else (s,))]


def _averages(n: int, sets: list[tuple[float, ...]]) -> FloatArray:
    """Compute the mean of Π_{S∩D} −rate over all sets D of d of n attributes.

    S are sets with the given rates; shape (sets, n + 1).

    One member of S at a time joins the n − |S| attributes outside: it is in D with probability d/(number so far).
    """
    order = sorted(range(len(sets)), key=lambda k: -len(sets[k]))
    counts = np.asarray([len(sets[k]) for k in order])
    d, out = np.arange(n + 1.0), np.ones((len(sets), n + 1))
    for t in range(int(counts[0])):
        live = int(np.count_nonzero(counts > t))
        rate = np.asarray([sets[k][t] for k in order[:live]])[:, None]
        hit = np.minimum(d / (n - counts[:live] + t + 1)[:, None], 1)
        without = np.concatenate([out[:live, :1], out[:live, :-1]], axis=1)
        out[:live] = (1 - hit) * out[:live] - hit * rate * without
    return out[np.argsort(order)]
