"""POR's linear program over the 2^m events, as sparse arrays (POR Algorithms 1 and 2).

Event S, "exactly the attributes in S change", has number Σ_{i∈S} 2^{m−1−i}: the first attribute is the slowest bit, as in
:class:`optrr_solvers.laws.TableLaw`. The variable q_S is the probability of one particular output in S, relative to the
event in which every attribute changes, which is fixed at 1 and has no column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from optrr_solvers.problem import FloatArray, IntArray, Problem


@dataclass(frozen=True, eq=False)
class EventProgram:
    """Minimise q_∅ subject to A q ≤ b and A_eq q = b_eq.

    With N = 2^m − 1 columns: A has m 2^{m−1} rows of two entries (q_T − q_S ≤ 0 for S ⊂ T, one attribute more); A_eq has m
    rows: Σ_{S∌i} n_S (r_i−1) q_S − e^{ε_i} Σ_{S∋i} n_S q_S = 0.
    """

    A: sp.csr_array
    b: FloatArray
    A_eq: sp.csr_array
    b_eq: FloatArray


def event_sizes(problem: Problem) -> FloatArray:
    """n_S = Π_{i∈S}(r_i−1) of every event, shape (2^m,)."""
    out = np.ones(1)
    for r in problem.sizes:
        out = np.multiply.outer(out, [1.0, r - 1.0]).ravel()
    return out


def event_bits(m: int) -> IntArray:
    """1 where attribute i changes, shape (2^m, m)."""
    return (np.arange(1 << m)[:, None] >> np.arange(m - 1, -1, -1)) & 1


def event_program(problem: Problem) -> EventProgram:
    """Build POR's program; O(m 2^m) entries."""
    m, last = problem.m, (1 << problem.m) - 1
    order, right = monotonicity(m)
    n, bits = event_sizes(problem), event_bits(m)
    rows = np.where(bits.T == 0, (problem.sizes - 1.0)[:, None], -np.exp(problem.epsilons)[:, None]) * n
    return EventProgram(order, right, sp.csr_array(rows[:, :last]), -rows[:, last])


def monotonicity(m: int) -> tuple[sp.csr_array, FloatArray]:
    """POR's A and b: every event at least as likely, per output, as the events with one change more."""
    last = (1 << m) - 1
    bits = event_bits(m)
    small, attribute = np.nonzero(bits == 0)
    large = small + (1 << (m - 1 - attribute))
    count = small.size
    inner = large != last
    row = np.arange(count)
    matrix = sp.coo_array(
        (
            np.concatenate([-np.ones(count), np.ones(int(inner.sum()))]),
            (np.concatenate([row, row[inner]]), np.concatenate([small, large[inner]])),
        ),
        shape=(count, last),
    )
    return sp.csr_array(matrix), np.where(inner, 0.0, -1.0)
