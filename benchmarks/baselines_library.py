"""SPL, SMP and RS+FD beside the public library multi-freq-ldpy (0.2.5), like with like; writes baselines_library.md.

The library reports one person at a time and its "MI" estimates are clipped at 0 and rescaled. So two comparisons, on the
first 2,000 Adult records and four attributes, ε as each paper counts it (the library's RS+FD amplifies):

  unclipped  its reports through our unbiased estimates, against our reports and against our formula
  clipped    its own estimates, against ours clipped and rescaled in the same way

The mean squared error (per cell, around the data set) of each side comes with its Monte Carlo standard error; z is their
difference in standard errors. Needs ``pip install multi-freq-ldpy``; not a dependency of the project.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np

from optrr.domain.datasets import adult, adult_domain
from optrr.records.frames import FrameCodec
from optrr.tables.estimation.simplex import clip
from optrr.ways.baselines import FieldProtocol, FieldReports, collect, fake_data, sample, split

try:
    from multi_freq_ldpy.mdim_freq_est import RSpFD_solution as rsfd
    from multi_freq_ldpy.mdim_freq_est import SMP_solution as smp
    from multi_freq_ldpy.mdim_freq_est import SPL_solution as spl
except ImportError as error:
    raise SystemExit("multi-freq-ldpy is not installed; pip install multi-freq-ldpy to run this comparison") from error

RESULTS = Path(__file__).parent / "results"
NAMES = ("marital-status", "race", "sex", "income")
EPSILONS = (1.0, 3.0)
PEOPLE, RUNS = 2000, 100


def codes() -> np.ndarray:
    table = adult().select(NAMES)
    codec = FrameCodec(adult_domain().subset(NAMES), table.schema)
    return np.concatenate([codec.encode(b) for b in table.to_batches()])[:PEOPLE]


CODES = codes()
SIZES = [adult_domain()[name].size for name in NAMES]
M = len(SIZES)
TRUE = [np.bincount(CODES[:, i], minlength=r) / PEOPLE for i, r in enumerate(SIZES)]


@dataclass(frozen=True)
class Case:
    """A protocol, the library's client and aggregator for it, and how its reports become ours."""

    make: Callable[[float], FieldProtocol]
    client: Callable[[tuple[int, ...], float], object]
    aggregate: Callable[[list, float], list[np.ndarray]]
    sampled: bool = False


CASES = {
    "SPL, GRR": Case(
        lambda e: split(SIZES, e, "grr"),
        lambda x, e: spl.SPL_GRR_Client(x, SIZES, M, e),
        lambda reports, e: spl.SPL_GRR_Aggregator_MI(reports, SIZES, M, e),
    ),
    "SPL, OUE": Case(
        lambda e: split(SIZES, e, "oue"),
        lambda x, e: spl.SPL_UE_Client(x, SIZES, M, e),
        lambda reports, e: spl.SPL_UE_Aggregator_MI(reports, M, e),
    ),
    "SMP, GRR": Case(
        lambda e: sample(SIZES, e, "grr"),
        lambda x, e: smp.SMP_GRR_Client(x, SIZES, M, e),
        lambda reports, e: smp.SMP_GRR_Aggregator_MI(reports, SIZES, M, e),
        sampled=True,
    ),
    "SMP, OUE": Case(
        lambda e: sample(SIZES, e, "oue"),
        lambda x, e: smp.SMP_UE_Client(x, SIZES, M, e),
        lambda reports, e: smp.SMP_UE_Aggregator_MI(reports, M, e),
        sampled=True,
    ),
    "RS+FD, GRR": Case(
        lambda e: fake_data(SIZES, e, "grr", accounting="published"),
        lambda x, e: rsfd.RSpFD_GRR_Client(x, SIZES, M, e),
        lambda reports, e: rsfd.RSpFD_GRR_Aggregator_MI(reports, SIZES, M, e),
    ),
    "RS+FD, OUE-z": Case(
        lambda e: fake_data(SIZES, e, "oue", fakes="zero", accounting="published"),
        lambda x, e: rsfd.RSpFD_UE_zero_Client(x, SIZES, M, e),
        lambda reports, e: rsfd.RSpFD_UE_zero_Aggregator_MI(reports, SIZES, M, e),
    ),
    "RS+FD, OUE-r": Case(
        lambda e: fake_data(SIZES, e, "oue", accounting="published"),
        lambda x, e: rsfd.RSpFD_UE_rnd_Client(x, SIZES, M, e),
        lambda reports, e: rsfd.RSpFD_UE_rnd_Aggregator_MI(reports, SIZES, M, e),
    ),
}


