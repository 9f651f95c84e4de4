"""How long a scan of 100,000 variants × 2,000 people takes, part by part, beside the code of another commit in the same run.

The other code is read from git into a scratch directory and runs in a process of its own on the same genotypes: counting
tables, and testing them. Both alternate, and each part's smallest time counts. Seconds are the processor's.

    python benchmarks/scan_speed.py COMMIT
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
VARIANTS, PEOPLE, REPEATS = 100_000, 2_000, 3

# What either code runs: a scan, as `optrr gwas` does it after reading, and the odds ratios of all variants.
PROGRAM = """
import json, sys, time
import numpy as np
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import MatrixGenotypes, Variants
from optrr.genomics.layout import genomic_domain, layout_of
from optrr.genomics.scan import ScanOptions, scan
from optrr_solvers.laws import ProductLaw

variants, people, test, columns = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "columns"
rng = np.random.default_rng(1)
names = [f"v{k}" for k in range(variants)]
frequency = rng.uniform(0.05, 0.5, variants)
u = rng.integers(0, 256, size=(people, variants), dtype=np.uint8)
codes = ((u < 256 * frequency**2).astype(np.int8) + (u < 256 * (1 - (1 - frequency) ** 2))).astype(np.int8)
cohort = Cohort(
    MatrixGenotypes(Variants.named(names), np.array([str(k) for k in range(people)], dtype=object), codes),
    np.arange(people), (rng.random(people) < 0.4).astype(np.int8),
)
domain = genomic_domain(names)
law = ProductLaw(domain.sizes, np.r_[3.0, np.full(variants, 2.0)])
layout = layout_of(domain)
start = time.process_time()
associations = scan(cohort, law, layout, ScanOptions(test))
if columns:
    associations.columns
print(json.dumps({"seconds": time.process_time() - start, "significant": int((associations.scores.p_value < 1e-3).sum())}))
"""


def seconds(source: Path | None, test: str, columns: str) -> dict[str, float]:
    """One run of the program on the code in that directory; on the code that runs this script without one."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    if source is not None:
        environment["PYTHONPATH"] = f"{source}{os.pathsep}{source / 'solvers'}"
    arguments = [sys.executable, "-c", PROGRAM, str(VARIANTS), str(PEOPLE), test, columns]
    done = subprocess.run(arguments, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main(commit: str) -> None:
    """Both codes in turn; writes ``scan_speed.md``."""
    lines = [
        f"# A scan of {VARIANTS:,} variants × {PEOPLE:,} people", "",
        f"Seconds of one core, smallest of {REPEATS}; before is commit {commit}. The table holds odds ratios.", "",
        "| test | what | before | now | now / before | variants with p below 0.001, before and now |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        archive = subprocess.run(["git", "archive", commit], check=True, capture_output=True)
        subprocess.run(["tar", "x", "-C", scratch], input=archive.stdout, check=True)
        for test in ("trend", "genotypic"):
            for columns in ("scan", "columns"):
                runs = [[seconds(source, test, columns) for source in (Path(scratch), None)] for _ in range(REPEATS)]
                before, now = (min(run[k]["seconds"] for run in runs) for k in (0, 1))
                counts = [runs[0][k]["significant"] for k in (0, 1)]
                what = "scan" if columns == "scan" else "scan and table"
                lines.append(
                    f"| {test} | {what} | {before:.2f} | {now:.2f} | {now / before:.2f} | {counts[0]}, {counts[1]} |"
                )
                print(lines[-1], flush=True)
    (RESULTS / "scan_speed.md").write_text("\n".join(lines) + "\n")


def probe() -> object:
    """A hundredth of the work, to see whether the whole would come out the same."""
    global VARIANTS, PEOPLE
    VARIANTS, PEOPLE = 1000, 500
    return [seconds(None, test, "columns")["significant"] for test in ("trend", "genotypic")]


if __name__ == "__main__":
    main(sys.argv[1])
