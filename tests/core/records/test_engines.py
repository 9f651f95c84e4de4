"""The Spark engine; skipped where PySpark is absent."""

import contextlib
import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from optrr.allocation.sampled_tables import SampledTables
from optrr.allocation.sampled_uses import answer_once
from optrr.core.domain.bins import Bins
from optrr.core.domain.domain import Attribute, Domain, binned
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.core.mechanisms.release import release_file
from optrr.core.mechanisms.spark import randomize_once
from optrr.core.records.counts import count, count_many, distinct
from optrr.core.records.reading.registry import check_design
from optrr_solvers.allocation.questions import SubsetReport
from optrr_solvers.laws import ProductLaw

# a Java machine starts for them
pytestmark = pytest.mark.slow

DOMAIN = Domain.of({"sex": ["F", "M"], "age": 5, "smokes": [True, False, None]})


@pytest.fixture(scope="module")
def spark():
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    if not shutil.which("java"):
        pytest.skip("PySpark needs Java")
    session = importlib.import_module("pyspark.sql").SparkSession
    few = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    built = session.builder.master("local[1]").config(map=few).getOrCreate()
    yield built
    built.stop()


def _mechanism(epsilon: float) -> Mechanism:
    return Mechanism(DOMAIN, ProductLaw(DOMAIN.sizes, np.full(3, epsilon)))


def test_randomizes_once(spark, tmp_path):
    rows = [("F", k % 5, [True, False, None][k % 3]) for k in range(2000)]
    frame = spark.createDataFrame(rows, "sex string, age int, smokes boolean")
    out = randomize_once(frame, _mechanism(1.0), str(tmp_path / "out"))
    first, second = out.collect(), out.collect()
    assert first == second
    assert out.schema.simpleString() == "struct<sex:string,age:bigint,smokes:boolean>"
    # 2000 records kept with probability e/(e+1) = 0.7311: 5 standard deviations are 0.0496; false alarm 6e-7
    assert abs(np.mean([r.sex == "F" for r in first]) - 0.7311) < 0.0496


@pytest.mark.parametrize("kids", ["int", "double", "string"])
def test_types_are_those_of_the_domain(spark, tmp_path, kids):
    """Spark reads numbers with a missing one as another type; it has no dictionaries for ordered categories and bins."""
    level, hours = Attribute("level", ("low", "high"), ordered=True), binned("hours", Bins((0, 9, 15, float("inf"))))
    domain = Domain((Attribute("kids", (0, 1, None)), level, hours))
    read = {"int": int, "double": float, "string": str}[kids]
    # 15 falls where the upper bin begins
    frame = spark.createDataFrame(
        [(read(0), "low", 3.0), (None, "high", 15.0)], f"kids {kids}, level string, hours double"
    )
    out = randomize_once(frame, Mechanism(domain, ProductLaw(domain.sizes, np.full(3, 50.0))), str(tmp_path / "out"))
    assert out.schema.simpleString() == "struct<kids:bigint,level:string,hours:string>"
    assert sorted(map(tuple, out.collect()), key=str) == [(0, "low", "[0, 9)"), (None, "high", ">= 15")]
    assert count(out, domain, ["level", "hours"]).table.tolist() == [[1, 0, 0], [0, 0, 1]]


def test_bad_columns_and_values(spark, tmp_path):
    frame = spark.createDataFrame([("F", 1)], "sex string, age int")
    with pytest.raises(InvalidInput, match="smokes"):
        randomize_once(frame, _mechanism(1.0), str(tmp_path / "a"))
    rows = [("F", 1, True), ("X", 1, True)]
    bad = spark.createDataFrame(rows, "sex string, age int, smokes boolean").coalesce(1)
    for refused in (
        lambda: randomize_once(bad, _mechanism(1.0), str(tmp_path / "b")),
        lambda: count(bad, DOMAIN, "sex"),
    ):
        with pytest.raises(
            InvalidInput, match=r"^partition 1, whose records .*'sex', record 2: unknown category"
        ) as said:
            refused()
        assert "\n" not in str(said.value)
    assert not list(tmp_path.iterdir())


def test_dots_in_names(spark, tmp_path):
    domain = Domain.of({"a.b": ["x", "y"], "c": 3})
    mechanism = Mechanism(domain, ProductLaw(domain.sizes, np.full(2, 50.0)))
    frame = spark.createDataFrame([("x", 1), ("y", 2), ("y", 0)], "`a.b` string, c int")
    out = randomize_once(frame, mechanism, str(tmp_path / "out"))
    assert out.columns == ["a.b", "c"] and sorted(out.collect()) == sorted(frame.collect())
    assert count(out, domain, ["a.b", "c"]).table.tolist() == [[0, 1, 0], [1, 0, 1]]


