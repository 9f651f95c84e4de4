"""A recorded decision is read back and recomputes to itself; what is handed over does what it is for, whole."""

import json
import math
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_questions import alike, random_question

import optrr
from optrr.cli.main import run
from optrr.core.design.specification import read_specification, toml_text
from optrr.planner import plan as plan_module
from optrr.planner.plan import Plan
from optrr.planner.plan_file import read_plan, verify_plan
from optrr.planner.preview import HALF_WIDTH
from optrr.planner.question import Question
from optrr.survey.preparing import prepared

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_VALUES = st.one_of(
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False),
    _TEXTS,
    st.lists(_TEXTS, max_size=12),
    st.lists(st.integers(), max_size=3),
    st.lists(st.lists(_TEXTS, min_size=1, max_size=3), min_size=1, max_size=3),
)
_FLAT = st.dictionaries(_TEXTS, _VALUES, max_size=4)
_DEEP = st.dictionaries(_TEXTS, st.one_of(_VALUES, _FLAT, st.lists(_FLAT, min_size=1, max_size=3)), max_size=4)


@pytest.mark.slow
@given(st.dictionaries(_TEXTS, st.one_of(_VALUES, _DEEP, st.lists(_DEEP, min_size=1, max_size=3)), max_size=4))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_toml_is_read_back_as_it_was_written(content: dict[str, object]) -> None:
    assert tomllib.loads(toml_text(content)) == content


def made(seed: int, most: int = 4) -> Plan:
    question = random_question(seed, most)
    return Plan.of(question, 'Because "three"\nboards asked.')


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(made(3, 2).to_toml(), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_plan_is_read_back_and_holds(seed: int, tmp_path: Path) -> None:
    plan, path = made(seed), tmp_path / "plan.toml"
    path.write_text(plan.to_toml(), encoding="utf-8")
    read = read_plan(path)
    assert read.question.state() == plan.question.state()
    assert read.reason == plan.reason
    result = verify_plan(path)
    assert result.holds, result.failed
    assert int(result.checks[0].stated.split()[0]) > 10


def _numbers(content: object, place: tuple = ()) -> list[tuple]:
    if isinstance(content, dict):
        return [each for key, value in content.items() for each in _numbers(value, (*place, key))]
    if isinstance(content, list):
        return [each for k, value in enumerate(content) for each in _numbers(value, (*place, k))]
    return [place] if isinstance(content, int | float) and not isinstance(content, bool) else []


@pytest.mark.slow
def test_every_change_is_found(written: Path) -> None:
    content = tomllib.loads(written.read_text(encoding="utf-8"))
    first = content["question"]["attributes"][0]["categories"]
    changes = {
        ("question", "attributes", 0, "categories"): [*first[:-1], "another"],
        ("question", "attributes", 1, "question"): "What else?",
        ("question", "title"): "Another",
        ("choice", "way"): "kronecker",
        ("choice", "digest"): "sha256:" + "0" * 64,
        ("choice", "meaning"): ["Nothing can be learned."],
        ("choice", "tables"): content["choice"]["tables"][1:],
    }
    numbers = _numbers(content)
    assert len(numbers) > 15
    for place in numbers:
        value = reduce(getitem, place, content)
        changes[place] = value + 1 if isinstance(value, int) else value * 1.00001
    for place, value in changes.items():
        changed = deepcopy(content)
        reduce(getitem, place[:-1], changed)[place[-1]] = value
        written.write_text(toml_text(changed), encoding="utf-8")
        try:
            result = verify_plan(written)
        except optrr.InvalidInput as refusal:
            assert place in numbers and "\n" not in str(refusal)
        else:
            assert not result.holds, place
            assert all(each.line() and "\n" not in each.line() for each in result.failed)


def test_the_design_beside_a_plan_must_be_its_own(tmp_path: Path) -> None:
    ours, other = made(1, 2), made(3, 2)
    (path,) = (each for each in ours.save(tmp_path / "plan") if each.name == "plan.toml")
    assert verify_plan(path).holds
    optrr.save(other.asking, path.with_name("design.json"))
    assert [each.name for each in verify_plan(path).failed[1:]] == ["design.json"]
    path.with_name("design.json").write_text("{}")
    assert [each.name for each in verify_plan(path).failed[1:]] == ["design.json"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c | {"format": "optrr-plan/9"}, "format"),
        (lambda c: {k: v for k, v in c.items() if k != "format"}, "format"),
        (lambda c: c | {"more": 1}, "more"),
        (lambda c: c | {"reason": 3}, "reason"),
        (lambda c: {k: v for k, v in c.items() if k != "choice"}, "choice"),
        (lambda c: c | {"choice": 5}, "choice"),
        (lambda c: c | {"question": c["question"] | {"margins": {"nobody": 4}}}, "not a table to estimate"),
        (lambda c: c | {"question": c["question"] | {"total": 900.0}}, "total"),
        (lambda c: c | {"question": c["question"] | {"n": 0}}, "n = 0"),
        (lambda c: c | {"question": c["question"] | {"learn": [["nobody"]]}}, "nobody"),
        (lambda c: c | {"question": c["question"] | {"attributes": 5}}, "attributes"),
        (lambda c: c | {"question": 5}, "question"),
    ],
)
def test_a_malformed_plan_is_refused_in_one_line(change, said: str, written: Path) -> None:
    written.write_text(toml_text(change(tomllib.loads(written.read_text(encoding="utf-8")))), encoding="utf-8")
    with pytest.raises(optrr.InvalidInput, match="plan") as refusal:
        read_plan(written)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.slow
