"""The pages that allocate and compare write: their tables and curves as a :class:`optrr.core.display.parts.Page`.

The page of a design: what it promises, what was asked of it, what it buys, which pairs stay visible, and how to check it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from optrr.allocation.allocating import Allocation
from optrr.allocation.result import LIMITS
from optrr.allocation.strategies import sampling
from optrr.allocation.tradeoffs import Tradeoff, cap_tradeoff, tradeoff
from optrr.core.design.design import Design, requirements
from optrr.core.display.charts import COLOURS, PAGE_WIDTH, figure_svg, new_figure
from optrr.core.display.parts import Chart, Page, Part, Section, Table, Text, warnings
from optrr.core.display.text import amount, bound_text, changed_of_hundred, crossed, epsilon_text
from optrr.pages.sections import CHARTED, ROWS, checked, told
from optrr_solvers import Status
from optrr_solvers.problem import EPSILON_RANGE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MEANING = (
    "Attribute epsilon: the accuracy bought, as the epsilon of randomized response on that attribute alone. Conditional "
    "epsilon: what an observer who already knows a person's other attributes learns about this one; where attributes are "
    "correlated, an observer who knows less may learn up to the total."
)
PAIRS = (
    "Pair visibility: how much of the association of two attributes comes through, relative to randomizing each on its own "
    "with the same attribute epsilons. Nearer to 0 than 1 tables of that pair are less accurate than so; near 0 they "
    "cannot be estimated; below 0 the association comes out with its sign turned, which estimates undo."
)
# Attributes of a chart of pairs.
_MOST_PAIRED = 20
_AUDIT = (
    "Whoever uses a program that randomizes by this design can test it from outside against what the design says (optrr "
    "audit), and who made the file can be signed and checked (optrr sign, optrr verify --key)."
)


def design_page(design: Design, file: str | None = None) -> Page:
    """The page of a design; ``file`` is the name it was saved under."""
    problem = design.solution.problem
    m = amount(problem.m, "attribute")
    lead = [
        f"Total epsilon {epsilon_text(design.epsilon)} for a whole record of {m}.",
        f"Randomizing every attribute on its own needs {epsilon_text(design.kronecker_epsilon)} for the accuracies asked for. "
        + _bound(design),
    ]
    if design.earlier:
        lead.append(f"With what its people released before: {epsilon_text(design.epsilon_in_all)} in all.")
    sections = [
        *warnings(design.warnings),
        told(design.epsilon_in_all),
        _asked(design),
        Section("What it buys", bought(design)),
        *_pairs(design),
        Section("How to check", [*checked(design, file), Text(_AUDIT)]),
    ]
    return Page(f"A design for {m}", sections, lead)


def _bound(design: Design) -> str:
    if design.solution.status is Status.BASELINE:
        return "This method is a baseline: the same accuracies may cost less."
    least = bound_text(design.lower_bound)
    return f"No mechanism with these {requirements(design)} has a total below {least}; its file proves it."


def bought(design: Design) -> list[Part]:
    """A row for every attribute: what was bought, what that reveals, and how often people's answers are replaced."""
    table = design.shown()
    sizes, epsilons = design.domain.sizes.tolist(), design.attribute_epsilons.tolist()
    rows = [
        [*row, changed_of_hundred(size, epsilon)]
        for row, size, epsilon in zip(table.rows, sizes, epsilons, strict=True)
    ]
    table = replace(table, columns=[*table.columns, "replaced, of 100 answers"], rows=rows).first(ROWS)
    parts: list[Part] = [table, Text(MEANING)]
    if design.domain.m <= CHARTED:
        said = "Attribute and conditional epsilon of every attribute, as in the table, beside the total"
        parts.append(Chart(figure_svg(design.plot()), description=said))
    return parts


def _asked(design: Design) -> Section:
    problem = design.solution.problem
    every = problem.m * (problem.m - 1) // 2
    preserved = (
        "none" if not problem.pairs else "every pair" if len(problem.pairs) == every else f"{len(problem.pairs)} pairs"
    )
    rows: list[tuple[str, object]] = [("attributes", problem.m), ("pairs to preserve", preserved)]
    if problem.pairs:
        rows.append(("their visibility, of Kronecker's", problem.kappa))
    if problem.caps is not None and np.isfinite(problem.caps).any():
        caps = problem.caps[np.isfinite(problem.caps)]
        rows.append(("caps on conditional epsilons", f"{caps.size}, the lowest {caps.min():g}"))
    rows += [("method", design.method), ("what it proves", str(design.solution.status))]
    return Section("What was asked", [Table(["what", "value"], rows)])


