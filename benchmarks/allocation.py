"""What one total ε buys on Adult's nine attributes: the optimum, Kronecker and sampling, predicted and simulated.

Run as ``python benchmarks/allocation.py [RUNS]`` (80 unless told). Writes benchmarks/results/allocation.json, .md and .svg.

Errors are the workload's: the sum over its tables of n E‖π̂ − π‖². The population is Adult's 32,561 records; each run draws
10,000 people from it with replacement, randomizes, estimates without bias and compares with the population. "Bound" holds
for every population, "predicted" is exact for this one (the bound minus Σ ‖π_W‖²).

Two more tables: the search against the convex program for 3 to 8 attributes of unlike sizes, and the search's certified gap and
time beyond what can be listed.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from optrr.budgets.allocate import Allocation, allocate
from optrr.domain.datasets import adult, adult_domain
from optrr.mechanisms.mechanism import Mechanism
from optrr.records.frames import FrameCodec
from optrr.show.charts import COLOURS, figure_svg, new_figure
from optrr.ways.protocols.supports import best_report, report, report_error, support_probabilities, supports
from optrr_solvers.allocating import program as allocation_program
from optrr_solvers.allocating import search as allocation_search
from optrr_solvers.allocating.problem import AllocationProblem
from optrr_solvers.allocating.split import best_split, single_blocks
from optrr_solvers.allocating.workload import TableWorkload, marginals, pairs
from optrr_solvers.laws import Law, ProductLaw
from optrr_solvers.partition import singles
from optrr_solvers.randomness import as_source

TOTALS = (1.0, 2.0, 4.0, 8.0)
PEOPLE = 10_000
DOMAIN = adult_domain()
SIZES = DOMAIN.sizes
TABLES = {
    "marginals": [(i,) for i in range(DOMAIN.m)],
    "pairs": list(combinations(range(DOMAIN.m), 2)),
}


UNLIKE = (
    (2, 3, 4),
    (5, 42, 16),
    (9, 2, 42, 7),
    (9, 16, 7, 15, 6),
    (2, 3, 10, 100, 5),
    (9, 16, 2, 2, 42, 5),
    (2, 3, 5, 7, 9, 11, 13),
    (2, 3, 2, 5, 9, 4, 2, 7),
    (9, 16, 7, 15, 6, 5, 2, 42),
)
AGREEMENT_TOTALS = (0.5, 1.0, 2.0, 4.0, 8.0)
# Workload, sizes 2, 3, …, and totals beyond what can be listed.
BEYOND = ((marginals, 21), (marginals, 100), (pairs, 21), (pairs, 50))
BEYOND_TOTALS = (1.0, 2.0, 4.0, 8.0, 16.0)


def workload_of_kind(kind: str, sizes: tuple[int, ...]) -> TableWorkload:
    """Marginals, pairs, both at unlike weights, or some triples, every attribute and one pair at random weights."""
    m, r = len(sizes), np.asarray(sizes)
    one, two = [(i,) for i in range(m)], list(combinations(range(m), 2))
    triples = [(i, (i + 1) % m, (i + 2) % m) for i in range(0, m - 2, 2)]
    tables = {"marginals": one, "pairs": two, "mixed": one + two, "named": [*triples, *one, (0, m - 1)]}[kind]
    weights = {
        "mixed": np.asarray([0.5] * len(one) + [2.0] * len(two)),
        "named": np.random.default_rng(m).uniform(0.1, 5, len(tables)),
    }.get(kind, np.ones(len(tables)))
    return TableWorkload(r, singles(m), tuple(tables), weights)


def agreement() -> list[dict]:
    """By workload and total: the largest excess of the search's error over the program's, over all lists of sizes."""
    out = []
    for kind in ("marginals", "pairs", "mixed", "named"):
        for total in AGREEMENT_TOTALS:
            excesses, gaps, own = [], [], []
            for sizes in UNLIKE:
                problem = AllocationProblem(workload_of_kind(kind, sizes), total)
                program, search = allocation_program.solve(problem), allocation_search.solve(problem)
                excesses.append(search.error / program.error - 1)
                gaps.append(program.gap)
                own.append(search.gap)
            row = {
                "workload": kind,
                "total_epsilon": total,
                "largest_excess": max(excesses),
                "smallest_excess": min(excesses),
            }
            out.append(row | {"largest_program_gap": max(gaps), "largest_search_gap": max(own)})
            print(out[-1], flush=True)
    return out


def beyond() -> list[dict]:
    """The search among more different attributes than can be listed."""
    out = []
    for kind, m in BEYOND:
        sizes = np.arange(2, m + 2)
        for total in BEYOND_TOTALS:
            work = kind(sizes, singles(m))
            allocated = allocation_search.solve(AllocationProblem(work, total))
            split = best_split(work, single_blocks(work), total)
            row = {"workload": kind.__name__, "attributes": m, "total_epsilon": total, "error": allocated.error}
            out.append(
                row | {"gap": allocated.gap, "kronecker": split.error / allocated.error, "seconds": allocated.seconds}
            )
            print(out[-1], flush=True)
    return out


def adult_codes() -> np.ndarray:
    batch = adult().combine_chunks().to_batches()[0]
    return FrameCodec(DOMAIN, batch.schema).encode(batch)


def proportions(codes: np.ndarray, table: tuple[int, ...]) -> np.ndarray:
    shape = tuple(int(r) for r in SIZES[list(table)])
    cell = np.ravel_multi_index(tuple(codes[:, i].astype(np.int64) for i in table), shape)
    return np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape) / len(codes)


def unbiased(observed: np.ndarray, eigenvalues: np.ndarray) -> np.ndarray:
    """Written out for one and two attributes: mean + effects/λ."""
    mean = observed.mean()
    if observed.ndim == 1:
        return mean + (observed - mean) / eigenvalues[1]
    rows = observed.mean(axis=1, keepdims=True) - mean
    columns = observed.mean(axis=0, keepdims=True) - mean
    rest = observed - mean - rows - columns
    return mean + rows / eigenvalues[1, 0] + columns / eigenvalues[0, 1] + rest / eigenvalues[1, 1]


@dataclass(frozen=True)
class Study:
    """The population's codes, how many runs, and where their randomness starts."""

    codes: np.ndarray
    runs: int
    seed: int


