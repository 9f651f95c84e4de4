"""Coverage of the 95 % intervals of regressions and the level of their tests, with randomized and with public predictors.

Run as ``python benchmarks/regression_coverage.py [RUNS] [JOBS]`` (20,000 data sets a setting and one process unless told; some
twenty minutes of one core). Half of the settings are a grid of families, ε_i and n over one population each; the other half are
drawn at random: number, sizes and kinds of predictors, their joint law, ε_i in 1..4 for each attribute, the mechanism, n,
interactions.

The truth is the regression of the population: the equations solved at the exact law of the reports. There is a row for each
parameter, and one for each term of several columns, which has a test and no interval; thresholds of ordered outcomes have an
interval and no test. An interval holds the truth where the test of the truth does not reject, or where the search for its end
stops before it; of the first CHECKED data sets the printed interval is compared with that. "none" is the share of data sets
without an interval: no solution, or other predictors that cannot be told from noise; "covered" counts the others, and "endless"
is the share, among those compared, with an infinite end.

The test of the truth is made and refused as that of 0 is, of all data sets, whether or not they have estimates. "no test" is
the share in which the hypothesis has no solution, "refused" the share of the others in which the test has no p-value because
its law does not hold. "rejected" is of the p-values that are printed, "refused rejects" of those that are not.

A level is within where the printed p-values reject 4–6 % at 5 % and 0.05–0.2 % at 0.1 %. Where fewer than LEAST_PRINTED of the
data sets print one, there are too few to tell, and the row counts as refused. With 20,000 data sets a level has standard errors
of 0.15 % and 0.022 %; a setting with a row that is not within is measured again, with MORE_RUNS new data sets, and only these
count then. Writes results/regression_coverage.csv and .md.

``python benchmarks/regression_coverage.py weighted [RUNS] [JOBS]`` measures regressions of samples with weights, strata and
clusters instead, and writes results/regression_weighted.md.
"""

from __future__ import annotations

import csv
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from math import isinf
from pathlib import Path

import numpy as np
import weighted_coverage
from derived_coverage import markdown
from scipy.stats import chi2, norm

from optrr import Attribute, Domain, Mechanism, design
from optrr.mechanisms.kernel import ProductKernel, unrandomized
from optrr.models.regression.building import DistinctReports, every_combination
from optrr.models.regression.families import Equations, Levels
from optrr.models.regression.fitting import Tried, columns_of, equations, interval, model
from optrr.models.regression.formulas import Formula
from optrr.models.regression.result import Fit
from optrr.models.regression.sampled_reports import distinct_sampled
from optrr.models.regression.solving import clear, covariance, estimated, law_holds, solve, tail, test
from optrr.tables.weighting.linearised import Clusters

RESULTS = Path(__file__).parent / "results"
RUNS, MORE_RUNS, CHECKED, TOGETHER = 20_000, 60_000, 4, 100
LEVELS = (0.05, 0.001)
LEAST, LEAST_PRINTED = 0.93, 0.05
WITHIN = ((0.04, 0.06), (0.0005, 0.002))


@dataclass(frozen=True, eq=False)
class Setting:
    """A regression: its attributes with those that are randomized, the mechanism, and the population (*sizes), outcome last."""

    name: str
    kind: str
    formula: str
    family: str
    domain: Domain
    randomized: tuple[str, ...]
    epsilon: tuple[float, ...]
    population: np.ndarray
    n: int

    def mechanism(self) -> Mechanism:
        """Of the randomized attributes."""
        chosen = self.domain.subset(self.randomized)
        if self.kind == "kronecker":
            return design(chosen, list(self.epsilon), method="kronecker").mechanism
        return design(chosen, list(self.epsilon), preserve="pairs").mechanism

    def reports(self) -> tuple[DistinctReports, np.ndarray]:
        """Every possible report, with its exact chance."""
        mechanism = self.mechanism()
        public = tuple(n for n in self.domain.names if n not in self.randomized)
        kernel = mechanism.kernel(self.randomized)
        if public:
            kernel = ProductKernel([unrandomized([self.domain[n].size for n in public], public), kernel])
        order = self.domain.indices((*public, *self.randomized))
        chances = np.transpose(kernel.expected(np.transpose(self.population, order)), np.argsort(order))
        codes = every_combination(np.zeros((1, 0), dtype=np.int64), tuple(map(int, self.domain.sizes)))
        return DistinctReports(self.domain, codes, chances.reshape(1, -1), mechanism), chances.ravel()


