"""The main job on the bundled Adult data: design, compare, randomize, estimate, and what the optimum buys.

All 32,561 records on MDR's eight attributes at ε_i = 1, kept visible in pairs, against Kronecker at the same total ε.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from optrr.designs.design import Design
from optrr.designs.solving import design
from optrr.domain.datasets import ADULT_EIGHT, adult, adult_domain
from optrr.domain.domain import Domain
from optrr.records.counts import count
from optrr.tables.estimation.estimator import estimate
from optrr_solvers.arrays import FloatArray
from optrr_solvers.randomness import RandomState

TABLES = (("sex", "income"), ("education", "income"))
EPSILON = 1.0


@dataclass(frozen=True, eq=False)
class ShownTable:
    """One table: the truth in these records, and for each mechanism its estimate and standard errors; same shapes."""

    domain: Domain
    truth: FloatArray
    estimates: dict[str, FloatArray]
    standard_errors: dict[str, FloatArray]

    def error(self, name: str) -> float:
        """Root mean squared error over the cells against the truth."""
        return float(np.sqrt(np.mean((self.estimates[name] - self.truth) ** 2)))

    def expected_error(self, name: str) -> float:
        """Root mean squared standard error over the cells: the error to expect on average over randomizations."""
        return float(np.sqrt(np.mean(self.standard_errors[name] ** 2)))


@dataclass(frozen=True, eq=False)
class Demonstration:
    """Designs by name (those compared at ε_i = 1, and the two that randomized the data) and the tables."""

    records: int
    compared: dict[str, Design]
    used: dict[str, Design]
    tables: tuple[ShownTable, ...]


def demonstrate(random_state: RandomState = None) -> Demonstration:
    """Run the main job; a few seconds, no network."""
    data = adult().select(list(ADULT_EIGHT))
    domain = adult_domain().subset(ADULT_EIGHT)
    compared = {
        "optimum": design(domain, EPSILON),
        "optimum, pairs kept": design(domain, EPSILON, preserve="pairs"),
        "POR's heuristic": design(domain, EPSILON, method="inductive"),
        "Kronecker": design(domain, EPSILON, method="kronecker"),
    }
    kept = compared["optimum, pairs kept"]
    even = design(domain, kept.epsilon / domain.m, method="kronecker")
    used = {"optimum": kept, "Kronecker": even}
    released = {name: d.mechanism.perturb(data, random_state) for name, d in used.items()}
    tables = tuple(_table(data, domain, names, used, released) for names in TABLES)
    return Demonstration(data.num_rows, compared, used, tables)


def _table(
    data: pa.Table, domain: Domain, names: tuple[str, ...], used: dict[str, Design], released: dict[str, pa.Table]
) -> ShownTable:
    estimates = {
        name: estimate(count(released[name], domain, names), d.mechanism, target="data") for name, d in used.items()
    }
    return ShownTable(
        domain.subset(names),
        count(data, domain, names).proportions,
        {name: e.proportions for name, e in estimates.items()},
        {name: e.standard_errors for name, e in estimates.items()},
    )
