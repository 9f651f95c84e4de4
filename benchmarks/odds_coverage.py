"""Coverage of the 95 % intervals of odds ratios of `optrr gwas`, over settings drawn at random.

People from 300 to 20,000, frequencies of A1 among controls from 1 to 50 %, shares of cases from 5 to 60 %, genotypes in and
out of Hardy–Weinberg proportions, odds ratios from 1/2 to 2, mechanisms from none to one that hides most. Every table
counts: an interval exists wherever genotype and status vary.
"""

import sys

import numpy as np
from writing import write_text

from optrr.genomics.odds import odds_ratios
from optrr.mechanisms.kernel import EffectKernel

QUICK = True
SEED = 1
SETTINGS, TABLES = 80, 3_000


def genotypes(frequency: float, inbreeding: float) -> np.ndarray:
    """Shares of 0, 1 and 2 copies."""
    f, more = frequency, inbreeding * frequency * (1 - frequency)
    return np.array([(1 - f) ** 2 + more, 2 * f * (1 - f) - 2 * more, f**2 + more])


def setting(rng: np.random.Generator) -> dict[str, float]:
    """One setting whose mechanism exists."""
    while True:
        genotype, status = rng.choice([1, 0.95, 0.8, 0.5, 0.25]), rng.choice([1, 0.9, 0.7, 0.4])
        joint = genotype * status * (1 if genotype == status == 1 else rng.uniform(0.6, 1))
        if EffectKernel((3, 2), [[1, status], [genotype, joint]]).matrix().min() >= 0:
            break
    return {
        "people": int(np.exp(rng.uniform(np.log(300), np.log(20_000)))),
        "frequency": float(np.exp(rng.uniform(np.log(0.01), np.log(0.5)))),
        "cases": float(rng.uniform(0.05, 0.6)),
        "inbreeding": float(rng.uniform(0, 0.1)),
        "odds ratio": float(rng.choice([0.5, 1, 1, 1.3, 2])),
        "λ genotype": float(genotype), "λ status": float(status), "λ joint": float(joint),
    }  # fmt: skip


def measured(s: dict[str, float], tables: int, rng: np.random.Generator) -> list[float]:
    """Coverage, share of intervals with an end at 0 or infinity, median ratio, share of tables without an interval."""
    kernel = EffectKernel((3, 2), [[1, s["λ status"]], [s["λ genotype"], s["λ joint"]]])
    f, ratio = s["frequency"], s["odds ratio"]
    pair = [genotypes(x, s["inbreeding"]) for x in (f, ratio * f / (1 + (ratio - 1) * f))]
    law = np.maximum(kernel.forward(np.stack(pair, axis=1) * [1 - s["cases"], s["cases"]]).ravel(), 0)
    counts = rng.multinomial(int(s["people"]), law / law.sum(), size=tables).reshape(-1, 3, 2)
    odds = odds_ratios(counts, kernel)
    there = ~np.isnan(odds.low)
    low, high = odds.low[there], odds.high[there]
    open_ = np.mean((low == 0) | np.isinf(high))
    inside = np.mean((low <= ratio * (1 + 1e-6)) & (high >= ratio * (1 - 1e-6)))
    return [float(inside), float(open_), float(np.median(odds.ratio[there])), float(1 - there.mean())]


def main(settings: int = SETTINGS, tables: int = TABLES) -> None:
    """All settings; writes ``odds_coverage.md``."""
    rng = np.random.default_rng(SEED)
    rows = [(s, measured(s, tables, rng)) for s in (setting(rng) for _ in range(settings))]
    cover = np.array([m[0] for _, m in rows])
    head = [*rows[0][0], "coverage", "open intervals", "median ratio", "no interval"]
    lines = [
        "# Coverage of 95 % intervals of odds ratios", "",
        f"{settings} settings of {tables:,} tables each: smallest {cover.min():.4f}, mean {cover.mean():.4f}, "
        f"{int(np.sum(cover < 0.93))} below 0.93, {int(np.sum(cover > 0.97))} above 0.97.", "",
        "| " + " | ".join(head) + " |", "|" + "---|" * len(head),
    ]  # fmt: skip
    lines += ["| " + " | ".join(f"{x:.4g}" for x in [*s.values(), *m]) + " |" for s, m in rows]
    write_text("odds_coverage.md", "\n".join(lines))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
