"""Kernels: a mechanism's transition matrix on one attribute set, as operators for estimation (theory §3.2).

A kernel is the distortion matrix P[u, v] = Pr(output v | input u) over the attribute set's cells, seen as an operator:

    λ = Pᵀ π  (forward),     π̂ = (Pᵀ)⁻¹ λ̂  (solve; RVL eq. 17, MDR eq. 2),
    disp(π̂) = (n−1)⁻¹ (Pᵀ)⁻¹ (diag λ̂ − λ̂ λ̂ᵀ) P⁻¹  (RVL eq. 18).

Where the mechanism is a law of change sets, P is diagonal in effects: take every axis to [mean, first r−1 deviations],
multiply by λ_W or 1/λ_W, and go back, O(k Π r). The elementwise square of P⁻¹ depends on the change set only, as P⁻¹
does, so it is diagonal in effects too and gives all variances at the same cost. For independent randomized response,
λ_W = Π λ_i and `solve` is RIJ's RR-Ind-Joint (Algorithm 3). General matrices (Laplace, custom) are inverted once.

Tables have the attribute set's shape in their last k axes; axes before these are a batch. A kernel itself may be one of
a batch, with different eigenvalues for each table: ten thousand variants beside one status are one kernel.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from optrr.core.errors import InvalidInput
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.base import effect_transform, inverse_effect_transform

__all__ = [
    "MAX_DENSE",
    "MIN_EIGENVALUE",
    "EffectKernel",
    "Kernel",
    "MatrixKernel",
    "ProductKernel",
    "SingularMarginal",
    "unrandomized",
]

# An effect shrunk by 1e-6 has, from 10^10 records, a standard error above 1, the largest value a proportion can have. Solvers
# meet λ = 0 to 1e-9, which is far smaller, so an effect that the mechanism hides is never taken for one that can be estimated.
MIN_EIGENVALUE = 1e-6

# Dense covariances and matrices: 4096² doubles take 128 MB.
MAX_DENSE = 4096

# Up to this many cells a change of basis is one product with a small matrix: a hundred thousand tables of six cells take a
# tenth of the time that reductions over axes of two or three take.
_SMALL = 64

# A variance this small is rounding: against the mean square of the weights whose variance it is, or against the largest square,
# to which the way through effects rounds what is small. One record that counts among 10^12 that do not has more.
_ROUNDING, _LEAST_ROUNDING = 1e-12, 1e-15

# Entries of a matrix this close to each other are equal.
_SAME = 1e-12

# Probabilities that were written with six digits still sum to 1 this closely.
WRITTEN_SUM = 1e-6


class SingularMarginal(InvalidInput):
    """A table is not identifiable because the mechanism removes an effect.

    It names the effect, λ_U and the remedy.

    Examples
    --------
    >>> import optrr
    >>> issubclass(optrr.SingularMarginal, optrr.InvalidInput)
    True
    """


class Kernel(ABC):
    """A distortion matrix on some attributes.

    ``sizes`` are the table's axes, ``names`` those for messages.
    """

    sizes: tuple[int, ...]
    names: tuple[str, ...]
    # the shape of what stands before a table's own axes where every table has a kernel of its own; () where one serves all
    batch: tuple[int, ...] = ()

    def part(self, which: int | slice | IntArray) -> "Kernel":
        """Select kernels of some tables; return itself if all share one kernel."""
        return self

    @property
    def cells(self) -> int:
        """Number of cells Π r_i."""
        return prod(self.sizes)

    @property
    def axes(self) -> tuple[int, ...]:
        """The table's own axes, counted from the end."""
        return tuple(range(-len(self.sizes), 0))

    @abstractmethod
    def forward(self, table: ArrayLike) -> FloatArray:
        """Compute expected observed proportions Pᵀπ, same shape."""

    @abstractmethod
    def adjoint(self, table: ArrayLike) -> FloatArray:
        """Compute P x, the expectation of x at the output of each true cell.

        Equals `forward` for symmetric kernels.
        """

    @abstractmethod
    def solve(self, table: ArrayLike) -> FloatArray:
        """Compute the unbiased estimate (Pᵀ)⁻¹λ̂, same shape.

        Cells may be negative. Raises SingularMarginal.
        """

    @abstractmethod
    def solve_adjoint(self, table: ArrayLike) -> FloatArray:
        """Compute P⁻¹c, the weights that estimate Σ c π without bias.

        They apply to observed proportions. Raises SingularMarginal.
        """

    @abstractmethod
    def solve_power(self, table: ArrayLike, power: int) -> FloatArray:
        """Apply an elementwise power of (Pᵀ)⁻¹: Σ_v (P⁻¹[v, u])^power λ_v.

        Raises SingularMarginal.
        """

    @property
    @abstractmethod
    def largest_weights(self) -> FloatArray:
        """Largest weight of a report for each cell in `solve`.

        Broadcasts to ``sizes``. Raises SingularMarginal.
        """

    @abstractmethod
    def own_moment(self, power: int) -> FloatArray:
        """Compute the mean power of a record's weight for its own cell.

        Broadcasts to ``sizes``.

        Σ_v P[u, v] (P⁻¹[v, u])^power. Raises SingularMarginal.
        """

    @property
    def own_and_other(self) -> tuple[FloatArray, FloatArray] | None:
        """Probabilities of a cell's own report from a record inside and outside.

        None if the latter differ among cells.
        """
        return None

    def worst_variance(self, cell: int = 0) -> float:
        """Compute the largest variance of one record's estimate of a cell, over all populations.

        With the second moments s and s' of its weight from a record inside and outside of the cell, the variance at
        proportion p is s' + p (s − s') − p². Raises SingularMarginal.
        """
        one = np.zeros(self.sizes)
        one.flat[cell] = 1
        moments = self.adjoint(self.solve_adjoint(one) ** 2).ravel()
        inside, outside = moments[cell], np.delete(moments, cell).max(initial=0.0)
        p = min(max((inside - outside) / 2, 0.0), 1.0)
        return float(outside + p * (inside - outside) - p**2)

    @abstractmethod
    def check_invertible(self) -> None:
        """Raise SingularMarginal if the set cannot be estimated."""

    @property
    @abstractmethod
    def range(self) -> tuple[float, float]:
        """Smallest and largest entry of P: every expected proportion lies between them."""

    @property
    def is_invertible(self) -> bool:
        """Whether `solve` works."""
        try:
            self.check_invertible()
        except SingularMarginal:
            return False
        return True

    def expected(self, table: ArrayLike) -> FloatArray:
        """Compute `forward` of a distribution, kept inside the range of P.

        Rounding then makes nothing negative.

        The transform's rounding is absolute, about 1e-16; the range is exact. It is 0 only where P has zeros.
        """
        return np.clip(self.forward(table), *self.range)

    def variance(self, observed: ArrayLike, n: float) -> FloatArray:
        """Estimate every cell's variance in `solve(observed)` without bias.

        For n records; the diagonal of RVL eq. 18.
        """
        return self.exact_variance(observed, n - 1)

    def exact_variance(self, expected: ArrayLike, n: float) -> FloatArray:
        """Compute every cell's exact multinomial variance at these probabilities."""
        lam = np.asarray(expected, dtype=np.float64)
        return np.asarray(np.maximum(self.solve_power(lam, 2) - self.solve(lam) ** 2, 0.0) / n)

    def rounding(self, observed: ArrayLike) -> FloatArray:
        """Bound the rounding error of each cell's variance of one record.

        For cells whose informative reports are all alike.
        """
        return np.asarray(_ROUNDING * self.solve_power(observed, 2) + _LEAST_ROUNDING * self.largest_weights**2)

    def data_variance(self, observed: ArrayLike, n: float) -> FloatArray:
        """Estimate every cell's variance around *this data set's* proportions.

        Unbiased: (P⁻¹)²λ̂ − π̂, over n.

        With the records held fixed only the randomization varies.
        """
        lam = np.asarray(observed, dtype=np.float64)
        return np.asarray(np.maximum(self.solve_power(lam, 2) - self.solve(lam), 0.0) / n)

    def covariance(self, observed: ArrayLike, n: float) -> FloatArray:
        """Estimate the covariance of the unbiased estimate, (R, R) (RVL eq. 18).

        R is at most 4096.
        """
        inverse = self.inverse()
        lam = np.ravel(np.asarray(observed, dtype=np.float64))
        pi = lam @ inverse
        return np.asarray((inverse.T * lam) @ inverse - np.outer(pi, pi)) / (n - 1)

    def matrix(self) -> FloatArray:
        """Build P, (R, R), row-stochastic, cells row-major; R at most 4096."""
        self._check_dense()
        return self._dense()

    def _dense(self) -> FloatArray:
        # row u of P holds the reports of a person who is surely in cell u
        return self._on_every_cell(self.forward)

    def inverse(self) -> FloatArray:
        """Build P⁻¹, (R, R): π̂ = λ̂ P⁻¹ for row vectors; R at most 4096."""
        self._check_dense()
        return self._on_every_cell(self.solve)

    def _on_every_cell(self, operation: Callable[[FloatArray], FloatArray]) -> FloatArray:
        each = np.eye(self.cells).reshape(*(1 for _ in self.batch), -1, *self.sizes)
        return operation(each).reshape(*self.batch, self.cells, self.cells)

    def _check_dense(self) -> None:
        if self.cells > MAX_DENSE:
            raise InvalidInput(
                f"a dense matrix over {self.cells} cells is too large; use attribute sets of at most {MAX_DENSE}"
            )


