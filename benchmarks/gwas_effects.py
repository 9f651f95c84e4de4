"""Odds ratios and slopes of randomized genotypes: bias and coverage, with and without covariates.

Takes three minutes; 200 repeats. 60 settings: frequencies of A1 of .5, 2, 5, 20 and 50 %; 1, 4 and 12 nats for the variant (2
for the status), the optimum of 20 variants alike; 4,000 people; an odds ratio of 1.5 per copy of a status, and a slope of .2
per copy of a trait with residual variance 1; with two covariates, of which one is correlated with the genotype and moves
status and trait (so that leaving it out would bias both), and without any. In every repeat people, status and reports are
drawn anew.

Bias is that of the median of all estimates, in standard errors of one estimate, beside the standard error of that
median; an infinite estimate counts as such, and the proportion without an estimate is reported. Coverage is of all
intervals. A setting holds where coverage is 93 to 97 %, or no farther outside than three standard errors. Writes
results/gwas_effects.csv and .md.
"""

import itertools
import math
import warnings
from collections.abc import Iterator

import numpy as np
from scipy.special import expit
from writing import write_csv, write_text

from optrr import genomics
from optrr.genomics import Cohort, CovariateColumns, GenomicDesign, MatrixGenotypes, Variants
from optrr.genomics.adjusting import adjusted_scan
from optrr.genomics.covariates import read_covariates
from optrr.genomics.scan import scan
from optrr_solvers.arrays import FloatArray

FREQUENCIES, EPSILONS, PEOPLE, DESIGNED = (0.005, 0.02, 0.05, 0.2, 0.5), (1.0, 4.0, 12.0), 4000, 20
STATUS_EPSILON, LOG_ODDS, SLOPE = 2.0, math.log(1.5), 0.2
LOW, HIGH = 0.93, 0.97
SEED = 7
REPEATS = 200


def design_of(epsilon: float) -> GenomicDesign:
    wanted = genomics.Wanted([f"v{k}" for k in range(DESIGNED)])
    return GenomicDesign(genomics.genomic_design(wanted, genomics.Budget(None, epsilon, STATUS_EPSILON)))


