"""Coverage of the 95 % intervals of regressions and the level of their tests, with randomized and with public predictors.

Run as ``python benchmarks/regression_coverage.py [RUNS] [JOBS]`` (20,000 data sets a setting and one process unless told; some
twenty minutes of one core). Half of the settings are a grid of families, ε_i and n over one population each; the other half are
drawn at random: number, sizes and kinds of predictors, their joint law, ε_i in 1..4 for each attribute, the mechanism, n,
interactions.

The truth is the regression of the population: the equations solved at the exact law of the reports. There is a row for each
parameter, and one for each term of several columns, which has a test and no interval. An interval holds the truth where the
test of the truth does not reject, or where the search for its end stops before it; of the first CHECKED data sets the printed
interval is compared with that. "none" is the share of data sets without an interval (of terms: without a regression): no
solution, or other predictors that cannot be told from noise; all that follows counts the others. "rejected" is of the tests
that were made, and "no test" the share in which the hypothesis has no solution. "endless" is the share, among those compared,
with an infinite end. "flagged" is the share of results that state the level that was measured, instead of the nominal one,
because the curvature is hardly clear of 0; those that state it because an interval has no end are not counted.

A level is within where the tests reject 4–6 % at 5 % and 0.05–0.2 % at 0.1 %, stated where it is outside and at least half of
the results state it. With 20,000 data sets a level has standard errors of 0.15 % and 0.022 %; a setting with a row that is not
within is measured again, with MORE_RUNS new data sets, and only these count then. Writes results/regression_coverage.csv and
.md.
"""

from __future__ import annotations

import csv
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import isinf
from pathlib import Path

import numpy as np
from derived_coverage import markdown
from scipy.stats import chi2, norm

from optrr import Attribute, Domain, Mechanism, design
from optrr.kernel import ProductKernel, unrandomized
from optrr.regression.equations import Equations
from optrr.regression.fitting import equations, model
from optrr.regression.formulas import Formula
from optrr.regression.inferring import LEAST_CLEARANCE, Tried, clearance_of_all, columns_of, interval
from optrr.regression.levels import Levels
from optrr.regression.reports import Reports, every_combination
from optrr.regression.result import Fit
from optrr.regression.solving import clear, covariance, solve, test

RESULTS = Path(__file__).parent / "results"
RUNS, MORE_RUNS, CHECKED, TOGETHER = 20_000, 60_000, 4, 250
LEVELS = (0.05, 0.001)
LEAST = 0.93
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

    def reports(self) -> tuple[Reports, np.ndarray]:
        """Every possible report, with its exact chance."""
        mechanism = self.mechanism()
        public = tuple(n for n in self.domain.names if n not in self.randomized)
        kernel = mechanism.kernel(self.randomized)
        if public:
            kernel = ProductKernel([unrandomized([self.domain[n].size for n in public], public), kernel])
        order = self.domain.indices((*public, *self.randomized))
        chances = np.transpose(kernel.expected(np.transpose(self.population, order)), np.argsort(order))
        codes = every_combination(np.zeros((1, 0), dtype=np.int64), tuple(map(int, self.domain.sizes)))
        return Reports(self.domain, codes, chances.reshape(1, -1), mechanism), chances.ravel()


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


def fit_of(setting: Setting, reports: Reports) -> Fit:
    return model(Formula.of(setting.formula), reports, "linear" if setting.family == "linear" else "logistic", {})


def with_numbers(fit: Fit, reports: Reports, numbers: np.ndarray) -> Equations:
    """The equations of data sets that hold each possible report so many times."""
    return equations(fit, Reports(reports.domain, reports.codes, numbers, reports.mechanism))


def measured(setting: Setting, runs: int, seed: int) -> list[dict[str, object]]:
    """A row for every parameter."""
    rows = once(setting, runs, np.random.default_rng(seed))
    if any(row["level"] in ("stated", "outside") for row in rows):
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
    exact = with_numbers(fit, reports, chances[None] * setting.n)
    truth = solve(exact, exact.start()).theta
    hypotheses = tested(fit)
    statistic, endless, differ = np.full((runs, len(hypotheses)), np.nan), np.zeros(truth.size), np.zeros(truth.size)
    printed, flagged = np.zeros(statistic.shape, dtype=bool), np.zeros(runs, dtype=bool)
    for start in range(0, runs, TOGETHER):
        numbers = rng.multinomial(setting.n, chances, size=min(TOGETHER, runs - start)).astype(float)
        data = with_numbers(fit, reports, numbers)
        rows, near = slice(start, start + len(numbers)), np.repeat(truth, len(numbers), axis=0)
        printed[rows], flagged[rows] = are_printed(data, len(hypotheses))
        for k, which in enumerate(hypotheses.values()):
            statistic[rows, k] = test(data, which, truth[0, list(which)], near).statistic
        if not start:
            endless, differ = compared(with_each(fit, reports, numbers[:CHECKED]), truth[0], statistic)
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
        | {"none": 1 - float(printed[:, k].mean())}
        | shares(statistic[printed[:, k], k], flagged[printed[:, k]], len(which))
        for k, ((name, which), known) in enumerate(zip(hypotheses.items(), of_parameters + of_terms, strict=True))
    ]


