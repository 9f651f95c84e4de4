"""optrr demo: the main job on the bundled Adult data; design, compare, randomize, estimate, and what the optimum buys.

All 32,561 records on MDR's eight attributes at ε_i = 1, kept visible in pairs, against Kronecker at the same total ε.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

from optrr.cli.options import command, option
from optrr.cli.outputs import PAGE
from optrr.cli.printing import TABLE_DECIMALS, is_json, print_json, print_table
from optrr.core.design import Design, design
from optrr.core.display import bound_text, epsilon_text
from optrr.core.domain import ADULT_EIGHT, Domain, adult, adult_domain
from optrr.core.estimation import estimate
from optrr.core.records import count
from optrr_solvers.arrays import FloatArray
from optrr_solvers.randomness import RandomState

_COLUMNS = ["cell", "truth", "optimum", "s.e.", "Kronecker", "s.e. (Kronecker)"]
_COMPARED = ["method", "total epsilon", "certified at least", "largest conditional", "faintest pair"]


@command
def demo(
    output: Path | None = option("Also write an HTML report.", "-o", type=PAGE),
    random_state: int | None = option("Seed; the default draws from the system.", type=click.IntRange(min=0)),
) -> None:
    """The main job on the bundled Adult data: design, randomize, estimate; no network."""
    started = time.perf_counter()
    shown = demonstrate(random_state)
    seconds = time.perf_counter() - started
    if output is not None:
        write_report(shown, output)
    if is_json():
        print_json(_summary(shown, seconds))
        return
    click.echo(
        f"Adult census data (UCI, CC BY 4.0): {shown.records} records, {shown.used['optimum'].domain.m} attributes, "
        f"each to be as accurate as randomized response at epsilon {EPSILON:g}"
    )
    print_table("What the whole record costs, in nats", _COMPARED, _compared_rows(shown))
    same = epsilon_text(shown.used["optimum"].epsilon, TABLE_DECIMALS)
    each = epsilon_text(shown.used["Kronecker"].requested_epsilons[0], TABLE_DECIMALS)
    click.echo(
        f"\nAll records randomized twice at the same total epsilon {same}: by the optimum "
        f"(pairs kept, every attribute at {EPSILON:g}) and by Kronecker (every attribute at {each})."
    )
    for table in shown.tables:
        print_table(f"{' × '.join(table.domain.names)}: proportions", _COLUMNS, _rows(table))
        click.echo(_ratio_line(table))
    click.echo(f"\n{seconds:.1f} s" + (f"; report written to {output}" if output is not None else ""))


def _compared_rows(shown: Demonstration) -> list[tuple[object, ...]]:
    return [
        (
            name,
            epsilon_text(d.epsilon, TABLE_DECIMALS),
            bound_text(d.lower_bound, TABLE_DECIMALS),
            epsilon_text(float(d.conditional_epsilons.max()), TABLE_DECIMALS),
            None if d.faintest_pair is None else d.faintest_pair[0],
        )
        for name, d in shown.compared.items()
    ]


def _cells(table: ShownTable) -> Iterator[tuple[str, list[float]]]:
    """Each cell's label, and truth, estimate and standard error of the optimum, then of Kronecker."""
    texts = [a.texts for a in table.domain]
    for i, a in enumerate(texts[0]):
        for j, b in enumerate(texts[1]):
            numbers = [float(table.truth[i, j])]
            for name in ("optimum", "Kronecker"):
                numbers += [float(table.estimates[name][i, j]), float(table.standard_errors[name][i, j])]
            yield f"{a}, {b}", numbers


def _rows(table: ShownTable) -> list[tuple[object, ...]]:
    return [(label, *numbers) for label, numbers in _cells(table)]


def _ratio_line(table: ShownTable) -> str:
    measured = table.error("Kronecker") / table.error("optimum")
    expected = table.expected_error("Kronecker") / table.expected_error("optimum")
    return (
        f"root mean squared error: optimum {table.error('optimum'):.4f}, Kronecker {table.error('Kronecker'):.4f}: "
        f"{measured:.1f} times as much in this run, {expected:.1f} times by the standard errors"
    )


def _summary(shown: Demonstration, seconds: float) -> dict[str, Any]:
    return {
        "records": shown.records,
        "seconds": seconds,
        "methods": {name: d.summary() for name, d in shown.compared.items()},
        "total_epsilon": shown.used["optimum"].epsilon,
        "tables": [
            {
                "attributes": list(t.domain.names),
                "categories": [list(a.categories) for a in t.domain],
                "truth": t.truth.tolist(),
                "estimate": {name: e.tolist() for name, e in t.estimates.items()},
                "standard_error": {name: e.tolist() for name, e in t.standard_errors.items()},
                "error_ratio": t.error("Kronecker") / t.error("optimum"),
                "expected_error_ratio": t.expected_error("Kronecker") / t.expected_error("optimum"),
            }
            for t in shown.tables
        ],
    }


