"""Mixtures of local queries compared with a public optimiser of whole mechanisms, on 40 random domains of at most 64 cells.

McKenna, Maity, Mazumdar & Miklau (2020), *A workload-adaptive mechanism for linear queries under local differential
privacy*, climb to a whole matrix Q(y|x) by projected gradients. Their code (workload-factorization-mechanism) is run where
its ``factorization.py`` can be imported, with ``autograd``; it is no dependency of the project. Each domain gets several of
their random starts, and each start is taken up again, with longer and shorter steps, until a round gains less than a
thousandth. Writes public_optimiser.csv and public_optimiser.md; about half an hour on one core.

Errors are n E‖π̂ − π‖² summed over the tables, at the uniform population π: with their estimates V = W (QᵀD⁻¹Q)⁻¹QᵀD⁻¹,
D the row sums, that is tr(W (QᵀD⁻¹Q)⁻¹Wᵀ)/cells − ‖Wπ‖².
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import published
from writing import write_csv, write_text

from optrr_solvers.allocation.any_mechanism import error_bound
from optrr_solvers.allocation.mixture import MixedQuestions, mixture
from optrr_solvers.allocation.workload import TableWorkload

SEED = 40
TOTALS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
DOMAINS, MOST_CELLS = 40, 64
STARTS, ROUNDS, STEPS = 2, 10, 250
LENGTHS = 4.0 ** -np.arange(-2.0, 14.0)
# A round of their steps that gains less than this share ends a start; what counts as better than ours.
CONVERGED, BETTER = 1e-3, 1e-3
SHOWN = ("public optimiser", "mixture", "random tables, combined", "random parities")


@dataclass(frozen=True)
class Case:
    """One random domain and what is wanted from it at which total."""

    kind: str
    sizes: tuple[int, ...]
    total: float

    @property
    def workload(self) -> TableWorkload:
        """All its pairs, or all one-way tables."""
        return published.wanted(self.sizes, 2 if self.kind == "pairs" else 1)


def random_cases(count: int) -> Iterator[Case]:
    """2..6 attributes of 2..6 categories."""
    rng, k = np.random.default_rng(SEED), 0
    while k < count:
        sizes = [int(r) for r in rng.integers(2, 7, int(rng.integers(2, 7)))]
        if math.prod(sizes) <= MOST_CELLS:
            kind = ("pairs", "marginals")[int(rng.integers(2))]
            yield Case(kind, tuple(sizes), TOTALS[k % len(TOTALS)])
            k += 1


def queries(workload: TableWorkload) -> np.ndarray:
    """One row for every cell of every table, times the root of its weight, and one column for every cell of the whole."""
    codes = _codes(workload.sizes)
    blocks = []
    for table, weight in zip(workload.tables, workload.weights, strict=True):
        sizes = workload.sizes[list(table)].tolist()
        cell = np.ravel_multi_index(tuple(codes[:, list(table)].T), sizes)
        blocks.append(math.sqrt(weight) * (np.arange(math.prod(sizes))[:, None] == cell))
    return np.vstack(blocks)


def _codes(sizes: np.ndarray) -> np.ndarray:
    return np.stack(np.unravel_index(np.arange(math.prod(sizes.tolist())), sizes.tolist()), axis=1)


def strategy_error(strategy: np.ndarray, asked: np.ndarray) -> float:
    """Error of the best linear unbiased estimates under Q(y|x), shape (outputs, cells), at the uniform population."""
    cells = strategy.shape[1]
    information = strategy.T / strategy.sum(axis=1) @ strategy
    return float(np.sum(np.linalg.pinv(information, hermitian=True) * (asked.T @ asked))) / cells - float(
        np.sum(asked.mean(axis=1) ** 2)
    )


def strategy_of(workload: TableWorkload, mixed: MixedQuestions, total: float) -> np.ndarray:
    """Q(y|x) of a mixture, with every report that it can give as a row of its own; for small questions."""
    codes, rows = _codes(workload.sizes), []
    for question, share in zip(mixed.questions, mixed.shares, strict=True):
        own = codes[:, list(question.attributes)]
        sizes = workload.sizes[list(question.attributes)].tolist()
        parts = question.report.parts(sizes)
        if len(parts) < len(sizes):
            own = np.ravel_multi_index(tuple(own.T), sizes)[:, None]
        chosen = (combinations(range(r), k) for r, k in zip(parts, question.report.subset_sizes, strict=True))
        reports = list(product(*chosen))
        for subsets in reports:
            pattern = sum(np.isin(own[:, i], s).astype(int) << i for i, s in enumerate(subsets))
            density = np.where(np.isin(pattern, question.report.likely), math.exp(total), 1.0)
            rows.append(share / len(reports) * density / density.mean())
    return np.asarray(rows)


def public_error(workload: TableWorkload, total: float, starts: int, rounds: int) -> float:
    """Smallest error that their optimiser comes to; ImportError where it is not installed."""
    import factorization as public

    asked = queries(workload)
    cells = asked.shape[1]

    def climbed(strategy: np.ndarray, steps: int, length: float) -> np.ndarray:
        # their climb fails where its steps are too long
        with contextlib.suppress(AssertionError, IndexError, np.linalg.LinAlgError), np.errstate(all="ignore"):
            climb = public.factorize(asked, total, strategy, steps, length, False)
            return climb if _private(climb, total) else strategy
        return strategy

    def error(strategy: np.ndarray) -> float:
        return strategy_error(strategy, asked)

    best = math.inf
    for seed in range(starts):
        np.random.seed(seed)  # noqa: NPY002 (what their starts are drawn with)
        strategy, lengths = public.initialize(4 * cells, cells, total), LENGTHS
        for _ in range(rounds):
            before = error(strategy)
            # how long a step may be depends on the workload, on ε and on how far the climb is
            length = min(lengths, key=lambda step: error(climbed(strategy, 40, step)))
            strategy = min((climbed(strategy, STEPS, c * length) for c in (1.0, 0.25)), key=error)
            if error(strategy) > before * (1 - CONVERGED):
                break
            lengths = length * np.array([4.0, 1.0, 0.25, 0.06])
        best = min(best, error(strategy))
    return best


def _private(strategy: np.ndarray, total: float) -> bool:
    """Whether no two records differ by more than e^ε in any answer, and chances sum to 1."""
    low, high = strategy.min(axis=1), strategy.max(axis=1)
    fits = np.all(high <= low * math.exp(total) * (1 + 1e-9) + 1e-12)
    return bool(fits and np.allclose(strategy.sum(axis=0), 1, atol=1e-9))


def measured(case: Case, starts: int = STARTS, rounds: int = ROUNDS) -> dict[str, object]:
    """Error over the bound of theirs, of the mixture and of whole tables with the best shares."""
    workload, bound = case.workload, error_bound(case.workload, case.total)
    row: dict[str, object] = {"kind": case.kind, "sizes": "×".join(map(str, case.sizes)), "total": case.total}
    row["public optimiser"] = public_error(workload, case.total, starts, rounds) / bound
    row["mixture"] = mixture(workload, case.total).error / bound
    row["random tables, combined"] = published.combined(workload, case.total) / bound
    return row | {"random parities": published.parity(workload, case.total) / bound}


def report(rows: list[dict]) -> str:
    worse = [r for r in rows if r["public optimiser"] < r["mixture"] * (1 - BETTER)]
    gains = np.array([r["public optimiser"] / r["mixture"] for r in rows])
    lines = [
        f"{len(rows)} random domains of at most {MOST_CELLS} cells: error over the bound for any mechanism.",
        f"The public optimiser is more accurate than the mixture, by more than {BETTER:.1%}, in {len(worse)} of them;",
        f"its error is {gains.min():.4f} to {gains.max():.3f} times the mixture's, {np.median(gains):.3f} in the "
        "middle.",
        "",
        "| tables | categories | total ε | " + " | ".join(SHOWN) + " |",
        "|---" * (len(SHOWN) + 3) + "|",
    ]
    for r in sorted(rows, key=lambda r: (r["total"], r["kind"], r["sizes"])):
        ways = " | ".join(f"{r[k]:.4f}" for k in SHOWN)
        lines.append(f"| {r['kind']} | {r['sizes']} | {r['total']:g} | {ways} |")
    return "\n".join(lines)


def main() -> None:
    rows = []
    for case in random_cases(DOMAINS):
        rows.append(measured(case))
        # nothing is below the bound, which holds for whole mechanisms of any form
        if min(rows[-1][k] for k in SHOWN) < 1 - 1e-9:
            raise AssertionError(f"below the bound: {rows[-1]}")
    write_csv("public_optimiser.csv", rows)
    write_text("public_optimiser.md", report(rows))


if __name__ == "__main__":
    main()
