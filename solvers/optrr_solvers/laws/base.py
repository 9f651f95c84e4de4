"""A law: the probability of each change set, and what every law must answer exactly (theory §2, §3.2).

A mechanism draws a change set S from its law ν, and every attribute in S moves to one of its other categories, each as
likely. So the law is the whole mechanism. With μ the law of a uniformly random output, ν_S/μ_S is proportional to the
probability q_S of one particular output; the total ε is the range of ln q.

A noise distribution is one class: it gives its ``marginal``, and everything else follows by listing its change sets. It
overrides methods that it computes faster, for more attributes or more precisely. A law with a ``kind`` writes and reads
its own record for JSON. Tables are mostly one value (at sixteen attributes 65,511 of 65,536 densities), so that value
is stored once and the other cells by number. The content of a record is checked before arrays of its size are made.

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
from scipy.special import logsumexp

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import EXACT_CELLS, attribute_epsilon_bounds, sum_ceiling
from optrr_solvers.errors import InvalidInput, MethodTooLarge
from optrr_solvers.laws.excess import log_expm1
from optrr_solvers.partition import Partition, singles
from optrr_solvers.randomness import BitSource
from optrr_solvers.sampling.build import Automaton, automaton_of
from optrr_solvers.sampling.diagram import MOST_LAYERS, MOST_STATES, Diagram, table_diagram
from optrr_solvers.work import INTEGER_STEP, MARGINAL, STATE_WORD, STEP, WORD_NATS, Work, of_states

BoolArray = NDArray[np.bool_]

# A marginal has 2^|U| entries; 20 attributes fill 8 MB.
MAX_MARGINAL = 20
# A table of change sets has 2^m entries.
MAX_TABLE = 20
# Change sets of a law without a diagram of its own are listed for an automaton up to this many attributes.
_LISTED = 12
# What a marginal's entries, their logarithms and differences of these can be off, relative to 1 + the number; ample.
_ROUNDING = 2.0**-44
# The laws of this package have far fewer nats for each attribute. With far more, exact rationals would have millions of
# digits.
_LARGEST = 500.0


@dataclass(frozen=True, eq=False)
class Labels:
    """Stated ε in nats of the sampler's distribution.

    Total and conditional, (m,), never below it; accuracies, (m,), never above it.

    Without an automaton accuracies are sums of doubles, and right to their last places.
    """

    epsilon: float
    attribute: FloatArray
    conditional: FloatArray


# Every kind of law by the name that its records bear; a class with a ``kind`` lists itself.
KINDS: dict[str, type["Law"]] = {}


class Law(ABC):
    """Probability of each change set of m attributes with r_i categories."""

    # the name of the law's kind in records, by which it is listed in KINDS, and the struct that holds its numbers there
    kind: ClassVar[str] = ""
    Record: ClassVar[type[Any]]
    sizes: IntArray
    # memory that `sample` takes for each attribute of every change set; callers choose how many to draw at once by it
    sampling_bytes: int = 32
    # independent blocks as (attribute numbers, law); none where all attributes are randomized together
    blocks: tuple[tuple[tuple[int, ...], "Law"], ...] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__dict__.get("kind"):
            known = KINDS.get(cls.kind)
            if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise TypeError(f"kind {cls.kind!r} is that of {known.__name__}; give {cls.__name__} another one")
            KINDS[cls.kind] = cls

    @property
    def m(self) -> int:
        """Number of attributes."""
        return int(self.sizes.size)

    def to_record(self) -> Any:
        """Return the distribution's numbers as an instance of ``Record``."""
        raise NotImplementedError(f"a {type(self).__name__} has no record")

    @classmethod
    def from_record(cls, record: Any, sizes: IntArray) -> Self:
        """Build the distribution of a record.

        Raises ValueError if it does not fit attributes of these sizes.
        """
        raise NotImplementedError(f"a {cls.__name__} has no record")

    def epsilon_parts(self) -> list[float] | None:
        """Return doubles whose exact sum is ε; None if it is not such a sum."""
        return None

    def epsilon_ceiling(self) -> float | None:
        """Compute the smallest double not below the exact total ε.

        Returns None if it is not a sum of stored numbers.
        """
        parts = self.epsilon_parts()
        return None if parts is None else sum_ceiling(parts)

    def attribute_epsilon_bounds(self) -> tuple[FloatArray, FloatArray] | None:
        """Bound every ε_i in nats, shape (m,), in exact rationals.

        Returns None if that takes too long.
        """
        return None

    @abstractmethod
    def marginal(self, subset: Sequence[int]) -> FloatArray:
        """Compute the probability of every flip pattern inside ``subset``.

        k attributes, in that order: shape (2,)*k.

        Index 1 on an axis means that attribute changed. Exact up to rounding; k at most 20.
        """

    def one_way(self) -> FloatArray:
        """Compute Pr(attribute i kept), Pr(attribute i changed): shape (m, 2)."""
        return np.stack([self.marginal((i,)) for i in range(self.m)])

    def log_densities(self) -> FloatArray:
        """Compute ln(ν_S/μ_S) of every flip pattern, up to one constant, (2,)*m.

        Raises MethodTooLarge above 20 attributes.
        """
        if self.m > MAX_MARGINAL:
            raise MethodTooLarge(
                f"a noise distribution of kind {self.kind!r} over {self.m} attributes has too many change sets to "
                "list; use method "
                "'ball', or "
                f"at most {MAX_MARGINAL} attributes"
            )
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.marginal(range(self.m))) - log_uniform(self.sizes))

    def log_density_range(self) -> tuple[float, float]:
        """Compute the smallest and largest ln(ν_S/μ_S), rounded outward.

        Up to one common constant.
        """
        logs = self.log_densities()
        slack = _ROUNDING * (1 + np.abs(logs).max())
        return float(logs.min() - slack), float(logs.max() + slack)

    def conditional_epsilons(self) -> FloatArray:
        """Compute max |ln q_S/q_{S∪{i}}| over S without i, in nats, (m,), rounded up.

        Privacy loss about attribute i for an attacker who knows all other attributes of the person.
        """
        logs = self.log_densities()
        return np.asarray(largest_steps(logs) + 2 * _ROUNDING * (1 + np.abs(logs).max()))

    def diagram(self, most: int = MOST_STATES) -> Diagram | None:
        """Build the decision diagram from which the automaton is built.

        Returns None if it has more than ``most`` states.
        """
        out = table_diagram(self.log_densities()) if self.m <= _LISTED else None
        return out if out is not None and out.states <= most else None

    def sharpened(self, epsilon: float) -> "Law":
        """Scale the densities 1 + x to 1 + k x with total ``epsilon`` nats.

        The new total must be larger.

        Raises MethodTooLarge where change sets have to be listed and are too many.
        """
        return TableLaw(self.sizes, sharper(self.log_densities(), epsilon))

    def work(self) -> Work:
        """Bound the work of building the automaton and recomputing the stated ε."""
        # a law of more attributes than layers has no automaton
        states = min(4 * self.m, MOST_STATES) if self.m <= MOST_LAYERS else 0
        return of_states(states, float(np.ptp(self.log_density_range())))

    def pair_work(self) -> Work:
        """Bound the work of the eigenvalues of all pairs."""
        return Work(self.m**2 / 2 * MARGINAL, 32.0 * self.m**2)

    @cached_property
    def automaton(self) -> Automaton | None:
        """Integer automaton from which :meth:`sample` draws; None if too large."""
        if self.m > MOST_LAYERS:
            return None
        return automaton_of(self.sizes, self.diagram(), self.epsilon, self.conditional_epsilons())

    @cached_property
    def labels(self) -> Labels:
        """Stated ε of records drawn by :meth:`sample`.

        The distribution's own numbers if they cover the integers drawn.
        """
        if self.automaton is None:
            return Labels(self.epsilon, self.drawn_accuracies(), self.conditional_epsilons())
        a = self.automaton
        return Labels(a.epsilon_label, a.attribute_labels(self.attribute_epsilons()), a.conditional_labels)

    def drawn_accuracies(self) -> FloatArray:
        """Compute ε_i in nats of what :meth:`sample_directly` draws, shape (m,)."""
        return self.attribute_epsilons()

    def sample(self, n: int, source: BitSource) -> BoolArray:
        """Draw ``n`` independent flip patterns, shape (n, m); O(n m) memory.

        True if the attribute changes.
        """
        if self.automaton is None:
            return self.sample_directly(n, source)
        return self.automaton.sampler.changes(n, source)

    def sample_directly(self, n: int, source: BitSource) -> BoolArray:
        """Draw as :meth:`sample` without an automaton, which would be too large."""
        raise NotImplementedError(
            f"a {type(self).__name__} of {self.m} attributes has no automaton and no other sampler"
        )

    @property
    def epsilon(self) -> float:
        """Total ε in nats, rounded up; never below the true ε.

        The range of the log density.
        """
        low, high = self.log_density_range()
        return float(np.nextafter(high - low, np.inf)) if high > low else 0.0

    def attribute_epsilons(self) -> FloatArray:
        """Compute attribute ε in nats, shape (m,) (POR eq. 2).

        ε_i of the randomized response that is as accurate on attribute i alone.
        """
        kept, changed = self.one_way().T
        return np.asarray(np.log(self.sizes - 1.0) + np.log(kept) - np.log(changed))

    def eigenvalues(self, subset: Sequence[int]) -> FloatArray:
        """Compute λ_W of every W inside ``subset``, shape (2,)*k.

        Index 1 if the attribute is in W.
        """
        return effect_transform(self.marginal(subset), self.sizes[list(subset)])

    def joint_eigenvalues(self, others: IntArray, center: int) -> FloatArray:
        """Compute λ_ic of ``others`` with attribute ``center``, shape (k,).

        Takes one marginal each.
        """
        return np.array([self.eigenvalues((int(i), center))[1, 1] for i in others])

    def pair_eigenvalues(self) -> FloatArray:
        """Compute λ_ij off the diagonal and λ_i on it, shape (m, m).

        Takes one marginal per pair.
        """
        out = np.diag(self.one_way_eigenvalues())
        for i in range(self.m):
            for j in range(i + 1, self.m):
                out[i, j] = out[j, i] = self.eigenvalues((i, j))[1, 1]
        return out

    def one_way_eigenvalues(self) -> FloatArray:
        """Compute the eigenvalues of single attributes, λ_i = 1 − f_i/d_i, (m,)."""
        kept, changed = self.one_way().T
        return np.asarray(kept - changed / (self.sizes - 1))


