"""Errors of mixtures of local queries relative to the lower bound for any ε-LDP mechanism.

Takes half an hour. Writes any_mechanism.csv and .md (200 random workloads, each with published protocols next to the
mixture) and any_mechanism_drawn.md. All protocols on pairs of real data are in ``rivals.py``.

Errors are predicted ones: Σ n E‖π̂ − π‖² over the workload's tables at the uniform population. Those of mixtures are
also simulated.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path

import numpy as np
import published
import pyarrow as pa
from people import people_table
from writing import measure_all, write_csv, write_text

from optrr import SampledTables
from optrr.allocation.combining import Answered, error_where
from optrr.core.domain.datasets import adult, adult_domain
from optrr.core.domain.domain import Domain
from optrr.core.records.counts import encoded_batches
from optrr_solvers.allocation.any_mechanism import error_bound
from optrr_solvers.allocation.mixture import mixture
from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.partition import singles

SEED = 7
TOTALS = (0.25, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0)
WORKLOADS = 200
# Surveys drawn of one way of asking, at least and at most, and how many random workloads.
RUNS, MOST_RUNS, DRAWN = 20, 400, 40
# People of whom answers are predicted: so many that whole numbers of them are as good as their questions' shares.
MANY = 1 << 40
# What counts as a larger error.
BETTER = 1e-3
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


WAYS = {
    "mixture": lambda workload, total: mixture(workload, total).error,
    "sampling": published.combined,
    "apart": published.apart,
    "calm": published.calm,
    "parity": published.parity,
    "optimum": published.optimum,
    "kronecker": published.kronecker,
    "whole-record": published.whole_record,
}


def measured(case: Case) -> dict[str, object]:
    """Error over the bound of every way; of the optimum over full records, where all tables count alike."""
    bound = error_bound(case.workload, case.total)
    known = {name: way for name, way in WAYS.items() if name != "optimum" or case.kind != "mixed"}
    ways = {name: math.nan for name in WAYS}
    ways |= {name: way(case.workload, case.total) / bound for name, way in known.items()}
    if np.nanmin(list(ways.values())) < 1 - 1e-9:
        raise AssertionError(f"below what no mechanism can be below: {case.kind}, {case.sizes}, {case.total}, {ways}")
    return {"kind": case.kind, "m": len(case.sizes), "total": case.total, **ways}


def asked(domain: Domain, total: float, width: int = 2) -> SampledTables:
    """The mixture for all pairs, or for all tables of another number of attributes."""
    return asked_for(domain, published.wanted(domain.sizes.tolist(), width), total)


def asked_for(domain: Domain, workload: TableWorkload, total: float) -> SampledTables:
    """The mixture for a workload."""
    mixed = mixture(workload, total)
    names = tuple(tuple(domain.names[i] for i in q.attributes) for q in mixed.questions)
    return SampledTables(domain, names, mixed.shares, total, tuple(q.report for q in mixed.questions))


def predicted_error(way: SampledTables, names: tuple[str, ...], table: np.ndarray) -> float:
    """n Σ Var of a table's cells among people of whom this is the true table; ``table_error`` is that of a uniform one."""
    wanted, answered = way.domain.indices(names), []
    for members, report, sizes, share in zip(way.indices, way.subset_reports, way.shapes, way.shares, strict=True):
        shared = [i for i in members if i in wanted]
        if shared:
            places = (tuple(of.index(i) for i in shared) for of in (members, wanted))
            answered.append(Answered(report, sizes, way.answer_epsilon, *places, np.zeros(0), round(share * MANY)))
    return MANY * error_where(answered, table)


