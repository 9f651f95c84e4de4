"""Provenance: the note in metadata and sidecars, what is refused because of it, the same people read twice."""

import dataclasses
import json
import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import optrr
from optrr import InvalidInput
from optrr.allocation.sampled_tables import SampledTables
from optrr.cli.main import run
from optrr.core.design.design_file import load_design
from optrr.core.domain.domain import Domain
from optrr.core.domain.public import PublicColumns
from optrr.core.mechanisms.matrix import MatrixMechanism, from_probabilities
from optrr.core.mechanisms.mechanism import Mechanism, is_seeded
from optrr.core.mechanisms.release import release_file
from optrr.core.protocols.dependence import dependences_from_randomized
from optrr.core.provenance.accounting import Release, distinct_releases, total_epsilon
from optrr.core.provenance.provenance import Provenance, sidecar_path
from optrr.core.records.reading.registry import check_design, origins_of, refuse_randomized
from optrr.core.records.reading.source import RecordsAt
from optrr_solvers import METHODS
from optrr_solvers.laws import ProductLaw
from optrr_solvers.randomness import SystemSource, as_source

DOMAIN = Domain.of({"sex": ["F", "M"], "age": 5, "smokes": [True, False, None]})
ZERO = f"sha256:{0:064x}"


def mechanism(epsilon: float = 1.0) -> Mechanism:
    return Mechanism(DOMAIN, ProductLaw(DOMAIN.sizes, np.full(3, epsilon)))


def people(n: int = 50) -> pa.Table:
    rng = np.random.default_rng(1)
    smokes = rng.integers(0, 3, n)
    return pa.table(
        {
            "sex": rng.choice(["F", "M"], n),
            "age": rng.integers(0, 5, n),
            "smokes": pa.array([[True, False, None][k] for k in smokes]),
        }
    )


@pytest.fixture
def folder(tmp_path):
    pq.write_table(people(), tmp_path / "true.parquet")
    pa_csv.write_csv(people(), tmp_path / "true.csv")
    return tmp_path


def test_a_design_keeps_its_digest_through_its_file(tmp_path):
    rng = np.random.default_rng(7)
    for k, method in enumerate(["auto", *METHODS] * 2):
        m = 2 if method == "closed-form" else int(rng.integers(2, 5))
        alike = method == "classes"
        sizes = np.full(m, 3) if alike else rng.integers(2, 5, m)
        epsilons = np.full(m, 0.7) if alike else rng.uniform(0.2, 2, m)
        domain = Domain.of({f"a{i}": int(r) for i, r in enumerate(sizes)})
        made = optrr.design(domain, epsilons, method=method)
        optrr.save(made, tmp_path / f"{k}.json")
        assert load_design(tmp_path / f"{k}.json").mechanism.digest == made.mechanism.digest


def test_digests_differ_where_draws_or_categories_do():
    other_names = Domain.of({"sex": ["M", "F"], "age": 5, "smokes": [True, False, None]})
    as_text = Domain.of({"sex": ["F", "M"], "age": [str(k) for k in range(5)], "smokes": ["true", "false", None]})
    law = ProductLaw(DOMAIN.sizes, np.ones(3))
    asked = SampledTables(DOMAIN, (("sex",), ("age",)), np.array([0.5, 0.5]), 1.0)
    coin = Domain.of({"a": 2})
    each = [
        mechanism(1.0),
        mechanism(1.0 + 1e-12),
        Mechanism(other_names, law),
        asked,
        dataclasses.replace(asked, shares=np.array([0.25, 0.75])),
        dataclasses.replace(asked, answer_epsilon=1.5),
        MatrixMechanism(coin, (from_probabilities([[0.75, 0.25], [0.25, 0.75]]),)),
        MatrixMechanism(coin, (from_probabilities([[0.75, 0.25], [0.5, 0.5]]),)),
    ]
    assert len({m.digest for m in each}) == len(each)
    assert Mechanism(as_text, law).digest == mechanism(1.0).digest


def test_the_note_reads_back_and_adds_up():
    rng = np.random.default_rng(3)
    for _ in range(50):
        releases = [
            Release.drawn(mechanism(float(e)), bool(s))
            for e, s in zip(rng.uniform(0.1, 3, 4), rng.random(4) < 0.2, strict=True)
        ]
        known = Provenance(releases[0], tuple(releases[1:] + releases[1:2]), PublicColumns("w"))
        assert Provenance.from_json(known.to_json(), "x") == known
        counted = [releases[1], *releases[1:2] * releases[1].seeded, *releases[2:], releases[0]]
        exact = math.fsum(r.epsilon for r in counted)
        assert exact <= known.epsilon < exact + 1e-13
        assert known.seeded == any(r.seeded for r in releases)
    endless = Provenance(Release(ZERO, "flip pattern", math.inf))
    assert Provenance.from_json(endless.to_json(), "x").epsilon == math.inf


