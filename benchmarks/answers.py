"""Levels of tests and coverage of measures from answers to local queries, in simulated surveys.

Takes three minutes. The most accurate mixtures of local queries for all pair tables of three groups of people: applicants to
Berkeley (3 attributes), Adult (4) and the 1000 Genomes Project (superpopulation and 3 markers); ε = .5, 1, 2, 4; 2,000 and
20,000 people. Each survey has new answers of all people. Levels: one pair of attributes is independent, with the
margins of the data; how often tests at 5 % reject (RUNS surveys), and at 0.1 % in all. Coverage: the pair's own table;
how often 95 % intervals hold the true value (COVERED surveys). Then tests within strata, and a log-linear model. Writes
answers.csv, answers_strata.csv and answers.md.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from people import ADMISSIONS, applicants, people_table
from writing import markdown, write_csv, write_text

from optrr import Domain, count
from optrr.allocation.combining import Answered, answered_table
from optrr.allocation.sampled_tables import SampledTables
from optrr.allocation.supports import report_subsets
from optrr.analysis.estimated import model_estimated, test_estimated
from optrr.analysis.loglinear.fitting import Terms
from optrr.analysis.measures import Comparing
from optrr.analysis.measures.measure import asked as rows_of
from optrr.analysis.measures.quantities import Inversion, value_at
from optrr.core.domain.datasets import adult, adult_domain
from optrr.core.estimation.derived import derive
from optrr.core.estimation.statistics import entropy, phi_squared
from optrr.core.estimation.table import EstimatedTable
from optrr_solvers.allocation.mixture import mixture
from optrr_solvers.allocation.workload import pairs
from optrr_solvers.arrays import FloatArray
from optrr_solvers.partition import singles
from optrr_solvers.randomness import as_source

SEED = 0
RUNS, COVERED, TAIL = 300, 50, 0.025
TOTALS, PEOPLE = (0.5, 1.0, 2.0, 4.0), (2000, 20_000)
GROUPS = {"Berkeley": ("department", "admitted"), "Adult": ("sex", "income"), "Genomes": ("people", "marker 1")}
STRATA, STRATA_RUNS = ((1.0, 4526), (2.0, 4526), (4.0, 4526), (1.0, 20_000), (2.0, 20_000)), 200
WITHIN = ("conditional-independence", "common-association", "same-odds-ratios")
COVERAGES = ("odds ratio", "risk difference", "mean", "V", "entropy")


@cache
def population(name: str) -> tuple[Domain, FloatArray]:
    """The attributes and the table of everybody."""
    if name == "Berkeley":
        table = applicants()
        return ADMISSIONS, table / table.sum()
    if name == "Adult":
        domain = adult_domain().subset(("marital-status", "race", "sex", "income"))
        return domain, count(adult(), adult_domain(), domain.names, allow_extra=True).proportions
    with people_table() as path, path.open() as file:
        rows = [[row[1], *row[2:5]] for row in list(csv.reader(file))[1:]]
    known = sorted({row[0] for row in rows})
    domain = Domain.of({"people": known, "marker 1": 3, "marker 2": 3, "marker 3": 3})
    table = np.zeros(tuple(domain.sizes))
    for first, *markers in (row for row in rows if all(m in "012" and m for m in row[1:])):
        table[(known.index(first), *map(int, markers))] += 1
    return domain, table / table.sum()


def pair_table(name: str, pair: tuple[str, ...]) -> FloatArray:
    """Of two of the attributes, in this order."""
    domain, table = population(name)
    kept = domain.indices(pair)
    margin = table.sum(axis=tuple(i for i in range(domain.m) if i not in kept))
    return margin if kept[0] < kept[1] else margin.T


@cache
def asked(name: str, total: float) -> SampledTables:
    """The most accurate questions for all pair tables."""
    domain, _ = population(name)
    mixed = mixture(pairs(np.asarray(domain.sizes), singles(domain.m)), total)
    names = tuple(tuple(domain.names[i] for i in q.attributes) for q in mixed.questions)
    return SampledTables(domain, names, mixed.shares, total, tuple(q.report for q in mixed.questions))


def survey(
    asking: SampledTables, pair: tuple[str, ...], table: FloatArray, n: int, rng: np.random.Generator
) -> EstimatedTable:
    """What n people of a pair's table tell about it; other attributes, of which nothing depends, have their first value."""
    wanted, source, told = asking.domain.indices(pair), as_source(rng), []
    for k, people in enumerate(rng.multinomial(n, asking.shares).tolist()):
        members = asking.indices[k]
        shared = [i for i in members if i in wanted]
        if not shared or not people:
            continue
        records = np.zeros((people, asking.domain.m), dtype=np.int64)
        records[:, list(wanted)] = np.stack(
            np.unravel_index(rng.choice(table.size, people, p=table.ravel()), table.shape), 1
        )
        report, shape = asking.subset_reports[k], asking.shapes[k]
        subsets = report_subsets(records[:, list(members)], report, shape, asking.answer_epsilon, source)
        places = tuple(members.index(i) for i in shared), tuple(wanted.index(i) for i in shared)
        supports = asking._counted(k, subsets, shared)
        told.append(Answered(report, shape, asking.answer_epsilon, *places, supports, people))
    return answered_table(asking.domain.subset(pair), told)


