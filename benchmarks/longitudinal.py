"""Memoized reports over several waves at equal ε per report and lifetime ε: protocols of the literature and designed stages.

Adult's nine attributes. Every protocol consumes ε_1 for one report and ε_∞ for all reports of one person, for the whole record:

    SPL, SMP        RAPPOR's two stages (L-SUE), L-OSUE, L-OUE and L-GRR (Erlingsson et al. 2014; Arcolezi et al. 2022), on
                    every attribute with a ninth of both ε, or on one attribute that each person draws once; "best" is the
                    least error of the four for each attribute
    coin            the optimum for marginals at ε_1 (optrr allocate), from a permanent answer of total ε_∞

A report supports a category with probability p_2 where the permanent answer does and q_2 where it does not; the permanent
answer does so with p_1 where the category is true and q_1 where it is not. With γ = π p_1 + (1−π) q_1 and T rounds of people
drawn at random whose records stay, n times the variance of the average over rounds is, added up over categories,

    Σ_v [γ(1−γ) + (γ p_2(1−p_2) + (1−γ) q_2(1−q_2)) / (T (p_2−q_2)²)] / (p_1−q_1)²,

times nine for SMP, of whom a ninth answers for each attribute. Shown: its square root over √n, n = 10,000, averaged over
attributes as a mean square: the size of a typical error in one table of shares. Both ε of the unary encodings are exact: two
bits differ.

Simulations of every way at one setting check the formula. Writes longitudinal.csv, .md and .svg; half a minute.
"""

from dataclasses import dataclass
from math import exp, log

import numpy as np
from people import adult_codes
from scipy.optimize import brentq
from writing import RESULTS, markdown, write_csv, write_text

from optrr import allocate, count
from optrr.core.display.charts import COLOURS, figure_svg, new_figure
from optrr.core.domain.datasets import adult, adult_domain
from optrr.longitudinal import LongitudinalDesign, Panel
from optrr.longitudinal.design import with_coin

SEED = 1
DOMAIN = adult_domain()
SIZES = DOMAIN.sizes.tolist()
M = DOMAIN.m
TRUE = [count(adult(), DOMAIN, [name], allow_extra=True).proportions for name in DOMAIN.names]
PEOPLE = 10_000
FOREVER = (1.0, 2.0, 4.0, 6.0, 8.0)
HALVES = (2, 4)
ROUNDS = (1, 10, 100)
# The simulated setting, and how many panels.
AT, SIMULATED_PEOPLE, SIMULATED_ROUNDS, RUNS = (2.0, 4.0), 2000, 5, 60


@dataclass(frozen=True)
class Support:
    """Probabilities of support in both stages; ``unary`` bits are independent of each other."""

    p1: float
    q1: float
    p2: float
    q2: float
    unary: bool

    def error(self, shares: np.ndarray, rounds: int) -> float:
        """n times the summed variance of the average over rounds."""
        gamma = shares * self.p1 + (1 - shares) * self.q1
        within = gamma * self.p2 * (1 - self.p2) + (1 - gamma) * self.q2 * (1 - self.q2)
        each = gamma * (1 - gamma) + within / (rounds * (self.p2 - self.q2) ** 2)
        return float(each.sum() / (self.p1 - self.q1) ** 2)


def grr(size: int, one: float, forever: float) -> Support:
    """k-ary randomized response twice; the second stage is a coin, so that both ε are exact."""
    first, whole = (np.expm1(e) / (exp(e) + size - 1) for e in (forever, one))
    return of_eigenvalues(size, first, whole / first)


def of_eigenvalues(size: int, first: float, second: float) -> Support:
    (p1, q1), (p2, q2) = ((x + (1 - x) / size, (1 - x) / size) for x in (first, second))
    return Support(p1, q1, p2, q2, unary=False)


def unary(kind: str, one: float, forever: float) -> Support:
    """A first stage by its name; the second keeps a bit with p_2 = 1 − q_2, or, for L-OUE, p_2 = 1/2."""
    p1, q1 = (exp(forever / 2) / (exp(forever / 2) + 1),) * 2 if kind == "L-SUE" else (0.5, 1 / (exp(forever) + 1))
    q1 = 1 - q1 if kind == "L-SUE" else q1

    def stages(x: float) -> tuple[float, float]:
        return (0.5, 0.5 - x) if kind == "L-OUE" else (0.5 + x, 0.5 - x)

    def excess(x: float) -> float:
        p2, q2 = stages(x)
        a, b = (y * p2 + (1 - y) * q2 for y in (p1, q1))
        return log(a * (1 - b) / ((1 - a) * b)) - one

    return Support(p1, q1, *stages(brentq(excess, 1e-12, 0.5 - 1e-12)), unary=True)