def test_spark_counts_as_everybody_does(spark):
    rng = np.random.default_rng(4)
    table = pa.table(
        {
            "sex": rng.choice(["F", "M"], 5000),
            "age": rng.integers(0, 5, 5000),
            "smokes": pa.array([[True, False, None][k] for k in rng.integers(0, 3, 5000)]),
            "extra": rng.integers(0, 9, 5000),
        }
    )
    frame = spark.createDataFrame(table).repartition(5)
    sets = [("sex",), ("age", "smokes"), ("smokes", "sex", "age")]
    theirs, ours = (count_many(data, DOMAIN, sets, allow_extra=True) for data in (frame, table))
    assert all(np.array_equal(theirs[s].table, ours[s].table) and theirs[s].domain == ours[s].domain for s in sets)
    with pytest.raises(InvalidInput, match="'extra' is not an attribute"):
        count_many(frame, DOMAIN, sets)
    with pytest.raises(InvalidInput, match="contains no records"):
        count(frame.limit(0), DOMAIN, "sex", allow_extra=True)


def test_what_would_collect_is_refused(spark):
    frame = spark.createDataFrame([("F", 1, True)], "sex string, age int, smokes boolean")
    tables = SampledTables(DOMAIN, (("sex",),), np.ones(1), 1.0)
    for asked in (
        lambda: _mechanism(1.0).randomize(frame),
        lambda: tables.randomize(frame),
    ):
        with pytest.raises(InvalidInput, match="randomize_once"):
            asked()
    # distinct records of a domain this small are counted where they lie
    rows, numbers = distinct(frame, DOMAIN)
    assert rows.shape == (1, DOMAIN.m) and numbers.tolist() == [1]


def test_answers_to_random_questions_are_drawn_once_and_estimated_from_their_folder(spark, tmp_path):
    """3,000 records; every cell within 6 standard errors: false alarm below 1e-7."""
    reports = (SubsetReport((1, 2), (3,)), SubsetReport((1,)))
    asking = SampledTables(DOMAIN, (("sex", "age"), ("smokes",)), np.array([0.6, 0.4]), 3.0, reports)
    rows = [("F" if k % 3 else "M", k % 5, [True, False, None][k % 3]) for k in range(3000)]
    frame = spark.createDataFrame(rows, "sex string, age int, smokes boolean").repartition(3)
    out = answer_once(frame, asking, str(tmp_path / "out"))
    assert out.columns == ["table", "cells"] and out.collect() == out.collect() and out.count() == 3000
    estimate = asking.estimate(tmp_path / "out", "age")
    assert np.all(np.abs(estimate.estimate - 0.2) < 6 * estimate.standard_error)
    with pytest.raises(InvalidInput, match="column 'name' is not an attribute"):
        answer_once(frame.selectExpr("*", "1 as name"), asking, str(tmp_path / "again"))
    bad = spark.createDataFrame([("X", 1, True)], "sex string, age int, smokes boolean").coalesce(1)
    with pytest.raises(InvalidInput, match="partition 1"):
        answer_once(bad, asking, str(tmp_path / "again"))


def test_a_spark_release_has_no_note_and_readers_warn(spark, tmp_path):
    frame = spark.createDataFrame([("F", k % 5, None) for k in range(100)], "sex string, age int, smokes boolean")
    mechanism, folder = _mechanism(1.0), tmp_path / "out"
    out = randomize_once(frame.repartition(3), mechanism, str(folder))
    for data in (out, spark.read.parquet(str(folder)), folder, next(folder.glob("*.parquet"))):
        assert ["has no provenance metadata" in line for line in check_design(data, mechanism.digest)] == [True]
    # the plain commands read the folder and randomize into files as any other
    assert count(folder, DOMAIN, "sex").n == 100
    frame.write.parquet(str(tmp_path / "true"))
    assert release_file(tmp_path / "true", mechanism, tmp_path / "x.csv").records == 100


def test_retries_after_failed_jobs(spark, tmp_path):
    frame = spark.createDataFrame([("F", 1, True)] * 10, "sex string, age int, smokes boolean")
    target = tmp_path / "out"
    # what a failed job of another program leaves: an empty target, or hidden names only
    (target / "_temporary" / "0").mkdir(parents=True)
    assert randomize_once(frame, _mechanism(1.0), str(target)).count() == 10
    with pytest.raises(InvalidInput, match="exists and is not empty"):
        randomize_once(frame, _mechanism(1.0), str(target))
    before = sorted(p.name for p in target.iterdir())
    # what a killed job of ours leaves
    (tmp_path / ".second.partial" / "a" / "_temporary").mkdir(parents=True)
    assert randomize_once(frame, _mechanism(1.0), str(tmp_path / "second")).count() == 10
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "second"]
    assert sorted(p.name for p in target.iterdir()) == before