def test_copies_of_a_release_are_counted_once():
    one, two = Release.drawn(mechanism()), Release.drawn(mechanism())
    unknown = Release.of(mechanism())
    assert total_epsilon(distinct_releases([one, two, one])) == pytest.approx(6)
    assert total_epsilon(distinct_releases([one, unknown, unknown])) == pytest.approx(9)
    with pytest.raises(InvalidInput, match="two different releases have the id"):
        distinct_releases([one, msgspec.structs.replace(two, epsilon=0.1, id=one.id)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[:-3], "truncated"),
        (lambda t: t.replace("records/1", "records/2"), "has format"),
        (lambda t: t.replace('"epsilon":1.5', '"epsilon":-0.5'), "release.epsilon"),
        (lambda t: t.replace('"epsilon":1.5', '"epsilon":1.7e308'), "release.epsilon"),
        (lambda t: t.replace("sha256:0", "sha256:x"), "release.design"),
        (lambda t: t.replace('"id":"', '"id":"x'), "release.id"),
        (lambda t: t.replace('"seeded"', '"seeds"'), "unknown field"),
        (lambda t: t.replace('"seeded":false', '"seeded":false,"seeded":true'), "twice"),
        (lambda t: '{"format":"optrr-records/1"}', "missing required"),
        (lambda t: "[" * 100_000, "damaged"),
        (lambda t: "\ud800", "damaged"),
    ],
)
def test_a_damaged_note_is_refused(change, message):
    text = Provenance(Release(ZERO, "flip pattern", 1.5, id="0" * 32)).to_json()
    with pytest.raises(InvalidInput, match=message) as caught:
        Provenance.from_json(change(text), "b.parquet")
    assert "b.parquet" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("target", ["out.csv", "out.parquet"])
@pytest.mark.parametrize("source", ["true.csv", "true.parquet"])
def test_files_of_another_design_and_randomized_ones_are_refused(folder, source, target):
    made = release_file(folder / source, mechanism(), folder / target)
    (origin,) = origins_of(folder / target)
    assert origin.provenance == made.provenance and not made.provenance.seeded
    assert made.provenance.release.mechanism == "flip pattern"
    assert made.provenance.epsilon == mechanism().epsilon
    assert check_design(folder / target, mechanism().digest) == []
    with pytest.raises(InvalidInput, match=r"randomized by another design \([0-9a-f]{12}\)"):
        check_design(folder / target, mechanism(1.1).digest)
    with pytest.raises(InvalidInput, match=r"already randomized \(by design [0-9a-f]{12}, epsilon 3\.000"):
        release_file(folder / target, mechanism(), folder / "again.csv")
    assert not (folder / "again.csv").exists()
    assert check_design(folder / source, mechanism().digest)[0].count("has no provenance metadata") == 1


def test_the_note_is_the_same_json_everywhere(folder):
    release_file(folder / "true.csv", mechanism(), folder / "out.csv", 5)
    release_file(folder / "true.csv", mechanism(), folder / "out.parquet", 5)
    table = mechanism().randomize(people(), random_state=5)
    frame = mechanism().randomize(people().to_pandas().astype({"smokes": "boolean"}), 5)
    notes = [
        (folder / "out.csv.optrr.json").read_text(),
        pq.read_schema(folder / "out.parquet").metadata[b"optrr"],
        table.schema.metadata[b"optrr"],
        frame.attrs["optrr"],
    ]
    # any other file has one beside it
    (folder / "out.jsonl").write_text('{"sex": "F"}')
    (folder / "out.csv.optrr.json").rename(folder / "out.jsonl.optrr.json")
    assert origins_of(folder / "out.jsonl")[0].provenance == origins_of(folder / "out.parquet")[0].provenance
    first, *others = map(json.loads, notes)
    assert others == [first] * 3
    assert set(first) == {"format", "software", "release", "earlier"}
    assert set(first["release"]) == {"design", "mechanism", "epsilon", "seeded", "id"}


