"""What randomized records say of themselves: texts, metadata, sidecars, a column; and what is refused because of it."""

import dataclasses
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import optrr
from optrr.designs.dependence import dependences_from_randomized
from optrr.designs.design_file import load_design
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.matrix import MatrixMechanism, from_probabilities
from optrr.mechanisms.mechanism import Mechanism, ReleaseOptions, is_seeded
from optrr.mechanisms.perturb import perturb, release_file
from optrr.records.reading.registry import check_design, origins_of, randomized_before
from optrr.releases.provenance import COLUMN, KEY, Provenance, Release, distinct_releases, sidecar_path, total_epsilon
from optrr.ways.protocols.sampled_tables import SampledTables
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
    digests = set()
    for k, method in enumerate(["auto", *METHODS] * 2):
        m = 2 if method == "closed-form" else int(rng.integers(2, 5))
        alike = method == "classes"
        sizes = np.full(m, 3) if alike else rng.integers(2, 5, m)
        epsilons = np.full(m, 0.7) if alike else rng.uniform(0.2, 2, m)
        domain = Domain.of({f"a{i}": int(r) for i, r in enumerate(sizes)})
        made = optrr.design(domain, epsilons, method=method)
        optrr.save(made, tmp_path / f"{k}.json")
        again = load_design(tmp_path / f"{k}.json").mechanism
        assert again.digest == made.mechanism.digest
        digests.add((made.mechanism.digest, str(epsilons)))
    assert len({d for d, _ in digests}) == len({e for _, e in digests})


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


def test_the_text_reads_back_and_adds_up():
    rng = np.random.default_rng(3)
    for _ in range(50):
        releases = [
            Release.drawn(ZERO, float(e), bool(s))
            for e, s in zip(rng.uniform(0, 3, 4), rng.random(4) < 0.2, strict=True)
        ]
        known = Provenance(tuple(releases[:2]), tuple(releases[2:] + releases[2:3]))
        assert Provenance.from_json(known.to_json(), "x") == known
        assert known.epsilon >= math.fsum(r.epsilon for r in distinct_releases(known.releases))
        assert known.epsilon < 1e-14 + math.fsum(r.epsilon for r in known.releases)
        assert known.seeded == any(r.seeded for r in releases)
    endless = Provenance((Release.drawn(ZERO, math.inf, False),))
    assert Provenance.from_json(endless.to_json(), "x").epsilon == math.inf


def test_copies_of_a_release_are_counted_once():
    one, two = Release.drawn(ZERO, 1.0, False), Release.drawn(ZERO, 1.0, False)
    unknown = Release(ZERO, 1.0)
    assert total_epsilon(distinct_releases([one, two, one])) == pytest.approx(2)
    assert total_epsilon(distinct_releases([one, unknown, unknown])) == pytest.approx(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[:-3], "truncated"),
        (lambda t: t.replace("records/1", "records/2"), "this version reads"),
        (lambda t: t.replace('"epsilon":1.5', '"epsilon":0.5', 1), "states less"),
        (lambda t: t.replace('"seeded":true', '"seeded":false', 1), "states less"),
        (lambda t: t.replace("sha256:0", "sha256:x"), "digest or id"),
        (lambda t: t.replace('"unit"', '"uni"'), "unknown field"),
        (lambda t: '{"format":"optrr-records/1"}', "missing required"),
        (lambda t: "[" * 100_000, "recursion|cannot be read"),
    ],
)
def test_a_note_that_was_tampered_with_is_refused(change, message):
    text = Provenance((Release.drawn(ZERO, 1.5, True),)).to_json()
    with pytest.raises(InvalidInput, match=message) as caught:
        Provenance.from_json(change(text), "b.parquet")
    assert "b.parquet" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("target", ["out.csv", "out.parquet"])
