"""The automaton of a noise distribution: from its diagram to integers, with a stated ε that covers the rounding.

With W(s) = E_μ[q of what follows | state s], computed backwards, the attribute changes with probability
p = (r−1) W(changed) / (W(kept) + (r−1) W(changed)). Rounding p to a multiple of 2^-k moves the logarithm of a path's
probability by at most η = Σ over layers of 2^-k / min(p, 1−p), the largest over the layer's states. Therefore the
diagram's log densities are first multiplied by 1 − δ with δ = 4 η / (smallest positive conditional ε): every ratio of
two densities, the total ε and every conditional ε shrink by more than rounding can add. Flip probabilities change by a
factor of about 1 ± δ ε, which the number of bits k keeps below 2^-44.

With few states all of it is done with sixty digits; beyond, doubles add some roundings per layer to η and only the
total is protected by δ, so the stated ε of single attributes is raised to the bound of the integers.
"""

import math
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import Words
from optrr_solvers.sampling.arithmetic import Arithmetic, Digits, Doubles, Numbers, complement, difference
from optrr_solvers.sampling.bounds import DrawnEpsilons, truth
from optrr_solvers.sampling.diagram import (
    MOST_LAYERS,
    WORD_BITS,
    Choice,
    ChoiceLayer,
    Diagram,
    Layer,
    Layers,
    Step,
    is_uniform,
    merged,
)
from optrr_solvers.sampling.draw import Sampler

# With at most this many states, densities may have sixty digits, at about a microsecond each. Densities beyond the
# range of a double need them.
MOST_DIGIT_STATES = 1 << 14
_MOST_WIDE_STATES = 1 << 18
# With more states than this, equal ones are not merged: it would take seconds and save little.
_MOST_MERGED = 1 << 18
# Shrinking moves flip probabilities by no more than this share.
_SHIFT = 2.0**-44
# Roundings of doubles that one layer adds to a path's logarithm.
_PER_LAYER = 8 * 2.0**-53
# Conditional ε below this are not protected by δ; they are labelled as what is drawn.
_LEAST = 1e-20
# The smallest threshold is resolved to this share where doubles are used.
_RESOLVED = 2.0**-56
# Thresholds have at most this many words, which reach probabilities down to e^-4000.
MOST_WORDS = 96
# A law's own ε is the label where it is not below the ε of what is drawn, and not above it by more than this.
LABEL_TOLERANCE = 1e-9


class OutOfReach(ValueError):
    """Error: a probability needs wider words, or densities exceed doubles' range."""


@dataclass(frozen=True, eq=False)
class Built:
    """Automaton with δ and η.

    |ln q drawn − (1−δ) ln q of the distribution| ≤ η for each change set, up to one constant.
    """

    layers: Layers
    shrink: float
    error: float
    exact: bool


def build(sizes: IntArray, diagram: Diagram, epsilon: float, conditional: FloatArray) -> Built:
    """Build the automaton of a reduced diagram.

    Its total and conditional ε are given in nats, conditional ε with shape (m,).

    Raises OutOfReach where the law cannot be resolved.
    """
    exact = diagram.states <= (MOST_DIGIT_STATES if epsilon <= Doubles.longest else _MOST_WIDE_STATES)
    if not exact and not epsilon <= Doubles.longest:
        raise OutOfReach(f"{diagram.states} states with densities {epsilon:.4g} nats apart")
    thin = _thinnest(sizes, diagram)
    positive = conditional[conditional > _LEAST]
    protected = float(positive.min()) if exact and positive.size else epsilon
    words, error = _resolution(thin, epsilon / protected if protected > 0 else 1.0, exact)
    shrink = min(4 * error / protected, 0.5) if protected > 0 else 0.0
    arithmetic: Arithmetic = Digits() if exact else Doubles()
    with Digits.here() if exact else nullcontext():
        layers = Layers(sizes, _layers(sizes, diagram, arithmetic, shrink, words), words * WORD_BITS)
    return Built(merged(layers) if layers.states <= _MOST_MERGED else layers, shrink, error, exact)


def _resolution(thin: FloatArray, spread: float, exact: bool) -> tuple[int, float]:
    """Compute the words per threshold and η.

    ``thin`` is ln of the smallest probability of every layer.
    """
    for words in range(1, MOST_WORDS + 1):
        bits = -words * WORD_BITS * math.log(2)
        rounding = float(np.exp(np.minimum(bits - thin, 0.0)).sum())
        if exact and 4 * rounding * spread <= _SHIFT:
            return words, rounding + thin.size * 1e-56
        if not exact and rounding <= thin.size * _RESOLVED:
            return words, rounding + thin.size * _PER_LAYER
    raise OutOfReach(f"a conditional probability of e^{thin.min():.0f} needs more than {MOST_WORDS * WORD_BITS} bits")


def _thinnest(sizes: IntArray, diagram: Diagram) -> FloatArray:
    """Compute ln of the smallest branch probability of every node.

    Against the node's part of the density.
    """
    after, out = diagram.log_density, []
    for node in reversed(diagram.nodes):
        if isinstance(node, Choice):
            logs = np.log(node.shares) + after[node.next_states]
            total = np.logaddexp.reduce(logs)
            out.append(float((logs - total).min()))
            after = np.array([total])
            continue
        log_others = math.log(int(sizes[node.attribute]) - 1)
        kept = node.log_kept + after[node.kept]
        ways = [(log_others + log + after[state], share) for state, log, share in node.ways]
        with np.errstate(divide="ignore"):
            changed = np.asarray(np.logaddexp.reduce([w + np.log(share) for w, share in ways]))
        total = np.logaddexp(kept, changed)
        parts = [kept, changed] + ([w for w, _ in ways] if node.high is not None else [])
        out.append(float(min((x - total).min() for x in parts)))
        after = total - math.log(int(sizes[node.attribute]))
    return np.array(out[::-1])


