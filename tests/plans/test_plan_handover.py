"""What a plan hands over: every file does what it is for, nothing of others is overwritten, nothing is written by halves."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from plan_questions import alike, random_question

import optrr
from optrr.cli.main import run
from optrr.designs.specification import read_specification
from optrr.plans import plan as plan_module
from optrr.plans.plan import Plan


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
    # what is randomized by the design is analysed by the script, with the numbers of the reports themselves
    people(plan, 400, seed).to_parquet("true.parquet")
    assert run(["perturb", "true.parquet", "--design", "design.json", "-o", "reports.parquet"]) == 0
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
    pairs = [names_ for names_ in wanted if len(names_) == 2]
    for names_, said in zip(pairs, results["tests"], strict=True):
        own = reports.test(*names_)
        assert (said["test"], said["df"], said["n"]) == (own.test, own.df, own.n)
        assert said["statistic"] == pytest.approx(own.statistic, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_survey_takes_the_files(seed: int, tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="the survey's server needs the extra serve")
    from optrr.survey.preparing import prepared  # noqa: PLC0415 (an extra)

    plan = Plan.of(random_question(seed, 3))
    plan.save(tmp_path / "plan")
    survey = prepared(tmp_path / "plan" / "design.json", tmp_path / "plan" / "specification.toml")
    assert survey.wording == plan.question.specification.wording
    assert survey.design.digest == plan.asking.digest
    assert survey.deployment.to_bytes() == (tmp_path / "plan" / "sampler.json").read_bytes()


def test_the_commands_of_the_readme_take_names_with_spaces(tmp_path: Path) -> None:
    optrr.plan({"question 1": 2, "it's, so": 2}, 1.0, learn="pairs").save(tmp_path / "plan")
    (line,) = (x for x in (tmp_path / "plan" / "README.txt").read_text().splitlines() if "optrr estimate" in x)
    command = shlex.split(line.partition(": ")[2])
    assert command[command.index("--attributes") + 1 :] == ["question 1,it's,, so"]


@pytest.fixture(scope="module")
def plans() -> tuple[Plan, Plan]:
    return optrr.plan({"a": 2, "b": 3}, 1.0, learn=["a", "b"]), optrr.plan({"a": 2, "b": 3}, 2.0)


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


def test_a_way_for_studies_has_no_folder(plans: tuple[Plan, Plan], tmp_path: Path) -> None:
    class Study:
        digest = "none"

    with pytest.raises(optrr.InvalidInput, match="for studies"):
        plan_module.hand_over(tmp_path / "x", plans[0].preview, Study(), decision_toml="", statement_html="")  # type: ignore[arg-type]
    assert not (tmp_path / "x").exists()
