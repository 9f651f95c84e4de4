"""The tasks that most users have, as a page of the documentation may print them; reports opened once for all of them."""

import inspect
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import optrr
import optrr.analysis.loglinear
import optrr.analysis.measures
import optrr.analysis.weighting.estimating
import optrr.core.estimation
import optrr.core.inference
from optrr import InvalidInput
from optrr.cli.main import run
from optrr.cli.outputs import Analysis
from optrr.core.design.design_file import load_design
from optrr.core.domain.datasets import adult, adult_domain
from optrr.core.estimation.table import counted_table
from optrr.core.protocols import rr_independent
from optrr.core.records import counts
from optrr.core.records.reading.source import RecordsAt
from optrr.core.reports import ANALYSES, Reports
from optrr.longitudinal import longitudinal

N = 4000


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    return adult().select(["sex", "income", "race"]).slice(0, N).to_pandas().set_index(np.arange(N) + 7)


@pytest.fixture(scope="module")
def domain() -> optrr.Domain:
    return adult_domain().subset(["sex", "income", "race"])


@pytest.fixture(scope="module")
def design(domain: optrr.Domain) -> optrr.Design:
    return optrr.design(domain, {"sex": 2, "income": 1.5, "race": 2}, constraints=optrr.Constraints(preserve="pairs"))


@pytest.fixture(scope="module")
def reports(design: optrr.Design, people: pd.DataFrame) -> Reports:
    with warnings.catch_warnings():
        warnings.simplefilter("error", optrr.OptrrWarning)
        return design.reports(design.randomize(people))


def test_design_and_allocate(domain: optrr.Domain, design: optrr.Design) -> None:
    assert design.epsilon < design.kronecker_epsilon == pytest.approx(5.5)
    made = optrr.allocate(domain.subset(["sex", "income"]), total=2, workload=["sex × income"], n=5000)
    assert made.design.epsilon <= 2
    assert [t.attributes for t in made.workload.tables] == [("sex", "income")]


def test_randomize_keeps_frames_and_shuffles_files(design: optrr.Design, people: pd.DataFrame, tmp_path: Path) -> None:
    frame = design.randomize(people)
    assert isinstance(frame, pd.DataFrame) and frame.index.equals(people.index)
    people.to_csv(tmp_path / "in.csv", index=False)
    release = design.randomize(tmp_path / "in.csv", tmp_path / "out.parquet")
    assert release.records == N and not release.warnings
    assert design.reports(tmp_path / "out.parquet").table("sex").n == N
    with pytest.raises(optrr.InvalidInput, match="``target`` is missing"):
        design.randomize(people, drop_undeclared=True)


@pytest.mark.slow
def test_tables(reports: Reports, design: optrr.Design, people: pd.DataFrame) -> None:
    table = reports.table("sex", "income")
    true = counted(people, design).proportions
    # four cells: exceeded once in 30,000 times
    assert np.abs((table.estimate - true) / table.standard_error).max() < 4.5
    assert {"sex", "income", "estimate", "lower", "upper"} <= set(table.to_pandas().columns)
    where = reports.table("sex", "race", where={"race": ["White", "Black"]})
    assert where.estimate.shape == (2, 2) and where.estimate.sum() == pytest.approx(1)
    assert reports.table("sex", method="adjusted").estimate.sum() == pytest.approx(1)
    with pytest.raises(optrr.InvalidInput, match="leave one of them out"):
        reports.table("sex", where={}, method="mle")


def counted(people: pd.DataFrame, design: optrr.Design) -> optrr.Counts:
    return optrr.count(people[["sex", "income"]], design.domain.subset(["sex", "income"]), ["sex", "income"])


