"""What a plan's page says equals what an allocation says, to the digits shown; and the lines to copy give the same."""

import html
import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from plan_questions import random_question

import optrr
from optrr.planner.preview import LADDER, Preview, nearest, point, total_for
from optrr.planner.question import Question
from optrr.planner.sections import CANNOT_TELL, Shown, digits, interval_text, points_text
from optrr.survey.charts import frontier_chart

NBSP = "\u00a0"


def text_of(fragment: str) -> str:
    spaced = fragment.replace("&nbsp;", "_").replace(NBSP, "_")
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", spaced)))


def lines_of(question: Question) -> str:
    """The lines of Python to copy."""
    fragment = Shown(question, None, ()).fragments()["python"]
    return html.unescape(re.sub(r"<[^>]*>", "", fragment))


def shown_numbers(fragment: str, before: str = "±_") -> list[float]:
    return [float(x.replace(",", "")) for x in re.findall(rf"{before}([\d.,]*\d)", text_of(fragment))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_exact_numbers_are_an_allocations_to_the_digits_shown(seed):
    question = replace(random_question(seed, 3), way=None)
    made = optrr.allocate(
        question.domain, question.total, workload=question.learn, n=question.n, records_only=question.keep is not None
    )
    exact = point(replace(question, n=10**10))
    fragments = Shown(question, Preview(question, exact), [exact]).fragments()
    summary = made.summary()

    # every table's margin, beside the part of sampling
    margins = shown_numbers(fragments["see"])
    expected = []
    for table in summary["tables"]:
        expected += [195.9964 * table["standard_error"]] * (195.9964 * table["standard_error"] <= 50)
        expected += [195.9964 * math.sqrt(table["sampling_error"] / (question.n * table["cells"]))]
    assert margins == [pytest.approx(x, rel=6e-4) for x in expected]

    # the best five ways, in the same order
    ways = [way["standard_error"] for way in summary["protocols"][:5] if way["standard_error"] is not None]
    assert shown_numbers(fragments["ways"]) == [
        pytest.approx(195.9964 * x, rel=6e-4) for x in ways if 195.9964 * x <= 50
    ]
    for way in summary["protocols"][:5]:
        assert " ".join(way["title"].split()) in text_of(fragments["ways"])

    spend = text_of(fragments["spend"])
    epsilon = float(re.search(r"ε = ([\d.]+)", spend)[1])
    assert summary["epsilon"] <= epsilon <= summary["epsilon"] + 1.001e-4
    for sentence in summary["sentences"]:
        assert " ".join(sentence.split()) in spend
    assert "≈" not in "".join(text for place, text in fragments.items() if place != "pairs")


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
        # what another total has is not shown as this one's
        assert not {"ways", "spend"} & set(fragments)


@pytest.mark.parametrize("seed", range(4))
def test_the_lines_to_copy_give_the_numbers_of_the_page(seed, tmp_path, monkeypatch, capsys):
    question = random_question(100 + seed, 3)
    tables = [table.attributes for table in question.learn.tables]
    question = replace(
        question, way="kronecker" if question.keep else None, margins={tables[0]: 20.0, tables[-1]: 10.0}
    )
    expected = point(replace(question, n=10**10))

    monkeypatch.chdir(tmp_path)
    (tmp_path / "specification.toml").write_text(question.specification.to_toml(), encoding="utf-8")
    space: dict[str, object] = {}
    exec(lines_of(question), space)
    made = space["plan"].point
    assert made.way.name == expected.way.name and made.way.error == expected.way.error
    assert space["plan"].question.state().get("margins") == question.state().get("margins")


def test_a_protocol_of_a_strange_name_is_quoted(school):
    assert 'protocol="it\'s; \\"x\\""' in lines_of(replace(school, way='it\'s; "x"'))


def test_where_nothing_can_be_learned_the_remedy_is_said(school):
    exact = point(replace(school.at(0.2), n=10**10))
    few = replace(school, total=0.2, n=20)
    said = text_of(Shown(few, Preview(few, exact), [exact]).fragments()["see"])
    assert "say nothing: any guess is as good" in said and said.count(CANNOT_TELL) == 1 + len(exact.tables)
    # an example of a margin shows what would be enough
    assert "These reach every result ± 10 points, an example" in text_of(Shown(few, None, [exact]).fragments()["pairs"])


@pytest.mark.parametrize("margin", [math.inf, 50.001, 50.0, 0.1])
@pytest.mark.parametrize("exact", [True, False])
def test_a_margin_above_50_points_cannot_tell(margin, exact):
    assert (points_text(margin, exact) == CANNOT_TELL) == (margin > 50)


def test_what_is_always_seen_and_the_example_are_about_the_required_margins(school):
    """The example's question has no answer yes; which margins are reached is said with the one that hinges first."""
    exact = point(replace(school.at(1.0), n=10**10))
    tables = {t.attributes: t.margin for t in Preview(replace(school, total=1.0), exact).tables}
    (one, first), (other, second) = sorted(tables.items())[:2]
    asked = replace(school, total=1.0, margins={one: math.ceil(first), other: math.floor(second)})
    fragments = Shown(asked, Preview(asked, exact), [exact]).fragments()
    said = text_of(fragments["verdict"])
    assert re.search(rf"{' × '.join(other)} ±_{digits(second, 3)}, required ±_{math.floor(second)}: missed ?; ", said)
    assert f"{' × '.join(one)} ±_{digits(first, 3)}, required ±_{math.ceil(first)}: reached" in said
    assert "least accurate" not in said and said.index("missed") < said.index("reached")
    assert f"one combination of answers to {' × '.join(other)}" in text_of(fragments["see"])
    single = Question.from_state(school.state() | {"learn": "marginals", "margins": {"bullied": 20.0}})
    exact = point(replace(single.at(1.0), n=10**10))
    seen = text_of(Shown(single, Preview(single, exact), [exact]).fragments()["see"])
    assert "30 % of them say “never” to bullied" in seen


def test_the_belief_is_about_an_answer_yes_where_there_is_one(school):
    def said(question: Question) -> str:
        return text_of(Shown(question, None, ()).fragments()["verdict"])

    assert "10 of 100 people would say “yes” to theft can at most become 24 of 100 sure that this person did" in said(
        school
    )
    attributes = school.state()["attributes"]
    turned = Question.from_state(school.state() | {"attributes": attributes[::-1]})
    assert "“yes” to theft" in said(turned)
    without = Question.from_state(school.state() | {"attributes": attributes[1:]})
    assert "“never” to bullied" in said(without)


@pytest.mark.parametrize(("learn", "picked"), [("marginals", True), ([["theft", "bullied", "sex"]], False)])
def test_where_chance_picks_the_questions_the_reason_is_said_at_the_questions(school, learn, picked):
    question = Question.from_state(school.state() | {"learn": learn})
    exact = point(replace(question, n=10**10))
    assert (len({query.attributes for query in exact.queries}) > 1) == picked
    fragments = Shown(question, Preview(question, exact), [exact]).fragments()
    assert ("because each further answer costs protection" in fragments["chance"]) == picked
    assert ("of 1,000 people are asked about theft" in text_of(fragments["chance"])) == picked
    assert "Chance picks" not in fragments["see"]


def test_before_anything_is_computed_the_bound_is_known_and_the_promise(school):
    fragments = Shown(school, None, ()).fragments()
    bound = school.learn.error_bound(school.domain, school.total)
    typical = 195.9964 * school.learn.typical_standard_error(school.domain, bound, school.n)
    assert f"below ±_{digits(typical, 4)} points" in text_of(Shown(school, None, (), "refused").fragments()["spend"])
    assert "is true of you at 24 in 100 at most" in fragments["told"] and "10 of 100" in text_of(fragments["told"])
    assert "being computed" in fragments["see"] and "24 of 100" in fragments["verdict"]


def test_pairs_of_people_and_totals_reach_the_margin_and_the_weak_ones_are_marked(school):
    """Each total is checked against an allocation at it: its margin is met, and missed at a tenth less."""
    question = replace(school, margins={("theft", "sex"): 6.0}, n=2000, releases=2)
    curve = [point(question.at(total)) for total in LADDER]
    shown = Shown(question, None, curve)
    marked = re.findall(r"<tr (class.*?)</tr>", shown.fragments()["pairs"], re.DOTALL)
    rows = [(*pair, row) for pair, row in zip(shown.pairs, marked, strict=True)]
    assert [people for people, *_ in rows] == [500, 1000, 2000, 4000, 8000, 20000]
    found = [row for row in rows if row[1] is not None]
    assert len(found) >= 4
    for people, total, row in found:
        asked = replace(question, n=people)
        for factor, missed in ((1.0, 0), (0.9, 1)):
            at = asked.at(total * factor)
            # interpolated to a few thousandths
            (table,) = (t for t in Preview(at, point(at)).tables if t.attributes == ("theft", "sex"))
            assert (table.margin > 6.0 * 1.005) == missed
        odds = math.exp(2 * total) / 9
        after = math.ceil(100 * odds / (1 + odds))
        assert (
            f"{after} of 100" in row and (row.startswith('class="little"'), "protects little" in row) == (odds > 1,) * 2
        )
        said = shown.said("total_said", total)
        assert ("That protects little" in said, f"{after} of 100 sure" in said) == (odds > 1, True)
    assert total_for(curve, question, 30) is None


def test_a_question_that_no_table_needs_is_left_out_and_can_be_added(school):
    question = Question.from_state(school.state() | {"learn": [["theft"], ["sex", "theft"]]})
    assert question.left_out == ("bullied",) and question.domain.names == ("theft", "sex")
    assert question.state()["attributes"] == [a for a in school.state()["attributes"] if a["name"] != "bullied"]
    said = Shown(question, None, ()).fragments()["unneeded"]
    assert 'data-add-table="bullied"' in said and "No result needs «<bdi>bullied</bdi>»" in said
    assert not Shown(school, None, ()).fragments()["unneeded"].strip()


def test_texts_of_strangers_are_escaped_everywhere(school):
    state = school.state()
    evil = "<img src=x onerror=alert(1)>"
    state["attributes"][0] = {"name": evil, "categories": ["</script><script>", '" onclick="']}
    question = Question.from_state(state)
    exact = point(replace(question, n=10**10))
    for fragment in Shown(question, Preview(question, exact), [exact]).fragments().values():
        assert "<img" not in fragment and "<script" not in fragment and 'onclick="' not in fragment


SVG = "{http://www.w3.org/2000/svg}"


def root_of(markup):
    root = ElementTree.fromstring(markup)
    assert (root.tag, root.get("role")) == (f"{SVG}svg", "img")
    # colours are the style sheet's, and nothing runs or is fetched
    assert not re.search(r"style=|href|<script|#[0-9a-f]{3}", markup)
    return root


def marks(root, kind, tag="circle"):
    return [mark for mark in root.iter(f"{SVG}{tag}") if mark.get("class") == kind]


@pytest.mark.parametrize("seed", range(20))
def test_the_frontier_is_even_in_logarithms_and_ends_where_its_attributes_say(seed):
    rng = np.random.default_rng(seed)
    totals = np.sort(rng.uniform(0.125, 16, 8))
    margins = np.sort(rng.uniform(0.01, 200, 8))[::-1]
    chosen = [(totals[3], margins[3])]
    chart = frontier_chart(
        [*zip(totals, margins, strict=True)], [*zip(totals, margins / 2, strict=True)], chosen, (0.125, 1, 16), 2.0
    )
    root = root_of(chart)
    (weak,) = marks(root, "little", "rect")
    left, right = float(root.get("data-left")), float(root.get("data-right"))
    # the weak zone is from 2 to 16 of 0.125 to 16: three of seven doublings
    assert float(weak.get("width")) == pytest.approx((right - left) * 3 / 7, abs=0.1)
    dots = marks(root, "point")
    x = np.array([float(dot.get("cx")) for dot in dots])
    np.testing.assert_allclose((x - left) / (right - left), np.log(totals / 0.125) / math.log(16 / 0.125), atol=1e-3)
    y = np.array([float(dot.get("cy")) for dot in dots])
    slopes = np.diff(y) / np.diff(np.log(margins))
    big = np.abs(np.diff(np.log(margins))) > 0.1
    np.testing.assert_allclose(slopes[big], np.median(slopes[big]), rtol=0.05)
    (large,) = marks(root, "chosen")
    assert (large.get("cx"), large.get("cy")) == (dots[3].get("cx"), dots[3].get("cy"))
    for total, margin in zip(totals, margins, strict=True):
        assert f"ε {total:.2g}: ±{digits(margin, 2)}" in root.get("aria-label")


def test_a_frontier_without_points_or_with_impossible_ones_is_drawn():
    for totals, margins in (((), ()), ((1.0,), (math.inf,)), ((1.0, 2.0), (math.inf, 3.0)), ((1.0, 2.0), (3.0, 3.0))):
        for chosen in ([], [(1.5, math.inf)], [(0.05, 3.0)], [(20.0, 3.0)]):
            chart = frontier_chart([*zip(totals, margins, strict=True)], [], chosen, (0.125, 16), 2.2)
            assert "nan" not in chart and "inf" not in chart
            root_of(chart)


@pytest.mark.parametrize(("prior", "before"), [(0.01, 1), (0.1, 10), (0.333, 34), (0.99, 99)])
def test_of_a_hundred_dots_so_many_are_filled(prior, before, school):
    told = Shown(replace(school, prior=prior, total=1.5), None, ()).fragments()["told"]
    root = root_of(told[told.index("<svg") : told.index("</svg>") + 6])
    filled = [float(dot.get("cx")) for dot in marks(root, "dot filled")]
    every = filled + [float(dot.get("cx")) for dot in marks(root, "dot")]
    middle = (min(every) + max(every)) / 2
    assert len(every) == 200
    odds = math.exp(1.5) * prior / (1 - prior)
    after = math.ceil(100 * odds / (1 + odds))
    assert (sum(x < middle for x in filled), sum(x > middle for x in filled)) == (before, after)
    assert f"Before: {before} of 100; after: at most {after} of 100." in root.get("aria-label")


def test_figures_have_the_digits_that_they_say():
    rng = np.random.default_rng(0)
    for value in np.exp(rng.uniform(-9, 25, 500)):
        for count in (2, 4):
            read = float(digits(value, count).replace(",", ""))
            assert abs(read / value - 1) <= 0.5 * 10.0 ** (1 - count) * (1 + 1e-9)
            assert "e" not in digits(value, count)
    assert [digits(x, 4) for x in (0, 1, 1234567, 0.5)] == ["0", "1", "1,235,000", "0.5"]


def test_an_interval_is_rounded_outwards_and_stays_within_everything():
    rng = np.random.default_rng(1)
    for share, margin in rng.uniform(0.02, 60, (300, 2)):
        low, high = (float(x) for x in interval_text(share, margin).removesuffix(" %").split("–"))
        assert max(0, share - margin - 1) <= low <= max(share - margin, 0) + 1e-9
        assert min(share + margin, 100) - 1e-9 <= high <= min(100, share + margin + 1)
        assert low < high