class ProductKernel(Kernel):
    """Independently randomized groups of attributes, in the order of the axes."""

    def __init__(self, parts: Sequence[Kernel]) -> None:
        self.parts = tuple(parts)
        self.sizes = tuple(r for part in self.parts for r in part.sizes)
        self.names = tuple(name for part in self.parts for name in part.names)

    @property
    def range(self) -> tuple[float, float]:
        """Products of the parts' ranges."""
        return prod(p.range[0] for p in self.parts), prod(p.range[1] for p in self.parts)

    def _each(self, table: ArrayLike, operation: str, *options: int) -> FloatArray:
        out = np.asarray(table, dtype=np.float64)
        stop = 0
        for part in reversed(self.parts):
            k = len(part.sizes)
            source = list(range(out.ndim - stop - k, out.ndim - stop))
            last = list(range(out.ndim - k, out.ndim))
            out = np.moveaxis(getattr(part, operation)(np.moveaxis(out, source, last), *options), last, source)
            stop += k
        return out

    def forward(self, table: ArrayLike) -> FloatArray:
        """Apply every part's forward on its own axes."""
        return self._each(table, "forward")

    def adjoint(self, table: ArrayLike) -> FloatArray:
        """Apply every part's adjoint on its own axes."""
        return self._each(table, "adjoint")

    def solve(self, table: ArrayLike) -> FloatArray:
        """Apply every part's solve on its own axes (RIJ: inverse Kronecker product)."""
        return self._each(table, "solve")

    def solve_adjoint(self, table: ArrayLike) -> FloatArray:
        """Apply every part's adjoint solve on its own axes."""
        return self._each(table, "solve_adjoint")

    def solve_power(self, table: ArrayLike, power: int) -> FloatArray:
        """Apply every part's power, as powers of a Kronecker product factorize."""
        return self._each(table, "solve_power", power)

    @property
    def largest_weights(self) -> FloatArray:
        """Products of the parts'."""
        return reduce(np.multiply.outer, [p.largest_weights for p in self.parts])

    def own_moment(self, power: int) -> FloatArray:
        """Multiply the parts' moments, as their reports are independent."""
        return reduce(np.multiply.outer, [p.own_moment(power) for p in self.parts])

    @property
    def own_and_other(self) -> tuple[FloatArray, FloatArray] | None:
        """Probabilities of the single part; None for several."""
        return self.parts[0].own_and_other if len(self.parts) == 1 else None

    def check_invertible(self) -> None:
        """Check that every part is invertible."""
        for part in self.parts:
            part.check_invertible()