def simulate_law(law: Law, tables: list[tuple[int, ...]], study: Study) -> list[float]:
    codes = study.codes
    source, rng = as_source(study.seed), np.random.default_rng(study.seed)
    truth = {t: proportions(codes, t) for t in tables}
    shrinks = {t: law.eigenvalues(t) for t in tables}
    mechanism, out = Mechanism(DOMAIN, law), []
    for _ in range(study.runs):
        drawn = mechanism.perturb_codes(codes[rng.integers(0, len(codes), PEOPLE)], source)
        out.append(
            PEOPLE * sum(float(np.sum((unbiased(proportions(drawn, t), shrinks[t]) - truth[t]) ** 2)) for t in tables)
        )
    return out


def simulate_sampling(total: float, tables: list[tuple[int, ...]], shares: np.ndarray, study: Study) -> list[float]:
    """Each person answers one table, drawn with probability ``shares``, by the better of the two reports."""
    codes = study.codes
    source, rng = as_source(study.seed), np.random.default_rng(study.seed)
    out = []
    for _ in range(study.runs):
        people = codes[rng.integers(0, len(codes), PEOPLE)]
        asked = rng.choice(len(tables), size=PEOPLE, p=shares)
        error = 0.0
        for k, table in enumerate(tables):
            shape = tuple(int(r) for r in SIZES[list(table)])
            cells = int(np.prod(shape))
            who = people[asked == k]
            cell = np.ravel_multi_index(tuple(who[:, i].astype(np.int64) for i in table), shape)
            kind = best_report(cells, total)
            p, q = support_probabilities(kind, cells, total)
            answers = report(cell, kind, cells, total, source)
            estimates = (supports(answers, cells) / len(who) - q) / (p - q)
            error += float(np.sum((estimates - proportions(codes, table).ravel()) ** 2))
        out.append(PEOPLE * error)
    return out