def effect_transform(table: FloatArray, sizes: IntArray) -> FloatArray:
    """Transform probabilities of flip patterns (2,)*k to eigenvalues λ_W.

    One axis at a time: λ = kept + χ changed. O(k 2^k).
    """
    out = np.asarray(table, dtype=np.float64)
    for axis, r in enumerate(sizes):
        kept, changed = np.moveaxis(out, axis, 0)
        out = np.stack([kept + changed, kept - changed / (r - 1)], axis=axis)
    return out


def inverse_effect_transform(eigenvalues: FloatArray, sizes: IntArray) -> FloatArray:
    """Transform eigenvalues λ_W to probabilities of flip patterns.

    The inverse of :func:`effect_transform`.
    """
    out = np.asarray(eigenvalues, dtype=np.float64)
    for axis, r in enumerate(sizes):
        whole, part = np.moveaxis(out, axis, 0)
        out = np.stack([(whole + (r - 1) * part) / r, (whole - part) * ((r - 1) / r)], axis=axis)
    return out


def uniform_marginal(sizes: IntArray, share: float) -> FloatArray:
    """Compute ``share`` of a uniform answer's flip patterns, shape (2,)*k."""
    return reduce(np.multiply.outer, ([1 / r, 1 - 1 / r] for r in sizes), np.array(share))


