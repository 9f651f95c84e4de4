"""How near to the best of all mechanisms mixtures of questions come: error over the bound that no mechanism passes.

Run as ``python benchmarks/any_mechanism.py``; ten minutes on one core. Writes any_mechanism.csv (200 random
workloads, each with published ways of asking beside the mixture) and any_mechanism.md. All ways on real people's pairs are
in ``rivals.py``.

Errors are predicted ones: Σ n E‖π̂ − π‖² over the workload's tables at the uniform population. Those of mixtures are drawn, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import published
import pyarrow as pa
from count_queries import write_csv, write_text
from people import people_table

from optrr import SampledTables
from optrr.domain.datasets import adult, adult_domain
from optrr.domain.domain import Domain
from optrr.records.counts import encoded_batches
from optrr_solvers.allocating.energy import error_bound
from optrr_solvers.allocating.mixture import mixture
from optrr_solvers.allocating.workload import TableWorkload
from optrr_solvers.partition import singles

TOTALS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
WORKLOADS = 200
RUNS = 20
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
    mixed = mixture(published.wanted(domain.sizes.tolist(), width), total)
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


TITLES = {
    "mixture": "mixture of questions",
    "sampling": "random tables, combined",
    "apart": "by themselves",
    "calm": "CALM's groups",
    "parity": "random parities",
    "optimum": "optimum over full records",
}


def report(rows: list[dict], drawn: list[dict]) -> str:
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
    return [float(str(r[k])) for r in rows for k in TITLES]


def main() -> None:
    rows = [measured(case) for case in random_cases(WORKLOADS)]
    write_csv("any_mechanism.csv", rows)
    write_text("any_mechanism.md", report(rows, list(simulated(RUNS))))


if __name__ == "__main__":
    main()
