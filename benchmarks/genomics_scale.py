"""2,000 people × 100,000 variants from design to results; writes benchmarks/results/genomics_scale.json.

Run as ``python benchmarks/genomics_scale.py [VARIANTS ...]`` (25,000 50,000 100,000 unless told). Every step is a command in a
process of its own, timed, with its peak memory; PLINK files in and out, total ε = 8. The exponent says how time grows with
the number of variants: 1 is linear, 2 would be quadratic.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from optrr.genomics import Cohort, MatrixGenotypes, Variants, write_plink

PEOPLE = 2000
LIMIT_BYTES = 3 * 1024**3
TOTAL = "8"
RESULT = Path(__file__).parent / "results" / "genomics_scale.json"


def make(folder: Path, variants: int) -> None:
    """Independent variants in Hardy-Weinberg proportions, frequencies 0.05..0.5; every thousandth is associated."""
    generator = np.random.default_rng(1)
    status = (np.arange(PEOPLE) % 2).astype(np.int8)
    frequency = generator.uniform(0.05, 0.5, variants)
    codes = np.empty((PEOPLE, variants), dtype=np.int8)
    for start in range(0, variants, 2000):
        here = slice(start, start + 2000)
        rate = np.broadcast_to(frequency[here], (PEOPLE, frequency[here].size)).copy()
        rate[:, ::1000] += 0.4 * status[:, None]
        codes[:, here] = generator.binomial(2, rate)
    rows = [(str(1 + 22 * k // variants), 1000 * (k + 1), f"rs{k}", "A", "G") for k in range(variants)]
    people = np.array([f"p{i}" for i in range(PEOPLE)], dtype=object)
    write_plink(
        Cohort(MatrixGenotypes(Variants.of(rows), people, codes), np.arange(PEOPLE), status), folder / "true.bed"
    )


def commands(folder: Path) -> dict[str, list[str]]:
    true, design, released = (str(folder / name) for name in ("true.bed", "design.json", "released.bed"))
    return {
        "import": ["gwas", "--help"],
        "gwas-design": ["gwas-design", true, "--total-epsilon", TOTAL, "-o", design],
        "gwas-perturb": ["gwas-perturb", true, "--design", design, "-o", released],
        "gwas": [
            "gwas",
            released,
            "--design",
            design,
            "-o",
            str(folder / "results.tsv"),
            "--report",
            str(folder / "r.html"),
        ],
    }


def measured(arguments: list[str]) -> tuple[float, int]:
    """Seconds and peak bytes of one command, in this process."""
    from optrr.cli.main import run

    started = time.perf_counter()
    code = run(arguments)
    assert code == 0, f"exit {code}"
    return time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(sizes: list[int]) -> None:
    context = get_context("spawn")
    rows = []
    for variants in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            maker = context.Process(target=make, args=(folder, variants))
            maker.start()
            maker.join()
            for step, arguments in commands(folder).items():
                with context.Pool(1) as pool:
                    seconds, peak = pool.apply(measured, (arguments,))
                rows.append({"variants": variants, "step": step, "seconds": round(seconds, 2), "peak_bytes": peak})
                print(rows[-1], flush=True)
    assert all(row["peak_bytes"] < LIMIT_BYTES for row in rows)
    exponents = {}
    for step in ("gwas-design", "gwas-perturb", "gwas"):
        mine = [r for r in rows if r["step"] == step]
        if len(mine) > 1:
            x, y = ([math.log(r[k]) for r in mine] for k in ("variants", "seconds"))
            exponents[step] = round(float(np.polyfit(x, y, 1)[0]), 2)
    print(exponents)
    RESULT.write_text(
        json.dumps({"people": PEOPLE, "total_epsilon": float(TOTAL), "steps": rows, "exponents": exponents}, indent=1)
    )


if __name__ == "__main__":
    main([int(x) for x in sys.argv[1:]] or [25_000, 50_000, 100_000])