def test_the_command_makes_and_checks_plans(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = ["plan", "--attribute", "theft=2", "--attribute", "class=4", "--total-epsilon", "2", "--n", "800"]
    assert run([*asked, "--write", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["choice"] == optrr.plan({"theft": 2, "class": 4}, 2.0, n=800).summary()["choice"]
    assert {Path(each).name for each in said["files"]} == {each.name for each in Path("plan").iterdir()}
    assert run(["verify", "plan/plan.toml"]) == 0
    assert optrr.load("plan/plan.toml").point.epsilon == said["choice"]["total"]
    capsys.readouterr()
    text = Path("plan/plan.toml").read_text()
    Path("plan/plan.toml").write_text(text.replace("n = 800", "n = 801"))
    assert run(["verify", "plan/plan.toml", "--json"]) == 1
    assert not json.loads(capsys.readouterr().out)["holds"]
    with pytest.raises(optrr.InvalidInput, match="is not valid"):
        optrr.load("plan/plan.toml")
    assert run(["plan", "--write"]) == 2
    assert "--attribute" in capsys.readouterr().err


def test_a_missing_value_before_other_categories_is_read_back(tmp_path: Path) -> None:
    made = optrr.plan({"a": [None, "x", "y"], "b": ["p", "q"]}, 1.0)
    made.save(tmp_path / "plan")
    assert verify_plan(tmp_path / "plan" / "plan.toml").holds
    assert made.asking.domain["a"].categories == ("x", "y", None)


def test_numbers_of_numpy_are_numbers() -> None:
    state = optrr.plan({"a": 2}, np.float32(1.5), n=np.int64(500)).question.state()
    assert (state["total"], state["n"]) == (1.5, 500) and type(state["n"]) is int


def test_a_plan_that_is_opened_keeps_its_reason(tmp_path, capsys):
    first = optrr.plan({"theft": 2, "class": 4}, 2.0, n=800)
    made = Plan.of(first.question, "small harm")
    made.save(tmp_path / "plan")
    written = str(tmp_path / "plan" / "plan.toml")
    assert run(["plan", written, "--write", "-o", str(tmp_path / "plan")]) == 0
    assert read_plan(written).reason == "small harm"
    assert run(["plan", written, "--write", "--reason", "less harm", "-o", str(tmp_path / "plan")]) == 0
    assert read_plan(written).reason == "less harm"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["{plan}", "--n", "5"], "--n is already set in the plan"),
        (["{plan}", "--total-epsilon", "3", "--write"], "--total-epsilon is already set in the plan"),
        (["--attribute", "a=2", "--reason", "so"], "--reason requires --write"),
    ],
)
def test_an_option_that_a_page_would_not_heed_is_refused(options, said, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("optrr.planner.app.serve_plan", lambda *_, **__: pytest.fail("the page was served"))
    optrr.plan({"theft": 2}, 2.0).save(tmp_path / "plan")
    given = [option.format(plan=tmp_path / "plan" / "plan.toml") for option in options]
    assert run(["plan", *given, "-o", str(tmp_path / "other")]) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "other").exists()


