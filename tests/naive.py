"""Slow, obvious references: whole matrices, loops over every output, many digits. For small cases only."""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import mpmath as mp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import chi2

from optrr_solvers.certificates.certificate import Certificate
from optrr_solvers.laws import BlockLaw, CountLaw, FewChangesLaw, Law, ProductLaw, TableLaw
from optrr_solvers.problem import Problem
from optrr_solvers.randomness import BitSource
from optrr_solvers.sampling.diagram import ChoiceLayer, Layer, Layers

Array = NDArray[np.float64]

# Digits for the references in high precision: far beyond a double, and fast.
DIGITS = 60


def change_sets(m: int) -> list[tuple[int, ...]]:
    """All 2^m change sets as 0/1 tuples, first attribute slowest."""
    return list(itertools.product((0, 1), repeat=m))


def fit_p_value(cells: NDArray[np.int64], probabilities: Array) -> float:
    """p-value of Pearson's χ² test that these cells were drawn with these probabilities; the rarest are pooled."""
    chances = np.ravel(probabilities)
    seen, expected = np.bincount(cells, minlength=chances.size), chances / chances.sum() * len(cells)
    order, few = np.argsort(expected), np.count_nonzero(expected < 5) + 1
    seen, expected = (np.append(x[order[few:]], x[order[:few]].sum()) for x in (seen, expected))
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), max(seen.size - 1, 1)))


def changes_p_value(changed: NDArray[np.bool_], probabilities: Array) -> float:
    """The same of drawn change sets, shape (n, m), with probabilities of shape (2,)*m."""
    return fit_p_value(changed @ (1 << np.arange(changed.shape[1])[::-1]), probabilities)


def density(law: Law) -> Array:
    """q_S of every change set, shape (2,)*m, straight from what each law stores."""
    out = np.empty((2,) * law.m)
    for s in change_sets(law.m):
        out[s] = _one_density(law, s)
    return out


def _one_density(law: Law, s: tuple[int, ...]) -> float:
    if isinstance(law, ProductLaw):
        return float(np.prod([np.exp(-e) if c else 1.0 for e, c in zip(law.epsilons, s, strict=True)]))
    if isinstance(law, TableLaw):
        return float(np.exp(law.log_density[s]))
    if isinstance(law, CountLaw):
        return float(np.exp(law.log_density[tuple(sum(s[i] for i in c) for c in law.classes)]))
    if isinstance(law, FewChangesLaw):
        changed = [i for i, c in enumerate(s) if c]
        logs = {0: law.log_none, 1: law.log_single[changed[0]] if changed else 0.0}
        return float(np.exp(logs.get(len(changed), 0.0)))
    assert isinstance(law, BlockLaw)
    return float(np.prod([_one_density(part, tuple(s[i] for i in members)) for members, part in law.blocks]))