def _pairs(design: Design) -> list[Section]:
    """Which pairs stay visible; nothing for one attribute, or where there are too many to look at."""
    if design.faintest_pair is None:
        return []
    ratio, first, second = design.faintest_pair
    parts: list[Part] = [Text(f"Faintest: {first} × {second}, {ratio:.3g}."), Text(PAIRS)]
    if 2 < design.domain.m <= _MOST_PAIRED:
        said = f"Visibility of every pair relative to Kronecker; the faintest is {first} × {second} with {ratio:.3g}"
        parts.append(Chart(figure_svg(design.plot_pairs()), description=said))
    return [Section("Pairs", parts)]


# Decimals of an epsilon in a table.
_DECIMALS = 4
# Totals of a page's curve relative to the one asked for.
_AROUND = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)

# Attributes up to which a page draws the slow curves: every pair kept, and caps.
_KEPT, _CAPPED = 8, 9

_ERRORS = (
    "Errors are n times the expected squared error, summed over a table's cells; exact for a uniform population, an upper "
    "bound for any other. Standard errors are per cell, as a root mean square. The workload's error is the sum over its "
    "tables, by weight."
)
_BOUNDS = (
    "At least: what the method proves that no mechanism with these {} can go below. Baselines prove little; the line "
    "in the chart is the best bound of all."
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


def comparison_page(designs: Sequence[Design], failed: Sequence[tuple[str, str]] = ()) -> Page:
    """Methods side by side: totals, bounds, pairs and conditional ε, and a chart of the totals."""
    columns = [
        "method",
        "total epsilon",
        "at least",
        "gap",
        "status",
        "faintest pair's visibility",
        "max conditional epsilon",
        "seconds",
    ]
    rows = [
        (
            d.method,
            epsilon_text(d.epsilon, _DECIMALS),
            bound_text(d.lower_bound, _DECIMALS),
            max(round(d.gap, 9), 0.0),
            str(d.solution.status),
            d.faintest_pair[0] if d.faintest_pair else None,
            epsilon_text(float(d.conditional_epsilons.max()), _DECIMALS),
            round(d.solution.seconds, 2),
        )
        for d in designs
    ]
    wanted = requirements(designs[0]) if designs else "accuracies"
    parts: list[Part] = [Table(columns, rows), Text(_BOUNDS.format(wanted)), Text(PAIRS)]
    parts += [Text(f"{d.method}: {note}") for d in designs for note in d.solution.notes]
    parts += [Text(f"{method} failed: {reason}") for method, reason in failed]
    if designs:
        parts.append(
            Chart(figure_svg(_bars(designs)), "Total epsilon by method; the line is the best certified lower bound.")
        )
    sections = [Section("Methods", parts)]
    if designs:
        best = min(designs, key=lambda d: d.epsilon)
        sections.append(Section(f"Attributes under {best.method}", [best.shown().first(ROWS), Text(MEANING)]))
    return Page("Methods compared", sections, _comparison(designs))


def _comparison(designs: Sequence[Design]) -> list[str]:
    """What the methods have in common, the best total, and Kronecker's."""
    if not designs:
        return []
    best = min(designs, key=lambda d: d.epsilon)
    return [
        f"Total epsilon of {amount(best.domain.m, 'attribute')}, each to be as accurate as randomized response at the "
        "attribute epsilon asked for.",
        f"Smallest: {epsilon_text(best.epsilon)} by {best.method}. Randomizing every attribute on its own needs "
        f"{epsilon_text(best.solution.problem.kronecker_epsilon)}.",
    ]


def _bars(designs: Sequence[Design]) -> "Figure":
    figure = new_figure(PAGE_WIDTH, 0.8 + 0.4 * len(designs))
    axes = figure.subplots()
    names = [d.method for d in designs][::-1]
    axes.barh(names, [d.epsilon for d in designs][::-1], color=COLOURS[0], height=0.6)
    axes.axvline(max(d.lower_bound for d in designs), color=COLOURS[1])
    axes.set_xlabel("total epsilon, nats")
    return figure