def checked_subset(subset: Sequence[int], m: int) -> tuple[int, ...]:
    """Return the subset as a tuple.

    Raises ValueError on repeats, unknown attributes or more than 20 attributes.
    """
    chosen = tuple(int(i) for i in subset)
    if len(set(chosen)) != len(chosen) or any(not 0 <= i < m for i in chosen):
        raise ValueError(f"attribute set {chosen} must name different attributes among 0..{m - 1}")
    if len(chosen) > MAX_MARGINAL:
        raise ValueError(
            f"a marginal of {len(chosen)} attributes has 2^{len(chosen)} entries; ask for {MAX_MARGINAL} at most"
        )
    return chosen


def joint_by_class(law: Law, class_of: IntArray, others: IntArray, center: int) -> FloatArray:
    """Compute λ_ic from one marginal per class; shape (k,).

    For distributions that treat the members of a class alike.
    """
    out = np.empty(others.size)
    kinds = class_of[others]
    for kind in np.unique(kinds):
        members = np.flatnonzero(kinds == kind)
        out[members] = law.eigenvalues((int(others[members[0]]), center))[1, 1]
    return out


class SparseTable(msgspec.Struct, forbid_unknown_fields=True):
    """An array by its most common value, the cells that differ, and theirs."""

    most: float
    cells: list[int]
    log_density: list[float]


