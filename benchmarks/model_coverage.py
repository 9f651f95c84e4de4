"""Coverage of the 95 % intervals of log-linear coefficients, the common odds ratio among them.

Takes two minutes. 100 settings, all drawn at random: tables of 2 × 2 × 2 to 3 × 3 × 3 with log odds and log odds ratios from a
normal law, so that some cells are rare; one pair of attributes, two or all three associated, or all at once; 1000 to 100,000
records, ε_i of 0.5 to 6, randomized by independent randomized response, the optimum and the optimum that keeps pairs.
2000 data sets each: standard error 0.5 %.

An interval holds the values around its estimate that the score test does not reject, so it covers where the true value is not
rejected, unless it ends between the two. Of the first CHECKED data sets of each setting intervals are made, and those that
leave out a true value that is not rejected are counted, and those that leave out their estimate. Writes
results/model_coverage.csv and .md.
"""

import numpy as np
from test_levels import MECHANISMS
from writing import markdown, measure_all, three_decimals, write

from optrr import Counts, Domain, InvalidInput, Mechanism, design
from optrr.analysis.equations import estimated, test
from optrr.analysis.loglinear.comparing import LEAST_WORTH
from optrr.analysis.loglinear.estimating import fitted_model, with_intervals
from optrr.analysis.loglinear.fitting import LogLinearEquations, NullModel, Terms

SEED = 2029
SETTINGS, RUNS, CHECKED = 100, 2000, 10
SHAPES = ((2, 2, 2), (2, 2, 3), (2, 2, 6), (3, 2, 3), (3, 3, 2), (3, 3, 3))
MODELS = (
    [("a", "b")],
    [("a", "b"), ("a", "c")],
    [("a", "b"), ("a", "c"), ("b", "c")],
    [("a", "b"), ("a", "c"), ("b", "c")],
    [("a", "b", "c")],
)
QUANTILE = 1.959964
LEAST = 0.93


def row(place: int) -> dict[str, object]:
    rng = np.random.default_rng([SEED, place])
    domain = Domain.of(dict(zip("abc", SHAPES[place % len(SHAPES)], strict=True)))
    terms = Terms.of(domain, MODELS[place % len(MODELS)])
    kind, epsilons = str(rng.choice(list(MECHANISMS))), np.round(rng.uniform(0.5, 6, 3), 2).tolist()
    n = int(np.round(np.exp(rng.uniform(np.log(1000), np.log(100_000)))))
    described: dict[str, object] = {
        "setting": place + 1,
        "mechanism": kind,
        "epsilons": ", ".join(f"{e:g}" for e in epsilons),
        "n": n,
        "table": " × ".join(str(r) for r in domain.sizes),
        "model": str(terms),
        "coefficients": terms.parameters,
    }
    beta = rng.normal(scale=0.8, size=terms.parameters)
    pi = np.exp(beta @ terms.columns().reshape(len(beta), -1)).reshape(domain.sizes)
    nothing = {"printed": 0.0, "lowest": "", "mean": "", "highest": ""}
    nothing |= dict.fromkeys(("checked", "truth_left_out", "estimate_left_out"), 0)
    mechanism = design(domain, epsilons, **MECHANISMS[kind]).mechanism
    try:
        model = NullModel.of(terms, mechanism)
    except InvalidInput:
        return described | nothing
    law = model.kernel.expected(pi / pi.sum()).ravel()
    tables = rng.multinomial(n, law / law.sum(), size=RUNS).reshape(RUNS, *model.kernel.sizes).astype(np.float64)
    fits = model.fitted(tables)
    printed = model.records_worth(fits, np.full(RUNS, n)) >= LEAST_WORTH
    if not printed.any():
        return described | nothing
    equations = LogLinearEquations(
        tables.reshape(RUNS, -1) / n, np.full(RUNS, float(n)), terms.flat_columns(), model.kernel
    )
    near = estimated(equations).theta
    tested = [test(equations, (k,), np.array([value]), near).signed for k, value in enumerate(beta)]
    accepted = ~(np.abs(np.stack(tested, axis=1)) > QUANTILE)
    covered = accepted[printed].mean(axis=0)
    first = np.flatnonzero(printed)[:CHECKED]
    return described | {
        "printed": float(printed.mean()),
        "lowest": float(covered.min()),
        "mean": float(covered.mean()),
        "highest": float(covered.max()),
        "checked": len(first) * len(beta),
        **left_out(terms, mechanism, tables[first], beta, accepted[first]),
    }


def left_out(
    terms: Terms, mechanism: Mechanism, tables: np.ndarray, truth: np.ndarray, accepted: np.ndarray
) -> dict[str, int]:
    """Printed intervals without the true value although it is not rejected, ``accepted`` (B, p), and without their estimate."""
    without = {"truth_left_out": 0, "estimate_left_out": 0}
    for table, kept in zip(tables, accepted, strict=True):
        made = with_intervals(fitted_model(Counts(terms.domain, table.astype(int)), mechanism, terms))
        estimates, (low, high) = made.coefficients, made.limits.T
        without["truth_left_out"] += int(np.sum(kept & ((truth < low) | (truth > high))))
        without["estimate_left_out"] += int(np.sum((estimates < low) | (estimates > high)))
    return without


def main() -> None:
    rows = measure_all(row, range(SETTINGS))
    shown = [r for r in rows if r["printed"]]
    means, lowest = ([r[k] for r in shown] for k in ("mean", "lowest"))
    checked, truth, estimate = (sum(r[k] for r in rows) for k in ("checked", "truth_left_out", "estimate_left_out"))
    write(
        "model_coverage",
        rows,
        "# Coverage of intervals of log-linear coefficients at 95 %",
        f"{RUNS} data sets in each of {SETTINGS} settings; {len(shown)} of them print intervals, of "
        f"{sum(r['coefficients'] for r in shown)} coefficients: "
        f"{np.mean(means):.4f} on average over settings ({min(means):.4f} to {max(means):.4f}), {min(lowest):.4f} for "
        "the "
        f"worst coefficient; {sum(x < LEAST for x in lowest)} settings have one below {LEAST:g}. The others print "
        "none: the "
        "mechanism hides an interaction, or the records show the model's margins no better than "
        f"{LEAST_WORTH:g} true ones a cell would.",
        f"Of {checked} printed intervals {truth} leave out a true value that their test does not reject, and "
        f"{estimate} their "
        "own estimate.",
        markdown(rows, three_decimals),
    )


if __name__ == "__main__":
    main()
