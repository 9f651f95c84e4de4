"""A story of `optrr plan` from the command to a saved design and statement, in Chromium, by keyboard alone."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import browsers
import pytest
from plan_questions import school_question

pytest.importorskip("starlette", reason="the page's server needs the extra serve")

from optrr.cli.main import run
from optrr.core.files import load

pytestmark = pytest.mark.slow

PATIENCE = 240_000
TABLE = ("theft", "bullied")
TOTAL, PEOPLE = 2, 1000


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


def test_a_story_ends_in_a_design_and_a_statement(browser: Any, tmp_path: Path) -> None:
    spec, wanted, folder = tmp_path / "spec.toml", tmp_path / "tables.toml", tmp_path / "kept"
    spec.write_text(school_question().specification.to_toml(), encoding="utf-8")
    wanted.write_text(f"[[tables]]\nattributes = {json.dumps(TABLE)}\n[[tables]]\nattributes = ['sex']\n")
    with command(spec, "--workload", wanted, "--n", str(PEOPLE), "-o", folder) as address:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        page.locator("#see").get_by_text(TABLE[0]).first.wait_for()
        page.locator("body").focus()
        browsers.tab_to(page, "#total")
        page.keyboard.press("Control+a")
        page.keyboard.type(f"{TOTAL}")
        page.keyboard.press("Tab")
        page.locator("#status").get_by_text("Exact numbers at this ε").wait_for()
        browsers.tab_to(page, "#reason")
        page.keyboard.type("It is enough for what we want to know.")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "save"
        page.keyboard.press("Enter")
        page.locator("#saved").get_by_text("Saved in").first.wait_for()
        # what was exact above may have been the total before the one that was typed
        page.locator("#status").get_by_text("Exact numbers at this ε").wait_for()
        page.locator("#see").get_by_text(" × ".join(TABLE)).first.wait_for()
        shown = page.locator("#see").inner_text()
        context.close()
    assert run(["verify", str(folder / "plan.toml")]) == 0
    made = load(folder / "design.json")
    assert made.epsilon <= TOTAL + 1e-9
    # the table's margin on the page, after its number of cells, is that of the design that was saved
    cells = shown.replace("\t", "\n").split("\n")
    margin = re.search(r"[\d.]+", cells[cells.index(" × ".join(TABLE)) + 1])
    assert margin and float(margin[0]) == pytest.approx(195.9964 * made.standard_error(TABLE, PEOPLE), rel=2e-3)
    assert "It is enough for what we want to know." in (folder / "statement.html").read_text(encoding="utf-8")