def known_effects(tables: list[tuple[int, ...]], codes: np.ndarray) -> np.ndarray:
    """Σ_{W≠∅} ‖π_W‖² of every table: by how much the bound exceeds the exact error, unless people are split."""
    squares = [float(np.sum(proportions(codes, t) ** 2)) for t in tables]
    return np.asarray(squares) - 1 / np.asarray([np.prod(SIZES[list(t)]) for t in tables])


def row(way: str, bound: float, predicted: float, simulated: list[float]) -> dict:
    mean = float(np.mean(simulated))
    return {
        "way": way,
        "bound": bound,
        "predicted": predicted,
        "simulated": mean,
        "simulation_error": float(np.std(simulated, ddof=1) / np.sqrt(len(simulated))),
        "simulated_over_predicted": mean / predicted,
    }


def measure(workload: str, total: float, codes: np.ndarray, runs: int) -> tuple[list[dict], Allocation]:
    tables = TABLES[workload]
    effects = known_effects(tables, codes)
    allocation = allocate(DOMAIN, total, learn=workload)
    arrays = allocation.workload.arrays(DOMAIN)
    split = best_split(arrays, single_blocks(arrays), total)
    product = ProductLaw(SIZES, split.epsilons)
    study = Study(codes, runs, 1000 * int(total) + len(tables))
    rows = []
    for way, law, bound in (
        ("optimum", allocation.design.law, allocation.error),
        ("Kronecker, best split", product, split.error),
    ):
        rows.append(row(way, bound, bound - float(effects.sum()), simulate_law(law, tables, study)))
    each = np.asarray(
        [
            report_error(best_report(int(np.prod(SIZES[list(t)])), total), int(np.prod(SIZES[list(t)])), total)
            for t in tables
        ]
    )
    for way, shares in (
        ("sampling, even", np.full(len(tables), 1 / len(tables))),
        ("sampling, best", np.sqrt(each) / np.sqrt(each).sum()),
    ):
        bound, predicted = float(np.sum(each / shares)), float(np.sum((each - effects) / shares))
        rows.append(row(way, bound, predicted, simulate_sampling(total, tables, shares, study)))
    return [{"workload": workload, "total_epsilon": total} | r for r in rows], allocation


def crossing(workload: str, effects: np.ndarray) -> float:
    """Total ε above which the optimum's error is below best sampling's; ``effects`` zero compares the bounds."""
    tables = TABLES[workload]
    low, high = 1.0, 16.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        each = np.asarray(
            [
                report_error(best_report(int(np.prod(SIZES[list(t)])), middle), int(np.prod(SIZES[list(t)])), middle)
                for t in tables
            ]
        )
        shares = np.sqrt(each) / np.sqrt(each).sum()
        optimum = allocate(DOMAIN, middle, learn=workload).error - float(effects.sum())
        ahead = optimum < float(np.sum((each - effects) / shares))
        low, high = (low, middle) if ahead else (middle, high)
    return high


def chart(rows: list[dict]) -> str:
    figure = new_figure(9.0, 4.0)
    for k, (workload, axes) in enumerate(zip(TABLES, figure.subplots(1, 2), strict=True)):
        for way, colour in zip(dict.fromkeys(r["way"] for r in rows), COLOURS, strict=False):
            mine = [r for r in rows if r["workload"] == workload and r["way"] == way]
            x = [r["total_epsilon"] for r in mine]
            axes.plot(x, [r["predicted"] for r in mine], "-", color=colour, label=way)
            axes.plot(x, [r["simulated"] for r in mine], "o", color=colour, markersize=4)
        axes.set(yscale="log", xlabel="total epsilon", title=workload)
        if not k:
            axes.set_ylabel("n × summed squared error (dots: simulated)")
            axes.legend(frameon=False)
    return figure_svg(figure)


