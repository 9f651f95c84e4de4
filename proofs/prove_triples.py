"""The kept multipliers of benchmarks/schrijver.py prove the bounds of benchmarks/results/triples.csv, in exact arithmetic.

Shares no code with the script, whose docstring has the argument. Here the matrices M and M' of all pairs of records are written
out, and a block is v_iᵀ M v_j for vectors v that are written out too, so that nothing about symmetries is taken for granted
but that T(x, y, z) depends on the pattern of equal categories only. All numbers are multiples of 2⁻⁶⁴/N, as integers.
"""

import csv
import gzip
import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
KEPT = json.loads(gzip.decompress((RESULTS / "triples.json.gz").read_bytes()))
UNIT = 1 << 32
SMALL, FEW = 16, 64


class Records:
    """All records of some sizes, the variable of every triple (0, x, y), and what else is linear in the variables.

    Variables are numbered from 1, which is p; 0 is the constant.
    """

    def __init__(self, sizes):
        self.sizes, self.count = np.array(sizes), math.prod(sizes)
        self.x = np.array(list(itertools.product(*map(range, sizes))))
        self.classes = [np.flatnonzero(self.sizes == r) for r in sorted(set(sizes))]
        codes = self.code(np.zeros_like(self.x)[:, None], self.x[:, None], self.x[None])
        # 0 = x = y comes first, as its code is the largest
        self.known, numbers = np.unique(-codes, return_inverse=True)
        self.triple = numbers.reshape(codes.shape) + 1
        differ = (self.x[:, None] != self.x[None]).astype(int)
        place = (differ * np.append(np.cumprod(self.sizes[:0:-1])[::-1], 1)).sum(axis=2)
        self.pair = np.diagonal(self.triple)[place]
        self.variables = self.known.size + 1
        self.often = np.bincount(self.triple.ravel(), minlength=self.variables)

    def code(self, *records):
        """A number for the pattern of three records, the same in whatever order they stand."""
        codes = []
        for a, b, c in itertools.permutations(records):
            kinds = np.select([(a == b) & (b == c), a == b, a == c, b == c], [0, 1, 2, 3], 4)
            code = 0
            for group in self.classes:
                for kind in (0, 1, 2, 3):
                    code = code * (len(self.sizes) + 1) + (kinds[..., group] == kind).sum(axis=-1)
            codes.append(code)
        return np.max(codes, axis=0)

    def energy(self, inside):
        """N w_S for one S, with f in the mean over alike attributes."""
        values = np.prod([self.sizes[i] * (self.x[:, i] == 0) - 1 for i in inside], axis=0) * np.ones(self.count, int)
        return self.sums(values, self.pair[0])

    def sums(self, values, variables):
        """A combination of variables, in whole numbers."""
        return np.bincount(variables.ravel(), np.asarray(values).ravel(), self.variables).astype(np.int64)

    def blocks(self):
        """Coefficients of every block of M and of M', (order, order, variables), in the order of the file."""
        zero = (self.x == 0).astype(int)
        numbers = [
            [(b, k) for b in range(len(g) + 1 if self.sizes[g[0]] > 2 else 1) for k in range(len(g) // 2 + 1)]
            for g in self.classes
        ]
        for key in itertools.product(*numbers):
            parts, scale = [], 1
            for group, (b, k) in zip(self.classes, key, strict=True):
                free = group[b + 2 * k :]
                if b + 2 * k > len(group):
                    break
                vector = np.ones(self.count, int)
                for i in group[:b]:
                    vector = vector * ((self.x[:, i] == 1).astype(int) - (self.x[:, i] == 2))
                for i, j in group[b : b + 2 * k].reshape(-1, 2):
                    vector = vector * (zero[:, i] - zero[:, j])
                scale *= 2 ** (b + k)
                others = (len(free) - zero[:, free].sum(axis=1)).astype(int)
                parts.append([vector * (others == n) for n in range(len(free) + 1)])
            if len(parts) < len(key):
                continue
            vectors = [np.prod(v, axis=0) for v in itertools.product(*parts)]
            first = [[self.sums(np.outer(v, w), self.triple) // scale for w in vectors] for v in vectors]
            pairs = [[self.sums(np.outer(v, w), self.pair) // scale for w in vectors] for v in vectors]
            second = np.array(pairs) - np.array(first)
            if not any(map(any, key)):
                # the border instead of the record 0
                one, p = np.eye(2, self.variables, dtype=np.int64)
                second[0, 0] = one - p
                for n, v in enumerate(vectors[1:], 1):
                    second[0, n] = second[n, 0] = v.sum() * p - self.sums(v, self.pair[0])
            yield np.array(first)
            yield second

    def not_negative(self, letters, inside, share):
        """N² times the chance that of three records these lie in A and the others do not; or that of an odd square."""
        if letters == "odd":
            assert set(self.sizes) == {2} and share % 2
            sets = list(itertools.combinations(range(len(self.sizes)), int(inside)))
            return sum(map(self.energy, sets)) // len(sets) * self.count - np.eye(1, self.variables, dtype=np.int64)[0]
        triple = np.array(
            [{"0": (0, 0, 0), "1": (0, 0, 1), "2": (0, 1, 0), "3": (0, 1, 1), "4": (0, 1, 2)}[k] for k in letters]
        ).T
        assert (triple < self.sizes).all()
        out = np.zeros(self.variables, np.int64)
        for chosen in itertools.product("01", repeat=3):
            if all(a <= b for a, b in zip(inside, chosen, strict=True)):
                held = [r for r, c in zip(triple, chosen, strict=True) if c == "1"]
                at = 0
                if held:
                    code = -self.code(*(held * 3)[:3])
                    at = int(np.searchsorted(self.known, code)) + 1
                    assert self.known[at - 1] == code
                out[at] += (-1) ** (len(held) - inside.count("1"))
        return out * self.count**2


def curves(records, kept, blocks):
    """For every kept limit: its share, or None, and U(p) as a function, in units of 1."""
    n = records.count
    for limit in kept["limits"]:
        left = np.zeros(records.variables, object)
        for counts, c in kept["c"]:
            for inside in sets_like(records, counts):
                left += records.energy(inside).astype(object) * c * UNIT * n
        for numbers, block in zip(limit["factors"], blocks, strict=True):
            factor = np.array(numbers, object).reshape(len(block), -1)
            left += (block.astype(object) * (factor @ factor.T)[:, :, None]).sum(axis=(0, 1)) * n * n
        for letters, inside, value in limit["signs"]:
            assert value >= 0
            left += records.not_negative(letters, inside, limit["share"]).astype(object) * value * UNIT
        for k, sums in enumerate(limit["sums"]):
            z = np.ones(len(sums), int)
            z[0] -= limit["share"] + k
            rows = (blocks[k] * z[:, None, None]).sum(axis=0)
            left += (rows.astype(object) * np.array(sums, object)[:, None]).sum(axis=0) * UNIT * n * n
        left -= records.energy(()).astype(object) * limit["u"] * UNIT * n

        def curve(p, left=left, u=limit["u"]):
            value = left[0] + left[1] * p
            for over, often in zip(left[2:], records.often[2:], strict=True):
                value += max(over, 0) * min(p, p**3 * n * n / int(often))
            return value / (UNIT * UNIT * n * n) + Fraction(u, UNIT) * p * p

        yield limit["share"], curve


def sets_like(records, counts):
    """All sets with so many attributes of every class."""
    parts = [itertools.combinations(g.tolist(), k) for g, k in zip(records.classes, counts, strict=True)]
    return [tuple(itertools.chain(*s)) for s in itertools.product(*parts)]


def least_limits(records, kept):
    """For every j = 1, …, N/2 the least U(j/N) that is kept."""
    limits = list(curves(records, kept, list(records.blocks())))
    return [
        min(curve(Fraction(j, records.count)) for share, curve in limits if share in (None, j))
        for j in range(1, records.count // 2 + 1)
    ]


def proved(kept):
    """The bound on the error of all pairs, rounded down."""
    records = Records(kept["sizes"])
    gain = Fraction(math.exp(kept["total"])) * (1 + Fraction(1, 1 << 50)) - 1
    shares = [Fraction(j, records.count) for j in range(1, records.count // 2 + 1)]
    most = max(u * (gain / (1 + gain * p)) ** 2 for u, p in zip(least_limits(records, kept), shares, strict=True))
    top = 0
    for counts, c in kept["c"]:
        for inside in sets_like(records, counts):
            pairs = [t for t in itertools.combinations(range(len(kept["sizes"])), 2) if set(inside) <= set(t)]
            weight = sum(Fraction(1, math.prod(kept["sizes"][i] for i in t)) for t in pairs)
            a = math.prod(kept["sizes"][i] - 1 for i in inside) ** 2 * weight
            top += math.isqrt(math.floor(a * c * UNIT * UNIT * UNIT))
    return Fraction(top, UNIT * UNIT) ** 2 / most


def name_of(kept):
    return f"{kept['attributes']} at {kept['total']:g}"


@pytest.mark.parametrize(
    "kept",
    [pytest.param(k, marks=pytest.mark.slow) if math.prod(k["sizes"]) > FEW else k for k in KEPT],
    ids=[name_of(k) for k in KEPT],
)
def prove_kept_multipliers_give_the_bound(kept):
    with (RESULTS / "triples.csv").open(encoding="utf-8") as file:
        (row,) = [
            r
            for r in csv.DictReader(file)
            if (r["attributes"], float(r["total"])) == (kept["attributes"], kept["total"])
        ]
    bound = proved(kept)
    # six digits are written
    assert float(bound) == pytest.approx(float(row["triples"]), rel=6e-6)
    assert bound <= Fraction(row["error"]) * (1 + Fraction(6, 10**6))
    assert row["verdict"] != "optimal" or bound >= Fraction(row["error"]) * (1 - Fraction(7, 10**6))


@pytest.mark.parametrize("kept", [k for k in KEPT if math.prod(k["sizes"]) <= SMALL], ids=name_of)
def prove_limits_hold_for_every_set_of_records(kept):
    """Σ_S c_S w_S ≤ U(|A|/N) for all 2^N sets A, and nearly with equality for some."""
    records = Records(kept["sizes"])
    n = records.count
    limits = np.array([float(u) for u in least_limits(records, kept)])
    sets = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
    wanted = np.zeros(1 << n)
    for counts, c in kept["c"]:
        for inside in sets_like(records, counts):
            same = records.x[:, None] == records.x[None]
            kernel = np.prod([records.sizes[i] * same[..., i] - 1.0 for i in inside], axis=0)
            wanted += c / UNIT * np.einsum("ax,xy,ay->a", sets, kernel, sets, optimize=True) / n**2
    held = sets.sum(axis=1)
    chosen = (held > 0) & (held <= n // 2)
    assert np.all(wanted[chosen] <= limits[held[chosen] - 1] + 1e-9)
    if name_of(kept) in ("four binary at 2", "2 × 2 × 3 at 1"):
        gain = math.expm1(kept["total"])
        scale = (gain / (1 + gain * np.arange(1, n // 2 + 1) / n)) ** 2
        assert (wanted[chosen] * scale[held[chosen] - 1]).max() >= (limits * scale).max() * (1 - 1e-6)
