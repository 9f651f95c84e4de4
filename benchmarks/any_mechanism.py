"""How near to the best of all mechanisms every way of asking comes: error over the bound that no mechanism passes.

Run as ``python benchmarks/any_mechanism.py``; ten minutes on one core. Writes any_mechanism.csv (200 random
workloads), any_mechanism_pairs.csv (all pairs of three sets of people), any_mechanism.svg (of Adult's) and any_mechanism.md.

Errors are predicted ones: Σ n E‖π̂ − π‖² over the workload's tables at the uniform population. Those of mixtures are drawn, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
from count_queries import save, write_csv, write_text
from matplotlib import pyplot as plt
from matplotlib.ticker import NullLocator
from people import people_table

from optrr import SampledTables, allocate
from optrr.budgets.workload import WantedTable, workload_of
from optrr.domain.datasets import adult, adult_domain
from optrr.domain.domain import Domain
from optrr.mechanisms.supports import report_error
from optrr.records.counts import encoded_batches
from optrr.show.charts import COLOURS
from optrr_solvers.allocating.energy import error_bound
from optrr_solvers.allocating.mixture import best_shares, mixture
from optrr_solvers.allocating.questions import Question, whole_table
from optrr_solvers.allocating.workload import TableWorkload
from optrr_solvers.partition import singles

TOTALS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
WORKLOADS = 200
RUNS = 20
# The picture goes up to this many times the bound.
MOST_SHOWN = 60
DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Case:
    """One random workload at one total."""

    kind: str
    sizes: tuple[int, ...]
    total: float
    workload: TableWorkload


def random_cases(count: int) -> Iterator[Case]:
    """m 2..30, r 2..50: pairs, marginals, triples, and tables of mixed weights; 30 of 200 have no two sizes alike."""
    rng = np.random.default_rng(31)
    for k in range(count):
        kind, total = ("pairs", "marginals", "triples", "mixed")[k % 4], TOTALS[k // 4 % len(TOTALS)]
        m = int(rng.integers(3 if kind == "triples" else 2, 11 if kind == "triples" else 31))
        largest = int(rng.choice([3, 6, 15, 50]))
        if k % 7 == 0:
            m = min(m, 15)
            sizes = rng.choice(np.arange(2, 51), m, replace=False)
        else:
            sizes = rng.integers(2, largest + 1, m)
        if kind == "triples":
            sizes = np.minimum(sizes, 40)
        width = {"pairs": 2, "marginals": 1, "triples": 3, "mixed": 2}[kind]
        tables = list(combinations(range(m), width))
        weights = np.ones(len(tables))
        if kind == "mixed":
            tables += [(i,) for i in range(m)]
            chosen = rng.choice(len(tables), max(1, len(tables) // 2), replace=False)
            tables, weights = [tables[i] for i in chosen], rng.uniform(0.1, 5, len(chosen))
        yield Case(kind, tuple(sizes.tolist()), total, TableWorkload(sizes, singles(m), tuple(tables), weights))


def measured(case: Case) -> dict[str, object]:
    """Error over the bound of the mixture, of whole tables with the best shares, and of these without combining them."""
    bound, sizes = error_bound(case.workload, case.total), case.workload.sizes
    mixed = mixture(case.workload, case.total)
    questions = [Question(t, whole_table(sizes[list(t)].tolist(), case.total)) for t in case.workload.tables]
    sampled = best_shares(case.workload, questions, case.total).error
    apart = [report_error("ss", math.prod(sizes[list(t)].tolist()), case.total) for t in case.workload.tables]
    row: dict[str, object] = {"kind": case.kind, "m": len(case.sizes), "total": case.total}
    row |= {"mixture": mixed.error / bound, "questions": len(mixed.questions), "sampling": sampled / bound}
    return row | {"apart": float(np.sum(np.sqrt(case.workload.weights * apart)) ** 2) / bound}


WAYS = {
    "mixture": "mixture of questions",
    "sampling": "one random pair, answers combined",
    "apart": "one random pair, each table by itself",
    "unary": "the same by unary encoding, drawn evenly (CALM's groups)",
    "optimum": "optimum over full records",
    "whole-record": "randomized response on the whole record",
    "kronecker": "every attribute on its own",
}
DASHES = ("-", "-", "--", ":", "-", "--", ":")


def all_pairs(people: str, domain: Domain, totals: tuple[float, ...]) -> Iterator[dict[str, object]]:
    """Every way of asking for all pairs of some people's attributes."""
    cells = [domain[a].size * domain[b].size for a, b in combinations(domain.names, 2)]
    for total in totals:
        allocation = allocate(domain, total, learn="pairs")
        errors = {o.name: o.error for o in allocation.ways}
        errors["apart"] = sum(math.sqrt(report_error("ss", c, total)) for c in cells) ** 2
        errors["unary"] = len(cells) * sum(report_error("oue", c, total) for c in cells)
        errors.setdefault("mixture", errors["sampling"])
        ratios = {name: errors[name] / allocation.error_bound for name in WAYS}
        yield {"people": people, "total": total, "bound": allocation.error_bound / len(cells), **ratios}


