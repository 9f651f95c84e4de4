"""Regressions: coverage of 95 % intervals, levels of tests, and printed standard errors relative to the least attainable ones.

Takes twenty minutes. A grid of linear models of one population, ε_i and n, and a hundred settings drawn at random: families,
number, sizes and kinds of predictors, two to four of them, their joint law, ε_i in 1..4 for each attribute, which of them are
randomized, the mechanism, n, interactions. In half of those drawn some category is one that less than 2 % of the people have.

The truth is the regression of the population: the equations solved at the exact law of the reports. There is a row for each
parameter, and one for each term of several columns, which has a test and no interval; thresholds of ordered outcomes have an
interval and no test. An interval holds the truth where the test of the truth does not reject, or where the search for its end
stops before it; of the first CHECKED data sets the printed interval is compared with that. "none" is the share of data sets
without an interval: no solution, or other predictors that are not distinguishable from noise; "covered" counts the
others, and "endless" is the share, among those compared, with an infinite end. "attainable" is the least standard error
that any regular estimate can have (:func:`attainable`), and "printed" the median of those that are printed.

The test of the truth is made as that of 0 is, of all data sets, whether or not they have estimates. "no test" is the share in
which the hypothesis has no solution; "rejected" is of the others.

With 1,500 data sets the level of one row has a standard error of 0.56 % at 5 %; that of a setting is of all its rows together.
Writes results/regression_coverage.csv and .md.
"""

from dataclasses import dataclass
from math import isinf

import numpy as np
from scipy.stats import chi2, norm
from writing import markdown, measure_all, three_decimals, write

from optrr import Attribute, Constraints, Domain, Mechanism, design
from optrr.analysis.equations import Equations, covariance, estimated, limits, test
from optrr.analysis.regression.building import DistinctReports, every_combination
from optrr.analysis.regression.fitting import columns_of, equations, model
from optrr.analysis.regression.formulas import Fit, Formula
from optrr.analysis.regression.likelihood import Levels
from optrr.core.mechanisms.kernel import ProductKernel, unrandomized

SEED = 33
RUNS, CHECKED, TOGETHER = 1500, 4, 100
# Shares of people in the rarest category of any attribute, where there is a rare one and where there is none.
LEAST_RARE, RARE, COMMON, MOST_CELLS = 0.002, 0.02, 0.05, 200
# What the standard error of a coefficient is worth knowing for: this share of a unit of log-odds.
TELLING, LEAST_WORTH = 0.3, 0.9
LEVELS = (0.05, 0.001)
# An interval is too wide that is so much wider than attainable and covers more than that.
WIDE, TOO_SURE = 1.3, 0.985


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
        return design(chosen, list(self.epsilon), constraints=Constraints(preserve="pairs")).mechanism

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

    def rarest(self) -> float:
        """Share of people in the rarest category, of any attribute."""
        axes = range(self.population.ndim)
        return float(min(self.population.sum(axis=tuple(a for a in axes if a != k)).min() for k in axes))


def attribute(name: str, size: int, numeric: bool, ordered: bool = True) -> Attribute:
    if numeric:
        return Attribute(name, tuple(range(size)))
    return Attribute(name, tuple(f"{name}{k}" for k in range(size)), ordered=ordered)


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
    levels = Levels.of((cut + score.reshape(-1, 1))[None, None])
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
    """Linear models, all predictors randomized or public, ε_i and n, over a population drawn once."""
    out = []
    rng = np.random.default_rng(7)
    domain = Domain((attribute("sex", 2, False), attribute("age", 4, True), attribute("y", 4, True)))
    table = population(
        dependent((2, 4), rng), 4, [np.array([0.0, 0.6]), np.zeros(4)], np.zeros(0), rng.gamma(4.0, size=(2, 4, 4))
    )
    for randomized, said in ((("sex", "age", "y"), "all"), (("y",), "outcome")):
        for epsilon in (1.0, 2.0, 4.0):
            for n in (1000, 10_000):
                kind = "pairs kept" if len(randomized) > 1 else "kronecker"
                each = (epsilon,) * len(randomized)
                name, formula = f"{said} randomized", "y ~ sex + age"
                out.append(Setting(name, kind, formula, "linear", domain, randomized, each, table, n))
    return out


