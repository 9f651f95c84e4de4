"""Where commands put their results: a table's file, a page, and what is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optrr.cli.estimate_file import check_estimate_suffix, write_estimate
from optrr.cli.inputs import keep_input
from optrr.cli.page_of_records import page_given
from optrr.cli.printing import print_json, warn
from optrr.cli.targets import DESIGN, PAGE
from optrr.records.reading.source import RecordsAt
from optrr.records.reports import Reports
from optrr.show.result import Result, TableResult

if TYPE_CHECKING:
    from optrr.designs.asking import Asking
    from optrr.show.parts import Page

report_option = click.option("--report", type=PAGE, help="HTML page to write, to be sent to others.")
design_output_option = click.option("-o", "--output", type=DESIGN, help="Design file to write.")


def write_report(report: Path | None, page: Callable[[], Page]) -> None:
    """Write a page where one is asked for; ``page`` makes it, and imports what only pages need."""
    if report is not None:
        from optrr.pages.writing import write_page  # noqa: PLC0415 (pages bring templates)

        write_page(report, page())


@dataclass(frozen=True)
class Outputs:
    """What a command that reads records writes: a table where ``output`` names a file, a page, and JSON or text."""

    output: Path | None
    report: Path | None
    as_json: bool

    def check(self, inputs: Sequence[RecordsAt]) -> None:
        """Refuse, before anything is read, to write over the records, or a table of another kind. Raises InvalidInput."""
        if self.output is not None:
            check_estimate_suffix(self.output)
        for place in inputs:
            for path in (self.output, self.report):
                if path is not None:
                    keep_input(path, place)

    def give_table(
        self,
        result: TableResult,
        of: tuple[Asking, Path, Reports, Sequence[str]],
        show: Callable[[], None],
        **compared: Result | None,
    ) -> None:
        """Give a result that is one table, and what it is ``compared`` with, to whatever outputs are asked for.

        ``of`` are the way of asking, its file, the records and what is in doubt about them.
        """
        doubts, others = of[-1], {name: each for name, each in compared.items() if each is not None}

        def page() -> Page:
            from optrr.pages.table_page import table_page  # noqa: PLC0415 (pages bring charts)

            asking, design_file, reports, _ = of
            return table_page(result, page_given(asking, design_file, reports, doubts), **others)

        summary = result.summary() | {"doubts": list(doubts)}
        summary |= {name: each.summary() for name, each in others.items()}
        said = [*doubts, *result.warnings, *(line for each in others.values() for line in each.warnings)]
        self.give(result, summary, dict.fromkeys(said), page, show)

    def give(
        self,
        table: TableResult | None,
        summary: dict[str, Any],
        warnings: Iterable[str],
        page: Callable[[], Page],
        show: Callable[[], None],
    ) -> None:
        """Write the files that are asked for, warn, and print ``summary`` as JSON or let ``show`` print for people."""
        if self.output is not None and table is not None:
            write_estimate(table, summary, self.output)
        write_report(self.report, page)
        warn(warnings)
        if self.as_json:
            print_json(summary)
        else:
            show()