@pytest.mark.parametrize("source", ["true.csv", "true.parquet"])
def test_files_are_bound_and_not_randomized_twice(folder, source, target):
    made = release_file(folder / source, mechanism(), folder / target)
    (origin,) = origins_of(folder / target)
    assert origin.bound == made.provenance and not origin.bound.seeded
    assert origin.bound.epsilon == mechanism().epsilon
    assert check_design(folder / target, mechanism().digest) == []
    with pytest.raises(InvalidInput, match=r"randomized by another design \([0-9a-f]{12}\)"):
        check_design(folder / target, mechanism(1.1).digest)
    with pytest.raises(InvalidInput, match=r"already randomized \(once, epsilon 3\.000"):
        perturb(folder / target, mechanism(), folder / "again.csv")
    assert not (folder / "again.csv").exists()
    twice = release_file(
        folder / target, mechanism(0.5), folder / "again.csv", None, ReleaseOptions(again=True)
    ).provenance
    assert twice.randomizations[0] == made.provenance.randomizations[0] and len(twice.randomizations) == 2
    assert 4.5 <= twice.epsilon < 4.5 + 1e-9
    for digest in (mechanism().digest, mechanism(0.5).digest):
        with pytest.raises(InvalidInput, match="randomized twice"):
            check_design(folder / "again.csv", digest)
    assert check_design(folder / source, mechanism().digest)[0].count("not bound to a design") == 1


def test_sidecars_notice_another_content(folder):
    perturb(folder / "true.csv", mechanism(), folder / "out.csv")
    out, beside = folder / "out.csv", sidecar_path(folder / "out.csv")
    moved = out.rename(folder / "moved.csv")
    beside = beside.rename(sidecar_path(moved))
    assert not check_design(moved, mechanism().digest)
    text = moved.read_text()
    for changed in (text + "F,1,true\n", text.replace("F", "M", 1) if "F" in text else text[:-2]):
        moved.write_text(changed)
        assert "written for other content" in check_design(moved, mechanism(3.0).digest)[0]
        with pytest.raises(InvalidInput, match="may be randomized already"):
            randomized_before(moved)
    beside.write_text("{}")
    with pytest.raises(InvalidInput, match=r"moved\.csv\.optrr\.json cannot be read"):
        check_design(moved, mechanism().digest)


def test_frames_say_so_where_their_library_lets_them():
    table = mechanism().perturb(people())
    assert table.schema.metadata[KEY.encode()]
    with pytest.raises(InvalidInput, match="the Table is already randomized"):
        mechanism().perturb(table)
    twice = mechanism().perturb(table, again=True)
    assert origins_of(twice)[0].bound.epsilon >= 6
    batch = mechanism().perturb(people().to_batches()[0])
    with pytest.raises(InvalidInput, match="the RecordBatch is already randomized"):
        mechanism().perturb(batch)
    frame = mechanism().perturb(people().to_pandas().astype({"smokes": "boolean"}), 5)
    assert origins_of(frame.head(3))[0].bound.seeded
    with pytest.raises(InvalidInput, match="the DataFrame is already randomized"):
        mechanism().perturb(frame)
    assert origins_of(mechanism().perturb(pl.DataFrame(people())))[0].provenance is None


def test_pandas_carries_it_through_its_own_parquet(tmp_path):
    frame = mechanism().perturb(pd.DataFrame({"sex": ["F", "M"], "age": [1, 2], "smokes": ["true", "false"]}))
    frame.to_parquet(tmp_path / "p.parquet")
    assert origins_of(tmp_path / "p.parquet")[0].bound == origins_of(frame)[0].bound


def test_a_column_carries_it_through_databases(tmp_path):
    known = Provenance((Release.drawn(mechanism().digest, 3.0, False),))
    other = Provenance((Release.drawn(mechanism(2.0).digest, 6.0, False),))
    table = people(4).append_column(COLUMN, pa.array([known.to_json()] * 4))
    pa_csv.write_csv(table, tmp_path / "t.csv")
    pq.write_table(table, tmp_path / "t.parquet")
    for data in (table, pl.DataFrame(table), tmp_path / "t.csv", tmp_path / "t.parquet"):
        assert [o.bound for o in origins_of(data)] == [known]
        assert check_design(data, mechanism().digest) == []
        with pytest.raises(InvalidInput, match="already randomized"):
            randomized_before(data)
    perturb(tmp_path / "t.csv", mechanism(), tmp_path / "again.csv", again=True)
    assert COLUMN not in (tmp_path / "again.csv").read_text()
    mixed = people(4).append_column(COLUMN, pa.array([known.to_json()] * 2 + [other.to_json(), None]))
    assert [o.bound for o in origins_of(mixed)] == [known, other, None]
    with pytest.raises(InvalidInput, match="another design"):
        check_design(mixed, mechanism().digest)