def write_report(shown: Demonstration, output: Path) -> None:
    """The same as a self-contained HTML page, with a chart of each table."""
    from optrr.cli.outputs import write_page  # noqa: PLC0415
    from optrr.core.display import Chart, Page, Section, Table, Text  # noqa: PLC0415 (only where a report is asked for)

    sections = [
        Section("What the whole record costs", [Table(_COMPARED, _compared_rows(shown), note="Epsilons in nats.")])
    ]
    for table in shown.tables:
        title = " × ".join(table.domain.names)
        chart = Chart(_chart(table), "Bars: two standard errors each way.", f"Truth and both estimates of {title}")
        sections.append(Section(title, [chart, Text(_ratio_line(table)), Table(_COLUMNS, _rows(table))]))
    lead = [
        f"{shown.records} records of the Adult census data (UCI Machine Learning Repository, CC BY 4.0), randomized twice at "
        f"the same total epsilon {epsilon_text(shown.used['optimum'].epsilon, TABLE_DECIMALS)}."
    ]
    write_page(output, Page("Randomized response on Adult: the optimum and Kronecker", sections, lead))


def _chart(table: ShownTable) -> str:
    from optrr.core.display import COLOURS, PAGE_WIDTH, figure_svg, label_text, legend_below, new_figure  # noqa: PLC0415

    rows = list(_cells(table))
    figure = new_figure(PAGE_WIDTH, 1.2 + 0.26 * len(rows))
    axes = figure.subplots()
    for k, (name, colour, first) in enumerate((("optimum", COLOURS[0], 1), ("Kronecker", COLOURS[1], 3))):
        places = [y + 0.22 * (k - 0.5) for y in range(len(rows))]
        values, errors = [r[first] for _, r in rows], [2 * r[first + 1] for _, r in rows]
        axes.errorbar(values, places, xerr=errors, fmt="o", markersize=3, color=colour, label=name, linewidth=1)
    axes.plot([r[0] for _, r in rows], range(len(rows)), "k|", markersize=9, label="truth")
    axes.set_yticks(range(len(rows)), [label_text(label) for label, _ in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("proportion")
    legend_below(figure)
    return figure_svg(figure)


TABLES = (("sex", "income"), ("education", "income"))
EPSILON = 1.0


@dataclass(frozen=True, eq=False)
class ShownTable:
    """One table: the truth in these records, and for each mechanism its estimate and standard errors; same shapes."""

    domain: Domain
    truth: FloatArray
    estimates: dict[str, FloatArray]
    standard_errors: dict[str, FloatArray]

    def error(self, name: str) -> float:
        """Root mean squared error over the cells against the truth."""
        return float(np.sqrt(np.mean((self.estimates[name] - self.truth) ** 2)))

    def expected_error(self, name: str) -> float:
        """Root mean squared standard error over the cells: the error to expect on average over randomizations."""
        return float(np.sqrt(np.mean(self.standard_errors[name] ** 2)))


@dataclass(frozen=True, eq=False)
class Demonstration:
    """Designs by name (those compared at ε_i = 1, and the two that randomized the data) and the tables."""

    records: int
    compared: dict[str, Design]
    used: dict[str, Design]
    tables: tuple[ShownTable, ...]


def demonstrate(random_state: RandomState = None) -> Demonstration:
    """Run the main job; a few seconds, no network."""
    data = adult().select(list(ADULT_EIGHT))
    domain = adult_domain().subset(ADULT_EIGHT)
    compared = {
        "optimum": design(domain, EPSILON),
        "optimum, pairs kept": design(domain, EPSILON, preserve="pairs"),
        "POR's heuristic": design(domain, EPSILON, method="inductive"),
        "Kronecker": design(domain, EPSILON, method="kronecker"),
    }
    kept = compared["optimum, pairs kept"]
    even = design(domain, kept.epsilon / domain.m, method="kronecker")
    used = {"optimum": kept, "Kronecker": even}
    released = {name: d.mechanism.randomize(data, random_state=random_state) for name, d in used.items()}
    tables = tuple(_table(data, domain, names, used, released) for names in TABLES)
    return Demonstration(data.num_rows, compared, used, tables)


def _table(
    data: pa.Table, domain: Domain, names: tuple[str, ...], used: dict[str, Design], released: dict[str, pa.Table]
) -> ShownTable:
    estimates = {
        name: estimate(count(released[name], domain, names), d.mechanism, target="data") for name, d in used.items()
    }
    return ShownTable(
        domain.subset(names),
        count(data, domain, names).proportions,
        {name: e.proportions for name, e in estimates.items()},
        {name: e.standard_errors for name, e in estimates.items()},
    )
