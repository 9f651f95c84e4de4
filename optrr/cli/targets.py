"""Paths that a command is to write to: what makes one impossible, or misleading, is said before any work is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from optrr.errors import InvalidInput
from optrr.records.whole_files import check_target

__all__ = ["DESIGN", "OUTPUT", "PAGE", "PLOT", "TABBED", "Target"]

# Suffixes by which other programs take a file for what it is not.
_FORMATS = frozenset(
    f".{name}"
    for name in (
        "arrow csv docx htm html json jsonl md npz parquet pdf png svg toml tsv txt xlsx yaml yml".split()  # noqa: SIM905
    )
)


class Target(click.Path):
    """A file to write.

    It is refused where it cannot be one, where its name says another format than what is written (``suffixes`` are right for
    ``what``; any is, where there are none), and where the library that draws its figures is missing.
    """

    def __init__(self, what: str = "", *suffixes: str, drawn: bool = False) -> None:
        super().__init__(path_type=Path)
        self.what, self.suffixes, self.drawn = what, suffixes, drawn

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path. Raises InvalidInput where it is refused."""
        path = Path(super().convert(value, param, ctx))  # type: ignore[arg-type]  # never bytes
        check_target(path)
        suffix = path.suffix.lower()
        if self.suffixes and suffix in _FORMATS and suffix not in self.suffixes:
            raise InvalidInput(f"{path} ends in {suffix!r}; {self.what} is written as {' or '.join(self.suffixes)}")
        if self.drawn:
            from optrr.show.charts import figure_class  # noqa: PLC0415 (only pages and plots bring charts)

            figure_class()
        return path


OUTPUT, PLOT = Target(), Target(drawn=True)
PAGE = Target("a page", ".html", ".htm", drawn=True)
DESIGN = Target("a design", ".json")
TABBED = Target("a table of results, separated by tabs,", ".tsv", ".txt")