ALONE = """
import sys
from pyspark.sql import SparkSession
import optrr

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
frame = session.range(40).selectExpr("cast(id % 4 as int) as a")
theirs = session.sparkContext.pythonExec
try:
    print("counts", optrr.count(frame, optrr.Domain.of({"a": 4}), "a").table.tolist())
except optrr.InvalidInput as error:
    print("refused", error)
assert session.sparkContext.pythonExec == theirs
"""


def _alone(**environment: str) -> str:
    """What a job prints that is started by its interpreter's path alone."""
    ours = {k: v for k, v in os.environ.items() if k != "PYSPARK_PYTHON"}
    call, given = [sys.executable, "-c", ALONE], {**ours, **environment}
    done = subprocess.run(call, capture_output=True, text=True, check=False, env=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_workers_run_the_interpreter_that_started_the_job(spark, tmp_path):
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    assert _alone(PATH=f"{tmp_path}:{os.environ['PATH']}") == "counts [10, 10, 10, 10]\n"


def test_a_worker_without_the_package_is_one_line(spark, tmp_path):
    # the same interpreter, without site-packages: it has Spark's own modules, which the driver hands on, and nothing else
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    said = _alone(PYSPARK_PYTHON=str(bare))
    assert said.startswith("refused Spark's workers run a Python that cannot do this (No module named '")
    assert "PYSPARK_PYTHON" in said and said.count("\n") == 1


KILLED = """
import sys
from pyspark.sql import SparkSession
import numpy as np
from optrr.core.mechanisms.spark import randomize_once
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.core.domain.domain import Domain
from optrr_solvers.laws import ProductLaw

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
domain = Domain.of({"a": 4})
frame = session.range(4000).selectExpr("cast(id % 4 as int) as a").repartition(4)
print("start", flush=True)
randomize_once(frame, Mechanism(domain, ProductLaw(domain.sizes, np.ones(1))), sys.argv[1])
print("done", flush=True)
"""

MOMENTS = {
    "before it writes": lambda folder: True,
    "a task has begun": lambda folder: any(folder.glob(".out.partial/*/_temporary/*/*")),
    "the first copy is written": lambda folder: any(folder.glob(".out.partial/*.staged/_SUCCESS")),
    "all is in its place": lambda folder: (folder / "out").exists(),
}


def _kill_once(folder, moment, whole_group, number, wait):
    """Start a job, kill its driver (or everything) at that moment, and return once it is gone; whether it was killed."""
    call = [sys.executable, "-c", KILLED, str(folder / "out")]
    job = subprocess.Popen(call, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert job.stdout.readline() == "start\n"
    while job.poll() is None and not MOMENTS[moment](folder):
        time.sleep(0.005)
    time.sleep(wait)
    killed = job.poll() is None
    os.killpg(job.pid, number) if whole_group else job.send_signal(number)
    job.wait()
    return killed, job.pid


def _still_running(session):
    """Processes of a session that are no zombies: what is left of a killed job."""
    out = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, theirs = stat.read_text().rpartition(")")[2].split()[:4]
            out += [stat.parent.name] if int(theirs) == session and state != "Z" else []
    return out


def _contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see what is left of a killed job")
def test_a_job_killed_in_the_middle_and_started_again(spark, tmp_path):
    """Killed at random moments and started again at once: one release, whole, earlier ones untouched, nothing beside it."""
    random, killed = np.random.default_rng(int(os.environ.get("OPTRR_KILLS_SEED", "5"))), 0
    domain = Domain.of({"a": 4})
    mechanism = Mechanism(domain, ProductLaw(domain.sizes, np.ones(1)))
    frame = spark.range(4000).selectExpr("cast(id % 4 as int) as a")
    randomize_once(frame, mechanism, str(tmp_path / "earlier"))
    (tmp_path / "notes.csv").write_text("a\n1\n")
    earlier = _contents(tmp_path)
    ways = [(signal.SIGTERM, False), (signal.SIGKILL, False), (signal.SIGKILL, True)]
    kills = [(moment, *ways[k % 3]) for k, moment in enumerate(MOMENTS)]
    for moment, number, whole_group in kills:
        stopped, session = _kill_once(tmp_path, moment, whole_group, number, random.uniform(0, 0.3))
        killed += stopped
        published = _contents(tmp_path / "out")
        try:
            randomize_once(frame, mechanism, str(tmp_path / "out"))
            assert not published
        except InvalidInput as refused:
            # the kill came too late: the release is whole, so a second one of the same people is not made
            assert "exists and is not empty" in str(refused)
            assert published and _contents(tmp_path / "out") == published
        until = time.monotonic() + 60
        while _still_running(session) and time.monotonic() < until:
            time.sleep(0.1)
        assert not _still_running(session)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["earlier", "notes.csv", "out"]
        assert len(pq.read_table(tmp_path / "out")) == 4000
        shutil.rmtree(tmp_path / "out")
        assert _contents(tmp_path) == earlier
    assert killed >= len(MOMENTS) - 2
