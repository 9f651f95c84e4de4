"""What the page is given: texts in several languages, check boxes, numbers, conditions; and what the operator is warned of."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optrr
from optrr_solvers.allocation.questions import SubsetReport

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

from optrr.survey.preparing import prepared
from optrr.survey.words import words_record

SCHOOL: dict[str, Any] = {
    "epsilon": 1.0,
    "language": "de",
    "title": {"de": "Diebstahl", "ar": "سرقة"},
    "thanks": {"de": "Danke."},
    "attributes": [
        {
            "name": "theft",
            "categories": ["yes", "no"],
            "question": {"de": "Wurde dir etwas gestohlen?", "ar": "هل سُرق منك شيء؟"},
            "labels": {"de": ["Ja", "Nein"], "ar": ["نعم", "لا"]},
        },
        {
            "name": "often",
            "categories": ["not asked", "once", "more"],
            "ask_if": {"theft": ["yes"]},
            "question": "Wie oft?",
        },
        {"name": "age", "bins": ["-inf", 12, 15.5, "inf"], "closed": "right"},
        {"name": "born", "bins": ["-inf", "2000-01-01", "2010-01-01", "inf"], "question": "Geboren?"},
        {"name": "fruit: apples", "multi_select": ["fruit", ";", "apples"]},
    ],
}


def survey(folder: Path, **changes: Any) -> Any:
    path = folder / "s.json"
    path.write_text(json.dumps({**SCHOOL, **changes}))
    (folder / "s.design.json").unlink(missing_ok=True)
    return prepared(path)


def test_the_page_gets_texts_by_language_and_the_form(tmp_path: Path) -> None:
    made = survey(tmp_path)
    page = json.loads(made.page_json())
    assert page["languages"] == ["de", "ar"]
    assert page["texts"] == {
        "de": {
            "title": "Diebstahl",
            "thanks": "Danke.",
            "questions": {"theft": "Wurde dir etwas gestohlen?", "often": "Wie oft?", "born": "Geboren?"},
            "labels": {"theft": ["Ja", "Nein"]},
        },
        "ar": {"title": "سرقة", "questions": {"theft": "هل سُرق منك شيء؟"}, "labels": {"theft": ["نعم", "لا"]}},
    }
    assert page["boxes"] == {"fruit: apples": ["fruit", "apples"]}
    assert page["numbers"] == {"age": {"edges": [None, 12, 15.5, None], "closed": "right"}}
    assert page["branches"] == {"often": {"when": {"theft": ["yes"]}, "otherwise": "not asked"}}
    assert words_record("ar")["plurals"].keys() == {"zero", "one", "two", "few", "many", "other"}


def test_the_digest_is_that_of_all_that_changes_an_answer(tmp_path: Path) -> None:
    first = survey(tmp_path).asked
    theft, often, *rest = SCHOOL["attributes"]
    asked_otherwise = [
        {"title": {"de": "Diebstahl", "ar": "سرقات"}},
        {"attributes": [{**theft, "question": {"de": "Wurde dir etwas gestohlen?"}}, often, *rest]},
        {"attributes": [{**theft, "labels": {"de": ["Ja", "Nein"], "ar": ["لا", "نعم"]}}, often, *rest]},
        {"attributes": [theft, {**often, "ask_if": {"theft": ["no"]}}, *rest]},
    ]
    digests = [survey(tmp_path, **change).asked for change in asked_otherwise]
    assert len({first, *digests}) == 1 + len(asked_otherwise)
    assert survey(tmp_path, thanks="Merci", introduction={"ar": "مرحبا"}, asker="Wir").asked == first


def test_the_operator_is_warned_of_missing_texts_and_of_drafts(tmp_path: Path) -> None:
    bare, german, arabic, drafts = survey(tmp_path).unworded()
    assert "give a question to 'age'" in bare
    assert "who read de find other texts there; add labels of 'often', labels of 'born'" in german
    assert "who read ar find other texts there; add thanks, question of 'often', question of 'born'" in arabic
    assert "in de, ar are machine drafts that no speaker has reviewed" in drafts
    (unread,) = survey(
        tmp_path, title="x", thanks="y", attributes=[{**SCHOOL["attributes"][1], "ask_if": None}]
    ).unworded()
    assert "in de are machine drafts" in unread
    plain = {"language": "en", "title": "x", "thanks": "y", "attributes": [{"name": "a", "size": 2, "question": "A?"}]}
    assert survey(tmp_path, **plain).unworded() == []
    (swedish,) = survey(tmp_path, **{**plain, "language": "sv"}).unworded()
    assert "English, because there is no catalogue of sv" in swedish


def test_conditions_are_kept_where_people_are_asked_some_questions_only(tmp_path: Path) -> None:
    domain = survey(tmp_path).design.domain
    tables, reports = (("theft",), ("often",)), (SubsetReport((1,)),) * 2
    asking = optrr.SampledTables(domain, tables, np.full(2, 0.5), 1.0, reports)
    optrr.save(asking, tmp_path / "asked.json")
    made = prepared(tmp_path / "asked.json", tmp_path / "s.json")
    assert json.loads(made.page_json())["branches"].keys() == {"often"}
