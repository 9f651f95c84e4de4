"""Type I error and QQ slope under permuted phenotypes, every test, Kronecker and the optimum; benchmarks/results/.

Run as ``python benchmarks/genomics_type_one.py [REPEATS]`` (200 unless told). People: the 1000 Genomes sample in
``../shared/data`` (2,504 people, 55 ancestry markers, Europeans as cases) for the trend and genotypic tests; for the allelic
test, which needs Hardy-Weinberg proportions, simulated people with the same allele frequencies. The allelic test on the real,
structured sample is shown beside it: there it fails with or without randomization.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from optrr.genomics import Cohort, MatrixGenotypes, PhenotypeColumns, StudyOptions, read_cohort, run_study

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
RESULT = Path(__file__).parent / "results" / "genomics_type_one.csv"
TOTALS = (4.0, 16.0)


def real() -> Cohort:
    columns = PhenotypeColumns(DATA / "kidd.samples.csv", "sample", "superpopulation", ("EUR",))
    return read_cohort(DATA / "kidd.aisnp.1kg.vcf", columns)


def in_proportions(cohort: Cohort) -> Cohort:
    """People of the same number with independent alleles at the same frequencies."""
    codes = np.concatenate([c for _, c in cohort.blocks()], axis=1)
    drawn = np.random.default_rng(1).binomial(2, codes.mean(axis=0) / 2, size=codes.shape).astype(np.int8)
    return Cohort(MatrixGenotypes(cohort.variants, cohort.people, drawn), np.arange(cohort.n), cohort.status)


def main(repeats: int) -> None:
    structured = real()
    ideal = in_proportions(structured)
    cases = [
        ("trend", "1000 Genomes", structured),
        ("genotypic", "1000 Genomes", structured),
        ("allelic", "Hardy-Weinberg", ideal),
        ("allelic", "1000 Genomes", structured),
    ]
    keys = ("type_one", "qq_slope", "naive_type_one", "naive_qq_slope")
    with RESULT.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["test", "people", "total", "method", *(x for k in keys for x in (k, f"{k}_se"))])
        for test, people, cohort in cases:
            options = StudyOptions(TOTALS, repeats, ("optimum", "kronecker"), test, seed=2)
            for o in run_study(cohort, options).outcomes:
                values = [f"{x:.4f}" for k in keys for x in o.measures[k]]
                writer.writerow([test, people, o.total, o.protocol.name, *values])
                print(test, people, o.total, o.protocol.name, *values, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
