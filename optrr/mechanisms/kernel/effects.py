"""The kernel of a law of change sets: diagonal in effects, so that no matrix is built (design §3.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr.mechanisms.kernel.operator import MIN_EIGENVALUE, CellRange, Kernel, SingularMarginal
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.base import effect_transform, inverse_effect_transform

# Up to this many cells a change of basis is one product with a small matrix: a hundred thousand tables of six cells take a
# tenth of the time that reductions over axes of two or three take.
_SMALL = 64


class EffectKernel(Kernel):
    """The kernel of a law: λ_W for every W inside the set.

    Parameters
    ----------
    sizes
        r_i of the k attributes.
    eigenvalues
        λ_W, shape (2,)*k, index 1 where the attribute is in W; λ_∅ = 1. As :meth:`optrr_solvers.laws.Law.eigenvalues`.
        Or one such array for each of B tables, shape (B,) + (2,)*k: then the kernel is of B attribute sets alike in size,
        its tables have B as their first axis, and a scan of many variants runs as one table does.
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
        k = len(self.sizes)
        if self.eigenvalues.shape[-k:] != (2,) * k or self.eigenvalues.ndim > k + 1:
            raise InvalidInput(
                f"{k} attributes need eigenvalues of shape {(2,) * k}, or of that shape for each of many tables, "
                f"got {self.eigenvalues.shape}"
            )
        self.batch = self.eigenvalues.shape[:-k]

    def part(self, which: int | slice | IntArray) -> EffectKernel:
        """The kernels of some of the tables, of one without a batch; itself where one kernel serves them all."""
        if not self.batch:
            return self
        changes = None if self._changes is None else self._changes[which]
        return EffectKernel(self.sizes, self.eigenvalues[which], self.names, changes)

    @cached_property
    def cell_probabilities(self) -> FloatArray:
        """Probability of one particular output by its change set, shape (2,)*k: an entry of P."""
        if self._changes is not None:
            return self._per_cell(self._changes)
        return self._per_cell(self._along_effects(inverse_effect_transform, self.eigenvalues))

    def _per_cell(self, changes: FloatArray) -> FloatArray:
        return np.asarray(changes / self._outputs)

    @property
    def _outputs(self) -> FloatArray:
        """Number of outputs that share each change set, shape (2,)*k."""
        out: FloatArray = np.ones(())
        for r in self.sizes:
            out = np.multiply.outer(out, np.array([1.0, r - 1.0]))
        return out

    def _along_effects(self, transform: Callable[[FloatArray, IntArray], FloatArray], array: FloatArray) -> FloatArray:
        """A transform of (2,)*k arrays, of every table's; transforms leave the axes behind these alone."""
        behind = np.moveaxis(array, range(len(self.batch)), range(-len(self.batch), 0)) if self.batch else array
        out = transform(behind, np.asarray(self.sizes))
        return np.moveaxis(out, range(-len(self.batch), 0), range(len(self.batch))) if self.batch else out

    def _dense(self) -> FloatArray:
        """P, entry by entry from the probability of its change set; as exact as these probabilities."""
        k = len(self.sizes)
        changed: list[Any] = [...]
        for axis, r in enumerate(self.sizes):
            shape = [1] * (2 * k)
            shape[axis] = shape[k + axis] = r
            changed.append((1 - np.eye(r, dtype=np.int64)).reshape(shape))
        return np.asarray(self.cell_probabilities[tuple(changed)]).reshape(*self.batch, self.cells, self.cells)

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest entry of P."""
        return max(float(self.cell_probabilities.min()), 0.0), float(self.cell_probabilities.max())

    def forward(self, table: ArrayLike) -> FloatArray:
        """Multiply every effect by its λ_W."""
        return self._scaled(table, self.eigenvalues)

    # the kernel is symmetric
    adjoint = forward

    def solve(self, table: ArrayLike) -> FloatArray:
        """Divide every effect by its λ_W."""
        return self._scaled(table, self._inverse_eigenvalues)

    solve_adjoint = solve

    def solve_power(self, table: ArrayLike, power: int) -> FloatArray:
        """A power of the inverse's entries is a kernel of change sets, hence diagonal in effects."""
        return self._scaled(table, self._power_eigenvalues(power))

    @cached_property
    def _heaviest(self) -> FloatArray:
        """1 for the change set whose reports count most for a cell, shape (2,)*k: mostly the empty one, the cell itself."""
        out = np.zeros_like(self._inverse_entries)
        out.flat[np.argmax(self._inverse_entries)] = 1.0
        return out

    def heavy(self, table: ArrayLike) -> FloatArray:
        """Change sets are diagonal in effects."""
        if self._heaviest.flat[0]:
            return np.asarray(table, dtype=np.float64)
        return self._scaled(table, self._along_effects(effect_transform, self._heaviest * self._outputs))

    @property
    def heavy_chances(self) -> CellRange:
        """The same for every cell: P times the heaviest change set."""
        if self._heaviest.flat[0]:
            return self._cell_range(self.cell_probabilities)
        product = self.eigenvalues * self._along_effects(effect_transform, self._heaviest * self._outputs)
        chances = inverse_effect_transform(product, np.asarray(self.sizes))
        return self._cell_range(self._per_cell(np.maximum(chances, 0.0)))

    @property
    def heavy_weights(self) -> FloatArray:
        """The same for every cell: the largest entry of the inverse."""
        return np.full((1,) * len(self.sizes), self._inverse_entries.max())

    def weight_moments(self, power: int) -> CellRange:
        """P times a power of its inverse's entries has the product of their eigenvalues."""
        product = self.eigenvalues * self._power_eigenvalues(power)
        return self._cell_range(self._per_cell(inverse_effect_transform(product, np.asarray(self.sizes))))

    def _cell_range(self, by_change_set: FloatArray) -> CellRange:
        weights = (by_change_set.flat[0], by_change_set.min(), by_change_set.max())
        return CellRange(*(np.full((1,) * len(self.sizes), value) for value in weights))

    def check_invertible(self) -> None:
        """Raise SingularMarginal naming the smallest set U whose |λ_U| is below MIN_EIGENVALUE."""
        k = len(self.sizes)
        small = np.argwhere(np.abs(self.eigenvalues) < MIN_EIGENVALUE)
        if small.size:
            worst = small[np.argmin(small[:, -k:].sum(axis=1))]
            members = [name for name, inside in zip(self.names, worst[-k:], strict=True) if inside]
            message = _hidden(members, float(self.eigenvalues[tuple(worst)]))
            where = f"table {worst[0] + 1} of {self.batch[0]}: " if self.batch else ""
            raise SingularMarginal(where + message)

    @cached_property
    def _inverse_eigenvalues(self) -> FloatArray:
        self.check_invertible()
        return np.asarray(1 / self.eigenvalues)

    @cached_property
    def _inverse_entries(self) -> FloatArray:
        """Entries of P⁻¹ by change set, shape (2,)*k."""
        return self._per_cell(self._along_effects(inverse_effect_transform, self._inverse_eigenvalues))

    def _power_eigenvalues(self, power: int) -> FloatArray:
        """Eigenvalues of the matrix of these powers of the entries of P⁻¹."""
        return self._along_effects(effect_transform, self._inverse_entries**power * self._outputs)

    def _scaled(self, table: ArrayLike, eigenvalues: FloatArray) -> FloatArray:
        out = np.asarray(table, dtype=np.float64)
        small = self.cells <= _SMALL
        if small:
            to, back = _deviation_matrices(self.sizes)
            out = (out.reshape(-1, self.cells) @ to).reshape(out.shape)
        else:
            for axis in self.axes:
                out = _to_deviations(out, axis)
        places: tuple[Any, ...] = (..., *np.ix_(*(np.minimum(np.arange(r), 1) for r in self.sizes)))
        scales = eigenvalues[places]
        # each table of the batch may come with several arrays
        between = (1,) * (out.ndim - scales.ndim) if self.batch else ()
        out = out * scales.reshape(*self.batch, *between, *self.sizes)
        if small:
            return np.asarray((out.reshape(-1, self.cells) @ back).reshape(out.shape))
        for axis in self.axes:
            out = _from_deviations(out, axis)
        return out


@lru_cache(maxsize=64)
def _deviation_matrices(sizes: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """The same changes of basis, there and back, as matrices that multiply flat tables from the right."""
    there = back = np.eye(prod(sizes)).reshape(-1, *sizes)
    for axis in range(-len(sizes), 0):
        there, back = _to_deviations(there, axis), _from_deviations(back, axis)
    return there.reshape(prod(sizes), -1), back.reshape(prod(sizes), -1)


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