def literature(kind: str, size: int, one: float, forever: float) -> Support | None:
    """None where the second stage cannot make one report cost as much; L-OUE's never gives more than half of the bits away."""
    try:
        return grr(size, one, forever) if kind == "L-GRR" else unary(kind, one, forever)
    except ValueError:
        return None


def designed(one: float, forever: float) -> dict[str, LongitudinalDesign]:
    return {"coin": with_coin(allocate(DOMAIN, one).design, forever)}


def supports(design: LongitudinalDesign) -> list[Support]:
    first = [design.permanent.eigenvalues(n)[1] for n in DOMAIN.names]
    second = [design.instantaneous.kernel(n).eigenvalues[1] for n in DOMAIN.names]
    return [of_eigenvalues(*x) for x in zip(SIZES, first, second, strict=True)]


def ways(one: float, forever: float) -> dict[str, tuple[list[Support], int]]:
    """Supports of every attribute, and of how many people one answers for it."""
    out = {}
    for kind in ("L-GRR", "L-SUE", "L-OSUE", "L-OUE"):
        for plan, share, people in (("SPL", 1 / M, 1), ("SMP", 1.0, M)):
            known = [literature(kind, r, one * share, forever * share) for r in SIZES]
            if all(known):
                out[f"{plan} {kind}"] = (known, people)
    return out | {f"designed, {name}": (supports(d), 1) for name, d in designed(one, forever).items()}


def errors(way: tuple[list[Support], int], rounds: int) -> list[float]:
    some, people = way
    return [people * s.error(x, rounds) for s, x in zip(some, TRUE, strict=True)]


def typical(each: list[float]) -> float:
    return float(np.sqrt(np.mean(each) / PEOPLE))


def comparison() -> list[dict]:
    rows = []
    for forever in FOREVER:
        for half in HALVES:
            made = ways(forever / half, forever)
            for rounds in ROUNDS:
                known = {name: errors(way, rounds) for name, way in made.items()}
                for plan in ("SPL", "SMP"):
                    mine = [x for name, x in known.items() if name.startswith(plan)]
                    known[f"{plan} best"] = [min(x) for x in zip(*mine, strict=True)]
                at = {"forever": forever, "one": forever / half, "rounds": rounds}
                rows += [{"way": name} | at | {"error": typical(each)} for name, each in known.items()]
    return rows


