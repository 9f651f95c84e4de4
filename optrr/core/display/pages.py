"""Parts that all HTML reports share: privacy, the request, warnings, and how a reader checks the report.

A page is one HTML file that can be sent. Each result makes its own from these parts; a result that is one table defines
the parts around it (:class:`OneTable`).
"""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from optrr.core.display.charts import figure_svg
from optrr.core.display.parts import Chart, Commands, Page, Part, Section, Table, Text, warnings
from optrr.core.display.result import TableResult
from optrr.core.display.text import epsilon_text, example, promise

# Rows of a table on a page; files and JSON have all.
ROWS = 200
# Rows of a chart with a line for each.
CHARTED = 60

_SEEDED = (
    "These records were drawn from a seed, so nothing is promised to the respondents: anyone who knows the seed can "
    "undo the randomization. Seeds are for studies of data that are not private."
)
_UNLIMITED = "The releases before these records have no finite epsilon, so no factor can be promised."
_FIRST = "This can be told to every respondent, whatever others already know about them:"
_DIGEST = (
    "The design's digest names the mechanism with its attributes and categories. Randomized records carry it, and records of "
    "another design are refused."
)
_ESTIMATED = "This makes the report again from the randomized records:"
_VERIFY = (
    "This recomputes every number of the design from its noise distribution and its certificate alone, and prints the "
    "digest:"
)


@dataclass(frozen=True, eq=False)
class Given:
    """Inputs of an HTML report on randomized records.

    Parameters
    ----------
    asking
        the design, or another protocol, that they were randomized by.
    design_file
        Name of the design's file.
    inputs
        names of the files of records; no paths, and only the kind of a database, not its address.
    asked
        the request, a name and a value a row.
    command
        the command that makes the report again, word by word.
    doubts
        warnings about the records, one line each.
    spent
        the largest ε that a respondent of these records has consumed, in nats.
    seeded
        whether they were drawn from a seed, so that they are not private.
    """

    asking: Any
    design_file: str
    inputs: Sequence[str]
    asked: Sequence[tuple[str, object]]
    command: Sequence[str]
    doubts: Sequence[str]
    spent: float
    seeded: bool

    def told(self) -> Section:
        """Build the section with the privacy statement for respondents."""
        if self.seeded:
            return Section("Statement for respondents", [Text(_SEEDED, warning=True)])
        section = told(self.spent)
        public = self.asking.public
        return replace(section, parts=[*section.parts, Text(public.warning(), warning=True)]) if public else section

    def was_asked(self, records: int) -> Section:
        """Build the section on the analysis and its records."""
        rows: list[tuple[str, object]] = [
            ("randomized records", ", ".join(self.inputs)),
            ("number of records", records),
        ]
        rows += [*self.asked, ("design", self.design_file), ("total epsilon", epsilon_text(self.asking.epsilon))]
        return Section("Request", [Table(["item", "value"], rows)])

    def check(self) -> Section:
        """Build the section on verifying the report."""
        return Section(
            "Verification", [*checked(self.asking, self.design_file), Text(_ESTIMATED), commands(self.command)]
        )

    def page(self, title: str, lead: list[str], about: Iterable[Section], records: int, said: Iterable[str]) -> Page:
        """Build a report on ``records`` records with sections ``about`` a result.

        ``said`` are its warnings.
        """
        doubted = warnings([*self.doubts, *said])
        return Page(title, [*doubted, *about, self.told(), self.was_asked(records), self.check()], lead)


def told(epsilon: float) -> Section:
    """Build the privacy statement of a total ε, in nats.

    The words are those of the survey's page.
    """
    if not isfinite(epsilon):
        return Section("Statement for respondents", [Text(_UNLIMITED, warning=True)])
    parts = [Text(_FIRST), Text(promise(epsilon), quoted=True), Text(example(epsilon), quoted=True)]
    return Section("Statement for respondents", parts)


def checked(asking: Any, design_file: str | None) -> list[Part]:
    """List the digest and how to recompute the statements of the design's file."""
    parts: list[Part] = [Text(_DIGEST), Commands([asking.digest])]
    if design_file is None:
        return [
            *parts,
            Text("The design was not saved; with -o FILE it is, and optrr verify FILE recomputes its numbers."),
        ]
    return [*parts, Text(_VERIFY), commands(["optrr", "verify", design_file])]


def commands(*lines: Sequence[str]) -> Commands:
    """Build commands word by word, as a terminal takes them."""
    return Commands([shlex.join(line) for line in lines])


def table_page(result: TableResult, given: Given, **beside: Any) -> Page:
    """Build the HTML report of a table.

    A chart if rows are few, the table, and notes.

    ``beside`` are the results next to it, which it names.
    """
    said, shown = result.on_page(**beside), result.shown()
    parts: list[Part] = [shown.first(ROWS), *said.notes]
    if len(shown.rows) <= CHARTED:
        parts.insert(0, Chart(figure_svg(result.plot()), said.caption, said.chart))
    return given.page(said.title, [said.lead], [Section(said.heading, parts)], result.summary()["n"], result.warnings)
