"""Whether draws of a client follow the exact probabilities of a deployment file: χ², for a law with any number of attributes.

What is compared depends on how many outcomes there are. Whole outputs, where draws suffice for all of them; else change sets,
up to twelve attributes; beyond, how many attributes change and, attribute by attribute, how often each of them does. For every
file, too, the categories that replace a changed answer, each of which is as likely as any other. Exact probabilities come from
the integers of the file's JSON.
"""

import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import vectors
from scipy.stats import chi2

reference = vectors.load_script(vectors.VECTORS / "reference.py")

# Attributes of which all change sets are listed.
_MOST_SETS = 12
# A p-value below this fails. χ² is an approximation: with cells of 100 expected draws and more, a client that is right fails
# one comparison in up to 4e-7 of all runs (convolving the exact probabilities of 1 to 256 such cells), and so one of the two or
# three comparisons of all 25 files in less than 3 of 100,000.
FALSE_ALARM = 1e-7
# Fewest draws that a cell expects; rarer outcomes are one cell together.
_FEWEST = 100.0


@dataclass(frozen=True)
class Conformance:
    """Draws of one record, and what they should follow."""

    content: dict[str, Any]

    @staticmethod
    def of(name: str) -> "Conformance":
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

    def p_values(self, drawn: Mapping[tuple[int, ...], int]) -> dict[str, float]:
        """A p-value for each comparison, by what is compared, for outputs (as codes) with how often each came out."""
        m, n = len(self.sizes), sum(drawn.values())
        if m > _MOST_SETS:
            # attributes do not change independently, so each is tested on its own and the smallest p-value counts m times
            singles = min(float(chi2.sf(statistic, 1)) for statistic in self._singles(drawn))
            p_values = {"single attributes": min(1.0, m * singles)}
            compared = {"numbers of changes": self._numbers(drawn)}
        else:
            p_values = {}
            outputs = math.prod(self.sizes) * _FEWEST <= n
            compared = {"outputs": self._outputs(drawn)} if outputs else {"change sets": self._sets(drawn)}
        compared["replacements"] = self._replacements(drawn)
        return p_values | {what: float(chi2.sf(*test)) for what, test in compared.items() if test[1]}

    def _changed(self, out: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(a != b) for a, b in zip(out, self.codes, strict=True))

    def _numbers(self, drawn: Mapping[tuple[int, ...], int]) -> tuple[float, int]:
        seen: Counter[Hashable] = Counter()
        for out, times in drawn.items():
            seen[sum(self._changed(out))] += times
        return chi_square(seen, self._exact(0, lambda total, _, change: total + change))

    def _singles(self, drawn: Mapping[tuple[int, ...], int]) -> list[float]:
        n = sum(drawn.values())
        seen = [sum(times for out, times in drawn.items() if out[i] != code) for i, code in enumerate(self.codes)]
        chances = map(float, self._flips())
        return [(k - n * f) ** 2 / (n * f * (1 - f)) for k, f in zip(seen, chances, strict=True)]

    def _sets(self, drawn: Mapping[tuple[int, ...], int]) -> tuple[float, int]:
        seen: Counter[Hashable] = Counter()
        for out, times in drawn.items():
            seen[self._changed(out)] += times
        return chi_square(seen, self.exact_sets())

    def _outputs(self, drawn: Mapping[tuple[int, ...], int]) -> tuple[float, int]:
        shares = {s: float(p) / self._others(s) for s, p in self.exact_sets().items()}
        outputs = itertools.product(*map(range, self.sizes))
        return chi_square(Counter(drawn), {out: shares[self._changed(out)] for out in outputs})

    def exact_sets(self) -> dict[tuple[int, ...], Fraction]:
        """Probability of every change set, by docs/deployment-format.md §2 or §9 from the JSON alone."""
        if "trials" in self.content:
            sets = itertools.product((0, 1), repeat=len(self.sizes))
            return {s: tried_chance(self.content["trials"], self.sizes, s) for s in sets}
        start = (0,) * len(self.sizes)
        return self._exact(start, lambda s, i, change: (*s[:i], change, *s[i + 1 :]))

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
        walks: dict[tuple[int, Any], Fraction] = {(0, start): Fraction(1)}
        for layer in self.content["layers"]:
            reached: dict[tuple[int, Any], Fraction] = defaultdict(Fraction)
            for (state, seen), mass in walks.items():
                for share, target, change in _branches(layer, state, self.content["bits"], self.sizes):
                    known = seen if change is None else after(seen, layer["attribute"], change)
                    reached[target, known] += mass * share
            walks = reached
        return {seen: mass for (_, seen), mass in walks.items()}

    def _flips(self) -> list[Fraction]:
        """Exact probability of each attribute to change, in one walk."""
        flips = [Fraction(0)] * len(self.sizes)
        masses = {0: Fraction(1)}
        for layer in self.content["layers"]:
            reached: dict[int, Fraction] = defaultdict(Fraction)
            for state, mass in masses.items():
                for share, target, change in _branches(layer, state, self.content["bits"], self.sizes):
                    reached[target] += mass * share
                    if change:
                        flips[layer["attribute"]] += mass * share
            masses = reached
        return flips


