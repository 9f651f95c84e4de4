"""SIC's inverse-distance matrix as a law (SIC §6.2, equations 10 and 11, the latter corrected).

The record is kept with probability p; otherwise an output that differs in w attributes is as likely as 1/w:

    p_uv = (1−p) d_uv / Z,   d_uv = 1/w,   Z = Σ_{w=1}^{m} (1/w) e_w(r_1−1, …, r_m−1),

with e_w the elementary symmetric polynomial: the number of records that differ in exactly w attributes. (Printed
equation 11 has 1/r in place of 1/w, and r for m.) As long as the record itself stays the most likely answer,

    ε = ln( p m Z / (1−p) ),   hence   p = 1 / (1 + m Z e^{−ε}).

Letters: r sizes, p retention, w how many attributes change, Z normaliser.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import InvalidProblem, MethodTooLarge
from optrr_solvers.laws.table import MAX_TABLE, TableLaw


def records_at_distance(sizes: ArrayLike) -> FloatArray:
    """e_w(r−1) for w = 0..m: how many records differ from a given one in exactly w attributes; shape (m+1,), O(m²)."""
    out = np.ones(1)
    for r in np.asarray(sizes, dtype=np.float64):
        out = np.convolve(out, [1.0, r - 1.0])
    return out


def inverse_distance_normaliser(sizes: ArrayLike) -> float:
    """Z = Σ_k d_uk, the same for every record u."""
    counts = records_at_distance(sizes)
    return float(np.sum(counts[1:] / np.arange(1, counts.size)))


def inverse_distance_retention(sizes: ArrayLike, epsilon: float) -> float:
    """The p at which the matrix has total ``epsilon`` (nats, above ln m so that keeping stays the likeliest answer).

    Raises InvalidProblem below ln m: there the ratio 1 : m between distances alone costs more.
    """
    m = np.size(sizes)
    if not epsilon > math.log(m) or not math.isfinite(epsilon):
        raise InvalidProblem(
            f"the inverse-distance matrix over {m} attributes got epsilon {epsilon:g}; it needs a finite number above "
            f"ln {m} = {math.log(m):.4g}, or use RR-Joint"
        )
    return 1 / (1 + m * inverse_distance_normaliser(sizes) * math.exp(-epsilon))


def inverse_distance_law(sizes: ArrayLike, retention: float) -> TableLaw:
    """The law that keeps the record with probability ``retention``, strictly between 0 and 1; up to 20 attributes.

    Its ε is recomputed from the table, so it is right also where p is below the other answers' probabilities.
    """
    r = np.asarray(sizes, dtype=np.int64)
    if not 0 < retention < 1:
        raise InvalidProblem(
            f"the inverse-distance matrix got retention {retention}; give a probability between 0 and 1"
        )
    if r.size > MAX_TABLE:
        raise MethodTooLarge(
            f"the inverse-distance matrix takes up to {MAX_TABLE} attributes, got {r.size}; use RR-Joint"
        )
    changed = np.asarray([bin(s).count("1") for s in range(1 << r.size)], dtype=np.float64)
    density = np.log(retention) * np.ones(changed.size)
    density[1:] = math.log1p(-retention) - math.log(inverse_distance_normaliser(r)) - np.log(changed[1:])
    return TableLaw(r, density)
