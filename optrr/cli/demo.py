"""optrr demo: the main job on the bundled Adult data; design, randomize, estimate, and what the optimum buys.

All 32,561 records on MDR's eight attributes at ε_i = 1, every pair visible, against independent randomized response at the
same total ε.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optrr.cli.inputs import RANDOM_STATE
from optrr.cli.options import command
from optrr.cli.printing import give
from optrr.core.design import Constraints, Design, design
from optrr.core.display import Result, Table, crossed, epsilon_text, in_json
from optrr.core.domain import ADULT_EIGHT, Domain, adult, adult_domain
from optrr.core.estimation import Estimate, estimate
from optrr.core.records import count
from optrr_solvers.arrays import FloatArray
from optrr_solvers.randomness import RandomState

TABLES = (("sex", "income"), ("education", "income"))
EPSILON = 1.0
OPTIMUM, INDEPENDENT = "optimum", "independent"


@command
def demo(random_state: int | None = RANDOM_STATE) -> None:
    """Design, randomize and estimate on the bundled Adult data; no network.

    Example: optrr demo --random-state 1
    """
    give(demonstrate(random_state))


@dataclass(frozen=True, eq=False)
class ShownTable:
    """One table: the truth in these records, and an estimate by each mechanism."""

    domain: Domain
    truth: FloatArray
    estimates: dict[str, Estimate]

    def error(self, name: str) -> float:
        """Root mean squared error over the cells."""
        return float(np.sqrt(np.mean((self.estimates[name].proportions - self.truth) ** 2)))

    def expected_error(self, name: str) -> float:
        """The error to expect on average over randomizations, by the standard errors."""
        return float(np.sqrt(np.mean(self.estimates[name].standard_errors ** 2)))

    def shown(self) -> Table:
        """One row per cell: truth, then estimate and standard error of each mechanism."""
        texts = [a.texts for a in self.domain]
        columns = [self.truth, *(x for e in self.estimates.values() for x in (e.proportions, e.standard_errors))]
        rows = [
            (*(texts[i][k] for i, k in enumerate(cell)), *(float(column[cell]) for column in columns))
            for cell in np.ndindex(self.truth.shape)
        ]
        heads = [head for name in self.estimates for head in (name, "standard error")]
        measured, expected = (f(INDEPENDENT) / f(OPTIMUM) for f in (self.error, self.expected_error))
        note = (
            f"root mean squared error: {OPTIMUM} {self.error(OPTIMUM):.4f}, {INDEPENDENT} {self.error(INDEPENDENT):.4f}: "
            f"{measured:.1f} times as much in this run, {expected:.1f} times by the standard errors"
        )
        return Table([*self.domain.names, "truth", *heads], rows, f"{crossed(self.domain.names)}: proportions", note)

    def summary(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "attributes": list(self.domain.names),
            "categories": [list(a.categories) for a in self.domain],
            "truth": in_json(self.truth),
            "estimate": {name: in_json(e.proportions) for name, e in self.estimates.items()},
            "standard_error": {name: in_json(e.standard_errors) for name, e in self.estimates.items()},
            "error_ratio": self.error(INDEPENDENT) / self.error(OPTIMUM),
            "expected_error_ratio": self.expected_error(INDEPENDENT) / self.expected_error(OPTIMUM),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Demonstration(Result):
    """Designs compared at ε_i = 1, those that randomized the data, by name, and the tables."""

    records: int
    compared: dict[str, Design]
    used: dict[str, Design]
    tables: tuple[ShownTable, ...]

    def headline(self) -> str:
        """Which data, and what is asked of each mechanism."""
        total = epsilon_text(self.used[OPTIMUM].epsilon, 4)
        return (
            f"Adult census data (UCI, CC BY 4.0): {self.records} records of {self.used[OPTIMUM].domain.m} attributes, "
            f"randomized twice at the same total epsilon {total}: by the {OPTIMUM} for accuracies of {EPSILON:g} each, every "
            f"pair visible, and by {INDEPENDENT} randomized response"
        )

    def tables_shown(self, most: int | None = None) -> Sequence[Table]:
        """What each design costs, then the tables."""
        rows = [
            (
                name,
                epsilon_text(d.epsilon, 4),
                epsilon_text(float(d.conditional_epsilons.max()), 4),
                (d.faintest_pair or [None])[0],
            )
            for name, d in self.compared.items()
        ]
        heads = ["design", "total epsilon", "largest conditional", "faintest pair"]
        return [Table(heads, rows, strong=[0]), *(table.shown() for table in self.tables)]

    def summary(self) -> dict[str, Any]:
        """The JSON object of the command line."""
        tables = [table.summary() for table in self.tables]
        return {
            "records": self.records,
            "total_epsilon": self.used[OPTIMUM].epsilon,
            "methods": {name: made.summary() for name, made in self.compared.items()},
            "tables": tables,
        }


def demonstrate(random_state: RandomState = None) -> Demonstration:
    """Run the main job; a few seconds."""
    data, domain = adult().select(list(ADULT_EIGHT)), adult_domain().subset(ADULT_EIGHT)
    compared = {
        OPTIMUM: design(domain, EPSILON),
        f"{OPTIMUM}, every pair visible": design(domain, EPSILON, constraints=Constraints(preserve="pairs")),
        "POR's heuristic": design(domain, EPSILON, method="inductive"),
        INDEPENDENT: design(domain, EPSILON, method="kronecker"),
    }
    kept = compared[f"{OPTIMUM}, every pair visible"]
    used = {OPTIMUM: kept, INDEPENDENT: design(domain, kept.epsilon / domain.m, method="kronecker")}
    released = {name: made.randomize_frame(data, random_state) for name, made in used.items()}

    def table(names: tuple[str, ...]) -> ShownTable:
        estimates = {
            name: estimate(count(released[name], domain, names), made.mechanism, target="data")
            for name, made in used.items()
        }
        return ShownTable(domain.subset(names), count(data, domain, names).proportions, estimates)

    return Demonstration(data.num_rows, compared, used, tuple(map(table, TABLES)))
