"""Coverage of 95 % intervals combined from several synthetic data sets, for statistics that are kept and others.

Takes eight minutes; 200 surveys a setting. In each survey people are drawn from a population, randomized, and a log-linear
model fitted to their reports; 20 sets as large as the survey are drawn from laws fitted anew, as ``synthesize(…, sets=20)``
does. Of each set are computed the shares of pairs, the odds ratios of y and every other attribute, and the logistic regression
of y on all others, as they are and with the product of two of them. Two models: all pairs, and all pairs with the table that
the formula keeps.

"combined" is the rule of :func:`optrr.analysis.combine`, from the first 5 and from all 20 sets. "RRR" is that of Raghunathan,
Reiter & Rubin (T = (1 + 1/m) b − v̄, or v̄ where that is not positive; t of (m − 1)(1 − v̄/((1 + 1/m) b))² degrees, at least
1), which is for sets that are random samples, "partial" that of partially synthetic data (T = v̄ + b/m), both from 20 sets;
"one set" takes the first set's records for people. Surveys of which some set has an empty cell that makes a number infinite
have no interval and are not counted; "none" is their share. With 200 surveys the coverage of one number has a standard error of
1.5 %, and a row is the mean of several. Writes results/synthesis.csv and .md.
"""

from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from scipy.stats import norm, t
from writing import markdown, measure_all, three_decimals, write

from optrr import Constraints, Domain, design
from optrr.analysis.loglinear.fitting import Terms, fit
from optrr.analysis.synthesis.combined import combine
from optrr.analysis.synthesis.laws import drawn, every_record, likeliest_again

SEED = 0
RUNS, SETS, FEW = 200, 20, 5
QUANTITIES = ("shares of pairs", "log odds ratios", "logistic, additive", "logistic, product")


@dataclass(frozen=True)
class Setting:
    """Predictors of these sizes, whose last categories have a share of ``rarest``; a product of two of them in y's log odds."""

    epsilon: float
    n: int
    kind: str
    sizes: tuple[int, ...]
    rarest: float = 0.2
    product: float = 0.8

    @property
    def domain(self) -> Domain:
        """Predictors x0, x1, …, and y."""
        return Domain.of({**{f"x{i}": r for i, r in enumerate(self.sizes)}, "y": 2})

    def population(self) -> np.ndarray:
        """A table in which predictors depend on each other in threes, and y on all of them, (*sizes, 2)."""
        rng = np.random.default_rng(prod(self.sizes))
        shares = [np.append(np.full(r - 1, (1 - self.rarest) / (r - 1)), self.rarest) for r in self.sizes]
        table = np.zeros(self.sizes)
        for weight in (0.5, 0.3, 0.2):
            part = np.array(weight)
            for share in shares:
                tilted = share * rng.uniform(0.5, 1.5, share.size)
                part = np.multiply.outer(part, tilted / tilted.sum())
            table += part
        x = every_record(self.sizes)
        effects = rng.uniform(0.3, 0.7, len(self.sizes)) * rng.choice([-1, 1], len(self.sizes))
        level = -0.3 + (x > 0) @ effects + self.product * (x[:, 0] > 0) * (x[:, 1] > 0)
        chance = (1 / (1 + np.exp(-level))).reshape(self.sizes)
        return np.stack([table * (1 - chance), table * chance], axis=-1)


def settings() -> list[Setting]:
    """Grid of ε and n with both kinds, and some with larger tables, a rare category, or no product."""
    both = ("pairs kept", "kronecker")
    out = [Setting(e, 2000, both[k % 2], (2, 3, 2)) for k, e in enumerate((1.0, 2.0, 4.0))]
    out += [Setting(e, 20_000, both[1 - k % 2], (2, 3, 2)) for k, e in enumerate((1.0, 2.0, 4.0))]
    out += [Setting(3.0, 5000, "pairs kept", (2, 3, 2)), Setting(1.5, 10_000, "kronecker", (2, 3, 2))]
    out += [Setting(2.0, 5000, "pairs kept", (2, 2), 0.3), Setting(3.0, 20_000, "kronecker", (3, 3, 3))]
    out += [Setting(e, n, "pairs kept", (2, 3, 2), 0.03) for e, n in ((2.0, 20_000), (4.0, 5000))]
    out += [Setting(1.0, 20_000, "pairs kept", (2, 2), 0.3, 0.0), Setting(4.0, 2000, "kronecker", (2, 3, 2), 0.2, 0.0)]
    return out


