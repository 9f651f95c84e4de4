"""A law: the probability of each change set, and what every law must answer exactly (design §2, §3.2).

A mechanism draws a change set S from its law ν, and every attribute in S moves to one of its other categories, each as
likely. So the law is the whole mechanism. With μ the law of a uniformly random output, ν_S/μ_S is proportional to the
probability q_S of one particular output; the total ε is the range of ln q.

Letters: m attributes, r sizes, S change set, U attribute set, λ_U eigenvalue, χ_U(S) = Π_{i∈U} (1 or −1/(r_i−1)).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import sum_ceiling
from optrr_solvers.randomness import BitSource
from optrr_solvers.sampling.build import Automaton, automaton_of
from optrr_solvers.sampling.diagram import MOST_LAYERS, MOST_STATES, Diagram

BoolArray = NDArray[np.bool_]

# A marginal has 2^|U| entries; 20 attributes fill 8 MB.
MAX_MARGINAL = 20


@dataclass(frozen=True, eq=False)
class Labels:
    """ε in nats of what is drawn: total and conditional, (m,), never below it; accuracies, (m,), never above it.

    Without an automaton accuracies are sums of doubles, and right to their last places.
    """

    epsilon: float
    attribute: FloatArray
    conditional: FloatArray


class Law(ABC):
    """Probability of each change set of m attributes with r_i categories."""

    # the name of the law's kind in records, and the struct that holds its numbers there (optrr_solvers.laws.record)
    kind: ClassVar[str] = ""
    Record: ClassVar[type[Any]]
    sizes: IntArray
    # memory that `sample` takes for every attribute of every change set; callers choose how many to draw at once by it
    sampling_bytes: int = 32

    @property
    def m(self) -> int:
        """Number of attributes."""
        return int(self.sizes.size)

    def to_record(self) -> Any:
        """The law's numbers as an instance of ``Record``."""
        raise NotImplementedError(f"a {type(self).__name__} has no record")

    @classmethod
    def from_record(cls, record: Any, sizes: IntArray) -> Self:
        """The law of a record. Raises ValueError where it does not fit attributes of these sizes."""
        raise NotImplementedError(f"a {cls.__name__} has no record")

    def epsilon_parts(self) -> list[float] | None:
        """Doubles whose exact sum is the law's ε; None where it is no sum of what is stored."""
        return None

    def epsilon_ceiling(self) -> float | None:
        """Smallest double not below the exact total ε of the stored numbers; None where that is no sum of them."""
        parts = self.epsilon_parts()
        return None if parts is None else sum_ceiling(parts)

    def attribute_epsilon_bounds(self) -> tuple[FloatArray, FloatArray] | None:
        """Proven lower and upper bounds of every ε_i in nats, shape (m,), in rationals; None where that is too long."""
        return None

    @abstractmethod
    def one_way(self) -> FloatArray:
        """Pr(attribute i kept), Pr(attribute i changed): shape (m, 2), rows sum to 1."""

    @abstractmethod
    def marginal(self, subset: Sequence[int]) -> FloatArray:
        """Probability of every change pattern inside ``subset`` (k attributes, in that order): shape (2,)*k.

        Index 1 on an axis means that attribute changed. Exact up to rounding; k at most 20.
        """

    @abstractmethod
    def log_density_range(self) -> tuple[float, float]:
        """Smallest and largest ln(ν_S/μ_S), up to one common constant, rounded outward."""

    @abstractmethod
    def conditional_epsilons(self) -> FloatArray:
        """max over S not containing i of |ln q_S/q_{S∪{i}}|, in nats, shape (m,), rounded up.

        What an observer who already knows all other attributes of a person learns about attribute i.
        """

    def diagram(self, most: int = MOST_STATES) -> Diagram | None:
        """The law as a decision diagram, from which its automaton is built; None where it has none of ``most`` states."""
        del most
        return None

    @cached_property
    def automaton(self) -> Automaton | None:
        """What :meth:`sample` draws from, in integers; None where it would be too large and another route is taken."""
        if self.m > MOST_LAYERS:
            return None
        return automaton_of(self.sizes, self.diagram(), self.epsilon, self.conditional_epsilons())

    @cached_property
    def labels(self) -> Labels:
        """What holds for records drawn by :meth:`sample`: the law's own numbers where they cover the integers drawn."""
        if self.automaton is None:
            return Labels(self.epsilon, self.drawn_accuracies(), self.conditional_epsilons())
        a = self.automaton
        return Labels(a.epsilon_label, a.attribute_labels(self.attribute_epsilons()), a.conditional_labels)

    def drawn_accuracies(self) -> FloatArray:
        """ε_i in nats of what :meth:`sample_directly` draws, shape (m,)."""
        return self.attribute_epsilons()

    def sample(self, n: int, source: BitSource) -> BoolArray:
        """``n`` independent change sets, shape (n, m), True where the attribute changes; O(n m) memory."""
        if self.automaton is None:
            return self.sample_directly(n, source)
        return self.automaton.sampler.changes(n, source)

    def sample_directly(self, n: int, source: BitSource) -> BoolArray:
        """As :meth:`sample`, for a law whose automaton would be too large."""
        raise NotImplementedError(
            f"a {type(self).__name__} of {self.m} attributes has no automaton and no other sampler"
        )

    @property
    def epsilon(self) -> float:
        """Total ε in nats: the range of the log density, rounded up. Never below the law's true ε."""
        low, high = self.log_density_range()
        return float(np.nextafter(high - low, np.inf)) if high > low else 0.0

    def attribute_epsilons(self) -> FloatArray:
        """ε_i in nats of the randomized response that is as accurate on attribute i alone, shape (m,) (POR eq. 2)."""
        kept, changed = self.one_way().T
        return np.asarray(np.log(self.sizes - 1.0) + np.log(kept) - np.log(changed))

    def eigenvalues(self, subset: Sequence[int]) -> FloatArray:
        """λ_W of every W inside ``subset`` (k attributes): shape (2,)*k, index 1 where the attribute is in W."""
        return effect_transform(self.marginal(subset), self.sizes[list(subset)])

    def joint_eigenvalues(self, others: IntArray, center: int) -> FloatArray:
        """λ_ic of every attribute in ``others`` with attribute ``center``, one marginal each; shape (k,)."""
        return np.array([self.eigenvalues((int(i), center))[1, 1] for i in others])

    def pair_eigenvalues(self) -> FloatArray:
        """λ_ij off the diagonal, λ_i on it: shape (m, m). One marginal per pair."""
        out = np.diag(self.one_way_eigenvalues())
        for i in range(self.m):
            for j in range(i + 1, self.m):
                out[i, j] = out[j, i] = self.eigenvalues((i, j))[1, 1]
        return out

    def one_way_eigenvalues(self) -> FloatArray:
        """λ_i = 1 − f_i/d_i, shape (m,)."""
        kept, changed = self.one_way().T
        return np.asarray(kept - changed / (self.sizes - 1))