def are_printed(data: Equations, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Where each parameter has an interval, and terms (up to ``count``) a test, (B, count); where the level is stated, (B,)."""
    solved = solve(data, data.start())
    theta = np.where(solved.converged[:, None], solved.theta, data.start())
    printed = np.repeat(solved.converged[:, None], count, axis=1)
    for k in range(data.parameters):
        printed[:, k] &= clear(data, theta, np.array([i for i in range(data.parameters) if i != k], dtype=np.int64))
    return printed, clearance_of_all(data, theta) < LEAST_CLEARANCE


def shares(statistic: np.ndarray, flagged: np.ndarray, df: int) -> dict[str, object]:
    """Coverage, levels and their verdict, of data sets with an interval or a result."""
    made = statistic[~np.isnan(statistic)]
    if not made.size:
        names = ("covered", "rejected at 0.05", "rejected at 0.001", "no test", "flagged")
        return dict.fromkeys(names, np.nan) | {"level": "refused"}
    usual, far = (float(np.mean(made > chi2.isf(level, df))) for level in LEVELS)
    inside = all(low <= share <= high for share, (low, high) in zip((usual, far), WITHIN, strict=True))
    told = float(flagged.mean())
    return {
        # where the hypothesis has no solution the search for an end stops, and the interval has none
        "covered": 1 - float(np.mean(np.nan_to_num(statistic) > chi2.isf(LEVELS[0], 1))) if df == 1 else np.nan,
        "rejected at 0.05": usual,
        "rejected at 0.001": far,
        "no test": 1 - made.size / statistic.size,
        "flagged": told,
        "level": "within" if inside else "stated" if told >= 1 / 2 else "outside",
    }


def with_each(fit: Fit, reports: Reports, numbers: np.ndarray) -> list[Equations]:
    return [with_numbers(fit, reports, each[None]) for each in numbers]


def compared(data: list[Equations], truth: np.ndarray, statistic: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many printed intervals have an infinite end, and how many disagree with the test of the truth."""
    endless, differ = np.zeros(truth.size), np.zeros(truth.size)
    bound = float(norm.isf(LEVELS[0] / 2))
    for row, each in enumerate(data):
        solved = solve(each, each.start())
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
    mean = float(np.average(cover[seen], weights=1 - none[seen]))
    judged = {word: sum(r["level"] == word for r in rows) for word in ("within", "stated", "outside", "refused")}
    needless = column([r for r in rows if r["level"] == "within"], "flagged")
    lines = [
        "# Coverage of the 95 % intervals of regressions, and the level of their tests",
        f"Made by `benchmarks/regression_coverage.py`: {runs} data sets for each of {settings} settings, {len(parameters)} "
        f"parameters and {len(rows) - len(parameters)} terms of several columns; half of the settings drawn at random. "
        f"{MORE_RUNS} new ones for the {again} settings with a row that was not within at first.",
        f"Tests of the truth, of those made: {judged['within']} of {len(rows)} rows within 4–6 % at 5 % and 0.05–0.2 % at "
        f"0.1 %, {judged['stated']} outside and stated, {judged['outside']} outside and not stated, {judged['refused']} "
        f"without any test. {levels_said(rows, 'within')} {levels_said(rows, 'stated')} Results state a level in "
        f"{needless.mean():.2%} of the data sets of rows that are within, in more than half of them in "
        f"{np.sum(needless > 1 / 2)} rows.",
        f"Coverage where an interval is printed: {mean:.2%} on average, least {cover[seen].min():.2%}, most "
        f"{cover[seen].max():.2%}; below {LEAST:.0%} for {np.sum(cover[seen] < LEAST)} of {seen.sum()} parameters. No interval "
        f"is printed for {none.mean():.2%} of data sets, at most {none.max():.1%} for one parameter. {int(differ.sum())} of "
        f"{len(parameters) * CHECKED} printed intervals disagree with the test.",
        "| family | n | parameters | covered | least | rejects at 0.05 | at 0.001 | no interval | endless | flagged |\n"
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


def group(rows: list[dict[str, object]]) -> list[str]:
    out = []
    for family in ("linear", "logistic", "ordered"):
        for n in sorted({int(str(r["n"])) for r in rows if r["family"] == family}):
            of = [r for r in rows if r["family"] == family and r["n"] == n and r["level"] != "refused"]
            if not of:
                continue
            none, cover = column(of, "none"), column(of, "covered")
            names = ("covered", "rejected at 0.05", "rejected at 0.001", "flagged")
            mean = {name: np.average(column(of, name), weights=1 - none) for name in names}
            cells = [
                family,
                n,
                len(of),
                f"{mean['covered']:.4f}",
                f"{cover.min():.4f}",
                f"{mean['rejected at 0.05']:.4f}",
            ]
            cells += [f"{mean['rejected at 0.001']:.5f}", f"{none.mean():.4f}", f"{column(of, 'endless').mean():.3f}"]
            out.append(f"| {' | '.join(map(str, [*cells, format(mean['flagged'], '.3f')]))} |")
    return out


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


if __name__ == "__main__":
    main(*(int(sys.argv[k]) if len(sys.argv) > k else default for k, default in ((1, RUNS), (2, 1))))
