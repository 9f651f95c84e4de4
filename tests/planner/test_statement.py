"""The statement for an ethics board: its numbers by plain formulas, its limits, and two sheets of A4 in Chromium."""

import builtins
import math
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import browsers
import numpy as np
import pytest
from html_page import Read
from plan_questions import random_question

import optrr
from optrr.core.design.specification import declared
from optrr.planner.plan import Plan
from optrr.planner.question import Question
from optrr.planner.statement import margin_text

SECURITY = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
# Limits of files and waiting times, which do not concern a plan.
OF_FILES = {"Libraries that read files", "Waiting for a large file", "Notes beside files"}
SCHOOL = {"theft": ["yes", "no"], "bullied": ["never", "sometimes", "often"], "class": 5}
# 1.96 standard errors, in percentage points.
HALF = 100 * 1.959964


def read(plan: Any) -> tuple[Read, str]:
    page = Read(re.sub(r"<style>.*?</style>", "", plan.statement(), flags=re.DOTALL))
    return page, " ".join(page.text.split())


def numbers(pattern: str, text: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, text)]


@pytest.mark.parametrize("way", ["optimum", "kronecker", "whole-record"])
def test_flips_are_those_of_the_randomization_matrix(way: str) -> None:
    plan: Any = optrr.plan(SCHOOL, 2.0, n=1500, records_only=True, protocol=way)
    page, text = read(plan)
    kernel = plan.asking.mechanism.kernel
    stay = [float(kernel(name).matrix()[0, 0]) for name in SCHOOL]
    _, *rows = page.all_tables[0]
    assert [numbers(r", (\d+) (?:is|are) recorded", row[1]) for row in rows] == [[round(100 - 100 * p)] for p in stay]
    assert rows[0][1].strip() == f"of 100 people who would say “yes”, {round(100 - 100 * stay[0])} are recorded as “no”"
    fewest = round(100 - 100 * max(stay))
    assert f", {fewest} are recorded" in page.quotes[0]
    # each margin is 1.96 standard errors of the true matrix, at most a tenth of a point more
    for row, p, r in zip(rows, stay, (2, 3, 5), strict=True):
        scale = p - (1 - p) / (r - 1)
        variance = ((1 - 1 / r) + (1 / scale**2 - 1) * (r - 1) / r) / (r * 1500)
        (margin,) = numbers(r"± ([\d.]+) percentage", row[2])
        assert HALF * math.sqrt(variance) <= margin * (1 + 1e-6) and margin < HALF * math.sqrt(variance) + 0.1001
    assert ("Usual method" in text) == (way != "kronecker")


@pytest.mark.parametrize(("total", "prior", "releases"), [(0.7, 0.1, 1), (2.0, 0.01, 3), (6.0, 0.5, 2)])
def test_what_an_observer_can_believe_follows_from_the_total(total: float, prior: float, releases: int) -> None:
    """By Bayes' rule with the factor e^ε, rounded up."""
    plan = optrr.plan(SCHOOL, total, records_only=True, protocol="kronecker").meant(prior, releases)
    page, text = read(plan)
    factor = math.exp(releases * plan.point.epsilon)
    after = 100 * prior * factor / (1 - prior + prior * factor)
    (said,) = numbers(r"at most (\d+) percent sure that this is the person’s answer", text)
    assert after <= said + 1e-6 and said < after + 1 + 1e-6
    (told,) = numbers(r"at most (\d+) percent sure that you would", page.quotes[0])
    assert told == said and f"thinks that {100 * prior:g} of 100 people like you would answer" in page.quotes[0]
    assert ("This protects little." in text) == (releases * plan.point.epsilon > math.log(9))
    # for comparison at four other values
    (others,) = re.findall(
        r"most (\d+) percent sure if ε were 0.5, (\d+) percent if it were 1, (\d+) percent if it were 2, "
        r"and (\d+) percent if it were 4",
        text,
    )
    exact = [100 * prior * math.exp(e) / (1 - prior + prior * math.exp(e)) for e in (0.5, 1, 2, 4)]
    assert all(x <= y < x + 1 + 1e-9 for x, y in zip(exact, map(int, others), strict=True))
    largest = math.exp(releases * max(each for *_, each in plan.asking.budgets))
    known = 100 * prior * largest / (1 - prior + prior * largest)
    knowing = (numbers(r"learns less, and can be at most (\d+) percent sure", text) or [said])[0]
    assert known <= knowing + 1e-6 and knowing < known + 1 + 1e-6
    for nats, truth in zip(numbers(r"Here ε is (\d+(?:\.\d+)?)", text), [plan.point.epsilon], strict=True):
        assert truth <= nats + 1e-12 and nats < truth + 1.001e-3
    assert (f"is asked 3 questions, {releases} times" in text) == (releases > 1)
    assert ("about all times together" in page.quotes[0]) == (releases > 1)