def effect_transform(table: FloatArray, sizes: IntArray) -> FloatArray:
    """Change-set probabilities (2,)*k to eigenvalues λ_W, one axis at a time: λ = kept + χ changed. O(k 2^k)."""
    out = np.asarray(table, dtype=np.float64)
    for axis, r in enumerate(sizes):
        kept, changed = np.moveaxis(out, axis, 0)
        out = np.stack([kept + changed, kept - changed / (r - 1)], axis=axis)
    return out


def inverse_effect_transform(eigenvalues: FloatArray, sizes: IntArray) -> FloatArray:
    """Eigenvalues λ_W back to change-set probabilities: the inverse of :func:`effect_transform`."""
    out = np.asarray(eigenvalues, dtype=np.float64)
    for axis, r in enumerate(sizes):
        whole, part = np.moveaxis(out, axis, 0)
        out = np.stack([(whole + (r - 1) * part) / r, (whole - part) * ((r - 1) / r)], axis=axis)
    return out


def uniform_marginal(sizes: IntArray, share: float) -> FloatArray:
    """``share`` of a uniformly random answer's change sets, shape (2,)*k."""
    return reduce(np.multiply.outer, ([1 / r, 1 - 1 / r] for r in sizes), np.array(share))


def checked_subset(subset: Sequence[int], m: int) -> tuple[int, ...]:
    """The subset as a tuple; raises ValueError on repeats, strangers or more than 20 attributes."""
    chosen = tuple(int(i) for i in subset)
    if len(set(chosen)) != len(chosen) or any(not 0 <= i < m for i in chosen):
        raise ValueError(f"attribute set {chosen} must name different attributes among 0..{m - 1}")
    if len(chosen) > MAX_MARGINAL:
        raise ValueError(
            f"a marginal of {len(chosen)} attributes has 2^{len(chosen)} entries; ask for {MAX_MARGINAL} at most"
        )
    return chosen


def joint_by_class(law: Law, class_of: IntArray, others: IntArray, center: int) -> FloatArray:
    """λ_ic for laws that treat the members of a class alike: one marginal a class; shape (k,)."""
    out = np.empty(others.size)
    kinds = class_of[others]
    for kind in np.unique(kinds):
        members = np.flatnonzero(kinds == kind)
        out[members] = law.eigenvalues((int(others[members[0]]), center))[1, 1]
    return out
