"""Links that leave docs/: a page may point to any file of the project, as `[text](../proofs/prove_ball.py)`.

In the repository such a link opens the file. On the site it opens a page under `source/` that shows the file: text with line
numbers, Markdown as it is meant to be read, a folder as the list of its files.
"""

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
FOLDER = DOCS / "source"
# An image is copied by Sphinx itself, and needs no page.
LINK = re.compile(r"(?<!!)\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
IMAGE = re.compile(r"!\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s]+)\)")
LANGUAGES = {
    ".py": "python",
    ".js": "javascript",
    ".mjs": "javascript",
    ".ts": "typescript",
    ".json": "json",
    ".toml": "toml",
    ".yaml": "yaml",
    ".csv": "text",
    ".sh": "sh",
}
# Files that say nothing to a reader, or belong to whoever built the site.
_LEFT_OUT = {"__pycache__", "node_modules"}


def outside(file: Path, target: str) -> Path | None:
    """The file or folder of the project that a link leads to, None where it stays in docs/ or leaves the project."""
    if "://" in target or target.startswith(("/", "mailto:")):
        return None
    there = Path(os.path.normpath(file.parent / target))
    inside = there.is_relative_to(DOCS) and not there.is_relative_to(FOLDER)
    return there if there.exists() and there.is_relative_to(ROOT) and not inside else None


def page_of(there: Path) -> Path:
    """The page that shows a file or a folder."""
    place = FOLDER / there.relative_to(ROOT)
    return place if there.suffix == ".md" else place.with_name(place.name + ".rst")


def rewritten(text: str, file: Path) -> str:
    """A page's text whose links out of docs/ lead to the pages that show what they mean."""

    def link(match: re.Match[str]) -> str:
        there = outside(file, match["target"])
        if there is None:
            return match[0]
        return f"[{match['text']}](/{page_of(there).relative_to(DOCS).as_posix()}{match['anchor'] or ''})"

    return LINK.sub(link, text)


def keep_links(app: Any, name: str, source: list[str]) -> None:
    """Sphinx asks before it reads a page."""
    file = Path(app.env.doc2path(name))
    if file.suffix == ".md" and not file.is_relative_to(FOLDER):
        source[0] = rewritten(source[0], file)


def pages(more: Collection[Path] = ()) -> dict[Path, str]:
    """Pages of everything that a page in docs/ points to outside, of ``more``, and of what those pages point to."""
    waiting = [f for f in DOCS.rglob("*.md") if not f.is_relative_to(FOLDER)]
    linked = {there for f in waiting for there in targets(f)} | set(more)
    made: dict[Path, str] = {}
    while linked:
        there = linked.pop()
        if page_of(there) not in made:
            made[page_of(there)] = shown(there)
            linked |= targets(there) if there.suffix == ".md" else set()
    return made


def targets(file: Path) -> set[Path]:
    """What a Markdown file points to outside docs/."""
    text = file.read_text(encoding="utf-8")
    return {t for m in LINK.finditer(text) if (t := outside(file, m["target"])) is not None}


def shown(there: Path) -> str:
    """The page of a file or a folder."""
    if there.suffix == ".md":
        return markdown(there)
    title = there.relative_to(ROOT).as_posix()
    head = f":orphan:\n:nosearch:\n\n{title}\n{'=' * len(title)}\n\n"
    if there.is_dir():
        names = sorted(f.name + "/" * f.is_dir() for f in there.iterdir() if f.name not in _LEFT_OUT)
        return head + "A folder of the project:\n\n" + "".join(f"* ``{n}``\n" for n in names)
    language = LANGUAGES.get(there.suffix, "text")
    place = os.path.relpath(there, page_of(there).parent)
    if there.suffix == ".svg":
        return f"{head}.. image:: {place}\n   :alt: {title}\n"
    return f"{head}.. literalinclude:: {place}\n   :language: {language}\n   :linenos:\n"


def markdown(there: Path) -> str:
    """A Markdown file as a page: its links lead on from where it stands in the project."""
    page = page_of(there)

    def link(match: re.Match[str]) -> str:
        target = match["target"]
        place = Path(os.path.normpath(there.parent / target))
        if "://" in target or not place.exists():
            return match[0]
        goal = place if place.is_relative_to(DOCS) else page_of(place)
        return f"[{match['text']}](/{goal.relative_to(DOCS).as_posix()}{match['anchor'] or ''})"

    def image(match: re.Match[str]) -> str:
        return f"![{match['text']}]({os.path.relpath(there.parent / match['target'], page.parent)})"

    text = IMAGE.sub(image, LINK.sub(link, there.read_text(encoding="utf-8")))
    return f"---\norphan: true\nnosearch: true\n---\n{text}"
