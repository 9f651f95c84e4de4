"""Framework of commands that analyze records: inputs, the analysis, and outputs.

It opens the reports, shows progress while they are read, and adds the warnings of an analysis to its result: in a
table's file, in an HTML report, and in printed text.

Impossible or misleading paths are refused before any computation. An HTML report may be shared, so it names files
without their folders, and databases by their kind only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from optrr.allocation.sampled_tables import SampledTables, load_asking
from optrr.cli.inputs import DESIGN_FILE, INPUT, keep_input, with_collapsed
from optrr.cli.options import option
from optrr.cli.printing import give, heard, progress, warn
from optrr.core.design import Asking, Design
from optrr.core.display import Result, TableResult
from optrr.core.errors import InvalidInput
from optrr.core.records import OpenedRecords, Place, RecordsAt, check_target, each_file, held_back, whole_file

if TYPE_CHECKING:
    from optrr.core.display import Given, Page
    from optrr.core.reports import Reports


_Made = TypeVar("_Made")

# Suffixes that would state a wrong format to other programs.
_FORMATS = "arrow csv docx htm html json jsonl md npz parquet pdf png svg toml tsv txt xlsx yaml yml"


class Target(click.Path):
    """A file to write.

    ``suffixes`` are the allowed endings for ``what``; without suffixes, any ending is allowed. The file is refused if
    it cannot be written, if its name states another format, or if the library that draws its figures is missing. With
    ``folder``, the target is a folder, which may exist.
    """

    def __init__(self, what: str = "", *suffixes: str, drawn: bool = False, folder: bool = False) -> None:
        super().__init__(path_type=Path)
        self.what, self.suffixes, self.drawn, self.folder = what, suffixes, drawn, folder

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; raise InvalidInput if it is refused."""
        path = Path(super().convert(value, param, ctx))  # type: ignore[arg-type]  # never bytes
        # a file in a missing folder can be written if a file next to that folder can
        check_target(path / "file" if self.folder and path.is_dir() else path)
        if self.folder and path.exists() and not path.is_dir():
            raise InvalidInput(f"{path} is a file; name a folder for {self.what}")
        suffix = path.suffix.lower()
        if self.suffixes and suffix not in self.suffixes and (suffix[1:] in _FORMATS.split() or self is ESTIMATE):
            raise InvalidInput(f"{path} ends in {suffix!r}; {self.what} is written as {' or '.join(self.suffixes)}")
        if self.drawn:
            from optrr.core.display import figure_class  # noqa: PLC0415 (only pages and plots bring charts)

            figure_class()
        return path


OUTPUT = Target()
PAGE = Target("a page", ".html", ".htm", drawn=True)
DESIGN = Target("a design", ".json")
FOLDER = Target("a plan", folder=True)
TABBED = Target("a table of results, separated by tabs,", ".tsv", ".txt")


ESTIMATE = Target("an estimate", ".csv", ".parquet", ".json")
TABLE = option("CSV, Parquet or JSON file for the table.", "-o", type=ESTIMATE)


def write_estimate(result: TableResult, summary: dict[str, Any], path: Path) -> None:
    """Write the table, whole or not at all."""
    suffix = path.suffix.lower()
    with whole_file(path) as partial:
        if suffix == ".json":
            partial.write_bytes(msgspec.json.encode(summary) + b"\n")
        elif suffix == ".csv":
            from pyarrow.csv import write_csv  # noqa: PLC0415 (Arrow is slow to import, and the other kinds need none of it)

            from optrr.core.records import without_formulas  # noqa: PLC0415 (as above)

            write_csv(without_formulas(result.to_arrow()), partial)
        else:
            from pyarrow.parquet import write_table  # noqa: PLC0415 (as above)

            write_table(result.to_arrow(), partial)


# Options about places or printing, which do not change the analysis.
_LEFT_OUT = ("query", "design_file", "output", "report")
# Options whose values may be paths or addresses.
_PLACES = ("groups", "proportions", "table", "covariates")
_SCHEME = re.compile(r"([a-z]+):(//)?")
_ADDRESS = re.compile(r"\b(postgres(?:ql)?)://\S*[^\s;:,]")


def page_given(asking: Asking, design_file: Path, reports: OpenedRecords, doubts: Sequence[str]) -> Given:
    """Collect the inputs of the HTML report of the running command."""
    from optrr.core.display import Given  # noqa: PLC0415 (only pages need it)

    context, places = click.get_current_context(), reports.given
    asked = [(each.opts[-1], value) for each in context.command.params for value in _values(context, each)]
    words = [word for flag, value in asked for word in ([flag] if value is True else [flag, str(value)])]
    first = [public_name(each) for each in places[0].named]
    page = context.params["report"].name
    return Given(
        asking=asking,
        design_file=design_file.name,
        inputs=[public_name(each) for place in places for each in place.named],
        asked=[(flag.lstrip("-"), "yes" if value is True else value) for flag, value in asked],
        command=[*context.command_path.split(), *first, "--design", design_file.name, *words, "--html", page],
        doubts=[_public(line, places) for line in doubts],
        spent=max([each.epsilon for each in reports.stated], default=asking.epsilon_in_all),
        seeded=any(each.seeded for each in reports.stated),
    )


