"""Errors of mixtures of local queries for other sizes than Adult's, and for required variances or standard errors.

Also errors of mixtures that keep records, compared with the best noise distribution of ``optrr.allocate``.

Takes three minutes. Writes questions.csv, kept_records.csv, required_variances.csv, required_errors.csv, questions.md.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from writing import write_csv, write_text

import optrr
from optrr.allocation import WantedTable
from optrr.allocation.sampled_tables import SampledTables
from optrr.core.domain.datasets import adult_domain
from optrr.core.domain.domain import Domain
from optrr_solvers.allocation.any_mechanism import error_bound, total_bound
from optrr_solvers.allocation.mixture import mixture
from optrr_solvers.allocation.workload import pairs
from optrr_solvers.partition import singles

SEED = 9
SIZES = {
    "nine binary attributes": [2] * 9,
    "six ternary attributes": [3] * 6,
    "sizes 2, 3, 4, 5, 2, 6": [2, 3, 4, 5, 2, 6],
}
TOTALS = (0.5, 1.0, 2.0, 4.0, 6.0)
REQUIRED = (0.25, 0.5, 1.0, 2.0, 4.0)
ADULTS = 32_561
# Respondents with whom standard errors stand for variances; their number divides out.
MANY = 10**6


def over_bound(sizes: list[int], total: float) -> float:
    """Error of all pair tables over the bound."""
    workload = pairs(np.asarray(sizes), singles(len(sizes)))
    return mixture(workload, total).error / error_bound(workload, total)


def mixtures() -> Iterator[dict[str, object]]:
    for name, sizes in SIZES.items():
        for total in TOTALS:
            yield {"sizes": name, "total": total, "over the bound": over_bound(sizes, total)}
    yield {"sizes": "100 different attributes", "total": 1.0, "over the bound": over_bound([*range(2, 102)], 1.0)}


def kept(name: str, sizes: list[int], total: float) -> dict[str, object]:
    """Error of all pair tables over the bound, and of all tables of three attributes, which nobody asked for."""
    m, domain = len(sizes), Domain.of({f"a{i}": r for i, r in enumerate(sizes)})
    workload = pairs(np.asarray(sizes), singles(m))
    mixed = mixture(workload, total, whole=True)
    names = tuple(tuple(domain.names[i] for i in q.attributes) for q in mixed.questions)
    ways = {
        "questions": SampledTables(domain, names, mixed.shares, total, tuple(q.report for q in mixed.questions)),
        "change sets": optrr.allocate(domain, total, workload="pairs").design,
    }
    row: dict[str, object] = {"sizes": name, "total": total, "number": len(mixed.questions)}
    for way, asking in ways.items():
        row[way] = sum(map(asking.table_error, combinations(domain.names, 2))) / error_bound(workload, total)
        row[f"{way}, triples"] = sum(map(asking.table_error, combinations(domain.names, 3)))
    return row


def all_kept() -> Iterator[dict[str, object]]:
    sizes = {"Adult's nine attributes": [a.size for a in adult_domain()], **SIZES, "admissions": [6, 2, 2]}
    for name, each in sizes.items():
        for total in (*TOTALS, 8.0):
            yield kept(name, each, total)


def required(people: str, domain: Domain, epsilons: np.ndarray) -> dict[str, object]:
    """Totals for variances as small as under randomized response at these ε_i, and for flips as rare."""
    eigenvalues = np.expm1(epsilons) / (np.expm1(epsilons) + domain.sizes)
    errors = np.sqrt((1 - 1 / domain.sizes) / (MANY * domain.sizes)) / eigenvalues
    tables = [WantedTable((name,), standard_error=e) for name, e in zip(domain.names, errors.tolist(), strict=True)]
    asked = optrr.allocate(domain, workload=tables, n=MANY)
    return {
        "people": people,
        "required": " ".join(f"{e:.3g}" for e in np.unique(epsilons)),
        "questions": asked.epsilon,
        "flips": optrr.design(domain, epsilons).epsilon,
        "any mechanism": total_bound(domain.sizes, epsilons),
    }


def variances() -> Iterator[dict[str, object]]:
    adult = Domain.of({a.name: a.size for a in adult_domain()})
    for epsilon in REQUIRED:
        yield required("Adult", adult, np.full(adult.m, epsilon))
    rng = np.random.default_rng(SEED)
    for k in range(20):
        sizes = rng.integers(2, 12, int(rng.integers(2, 7)))
        domain = Domain.of({f"a{i}": int(r) for i, r in enumerate(sizes)})
        yield required(f"setting {k + 1}, sizes {' '.join(map(str, sizes))}", domain, rng.uniform(0.2, 2.0, sizes.size))


def errors_wanted(workload: str, error: float) -> dict[str, object]:
    """Least totals for a standard error of every table, of Adult's 32,561 people."""
    made = optrr.allocate(adult_domain(), workload=workload, n=ADULTS, standard_error=error)
    row: dict[str, object] = {"tables": workload, "standard error": error, "questions": made.best.epsilon}
    return row | {"change sets": made.option("optimum").epsilon, "any mechanism": made.total_bound}


