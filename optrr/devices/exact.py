"""Every ε of an automaton from its integers alone, by the formulas of ``docs/deployment-format.md``, §4.

The total and the flip probabilities are exact ratios of whole numbers; common factors of a layer cancel in every ratio
and are left out. Conditional ε follow pairs of states in decimals that are rounded outward; like the total they are upper
bounds where there are choices or second ways to change. This is a second
implementation beside :mod:`optrr_solvers.sampling.bounds`, which labels designs, so that neither has to be trusted. How long
it takes is known before it starts: :func:`work` in operations on 64-bit words, and the number of pairs.

Nearly all bytes of a compressed file are the digits of its thresholds, which look random. For files that must be small
:func:`shortened` rounds every threshold to d significant bits of the rarer way that it bounds; zeros follow, which compress
away, however many bits the format has for them. The fewest d are taken that keep the total ε, computed exactly from what is
left, within the tolerance. One threshold of every layer has more digits and is set so that each attribute changes as often as
before: accuracies do not move.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optrr.core.errors import InvalidInput
from optrr_solvers.arrays import IntArray
from optrr_solvers.sampling.arithmetic import integers, words_of
from optrr_solvers.sampling.diagram import WORD_BITS, ChoiceLayer, Layer, Layers, merged

# Operations on words: some ten seconds. Files that fit a phone take a hundredth.
MOST_WORK = 1 << 32
# Pairs of states that conditional ε follow; part of the format.
MOST_PAIRS = 1 << 20
# Places of an ε after the point; part of the format.
PLACES = 15
# Digits of the decimals: many more than the roundings of 2^14 layers use up.
_DIGITS = 50
_UP = Context(prec=_DIGITS, rounding=ROUND_CEILING, Emax=10**9, Emin=-(10**9))
_DOWN = Context(prec=_DIGITS, rounding=ROUND_FLOOR, Emax=10**9, Emin=-(10**9))

# Integers of any size, or Decimals.
Numbers = NDArray[Any]


@dataclass(frozen=True)
class Epsilons:
    """Nats, rounded up, with 15 places: total, of every attribute on its own, and conditional.

    ``flips``: the exact probability that attribute i changes, as (part, whole).
    """

    total: Decimal
    attributes: tuple[Decimal, ...]
    conditional: tuple[Decimal, ...]
    flips: tuple[tuple[int, int], ...]


def epsilons(automaton: Layers) -> Epsilons:
    """Every ε of what is drawn.

    Raises InvalidInput where the automaton is too large, before any work is done.
    """
    if work(automaton) > MOST_WORK:
        raise InvalidInput(
            f"exact sums over {automaton.states} states with thresholds of {automaton.bits} bits take too long; "
            "export it to a smaller size"
        )
    total = total_epsilon(automaton)
    flips = tuple(flip_probabilities(automaton))
    attributes = tuple(
        log_ceiling((int(r) - 1) * (whole - part), part)
        for r, (part, whole) in zip(automaton.sizes, flips, strict=True)
    )
    return Epsilons(total, attributes, _conditional(automaton, total), flips)


def work(automaton: Layers) -> int:
    """Operations on 64-bit words that both passes take, roughly; part of the format (docs/deployment-format.md, §5)."""
    words, count = automaton.bits // 64, len(automaton.layers)
    ways = [x.next_states.size if isinstance(x, ChoiceLayer) else x.states for x in automaton.layers]
    return sum(8 * n * words * words * max(k, count - k) for k, n in enumerate(ways))


def log_ceiling(over: int, under: int) -> Decimal:
    """ln(over/under) for positive integers, rounded up to 15 places; exactly 0 for equal ones."""
    if over == under:
        return places(Decimal(0))
    ratio = _UP.divide(Decimal(over), Decimal(under))
    return places(_UP.next_plus(_UP.ln(ratio)))


def places(value: Decimal) -> Decimal:
    """Rounded up to 15 places, without a negative zero."""
    out = value.quantize(Decimal(1).scaleb(-PLACES), context=_UP)
    return out if out else abs(out)


def total_epsilon(automaton: Layers) -> Decimal:
    """The total ε, rounded up; exact without choices and second ways to change, an upper bound with them."""
    bottom, top = extremes(automaton)
    return log_ceiling(top, bottom)


def extremes(automaton: Layers) -> tuple[int, int]:
    """The smallest and the largest probability of one output, times 2^k (r−1) for every layer; a bound with choices."""
    top = bottom = [1]
    for layer in reversed(automaton.layers):
        if isinstance(layer, ChoiceLayer):
            chances = component_chances(layer, automaton.bits)
            top, bottom = (
                [sum(c * after[s] for c, s in zip(chances, layer.next_states.tolist(), strict=True))]
                for after in (top, bottom)
            )
            continue
        size = int(automaton.sizes[layer.attribute])
        top = [max(pair) for pair in _branches(layer, automaton.bits, size, top)]
        bottom = [min(pair) for pair in _branches(layer, automaton.bits, size, bottom)]
    return bottom[0], top[0]


def _branches(layer: Layer, bits: int, size: int, after: list[int]) -> Iterator[tuple[int, int]]:
    """Kept and changed for one particular output, times 2^k (r−1), for every state; uniform answers times r."""
    if layer.uniform:
        for state in layer.kept.tolist():
            yield after[state], after[state]
        return
    second = layer.changed if layer.high is None else layer.high
    states = zip(layer.kept.tolist(), layer.changed.tolist(), second.tolist(), *thresholds(layer), strict=True)
    for kept, changed, high, a, b in states:
        yield ((1 << bits) - a) * (size - 1) * after[kept], (a - b) * after[changed] + b * after[high]


def thresholds(layer: Layer) -> tuple[list[int], list[int]]:
    """a and b of every state; b = 0 without a second way to change."""
    a = integers(layer.words)
    return a, [0] * len(a) if layer.high_words is None else integers(layer.high_words)


def component_chances(layer: ChoiceLayer, bits: int) -> list[int]:
    """Chance of every component, times 2^k."""
    ends = [x << (bits - 64) for x in layer.ends.tolist()]
    return [high - low for low, high in zip([0, *ends], [*ends, 1 << bits], strict=True)]


def flip_probabilities(automaton: Layers) -> list[tuple[int, int]]:
    """(part, whole) of the probability that each attribute changes."""
    out = [(0, 1)] * automaton.sizes.size
    mass, bits = [1], automaton.bits
    widths = [layer.states for layer in automaton.layers[1:]] + [1]
    for layer, width in zip(automaton.layers, widths, strict=True):
        after = [0] * width
        if isinstance(layer, ChoiceLayer):
            for chance, state in zip(component_chances(layer, bits), layer.next_states.tolist(), strict=True):
                after[state] += mass[0] * chance
        elif layer.uniform:
            size = int(automaton.sizes[layer.attribute])
            out[layer.attribute] = (size - 1, size)
            for x, state in zip(mass, layer.kept.tolist(), strict=True):
                after[state] += x
        else:
            out[layer.attribute] = _passed(layer, bits, mass, after)
        mass = after
    return out


def _passed(layer: Layer, bits: int, mass: list[int], after: list[int]) -> tuple[int, int]:
    """Move the mass on, times 2^k; returns what changed and all of it."""
    second = layer.changed if layer.high is None else layer.high
    states = zip(mass, layer.kept.tolist(), layer.changed.tolist(), second.tolist(), *thresholds(layer), strict=True)
    part = 0
    for x, kept, changed, high, a, b in states:
        after[kept] += x * ((1 << bits) - a)
        after[changed] += x * (a - b)
        after[high] += x * b
        part += x * a
    return part, sum(mass) << bits


def _conditional(automaton: Layers, total: Decimal) -> tuple[Decimal, ...]:
    pairs = followed_pairs(automaton, MOST_PAIRS)
    if pairs is None:
        return (total,) * automaton.sizes.size
    out = [places(Decimal(0))] * automaton.sizes.size
    rest = _Rest(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=object), 1)
    with localcontext(_UP):
        for layer, before in zip(reversed(automaton.layers), reversed(pairs), strict=True):
            if isinstance(layer, ChoiceLayer):
                rest = _Rest(before, np.zeros(0, dtype=object), 1)
                continue
            ways = _Ways.of(layer, automaton.bits, int(automaton.sizes[layer.attribute]))
            if not layer.uniform:
                worst = _worst(ways, rest)
                out[layer.attribute] = min(max(places(_UP.next_plus(_UP.ln(worst))), places(Decimal(0))), total)
            rest = _Rest(before, _followed(ways, rest, before, layer.states), layer.states)
    return tuple(out)


@dataclass(frozen=True, eq=False)
class _Ways:
    """Chances of kept and of every way to change, for one output each, times 2^k (r−1), and next states."""

    parts: tuple[Numbers, ...]
    states: tuple[IntArray, ...]

    @classmethod
    def of(cls, layer: Layer, bits: int, size: int) -> "_Ways":
        if layer.uniform:
            return cls((np.array([Decimal(1)] * layer.states, dtype=object),), (layer.kept,))
        a, b = thresholds(layer)
        kept = [((1 << bits) - x) * (size - 1) for x in a]
        columns = [kept, [x - y for x, y in zip(a, b, strict=True)]]
        states = [layer.kept, layer.changed]
        if layer.high is not None:
            columns, states = [*columns, b], [*states, layer.high]
        return cls(tuple(np.array([Decimal(x) for x in c], dtype=object) for c in columns), tuple(states))


@dataclass(frozen=True, eq=False)
class _Rest:
    """R of ordered pairs of different states, numbered s·width + t in sorted ``keys``; 1 for equal states."""

    keys: IntArray
    values: Numbers
    width: int

    def of(self, s: IntArray, t: IntArray) -> Numbers:
        out = np.array([Decimal(1)] * s.size, dtype=object)
        different = s != t
        out[different] = self.values[np.searchsorted(self.keys, (s * self.width + t)[different])]
        return out


def _worst(ways: _Ways, rest: _Rest) -> Decimal:
    """e^conditional of one layer's attribute, rounded up."""
    kept, state = ways.parts[0], ways.states[0]
    changes = list(zip(ways.parts[1:], ways.states[1:], strict=True))
    over = sum(part * rest.of(other, state) for part, other in changes) / kept
    ratios = [rest.of(state, other) for _, other in changes]
    with localcontext(_DOWN):
        least = sum(part / ratio for (part, _), ratio in zip(changes, ratios, strict=True))
    return Decimal(max((kept / least).max(), over.max()))


