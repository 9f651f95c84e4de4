"""What Sphinx and its theme write that a screen reader cannot make sense of, mended in the pages once they are written."""

import re
from pathlib import Path
from typing import Any

# A signature over several lines is written as a list of definitions without terms.
_LINES = re.compile(r"<dl>\n((?:<dd>(?:(?!<dd>|<dl>).)*</dd>\n)+)</dl>", re.DOTALL)
_SUMMARY = '<summary><span class="toctree-toggle"'


def mended(text: str) -> str:
    """A page that says what its parts are."""
    text = _LINES.sub(lambda listed: _as_lines(listed[1]), text)
    return text.replace(_SUMMARY, _SUMMARY.replace("<summary>", '<summary aria-label="pages below">'))


def _as_lines(parameters: str) -> str:
    lines = parameters.replace("<dd>", '<span class="sig-line">').replace("</dd>", "</span>")
    return f'<span class="sig-lines">{lines}</span>'


def mend_pages(app: Any, exception: Exception | None) -> None:
    """After the build, every page."""
    if exception is None and app.builder.format == "html":
        for page in Path(app.outdir).rglob("*.html"):
            text = page.read_text(encoding="utf-8")
            if (better := mended(text)) != text:
                page.write_text(better, encoding="utf-8")
