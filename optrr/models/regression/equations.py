"""Estimating equations of a regression, for many data sets at once: what solving and testing ask of them.

A regression's parameters θ solve Ψ(θ) = 0, the mean over the records of scores ψ_j(θ) whose expectation is 0 at the truth. ψ_j
is computed from a randomized record alone. Everything else follows from Ψ, its derivative −H, and the second moment
V = mean ψ_j ψ_jᵀ, whatever the regression.

Arrays have the data set as their first axis: B data sets, p parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from optrr_solvers.arrays import FloatArray, IntArray


class Equations(ABC):
    """Ψ(θ) = 0 of B data sets of ``n`` records each, (B,)."""

    # whether V comes from residuals, which are too small by what the parameters have taken
    from_residuals: bool = True

    if TYPE_CHECKING:
        # fields in some subclasses and properties in others, so they are declared for type checkers only
        @property
        def n(self) -> FloatArray:
            """Records, (B,)."""
            ...

        @property
        def parameters(self) -> int:
            """p."""
            ...

    @abstractmethod
    def start(self) -> FloatArray:
        """Where to begin, (B, p)."""

    @abstractmethod
    def objective(self, theta: FloatArray) -> FloatArray:
        """A function of θ (B, p) with gradient Ψ, in (B,): what is maximised."""

    @abstractmethod
    def score(self, theta: FloatArray) -> FloatArray:
        """Ψ, (B, p)."""

    @abstractmethod
    def curvature(self, theta: FloatArray) -> FloatArray:
        """H = −dΨ/dθ, (B, p, p), symmetric."""

    @abstractmethod
    def spread(self, theta: FloatArray) -> FloatArray:
        """V, (B, p, p)."""

    @abstractmethod
    def curvature_along(self, theta: FloatArray, direction: FloatArray) -> tuple[FloatArray, FloatArray]:
        """uᵀHu for directions u (B, p), and its standard error; both (B,)."""

    @abstractmethod
    def added_spread(self, theta: FloatArray, weights: FloatArray, noise: FloatArray) -> FloatArray:
        """What θ's noise of covariance C (B, p, p) adds to the spread of Wψ for weights W (B, k, p): (B, k, k).

        With h_j = −dψ_j/dθ it is Σ_de C_de mean (W h_j)_d (W h_j)_eᵀ.
        """

    @abstractmethod
    def part(self, which: IntArray) -> Equations:
        """The equations of some of the data sets: numbers that differ, in ascending order."""
