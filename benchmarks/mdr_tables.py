"""MDR Tables I and II: relative error of RR-Clusters on Adult and Adult6, σ = 0.1, next to the published cells.

Takes ten minutes: 100 randomizations per cell, where the paper has 1000, and 100 queries of each. Writes mdr_tables.csv,
mdr_tables_means.csv, mdr_tables.svg and mdr_tables.md.

    as published   ε_A = ln(p(|A|−1)/(1−p)) with its sign, V of the true data, the cluster's whole table clipped
    correct        |ε_A|, otherwise the same: the cluster spends Σ|ε_A|
    direct         correct, and each asked table estimated by itself: less clipping
    learned        direct, with clusters from the corrected V of records randomized at the same |ε_A| beforehand, which
                   spends Σ|ε_A| once more (the other three columns use dependences of the true data, which costs no ε on paper
                   but is not private)
    floor          no randomization at all: what independence between clusters alone costs, on the same queries
"""

import numpy as np
from count_queries import ClusterSimulator, Data, adult_eight, clip, errors, random_query, table_of
from matplotlib import pyplot as plt
from paper_settings import MDR_COMBINATIONS, MDR_DEPENDENCES, MDR_RETENTIONS, MDR_TABLE_SIGMA, MDR_TABLES
from writing import markdown, save, write_csv, write_text

from optrr.core.mechanisms.mechanism import Mechanism
from optrr.core.protocols.clustering import greedy_clusters
from optrr.core.protocols.dependence import cramers_v, dependences_from_randomized
from optrr.core.protocols.protocol import cluster_law
from optrr_solvers.laws import ProductLaw
from optrr_solvers.laws.few_changes import retention_epsilons

SEED = 0
QUERIES = 100
KINDS = ("as_published", "correct", "direct", "learned")
STYLES = {"published": "k--s", "as_published": "o-", "correct": "^-", "direct": "v-", "floor": "k:"}


def published(copies: int) -> dict[tuple[float, float, int], float]:
    values = iter(float(x) for x in MDR_TABLES[copies].split())
    return {(p, t_d, t_v): next(values) for p in MDR_RETENTIONS for t_d in MDR_DEPENDENCES for t_v in MDR_COMBINATIONS}


def true_dependence(data: Data) -> np.ndarray:
    out = np.eye(data.domain.m)
    for (i, j), counts in data.pairs.items():
        out[i, j] = out[j, i] = cramers_v(counts.reshape(data.domain.sizes[[i, j]]))
    return out


def learned_dependence(data: Data, p: float, rng: np.random.Generator) -> np.ndarray:
    """Corrected V from one round of independent randomization at |ε_A|, drawn pair table by pair table's own law."""
    epsilons = retention_epsilons(data.domain.sizes, p)
    mechanism = Mechanism(data.domain, ProductLaw(data.domain.sizes, epsilons))
    randomized = np.concatenate([mechanism.randomize_codes(data.codes, rng) for _ in range(data.copies)])
    if epsilons.min() == 0:
        # an attribute with ε = 0 is not seen at all, so its dependences are unknown and taken to be 0
        seen = [i for i in range(data.domain.m) if epsilons[i] > 0]
        names = [data.domain.names[i] for i in seen]
        part = Mechanism(data.domain.subset(names), ProductLaw(data.domain.sizes[seen], epsilons[seen]))
        out = np.eye(data.domain.m)
        out[np.ix_(seen, seen)] = dependences_from_randomized(randomized[:, seen], part, small_sample=True).matrix
        return out
    return dependences_from_randomized(randomized, mechanism, small_sample=True).matrix


def median_error(  # noqa: PLR0913 (one cell of the tables)
    data: Data, clusters: tuple, epsilons: np.ndarray, whole: bool, runs: int, seed: int
) -> float:
    """Median relative error over ``runs`` randomizations of ``QUERIES`` queries each."""
    rng, choice = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    parts = [
        ClusterSimulator(data, c, cluster_law(data.domain.sizes[list(c)], epsilons[list(c)], "joint"))
        if epsilons[list(c)].sum() != 0
        else None
        for c in clusters
    ]
    relative = []
    for _ in range(runs):
        randomized = [part and part.randomized(rng) for part in parts]
        tables = []
        for c, part, y in zip(clusters, parts, randomized, strict=True):
            sizes = data.domain.sizes[list(c)]
            tables.append((c, part.estimated(y) if part else np.full(sizes, 1 / np.prod(sizes))))
        for _ in range(QUERIES):
            query = random_query(data.domain, MDR_TABLE_SIGMA, choice)
            table = (
                table_of(query.pair, tables) if whole else direct_table(query.pair, clusters, parts, randomized, tables)
            )
            relative.append(errors(query, data.pairs[query.pair], table)[1])
    return float(np.median(relative))


