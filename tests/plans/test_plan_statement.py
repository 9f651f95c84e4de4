"""The statement for a board: its numbers are those that its own commands print, it is complete, and it has two sheets."""

import json
import math
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import browsers
import pytest
from html_page import Read
from plan_questions import random_question

import optrr
from optrr.cli.main import run
from optrr.designs.specification import declared
from optrr.plans.plan import Plan
from optrr.plans.plan_file import SeenWay
from optrr.plans.preview import HALF_WIDTH
from optrr.plans.question import Question
from optrr.plans.statement import NOT_PROMISED, for_you
from optrr.show.parts import page_html
from optrr.show.text import crossed, epsilon_text, example, promise

SECURITY = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
# What that page says of files is nothing that a plan is about.
OF_FILES = {"Libraries that read files", "Waiting for a large file", "Notes beside files"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_the_numbers_are_those_of_the_commands_on_it(seed, tmp_path, monkeypatch, capsys):
    plan = Plan.of(random_question(seed), "for a test")
    plan.save(tmp_path / "plan")
    monkeypatch.chdir(tmp_path / "plan")
    page = Read(Path("statement.html").read_text(encoding="utf-8"))
    lines = [
        line for line in page.text.splitlines() if line.startswith(("optrr verify", "optrr plan", "optrr allocate"))
    ]
    said = {}
    for line in lines:
        command, *options = shlex.split(line)[1:]
        assert run([command, *options, *(["--json"] if "--json" not in options else [])]) == 0, line
        said[command] = json.loads(capsys.readouterr().out)
    assert set(said) == {"verify", "plan", "allocate"}
    assert said["plan"]["holds"] and said["verify"]["holds"]
    stated = dict(page.table("the choice")[1:])
    allocated, verified = said["allocate"], said["verify"]

    assert stated["total epsilon"] == epsilon_text(allocated["epsilon"])
    checks = {each["name"]: each for each in verified["checks"]}
    assert float(stated["total epsilon"]) == pytest.approx(float(checks["total epsilon"]["recomputed"]), abs=1e-6)
    assert float(stated["total epsilon"]) >= allocated["epsilon"]
    assert stated["way of asking"] == allocated["way"]
    assert stated["error"] == f"{allocated['error']:.6g}"
    assert stated["no mechanism has less than"] == f"{allocated['error_bound']:.6g}"
    assert stated["error over that"] == f"{allocated['error_over_bound']:.4g}"
    assert f"{len(checks)} of {len(checks)} checks held" in page.text
    digest = verified.get("design") or plan.asking.digest
    assert digest in page.text

    margins = {tuple(t["attributes"]): f"{100 * HALF_WIDTH * t['standard_error']:.4g}" for t in allocated["tables"]}
    head, *rows = page.table("question")
    asked = plan.question.specification.wording.questions
    singles = {asked.get(name, name): margins.get((name,), "") for name in plan.question.domain.names}
    assert {row[0]: row[-1] for row in rows} == {" ".join(key.split()): value for key, value in singles.items()}
    crossings = {crossed(names): margin for names, margin in margins.items() if len(names) > 1}
    if crossings:
        shown = {row[0]: row[2] for row in page.table("table")[1:]}
        assert shown == {name: crossings[name] for name in list(crossings)[:7]}
    if "conditional epsilon" in head:
        given = [epsilon_text(each["conditional_epsilon"]) for each in allocated["attributes"]]
        assert [row[3] for row in rows] == given
        assert stated["largest conditional epsilon"] == max(given, key=float)
    ways = {way["title"]: way for way in allocated["ways"]}
    for title, total, margin, over, _ in page.table("way of asking")[1:]:
        way = ways[title]
        assert float(total) == pytest.approx(way["epsilon"], abs=1e-3)
        assert margin == f"{100 * HALF_WIDTH * way['standard_error']:.4g}"
        assert over == f"{way['error_over_bound']:.4g}"


@pytest.mark.parametrize("seed", [1, 2])
def test_all_that_a_design_can_answer_is_answered(seed: int) -> None:
    plan = Plan.of(random_question(seed))
    text = Read(page_html(plan.statement())).text
    spent = plan.point.epsilon * plan.question.releases
    assert all(each in text for each in (promise(spent), example(spent), *plan.meaning.sentences()))
    # every question of the sheet, and of what is left to people six lines
    from optrr.designs.worksheet import worksheet  # noqa: PLC0415
    from optrr.ways.protocols.sampled_uses import questions_worksheet  # noqa: PLC0415

    sheet = (worksheet if isinstance(plan.asking, optrr.Design) else questions_worksheet)(plan.asking, plan.question.n)
    for entry in sheet.entries:
        assert entry.question in text
        assert not any(asked in text for asked in entry.for_you)
    page = Read(page_html(plan.statement()))
    (answered,) = (table for table in page.all_tables if table[0] == ["question", "answer"])
    assert [row[0] for row in answered[1:]] == for_you("") and len(answered) <= 7
    assert all(row[1] == "" for row in answered[1:])
    assert all(len(table) <= 13 for table in page.all_tables)


def test_what_is_not_promised_is_the_list_of_the_security_page() -> None:
    section = SECURITY.partition("## 4. What is not protected")[2].partition("\n## ")[0]
    named = {name.rstrip(".") for name in re.findall(r"^- \*\*(.+?)\*\*", section, re.MULTILINE)}
    assert set(NOT_PROMISED) == named - OF_FILES and named > OF_FILES
    public = declared({"attributes": [{"name": "a", "size": 2}], "public": {"weight": "w"}})
    said = Read(page_html(Plan.of(Question.of(public)).statement())).text
    assert "Public columns (w)" in said


def test_alternatives_seen_stand_beside_the_ways() -> None:
    question = random_question(0)
    seen = [SeenWay(0.5 + k, 100 + k, "kronecker", 12.5, math.inf if k else 3.0) for k in range(6)]
    page = Read(page_html(Plan.of(question, "", seen).statement()))
    rows = page.table("way of asking")[1:]
    assert [row[-1] for row in rows if row[0] == "kronecker"] == [f"seen with {100 + k} people" for k in range(4)]
    assert "listed in plan.toml" in page.text


def worst(letter: str) -> Plan:
    """As long as a plan can be, in everything that a statement shows."""
    m = 12
    names = [letter * 60 + str(k) for k in range(m)]
    attributes = [{"name": name, "size": 2 + k % 4, "question": letter * 90} for k, name in enumerate(names)]
    state = {
        "attributes": attributes,
        "title": letter * 300,
        "asker": letter * 300,
        "public": {"weight": letter * 50},
        "learn": [[name] for name in names] + [list(pair) for pair in pairwise(names)],
        "total": 4.0,
        "n": 123_456,
        "keep": "records",
        "releases": 12,
        "margin": 3.0,
    }
    question = Question.from_state(state)
    seen = [SeenWay(4.0 + k / 7, 10**10, "mixture-with-records", 123.456789, 12345.6789) for k in range(20)]
    return Plan.of(question, f"{letter * 10} " * 200, seen)


@pytest.mark.slow
def test_it_is_printed_on_two_sheets(tmp_path: Path, browser: Any) -> None:
    plans = [Plan.of(random_question(seed, 4), "for a test") for seed in range(3)]
    page = browser.new_page()
    for k, plan in enumerate([*plans, worst("W"), worst("é ")]):
        (tmp_path / f"{k}.html").write_text(page_html(plan.statement()), encoding="utf-8")
        page.goto((tmp_path / f"{k}.html").as_uri())
        assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) == 2, k


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
def test_it_is_read_on_any_screen(width: int, tmp_path: Path, browser: Any) -> None:
    (tmp_path / "s.html").write_text(page_html(Plan.of(random_question(4), "for a test").statement()), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 800}, bypass_csp=True)
    page = context.new_page()
    page.goto((tmp_path / "s.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert browsers.faults(page) == []
    context.close()
