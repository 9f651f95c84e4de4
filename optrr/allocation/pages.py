"""The page of an allocation: the protocols side by side, the verdict, budgets, predicted errors and trade-offs."""

from optrr.allocation.result import Allocation
from optrr.allocation.tradeoffs import Tradeoff, tradeoff
from optrr.core.design import PAIRS, Constraints
from optrr.core.display import (
    ROWS,
    Chart,
    Page,
    Section,
    Table,
    Text,
    checked,
    epsilon_text,
    figure_svg,
    told,
    warnings,
)
from optrr_solvers.problem import EPSILON_RANGE

# Totals of a page's curve relative to the one asked for.
_AROUND = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
# Attributes up to which a page draws the slow curve: every pair kept.
_KEPT = 8
_ERRORS = (
    "Errors are n times the expected squared error, summed over a table's cells; exact for a uniform population, an upper "
    "bound for any other. Standard errors are per cell, as a root mean square. The workload's error is the sum over its "
    "tables, by weight. The bound is the least error of any mechanism of this total."
)


def allocation_page(allocation: Allocation, file: str | None = None, *, curves: bool = True) -> Page:
    """The protocols side by side, what else the allocation shows, and trade-off ``curves``; ``file``: what was saved."""
    asking, (table, *beside) = allocation.asking, allocation.tables_shown(ROWS)
    what = "Error" if allocation.total is not None else "Total"
    chart = Chart(figure_svg(allocation.plot()), description=f"{what} of each protocol, as in the table")
    given_up = Table(["protocol", "gives up"], [(o.title, "; ".join(o.gives_up)) for o in allocation.protocols])
    sections = [
        *warnings(allocation.warnings),
        Section("Protocols", [chart, table, Text(_ERRORS), Text(PAIRS), given_up]),
        told(asking.epsilon),
        Section("What to expect", beside),
    ]
    if curves:
        around = curves_around(allocation)
        said = "The same workload at other totals; each point is an allocation of its own, without limits."
        description = f"Error against {around.axis}: {', '.join(c.name for c in around.curves)}"
        sections.append(Section("Trade-offs", [Chart(figure_svg(around.plot()), said, description)]))
    if file is not None:
        sections.append(Section("How to check", checked(asking, file)))
    title = f"Allocation for workload {allocation.workload.name} at total epsilon {epsilon_text(asking.epsilon)}"
    return Page(title, sections, allocation.sentences())


def curves_around(allocation: Allocation) -> Tradeoff:
    """Error around the allocation's total."""
    totals = [allocation.epsilon * s for s in _AROUND if allocation.epsilon * s <= EPSILON_RANGE[1]]
    kept = {"optimum, every pair kept": Constraints(preserve="pairs")} if 1 < allocation.domain.m <= _KEPT else {}
    return tradeoff(allocation.domain, totals, workload=allocation.workload, n=allocation.n, constraints=kept)
