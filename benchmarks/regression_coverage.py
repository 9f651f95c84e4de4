"""Coverage of the 95 % intervals of regressions and the level of their tests, with randomized and with public predictors.

Run as ``python benchmarks/regression_coverage.py [RUNS] [JOBS]`` (2000 data sets a setting and one process unless told; some
ten minutes of one core). Half of the settings are a grid of families, ε_i and n over one population each; the other half are
drawn at random: number, sizes and kinds of predictors, their joint law, ε_i in 1..4 for each attribute, the mechanism, n,
interactions.

The truth is the regression of the population: the equations solved at the exact law of the reports. An interval holds the truth
where the test of the truth does not reject, or where the search for its end stops before it; of the first CHECKED data sets the
printed interval is compared with that. "none" is the share of data sets without an interval: no solution, or other predictors
that cannot be told from noise; what is covered and rejected counts the others. "endless" is the share, among those compared,
with an infinite end. A coverage of 95 % measured by 2000 data sets has standard error 0.5 %, so a setting with a parameter
outside 94–96 % or rejected at 0.001 in more than 0.2 % is measured again, with MORE_RUNS new data sets. Writes
results/regression_coverage.csv and .md.
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
from optrr.regression.inferring import Tried, interval
from optrr.regression.levels import Levels
from optrr.regression.reports import Reports, every_combination
from optrr.regression.result import Fit
from optrr.regression.solving import clear, covariance, solve, test

RESULTS = Path(__file__).parent / "results"
RUNS, MORE_RUNS, CHECKED, TOGETHER = 2000, 20_000, 4, 250
LEVELS = (0.05, 0.001)
LEAST = 0.93
# A setting with a parameter outside is measured again.
USUAL, TAIL = (0.94, 0.96), 0.002


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
    return once(setting, MORE_RUNS, np.random.default_rng([seed, 1])) if any(map(outside, rows)) else rows


def outside(row: dict[str, object]) -> bool:
    """Whether too few or too many data sets agree with the truth for so many runs to be sure."""
    cover, tail = float(str(row["covered"])), float(str(row["rejected at 0.001"]))
    return not np.isnan(cover) and not (USUAL[0] <= cover <= USUAL[1] and tail <= TAIL)


def once(setting: Setting, runs: int, rng: np.random.Generator) -> list[dict[str, object]]:
    """A row for every parameter, from so many data sets."""
    reports, chances = setting.reports()
    fit = fit_of(setting, reports)
    exact = with_numbers(fit, reports, chances[None] * setting.n)
    truth = solve(exact, exact.start()).theta
    statistic, endless, differ = np.full((runs, truth.shape[1]), np.nan), np.zeros(truth.size), np.zeros(truth.size)
    printed = np.zeros(statistic.shape, dtype=bool)
    for start in range(0, runs, TOGETHER):
        numbers = rng.multinomial(setting.n, chances, size=min(TOGETHER, runs - start)).astype(float)
        data = with_numbers(fit, reports, numbers)
        rows, near = slice(start, start + len(numbers)), np.repeat(truth, len(numbers), axis=0)
        printed[rows] = have_intervals(data)
        for k in range(truth.size):
            # where the hypothesis has no solution the search for an end stops, and the interval has none
            statistic[rows, k] = np.nan_to_num(test(data, (k,), truth[0, k : k + 1], near).statistic)
        if not start:
            endless, differ = compared(with_each(fit, reports, numbers[:CHECKED]), truth[0], statistic)
    described = {
        **{"predictors": setting.name, "mechanism": setting.kind, "family": setting.family, "model": setting.formula},
        **{"sizes": "×".join(map(str, map(int, setting.domain.sizes))), "randomized": ",".join(setting.randomized)},
        **{"ε": " ".join(map(str, setting.epsilon)), "n": setting.n, "runs": runs},
    }
    return [
        described
        | {"parameter": label, "truth": float(truth[0, k])}
        | rejections(statistic[printed[:, k], k])
        | {"none": 1 - float(printed[:, k].mean()), "endless": float(endless[k]) / CHECKED, "differ": int(differ[k])}
        for k, label in enumerate(fit.labels)
    ]


def have_intervals(data: Equations) -> np.ndarray:
    """Where an interval of each parameter is printed, (B, p)."""
    solved = solve(data, data.start())
    theta = np.where(solved.converged[:, None], solved.theta, data.start())
    others = [np.array([i for i in range(data.parameters) if i != k], dtype=np.int64) for k in range(data.parameters)]
    return np.stack([solved.converged & clear(data, theta, each) for each in others], axis=1)


def rejections(statistic: np.ndarray) -> dict[str, object]:
    shares = [float(np.mean(statistic > chi2.isf(level, 1))) if statistic.size else np.nan for level in LEVELS]
    return {"covered": 1 - shares[0], "rejected at 0.001": shares[1]}


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
            differ[k] += held == (statistic[row, k] > bound**2) and not infinite
    return endless, differ


def page(rows: list[dict[str, object]], runs: int) -> str:
    names = ("covered", "rejected at 0.001", "none", "differ")
    columns = {name: np.array([float(str(r[name])) for r in rows]) for name in names}
    described = ("family", "model", "sizes", "randomized", "ε", "n", "mechanism")
    settings = len({tuple(str(r[k]) for k in described) for r in rows})
    again = len({tuple(str(r[k]) for k in described) for r in rows if r["runs"] == MORE_RUNS})
    seen = ~np.isnan(columns["covered"])
    cover, tail, none = columns["covered"][seen], columns["rejected at 0.001"][seen], columns["none"]
    weights = 1 - none[seen]
    mean = float(np.average(cover, weights=weights))
    lines = [
        "# Coverage of the 95 % intervals of regressions",
        f"Made by `benchmarks/regression_coverage.py`: {runs} data sets for each of {settings} settings, {len(rows)} "
        f"parameters; half of the settings drawn at random. {MORE_RUNS} new ones for the {again} settings with a parameter "
        f"that was outside {USUAL[0]:.0%}–{USUAL[1]:.0%}, or rejected at 0.001 in more than {TAIL:.1%}, at first.",
        f"Coverage where an interval is printed: {mean:.2%} on average, least {cover.min():.2%}, most {cover.max():.2%}; below "
        f"93 % for {np.sum(cover < LEAST)} of {seen.sum()} parameters. Tests of the truth at 0.05 reject {1 - mean:.4f} on "
        f"average, at 0.001 {np.average(tail, weights=weights):.5f}, most {tail.max():.4f} for one parameter. No interval is "
        f"printed for {none.mean():.2%} of data sets, at most {none.max():.1%} for one parameter. "
        f"{int(columns['differ'].sum())} of {len(rows) * CHECKED} printed intervals disagree with the test.",
        "| family | n | parameters | covered | least | rejects at 0.05 | at 0.001 | no interval | endless |\n"
        "|---|---|---|---|---|---|---|---|---|\n" + "\n".join(group(rows)),
        markdown(rows),
    ]
    return "\n\n".join(lines) + "\n"


def group(rows: list[dict[str, object]]) -> list[str]:
    out = []
    for family in ("linear", "logistic", "ordered"):
        for n in sorted({int(str(r["n"])) for r in rows if r["family"] == family}):
            of = [r for r in rows if r["family"] == family and r["n"] == n and float(str(r["none"])) < 1]
            if not of:
                continue
            values = {
                k: np.array([float(str(r[k])) for r in of]) for k in ("covered", "rejected at 0.001", "none", "endless")
            }
            weight = 1 - values["none"]
            mean = {k: np.average(v, weights=weight) for k, v in values.items()}
            shares = (mean["covered"], values["covered"].min(), 1 - mean["covered"])
            cells = [family, n, len(of), *(f"{v:.4f}" for v in shares), f"{mean['rejected at 0.001']:.5f}"]
            cells += [f"{values['none'].mean():.4f}", f"{values['endless'].mean():.3f}"]
            out.append(f"| {' | '.join(map(str, cells))} |")
    return out


def main(runs: int, jobs: int) -> None:
    settings = [*grid(), *drawn(np.random.default_rng(2))]
    rows = []
    with ProcessPoolExecutor(jobs) as pool:
        for k, new in enumerate(pool.map(measured, settings, [runs] * len(settings), range(len(settings)))):
            rows += new
            said = (f"{r['covered']:.3f}/{r['rejected at 0.001']:.4f}/{r['none']:.2f}/{r['endless']:.1f}" for r in new)
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
