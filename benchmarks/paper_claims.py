"""Numbers for statements of the papers that are not in a figure or table. MDR §2.3, §6.5; RIJ §3.1 to §3.5; RVL §3.2, §4.3.

Each statement is confirmed, or refuted with a number. Reads mdr_fig2.csv and
mdr_tables.csv. Writes paper_claims.md.
"""

from functools import reduce
from itertools import product

import numpy as np
from count_queries import ClusterSimulator, Data, Query, adult_eight, errors
from paper_settings import (
    MDR_COMBINATIONS,
    MDR_DEPENDENCES,
    MDR_FIG2_RETENTION,
    MDR_RETENTIONS,
    MDR_TABLE_SIGMA,
    RIJ_BASE,
    RIJ_EXAMPLE,
    RIJ_KEPT,
    RIJ_OBSERVED,
    RIJ_RETAINED,
    RIJ_SWEPT,
)
from rij import cramers_v, kronecker, mean_absolute_error, mean_squared_error, product_estimate, shares, synthetic
from writing import markdown, read_csv, write_text

from optrr import count
from optrr.core.domain.datasets import adult, adult_domain
from optrr.core.mechanisms.kernel import EffectKernel
from optrr.core.mechanisms.matrix import randomized_response
from optrr.studies.laplace import laplace, reconstruction_probability
from optrr_solvers.laws.few_changes import joint_law, retention_epsilons

QUICK = True
SEED = 1
MATRICES, DRAWS, PRIORS = 2000, 200, 500
RUNS, QUERIES = 40, 40
# a difference below this is rounding
SAME = 1e-12


def condition(matrix: np.ndarray) -> float:
    """Largest by smallest eigenvalue of a symmetric matrix, by magnitude."""
    values = np.abs(np.linalg.eigvalsh(matrix))
    return float(values.max() / values.min())