def drawn(
    frequency: float, adjusted: bool, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Genotypes, covariates, status and trait; without an adjustment nothing but the genotype moves them."""
    shift, other = rng.normal(size=(2, PEOPLE))
    # the covariate moves the frequency by a third for each standard deviation, at most to a half more
    own = frequency * np.clip(1 + 0.33 * shift, 0.5, 1.5) if adjusted else np.full(PEOPLE, frequency)
    codes = rng.binomial(2, own)
    moved = 0.5 * shift - 0.3 * other if adjusted else np.zeros(PEOPLE)
    status = rng.random(PEOPLE) < expit(-0.5 + moved + LOG_ODDS * codes)
    trait = moved + SLOPE * codes + rng.normal(size=PEOPLE)
    return codes, np.column_stack([shift, other]), status, trait


def estimate(
    design: GenomicDesign, frequency: float, adjusted: bool, of_trait: bool, rng: np.random.Generator
) -> tuple[float, float, float]:
    """β and its limits in one repeat; ln OR of a status. NaN where there is no estimate."""
    codes, covariates, status, trait = drawn(frequency, adjusted, rng)
    people = np.arange(PEOPLE).astype(str).astype(object)
    full = np.repeat(codes[:, None], DESIGNED, axis=1).astype(np.int8)
    named = Variants.named([f"v{k}" for k in range(DESIGNED)])
    cohort = Cohort(MatrixGenotypes(named, people, full), np.arange(PEOPLE), status.astype(np.int8))
    reports = design.randomize(cohort, random_state=int(rng.integers(1 << 60))).cohort
    # one variant is enough: the others would be estimated from the same people
    seen = np.concatenate([block for _, block in reports.blocks()], axis=1)[:, :1]
    one = Cohort(MatrixGenotypes(named.take(slice(0, 1)), people, seen), np.arange(PEOPLE), reports.status)
    table: dict[str, FloatArray] = {}
    if adjusted:
        table |= {"first": covariates[:, 0], "second": covariates[:, 1]}
    if of_trait:
        table["trait"] = trait
    if not table:
        row = scan(one, design.design.law, design.layout).columns
    else:
        import pyarrow as pa

        chosen = CovariateColumns(
            pa.table({"sample": people.astype(str), **table}), None, ("first", "second") if adjusted else (), None,
            "trait" if of_trait else None,
        )  # fmt: skip
        row = adjusted_scan(one, design.design.law, design.layout, read_covariates(chosen, people)).columns
    values = [row["BETA" if of_trait else "OR"][0], row["L95"][0], row["U95"][0]]
    with np.errstate(divide="ignore"):
        return tuple(values if of_trait else np.log(values))  # type: ignore[return-value]


def rows() -> Iterator[dict]:
    designs = {epsilon: design_of(epsilon) for epsilon in EPSILONS}
    grid = itertools.product((False, True), (False, True), EPSILONS, FREQUENCIES)
    for k, (of_trait, adjusted, epsilon, frequency) in enumerate(grid):
        rng = np.random.default_rng([SEED, k])
        made = np.array([estimate(designs[epsilon], frequency, adjusted, of_trait, rng) for _ in range(REPEATS)])
        beta, low, high = made.T
        truth = SLOPE if of_trait else LOG_ODDS
        known = np.isfinite(beta) | np.isinf(beta)
        covered = (low <= truth) & (truth <= high)
        middle = beta[known]
        spread = float(np.diff(np.quantile(middle, [0.16, 0.84], method="inverted_cdf"))[0] / 2)
        bounded = np.isfinite(low) & np.isfinite(high)
        yield {
            "effect": "slope" if of_trait else "ln OR", "adjusted": adjusted, "epsilon": epsilon, "frequency": frequency,
            "truth": truth, "median": float(np.median(middle)), "standard_error": spread,
            "bias": (float(np.median(middle)) - truth) / spread, "bias_error": float(1.2533 / np.sqrt(middle.size)),
            "coverage": float(covered.mean()), "coverage_error": float(np.sqrt(0.05 * 0.95 / REPEATS)),
            "estimates": float(known.mean()), "bounded": float(bounded.mean()),
        }  # fmt: skip


def holds(row: dict) -> bool:
    reach = 3 * row["coverage_error"]
    return bool(LOW - reach <= row["coverage"] <= HIGH + reach)


def report(made: list[dict]) -> str:
    inside = sum(LOW <= row["coverage"] <= HIGH for row in made)
    biased = sum(abs(row["bias"]) > 0.1 + 3 * row["bias_error"] for row in made)
    low = min(made, key=lambda row: row["coverage"])
    lines = [
        f"{len(made)} settings of {REPEATS} repeats: {inside} have coverage of 93 to 97 % (the least is "
        f"{100 * low['coverage']:.1f} %), {sum(not holds(row) for row in made)} are farther outside than three of its "
        "errors; "
        f"the median estimate is off by more than a tenth of a standard error and three of its own in {biased}.",
        "",
        "| effect | covariates | ε of the variant | frequency | truth | median | standard error | bias ± (standard "
        "errors) | "
        "coverage | estimates | with both limits |",
        "|---" * 11 + "|",
    ]
    for r in made:
        lines.append(
            f"| {r['effect']} | {'two' if r['adjusted'] else 'none'} | {r['epsilon']:g} | {100 * r['frequency']:g} % "
            f"| {r['truth']:.3g} | {r['median']:.3g} | {r['standard_error']:.3g} | {r['bias']:.2f} ± "
            f"{r['bias_error']:.2f} "
            f"| {100 * r['coverage']:.1f} ± {100 * r['coverage_error']:.1f} % | {100 * r['estimates']:.3g} % "
            f"| {100 * r['bounded']:.3g} % |"
        )
    return "\n".join(lines)


def main() -> None:
    warnings.simplefilter("ignore")
    made = list(rows())
    write_csv("gwas_effects.csv", made, 6)
    write_text("gwas_effects.md", report(made))


if __name__ == "__main__":
    main()
