"""BlockLaw: independent blocks of attributes, each with a law of its own (clusters, MDR §4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optrr_solvers.automaton.diagram import MOST_STATES, Diagram, in_sequence
from optrr_solvers.laws.base import BoolArray, Law, checked_subset
from optrr_solvers.problem import FloatArray, IntArray
from optrr_solvers.randomness import BitSource


class BlockLaw(Law):
    """Blocks as (attribute indices, law) pairs that partition the attributes; each law lists them in that order."""

    def __init__(self, blocks: Sequence[tuple[Sequence[int], Law]]) -> None:
        self.blocks = tuple((tuple(int(i) for i in members), law) for members, law in blocks)
        m = sum(len(members) for members, _ in self.blocks)
        if sorted(i for members, _ in self.blocks for i in members) != list(range(m)):
            raise ValueError(f"the blocks must hold every attribute 0..{m - 1} exactly once")
        if any(len(members) != law.m for members, law in self.blocks):
            raise ValueError("a block must name as many attributes as its law has")
        self.sizes = self._gather([law.sizes for _, law in self.blocks]).astype(np.int64)

    def _gather(self, parts: Sequence[FloatArray | IntArray]) -> FloatArray:
        out = np.empty((sum(len(p) for p in parts), *parts[0].shape[1:]))
        for (members, _), part in zip(self.blocks, parts, strict=True):
            out[list(members)] = part
        return out

    def one_way(self) -> FloatArray:
        """Pr(kept), Pr(changed) per attribute, shape (m, 2)."""
        return self._gather([law.one_way() for _, law in self.blocks])

    def marginal(self, subset: Sequence[int]) -> FloatArray:
        """Outer product of the blocks' marginals, axes in the order asked for."""
        chosen = checked_subset(subset, self.m)
        table, axes = np.array(1.0), []
        for members, law in self.blocks:
            inside = [i for i in chosen if i in members]
            if inside:
                table = np.multiply.outer(table, law.marginal([members.index(i) for i in inside]))
                axes += inside
        return np.transpose(table, [axes.index(i) for i in chosen])

    def log_density_range(self) -> tuple[float, float]:
        """Sums of the blocks' ranges, rounded outward."""
        ranges = np.asarray([law.log_density_range() for _, law in self.blocks])
        slack = len(self.blocks) * 2.0**-52 * np.abs(ranges).sum()
        return float(ranges[:, 0].sum() - slack), float(ranges[:, 1].sum() + slack)

    def conditional_epsilons(self) -> FloatArray:
        """Each attribute's within its block."""
        return self._gather([law.conditional_epsilons() for _, law in self.blocks])

    def diagram(self, most: int = MOST_STATES) -> Diagram | None:
        """Block after block."""
        parts = [(members, law.diagram(most)) for members, law in self.blocks]
        found = [(members, part) for members, part in parts if part is not None]
        if len(found) < len(parts) or sum(part.states for _, part in found) > most:
            return None
        return in_sequence(found)

    def sample_directly(self, n: int, source: BitSource) -> BoolArray:
        """Each block on its own."""
        out = np.empty((n, self.m), dtype=np.bool_)
        for members, law in self.blocks:
            out[:, list(members)] = law.sample(n, source)
        return out
