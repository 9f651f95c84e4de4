"""Spark on one machine with two cores beside the plain command, on the same Parquet file: seconds, and processor seconds.

    python benchmarks/spark_speed.py [RECORDS]

10^7 records unless told, the nine attributes of Adult as text, the optimum at ε_i = 1. Each way runs as a program of its own
that nothing has warmed up; processor time is that of everything the program started (Spark's Java machine and its Python
workers, too). Of Spark, the seconds from the data frame to the written release are told apart from the start of its session.
Both releases are counted where they lie, by their own engine, and must hold all records, bound to the design.
Needs PySpark and Java. Writes spark_speed.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from passing_through import RESULTS, make

import optrr
from optrr.domain.datasets import adult_domain
from optrr.records.counts import count
from optrr.records.reading.registry import check_design

PLAIN = "import sys; from optrr.cli.main import run; sys.exit(run(sys.argv[1:]))"
SPARK = """
import sys, time
started = time.perf_counter()
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
frame = session.read.parquet(sys.argv[1])
ready = time.perf_counter()
import optrr
from optrr.mechanisms.spark import perturb_once
mechanism = optrr.load(sys.argv[2]).mechanism
out = perturb_once(frame, mechanism, sys.argv[3])
written = time.perf_counter()
counted = optrr.count(out, mechanism.domain, mechanism.domain.names[:2])
print(ready - started, written - ready, time.perf_counter() - written, counted.n)
"""
# Processes are looked at this often: what one does in its last moments is missed.
_LOOK = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(session: int) -> dict[str, float]:
    """Of every process of a session that runs now, by its number."""
    out = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[3]) == session:
            out[stat.parent.name] = (int(fields[11]) + int(fields[12])) / _TICKS
    return out


def measured(program: str, *arguments: str | Path) -> tuple[dict[str, float], str]:
    """Seconds of a Python program and of what it starts, and what it printed."""
    started, spent = time.perf_counter(), dict[str, float]()
    with tempfile.TemporaryFile("w+") as printed:
        # a session of its own tells its processes from others
        job = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdout=printed,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while job.poll() is None:
            spent |= processor_seconds(job.pid)
            time.sleep(_LOOK)
        if job.returncode:
            raise RuntimeError(f"the program ended with {job.returncode}")
        printed.seek(0)
        text = printed.read()
    return {"wall_seconds": time.perf_counter() - started, "processor_seconds": sum(spent.values())}, text


def main(records: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        source, design = Path(place) / "records.parquet", Path(place) / "design.json"
        make(source, records)
        made = optrr.design(adult_domain(), 1.0)
        optrr.save(made, design)
        plain, _ = measured(PLAIN, "perturb", source, "--design", design, "-o", Path(place) / "plain.parquet")
        spark, printed = measured(SPARK, source, design, Path(place) / "spark")
        start, written, counting, n = map(float, printed.split())
        for release in ("plain.parquet", "spark"):
            table = count(Path(place) / release, adult_domain(), "sex")
            assert check_design(Path(place) / release, made.digest) == [] and table.n == n == records
    spark |= {"session_seconds": start, "release_seconds": written, "count_seconds": counting}
    figures = {
        "records": records,
        "attributes": adult_domain().m,
        "plain_command": plain,
        "spark_two_cores": spark,
        "release_ratio": written / plain["wall_seconds"],
        "processor_ratio": spark["processor_seconds"] / plain["processor_seconds"],
    }
    print(json.dumps(figures, indent=1), flush=True)
    (RESULTS / "spark_speed.json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10**7)
