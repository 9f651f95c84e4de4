"""Reports: randomized records opened once and bound to their design, the same from Python and for commands."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import optrr
from optrr import InvalidInput
from optrr.cli.main import run
from optrr.cli.outputs import Analysis
from optrr.records import counts
from optrr.records.reading import registry as module
from optrr.records.reading.source import RecordsAt

N = 500


@pytest.fixture
def design(tmp_path, monkeypatch):
    """One design, with a release of it in ``out.csv`` and one of other people in ``more.csv``."""
    monkeypatch.chdir(tmp_path)
    made = optrr.design({"a": ["x", "y"], "b": 3}, 1.5)
    optrr.save(made, "d.json")
    for seed, name in enumerate(("out.csv", "more.csv")):
        rng = np.random.default_rng(seed)
        true = {"a": np.where(rng.random(N) < 0.3, "x", "y"), "b": rng.integers(0, 3, N)}
        pa_csv.write_csv(pa.table(true), "true.csv")
        made.randomize("true.csv", name)
    return made


def test_one_opening_serves_every_table(design, monkeypatch):
    read = []
    monkeypatch.setattr(module, "_of_place", lambda where, of=module._of_place: read.append(where) or of(where))
    reports = design.reports("out.csv", ["out.csv", "more.csv"][1:])
    assert [c.n for c in reports.counts(["a", "b"])] == [N, N] == [c.n for c in reports.counts("b")]
    assert reports.doubts == reports.unweighted_doubts == []
    assert len(reports.stated) == 2 == len(read)
    assert design.estimate(design.reports("out.csv"), "a").n == N


def test_a_grown_file_and_a_changed_frame_are_counted_again(design):
    whole = Path("out.csv").read_bytes()
    Path("part.csv").write_bytes(b"".join(whole.splitlines(keepends=True)[:101]))
    reports = design.reports("part.csv")
    assert reports.table("a").n == 100
    Path("part.csv").write_bytes(whole)
    assert reports.table("a").n == reports.measure("odds-ratio", "a", "b").n == N
    frame = np.zeros((400, 2), dtype=int)
    reports = design.reports(frame)
    before = reports.table("a").proportions
    frame[:200, 0] = 1
    assert reports.table("a").proportions[0] < before[0]


def test_a_command_reads_its_records_once(design, monkeypatch, capsys):
    read = []
    monkeypatch.setattr(
        counts, "count", lambda place, *a, of=counts.count, **k: read.append(place) or of(place, *a, **k)
    )
    asked = ["estimate", "out.csv", "--design", "d.json", "--attributes", "a,b", "--report", "page.html"]
    assert run([*asked, "--derive", "entropy", "--derive", "g-square", "--fake-reports", "3"]) == 0
    assert run(["test", "out.csv", "--design", "d.json", "--attributes", "a,b", "--report", "page.html"]) == 0
    assert len(read) == 2
    capsys.readouterr()


def test_progress_is_shown_by_one_bar_while_an_analysis_runs(design, monkeypatch):
    shown = []
    monkeypatch.setattr("optrr.cli.outputs.late_bar", lambda: nullcontext(lambda text, share: shown.append(text)))
    analysis = Analysis(RecordsAt("out.csv"), Path("d.json"), None, None, False)
    reports = analysis.open()
    analysis.made(lambda: reports.table("a"))
    assert shown == [f"{N} records counted"]
    reports.table("b")
    assert len(shown) == 1


def test_places_know_what_their_records_say_and_several_files_each_their_own(design):
    (place,) = design.reports(RecordsAt(["out.csv", "more.csv"])).places
    assert len(place.origins) == 2
    again = design.reports(place)
    assert again.origins == (place.origins,)
    assert again.doubts == []


def test_another_design_and_a_copy_are_refused_whoever_opened_them(design):
    reports = design.reports("out.csv")
    other = optrr.design(design.domain, 0.5)
    for refused in (other.reports("out.csv"), other.reports(reports)):
        with pytest.raises(InvalidInput, match="was randomized by another design"):
            refused.counts("a")
    with pytest.raises(InvalidInput, match="is given twice"):
        _ = design.reports("out.csv", "out.csv").doubts


def test_frames_say_what_they_were_given(design):
    frame = design.perturb(pa.table({"a": ["x", "y"] * 50, "b": [0, 1] * 50}))
    reports = design.reports(frame)
    assert reports.doubts == []
    assert reports.counts("a")[0].origins == reports.origins[0]
    assert design.reports(np.zeros((4, 2), dtype=int)).origins == ((),)
