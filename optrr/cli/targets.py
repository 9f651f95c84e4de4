"""Paths that a command is to write to: what makes one impossible is said before any work is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from optrr.records.whole_files import check_target

__all__ = ["OUTPUT", "PAGE"]


class _Target(click.Path):
    """A file to write; refused where it cannot be one, and a page also where the library that draws its figures is missing."""

    def __init__(self, drawn: bool = False) -> None:
        super().__init__(path_type=Path)
        self._drawn = drawn

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(super().convert(value, param, ctx))  # type: ignore[arg-type]  # never bytes
        check_target(path)
        if self._drawn:
            from optrr.charts import figure_class  # noqa: PLC0415 (only pages and plots bring charts)

            figure_class()
        return path


OUTPUT, PAGE = _Target(), _Target(drawn=True)