def attribute(name: str, size: int, numeric: bool) -> Attribute:
    if numeric:
        return Attribute(name, tuple(range(size)))
    return Attribute(name, tuple(f"{name}{k}" for k in range(size)), ordered=True)


def population(
    x: np.ndarray, outcomes: int, effects: list[np.ndarray], cut: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """Shares of the predictors' cells with the outcome: the logistic model where there are cuts, else what the noise makes."""
    score = np.zeros(x.shape)
    for axis, effect in enumerate(effects):
        shape = [1] * x.ndim
        shape[axis] = -1
        score = score + effect.reshape(shape)
    if not cut.size:
        chances = np.exp(np.multiply.outer(score, np.arange(outcomes)) / 2) * noise
        return x[..., None] * chances / chances.sum(axis=-1, keepdims=True)
    levels = Levels.at(np.concatenate([cut, [1.0]])[None], score.reshape(1, -1, 1), outcomes)
    return x[..., None] * levels.p[0, 0].reshape(*x.shape, -1)


def dependent(sizes: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """A joint law of predictors that depend on each other: a mixture of three independent ones."""
    parts = []
    for weight in rng.dirichlet((2, 2, 2)):
        part = np.array(weight)
        for r in sizes:
            part = np.multiply.outer(part, rng.dirichlet(np.full(r, 2.0)))
        parts.append(part)
    return np.sum(parts, axis=0)


def grid() -> list[Setting]:
    """Three families, all predictors randomized or public, ε_i and n, over a population drawn once."""
    out = []
    for family, r in (("linear", 4), ("logistic", 2), ("ordered", 3)):
        rng = np.random.default_rng(7)
        domain = Domain((attribute("sex", 2, False), attribute("age", 4, True), attribute("y", r, family == "linear")))
        x = dependent((2, 4), rng)
        cut = {"logistic": np.array([-0.8]), "ordered": np.array([0.3, -1.0])}.get(family, np.zeros(0))
        table = population(x, r, [np.array([0.0, 0.6]), np.zeros(4)], cut, rng.gamma(4.0, size=(2, 4, r)))
        for randomized, said in ((("sex", "age", "y"), "all"), (("y",), "outcome")):
            for epsilon in (1.0, 2.0, 4.0):
                for n in (1000, 10_000):
                    kind = "pairs kept" if len(randomized) > 1 else "kronecker"
                    each = (epsilon,) * len(randomized)
                    out.append(
                        Setting(f"{said} randomized", kind, "y ~ sex + age", family, domain, randomized, each, table, n)
                    )
    return out


def drawn(rng: np.random.Generator, count: int = 44) -> list[Setting]:
    return [
        one_drawn(rng, str(rng.choice(["linear", "linear", "logistic", "logistic", "ordered"]))) for _ in range(count)
    ]


def one_drawn(rng: np.random.Generator, family: str) -> Setting:
    k = int(rng.integers(1, 5 if family == "linear" else 4))
    r = {"linear": int(rng.integers(2, 6)), "logistic": 2, "ordered": int(rng.integers(3, 5))}[family]
    predictors = [attribute(f"x{i}", int(rng.integers(2, 5)), bool(rng.integers(0, 2))) for i in range(k)]
    sizes = tuple(a.size for a in predictors)
    # the first has no effect beside the others
    effects = [np.zeros(sizes[0]), *(effect(rng, a) for a in predictors[1:])]
    cut = (
        np.zeros(0) if family == "linear" else np.sort(rng.uniform(-1.2, 1.2, r - 1))[::-1] - np.linspace(0, 0.8, r - 1)
    )
    table = population(dependent(sizes, rng), r, effects, cut, rng.gamma(4.0, size=(*sizes, r)))
    names = [a.name for a in predictors]
    hidden = [name for name in names if rng.uniform() < 0.7]
    together = " + x0:x1" if family == "linear" and k > 1 and rng.uniform() < 0.3 else ""
    chosen = (*hidden, "y")
    return Setting(
        "random",
        "pairs kept" if hidden and not together and rng.uniform() < 0.5 else "kronecker",
        f"y ~ {' + '.join(names)}{together}",
        family,
        Domain((*predictors, attribute("y", r, family == "linear"))),
        chosen,
        tuple(map(float, rng.uniform(1, 4, len(chosen)).round(2))),
        table,
        int(rng.choice([1000, 3000, 10_000, 30_000, 100_000])),
    )


def effect(rng: np.random.Generator, of: Attribute) -> np.ndarray:
    """A slope of numbers, or a step for every other category."""
    if isinstance(of.categories[0], int):
        return rng.uniform(-0.7, 0.7) * np.arange(float(of.size))
    return np.concatenate([[0.0], rng.uniform(-0.8, 0.8, of.size - 1)])


def fit_of(setting: Setting, reports: DistinctReports) -> Fit:
    return model(Formula.of(setting.formula), reports, "linear" if setting.family == "linear" else "logistic", {})


def with_numbers(fit: Fit, reports: DistinctReports, numbers: np.ndarray) -> Equations:
    """The equations of data sets that hold each possible report so many times."""
    return equations(fit, DistinctReports(reports.domain, reports.codes, numbers, reports.mechanism))


def measured(setting: Setting, runs: int, seed: int) -> list[dict[str, object]]:
    """A row for every parameter."""
    rows = once(setting, runs, np.random.default_rng(seed))
    if any(row["level"] == "outside" for row in rows):
        return once(setting, MORE_RUNS, np.random.default_rng([seed, 1]))
    return rows


def tested(fit: Fit) -> dict[str, tuple[int, ...]]:
    """What is tested, by name: every parameter, and every term of several columns."""
    places = {label: (k,) for k, label in enumerate(fit.labels)}
    terms = {f"{term.name} (term)": columns_of(fit, term) for term in fit.predictors.terms}
    return places | {name: which for name, which in terms.items() if len(which) > 1}


def once(setting: Setting, runs: int, rng: np.random.Generator) -> list[dict[str, object]]:
    """A row for every parameter, from so many data sets."""
    reports, chances = setting.reports()
    fit = fit_of(setting, reports)
    # of so many records that what keeps laws of few records off 0 does not count
    truth = estimated(with_numbers(fit, reports, chances[None] * 1e12)).theta
    hypotheses = tested(fit)
    made, endless, differ = Made.empty(runs, len(hypotheses)), np.zeros(truth.size), np.zeros(truth.size)
    for start in range(0, runs, TOGETHER):
        numbers = rng.multinomial(setting.n, chances, size=min(TOGETHER, runs - start)).astype(float)
        data = with_numbers(fit, reports, numbers)
        rows = slice(start, start + len(numbers))
        made.fill(rows, data, hypotheses, truth[0])
        if not start:
            endless, differ = compared(with_each(fit, reports, numbers[:CHECKED]), truth[0], made.statistic)
    described = {
        **{"predictors": setting.name, "mechanism": setting.kind, "family": setting.family, "model": setting.formula},
        **{"sizes": "×".join(map(str, map(int, setting.domain.sizes))), "randomized": ",".join(setting.randomized)},
        **{"ε": " ".join(map(str, setting.epsilon)), "n": setting.n, "runs": runs},
    }
    of_parameters = [
        {"truth": float(truth[0, k]), "endless": float(endless[k]) / CHECKED, "differ": int(differ[k])}
        for k in range(truth.size)
    ]
    of_terms = [{"truth": np.nan, "endless": np.nan, "differ": 0}] * (len(hypotheses) - truth.size)
    return [
        described
        | {"parameter": name, "df": len(which)}
        | known
        | coverage(made.statistic[:, k], made.interval[:, k], len(which))
        | levels(made.statistic[:, k], made.law[:, k], len(which), tests=min(which) >= fit.thresholds)
        for k, ((name, which), known) in enumerate(zip(hypotheses.items(), of_parameters + of_terms, strict=True))
    ]


@dataclass(frozen=True, eq=False)
class Made:
    """What is made of data sets, (runs, hypotheses) each.

    The statistic of the truth, NaN without a solution; whether its law holds; and whether there is an interval.
    """

    statistic: np.ndarray
    law: np.ndarray
    interval: np.ndarray

    @staticmethod
    def empty(runs: int, hypotheses: int) -> Made:
        """Before there is any data set."""
        shape = (runs, hypotheses)
        return Made(np.full(shape, np.nan), np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool))

    def fill(self, rows: slice, data: Equations, hypotheses: dict[str, tuple[int, ...]], truth: np.ndarray) -> None:
        """From some of the data sets."""
        solved = solve(data, data.start())
        near = np.where(solved.converged[:, None], solved.theta, data.start())
        for k, which in enumerate(hypotheses.values()):
            self.statistic[rows, k] = test(data, which, truth[list(which)], near).statistic
            self.law[rows, k] = law_holds(data, which)
            if k < data.parameters:
                others = np.array([i for i in range(data.parameters) if i != k], dtype=np.int64)
                self.interval[rows, k] = solved.converged & clear(data, near, others)


def coverage(statistic: np.ndarray, printed: np.ndarray, df: int) -> dict[str, object]:
    """Of the intervals that are printed; terms of several columns have none."""
    if df > 1:
        return {"none": np.nan, "covered": np.nan}
    # where the hypothesis has no solution the search for an end stops, and the interval has none
    outside = np.nan_to_num(statistic[printed]) > chi2.isf(LEVELS[0], 1)
    return {"none": 1 - float(printed.mean()), "covered": 1 - float(outside.mean()) if printed.any() else np.nan}


def levels(statistic: np.ndarray, law: np.ndarray, df: int, tests: bool) -> dict[str, object]:
    """Of the p-values that are printed, and of those that are refused."""
    solved = ~np.isnan(statistic)
    printed = statistic[solved & law]
    shares = {f"rejected at {level}": rejected(printed, level, df) for level in LEVELS}
    refused = {f"refused rejects at {level}": rejected(statistic[solved & ~law], level, df) for level in LEVELS}
    if not tests:
        return {"no test": np.nan, "refused": np.nan} | dict.fromkeys([*shares, *refused], np.nan) | {"level": "none"}
    inside = all(low <= share <= high for share, (low, high) in zip(shares.values(), WITHIN, strict=True))
    word = "refused" if printed.size < LEAST_PRINTED * statistic.size else "within" if inside else "outside"
    missing = {"no test": 1 - float(solved.mean()), "refused": float((~law[solved]).mean()) if solved.any() else np.nan}
    return missing | shares | refused | {"level": word}


def rejected(statistic: np.ndarray, level: float, df: int) -> float:
    return float(np.mean(statistic > chi2.isf(level, df))) if statistic.size else np.nan


def with_each(fit: Fit, reports: DistinctReports, numbers: np.ndarray) -> list[Equations]:
    return [with_numbers(fit, reports, each[None]) for each in numbers]


def compared(data: list[Equations], truth: np.ndarray, statistic: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many printed intervals have an infinite end, and how many disagree with the test of the truth."""
    endless, differ = np.zeros(truth.size), np.zeros(truth.size)
    bound = float(norm.isf(LEVELS[0] / 2))
    for row, each in enumerate(data):
        solved = estimated(each)
        if not solved.converged[0]:
            endless += 1
            continue
        errors = np.sqrt(np.diag(covariance(each, solved.theta)[0]))
        for k in range(truth.size):
            low, high = interval(each, Tried(k, solved.theta[0], float(errors[k])), bound)
            infinite = isinf(low) or isinf(high)
            slack = 1e-4 * errors[k]
            held = low - slack <= truth[k] <= high + slack
            endless[k] += infinite
            differ[k] += held == (np.nan_to_num(statistic[row, k]) > bound**2) and not infinite
    return endless, differ


def page(rows: list[dict[str, object]], runs: int) -> str:
    parameters = [r for r in rows if r["df"] == 1]
    cover, none, differ = (column(parameters, name) for name in ("covered", "none", "differ"))
    described = ("family", "model", "sizes", "randomized", "ε", "n", "mechanism")
    settings = len({tuple(str(r[k]) for k in described) for r in rows})
    again = len({tuple(str(r[k]) for k in described) for r in rows if r["runs"] == MORE_RUNS})
    seen = ~np.isnan(cover)
    of_tests = [r for r in rows if r["level"] != "none"]
    judged = {word: sum(r["level"] == word for r in of_tests) for word in ("within", "outside", "refused")}
    lines = [
        "# Coverage of the 95 % intervals of regressions, and the level of their tests",
        f"Made by `benchmarks/regression_coverage.py`: {runs} data sets for each of {settings} settings, {len(parameters)} "
        f"parameters and {len(rows) - len(parameters)} terms of several columns; half of the settings drawn at random. "
        f"{MORE_RUNS} new ones for the {again} settings with a row that was not within at first.",
        f"Printed p-values of the truth: {judged['within']} of {len(of_tests)} rows with a test within 4–6 % at 5 % and "
        f"0.05–0.2 % at 0.1 %, {judged['outside']} outside, {judged['refused']} refused in all but {LEAST_PRINTED:.0%} of the "
        f"data sets or more. {levels_said(rows, 'within')} {levels_said(rows, 'outside')} {refused_said(of_tests)}",
        f"Coverage where an interval is printed: {mean(cover, 1 - none):.2%} on average, least {cover[seen].min():.2%}, most "
        f"{cover[seen].max():.2%}; below {LEAST:.0%} for {np.sum(cover[seen] < LEAST)} of {seen.sum()} parameters. No interval "
        f"is printed for {none.mean():.2%} of data sets, at most {none.max():.1%} for one parameter. {int(differ.sum())} of "
        f"{len(parameters) * CHECKED} printed intervals disagree with the test.",
        "| family | n | parameters | covered | least | rejects at 0.05 | at 0.001 | no interval | endless | refused |\n"
        "|---|---|---|---|---|---|---|---|---|---|\n" + "\n".join(group(parameters)),
        markdown(rows),
    ]
    return "\n\n".join(lines) + "\n"


def column(rows: list[dict[str, object]], name: str) -> np.ndarray:
    return np.array([float(str(r.get(name, np.nan))) for r in rows])


def levels_said(rows: list[dict[str, object]], word: str) -> str:
    of = [r for r in rows if r["level"] == word]
    if not of:
        return ""
    usual, far = (column(of, f"rejected at {level}") for level in LEVELS)
    return f"Rows {word}: {usual.min():.2%}–{usual.max():.2%} at 5 %, {far.min():.3%}–{far.max():.3%} at 0.1 %."


def refused_said(rows: list[dict[str, object]]) -> str:
    """How many p-values are refused, and what those tests do."""
    refused = column(rows, "refused")
    some = [r for r, share in zip(rows, refused, strict=True) if share > LEAST_PRINTED]
    said = f"Of tests that have a solution {np.nanmean(refused):.2%} are refused"
    if not some:
        return f"{said}."
    usual, far = (column(some, f"refused rejects at {level}") for level in LEVELS)
    right = np.ones(len(some), dtype=bool)
    for share, (low, high) in zip((usual, far), WITHIN, strict=True):
        right &= (low <= share) & (share <= high)
    return (
        f"{said}, more than {LEAST_PRINTED:.0%} in {len(some)} rows: what is refused there would reject {usual.min():.2%}–"
        f"{usual.max():.2%} at 5 % and {far.min():.3%}–{far.max():.3%} at 0.1 %, and would be within in {right.sum()} of them."
    )


def group(rows: list[dict[str, object]]) -> list[str]:
    out = []
    for family in ("linear", "logistic", "ordered"):
        for n in sorted({int(str(r["n"])) for r in rows if r["family"] == family}):
            of = [r for r in rows if r["family"] == family and r["n"] == n]
            none, cover = column(of, "none"), column(of, "covered")
            cells = [family, str(n), str(len(of)), f"{mean(cover, 1 - none):.4f}", f"{np.nanmin(cover):.4f}"]
            printed = (1 - column(of, "no test")) * (1 - column(of, "refused"))
            cells += [f"{mean(column(of, f'rejected at {level}'), printed):.5f}" for level in LEVELS]
            ends = (none.mean(), column(of, "endless").mean(), np.nanmean(column(of, "refused")))
            out.append(f"| {' | '.join([*cells, *(format(each, '.4f') for each in ends)])} |")
    return out


def mean(values: np.ndarray, weights: np.ndarray) -> float:
    """Of the values that are numbers."""
    seen = ~np.isnan(values) & ~np.isnan(weights)
    return float(np.average(values[seen], weights=weights[seen])) if weights[seen].sum() > 0 else np.nan


def main(runs: int, jobs: int) -> None:
    settings = [*grid(), *drawn(np.random.default_rng(2))]
    rows = []
    with ProcessPoolExecutor(jobs) as pool:
        for k, new in enumerate(pool.map(measured, settings, [runs] * len(settings), range(len(settings)))):
            rows += new
            said = (
                f"{r['rejected at 0.05']:.3f}/{r['rejected at 0.001']:.4f}/{r['none']:.2f}/{r['level']}" for r in new
            )
            print(
                k + 1,
                *(new[0][name] for name in ("family", "model", "randomized", "ε", "n", "mechanism")),
                *said,
                flush=True,
            )
    with (RESULTS / "regression_coverage.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in r.items()} for r in rows)
    (RESULTS / "regression_coverage.md").write_text(page(rows, runs))
    print(page(rows, runs)[:3000])


@dataclass(frozen=True, eq=False)
class WeightedSetting(weighted_coverage.Setting):
    """A sampled population, and the regression of its last attribute on the others."""

    family: str = "logistic"

    @cached_property
    def mechanism(self) -> Mechanism:
        """Of all attributes."""
        *sizes, r = self.attributes
        each = [attribute(f"x{k}", size, False) for k, size in enumerate(sizes)]
        outcome = attribute("y", r, self.family == "linear")
        domain = Domain((*each, replace(outcome, ordered=self.family in ("linear", "ordered"))))
        how = {"preserve": "pairs"} if self.kind == "pairs kept" else {"method": "kronecker"}
        return design(domain, list(self.epsilon), **how).mechanism

    @property
    def formula(self) -> Formula:
        """Additive."""
        return Formula.of(f"y ~ {' + '.join(f'x{k}' for k in range(len(self.attributes) - 1))}")


def weighted_at_random(rng: np.random.Generator, count: int) -> list[WeightedSetting]:
    """One or two predictors with an outcome whose chances, in every stratum and kind of people, are near those of others."""
    out = []
    while len(out) < count:
        family = ("logistic", "linear", "ordered", "multinomial")[len(out) % 4]
        sampled = weighted_coverage.one_at_random(rng)
        sizes = tuple(map(int, rng.integers(2, 5, int(rng.integers(1, 3)))))
        r = 2 if family == "logistic" else 3
        strata, kinds = sampled.people.shape
        x = rng.dirichlet(np.full(int(np.prod(sizes)), 3.0), size=(strata, kinds))
        chances = rng.dirichlet(np.full(r, 3.0), size=x.shape[-1]) * rng.uniform(0.6, 1.6, (strata, kinds, 1, r))
        table = x[..., None] * chances / chances.sum(axis=-1, keepdims=True)
        made = WeightedSetting(
            name=sampled.name,
            attributes=(*sizes, r),
            epsilon=tuple(map(float, rng.uniform(1.5, 4, len(sizes) + 1).round(2))),
            kind=str(rng.choice(["kronecker", "pairs kept"])),
            table=table.reshape(strata, kinds, -1),
            people=sampled.people,
            chances=sampled.chances,
            sizes=sampled.sizes,
            each=sampled.each,
            alike=sampled.alike,
            family=family,
        )
        out.append(made)
    return out


def weighted_once(setting: WeightedSetting, runs: int, seed: int) -> dict[str, object]:
    """How often tests of the truth reject, and unweighted ones, of parameters together and of the worst."""
    rng, mechanism = np.random.default_rng(seed), setting.mechanism
    sizes = tuple(map(int, mechanism.domain.sizes))
    chances = mechanism.kernel(mechanism.domain.names).expected(setting.truth.reshape(sizes))
    codes = every_combination(np.zeros((1, 0), dtype=np.int64), sizes)
    exact = DistinctReports(mechanism.domain, codes, 1e9 * chances.reshape(1, -1), mechanism)
    family = "linear" if setting.family == "linear" else None
    fit = model(setting.formula, exact, family, {})
    truth = estimated(equations(fit, exact)).theta[0]
    reject, tested = np.zeros((2, truth.size)), np.zeros((2, truth.size))
    degrees = []
    for _ in range(runs):
        sampled = replace(weighted_coverage.sample(setting, rng), domain=mechanism.domain)
        clusters = Clusters.of(sampled.strata, "refuse")
        for row, reports in enumerate(distinct_sampled(sampled, mechanism, clusters)):
            made = equations(fit, reports)
            degrees += [made.degrees] * row
            solved = estimated(made)
            for k in range(truth.size):
                others = np.array([i for i in range(truth.size) if i != k])
                if solved.converged[0] and clear(made, solved.theta, others)[0]:
                    p = tail(float(test(made, (k,), truth[[k]], solved.theta).statistic[0]), 1, made.degrees)
                    reject[row, k] += p < LEVELS[0]
                    tested[row, k] += not np.isnan(p)
    with np.errstate(invalid="ignore"):
        plain, weighted = reject / tested
    return {
        "family": setting.family,
        "attributes": "×".join(map(str, setting.attributes)),
        "ε": " ".join(f"{e:g}" for e in setting.epsilon),
        "n": int(setting.sizes.sum()),
        "strata": setting.sizes.size,
        "cluster": setting.each,
        "degrees": round(float(np.median(degrees))),
        "without interval": round(float(1 - tested[1].mean() / runs), 3),
        "covered": round(float(1 - reject[1].sum() / tested[1].sum()), 3),
        "least covered": round(float(1 - np.nanmax(weighted)), 3),
        "covered unweighted": round(float(1 - reject[0].sum() / tested[0].sum()), 3),
        "least unweighted": round(float(1 - np.nanmax(plain)), 3),
    }


def weighted(runs: int = 200, jobs: int = 1, count: int = 16) -> None:
    """Coverage in sampled populations: results/regression_weighted.md."""
    settings = weighted_at_random(np.random.default_rng(9), count)
    with ProcessPoolExecutor(jobs) as pool:
        rows = list(pool.map(weighted_once, settings, [runs] * count, range(count)))
    lines = [
        "# Regressions of sampled populations",
        "",
        f"Made by `benchmarks/regression_coverage.py weighted`: {runs} samples for each of {count} settings drawn at random,",
        "as those of weighted tables: strata, kinds of people with unequal weights, clusters. Share of 95 % intervals that",
        "hold the population's coefficient, over all coefficients and the one that is covered least, beside those of no",
        "weights. No population follows the model exactly, and what it would be fitted to is the truth. Fewer are covered where",
        "so few records stand for so many people that degrees of freedom are few for n, and the model is wrong.",
        "",
        markdown(rows),
    ]
    (RESULTS / "regression_weighted.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def probe() -> object:
    """A hundredth of the work, to see whether the whole would come out the same."""
    global CHECKED
    CHECKED = 1
    settings = [*grid(), *drawn(np.random.default_rng(2))]
    return [once(setting, 8, np.random.default_rng(seed)) for seed, setting in list(enumerate(settings))[::24]]


if __name__ == "__main__" and sys.argv[1:2] == ["weighted"]:
    weighted(*map(int, sys.argv[2:]))
elif __name__ == "__main__":
    main(*(int(sys.argv[k]) if len(sys.argv) > k else default for k, default in ((1, RUNS), (2, 1))))
