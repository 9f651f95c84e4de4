"""Trade-off curves: what accuracy each total ε buys, and what capping the conditional ε costs.

Two families of curves, as data (:class:`Curve`) and as charts:

- error against total ε: Kronecker's best split, the optimum, the optimum with every pair kept as visible as under
  Kronecker, the optimum under conditional caps that are a share of the total, and what no mechanism can be below;
- error at one total ε against caps on the conditional ε, from Kronecker's own to none.

Errors are the workload's Σ weight G_U; with n also as a typical standard error, the root mean square over all cells of all
tables.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from optrr.allocation.allocating import check_people, law_error
from optrr.allocation.workload import Workload, WorkloadLike, workload_of
from optrr.core.display import COLOURS, PAGE_WIDTH, TableResult, amount, legend_below, new_figure, plain_logarithms
from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput
from optrr_solvers import Infeasible, MethodTooLarge, SolveFailed
from optrr_solvers.allocation.split import best_split, single_blocks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = "os^Dvx"


@dataclass(frozen=True)
class Curve:
    """Error at each abscissa (a total ε in nats, or a multiple of Kronecker's); points that cannot be had are left out."""

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
    """Curves over one abscissa, ``axis`` says which."""

    axis: str
    curves: tuple[Curve, ...]
    n: int | None

    def beside(
        self, name: str, errors: Sequence[float], standard_errors: Sequence[float | None], at: Sequence[float] = ()
    ) -> "Tradeoff":
        """The same with one more curve, over the first one's abscissae or ``at`` others: a point, such as what was chosen."""
        curve = Curve(name, tuple(at) or self.curves[0].abscissae, tuple(errors), tuple(standard_errors))
        return Tradeoff(self.axis, (*self.curves, curve), self.n)

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
            # a single point, such as what was chosen, lies on a curve and must be seen there
            size = 4 if len(c.abscissae) > 1 else 9
            axes.plot(c.abscissae, heights, style, color=COLOURS[k % len(COLOURS)], label=c.name, markersize=size)
        axes.set_yscale("log")
        plain_logarithms(axes.yaxis)
        axes.set_xlabel(self.axis)
        axes.set_ylabel("workload error" if self.n is None else "typical standard error")
        axes.grid(visible=True, which="major", color="#dddddd")
        legend_below(figure, 1)
        return figure


def tradeoff(  # noqa: PLR0913 (each argument is one question a user answers)
    domain: Domain | Mapping[str, int | Iterable[Any]],
    totals: Sequence[float],
    *,
    learn: WorkloadLike = "marginals",
    n: int | None = None,
    preserve_pairs: bool | Sequence[tuple[str, str]] = True,
    cap_shares: Sequence[float] = (),
) -> Tradeoff:
    """Error against total ε.

    Parameters
    ----------
    domain, learn, n
        as for :func:`optrr.allocate`.
    totals
        total ε in nats, increasing.
    preserve_pairs
        whether to draw the curve with all pairs kept (up to 20 different attributes; the slow one), or which pairs to keep.
    cap_shares
        for each a curve whose conditional cap is this share of the total (up to 9 attributes); a share below Kronecker's
        largest ε_i forces a less accurate split.
    """
    declared = Domain.of(domain)
    wanted = workload_of(learn, declared)
    check_people(n)
    if not len(totals) or not np.all(np.diff(totals) > 0):
        raise InvalidInput(f"totals {list(totals)}; give increasing total epsilons")
    arrays = wanted.arrays(declared)
    blocks = single_blocks(arrays)

    def optimum(total: float, **limits: Any) -> float:
        return law_error(declared, total, wanted, **limits)

    ways: list[tuple[str, Callable[[float], float]]] = [
        ("Kronecker, best split", lambda total: best_split(arrays, blocks, total).error),
        ("optimum", optimum),
    ]
    if preserve_pairs and declared.m > 1:
        chosen = "pairs" if preserve_pairs is True else list(preserve_pairs)
        every = chosen == "pairs" or len(chosen) == declared.m * (declared.m - 1) // 2
        kept = "every pair" if every else amount(len(chosen), "pair")
        ways.append((f"optimum, {kept} kept", lambda total: optimum(total, preserve=chosen)))
    for share in cap_shares:
        capped = partial(lambda share, total: optimum(total, conditional_cap=share * total), share)
        ways.append((f"optimum, conditional ε at most {share:g} × total", capped))
    ways.append(("no mechanism can be below", lambda total: wanted.error_bound(declared, total)))
    curves = []
    for k, (name, error) in enumerate(ways):
        points = []
        for total in totals:
            with suppress(*((Infeasible, MethodTooLarge, SolveFailed) if k else (SolveFailed,))):
                points.append((float(total), error(total)))
        if points:
            curves.append(_curve(declared, wanted, n, name, points))
    return Tradeoff("total epsilon, nats", tuple(curves), n)


def cap_tradeoff(
    domain: Domain | Mapping[str, int | Iterable[Any]],
    total: float,
    *,
    learn: WorkloadLike = "marginals",
    n: int | None = None,
    points: int = 7,
) -> Tradeoff:
    """Error at one total ε when each attribute's conditional ε may be at most s times that under Kronecker's best split.

    s = 1 leaves single attributes no more accurate than Kronecker makes them (tables of several may still gain, because
    changes need not be independent); the largest s caps nothing. Up to 9 attributes.
    """
    declared = Domain.of(domain)
    wanted = workload_of(learn, declared)
    check_people(n)
    if points < 1:
        raise InvalidInput(f"points = {points}; give the number of caps, at least 1")
    arrays = wanted.arrays(declared)
    split = best_split(arrays, single_blocks(arrays), total)
    shares = np.geomspace(1.0, total / float(split.epsilons.min()), points).tolist()
    points_under_caps = []
    for s in shares:
        # at s = 1, rounding must not put the caps below the split that they come from
        caps = np.minimum(split.epsilons * s * (1 + 1e-9), total)
        cap = dict(zip(declared.names, caps.tolist(), strict=True))
        points_under_caps.append((s, law_error(declared, total, wanted, conditional_cap=cap)))
    level = _curve(declared, wanted, n, "Kronecker, best split", [(s, split.error) for s in shares])
    curve = _curve(declared, wanted, n, "optimum under the caps", points_under_caps)
    return Tradeoff("conditional epsilon allowed, times Kronecker's", (level, curve), n)


def _curve(domain: Domain, wanted: Workload, n: int | None, name: str, points: list[tuple[float, float]]) -> Curve:
    abscissae, errors = zip(*points, strict=True)
    return Curve(name, abscissae, errors, tuple(wanted.typical_standard_error(domain, e, n) for e in errors))
