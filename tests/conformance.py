"""Whether draws of a client follow the exact probabilities of a deployment file: χ², for a law with any number of attributes.

Two statistics are tested for every file. The first is over whole outputs where draws suffice for these, else over change
sets, else over how many attributes change. The second is over the categories that replace a changed answer, attribute by
attribute, each of which is as likely as any other. Exact probabilities come from the integers of the file's JSON.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import vectors
from scipy.stats import chi2

reference = vectors.load_script(vectors.VECTORS / "reference.py")

# Attributes of which all change sets are listed.
_MOST_SETS = 12
# How often a client that is right fails one of the two tests of a file. Over all files of the vectors 5 in a million runs.
FALSE_ALARM = 1e-7
# Fewest draws that a cell expects; rarer outcomes are one cell together.
_FEWEST = 10.0


@dataclass(frozen=True)
class Conformance:
    """Draws of one record, and what they should follow."""

    content: dict[str, Any]

    @staticmethod
    def of(name: str) -> Conformance:
        """That of a vector file's deployment."""
        return Conformance(json.loads(vectors.read(name)["deployment"]))

    @property
    def sizes(self) -> list[int]:
        return [len(a["categories"]) for a in self.content["attributes"]]

    @property
    def codes(self) -> list[int]:
        """The true record: a different category of every attribute."""
        return [i % r for i, r in enumerate(self.sizes)]

    @property
    def record(self) -> dict[str, str | None]:
        """The same as answers."""
        return {a["name"]: a["categories"][c] for a, c in zip(self.content["attributes"], self.codes, strict=True)}

    def p_values(self, drawn: Mapping[tuple[int, ...], int]) -> list[float]:
        """p-values of the statistics, one or two, for outputs (as codes) with how often each came out."""
        tests = [self._outcomes(drawn), self._replacements(drawn)]
        return [float(chi2.sf(statistic, freedom)) for statistic, freedom in tests if freedom]

    def _changed(self, out: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(a != b) for a, b in zip(out, self.codes, strict=True))

    def _outcomes(self, drawn: Mapping[tuple[int, ...], int]) -> tuple[float, int]:
        m, n = len(self.sizes), sum(drawn.values())
        seen: Counter[Hashable] = Counter()
        exact: Mapping[Any, Fraction]
        if m > _MOST_SETS:
            exact = self._exact(0, lambda total, _, change: total + change)
            for out, times in drawn.items():
                seen[sum(self._changed(out))] += times
            return _chi_square(seen, {k: n * float(p) for k, p in exact.items()})
        exact = self._exact((0,) * m, lambda s, i, change: (*s[:i], change, *s[i + 1 :]))
        if math.prod(self.sizes) * _FEWEST > n:
            for out, times in drawn.items():
                seen[self._changed(out)] += times
            return _chi_square(seen, {s: n * float(p) for s, p in exact.items()})
        shares = {s: n * float(p) / self._others(s) for s, p in exact.items()}
        outputs = itertools.product(*map(range, self.sizes))
        return _chi_square(Counter(drawn), {out: shares[self._changed(out)] for out in outputs})

    def _others(self, s: tuple[int, ...]) -> int:
        return math.prod(r - 1 for r, change in zip(self.sizes, s, strict=True) if change)

    def _replacements(self, drawn: Mapping[tuple[int, ...], int]) -> tuple[float, int]:
        statistic, freedom = 0.0, 0
        for i, (r, code) in enumerate(zip(self.sizes, self.codes, strict=True)):
            seen: Counter[Hashable] = Counter()
            for out, times in drawn.items():
                if out[i] != code:
                    seen[out[i]] += times
            expected = sum(seen.values()) / (r - 1)
            if r > 2 and expected >= _FEWEST:
                statistic += sum((seen[c] - expected) ** 2 for c in range(r) if c != code) / expected
                freedom += r - 2
        return statistic, freedom

    def _exact(self, start: Any, after: Callable[[Any, int, int], Any]) -> dict[Any, Fraction]:
        """Exact probabilities of what ``after`` makes of one change after another, by walking all states."""
        bits, full = self.content["bits"], 1 << self.content["bits"]
        walks: dict[tuple[int, Any], Fraction] = {(0, start): Fraction(1)}
        for layer in self.content["layers"]:
            reached: dict[tuple[int, Any], Fraction] = defaultdict(Fraction)
            for (state, seen), mass in walks.items():
                for share, target, change in _branches(layer, state, bits, self.sizes):
                    known = seen if change is None else after(seen, layer["attribute"], change)
                    reached[target, known] += mass * share / full
            walks = reached
        return {seen: mass for (_, seen), mass in walks.items()}


def _branches(
    layer: dict[str, Any], state: int, bits: int, sizes: list[int]
) -> list[tuple[Fraction | int, int, int | None]]:
    """Each way to go on: its share of 2^bits, the next state, and whether the attribute changes (None where there is none)."""
    full = 1 << bits
    if layer["kind"] == "choice":
        ends = [0, *reference.thresholds(layer["ends"], bits), full]
        return [(high - low, to, None) for (low, high), to in zip(itertools.pairwise(ends), layer["next"], strict=True)]
    if layer["kind"] == "uniform":
        r, to = sizes[layer["attribute"]], layer["next"][state]
        return [(Fraction(full, r), to, 0), (Fraction(full * (r - 1), r), to, 1)]
    a = reference.thresholds(layer["threshold"], bits)[state]
    b = reference.thresholds(layer["second_threshold"], bits)[state] if "second" in layer else 0
    second = [(b, layer["second"][state], 1)] if b else []
    return [(full - a, layer["kept"][state], 0), (a - b, layer["changed"][state], 1), *second]


def _chi_square(seen: Counter[Hashable], expected: Mapping[Any, float]) -> tuple[float, int]:
    """The statistic and its degrees of freedom; outcomes of few expected draws are one cell, left out if still small."""
    common = {k: e for k, e in expected.items() if e >= _FEWEST}
    statistic = sum((seen[k] - e) ** 2 / e for k, e in common.items())
    rest = sum(expected.values()) - sum(common.values())
    cells = len(common)
    if rest >= _FEWEST:
        rare = sum(seen.values()) - sum(seen[k] for k in common)
        statistic, cells = statistic + (rare - rest) ** 2 / rest, cells + 1
    return statistic, cells - 1
