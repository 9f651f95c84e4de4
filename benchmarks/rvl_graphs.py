"""RVL Figures 5 and 6 on a stand-in graph: degrees and triangles, collected or queried, beside the trivial answer 0.

Collection (every tie randomized by its owner, edge local privacy, pure ε; the graph may then be analysed for ever):
  RR, LM            randomized response, Laplace cut at 1/2 (RVL eqs. 8, 11); unbiased estimates
  RR naive          counts in the reported graph itself
  RR instance       RVL's "one instance with 2m non-zero entries": every pair is an edge with its posterior probability, so
                    that m edges are expected; counts in that graph. It shrinks towards a random graph with m edges, and m
                    is taken as known, which no ε pays for.
Query (a trusted server answers this one question):
  LM-global         Laplace by global sensitivity, pure ε: 2 for degrees, 3(n−2) for triangles
  LM-smooth         Laplace by smooth sensitivity, (ε, 10^-6): approximate
  Cauchy-smooth     Cauchy by smooth sensitivity, pure ε (no mean or variance: its mean error is that of the runs made)

Error: mean over nodes of |answer − truth|, averaged over runs; "clipped" first cuts every answer to its possible range.
The unbiased estimates' variance formulas are checked against 2,000 simulations. Writes rvl_graphs.csv, .svg and .md.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import rvl_data
from matplotlib import pyplot as plt
from paper_settings import RVL_EDGES
from writing import save, write_csv, write_text

from optrr.studies.graphs import (
    EdgeChannel,
    Graph,
    RandomizedGraph,
    degree_query,
    estimate_degrees,
    estimate_triangles,
    from_slots,
    laplace_channel,
    laplace_dilation,
    local_triangle_sensitivities,
    randomize,
    response_channel,
    smooth_triangle_query,
    smooth_triangle_sensitivity,
    triangle_query,
    triangle_variance,
    triangles,
)

QUICK = True
SEED = 8
RUNS, CHECK_RUNS = 100, 2000
EPSILONS = (0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
DELTA = 1e-6
# The same colour for a method in both panels: collected in whole lines, queried in broken ones.
LINES = {
    "RR": ("tab:red", "-"),
    "LM": ("tab:blue", "-"),
    "RR naive": ("tab:orange", "-"),
    "RR instance": ("tab:pink", "-"),
    "LM instance": ("tab:cyan", "-"),
    "LM-global": ("tab:green", "--"),
    "LM-smooth": ("tab:purple", "--"),
    "Cauchy-smooth": ("tab:brown", "--"),
}
GRAPH = rvl_data.friendships()
TRUE = {"degrees": GRAPH.degrees(), "triangles": triangles(GRAPH)}
LIMIT = {"degrees": GRAPH.n - 1, "triangles": (GRAPH.n - 1) * (GRAPH.n - 2) // 2}


def instance(randomized: RandomizedGraph, rng: np.random.Generator) -> Graph:
    """RVL's reconstructed graph: each pair drawn with its posterior, given the number of edges."""
    f, prior = randomized.channel.flip, RVL_EDGES / GRAPH.slots
    shown = (1 - f) * prior / ((1 - f) * prior + f * (1 - prior))
    hidden = f * prior / (f * prior + (1 - f) * (1 - prior))
    chance = np.full(GRAPH.slots, hidden)
    chance[randomized.reported.edge_slots()] = shown
    return from_slots(GRAPH.n, np.flatnonzero(rng.random(GRAPH.slots) < chance))


def collected(channel: EdgeChannel, rng: np.random.Generator) -> dict[str, dict[str, np.ndarray]]:
    randomized = randomize(GRAPH, channel, random_state=rng)
    degree, triangle = estimate_degrees(randomized), estimate_triangles(randomized)
    drawn = instance(randomized, rng)
    return {
        "unbiased": {"degrees": degree.values, "triangles": triangle.values},
        "naive": {"degrees": degree.naive, "triangles": triangle.naive},
        "instance": {"degrees": drawn.degrees(), "triangles": triangles(drawn)},
    }


def answers(epsilon: float, rng: np.random.Generator) -> dict[str, dict[str, np.ndarray]]:
    """One run of every method, by statistic."""
    rr, lm = collected(response_channel(epsilon), rng), collected(laplace_channel(epsilon), rng)
    queries: dict[str, dict[str, Callable]] = {
        "LM-global": {"degrees": degree_query, "triangles": triangle_query},
        "LM-smooth": {"triangles": partial(smooth_triangle_query, delta=DELTA)},
        "Cauchy-smooth": {"triangles": partial(smooth_triangle_query, delta=0.0)},
    }
    out = {"RR": rr["unbiased"], "LM": lm["unbiased"], "RR naive": rr["naive"]}
    out |= {"RR instance": rr["instance"], "LM instance": lm["instance"]}
    for name, asked in queries.items():
        out[name] = {s: ask(GRAPH, epsilon, random_state=rng).values for s, ask in asked.items()}
    return out


