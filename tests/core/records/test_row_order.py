"""Where a record stands tells nothing of it: files are in random order, frames keep the order and index of the data."""

import shutil
from itertools import permutations
from math import factorial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from genotypes import cohort_of
from scipy.stats import chi2

import optrr
from optrr.allocation.sampled_tables import SampledTables
from optrr.cli.main import run
from optrr.core.design.design_file import save_design
from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.mechanism import ReleaseOptions
from optrr.core.mechanisms.release import release_file
from optrr.core.records import writing
from optrr.core.records.writing import shuffled
from optrr.genomics import write_plink
from optrr.longitudinal.design import longitudinal
from optrr.longitudinal.rounds import Key, randomize_wave
from optrr_solvers.randomness import as_source

# How often a statistical test of this file would fail by chance.
FALSE_ALARM = 1e-6
# A standard normal is beyond it so often.
FAR = 4.9

N = 20_000
AGES = 5


@pytest.fixture(scope="module")
def design():
    """Total ε 1.49."""
    return optrr.design(Domain.of({"sex": ["F", "M"], "age": AGES}), {"sex": 1.0, "age": 0.5})


@pytest.fixture(scope="module")
def truth():
    """20,000 people sorted by sex and age: codes, shape (n, 2)."""
    rng = np.random.default_rng(1)
    codes = np.column_stack([rng.integers(0, 2, N), rng.integers(0, AGES, N)])
    return codes[np.lexsort((codes[:, 1], codes[:, 0]))]


def _table(codes):
    return pa.table({"sex": pa.array(["F", "M"]).take(pa.array(codes[:, 0])), "age": codes[:, 1]})


def _codes(table):
    ages = np.asarray(table["age"].cast(pa.string()).to_numpy(), dtype=np.int64)
    return np.column_stack([table["sex"].to_numpy() == "M", ages]).astype(np.int64)