def test_of_data_only_the_header_and_the_categories_are_taken(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [("ill", "F")] * 37 + [("well", "M")] * 11
    Path("data.csv").write_text("health,sex\n" + "".join(f"{a},{b}\n" for a, b in rows))
    assert run(["plan", "data.csv", "--write", "--total-epsilon", "1"]) == 0
    assert "reading the records is not private" in capsys.readouterr().err
    written = Path("plan/plan.toml").read_text()
    assert read_plan("plan/plan.toml").question.domain == optrr.Domain.of(
        {"health": ["ill", "well"], "sex": ["F", "M"]}
    )
    assert "37" not in written.partition("[choice]")[0] and "data.csv" not in written


def test_numbers_in_data_are_binned(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_text("age,sex\n" + "".join(f"{18 + k},{'FM'[k % 2]}\n" for k in range(70)))
    given = ["plan", "data.csv", "--write", "--total-epsilon", "1"]
    assert run([*given, "-o", "without"]) == 0
    assert "--bins age=5" in capsys.readouterr().err
    assert run([*given, "--bins", "age=0,30,65,120"]) == 0
    assert read_plan("plan/plan.toml").question.domain.sizes.tolist() == [3, 2]
    assert run(["plan", "plan/plan.toml", "--write", "--bins", "age=5"]) == 2
    assert run(["plan", "--attribute", "a=2", "--write", "--bins", "age=5", "-o", "other"]) == 2
    assert "--bins" in capsys.readouterr().err and not Path("other").exists()


@pytest.mark.slow
@pytest.mark.parametrize("keep", [None, "records"])
def test_the_least_total_for_a_margin_and_the_fewest_people(keep) -> None:
    domain = {"a": 3, "b": 3}
    plan = optrr.plan(domain, margin=5, n=1500, records_only=keep is not None)
    # of alike questions the best on average is best for each, so the required errors' own total is the least
    needed = optrr.allocate(domain, n=1500, standard_error=5 / (100 * HALF_WIDTH), records_only=keep is not None)
    # with records, a mixture does with less that is compared at totals alone
    assert keep or needed.epsilon <= plan.question.total <= needed.epsilon * 1.0002
    assert needed.total_bound <= plan.question.total <= needed.epsilon * 1.0002
    assert max(t.margin for t in plan.preview.tables) <= 5 * (1 + 1e-9) and not plan.warnings
    less = optrr.plan(domain, plan.question.total * 0.998, n=1500, records_only=keep is not None, margin=5)
    assert max(t.margin for t in less.preview.tables) > 5 and "instead of ± 5 points;" in less.warnings[-1]
    fewest = optrr.plan(domain, 2.0, margin=5, records_only=keep is not None)
    assert max(t.margin for t in fewest.preview.tables) <= 5
    fewer = optrr.plan(domain, 2.0, margin=5, n=fewest.question.n - 1, records_only=keep is not None)
    assert max(t.margin for t in fewer.preview.tables) > 5


@pytest.mark.slow
def test_a_margin_of_single_tables_leaves_the_others_as_they_come(tmp_path: Path) -> None:
    """The least total for one table's margin is where it crosses it, by a plan at a little less."""
    domain, n = {"theft": ["yes", "no"], "drunk": 5, "class": 4}, 1200
    for margin in ({"theft": 4}, {("drunk",): 5.0, "class": 3.5}):
        plan = optrr.plan(domain, margin=margin, n=n)
        found = {t.attributes[0]: t.margin for t in plan.preview.tables}
        wished = {name if isinstance(name, str) else name[0]: points for name, points in margin.items()}
        assert all(found[name] <= points * (1 + 1e-9) for name, points in wished.items()) and not plan.warnings
        less = optrr.plan(domain, plan.question.total * 0.998, margin=margin, n=n)
        assert any(t.margin > wished.get(t.attributes[0], math.inf) for t in less.preview.tables) and less.warnings
        (path, *_) = plan.save(tmp_path / "-".join(wished))
        assert verify_plan(path).holds and read_plan(path).question.margins == plan.question.margins
        assert tomllib.loads(path.read_text("utf-8"))["question"]["margins"] == wished
    fewest = optrr.plan(domain, 2.0, margin={"theft": 4})
    assert fewest.preview.tables[0].margin <= 4
    fewer = optrr.plan(domain, 2.0, margin={"theft": 4}, n=fewest.question.n - 1)
    assert fewer.preview.tables[0].margin > 4
    with pytest.raises(optrr.InvalidInput, match="'drunk × class': it is not a table to estimate"):
        optrr.plan(domain, margin={("drunk", "class"): 4})


@pytest.mark.slow
def test_what_nobody_requires_costs_little_privacy() -> None:
    """The errors weigh by 1/margin²: a margin of one table needs less than that of all, and a second one in between."""
    domain = {"theft": ["yes", "no"], "year": 5}
    totals = [optrr.plan(domain, margin=m, n=800).point.epsilon for m in ({"theft": 6}, {"theft": 6, "year": 12}, 6)]
    assert totals[0] < 0.85 * totals[1] and totals[1] < 0.85 * totals[2]
    question = Question.from_state(
        {"attributes": [{"name": name, "size": 2} for name in "abc"], "margins": {"a": 4, "b": 8}}
    )
    assert [table.weight for table in question.wanted.tables] == [1, 1 / 4, 1 / 64]
    assert Question.from_state(question.state() | {"margins": {}, "margin": 4}).wanted.word == "marginals"


def test_wordings_and_conditions_reach_the_survey(tmp_path: Path) -> None:
    theft = {"name": "theft", "categories": ["yes", "no"], "missing": True, "labels": ["ja", "nein", "keine Angabe"]}
    what = {"name": "what", "categories": ["phone", "money", "not asked"], "ask_if": {"theft": ["yes"]}}
    theft |= {"question": {"de": "Bestohlen?", "ar": "سُرق؟"}}
    state = {
        "attributes": [theft, what],
        "title": {"de": "Schule", "ar": "مدرسة"},
        "language": "de",
        "thanks": "Danke!",
    }
    plan = Plan.of(Question.from_state(state))
    (path, *_) = plan.save(tmp_path / "plan")
    assert verify_plan(path).holds and read_plan(path).question.state() == plan.question.state()
    survey = prepared(path.with_name("design.json"), path.with_name("specification.toml"))
    assert survey.wording.languages == ("de", "ar") and survey.wording.thanks == "Danke!"
    assert survey.wording.labels == {"theft": ["ja", "nein", "keine Angabe"]}


def test_a_margin_of_every_table_but_one(tmp_path: Path) -> None:
    state = {"attributes": [{"name": name, "size": 3} for name in "abc"], "margin": 9, "margins": {"b": 4.5}}
    question = Question.from_state(state)
    assert [question.margin_of((name,)) for name in "abc"] == [9, 4.5, 9]
    assert question.margins_text == "b ± 4.5, all other results ± 9 points"
    assert Question.from_state(question.state()).state() == question.state()
    # a name that looks like a crossing is that attribute's table
    odd = Question.from_state(
        {"attributes": [{"name": "a × b", "size": 2}, *state["attributes"]], "margins": {"a × b": 4}}
    )
    assert odd.margin_of(("a × b",)) == 4 and odd.margin_of(("a",)) is None


def test_a_question_that_no_table_needs_is_left_out_with_a_warning(tmp_path: Path) -> None:
    domain = {"theft": ["yes", "no"], "age": 4, "class": 3}
    with pytest.warns(optrr.OptrrWarning, match="no table needs 'age': it is left out of the survey"):
        plan = optrr.plan(domain, 1.0, workload=["theft × class"], n=500)
    assert plan.question.domain.names == plan.asking.domain.names == ("theft", "class")
    assert "'age'" in plan.warnings[-1]
    plan.save(tmp_path / "plan")
    assert read_specification(tmp_path / "plan" / "specification.toml").domain.names == ("theft", "class")
    assert optrr.load(tmp_path / "plan" / "plan.toml").warnings == plan.point.warnings


def test_what_cannot_be_had_is_refused_in_one_line() -> None:
    for given_, words in (
        ({"margin": 0.5, "n": 1000}, "people"),
        ({"total": 50.0}, "nats"),
        ({"protocol": "no way"}, "no way"),
        ({"total": 1.0, "margin": 0.0}, "margin"),
    ):
        with pytest.raises(optrr.InvalidInput, match=words) as refusal:
            optrr.plan({"a": 2, "b": 5}, **given_)
        assert "\n" not in str(refusal.value)


def test_a_plan_shows_itself() -> None:
    plan = made(2)
    assert optrr.plan(plan.question.specification, 1.0).question.domain == plan.question.domain
    assert optrr.plan(plan.question.domain, 1.0).question.domain == plan.question.domain
    assert optrr.plan(plan.question.state() | {"learn": None} and plan.question.specification.record(), 1.0).point.exact
    markup = plan._repr_html_()
    assert "<b>" not in markup and plan.meaning.sentences()[0] in markup
    assert math.isclose(plan.summary()["choice"]["margin"], plan.preview.typical_margin)
    again = Plan(plan.question, plan.allocation)
    assert again.asking.digest == plan.asking.digest


def test_the_margins_are_a_table() -> None:
    plan = optrr.plan({"a": ["yes", "no"], "b": 3}, 1.0, workload="pairs", n=500)
    table = plan.to_arrow().to_pydict()
    assert table["table"] == ["a × b"] and table["margin"] == [t.margin for t in plan.preview.tables]


def people(plan: Plan, n: int, seed: int) -> pd.DataFrame:
    """Random records of the plan's attributes, with associations."""
    rng = np.random.default_rng(seed)
    latent = rng.random(n)
    columns = {}
    for attribute in plan.question.domain:
        codes = ((latent + 0.5 * rng.random(n)) / 1.5 * attribute.size).astype(int)
        columns[attribute.name] = np.asarray(attribute.categories, dtype=object)[codes]
    return pd.DataFrame(columns)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2, 5])
