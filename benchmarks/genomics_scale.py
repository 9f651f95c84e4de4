"""Large cohorts from design to results: time and memory of every command, beside reading alone and PLINK, in one run.

Run as ``python benchmarks/genomics_scale.py [PEOPLExVARIANTS ...]`` (5000x100000 and 500000x1000 unless told). Every step is a
process of its own on PLINK files, total ε = 8: its processor time, its time by the clock, and its peak memory. Reading is what
every step does before anything else: the names of variants and people, and all genotypes in blocks. Where plink1.9 and plink2
are not installed, their rows are left out. Writes results/genomics_scale.md.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from optrr.genomics import Cohort, MatrixGenotypes, Variants, write_plink
from optrr.genomics.cohort import read_cohort

SHAPES = ((5_000, 100_000), (500_000, 1_000))
LIMIT_BYTES = 1 << 30
TOTAL = "8"
# Python's compiled modules are kept, as on machines where it has run before.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
OPTRR = [sys.executable, "-c", "from optrr.cli import main; main()"]
RESULT = Path(__file__).parent / "results" / "genomics_scale.md"


def make(folder: Path, people: int, variants: int) -> None:
    """Independent variants in Hardy-Weinberg proportions, frequencies 0.05..0.5; every thousandth is associated."""
    generator = np.random.default_rng(1)
    status = (np.arange(people) % 2).astype(np.int8)
    frequency = generator.uniform(0.05, 0.45, variants)
    frequency[::1000] = 0.25
    codes = np.empty((people, variants), dtype=np.int8)
    for k, p in enumerate(frequency):
        lifted = p + (0.2 * status if k % 1000 == 0 else 0.0)
        codes[:, k] = generator.binomial(2, lifted, size=people)
    rows = [(str(1 + 22 * k // variants), 1000 * (k + 1), f"rs{k}", "A", "G") for k in range(variants)]
    names = np.array([f"p{i}" for i in range(people)], dtype=object)
    write_plink(
        Cohort(MatrixGenotypes(Variants.of(rows), names, codes), np.arange(people), status), folder / "true.bed"
    )


def read(path: str) -> None:
    """All genotypes of a file, block by block."""
    for _ in read_cohort(Path(path)).blocks():
        pass


def steps(folder: Path) -> dict[str, list[str]]:
    true, design, released = (str(folder / name) for name in ("true.bed", "design.json", "released.bed"))
    out = {
        "reading": [sys.executable, __file__, "--read", true],
        "gwas-design": [*OPTRR, "gwas-design", true, "--total-epsilon", TOTAL, "-o", design],
        "gwas-perturb": [*OPTRR, "gwas-perturb", true, "--design", design, "-o", released],
        "gwas": [*OPTRR, "gwas", released, "--design", design, "-o", str(folder / "results.tsv")],
    }
    prefix, plain = true.removesuffix(".bed"), str(folder / "plink")
    if shutil.which("plink1.9"):
        out["plink1.9 --assoc"] = ["plink1.9", "--bfile", prefix, "--assoc", "--allow-no-sex", "--out", plain]
    if shutil.which("plink2"):
        out["plink2 --glm"] = ["plink2", "--bfile", prefix, "--glm", "allow-no-covars", "--out", plain]
    return out


def measured(command: list[str]) -> tuple[float, float, int]:
    """Processor seconds, seconds by the clock and peak bytes of a command, the first that this process runs."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime, time.perf_counter() - started, used.ru_maxrss * 1024


def rows_of(people: int, variants: int) -> list[str]:
    """A line for every step."""
    context, out, reading = get_context("spawn"), [], 1.0
    with tempfile.TemporaryDirectory() as name:
        maker = context.Process(target=make, args=(Path(name), people, variants))
        maker.start()
        maker.join()
        for step, command in steps(Path(name)).items():
            with context.Pool(1) as pool:
                processor, clock, peak = pool.apply(measured, (command,))
            reading = processor if step == "reading" else reading
            assert peak < LIMIT_BYTES or "plink" in step, f"{step}: {peak / 2**20:.0f} MB"
            cells = [f"{people:,} × {variants:,}", step, f"{processor:.1f}", f"{processor / reading:.1f}"]
            out.append(f"| {' | '.join([*cells, f'{clock:.1f}', f'{peak / 2**20:.0f}'])} |")
            print(out[-1], flush=True)
    return out


def main(shapes: list[tuple[int, int]]) -> None:
    for command in ("gwas-design", "gwas-perturb", "gwas"):
        measured([*OPTRR, command, "--help"])
    lines = [line for shape in shapes for line in rows_of(*shape)]
    RESULT.write_text(
        "# Large cohorts: time and memory\n\nMade by `benchmarks/genomics_scale.py`, total ε = 8, BLAS with one thread.\n\n"
        "| people × variants | step | processor seconds | times reading | seconds by the clock | peak MB |\n"
        "|---|---|---|---|---|---|\n" + "\n".join(lines) + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        read(sys.argv[2])
    else:
        main([(int(a), int(b)) for a, b in (x.split("x") for x in sys.argv[1:])] or list(SHAPES))