def _followed(ways: _Ways, rest: _Rest, pairs: IntArray, width: int) -> Numbers:
    s, t = np.divmod(pairs, width)
    terms = [
        part[s] / part[t] * rest.of(state[s], state[t]) for part, state in zip(ways.parts, ways.states, strict=True)
    ]
    best = terms[0]
    for term in terms[1:]:
        best = np.maximum(best, term)
    return best


def followed_pairs(automaton: Layers, most: int) -> list[IntArray] | None:
    """Before every layer the ordered pairs of different states that two runs differing in one attribute can be in.

    Each pair is s·S + t. None where there are more than ``most`` in all.
    """
    out: list[IntArray] = []
    now, count = np.zeros(0, dtype=np.int64), 0
    widths = [layer.states for layer in automaton.layers] + [1]
    for layer, width, after in zip(automaton.layers, widths[:-1], widths[1:], strict=True):
        out.append(now)
        count += now.size
        if count > most:
            return None
        if isinstance(layer, ChoiceLayer):
            now = np.zeros(0, dtype=np.int64)
            continue
        s, t = np.divmod(now, width)
        states = [layer.kept] if layer.uniform else [layer.kept, layer.changed]
        states += [] if layer.high is None or layer.uniform else [layer.high]
        first = np.concatenate([x[s] for x in states] + [states[0]] * (len(states) - 1) + states[1:])
        second = np.concatenate([x[t] for x in states] + states[1:] + [states[0]] * (len(states) - 1))
        now = np.unique((first * after + second)[first != second])
    return out