def _layers(
    sizes: IntArray, diagram: Diagram, arithmetic: Arithmetic, shrink: float, words: int
) -> tuple[Layer | ChoiceLayer, ...]:
    after = arithmetic.exp(diagram.log_density, shrink)
    out: list[Layer | ChoiceLayer] = []
    for node in reversed(diagram.nodes):
        if isinstance(node, Choice):
            masses = arithmetic.numbers(node.shares) * after[node.next_states]
            # thresholds in doubles, because the label holds whatever the components' shares are
            shares = (masses / masses.sum()).astype(np.float64)[:-1]
            ends = np.floor(shares * (2.0**WORD_BITS * (1 - 2.0**-48))).astype(np.uint64)
            out.append(ChoiceLayer(node.next_states, np.cumsum(ends, dtype=np.uint64)))
            after = np.array([masses.sum()])
        else:
            layer, after = _layer(node, int(sizes[node.attribute]), after, arithmetic, shrink, words)
            out.append(layer)
    return tuple(reversed(out))


def _layer(  # noqa: PLR0913 (one pass of a loop)
    node: Step, size: int, after: Numbers, arithmetic: Arithmetic, shrink: float, words: int
) -> tuple[Layer, Numbers]:
    kept = arithmetic.exp(node.log_kept, shrink) * after[node.kept]
    ways = [
        arithmetic.numbers(share) * arithmetic.exp(log, shrink) * after[state] * (size - 1)
        for state, log, share in node.ways
    ]
    changed = ways[0] if len(ways) == 1 else ways[0] + ways[1]
    total = kept + changed
    # integers strictly between 0 and 2^bits; the smaller part is the one that is rounded
    flipped = np.asarray(changed > kept, dtype=np.bool_)
    threshold = _at_least_one(arithmetic.words(np.where(flipped, kept, changed) / total, words))
    threshold[:, flipped] = complement(threshold[:, flipped])
    high = None if node.high is None else _inner(threshold, ways, total, arithmetic, words)
    states = node.attribute, node.kept, node.changed, node.high, node.fraction
    return Layer(*states, words=threshold, high_words=high, uniform=is_uniform(node)), total / size


def _inner(threshold: Words, ways: list[Numbers], total: Numbers, arithmetic: Arithmetic, words: int) -> Words:
    """Compute the threshold of the second way to change, below that of changing.

    The rarer way is the one that is rounded.
    """
    low, high = ways
    rarer = np.asarray(low < high, dtype=np.bool_)
    # the rarer of two ways has at most half of the mass
    out = _at_least_one(arithmetic.words(np.where(rarer, low, high) / total, words))
    out[:, rarer] = difference(threshold[:, rarer], out[:, rarer])
    return out


def _at_least_one(words: Words) -> Words:
    """Raise words of 0 to 1: with 0 a possible change could never happen."""
    words[-1] |= (~words.any(axis=0)).astype(np.uint64)
    return words


@dataclass(frozen=True, eq=False)
class Automaton:
    """Automaton of integers to draw with, and the distribution's own ε in nats.

    ``epsilon`` is the total, ``conditional`` has shape (m,).
    """

    built: Built
    epsilon: float
    conditional: FloatArray

    @property
    def layers(self) -> Layers:
        """The integers."""
        return self.built.layers

    @property
    def states(self) -> int:
        """States before all attributes together."""
        return self.layers.states

    @property
    def bits(self) -> int:
        """Bits of a threshold."""
        return self.layers.bits

    @cached_property
    def sampler(self) -> Sampler:
        """Draws from the integers."""
        return Sampler(self.layers)

    @cached_property
    def truth(self) -> DrawnEpsilons:
        """True ε, from the integers alone.

        Accuracies are rounded down, all others up.
        """
        return truth(self.layers, exact=self.built.exact)

    @cached_property
    def epsilon_label(self) -> float:
        """Stated total ε: the larger of the distribution's and the integers' ε.

        The latter is rounded up.
        """
        return max(self.epsilon, self.truth.epsilon)

    @cached_property
    def conditional_labels(self) -> FloatArray:
        """Stated conditional ε, shape (m,).

        The distribution's ε if it covers the integers' ε, otherwise a bound of the latter.
        """
        # |ln q drawn − (1−δ) ln q| ≤ η on either side of a comparison; no conditional ε is above the total
        shrunk, added = self.built.shrink * self.conditional, 2 * self.built.error
        drawn = np.where(shrunk >= added, 0.0, (self.conditional - shrunk + added) * (1 + 2.0**-51))
        # an attribute without information is drawn as a uniformly random answer, whose accuracy is exactly 0
        drawn[(self.conditional == 0) & (self.truth.attribute == 0)] = 0.0
        return np.maximum(self.conditional, np.minimum(drawn, self.truth.epsilon))

    def attribute_labels(self, law: FloatArray) -> FloatArray:
        """Return the stated accuracies ε_i, shape (m,).

        The distribution's ε_i if the integers are as accurate, within 1e-9; otherwise the integers' ε_i, rounded down.
        """
        drawn = self.truth.attribute
        return np.where((law <= drawn) & (drawn - law <= LABEL_TOLERANCE), law, drawn)


def automaton_of(sizes: IntArray, diagram: Diagram | None, epsilon: float, conditional: FloatArray) -> Automaton | None:
    """Build the automaton of a reduced diagram.

    Returns None if there is no diagram, or if it would need too many layers or too wide words.
    """
    if diagram is None or len(diagram.nodes) > MOST_LAYERS:
        return None
    try:
        return Automaton(build(sizes, diagram, epsilon, conditional), epsilon, conditional)
    except OutOfReach:
        return None
