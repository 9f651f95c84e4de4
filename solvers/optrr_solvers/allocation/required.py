"""The least total ε at which a randomized mixture of local queries reaches required errors of tables (theory §3.9).

Shares π of questions give table U the error G_U = Σ_{W⊆U} c_W dim_W/E_W, E_W = Σ_a π_a e_W(a), convex in π. At a total
the best shares bring max_U G_U/τ_U down as far as they can; here the maximum is approached by power means of ever
larger exponents,

    Φ_p = (Σ_U (G_U/τ_U)^p)^{1/p},      y_U = (G_U/τ_U)^p / Σ (…)^p,

and a question helps that lowers Σ_U y_U G_U(π')/G_U(π), whose search is that of :mod:`optrr_solvers.allocation.mixture`
with the weights y_U/G_U. All energies of a question grow with ε by one factor, so each choice of proportions has its
least total. Adding queries and lowering the total alternate.

The total is not proved to be optimal; the lower bound for any mechanism is
:func:`optrr_solvers.allocation.any_mechanism.accuracy_bound`.
"""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from optrr_solvers.allocation.mixture import MixedQuestions, Task, climbed_shares
from optrr_solvers.allocation.questions import Question, growth, whole_table
from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.arrays import FloatArray
from optrr_solvers.problem import EPSILON_RANGE
from optrr_solvers.threads import one_thread

# Maximum number of rounds, and the relative decrease of the total for another round.
_ROUNDS, _SAVED = 60, 5e-4
# Exponents of the power means, each from where the one before ended.
_EXPONENTS = (16.0, 128.0, 1024.0)
# Errors are brought this far below what is required, relative, so that rounding does not miss it.
_MARGIN = 1e-9
# Where nothing is required of a table, it is estimated with at most so many times the largest error required of others.
_ANY = 1e6


@one_thread
def required_questions(
    workload: TableWorkload,
    targets: FloatArray,
    most: float,
    progress: Callable[[float], None] | None = None,
    tables_only: bool = False,
) -> tuple[MixedQuestions, float] | None:
    """Find questions that reach required errors at the least total found.

    Every table has an error G_U of at most τ_U. Returns the questions and that total in nats.

    Parameters
    ----------
    workload
        whose classes must be single attributes.
    targets
        τ_U, shape (tables,), ``inf`` where nothing is required of a table.
    most
        a total in nats; None is returned if no queries found suffice at this total.
    progress
        called with the total so far.
    tables_only
        whether queries are limited to the workload's own tables.

    Time as for :func:`optrr_solvers.allocation.mixture.mixture`, some times over.
    """
    targets = np.minimum(targets, _ANY * np.max(targets[np.isfinite(targets)])) * (1 - _MARGIN)
    within = sp.csr_array(sp.diags_array(1 / targets))
    task, shares = Task(workload, most), None
    best: tuple[float, Task, FloatArray] | None = None
    least_so_far = np.inf
    for _ in range(_ROUNDS):
        for table in workload.tables:
            task.add(Question(tuple(sorted(table)), whole_table(workload.sizes[list(table)].tolist(), task.total)))
        shares = _evened(task, targets, shares)
        asked = _Shared(task, shares)
        relative = asked.errors(task.total) / targets
        pull = (relative / relative.max()) ** _EXPONENTS[-1]
        multipliers = pull / pull.sum() / (relative * targets)
        enough = asked.least(most, within)
        # until the errors suffice at the most there is, a round saves where it brings them nearer to what is required
        so_far = float(relative.max()) if enough is None and best is None else (enough or most)
        saved = so_far < least_so_far * (1 - _SAVED) or (enough is not None and best is None)
        least_so_far = so_far if saved else least_so_far
        if enough is not None and (best is None or enough < best[0]):
            best = (enough, task, shares)
            if progress is not None:
                progress(enough)
        # no proportions of the same queries need much less than the total for the weighted sum of errors
        lower = asked.least(most, multipliers[None] / float(multipliers @ targets)) or most
        task = task.weighing(multipliers)
        if not saved or not (tables_only or task.grow(shares) or best is not None):
            break
        task = task.at(lower)
    if best is None:
        return None
    total, task, shares = best
    # fewer questions that give every effect as much, up to the tolerance of a linear program
    few = task.weighing(workload.weights).thinned(shares)
    least = _Shared(task, few / few.sum()).least(total * (1 + _SAVED), within)
    if least is None:
        few, least = shares, total
    return task.at(least).weighing(workload.weights).mixture(few), least


def _evened(task: Task, targets: FloatArray, before: FloatArray | None) -> FloatArray:
    """Minimize max_U G_U/τ_U over the proportions of all questions.

    The search starts from the proportions of the first questions.
    """
    parts = sp.csr_array(sp.diags_array(1 / targets) @ task.workload.shares @ sp.diags_array(task.workload.dims))
    exponents = _EXPONENTS if before is None else _EXPONENTS[-1:]
    return climbed_shares(task.energies(), parts, before, exponents, {"maxiter": 200, "ftol": 1e-11, "gtol": 1e-8})


class _Shared:
    """The first questions with their shares, at any total."""

    def __init__(self, task: Task, shares: FloatArray) -> None:
        asked, sizes = np.flatnonzero(shares > 0), task.workload.sizes
        questions = list(task.questions)
        reports = [(questions[k].report, sizes[list(questions[k].attributes)].tolist()) for k in asked]
        self.p = np.asarray([report.likely_share(of) for report, of in reports])
        self.energies = sp.csr_array(task.energies()[asked].T)
        self.shares, self.task = shares[asked] / growth(self.p, task.total), task

    def errors(self, total: float) -> FloatArray:
        """Compute G_U of every table, shape (tables,)."""
        held = np.maximum(self.energies @ (self.shares * growth(self.p, total)), 1e-100)
        return np.asarray(self.task.workload.shares @ (self.task.workload.dims / held))

    def least(self, most: float, rows: FloatArray | sp.csr_array) -> float | None:
        """Find the least total up to ``most`` at which each of these sums is at most 1.

        The sums are of the errors, and decrease with the total.
        """
        if not np.all(rows @ self.errors(most) <= 1):
            return None
        low, high = EPSILON_RANGE[0], most
        while high - low > _MARGIN * high:
            middle = (low + high) / 2
            low, high = (low, middle) if np.all(rows @ self.errors(middle) <= 1) else (middle, high)
        return high