def measure(epsilon: float, rng: np.random.Generator) -> list[dict]:
    sums: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(RUNS):
        for method, by_statistic in answers(epsilon, rng).items():
            for statistic, values in by_statistic.items():
                off = np.abs(values - TRUE[statistic]).mean()
                cut = np.abs(np.clip(values, 0, LIMIT[statistic]) - TRUE[statistic]).mean()
                sums.setdefault((statistic, method), []).append((off, cut))
    rows = []
    for (statistic, method), draws in sums.items():
        error, clipped = np.mean(draws, axis=0).tolist()
        rows.append({"statistic": statistic, "method": method, "epsilon": epsilon, "error": error, "clipped": clipped})
    return rows


def check(epsilon: float, channel: EdgeChannel, rng: np.random.Generator) -> dict[str, float]:
    """2,000 simulations: bias of the sum over nodes in standard errors, unbiased and naive, and variance by formula."""
    runs = [randomize(GRAPH, channel, random_state=rng) for _ in range(CHECK_RUNS)]
    out: dict[str, float] = {"epsilon": epsilon, "flip": channel.flip}
    formulas = {
        "degrees": np.full(GRAPH.n, (GRAPH.n - 1) * channel.noise),
        "triangles": triangle_variance(GRAPH, channel),
    }
    for statistic, estimate in (("degrees", estimate_degrees), ("triangles", estimate_triangles)):
        estimates = [estimate(r) for r in runs]
        values, naive = np.array([f.values for f in estimates]), np.array([f.naive for f in estimates])
        for name, sample in (("unbiased", values), ("naive", naive)):
            total = sample.sum(axis=1)
            error = total.std(ddof=1) / np.sqrt(CHECK_RUNS)
            out[f"{statistic} {name} bias"] = float((total.mean() - TRUE[statistic].sum()) / error)
        out[f"{statistic} variance ratio"] = float(values.var(axis=0, ddof=1).sum() / formulas[statistic].sum())
    return out


def trivial(statistic: str) -> dict[str, float]:
    true = TRUE[statistic]
    return {"0": float(true.mean()), "the mean": float(np.abs(true - true.mean()).mean())}


def picture(rows: list[dict]) -> None:
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.6))
    for axes, statistic, title in zip(panels, TRUE, ("Figure 5: degrees", "Figure 6: triangles"), strict=True):
        for method in dict.fromkeys(r["method"] for r in rows if r["statistic"] == statistic):
            mine = [r for r in rows if r["method"] == method and r["statistic"] == statistic]
            colour, line = LINES[method]
            axes.semilogy([r["epsilon"] for r in mine], [r["error"] for r in mine], line, color=colour, label=method)
        axes.axhline(trivial(statistic)["0"], color="grey", linestyle=":", label="trivial answer 0")
        axes.set(xlabel="ε (nats)", ylabel="mean error per node", title=title)
        axes.legend(fontsize=7)
    figure.suptitle("RVL Figures 5 and 6 on a synthetic stand-in graph (185 nodes, 684 edges)", fontsize=10)
    save(figure, "rvl_graphs.svg")


def table(rows: list[dict], statistic: str) -> list[str]:
    row_of = {(r["method"], r["epsilon"]): r for r in rows if r["statistic"] == statistic}
    methods = list(dict.fromkeys(m for m, _ in row_of))
    lines = ["", "| ε | " + " | ".join(methods) + " | best |", "|---" * (len(methods) + 2) + "|"]
    for e in EPSILONS:
        cells = [f"{row_of[m, e]['error']:.3g} ({row_of[m, e]['clipped']:.3g})" for m in methods]
        best = min([*methods, "0"], key=lambda m: trivial(statistic)["0"] if m == "0" else row_of[m, e]["clipped"])
        lines.append(f"| {e:g} | " + " | ".join(cells) + f" | {best} |")
    return lines


def first_below(rows: list[dict], statistic: str, method: str, level: float, kind: str = "error") -> str:
    good = [r["epsilon"] for r in rows if r["statistic"] == statistic and r["method"] == method and r[kind] < level]
    return f"ε ≥ {min(good):g}" if good else "no ε here"


