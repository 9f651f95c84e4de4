"""Errors of published protocols for a workload of tables, at the uniform population and one total ε.

All are Σ weight n E‖π̂ − π‖² of unbiased estimates, as :mod:`optrr_solvers.allocation.workload` means it.

    groups   CALM (Zhang, Wang, Li, He & Chen 2018): everybody is in the group of one view, a set of ℓ attributes, and reports
             its cell by randomized response or optimised unary encoding. Views cover all tables. Their consistency step is
             taken at its best: each effect is estimated from all views that hold it, ℓ is the best of 2, 3 and 4 (of up to 12
             attributes).
    parity   Cormode, Kulkarni & Srivastava (2018), InpHT: categories become bits; everybody is asked one random parity of
             those that the tables need, by randomized response.
    SPL      every attribute at an even share of the budget, by the better of their two reports.
"""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from field_protocols import FieldProtocol, split, support_probabilities
from scipy.special import expit

from optrr_solvers.allocation.best import most_accurate
from optrr_solvers.allocation.mixture import best_shares
from optrr_solvers.allocation.problem import AllocationProblem
from optrr_solvers.allocation.questions import Question, whole_table
from optrr_solvers.allocation.split import best_split, cluster_blocks, even_split, single_blocks
from optrr_solvers.allocation.workload import TableWorkload, eigenvalues_of, marginals, pairs
from optrr_solvers.partition import alike, singles

View = tuple[int, ...]
MOST_COVERED = 12


def wanted(sizes: Sequence[int], width: int) -> TableWorkload:
    """All tables of so many attributes."""
    tables = tuple(combinations(range(len(sizes)), width))
    return TableWorkload(np.asarray(sizes), singles(len(sizes)), tables, np.ones(len(tables)))


def cells(workload: TableWorkload, view: View) -> int:
    """Of how many cells a view is."""
    return math.prod(workload.sizes[list(view)].tolist())


def groups(workload: TableWorkload, total: float, views: Sequence[View]) -> float:
    """Everybody in the group of one view, the groups alike, each effect from all views that hold it."""
    place = {w: k for k, w in enumerate(workload.effects)}
    dims = np.asarray([math.prod((workload.sizes[list(w)] - 1).tolist()) for w in workload.effects], dtype=float)
    held = np.zeros(dims.size)
    for view in views:
        seen = _seen(cells(workload, view), total)
        for inside in (w for k in range(1, len(view) + 1) for w in combinations(view, k) if w in place):
            held[place[inside]] += seen / len(views)
    return float(np.sum(workload.coefficients / held))


def _seen(count: int, total: float) -> float:
    """λ² of the better report on so many cells: what an effect's variance is divided by."""
    p, q = support_probabilities("oue", count, total)
    gamma = q + (p - q) / count
    spread = gamma * (1 - gamma) / (p - q) ** 2 + count**-2.0
    return max(float(eigenvalues_of(np.asarray(count), np.asarray(total))) ** 2, 1 / (count * spread))


def covering(m: int, size: int) -> list[View]:
    """Sets of so many attributes that hold every two together, the next one always with the most new pairs."""
    candidates = list(combinations(range(m), min(size, m)))
    left, out = set(combinations(range(m), 2)), []
    while left:
        out.append(max(candidates, key=lambda view: len(left.intersection(combinations(view, 2)))))
        left.difference_update(combinations(out[-1], 2))
    return out


def calm(workload: TableWorkload, total: float) -> float:
    """The best of views that are the tables, and, for pairs of up to 12 attributes, of larger ones that cover them."""
    choices: list[Sequence[View]] = [workload.tables]
    if all(len(t) == 2 for t in workload.tables) and 2 < workload.m <= MOST_COVERED:
        choices += [covering(workload.m, size) for size in (3, 4)]
    return min(groups(workload, total, views) for views in choices)


def parity(workload: TableWorkload, total: float) -> float:
    """One random parity of the bits of each table's categories; categories that no bits stand for are left out."""
    full = 2.0 ** np.ceil(np.log2(workload.sizes))
    asked = sum(math.prod((full[list(w)] - 1).tolist()) for w in workload.effects)
    errors = []
    for table in workload.tables:
        # of a table with its empty cells
        padded, count = math.prod(full[list(table)].tolist()), cells(workload, table)
        spread = (padded - 1) / math.tanh(total / 2) ** 2 - (padded / count - 1)
        errors.append(asked * count / padded**2 * spread)
    return float(workload.weights @ errors)


def apart(workload: TableWorkload, total: float) -> float:
    """One random table, drawn as is best, answered by subset selection; each table from its own answers only."""
    errors = [subset_error(cells(workload, t), total) for t in workload.tables]
    return float(np.sum(np.sqrt(workload.weights * errors)) ** 2)


def subset_error(count: int, total: float) -> float:
    """V of subset selection (Ye & Barg 2018) on so many cells, with the better of the subset sizes around count/(e^ε + 1)."""
    (k,) = whole_table((count,), total).subset_sizes
    p = float(expit(total + math.log(k / (count - k))))
    q = (p * (k - 1) + (1 - p) * k) / (count - 1)
    return k * (1 - k / count) / (p - q) ** 2


def combined(workload: TableWorkload, total: float) -> float:
    """The same with the best shares, where each table is put together from all answers that tell about it."""
    questions = [Question(t, whole_table(workload.sizes[list(t)].tolist(), total)) for t in workload.tables]
    return best_shares(workload, questions, total).error


def spl(workload: TableWorkload, total: float) -> float:
    """For tables of one or two attributes."""
    return of_protocol(workload, split(workload.sizes, total))


def of_protocol(workload: TableWorkload, protocol: FieldProtocol) -> float:
    return float(workload.weights @ [protocol.table_error(t) for t in workload.tables])


def optimum(workload: TableWorkload, total: float) -> float:
    """The most accurate law of change sets, which keeps full records; for all tables of some width, weighted alike."""
    if len(workload.tables[0]) < 3:
        # alike attributes counted once
        workload = (pairs if len(workload.tables[0]) == 2 else marginals)(workload.sizes, alike([workload.sizes]))
    law = most_accurate(AllocationProblem(workload, total)).solution.law
    return workload.error(workload.eigenvalues(law))


def kronecker(workload: TableWorkload, total: float) -> float:
    """Randomized response of every attribute on its own, the budget split as is best."""
    return best_split(workload, single_blocks(workload), total).error


def whole_record(workload: TableWorkload, total: float) -> float:
    """One randomized response on the product of all attributes."""
    return even_split(workload, cluster_blocks(workload, [range(workload.m)]), total).error