def ours_from(case: Case, protocol: FieldProtocol, raw: list) -> FieldReports:
    """The library's reports in our form."""
    if case.sampled:
        answers = [[value for attribute, value in raw if attribute == i] for i in range(M)]
    else:
        answers = [[row[i] for row in raw] for i in range(M)]
    return FieldReports(protocol, tuple(np.asarray(a).astype(np.int64) for a in answers))


def squared_error(estimates) -> float:
    """Mean over cells of all attributes."""
    off = [np.asarray(e, dtype=float) - t for e, t in zip(estimates, TRUE, strict=True)]
    return float(np.mean(np.concatenate(off) ** 2))


def measure(case: Case, epsilon: float, rng: np.random.Generator) -> dict[str, np.ndarray | float]:
    protocol = case.make(epsilon)
    people = [tuple(int(c) for c in row) for row in CODES]
    runs = []
    for _ in range(RUNS):
        raw = [case.client(x, epsilon) for x in people]
        theirs = ours_from(case, protocol, raw).estimate()
        own = collect(protocol, CODES, rng).estimate()
        clipped = [case.aggregate(raw, epsilon), [clip(e) for e in own]]
        runs.append([squared_error(e) for e in (theirs, own, *clipped)])
    formula = float(np.mean(np.concatenate(protocol.data_variance(TRUE, PEOPLE))))
    return {"runs": np.array(runs), "formula": formula}


def z(a: np.ndarray, b: np.ndarray) -> float:
    return float((a.mean() - b.mean()) / sqrt((a.var(ddof=1) + b.var(ddof=1)) / RUNS))


def main() -> None:
    # the library draws from numpy's global generator and from one of numba's, so its results cannot be repeated exactly
    rng = np.random.default_rng(1)
    lines = [
        "# Side by side with multi-freq-ldpy",
        "",
        f"Made by `benchmarks/baselines_library.py`: {PEOPLE} Adult records, {', '.join(NAMES)}, {RUNS} runs a side. Mean",
        "squared error per cell, × 10^4, Monte Carlo standard error in brackets. z: difference in standard errors.",
        "",
        "| protocol | ε | formula | library, unclipped | ours, unclipped | z | library, clipped | ours, clipped | z |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    scores = []
    for name, case in CASES.items():
        for epsilon in EPSILONS:
            measured = measure(case, epsilon, rng)
            columns = measured["runs"].T
            shown = [f"{1e4 * c.mean():.4g} ({1e4 * c.std(ddof=1) / sqrt(RUNS):.2g})" for c in columns]
            plain, clipped = z(columns[0], columns[1]), z(columns[2], columns[3])
            scores += [plain, clipped]
            cells = [name, f"{epsilon:g}", f"{1e4 * measured['formula']:.4g}", *shown[:2], f"{plain:+.1f}"]
            lines.append("| " + " | ".join([*cells, *shown[2:], f"{clipped:+.1f}"]) + " |")
            print(lines[-1], flush=True)
    largest = max(abs(s) for s in scores)
    chance = 0.0027 * len(scores)
    lines += [
        "",
        f"Largest |z| of {len(scores)}: {largest:.1f}; by chance alone {chance:.2f} of them would lie beyond 3.",
    ]
    (RESULTS / "baselines_library.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