def page(rows: list[dict], checks: list[dict]) -> str:
    lines = [
        "# RVL Figures 5 and 6: degrees and triangles",
        "",
        f"Made by `benchmarks/rvl_graphs.py` {rvl_data.STAND_IN};",
        f"methods are explained in the script's head. Mean error per node over {RUNS} runs, in brackets after cutting every",
        'answer to its possible range. "Best" is by the cut error and may be the trivial answer 0. RR and LM, naive and',
        "instance: edge local privacy, pure. LM-global, Cauchy-smooth: central edge privacy, pure. LM-smooth: central,",
        f"approximate, δ = {DELTA:g}. The instances take the number of edges as known.",
    ]
    for statistic, title in (("degrees", "Figure 5: degrees"), ("triangles", "Figure 6: triangles")):
        t = trivial(statistic)
        methods = list(dict.fromkeys(r["method"] for r in rows if r["statistic"] == statistic))
        below = "; ".join(f"{m} at {first_below(rows, statistic, m, t['0'])}" for m in methods)
        lines += [
            "",
            f"## {title}",
            "",
            f"True mean per node {TRUE[statistic].mean():.2f}; error of answering 0: {t['0']:.2f}, of answering the true mean "
            f"everywhere: {t['the mean']:.2f}.",
            *table(rows, statistic),
            "",
            f"Better than 0 (uncut): {below}.",
        ]
    lines += [
        "",
        "## Unbiasedness and variances, 2,000 simulations",
        "",
        "Bias of the sum over all nodes in standard errors (within ±4 is unbiased); ratio of the simulated variance, summed",
        "over nodes, to the formula.",
        "",
        "| channel | ε | degrees: unbiased | naive | variance ratio | triangles: unbiased | naive | variance ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for c in checks:
        keys = [f"{s} {k}" for s in ("degrees", "triangles") for k in ("unbiased bias", "naive bias", "variance ratio")]
        shown = [f"{c[k]:.3f}" if k.endswith("ratio") else f"{c[k]:+.1f}" for k in keys]
        lines.append(f"| {c['channel']} | {c['epsilon']:g} | " + " | ".join(shown) + " |")
    return "\n".join([*lines, "", *verdict(rows)])


def verdict(rows: list[dict]) -> list[str]:
    """RVL's claims, each counted over the grid of ε."""
    error = {(r["statistic"], r["method"], r["epsilon"]): r["error"] for r in rows}

    def where(statistic: str, a: str, b: str) -> str:
        wins = [f"{e:g}" for e in EPSILONS if error[statistic, a, e] < error[statistic, b, e]]
        return "at every ε" if len(wins) == len(EPSILONS) else f"at ε = {', '.join(wins)}" if wins else "nowhere"

    t = "triangles"
    beaten = [
        r for r in rows if r["statistic"] == t and "instance" not in r["method"] and r["clipped"] < trivial(t)["0"]
    ]
    first = min(r["epsilon"] for r in beaten)
    local = local_triangle_sensitivities(GRAPH)[0]
    bounds = [
        f"{smooth_triangle_sensitivity(GRAPH, laplace_dilation(GRAPH.n, e, DELTA)):.0f} at ε = {e}"
        for e in (1, 3, 5, 10)
    ]
    return [
        "## What holds of RVL's claims",
        "",
        f'- "RR beats LM" (collection): degrees {where("degrees", "RR", "LM")}, triangles {where(t, "RR", "LM")}.',
        f'- "LM-global beats both on degrees": against RR {where("degrees", "LM-global", "RR")}.',
        f'- "RR and LM beat LM-global and LM-smooth on triangles": RR below LM-global {where(t, "RR", "LM-global")}, below '
        f"LM-smooth {where(t, 'RR', 'LM-smooth')}; LM below LM-global {where(t, 'LM', 'LM-global')}, below LM-smooth "
        f"{where(t, 'LM', 'LM-smooth')}.",
        f"- The same with RVL's own reconstruction (instance): RR below LM-global {where(t, 'RR instance', 'LM-global')}, "
        f"LM {where(t, 'LM instance', 'LM-global')}.",
        f"- Smooth against global sensitivity: LM-smooth below LM-global {where(t, 'LM-smooth', 'LM-global')}. The local "
        f"sensitivity of this graph is {local:.0f}, the global one {3 * (GRAPH.n - 2)}; but for a sequence of n numbers β "
        f"falls like 1/n, so the smooth bound is {', '.join(bounds)}.",
        "- An instance errs little at small ε because it is a random graph with the right number of edges: its error is about "
        "that of knowing m and nothing else, and comparing it with the noise of an unbiased answer says little. Without that "
        f"knowledge the first ε at which a method beats the trivial answer 0 on triangles is {first:g} (cut answers).",
    ]


def main() -> None:
    rng = np.random.default_rng(SEED)
    rows = [row for e in EPSILONS for row in measure(e, rng)]
    checks = [
        {"channel": name} | check(e, make(e), rng)
        for name, make in (("RR", response_channel), ("LM", laplace_channel))
        for e in (1, 3, 6)
    ]
    write_csv("rvl_graphs.csv", rows, 6)
    picture(rows)
    write_text("rvl_graphs.md", page(rows, checks))


if __name__ == "__main__":
    main()
