"""RVL Figures 3 and 4 on stand-in data: entropy of LDL, and χ² of LDL × TC, randomized response against Laplace.

For χ² both attributes are randomized at ε each, so a record spends 2ε. Every run randomizes the 248 records anew. Three ways
from the same reports to the statistic stand side by side:

    published   RVL's: eqs. 25 and 26 at the unbiased estimate π̂ = P⁻¹λ̂ (eqs. 17, 23), whose cells may be negative. The
                entropy is then undefined (counted, and left out of the error); a χ² with a margin near 0 explodes.
    projected   the same formulas at the nearest proper distribution to π̂
    optrr       what `optrr.core.estimation.derived.derive` reports as its value

The trivial answers are those of the uniform distribution (entropy log2 6) and of independence (χ² = 0). Writes
rvl_derived.csv, .svg and .md.
"""

import numpy as np
import rvl_data
from matplotlib import pyplot as plt
from paper_settings import RVL_PEOPLE
from writing import markdown, save, write_csv, write_text

from optrr.core.estimation.derived import derive
from optrr.core.estimation.simplex import projection
from optrr.core.estimation.table import counted_table
from optrr.core.mechanisms.matrix import MatrixMechanism, randomized_response
from optrr.core.records.counts import count
from optrr.studies.laplace import laplace

QUICK = True
SEED = 3
RUNS = 60
EPSILONS = (1, 2, 3, 4, 5, 6, 8, 10)
FAMILIES = {"randomized response": randomized_response, "Laplace": laplace}
STATISTICS = {"entropy": ("LDL",), "chi-square": ("LDL", "TC")}
WAYS = ("published", "projected", "optrr")
SHORT = {"randomized response": "RR", "Laplace": "Laplace"}
SAID = {"published": "as published", "projected": "projected", "optrr": "optrr"}