class EffectKernel(Kernel):
    """The kernel of a law: diagonal in effects, by λ_W for each W inside the set.

    ``eigenvalues`` has λ_W, shape (2,)*k, index 1 where the attribute is in W; λ_∅ = 1. As
    :meth:`optrr_solvers.laws.Law.eigenvalues`. Or one such array for each of B tables, shape (B,) + (2,)*k: then the kernel is
    of B attribute sets alike in size, its tables have B as their first axis, and a scan of many variants runs as one table
    does. ``changes`` has ν_S restricted to the set, same shape, where known: small entries are lost in the way back from
    eigenvalues.
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

    def part(self, which: int | slice | IntArray) -> "EffectKernel":
        """Select kernels of some tables; return itself if all share one kernel."""
        if not self.batch:
            return self
        changes = None if self._changes is None else self._changes[which]
        return EffectKernel(self.sizes, self.eigenvalues[which], self.names, changes)

    @cached_property
    def cell_probabilities(self) -> FloatArray:
        """Probability of one particular output by flip pattern, shape (2,)*k.

        It is an entry of P.
        """
        changes = self._changes
        if changes is None:
            changes = self._along_effects(inverse_effect_transform, self.eigenvalues)
        return np.asarray(changes / self._outputs)

    @property
    def _outputs(self) -> FloatArray:
        """Number of outputs that share each change set, shape (2,)*k."""
        out: FloatArray = np.ones(())
        for r in self.sizes:
            out = np.multiply.outer(out, np.array([1.0, r - 1.0]))
        return out

    def _along_effects(self, transform: Callable[[FloatArray, IntArray], FloatArray], array: FloatArray) -> FloatArray:
        """Transform (2,)*k arrays of every table, leaving further axes alone."""
        behind = np.moveaxis(array, range(len(self.batch)), range(-len(self.batch), 0)) if self.batch else array
        out = transform(behind, np.asarray(self.sizes))
        return np.moveaxis(out, range(-len(self.batch), 0), range(len(self.batch))) if self.batch else out

    def _dense(self) -> FloatArray:
        """Build P entry by entry from the probabilities of flip patterns."""
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
        """Apply a power of the inverse's entries, which is diagonal in effects."""
        return self._scaled(table, self._power_eigenvalues(power))

    @property
    def largest_weights(self) -> FloatArray:
        """Largest entry of the inverse, the same for all cells."""
        return np.full((1,) * len(self.sizes), self._inverse_entries.max())

    def own_moment(self, power: int) -> FloatArray:
        """Compute the moment, which is the same for all cells.

        P times a power of its inverse's entries has the product of their eigenvalues.
        """
        product = self.eigenvalues * self._power_eigenvalues(power)
        return np.full((1,) * len(self.sizes), inverse_effect_transform(product, np.asarray(self.sizes)).flat[0])

    @property
    def own_and_other(self) -> tuple[FloatArray, FloatArray] | None:
        """Probabilities of a single attribute; None for several."""
        if len(self.sizes) > 1 or self.batch:
            return None
        own, other = self.cell_probabilities
        return own, other

    def check_invertible(self) -> None:
        """Raise SingularMarginal naming the smallest set U with small |λ_U|.

        Small is below MIN_EIGENVALUE.
        """
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
        return self._along_effects(inverse_effect_transform, self._inverse_eigenvalues) / self._outputs

    def _power_eigenvalues(self, power: int) -> FloatArray:
        """Compute eigenvalues of these powers of the entries of P⁻¹."""
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


