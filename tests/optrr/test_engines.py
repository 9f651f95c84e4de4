"""The Spark engine; skipped where PySpark is absent."""

from __future__ import annotations

import importlib
import shutil

import numpy as np
import pytest

from optrr.engines.spark import perturb_once
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Mechanism
from optrr.records.domain import Domain
from optrr_solvers.laws import ProductLaw

DOMAIN = Domain.of({"sex": ["F", "M"], "age": 5, "smokes": [True, False, None]})


@pytest.fixture(scope="module")
def spark():
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    if not shutil.which("java"):
        pytest.skip("PySpark needs Java")
    session = importlib.import_module("pyspark.sql").SparkSession
    built = session.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    yield built
    built.stop()


def _mechanism(epsilon: float) -> Mechanism:
    return Mechanism(DOMAIN, ProductLaw(DOMAIN.sizes, np.full(3, epsilon)))


def test_randomizes_once(spark, tmp_path):
    rows = [("F", k % 5, [True, False, None][k % 3]) for k in range(2000)]
    frame = spark.createDataFrame(rows, "sex string, age int, smokes boolean")
    out = perturb_once(frame, _mechanism(1.0), str(tmp_path / "out"))
    first, second = out.collect(), out.collect()
    assert first == second
    assert out.schema.simpleString() == frame.schema.simpleString()
    # 2000 records kept with probability e/(e+1) = 0.7311: 5 standard deviations are 0.0496; false alarm 6e-7
    assert abs(np.mean([r.sex == "F" for r in first]) - 0.7311) < 0.0496


def test_no_randomness_at_large_epsilon(spark, tmp_path):
    # at epsilon 50 a record changes with probability below 1e-20
    rows = [("F", 1, True), ("M", 4, None), ("M", 0, False)]
    frame = spark.createDataFrame(rows, "sex string, age int, smokes boolean").select("age", "smokes", "sex")
    out = perturb_once(frame, _mechanism(50.0), str(tmp_path / "out"))
    assert sorted(out.collect()) == sorted(frame.collect(), key=lambda r: r.age)


def test_bad_columns_and_values(spark, tmp_path):
    frame = spark.createDataFrame([("F", 1)], "sex string, age int")
    with pytest.raises(InvalidInput, match="smokes"):
        perturb_once(frame, _mechanism(1.0), str(tmp_path / "a"))
    bad = spark.createDataFrame([("X", 1, True)], "sex string, age int, smokes boolean")
    with pytest.raises(Exception, match="unknown category"):
        perturb_once(bad, _mechanism(1.0), str(tmp_path / "b"))
    assert not list((tmp_path / "b").glob("*.parquet"))