def plug_in(statistic: str, pi: np.ndarray) -> float:
    """Eqs. 25 (bits) and 26 as they stand; NaN where a logarithm is not defined or a margin is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        if statistic == "entropy":
            return float(-np.sum(np.where(pi == 0, 0.0, pi * np.log2(pi))))
        expected = np.outer(pi.sum(axis=1), pi.sum(axis=0))
        cells = np.where((pi == 0) & (expected == 0), 0.0, (pi - expected) ** 2 / expected)
        return float(RVL_PEOPLE * np.sum(cells))


def truth(statistic: str) -> float:
    table = rvl_data.table()
    return plug_in(statistic, (table.marginal("LDL") if statistic == "entropy" else table).proportions)


def measure(statistic: str, family: str, epsilon: float, rng: np.random.Generator) -> list[dict[str, float | str]]:
    """One row for each way."""
    domain = rvl_data.domain()
    mechanism = MatrixMechanism(domain, tuple(FAMILIES[family](a.size, epsilon) for a in domain))
    codes, names, true = rvl_data.biomarkers(), STATISTICS[statistic], truth(statistic)
    kernel = mechanism.kernel(names)
    runs = []
    for _ in range(RUNS):
        seen = count(mechanism.randomize_codes(codes, rng), domain, names)
        estimate = kernel.solve(seen.proportions)
        proper = projection(estimate.ravel()).reshape(estimate.shape)
        ours = derive(counted_table(seen, mechanism), statistic).value
        runs.append((plug_in(statistic, estimate), plug_in(statistic, proper), np.nan if ours is None else ours))
    rows = []
    for way, values in zip(WAYS, np.array(runs).T, strict=True):
        there = values[np.isfinite(values)]
        off = np.abs(there - true)
        rows.append(
            {
                "statistic": statistic,
                "family": family,
                "epsilon": epsilon,
                "way": way,
                "undefined": 1 - there.size / RUNS,
                "median": float(np.median(there)) if there.size else np.nan,
                "deviation": float(there.std(ddof=1)) if there.size > 1 else np.nan,
                "root_mean_square_error": float(np.sqrt(np.mean(off**2))) if there.size else np.nan,
                "median_error": float(np.median(off)) if there.size else np.nan,
            }
        )
    return rows


def picture(rows: list[dict]) -> None:
    figure, panels = plt.subplots(2, 2, figsize=(10.5, 7.4))
    titles = ("Figure 3: entropy of LDL (bits)", "Figure 4: χ² of LDL × TC")
    for column, (statistic, title) in enumerate(zip(STATISTICS, titles, strict=True)):
        for axes, way in zip(panels[:, column], WAYS[:2], strict=True):
            axes.axhline(truth(statistic), color=rvl_data.COLOURS["true"], label="true")
            for shift, family in ((-0.08, "randomized response"), (0.08, "Laplace")):
                mine = [r for r in rows if (r["family"], r["statistic"], r["way"]) == (family, statistic, way)]
                x = [r["epsilon"] + shift for r in mine]
                middle, spread = ([r[k] for r in mine] for k in ("median", "deviation"))
                axes.errorbar(
                    x, middle, spread, fmt="o-", ms=3, capsize=2, color=rvl_data.COLOURS[family], label=family
                )
            how = "unbiased estimate, as RVL" if way == "published" else "projected estimate"
            axes.set(xlabel="ε of each attribute (nats)", title=f"{title}, {how}")
            axes.title.set_fontsize(10)
        panels[0, column].set_ylim(*((0.8, 3.0) if statistic == "entropy" else (-400, 1000)))
    panels[0, 0].legend(fontsize=8)
    figure.suptitle(
        f"median and standard deviation of {RUNS} collections, bars cut by the frame; synthetic stand-in data",
        fontsize=10,
    )
    save(figure, "rvl_derived.svg")


def shown(row: dict) -> str:
    """Root mean square error, median error and, where there are any, undefined runs."""
    if row["undefined"] == 1:
        return "never defined"
    gone = f", {100 * row['undefined']:.0f} % undefined" if row["undefined"] else ""
    return f"{row['root_mean_square_error']:.3g} (median {row['median_error']:.3g}{gone})"


def wins(mine: dict, way: str, key: str) -> str:
    """At which ε randomized response has the smaller error."""
    good = [e for e in EPSILONS if not mine["randomized response", e, way][key] >= mine["Laplace", e, way][key]]
    if len(good) == len(EPSILONS):
        return "at every ε"
    return f"at ε = {', '.join(f'{e:g}' for e in good)}" if good else "at no ε"


def beats(mine: dict, family: str, way: str, level: float) -> str:
    """From which ε on the median error stays below that of the trivial answer."""
    errors = [mine[family, e, way]["median_error"] for e in EPSILONS]
    first = next((e for k, e in enumerate(EPSILONS) if all(x < level for x in errors[k:])), None)
    return "at no ε here" if first is None else "at every ε" if first == EPSILONS[0] else f"from ε = {first:g}"


def page(rows: list[dict]) -> str:
    trivial = {"entropy": abs(np.log2(6) - truth("entropy")), "chi-square": truth("chi-square")}
    lines = [
        "# RVL Figures 3 and 4: entropy and χ²",
        "",
        f"Made by `benchmarks/rvl_derived.py` {rvl_data.STAND_IN}.",
        f"Root mean square error and, in brackets, median absolute error over {RUNS} collections, around the statistic of the "
        "248 records, which are held fixed. RVL put the unbiased estimate into the formula (their eqs. 23, 25, 26) and give no "
        "numbers, only curves; projected is the nearest proper distribution to that estimate.",
    ]
    for statistic in STATISTICS:
        mine = {(r["family"], r["epsilon"], r["way"]): r for r in rows if r["statistic"] == statistic}
        names = {(f, w): f"{short} {said}" for f, short in SHORT.items() for w, said in SAID.items()}
        table = [{"ε": f"{e:g}"} | {said: shown(mine[f, e, w]) for (f, w), said in names.items()} for e in EPSILONS]
        lines += [
            "",
            f"## {statistic}: true {truth(statistic):.3f}, error of the trivial answer {trivial[statistic]:.3f}",
            "",
            markdown(table),
            "",
            "- RVL: randomized response lies closer to the truth, with smaller deviations. Randomized response has",
        ]
        lines += [
            f"  - {way}: the smaller root mean square error {wins(mine, way, 'root_mean_square_error')}, the smaller median "
            f"error {wins(mine, way, 'median_error')};"
            for way in WAYS
        ]
        lines += [
            f"- The median error is below that of the trivial answer for good: {family}, "
            + "; ".join(f"{way} {beats(mine, family, way, trivial[statistic])}" for way in WAYS)
            + "."
            for family in FAMILIES
        ]
    return "\n".join([*lines, "", *remarks(rows)])


def remarks(rows: list[dict]) -> list[str]:
    """What the tables mean, with their numbers."""
    chi = {(r["family"], r["epsilon"], r["way"]): r for r in rows if r["statistic"] == "chi-square"}
    own = {k: chi["randomized response", EPSILONS[0], k]["root_mean_square_error"] for k in WAYS}
    far, near = (chi["Laplace", EPSILONS[0], k] for k in ("published", "projected"))
    return [
        f"At ε = {EPSILONS[0]} the χ² of the unbiased estimate divides by margins that noise brings near 0 or below it: its "
        f"root mean square error is {own['published']:.3g}, that of the projected estimate {own['projected']:.3g}. One such "
        "collection decides the mean, which need not even exist, so the median says more about what one collection gives.",
        "",
        f"Laplace's χ² at ε = {EPSILONS[0]}: median {far['median']:.3g} as published, {near['median']:.3g} projected, where "
        f"the truth is {truth('chi-square'):.3g}. A projected table looks dependent, or independent, whatever the data: "
        "closeness to the truth there is an accident of these data.",
    ]


def main() -> None:
    rng = np.random.default_rng(SEED)
    rows = [row for s in STATISTICS for f in FAMILIES for e in EPSILONS for row in measure(s, f, e, rng)]
    write_csv("rvl_derived.csv", rows, 6)
    picture(rows)
    write_text("rvl_derived.md", page(rows))


if __name__ == "__main__":
    main()