def private_matrix(size: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """A symmetric matrix whose rows sum to 1, with entries that differ by about e^ε."""
    weights = np.exp(rng.uniform(0, epsilon, (size, size)))
    weights = np.maximum(weights, weights.T)
    for _ in range(200):
        root = np.sqrt(weights.sum(axis=1))
        weights = weights / root / root[:, None]
    return weights


def propagation() -> list[dict[str, object]]:
    """MDR §2.3: the matrix that propagates least, and whether its P_max/P_min bounds from below or from above."""
    rows, rng = [], np.random.default_rng(SEED)
    for size, epsilon in product((2, 4, 9), (0.5, 2.0)):
        best = condition(randomized_response(size, epsilon).probabilities)
        ratios = []
        for _ in range(MATRICES if size > 2 else 0):
            other = private_matrix(size, epsilon, rng)
            own = float(np.log(other.max(axis=0) / other.min(axis=0)).max())
            ratios.append(condition(other) / condition(randomized_response(size, own).probabilities))
        pi = rng.dirichlet(np.ones(size), DRAWS)
        lam = pi @ randomized_response(size, epsilon).probabilities
        wrong = rng.normal(size=(DRAWS, size))
        wrong -= wrong.mean(axis=1, keepdims=True)
        inverse = np.linalg.inv(randomized_response(size, epsilon).probabilities)
        grown = np.linalg.norm(wrong @ inverse, axis=1) / np.linalg.norm(pi, axis=1)
        grown /= np.linalg.norm(wrong, axis=1) / np.linalg.norm(lam, axis=1)
        rows.append(
            {
                "categories": size,
                "ε": epsilon,
                "P_max/P_min of randomized response": best,
                "(e^ε + r − 1)/(e^ε − 1)": float((np.exp(epsilon) + size - 1) / np.expm1(epsilon)),
                "smallest of others, over randomized response's": min(ratios) if ratios else "",
                "relative error grows by": f"{grown.min():.3g}..{grown.max():.3g}",
            }
        )
    return rows


def trends() -> list[dict[str, object]]:
    """MDR §6.5's sentences about Table I, tried on the printed errors and on ours."""
    tables = [r for r in read_csv("mdr_tables.csv") if r["data"] == "Adult"]
    rows = []
    names = {"published": "printed", "as_published": "ours, as published", "correct": "ours, right accounting"}
    for name, said in names.items():
        at = {(float(r["p"]), float(r["T_d"]), int(r["T_v"])): float(r[name]) for r in tables}
        low, _, high = MDR_COMBINATIONS
        rising = sum(at[p, d, low] < at[p, d, high] for p in MDR_RETENTIONS for d in MDR_DEPENDENCES)
        first, last = MDR_DEPENDENCES[0], MDR_DEPENDENCES[-1]
        cells = len(MDR_RETENTIONS) * len(MDR_DEPENDENCES)
        row = {"errors": said, f"larger at T_v = {high} than at {low}": f"{rising} of {cells}"}
        for p in MDR_RETENTIONS:
            before, after = (np.mean([at[p, t_d, v] for v in MDR_COMBINATIONS]) for t_d in (first, last))
            row[f"T_d {first} → {last}, p = {p:g}"] = f"× {after / before:.2f}"
        rows.append(row)
    return rows


def more_attributes() -> list[dict[str, object]]:
    """MDR §6.5: "the results with S configured by a higher number of attributes did not differ significantly"."""
    data, rng = adult_eight(), np.random.default_rng(SEED + 2)
    sizes = data.domain.sizes
    epsilons = retention_epsilons(sizes, MDR_FIG2_RETENTION)
    parts = [
        ClusterSimulator(data, (i,), joint_law([r], e)) for i, (r, e) in enumerate(zip(sizes, epsilons, strict=True))
    ]
    measured: dict[int, list[tuple[float, float]]] = {2: [], 3: [], 4: []}
    for _ in range(RUNS):
        margins = [part.estimated(part.randomized(rng)) for part in parts]
        for k, values in measured.items():
            values += [query_errors(data, margins, k, rng) for _ in range(QUERIES)]
    return [
        {
            "attributes of a query": k,
            "median absolute error": float(np.median(values, axis=0)[0]),
            "median relative error": float(np.median(values, axis=0)[1]),
        }
        for k, values in measured.items()
    ]


def query_errors(data: Data, margins: list[np.ndarray], k: int, rng: np.random.Generator) -> tuple[float, float]:
    members = tuple(sorted(rng.choice(data.domain.m, k, replace=False).tolist()))
    truth = data.counts(members).ravel()
    cells = rng.choice(truth.size, max(1, round(MDR_TABLE_SIGMA * truth.size)), replace=False)
    return errors(Query(members[:2], cells), truth, reduce(np.multiply.outer, [margins[i] for i in members]))


def three_ways() -> dict[str, object]:
    """RIJ §3.1's three-way table, which the paper does not print: drawn reports at the p of its Table 1."""
    names = ("sex", "race", "income")
    counts = count(adult(), adult_domain(), names, allow_extra=True)
    pi, n = counts.proportions, counts.n
    kernel = EffectKernel(pi.shape, reduce(np.multiply.outer, [np.array([1, RIJ_RETAINED])] * 3))
    draws = (
        np.random.default_rng(SEED + 5)
        .multinomial(n, kernel.expected(pi).ravel(), size=DRAWS)
        .reshape(DRAWS, *pi.shape)
        / n
    )
    alone = reduce(np.multiply.outer, [pi.sum(axis=tuple(a for a in range(3) if a != i)) for i in range(3)])
    return {
        "attributes": " × ".join(names),
        "root mean squared error of RR-Ind-Joint, drawn": float(
            np.sqrt(np.mean([mean_squared_error(kernel.solve(x), pi) for x in draws]))
        ),
        "of RR-Ind at the true margins": float(np.sqrt(mean_squared_error(alone, pi))),
        "mean cell": 1 / pi.size,
    }


def first_half() -> list[dict[str, object]]:
    """RIJ §3.3 up to RR-Joint: V of the records and of the reports, RR-Ind from the observed and from the true margins."""
    pi, seen = shares(RIJ_EXAMPLE), shares(RIJ_OBSERVED)
    kernel = kronecker((RIJ_KEPT, RIJ_KEPT), (2, 2))
    tables = {
        "true records": pi,
        "reports, as observed": seen,
        "RR-Ind from the observed margins": product_estimate(kernel, seen),
        "RR-Ind from the true margins": np.outer(pi.sum(1), pi.sum(0)),
        "as printed, a in rows": np.array([[0.24, 0.36], [0.16, 0.24]]),
    }
    return [
        {
            "table": name,
            "a1b1, a1b2, a2b1, a2b2": ", ".join(f"{x:.4g}" for x in np.round(t.ravel(), 12)),
            "V": round(cramers_v(t), 4),
            "MAE": "" if t is pi or t is seen else mean_absolute_error(t, pi),
        }
        for name, t in tables.items()
    ]


def slopes() -> list[dict[str, object]]:
    """RIJ §3.5, §4.2: error of RR-Ind without any noise, against V/√d."""
    rows = []
    for v in (0.25, RIJ_BASE["v"], 0.75):
        d = np.array(RIJ_SWEPT["d"])
        tables = [synthetic(int(k), v) for k in d]
        alone = [mean_absolute_error(np.outer(t.sum(1), t.sum(0)), t) for t in tables]
        power = float(np.polyfit(np.log(d), np.log(alone), 1)[0])
        rows.append(
            {"V": v}
            | {f"MAE at d = {k}": e for k, e in zip(d, alone, strict=True)}
            | {
                "falls like d to the power": f"{power:.2f}",
                f"MAE √d/V at d = {d[-1]}": alone[-1] * float(np.sqrt(d[-1])) / v,
            }
        )
    return rows


def readers() -> list[dict[str, object]]:
    """RVL Theorem 4 for eq. 14's reader: at random priors, and at the even one."""
    rows = []
    for size, epsilon in product((2, 3, 6, 12), (0.1, 0.5, 1.0, 2.0, 4.0)):
        ours, theirs = randomized_response(size, epsilon), laplace(size, epsilon)
        priors = [np.full(size, 1 / size), *np.random.default_rng(size).dirichlet(np.ones(size), PRIORS)]
        better = [reconstruction_probability(ours, p) - reconstruction_probability(theirs, p) for p in priors]
        lost = [bool((b < -SAME).any()) for b in better]
        average = [bool(b @ p < -SAME) for b, p in zip(better, priors, strict=True)]
        rows.append(
            {
                "categories": size,
                "ε": epsilon,
                "false for some category, share of priors": np.mean(lost[1:]),
                "false on average over the prior, share of priors": np.mean(average[1:]),
                "even prior, some category": "false" if lost[0] else "holds",
                "even prior, on average": "false" if average[0] else "holds",
            }
        )
    return rows


def spent(people: int, epsilon: float) -> dict[str, object]:
    """RVL §3.2: the largest ln of the ratio of Pr(all reports) over data sets of ``people`` bits, by enumeration."""
    matrix = np.log(randomized_response(2, epsilon).probabilities)
    worst = {"one record differs": 0.0, "all differ": 0.0}
    for x, y in product(product((0, 1), repeat=people), repeat=2):
        apart = sum(a != b for a, b in zip(x, y, strict=True))
        name = {1: "one record differs", people: "all differ"}.get(apart)
        if name:
            ratios = [
                sum(matrix[a, o] - matrix[b, o] for a, b, o in zip(x, y, z, strict=True))
                for z in product((0, 1), repeat=people)
            ]
            worst[name] = max(worst[name], float(max(ratios)))
    return {"people": people, "ε": epsilon} | worst


def main() -> None:
    alone = [r for r in read_csv("mdr_fig2.csv") if r["method"] == "RR-Independent"]
    absolute = {float(r["sigma"]): float(r["absolute"]) for r in alone}
    write_text(
        "paper_claims.md",
        "# MDR §2.3: error propagation",
        f"Of {MATRICES} random symmetric matrices each, against randomized response at the same ε; {DRAWS} random "
        "errors of λ̂.",
        markdown(propagation()),
        "# MDR §6.5: what the text says of its experiments",
        markdown(trends()),
        f"The absolute error of RR-Independent (Fig. 2) is {absolute[0.4]:.1f} at σ = 0.4 and {absolute[0.6]:.1f} at "
        "σ = 0.6.",
        f"RR-Independent, p = {MDR_FIG2_RETENTION}, σ = {MDR_TABLE_SIGMA}, {RUNS * QUERIES} queries each:",
        markdown(more_attributes()),
        "# RIJ §3.1: three attributes of Adult",
        markdown([three_ways()]),
        "# RIJ §3.3, first half: RR-Ind",
        markdown(first_half()),
        "# RIJ §3.5: V/√d",
        markdown(slopes()),
        "# RVL Theorem 4, by prior",
        f"{PRIORS} priors for each number of categories, even among all distributions.",
        markdown(readers()),
        "# RVL §3.2: ε and nε",
        "The largest ln Pr(reports | data)/Pr(reports | other data), over all reports:",
        markdown([spent(n, 1.0) for n in (2, 3, 4)]),
    )


if __name__ == "__main__":
    main()
