"""Every ε of an automaton from its integers alone, by the formulas of ``docs/deployment-format.md``, §4.

The total and the flip probabilities are exact ratios of whole numbers; common factors of a layer cancel in every ratio
and are left out. Conditional ε follow pairs of states in decimals that are rounded outward; like the total they are upper
bounds where there are choices or second ways to change. This is a second
implementation beside :mod:`optrr_solvers.sampling.bounds`, which labels designs, so that neither has to be trusted. How long
it takes is known before it starts: :func:`work` in operations on 64-bit words, and the number of pairs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optrr.core.errors import InvalidInput
from optrr_solvers.arrays import IntArray
from optrr_solvers.sampling.arithmetic import integers
from optrr_solvers.sampling.diagram import ChoiceLayer, Layer, Layers

# Maximum number of operations on words, some ten seconds; files that fit a phone take a hundredth.
MOST_WORK = 1 << 32
# Maximum number of pairs of states for conditional ε; part of the format.
MOST_PAIRS = 1 << 20
# Decimal places of an ε; part of the format.
PLACES = 15
# Precision of the decimals, far more than the roundings of 2^14 layers consume.
_DIGITS = 50
_UP = Context(prec=_DIGITS, rounding=ROUND_CEILING, Emax=10**9, Emin=-(10**9))
_DOWN = Context(prec=_DIGITS, rounding=ROUND_FLOOR, Emax=10**9, Emin=-(10**9))

# Integers of any size, or Decimals.
Numbers = NDArray[Any]


@dataclass(frozen=True)
class Epsilons:
    """Total, attribute and conditional ε in nats, rounded up to 15 places.

    ``flips``: the exact probability that attribute i changes, as (part, whole).
    """

    total: Decimal
    attributes: tuple[Decimal, ...]
    conditional: tuple[Decimal, ...]
    flips: tuple[tuple[int, int], ...]


def epsilons(automaton: Layers) -> Epsilons:
    """Compute every ε of the drawn distribution.

    Raises InvalidInput if the automaton is too large, before any computation.
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
    """Estimate 64-bit operations of both passes.

    Part of the format (docs/deployment-format.md, §5).
    """
    words, count = automaton.bits // 64, len(automaton.layers)
    ways = [x.next_states.size if isinstance(x, ChoiceLayer) else x.states for x in automaton.layers]
    return sum(8 * n * words * words * max(k, count - k) for k, n in enumerate(ways))


def log_ceiling(over: int, under: int) -> Decimal:
    """Compute ln(over/under) of positive integers, rounded up to 15 places.

    Exactly 0 for equal ones.
    """
    if over == under:
        return places(Decimal(0))
    ratio = _UP.divide(Decimal(over), Decimal(under))
    return places(_UP.next_plus(_UP.ln(ratio)))


def places(value: Decimal) -> Decimal:
    """Round up to 15 places, without a negative zero."""
    out = value.quantize(Decimal(1).scaleb(-PLACES), context=_UP)
    return out if out else abs(out)


def total_epsilon(automaton: Layers) -> Decimal:
    """Compute the total ε, rounded up.

    Exact without choices and second ways to change, otherwise an upper bound.
    """
    bottom, top = extremes(automaton)
    return log_ceiling(top, bottom)


def extremes(automaton: Layers) -> tuple[int, int]:
    """Compute the smallest and largest probability of one output.

    Both are multiplied by 2^k (r−1) per layer; with choices they are bounds.
    """
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
    """Iterate over kept and changed for one output, times 2^k (r−1), by state.

    Uniform answers times r.
    """
    if layer.uniform:
        for state in layer.kept.tolist():
            yield after[state], after[state]
        return
    second = layer.changed if layer.high is None else layer.high
    states = zip(layer.kept.tolist(), layer.changed.tolist(), second.tolist(), *thresholds(layer), strict=True)
    for kept, changed, high, a, b in states:
        yield ((1 << bits) - a) * (size - 1) * after[kept], (a - b) * after[changed] + b * after[high]


def thresholds(layer: Layer) -> tuple[list[int], list[int]]:
    """Return a and b of every state; b = 0 without a second way to change."""
    a = integers(layer.words)
    return a, [0] * len(a) if layer.high_words is None else integers(layer.high_words)


def component_chances(layer: ChoiceLayer, bits: int) -> list[int]:
    """Compute the probability of every component, times 2^k."""
    ends = [x << (bits - 64) for x in layer.ends.tolist()]
    return [high - low for low, high in zip([0, *ends], [*ends, 1 << bits], strict=True)]


def flip_probabilities(automaton: Layers) -> list[tuple[int, int]]:
    """Compute (part, whole) of the probability that each attribute changes."""
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
    """Probabilities of kept and every way to change, with next states.

    For one output each, times 2^k (r−1).
    """

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
    """R of ordered pairs of different states, 1 for equal states.

    Numbered s·width + t in sorted ``keys``.
    """

    keys: IntArray
    values: Numbers
    width: int

    def of(self, s: IntArray, t: IntArray) -> Numbers:
        out = np.array([Decimal(1)] * s.size, dtype=object)
        different = s != t
        out[different] = self.values[np.searchsorted(self.keys, (s * self.width + t)[different])]
        return out


def _worst(ways: _Ways, rest: _Rest) -> Decimal:
    """Compute e^conditional of one layer's attribute, rounded up."""
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
    """List reachable ordered pairs of different states before every layer.

    For two runs that differ in one attribute.

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
