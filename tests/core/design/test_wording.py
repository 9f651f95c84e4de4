"""Texts in several languages and conditions of questions, in specification files."""

import json
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optrr.core.design import Specification, Wording
from optrr.core.design.specification import declared
from optrr.core.design.wording import Branch
from optrr.core.errors import InvalidInput

LINES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(lambda x: x.strip())
LANGUAGES = st.sampled_from(["en", "de", "ar", "ja", "pt-BR"])
TEXTS = LINES | st.dictionaries(LANGUAGES, LINES, min_size=1, max_size=3)


@st.composite
def specifications(draw):
    attributes = []
    for k in range(draw(st.integers(1, 4))):
        categories = draw(st.lists(LINES, min_size=2, max_size=4, unique=True))
        if asked := attributes and draw(st.booleans()):
            categories = [*categories, draw(st.sampled_from(["not asked", "-"]))]
        found = {"name": f"{k} {draw(LINES)}", "categories": list(dict.fromkeys(categories))}
        size = len(found["categories"])
        if draw(st.booleans()):
            found["missing"] = True
            size += 1
        if draw(st.booleans()):
            found["question"] = draw(TEXTS)
        lists = st.lists(LINES, min_size=size, max_size=size, unique=True)
        if draw(st.booleans()):
            found["labels"] = draw(lists | st.dictionaries(LANGUAGES, lists, min_size=1, max_size=2))
        if asked:
            parents = draw(st.lists(st.sampled_from(attributes), min_size=1, max_size=2, unique_by=lambda a: a["name"]))
            found["ask_if"] = {p["name"]: p["categories"][: draw(st.integers(1, 2))] for p in parents}
            if found["categories"][-1] != "not asked":
                found["not_asked"] = found["categories"][-1]
        attributes.append(found)
    whole = {key: draw(TEXTS) for key in ("title", "asker", "introduction", "thanks") if draw(st.booleans())}
    return whole | {"epsilon": 1.0, "attributes": attributes} | draw(st.sampled_from([{}, {"language": "de"}]))


@settings(max_examples=60, deadline=None)
@given(specifications())
def test_texts_and_conditions_survive_every_form_of_a_file(raw):
    first = declared(raw)
    assert len(first.branches) == sum("ask_if" in a for a in raw["attributes"])
    for content in (tomllib.loads(first.to_toml()), json.loads(json.dumps(first.record()))):
        again = declared(content)
        assert again.domain == first.domain
        assert again.wording == first.wording
        assert again.branches == first.branches
    kept = {a["name"]: a for a in first.record()["attributes"]}
    for a in raw["attributes"]:
        assert [kept[a["name"]].get(key) for key in ("question", "labels")] == [
            a.get(key) for key in ("question", "labels")
        ]


def test_a_text_falls_back_to_the_default_language():
    wording = Wording(language="de", title={"ar": "ب", "de": "A"}, thanks={"fr": "Merci"}, asker="Wir")
    assert wording.languages == ("de", "ar", "fr")
    assert wording.text(wording.title, "ar") == ("ب", "ar")
    assert wording.text(wording.title, "fr") == ("A", "de")
    assert wording.text(wording.thanks, "ar") == ("Merci", "fr")
    assert wording.text(wording.asker, "ar") == ("Wir", "de")
    assert wording.text(None, "ar") == (None, "de")
    assert Wording().languages == ("en",)
    assert Wording(title={"fr": "Vol", "de": "Raub"}).languages == ("fr", "de")


THEFT = {"name": "theft", "categories": ["yes", "no"]}
OFTEN = {"name": "often", "categories": ["not asked", "once", "more"], "ask_if": {"theft": ["yes"]}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"ask_if": {"thefts": ["yes"]}},
            "'thefts' is not an earlier attribute; did you mean 'theft'",
        ),
        ({"ask_if": {"often": ["once"]}}, "ask_if: 'often' is not an earlier attribute"),
        ({"ask_if": {"later": ["a"]}}, "ask_if: 'later' is not an earlier attribute"),
        ({"ask_if": {"theft": ["maybe"]}}, "ask_if: 'maybe' is not a category of 'theft'; choose among 'yes', 'no'"),
        ({"ask_if": {"theft": []}}, "ask_if: has no category of 'theft'"),
        ({"ask_if": {}}, "ask_if: names no attribute"),
        ({"not_asked": "nobody"}, "not_asked: 'nobody' is not one of its categories; add it"),
        ({"categories": ["once", "more"]}, "not_asked: 'not asked' is not one of its categories; add it"),
        ({"ask_if": None, "not_asked": "once"}, "not_asked: there is no ask_if"),
        ({"labels": ["a", "b"]}, "labels: 2 for 3 categories; give one for each"),
        ({"labels": {"de": ["a", "b", "a"]}}, "labels: 'a' occurs twice"),
        ({"labels": ["a", "b", " "]}, "labels: is ' '"),
        ({"missing": True, "labels": ["a", "b", "c"]}, "3 for 4 categories; .* the missing value last"),
        ({"question": {"german": "Ja?"}}, "question: 'german' is not the code of a language"),
        ({"question": {}}, "question: has no language"),
        ({"question": {"de": 3}}, "attribute 'often', question"),
    ],
)
def test_bad_texts_and_conditions_say_what_and_the_remedy(change, message):
    later = {"name": "later", "categories": ["a", "b"]}
    attribute = {key: value for key, value in {**OFTEN, **change}.items() if value is not None}
    with pytest.raises(InvalidInput, match=message):
        declared({"attributes": [THEFT, attribute, later]})


def test_conditions_compare_categories_by_their_texts():
    made = declared(
        {
            "attributes": [
                {"name": "n", "size": 3},
                {"name": "b", "categories": [True, False]},
                {**OFTEN, "ask_if": {"n": [1, "2"], "b": [True]}},
            ]
        }
    )
    assert made.branches == {"often": Branch({"n": ("1", "2"), "b": ("true",)})}
    assert Specification.of({"sex": ["F", "M"]}).branches == {}


def test_a_column_with_several_answers_has_a_question_of_its_own():
    fruit = {"name": "fruit: apples", "multi_select": ["fruit", ";", "apples"], "question": {"de": "Äpfel"}}
    columns = {"fruit": {"de": "Welches Obst?", "en": "Which fruit?"}}
    made = declared({"language": "de", "epsilon": 1.0, "columns": columns, "attributes": [fruit]})
    for content in (tomllib.loads(made.to_toml()), made.record()):
        assert declared(content).wording == made.wording
    assert made.wording.given("en") == {"columns": {"fruit": "Which fruit?"}}
    assert made.wording.lacking("en", []) == ["question of 'fruit: apples'"]
    with pytest.raises(InvalidInput, match="columns: 'friut' is not a column with several answers; did you mean 'fr"):
        declared({"columns": {"friut": "?"}, "attributes": [fruit]})
