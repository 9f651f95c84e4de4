"""Relative noncentrality of tests of association, for all protocols for genotypes and status at one total ε.

Takes twenty minutes. Writes association.csv, association.svg and association.md: the 1000 Genomes people twenty times over at
55 markers, Europeans as cases; panels of 20, 55, 1,000 and 10,000 variants of random frequencies and weak effects; and
simulations against predictions.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib import pyplot as plt
from people import people_table
from writing import markdown, save, write_csv, write_text

from optrr.core.display.charts import COLOURS
from optrr.core.mechanisms.kernel import EffectKernel, unrandomized
from optrr.genomics import Budget, PhenotypeColumns, Wanted, genomic_design, genomic_domain, layout_of, records_of
from optrr.genomics.cohort import read_cohort
from optrr.genomics.designing import sampled_variants
from optrr.genomics.layout import star_kernel
from optrr.genomics.sampled_scan import associations_of, expected_noncentralities
from optrr.genomics.sampled_variants import SampledVariants, one_cell
from optrr.genomics.score_tests import noncentralities, score_test
from optrr.genomics.study import record_tables
from optrr_solvers.allocation.association import Population, best_report
from optrr_solvers.randomness import as_source

SEED = 5
TOTALS = (0.5, 1.0, 2.0, 4.0, 8.0)
FREQUENCIES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
# Runs of one setting: at least so many, and more until the standard error is this share of what is promised.
COPIES, RUNS, MOST_RUNS, CLOSE_ENOUGH = 20, 100, 400, 0.02
# Most variants that randomized response over all cells is tried with.
MOST = 7
WAYS = {
    "association": "for association, frequencies and cases known",
    "unknown": "for association, nothing known",
    "cells": "the best number of variants, one cell named",
    "pairs": "all genotypes, pairs with status kept",
    "optimum": "all genotypes, optimum",
}


def named_cell(each: int, total: float) -> EffectKernel:
    """Randomized response over all cells of a status and so many genotypes."""
    seen = math.expm1(total) / (math.exp(total) + 2 * 3**each - 1)
    return EffectKernel((3, 2), [[1.0, seen], [seen, seen]])


def kept_by(people: int, total: float, tables: np.ndarray, which: np.ndarray, known: dict) -> dict[str, float]:
    """Mean noncentrality of some of all variants, of each way; ``each`` is how many variants the best questions are about."""
    count, shown = len(tables), tables[which]
    names = [f"v{k}" for k in range(count)]
    best, anything = sampled_variants(Wanted(names), total, **known), sampled_variants(Wanted(names), total)
    out = {
        "association": expected_noncentralities(best, shown, which).mean(),
        "unknown": expected_noncentralities(anything, shown, which).mean(),
        "cells": max(
            noncentralities(shown, named_cell(k, total)).mean() * k / count for k in range(1, min(MOST, count) + 1)
        ),
    }
    for name in ("pairs", "optimum"):
        made = genomic_design(Wanted(names, preserve_pairs=name == "pairs"), Budget(total))
        layout = layout_of(made.domain)
        kernel = star_kernel(made.law, layout.attributes[which], layout.status)
        out[name] = noncentralities(shown, kernel).mean()
    return {"each": best.each} | {k: people * float(v) for k, v in out.items()}


def one_variant() -> Iterator[dict[str, object]]:
    """Which share of a true record's information on one variant is kept, balanced cases, by frequency of the rarer allele."""
    for total in (0.5, 1.0, 2.0, 4.0):
        known = [Population(f, 0.5, 1e3) for f in FREQUENCIES]
        for_all = best_report(known, total).report.likelihoods(total)
        cell = one_cell(6, 6, total)
        for f, told in zip(FREQUENCIES, known, strict=True):
            alone = Population(f, 0.5)
            best, best_told = best_report([alone], total), best_report([told], total)
            yield {
                "total": total,
                "frequency": f,
                "one cell named": alone.kept(cell),
                "best report": best.kept,
                "no report above": best.bound,
                "best, cases known": best_told.kept,
                "one report for all, cases known": told.kept(for_all),
            }


@dataclass(frozen=True, eq=False)
class Genomes:
    """Records of the 1000 Genomes people, Europeans as cases; shares of genotype and status, (V, 3, 2); who is associated."""

    records: np.ndarray
    shares: np.ndarray
    associated: np.ndarray

    @property
    def names(self) -> list[str]:
        """Of the markers."""
        return [f"v{k}" for k in range(len(self.shares))]

    @property
    def expected(self) -> dict[str, object]:
        """What a design for them may know."""
        frequencies = np.clip(self.shares.sum(axis=2) @ [0, 0.5, 1], 0.005, 0.995)
        return {"cases": float(self.records[:, 0].mean()), "frequencies": frequencies}


def genomes() -> Genomes:
    with people_table() as table:
        cohort = read_cohort(table, PhenotypeColumns(None, "sample", "superpopulation", ("EUR",)))
        layout = layout_of(genomic_domain(list(cohort.variants.name)))
        records = records_of(cohort, layout)
    counts = record_tables(records, layout)
    scores = score_test(counts, unrandomized((3, 2)))
    associated = np.flatnonzero(scores.p_value * len(counts) <= 0.05)
    return Genomes(records, counts / counts.sum(axis=(1, 2), keepdims=True), associated)