def quantities(sizes: tuple[int, ...], tables: np.ndarray, n: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of tables (B, R) of shares of predictors of these sizes and y, with the errors of n people, by name: (B, k) each."""
    shaped = tables.reshape(-1, *sizes, 2)
    shares, ratios, errors = [], [], []
    for pair in combinations(range(len(sizes) + 1), 2):
        table = shaped.sum(axis=tuple(k + 1 for k in range(len(sizes) + 1) if k not in pair))
        shares.append(table.reshape(len(table), -1))
        if pair[1] == len(sizes):
            with np.errstate(divide="ignore", invalid="ignore"):
                logs, inverse = np.log(table[..., 1]) - np.log(table[..., 0]), (1 / (n * table)).sum(axis=2)
                ratios.append(logs[:, 1:] - logs[:, :1])
                errors.append(np.sqrt(inverse[:, 1:] + inverse[:, :1]))
    share = np.concatenate(shares, axis=1)
    x = every_record(sizes)
    dummies = [x[:, i] == c for i, r in enumerate(sizes) for c in range(1, r)]
    columns = np.column_stack([np.ones(len(x)), *dummies]).astype(float)
    both = ((x[:, 0] > 0) & (x[:, 1] > 0)).astype(float)
    return {
        QUANTITIES[0]: (share, np.sqrt(share * (1 - share) / n)),
        QUANTITIES[1]: (np.concatenate(ratios, axis=1), np.concatenate(errors, axis=1)),
        QUANTITIES[2]: _logistic(tables, columns, n, slice(1, None)),
        QUANTITIES[3]: _logistic(tables, np.column_stack([columns, both]), n, slice(-1, None)),
    }


def _logistic(tables: np.ndarray, columns: np.ndarray, n: int, which: slice) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and standard errors, by Newton's method; NaN where it does not end."""
    weights = tables.reshape(len(tables), -1, 2)
    beta = np.zeros((len(tables), columns.shape[1]))
    information, step = np.zeros(0), np.full(beta.shape, np.inf)
    for _ in range(30):
        chance = 1 / (1 + np.exp(-np.clip(beta @ columns.T, -30, 30)))
        total = weights.sum(axis=2)
        score = (weights[..., 1] - total * chance) @ columns
        information = np.einsum("bx,xi,xj->bij", total * chance * (1 - chance), columns, columns)
        step = np.linalg.solve(information + 1e-12 * np.eye(columns.shape[1]), score[..., None])[..., 0]
        beta = beta + np.clip(step, -3, 3)
    bad = (np.abs(step).max(axis=1) > 1e-6) | (np.abs(beta).max(axis=1) > 12)
    errors = np.sqrt(np.diagonal(np.linalg.inv(n * information + 1e-12 * np.eye(columns.shape[1])), axis1=1, axis2=2))
    return tuple(np.where(bad[:, None], np.nan, each)[:, which] for each in (beta, errors))  # type: ignore[return-value]


def intervals(values: np.ndarray, own: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Middles and half widths (k,) by each rule, from estimates and own errors (m, k)."""
    out = {}
    for m in (FEW, SETS):
        rows = combine(values[:m]).rows
        middle = np.array([row.estimate for row in rows])
        out[f"combined, {m}"] = (middle, np.array([row.upper - row.estimate for row in rows]))
    m, b, within = SETS, values.var(axis=0, ddof=1), (own**2).mean(axis=0)
    total = (1 + 1 / m) * b - within
    df = np.maximum((m - 1) * (1 - within / ((1 + 1 / m) * b)) ** 2, 1.0)
    out["RRR, 20"] = (values.mean(axis=0), t.isf(0.025, df) * np.sqrt(np.where(total > 0, total, within)))
    out["partial, 20"] = (values.mean(axis=0), norm.isf(0.025) * np.sqrt(within + b / m))
    out["one set"] = (values[0], norm.isf(0.025) * own[0])
    return out


def measured(setting: Setting, place: int) -> list[dict[str, object]]:
    """Two models of one setting: a row for each quantity."""
    domain, population, n = setting.domain, setting.population(), setting.n
    how = {"method": "kronecker"} if setting.kind == "kronecker" else {"constraints": Constraints(preserve="pairs")}
    mechanism = design(domain, setting.epsilon, **how).mechanism
    kernel, names = mechanism.kernel(domain.names), domain.names
    pool, sizes = every_record(domain.sizes.tolist()), setting.sizes
    truth = {q: value[0] for q, (value, _) in quantities(sizes, population.reshape(1, -1), n).items()}
    chances = kernel.expected(population).ravel()
    out = []
    for model, kept in (("pairs", []), ("kept", [names])):
        rng = np.random.default_rng(SEED + place)
        terms = Terms.of(domain, [*combinations(names, 2), *kept])
        held: dict[str, dict[str, list[np.ndarray]]] = {q: {} for q in QUANTITIES}
        width: dict[str, list[float]] = {q: [] for q in QUANTITIES}
        for _ in range(RUNS):
            reports = rng.multinomial(n, chances / chances.sum()).reshape(kernel.sizes)
            equations, solved = fit(terms, reports / n, kernel)
            law = equations.proportions(solved.theta).reshape(reports.shape)
            laws = [likeliest_again(terms, law, n, mechanism, rng) for _ in range(SETS)]
            tables = np.stack([_set(each, pool, n, rng) for each in laws])
            for q, (values, own) in quantities(sizes, tables, n).items():
                if not (np.isfinite(values).all() and np.isfinite(own).all()):
                    continue
                for rule, (middle, half) in intervals(values, own).items():
                    held[q].setdefault(rule, []).append(np.abs(middle - truth[q]) <= half)
                width[q].append(float(np.mean(values.std(axis=0, ddof=1) / own.mean(axis=0))))
        for q in QUANTITIES:
            shares = {rule: np.mean(each, axis=0) for rule, each in held[q].items()}
            first = shares.get(f"combined, {SETS}", np.full(1, np.nan))
            row: dict[str, object] = {"ε": setting.epsilon, "n": n, "mechanism": setting.kind}
            row |= {"sizes": "×".join(map(str, domain.sizes)), "rarest": setting.rarest, "product": setting.product}
            row |= {"model": model, "quantity": q, "none": 1 - len(width[q]) / RUNS}
            row |= {rule: float(np.mean(shares[rule])) if rule in shares else np.nan for rule in RULES}
            wide = float(np.mean(width[q])) if width[q] else np.nan
            out.append({**row, "least": float(first.min()), "error over own": wide})
    return out


RULES = (f"combined, {FEW}", f"combined, {SETS}", "RRR, 20", "partial, 20", "one set")


def _set(law: np.ndarray, pool: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """The table (R,) of shares of one data set."""
    codes = drawn(pool, law.ravel(), n, rng)
    cells = np.ravel_multi_index(tuple(codes.T), law.shape)
    return np.bincount(cells, minlength=law.size) / n


def page(rows: list[dict[str, object]]) -> str:
    """What holds, by model and quantity, and every row."""
    head = "| model | quantity | settings | none | " + " | ".join(RULES) + " | least of one number |\n"
    lines = []
    for model in ("pairs", "kept"):
        for q in QUANTITIES:
            of = [r for r in rows if r["model"] == model and r["quantity"] == q]
            if q == QUANTITIES[3]:
                of = [r for r in of if r["product"]]
            cells = [model, q, str(len(of)), f"{np.mean([r['none'] for r in of]):.3f}"]
            cells += [f"{np.nanmean([r[rule] for r in of]):.3f}" for rule in RULES]
            lines.append("| " + " | ".join([*cells, f"{np.nanmin([r['least'] for r in of]):.3f}"]) + " |")
    made = (
        f"Made by `benchmarks/synthesis.py`: {RUNS} surveys for each of {len(settings())} settings. Coverage of 95 % "
        "intervals "
        "on average over numbers and settings; the product of two predictors where the population has one."
    )
    table = head + "|" + "---|" * (len(RULES) + 5) + "\n" + "\n".join(lines)
    return "\n\n".join(["# Intervals from several synthetic data sets", made, table, markdown(rows, three_decimals)])


def main() -> None:
    rows = measure_all(measured, settings(), range(len(settings())))
    write("synthesis", rows, page(rows))


if __name__ == "__main__":
    main()
