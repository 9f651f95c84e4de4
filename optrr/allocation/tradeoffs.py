"""Trade-off curves: what accuracy each total ε buys, as data (:class:`Curve`) and as a chart.

Curves of Kronecker's best split, of the optimum, of the optimum under constraints, of one random question each, and of the
lower bound for any mechanism. Errors are the workload's Σ weight G_U; with n also as a typical standard error, the root mean
square over all cells of all tables.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from optrr.allocation.allocating import check_people, law_error
from optrr.allocation.strategies import sampling
from optrr.allocation.workload import WorkloadLike, workload_of
from optrr.core.design import Constraints, Declared, Specification
from optrr.core.display import COLOURS, PAGE_WIDTH, TableResult, legend_below, new_figure, plain_logarithms
from optrr.core.errors import InvalidInput
from optrr_solvers import Infeasible, MethodTooLarge, SolveFailed
from optrr_solvers.allocation.split import best_split, single_blocks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = "os^Dvx"


@dataclass(frozen=True)
class Curve:
    """Error at each total ε, in nats; points that cannot be had are left out."""

    name: str
    abscissae: tuple[float, ...]
    errors: tuple[float, ...]
    standard_errors: tuple[float | None, ...]

    def summary(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "name": self.name,
            "abscissa": list(self.abscissae),
            "error": list(self.errors),
            "standard_error": list(self.standard_errors),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Tradeoff(TableResult):
    """Curves of the error against the total ε.

    Parameters
    ----------
    curves
        One for each protocol, and the lower bound.
    n
        Number of respondents, for standard errors.

    Examples
    --------
    >>> import optrr
    >>> optrr.tradeoff({"sex": 2, "income": 3}, [1, 2]).to_pandas().columns.tolist()
    ['curve', 'abscissa', 'error', 'standard_error']
    """

    curves: tuple[Curve, ...]
    n: int | None
    axis = "total epsilon, nats"

    def headline(self) -> str:
        """What is plotted against what."""
        return f"{', '.join(c.name for c in self.curves)} against {self.axis}"

    def to_arrow(self) -> pa.Table:
        """One row per point: curve, abscissa, error, standard_error (null without n)."""
        points = [
            {"curve": c.name, "abscissa": x, "error": e, "standard_error": s}
            for c in self.curves
            for x, e, s in zip(c.abscissae, c.errors, c.standard_errors, strict=True)
        ]
        return pa.Table.from_pylist(points)

    def plot(self) -> "Figure":
        """All curves, logarithmic in the error."""
        figure = new_figure(PAGE_WIDTH, 3.6 + 0.2 * len(self.curves))
        axes = figure.subplots()
        for k, c in enumerate(self.curves):
            heights = c.errors if self.n is None else tuple(float(s or np.nan) for s in c.standard_errors)
            style = _MARKERS[k % len(_MARKERS)] + "-"
            axes.plot(c.abscissae, heights, style, color=COLOURS[k % len(COLOURS)], label=c.name, markersize=4)
        axes.set_yscale("log")
        plain_logarithms(axes.yaxis)
        axes.set_xlabel(self.axis)
        axes.set_ylabel("workload error" if self.n is None else "typical standard error")
        axes.grid(visible=True, which="major", color="#dddddd")
        legend_below(figure, 1)
        return figure


def tradeoff(
    domain: Declared,
    totals: Sequence[float],
    *,
    workload: WorkloadLike = "marginals",
    n: int | None = None,
    constraints: Mapping[str, Constraints] | None = None,
) -> Tradeoff:
    """Compute the error against the total ε.

    Parameters
    ----------
    domain, workload, n
        as for :func:`optrr.allocate`.
    totals
        total ε in nats, increasing.
    constraints
        a further curve of the optimum under constraints, by its name; keeping every pair of many attributes is slow.

    Returns
    -------
    Tradeoff
        a curve for Kronecker's best split, the optimum, each of the constraints, one random question per person, and the lower
        bound for any mechanism.

    Raises
    ------
    InvalidInput
        for totals that do not increase, and as :func:`optrr.allocate`.

    Examples
    --------
    >>> import optrr
    >>> curves = optrr.tradeoff({"sex": 2, "income": 3}, [0.5, 1, 2], n=1000)
    >>> [curve.name for curve in curves.curves][:2]
    ['Kronecker, best split', 'optimum']
    """
    declared = Specification.of(domain).domain
    wanted = workload_of(workload, declared)
    check_people(n)
    if not len(totals) or not np.all(np.diff(totals) > 0):
        raise InvalidInput(f"``totals``: {list(totals)}; give increasing total epsilons")
    arrays = wanted.arrays(declared)
    blocks = single_blocks(arrays)

    def optimum(limits: Constraints, total: float) -> float:
        return law_error(declared, total, wanted, limits)

    def questions(total: float) -> float:
        # where tables are too large to be reported, there are none
        return min((o.error for o in sampling(declared, wanted, total)), default=np.nan)

    ways: dict[str, Callable[[float], float]] = {
        "Kronecker, best split": lambda total: best_split(arrays, blocks, total).error,
        "optimum": partial(optimum, Constraints()),
        **{name: partial(optimum, limits) for name, limits in (constraints or {}).items()},
        "one random question each": questions,
        "lower bound for any mechanism": lambda total: wanted.error_bound(declared, total),
    }
    curves = []
    for name, error in ways.items():
        points = []
        for total in totals:
            with suppress(Infeasible, MethodTooLarge, SolveFailed):
                points.append((float(total), error(total)))
        points = [point for point in points if np.isfinite(point[1])]
        if points:
            abscissae, errors = zip(*points, strict=True)
            typical = tuple(wanted.typical_standard_error(declared, e, n) for e in errors)
            curves.append(Curve(name, abscissae, errors, typical))
    return Tradeoff(tuple(curves), n)