def direct_table(pair, clusters, parts, randomized, tables) -> np.ndarray:
    """As ``table_of``, but each cluster's part is summed first and made proper last: the sums of an unbiased estimate."""
    out = []
    for c, part, y, (_, proper) in zip(clusters, parts, randomized, tables, strict=True):
        if not set(pair) & set(c):
            continue
        unbiased = part.kernel.solve((y / y.sum()).reshape(part.sizes)) if part and not part.hidden else proper
        rest = tuple(a for a, i in enumerate(c) if i not in pair)
        out.append((tuple(i for i in c if i in pair), clip(unbiased.sum(axis=rest))))
    return table_of(pair, out)


def floor(data: Data, clusters: tuple, queries: int, seed: int) -> float:
    """Median relative error of independence between clusters alone, on the queries of ``median_error`` with this seed."""
    choice = np.random.default_rng([seed, 1])
    tables = [(c, data.counts(c) / data.n) for c in clusters]
    pairs = {pair: table_of(pair, tables) for pair in data.pairs}
    relative = []
    for _ in range(queries):
        query = random_query(data.domain, MDR_TABLE_SIGMA, choice)
        relative.append(errors(query, data.pairs[query.pair], pairs[query.pair])[1])
    return float(np.median(relative))


def cells(copies: int, runs: int) -> list[dict[str, object]]:
    data = adult_eight(copies)
    sizes = data.domain.sizes
    dependence, printed, rows = true_dependence(data), published(copies), []
    learned = {
        p: learned_dependence(data, p, np.random.default_rng([SEED + copies, k])) for k, p in enumerate(MDR_RETENTIONS)
    }
    for number, (p, t_d, t_v) in enumerate(printed):
        clusters = greedy_clusters(dependence, sizes, t_v, t_d)
        signed, absolute = retention_epsilons(sizes, p, signed=True), retention_epsilons(sizes, p)
        seed = SEED + 1000 * copies + number
        own_clusters = greedy_clusters(learned[p], sizes, t_v, t_d)
        row = {
            "data": "Adult" if copies == 1 else f"Adult{copies}",
            "p": p,
            "T_d": t_d,
            "T_v": t_v,
            "published": printed[p, t_d, t_v],
            "as_published": median_error(data, clusters, signed, True, runs, seed),
            "correct": median_error(data, clusters, absolute, True, runs, seed),
            "direct": median_error(data, clusters, absolute, False, runs, seed),
            "learned": median_error(data, own_clusters, absolute, False, runs, seed),
            "floor": floor(data, clusters, runs * QUERIES, seed),
            "epsilon": float(absolute.sum()),
            "epsilon_as_published": float(sum(abs(signed[list(c)].sum()) for c in clusters)),
        }
        rows.append(row)
    return rows


