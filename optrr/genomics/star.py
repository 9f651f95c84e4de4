"""Eigenvalues of every variant together with the status: only these pairs, never pairs of two variants.

All that association tests need of a law is λ_i, λ_s and λ_is for each variant i and the status s. Alike attributes share
them, so the cost is one marginal for each class, or O(m) arithmetic; nothing is quadratic in m.
"""

from __future__ import annotations

import numpy as np

from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import EffectKernel
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws import Law

# Below this share of λ_i λ_s (what Kronecker would keep) a joint effect is rounding noise of the law's arithmetic.
_VISIBLE = 1e-6


def star_kernel(law: Law, leaves: IntArray, center: int) -> EffectKernel:
    """The kernel of every pair of leaf (rows) and center (columns), a batch of as many as there are leaves, alike in size."""
    sizes = int(law.sizes[leaves[0]]), int(law.sizes[center])
    return EffectKernel(sizes, star_eigenvalues(law, leaves, center), ("variant", "status"))


def star_eigenvalues(law: Law, leaves: IntArray, center: int) -> FloatArray:
    """λ_W of every pair of leaf and center, shape (number of leaves, 2, 2), index 1 where leaf or center is in W.

    Raises
    ------
    InvalidInput
        where a pair cannot be seen through the law at all, with the remedy.
    """
    one = law.one_way_eigenvalues()
    joint = law.joint_eigenvalues(leaves, center)
    hidden = np.flatnonzero(np.abs(joint) < _VISIBLE * np.abs(one[leaves] * one[center]))
    if hidden.size:
        i = int(leaves[hidden[0]])
        raise InvalidInput(
            f"attributes {i} and {center} have joint eigenvalue {joint[hidden[0]]:.2g}: their association cannot be "
            "seen through this mechanism; give them larger epsilons, or keep the pairs (--preserve pairs)"
        )
    out = np.ones((leaves.size, 2, 2))
    out[:, 1, 0], out[:, 0, 1], out[:, 1, 1] = one[leaves], one[center], joint
    return out
