"""Kernels: what estimation needs from a mechanism on one attribute set, without building its matrix (design §3.2).

A kernel is the distortion matrix P[u, v] = Pr(output v | input u) over the attribute set's cells, seen as an operator:

    λ = Pᵀ π  (forward),     π̂ = (Pᵀ)⁻¹ λ̂  (solve; RVL eq. 17, MDR eq. 2),
    disp(π̂) = (n−1)⁻¹ (Pᵀ)⁻¹ (diag λ̂ − λ̂ λ̂ᵀ) P⁻¹  (RVL eq. 18).

Where the mechanism is a law of change sets, P is diagonal in effects: take every axis to [mean, first r−1 deviations],
multiply by λ_W or 1/λ_W, and go back, O(k Π r). The elementwise square of P⁻¹ depends on the change set only, as P⁻¹
does, so it is diagonal in effects too and gives all variances at the same cost. For Kronecker laws, λ_W = Π λ_i and
`solve` is RIJ's RR-Ind-Joint (Algorithm 3). General matrices (Laplace, custom) are inverted once.

Tables have the attribute set's shape in their last k axes; axes before these are a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from math import prod
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from optrr.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanism import Mechanism
from optrr_solvers.laws.base import effect_transform, inverse_effect_transform
from optrr_solvers.problem import FloatArray, IntArray

# An effect shrunk by 1e-6 has, from 10^10 records, a standard error above 1, the largest value a proportion can have.
# It is also far above the 1e-9 to which solvers meet λ = 0: a vanished effect is never mistaken for an estimable one.
MIN_EIGENVALUE = 1e-6

# Dense covariances and matrices: 4096² doubles take 128 MB.
MAX_DENSE = 4096

# Rows of a distortion matrix that was written with six digits still sum to 1 this closely.
_ROW_SUM = 1e-6


class SingularMarginal(InvalidInput):
    """An attribute set cannot be estimated: the mechanism hides one of its effects; names it, λ_U and the remedy."""


class Kernel(ABC):
    """A distortion matrix on an attribute set; ``sizes`` are the table's axes, ``names`` what messages call them."""

    sizes: tuple[int, ...]
    names: tuple[str, ...]

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
        """Expected observed proportions Pᵀπ of true proportions π, same shape."""

    @abstractmethod
    def adjoint(self, table: ArrayLike) -> FloatArray:
        """P x: for each true cell, the expectation of x at its output. Equals `forward` for symmetric kernels."""

    @abstractmethod
    def solve(self, table: ArrayLike) -> FloatArray:
        """Unbiased estimate (Pᵀ)⁻¹λ̂, same shape; cells may be negative. Raises SingularMarginal."""

    @abstractmethod
    def solve_adjoint(self, table: ArrayLike) -> FloatArray:
        """P⁻¹c: the weights on observed proportions whose sum estimates Σ c π without bias. Raises SingularMarginal."""

    @abstractmethod
    def solve_squared(self, table: ArrayLike) -> FloatArray:
        """The elementwise square of (Pᵀ)⁻¹ applied to a table: Σ_v (P⁻¹[v, u])² λ_v. Raises SingularMarginal."""

    @abstractmethod
    def check_invertible(self) -> None:
        """Raise SingularMarginal where the set cannot be estimated."""

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
        """`forward` for a table that sums to 1, kept inside the range of P, so that logarithms of it are safe.

        The transform's rounding is absolute, about 1e-16; the range is exact and its lower end positive.
        """
        return np.clip(self.forward(table), *self.range)

    def variance(self, observed: ArrayLike, n: float) -> FloatArray:
        """Unbiased estimate of every cell's variance in `solve(observed)`, n records: the diagonal of RVL eq. 18."""
        return self.exact_variance(observed, n - 1)

    def exact_variance(self, expected: ArrayLike, n: float) -> FloatArray:
        """Exact multinomial variance of every cell of the unbiased estimate, if outputs have these probabilities."""
        lam = np.asarray(expected, dtype=np.float64)
        return np.asarray(np.maximum(self.solve_squared(lam) - self.solve(lam) ** 2, 0.0) / n)

    def data_variance(self, observed: ArrayLike, n: float) -> FloatArray:
        """Unbiased estimate of every cell's variance around *this data set's* proportions: (P⁻¹)²λ̂ − π̂, over n.

        With the records held fixed only the randomization varies.
        """
        lam = np.asarray(observed, dtype=np.float64)
        return np.asarray(np.maximum(self.solve_squared(lam) - self.solve(lam), 0.0) / n)

    def functional_variance(self, weights: ArrayLike, observed: ArrayLike, n: float) -> FloatArray:
        """Unbiased estimate of Var(Σ c π̂) for weights c (a table, or a batch of them), O(k Π r) each, no matrix."""
        g = self.solve_adjoint(weights)
        lam = np.asarray(observed, dtype=np.float64)
        mean = np.sum(g * lam, axis=self.axes)
        return np.asarray(np.maximum(np.sum(g * g * lam, axis=self.axes) - mean**2, 0.0) / (n - 1))

    def covariance(self, observed: ArrayLike, n: float) -> FloatArray:
        """RVL eq. 18: unbiased estimate of the dispersion matrix of the vectorised estimate, (R, R); R at most 4096."""
        return self.exact_covariance(observed, n - 1)

    def exact_covariance(self, expected: ArrayLike, n: float) -> FloatArray:
        """Exact covariance of the vectorised unbiased estimate, if outputs have these probabilities: (R, R)."""
        inverse = self.inverse()
        lam = np.ravel(np.asarray(expected, dtype=np.float64))
        pi = lam @ inverse
        return np.asarray((inverse.T * lam) @ inverse - np.outer(pi, pi)) / n

    def matrix(self) -> FloatArray:
        """P itself, (R, R), row-stochastic, cells row-major; R at most 4096."""
        self._check_dense()
        # row u of P is where a record surely in cell u goes
        return self.forward(np.eye(self.cells).reshape(-1, *self.sizes)).reshape(self.cells, self.cells)

    def inverse(self) -> FloatArray:
        """P⁻¹, (R, R): π̂ = λ̂ P⁻¹ for row vectors; R at most 4096."""
        self._check_dense()
        return self.solve(np.eye(self.cells).reshape(-1, *self.sizes)).reshape(self.cells, self.cells)

    def _check_dense(self) -> None:
        if self.cells > MAX_DENSE:
            raise InvalidInput(
                f"a dense matrix over {self.cells} cells does not fit; ask for attribute sets of at most {MAX_DENSE}"
            )


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

    def solve_squared(self, table: ArrayLike) -> FloatArray:
        """The squared inverse is a kernel of change sets, hence diagonal in effects."""
        return self._scaled(table, self._squared_eigenvalues)

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
    def _squared_eigenvalues(self) -> FloatArray:
        squares = self._per_cell(inverse_effect_transform(self._inverse_eigenvalues, np.asarray(self.sizes))) ** 2
        for axis, r in enumerate(self.sizes):
            squares = squares * np.reshape([1, r - 1], [2 if a == axis else 1 for a in range(squares.ndim)])
        return effect_transform(squares, np.asarray(self.sizes))

    def _scaled(self, table: ArrayLike, eigenvalues: FloatArray) -> FloatArray:
        out = np.asarray(table, dtype=np.float64)
        for axis in self.axes:
            out = _to_deviations(out, axis)
        places = np.ix_(*(np.minimum(np.arange(r), 1) for r in self.sizes))
        out = out * eigenvalues[places]
        for axis in self.axes:
            out = _from_deviations(out, axis)
        return out


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


