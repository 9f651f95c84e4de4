"""Type I error of scans adjusted for public covariates, under population structure and on chromosome X.

Takes four minutes; 20 releases. People: 2,504 of five superpopulations, with the 55 ancestry markers of the 1000 Genomes
Project from which principal components come. The proportion of cases is .2 to .8 by superpopulation. In every release
status and 1,000 variants are drawn anew: their frequencies differ between superpopulations as Balding & Nichols have it
(F = .1), and given the superpopulation neither depends on the other. Designs of 100 variants each: totals of 4, 8 and
16, and 1 and 2 for each variant. Compared: no covariates, which must fail if ε is large enough to detect structure;
superpopulations as a covariate and as strata (Cochran, Mantel & Haenszel); four principal components. A public
quantitative trait with means by superpopulation is tested in the same way.

On X: 200 variants a release of equal frequency in males and females, and 200 of different ones, with 30 % cases among
females and 60 % among males: all tests without covariates, which are of females, and with sex as a covariate.

Standard errors are between releases. A cell holds where type I error is within 4 to 6 % at 5 %, and within a factor of two at
.1 %, or no farther outside than three standard errors. Writes results/gwas_covariates.csv and .md.
"""

import csv
import gzip
import io
import warnings
from collections.abc import Iterator
from functools import partial

import numpy as np
from people import SOURCE
from writing import write_csv, write_text

from optrr import genomics
from optrr.genomics import (
    Associations,
    Cohort,
    CovariateColumns,
    GenomicDesign,
    GenomicReports,
    MatrixGenotypes,
    Variants,
)
from optrr_solvers.arrays import FloatArray

BUDGETS = ({"total": 4.0}, {"total": 8.0}, {"total": 16.0}, {"variants": 1.0}, {"variants": 2.0})
CASES = np.array([0.2, 0.35, 0.5, 0.65, 0.8])
VARIANTS, AT_ONCE, ON_X = 1000, 100, 200
FST, COMPONENTS = 0.1, 4
CASES_OF_SEX = np.array([0.3, 0.6])
LEVELS = (0.05, 0.001)
SEED = 0
RELEASES = 20

Rows = dict[tuple[str, str, str], list[FloatArray]]


def people() -> tuple[FloatArray, FloatArray]:
    """Superpopulation as a number, (n,), and principal components of the markers, (n, 4)."""
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(SOURCE.read_bytes()).decode())))
    _, which = np.unique([row["superpopulation"] for row in rows], return_inverse=True)
    markers = [name for name in rows[0] if name not in ("sample", "superpopulation")]
    codes = np.array([[float(row[name]) for name in markers] for row in rows])
    codes -= codes.mean(axis=0)
    codes /= np.maximum(codes.std(axis=0), 1e-9)
    u, s, _ = np.linalg.svd(codes, full_matrices=False)
    return which, u[:, :COMPONENTS] * s[:COMPONENTS]


def cohort(codes: FloatArray, status: FloatArray, chromosome: str = "1", male: FloatArray | None = None) -> Cohort:
    n, v = codes.shape
    named = Variants.of([(chromosome, k + 1, f"v{k}", "A", "G") for k in range(v)])
    names = np.array([f"p{i}" for i in range(n)], dtype=object)
    genotypes = MatrixGenotypes(named, names, codes.astype(np.int8))
    return Cohort(genotypes, np.arange(n), status.astype(np.int8), male=male)


def frequencies(v: int, rng: np.random.Generator) -> FloatArray:
    """Of each superpopulation, (5, v)."""
    ancestral = rng.uniform(0.05, 0.5, size=v)
    return rng.beta(*(x * (1 - FST) / FST for x in (ancestral, 1 - ancestral)), size=(CASES.size, v))


def frame(people: Cohort, **columns: FloatArray) -> object:
    import pyarrow as pa

    texts = {name: column.astype(str) if name in ("population", "sex") else column for name, column in columns.items()}
    return pa.table({"IID": people.people.astype(str), **texts})


def _adjusted(reports: GenomicReports, table: object, *names: str, **more: str) -> Associations:
    return reports.scan(covariates=CovariateColumns(table, covariates=names, **more))