def _branches(layer: dict[str, Any], state: int, bits: int, sizes: list[int]) -> list[tuple[Fraction, int, int | None]]:
    """Each way to go on: its probability, the next state, and whether the attribute changes (None where there is none)."""
    full = 1 << bits
    if layer["kind"] == "choice":
        ends = [0, *reference.thresholds(layer["ends"], bits), full]
        steps = zip(itertools.pairwise(ends), layer["next"], strict=True)
        return [(Fraction(high - low, full), to, None) for (low, high), to in steps]
    if layer["kind"] == "uniform":
        r, to = sizes[layer["attribute"]], layer["next"][state]
        return [(Fraction(1, r), to, 0), (Fraction(r - 1, r), to, 1)]
    a = reference.thresholds(layer["threshold"], bits)[state]
    b = reference.thresholds(layer["second_threshold"], bits)[state] if "second" in layer else 0
    second = [(Fraction(b, full), layer["second"][state], 1)] if b else []
    return [
        (Fraction(full - a, full), layer["kept"][state], 0),
        (Fraction(a - b, full), layer["changed"][state], 1),
        *second,
    ]


def tried_chance(trials: dict[str, Any], sizes: Sequence[int], s: Sequence[int | None]) -> Fraction:
    """The probability of one change set, None standing for either, of a file of trials (§9): exact, from its integers."""
    (uniform,), ends = (reference.thresholds(trials[key], 64) for key in ("uniform", "ends"))
    full, u = 1 << 64, Fraction(uniform, 1 << 64)
    free = Fraction(math.prod(r - 1 for r, moves in zip(sizes, s, strict=True) if moves))
    free /= math.prod(r for r, moves in zip(sizes, s, strict=True) if moves is not None)
    out = u * free
    for ball, (low, high) in zip(trials["balls"], itertools.pairwise([0, *ends, full]), strict=True):
        once = accepted_chance(ball, [None] * len(sizes))
        none = (1 - once) ** trials["count"]
        out += (1 - u) * Fraction(high - low, full) * (none * free + (1 - none) * accepted_chance(ball, s) / once)
    return out


def accepted_chance(ball: dict[str, Any], s: Sequence[int | None]) -> Fraction:
    """The chance that one trial of a ball has this change set, or any where None stands, and is accepted."""
    limits = reference.thresholds(ball["acceptance"], 32)
    end, full = ball["least"] + len(limits), 1 << 64
    # chances times full^m: whole numbers
    totals = {0: 1}
    first, second = (reference.thresholds(ball[key], 64) for key in ("thresholds", "second_thresholds"))
    for a, b, w, moves in zip(first, second, ball["weights"], s, strict=True):
        steps = [] if moves == 1 else [(0, full - a)]
        steps += [] if moves == 0 else [(w, a - b), (w + 1, b)]
        after: dict[int, int] = defaultdict(int)
        for (x, mass), (step, part) in itertools.product(totals.items(), steps):
            if x + step < end:
                after[x + step] += mass * part
        totals = after
    inside = sum(mass * limits[x - ball["least"]] for x, mass in totals.items() if x >= ball["least"])
    return Fraction(inside, full ** len(s) << 32)


def chi_square(seen: Counter[Hashable], chances: Mapping[Any, Fraction | float]) -> tuple[float, int]:
    """The statistic and its degrees of freedom; outcomes of few expected draws are one cell, left out if still small."""
    n = seen.total()
    expected = {k: n * float(p) for k, p in chances.items()}
    common = {k: e for k, e in expected.items() if e >= _FEWEST}
    statistic = sum((seen[k] - e) ** 2 / e for k, e in common.items())
    rest = sum(expected.values()) - sum(common.values())
    cells = len(common)
    if rest >= _FEWEST:
        rare = n - sum(seen[k] for k in common)
        statistic, cells = statistic + (rare - rest) ** 2 / rest, cells + 1
    return statistic, cells - 1