def simulated_support(support: Support, shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Averages over rounds of one panel, people drawn at random."""
    size = shares.size
    truth = rng.choice(size, SIMULATED_PEOPLE, p=shares)
    if support.unary:
        true_bits = truth[:, None] == np.arange(size)
        permanent = rng.random((SIMULATED_PEOPLE, size)) < np.where(true_bits, support.p1, support.q1)
        chances = np.where(permanent, support.p2, support.q2)
        counts = sum((rng.random(chances.shape) < chances).mean(axis=0) for _ in range(SIMULATED_ROUNDS))
    else:
        permanent = moved(truth, support.p1, size, rng)
        each = (moved(permanent, support.p2, size, rng) for _ in range(SIMULATED_ROUNDS))
        counts = sum(np.bincount(z, minlength=size) / SIMULATED_PEOPLE for z in each)
    a, b = (x * support.p2 + (1 - x) * support.q2 for x in (support.p1, support.q1))
    return (counts / SIMULATED_ROUNDS - b) / (a - b)


def moved(values: np.ndarray, kept: float, size: int, rng: np.random.Generator) -> np.ndarray:
    other = (values + 1 + rng.integers(0, size - 1, values.size)) % size
    return np.where(rng.random(values.size) < kept, values, other)


def checks() -> list[tuple[str, float]]:
    """Simulated over expected squared error, summed over one attribute of each way, and for designs over all of them."""
    one, forever = AT
    rng = np.random.default_rng(SEED)
    out = []
    attribute = 4
    for name, (some, people) in ways(one, forever).items():
        if name.startswith("designed"):
            continue
        runs = [simulated_support(some[attribute], TRUE[attribute], rng) for _ in range(RUNS)]
        seen = np.mean([np.sum((r - TRUE[attribute]) ** 2) for r in runs]) * SIMULATED_PEOPLE * people
        out.append((name, float(seen / errors((some, people), SIMULATED_ROUNDS)[attribute])))
    records = adult_codes()
    for name, design in designed(one, forever).items():
        seen = [
            panel_errors(design, records[rng.integers(0, len(records), SIMULATED_PEOPLE)], rng) for _ in range(RUNS)
        ]
        expected = np.sum(errors((supports(design), 1), SIMULATED_ROUNDS)) / SIMULATED_PEOPLE
        out.append((f"designed, {name}", float(np.mean(seen) / expected)))
    return out


def panel_errors(design: LongitudinalDesign, codes: np.ndarray, rng: np.random.Generator) -> float:
    answers = design.permanent.randomize_codes(codes, rng)
    reports = [design.instantaneous.randomize_codes(answers, rng) for _ in range(SIMULATED_ROUNDS)]
    total = 0.0
    for i, name in enumerate(DOMAIN.names):
        cells = np.stack([r[:, i] for r in reports], axis=1).astype(np.int64)
        panel = Panel(DOMAIN.subset([name]), design.mechanism, cells)
        total += float(np.sum((panel.average().estimate - TRUE[i]) ** 2))
    return total


def picture(rows: list[dict]) -> str:
    figure = new_figure(10, 4.2)
    panels = figure.subplots(1, len(ROUNDS), sharey=True)
    names = ("SPL best", "SMP best", "designed, coin")
    for rounds, axes in zip(ROUNDS, panels, strict=True):
        for name, colour in zip(names, COLOURS, strict=False):
            mine = [
                r for r in rows if r["way"] == name and r["rounds"] == rounds and r["one"] * HALVES[0] == r["forever"]
            ]
            axes.semilogy(
                [r["forever"] for r in mine], [r["error"] for r in mine], marker="o", color=colour, label=name
            )
        axes.set(xlabel="ε for ever, nats", title=f"{rounds} round{'s' if rounds > 1 else ''}")
    panels[0].set_ylabel(f"error of a table, {PEOPLE} people")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure_svg(figure)


def page(rows: list[dict], simulated: list[tuple[str, float]]) -> str:
    lines = [
        "# Reports round after round: designed stages beside memoization",
        "",
        f"Made by `benchmarks/longitudinal.py`. Adult's nine attributes, {PEOPLE} people whose records stay; root "
        "mean square",
        "error of a one-way table, of the average over all rounds so far. Every way spends the same ε for one report "
        "and for",
        "ever, of the whole record. Bold: the smallest. *best*: for every attribute the best of L-GRR, L-SUE "
        "(RAPPOR), L-OSUE",
        "and L-OUE.",
    ]
    names = [n for n in dict.fromkeys(r["way"] for r in rows) if n.endswith("best") or n.startswith("designed")]
    names += [n for n in dict.fromkeys(r["way"] for r in rows) if n not in names]
    for half in HALVES:
        for rounds in ROUNDS:
            known = {
                (r["way"], r["forever"]): r["error"]
                for r in rows
                if r["rounds"] == rounds and r["one"] * half == r["forever"]
            }
            least = {e: min(v for (_, x), v in known.items() if x == e) for e in FOREVER}
            table = []
            for name in names:
                row = {"way": name}
                for e in FOREVER:
                    c = known.get((name, e))
                    row[f"ε_∞ = {e:g}"] = "cannot" if c is None else f"**{c:.3g}**" if c == least[e] else f"{c:.3g}"
                table.append(row)
            title = f"## ε of one report: ε_∞/{half}; {rounds} round{'s' if rounds > 1 else ''}"
            lines += ["", title, "", markdown(table)]
    lines += [
        "",
        "*designed* ways estimate every table of the record, pairs included; SMP tells of one attribute of each "
        "person.",
        "",
        f"## Simulated over expected squared error, ε_1 = {AT[0]:g}, ε_∞ = {AT[1]:g}, {SIMULATED_ROUNDS} rounds, "
        f"{RUNS} panels",
        "",
        markdown([{"way": name, "ratio": f"{ratio:.2f}"} for name, ratio in simulated]),
    ]
    return "\n".join(lines)


def main() -> None:
    rows, simulated = comparison(), checks()
    write_csv("longitudinal.csv", rows, 8)
    write_text("longitudinal.md", page(rows, simulated))
    (RESULTS / "longitudinal.svg").write_text(picture(rows) + "\n")


if __name__ == "__main__":
    main()
