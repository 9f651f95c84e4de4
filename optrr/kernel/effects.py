"""The kernel of a law of change sets: diagonal in effects, so P and P⁻¹ cost O(k Π r) and no matrix is built (design §3.2).

Every axis is taken to [mean, first r−1 deviations], effects are multiplied by λ_W or 1/λ_W, and taken back. The elementwise
square of P⁻¹ depends on the change set only, as P⁻¹ does, so it is diagonal in effects too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr.kernel.operator import MIN_EIGENVALUE, CellRange, Kernel, SingularMarginal
from optrr_solvers.laws.base import effect_transform, inverse_effect_transform
from optrr_solvers.problem import FloatArray, IntArray


class EffectKernel(Kernel):
    """The kernel of a law: λ_W for every W inside the set.

    Parameters
    ----------
    sizes
        r_i of the k attributes.
    eigenvalues
        λ_W, shape (2,)*k, index 1 where the attribute is in W; λ_∅ = 1. As :meth:`optrr_solvers.laws.Law.eigenvalues`.
    names
        for messages; positions where not given.
    changes
        ν_S restricted to the set, same shape, where known: small entries are lost in the way back from eigenvalues.
    """

    def __init__(
        self,
        sizes: Sequence[int] | IntArray,
        eigenvalues: ArrayLike,
        names: Iterable[str] = (),
        changes: FloatArray | None = None,
    ) -> None:
        self._changes = changes
        self.sizes = tuple(int(r) for r in sizes)
        self.eigenvalues = np.asarray(eigenvalues, dtype=np.float64)
        self.names = tuple(names) or tuple(str(i) for i in range(len(self.sizes)))
        if self.eigenvalues.shape != (2,) * len(self.sizes):
            raise InvalidInput(
                f"{len(self.sizes)} attributes need eigenvalues of shape {(2,) * len(self.sizes)}, "
                f"got {self.eigenvalues.shape}"
            )

    @cached_property
    def cell_probabilities(self) -> FloatArray:
        """Probability of one particular output by its change set, shape (2,)*k: an entry of P."""
        if self._changes is not None:
            return self._per_cell(self._changes)
        return self._per_cell(inverse_effect_transform(self.eigenvalues, np.asarray(self.sizes)))

    def _per_cell(self, changes: FloatArray) -> FloatArray:
        out = changes
        for axis, r in enumerate(self.sizes):
            out = out / np.reshape([1, r - 1], [2 if a == axis else 1 for a in range(out.ndim)])
        return np.asarray(out)

    def _dense(self) -> FloatArray:
        """P by looking up each entry's change set, exact where the change sets' probabilities are."""
        k, changed = len(self.sizes), []
        for axis, r in enumerate(self.sizes):
            shape = [1] * (2 * k)
            shape[axis] = shape[k + axis] = r
            changed.append((1 - np.eye(r, dtype=np.int64)).reshape(shape))
        return np.asarray(self.cell_probabilities[tuple(changed)]).reshape(self.cells, self.cells)

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest entry of P."""
        return max(float(self.cell_probabilities.min()), 0.0), float(self.cell_probabilities.max())

    def forward(self, table: ArrayLike) -> FloatArray:
        """Multiply every effect by its λ_W."""
        return self._scaled(table, self.eigenvalues)

    def adjoint(self, table: ArrayLike) -> FloatArray:
        """As `forward`: the kernel is symmetric."""
        return self.forward(table)

    def solve(self, table: ArrayLike) -> FloatArray:
        """Divide every effect by its λ_W."""
        return self._scaled(table, self._inverse_eigenvalues)

    def solve_adjoint(self, table: ArrayLike) -> FloatArray:
        """As `solve`: the kernel is symmetric."""
        return self.solve(table)

    def solve_power(self, table: ArrayLike, power: int) -> FloatArray:
        """A power of the inverse's entries is a kernel of change sets, hence diagonal in effects."""
        return self._scaled(table, self._power_eigenvalues(power))

    @property
    def report_chances(self) -> CellRange:
        """The same for every cell: entries of P by change set."""
        return self._cell_range(self.cell_probabilities)

    @property
    def own_weights(self) -> FloatArray:
        """The same for every cell: the inverse's entry of the empty change set."""
        return self._cell_range(self._inverse_entries).own

    def weight_moments(self, power: int) -> CellRange:
        """P times a power of its inverse's entries has the product of their eigenvalues."""
        product = self.eigenvalues * self._power_eigenvalues(power)
        return self._cell_range(self._per_cell(inverse_effect_transform(product, np.asarray(self.sizes))))

    def _cell_range(self, by_change_set: FloatArray) -> CellRange:
        found = (by_change_set.flat[0], by_change_set.min(), by_change_set.max())
        return CellRange(*(np.full((1,) * len(self.sizes), value) for value in found))

    def check_invertible(self) -> None:
        """Raise SingularMarginal naming the smallest set U whose |λ_U| is below MIN_EIGENVALUE."""
        small = np.argwhere(np.abs(self.eigenvalues) < MIN_EIGENVALUE)
        if small.size:
            worst = small[np.argmin(small.sum(axis=1))]
            raise SingularMarginal(_hidden(self._named(worst), float(self.eigenvalues[tuple(worst)])))

    def _named(self, members: IntArray) -> list[str]:
        return [name for name, inside in zip(self.names, members, strict=True) if inside]

    def hidden_effects(self) -> list[list[str]]:
        """Names of every set whose effect the mechanism hides."""
        return [self._named(w) for w in np.argwhere(np.abs(self.eigenvalues) < MIN_EIGENVALUE)]

    @cached_property
    def _inverse_eigenvalues(self) -> FloatArray:
        self.check_invertible()
        return np.asarray(1 / self.eigenvalues)

    @cached_property
    def _inverse_entries(self) -> FloatArray:
        """Entries of P⁻¹ by change set, shape (2,)*k."""
        return self._per_cell(inverse_effect_transform(self._inverse_eigenvalues, np.asarray(self.sizes)))

    def _power_eigenvalues(self, power: int) -> FloatArray:
        """Eigenvalues of the matrix of these powers of the entries of P⁻¹."""
        entries = self._inverse_entries**power
        for axis, r in enumerate(self.sizes):
            entries = entries * np.reshape([1, r - 1], [2 if a == axis else 1 for a in range(entries.ndim)])
        return effect_transform(entries, np.asarray(self.sizes))

    def _scaled(self, table: ArrayLike, eigenvalues: FloatArray) -> FloatArray:
        out = np.asarray(table, dtype=np.float64)
        for axis in self.axes:
            out = _to_deviations(out, axis)
        places = np.ix_(*(np.minimum(np.arange(r), 1) for r in self.sizes))
        out = out * eigenvalues[places]
        for axis in self.axes:
            out = _from_deviations(out, axis)
        return out