def picture(rows: list[dict]) -> None:
    figure, axes = plt.subplots(figsize=(7, 4.4), layout="constrained")
    shown = {name: label for name, label in WAYS.items() if min(r[name] for r in rows) < MOST_SHOWN}
    for k, (name, label) in enumerate(shown.items()):
        axes.plot(
            [r["total"] for r in rows],
            [r[name] for r in rows],
            DASHES[k],
            marker="o",
            markersize=3,
            color=COLOURS[k % len(COLOURS)],
            label=label,
        )
    axes.axhline(1, color="black", linewidth=1)
    note = {"xytext": (4, -11), "textcoords": "offset points", "fontsize": 8}
    axes.annotate("no mechanism can be below", (rows[2]["total"], 1), **note)
    axes.set(xscale="log", yscale="log", xlabel="total ε of a person (nats)", ylabel="error over the bound")
    axes.set_title("Adult, all pairs of nine attributes")
    axes.set_xticks([r["total"] for r in rows], [f"{r['total']:g}" for r in rows])
    axes.xaxis.set_minor_locator(NullLocator())
    # what is further above has its place in the table
    axes.set_ylim(0.7, MOST_SHOWN)
    axes.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.legend(fontsize=7, loc="upper center")
    save(figure, "any_mechanism.svg")


def asked(domain: Domain, total: float) -> SampledTables:
    """The mixture for all pairs."""
    wanted = workload_of([WantedTable(pair) for pair in combinations(domain.names, 2)], domain)
    mixed = mixture(wanted.arrays(domain), total)
    names = tuple(tuple(domain.names[i] for i in q.attributes) for q in mixed.questions)
    return SampledTables(domain, names, mixed.shares, total, tuple(q.report for q in mixed.questions))


def populations() -> Iterator[tuple[str, Domain, np.ndarray]]:
    """People by name, their domain and codes: Adult, Berkeley's admissions, and seven markers of the 1000 Genomes Project."""
    domain = adult_domain()
    yield "Adult", domain, np.concatenate(list(encoded_batches(adult(), domain)))
    admitted = np.genfromtxt(DATA / "ucb_admissions.csv", delimiter=",", dtype=str, skip_header=1)
    codes = np.stack([np.unique(column, return_inverse=True)[1] for column in admitted[:, :3].T], axis=1)
    berkeley = Domain.of({"department": 6, "gender": 2, "admitted": 2})
    yield "admissions", berkeley, np.repeat(codes, admitted[:, 3].astype(int), axis=0)
    with people_table() as table:
        people = np.genfromtxt(table, delimiter=",", dtype=str, skip_header=1)[:, 1:9]
    markers = np.column_stack([np.unique(people[:, 0], return_inverse=True)[1], people[:, 1:].astype(int)])
    names = ["superpopulation", *(f"marker {k}" for k in range(1, 8))]
    yield "genomes", Domain.of(dict(zip(names, [5, *[3] * 7], strict=True))), markers