def test_the_files_do_what_they_are_for(seed, tmp_path, monkeypatch, capsys):
    plan = Plan.of(random_question(seed, 3), "for a test")
    written = plan.save(tmp_path / "plan")
    names = {path.name for path in written}
    always = "plan.toml specification.toml design.json sampler.json statement.html analysis.py README.txt"
    assert names >= set(always.split())
    assert ("tables.toml" in names) == (plan.question.learn.name == "tables")
    assert all(f"{name}:" in (tmp_path / "plan" / "README.txt").read_text() for name in names - {"README.txt"})
    monkeypatch.chdir(tmp_path / "plan")
    assert read_specification("specification.toml").record() == plan.question.specification.record()
    assert run(["verify", "design.json"]) == 0
    assert run(["verify", "sampler.json", "--design", "design.json"]) == 0
    capsys.readouterr()
    # a survey takes them
    survey = prepared(Path("design.json"), Path("specification.toml"))
    assert survey.wording == plan.question.specification.wording and survey.design.digest == plan.asking.digest
    assert survey.deployment.to_bytes() == Path("sampler.json").read_bytes()
    # what is randomized by the design is analysed by the script, with the numbers of the reports themselves
    people(plan, 400, seed).to_parquet("true.parquet")
    assert run(["randomize", "true.parquet", "--design", "design.json", "-o", "reports.parquet"]) == 0
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    call = [sys.executable, "plan/analysis.py", "plan/reports.parquet"]
    done = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    results = json.loads(Path("results.json").read_text())
    reports = plan.asking.reports("reports.parquet")
    wanted = [table.attributes for table in plan.question.learn.tables]
    for names_, said in zip(wanted, results["tables"], strict=True):
        own = reports.table(*names_)
        assert alike(said, json.loads(json.dumps(own.summary())))
        assert own.headline() in done.stdout
    # a file that is not there is one line
    done = subprocess.run(
        [*call[:2], "no.parquet"], check=False, cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and done.stderr.startswith(
        "error: cannot read no.parquet"
    )
    pairs = [names_ for names_ in wanted if len(names_) == 2]
    for names_, said in zip(pairs, results["tests"], strict=True):
        own = reports.test(*names_)
        assert (said["test"], said["df"], said["n"]) == (own.test, own.df, own.n)
        assert said["statistic"] == pytest.approx(own.statistic, rel=1e-9)


def test_the_lines_of_the_readme_take_any_names(tmp_path: Path) -> None:
    optrr.plan({"question 1": 2, "it's, so": 2}, 1.0, workload="pairs").save(tmp_path / "plan")
    (line,) = (x for x in (tmp_path / "plan" / "README.txt").read_text().splitlines() if "Estimate a table" in x)
    assert line.endswith(""".table('question 1', "it's, so")""")


@pytest.fixture(scope="module")
def plans() -> tuple[Plan, Plan]:
    return optrr.plan({"a": 2, "b": 3}, 1.0, workload=["a", "b"]), optrr.plan({"a": 2, "b": 3}, 2.0)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_no_plan_wrote_is_kept(plans: tuple[Plan, Plan], tmp_path: Path) -> None:
    first, second = plans
    folder = tmp_path / "plan"
    folder.mkdir()
    (folder / "README.txt").write_text("mine")
    (folder / "notes.txt").write_text("mine, too")
    before = content(folder)
    with pytest.raises(optrr.InvalidInput, match="written by no plan"):
        first.save(folder)
    assert content(folder) == before
    (folder / "README.txt").unlink()
    first.save(folder)
    assert content(folder)["notes.txt"] == b"mine, too"
    # what stands beside may be reports of the design
    with pytest.raises(optrr.InvalidInput, match="choose another folder"):
        second.save(folder)
    (folder / "notes.txt").unlink()
    assert (folder / "tables.toml").exists()
    second.save(folder)
    assert not (folder / "tables.toml").exists()
    assert optrr.load(folder / "design.json").digest == second.asking.digest
    (folder / "plan.toml").write_text('format = "another/1"')
    with pytest.raises(optrr.InvalidInput, match="written by no plan"):
        first.save(folder)
    with pytest.raises(optrr.InvalidInput, match="is a file"):
        first.save(folder / "design.json")
    with pytest.raises(optrr.InvalidInput, match="cannot make the folder"):
        first.save(tmp_path / "none" / "plan")


def test_a_plan_is_written_whole_or_not_at_all(plans, tmp_path, monkeypatch):
    first, second = plans
    first.save(tmp_path / "there")
    before = content(tmp_path / "there")
    copied = plan_module.shutil.copyfile

    for broken in range(6):
        for folder in ("there", "new"):
            calls = iter(range(100))

            def failing(*given: Path, calls: Iterator[int] = calls, broken: int = broken) -> None:
                if next(calls) == broken:
                    raise OSError(28, "no space left")
                copied(*given)

            monkeypatch.setattr(plan_module.shutil, "copyfile", failing)
            with pytest.raises(optrr.InvalidInput, match="no space left"):
                second.save(tmp_path / folder)
        assert content(tmp_path / "there") == before
        assert not (tmp_path / "new").exists()


def test_a_plan_is_saved_again_after_a_killed_run(plans, tmp_path):
    """A kill between two moves leaves the run's own folder, and no plan."""
    first, second = plans
    first.save(tmp_path / "plan")
    (tmp_path / "plan" / "plan.toml").unlink()
    with pytest.raises(optrr.InvalidInput, match="written by no plan"):
        second.save(tmp_path / "plan")
    (tmp_path / "plan" / ".plan.toml.partial").mkdir()
    second.save(tmp_path / "plan")
    assert optrr.load(tmp_path / "plan" / "design.json").digest == second.asking.digest