def unrandomized(sizes: Sequence[int], names: Iterable[str] = ()) -> EffectKernel:
    """The kernel of attributes that were reported truthfully, such as a public case/control status."""
    return EffectKernel(sizes, np.ones((2,) * len(sizes)), names)


def _to_deviations(table: FloatArray, axis: int) -> FloatArray:
    """Along one axis: the mean, then the first r−1 deviations from it."""
    mean = table.mean(axis=axis, keepdims=True)
    first = np.take(table, np.arange(table.shape[axis] - 1), axis=axis)
    return np.concatenate([mean, first - mean], axis=axis)


def _from_deviations(table: FloatArray, axis: int) -> FloatArray:
    """Inverse of `_to_deviations`: the deviations sum to zero."""
    mean = np.take(table, [0], axis=axis)
    first = np.take(table, np.arange(1, table.shape[axis]), axis=axis)
    return np.concatenate([mean + first, mean - first.sum(axis=axis, keepdims=True)], axis=axis)


def _hidden(members: Sequence[str], eigenvalue: float) -> str:
    if len(members) == 1:
        return (
            f"attribute {members[0]!r} cannot be estimated: the mechanism shrinks it to λ = {eigenvalue:.3g}; "
            "give it a larger epsilon"
        )
    joined = ", ".join(repr(name) for name in members)
    remedy = (
        "design with preserve='pairs' (--preserve pairs)"
        if len(members) == 2
        else "estimate smaller sets, or design with method='kronecker'"
    )
    shrunk = f"the mechanism shrinks it to λ = {eigenvalue:.3g}"
    return f"the joint effect of {joined} cannot be estimated: {shrunk}; {remedy}"
