"""A small exact simplex method, the independent reference of the proofs: fractions, Bland's rule, no tolerance.

    minimise c·x  subject to  A x = b ≥ 0,  x ≥ 0

by two phases on a dense tableau. For a few dozen rows; simple rather than fast.
"""

import itertools
from collections.abc import Sequence
from fractions import Fraction

Row = list[Fraction]


def minimise(cost: Sequence[Fraction], rows: Sequence[Sequence[Fraction]], right: Sequence[Fraction]) -> Fraction:
    """The optimal value; raises ValueError where the program is infeasible or unbounded."""
    n, k = len(cost), len(rows)
    assert all(b >= 0 for b in right)
    unit = [[Fraction(int(i == j)) for j in range(k)] for i in range(k)]
    table = [[*map(Fraction, row), *unit[i], Fraction(right[i])] for i, row in enumerate(rows)]
    basis = list(range(n, n + k))
    if _run(table, basis, [Fraction(0)] * n + [Fraction(1)] * k, n + k) != 0:
        raise ValueError("infeasible")
    for i in range(k):
        if basis[i] >= n:
            j = next((j for j in range(n) if table[i][j] != 0), None)
            if j is not None:
                _pivot(table, basis, i, j)
    return _run(table, basis, [*map(Fraction, cost), *[Fraction(0)] * k], n)


def _run(table: list[Row], basis: list[int], cost: Sequence[Fraction], columns: int) -> Fraction:
    while True:
        price = [cost[j] for j in basis]
        for j in range(columns):
            if j not in basis and cost[j] < sum((p * row[j] for p, row in zip(price, table, strict=True)), Fraction(0)):
                break
        else:
            return sum((p * row[-1] for p, row in zip(price, table, strict=True)), Fraction(0))
        steps = [(row[-1] / row[j], basis[i], i) for i, row in enumerate(table) if row[j] > 0]
        if not steps:
            raise ValueError("unbounded")
        _pivot(table, basis, min(steps)[2], j)


def _pivot(table: list[Row], basis: list[int], i: int, j: int) -> None:
    scale = table[i][j]
    table[i] = [x / scale for x in table[i]]
    for k, row in enumerate(table):
        if k != i and row[j] != 0:
            factor = row[j]
            table[k] = [x - factor * y for x, y in zip(row, table[i], strict=True)]
    basis[i] = j


def smallest_ratio(sizes: Sequence[int], flips: Sequence[Fraction], *, monotone: bool = False) -> Fraction:
    """Q = e^ε of the design problem over all 2^m change sets, exactly; with POR's rows q_S ≥ q_T for S ⊂ T if asked.

    In the excess s = q − 1 ≥ 0 and z = Q − 1: minimise z with s_S ≤ z and Σ μ_S (f_i − 1[i∈S]) s_S = d_i − f_i.
    """
    m = len(sizes)
    sets = list(itertools.product((0, 1), repeat=m))
    where = {s: k for k, s in enumerate(sets)}
    bounds: list[dict[int, int]] = [{k: 1, len(sets): -1} for k in range(len(sets))]
    if monotone:
        for s, i in itertools.product(sets, range(m)):
            if not s[i]:
                bounds.append({where[(*s[:i], 1, *s[i + 1 :])]: 1, where[s]: -1})
    columns = len(sets) + 1 + len(bounds)
    rows = []
    for k, bound in enumerate(bounds):
        row = [Fraction(bound.get(j, 0)) for j in range(columns)]
        row[len(sets) + 1 + k] = Fraction(1)
        rows.append(row)
    right = [Fraction(0)] * len(bounds)
    for i, (r, f) in enumerate(zip(sizes, flips, strict=True)):
        rows.append([uniform(sizes, s) * (f - s[i]) for s in sets] + [Fraction(0)] * (columns - len(sets)))
        right.append(Fraction(r - 1, r) - f)
    cost = [Fraction(int(j == len(sets))) for j in range(columns)]
    return 1 + minimise(cost, rows, right)


def uniform(sizes: Sequence[int], s: Sequence[int]) -> Fraction:
    """μ_S: the chance that a uniformly random answer has change set S."""
    out = Fraction(1)
    for r, changed in zip(sizes, s, strict=True):
        out *= Fraction(r - 1 if changed else 1, r)
    return out


def flip(size: int, exponential: Fraction) -> Fraction:
    """f = (r−1)/(r−1+e^ε) for a rational e^ε."""
    return (size - 1) / (size - 1 + Fraction(exponential))
