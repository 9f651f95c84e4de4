"""Eigenvalues of every variant with the status attribute: a star of pairs, never all pairs.

All that association tests need of a law is λ_i, λ_s and λ_is for each variant i and the status s. Alike attributes share
them, so the cost is one marginal for each class, or O(m) arithmetic; nothing is quadratic in m.
"""

from __future__ import annotations

import numpy as np

from optrr.errors import InvalidInput
from optrr.genomics.effects import PairEigenvalues
from optrr_solvers.laws import Law
from optrr_solvers.problem import IntArray

# Below this share of λ_i λ_s (what Kronecker would keep) a joint effect is rounding noise of the law's arithmetic.
_VISIBLE = 1e-6


def star_eigenvalues(law: Law, leaves: IntArray, center: int) -> PairEigenvalues:
    """λ of each leaf (row), of the center (column), and of each pair (joint); shape (number of leaves,).

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
    return PairEigenvalues(one[leaves], np.full(leaves.size, one[center]), joint)