def record_of(law: Law) -> dict[str, Any]:
    """Return the plain record of a distribution: JSON values, with its kind."""
    if KINDS.get(law.kind) is not type(law):
        raise InvalidInput(f"noise distribution of kind {type(law).__name__}: cannot be written to a design file")
    return {"kind": law.kind, **msgspec.to_builtins(law.to_record())}


def law_of(record: dict[str, Any], sizes: IntArray) -> Law:
    """Build the distribution of a plain record for attributes of these sizes.

    Raises InvalidInput if the record does not fit them.
    """
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(
            f"the noise distribution has kind {str(kind)[:40]!r}; give one of {', '.join(sorted(KINDS))}"
        )
    law = KINDS[kind]
    try:
        fields = msgspec.convert({k: v for k, v in record.items() if k != "kind"}, type=law.Record)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the noise distribution's record is not of kind {kind!r}: {error}") from error
    return law.from_record(fields, sizes)


def sparse(values: FloatArray) -> SparseTable:
    """Store an array of any shape."""
    flat = values.ravel()
    levels, counts = np.unique(flat, return_counts=True)
    most = float(levels[np.argmax(counts)])
    cells = np.flatnonzero(flat != most)
    return SparseTable(most, cells.tolist(), flat[cells].tolist())


def dense(shape: tuple[int, ...], table: SparseTable, most: int) -> FloatArray:
    """Build the array of a table, of at most ``most`` cells."""
    size = math.prod(shape)
    if size > most:
        raise InvalidInput(f"the noise distribution has {size} cells; give at most {most}")
    if len(table.cells) != len(table.log_density) or not all(0 <= c < size for c in table.cells):
        raise InvalidInput(
            f"the noise distribution's cells must be numbers below {size}; give one log density for each"
        )
    bounded_nats([table.most, *table.log_density], sum(shape) - len(shape))
    out = np.full(size, table.most)
    out[table.cells] = table.log_density
    return out.reshape(shape)


def bounded_nats(values: Sequence[float], m: int) -> FloatArray:
    """Check numbers of nats of a distribution of ``m`` attributes."""
    out = np.asarray(values, dtype=np.float64)
    if np.any(np.abs(out) > _LARGEST * m):
        raise InvalidInput(
            f"log densities of {np.abs(out).max():g} nats are too large; {m} attributes need at most {_LARGEST * m:g}"
        )
    return out


class DensityLaw(Law):
    """Noise distribution by stored ln q over counts of changes.

    Up to one constant; counts are of classes of alike attributes.

    Its ε is exactly the range of these numbers. ``classes`` partition the attributes; ``log_density`` has one axis a
    class.
    """

    classes: Partition
    log_density: FloatArray

    @cached_property
    def class_of(self) -> IntArray:
        """Class number of each attribute, shape (m,)."""
        return self.classes.numbers

    @property
    @abstractmethod
    def log_mu(self) -> FloatArray:
        """ln of the law of a uniformly random answer, shape of ``log_density``."""

    @abstractmethod
    def with_densities(self, log_density: FloatArray) -> Self:
        """Return the distribution with other numbers."""

    @cached_property
    def probabilities(self) -> FloatArray:
        """Probability of every cell, shape of ``log_density``."""
        logs = self.log_density + self.log_mu
        return np.asarray(np.exp(logs - logsumexp(logs)))

    def epsilon_parts(self) -> list[float]:
        """Return the largest and smallest number."""
        return [float(self.log_density.max()), -float(self.log_density.min())]

    def attribute_epsilon_bounds(self) -> tuple[FloatArray, FloatArray] | None:
        """Bound ε_i in rationals up to 4096 cells."""
        return attribute_epsilon_bounds(self.sizes, self.classes, self.log_density)

    def log_density_range(self) -> tuple[float, float]:
        """Return the smallest and largest stored number, exactly."""
        return float(self.log_density.min()), float(self.log_density.max())

    def conditional_epsilons(self) -> FloatArray:
        """Compute the largest step along each class's axis, rounded up, (m,)."""
        steps = largest_steps(self.log_density)
        return np.where(steps > 0, np.nextafter(steps, np.inf), 0.0)[self.class_of]

    def sharpened(self, epsilon: float) -> Self:
        """Return the distribution rescaled to this total ε; see :func:`sharper`."""
        return self.with_densities(sharper(self.log_density, epsilon))

    def _work(self, states: float) -> Work:
        nats, cells, axes = float(np.ptp(self.log_density)), self.log_density.size, self.log_density.ndim
        # accuracies in rationals, where the cells are few enough for them
        words = (nats + float(np.log(self.sizes).sum())) / WORD_NATS
        steps = cells * (axes + 4) if cells <= EXACT_CELLS else 0
        rationals = Work(steps * (INTEGER_STEP + STATE_WORD * words), cells * 16 * words if steps else 0.0)
        return of_states(min(states, MOST_STATES), nats) + Work(STEP * cells * axes**2, 64.0 * cells) + rationals


