"""What is drawn, as whole numbers: the densities of an automaton's law, and of two laws one after the other.

A density q_S is the probability of one particular output with change set S, up to one constant. Two laws of change sets
commute, and on every axis the sum and the difference of (kept, changed) multiply:

    k + (r−1) c  and  k − c   of the whole  =  the products of those of the two.

Nothing is rounded, so ε that are computed from these numbers are those of what is drawn.

The same law with less of its uniform part: what a person keeps so that one report can be a given optimum.

Every optimum has densities q = 1 + x with x ≥ 0 (design §3.3): uniform answers mixed with something sharper. With a larger
share of the sharper part, q' = 1 + k x has any total ε_∞ above that of q, k = (e^{ε_∞} − 1)/(e^ε − 1), and q is q' mixed with
uniform answers again: ν = c ν' + (1 − c) μ, so that λ_U = c λ'_U for every U but the empty one.

A coin for the whole record: it is kept with probability c, and otherwise replaced by a uniformly random record.

As the second of two stages this shrinks every effect by the same c, so one report's law is c times the permanent law plus
(1 − c) times the uniform one: the shape of the optimum (design §3.3). With one attribute it is the second stage of L-GRR.
The coin is a 64-bit word against a whole number, so c is a fraction of 2^64 and everything here is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from optrr.devices.exact import component_chances, thresholds
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput, MethodTooLarge
from optrr.mechanisms.kernel import EffectKernel
from optrr.mechanisms.mechanism import Randomizer
from optrr.releases.provenance import digest_of
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.automaton.layers import ChoiceLayer, Layer, Layers
from optrr_solvers.enclosure import log_ceiling
from optrr_solvers.laws import BallLaw, CountLaw, Law, ProductLaw, TableLaw
from optrr_solvers.laws.base import MAX_MARGINAL
from optrr_solvers.laws.table import log_uniform
from optrr_solvers.randomness import BitSource, bounded


def sharpened(law: Law, epsilon: float) -> Law:
    """The law with densities 1 + k x whose total is ``epsilon`` nats, where the given one's are 1 + x.

    Raises
    ------
    InvalidInput
        where the law's total is not below that, or is 0.
    MethodTooLarge
        for laws of other kinds over more than 20 attributes.
    """
    if not 0 < law.epsilon < epsilon:
        raise InvalidInput(
            f"one report costs {law.epsilon:.6g} nats and all of them may cost {epsilon:g}; the second must be larger, and the "
            "first above 0"
        )
    if isinstance(law, BallLaw):
        return BallLaw(law.sizes, law.classes, law.balls, epsilon)
    if isinstance(law, CountLaw):
        return CountLaw(law.sizes, law.classes, _sharper(law.log_density, epsilon))
    if isinstance(law, ProductLaw) and law.m == 1:
        return ProductLaw(law.sizes, np.array([epsilon]))
    return TableLaw(law.sizes, _sharper(_log_densities(law), epsilon))


def _log_densities(law: Law) -> FloatArray:
    if isinstance(law, TableLaw):
        return law.log_density
    if law.m > MAX_MARGINAL:
        raise MethodTooLarge(
            f"a law of kind {law.kind!r} over {law.m} attributes cannot be given a larger total; use method 'ball', or at most "
            f"{MAX_MARGINAL} attributes"
        )
    with np.errstate(divide="ignore"):
        logs = np.log(law.marginal(range(law.m))) - log_uniform(law.sizes)
    return np.asarray(logs - logsumexp(logs))


def _sharper(log_density: FloatArray, epsilon: float) -> FloatArray:
    """ln(1 + k x) from ln(1 + x), up to a constant, with the largest exactly ``epsilon``."""
    nats = log_density - log_density.min()
    # in logarithms, because e^ε overflows for many attributes
    with np.errstate(divide="ignore"):
        excess = nats + np.log(-np.expm1(-nats))
    out = np.logaddexp(0.0, excess - excess.max() + epsilon + np.log(-np.expm1(-epsilon)))
    return np.asarray(np.minimum(out, epsilon))


WORD = 1 << 64


@dataclass(frozen=True, eq=False)
class WholeOrUniform(Randomizer):
    """Keeps a record of ``domain`` whole with probability ``threshold``/2^64; otherwise any record, each as likely.

    Raises
    ------
    InvalidInput
        for a threshold outside 1..2^64−1.
    """

    domain: Domain
    threshold: int

    def __post_init__(self) -> None:
        if not 0 < self.threshold < WORD:
            raise InvalidInput(
                f"records are kept with probability {self.threshold}/2^64; it must be above 0 and below 1"
            )

    @property
    def share(self) -> Fraction:
        """c, the probability that the coin keeps the record, exactly; every eigenvalue λ_U but λ_∅."""
        return Fraction(self.threshold, WORD)

    @cached_property
    def growth(self) -> Fraction:
        """How many times likelier a record's own report is than any other one, exactly: 1 + c Π r_i / (1 − c)."""
        records = prod(int(r) for r in self.domain.sizes)
        return 1 + Fraction(self.threshold * records, WORD - self.threshold)

    @cached_property
    def epsilon(self) -> float:
        """Total ε in nats, rounded up."""
        return log_ceiling(self.growth)

    @cached_property
    def attribute_epsilons(self) -> FloatArray:
        """ε_i in nats of each attribute alone, rounded up, shape (m,)."""
        odds = Fraction(self.threshold, WORD - self.threshold)
        return np.array([log_ceiling(1 + int(r) * odds) for r in self.domain.sizes])

    @property
    def conditional_epsilons(self) -> FloatArray:
        """The total: who knows the other attributes can see that the coin kept the record; shape (m,)."""
        return np.full(self.domain.m, self.epsilon)

    @cached_property
    def digest(self) -> str:
        """Of the domain and the threshold."""
        return digest_of(self.domain, {"threshold": str(self.threshold)})

    def kernel(self, names: str | Iterable[str]) -> EffectKernel:
        """λ_W = c for every W but the empty one."""
        chosen = self.domain.indices(names)
        eigenvalues = np.full((2,) * len(chosen), float(self.share))
        eigenvalues.flat[0] = 1.0
        return EffectKernel(self.domain.sizes[list(chosen)], eigenvalues, (self.domain.names[i] for i in chosen))

    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes where they stand, shape (n, m)."""
        replaced = np.flatnonzero(source.words(codes.shape[0]) >= np.uint64(self.threshold))
        for i, r in enumerate(self.domain.sizes):
            codes[replaced, i] = bounded(source, replaced.size, int(r))


# Change sets are listed for at most this many attributes: 4096 whole numbers of some thousand bits.
MOST_ATTRIBUTES = 12

# Python's whole numbers, shape (2,)*m, index 1 on an axis where the attribute changed.
Densities = NDArray[Any]


def drawn_densities(automaton: Layers) -> Densities:
    """The density of every change set, up to one constant; for at most 12 attributes."""
    order = [layer.attribute for layer in automaton.layers if not isinstance(layer, ChoiceLayer)]
    return np.transpose(_walked(automaton, lambda x: x).reshape((2,) * len(order)), np.argsort(order))


def _walked(automaton: Layers, kept: Callable[[Densities], Densities]) -> Densities:
    """What is ``kept`` of the densities that follow a state, from the last layer to the first, flat."""
    after = [np.array([1], dtype=object)]
    for layer in reversed(automaton.layers):
        if isinstance(layer, ChoiceLayer):
            chances = component_chances(layer, automaton.bits)
            after = [sum(c * after[s] for c, s in zip(chances, layer.next_states.tolist(), strict=True))]
        else:
            size = int(automaton.sizes[layer.attribute])
            after = [kept(each) for each in _before(layer, automaton.bits, size, after)]
    (flat,) = after
    return flat


def _before(layer: Layer, bits: int, size: int, after: list[Densities]) -> list[Densities]:
    """Densities of what follows each state: first those that keep the layer's attribute, then those that change it."""
    if layer.uniform:
        return [np.concatenate([after[s], after[s]]) for s in layer.kept.tolist()]
    second = layer.changed if layer.high is None else layer.high
    states = zip(layer.kept.tolist(), layer.changed.tolist(), second.tolist(), *thresholds(layer), strict=True)
    whole = 1 << bits
    # the states after the last attribute are one, whatever their numbers
    at = (
        after
        if len(after) > 1
        else after * (1 + max(int(layer.kept.max()), int(layer.changed.max()), int(second.max())))
    )
    return [
        np.concatenate([(whole - a) * (size - 1) * at[kept], (a - b) * at[changed] + b * at[high]])
        for kept, changed, high, a, b in states
    ]