def populations() -> Iterator[tuple[str, Domain, np.ndarray]]:
    """People by name, their domain and codes: Adult, Berkeley's admissions, and seven markers of the 1000 Genomes Project."""
    domain = adult_domain()
    yield "Adult", domain, np.concatenate(list(encoded_batches(adult(), domain, domain)))
    admitted = np.genfromtxt(DATA / "ucb_admissions.csv", delimiter=",", dtype=str, skip_header=1)
    codes = np.stack([np.unique(column, return_inverse=True)[1] for column in admitted[:, :3].T], axis=1)
    berkeley = Domain.of({"department": 6, "gender": 2, "admitted": 2})
    yield "admissions", berkeley, np.repeat(codes, admitted[:, 3].astype(int), axis=0)
    with people_table() as table:
        people = np.genfromtxt(table, delimiter=",", dtype=str, skip_header=1)[:, 1:9]
    markers = np.column_stack([np.unique(people[:, 0], return_inverse=True)[1], people[:, 1:].astype(int)])
    names = ["superpopulation", *(f"marker {k}" for k in range(1, 8))]
    yield "genomes", Domain.of(dict(zip(names, [5, *[3] * 7], strict=True))), markers


def simulated() -> Iterator[dict[str, object]]:
    """All pairs of each of the three sets of people."""
    rng = np.random.default_rng(SEED)
    for name, domain, codes in populations():
        plain = Domain.of({a.name: a.size for a in domain})
        pairs = dict.fromkeys(combinations(plain.names, 2), 1.0)
        for total in (0.5, 1.0, 2.0, 4.0):
            way = asked(plain, total)
            yield {"people": name, "total": total} | surveyed(way, pairs, codes, MOST_RUNS, rng)


def simulated_workloads() -> Iterator[dict[str, object]]:
    """Random workloads of up to five attributes, of people whose answers are skewed and depend on each other."""
    rng = np.random.default_rng(SEED + 1)
    small = (c for c in random_cases(10 * WORKLOADS) if len(c.sizes) <= 5 and max(c.sizes) <= 20)
    for case in islice(small, DRAWN):
        domain = Domain.of({f"a{i}": r for i, r in enumerate(case.sizes)})
        codes = np.stack([rng.choice(r, 50_000, p=rng.dirichlet(np.ones(r))) for r in case.sizes], axis=1)
        # half of the people answer every question as they answer the first, as far as it has the category
        alike = rng.random(len(codes)) < 0.5
        codes[alike] = codes[alike, :1] % case.sizes
        way = asked_for(domain, case.workload, case.total)
        tables = (tuple(domain.names[i] for i in t) for t in case.workload.tables)
        weighted = dict(zip(tables, case.workload.weights.tolist(), strict=True))
        drawn = surveyed(way, weighted, codes, MOST_RUNS, rng)
        yield {"kind": case.kind, "sizes": " ".join(map(str, case.sizes)), "total": case.total} | drawn


def surveyed(
    way: SampledTables, tables: dict[tuple[str, ...], float], codes: np.ndarray, runs: int, rng: np.random.Generator
) -> dict[str, float]:
    """Error drawn over predicted, for these people and for a uniform population; coverage of 95 % intervals.

    ``tables`` are weighted. Up to so many surveys are drawn, and no more once the first ratio's standard error is below 1 %.
    """
    n, names, weights = 5_000, way.domain.names, np.array(list(tables.values()))
    truths = [_shares(codes[:, list(way.domain.indices(t))], way.domain.subset(t).sizes) for t in tables]
    uniform = float(weights @ [way.table_error(t) for t in tables])
    predicted = float(weights @ [predicted_error(way, t, truth) for t, truth in zip(tables, truths, strict=True)])
    errors, covered = [], []
    for _ in range(runs):
        chosen = codes[rng.integers(0, len(codes), n)]
        answers = way.randomize(
            pa.table(dict(zip(names, chosen.T, strict=True))), random_state=int(rng.integers(1 << 30))
        )
        made = [way.estimate(answers, t) for t in tables]
        off = [n * float(np.sum((e.estimate - t) ** 2)) for e, t in zip(made, truths, strict=True)]
        errors.append(float(weights @ off))
        inside = [np.mean((e.lower <= t) & (t <= e.upper)) for e, t in zip(made, truths, strict=True)]
        covered.append(float(np.mean(inside)))
        if len(errors) >= RUNS and np.std(errors, ddof=1) / math.sqrt(len(errors)) < 0.01 * predicted:
            break
    return {
        "surveys": len(errors),
        "over predicted": float(np.mean(errors)) / predicted,
        "standard error": float(np.std(errors, ddof=1)) / math.sqrt(len(errors)) / predicted,
        "over uniform": float(np.mean(errors)) / uniform,
        "covered": float(np.mean(covered)),
    }


