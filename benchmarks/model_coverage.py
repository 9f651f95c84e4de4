"""Coverage of the 95 % intervals of log-linear coefficients, the common odds ratio among them.

Run as ``python benchmarks/model_coverage.py [jobs]`` (two minutes of processor time). 100 settings, all drawn at random:
tables of 2 × 2 × 2 to 3 × 3 × 3 with log odds and log odds ratios from a normal law, so that some cells are rare; one pair of
attributes, two or all three associated, or all at once; 1000 to 100,000 records, ε_i of 0.5 to 6, randomized by Kronecker's
mechanism, the optimum and the optimum that keeps pairs. 2000 data sets each: standard error 0.5 %.

An interval holds the values that the score test does not reject, so it covers where the true value is not rejected. Writes
results/model_coverage.csv and .md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from inference_level import RESULTS, markdown, write
from test_levels import MECHANISMS

from optrr import Domain, InvalidInput, design
from optrr.models import Terms
from optrr.models.coefficients import PinnedModel
from optrr.models.comparing import LEAST_WORTH
from optrr.models.margins import NullModel

SETTINGS, RUNS = 100, 2000
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
    rng = np.random.default_rng([2029, place])
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
    try:
        model = NullModel.of(terms, design(domain, epsilons, **MECHANISMS[kind]).mechanism)
    except InvalidInput:
        return described | nothing
    law = model.kernel.expected(pi / pi.sum()).ravel()
    tables = rng.multinomial(n, law / law.sum(), size=RUNS).reshape(RUNS, *model.kernel.sizes).astype(np.float64)
    fits = model.fitted(tables)
    printed = model.records_worth(fits, np.full(RUNS, n)) >= LEAST_WORTH
    if not printed.any():
        return described | nothing
    covered = [
        float(np.mean(np.abs(pinned.deviations(np.full(RUNS, value), tables, fits)[printed]) <= QUANTILE))
        for value, pinned in zip(beta, pinned_models(model), strict=True)
    ]
    return described | {
        "printed": float(printed.mean()),
        "lowest": min(covered),
        "mean": float(np.mean(covered)),
        "highest": max(covered),
    }


def pinned_models(model: NullModel) -> Iterator[PinnedModel]:
    for k in range(model.terms.parameters):
        yield PinnedModel(model.terms, model.kernel, model.parts, k)


def main(jobs: int) -> None:
    rows = []
    with ProcessPoolExecutor(jobs) as pool:
        for each in pool.map(row, range(SETTINGS)):
            rows.append(each)
            print(*each.values(), sep=" | ", file=sys.stderr, flush=True)
    write("model_coverage.csv", rows)
    shown = [r for r in rows if r["printed"]]
    means = [float(str(r["mean"])) for r in shown]
    lowest = [float(str(r["lowest"])) for r in shown]
    count = sum(int(str(r["coefficients"])) for r in shown)
    text = [
        "# Coverage of intervals of log-linear coefficients at 95 %",
        f"{RUNS} data sets in each of {SETTINGS} settings; {len(shown)} of them print intervals, of {count} coefficients: "
        f"{np.mean(means):.4f} on average over settings ({min(means):.4f} to {max(means):.4f}), {min(lowest):.4f} for the "
        f"worst coefficient; {sum(x < LEAST for x in lowest)} settings have one below {LEAST:g}. The others print none: the "
        "mechanism hides an interaction, or the records show the model's margins no better than "
        f"{LEAST_WORTH:g} true ones a cell would.",
        markdown(rows),
    ]
    (RESULTS / "model_coverage.md").write_text("\n\n".join(text) + "\n")
    print("\n\n".join(text[:2]))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
