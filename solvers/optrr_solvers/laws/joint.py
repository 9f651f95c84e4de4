"""RR-Joint: one randomized response on the whole product of the attributes (MDR §3.2, §6.3.2 corrected).

The record is kept with probability p_C and otherwise replaced by any *other* record, each as likely:

    p_C = 1 / (1 + (Π r_i − 1) e^{−ε}),      off the diagonal  p_C e^{−ε}.

As a law: density e^ε on the empty change set and 1 on all others. Letters: r sizes, ε epsilon in nats.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import InvalidProblem
from optrr_solvers.laws.base import Law
from optrr_solvers.laws.few_changes import FewChangesLaw
from optrr_solvers.laws.table import MAX_TABLE, TableLaw


def joint_law(sizes: ArrayLike, epsilon: float) -> Law:
    """The law of RR-Joint, total ε = |epsilon|; a table up to 20 attributes.

    A negative ``epsilon`` makes the true record the *least* likely answer. No one should want that, but MDR's own
    numbers contain it (ε_A without its absolute value), so up to 20 attributes it can be built.

    Raises InvalidProblem where ε is 0 or not finite (nothing could be estimated), or negative with more than 20 attributes.
    """
    r = np.asarray(sizes, dtype=np.int64)
    if not math.isfinite(epsilon) or epsilon == 0:
        raise InvalidProblem(f"RR-Joint got epsilon {epsilon}; give a finite number of nats other than 0")
    if r.size <= MAX_TABLE:
        density = np.zeros(1 << r.size)
        density[0] = epsilon
        return TableLaw(r, density)
    if epsilon < 0:
        raise InvalidProblem(f"RR-Joint over {r.size} attributes got epsilon {epsilon}; give a number above 0")
    return FewChangesLaw(r, epsilon, np.zeros(r.size))


def retention_epsilons(sizes: ArrayLike, retention: float, signed: bool = False) -> FloatArray:
    """ε_A of randomized response that keeps a value with probability p: |ln(p (r−1)/(1−p))|, shape (m,) (MDR §6.3.1).

    MDR prints r in place of r−1, with which the rows do not sum to 1. ``signed`` leaves the absolute value out, as MDR's
    tables do: where p < 1/r the result is negative, and no measure of privacy.

    Raises InvalidProblem for a probability that is not strictly between 0 and 1.
    """
    if not 0 < retention < 1:
        raise InvalidProblem(f"values are kept with probability {retention}; give a probability between 0 and 1")
    odds = np.log(np.asarray(sizes, dtype=np.float64) - 1) + math.log(retention) - math.log1p(-retention)
    return np.asarray(odds if signed else np.abs(odds))