def test_tables_of_a_sample(design: optrr.Design, people: pd.DataFrame) -> None:
    frame = design.randomize(people).assign(w=np.arange(N) % 3 + 1.0, region=np.arange(N) % 2)
    sample = design.reports(frame)
    weighted = sample.table("sex", sample=optrr.Sample(weights="w"), by="region")
    assert len(weighted.tables) == 2
    same = optrr.analysis.weighting.estimating.estimate_weighted(
        frame, design.mechanism, "sex", weights="w", by="region"
    )
    assert weighted.to_pandas().equals(same.to_pandas())
    declared = replace(design, public=optrr.PublicColumns(weight="w"))
    assert (
        declared.reports(frame)
        .table("sex")
        .to_pandas()
        .equals(sample.table("sex", sample=optrr.Sample(weights="w")).to_pandas())
    )
    with pytest.warns(optrr.OptrrWarning, match="ignore that these records were sampled"):
        declared.reports(frame).measure("entropy", "sex")
    assert (
        declared.reports(frame).test("sex", "income").test
        == sample.test("sex", "income", sample=optrr.Sample(weights="w")).test
    )
    with pytest.raises(optrr.InvalidInput, match="are for the test of independence"):
        sample.test("sex", "income", hypothesis="trend", sample=optrr.Sample(weights="w"))
    groups = declared.reports(frame).table("sex", by="region", sample="ignore")
    assert groups.headline() == f"sex by region, unbiased: {len(frame)} records, equal weights"
    for ignored in ({"calibration": "bootstrap"}, {"calibration": optrr.Bootstrap(99)}, {"scores": {"sex": [0, 1]}}):
        with pytest.raises(optrr.InvalidInput, match=f"``{next(iter(ignored))}``: not "):
            sample.test("sex", "income", sample=optrr.Sample(weights="w"), **ignored)


@pytest.mark.parametrize("name", ANALYSES)
def test_every_analysis_is_a_documented_method_of_the_reports(reports: Reports, name: str) -> None:
    method = getattr(reports, name)
    assert method.__doc__ and "reports" not in inspect.signature(method).parameters
    assert name in dir(reports) and getattr(Reports, name).__doc__ == method.__doc__


def test_measures(reports: Reports, design: optrr.Design) -> None:
    counts = reports.counts(["sex", "income"])[0]
    ratio = reports.measure("odds-ratio", "sex", "income")
    assert (
        ratio.summary()
        == optrr.analysis.measures.measure(counted_table(counts, design.mechanism), "odds-ratio").summary()
    )
    association = reports.measure("cramers-v", "sex", "income")
    assert (
        association.summary()
        == optrr.core.estimation.derive(counted_table(counts, design.mechanism), "cramers-v").summary()
    )
    with pytest.raises(optrr.InvalidInput, match="``coding``: not accepted by entropy"):
        reports.measure("entropy", "sex", coding={"sex": "Male"})


@pytest.mark.slow
def test_tests(reports: Reports, design: optrr.Design, people: pd.DataFrame) -> None:
    def of(tested, *given):
        return replace(tested, attributes=("sex", "income"), given=given)

    counts = reports.counts(["sex", "income"])[0]
    assert reports.test("sex", "income") == of(optrr.test(counts, design.mechanism))
    assert reports.test("sex", "income", hypothesis="trend") == of(optrr.test(counts, design.mechanism, "trend"))
    three = reports.counts(["sex", "income", "race"])[0]
    within = reports.test("sex", "income", given="race", calibration=optrr.Bootstrap(random_state=1))
    assert within == of(optrr.analysis.stratified_test(three, design.mechanism, random_state=1), "race")
    half = reports.test("sex", proportions=[0.5, 0.5])
    assert half.test == "goodness-of-fit" and half.p_value < 1e-6
    both = design.reports(design.randomize(people), design.randomize(people))
    assert both.test("race", calibration=optrr.Bootstrap(random_state=1)).test == "homogeneity"
    for wrong, said in (
        ({"hypothesis": "homogeneity"}, "``group``: missing, and homogeneity needs it"),
        ({"hypothesis": "trend", "proportions": [0.5, 0.5]}, "``proportions``: only for goodness-of-fit"),
    ):
        with pytest.raises(optrr.InvalidInput, match=said):
            reports.test("sex", "income", **wrong)
    for wrong in ({"given": "race"}, {"proportions": np.full((2, 2), 0.25)}):
        with pytest.raises(optrr.InvalidInput, match="``calibration``: not available"):
            reports.test("sex", "income", calibration="bootstrap", **wrong)
    with pytest.raises(optrr.InvalidInput, match="``scores``: not accepted by"):
        both.test("race", scores={"race": [0, 1, 2, 3, 4]})
    with pytest.raises(optrr.InvalidInput, match="opened from 2 places"):
        both.table("sex")


