"""Kernels: what estimation needs from a mechanism on one attribute set, without building its matrix (design §3.2).

A kernel is the distortion matrix P[u, v] = Pr(output v | input u) over the attribute set's cells, seen as an operator:

    λ = Pᵀ π  (forward),     π̂ = (Pᵀ)⁻¹ λ̂  (solve; RVL eq. 17, MDR eq. 2),
    disp(π̂) = (n−1)⁻¹ (Pᵀ)⁻¹ (diag λ̂ − λ̂ λ̂ᵀ) P⁻¹  (RVL eq. 18).

Where the mechanism is a law of change sets, P is diagonal in effects: take every axis to [mean, first r−1 deviations],
multiply by λ_W or 1/λ_W, and go back, O(k Π r). The elementwise square of P⁻¹ depends on the change set only, as P⁻¹
does, so it is diagonal in effects too and gives all variances at the same cost. For Kronecker laws, λ_W = Π λ_i and
`solve` is RIJ's RR-Ind-Joint (Algorithm 3). General matrices (Laplace, custom) are inverted once.

Tables have the attribute set's shape in their last k axes; axes before these are a batch. A kernel itself may be one of a
batch, with eigenvalues of its own for each table: ten thousand variants beside one status are one kernel.
"""

from optrr.mechanisms.kernel.effects import EffectKernel, unrandomized
from optrr.mechanisms.kernel.matrices import MatrixKernel
from optrr.mechanisms.kernel.operator import MAX_DENSE, MIN_EIGENVALUE, Kernel, ProductKernel, SingularMarginal

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