FAMILIES = ("linear", "logistic", "ordered", "multinomial", "logistic")


def drawn(rng: np.random.Generator, count: int = 100) -> list[Setting]:
    """Families by turns, and every second setting with a category that fewer than RARE of the people have."""
    return [one_drawn(rng, FAMILIES[k % len(FAMILIES)], rare=bool(k // len(FAMILIES) % 2)) for k in range(count)]


def one_drawn(rng: np.random.Generator, family: str, rare: bool) -> Setting:
    """Two to four predictors, of up to MOST_CELLS cells with the outcome."""
    while True:
        made = _one_drawn(rng, family)
        rarest = made.rarest()
        if made.population.size <= MOST_CELLS and (LEAST_RARE < rarest < RARE if rare else rarest > COMMON):
            return made


def _one_drawn(rng: np.random.Generator, family: str) -> Setting:
    k = int(rng.integers(2, 5))
    r = {"linear": int(rng.integers(2, 6)), "logistic": 2}.get(family, int(rng.integers(3, 5)))
    predictors = [attribute(f"x{i}", int(rng.integers(2, 5)), bool(rng.integers(0, 2))) for i in range(k)]
    sizes = tuple(a.size for a in predictors)
    # the first has no effect beside the others
    effects = [np.zeros(sizes[0]), *(effect(rng, a) for a in predictors[1:])]
    cut = (
        np.zeros(0)
        if family in ("linear", "multinomial")
        else np.sort(rng.uniform(-1.2, 1.2, r - 1))[::-1] - np.linspace(0, 0.8, r - 1)
    )
    noise = np.exp(rng.normal(0, 0.7, r)) if family == "multinomial" else rng.gamma(4.0, size=(*sizes, r))
    table = population(dependent(sizes, rng), r, effects, cut, noise)
    names = [a.name for a in predictors]
    hidden = [name for name in names if rng.uniform() < 0.7]
    together = " + x0:x1" if family == "linear" and rng.uniform() < 0.3 else ""
    chosen = (*hidden, "y")
    outcome = attribute("y", r, family == "linear", ordered=family != "multinomial")
    return Setting(
        "random",
        "pairs kept" if hidden and not together and rng.uniform() < 0.5 else "kronecker",
        f"y ~ {' + '.join(names)}{together}",
        family,
        Domain((*predictors, outcome)),
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


def tested(fit: Fit) -> dict[str, tuple[int, ...]]:
    """What is tested, by name: every parameter, and every term of several columns."""
    places = {label: (k,) for k, label in enumerate(fit.labels)}
    terms = {f"{term.name} (term)": columns_of(fit, term) for term in fit.predictors.terms}
    return places | {name: which for name, which in terms.items() if len(which) > 1}


def measured(setting: Setting, place: int) -> list[dict[str, object]]:
    """A row for every parameter, from so many data sets."""
    rng = np.random.default_rng([SEED, place])
    reports, chances = setting.reports()
    fit = fit_of(setting, reports)
    # of so many records that what keeps laws of few records off 0 does not count
    truth = estimated(with_numbers(fit, reports, chances[None] * 1e12)).theta
    hypotheses = tested(fit)
    made, endless, differ = Made.empty(RUNS, len(hypotheses)), np.zeros(truth.size), np.zeros(truth.size)
    for start in range(0, RUNS, TOGETHER):
        numbers = rng.multinomial(setting.n, chances, size=min(TOGETHER, RUNS - start)).astype(float)
        data = with_numbers(fit, reports, numbers)
        rows = slice(start, start + len(numbers))
        made.fill(rows, data, hypotheses, truth[0])
        if not start:
            first = [with_numbers(fit, reports, each[None]) for each in numbers[:CHECKED]]
            endless, differ = compared(first, truth[0], made.statistic)
    least, printed = attainable(setting, fit, truth[0]), np.nanmedian(made.error[:, : truth.size], axis=0)
    described = {"setting": place, "predictors": setting.name, "mechanism": setting.kind, "family": setting.family}
    described |= {"model": setting.formula, "sizes": "×".join(map(str, map(int, setting.domain.sizes)))}
    described |= {"randomized": ",".join(setting.randomized), "ε": " ".join(map(str, setting.epsilon))}
    described |= {"n": setting.n, "runs": RUNS, "rarest": setting.rarest()}
    of_parameters = [
        {"truth": float(truth[0, k]), "attainable": float(least[k]), "printed": float(printed[k])}
        | {"endless": float(endless[k]) / CHECKED, "differ": int(differ[k])}
        for k in range(truth.size)
    ]
    none = {"truth": np.nan, "attainable": np.nan, "printed": np.nan, "endless": np.nan, "differ": 0}
    of_terms = [none] * (len(hypotheses) - truth.size)
    return [
        described
        | {"parameter": name, "df": len(which)}
        | known
        | coverage(made.statistic[:, k], made.interval[:, k], len(which))
        | levels(made.statistic[:, k], len(which), tests=min(which) >= fit.thresholds)
        for k, ((name, which), known) in enumerate(zip(hypotheses.items(), of_parameters + of_terms, strict=True))
    ]


@dataclass(frozen=True, eq=False)
class Made:
    """What is made of data sets, (runs, hypotheses) each.

    The statistic of the truth, NaN without a solution; whether there is an interval; and the printed standard error.
    """

    statistic: np.ndarray
    interval: np.ndarray
    error: np.ndarray

    @staticmethod
    def empty(runs: int, hypotheses: int) -> "Made":
        """Before there is any data set."""
        nothing, no = np.full((runs, hypotheses), np.nan), np.zeros((runs, hypotheses), dtype=bool)
        return Made(nothing, no, nothing.copy())

    def fill(self, rows: slice, data: Equations, hypotheses: dict[str, tuple[int, ...]], truth: np.ndarray) -> None:
        """From some of the data sets."""
        solved = estimated(data)
        near = np.where(solved.converged[:, None], solved.theta, data.start())
        variances = np.diagonal(covariance(data, near), axis1=1, axis2=2)
        self.error[rows, : data.parameters] = np.where(solved.converged[:, None], np.sqrt(variances), np.nan)
        for k, which in enumerate(hypotheses.values()):
            self.statistic[rows, k] = test(data, which, truth[list(which)], near).statistic
            if k < data.parameters:
                others = np.array([i for i in range(data.parameters) if i != k], dtype=np.int64)
                self.interval[rows, k] = solved.converged & data.clear(near, others)


def attainable(setting: Setting, fit: Fit, theta: np.ndarray) -> np.ndarray:
    """The least standard errors (p,) of any regular estimate at the truth, with the predictors' law free: Cramér and Rao.

    By dense matrices and differences, and nothing of what is measured. The law of the randomized predictors within each group
    of people alike in the public ones is a parameter for every cell. Of a linear model that is the law of everything, and a
    coefficient's influence is its derivative by the population's table.
    """
    domain, table = setting.domain, setting.population
    order = [
        *(k for k, a in enumerate(domain) if a.name not in setting.randomized),
        *domain.indices(setting.randomized),
    ]
    public = int(np.prod([domain.sizes[k] for k in order[: domain.m - len(setting.randomized)]], dtype=int))
    r = int(domain.sizes[-1])
    kernel = setting.mechanism().kernel(setting.randomized)
    cells = int(np.prod(kernel.sizes))
    p = np.stack([kernel.expected(one.reshape(kernel.sizes)).ravel() for one in np.eye(cells)])
    codes = np.indices(table.shape).reshape(domain.m, -1).T
    x = fit.predictors.at(codes[:, domain.indices(fit.predictors.domain.names)])
    population = np.transpose(table, order).reshape(public, -1)
    moved = np.transpose(np.arange(table.size).reshape(table.shape), order).reshape(-1)
    x, scores = x[moved], codes[moved, -1].astype(float)
    if fit.scores is not None:
        return linear_errors(x, scores, population, p) / np.sqrt(setting.n)
    law = population.reshape(public, -1, r).sum(axis=2)
    at = x.reshape(public, law.shape[1], r, -1)[:, :, 0]

    def chances(parameters: np.ndarray) -> np.ndarray:
        return outcome_chances(parameters, at, r, setting.family)

    step = 1e-5
    by = np.stack([(chances(theta + e) - chances(theta - e)) / (2 * step) for e in np.eye(theta.size) * step])
    channel = p.reshape(law.shape[1], r, -1)
    own = np.einsum("gxc,xcv->gxv", chances(theta), channel)
    score = np.einsum("gx,pgxc,xcv->gpv", law, by, channel)
    expected = np.einsum("gx,gxv->gv", law, own)
    information = np.zeros((theta.size, theta.size))
    for k, of_law, lam in zip(own, score, expected, strict=True):
        within, cross = (k / lam) @ k.T, (of_law / lam) @ k.T
        information += (of_law / lam) @ of_law.T - cross @ np.linalg.pinv(within, hermitian=True) @ cross.T
    return np.asarray(np.sqrt(np.diag(np.linalg.inv(information)) / setting.n))


def outcome_chances(theta: np.ndarray, x: np.ndarray, r: int, family: str) -> np.ndarray:
    """Of every outcome at the columns x (…, p), the constant first: proportional odds, or the multinomial logit."""
    if family == "multinomial":
        weights = np.exp(np.concatenate([np.zeros((*x.shape[:-1], 1)), x @ theta.reshape(r - 1, -1).T], axis=-1))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
    above = 1 / (1 + np.exp(-(theta[: r - 1] + (x[..., 1:] @ theta[r - 1 :])[..., None])))
    ends = np.ones((*above.shape[:-1], 1))
    return -np.diff(np.concatenate([ends, above, 0 * ends], axis=-1), axis=-1)


def linear_errors(x: np.ndarray, y: np.ndarray, population: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Of least squares from reports, times √n: the influence of the true cells, carried to reports with the least variance."""
    weights = population.ravel()
    inverse = np.linalg.inv((x.T * weights) @ x)
    beta = inverse @ (x.T * weights) @ y
    influence = ((y - x @ beta)[:, None] * x) @ inverse
    variance = np.zeros(beta.size)
    for shares, of in zip(population @ p, influence.reshape(len(population), len(p), -1), strict=True):
        variance += np.einsum("xk,xz,zk->k", of, np.linalg.pinv((p / shares) @ p.T, hermitian=True), of)
    return np.asarray(np.sqrt(variance))


def coverage(statistic: np.ndarray, printed: np.ndarray, df: int) -> dict[str, object]:
    """Of the intervals that are printed; terms of several columns have none."""
    if df > 1:
        return {"none": np.nan, "covered": np.nan}
    # where the hypothesis has no solution the search for an end stops, and the interval has none
    outside = np.nan_to_num(statistic[printed]) > chi2.isf(LEVELS[0], 1)
    return {"none": 1 - float(printed.mean()), "covered": 1 - float(outside.mean()) if printed.any() else np.nan}


def levels(statistic: np.ndarray, df: int, tests: bool) -> dict[str, object]:
    """Of the p-values that are printed."""
    solved = ~np.isnan(statistic)
    shares = {f"rejected at {level}": rejected(statistic[solved], level, df) for level in LEVELS}
    if not tests:
        return {"no test": np.nan} | dict.fromkeys(shares, np.nan)
    return {"no test": 1 - float(solved.mean())} | shares


def rejected(statistic: np.ndarray, level: float, df: int) -> float:
    return float(np.mean(statistic > chi2.isf(level, df))) if statistic.size else np.nan


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
            low, high = limits(each, k, solved.theta[0], float(errors[k]), bound)
            infinite = isinf(low) or isinf(high)
            slack = 1e-4 * errors[k]
            held = low - slack <= truth[k] <= high + slack
            endless[k] += infinite
            differ[k] += held == (np.nan_to_num(statistic[row, k]) > bound**2) and not infinite
    return endless, differ


def page(rows: list[dict[str, object]]) -> str:
    """In words, by family and rarest category, and the whole table."""
    parameters = [r for r in rows if r["df"] == 1]
    cover, none, differ = (column(parameters, name) for name in ("covered", "none", "differ"))
    least, printed = column(parameters, "attainable"), column(parameters, "printed")
    telling = least < TELLING
    worth = least[telling] / printed[telling]
    wide = (printed > WIDE * least) & (cover > TOO_SURE)
    by = {k: [r for r in rows if r["setting"] == k] for k in dict.fromkeys(r["setting"] for r in rows)}
    usual, far = (np.array([together(of, level) for of in by.values()]) for level in LEVELS)
    lines = [
        "# Regressions: coverage, levels, and what the printed errors are worth",
        f"Made by `benchmarks/regression_coverage.py`: {RUNS} data sets for each of {len(by)} settings, "
        f"{len(parameters)} "
        f"parameters and {len(rows) - len(parameters)} terms of several columns; "
        f"{sum(of[0]['rarest'] < RARE for of in by.values())} settings have a category below {RARE:.0%}.",
        f"Printed p-values of the truth reject {np.nanmean(usual):.2%} at 5 % and {np.nanmean(far):.3%} at 0.1 % on "
        "average; "
        f"by setting {np.nanmin(usual):.2%}–{np.nanmax(usual):.2%} at 5 % "
        f"({np.sum((usual >= 0.04) & (usual <= 0.06))} of "
        f"{np.sum(~np.isnan(usual))} within 4–6 %), where chance alone moves a row by "
        f"{np.sqrt(0.05 * 0.95 / RUNS):.2%}.",
        f"Coverage where an interval is printed: {mean(cover, 1 - none):.2%} on average, least "
        f"{np.nanmin(cover):.2%}, most "
        f"{np.nanmax(cover):.2%}. No interval is printed for {none.mean():.2%} of data sets, at most {none.max():.1%} "
        "for one "
        f"parameter. {int(differ.sum())} of {len(parameters) * CHECKED} printed intervals disagree with the test. "
        f"{int(wide.sum())} parameters have intervals that are {WIDE:g} times wider than attainable and cover more "
        "than "
        f"{TOO_SURE:.1%}.",
        f"Of {telling.sum()} parameters that can be known to ± {TELLING:g}, the attainable error is "
        f"{np.median(worth):.3f} of "
        f"the printed one at the median, and {worth.min():.3f} at the least ({np.sum(worth < LEAST_WORTH)} below "
        f"{LEAST_WORTH:g}); its square, the relative efficiency, is {np.median(worth) ** 2:.3f} and "
        f"{worth.min() ** 2:.3f}.",
        "| family | rarest category | settings | parameters | covered | least | rejects at 0.05 | at 0.001 | no "
        "interval | "
        "endless | attainable/printed | least |\n|" + "---|" * 12 + "\n" + "\n".join(grouped(rows)),
        markdown(rows, three_decimals),
    ]
    return "\n\n".join(lines)


def column(rows: list[dict[str, object]], name: str) -> np.ndarray:
    return np.array([r.get(name, np.nan) for r in rows])


def together(rows: list[dict[str, object]], level: float) -> float:
    """How often the p-values that are printed reject, over rows."""
    return mean(column(rows, f"rejected at {level}"), 1 - column(rows, "no test"))


def grouped(rows: list[dict[str, object]]) -> list[str]:
    """A line by family and kind of setting."""
    out = []
    for family in dict.fromkeys(FAMILIES):
        for rare in (False, True):
            tests = [r for r in rows if r["family"] == family and (r["rarest"] < RARE) == rare]
            of = [r for r in tests if r["df"] == 1]
            none, cover, least = column(of, "none"), column(of, "covered"), column(of, "attainable")
            worth = (least / column(of, "printed"))[least < TELLING]
            cells = [family, f"below {RARE:.0%}" if rare else "larger"]
            cells += [str(len({r["setting"] for r in of})), str(len(of)), f"{mean(cover, 1 - none):.4f}"]
            cells += [f"{np.nanmin(cover):.4f}", *(f"{together(tests, level):.5f}" for level in LEVELS)]
            cells += [f"{each:.4f}" for each in (none.mean(), column(of, "endless").mean())]
            cells += [f"{each:.4f}" for each in (np.median(worth), worth.min())]
            out.append(f"| {' | '.join(cells)} |")
    return out


def mean(values: np.ndarray, weights: np.ndarray) -> float:
    """Of the values that are numbers."""
    seen = ~np.isnan(values) & ~np.isnan(weights)
    return float(np.average(values[seen], weights=weights[seen])) if weights[seen].sum() > 0 else np.nan


def main() -> None:
    settings = [*grid(), *drawn(np.random.default_rng(2))]
    rows = measure_all(measured, settings, range(len(settings)))
    write("regression_coverage", rows, page(rows))


if __name__ == "__main__":
    main()
