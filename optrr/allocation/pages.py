"""The page of an allocation: the protocols side by side, the verdict, budgets, predicted errors and trade-offs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from optrr.allocation.allocating import Allocation
from optrr.allocation.result import LIMITS
from optrr.allocation.strategies import sampling
from optrr.allocation.tradeoffs import Tradeoff, cap_tradeoff, tradeoff
from optrr.core.design import PAIRS, Design, bought
from optrr.core.display import (
    ROWS,
    Chart,
    Page,
    Section,
    Table,
    Text,
    bound_text,
    checked,
    crossed,
    epsilon_text,
    figure_svg,
    told,
    warnings,
)
from optrr_solvers.problem import EPSILON_RANGE

if TYPE_CHECKING:
    pass


# Totals of a page's curve relative to the one asked for.
_AROUND = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)

# Attributes up to which a page draws the slow curves: every pair kept, and caps.
_KEPT, _CAPPED = 8, 9

_ERRORS = (
    "Errors are n times the expected squared error, summed over a table's cells; exact for a uniform population, an upper "
    "bound for any other. Standard errors are per cell, as a root mean square. The workload's error is the sum over its "
    "tables, by weight."
)
_BOUND = "The bound is what no mechanism of this total can have less error than. "
# A relative gap of the workload error below this is not shown.
_NO_GAP = 1e-5


def allocation_page(allocation: Allocation, curves: Sequence[Tradeoff] = (), file: str | None = None) -> Page:
    """The ways side by side, the verdict in words, budgets, predicted errors and trade-offs; ``file``: what was saved."""
    asking, law, lead = allocation.asking, allocation.law, list(allocation.sentences())
    if law is not None and law.least_total is not None:
        also = LIMITS if allocation.wishes else ""
        lead.append(
            f"No law of change sets with these accuracies{also} has a total below {bound_text(law.least_total)}."
        )
    if law is not None and allocation.gap is not None:
        best = (
            f"certified to 0.001 %: no other of its total{allocation.limits} has less"
            if allocation.gap <= _NO_GAP
            else f"no law of change sets of its total{allocation.limits} gets below {law.lower_error:.6g} "
            f"({100 * allocation.gap:.2g} % less)"
        )
        lead.append(f"The optimum over full records has workload error {law.error:.6g}; {best}.")
    if allocation.way is not allocation.best:
        lead.append(f"Chosen instead of the best: {allocation.way.words}.")
    sections = [
        *warnings(allocation.warnings),
        _ways(allocation),
        told(asking.epsilon),
        *([Section("Budgets", bought(cast(Design, asking)))] if asking.budgets else []),
        _predicted(allocation),
    ]
    if curves:
        captions = (
            "The same workload at other totals; each point is an allocation of its own, without floors, ceilings and caps.",
            f"The total {asking.epsilon:g} with every attribute's conditional epsilon capped at a multiple of what it is "
            "under Kronecker's best split: 1 leaves Kronecker for one-way tables, the rightmost point caps nothing.",
        )
        sections.append(Section("Trade-offs", [tradeoff_chart(*c) for c in zip(curves, captions, strict=False)]))
    if file is not None:
        sections.append(Section("How to check", checked(asking, file)))
    title = f"Allocation for workload {allocation.workload.name} at total epsilon {epsilon_text(asking.epsilon)}"
    return Page(title, sections, lead)


def _ways(allocation: Allocation) -> Section:
    columns = ["way of asking", "error", "times the bound", "any table later", "conditional epsilon"]
    columns += ["faintest pair's visibility"]
    rows: list[tuple[object, ...]] = []
    for o in allocation.ways:
        error = o.error if np.isfinite(o.error) else None
        row: tuple[object, ...] = (o.title, error, allocation.over_bound(o), o.keeps_records, o.conditional_epsilon)
        row = (*row, o.pair_visibility)
        row = row if allocation.total is not None else (*row, epsilon_text(o.epsilon))
        rows.append(row if allocation.n is None else (*row, allocation.typical_standard_error(o)))
    columns += [] if allocation.total is not None else ["total epsilon"]
    columns += [] if allocation.n is None else ["typical standard error"]
    given_up = Table(["way of asking", "gives up"], [(o.title, "; ".join(o.gives_up)) for o in allocation.ways])
    what = "Error" if allocation.total is not None else "Total"
    chart = Chart(figure_svg(allocation.plot()), description=f"{what} of each way of asking, as in the table")
    strong = [allocation.ways.index(allocation.way)]
    return Section(
        "Ways of asking", [chart, Table(columns, rows, strong=strong), Text(_BOUND + _ERRORS), Text(PAIRS), given_up]
    )


def _predicted(allocation: Allocation) -> Section:
    columns = ["table", "cells", "error", "of it from sampling people"]
    rows: list[tuple[object, ...]] = [
        (crossed(p.attributes), p.cells, p.error, p.sampling_error) for p in allocation.predictions
    ]
    if any(p.weight != 1 for p in allocation.predictions):
        columns.insert(2, "weight")
        rows = [(*row[:2], p.weight, *row[2:]) for row, p in zip(rows, allocation.predictions, strict=True)]
    if allocation.n is not None:
        columns += ["standard error", "required"]
        rows = [(*row, p.standard_error, p.required) for row, p in zip(rows, allocation.predictions, strict=True)]
        if all(p.required is None for p in allocation.predictions):
            columns, rows = columns[:-1], [row[:-1] for row in rows]
    title = (
        "Predicted errors"
        if allocation.n is None
        else f"Predicted errors with {allocation.n:,} people".replace(",", "\u202f")
    )
    return Section(title, [Table(columns, rows).first(ROWS), Text(_ERRORS)])


def tradeoff_chart(curves: Tradeoff, caption: str = "") -> Chart:
    """The curves as a chart whose description lists them."""
    names = ", ".join(c.name for c in curves.curves)
    return Chart(figure_svg(curves.plot()), caption, f"Error against {curves.axis}: {names}")


def curves_around(allocation: Allocation) -> list[Tradeoff]:
    """Error around the allocation's total, and against the cap on the conditional ε where caps are possible."""
    domain, total, n, wanted = allocation.domain, allocation.epsilon, allocation.n, allocation.workload
    law = allocation.law
    pairs = law.design.solution.problem.pairs if law is not None else ()
    chosen = [(domain.names[i], domain.names[j]) for i, j in pairs] or True
    totals = [total * s for s in _AROUND if total * s <= EPSILON_RANGE[1]]
    around = tradeoff(domain, totals, learn=wanted, n=n, preserve_pairs=domain.m <= _KEPT and chosen)
    # where tables are too large to be reported, sampling them is not among the ways
    asked = [sampling(domain, wanted, x) for x in around.curves[0].abscissae]
    if all(asked):
        errors = [min(o.error for o in ways) for ways in asked]
        typical = [wanted.typical_standard_error(domain, e, n) for e in errors]
        around = around.beside("one random question each", errors, typical)
    here = allocation.typical_standard_error(allocation.way)
    out = [around.beside("this allocation", [allocation.error], [here], at=[total])]
    if 1 < domain.m <= _CAPPED:
        out.append(cap_tradeoff(domain, total, learn=wanted, n=n))
    return out