# How far the total ε may move, in nats: half of what a label may be above the truth.
MOVED = 5e-10
# A layer moves a path by at most about 2^(1−d); few come near that, so that the search starts with fewer.
_FEWER = 2
# Significant bits that one threshold of a layer has more than the others: flips are kept to a relative 1e-15 or so.
_FINER = 20
# Bits of the chance to be in a state. They are whole numbers, so that every machine writes the same file.
_MASS_BITS = 192


@dataclass(frozen=True)
class _Chances:
    """Thresholds a and b of every state of a layer, b = 0 without a second way to change, and what they are parts of."""

    a: list[int]
    b: list[int]
    whole: int

    def in_range(self) -> bool:
        """Whether every way has a probability above 0."""
        return all(0 < a < self.whole and 0 <= b < a for a, b in zip(self.a, self.b, strict=True))


def shortened(automaton: Layers) -> Layers:
    """The automaton with the fewest digits that will do; itself where none will."""
    flips, total = flip_probabilities(automaton), total_epsilon(automaton)
    fewest = math.ceil(math.log2(len(automaton.layers) / MOVED)) - _FEWER
    for digits in range(fewest, automaton.bits):
        layers = _with_digits(automaton, digits, flips)
        if layers is not None and abs(total_epsilon(layers) - total) <= Decimal(MOVED):
            return merged(layers)
    return automaton