def _shares(codes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    flat = np.ravel_multi_index(tuple(codes.T), tuple(sizes.tolist()))
    return np.bincount(flat, minlength=int(np.prod(sizes))).reshape(sizes) / len(codes)


TITLES = {
    "mixture": "mixture of questions",
    "sampling": "random tables, combined",
    "apart": "by themselves",
    "calm": "CALM's groups",
    "parity": "random parities",
    "optimum": "optimum over full records",
}


def report(rows: list[dict]) -> str:
    lines = [
        f"{len(rows)} random workloads: error over the bound for any mechanism, median (largest).",
        "",
        "| total ε | workloads | " + " | ".join(TITLES.values()) + " |",
        "|---" * (len(TITLES) + 2) + "|",
    ]
    for total in TOTALS:
        chosen = [r for r in rows if r["total"] == total]
        columns = [np.array([r[name] for r in chosen if not math.isnan(r[name])]) for name in TITLES]
        shown = (f"{np.median(c):.3f} ({c.max():.4g})" if c.size else "" for c in columns)
        lines.append(f"| {total:g} | {len(chosen)} | " + " | ".join(shown) + " |")
    below = (f"in {sum(r['mixture'] > r[name] * (1 + BETTER) for r in rows)}" for name in TITLES)
    lines += [
        f"| any: the mixture's error is larger, by more than {BETTER:.1%} | {len(rows)} | " + " | ".join(below) + " |",
        "",
        "Where full records are more accurate than a mixture, they are what `optrr.allocate` takes.",
    ]
    return "\n".join(lines)


def report_drawn(people: list[dict], workloads: list[dict]) -> str:
    ratios = np.array([r["over predicted"] for r in workloads])
    within = np.mean([0.97 <= r["over predicted"] <= 1.03 for r in workloads])
    lines = [
        "Drawn, surveys of 5,000 people each: all pairs of three sets of people.",
        "",
        *_drawn(people, "people"),
        "",
        f"The same for {len(workloads)} random workloads and skewed people whose answers depend on each other: "
        f"{ratios.min():.3f} to {ratios.max():.3f} times what is predicted, {within:.0%} of them within .97 to 1.03.",
        "",
        *_drawn(workloads, "kind", "sizes"),
    ]
    return "\n".join(lines)


def _drawn(rows: list[dict], *names: str) -> list[str]:
    heads = (*names, "total ε", "surveys", "error drawn over predicted", "its standard error")
    more = ("over that of a uniform population", "95 % intervals that hold the truth")
    lines = ["| " + " | ".join((*heads, *more)) + " |", "|---" * (len(heads) + 2) + "|"]
    for r in rows:
        said = " | ".join(str(r[name]) for name in names)
        error = f"{r['over predicted']:.3f} | {r['standard error']:.3f} | {r['over uniform']:.3f}"
        lines.append(f"| {said} | {r['total']:g} | {r['surveys']} | {error} | {100 * r['covered']:.1f} % |")
    return lines


def main() -> None:
    rows = measure_all(measured, random_cases(WORKLOADS))
    write_csv("any_mechanism.csv", rows)
    write_text("any_mechanism.md", report(rows))
    write_text("any_mechanism_drawn.md", report_drawn(list(simulated()), list(simulated_workloads())))


if __name__ == "__main__":
    main()
