"""Three lower bounds on the error of every ε-LDP mechanism, beside the smallest known error: all pairs, uniform population.

    sinh²     (Σ_S √a_S)²/sinh²(ε/2), Delsarte's program without its constraints
    Delsarte  what the package prints (optrr_solvers.allocation.delsarte)
    triples   the semidefinite program of ``schrijver.py``, for some settings in which Delsarte's bound is below the known error

Writes triples.csv, .md, .svg, and what proves the third as integers in triples.json.gz, from which ``proofs/prove_triples.py``
recomputes it in exact arithmetic. Errors are n Σ E‖π̂ − π‖² of the most accurate protocol of this package: a mixture of local
queries, the optimum over full records, or randomized response on the whole record.
"""

import gzip
import json
import math
import warnings
from typing import Any

import matplotlib.pyplot as plt
import published
from schrijver import Search, Triples
from writing import RESULTS, markdown, save, write

from optrr.core.domain.datasets import adult_domain
from optrr_solvers.allocation.any_mechanism import error_bound
from optrr_solvers.allocation.delsarte import roots
from optrr_solvers.allocation.mixture import mixture
from optrr_solvers.allocation.workload import TableWorkload

SETTINGS = {
    "four binary": (2,) * 4,
    "2 × 2 × 3": (2, 2, 3),
    "five binary": (2,) * 5,
    "2 × 3 × 4 × 5": (2, 3, 4, 5),
    "four ternary": (3,) * 4,
    "nine binary": (2,) * 9,
    "Adult": tuple(adult_domain().sizes.tolist()),
}
TOTALS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
SHOWN = ("five binary", "four ternary", "nine binary", "Adult")
# Where the third bound is computed; what proves it would be large for nine binary attributes below 4.
TRIPLES = {
    "four binary": (2.0,),
    "2 × 2 × 3": (1.0, 2.0),
    "five binary": (1.0, 2.0, 3.0),
    "2 × 3 × 4 × 5": (4.0, 5.0),
    "four ternary": (2.0, 3.0, 5.0),
    "nine binary": (4.0, 6.0, 7.0),
}
# Below this relative difference a bound and an error are called equal.
EQUAL = 1e-6
BOUNDS = {"sinh": ("sinh²", "C1--"), "delsarte": ("Delsarte", "C0-o"), "triples": ("triples", "C2*")}


def by_sinh(workload: TableWorkload, total: float) -> float:
    """The bound that only limits the sum of all energies."""
    return float(roots(workload).sum() / math.sinh(total / 2)) ** 2


def known_error(workload: TableWorkload, total: float) -> float:
    """The smallest error of a protocol of this package."""
    return min(
        mixture(workload, total).error, published.optimum(workload, total), published.whole_record(workload, total)
    )


def by_triples(sizes: tuple[int, ...], total: float) -> tuple[float, dict[str, Any]]:
    """The bound, and the integers that prove it."""
    program = Triples(sizes)
    bound, c, limits = Search(program, total).run()
    kept = [
        {
            "share": of.share,
            "factors": [factor.astype(int).tolist() for factor in of.factors],
            "sums": [each.astype(int).tolist() for each in of.sums],
            "signs": [[*key, value] for key, value in of.signs.items()],
            "u": of.u,
        }
        for of in limits
    ]
    of_effects = list(zip(program.effects, c.astype(int).tolist(), strict=True))
    return bound, {"sizes": sorted(sizes), "total": total, "c": of_effects, "limits": kept}


def measured(name: str, total: float, proofs: list[dict[str, Any]]) -> dict[str, object]:
    """One row; what proves its bound is added to the proofs."""
    workload = published.wanted(SETTINGS[name], 2)
    error, delsarte = known_error(workload, total), error_bound(workload, total)
    bounds: dict[str, Any] = {"sinh": by_sinh(workload, total), "delsarte": delsarte, "triples": ""}
    if total in TRIPLES.get(name, ()):
        bounds["triples"], proof = by_triples(SETTINGS[name], total)
        proofs.append({"attributes": name, **proof})
    best = max(bound for bound in bounds.values() if bound)
    left = "optimal" if best >= error * (1 - EQUAL) else f"within {math.ceil(1000 * (error / best - 1)) / 10:g} %"
    return {"attributes": name, "total": total, **bounds, "error": error, "verdict": left}


def draw(rows: list[dict[str, Any]]) -> None:
    """Each bound over the smallest known error: at 1 nothing can be more accurate."""
    figure, panels = plt.subplots(1, len(SHOWN), figsize=(12, 3.4), sharey=True, layout="constrained")
    for panel, name in zip(panels, SHOWN, strict=True):
        for bound, (label, style) in BOUNDS.items():
            points = [(r["total"], r[bound] / r["error"]) for r in rows if r["attributes"] == name and r[bound] != ""]
            panel.plot(
                *zip(*points, strict=True) if points else ((), ()),
                style,
                ms=4 if bound != "triples" else 8,
                label=label,
            )
        panel.axhline(1, color="black", linewidth=0.8)
        panel.set(title=name, xlabel="total ε", ylim=(0, 1.05))
    panels[0].set_ylabel("lower bound / smallest known error")
    panels[0].legend(loc="lower left")
    save(figure, "triples.svg")


def main() -> None:
    proofs: list[dict[str, Any]] = []
    # the solver says that it stopped short of its tolerance; the bound is computed from what it found
    warnings.filterwarnings("ignore", message="Solution may be inaccurate")
    rows = [measured(name, total, proofs) for name in SETTINGS for total in TOTALS]
    text = json.dumps(proofs, separators=(",", ":"), ensure_ascii=False).encode()
    (RESULTS / "triples.json.gz").write_bytes(gzip.compress(text, mtime=0))
    write(
        "triples",
        rows,
        "Lower bounds and smallest known error of all pairs, n times the squared error.",
        markdown(rows, six_digits),
    )
    draw(rows)


def six_digits(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
