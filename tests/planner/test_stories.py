"""Stories of `optrr plan` from the command to a saved design and statement, in Chromium, by keyboard alone."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import browsers
import numpy as np
import pytest

pytest.importorskip("starlette", reason="the page's server needs the extra serve")

from optrr.cli.main import run
from optrr.core.design.specification import Specification
from optrr.core.domain.datasets import adult_domain
from optrr.core.domain.domain import Domain
from optrr.core.files import load

pytestmark = pytest.mark.slow

PATIENCE = 240_000
YES_NO = ["no", "yes"]
GENOTYPES = Domain.of({"status": ["control", "case"]} | {f"rs{k}": ["0", "1", "2"] for k in range(20)})
SCHOOL = Domain.of({name: YES_NO for name in ("theft", "drugs", "bullied", "hit someone", "cheated")})
STORIES = {
    "a school": (SCHOOL, "marginals", 2, 1000, 1280),
    "four attributes of Adult": (adult_domain().subset(["sex", "income", "race", "education"]), "pairs", 1, 32561, 360),
    "genotypes": (GENOTYPES, [["status", f"rs{k}"] for k in range(20)], 2, 50000, 1280),
}


@contextmanager
def command(*arguments: str | Path) -> Iterator[str]:
    """The address that `optrr plan` prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "optrr", "plan", *map(str, arguments), "--no-browser"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield next(address[0] for line in process.stdout if (address := re.search(r"http://\S+", line)))
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("story", STORIES)
def test_a_story_ends_in_a_design_and_a_statement(story: str, browser: Any, tmp_path: Path) -> None:
    domain, learn, total, n, width = STORIES[story]
    (tmp_path / "spec.toml").write_text(Specification(domain, np.full(domain.m, np.nan)).to_toml(), encoding="utf-8")
    wanted: list[str | Path] = ["--workload", str(learn)]
    if not isinstance(learn, str):
        tables = "".join(f"[[tables]]\nattributes = {table!r}\n" for table in learn).replace("'", '"')
        (tmp_path / "tables.toml").write_text(tables, encoding="utf-8")
        wanted = ["--workload", tmp_path / "tables.toml"]
    names = [domain.names[0]] if learn == "marginals" else list(domain.names[:2]) if learn == "pairs" else learn[0]
    folder = tmp_path / "kept"
    with command(tmp_path / "spec.toml", *wanted, "--n", str(n), "-o", folder) as address:
        context = browser.new_context(viewport={"width": width, "height": 900})
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        page.locator("#see").get_by_text(domain.names[0]).first.wait_for()
        page.locator("body").focus()
        browsers.tab_to(page, "#total")
        page.keyboard.press("Control+a")
        page.keyboard.type(f"{total}")
        page.keyboard.press("Tab")
        page.locator("#status").get_by_text("Exact numbers at this total").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert browsers.faults(page) == []
        browsers.tab_to(page, "#reason")
        page.keyboard.type("It is enough for what we want to know.")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "save"
        page.keyboard.press("Enter")
        page.locator("#saved").get_by_text("statement.html").first.wait_for()
        # what was exact above may have been the total before the one that was typed
        page.locator("#status").get_by_text("Exact numbers at this total").wait_for()
        page.locator("#see").get_by_text(" × ".join(names)).first.wait_for()
        shown = page.locator("#see").inner_text()
        context.close()
    assert run(["plan", "--check", str(folder / "plan.toml")]) == 0
    made = load(folder / "design.json")
    assert made.epsilon <= total + 1e-9
    # the first table's margin on the page is that of the design that was saved
    margin = 100 * 1.959964 * made.standard_error(names, n)
    assert _margin(shown, names) == pytest.approx(margin, rel=2e-3)
    assert "It is enough for what we want to know." in (folder / "statement.html").read_text(encoding="utf-8")


def _margin(shown: str, names: list[str]) -> float:
    """Of the page's table, the margin of these attributes: it stands after the number of cells."""
    cells = shown.replace("\t", "\n").split("\n")
    first = re.search(r"[\d.]+", cells[cells.index(" × ".join(names)) + 2])
    assert first is not None
    return float(first[0])
