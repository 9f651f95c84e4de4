"""Time and peak memory of counting and randomizing a large Parquet file; writes benchmarks/results/records.json.

Run as ``python benchmarks/records.py [RECORDS]`` (10^7 unless told). Eight attributes, half text, half integers,
in row groups of a million records. Every task runs in a process of its own, so that its peak memory is its own;
the bare import of the package is measured alongside.
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

from optrr.domain.domain import Domain
from optrr.mechanisms.mechanism import Mechanism
from optrr.mechanisms.perturb import perturb
from optrr.records.counts import count_many
from optrr_solvers.laws import ProductLaw

SIZES = (9, 16, 7, 15, 6, 5, 2, 2)
DOMAIN = Domain.of({f"a{i}": [f"category {k}" for k in range(r)] if i % 2 == 0 else r for i, r in enumerate(SIZES)})
LIMIT_BYTES = 2 * 1024**3


def make(path: Path, records: int) -> None:
    """Uniform records, a million at a time."""
    generator = np.random.default_rng(1)
    writer = None
    for start in range(0, records, 10**6):
        n = min(10**6, records - start)
        columns = [pa.array(a.categories).take(pa.array(generator.integers(0, a.size, n))) for a in DOMAIN]
        batch = pa.RecordBatch.from_arrays(columns, names=list(DOMAIN.names))
        writer = writer or pq.ParquetWriter(path, batch.schema)
        writer.write_batch(batch)
    writer.close()


def bare_import(path: Path) -> int:
    del path
    return 0


def count_all_pairs(path: Path) -> int:
    tables = count_many(path, DOMAIN, list(combinations(DOMAIN.names, 2)))
    return next(iter(tables.values())).n


def count_joint(path: Path) -> int:
    return count_many(path, DOMAIN, [DOMAIN.names])[DOMAIN.names].n


def randomize(path: Path) -> int:
    mechanism = Mechanism(DOMAIN, ProductLaw(DOMAIN.sizes, np.ones(DOMAIN.m)))
    return perturb(path, mechanism, path.with_name("randomized.parquet"))


TASKS = {f.__name__: f for f in (bare_import, count_all_pairs, count_joint, randomize)}


def measured(task: str, path: Path) -> dict[str, float]:
    """Seconds, records and peak resident megabytes of one task, in the process that calls this."""
    start = time.perf_counter()
    records = TASKS[task](path)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "records": records, "peak_mb": peak}


def main(records: int) -> None:
    results: dict[str, object] = {"attributes": len(SIZES)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        # spawned, not forked: a forked process would start with its parent's peak
        with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            pool.apply(make, (path, records))
            results["file_mb"] = path.stat().st_size / 2**20
            for task in TASKS:
                results[task] = pool.apply(measured, (task, path))
                print(task, results[task])
    results["below_2_gib"] = results["count_all_pairs"]["peak_mb"] * 2**20 < LIMIT_BYTES
    target = Path(__file__).parent / "results" / "records.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10**7)
