"""A law: the probability of each change set, what every law must answer exactly (design §2, §3.2), and laws as records.

A mechanism draws a change set S from its law ν, and every attribute in S moves to one of its other categories, each as
likely. So the law is the whole mechanism. With μ the law of a uniformly random output, ν_S/μ_S is proportional to the
probability q_S of one particular output; the total ε is the range of ln q.

A law with a ``kind`` writes and reads its own record for JSON. Tables are mostly one value (at sixteen attributes 65,511 of
65,536 densities), so that value is stored once and the other cells by number. What a record holds is checked before arrays of
its size are made.

Letters: m attributes, r sizes, S change set, U attribute set, λ_U eigenvalue, χ_U(S) = Π_{i∈U} (1 or −1/(r_i−1)).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import sum_ceiling
from optrr_solvers.errors import InvalidInput
from optrr_solvers.randomness import BitSource
from optrr_solvers.sampling.build import Automaton, automaton_of
from optrr_solvers.sampling.diagram import MOST_LAYERS, MOST_STATES, Diagram

BoolArray = NDArray[np.bool_]

# A marginal has 2^|U| entries; 20 attributes fill 8 MB.
MAX_MARGINAL = 20
# The laws of this package have far fewer nats for each attribute. With far more, exact rationals would have millions of digits.
_LARGEST = 500.0


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

    # the name of the law's kind in records, and the struct that holds its numbers there (optrr_solvers.laws.base)
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


# Every kind of law by the name that its records bear; filled where the laws are listed (optrr_solvers.laws).
KINDS: dict[str, type[Law]] = {}


class SparseTable(msgspec.Struct, forbid_unknown_fields=True):
    """An array by its most common value, the cells that differ, and theirs."""

    most: float
    cells: list[int]
    log_density: list[float]


def record_of(law: Law) -> dict[str, Any]:
    """The plain record of a law: JSON values, with its kind."""
    if KINDS.get(law.kind) is not type(law):
        raise InvalidInput(f"a law of kind {type(law).__name__} cannot be written to a design file")
    return {"kind": law.kind, **msgspec.to_builtins(law.to_record())}


def law_of(record: dict[str, Any], sizes: IntArray) -> Law:
    """The law of a plain record, for attributes of these sizes. Raises InvalidInput where the record does not fit them."""
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(f"the law's kind is {str(kind)[:40]!r}; this version reads {', '.join(sorted(KINDS))}")
    law = KINDS[kind]
    try:
        fields = msgspec.convert({k: v for k, v in record.items() if k != "kind"}, type=law.Record)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the law's record is not one of kind {kind!r}: {error}") from error
    return law.from_record(fields, sizes)


def sparse(values: FloatArray) -> SparseTable:
    """An array of any shape."""
    flat = values.ravel()
    levels, counts = np.unique(flat, return_counts=True)
    most = float(levels[np.argmax(counts)])
    cells = np.flatnonzero(flat != most)
    return SparseTable(most, cells.tolist(), flat[cells].tolist())


def dense(shape: tuple[int, ...], table: SparseTable, most: int) -> FloatArray:
    """The array of a table, at most so many cells."""
    size = math.prod(shape)
    if size > most:
        raise InvalidInput(f"the law has {size} cells; {most} at most")
    if len(table.cells) != len(table.log_density) or not all(0 <= c < size for c in table.cells):
        raise InvalidInput(f"the law's cells must be numbers below {size}, one log density for each")
    bounded_nats([table.most, *table.log_density], sum(shape) - len(shape))
    out = np.full(size, table.most)
    out[table.cells] = table.log_density
    return out.reshape(shape)


def bounded_nats(values: Sequence[float], m: int) -> FloatArray:
    """Numbers of nats that a law of ``m`` attributes may hold."""
    out = np.asarray(values, dtype=np.float64)
    if np.any(np.abs(out) > _LARGEST * m):
        raise InvalidInput(f"the law holds {np.abs(out).max():g} nats; {m} attributes need at most {_LARGEST * m:g}")
    return out
