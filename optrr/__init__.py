"""Mechanism design for randomized response on multi-attribute records.

State each attribute's accuracy (ε_i) and get the mechanism with the smallest total ε, the proof that there is no smaller
one, randomized records, and estimates with honest errors. In the order of use:

    declare     Domain, Attribute, Bins; read_specification, Specification; PublicColumns
    design      design, Design, Wishes, SolveOptions; or from a total: allocate, tradeoff with a Workload
    randomize   design.randomize(frame) or design.randomize(file, file)
    open        reports(data, design), Reports: tables, measures, tests, models, regressions, synthetic records
    plan        plan(…): from a question to a recorded choice, with a statement; design.power(…), design.records_for(…)
    files       load, save, verify: everything of ours
    devices     export: the file by which clients randomize; audit: a client, from outside; worksheet: an evaluator's questions

Where records are already counts, or there is only a mechanism: count, Counts, estimate, test, perturb, Mechanism. Everything
else lives in its package: optrr.tables, optrr.models, optrr.designs, optrr.budgets, optrr.plans, optrr.devices, optrr.ways,
optrr.genomics. The solvers are a package of their own, optrr_solvers: arrays in, laws and bounds out.
"""

import importlib
from typing import TYPE_CHECKING, Any

from optrr.lazy_names import lazy_names
from optrr.show import __version__ as __version__

if TYPE_CHECKING:
    from optrr.analyses import Reports
    from optrr.budgets.allocate import Allocation, allocate
    from optrr.budgets.tradeoffs import Tradeoff, tradeoff
    from optrr.budgets.variances import design
    from optrr.budgets.workload import Workload
    from optrr.designs.checks import Verification
    from optrr.designs.design import Design
    from optrr.designs.solving import Wishes
    from optrr.designs.specification import Specification, read_specification
    from optrr.designs.worksheet import worksheet
    from optrr.devices.audit import audit
    from optrr.domain.bins import Bins
    from optrr.domain.domain import Attribute, Domain
    from optrr.domain.public import PublicColumns
    from optrr.errors import (
        Infeasible,
        InvalidInput,
        InvalidProblem,
        MethodTooLarge,
        OptrrError,
        OptrrWarning,
        SolveFailed,
        TooFewRecords,
    )
    from optrr.files import export, load, reports, save, verify
    from optrr.mechanisms.kernel import SingularMarginal
    from optrr.mechanisms.matrix import MatrixMechanism
    from optrr.mechanisms.mechanism import Mechanism
    from optrr.mechanisms.perturb import perturb
    from optrr.models.tests.testing import test
    from optrr.plans.plan import plan
    from optrr.records.counts import Counts, count
    from optrr.records.reading.source import RecordsAt
    from optrr.tables.estimation.estimator import estimate
    from optrr.ways.protocols.sampled_tables import SampledTables
    from optrr_solvers import SolveOptions

# Where each public name lives. Imported on first use: `optrr --help` need not load a solver.
_HOMES = {
    "optrr.analyses": ("Reports",),
    "optrr.budgets.allocate": ("Allocation", "allocate"),
    "optrr.budgets.tradeoffs": ("Tradeoff", "tradeoff"),
    "optrr.budgets.variances": ("design",),
    "optrr.budgets.workload": ("Workload",),
    "optrr.designs.checks": ("Verification",),
    "optrr.designs.design": ("Design",),
    "optrr.designs.specification": ("Specification", "read_specification"),
    "optrr.designs.solving": ("Wishes",),
    "optrr.designs.worksheet": ("worksheet",),
    "optrr.devices.audit": ("audit",),
    "optrr.domain.bins": ("Bins",),
    "optrr.domain.domain": ("Attribute", "Domain"),
    "optrr.domain.public": ("PublicColumns",),
    "optrr.errors": (
        "Infeasible",
        "InvalidInput",
        "InvalidProblem",
        "MethodTooLarge",
        "OptrrError",
        "OptrrWarning",
        "SolveFailed",
        "TooFewRecords",
    ),
    "optrr.files": ("export", "load", "reports", "save", "verify"),
    "optrr.mechanisms.kernel": ("SingularMarginal",),
    "optrr.mechanisms.matrix": ("MatrixMechanism",),
    "optrr.mechanisms.mechanism": ("Mechanism",),
    "optrr.mechanisms.perturb": ("perturb",),
    "optrr.models.tests.testing": ("test",),
    "optrr.plans.plan": ("plan",),
    "optrr.records.counts": ("Counts", "count"),
    "optrr.records.reading.source": ("RecordsAt",),
    "optrr.tables.estimation.estimator": ("estimate",),
    "optrr.ways.protocols.sampled_tables": ("SampledTables",),
    "optrr_solvers": ("SolveOptions",),
}

__all__ = [
    "Allocation",
    "Attribute",
    "Bins",
    "Counts",
    "Design",
    "Domain",
    "Infeasible",
    "InvalidInput",
    "InvalidProblem",
    "MatrixMechanism",
    "Mechanism",
    "MethodTooLarge",
    "OptrrError",
    "OptrrWarning",
    "PublicColumns",
    "RecordsAt",
    "Reports",
    "SampledTables",
    "SingularMarginal",
    "SolveFailed",
    "SolveOptions",
    "Specification",
    "TooFewRecords",
    "Tradeoff",
    "Verification",
    "Wishes",
    "Workload",
    "allocate",
    "audit",
    "count",
    "design",
    "estimate",
    "export",
    "load",
    "perturb",
    "plan",
    "read_specification",
    "reports",
    "save",
    "test",
    "tradeoff",
    "verify",
    "worksheet",
]

# Packages that hold what has no name here.
_PACKAGES = ("budgets", "designs", "devices", "genomics", "mechanisms", "models", "plans", "tables", "ways")

_named, _names = lazy_names(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    return importlib.import_module(f"optrr.{name}") if name in _PACKAGES else _named(name)


def __dir__() -> list[str]:
    return sorted([*_names(), *_PACKAGES, "__version__"])
