"""Three lower bounds on the error of every ε-LDP mechanism, beside the smallest known error: all pairs, uniform population.

    sinh²     (Σ_S √a_S)²/sinh²(ε/2), Delsarte's program without its constraints
    Delsarte  what the package prints (optrr_solvers.allocating.delsarte)

Writes triples.csv and triples.svg. Errors are n Σ E‖π̂ − π‖² of the most accurate protocol of this package: a mixture of
local queries, the optimum over full records, or randomized response on the whole record.
"""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import published
from writing import save, write_csv

from optrr.domain.datasets import adult_domain
from optrr_solvers.allocating.any_mechanism import error_bound
from optrr_solvers.allocating.delsarte import roots
from optrr_solvers.allocating.mixture import mixture
from optrr_solvers.allocating.workload import TableWorkload

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
SHOWN = ("five binary", "nine binary", "Adult")


def by_sinh(workload: TableWorkload, total: float) -> float:
    """The bound that only limits the sum of all energies."""
    return float(roots(workload).sum() / math.sinh(total / 2)) ** 2


def known_error(workload: TableWorkload, total: float) -> float:
    """The smallest error of a protocol of this package."""
    return min(
        mixture(workload, total).error, published.optimum(workload, total), published.whole_record(workload, total)
    )


def measured(name: str, total: float) -> dict[str, object]:
    workload = published.wanted(SETTINGS[name], 2)
    bounds = {"sinh": by_sinh(workload, total), "delsarte": error_bound(workload, total)}
    return {"attributes": name, "total": total, **bounds, "error": known_error(workload, total)}


def draw(rows: list[dict[str, object]]) -> None:
    """Each bound over the smallest known error: at 1 nothing can be more accurate."""
    figure, panels = plt.subplots(1, len(SHOWN), figsize=(10, 3.4), sharey=True, layout="constrained")
    for panel, name in zip(panels, SHOWN, strict=True):
        of_name = [r for r in rows if r["attributes"] == name]
        for bound, label, style in (("sinh", "sinh²", "C1--"), ("delsarte", "Delsarte", "C0-o")):
            panel.plot(
                [r["total"] for r in of_name], [r[bound] / r["error"] for r in of_name], style, ms=4, label=label
            )
        panel.axhline(1, color="black", linewidth=0.8)
        panel.set(title=name, xlabel="total ε", ylim=(0, 1.05))
    panels[0].set_ylabel("lower bound / smallest known error")
    panels[0].legend(loc="lower left")
    save(figure, "triples.svg")


def main() -> None:
    rows = [measured(name, total) for name in SETTINGS for total in TOTALS]
    write_csv("triples.csv", rows, digits=6)
    draw(rows)


if __name__ == "__main__":
    main()