def composed(first: Densities, second: Densities, sizes: IntArray) -> Densities:
    """The densities of one law after the other, up to one constant."""
    product = _to_effects(first, sizes) * _to_effects(second, sizes)
    for axis, r in enumerate(sizes.tolist()):
        whole, part = np.split(product, 2, axis=axis)
        product = np.concatenate([whole + (r - 1) * part, whole - part], axis=axis)
    return product


def _to_effects(densities: Densities, sizes: IntArray) -> Densities:
    out = densities
    for axis, r in enumerate(sizes.tolist()):
        kept, changed = np.split(out, 2, axis=axis)
        out = np.concatenate([kept + (r - 1) * changed, kept - changed], axis=axis)
    return out


def cell_probabilities(densities: Densities, sizes: IntArray) -> FloatArray:
    """Probability of one particular output by its change set, shape (2,)*m, each correctly rounded."""
    outputs = np.array(1, dtype=object)
    for r in sizes.tolist():
        outputs = np.multiply.outer(outputs, np.array([1, r - 1], dtype=object))
    total = int((densities * outputs).sum())
    return np.asarray(np.frompyfunc(lambda x: int(x) / total, 1, 1)(densities), dtype=np.float64)


def density_range(automaton: Layers) -> tuple[Fraction, Fraction]:
    """Bounds of the density relative to the uniform answer: none is below the first or above the second.

    Exact where no two paths of the automaton have the same change set; otherwise sums of extremes bound the extreme of sums.
    """
    scale = Fraction(1)
    for layer in automaton.layers:
        if isinstance(layer, ChoiceLayer):
            scale /= 1 << automaton.bits
        elif not layer.uniform:
            size = int(automaton.sizes[layer.attribute])
            scale *= Fraction(size, (size - 1) << automaton.bits)
    low, high = _walked(automaton, lambda x: x.min(keepdims=True)), _walked(automaton, lambda x: x.max(keepdims=True))
    return int(low[0]) * scale, int(high[0]) * scale


def change_sets(sizes: IntArray) -> IntArray:
    """The change set between every two records, as a flat index into (2,)*m: shape (N, N), N = Π r_i."""
    count = prod(int(r) for r in sizes)
    out = np.zeros((count, count), dtype=np.int64)
    for axis in np.unravel_index(np.arange(count), tuple(int(r) for r in sizes)):
        out = 2 * out + (axis[:, None] != axis[None, :])
    return out