def outputs(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Every record, last attribute fastest."""
    return list(itertools.product(*(range(r) for r in sizes)))


def matrix(sizes: Sequence[int], q: Array) -> Array:
    """P[u, v] over all records: q of the change set between u and v, rows scaled to sum to 1."""
    records = outputs(sizes)
    p = np.array([[q[tuple(int(a != b) for a, b in zip(u, v, strict=True))] for v in records] for u in records])
    return p / p.sum(axis=1, keepdims=True)


def change_table(sizes: Sequence[int], q: Array) -> Array:
    """Probability of every change set, by adding up the outputs one by one, shape (2,)*m."""
    out = np.zeros((2,) * len(sizes))
    for v in outputs(sizes):
        s = tuple(int(x != 0) for x in v)
        out[s] += q[s]
    return out / out.sum()


def marginal_matrix(sizes: Sequence[int], p: Array, subset: Sequence[int]) -> Array:
    """Distortion matrix of the attributes in ``subset``: outputs merged, one input per class (they agree; checked)."""
    records = outputs(sizes)
    kept = [tuple(u[i] for i in subset) for u in records]
    labels = outputs([sizes[i] for i in subset])
    merged = np.stack([p[:, [k == v for k in kept]].sum(axis=1) for v in labels], axis=1)
    rows = [merged[[k == u for k in kept]] for u in labels]
    for block in rows:
        np.testing.assert_allclose(block, np.broadcast_to(block[0], block.shape), rtol=1e-12)
    return np.stack([block[0] for block in rows])


def ldp_epsilon(p: Array) -> float:
    """ε of local differential privacy: the largest log ratio within a column."""
    return float(np.log(p.max(axis=0) / p.min(axis=0)).max())


def conditional_epsilon(sizes: Sequence[int], p: Array, i: int) -> float:
    """Largest log ratio within a column between two inputs that differ in attribute i only."""
    records = outputs(sizes)
    worst = 0.0
    for a, u in enumerate(records):
        for b, v in enumerate(records):
            if [k for k in range(len(sizes)) if u[k] != v[k]] == [i]:
                worst = max(worst, float(np.abs(np.log(p[a] / p[b])).max()))
    return worst


def eigenvalue(sizes: Sequence[int], table: Array, subset: Sequence[int]) -> float:
    """λ_U = E[Π χ_i] by its definition."""
    total = 0.0
    for s in change_sets(len(sizes)):
        total += table[s] * float(np.prod([-1 / (sizes[i] - 1) if s[i] else 1.0 for i in subset]))
    return total


def flips(problem: Problem) -> list[mp.mpf]:
    """f_i = (r_i−1)/(r_i−1+e^{ε_i}) to 60 digits."""
    with mp.workdps(DIGITS):
        pairs = zip(problem.sizes.tolist(), problem.epsilons.tolist(), strict=True)
        return [mp.mpf(r - 1) / (r - 1 + mp.exp(mp.mpf(e))) for r, e in pairs]


def dual_bound(problem: Problem, certificate: Certificate) -> float:
    """The certificate's bound by its definition: every requirement's g summed change set by change set, 60 digits."""
    with mp.workdps(DIGITS):
        sizes, f = problem.sizes.tolist(), flips(problem)
        lam = [1 - x * r / (r - 1) for x, r in zip(f, sizes, strict=True)]
        mean, positive = mp.mpf(0), mp.mpf(0)
        cells = list(itertools.product(*(range(len(c) + 1) for c in certificate.classes)))
        total = mp.fprod(sizes)
        for s in change_sets(problem.m):
            n_s = mp.fprod(r - 1 if c else 1 for r, c in zip(sizes, s, strict=True))
            h = mp.mpf(0)
            for members, w in zip(certificate.classes, certificate.weights, strict=True):
                h += sum(w * (f[i] - s[i]) for i in members)
            for a, b, v in certificate.pairs:
                first, second = certificate.classes[a], certificate.classes[b]
                for i, j in {tuple(sorted((i, j))) for i in first for j in second if i != j}:
                    chi = [mp.mpf(-1) / (sizes[k] - 1) if s[k] else mp.mpf(1) for k in (i, j)]
                    scale = (sizes[i] - 1) * (sizes[j] - 1)
                    h += v * scale * (chi[0] * chi[1] - mp.mpf(problem.kappa) * lam[i] * lam[j])
            for cell, g, up, c in certificate.caps:
                i = certificate.classes[g][0]
                bottom = [0] * problem.m
                for members, k in zip(certificate.classes, cells[cell], strict=True):
                    bottom[members[0]] = k
                top = [*bottom[:i], 1, *bottom[i + 1 :]]
                capped, other = (top, bottom) if up else (bottom, top)
                count = [mp.fprod(r - 1 if x else 1 for r, x in zip(sizes, t, strict=True)) for t in (capped, other)]
                if list(s) == other:
                    h += c * count[0] * mp.exp(mp.mpf(float(problem.caps[i])))
                if list(s) == capped:
                    h -= c * count[1]
            mean += n_s * h / total
            positive += n_s * max(h, mp.mpf(0)) / total
        return float(mp.log(1 + max(-mean, mp.mpf(0)) / positive))


def optimum(problem: Problem) -> float:
    """Smallest total ε by a linear program over every change set, requirements as stated; for Q up to about e^12."""
    sizes, m = problem.sizes.tolist(), problem.m
    sets = change_sets(m)
    mu = np.array([np.prod([1 - 1 / r if c else 1 / r for r, c in zip(sizes, s, strict=True)]) for s in sets])
    f = np.array([float(x) for x in flips(problem)])
    rows = [mu * ((np.array([s[i] for s in sets])) - f[i]) for i in range(m)]
    upper, right = [], []
    for i, j in problem.pairs:
        lam = [1 - f[k] * sizes[k] / (sizes[k] - 1) for k in (i, j)]
        chi = [np.array([-1 / (sizes[k] - 1) if s[k] else 1.0 for s in sets]) for k in (i, j)]
        upper.append(-mu * (chi[0] * chi[1] - problem.kappa * lam[0] * lam[1]))
    if problem.caps is not None:
        for i, cap in enumerate(problem.caps):
            for s in sets:
                if s[i] == 0 and np.isfinite(cap):
                    a, b = sets.index(s), sets.index((*s[:i], 1, *s[i + 1 :]))
                    for x, y in ((a, b), (b, a)):
                        row = np.zeros(len(sets))
                        row[x], row[y] = 1.0, -np.exp(cap)
                        upper.append(row)
    equality = not problem.constrained
    upper += [] if equality else rows
    right = [0.0] * len(upper)
    box = np.hstack([np.eye(len(sets)), -np.ones((len(sets), 1))])
    a_ub = np.vstack([box, *[np.append(row, 0.0)[None] for row in upper]])
    a_eq = np.hstack([np.array(rows), np.zeros((m, 1))]) if equality else None
    cost = np.append(np.zeros(len(sets)), 1.0)
    b_ub = np.append(np.zeros(len(sets)), right)
    b_eq = np.zeros(m) if equality else None
    answer = linprog(cost, a_ub, b_ub, a_eq, b_eq, bounds=[(1, None)] * (len(sets) + 1), method="highs")
    assert answer.status == 0, answer.message
    return float(np.log(answer.x[-1]))


def por_program(
    sizes: Sequence[int], epsilons: Sequence[float]
) -> tuple[list[tuple[int, ...]], Array, Array, Array, Array]:
    """POR's Algorithms 1 and 2: events in the published order, A, b (by which event follows which), A_eq, b_eq (equation 3).

    Events are ordered by how many attributes change, then as their index tuples; "all change" is the constant 1 and no column.
    """
    m = len(sizes)
    events = [e for size in range(m) for e in itertools.combinations(range(m), size)]
    a, b = [], []
    for below in events:
        for above in [*events, tuple(range(m))]:
            if len(above) == len(below) + 1 and set(below) < set(above):
                row = [0.0] * len(events)
                row[events.index(below)] = -1.0
                if above in events:
                    row[events.index(above)] = 1.0
                a.append(row)
                b.append(0.0 if above in events else -1.0)
    times = [float(np.prod([sizes[i] - 1 for i in e])) for e in events]
    everything = float(np.prod([r - 1 for r in sizes]))
    a_eq, b_eq = [], []
    for i in range(m):
        odds = float(np.exp(epsilons[i])) / (sizes[i] - 1)
        a_eq.append([-t * odds if i in e else t for e, t in zip(events, times, strict=True)])
        b_eq.append(everything * odds)
    return events, np.array(a), np.array(b), np.array(a_eq), np.array(b_eq)


def por_inductive(sizes: Sequence[int], epsilons: Sequence[float]) -> tuple[float, list[float]]:
    """POR's Algorithm 3 as published (recurrence, linear equations, fallback), 400 digits: total and achieved ε."""
    with mp.workdps(400):
        c = [mp.exp(mp.mpf(e)) for e in epsilons]
        x0, x = por_two(sizes[0], sizes[1], c[0], c[1])
        x = list(x)
        achieved = [mp.mpf(epsilons[0]), mp.mpf(epsilons[1])]
        for k in range(2, len(sizes)):
            r, p, s = sizes[k], mp.fprod(sizes[:k]), sum(sizes[:k])
            y = [r * v - r + 1 for v in x]
            s0 = sum((sizes[j] - 1) * y[j] for j in range(k))
            # y0 + (r−1) yk = r x0;  y0 − c yk = −s0 − p + s − (k+1) + 2 + c (p−1), with k+1 attributes in all
            right = -s0 - p + s - (k + 1) + 2 + c[k] * (p - 1)
            yk = (r * x0 - right) / (r - 1 + c[k])
            y0 = r * x0 - (r - 1) * yk
            if y0 < 1 or yk < 1 or any(y0 < v for v in [*y, yk]):
                y0, yk = r * x0 - r + 1, mp.mpf(1)
            achieved.append(mp.log((y0 + s0 + p - s + k - 1) / (yk + p - 1)))
            x0, x = y0, [*y, yk]
        return float(mp.log(max([x0, *x]))), [float(e) for e in achieved]


def por_two(a: int, b: int, c: mp.mpf, d: mp.mpf) -> tuple[mp.mpf, tuple[mp.mpf, mp.mpf]]:
    """POR's four two-attribute cases as printed: x_0 and (x_1, x_2)."""
    if c * d >= (a - 1) * (b - 1):
        if b * c - a * d + a - b >= 0:
            below = d + b - 1
            x0 = (b * c * d + (a - 1) * (b - 1) * d - (a - 1) * (b - 1)) / below
            return x0, (mp.mpf(1), (b * c - (a - 1) * d + a - 1) / below)
    elif (a - b) * c * d + a * (b - 1) * c - (a - 1) * b * d >= 0:
        below = -c * d + c + (a - 1) * b
        x0 = (a - 1) * c * (d + b - 1) / below
        return x0, (((b - 1) * c * d - (b - 1) * c + (a - 1) * b * d) / below, x0)
    x0, (x2, x1) = por_two(b, a, d, c)
    return x0, (x1, x2)


def change_table_of(p: Array, sizes: Sequence[int]) -> Array:
    """Probability of every change set read off the first row of a distortion matrix, shape (2,)*m."""
    out = np.zeros((2,) * len(sizes))
    for v, chance in zip(outputs(sizes), p[0], strict=True):
        out[tuple(int(x != 0) for x in v)] += chance
    return out


def drawn_probabilities(automaton: Layers) -> dict[tuple[int, ...], Fraction]:
    """Exact probability of every change set that an automaton draws, by walking every path with its integers."""
    walks: dict[tuple[int, tuple[int, ...]], Fraction] = {(0, ()): Fraction(1)}
    order = []
    for layer in automaton.layers:
        reached: dict[tuple[int, tuple[int, ...]], Fraction] = defaultdict(Fraction)
        if not isinstance(layer, ChoiceLayer):
            order.append(layer.attribute)
        for (state, s), mass in walks.items():
            if isinstance(layer, ChoiceLayer):
                ends = [0, *(int(x) for x in layer.ends), 1 << 64]
                for k, target in enumerate(layer.next_states.tolist()):
                    reached[target, s] += mass * Fraction(ends[k + 1] - ends[k], 1 << 64)
                continue
            r = int(automaton.sizes[layer.attribute])
            if layer.uniform:
                reached[int(layer.kept[state]), (*s, 0)] += mass / r
                reached[int(layer.kept[state]), (*s, 1)] += mass * (r - 1) / r
                continue
            a, high = _whole(layer.words, state), 0
            unit = Fraction(mass, 1 << automaton.bits)
            if layer.high is not None:
                high = _whole(layer.high_words, state)
                reached[int(layer.high[state]), (*s, 1)] += unit * high
            reached[int(layer.kept[state]), (*s, 0)] += unit * ((1 << automaton.bits) - a)
            reached[int(layer.changed[state]), (*s, 1)] += unit * (a - high)
        walks = reached
    back = [order.index(i) for i in range(len(order))]
    out: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for (_, s), mass in walks.items():
        out[tuple(s[k] for k in back)] += mass
    return out


def walked(automaton: Layers, n: int, source: BitSource, at_once: int) -> tuple[NDArray[np.bool_], int]:
    """Change sets, shape (n, m), of records walked one after another, and how many words were needed whole.

    Takes words as the sampler does: one for every record's choice; 32 bits, the lower half of a word first, for every record
    of as many layers as ``at_once`` cells hold, but one; then whole words where those bits are a threshold's.
    """
    out, used, hidden = np.zeros((n, automaton.sizes.size), dtype=np.bool_), 0, automaton.bits - 32
    states = [0] * n
    for chosen, run in itertools.groupby(automaton.layers, lambda layer: isinstance(layer, ChoiceLayer)):
        layers = list(run)
        if chosen:
            for layer in layers:
                places = [sum(int(end) <= int(word) for end in layer.ends) for word in source.words(n)]
                states = [int(layer.next_states[place]) for place in places]
            continue
        step = max(1, at_once // n)
        for part in (layers[k : k + step] for k in range(0, len(layers), step)):
            halves = [
                half for word in source.words(-(-len(part) * n // 2)).tolist() for half in (word % 2**32, word >> 32)
            ]
            for k, layer in enumerate(part):
                for j in range(n):
                    ends = _thresholds(layer, states[j])
                    whole = halves[k * n + j] << hidden
                    if whole in [end >> hidden << hidden for end in ends if end is not None]:
                        rest = source.words(automaton.bits // 64)
                        whole, used = whole | int("".join(f"{int(w):064b}" for w in rest), 2) % (1 << hidden), used + 1
                    first, second = (end is not None and whole < end for end in ends)
                    out[j, layer.attribute] = first
                    ways = layer.high if second else layer.changed if first else layer.kept
                    states[j] = int(ways[states[j]])
    return out, used


def _thresholds(layer: Layer, state: int) -> tuple[int | None, int | None]:
    """The first and the second; an attribute that is answered uniformly has none, and does not change before."""
    if layer.uniform:
        return None, None
    return _whole(layer.words, state), None if layer.high_words is None else _whole(layer.high_words, state)


def _whole(words: NDArray[np.uint64], state: int) -> int:
    return int("".join(f"{int(w):064b}" for w in words[:, state]), 2)


class ExactTruth:
    """ε of exact change-set probabilities, as rationals e^ε: total, conditional and of each attribute alone."""

    def __init__(self, sizes: Sequence[int], nu: dict[tuple[int, ...], Fraction]) -> None:
        m = len(sizes)
        q = {s: p / math.prod(r - 1 for r, c in zip(sizes, s, strict=True) if c) for s, p in nu.items()}
        self.total = max(q.values()) / min(q.values())
        self.flips = [sum((p for s, p in nu.items() if s[i]), Fraction(0)) for i in range(m)]
        self.attribute = [(r - 1) * (1 - f) / f for r, f in zip(sizes, self.flips, strict=True)]
        self.conditional = []
        for i in range(m):
            steps = [q[s] / q[(*s[:i], 1, *s[i + 1 :])] for s in q if not s[i]]
            self.conditional.append(max(max(x, 1 / x) for x in steps))


def log_of(value: Fraction) -> mp.mpf:
    """ln of a rational to 60 digits."""
    with mp.workdps(DIGITS):
        return mp.log(mp.mpf(value.numerator) / mp.mpf(value.denominator))


def norm_sub(values: Array) -> Array:
    """Norm-Sub (Wang et al., PVLDB 2020): negatives to 0, the surplus shared by the positive cells, until none is negative.

    Each round removes at least one cell, so there are at most R rounds.
    """
    x = np.atleast_2d(np.asarray(values, dtype=np.float64)).copy()
    flat = x.reshape(-1, x.shape[-1])
    alive = np.ones(flat.shape, dtype=np.bool_)
    while True:
        surplus = np.sum(flat, axis=-1, where=alive, keepdims=True) - 1
        shifted = flat - surplus / np.count_nonzero(alive, axis=-1, keepdims=True)
        negative = alive & (shifted <= 0)
        if not negative.any():
            return np.where(alive, shifted, 0.0).reshape(np.shape(values))
        alive &= ~negative