def structured(design: GenomicDesign, which: FloatArray, components: FloatArray, rng: np.random.Generator) -> Rows:
    """Rejections of one release at each level, by trait, what is adjusted for, and level."""
    n, p = which.size, {}
    status, trait = rng.random(n) < CASES[which], rng.normal(size=n) + CASES[which] * 2
    for _ in range(VARIANTS // AT_ONCE):
        codes = rng.binomial(2, frequencies(AT_ONCE, rng)[which])
        reports = design.randomize(cohort(codes, status), random_state=int(rng.integers(1 << 60)))
        columns = {f"PC{k + 1}": components[:, k] for k in range(COMPONENTS)}
        table = frame(reports.cohort, population=which, trait=trait, **columns)
        adjusted = partial(_adjusted, reports, table)
        scans = {
            ("status", "nothing"): reports.scan(),
            ("status", "superpopulations"): adjusted("population"),
            ("status", "strata"): adjusted(strata="population"),
            ("status", "components"): adjusted(*columns),
            ("trait", "nothing"): adjusted(trait="trait"),
            ("trait", "superpopulations"): adjusted("population", trait="trait"),
        }
        for key, scanned in scans.items():
            p.setdefault(key, []).append(scanned.scores.p_value)
    return {key: np.concatenate(values) for key, values in p.items()}


def on_x(design: GenomicDesign, n: int, differ: bool, rng: np.random.Generator) -> Rows:
    """The same of variants on X."""
    male = rng.random(n) < 0.5
    status = rng.random(n) < CASES_OF_SEX[male.astype(int)]
    of_women = rng.uniform(0.05, 0.5, size=ON_X)
    of_men = rng.uniform(0.05, 0.5, size=ON_X) if differ else of_women
    codes = np.where(male[:, None], 2 * rng.binomial(1, of_men, (n, ON_X)), rng.binomial(2, of_women, (n, ON_X)))
    p = {}
    for start in range(0, ON_X, AT_ONCE):
        people = cohort(codes[:, start : start + AT_ONCE], status, "X", male)
        reports = design.randomize(people, random_state=int(rng.integers(1 << 60)))
        table, kind = frame(reports.cohort, sex=male), "X, frequencies differ" if differ else "X"
        for test in ("trend", "genotypic"):
            p.setdefault((kind, f"nothing, {test}"), []).append(reports.scan(test).scores.p_value)
        p.setdefault((kind, "sex"), []).append(reports.scan(covariates=table).scores.p_value)
    return {key: np.concatenate(values) for key, values in p.items()}


def rows() -> Iterator[dict]:
    which, components = people()
    for k, budget in enumerate(BUDGETS):
        names = cohort(np.zeros((2, AT_ONCE)), np.array([0, 1]))
        design = genomics.design(names, **budget)
        rejected: dict[tuple[str, str, float], list[float]] = {}
        for release in range(RELEASES):
            rng = np.random.default_rng([SEED + k, release])
            values = structured(design, which, components, rng)
            values |= on_x(design, which.size, False, rng) | on_x(design, which.size, True, rng)
            for (trait, adjusted), p in values.items():
                for level in LEVELS:
                    rejected.setdefault((trait, adjusted, level), []).append(float(np.mean(p[np.isfinite(p)] <= level)))
        asked, size = next(iter(budget.items()))
        for (trait, adjusted, level), shares in rejected.items():
            row = {"asked": asked, "epsilon": size, "total": design.design.epsilon, "trait": trait}
            error = float(np.std(shares, ddof=1) / np.sqrt(RELEASES))
            yield row | {
                "adjusted": adjusted,
                "level": level,
                "type_one": float(np.mean(shares)),
                "standard_error": error,
            }


def allowed(level: float) -> tuple[float, float]:
    return (0.8 * level, 1.2 * level) if level == LEVELS[0] else (level / 2, 2 * level)


def holds(row: dict) -> bool:
    low, high = allowed(row["level"])
    return bool(low - 3 * row["standard_error"] <= row["type_one"] <= high + 3 * row["standard_error"])


def is_claimed(row: dict) -> bool:
    """Whether the test is to keep its level: adjusted for what confounds it, or of women alone."""
    return row["adjusted"] != "nothing"


def report(made: list[dict]) -> str:
    claimed = [row for row in made if is_claimed(row) and row["level"] == LEVELS[0]]
    rare = [row for row in made if is_claimed(row) and row["level"] != LEVELS[0]]
    inside = [
        sum(allowed(r["level"])[0] <= r["type_one"] <= allowed(r["level"])[1] for r in some) for some in (claimed, rare)
    ]
    failed = [row for row in (*claimed, *rare) if not holds(row)]
    lines = [
        f"Type I error without an association, {RELEASES} releases of {VARIANTS} variants (on X {ON_X}), 2,504 people: "
        f"{inside[0]} of {len(claimed)} claimed cells are within 4..6 % at 5 %, {inside[1]} of {len(rare)} within a "
        "factor "
        f"of two at .1 %; farther outside than three standard errors: {len(failed)}.",
        "",
        "| ε | total ε | variants and trait | adjusted for | at 5 % | at .1 % | claimed |",
        "|---" * 7 + "|",
    ]
    for common, few in zip(made[::2], made[1::2], strict=True):
        asked = f"{common['epsilon']:g} {'in all' if common['asked'] == 'total' else 'a variant'}"
        rates = " | ".join(f"{100 * r['type_one']:.2f} ± {100 * r['standard_error']:.2f} %" for r in (common, few))
        said = "yes" if is_claimed(common) else "no"
        lines.append(
            f"| {asked} | {common['total']:.3g} | {common['trait']} | {common['adjusted']} | {rates} | {said} |"
        )
    return "\n".join(lines)


def main() -> None:
    warnings.simplefilter("ignore")
    made = list(rows())
    write_csv("gwas_covariates.csv", made, 6)
    write_text("gwas_covariates.md", report(made))


if __name__ == "__main__":
    main()
