"""Randomizing a large Parquet file into another beside reading and writing it unchanged: rate, ratio and peak memory.

    python benchmarks/passing_through.py [RECORDS]

10^8 records unless told (with the input and one output at a time they take a gigabyte of disk), the nine attributes of
Adult as text, the optimum at ε_i = 1. Every task runs in a process of its own, so that its peak memory is its own. The
unchanged copy is Arrow's own reader and writer in batches of the same size; times are the processor's as well as the wall
clock's. Also the tables of all pairs of attributes, counted in one pass. Writes passing_through.json.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import optrr
from optrr.domain.datasets import adult_domain
from optrr.mechanisms.perturb import perturb
from optrr.records.counts import count_many
from optrr.records.frames import RECORDS

RESULTS = Path(__file__).parent / "results"
STEP = 10**6


def make(path: Path, records: int) -> None:
    """Records drawn from the categories, a million at a time."""
    domain, generator = adult_domain(), np.random.default_rng(1)
    schema = pa.schema([(name, pa.string()) for name in domain.names])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, records, STEP):
            n = min(STEP, records - start)
            columns = [pa.array(a.texts).take(pa.array(generator.integers(0, a.size, n))) for a in domain]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def copy(source: Path, target: Path) -> None:
    """The records unchanged, batch after batch, by Arrow alone."""
    with pq.ParquetFile(source) as file, pq.ParquetWriter(target, file.schema_arrow) as writer:
        for batch in file.iter_batches(batch_size=RECORDS):
            writer.write_batch(batch)


def randomize(source: Path, target: Path) -> None:
    """The records randomized."""
    perturb(source, optrr.design(adult_domain(), 1.0).mechanism, target)


def count_pairs(source: Path, target: Path) -> None:
    """The tables of all 36 pairs."""
    domain = adult_domain()
    tables = count_many(source, domain, list(combinations(domain.names, 2)))
    target.write_text(str(len(tables)))


def peak_megabytes() -> float:
    """Of this program: what getrusage tells begins with what the program that started it had taken."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def measured(task: str, source: Path, target: Path) -> dict[str, float]:
    """Seconds and megabytes of one task, in a process of its own."""
    started = time.perf_counter()
    globals()[task](source, target)
    wall = time.perf_counter() - started
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "wall_seconds": wall,
        "processor_seconds": spent.ru_utime + spent.ru_stime,
        "peak_megabytes": peak_megabytes(),
    }


def main(records: int) -> None:
    context = get_context("spawn")
    with tempfile.TemporaryDirectory() as place:
        source, target = Path(place) / "records.parquet", Path(place) / "out.parquet"
        make(source, records)
        figures: dict[str, object] = {"records": records, "attributes": adult_domain().m}
        for task in ("copy", "randomize", "count_pairs"):
            with context.Pool(1) as pool:
                figures[task] = pool.apply(measured, (task, source, target))
            target.unlink()
            print(task, figures[task], flush=True)
    copied, randomized = figures["copy"], figures["randomize"]
    assert isinstance(copied, dict) and isinstance(randomized, dict)
    figures["processor_ratio"] = randomized["processor_seconds"] / copied["processor_seconds"]
    figures["wall_ratio"] = randomized["wall_seconds"] / copied["wall_seconds"]
    figures["records_per_second"] = records / randomized["wall_seconds"]
    (RESULTS / "passing_through.json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10**8)
