"""Bias and coverage of weighted estimates under stratified samples with unequal weights and clusters, and of unweighted ones.

Takes twenty minutes; 400 samples a setting. Half of the settings are a grid of designs, ε_i and n over one population each;
the other half are drawn at random: attributes, strata with their shares of the population and of the sample, kinds of people
within strata who are sampled with different chances, clusters that are more alike inside than the population, ε_i in 0.5..4,
the mechanism, n. Then the same twice with rare cells and a few heavy weights, which a sample may miss.

A sample has a fixed number of records, or of clusters, in each stratum; kinds of people come in proportion to their numbers and
chances, and the weight is what one record then stands for. The truth is the population's table. "covered" is the share of 95 %
intervals that hold it, over all cells and in the worst cell, with the same of the intervals of the unweighted estimate from the
same records. "largest bias" is the mean error in standard errors of that mean: of
unbiased estimates some five cells in a thousand exceed 2.8. "ratio" is the mean linearised variance over the variance of the
estimates. A coverage of 95 % measured by 400 samples has standard error 1.1 %, so a setting with a cell below 92.5 % is
measured again, with MORE_RUNS new samples. Writes results/weighted_coverage.csv and .md.

Measures of groups and outcomes, a contrast of three groups, and the share up to a value by which a quantile is found, are then
measured on MEASURED populations drawn at random: 10 to 60 clusters in 2 to 6 strata, ε_i in 1..4, the first group 3 to 50 % of
the people, weights that have to do with groups and outcomes in every second one. A quarter as many samples each. Beside the
coverage of the weighted intervals stands that of the unweighted ones from the same records. Writes
results/weighted_measures.csv and .md.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from writing import markdown, measure_all, three_decimals, write

from optrr import Constraints, Domain, Mechanism, design
from optrr.analysis.measures import MEASURES, Comparing, quantities
from optrr.analysis.measures.measure import asked
from optrr.analysis.measures.quantities import Inversion, Odds, value_at
from optrr.analysis.weighting.estimating import estimate_sample
from optrr.analysis.weighting.linearised import weighted_table
from optrr.analysis.weighting.sampled import SampledRecords
from optrr.core.domain.public import PublicColumns
from optrr.core.estimation.score_interval import cell_intervals
from optrr.core.estimation.table import Sampling

SEED = 3
RUNS, MORE_RUNS = 400, 2000
# Samples whose printed intervals are compared with the test of the truth.
CHECKED = 4
LEVEL, LEAST = 0.05, 0.93
# A setting with a cell that is covered less is measured again.
USUAL = 0.925
# Populations that measures are of, and the part of the samples that each has.
MEASURED, PART = 24, 4
TAIL = 0.025
# Limits are found to a thousandth of a standard error.
ROUNDING = 1e-3
COLUMNS = PublicColumns("weight", "stratum", "cluster")


@dataclass(frozen=True, eq=False)
class Setting:
    """A population and how it is sampled.

    Parameters
    ----------
    table
        (H, T, R): of each kind of people in each stratum, the shares of the cells.
    people
        (H, T): shares of the population; sum 1.
    chances
        (H, T): by how much more likely a kind is sampled than others of the stratum.
    sizes
        (H,): records from each stratum, a multiple of ``each``.
    each
        records of a cluster; 1 for none.
    alike
        how much of the variance lies between clusters, 0..1.
    """

    name: str
    attributes: tuple[int, ...]
    epsilon: tuple[float, ...]
    kind: str
    table: np.ndarray
    people: np.ndarray
    chances: np.ndarray
    sizes: np.ndarray
    each: int = 1
    alike: float = 0.0

    @cached_property
    def mechanism(self) -> Mechanism:
        """Of all attributes."""
        domain = Domain.of({f"a{k}": r for k, r in enumerate(self.attributes)})
        if self.kind == "kronecker":
            return design(domain, list(self.epsilon), method="kronecker").mechanism
        return design(domain, list(self.epsilon), constraints=Constraints(preserve="pairs")).mechanism

    @property
    def truth(self) -> np.ndarray:
        """(R,)."""
        return np.einsum("ht,htr->r", self.people, self.table)

    @cached_property
    def drawn(self) -> np.ndarray:
        """(H, T): what share of a stratum's sample each kind is."""
        part = self.people * self.chances
        return part / part.sum(axis=1, keepdims=True)

    @cached_property
    def weights(self) -> np.ndarray:
        """(H, T): people of the population that a record stands for, over the whole."""
        return self.people / (self.sizes[:, None] * self.drawn)