def _deviation_matrices(sizes: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Build both changes of basis as matrices that act on flat tables.

    They multiply from the right.
    """
    there = back = np.eye(prod(sizes)).reshape(-1, *sizes)
    for axis in range(-len(sizes), 0):
        there, back = _to_deviations(there, axis), _from_deviations(back, axis)
    return there.reshape(prod(sizes), -1), back.reshape(prod(sizes), -1)


def unrandomized(sizes: Sequence[int], names: Iterable[str] = ()) -> EffectKernel:
    """Build the kernel of truthful attributes, such as a public case status."""
    return EffectKernel(sizes, np.ones((2,) * len(sizes)), names)


def _to_deviations(table: FloatArray, axis: int) -> FloatArray:
    """Transform one axis to the mean and the first r−1 deviations from it."""
    mean = table.mean(axis=axis, keepdims=True)
    first = np.take(table, np.arange(table.shape[axis] - 1), axis=axis)
    return np.concatenate([mean, first - mean], axis=axis)


def _from_deviations(table: FloatArray, axis: int) -> FloatArray:
    """Invert `_to_deviations`; the deviations sum to zero."""
    mean = np.take(table, [0], axis=axis)
    first = np.take(table, np.arange(1, table.shape[axis]), axis=axis)
    return np.concatenate([mean + first, mean - first.sum(axis=axis, keepdims=True)], axis=axis)


def _hidden(members: Sequence[str], eigenvalue: float) -> str:
    shrunk = f"cannot be estimated: the mechanism attenuates it to λ = {eigenvalue:.3g}"
    if len(members) == 1:
        return f"attribute {members[0]!r} {shrunk}; give it a larger epsilon"
    remedy = "estimate smaller sets, or design with ``method='kronecker'``"
    if len(members) == 2:
        remedy = "design with ``preserve='pairs'``"
    return f"the joint effect of {', '.join(map(repr, members))} {shrunk}; {remedy}"


class MatrixKernel(Kernel):
    """Any row-stochastic matrix P[u, v] = Pr(output v | input u); dense.

    Cells of ``sizes`` are row-major.

    Raises InvalidInput for a matrix that is not square, has negative entries, or whose rows do not sum to 1.
    """

    def __init__(self, p: ArrayLike, sizes: Sequence[int] | None = None, names: Iterable[str] = ()) -> None:
        self.p = np.asarray(p, dtype=np.float64)
        if self.p.ndim != 2 or self.p.shape[0] != self.p.shape[1]:
            raise InvalidInput(f"a distortion matrix is square, got shape {self.p.shape}")
        self.sizes = tuple(int(r) for r in sizes) if sizes is not None else (self.p.shape[0],)
        self.names = tuple(names) or tuple(str(i) for i in range(len(self.sizes)))
        if self.cells != self.p.shape[0]:
            raise InvalidInput(f"a matrix of {self.p.shape[0]} rows cannot be over sizes {self.sizes}")
        self._check_dense()
        # written as a condition that must hold, so that a NaN is refused too
        if not (self.p.min() >= 0 and np.abs(self.p.sum(axis=1) - 1).max() <= WRITTEN_SUM):
            raise InvalidInput("a distortion matrix has rows of probabilities that sum to 1; check its orientation")

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest entry of P."""
        return float(self.p.min()), float(self.p.max())

    def _flat(self, table: ArrayLike) -> FloatArray:
        array = np.asarray(table, dtype=np.float64)
        return array.reshape(*array.shape[: array.ndim - len(self.sizes)], self.cells)

    def _applied(self, table: ArrayLike, matrix: FloatArray) -> FloatArray:
        flat = self._flat(table)
        return (flat @ matrix).reshape(*flat.shape[:-1], *self.sizes)

    def forward(self, table: ArrayLike) -> FloatArray:
        """Compute expected observed proportions Pᵀπ."""
        return self._applied(table, self.p)

    def adjoint(self, table: ArrayLike) -> FloatArray:
        """Compute the expectation P x of x at each true cell."""
        return self._applied(table, self.p.T)

    @cached_property
    def _inverse(self) -> FloatArray:
        self.check_invertible()
        return np.asarray(np.linalg.inv(self.p))

    def solve(self, table: ArrayLike) -> FloatArray:
        """Compute (Pᵀ)⁻¹λ̂ through the inverse, which is computed once."""
        return self._applied(table, self._inverse)

    def solve_adjoint(self, table: ArrayLike) -> FloatArray:
        """Compute weights P⁻¹c on observed proportions."""
        return self._applied(table, self._inverse.T)

    def solve_power(self, table: ArrayLike, power: int) -> FloatArray:
        """Apply powers of the entries of (Pᵀ)⁻¹."""
        return self._applied(table, self._inverse**power)

    @property
    def largest_weights(self) -> FloatArray:
        """The largest entries of the columns of P⁻¹."""
        return np.asarray(self._inverse.max(axis=0).reshape(self.sizes))

    def own_moment(self, power: int) -> FloatArray:
        """Multiply rows of P by columns of a power of its inverse's entries."""
        return np.asarray(np.sum(self.p * (self._inverse**power).T, axis=1).reshape(self.sizes))

    @property
    def own_and_other(self) -> tuple[FloatArray, FloatArray] | None:
        """Probabilities if all columns of P are alike except for the diagonal."""
        own = np.diag(self.p)
        other = (self.p.sum(axis=0) - own) / max(self.cells - 1, 1)
        alike = np.allclose(self.p, np.where(np.eye(self.cells, dtype=bool), self.p, other), rtol=0, atol=_SAME)
        return (own.reshape(self.sizes), other.reshape(self.sizes)) if alike else None

    def check_invertible(self) -> None:
        """Raise SingularMarginal if a singular value is below MIN_EIGENVALUE."""
        smallest = float(np.linalg.svd(self.p, compute_uv=False)[-1])
        if smallest < MIN_EIGENVALUE:
            raise SingularMarginal(
                f"the distortion matrix over {', '.join(self.names)} has smallest singular value {smallest:.3g}: its "
                "table cannot be estimated; randomize less or merge the categories that look alike after randomization"
            )
