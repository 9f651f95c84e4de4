"""Demonstration on the bundled Adult data: design, randomize, estimate, and the gain of the optimum.

All 32,561 records on MDR's eight attributes at ε_i = 1, with every pair preserved, against independent randomized
response at the same total ε.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optrr.core.design import Constraints, Design, design
from optrr.core.display import Result, Table, crossed, epsilon_text
from optrr.core.domain import ADULT_EIGHT, adult, adult_domain
from optrr.core.estimation import Estimate, estimate
from optrr.core.records import Counts, count
from optrr_solvers.randomness import RandomState

TABLES = (("sex", "income"), ("education", "income"))
EPSILON = 1.0
OPTIMUM, PAIRS, INDEPENDENT = "optimum", "pairs visible", "independent"


@dataclass(frozen=True, eq=False, repr=False)
class Demonstration(Result):
    """Designs for ε_i = 1 by name, with true and estimated tables.

    The estimates of each table are by each design of the same total.
    """

    designs: dict[str, Design]
    tables: Sequence[tuple[Counts, dict[str, Estimate]]]

    def headline(self) -> str:
        """Summarize the data and how it was randomized."""
        n, kept = self.tables[0][0].n, self.designs[PAIRS]
        return (
            f"Adult census data (UCI, CC BY 4.0): {n} records of {kept.domain.m} attributes, randomized twice at "
            f"the same total epsilon {epsilon_text(kept.epsilon, 4)}: by the optimum that preserves every pair, and "
            f"by {INDEPENDENT} randomized response"
        )

    def tables_shown(self, most: int | None = None) -> Sequence[Table]:
        """List the designs' totals, then truth, estimates and standard errors."""
        costs = [
            (name, epsilon_text(d.epsilon, 4), epsilon_text(float(d.conditional_epsilons.max()), 4))
            for name, d in self.designs.items()
        ]
        return [
            Table(
                ["design", "total epsilon", "largest conditional"],
                costs,
                f"designs with epsilon 1 for each attribute; both estimates below are at the total of {PAIRS}",
                strong=[0],
            ),
            *(self._shown(truth, estimates) for truth, estimates in self.tables),
        ]

    def _shown(self, truth: Counts, estimates: dict[str, Estimate]) -> Table:
        measured, expected = self.errors(truth, estimates)
        columns = [truth.proportions, *(x for e in estimates.values() for x in (e.estimate, e.standard_error))]
        categories = [a.texts for a in truth.domain]
        rows = [
            (*(texts[k] for texts, k in zip(categories, cell, strict=True)), *(float(each[cell]) for each in columns))
            for cell in np.ndindex(truth.table.shape)
        ]
        heads = [head for name in estimates for head in (name, "standard error")]
        note = (
            f"root mean squared error of {INDEPENDENT}: {measured[INDEPENDENT] / measured[PAIRS]:.1f} times that of "
            f"{PAIRS} in this run, {expected[INDEPENDENT] / expected[PAIRS]:.1f} times by the standard errors"
        )
        return Table([*truth.domain.names, "truth", *heads], rows, f"{crossed(truth.domain.names)}: proportions", note)

    def errors(self, truth: Counts, estimates: dict[str, Estimate]) -> tuple[dict[str, float], dict[str, float]]:
        """Compute root mean squared errors over the cells, actual and expected.

        The expected ones follow from the standard errors.
        """
        measured = {k: float(np.sqrt(np.mean((e.estimate - truth.proportions) ** 2))) for k, e in estimates.items()}
        return measured, {k: float(np.sqrt(np.mean(e.standard_error**2))) for k, e in estimates.items()}

    def summary(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "n": self.tables[0][0].n,
            "designs": {name: made.summary() for name, made in self.designs.items()},
            "tables": [
                {"truth": truth.summary(), **{name: each.summary() for name, each in estimates.items()}}
                for truth, estimates in self.tables
            ],
        }


def demonstrate(random_state: RandomState = None) -> Demonstration:
    """Run the main job; a few seconds."""
    data, domain = adult().select(list(ADULT_EIGHT)), adult_domain().subset(ADULT_EIGHT)
    designs = {
        OPTIMUM: design(domain, EPSILON),
        PAIRS: design(domain, EPSILON, constraints=Constraints(preserve="pairs")),
        "POR's heuristic": design(domain, EPSILON, method="inductive"),
        INDEPENDENT: design(domain, EPSILON, method="kronecker"),
    }
    kept = designs[PAIRS]
    used = {PAIRS: kept, INDEPENDENT: design(domain, kept.epsilon / domain.m, method="kronecker")}
    released = {name: made.randomize_frame(data, random_state) for name, made in used.items()}
    tables = [
        (
            count(data, domain, names),
            {k: estimate(count(released[k], domain, names), d.mechanism, target="data") for k, d in used.items()},
        )
        for names in TABLES
    ]
    return Demonstration(designs, tables)