def simulated(runs: int) -> Iterator[dict[str, object]]:
    """Error drawn over error predicted, less what the law of the people takes off; coverage of 95 % intervals."""
    rng, n = np.random.default_rng(7), 5_000
    for name, domain, codes in populations():
        plain = Domain.of({a.name: a.size for a in domain})
        pairs = list(combinations(domain.names, 2))
        truths = [_shares(codes[:, list(domain.indices(p))], domain.subset(p).sizes) for p in pairs]
        for total in (0.5, 1.0, 2.0, 4.0):
            way = asked(plain, total)
            predicted = sum(way.table_error(p) for p in pairs)
            errors, covered = [], []
            for _ in range(runs):
                chosen = codes[rng.integers(0, len(codes), n)]
                frame = pa.table(dict(zip(plain.names, chosen.T, strict=True)))
                answers = way.perturb(frame, int(rng.integers(1 << 30)))
                tables = [way.estimate(answers, p) for p in pairs]
                errors.append(
                    sum(n * float(np.sum((e.proportions - t) ** 2)) for e, t in zip(tables, truths, strict=True))
                )
                inside = [np.mean((e.lower <= t) & (t <= e.upper)) for e, t in zip(tables, truths, strict=True)]
                covered.append(float(np.mean(inside)))
            yield {
                "people": name,
                "total": total,
                "drawn over predicted": float(np.mean(errors)) / predicted,
                "standard error": float(np.std(errors, ddof=1)) / math.sqrt(runs) / predicted,
                "covered": float(np.mean(covered)),
            }


def _shares(codes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    flat = np.ravel_multi_index(tuple(codes.T), tuple(sizes.tolist()))
    return np.bincount(flat, minlength=int(np.prod(sizes))).reshape(sizes) / len(codes)


def report(rows: list[dict], ways: list[dict], drawn: list[dict]) -> str:
    lines = [
        f"{WORKLOADS} random workloads: error over the bound for any mechanism.",
        "",
        "| total ε | workloads | mixture, median | worst | random tables, combined, median | worst | by themselves, median |",
        "|---" * 7 + "|",
    ]
    for total in TOTALS:
        chosen = [r for r in rows if r["total"] == total]
        mixed, sampled, apart = (np.array([r[k] for r in chosen]) for k in ("mixture", "sampling", "apart"))
        lines.append(
            f"| {total:g} | {len(chosen)} | {np.median(mixed):.3f} | {mixed.max():.3f} | {np.median(sampled):.3f} | "
            f"{sampled.max():.3f} | {np.median(apart):.3f} |"
        )
    lines += [
        "",
        "All pairs: the bound, as n × squared error, mean per table, and what each way of asking has times that.",
        "",
    ]
    lines += ["| people | total ε | bound | " + " | ".join(WAYS.values()) + " |", "|---" * (len(WAYS) + 3) + "|"]
    for row in ways:
        ratios = " | ".join(f"{row[name]:.4g}" for name in WAYS)
        lines.append(f"| {row['people']} | {row['total']:g} | {row['bound']:.5g} | {ratios} |")
    lines += ["", f"Drawn, {RUNS} runs of 5,000 people each, all pairs:", ""]
    lines += [
        "| people | total ε | error drawn over predicted | its standard error | 95 % intervals that hold the truth |",
        "|---|---|---|---|---|",
    ]
    for r in drawn:
        error = f"{r['drawn over predicted']:.3f} | {r['standard error']:.3f}"
        lines.append(f"| {r['people']} | {r['total']:g} | {error} | {100 * r['covered']:.1f} % |")
    return "\n".join(lines) + "\n"


def probe() -> list[float]:
    """A hundredth of the work."""
    rows = [measured(c) for c in random_cases(3)]
    return [float(str(r[k])) for r in rows for k in ("mixture", "sampling", "apart")]


def main() -> None:
    rows = [measured(case) for case in random_cases(WORKLOADS)]
    write_csv("any_mechanism.csv", rows)
    ways = [
        row
        for people, domain, _ in populations()
        for row in all_pairs(people, domain, (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0))
    ]
    write_csv("any_mechanism_pairs.csv", ways)
    picture([row for row in ways if row["people"] == "Adult"])
    write_text("any_mechanism.md", report(rows, ways, list(simulated(RUNS))))


if __name__ == "__main__":
    main()