def text(results: dict) -> str:
    lines = [
        "# What one total ε buys on Adult's nine attributes",
        "",
        f"Workload error n E‖π̂ − π‖² summed over tables; {results['runs']} runs of {PEOPLE} people drawn from Adult. "
        "Bound: for every population. Gap: by how much, relative, a more accurate law of that total is not excluded.",
        "",
        "| workload | total ε | way | bound | predicted | simulated ± s.e. | simulated/predicted | gap |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in results["rows"]:
        gap = f"{r['gap']:.1e}" if "gap" in r else ""
        lines.append(
            f"| {r['workload']} | {r['total_epsilon']:g} | {r['way']} | {r['bound']:.5g} | {r['predicted']:.5g} | "
            f"{r['simulated']:.5g} ± {r['simulation_error']:.2g} | {r['simulated_over_predicted']:.3f} | {gap} |"
        )
    lines.append("")
    for w, e in results["crossing"].items():
        bounds = results["crossing_of_bounds"][w]
        lines.append(f"Sampling wins {w} below a total ε of {e:.2f} (by the bounds for any population: {bounds:.2f}).")
    lines += [
        "",
        "## The search against the convex program",
        "",
        f"{len(UNLIKE)} lists of 3 to 8 attributes of unlike sizes; by how much, relative, the search's error exceeds the "
        "program's (below 0: the program's own tolerance).",
        "",
        "| workload | total ε | smallest | largest excess | program's largest gap | search's largest gap |",
        "|---|---|---|---|---|---|",
    ]
    for r in results["agreement"]:
        numbers = ("smallest_excess", "largest_excess", "largest_program_gap", "largest_search_gap")
        lines.append(
            f"| {r['workload']} | {r['total_epsilon']:g} | " + " | ".join(f"{r[k]:.1e}" for k in numbers) + " |"
        )
    lines += [
        "",
        "## Beyond what can be listed",
        "",
        "Sizes 2, 3, 4, …; the gap is certified. Kronecker: its best split's error, times the search's.",
        "",
        "| workload | attributes | total ε | error | gap | Kronecker | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in results["beyond"]:
        lines.append(
            f"| {r['workload']} | {r['attributes']} | {r['total_epsilon']:g} | {r['error']:.4g} | {r['gap']:.1e} | "
            f"{r['kronecker']:.3g} | {r['seconds']:.1f} |"
        )
    lines.append("")
    return "\n".join(lines)


def main(runs: int) -> None:
    codes = adult_codes()
    started, rows = time.perf_counter(), []
    for workload in TABLES:
        for total in TOTALS:
            measured, allocation = measure(workload, total, codes, runs)
            measured[0]["gap"] = allocation.gap
            rows += measured
            for r in measured:
                print({k: v if isinstance(v, str) else float(f"{v:.5g}") for k, v in r.items()}, flush=True)
    results = {
        "runs": runs,
        "people": PEOPLE,
        "rows": rows,
        "crossing": {w: crossing(w, known_effects(t, codes)) for w, t in TABLES.items()},
        "crossing_of_bounds": {w: crossing(w, np.zeros(len(t))) for w, t in TABLES.items()},
        "agreement": agreement(),
        "beyond": beyond(),
        "worst_deviation": max(abs(r["simulated_over_predicted"] - 1) for r in rows),
        "seconds": time.perf_counter() - started,
    }
    target = Path(__file__).parent / "results"
    target.mkdir(exist_ok=True)
    (target / "allocation.json").write_text(json.dumps(results, indent=1) + "\n")
    (target / "allocation.md").write_text(text(results))
    (target / "allocation.svg").write_text(chart(rows))
    print("crossing", results["crossing"], results["crossing_of_bounds"], "worst deviation", results["worst_deviation"])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 80)