def test_a_sidecar_moves_with_its_file_and_a_broken_one_is_refused(folder):
    release_file(folder / "true.csv", mechanism(), folder / "out.csv")
    moved = (folder / "out.csv").rename(folder / "moved.csv")
    beside = sidecar_path(folder / "out.csv").rename(sidecar_path(moved))
    assert not check_design(moved, mechanism().digest)
    beside.write_text("{}")
    for use in (lambda: check_design(moved, mechanism().digest), lambda: refuse_randomized(moved)):
        with pytest.raises(InvalidInput, match=r"the provenance of .*moved\.csv\.optrr\.json is damaged"):
            use()


def test_frames_have_the_note_if_their_library_has_a_place():
    frame = people().to_pandas().astype({"smokes": "boolean"})
    for true in (people(), people().to_batches()[0], frame):
        with pytest.raises(InvalidInput, match=f"the {type(true).__name__} is already randomized"):
            mechanism().randomize(mechanism().randomize(true))
    assert origins_of(mechanism().randomize(frame, random_state=5).head(3))[0].provenance.seeded
    assert origins_of(mechanism().randomize(pl.DataFrame(people())))[0].provenance is None


def test_pandas_carries_it_through_its_own_parquet(tmp_path):
    frame = mechanism().randomize(pd.DataFrame({"sex": ["F", "M"], "age": [1, 2], "smokes": ["true", "false"]}))
    frame.to_parquet(tmp_path / "p.parquet")
    assert origins_of(tmp_path / "p.parquet")[0].provenance == origins_of(frame)[0].provenance


def test_databases_have_no_note(folder):
    with closing(sqlite3.connect(folder / "r.db")) as base, base:
        mechanism().randomize(people().to_pandas().astype({"smokes": "boolean"})).to_sql("r", base)
    where = RecordsAt(f"sqlite:{folder / 'r.db'}", query="SELECT sex, age, smokes FROM r")
    assert ["has no provenance metadata" in line for line in check_design(where, mechanism().digest)] == [True]


def test_folders_and_lists_are_checked_file_by_file(folder):
    parts = folder / "parts"
    parts.mkdir()
    for k in range(2):
        release_file(folder / "true.parquet", mechanism(), parts / f"{k}.parquet")
    assert check_design(parts, mechanism().digest) == []
    release_file(folder / "true.parquet", mechanism(), parts / "3.csv")
    assert check_design(parts, mechanism().digest) == []
    assert str(folder / "true.csv") in check_design([parts, folder / "true.csv"], mechanism().digest)[0]
    release_file(folder / "true.parquet", mechanism(0.5), parts / "2.csv")
    with pytest.raises(InvalidInput, match=r"2\.csv was randomized by another design"):
        check_design(parts, mechanism().digest)


def test_what_somebody_can_repeat_is_marked_as_seeded():
    class Known(SystemSource):
        def words(self, count):
            return np.zeros(count, dtype=np.uint64)

    assert is_seeded(as_source(1)) and is_seeded(Known())
    assert not is_seeded(SystemSource())


def test_seeded_files_are_marked_and_can_be_made_again(folder):
    for name in ("a.csv", "b.csv"):
        release_file(folder / "true.csv", mechanism(), folder / name, 5)
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    assert sidecar_path(folder / "a.csv").read_bytes() == sidecar_path(folder / "b.csv").read_bytes()
    assert "not private" in check_design(folder / "a.csv", mechanism().digest)[0]
    assert origins_of(folder / "a.csv")[0].provenance.release.cost == math.inf


def test_streams_say_so_too(folder):
    out = [mechanism().randomize(batch) for batch in people().to_batches(max_chunksize=10)]
    assert all(origins_of(batch)[0].provenance.epsilon == mechanism().epsilon for batch in out)
    for stream in (iter(out), pa.Table.from_batches(out[:1]).to_reader()):
        with pytest.raises(InvalidInput, match=r"already randomized|different releases"):
            release_file(stream, mechanism(), folder / "x.csv")
    assert not (folder / "x.csv").exists()


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (1, 2)])
def test_a_later_batch_of_a_stream_is_asked_too(folder, order):
    """True records (0) and two releases (1, 2): whatever comes first, the others are refused, and nothing is written."""
    true, design = people().combine_chunks().to_batches()[0], optrr.design(DOMAIN, 1.0)
    batches = [true, *(design.mechanism.randomize(true) for _ in range(2))]
    mixed = [batches[k] for k in order]
    different = "batches of different releases, or true records among randomized ones"
    for use, message in (
        (
            lambda: release_file(iter(mixed), design.mechanism, folder / "out.parquet"),
            f"already randomized|{different}",
        ),
        (lambda: optrr.count(iter(mixed), DOMAIN, ["sex"], allow_extra=True), different),
        (lambda: design.reports(iter(mixed)).table("sex"), different),
    ):
        with pytest.raises(InvalidInput, match=message):
            use()
    assert not (folder / "out.parquet").exists()


