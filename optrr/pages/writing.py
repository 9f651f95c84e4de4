"""Pages as files."""

from __future__ import annotations

from pathlib import Path

from optrr.records.whole_files import whole_file
from optrr.show.parts import Page, page_html

__all__ = ["write_page"]


def write_page(path: str | Path, page: Page) -> None:
    """Write the page as one HTML file, whole or not at all. Raises InvalidInput where the directory is missing."""
    html = page_html(page)
    with whole_file(Path(path)) as partial:
        partial.write_text(html, encoding="utf-8")