class MatrixKernel(Kernel):
    """Any row-stochastic matrix P[u, v] = Pr(output v | input u) over the cells of ``sizes`` (row-major); dense.

    Raises
    ------
    InvalidInput
        for a matrix that is not square, has negative entries, or whose rows do not sum to 1.
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
        # so written that a NaN fails
        if not (self.p.min() >= 0 and np.abs(self.p.sum(axis=1) - 1).max() <= _ROW_SUM):
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
        """Pᵀπ."""
        return self._applied(table, self.p)

    def adjoint(self, table: ArrayLike) -> FloatArray:
        """P x."""
        return self._applied(table, self.p.T)

    @cached_property
    def _inverse(self) -> FloatArray:
        self.check_invertible()
        return np.asarray(np.linalg.inv(self.p))

    def solve(self, table: ArrayLike) -> FloatArray:
        """(Pᵀ)⁻¹λ̂ through the inverse, computed once."""
        return self._applied(table, self._inverse)

    def solve_adjoint(self, table: ArrayLike) -> FloatArray:
        """P⁻¹c."""
        return self._applied(table, self._inverse.T)

    def solve_squared(self, table: ArrayLike) -> FloatArray:
        """Squares of the entries of (Pᵀ)⁻¹, applied."""
        return self._applied(table, self._inverse**2)

    def check_invertible(self) -> None:
        """Raise SingularMarginal where the smallest singular value is below MIN_EIGENVALUE."""
        smallest = float(np.linalg.svd(self.p, compute_uv=False)[-1])
        if smallest < MIN_EIGENVALUE:
            raise SingularMarginal(
                f"the distortion matrix over {', '.join(self.names)} has smallest singular value {smallest:.3g}: its "
                "table cannot be estimated; randomize less or merge the categories that look alike after randomization"
            )


class ProductKernel(Kernel):
    """Groups of attributes randomized independently of each other, in the order of the table's axes."""

    def __init__(self, parts: Sequence[Kernel]) -> None:
        self.parts = tuple(parts)
        self.sizes = tuple(r for part in self.parts for r in part.sizes)
        self.names = tuple(name for part in self.parts for name in part.names)

    @property
    def range(self) -> tuple[float, float]:
        """Products of the parts' ranges."""
        return prod(p.range[0] for p in self.parts), prod(p.range[1] for p in self.parts)

    def _each(self, table: ArrayLike, operation: str) -> FloatArray:
        out = np.asarray(table, dtype=np.float64)
        stop = 0
        for part in reversed(self.parts):
            k = len(part.sizes)
            source = list(range(out.ndim - stop - k, out.ndim - stop))
            last = list(range(out.ndim - k, out.ndim))
            out = np.moveaxis(getattr(part, operation)(np.moveaxis(out, source, last)), last, source)
            stop += k
        return out

    def forward(self, table: ArrayLike) -> FloatArray:
        """Every part's forward on its own axes."""
        return self._each(table, "forward")

    def adjoint(self, table: ArrayLike) -> FloatArray:
        """Every part's adjoint on its own axes."""
        return self._each(table, "adjoint")

    def solve(self, table: ArrayLike) -> FloatArray:
        """Every part's solve on its own axes (RIJ: the inverse of a Kronecker product)."""
        return self._each(table, "solve")

    def solve_adjoint(self, table: ArrayLike) -> FloatArray:
        """Every part's adjoint solve on its own axes."""
        return self._each(table, "solve_adjoint")

    def solve_squared(self, table: ArrayLike) -> FloatArray:
        """The square of a Kronecker product is the product of squares."""
        return self._each(table, "solve_squared")

    def check_invertible(self) -> None:
        """Every part must be."""
        for part in self.parts:
            part.check_invertible()


