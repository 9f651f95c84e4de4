"""The gallery: every figure of benchmarks/results, with the script that draws it and one sentence."""

import ast
import csv
import tomllib
from pathlib import Path

from site_pages import outside

DOCS = outside.DOCS
RESULTS = outside.ROOT / "benchmarks" / "results"


def makers() -> dict[str, str]:
    """The script that draws each figure, by the figure's name."""
    with (RESULTS / "index.csv").open(newline="", encoding="utf-8") as file:
        drawn = {Path(row["file"]): row["script"] for row in csv.DictReader(file)}
    return {file.stem: script for file, script in drawn.items() if file.suffix == ".svg"}


def sentences() -> dict[str, dict[str, str]]:
    """Figures and their sentences, by heading; those that nobody wrote a sentence for come last."""
    written = tomllib.loads((DOCS / "gallery.toml").read_text(encoding="utf-8"))
    known = {name for figures in written.values() for name in figures}
    rest = {name: first_sentence(script) for name, script in sorted(makers().items()) if name not in known}
    return written | ({"More": rest} if rest else {})


def first_sentence(script: str) -> str:
    """What the script says that it does."""
    text = (RESULTS.parent / f"{script}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or script).partition("\n")[0]


def pages() -> dict[Path, str]:
    """The page and its text."""
    drawn = makers()
    parts = [
        "Gallery\n=======\n\nEvery figure that the benchmarks draw, with the script that draws it. ``make results`` and\n"
        "``make results-all`` draw them again.\n"
    ]
    for heading, figures in sentences().items():
        parts.append(f"{heading}\n{'-' * len(heading)}\n")
        for name, said in figures.items():
            script = (
                outside.page_of(outside.ROOT / "benchmarks" / f"{drawn[name]}.py").relative_to(DOCS).with_suffix("")
            )
            parts.append(
                f".. figure:: ../benchmarks/results/{name}.svg\n   :alt: {said}\n\n"
                f"   {said} Drawn by :doc:`{drawn[name]}.py </{script.as_posix()}>`.\n"
            )
    return {DOCS / "gallery.rst": "\n".join(parts)}


def scripts() -> set[Path]:
    """The scripts that the page points to."""
    return {outside.ROOT / "benchmarks" / f"{script}.py" for script in makers().values()}