def _with_digits(automaton: Layers, digits: int, flips: Sequence[tuple[int, int]]) -> Layers | None:
    """Thresholds of so many significant bits that keep the flips; None where a way to change would be lost."""
    mass, layers = [1 << _MASS_BITS], list[Layer | ChoiceLayer]()
    widths = [layer.states for layer in automaton.layers[1:]] + [1]
    for layer, width in zip(automaton.layers, widths, strict=True):
        if isinstance(layer, ChoiceLayer) or layer.uniform:
            layers.append(layer)
            mass = _passed_on(layer, mass, width)
            continue
        exact = _Chances(*thresholds(layer), 1 << automaton.bits)
        chances = _settled(_rounded(exact, digits), digits + _FINER, mass, flips[layer.attribute])
        if not chances.in_range():
            return None
        words = automaton.bits // WORD_BITS
        high = None if layer.high_words is None else words_of(chances.b, words)
        layers.append(replace(layer, words=words_of(chances.a, words), high_words=high))
        mass = _branched(layer, chances, mass, width)
    return replace(automaton, layers=tuple(layers))


def _rounded(chances: _Chances, digits: int) -> _Chances:
    """Every a to ``digits`` significant bits of "kept" and of the first way to change, its b to as many of either way."""
    a, b = [], []
    for above, below in zip(chances.a, chances.b, strict=True):
        first = above - below
        a.append(_nearest(above, min(chances.whole - above, first).bit_length() - digits))
        b.append(_nearest(below, min(below, first).bit_length() - digits))
    return replace(chances, a=a, b=b)


def _nearest(x: int, zeros: int) -> int:
    """The multiple of 2^zeros nearest to x."""
    return x if zeros <= 0 else (x + (1 << (zeros - 1))) >> zeros << zeros


def _settled(chances: _Chances, digits: int, mass: Sequence[int], flip: tuple[int, int]) -> _Chances:
    """The one threshold that it matters least to moved so that the attribute changes with its probability, (part, whole)."""
    part, whole = flip
    # the state where most of the rarer of "kept" and "changed" happens: the share of it that is moved is smallest there
    weights = [x * min(a, chances.whole - a) for x, a in zip(mass, chances.a, strict=True)]
    state = max(range(len(weights)), key=weights.__getitem__)
    missing = (sum(mass) * part * chances.whole) // whole - sum(x * a for x, a in zip(mass, chances.a, strict=True))
    wanted = chances.a[state] + missing // mass[state]
    zeros = min(wanted, chances.whole - wanted).bit_length() - digits
    return replace(chances, a=[_nearest(wanted, zeros) if s == state else x for s, x in enumerate(chances.a)])


def _branched(layer: Layer, chances: _Chances, mass: Sequence[int], width: int) -> list[int]:
    """The chance of every state after the layer."""
    second = layer.changed if layer.high is None else layer.high
    ways = (layer.kept.tolist(), layer.changed.tolist(), second.tolist())
    out = [0] * width
    for x, a, b, kept, changed, high in zip(mass, chances.a, chances.b, *ways, strict=True):
        for part, state in ((chances.whole - a, kept), (a - b, changed), (b, high)):
            out[state] += x * part // chances.whole
    return out


def _passed_on(layer: Layer | ChoiceLayer, mass: Sequence[int], width: int) -> list[int]:
    """The same after a choice or a uniform layer."""
    out = [0] * width
    if isinstance(layer, ChoiceLayer):
        chances = component_chances(layer, WORD_BITS)
        for chance, state in zip(chances, layer.next_states.tolist(), strict=True):
            out[state] += mass[0] * chance >> WORD_BITS
        return out
    for x, state in zip(mass, layer.kept.tolist(), strict=True):
        out[state] += x
    return out