@pytest.fixture
def here(tmp_path, design, truth, monkeypatch):
    """A folder with the sorted records, in CSV, in Parquet and as a folder of two parts, and the design."""
    monkeypatch.chdir(tmp_path)
    save_design(design, tmp_path / "d.json")
    table = _table(truth)
    pa_csv.write_csv(table, "true.csv")
    pq.write_table(table, "true.parquet")
    Path("parts").mkdir()
    for k in range(2):
        pq.write_table(table.slice(k * N // 2, N // 2), f"parts/{k}.parquet")
    return tmp_path


def z_of_place(values):
    """Σ place · value, standardized under all orders of the values, every one equally likely: nearly standard normal."""
    place = np.arange(len(values)) - (len(values) - 1) / 2
    away = values - values.mean()
    return float(place @ away / np.sqrt(place @ place * (away @ away) / (len(values) - 1)))


def majorities(values, size, width=201):
    """At every place the most frequent value around it."""
    totals = np.cumsum(np.vstack([np.zeros(size), np.eye(size)[values]]), axis=0)
    at = np.arange(len(values))
    low, high = np.maximum(at - width // 2, 0), np.minimum(at + width // 2 + 1, len(values))
    return np.argmax(totals[high] - totals[low], axis=1)


def _tell_nothing(released):
    assert len(released) == N
    assert max(abs(z_of_place(released[:, 0])), abs(z_of_place(released[:, 1]))) < FAR


def test_a_moving_majority_undoes_any_noise_in_sorted_records(here, design, truth):
    """The figures of docs/security.md: with the order kept sex is right for 99.9 %, age for 95 %; shuffled, as by guessing."""
    assert round(design.epsilon, 2) == 1.49

    def right(keep_order):
        release_file("true.parquet", design.mechanism, "out.parquet", 3, options=ReleaseOptions(keep_order=keep_order))
        out = _codes(pq.read_table("out.parquet"))
        return [float(np.mean(majorities(out[:, k], r) == truth[:, k])) for k, r in ((0, 2), (1, AGES))]

    assert right(True)[0] > 0.997 and right(True)[1] > 0.94
    sex, age = right(False)
    # a window of 201 makes about 100 independent guesses of the 20,000: 0.1 is 2 standard deviations for sex; the seed is fixed
    assert abs(sex - 0.5) < 0.1 and abs(age - 1 / AGES) < 0.1


@pytest.mark.parametrize("given", ["true.csv", "true.parquet", "parts"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_places_tell_nothing_in_files(here, capsys, given, suffix):
    read = pa_csv.read_csv if suffix == ".csv" else pq.read_table
    command = ["randomize", given, "--design", "d.json", "--json", "-o"]
    assert run([*command, f"out{suffix}"]) == 0
    said = capsys.readouterr()
    assert not said.err
    _tell_nothing(_codes(read(f"out{suffix}")))
    assert run([*command, f"kept{suffix}", "--keep-order"]) == 0
    said = capsys.readouterr()
    assert f"kept{suffix} is in the order of the true records, which no epsilon covers" in said.err
    assert z_of_place(_codes(read(f"kept{suffix}"))[:, 0]) > 10 * FAR


def test_public_columns_travel_with_their_record(here, design, truth):
    table = (
        _table(truth)
        .append_column("w", pa.array(np.arange(N) + 0.5))
        .append_column("region", pa.array(truth[:, 0] + 7))
    )
    pq.write_table(table.select(["w", "age", "region", "sex"]), "with.parquet")
    sure = optrr.design(design.domain, {"sex": 40.0, "age": 40.0})
    options = ReleaseOptions(public=optrr.PublicColumns("w", group=("region",)))
    sure.release_file("with.parquet", "out.parquet", 6, options)
    out = pq.read_table("out.parquet")
    assert out.schema.names == ["w", "age", "region", "sex"]
    rows = (out["w"].to_numpy() - 0.5).astype(int)
    assert sorted(rows) == list(range(N)) and abs(z_of_place(rows)) < FAR
    assert np.array_equal(truth[rows], _codes(out)) and np.array_equal(truth[rows, 0] + 7, out["region"].to_numpy())


def test_places_tell_nothing_in_answers_to_one_table(here, design):
    asking = SampledTables(design.domain, (("sex",),), np.ones(1), 1.0)
    asking.release_file("true.csv", "out.csv")
    assert abs(z_of_place(pa_csv.read_csv("out.csv")["cells"].to_numpy())) < FAR
    asking.randomize("true.csv", "kept.csv", keep_order=True)
    assert z_of_place(pa_csv.read_csv("kept.csv")["cells"].to_numpy()) > 10 * FAR


def test_places_tell_nothing_in_rounds(here, truth):
    """People are named at random; the same round has the same reports, in another order."""
    made = longitudinal(Domain.of({"sex": ["F", "M"], "age": AGES}), [0.5, 0.5], 2.0)
    names = np.random.default_rng(3).permutation(N)
    pq.write_table(_table(truth).append_column("who", pa.array(names)), "people.parquet")
    asked = {"key": Key.new(), "wave": "may", "id_column": "who"}
    tables = []
    for k in range(2):
        randomize_wave("people.parquet", made, f"{k}.parquet", **asked)
        tables.append(pq.read_table(f"{k}.parquet"))
        _tell_nothing(_codes(tables[k]))
    assert tables[0] != tables[1] and tables[0].sort_by("who") == tables[1].sort_by("who")
    randomize_wave("people.parquet", made, "kept.parquet", **asked, options=ReleaseOptions(keep_order=True))
    assert pq.read_table("kept.parquet")["who"].to_pylist() == names.tolist()


@pytest.mark.parametrize(("first", "risen"), [("9", True), ("p9", True), ("007", False)])
def test_names_in_the_order_of_the_records_are_told_of(tmp_path, first, risen):
    """Numbers, with a letter before them or not; what does not rise, or is too short to say, tells nothing."""
    made = longitudinal(Domain.of({"sex": ["F", "M"], "age": AGES}), [0.5, 0.5], 2.0)
    prefix = first.rstrip("0123456789")
    for n, told in ((30, risen), (5, False)):
        names = [first, *(f"{prefix}{k}" for k in range(10, 9 + n))]
        table = _table(np.zeros((n, 2), dtype=int)).append_column("who", pa.array(names))
        pq.write_table(table, tmp_path / "true.parquet")
        asked = {"key": Key.new(), "wave": "may", "id_column": "who"}
        warnings = randomize_wave(tmp_path / "true.parquet", made, tmp_path / f"out{n}.csv", **asked).warnings
        assert [w.count("names in 'who' increase from record to record") for w in warnings] == [1] * told


PEOPLE = 2_000
TOLD = 7.0


def _genotypes(folder):
    """A thousand cases, then a thousand controls, numbered in that order."""
    pytest.importorskip("bed_reader")
    status = np.repeat([1, 0], PEOPLE // 2)
    write_plink(cohort_of(np.random.default_rng(7).integers(0, 3, (PEOPLE, 2)), status), folder / "true.bed")
    return status


def _status(suffix):
    """Status and name of everybody, in the file's order."""
    if suffix == ".bed":
        rows = [line.split() for line in Path("out.fam").read_text().splitlines()]
        return np.array([r[5] == "2" for r in rows], dtype=float), [r[1] for r in rows]
    table = (pa_csv.read_csv if suffix == ".csv" else pq.read_table)(f"out{suffix}")
    return (table["status"].cast(pa.string()).to_numpy() == "case").astype(float), [
        *map(str, table["sample"].to_pylist())
    ]


@pytest.mark.parametrize("suffix", [".bed", ".csv", ".parquet"])
def test_places_and_names_tell_nothing_of_genotypes(tmp_path, monkeypatch, capsys, suffix):
    """Order that tells has a mean of −12.6 standard deviations here, 5.5 of them beyond TOLD: false alarm 1e-7."""
    monkeypatch.chdir(tmp_path)
    true = _genotypes(tmp_path)
    assert run(["gwas", "design", "true.bed", "--total-epsilon", "1", "-o", "g.json"]) == 0
    command = ["gwas", "randomize", "true.bed", "--design", "g.json", "-o", f"out{suffix}"]
    capsys.readouterr()
    assert run(command) == 0
    status, names = _status(suffix)
    assert abs(z_of_place(status)) < FAR
    assert names == [str(k + 1) for k in range(PEOPLE)]
    assert not capsys.readouterr().err.count("order")
    # with their names people can be put in order again, and it is said
    assert run([*command, "--keep-names"]) == 0
    status, names = _status(suffix)
    assert "names of people are published without randomization" in capsys.readouterr().err
    place = np.array([int(n[1:]) for n in names])
    assert abs(z_of_place(place)) < FAR and z_of_place(status[np.argsort(place)]) < -TOLD
    assert run([*command, "--keep-order"]) == 0
    assert "in the order of the true records" in capsys.readouterr().err
    kept, names = _status(suffix)
    assert names == [str(k + 1) for k in range(PEOPLE)]
    right = np.mean(majorities(kept.astype(int), 2) == true)
    assert right > 0.95 and z_of_place(kept) < -TOLD


@pytest.mark.slow
def test_places_tell_nothing_in_the_parts_that_spark_writes(tmp_path, design, truth):
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    if not shutil.which("java"):
        pytest.skip("PySpark needs Java")
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from optrr.core.mechanisms.spark import randomize_once  # noqa: PLC0415

    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    pq.write_table(_table(truth), tmp_path / "true.parquet", row_group_size=1000)
    frame = session.read.parquet(str(tmp_path / "true.parquet")).repartitionByRange(4, "sex", "age")

    def released(name, **options):
        out = randomize_once(frame, design.mechanism, str(tmp_path / name), **options)
        assert out.columns == ["sex", "age"]
        parts = sorted((tmp_path / name).glob("part-*.parquet"))
        return _codes(pa.concat_tables([pq.read_table(part) for part in parts]))

    _tell_nothing(released("out"))
    assert z_of_place(released("kept", keep_order=True)[:, 0]) > 10 * FAR
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept", "out", "true.parquet"]


def test_pandas_frames_keep_their_index(design, truth):
    """Another column put beside the randomized ones stands beside its own person."""
    pd = pytest.importorskip("pandas")
    frame = _table(truth).to_pandas()
    frame["w"] = np.arange(N, dtype=float)
    some = frame.sample(2_700, random_state=1)
    sure = optrr.design(design.domain, {"sex": 40.0, "age": 40.0})
    out = sure.mechanism.randomize(some[["sex", "age"]])
    assert out.index.equals(some.index)
    out["w"] = some["w"]
    assert out[["sex", "age", "w"]].equals(some)
    # public columns, labels that repeat, and labels of several levels
    labels = pd.MultiIndex.from_arrays([["a", "b", "a"], [1, 2, 1]], names=["group", None])
    few = some.iloc[:3].set_axis(labels)
    with_weight = optrr.design(design.domain, {"sex": 40.0, "age": 40.0}, public={"weight": "w"})
    assert with_weight.randomize(few).equals(few)
    with pytest.raises(InvalidInput, match="the index has the name of attribute 'sex'"):
        sure.mechanism.randomize(few[["sex", "age"]].set_index("sex", drop=False))


def _batches(n, size, extra=None):
    table = pa.table({"k": np.arange(n), "text": pa.array([f"t{k}" for k in range(n)])})
    return (table if extra is None else table.append_column("x", extra)).to_batches(max_chunksize=size)


@pytest.mark.slow
@pytest.mark.parametrize("held", [1 << 20, 2], ids=["in memory", "through buckets"])
def test_every_order_is_equally_likely(monkeypatch, held):
    """χ² of the orders of four records, at a fixed seed."""
    monkeypatch.setattr(writing, "_HELD_RECORDS", held)
    draws, bits = 24 * 25, as_source(8)
    batches = _batches(4, 1)
    seen = dict.fromkeys(permutations(range(4)), 0)
    for _ in range(draws):
        seen[tuple(k for b in shuffled(batches, bits) for k in b["k"].to_pylist())] += 1
    expected = draws / factorial(4)
    statistic = sum((count - expected) ** 2 / expected for count in seen.values())
    assert chi2.sf(statistic, factorial(4) - 1) > FALSE_ALARM


def test_shuffling_keeps_every_record_whole_whatever_its_types(monkeypatch, tmp_path):
    monkeypatch.setattr(writing, "_HELD_RECORDS", 8)
    n = 600
    texts = [f"t{k}" for k in range(n)]
    for extra in (
        pa.array(texts, pa.string_view()),
        pa.array(texts).dictionary_encode(),
        pa.array(texts, pa.large_string()),
    ):
        out = pa.Table.from_batches(shuffled(_batches(n, 200, extra), as_source(9), tmp_path))
        assert out.schema.field("x").type == extra.type
        order = out["k"].to_numpy()
        assert sorted(order) == list(range(n)) and abs(z_of_place(order)) < FAR
        assert out["text"].to_pylist() == out["x"].to_pylist() == [f"t{k}" for k in order]
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed in /proc")
def test_the_temporary_file_has_no_name_and_only_its_owner_could_read_it(monkeypatch, tmp_path):
    monkeypatch.setattr(writing, "_HELD_RECORDS", 10)
    running = shuffled(_batches(1_000, 100), as_source(10), tmp_path)
    next(running)
    assert not list(tmp_path.iterdir())
    held = [p for p in Path("/proc/self/fd").iterdir() if str(tmp_path) in str(p.resolve())]
    assert held and all(p.stat().st_mode & 0o077 == 0 for p in held)
    running.close()
    assert not [p for p in Path("/proc/self/fd").iterdir() if str(tmp_path) in str(p.resolve())]
