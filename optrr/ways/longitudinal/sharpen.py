"""The same law with less of its uniform part: what a person keeps so that one report can be a given optimum.

Every optimum has densities q = 1 + x with x ≥ 0 (design §3.3): uniform answers mixed with something sharper. With a larger
share of the sharper part, q' = 1 + k x has any total ε_∞ above that of q, k = (e^{ε_∞} − 1)/(e^ε − 1), and q is q' mixed with
uniform answers again: ν = c ν' + (1 − c) μ, so that λ_U = c λ'_U for every U but the empty one.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from optrr.errors import InvalidInput, MethodTooLarge
from optrr_solvers.arrays import FloatArray
from optrr_solvers.laws import BallLaw, CountLaw, Law, ProductLaw, TableLaw
from optrr_solvers.laws.base import MAX_MARGINAL
from optrr_solvers.laws.table import log_uniform


def sharpened(law: Law, epsilon: float) -> Law:
    """The law with densities 1 + k x whose total is ``epsilon`` nats, where the given one's are 1 + x.

    Raises
    ------
    InvalidInput
        where the law's total is not below that, or is 0.
    MethodTooLarge
        for laws of other kinds over more than 20 attributes.
    """
    if not 0 < law.epsilon < epsilon:
        raise InvalidInput(
            f"one report costs {law.epsilon:.6g} nats and all of them may cost {epsilon:g}; the second must be larger, and the "
            "first above 0"
        )
    if isinstance(law, BallLaw):
        return BallLaw(law.sizes, law.classes, law.balls, epsilon)
    if isinstance(law, CountLaw):
        return CountLaw(law.sizes, law.classes, _sharper(law.log_density, epsilon))
    if isinstance(law, ProductLaw) and law.m == 1:
        return ProductLaw(law.sizes, np.array([epsilon]))
    return TableLaw(law.sizes, _sharper(_log_densities(law), epsilon))


def _log_densities(law: Law) -> FloatArray:
    if isinstance(law, TableLaw):
        return law.log_density
    if law.m > MAX_MARGINAL:
        raise MethodTooLarge(
            f"a law of kind {law.kind!r} over {law.m} attributes cannot be given a larger total; use method 'ball', or at most "
            f"{MAX_MARGINAL} attributes"
        )
    with np.errstate(divide="ignore"):
        logs = np.log(law.marginal(range(law.m))) - log_uniform(law.sizes)
    return np.asarray(logs - logsumexp(logs))


def _sharper(log_density: FloatArray, epsilon: float) -> FloatArray:
    """ln(1 + k x) from ln(1 + x), up to a constant, with the largest exactly ``epsilon``."""
    nats = log_density - log_density.min()
    # in logarithms, because e^ε overflows for many attributes
    with np.errstate(divide="ignore"):
        excess = nats + np.log(-np.expm1(-nats))
    out = np.logaddexp(0.0, excess - excess.max() + epsilon + np.log(-np.expm1(-epsilon)))
    return np.asarray(np.minimum(out, epsilon))