def test_folders_and_lists_speak_for_all_their_files(folder):
    parts = folder / "parts"
    parts.mkdir()
    for k in range(2):
        perturb(folder / "true.parquet", mechanism(), parts / f"{k}.parquet")
    assert check_design(parts, mechanism().digest) == []
    perturb(folder / "true.parquet", mechanism(), parts / "3.csv")
    assert check_design(parts, mechanism().digest) == []
    assert check_design([parts, folder / "true.csv"], mechanism().digest)[0].startswith(str(folder / "true.csv"))
    perturb(folder / "true.parquet", mechanism(0.5), parts / "2.csv")
    with pytest.raises(InvalidInput, match=r"2\.csv was randomized by another design"):
        check_design(parts, mechanism().digest)


def test_what_somebody_can_repeat_is_marked_as_seeded():
    class Known(SystemSource):
        def words(self, count):
            return np.zeros(count, dtype=np.uint64)

    repeatable = [SystemSource(b"\0" * 48), SystemSource(b"\0" * 48).children(1)[0], as_source(1), Known()]
    assert [is_seeded(source) for source in repeatable] == [True] * 4
    assert [is_seeded(source) for source in (SystemSource(), SystemSource().children(1)[0])] == [False] * 2


def test_seeded_files_are_marked_and_can_be_made_again(folder):
    for name in ("a.csv", "b.csv"):
        perturb(folder / "true.csv", mechanism(), folder / name, 5)
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    assert sidecar_path(folder / "a.csv").read_bytes() == sidecar_path(folder / "b.csv").read_bytes()
    assert "not private" in check_design(folder / "a.csv", mechanism().digest)[0]
    assert origins_of(folder / "a.csv")[0].bound.randomizations[0].cost == math.inf


def test_streams_say_so_too(folder):
    def batches(table):
        return iter(table.to_batches(max_chunksize=10))

    out = list(optrr.perturb(batches(people()), mechanism()))
    assert all(origins_of(batch)[0].bound.epsilon == mechanism().epsilon for batch in out)
    again = pa.Table.from_batches(out)
    for stream in (batches(again), again.to_reader()):
        with pytest.raises(InvalidInput, match="already randomized"):
            optrr.perturb(stream, mechanism())
    with pytest.raises(InvalidInput, match="already randomized"):
        optrr.perturb(batches(again), mechanism(), folder / "x.csv")
    assert not (folder / "x.csv").exists()
    twice = list(optrr.perturb(batches(again), mechanism(), again=True))
    assert len(origins_of(twice[0])[0].bound.randomizations) == 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (1, 2)])
def test_a_later_batch_of_a_stream_is_asked_too(folder, order):
    """True records (0) and two releases (1, 2): whatever comes first, the others are refused, and nothing is written."""
    true, design = people().combine_chunks().to_batches()[0], optrr.design(DOMAIN, 1.0)
    batches = [true, *(design.mechanism.perturb(true) for _ in range(2))]
    mixed = [batches[k] for k in order]
    for use in (
        lambda: perturb(iter(mixed), design.mechanism, folder / "out.parquet", again=True),
        lambda: perturb(mixed, design.mechanism, folder / "out.parquet", again=True),
        lambda: list(optrr.perturb(iter(mixed), design.mechanism, again=True)),
        lambda: optrr.count(iter(mixed), DOMAIN, ["sex"], allow_extra=True),
        lambda: design.estimate(iter(mixed), ["sex"]),
    ):
        with pytest.raises(InvalidInput, match="batches of different releases, or true records among randomized ones"):
            use()
    assert not (folder / "out.parquet").exists()


def test_an_iterator_of_another_design_s_records_is_not_estimated():
    design, other = optrr.design(DOMAIN, 1.0), optrr.design(DOMAIN, 2.0)
    batches = other.mechanism.perturb(people()).to_batches()
    with pytest.raises(InvalidInput, match="randomized by another design"):
        design.estimate(iter(batches), ["sex"])
    assert other.estimate(iter(batches), ["sex"]).n == 50


def test_ways_of_asking_refuse_each_other_s_answers():
    first, second = (optrr.design(DOMAIN, epsilon) for epsilon in (1.0, 2.0))
    table = people()
    answers = first.perturb(table)
    assert first.estimate(answers, "sex").n == table.num_rows
    with pytest.raises(InvalidInput, match="another design"):
        second.estimate(answers, "sex")
    with pytest.raises(InvalidInput, match="another design"):
        dependences_from_randomized(answers, second.mechanism)
    asked = SampledTables(DOMAIN, (("sex",), ("age",)), np.array([0.5, 0.5]), 1.0)
    with pytest.raises(InvalidInput, match="another design"):
        dataclasses.replace(asked, answer_epsilon=2.0).estimate(asked.perturb(table), "sex")