def test_ways_of_asking_refuse_each_other_s_answers():
    first, second = (optrr.design(DOMAIN, epsilon) for epsilon in (1.0, 2.0))
    table = people()
    answers = first.randomize(table)
    assert first.reports(answers).table("sex").n == table.num_rows
    for data in (answers, iter(answers.to_batches())):
        with pytest.raises(InvalidInput, match="another design"):
            second.reports(data).table("sex")
    with pytest.raises(InvalidInput, match="another design"):
        dependences_from_randomized(answers, second.mechanism)
    asked = SampledTables(DOMAIN, (("sex",), ("age",)), np.array([0.5, 0.5]), 1.0)
    with pytest.raises(InvalidInput, match="another design"):
        dataclasses.replace(asked, answer_epsilon=2.0).estimate(asked.randomize(table), "sex")


ANSWERED = {"a": ["x", "y"], "b": 3}
N = 400
# One command reads through counts, one through records; what each needs beside its INPUT.
COMMANDS = {"estimate": ("--attributes", "a,b"), "regress": ("--formula", "a ~ C(b)")}


def answered_by(seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, N)
    return pa.table({"a": np.where(a == 1, "y", "x"), "b": (a + rng.integers(0, 2, N)) % 3})


@pytest.fixture(params=["csv", "parquet"])
def kind(request, tmp_path, monkeypatch):
    """r1 and its copy, and others of other people."""
    monkeypatch.chdir(tmp_path)
    ending = request.param
    write = pa_csv.write_csv if ending == "csv" else pq.write_table
    write(answered_by(1), f"true.{ending}")
    write(answered_by(2), f"more.{ending}")
    optrr.save(optrr.design(ANSWERED, 1.5), "d.json")
    release(f"true.{ending}", f"r1.{ending}")
    release(f"more.{ending}", f"others.{ending}")
    shutil.copy(f"r1.{ending}", f"copy.{ending}")
    if ending == "csv":
        shutil.copy(sidecar_path(Path("r1.csv")), sidecar_path(Path("copy.csv")))
    return ending


def release(source, target, *options):
    assert run(["randomize", source, "--design", "d.json", "-o", target, *options]) == 0


def said(capsys, command, *places, code=0, options=()):
    capsys.readouterr()
    assert run([command, *places, "--design", "d.json", *(options or COMMANDS[command]), "--json"]) == code
    out, err = capsys.readouterr()
    return json.loads(out) if code == 0 else err


@pytest.mark.parametrize("command", COMMANDS)
def test_the_same_release_twice_is_refused_and_others_are_pooled(kind, capsys, command):
    for again in (f"copy.{kind}", f"r1.{kind}", f"./r1.{kind}"):
        err = said(capsys, command, f"r1.{kind}", f"others.{kind}", again, code=2)
        assert "its respondents would count twice" in err and err.count("\n") == 1
    pooled = said(capsys, command, f"r1.{kind}", f"others.{kind}")
    assert pooled["n"] == 2 * N and pooled["doubts"] == []


def test_a_group_against_itself(kind, capsys):
    options = ("--attributes", "a", "--hypothesis", "homogeneity", "--group")
    assert "would count twice" in said(capsys, "test", f"r1.{kind}", code=2, options=(*options, f"r1.{kind}"))
    # groups may be parts of one release, of different people
    (doubt,) = said(capsys, "test", f"r1.{kind}", options=(*options, f"copy.{kind}"))["doubts"]
    assert "both contain records of one release" in doubt


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
    assert "contain the same release" in named and "a directory with the parts" in named


def test_a_copy_that_lost_its_sidecar_is_warned_of(kind, capsys):
    if kind == "csv":
        sidecar_path(Path("copy.csv")).unlink()
        doubts = said(capsys, "estimate", "r1.csv", "copy.csv")["doubts"]
        assert ["copy.csv" in line and "has no provenance metadata" in line for line in doubts] == [True]


def test_answers_given_twice(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asking = SampledTables(optrr.Domain.of(ANSWERED), (("a", "b"), ("b",)), np.array([0.5, 0.5]), 2.0)
    optrr.save(asking, "d.json")
    pq.write_table(answered_by(1), "true.parquet")
    release("true.parquet", "r1.parquet")
    shutil.copy("r1.parquet", "copy.parquet")
    options = ("--attributes", "b")
    assert "would count twice" in said(capsys, "estimate", "r1.parquet", "copy.parquet", code=2, options=options)
