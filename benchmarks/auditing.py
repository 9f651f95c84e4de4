"""`optrr audit`: queries until each planted bug is caught, and false alarms over random right designs.

Queries are doubled from 250 until the bug is caught, at level 1e-6, in mechanisms of three kinds; right designs are of every
kind of law, with random sizes, ε_i and queries, at levels of 5 % and 1e-6.
"""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

import numpy as np
from broken_clients import BUGS, PROMISES_ONCE, mechanism_of

from optrr.devices.audit import AuditOptions, audit
from optrr.devices.result import Audit
from optrr.domain.domain import Domain
from optrr.mechanisms.mechanism import Mechanism
from optrr_solvers import Problem, solve
from optrr_solvers.laws import BlockLaw, CountLaw, FewChangesLaw, Law, ProductLaw, TableLaw
from optrr_solvers.laws.few_changes import joint_law

RESULTS = Path(__file__).parent / "results"
MOST = 1_000_000
LEVELS = (0.05, 1e-6)
# Sizes and ε_i in which the bugs are planted.
PLANTED = {
    "five attributes": ([2, 3, 5, 7, 5], [1.0, 0.6, 1.2, 0.8, 0.7]),
    "nine like Adult's": ([9, 16, 7, 15, 6, 5, 2, 16, 2], [1.0] * 9),
    "two of twelve": ([12, 12], [2.0, 1.5]),
}


def queries_until_caught(mechanism: Mechanism, name: str) -> tuple[int | None, str]:
    """The budget at which a bug is caught, and the checks that catch it; None above a million."""
    client, queries = BUGS[name](mechanism), 250
    while True:
        result = audit(mechanism, client, AuditOptions(queries, once=name in PROMISES_ONCE))
        if not result.holds:
            return queries, ", ".join(f.check for f in result.findings if f.violates)
        if queries == MOST:
            return None, ""
        queries = min(2 * queries, MOST)


def power() -> list[dict[str, object]]:
    """One row for each bug and mechanism."""
    rows: list[dict[str, object]] = []
    for kind, (sizes, epsilons) in PLANTED.items():
        mechanism = mechanism_of(sizes, epsilons)
        for name in BUGS:
            started = time.perf_counter()
            queries, checks = queries_until_caught(mechanism, name)
            row = {"mechanism": kind, "bug": name, "queries": queries, "caught by": checks}
            rows.append(row)
            print(row, f"{time.perf_counter() - started:.1f} s", flush=True)
    return rows


def random_law(rng: np.random.Generator, number: int) -> tuple[str, Law]:
    """A law of each kind in turn, m in 1..8, r in 2..12."""
    m = int(rng.integers(2, 9))
    sizes, epsilons = rng.integers(2, 13, m), np.exp(rng.uniform(np.log(0.05), np.log(4), m))
    match number % 8:
        case 0:
            return "product", ProductLaw(sizes, epsilons)
        case 1:
            return "table", TableLaw(sizes[:6], rng.normal(0, 1, 2 ** min(m, 6)))
        case 2:
            return "counts", CountLaw(np.full(7, sizes[0]), [np.arange(4), np.arange(4, 7)], rng.normal(0, 1, (5, 4)))
        case 3:
            return "few changes", FewChangesLaw(sizes, float(rng.uniform(1, 4)), rng.uniform(0, 1, m).round(2))
        case 4:
            return "joint", joint_law(sizes[:3].tolist(), float(rng.uniform(0.5, 3)))
        case 5:
            parts = [([0, 2], TableLaw(sizes[:2], rng.normal(0, 1, 4))), ([1], ProductLaw(sizes[:1], epsilons[:1]))]
            return "blocks", BlockLaw(parts)
        case 6:
            return "optimum by balls", solve(Problem(sizes, epsilons), "ball").law
        case _:
            return "optimum", solve(Problem(sizes, epsilons), "auto").law


def false_alarms(count: int) -> list[dict[str, object]]:
    """One row for each kind of law: designs, and false alarms at both levels from the same answers."""
    rng, seen = np.random.default_rng(16), {}
    for number in range(count):
        kind, law = random_law(rng, number)
        mechanism = Mechanism(Domain.of({f"a{i}": int(r) for i, r in enumerate(law.sizes)}), law)
        queries = round(float(np.exp(rng.uniform(np.log(300), np.log(30_000)))))
        # Audits at both levels draw afresh, for which a level's own bounds are made
        results = [audit(mechanism, options=AuditOptions(queries, level)) for level in LEVELS]
        row = seen.setdefault(kind, {"law": kind, "designs": 0, "at 0.05": 0, "at 1e-06": 0, "above label": 0})
        row["designs"] += 1
        row["at 0.05"] += not results[0].holds
        row["at 1e-06"] += not results[1].holds
        row["above label"] += results[0].epsilon_bound > mechanism.epsilon
        for level, result in zip(LEVELS, results, strict=True):
            report(number, level, result)
    return list(seen.values())


def report(number: int, level: float, result: Audit) -> None:
    """Say which false alarms there were."""
    if not result.holds:
        print(number, level, [f.line() for f in result.findings if f.violates], flush=True)


def main(count: int) -> None:
    """Write auditing.csv, auditing_alarms.csv and auditing.md."""
    rows, alarms = power(), false_alarms(count)
    for name, table in (("auditing.csv", rows), ("auditing_alarms.csv", alarms)):
        with (RESULTS / name).open("w", newline="") as file:
            out = csv.DictWriter(file, list(table[0]), lineterminator="\n")
            out.writeheader()
            out.writerows(table)
    budgets = {(row["bug"], row["mechanism"]): row["queries"] for row in rows}
    total = {key: sum(int(str(row[key])) for row in alarms) for key in list(alarms[0])[1:]}
    lines = [
        "# Audits",
        "",
        f"Queries until a planted bug is caught at level 1e-6, doubled from 250 to {MOST}.",
        "",
        "| bug | " + " | ".join(PLANTED) + " |",
        "| --- |" + " --- |" * len(PLANTED),
        *(
            f"| {bug} | " + " | ".join(f"{budgets[bug, kind] or 'not caught'}" for kind in PLANTED) + " |"
            for bug in BUGS
        ),
        "",
        f"False alarms: of {total['designs']} random right designs {total['at 0.05']} at a level of 5 %, "
        f"{total['at 1e-06']} at 1e-6; {total['above label']} bounds of the total ε at 5 % above the label.",
        "",
        "| law | designs | at 5 % | at 1e-6 |",
        "| --- | --- | --- | --- |",
        *(f"| {row['law']} | {row['designs']} | {row['at 0.05']} | {row['at 1e-06']} |" for row in alarms),
    ]
    (RESULTS / "auditing.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