def sample(setting: Setting, rng: np.random.Generator) -> SampledRecords:
    """One sample, randomized."""
    clusters = setting.sizes // setting.each
    strata = np.repeat(np.arange(clusters.size), clusters)
    cluster = np.repeat(np.arange(strata.size), setting.each)
    stratum = strata[cluster]
    kind = categories(setting.drawn[stratum], rng)
    cells = categories(setting.table[stratum, kind], rng)
    if setting.alike:
        # with this chance a record repeats its kind's value in the cluster, so that values agree within it
        first = categories(setting.table[strata], rng)
        same = rng.random(cells.size) < np.sqrt(setting.alike)
        cells = np.where(same, first[cluster, kind], cells)
    codes = np.stack(np.unravel_index(cells, setting.attributes), axis=1)
    reports = setting.mechanism.randomize_codes(codes, rng)
    where = np.ravel_multi_index(tuple(reports.T), setting.attributes)
    weights = setting.weights[stratum, kind]
    return SampledRecords(setting.mechanism.domain, where, weights, cluster, strata, np.zeros(cells.size, int), ((),))


def categories(shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One category from each row of shares (…, R)."""
    uniform = rng.random((*shares.shape[:-1], 1))
    return np.minimum((uniform > np.cumsum(shares, axis=-1)).sum(axis=-1), shares.shape[-1] - 1)


def grid() -> list[Setting]:
    """Three designs over one population each, ε_i and n."""
    out = []
    for name, each, alike in (("strata", 1, 0.0), ("strata and weights", 1, 0.0), ("strata and clusters", 10, 0.1)):
        rng = np.random.default_rng(5)
        table = rng.dirichlet(np.full(3, 1.5), size=(4, 1 if name == "strata" else 3))
        people = np.array([0.55, 0.3, 0.1, 0.05])[:, None] * rng.dirichlet(np.full(table.shape[1], 4.0), size=4)
        chances = np.ones(people.shape) if name == "strata" else rng.uniform(0.3, 3.0, people.shape)
        for epsilon in (0.5, 1.0, 2.0, 4.0):
            for n in (500, 1500, 5000):
                sizes = np.full(4, n // 4 // each * each)
                out.append(Setting(name, (3,), (epsilon,), "one", table, people, chances, sizes, each, alike))
    return out


def rare() -> list[Setting]:
    """Rare cells, and few heavy weights that have nothing to do with them."""
    out = []
    for heavy, weight, shares, epsilon, n, each, alike in (
        (0.02, 30, (0.94, 0.03, 0.03), 6.0, 1000, 1, 0.0),
        (0.02, 30, (0.94, 0.03, 0.03), 6.0, 2000, 1, 0.0),
        (0.02, 30, (0.94, 0.03, 0.03), 2.0, 5000, 1, 0.0),
        (0.02, 30, (0.5, 0.3, 0.2), 6.0, 2000, 1, 0.0),
        (0.1, 10, (0.94, 0.03, 0.03), 6.0, 300, 1, 0.0),
        (0.1, 10, (0.98, 0.01, 0.01), 6.0, 1500, 1, 0.0),
        (0.1, 10, (0.94, 0.03, 0.03), 6.0, 3000, 1, 0.0),
        (0.1, 10, (0.5, 0.3, 0.2), 6.0, 1000, 1, 0.0),
        (0.05, 20, (0.94, 0.03, 0.03), 3.0, 1500, 1, 0.0),
        (0.05, 20, (0.7, 0.25, 0.05), 6.0, 2000, 1, 0.0),
        (0.3, 4, (0.94, 0.03, 0.03), 6.0, 2000, 1, 0.0),
        (0.1, 10, (0.94, 0.03, 0.03), 6.0, 2000, 10, 0.1),
        (0.3, 4, (0.98, 0.01, 0.01), 6.0, 1000, 20, 0.2),
        (0.3, 4, (0.98, 0.01, 0.01), 6.0, 5000, 20, 0.2),
    ):
        people = np.array([[1 - heavy, heavy * weight]])
        table = np.broadcast_to(shares, (1, 2, 3))
        chances, sizes = np.array([[1.0, 1 / weight]]), np.array([n])
        out.append(Setting("rare", (3,), (epsilon,), "one", table, people / people.sum(), chances, sizes, each, alike))
    return out


def at_random(rng: np.random.Generator, count: int = 44) -> list[Setting]:
    return [one_at_random(rng) for _ in range(count)]


def rare_at_random(rng: np.random.Generator, count: int = 14) -> list[Setting]:
    """The same with rare cells, alike for all kinds of a stratum, and weights that differ up to a hundredfold."""
    out = []
    for setting in at_random(rng, count):
        strata, kinds, cells = setting.table.shape
        table = np.broadcast_to(rng.dirichlet(np.full(cells, 0.4), size=(strata, 1)), (strata, kinds, cells))
        chances = np.exp(rng.uniform(np.log(0.03), np.log(3), setting.people.shape))
        epsilon = tuple(map(float, rng.uniform(2, 6, len(setting.attributes)).round(2)))
        out.append(replace(setting, name="random, rare", table=table, chances=chances, epsilon=epsilon))
    return out


def one_at_random(rng: np.random.Generator) -> Setting:
    attributes = tuple(map(int, rng.integers(2, 5, size=int(rng.integers(1, 3)))))
    strata, kinds = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    table = rng.dirichlet(np.full(int(np.prod(attributes)), rng.uniform(0.5, 3)), size=(strata, kinds))
    people = rng.dirichlet(np.full(strata, 1.5))[:, None] * rng.dirichlet(np.full(kinds, 3.0), size=strata)
    each = int(rng.choice([1, 1, 5, 20]))
    n = int(rng.choice([500, 1000, 3000, 10_000, 20_000], p=[0.2, 0.25, 0.25, 0.2, 0.1]))
    # at least five clusters of every stratum, others in proportions of their own
    clusters = 5 + np.floor(max(n // each - 5 * strata, 0) * rng.dirichlet(np.full(strata, 2.0))).astype(int)
    return Setting(
        "random",
        attributes,
        tuple(map(float, rng.uniform(0.5, 4, len(attributes)).round(2))),
        "kronecker" if len(attributes) > 1 and rng.uniform() < 0.5 else "pairs kept" if len(attributes) > 1 else "one",
        table,
        people,
        rng.uniform(0.3, 3.0, people.shape),
        clusters * each,
        each,
        float(rng.uniform(0.02, 0.2)) if each > 1 else 0.0,
    )


def measured_setting(rng: np.random.Generator, related: bool, clusters: tuple[int, int] = (10, 61)) -> Setting:
    """Groups and three outcomes; where ``related``, kinds of people differ in both and in their weights."""
    strata, groups, outcomes = int(rng.integers(2, 7)), int(rng.integers(2, 4)), 3
    count, each = int(rng.integers(max(clusters[0], 2 * strata), clusters[1])), int(rng.integers(10, 81))
    first = np.exp(rng.uniform(np.log(0.03), np.log(0.5)))
    shares = np.append(first, (1 - first) * rng.dirichlet(np.full(groups - 1, 5.0)))
    within = rng.dirichlet(np.full(outcomes, 1.5), size=groups)
    kinds = 3 if related else 1
    of_group = shares * np.exp(0.5 * related * rng.normal(size=(strata, kinds, groups)))
    of_outcome = within * np.exp((0.6 if related else 0.3) * rng.normal(size=(strata, kinds, groups, outcomes)))
    of_group /= of_group.sum(axis=-1, keepdims=True)
    of_outcome /= of_outcome.sum(axis=-1, keepdims=True)
    table = (of_group[..., None] * of_outcome).reshape(strata, kinds, -1)
    people = rng.dirichlet(np.full(strata, 2.0))[:, None] * rng.dirichlet(np.full(3, 3.0), size=strata)
    return Setting(
        "related" if related else "unrelated",
        (groups, outcomes),
        tuple(map(float, rng.uniform(1, 4, 2).round(2))),
        "kronecker" if rng.uniform() < 0.5 else "pairs kept",
        np.broadcast_to(table, (strata, 3, groups * outcomes)),
        people,
        np.exp(rng.uniform(np.log(0.15), np.log(3.0), people.shape)),
        (2 + rng.multinomial(count - 2 * strata, rng.dirichlet(np.full(strata, 3.0)))) * each,
        each,
        float(rng.uniform(0.0, 0.15)),
    )


def equations(domain: Domain) -> dict[str, Odds]:
    """The first comparison of every measure, a contrast of three groups, and a share up to a value in the last group."""
    out = {name: next(asked(domain, name, Comparing()))[1] for name in MEASURES}
    row, column = (each.ravel() for each in np.indices(tuple(domain.sizes)))
    first, others, everybody = (row == 0) * 1.0, (row > 0) * 1.0, np.ones(row.size)
    hit = (column == 2) * 1.0
    out["contrast"] = quantities.sum_of_means([(hit, first), (-hit / 2, others), (-hit / 2, everybody)])
    below = (row == row.max()) * (column < 2)
    out["quantile"] = quantities.share(below * 1.0, (row == row.max()) * (column == 2) * 1.0)
    return out


def measures_held(
    setting: Setting, runs: int, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], int]:
    """In which samples (runs,) each measure's weighted interval, and the unweighted one, holds the truth; and how many differ.

    Those differ whose printed limits say otherwise than the test of the truth, in the first CHECKED samples.
    """
    domain = setting.mechanism.domain
    of = equations(domain)
    truth = {name: odds.position(value_at(odds, setting.truth)) for name, odds in of.items()}
    weighted, plain = ({name: np.zeros(runs, dtype=bool) for name in of} for _ in range(2))
    differ = 0
    for run in range(runs):
        records = sample(setting, rng)
        table = weighted_table(records, setting.mechanism, COLUMNS)
        observed = records.counts().proportions.ravel()
        for name, odds in of.items():
            v = truth[name]
            tested = Inversion.of(odds, table.sampling, table.observed.ravel())
            naive = Inversion.of(odds, Sampling(table.kernel, records.n), observed)
            weighted[name][run] = min(tested.excesses(v, TAIL)) >= 0
            plain[name][run] = min(naive.excesses(v, TAIL)) >= 0
            if run < CHECKED:
                low, high = tested.limits(TAIL)
                printed = low - ROUNDING <= v <= high + ROUNDING
                # values on both sides of one that is rejected may be accepted, and are then within the limits
                differ += int(weighted[name][run] and not printed)
    return weighted, plain, differ


def measured_rows(setting: Setting, place: int) -> dict[str, object]:
    """A row of the measures' table."""
    weighted, plain, differ = measures_held(setting, RUNS // PART, np.random.default_rng([place, 2]))
    clusters = setting.sizes // setting.each
    shares = setting.truth.reshape(setting.attributes).sum(axis=1)
    return {
        **{"weights": setting.name, "sizes": "×".join(map(str, setting.attributes)), "mechanism": setting.kind},
        **{"ε": " ".join(map(str, setting.epsilon)), "first group": float(shares[0]), "n": int(setting.sizes.sum())},
        **{"strata": setting.sizes.size, "clusters": int(clusters.sum()), "runs": RUNS // PART, "differ": differ},
        **{name: float(held.mean()) for name, held in weighted.items()},
        "unweighted covered": float(np.mean(list(plain.values()))),
    }


def page_of_measures(rows: list[dict[str, object]]) -> str:
    names = [name for name in rows[0] if name in (*MEASURES, "contrast", "quantile")]
    covered = np.array([[row[name] for name in names] for row in rows])
    plain = np.array([row["unweighted covered"] for row in rows])
    means = ", ".join(f"{name} {value:.1%}" for name, value in zip(names, covered.mean(axis=0), strict=True))
    lines = [
        "# Measures of weighted samples: coverage",
        f"Made by `benchmarks/weighted_coverage.py`: {RUNS // PART} samples for each of {len(rows)} settings drawn at "
        "random.",
        f"95 % intervals of weighted measures cover {covered.mean():.1%} on average, {covered.min():.1%} to "
        f"{covered.max():.1%} in {covered.size} combinations of setting and measure: {means}. Of the truths that tests "
        f"accept, {sum(row['differ'] for row in rows)} are left out by printed intervals. Unweighted intervals from "
        f"the same records cover {plain.mean():.1%} on average.",
        markdown(rows, three_decimals),
    ]
    return "\n\n".join(lines)


def measured(setting: Setting, place: int) -> dict[str, object]:
    """A row."""
    row = once(setting, RUNS, np.random.default_rng(place))
    again = row["worst cell"] < USUAL
    return once(setting, MORE_RUNS, np.random.default_rng([place, 1])) if again else row


def once(setting: Setting, runs: int, rng: np.random.Generator) -> dict[str, object]:
    """A row from so many samples."""
    truth, kernel = setting.truth, setting.mechanism.kernel(setting.mechanism.domain.names)
    weighted, plain, effects = [], [], []
    for _ in range(runs):
        records = sample(setting, rng)
        table = estimate_sample(records, setting.mechanism, COLUMNS, 1 - LEVEL).table
        covered = (table.lower.ravel() <= truth) & (truth <= table.upper.ravel())
        weighted.append((table.estimate.ravel() - truth, np.diag(table.covariance), covered))
        effects.append(np.median(table.design_effect))
        observed = records.counts().proportions
        lower, upper = cell_intervals(kernel, observed, records.n, LEVEL)
        plain.append((kernel.solve(observed).ravel() - truth, (lower <= truth) & (truth <= upper)))
    error, variance, cover = (np.array(each) for each in zip(*weighted, strict=True))
    off, unweighted = (np.array(each).mean(axis=0) for each in zip(*plain, strict=True))
    bias = error.mean(axis=0) / (error.std(axis=0, ddof=1) / np.sqrt(runs))
    return {
        **{"sample": setting.name, "sizes": "×".join(map(str, setting.attributes)), "mechanism": setting.kind},
        **{"ε": " ".join(map(str, setting.epsilon)), "n": int(setting.sizes.sum()), "strata": setting.sizes.size},
        **{"records a cluster": setting.each, "runs": runs, "design effect": float(np.mean(effects))},
        **{"covered": float(cover.mean()), "worst cell": float(cover.mean(axis=0).min())},
        **{"largest bias": float(np.abs(bias).max()), "cells": truth.size},
        "ratio": float(variance.mean(axis=0).sum() / error.var(axis=0, ddof=1).sum()),
        **{"unweighted covered": float(unweighted.mean()), "its worst cell": float(unweighted.min())},
        "its largest error": float(np.abs(off).max()),
    }


def page(rows: list[dict[str, object]]) -> str:
    column = {name: np.array([r[name] for r in rows]) for name in rows[0] if name not in TEXTS}
    cells = column["cells"]
    mean = {name: np.average(column[name], weights=cells) for name in ("covered", "unweighted covered")}
    worst, ratio = column["worst cell"], column["ratio"]
    again = int(np.sum(column["runs"] == MORE_RUNS))
    lines = [
        "# Weighted estimates: bias and coverage",
        f"Made by `benchmarks/weighted_coverage.py`: {RUNS} samples for each of {len(rows)} settings, "
        f"{int(cells.sum())} "
        f"cells; half of the settings drawn at random. {MORE_RUNS} new ones for the {again} settings with a "
        f"cell below {USUAL:.1%} at first.",
        f"Weighted 95 % intervals cover {mean['covered']:.2%} on average, in the worst cell of all settings "
        f"{worst.min():.2%}; below 93 % in the worst cell of {np.sum(worst < LEAST)} settings. The largest mean error "
        "of a "
        f"cell is {column['largest bias'].max():.2f} standard errors of the simulation. Linearised variances are "
        f"{ratio.min():.3f} to {ratio.max():.3f} of the true ones.",
        f"Unweighted intervals from the same records cover {mean['unweighted covered']:.2%} on average; in the worst "
        "cell of "
        f"the median setting {np.median(column['its worst cell']):.2%}. Their estimates are off by up to "
        f"{column['its largest error'].max():.3f}.",
        markdown(rows, three_decimals),
    ]
    return "\n\n".join(lines)


TEXTS = ("sample", "sizes", "mechanism", "ε")


def every_setting(rng: np.random.Generator) -> list[Setting]:
    return [*grid(), *at_random(rng), *rare(), *rare_at_random(rng)]


def measured_settings() -> list[Setting]:
    rng = np.random.default_rng(4)
    return [measured_setting(rng, k % 2 == 1) for k in range(MEASURED)]


def main() -> None:
    settings, of_measures = every_setting(np.random.default_rng(SEED)), measured_settings()
    rows = measure_all(measured, settings, range(len(settings)))
    write("weighted_coverage", rows, page(rows))
    rows = measure_all(measured_rows, of_measures, range(MEASURED))
    write("weighted_measures", rows, page_of_measures(rows))


if __name__ == "__main__":
    main()
