"""Power predicted by ``gwas design --n`` against simulated scans.

Takes four minutes. 48 settings: 2,000, 20,000 and 50,000 people; 20, 55, 1,000 and 10,000 variants; totals of .5, 2, 8 and 16.
Risk alleles of 5, 20 and 50 %, and cases of 50 and 30 %, take turns. In each, local queries for association, and whole
records by the optimum where there are at most four million genotypes. Every variant raises the risk by the predicted
minimum detectable odds ratio with 80 % power, at 5 % and at 5e-8; if there is none, by an odds ratio of 5, with the
predicted power. Simulated: people, with genotypes drawn for their status; their randomization by the design's own code;
the scan's p-values. No formula of the prediction is used.

Standard errors are between runs, because the variants of one run share their statuses. An error beyond 3 points and three of
its standard errors counts as a miss. Writes results/gwas_sight.csv and .md.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from writing import markdown, write_csv, write_text

from optrr.core.design.designs import Design
from optrr.genomics import (
    Budget,
    PlannedScan,
    Wanted,
    genomic_design,
    layout_of,
    randomize_records,
)
from optrr.genomics.designing import sampled_variants
from optrr.genomics.layout import star_kernel
from optrr.genomics.power import USEFUL_ODDS, power_seen, smallest_odds, tests_of
from optrr.genomics.sampled_scan import likelihood_tests
from optrr.genomics.sampled_variants import SampledVariants
from optrr.genomics.score_tests import GENOME_WIDE, score_test
from optrr.genomics.study import record_tables
from optrr_solvers.arrays import FloatArray
from optrr_solvers.randomness import as_source

SEED = 0
PEOPLE, VARIANTS, TOTALS = (2000, 20_000, 50_000), (20, 55, 1000, 10_000), (0.5, 2.0, 8.0, 16.0)
FREQUENCIES, CASES = (0.05, 0.2, 0.5), (0.5, 0.3)
# Tests simulated in each setting, at least, a quarter where less power is predicted; and runs at least, because answers
# of few people about their status decide on all variants' tests together.
TESTS, RUNS, LEAST = 2000, 12, 0.002
# Genotypes of whole records.
MOST_CELLS = 4_000_000
ALLOWED = 0.03


@dataclass(frozen=True, eq=False)
class DrawnWhereAsked:
    """People whose genotypes are drawn when a question reads them: the same law, and room for those alone.

    It is read as an array of records (n, 1 + V) is, the status first; every genotype once.
    """

    status: np.ndarray
    genotypes: FloatArray  # by status, (2, 3), cumulated
    rng: np.random.Generator

    def __len__(self) -> int:
        return self.status.size

    def __getitem__(self, at: tuple) -> np.ndarray:
        rows, columns = at
        if isinstance(columns, slice):
            return self.status[rows][:, None]
        return drawn_genotypes(self.status[np.broadcast_to(rows, np.shape(columns))], self.genotypes, self.rng)


def drawn_genotypes(status: np.ndarray, cumulated: FloatArray, rng: np.random.Generator) -> np.ndarray:
    uniform = rng.random(status.shape, dtype=np.float32)
    first, second = (cumulated[:, k].astype(np.float32)[status] for k in (0, 1))
    return (uniform > first).astype(np.int8) + (uniform > second)


def drawn_people(scan: PlannedScan, odds: float, rng: np.random.Generator) -> tuple[np.ndarray, FloatArray]:
    """Statuses of people, and chances of genotypes by status: written down anew, without :meth:`PlannedScan.table`."""
    (f,) = scan.frequencies
    q = f * odds / (1 - f + f * odds)  # the allele's frequency in cases, who are in proportions too
    laws = np.array([[(1 - x) ** 2, 2 * x * (1 - x), x**2] for x in (f, q)])
    return (rng.random(scan.people) < scan.cases).astype(np.int8), np.cumsum(laws, axis=1)


def p_values(way: Design | SampledVariants, scan: PlannedScan, odds: float, rng: np.random.Generator) -> FloatArray:
    """Of all variants in one scan, (V,); NaN where the scan has none."""
    status, law = drawn_people(scan, odds, rng)
    if isinstance(way, SampledVariants):
        asked = way.answered(DrawnWhereAsked(status, law, rng), as_source(rng))  # type: ignore[arg-type]
        return likelihood_tests(way, way.told([asked])).p_value
    layout = layout_of(way.domain)
    records = np.empty((scan.people, way.domain.m), dtype=np.int8)
    records[:, layout.status] = status
    shape = (scan.people, layout.variants)
    records[:, layout.attributes] = drawn_genotypes(np.broadcast_to(status[:, None], shape), law, rng)
    randomize_records(records, way.mechanism, as_source(rng))
    kernel = star_kernel(way.law, layout.attributes, layout.status)
    return score_test(record_tables(records, layout), kernel).p_value


def compared(
    way: Design | SampledVariants, name: str, scan: PlannedScan, variants: int, total: float
) -> Iterator[dict]:
    (frequency,) = scan.frequencies
    rng = np.random.default_rng([SEED + scan.people, variants, int(10 * total)])
    (test,) = tests_of(way)
    for level in (0.05, GENOME_WIDE):
        odds = smallest_odds(test, scan, frequency, level)
        at = odds if math.isfinite(odds) else USEFUL_ODDS
        predicted = power_seen(test, scan, at, frequency, level)
        # a power of 0 is told by few
        runs = max(RUNS, math.ceil((TESTS if predicted > LEAST else TESTS / 4) / variants))
        shares = [float(np.mean(p_values(way, scan, at, rng) <= level)) for _ in range(runs)]
        row = {"people": scan.people, "variants": variants, "total": total, "way": name, "frequency": frequency}
        row |= {"cases": scan.cases, "level": level, "smallest_odds": odds, "odds": at, "predicted": predicted}
        error = float(np.std(shares, ddof=1) / np.sqrt(runs))
        yield row | {"simulated": float(np.mean(shares)), "standard_error": error}


def settings() -> Iterator[tuple[int, int, float, PlannedScan]]:
    grid = itertools.product(VARIANTS, TOTALS, PEOPLE)
    for k, (variants, total, people) in enumerate(grid):
        yield people, variants, total, PlannedScan(people, CASES[k // 3 % 2], (FREQUENCIES[(k + k // 3) % 3],))


def rows() -> Iterator[dict]:
    designs: dict[tuple[int, float], dict[str, Design | SampledVariants]] = {}
    for people, variants, total, scan in settings():
        if (variants, total) not in designs:
            names = [f"v{i}" for i in range(variants)]
            made = genomic_design(Wanted(names), Budget(total))
            designs[variants, total] = {"association": sampled_variants(Wanted(names), total), "optimum": made}
        for name, way in designs[variants, total].items():
            if name == "association" or people * variants <= MOST_CELLS:
                yield from compared(way, name, scan, variants, total)


def missed(row: dict) -> bool:
    off = abs(row["simulated"] - row["predicted"])
    return bool(off > ALLOWED and off > 3 * row["standard_error"])


def report(made: list[dict]) -> str:
    off = np.array([abs(r["simulated"] - r["predicted"]) for r in made])
    settings_made = len({(r["people"], r["variants"], r["total"]) for r in made})
    lines = [
        f"{len(made)} predictions in {settings_made} settings: {int(np.sum(off <= ALLOWED))} within 3 points of the "
        "simulated, "
        f"the farthest {100 * off.max():.2g} points; beyond 3 points and three standard errors: "
        f"{sum(map(missed, made))}.",
    ]
    table = []
    for r in made:
        row = {k: r[k] for k in ("people", "variants")} | {"total ε": f"{r['total']:g}", "way": r["way"]}
        row |= {k: f"{r[k]:g}" for k in ("frequency", "cases", "level")}
        odds = f"{r['smallest_odds']:.3g}" if math.isfinite(r["smallest_odds"]) else "above 100"
        row |= {"smallest odds ratio": odds, "odds ratio simulated": f"{r['odds']:.3g}"}
        power = {"predicted": "power predicted", "simulated": "simulated", "standard_error": "its standard error"}
        table.append(row | {said: f"{100 * r[k]:.1f} %" for k, said in power.items()})
    return "\n".join([*lines, "", markdown(table)])


def main() -> None:
    made = list(rows())
    write_csv("gwas_sight.csv", made, 6)
    write_text("gwas_sight.md", report(made))


if __name__ == "__main__":
    main()
