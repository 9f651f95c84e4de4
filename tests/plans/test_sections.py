"""What a plan's page says equals what an allocation says, to the digits shown; and the lines to copy give the same."""

import html
import json
import math
import re
import shlex
from dataclasses import replace

import numpy as np
import pytest

import optrr
from optrr.cli.main import run
from optrr.designs.specification import declared
from optrr.plans.preview import LADDER, Preview, nearest, point
from optrr.plans.question import Question
from optrr.plans.sections import Shown, python_lines, shell_lines

NBSP = "\u00a0"


def random_question(rng: np.random.Generator) -> Question:
    """Two or three attributes, any tables, any choices."""
    sizes = rng.integers(2, 5, int(rng.integers(2, 4))).tolist()
    names = [f"a{k} \u00e9\u4e2d\U0001f600'\"" for k in range(len(sizes))]
    attributes = [
        {"name": name, "categories": [f"c{j}" for j in range(r)]} for name, r in zip(names, sizes, strict=True)
    ]
    learn = ["marginals", "pairs", [tuple(names)], [tuple(names[:2]), *((n,) for n in names[2:])]][rng.integers(4)]
    return Question.of(
        declared({"title": "x", "attributes": attributes}),
        learn,
        total=float(np.round(np.exp(rng.uniform(-1, 2)), 3)),
        n=int(rng.integers(50, 10**6)),
        keep=[None, "records"][rng.integers(2)],
    )


def text_of(fragment: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", fragment.replace(NBSP, "_"))))


def shown_numbers(fragment: str, before: str = "±_") -> list[float]:
    return [float(x.replace(",", "")) for x in re.findall(rf"{before}([\d.,]*\d)", text_of(fragment))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_exact_numbers_are_an_allocations_to_the_digits_shown(seed):
    question = random_question(np.random.default_rng(seed))
    made = optrr.allocate(question.domain, question.total, learn=question.learn, n=question.n, keep=question.keep)
    exact = point(replace(question, n=10**10))
    fragments = Shown(question, Preview(question, exact), [exact]).fragments()
    summary = made.summary()

    # every table's margin, beside the part of sampling
    margins = shown_numbers(fragments["see"])
    expected = []
    for table in summary["tables"]:
        expected += [195.9964 * table["standard_error"]]
        expected += [195.9964 * math.sqrt(table["sampling_error"] / (question.n * table["cells"]))]
    assert margins == [pytest.approx(x, rel=6e-4) for x in expected]

    # every way, in the same order
    ways = [way["standard_error"] for way in summary["ways"] if way["standard_error"] is not None]
    assert shown_numbers(fragments["ways"]) == [pytest.approx(195.9964 * x, rel=6e-4) for x in ways]
    for way in summary["ways"]:
        assert way["title"] in text_of(fragments["ways"])

    spend = text_of(fragments["spend"])
    epsilon = float(re.search(r"ε = ([\d.]+)", spend)[1])
    assert summary["epsilon"] <= epsilon <= summary["epsilon"] + 1.001e-4
    for sentence in summary["sentences"]:
        assert " ".join(sentence.split()) in spend
    assert "≈" not in "".join(fragments.values())


@pytest.mark.slow
def test_a_preview_carries_its_mark_and_is_near_the_exact_numbers(school):
    points = [point(replace(school.at(total), n=10**10)) for total in LADDER[6:9]]
    for total in (1.1, 1.3):
        question = school.at(total)
        between = nearest(points, question)
        fragments = Shown(question, Preview(question, between), points).fragments()
        got = shown_numbers(fragments["see"], "≈_±_")
        exact = Preview(question, point(replace(question, n=10**10)))
        assert got == [pytest.approx(table.margin, rel=0.08) for table in exact.tables]
        assert "≈" in fragments["ways"] and "≈" in fragments["spend"]


@pytest.mark.parametrize("seed", range(4))
def test_the_lines_to_copy_give_the_numbers_of_the_page(seed, tmp_path, monkeypatch, capsys):
    question = random_question(np.random.default_rng(100 + seed))
    way = "kronecker" if question.keep else None
    question = replace(question, way=way)
    expected = point(replace(question, n=10**10))

    space: dict[str, object] = {}
    exec("\n".join(python_lines(question)), space)
    made = space["allocation"]
    assert made.way.name == expected.way.name and made.error == expected.way.error

    monkeypatch.chdir(tmp_path)
    *files, command = shell_lines(question)
    for name, content in re.findall(r"^cat > (\S+) <<'END'\n(.*?)\nEND$", "\n".join(files), re.DOTALL | re.MULTILINE):
        (tmp_path / name).write_text(content + "\n", encoding="utf-8")
    assert command.startswith("optrr allocate questions.toml ")
    capsys.readouterr()
    assert run([*command.split()[1:], "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["way"] == expected.way.name
    assert said["error"] == pytest.approx(expected.way.error, rel=1e-9)


def test_what_a_way_gives_up_is_never_said_of_a_smaller_total(school):
    low, high = (point(replace(school.at(total), n=10**10)) for total in LADDER[6:8])
    between = nearest([low, high], school.at(1.3))
    said = {way.name: way.gives_up for way in high.ways}
    assert [way.gives_up for way in between.ways] == [said[way.name] for way in between.ways]


def test_a_way_of_a_strange_name_is_one_word_of_the_command(school):
    *_, command = shell_lines(replace(school, way="optimum; echo"))
    assert shlex.split(command)[-1] == "optimum; echo"


def test_where_nothing_can_be_learned_the_remedy_is_said(school):
    exact = point(replace(school.at(0.2), n=10**10))
    few = replace(school, total=0.2, n=20)
    said = text_of(Shown(few, Preview(few, exact), [exact]).fragments()["see"])
    needed = int(re.search(r"about ([\d,]+) people would give ± 10 points", said)[1].replace(",", ""))
    assert "nothing can be learned of any table" in said
    assert max(t.margin for t in Preview(replace(few, n=needed), exact).tables) <= 10


def test_before_anything_is_computed_the_bound_is_known_and_the_promise(school):
    fragments = Shown(school, None, ()).fragments()
    spend = text_of(fragments["spend"])
    bound = school.learn.error_bound(school.domain, school.total)
    typical = 195.9964 * school.learn.typical_standard_error(school.domain, bound, school.n)
    assert float(re.search(r"typical margin below ± ([\d.]+)", spend)[1]) == pytest.approx(typical, rel=6e-4)
    assert "a factor of 2.72" in spend and "10 of 100" in text_of(fragments["told"])
    assert "being computed" in fragments["see"]


def test_texts_of_strangers_are_escaped_everywhere(school):
    state = school.state()
    evil = "<img src=x onerror=alert(1)>"
    state["attributes"][0] = {"name": evil, "categories": ["</script><script>", '" onclick="']}
    question = Question.from_state(state)
    exact = point(replace(question, n=10**10))
    for fragment in Shown(question, Preview(question, exact), [exact]).fragments().values():
        assert "<img" not in fragment and "<script" not in fragment and 'onclick="' not in fragment