def test_local_queries_state_what_is_sent() -> None:
    """With k of r answers sent, the own one is missing with probability (r − k)/(r − k + k e^ε) (Ye & Barg 2018)."""
    plan: Any = optrr.plan({"theft": ["yes", "no"], "street": 30}, 1.0)
    page, text = read(plan)
    sizes = {
        names[0]: report.subset_sizes[0]
        for names, report in zip(plan.asking.tables, plan.asking.subset_reports, strict=True)
    }
    k, gain = sizes["street"], math.exp(plan.point.epsilon)
    assert sizes["theft"] == 1 and k > 1
    _, theft, street = page.all_tables[0]
    assert f"{round(100 / (1 + gain))} are recorded as “no”" in theft[1]
    assert f"{k} of the 30 answers are sent" in street[1]
    assert f"for {round(100 * k * gain / (30 - k + k * gain))} of 100 people, their own is one of them" in street[1]
    assert "is asked one of the 2 questions" in text and "Chance picks the questions" in page.quotes[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_numbers_are_those_of_the_allocation(seed: int) -> None:
    plan = Plan.of(random_question(seed), "for a test")
    page, text = read(plan)
    allocated = plan.allocation.summary()
    assert plan.asking.digest in text and "for a test" in text
    shown = {tuple(t["attributes"]): HALF * t["standard_error"] for t in allocated["tables"]}
    names = plan.question.domain.names
    for row, name in zip(page.all_tables[0][1:], names, strict=True):
        found = numbers(r"± ([\d.]+) percentage", row[2])
        if (name,) in shown and shown[name,] <= 50:
            assert shown[name,] <= found[0] * (1 + 1e-9) and found[0] < shown[name,] + 0.1001
    together = re.findall(r"(\d+(?: and \d+)*) and (\d+): (?:± ([\d.]+) percentage|no useful result)", text)
    crossings = [names_ for names_ in shown if len(names_) > 1]
    for (first, last, margin), wanted in zip(together, crossings, strict=False):
        assert [names.index(name) + 1 for name in wanted] == [*map(int, first.split(" and ")), int(last)]
        assert (shown[wanted] <= float(margin) * (1 + 1e-9)) if margin else shown[wanted] > 50
    assert len(together) == min(6, len(crossings))
    best = HALF * math.sqrt(allocated["error_bound"] / (plan.question.n * sum(t["cells"] for t in allocated["tables"])))
    (bound,) = numbers(r"more exact on average than ± ([\d.]+)", text) or [math.inf]
    assert best <= bound * (1 + 1e-9) and (bound < best + 0.1001 or best > 50)


def test_what_is_not_protected_is_the_list_of_the_security_page() -> None:
    section = SECURITY.partition("## 4. What is not protected")[2].partition("\n## ")[0]
    named = {name.rstrip(".") for name in re.findall(r"^- \*\*(.+?)\*\*", section, re.MULTILINE)}
    page, text = read(optrr.plan({"a": 2}, 1.0))
    limits = [given["data-limit"] for _, given in page.with_attributes if "data-limit" in given]
    assert sorted(limits) == sorted(named - OF_FILES) and named > OF_FILES
    assert "passed on unchanged" not in text
    public = declared({"attributes": [{"name": "a", "size": 2}], "public": {"weight": "w"}})
    assert "passed on unchanged, beside the answers: w." in read(Plan.of(Question.of(public)))[1]


def test_what_the_plan_does_not_know_has_room_to_write() -> None:
    page, text = read(optrr.plan({"a": 2}, 1.0))
    lines = [given for tag, given in page.with_attributes if given.get("class") == "line"]
    assert len(lines) == 18 and "Minors: under which age" in text
    assert not re.search(r"\bodds\b|mechanism|conditional epsilon", text)
    asked = optrr.plan(optrr.Specification.of({"a": 2}), 1.0, reason="The board asked for it.")
    assert "Why this ε and not a smaller one: The board asked for it." in read(asked)[1]


def test_a_margin_is_rounded_up_and_a_useless_one_is_not_stated() -> None:
    cases = {
        4.0: "4",
        4.0000000001: "4",
        4.0001: "4.1",
        0.123: "0.13",
        12.34: "12.4",
        50.0: "50",
        50.1: "",
        math.inf: "",
    }
    assert {points: margin_text(points) for points in cases} == cases


def test_english_needs_no_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *given: Any, **named: Any) -> Any:
        if name.startswith(("babel", "optrr.survey")):
            raise ModuleNotFoundError(name)
        return imported(name, *given, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    assert "Of 100 people" in optrr.plan({"a": ["yes", "no"]}, 1.0).statement()


def test_the_text_to_read_out_is_in_the_language_of_the_survey() -> None:
    wanted = {"attributes": [{"name": "a", "categories": ["ja", "nein"], "question": "Rauchen Sie?"}], "language": "de"}
    page, text = read(Plan.of(Question.of(declared(wanted))))
    (quote,) = (given for tag, given in page.with_attributes if tag == "blockquote")
    assert (quote["lang"], quote["dir"]) == ("de", "ltr")
    assert "translated by a machine" in text


def test_sentences_are_apart() -> None:
    for way in ("sampling", "optimum"):
        plan = optrr.plan(SCHOOL, 2.0, protocol=way).meant(releases=2)
        page, text = read(plan)
        assert not re.search(r"[.:]\w", page.quotes[0]) and not re.search(r"[a-z][.:][A-Z]", text)


def test_answers_have_their_labels_and_questions_their_conditions() -> None:
    wanted = {
        "attributes": [
            {"name": "theft", "categories": ["yes", "no"], "labels": ["Yes, once or more", "No"]},
            {"name": "told", "categories": ["not asked", "yes", "no"], "ask_if": {"theft": ["yes"]}},
        ],
        "margins": {"theft": 4},
    }
    page, text = read(Plan.of(Question.from_state(wanted)))
    _, theft, told = page.all_tables[0]
    assert "(Yes, once or more, No)" in theft[0] and "would say “Yes, once or more”" in theft[1]
    assert "(yes, no; only if 1 is yes)" in told[0] and "would say “yes”" in told[1]
    assert theft[2].endswith("; ± 4 was wanted") and "Some results are less exact than wanted." in text
    assert "wanted" not in told[2]
    met, text = read(Plan.of(Question.from_state(wanted | {"margins": {"theft": 20}})))
    assert met.all_tables[0][1][2].endswith(" (required ± 20)") and "less exact than wanted" not in text


def plan_of(rng: np.random.Generator, questions: int, tables: int, letter: str = "") -> Plan:
    """A plan of so many questions and, about, tables, with short or long texts."""
    attributes: list[dict[str, Any]] = [
        {
            "name": f"q{i}",
            "categories": [f"{letter * 30}{k}" for k in range(int(rng.integers(2, 6)))],
            "question": letter * 150 or " ".join(["word"] * int(rng.integers(3, 30))),
        }
        for i in range(questions)
    ]
    pairs = [list(pair) for pair in combinations([a["name"] for a in attributes], 2)]
    chosen = rng.permutation(len(pairs))[: max(0, tables - questions)]
    state = {
        "attributes": attributes,
        "title": letter * 200 or "Life",
        "asker": letter * 200 or "School",
        "learn": [[a["name"]] for a in attributes] + [pairs[k] for k in chosen],
        "total": float(rng.uniform(1, 6)),
        "n": int(rng.integers(1000, 10**6)),
        "keep": "records",
        "way": "kronecker",
        "releases": int(rng.integers(1, 4)),
        "margin": 12.3456,
        "public": {"weight": letter * 50 or "w"},
    }
    return Plan.of(Question.from_state(state), f"{letter * 10} reason " * 100)


@pytest.mark.slow
def test_it_prints_on_two_sheets_with_no_text_below_nine_and_a_half_points(tmp_path: Path, browser: Any) -> None:
    rng = np.random.default_rng(49)
    sizes = [
        (2, 1),
        (3, 5),
        (12, 12),
        (12, 60),
        (40, 100),
        *((int(rng.integers(2, 41)), int(rng.integers(1, 101))) for _ in range(2)),
    ]
    plans = [plan_of(rng, *size) for size in sizes]
    plans += [plan_of(rng, 14, 30, letter) for letter in ("W", "é ", "設")]
    plans += [Plan.of(random_question(seed, 4), reason) for seed in range(2) for reason in ("", "for a test")]
    page = browser.new_page()
    page.emulate_media(media="print")
    for k, plan in enumerate(plans):
        (tmp_path / "s.html").write_text(plan.statement(), encoding="utf-8")
        page.goto((tmp_path / "s.html").as_uri())
        pdf = page.pdf(prefer_css_page_size=True)
        assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 2, k
        width, height = map(float, re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf).groups())  # type: ignore[union-attr]
        assert (round(width / 72 * 25.4), round(height / 72 * 25.4)) == (210, 297)
        sizes_of_text = page.evaluate(
            "[...document.querySelectorAll('body *')]"
            ".filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))"
            ".map(e => parseFloat(getComputedStyle(e).fontSize))"
        )
        assert min(sizes_of_text) >= 9.5 * 96 / 72 - 1e-6
        # lines to write on by hand are seven millimetres high
        heights = page.evaluate(
            "[...document.querySelectorAll('.line, .signatures td')].map(e => e.getBoundingClientRect().height)"
        )
        assert min(heights) >= 7 * 96 / 25.4


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
def test_it_is_read_on_any_screen(width: int, tmp_path: Path, browser: Any) -> None:
    (tmp_path / "s.html").write_text(Plan.of(random_question(4), "for a test").statement(), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 800}, bypass_csp=True)
    page = context.new_page()
    page.goto((tmp_path / "s.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert browsers.faults(page) == []
    context.close()
