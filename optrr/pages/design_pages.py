"""The pages that allocate, advise and compare write: their tables and curves as a :class:`optrr.show.parts.Page`.

The page of a design: what it promises, what was asked of it, what it buys, which pairs stay visible, and how to check it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optrr.budgets.advice import Advice
from optrr.budgets.allocate import Allocation
from optrr.budgets.options import sampling
from optrr.budgets.tradeoffs import Tradeoff, cap_tradeoff, tradeoff
from optrr.designs.asking import Asking
from optrr.designs.design import Design
from optrr.pages.sections import CHARTED, ROWS, checked, told, warnings
from optrr.show.charts import COLOURS, PAGE_WIDTH, figure_svg, new_figure
from optrr.show.parts import Chart, Page, Part, Section, Table, Text
from optrr.show.text import amount, bound_text, changed_of_hundred, crossed, epsilon_text
from optrr_solvers import Status

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
    return f"No mechanism with these accuracies has a total below {bound_text(design.lower_bound)}; its file proves it."


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
    "At least: what the method proves that no mechanism with these accuracies can go below. Baselines prove little; the line "
    "in the chart is the best bound of all."
)
_BOUND = "The bound is what no mechanism of this total can have less error than. "
# A relative gap of the workload error below this is not shown.
_NO_GAP = 1e-5


def allocation_page(allocation: Allocation, file: str | None = None) -> Page:
    """Budgets, predicted errors, and the trade-off around the chosen total; ``file`` is the name it was saved under."""
    design = allocation.design
    lead = [
        f"Total epsilon {epsilon_text(design.epsilon)} for {amount(design.domain.m, 'attribute')}, "
        f"workload {allocation.workload.name}."
    ]
    if allocation.gap is not None:
        best = (
            "certified to 0.001 %: no law of change sets of this total has less"
            if allocation.gap <= _NO_GAP
            else f"no law of change sets of this total gets below {allocation.lower_error:.6g} "
            f"({100 * allocation.gap:.2g} % less)"
        )
        lead.append(f"Workload error {allocation.error:.6g}; {best}.")
    lead.append(
        f"No mechanism of this total, of whatever form, has an error below {allocation.error_bound:.6g}; this one's is "
        f"{allocation.error / allocation.error_bound:.4g} times that."
    )
    if allocation.least_total is not None:
        lead.append(f"No mechanism with these accuracies has a total below {bound_text(allocation.least_total)}.")
    if allocation.kronecker_error is not None:
        lead.append(
            f"Randomizing every attribute on its own, with the best split of the same total, has "
            f"{allocation.kronecker_error / allocation.error:.3g} times this error."
        )
    sections = [
        *warnings(allocation.warnings),
        told(allocation.asking.epsilon),
        Section("Budgets", bought(design)),
        _predicted(allocation),
        Section("What another total would buy", [_curves(allocation)]),
        *([Section("How to check", checked(allocation.asking, file))] if file is not None else []),
    ]
    return Page("Allocation", sections, lead)


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


def _curves(allocation: Allocation) -> Chart:
    """Error around the total that was asked for, by designs that keep the same pairs, and the allocation itself."""
    design = allocation.design
    totals = [design.epsilon * share for share in _AROUND]
    pairs = design.solution.problem.pairs if design.domain.m <= _KEPT else ()
    curves = tradeoff(
        design.domain,
        totals,
        learn=allocation.workload,
        n=allocation.n,
        preserve_pairs=[(design.domain.names[i], design.domain.names[j]) for i, j in pairs],
    )
    typical = allocation.workload.typical_standard_error(design.domain, allocation.error, allocation.n)
    curves = curves.with_point("this allocation", allocation.asking.epsilon, allocation.error, typical)
    kept = "without the pairs to preserve, " if design.solution.problem.pairs and not pairs else ""
    caption = f"Each point of a curve is an allocation of its own, {kept}without floors, ceilings and caps."
    return tradeoff_chart(curves, caption)


def tradeoff_chart(curves: Tradeoff, caption: str = "") -> Chart:
    """The curves as a chart whose description lists them."""
    names = ", ".join(c.name for c in curves.curves)
    return Chart(figure_svg(curves.plot()), caption, f"Error against {curves.axis}: {names}")


def advice_page(advice: Advice, curves: Sequence[Tradeoff] = (), written: tuple[Asking, str] | None = None) -> Page:
    """The options side by side, the verdict in words, and trade-off curves; ``written``: what was saved, and where."""
    columns = [
        "way of asking",
        "error",
        "times the bound",
        "full records",
        "conditional epsilon",
        "faintest pair's visibility",
    ]
    rows: list[tuple[object, ...]] = []
    for o in advice.options:
        error, ratio = (o.error, o.error / advice.error_bound) if np.isfinite(o.error) else (None, None)
        row = (o.title, error, ratio, o.keeps_records, o.conditional_epsilon, o.pair_visibility)
        rows.append(row if advice.n is None else (*row, advice.typical_standard_error(o)))
    if advice.n is not None:
        columns.append("typical standard error")
    given_up = Table(["way of asking", "gives up"], [(o.title, "; ".join(o.gives_up)) for o in advice.options])
    said = "Error of each way of asking, as in the table"
    parts: list[Part] = [Chart(figure_svg(advice.plot()), description=said), Table(columns, rows, strong=[0])]
    options = Section("Ways of asking", [*parts, Text(_BOUND + _ERRORS), Text(PAIRS), given_up])
    sections = [
        options,
        told(advice.total_epsilon),
        Section("Budgets of the optimum", bought(advice.allocation.design)),
    ]
    if curves:
        captions = (
            "The same workload at other totals; each point is an allocation of its own.",
            f"The total {advice.total_epsilon:g} with every attribute's conditional epsilon capped at a multiple of what it is "
            "under Kronecker's best split: 1 leaves Kronecker for one-way tables, the rightmost point caps nothing.",
        )
        sections.append(Section("Trade-offs", [tradeoff_chart(*c) for c in zip(curves, captions, strict=False)]))
    if written is not None:
        sections.append(Section("How to check", checked(*written)))
    title = f"Advice for workload {advice.workload.name} at total epsilon {advice.total_epsilon:g}"
    return Page(title, sections, advice.sentences())


def curves_around(advice: Advice) -> list[Tradeoff]:
    """Error against total around the one asked for, and against the cap on the conditional ε where caps are possible."""
    domain, total = advice.domain, advice.total_epsilon
    totals = [total * s for s in _AROUND]
    around = tradeoff(domain, totals, learn=advice.workload, n=advice.n, preserve_pairs=domain.m <= _KEPT)
    # where tables are too large to be reported, sampling them is not among the options
    if any(o.name == "sampling-even" for o in advice.options):
        asked = [min(sampling(domain, advice.workload, x), key=lambda o: o.error) for x in around.curves[0].abscissae]
        errors, typical = [o.error for o in asked], [advice.typical_standard_error(o) for o in asked]
        around = around.beside("one random question each", errors, typical)
    out = [around]
    if 1 < domain.m <= _CAPPED:
        out.append(cap_tradeoff(domain, total, learn=advice.workload, n=advice.n))
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
    parts: list[Part] = [Table(columns, rows), Text(_BOUNDS), Text(PAIRS)]
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


def _bars(designs: Sequence[Design]) -> Figure:
    figure = new_figure(PAGE_WIDTH, 0.8 + 0.4 * len(designs))
    axes = figure.subplots()
    names = [d.method for d in designs][::-1]
    axes.barh(names, [d.epsilon for d in designs][::-1], color=COLOURS[0], height=0.6)
    axes.axvline(max(d.lower_bound for d in designs), color=COLOURS[1])
    axes.set_xlabel("total epsilon, nats")
    return figure