@dataclass(frozen=True)
class Setting:
    """Who is asked at which ε, and how many; ``numbers`` are of drawn surveys."""

    name: str
    total: float
    n: int
    seed: int

    @property
    def pair(self) -> tuple[str, ...]:
        """The attributes that are looked at."""
        return GROUPS[self.name]

    def row(self, runs: int, covered: int) -> dict[str, object]:
        """Shares rejected and covered."""
        asking, true = asked(self.name, self.total), pair_table(self.name, self.pair)
        independent = np.outer(true.sum(axis=1), true.sum(axis=0))
        rng = np.random.default_rng(self.seed)
        p = np.array([p_values(survey(asking, self.pair, independent, self.n, rng), independent) for _ in range(runs)])
        held = [holds(survey(asking, self.pair, true, self.n, rng), true) for _ in range(covered)]
        out: dict[str, object] = {"people": self.name, "total": self.total, "n": self.n}
        out |= {
            k: float(v) for k, v in zip(("independence", "trend", "goodness"), (p < 0.05).mean(axis=0), strict=True)
        }
        out |= {"at 0.1 %": float((p < 0.001).mean())}
        return out | {k: float(v) for k, v in zip(COVERAGES, np.mean(held, axis=0), strict=True)}


def p_values(table: EstimatedTable, true: FloatArray) -> list[float]:
    """Of the three tests."""
    tested = (test_estimated(table), test_estimated(table, "trend"))
    return [*(t.p_value for t in tested), test_estimated(table, "goodness-of-fit", proportions=true).p_value]


def holds(table: EstimatedTable, true: FloatArray) -> list[bool]:
    """Whether intervals hold what they are about."""
    out, observed = [], table.observed.ravel()
    for name in ("odds-ratio", "risk-difference", "means"):
        _, odds = next(rows_of(table.domain, name, Comparing()))
        low, high = Inversion.of(odds, table.sampling, observed).limits(TAIL)
        out.append(low <= odds.position(value_at(odds, true.ravel())) <= high)
    numbers = float(np.sqrt(phi_squared(true).value / (min(true.shape) - 1))), entropy(true)
    for name, value in zip(("cramers-v", "entropy"), numbers, strict=True):
        derived = derive(table, name)
        out.append(derived.lower <= value <= derived.upper)
    return out


def settings() -> Iterator[Setting]:
    for seed, (name, total, n) in enumerate(product(GROUPS, TOTALS, PEOPLE), SEED + 1):
        yield Setting(name, total, n, seed)


def strata(total: float, n: int, runs: int, covered: int) -> dict[str, object]:
    """Levels within Berkeley's departments, where gender and admission are made independent, and a model's coverage.

    70 % of the people are asked about all three attributes at once, the others about gender and admission.
    """
    domain, true = population("Berkeley")
    pair = ("gender", "admitted")
    names = (*pair, "department")
    asking = SampledTables(domain, (names, pair), np.array([0.7, 0.3]), total)
    within = np.einsum("gd,ad->gad", true.sum(axis=1), true.sum(axis=0)) / true.sum(axis=(0, 1))
    rng, p, held = np.random.default_rng([SEED + n, round(10 * total)]), [], []
    for _ in range(runs):
        table = survey(asking, names, within, n, rng)
        p.append([test_estimated(table, name).p_value for name in WITHIN])
    own = pair_table("Berkeley", pair)
    logs = np.log(own)
    values = logs[1, 0] - logs[0, 0], logs[0, 1] - logs[0, 0], logs[1, 1] + logs[0, 0] - logs[0, 1] - logs[1, 0]
    terms = Terms.of(domain.subset(pair), [pair])
    for _ in range(covered):
        limits = model_estimated(survey(asking, pair, own, n, rng), terms).limits
        held.append([low <= value <= high for value, (low, high) in zip(values, limits, strict=True)])
    levels = dict(zip(WITHIN, (np.array(p) < 0.05).mean(axis=0).tolist(), strict=True))
    return {"total": total, "n": n, **levels, "coefficients": float(np.mean(held))}


def report_of_strata(rows: list[dict[str, object]]) -> str:
    """A table of both."""
    columns = (*WITHIN, "coefficients")
    lines = [
        f"Within Berkeley's departments tests at 5 % reject ({STRATA_RUNS} surveys), and 95 % intervals of a model's",
        f"coefficients hold ({COVERED} surveys):",
        "",
        markdown([{"ε": f"{r['total']:g}", "n": r["n"]} | {k: f"{r[k]:.1%}" for k in columns} for r in rows]),
    ]
    return "\n".join(lines)


def report(rows: list[dict[str, object]]) -> str:
    tests, numbers = ("independence", "trend", "goodness"), [*COVERAGES]
    mean = {k: np.mean([r[k] for r in rows]) for k in (*tests, "at 0.1 %", *numbers)}
    shown = [
        {"people": r["people"], "ε": f"{r['total']:g}", "n": r["n"]} | {k: f"{r[k]:.1%}" for k in (*tests, *numbers)}
        for r in rows
    ]
    lines = [
        f"{len(rows)} settings, {RUNS} surveys each for levels and {COVERED} for coverage. On average tests at 5 % "
        "reject",
        ", ".join(f"{mean[k]:.2%} ({k})" for k in tests)
        + f", and at 0.1 % {mean['at 0.1 %']:.2%}; 95 % intervals hold",
        ", ".join(f"{mean[k]:.1%} ({k})" for k in numbers) + ".",
        "",
        markdown(shown),
    ]
    return "\n".join(lines)


def main() -> None:
    rows = [setting.row(RUNS, COVERED) for setting in settings()]
    within = [strata(total, n, STRATA_RUNS, COVERED) for total, n in STRATA]
    write_csv("answers.csv", rows)
    write_csv("answers_strata.csv", within)
    write_text("answers.md", f"{report(rows)}\n{report_of_strata(within)}")


if __name__ == "__main__":
    main()