def test_models(reports: Reports) -> None:
    model = reports.model("sex*income + race")
    assert str(model.terms) == "race + sex*income" and model.n == N
    assert reports.model(stepwise=2, attributes=["sex", "income"]).n == N
    assert reports.regress("income ~ sex").n == N
    assert reports.synthesize(50, random_state=1).to_pandas().shape == (50, 3)
    assert reports.poisoning("sex", fakes=10).fakes == 10
    for wrong in ({}, {"terms": "sex", "stepwise": 2}):
        with pytest.raises(optrr.InvalidInput, match=r"give one$"):
            reports.model(**wrong)


@pytest.mark.slow
def test_what_a_design_can_see(design: optrr.Design) -> None:
    truth = [[0.3, 0.1], [0.4, 0.2]]
    needed = design.records_for("sex", "income", truth=truth)
    n = needed.n
    enough, few = (design.power("sex", "income", truth=truth, n=people).power for people in (n, n // 2))
    assert needed.power == enough >= 0.8 > few
    same = optrr.core.inference.alternative_of("independence", truth, design.mechanism.kernel(["sex", "income"]))
    assert n == optrr.core.inference.required_records(same)
    assert design.power("sex", truth=[0.4, 0.6], proportions=[0.5, 0.5], n=10**5).power > 0.99


def test_what_is_easily_taken_for_another_thing_is_refused_in_one_line(design, people, tmp_path):
    with pytest.raises(optrr.InvalidInput, match="got a dict for a domain; give a Domain"):
        optrr.count(people, {"sex": ["F", "M"]}, "sex")
    with pytest.raises(optrr.InvalidInput, match="``n`` 0: must be at least 1"):
        optrr.worksheet(design, 0)


def test_a_plan_s_file_is_neither_a_design_nor_a_specification(tmp_path: Path) -> None:
    optrr.plan({"a": ["x", "y"], "b": ["1", "2"]}, 1.0).save(tmp_path / "plan")
    with pytest.raises(optrr.InvalidInput, match="is a plan; give the design that was saved with it"):
        load_design(tmp_path / "plan" / "plan.toml")
    assert optrr.load(tmp_path / "plan" / "plan.toml").point.total == 1.0
    with pytest.raises(optrr.InvalidInput, match=r"a file of 'optrr-plan/1'; .* a plan's specification\.toml"):
        optrr.read_specification(tmp_path / "plan" / "plan.toml")


def test_files_of_every_kind(design: optrr.Design, tmp_path: Path) -> None:
    path = tmp_path / "design.json"
    optrr.save(design, path)
    loaded = optrr.load(path)
    assert isinstance(loaded, optrr.Design) and loaded.digest == design.digest
    assert optrr.verify(path).holds and optrr.verify(design).holds
    asking = optrr.SampledTables(design.domain, (("sex",), ("income",)), np.full(2, 0.5), 1.0)
    optrr.save(asking, path)
    assert optrr.load(path).epsilon == asking.epsilon
    rounds = longitudinal({"sex": ["F", "M"], "age": 3}, 0.5, 2.0)
    optrr.save(rounds, path)
    assert optrr.load(path).digest == rounds.digest and optrr.verify(path).holds
    sampler = tmp_path / "sampler.json"
    optrr.export(design, sampler)
    assert optrr.load(sampler).domain.names == design.domain.names
    optrr.save(design, path)
    assert optrr.verify(sampler, path).holds
    with pytest.raises(optrr.InvalidInput, match="not a deployment file"):
        optrr.verify(path, path)
    for wrong in (design.mechanism, rr_independent(design.domain, 1.0)):
        with pytest.raises(optrr.InvalidInput, match="cannot be saved"):
            optrr.save(wrong, path)


def test_opened_by_a_design_or_its_file(design: optrr.Design, people: pd.DataFrame, tmp_path: Path) -> None:
    frame = design.randomize(people)
    optrr.save(design, tmp_path / "design.json")
    for by in (design, tmp_path / "design.json"):
        assert optrr.reports(frame, by).table("sex").to_pandas().equals(design.reports(frame).table("sex").to_pandas())


ANSWERED = 500


@pytest.fixture
def same_design(tmp_path, monkeypatch):
    """One design, with a release of it in ``out.csv`` and one of other people in ``more.csv``."""
    monkeypatch.chdir(tmp_path)
    made = optrr.design({"a": ["x", "y"], "b": 3}, 1.5)
    optrr.save(made, "d.json")
    for seed, name in enumerate(("out.csv", "more.csv")):
        rng = np.random.default_rng(seed)
        true = {"a": np.where(rng.random(ANSWERED) < 0.3, "x", "y"), "b": rng.integers(0, 3, ANSWERED)}
        pa_csv.write_csv(pa.table(true), "true.csv")
        made.randomize("true.csv", name)
    return made


def test_one_opening_serves_every_table(same_design):
    reports = same_design.reports("out.csv", ["out.csv", "more.csv"][1:])
    assert [c.n for c in reports.counts(["a", "b"])] == [ANSWERED, ANSWERED] == [c.n for c in reports.counts("b")]
    assert reports.doubts == reports.unweighted_doubts == []
    assert len(reports.stated) == 2
    assert same_design.reports("out.csv").table("a").n == ANSWERED


def test_a_grown_file_and_a_changed_frame_are_counted_again(same_design):
    whole = Path("out.csv").read_bytes()
    Path("part.csv").write_bytes(b"".join(whole.splitlines(keepends=True)[:101]))
    reports = same_design.reports("part.csv")
    assert reports.table("a").n == 100
    Path("part.csv").write_bytes(whole)
    assert reports.table("a").n == reports.measure("odds-ratio", "a", "b").n == ANSWERED
    frame = np.zeros((400, 2), dtype=int)
    reports = same_design.reports(frame)
    before = reports.table("a").estimate
    frame[:200, 0] = 1
    assert reports.table("a").estimate[0] < before[0]


def test_a_command_reads_its_records_once(same_design, monkeypatch, capsys):
    read = []
    monkeypatch.setattr(
        counts, "count", lambda place, *a, of=counts.count, **k: read.append(place) or of(place, *a, **k)
    )
    asked = ["estimate", "out.csv", "--design", "d.json", "--attributes", "a,b", "--html", "page.html"]
    assert run([*asked, "--fakes", "3"]) == 0
    assert run(["test", "out.csv", "--design", "d.json", "--attributes", "a,b", "--html", "page.html"]) == 0
    assert len(read) == 2
    capsys.readouterr()


def test_progress_is_shown_by_one_bar_while_an_analysis_runs(same_design, monkeypatch):
    shown = []
    monkeypatch.setattr("optrr.cli.outputs.progress", lambda text, share: shown.append(text))
    analysis = Analysis(RecordsAt("out.csv"), Path("d.json"), None)
    reports = analysis.open()
    analysis.made(lambda: reports.table("a"))
    assert shown == [f"{ANSWERED} records read"]


def test_another_design_and_a_copy_are_refused_whoever_opened_them(same_design):
    reports = same_design.reports("out.csv")
    other = optrr.design(same_design.domain, 0.5)
    for refused in (other.reports("out.csv"), other.reports(reports)):
        with pytest.raises(InvalidInput, match="was randomized by another design"):
            refused.counts("a")
    with pytest.raises(InvalidInput, match="is given twice"):
        _ = same_design.reports("out.csv", "out.csv").doubts


def test_frames_say_what_they_were_given(same_design):
    frame = same_design.randomize(pa.table({"a": ["x", "y"] * 50, "b": [0, 1] * 50}))
    reports = same_design.reports(frame)
    assert reports.doubts == []
    assert reports.counts("a")[0].origins == reports.origins[0]
    assert same_design.reports(np.zeros((4, 2), dtype=int)).origins == ((),)
