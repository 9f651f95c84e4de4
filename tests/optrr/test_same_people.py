"""The same people read twice: a release and its copy are refused, a later release is warned of, parts of one release pass."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import optrr
from optrr import InvalidInput
from optrr.cli.main import run
from optrr.designs.design_file import load_design
from optrr.records.reading.registry import origins_of
from optrr.releases.provenance import sidecar_path
from optrr.ways.protocols.sampled_tables import SampledTables

DOMAIN = {"a": ["x", "y"], "b": 3}
N = 400
# Commands that read one INPUT of several places, with what they need beside it.
COMMANDS = {
    "estimate": ("--attributes", "a,b"),
    "test": ("--attributes", "a,b"),
    "measure": ("--attributes", "a,b"),
    "model": ("--attributes", "a,b", "--terms", "a+b"),
    "regress": ("--formula", "a ~ C(b)"),
}
# One reads through counts and one through records; that the others do as well is seen in the long run.
EACH = [pytest.param(name, marks=[] if name in ("measure", "regress") else pytest.mark.slow) for name in COMMANDS]


def people(seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, N)
    return pa.table({"a": np.where(a == 1, "y", "x"), "b": (a + rng.integers(0, 2, N)) % 3})


@pytest.fixture(params=["csv", "parquet"])
def kind(request, tmp_path, monkeypatch):
    """r1 and its copy, r2 of the same people after r1, r3 after r1 too, and others of other people."""
    monkeypatch.chdir(tmp_path)
    ending = request.param
    write = pa_csv.write_csv if ending == "csv" else pq.write_table
    write(people(1), f"true.{ending}")
    write(people(2), f"more.{ending}")
    optrr.save(optrr.design(DOMAIN, 1.5), "d.json")
    release(f"true.{ending}", f"r1.{ending}")
    release(f"true.{ending}", f"r2.{ending}", "--after", f"r1.{ending}")
    release(f"true.{ending}", f"r3.{ending}", "--after", f"r1.{ending}")
    release(f"more.{ending}", f"others.{ending}")
    shutil.copy(f"r1.{ending}", f"copy.{ending}")
    if ending == "csv":
        shutil.copy(sidecar_path(Path("r1.csv")), sidecar_path(Path("copy.csv")))
    return ending


def release(source, target, *options):
    assert run(["perturb", source, "--design", "d.json", "-o", target, *options]) == 0


def said(capsys, command, *places, code=0, options=()):
    capsys.readouterr()
    assert run([command, *places, "--design", "d.json", *(options or COMMANDS[command]), "--json"]) == code
    out, err = capsys.readouterr()
    return json.loads(out) if code == 0 else err


@pytest.mark.parametrize("command", EACH)
def test_the_same_release_twice_is_refused_and_others_are_pooled(kind, capsys, command):
    for again in (f"copy.{kind}", f"r1.{kind}", f"./r1.{kind}"):
        err = said(capsys, command, f"r1.{kind}", f"others.{kind}", again, code=2)
        assert "its people would count twice" in err and err.count("\n") == 1
    pooled = said(capsys, command, f"r1.{kind}", f"others.{kind}")
    assert pooled["n"] == 2 * N and pooled["doubts"] == []


@pytest.mark.slow
@pytest.mark.parametrize("command", EACH)
def test_releases_of_the_same_people_are_doubted(kind, capsys, command):
    for two in (("r1", "r2"), ("r2", "r1"), ("r2", "r3")):
        doubts = said(capsys, command, *(f"{name}.{kind}" for name in two))["doubts"]
        assert len(doubts) == 1 and "are releases of the same people" in doubts[0]
    assert said(capsys, command, f"r2.{kind}", f"others.{kind}")["doubts"] == []


def test_a_group_against_itself(kind, capsys):
    options = ("--attributes", "a", "--test", "homogeneity", "--group")
    assert "would count twice" in said(capsys, "test", f"r1.{kind}", code=2, options=(*options, f"r1.{kind}"))
    # groups may be parts of one release
    copied = said(capsys, "test", f"r1.{kind}", options=(*options, f"copy.{kind}"))
    assert ["hold records of one release" in line for line in copied["doubts"]] == [True]
    later = said(capsys, "test", f"r1.{kind}", options=(*options, f"r2.{kind}"))
    assert ["are releases of the same people" in line for line in later["doubts"]] == [True]
    assert said(capsys, "test", f"r1.{kind}", options=(*options, f"others.{kind}"))["doubts"] == []


def test_the_doubt_is_in_every_form_of_output(kind, capsys):
    command = ["estimate", f"r1.{kind}", f"r2.{kind}", "--design", "d.json", "--attributes", "a"]
    assert run([*command, "--report", "page.html", "-o", "table.json"]) == 0
    seen = [capsys.readouterr().err, Path("page.html").read_text(), Path("table.json").read_text()]
    assert ["are releases of the same people" in text for text in seen] == [True] * 3


def test_from_python(kind):
    design = load_design("d.json")
    for again in (f"copy.{kind}", f"r1.{kind}"):
        with pytest.raises(InvalidInput, match="would count twice"):
            design.estimate([f"r1.{kind}", again], "a")
    later = design.estimate([f"r1.{kind}", f"r2.{kind}"], "a")
    assert any("are releases of the same people" in line for line in later.warnings)
    assert design.estimate([f"r1.{kind}", f"others.{kind}"], "a").warnings == ()


def test_a_design_after_a_release_does_not_make_everybody_the_same(kind, capsys):
    pilot = origins_of(Path(f"r1.{kind}"))[0].provenance
    optrr.save(replace(load_design("d.json"), earlier=pilot.releases), "d.json")
    release(f"true.{kind}", f"one.{kind}")
    release(f"more.{kind}", f"two.{kind}")
    assert said(capsys, "estimate", f"one.{kind}", f"two.{kind}")["doubts"] == []
    with_pilot = said(capsys, "estimate", f"one.{kind}", f"r1.{kind}")["doubts"]
    assert ["are releases of the same people" in line for line in with_pilot] == [True]


def test_a_directory_may_hold_parts_of_one_release(kind, capsys):
    """Some parts are empty, and all have the same note."""
    if kind == "csv":
        pytest.skip("a part of a CSV file has no sidecar of its own")
    whole = pq.read_table("r1.parquet")
    Path("parts").mkdir()
    for k, rows in enumerate([whole[:150], whole[150:150], whole[150:150], whole[150:]]):
        pq.write_table(rows, f"parts/part-{k}.parquet")
    parts = said(capsys, "estimate", "parts")
    assert parts["n"] == N and parts["doubts"] == []
    named = said(capsys, "estimate", "parts/part-0.parquet", "parts/part-3.parquet", code=2)
    assert "hold the same release" in named and "a directory with the parts" in named


def test_a_copy_that_lost_its_sidecar_is_warned_of(kind, capsys):
    if kind == "csv":
        sidecar_path(Path("copy.csv")).unlink()
        doubts = said(capsys, "estimate", "r1.csv", "copy.csv")["doubts"]
        assert ["copy.csv" in line and "has no provenance metadata" in line for line in doubts] == [True]


def test_answers_given_twice(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asking = SampledTables(optrr.Domain.of(DOMAIN), (("a", "b"), ("b",)), np.array([0.5, 0.5]), 2.0)
    optrr.save(asking, "d.json")
    pq.write_table(people(1), "true.parquet")
    release("true.parquet", "r1.parquet")
    release("true.parquet", "r2.parquet", "--after", "r1.parquet")
    shutil.copy("r1.parquet", "copy.parquet")
    options = ("--attributes", "b")
    assert "would count twice" in said(capsys, "estimate", "r1.parquet", "copy.parquet", code=2, options=options)
    later = said(capsys, "estimate", "r1.parquet", "r2.parquet", options=options)
    assert sum("are releases of the same people" in line for line in later["doubts"] + later["warnings"]) == 1
    with pytest.raises(InvalidInput, match="would count twice"):
        asking.estimate(["r1.parquet", "copy.parquet"], "b")
