"""Simpson's paradox from randomized records: graduate admissions at Berkeley, 1973.

Run as ``python benchmarks/admissions.py`` (a minute or two of processor time). 4526 applicants by gender, admission and the six
largest departments (Bickel, Hammel & O'Connell, Science 187, 1975; data/ucb_admissions.csv). In the table of gender and
admission women are admitted less often; within departments they are not.

All three attributes of every person are randomized, at the same ε_i, by the optimum that keeps pairs, again and again; also of
4 and 16 times as many people with the same shares. Each time three hypotheses are tested at 5 %: gender and admission are
independent (true records: χ² = 92); the same association in every department is none (1.5, p = 0.22); no association in any
department (department A has one, in favour of women: 20, p = 0.003). The paradox is seen where the first is rejected and the
second is not. Power against the true records: the share rejected beside the true records' own p-value. Writes
results/admissions.csv and .md.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from inference_level import RESULTS, markdown, write

from optrr import Domain, InvalidInput, design
from optrr.mechanisms.kernel import unrandomized
from optrr.mechanisms.mechanism import Randomizer
from optrr.models.loglinear.comparing import LEAST_WORTH, within_strata
from optrr.models.tests.calibration import chi_square_limit
from optrr.models.tests.simulation import Simulation
from optrr.models.tests.testing import association
from optrr_solvers.arrays import FloatArray

DATA = Path(__file__).parent / "data" / "ucb_admissions.csv"
DOMAIN = Domain.of({"gender": ["male", "female"], "admitted": ["yes", "no"], "department": list("ABCDEF")})
EPSILONS = (1.0, 2.0, 3.0, 4.0, 6.0)
TIMES = (1, 4, 16)
RUNS = 100
LEVEL = 0.05
# Tables drawn for one p-value: enough to tell which side of 5 % it lies on.
RULE = Simulation(hits=30, most=599)


def people() -> FloatArray:
    """Applicants by gender, admission and department."""
    out = np.zeros(tuple(map(int, DOMAIN.sizes)))
    with DATA.open() as file:
        for row in csv.DictReader(file):
            place = tuple(int(a.codes[row[a.name]]) for a in DOMAIN)
            out[place] = float(row["people"])
    return out


def randomized(true: FloatArray, mechanism: Randomizer, rng: np.random.Generator) -> FloatArray:
    """Tables of reports of exactly these people, (RUNS, 2, 2, 6)."""
    matrix = mechanism.matrix(DOMAIN.names)
    reports = [rng.multinomial(int(k), p / p.sum(), size=RUNS) for k, p in zip(true.ravel(), matrix, strict=True)]
    return np.asarray(np.sum(reports, axis=0).reshape(RUNS, *true.shape), dtype=np.float64)


def row(epsilon: float, times: int, rng: np.random.Generator) -> dict[str, object]:
    made = design(DOMAIN, epsilon, preserve="pairs")
    tables = randomized(times * people(), made.mechanism, rng)
    marginal = association(made.mechanism.kernel(("gender", "admitted")), "independence")
    seen = chi_square_limit(marginal, tables.sum(axis=3)).tests.p_value <= LEVEL
    out: dict[str, object] = {
        "epsilon of each": epsilon,
        "epsilon of the record": round(made.epsilon, 2),
        "people": int(times * people().sum()),
        "marginal": float(seen.mean()),
    }
    for name, called in (("common-association", "common"), ("conditional-independence", "any")):
        tested = within_strata(name, DOMAIN, made.mechanism).p_values(tables, rng, RULE)
        shown = tested.worth >= LEAST_WORTH
        rejected = shown & (tested.p_value <= LEVEL)
        out[called] = float(rejected.sum() / shown.sum()) if shown.any() else ""
        if called == "common":
            out["refused"] = float(1 - shown.mean())
            out["paradox"] = float(np.mean(seen & shown & ~rejected))
    return out


def measured() -> Iterator[dict[str, object]]:
    rng = np.random.default_rng(1973)
    for times in TIMES:
        for epsilon in EPSILONS:
            try:
                yield row(epsilon, times, rng)
            except InvalidInput as reason:
                print(epsilon, times, reason, file=sys.stderr)


def on_true_records() -> str:
    """The same tests without randomization."""
    true = people()
    plain = association(unrandomized((2, 2)), "independence")
    limit = chi_square_limit(plain, true.sum(axis=2)[None]).tests
    lines = [f"independence {limit.statistic[0]:.1f} (p = {limit.p_value[0]:.2g})"]
    clear = design(DOMAIN, 20.0).mechanism
    for name in ("common-association", "conditional-independence"):
        test = within_strata(name, DOMAIN, clear)
        tested = test.p_values(true[None], np.random.default_rng(1), Simulation(100, 9999))
        lines.append(f"{name} {tested.statistic[0]:.1f} on {test.df} df (p = {tested.p_value[0]:.2g})")
    return "; ".join(lines)


def main() -> None:
    rows = []
    for each in measured():
        rows.append({key: each.get(key, "") for key in each})
        print(*each.values(), sep=" | ", file=sys.stderr, flush=True)
    write("admissions.csv", rows)
    text = [
        "# Berkeley admissions: an association that vanishes within departments, from randomized records",
        f"True records of 4526 people: {on_true_records()}. Shares of {RUNS} randomizations in which a test at 5 % rejects: "
        "marginal, gender and admission are independent; common, the same association in every department is none; any, no "
        "association in any department. Refused: the records hardly show the departments; shares are among the others. "
        "Paradox: the first is rejected, and the second is tested and not rejected.",
        markdown(rows),
    ]
    (RESULTS / "admissions.md").write_text("\n\n".join(text) + "\n")
    print("\n\n".join(text))


def probe() -> object:
    """A hundredth of the work, to see whether the whole would come out the same."""
    rng = np.random.default_rng(1973)
    global RUNS
    RUNS = 3
    return [row(2.0, 1, rng), row(4.0, 4, rng)]


if __name__ == "__main__":
    main()