def panel(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """Tables of variants in Hardy–Weinberg proportions with weak effects, their frequencies, and the share of cases."""
    cases = float(rng.choice([0.2, 0.5]))
    f = rng.uniform(0.05, 0.5, count)
    controls = np.stack([(1 - f) ** 2, 2 * f * (1 - f), f**2], axis=1)
    tilted = controls * np.exp(rng.normal(0, 0.15, count)[:, None] * np.arange(3))
    affected = tilted / tilted.sum(axis=1, keepdims=True)
    return np.stack([(1 - cases) * controls, cases * affected], axis=2), f, cases


def predicted() -> Iterator[dict[str, object]]:
    """Noncentralities for n people, mean over the associated variants, at every total."""
    people = genomes()
    n = COPIES * len(people.records)
    for total in TOTALS:
        row = {"people": "1000 Genomes", "variants": len(people.names), "total": total}
        yield row | kept_by(n, total, people.shares, people.associated, people.expected)
    rng = np.random.default_rng(41)
    for count in (20, 55, 1_000, 10_000):
        for total in TOTALS:
            tables, frequencies, cases = panel(count, rng)
            kept = kept_by(50_000, total, tables, np.arange(count), {"cases": cases, "frequencies": frequencies})
            yield {"people": f"{cases:.0%} cases", "variants": count, "total": total} | kept


def drawn() -> Iterator[dict[str, object]]:
    """Mean χ² − 1 of the associated variants over what is promised, and the share of p ≤ 5 % where status is permuted."""
    people = genomes()
    shares, associated = people.shares, people.associated
    rng = np.random.default_rng(SEED)
    everybody = np.tile(people.records, (COPIES, 1))
    for total in TOTALS:
        for n in (2_000, 20_000, len(everybody)):
            asking = sampled_variants(Wanted(people.names), total, **people.expected)
            known, promised = (
                n * expected_noncentralities(asking, shares[associated], associated, people=so_many)
                for so_many in (None, n)
            )
            runs: list[tuple[float, float, float]] = []
            # small effects need more runs for the same relative error
            while len(runs) < RUNS or (
                len(runs) < MOST_RUNS
                and error_of_mean(np.asarray(runs)[:, 0]) > CLOSE_ENOUGH * float(promised.mean()) > 0
            ):
                chosen = everybody[rng.integers(0, len(everybody), n)]
                # answers that are too few for a test add nothing, as in the promise
                mean = np.nan_to_num(tested(asking, chosen, rng)[0][associated] - 1).mean()
                chosen[:, 0] = rng.permutation(chosen[:, 0])
                p_values = tested(asking, chosen, rng)[1]
                runs.append((mean, np.isfinite(p_values).mean(), np.mean(p_values <= 0.05)))
            means, made, rejected = np.asarray(runs).T
            level = rejected.mean() / made.mean() if made.any() else math.nan
            yield {
                "total": total,
                "n": n,
                "known": float(known.mean()),
                "promised": float(promised.mean()),
                "drawn": float(means.mean()),
                "error": error_of_mean(means),
                "level": level,
                "level_error": error_of_mean(rejected - level * made) / made.mean() if made.any() else math.nan,
                "made": float(made.mean()),
                "runs": len(runs),
            }


def tested(asking: SampledVariants, records: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Statistics and p-values of one randomization."""
    answers = asking.answered(records, as_source(rng))
    scores = associations_of(asking, asking.told([answers])).scores
    return scores.statistic, scores.p_value


def error_of_mean(values: np.ndarray) -> float:
    """Standard error, over runs."""
    return float(values.std(ddof=1)) / math.sqrt(values.size)


def picture(rows: list[dict]) -> None:
    figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
    mine = [r for r in rows if r["people"] == "1000 Genomes"]
    for (name, label), colour in zip(WAYS.items(), COLOURS, strict=False):
        axes.plot([r["total"] for r in mine], [r[name] for r in mine], "o-", color=colour, markersize=4, label=label)
    axes.set(
        xscale="log", yscale="log", xlabel="total ε of a person (nats)", ylabel="mean χ² − 1 of associated variants"
    )
    axes.set_xticks(list(TOTALS), [f"{t:g}" for t in TOTALS])
    axes.set_title("50,080 people, 55 markers, Europeans as cases")
    axes.legend(fontsize=7)
    save(figure, "association.svg")


def report(reports: list[dict], rows: list[dict], simulated: list[dict]) -> str:
    kept = [
        {"people": r["people"], "variants": r["variants"], "total ε": f"{r['total']:g}"}
        | {"variants a person": f"{r['each']:g}"}
        | {label: f"{r[name]:.3g}" for name, label in WAYS.items()}
        for r in rows
    ]
    lines = [
        "Mean noncentrality (χ² − 1) of associated variants: 1000 Genomes for 50,080 people; random panels for 50,000.",
        "",
        markdown(kept),
        "",
        f"Drawn, {RUNS} to {MOST_RUNS} times each, 1000 Genomes, designed for association with frequencies and cases "
        "known:",
        "",
        "| total ε | people | χ² − 1 if frequencies were known | promised for so many people | drawn | its standard "
        "error "
        "| p ≤ 5 % with permuted status | its standard error | variants tested | runs |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in simulated:
        numbers = f"{r['known']:.3g} | {r['promised']:.3g} | {r['drawn']:.3g} | {r['error']:.2g}"
        level = f"{100 * r['level']:.1f} % | {100 * r['level_error']:.1f} %" if r["made"] else "no tests | – "
        lines.append(f"| {r['total']:g} | {r['n']} | {numbers} | {level} | {100 * r['made']:.0f} % | {r['runs']} |")
    lines += [
        "",
        "One variant, balanced cases: which share of a true record's information on the association is kept.",
        "",
        markdown(reports),
    ]
    return "\n".join(lines)


def main() -> None:
    rows = list(predicted())
    write_csv("association.csv", rows)
    picture(rows)
    write_text("association.md", report(list(one_variant()), rows, list(drawn())))


if __name__ == "__main__":
    main()