def report(mixed: list[dict], keeping: list[dict], needed: list[dict], wanted: list[dict]) -> str:
    lines = ["All pair tables: error of the mixture of questions over the bound for any mechanism.", ""]
    lines += ["| attributes | " + " | ".join(f"ε = {t:g}" for t in TOTALS) + " |", "|---" * (len(TOTALS) + 1) + "|"]
    for name in dict.fromkeys(r["sizes"] for r in mixed):
        over = {r["total"]: f"{r['over the bound']:.3f}" for r in mixed if r["sizes"] == name}
        lines.append(f"| {name} | " + " | ".join(over.get(t, "–") for t in TOTALS) + " |")
    lines += [
        "",
        "The same where records are kept (mixtures of questions / the best law of change sets), and how large the "
        "error of all "
        "tables of three attributes, which were not asked for, is beside that law's.",
        "",
        "| attributes | ε | questions | over the bound | change sets | three attributes |",
        "|---|---|---|---|---|---|",
    ]
    for r in keeping:
        over, sets = float(r["questions"]), float(r["change sets"])
        triples = float(r["questions, triples"]) / float(r["change sets, triples"])
        lines.append(f"| {r['sizes']} | {r['total']:g} | {r['number']} | {over:.3f} | {sets:.3f} | × {triples:.2f} |")
    lines += ["", "Total ε for one-way tables as accurate as under randomized response at ε_i.", ""]
    lines += ["| people | ε_i | questions | flips, whole records | any mechanism at least |", "|---|---|---|---|---|"]
    for r in needed:
        totals = " | ".join(f"{r[k]:.4f}" for k in ("questions", "flips", "any mechanism"))
        lines.append(f"| {r['people']} | {r['required']} | {totals} |")
    lines += ["", f"Total ε for a standard error of every table of Adult's {ADULTS} people.", ""]
    lines += ["| tables | standard error | questions | change sets | any mechanism at least |", "|---|---|---|---|---|"]
    for r in wanted:
        totals = " | ".join(f"{r[k]:.3f}" for k in ("questions", "change sets", "any mechanism"))
        lines.append(f"| {r['tables']} | {r['standard error']:g} | {totals} |")
    return "\n".join(lines)


def main() -> None:
    mixed, keeping, needed = list(mixtures()), list(all_kept()), list(variances())
    wanted = [errors_wanted(learn, error) for learn in ("pairs", "marginals") for error in (0.02, 0.01, 0.005)]
    write_csv("questions.csv", mixed)
    write_csv("kept_records.csv", keeping)
    write_csv("required_variances.csv", needed)
    write_csv("required_errors.csv", wanted)
    write_text("questions.md", report(mixed, keeping, needed, wanted))


if __name__ == "__main__":
    main()
