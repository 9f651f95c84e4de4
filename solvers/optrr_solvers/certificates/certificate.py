"""Lower bounds that anyone can recompute: weak duality of the design problem (theory §3.3, §3.4, §3.6).

For densities q ∈ [1, Q] against μ, every requirement is E_μ[q g] ≥ 0 for some function g of the change set:

    accuracy of i          g = f_i − 1[i∈S]
    pair (i, j) kept       g = (r_i−1)(r_j−1) (χ_ij − κ λ_i λ_j)
    cap η on i from S to T g = n_S e^η 1_T − n_T 1_S                 (T and S differ in i only)

so for any multipliers ≥ 0 their sum h has 0 ≤ E_μ[q h] ≤ E_μ[h] + (Q−1) E_μ[h⁺], that is

    Q ≥ 1 + (−E_μ h) / E_μ[h⁺].

Multipliers are integers, f and λ are replaced by rationals that can only enlarge h, hence lower the bound: h is then an
integer plus one rational constant, −E_μ h is exact, and E_μ[h⁺] is a sum of nonnegative terms, done in exact rational
arithmetic for few cells and otherwise in doubles with an a-priori error bound, outward.

Attributes that are alike share their multipliers, so the sums run over counts per class, not over 2^m change sets.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from optrr_solvers.arrays import IntArray
from optrr_solvers.certificates import grid_bound, rank_one
from optrr_solvers.certificates.grid_bound import WeightedClasses
from optrr_solvers.certificates.rank_one import RankOne, TooManyTotals
from optrr_solvers.enclosure import FLIP_BITS, exp_bounds, flip_ceiling, log_floor
from optrr_solvers.errors import InvalidCertificate, InvalidInput
from optrr_solvers.laws.count import MAX_CELLS, log_uniform_counts, log_uniform_counts_error
from optrr_solvers.laws.totals import WindowTooWide
from optrr_solvers.laws.weighted_ball import MAX_NODES
from optrr_solvers.partition import partition
from optrr_solvers.problem import Problem
from optrr_solvers.work import INTEGER_BYTES, INTEGER_STEP, STEP, Work

# Up to here E_μ[h⁺] is an exact rational (2^12 cells take a few milliseconds).
EXACT_CELLS = 1 << 12
# More change sets than this are too many for each use of the count, so counting stops here: the exact product over a
# million classes would have 300,000 digits.
_MOST_COUNTED = 1 << 64
# The integers of h stay below this, so that int64 sums of them are exact.
INTEGER_LIMIT = 1 << 62
# The same for effects, of which squares are taken, with up to a million attributes.
EFFECT_LIMIT = 1 << 40


@dataclass(frozen=True, eq=False)
class Certificate:
    """Integer multipliers of the requirements, one per class of alike attributes.

    Parameters
    ----------
    classes
        index arrays that partition the attributes; members must be alike in size, ε and cap.
    weights
        w_g ≥ 0 for the accuracy of every member of class g.
    pairs
        (g, h, v): v ≥ 0 for each preserved pair with one member in g and the other in h (g ≤ h).
    caps
        (cell, g, up, c): c ≥ 0 for the cap of class g between change set ``cell`` (flat index over counts) and the one
        with one more change in g; ``up`` when the one with more changes is bounded from above. Only for classes of one.
    effects, unit
        b_g ≥ 0 and U ≥ 1, or no effects: every pair with members in g and h, all of them to be kept, has the multiplier
        b_g b_h / U of rank one (:mod:`rank_one`). The weights are then the decrease of h by a change beyond the
        effects, and may be negative, as long as the accuracies' own multipliers are not. Without pairs and caps.
    """

    classes: Sequence[Sequence[int] | IntArray]
    weights: tuple[int, ...]
    pairs: tuple[tuple[int, int, int], ...] = ()
    caps: tuple[tuple[int, int, bool, int], ...] = ()
    effects: tuple[int, ...] = ()
    unit: int = 1

    @property
    def cells(self) -> int:
        """Number of vectors of counts of the classes, up to about 2^64."""
        cells = 1
        for c in self.classes:
            if cells > _MOST_COUNTED:
                break
            cells *= len(c) + 1
        return cells

    def work(self) -> Work:
        """Bound the work of computing the lower bound."""
        cells, m = self.cells, sum(len(c) for c in self.classes)

        def largest(values: Sequence[int]) -> int:
            return sum(abs(v) * len(c) for c, v in zip(self.classes, values, strict=False))

        if self.effects:
            # a table of more totals is refused before it is made
            table = min((largest(self.weights) + 1) * (largest(self.effects) + 1), MAX_NODES)
            return Work(STEP * m * table, 24.0 * table)
        if cells > MAX_CELLS and not self.pairs and not self.caps:
            # a row beyond the largest window is refused before it is made
            window = min(largest(self.weights), grid_bound.MAX_WINDOW)
            return Work(STEP * m * window, 32.0 * window)
        cells = min(cells, MAX_CELLS)
        rows = len(self.classes) + len(self.pairs) + 4
        whole = cells if cells <= EXACT_CELLS or self.caps else 0
        return Work(rows * (STEP * cells + INTEGER_STEP * whole), 64.0 * cells + 4.0 * INTEGER_BYTES * whole)

    def check(self, problem: Problem) -> None:
        """Check that every multiplier belongs to a requirement of ``problem``.

        Raises InvalidCertificate.
        """
        try:
            classes = partition(self.classes, problem.m, "certificate's classes")
        except InvalidInput as error:
            raise InvalidCertificate(str(error)) from error
        first = classes.first[classes.numbers]
        unlike = (problem.sizes != problem.sizes[first]) | (problem.epsilons != problem.epsilons[first])
        if unlike.any():
            c = classes[int(classes.numbers[unlike][0])]
            raise InvalidCertificate(f"the certificate treats attributes {tuple(c.tolist())} as alike, but they differ")
        if len(self.weights) != len(self.classes):
            raise InvalidCertificate("the certificate needs one weight for each class")
        if self.effects:
            self._check_effects(problem)
            return
        multipliers = [*self.weights, *(v for _, _, v in self.pairs), *(v for *_, v in self.caps)]
        if any(type(v) is not int or v < 0 for v in multipliers):
            raise InvalidCertificate("a multiplier of the certificate is not a whole number of at least 0")
        named = [g for pair in self.pairs for g in pair[:2]] + [g for _, g, _, _ in self.caps]
        if not all(0 <= g < len(self.classes) for g in named):
            raise InvalidCertificate("the certificate names a class that it does not have")
        self._check_wanted(problem)

    def _check_effects(self, problem: Problem) -> None:
        if self.pairs or self.caps or len(self.effects) != len(self.classes):
            raise InvalidCertificate("a certificate with effects has one for each class, and neither pairs nor caps")
        integers = [*self.weights, *self.effects, self.unit]
        if any(type(v) is not int for v in integers) or min(self.effects) < 0 or self.unit < 1:
            raise InvalidCertificate(
                "an effect of the certificate is not a whole number of at least 0, or its unit not of 1"
            )
        if max(abs(v) for v in integers) >= EFFECT_LIMIT:
            raise InvalidCertificate("the certificate's integers are too large to add without overflow")
        if any(w < 0 for w in _rank_one(problem, self).weights()):
            raise InvalidCertificate("a multiplier of the certificate's accuracies is negative")
        touched = sorted(i for c, b in zip(self.classes, self.effects, strict=True) if b for i in c)
        if not set(combinations(touched, 2)) <= set(problem.pairs):
            raise InvalidCertificate("the certificate's effects weigh pairs that need not be preserved")

    def _check_wanted(self, problem: Problem) -> None:
        wanted = set(problem.pairs)
        for g, h, _ in self.pairs:
            inside = {(min(i, j), max(i, j)) for i in self.classes[g] for j in self.classes[h] if i != j}
            if not inside or not inside <= wanted:
                raise InvalidCertificate(f"the certificate weighs pairs of classes {g}, {h} that need not be preserved")
        for _, g, _, _ in self.caps:
            alone = len(self.classes[g]) == 1
            if problem.caps is None or not (alone and np.isfinite(problem.caps[self.classes[g][0]])):
                raise InvalidCertificate(f"the certificate weighs a cap on class {g} that the problem does not have")


def lower_bound(problem: Problem, certificate: Certificate | None) -> float:
    """Compute the lower bound of ε in nats for any mechanism of ``problem``.

    Rounded down; never negative.

    With multipliers: the bound by duality, O(cells) time, or O(m × w·f) where the cells are too many. Without: the KL
    bound, O(m).
    """
    if certificate is None:
        return kl_bound(problem)
    certificate.check(problem)
    if certificate.effects:
        try:
            return rank_one.lower_bound(_rank_one(problem, certificate))
        except TooManyTotals as error:
            raise InvalidCertificate(f"the certificate cannot be evaluated: {error}; scale it down") from error
    cells = certificate.cells
    joint = certificate.pairs or certificate.caps
    if joint and cells > MAX_CELLS:
        raise InvalidCertificate(
            f"pair and cap multipliers over {cells} cells cannot be evaluated; {MAX_CELLS} cells at most"
        )
    # plain accuracies may have weights that overflow where change sets are counted; the grid takes any
    if cells > MAX_CELLS or (cells > EXACT_CELLS and not joint and _heaviest(certificate) >= INTEGER_LIMIT):
        try:
            return grid_bound.lower_bound(WeightedClasses.of(problem, certificate.classes, certificate.weights))
        except WindowTooWide as error:
            raise InvalidCertificate(
                f"the certificate's weights, up to {max(certificate.weights)}, are too large to evaluate: {error}; "
                "scale them "
                "down"
            ) from error
    h, constant, minus_mean = _dual_function(problem, certificate)
    if minus_mean <= 0:
        return 0.0
    if h.size <= EXACT_CELLS:
        return _exact_bound(problem, certificate, h, constant, minus_mean)
    return _float_bound(problem, certificate, h, constant, minus_mean)


def _heaviest(certificate: Certificate) -> int:
    return sum(w * len(c) for c, w in zip(certificate.classes, certificate.weights, strict=True))


def _rank_one(problem: Problem, certificate: Certificate) -> RankOne:
    first = [c[0] for c in certificate.classes]
    return RankOne(
        problem.sizes[first], np.array([len(c) for c in certificate.classes]), problem.epsilons[first],
        certificate.weights, certificate.effects, certificate.unit, problem.kappa,
    )  # fmt: skip


def kl_bound(problem: Problem) -> float:
    """Compute Σ KL(Bernoulli(f_i) ‖ Bernoulli(d_i)) in nats, rounded down.

    A lower bound for each mechanism (theory §3.3).
    """
    f, d, gap = problem.flips, problem.uniform_flips, problem.gaps
    # f ln(f/d) + (1−f) ln((1−f)/(1−d)) with log1p, because f and d nearly agree at small ε
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.log1p(-np.minimum(gap / d, 0.5))
    parts = f * np.where(gap < d / 2, near, np.log(f / d)) + problem.keeps * np.log1p(gap * problem.sizes)
    scale = f * np.abs(np.log(f / d)) + problem.keeps * np.log1p(gap * problem.sizes)
    # ln(r−1) − ε, up to 64 in size, costs f and 1 − f up to 44 roundings; the logarithms cost a few, the sum log2(m)
    # more
    return max(float(parts.sum() - (64 + np.log2(problem.m + 1)) * 2.0**-53 * scale.sum()), 0.0)


def _dual_function(problem: Problem, certificate: Certificate) -> tuple[IntArray, Fraction, Fraction]:
    """Compute H as integers over the counts.

    Also returns its rational constant (rounded up), and −E_μ h with that constant.
    """
    shape = tuple(len(c) + 1 for c in certificate.classes)
    # few cells: Python's integers, so that weights may differ by any factor; many: int64, checked against overflow
    kind = object if math.prod(shape) <= EXACT_CELLS else np.int64
    h = np.zeros(shape, dtype=kind)
    constant = Fraction(0)
    minus_mean = Fraction(0)
    budget = _Budget(math.inf if kind is object else INTEGER_LIMIT)
    for g, (members, w) in enumerate(zip(certificate.classes, certificate.weights, strict=True)):
        r, epsilon = int(problem.sizes[members[0]]), float(problem.epsilons[members[0]])
        budget.spend(w * len(members))
        h -= w * _axis(np.arange(len(members) + 1).astype(kind), g, len(shape))
        constant += Fraction(w * len(members) * flip_ceiling(r, epsilon), 1 << FLIP_BITS)
        minus_mean += Fraction(w * len(members) * (r - 1), r)
    for a, b, v in certificate.pairs:
        spans = [len(certificate.classes[g]) * (int(problem.sizes[certificate.classes[g][0]]) - 1) for g in (a, b)]
        budget.spend(v * spans[0] * spans[1])
        count, values, kept = _pair_row(problem, certificate, a, b, kind)
        h += v * values
        constant -= v * count * kept
    minus_mean -= constant
    if certificate.caps:
        bump, mean, most = _cap_rows(problem, certificate, shape)
        budget.spend(most)
        h += bump.astype(kind)
        minus_mean -= mean
    return h, constant, minus_mean


class _Budget:
    """Bound of the integers so far; raises InvalidCertificate before overflow."""

    def __init__(self, limit: float) -> None:
        self._limit, self._spent = limit, 0

    def spend(self, largest: int) -> None:
        self._spent += largest
        if self._spent >= self._limit:
            raise InvalidCertificate("the certificate's integers are too large to add without overflow")


def _axis(values: IntArray, axis: int, ndim: int) -> IntArray:
    shape = [1] * ndim
    shape[axis] = -1
    return values.reshape(shape)


def _pair_row(problem: Problem, certificate: Certificate, a: int, b: int, kind: type) -> tuple[int, IntArray, Fraction]:
    """Compute the row of a pair of classes.

    Number of pairs, Σ (r−1)(r'−1) χ_ij over them for each cell, and a lower bound of (r−1)(r'−1) κ λ_i λ_j.
    """
    ndim = len(certificate.classes)
    scaled, floors = [], []
    for g in (a, b):
        members = certificate.classes[g]
        r, epsilon = int(problem.sizes[members[0]]), float(problem.epsilons[members[0]])
        k: IntArray = np.arange(len(members) + 1).astype(kind)
        scaled.append(_axis((r - 1) * (len(members) - k) - k, g, ndim))
        floors.append(r - 1 - r * Fraction(flip_ceiling(r, epsilon), 1 << FLIP_BITS))
    kept = Fraction(problem.kappa) * max(floors[0], Fraction(0)) * max(floors[1], Fraction(0))
    if a != b:
        return len(certificate.classes[a]) * len(certificate.classes[b]), scaled[0] * scaled[1], kept
    n = len(certificate.classes[a])
    r, k = int(problem.sizes[certificate.classes[a][0]]), np.arange(n + 1).astype(kind)
    squares = _axis((r - 1) ** 2 * (n - k) + k, a, ndim)
    return n * (n - 1) // 2, (scaled[0] ** 2 - squares) // 2, kept


def _cap_rows(problem: Problem, certificate: Certificate, shape: tuple[int, ...]) -> tuple[IntArray, Fraction, int]:
    """Compute the cap multipliers' part of h and E_μ h, and the largest integer."""
    assert problem.caps is not None
    out = np.zeros(shape, dtype=object)
    flat = out.reshape(-1)
    outputs = _output_counts(problem, certificate, shape)
    total = math.prod(int(r) for r in problem.sizes)
    mean = Fraction(0)
    strides = [math.prod(shape[g + 1 :]) for g in range(len(shape))]
    for cell, g, up, c in certificate.caps:
        more = cell + strides[g]
        if not 0 <= cell < more < flat.size or (cell // strides[g]) % shape[g] != 0:
            raise InvalidCertificate(f"the certificate's cap at cell {cell} is not a step of class {g}")
        capped, other = (more, cell) if up else (cell, more)
        gain = math.ceil(c * outputs[capped] * exp_bounds(float(problem.caps[certificate.classes[g][0]]))[1])
        flat[other] += gain
        flat[capped] -= c * outputs[other]
        mean += Fraction(gain * outputs[other] - c * outputs[other] * outputs[capped], total)
    return out, mean, max((abs(int(x)) for x in flat), default=0)


def _output_counts(problem: Problem, certificate: Certificate, shape: tuple[int, ...]) -> list[int]:
    """Count the outputs of each cell exactly: Π C(m_g, k_g) (r_g−1)^{k_g}.

    Cells are in flat order.
    """
    out = [1]
    for members, _ in zip(certificate.classes, shape, strict=True):
        n, r = len(members), int(problem.sizes[members[0]])
        step = [1]
        for k in range(n):
            step.append(step[-1] * (n - k) * (r - 1) // (k + 1))
        out = [x * y for x in out for y in step]
    return out


def _exact_bound(
    problem: Problem, certificate: Certificate, h: IntArray, constant: Fraction, minus_mean: Fraction
) -> float:
    outputs = _output_counts(problem, certificate, h.shape)
    den, num = constant.denominator, constant.numerator
    positive = sum(n * max(int(x) * den + num, 0) for n, x in zip(outputs, h.ravel().tolist(), strict=True))
    if positive == 0:
        raise InvalidCertificate("the certificate's multipliers prove the problem infeasible or are all zero")
    total = math.prod(int(r) for r in problem.sizes)
    return max(log_floor(1 + minus_mean * total * den / positive), 0.0)


def _float_bound(
    problem: Problem, certificate: Certificate, h: IntArray, constant: Fraction, minus_mean: Fraction
) -> float:
    # integer and fractional part of the constant apart: their sum keeps its relative accuracy however small it is
    whole = math.floor(constant)
    fraction = math.nextafter(float(constant - whole), math.inf)
    inside = h + whole >= 0
    if not inside.any():
        raise InvalidCertificate("the certificate's multipliers prove the problem infeasible or are all zero")
    classes = [np.asarray(c, dtype=np.int64) for c in certificate.classes]
    logs = log_uniform_counts(problem.sizes, classes)[inside]
    error = log_uniform_counts_error(problem.sizes, classes)[inside]
    top = float(logs.max())
    terms = np.exp(logs - top) * ((h[inside] + whole).astype(np.float64) + fraction)
    log_sum, log_mean = top + math.log(float(terms.sum())), log_floor(minus_mean)
    # each term inherits its logarithm's error; numpy sums blocks of 128, then pairs
    inherited = float(np.sum(terms * (error + 2.0**-52 * np.abs(logs - top))) / terms.sum())
    # e^error − 1 and the rounding of this very sum are within 2 % of it
    sum_error = 1.02 * inherited + 2.0**-53 * (128 + math.log2(terms.size) + 16)
    log_ratio = log_mean - log_sum - sum_error
    log_ratio -= 2.0**-51 * (abs(top) + abs(log_sum) + abs(log_mean))
    bound = float(np.logaddexp(0.0, log_ratio))
    return max(bound - 4 * math.ulp(bound), 0.0)