def means(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Averages over T_d, and their ratios to the published ones."""
    out = []
    for data, p, t_v in dict.fromkeys((r["data"], r["p"], r["T_v"]) for r in rows):
        mine = [r for r in rows if (r["data"], r["p"], r["T_v"]) == (data, p, t_v)]
        mean = {k: float(np.mean([r[k] for r in mine])) for k in ("published", *KINDS, "floor")}
        ratios = {f"{k}_ratio": mean[k] / mean["published"] for k in KINDS}
        to_floor = {"published_to_floor": mean["published"] / mean["floor"]}
        out.append({"data": data, "p": p, "T_v": t_v, **mean, **ratios, **to_floor})
    return out


def claims(rows: list[dict[str, object]]) -> dict[str, bool]:
    """What the tables must show, each checked on the averages over T_d."""
    low, high = [r for r in rows if r["p"] < 0.5], [r for r in rows if r["p"] >= 0.5]
    six = {(r["p"], r["T_v"]): r for r in rows if r["data"] == "Adult6"}
    one = [r for r in rows if r["data"] == "Adult"]
    near = [r for r in rows if r["p"] == 0.7 and r["T_v"] < 300]
    return {
        "as published within a factor 1.4 for p < 0.5": all(1 / 1.4 <= r["as_published_ratio"] <= 1.4 for r in low),
        "as published within a factor 2 for p >= 0.5": all(0.5 <= r["as_published_ratio"] <= 2 for r in high),
        "correct accounting at most 1.1 times published for p < 0.5": all(r["correct_ratio"] <= 1.1 for r in low),
        "correct accounting at most 1.55 times published for p >= 0.5": all(r["correct_ratio"] <= 1.55 for r in high),
        # two standard errors of a median over 5,000 queries are near 4 %
        "Adult6 better than Adult": all(six[r["p"], r["T_v"]]["correct"] <= 1.04 * r["correct"] for r in one),
        "p = 0.7, T_v < 300: published below the floor": all(r["published"] < r["floor"] for r in near),
        "p = 0.7, T_v < 300: ours within 12 % of the floor": all(
            abs(r["correct"] / r["floor"] - 1) <= 0.12 for r in near
        ),
    }


def plot(rows: list[dict[str, object]]) -> None:
    figure, axes = plt.subplots(2, 3, figsize=(11, 6), sharey=True)
    for line, data in zip(axes, ("Adult", "Adult6"), strict=True):
        for axis, t_v in zip(line, MDR_COMBINATIONS, strict=True):
            mine = [r for r in rows if r["data"] == data and r["T_v"] == t_v]
            for kind, style in STYLES.items():
                errors_of = [r[kind] for r in mine]
                axis.semilogy([r["p"] for r in mine], errors_of, style, label=kind.replace("_", " "), ms=4)
            axis.set_title(f"{data}, T_v = {t_v}", fontsize=10)
    axes[0, 0].legend(fontsize=8)
    for axis in axes[1]:
        axis.set_xlabel("p")
    for axis in axes[:, 0]:
        axis.set_ylabel("relative error (median)")
    save(figure, "mdr_tables.svg")


def text(rows: list[dict[str, object]], holding: dict[str, bool], runs: int) -> str:
    shown = [
        {"data": r["data"], "p": r["p"], "T_v": r["T_v"], "published": f"{r['published']:.3f}"}
        | {k.replace("_", " "): f"{r[k]:.3f} ({r[k] / r['published']:.2f})" for k in KINDS}
        | {"floor": f"{r['floor']:.3f}"}
        for r in rows
    ]
    lines = [
        "# MDR Tables I and II",
        f"{runs * QUERIES} queries a cell, {runs} randomizations. Averages over T_d; the cells are in mdr_tables.csv.",
        "",
        markdown(shown),
    ]
    lines += ["", *(f"- {claim}: {'yes' if holds else 'NO'}" for claim, holds in holding.items()), "", WHY]
    return "\n".join(lines)


WHY = """
Where this differs from the paper, and why:

- With the true data's V all three T_d give the same clusters, so the
  published differences along T_d are noise; the averages over T_d are compared.
- The published cells at p = 0.1 and 0.3 fit only if ε_A keeps its sign: with p < 1/|A| it is negative, and inside a
  cluster a negative ε_A cancels a positive one. The cluster then gets less ε than its attributes spend under
  RR-Independent, which is not equal privacy (mdr_tables.csv has both totals): the published comparison handicaps
  RR-Clusters. With |ε_A| and T_v = 100, 300 the errors at p = 0.1 and 0.3 are about half and less.
- Off the diagonal the matrix has (1−p)/(|A|−1); with the printed |A| its rows do not sum to 1.
- At p = 0.7 and T_v = 50, 100 the published errors are below what the independence assumption between clusters costs
  without any randomization (the floor). Ours lie just above the floor, as they must. Other readings of a query do not
  bring the floor down to the published 0.064..0.071: taking σ of the cells rounded up gives 0.087 (T_v = 50) and
  0.080 (T_v = 100), rounded down 0.099 and 0.087, and leaving out queries that nobody satisfies changes the third
  digit only. We found no reading that reproduces the printed cells.
- At p = 0.5 the binary attributes have ε_A = 0: a fair coin. They are estimable only inside a cluster, which is why
  "learned", whose first round cannot see them, leaves them alone and does worst there.
- "direct" estimates just the asked attributes of a cluster before clipping, instead of clipping the whole cluster's
  table and summing it (§6.4). It matters for large clusters only, and not always in its favour.
- "learned" pays for its clusters with as much ε again. At p = 0.7 it finds the clusters of the true data; at p = 0.1
  the dependences are hardly visible in the first round and its clusters cost accuracy.
"""


def main(runs: int) -> None:
    rows = cells(1, runs) + cells(6, runs)
    averages = means(rows)
    holding = claims(averages)
    write_csv("mdr_tables.csv", rows)
    write_csv("mdr_tables_means.csv", averages)
    write_text("mdr_tables.md", text(averages, holding, runs))
    plot(averages)


if __name__ == "__main__":
    main(runs=100)
