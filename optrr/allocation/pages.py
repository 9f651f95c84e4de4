"""HTML report of an allocation: protocols, conclusion, privacy budgets and predicted errors."""

from optrr.allocation.result import Allocation
from optrr.core.design import PAIRS
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


def allocation_page(allocation: Allocation, file: str | None = None) -> Page:
    """Build the HTML report that compares protocols; ``file`` is the saved one."""
    asking, (table, *beside) = allocation.asking, allocation.tables_shown(ROWS)
    what = "Error" if allocation.total is not None else "Total"
    chart = Chart(figure_svg(allocation.plot()), description=f"{what} of each protocol, as in the table")
    given_up = Table(["protocol", "gives up"], [(o.title, "; ".join(o.gives_up)) for o in allocation.protocols])
    sections = [
        *warnings(allocation.warnings),
        Section("Protocols", [chart, table, Text(PAIRS), given_up]),
        told(asking.epsilon),
        Section("What to expect", beside),
    ]
    if file is not None:
        sections.append(Section("Verification", checked(asking, file)))
    title = f"Allocation for workload {allocation.workload.name} at total epsilon {epsilon_text(asking.epsilon)}"
    return Page(title, sections, allocation.sentences())