def _values(context: click.Context, param: click.Parameter) -> list[Any]:
    """List an option's values on the command line in publishable form."""
    name = str(param.name)
    given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    if not given or name in _LEFT_OUT or name not in context.params or isinstance(param, click.Argument):
        return []
    value = context.params[name]
    each = list(value) if isinstance(value, tuple) else [value]
    return [public_name(one) for one in each] if name in _PLACES else each


def public_name(place: Place) -> str:
    """Return a place without folders or a database's address."""
    text = str(place)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text).name or text
    return f"{scheme[1]}:…" if scheme[2] else f"{scheme[1]}:{Path(text[scheme.end() :]).name}"


def _public(line: str, places: Sequence[RecordsAt]) -> str:
    """Remove folders and addresses of the places from a warning.

    Files of a folder or a pattern are treated in the same way.
    """
    for text in (str(each) for place in places for each in (*(file.place for file in each_file(place)), *place.named)):
        # a survey's database is named without its kind
        beyond = text.removeprefix("sqlite:").removeprefix("///")
        line = line.replace(text, public_name(text)).replace(beyond, public_name(beyond))
    return _ADDRESS.sub(r"\1:…", line)


REPORT = option("HTML report to write, for sharing.", "--html", type=PAGE)
DESIGN_OUTPUT = option("Design file to write.", "-o", type=DESIGN)


def write_report(report: Path | None, page: Callable[[], Page]) -> None:
    """Write an HTML report if one is requested, completely or not at all.

    ``page`` builds it, and imports what only reports need.
    """
    if report is not None:
        from optrr.core.display import page_html  # noqa: PLC0415 (pages bring templates)

        html = page_html(page())
        with whole_file(report) as partial:
            partial.write_text(html, encoding="utf-8")


@dataclass(eq=False)
class Analysis:
    """A command that analyzes records by a method of `Reports`, with its inputs and outputs.

    Raises InvalidInput if an output would overwrite records.
    """

    input: RecordsAt = INPUT
    design_file: Path = DESIGN_FILE
    report: Path | None = REPORT
    output: Path | None = None

    def __post_init__(self) -> None:
        self.doubts: list[str] = []
        self.keep(self.input)

    def keep(self, place: RecordsAt) -> None:
        """Refuse to write over records. Raises InvalidInput."""
        for path in (self.output, self.report):
            if path is not None:
                keep_input(path, place)

    @cached_property
    def asking(self) -> Design | SampledTables:
        """Protocol of the records."""
        return load_asking(self.design_file)

    def open(
        self, collapse: Sequence[str] = (), names: Sequence[str] = (), groups: Sequence[RecordsAt] = ()
    ) -> Reports:
        """Open the reports, including other ``groups``, with collapsed categories.

        Their counts are kept during this run, because several statistics of a table, or its HTML report, need the same
        counts, and standard input can be read only once.
        """
        watch = lambda done, share: progress(f"{done} records read", share)  # noqa: E731
        places = [place.watched(watch) for place in (self.input, *groups)]
        self.reports = replace(with_collapsed(self.asking.reports(*places), collapse, names), kept={})
        return self.reports

    def made(self, call: Callable[[], _Made]) -> _Made:
        """Call the Python API; its warnings are doubts about the records."""
        known = self.reports.doubts
        with heard() as lines:
            result = call()
        self.doubts = list(dict.fromkeys([*known, *self.doubts, *lines]))
        return result

    def give(
        self,
        result: Result,
        page: Callable[[Given], Page] | None = None,
        **beside: Result | Sequence[Result] | None,
    ) -> None:
        """Write the requested files, warn, and print the result.

        The output is text or JSON, with the results ``beside`` it. ``page`` makes the HTML report, by default that of a
        table.
        """
        others = {name: each for name, each in beside.items() if each}
        several = [one for each in others.values() for one in ([each] if isinstance(each, Result) else each)]
        summary = {**result.summary(), "doubts": self.doubts}
        for name, each in others.items():
            summary[name] = each.summary() if isinstance(each, Result) else [one.summary() for one in each]
        said = [*self.doubts, *(line for one in (result, *several) for line in one.warnings)]
        with held_back():
            if self.output is not None and isinstance(result, TableResult):
                write_estimate(result, summary, self.output)
            write_report(self.report, lambda: self._page(result, page, others))
        warn(dict.fromkeys(said))
        give(summary, "\n\n".join(map(str, (result, *several))))

    def _page(self, result: Result, page: Callable[[Given], Page] | None, others: dict[str, Any]) -> Page:
        given = page_given(self.asking, self.design_file, self.reports, self.doubts)
        if page is not None:
            return page(given)
        from optrr.core.display import table_page  # noqa: PLC0415 (pages bring charts)

        return table_page(result, given, **others)  # type: ignore[arg-type]  # others name their page


@dataclass(eq=False)
class TableAnalysis(Analysis):
    """One whose table may go to a separate file."""

    output: Path | None = TABLE