@runtime_checkable
class SupportsKernel(Protocol):
    """Anything else that randomizes records of a domain and can say its kernel: general matrices, clusters of them."""

    domain: Domain

    def kernel(self, names: Sequence[str]) -> Kernel:
        """The kernel on these attributes, in this order."""


Randomizer = Mechanism | SupportsKernel


def kernel_of(mechanism: Randomizer, names: str | Iterable[str]) -> Kernel:
    """The kernel of a mechanism on the named attributes, axes in this order.

    Only the 2^k change patterns inside the set are needed, whatever the number of attributes of the mechanism.

    Raises
    ------
    InvalidInput
        for unknown or repeated names. A set that cannot be estimated is refused by the kernel's own solves.
    """
    chosen = mechanism.domain.indices(names)
    called = tuple(mechanism.domain.names[i] for i in chosen)
    if isinstance(mechanism, Mechanism):
        sizes = mechanism.domain.sizes[list(chosen)]
        changes = mechanism.law.marginal(chosen)
        return EffectKernel(sizes, effect_transform(changes, sizes), called, changes)
    return mechanism.kernel(called)


def unrandomized(sizes: Sequence[int], names: Iterable[str] = ()) -> EffectKernel:
    """The kernel of attributes that were reported truthfully, such as a public case/control status."""
    return EffectKernel(sizes, np.ones((2,) * len(sizes)), names)


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
