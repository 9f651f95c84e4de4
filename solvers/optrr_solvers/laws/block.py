"""BlockLaw: independent blocks of attributes, each with a separate noise distribution (clusters, MDR §4)."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import sum_ceiling
from optrr_solvers.errors import InvalidInput
from optrr_solvers.laws.base import BoolArray, Labels, Law, checked_subset, law_of, record_of
from optrr_solvers.partition import partition
from optrr_solvers.randomness import BitSource
from optrr_solvers.sampling.diagram import MOST_STATES, Diagram, in_sequence
from optrr_solvers.work import Work


class BlockRecord(msgspec.Struct, forbid_unknown_fields=True):
    """Attribute numbers and record of each block's law."""

    blocks: list[tuple[list[int], dict[str, Any]]]


class BlockLaw(Law):
    """Independent blocks of attributes with a noise distribution each.

    (attribute indices, law) pairs that partition the attributes; each law lists them in that order.
    """

    kind = "blocks"
    Record = BlockRecord

    def __init__(self, blocks: Sequence[tuple[Sequence[int], Law]]) -> None:
        self.blocks = tuple((tuple(int(i) for i in members), law) for members, law in blocks)
        m = sum(len(members) for members, _ in self.blocks)
        partition([members for members, _ in self.blocks], m, "blocks")
        if any(len(members) != law.m for members, law in self.blocks):
            raise ValueError("a block must name as many attributes as its law has")
        self.sizes = self._gather([law.sizes for _, law in self.blocks]).astype(np.int64)

    def _gather(self, parts: Sequence[FloatArray | IntArray]) -> FloatArray:
        out = np.empty((sum(len(p) for p in parts), *parts[0].shape[1:]))
        for (members, _), part in zip(self.blocks, parts, strict=True):
            out[list(members)] = part
        return out

    def to_record(self) -> BlockRecord:
        """Return every block's distribution."""
        return BlockRecord([(list(members), record_of(law)) for members, law in self.blocks])

    @classmethod
    def from_record(cls, record: BlockRecord, sizes: IntArray) -> "BlockLaw":
        """Build the distribution of a record; refuse blocks inside blocks."""
        m = sizes.size
        if any(inner.get("kind") == cls.kind for _, inner in record.blocks):
            raise InvalidInput("a block of the noise distribution consists of blocks; list these as its blocks")
        partition([members for members, _ in record.blocks], m, "noise distribution's blocks")
        return cls([(members, law_of(inner, sizes[members])) for members, inner in record.blocks])

    def epsilon_parts(self) -> list[float] | None:
        """Return all parts of all blocks."""
        parts = [law.epsilon_parts() for _, law in self.blocks]
        return None if any(p is None for p in parts) else [x for p in parts if p is not None for x in p]

    def attribute_epsilon_bounds(self) -> tuple[FloatArray, FloatArray] | None:
        """Bound each attribute's ε within its block."""
        bounds = [law.attribute_epsilon_bounds() for _, law in self.blocks]
        known = [b for b in bounds if b is not None]
        if len(known) < len(bounds):
            return None
        return self._gather([low for low, _ in known]), self._gather([high for _, high in known])

    def work(self) -> Work:
        """Sum the blocks' work."""
        return sum((law.work() for _, law in self.blocks), Work())

    def one_way(self) -> FloatArray:
        """Compute Pr(kept), Pr(changed) per attribute, shape (m, 2)."""
        return self._gather([law.one_way() for _, law in self.blocks])

    def marginal(self, subset: Sequence[int]) -> FloatArray:
        """Compute the product of the blocks' marginals, axes in the order of ``subset``."""
        chosen = checked_subset(subset, self.m)
        table, axes = np.array(1.0), []
        for members, law in self.blocks:
            inside = [i for i in chosen if i in members]
            if inside:
                table = np.multiply.outer(table, law.marginal([members.index(i) for i in inside]))
                axes += inside
        return np.transpose(table, [axes.index(i) for i in chosen])

    def log_density_range(self) -> tuple[float, float]:
        """Sum the blocks' ranges, rounded outward."""
        ranges = np.asarray([law.log_density_range() for _, law in self.blocks])
        slack = len(self.blocks) * 2.0**-52 * np.abs(ranges).sum()
        return float(ranges[:, 0].sum() - slack), float(ranges[:, 1].sum() + slack)

    def conditional_epsilons(self) -> FloatArray:
        """Compute each attribute's conditional ε within its block."""
        return self._gather([law.conditional_epsilons() for _, law in self.blocks])

    def diagram(self, most: int = MOST_STATES) -> Diagram | None:
        """Join the blocks' diagrams."""
        parts = [(members, law.diagram(most)) for members, law in self.blocks]
        diagrams = [(members, part) for members, part in parts if part is not None]
        if len(diagrams) < len(parts) or sum(part.states for _, part in diagrams) > most:
            return None
        return in_sequence(diagrams)

    @cached_property
    def labels(self) -> Labels:
        """Stated ε of the distribution, or of its blocks without an automaton of all."""
        if self.automaton is not None:
            return super().labels
        blocks = [law.labels for _, law in self.blocks]
        attribute, conditional = (
            self._gather([x.attribute for x in blocks]),
            self._gather([x.conditional for x in blocks]),
        )
        return Labels(max(self.epsilon, sum_ceiling([x.epsilon for x in blocks])), attribute, conditional)

    def sample_directly(self, n: int, source: BitSource) -> BoolArray:
        """Draw each block independently."""
        out = np.empty((n, self.m), dtype=np.bool_)
        for members, law in self.blocks:
            out[:, list(members)] = law.sample(n, source)
        return out
