"""Check a saved lower bound for any ε-LDP mechanism in exact rationals: `python proofs/check_any_mechanism.py < FILE`.

A pattern is the number of differing attributes in each group; its y is spread evenly over all such sets D. With Y_S =
Σ_D y_D λ_S(D), λ_S(D) = Π_{i∈S∩D} −1/(r_i−1), with c_S = min over sets of β − Y_S, which must be ≥ 0 for all S ≠ ∅, Y =
Y_∅ and g = e^ε − 1, error ≥ (Σ_S √(a_S c_S))² / max_p [β (p − p²) + Y p²] g²/(1 + gp)², a_S = dim_S² Σ_{U⊇S}
weight_U/Π_{i∈U} r_i. One set holds for all p (the maximum is at most β² g²/4(β e^ε − Y)), several for p = 1/N, …, 1/2
each. Limits of energies are left out.
"""

import itertools
import json
import math
import sys
from fractions import Fraction


def mean(sizes, group, inside, members):
    """The mean of λ_S(D) over all D with so many members in the group: a coefficient of Π (1 + x_i z), over their number."""
    row = [Fraction(1)]
    for i in group:
        x = Fraction(-1, sizes[i] - 1) if i in inside else 1
        row = [a + x * b for a, b in zip([*row, 0], [0, *row], strict=True)]
    return row[members] / math.comb(len(group), members)


def check(saved):
    """The lower bound that the multipliers prove; ValueError where they prove none."""
    sizes, groups = saved["sizes"], saved["groups"]
    used = sorted(itertools.chain(*groups))
    cells = math.prod(sizes[i] for i in used)
    if used != sorted(set(itertools.chain(*saved["tables"]))) or len(saved["sets"]) not in (1, cells // 2):
        raise ValueError("the groups are no partition of the attributes in tables, or a set is missing")
    # the bound decreases in ε, and a double's exponential is off by less than this
    gain = Fraction(math.exp(saved["total"])) * (1 + Fraction(1, 1 << 50)) - 1
    sets = [(Fraction(s["beta"]), [(d, Fraction(y)) for d, y in s["patterns"]]) for s in saved["sets"]]
    if any(beta <= 0 or any(y < 0 for _, y in patterns) for beta, patterns in sets):
        raise ValueError("a multiplier is negative")
    top, unit = Fraction(0), 1 << 160
    for inside in (set(s) for k in range(len(used)) for s in itertools.combinations(used, k + 1)):
        left = []
        for beta, patterns in sets:
            means = ((y, (mean(sizes, g, inside, n) for g, n in zip(groups, d, strict=True))) for d, y in patterns)
            left.append(beta - sum(math.prod(each, start=y) for y, each in means))
        if min(left) < 0:
            raise ValueError(f"Y_S exceeds β for the attributes {sorted(inside)}")
        tables = zip(saved["tables"], saved["weights"], strict=True)
        share = sum(Fraction(w) / math.prod(sizes[i] for i in t) for t, w in tables if inside <= set(t))
        square = math.prod(sizes[i] - 1 for i in inside) ** 2 * share * min(left)
        top += Fraction(math.isqrt(math.floor(square * unit**2)), unit)
    most = []
    for j, (beta, patterns) in enumerate(sets, 1):
        p, both = Fraction(j, cells), sum(y for _, y in patterns)
        if len(sets) == 1 and both >= beta * (1 + gain):
            raise ValueError("the multipliers are too large")
        each = (beta * (p - p * p) + both * p * p) * (gain / (1 + gain * p)) ** 2
        most.append(each if len(sets) > 1 else (beta * gain) ** 2 / (4 * (beta * (1 + gain) - both)))
    return top**2 / max(most)


if __name__ == "__main__":
    print(float(check(json.load(sys.stdin)["bound"])))