class TableLaw(DensityLaw):
    """Noise distribution by the density of every flip pattern.

    Relative to the uniform answer; for the exact solvers at small m.

    ``log_density`` has shape (2,)*m (or 2^m values in that order, first attribute slowest): ln q_S up to one constant.
    Memory 8·2^m bytes, m at most 20.
    """

    kind = "table"
    Record = SparseTable

    def __init__(self, sizes: IntArray, log_density: FloatArray) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        if self.m > MAX_TABLE:
            raise ValueError(f"a table of change sets for {self.m} attributes does not fit; {MAX_TABLE} at most")
        values = np.asarray(log_density, dtype=np.float64)
        if values.size != 1 << self.m or not np.all(np.isfinite(values)):
            raise ValueError(
                f"a TableLaw of {self.m} attributes needs {1 << self.m} finite log densities, got {values.size}"
            )
        self.log_density, self.classes = values.reshape((2,) * self.m), singles(self.m)

    def to_record(self) -> SparseTable:
        """Return the densities."""
        return sparse(self.log_density)

    @classmethod
    def from_record(cls, record: SparseTable, sizes: IntArray) -> "TableLaw":
        """Build the noise distribution of a record."""
        return cls(sizes, dense((2,) * sizes.size, record, 1 << MAX_TABLE))

    def with_densities(self, log_density: FloatArray) -> "TableLaw":
        """Return the distribution with other numbers."""
        return TableLaw(self.sizes, log_density)

    @property
    def log_mu(self) -> FloatArray:
        """Shape (2,)*m."""
        return log_uniform(self.sizes)

    def log_densities(self) -> FloatArray:
        """Return the stored numbers."""
        return self.log_density

    def marginal(self, subset: Sequence[int]) -> FloatArray:
        """Sum over the other attributes, shape (2,)*k; O(2^m)."""
        chosen = checked_subset(subset, self.m)
        rest = tuple(i for i in range(self.m) if i not in chosen)
        kept = self.probabilities.sum(axis=rest)
        return np.transpose(kept, np.argsort(np.argsort(chosen)))

    def pair_eigenvalues(self) -> FloatArray:
        """Compute λ_ij and λ_i from one transform of the whole table, O(m 2^m)."""
        bits = np.int64(1) << np.arange(self.m - 1, -1, -1)
        eigenvalues = effect_transform(self.probabilities, self.sizes).ravel()
        return np.asarray(eigenvalues[bits[:, None] | bits[None, :]])

    def diagram(self, most: int = MOST_STATES) -> Diagram | None:
        """Build one state for each distinct remainder of the table."""
        out = table_diagram(self.log_density)
        return out if out.states <= most else None

    def work(self) -> Work:
        """Bound the work by two states per cell."""
        return self._work(2 * self.log_density.size)

    def pair_work(self) -> Work:
        """Bound the work of one transform, which :meth:`work` covers."""
        return Work()


def log_uniform(sizes: IntArray) -> FloatArray:
    """Compute ln μ_S of a uniform answer, shape (2,)*m; 8·2^m bytes."""
    return reduce(np.add.outer, ([-np.log(r), np.log1p(-1 / r)] for r in sizes), np.array(0.0))


def largest_steps(log_density: FloatArray) -> FloatArray:
    """Compute the largest difference of neighbors along each axis, (axes,)."""
    return np.asarray([np.abs(np.diff(log_density, axis=i)).max() for i in range(log_density.ndim)])


def sharper(log_density: FloatArray, epsilon: float) -> FloatArray:
    """Scale the excess of densities: ln(1 + k x) from ln(1 + x), up to a constant.

    The largest is exactly ``epsilon``.
    """
    # in logarithms, because e^ε overflows for many attributes
    excess = log_expm1(log_density - log_density.min())
    out = np.logaddexp(0.0, excess - excess.max() + log_expm1(np.asarray(epsilon)))
    return np.asarray(np.minimum(out, epsilon))
