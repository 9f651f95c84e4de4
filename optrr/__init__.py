"""Mechanism design for randomized response on multi-attribute records.

State each attribute's accuracy (ε_i) and get the mechanism with the smallest total ε, the proof that there is no smaller
one, randomized records, and estimates with errors that account for randomization. In the order of use:

    declare     Domain, Attribute, Bins; read_specification, Specification; PublicColumns
    design      design, Design, Constraints, SolveOptions; or from a total: allocate with a Workload
    randomize   design.randomize(frame) or design.randomize(file, file)
    open        reports(data, design), Reports: tables, measures, tests, models, regressions, synthetic records;
                Sample, MissingAtRandom, Bootstrap: how records were sampled, missing values, where p-values come from
    plan        plan(…): from a question to a recorded choice, with a statement; design.power(…), design.records_for(…)
    files       load, save, verify: everything of ours
    devices     export: the file by which clients randomize; audit: a client, from outside; worksheet: an evaluator's questions

Where records are already counts, or there is only a mechanism: count, Counts, estimate, test, Mechanism. Everything
else lives in its package: optrr.core, optrr.allocation, optrr.analysis, optrr.devices, optrr.genomics, optrr.longitudinal,
optrr.planner, optrr.studies. The solvers are a package of their own, optrr_solvers: arrays in, laws and bounds out.
"""

from typing import TYPE_CHECKING

import lazy_loader as lazy

from optrr.core.display import __version__ as __version__

if TYPE_CHECKING:
    from optrr.allocation.allocating import Allocation, allocate
    from optrr.allocation.sampled_tables import SampledTables
    from optrr.allocation.workload import Workload
    from optrr.core.design.designs import Design
    from optrr.core.design.solving import Constraints, design
    from optrr.core.design.specification import Specification, read_specification
    from optrr.core.design.verification import Verification
    from optrr.core.domain.arguments import MissingAtRandom, Sample
    from optrr.core.domain.bins import Bins
    from optrr.core.domain.domain import Attribute, Domain
    from optrr.core.domain.public import PublicColumns
    from optrr.core.errors import (
        Infeasible,
        InvalidInput,
        InvalidProblem,
        MethodTooLarge,
        OptrrError,
        OptrrWarning,
        SolveFailed,
        TooFewRecords,
    )
    from optrr.core.estimation.estimator import estimate
    from optrr.core.files import export, load, reports, save, verify
    from optrr.core.inference.testing import Bootstrap, test
    from optrr.core.mechanisms.kernel import SingularMarginal
    from optrr.core.mechanisms.matrix import MatrixMechanism
    from optrr.core.mechanisms.mechanism import Mechanism
    from optrr.core.records.counts import Counts, count
    from optrr.core.records.reading.source import RecordsAt
    from optrr.core.reports import Reports
    from optrr.devices.audit import audit
    from optrr.devices.worksheet import worksheet
    from optrr.planner.plan import plan
    from optrr_solvers.options import SolveOptions

# Where each public name lives. Imported on first use: help need not load a solver.
_HOMES = {
    "allocation.allocating": ["Allocation", "allocate"],
    "allocation.sampled_tables": ["SampledTables"],
    "allocation.workload": ["Workload"],
    "core.design.designs": ["Design"],
    "core.design.solving": ["Constraints", "SolveOptions", "design"],
    "core.design.specification": ["Specification", "read_specification"],
    "core.design.verification": ["Verification"],
    "core.domain.bins": ["Bins"],
    "core.domain.domain": ["Attribute", "Domain"],
    "core.domain.arguments": ["MissingAtRandom", "Sample"],
    "core.domain.public": ["PublicColumns"],
    "core.errors": [
        "Infeasible",
        "InvalidInput",
        "InvalidProblem",
        "MethodTooLarge",
        "OptrrError",
        "OptrrWarning",
        "SolveFailed",
        "TooFewRecords",
    ],
    "core.estimation.estimator": ["estimate"],
    "core.files": ["export", "load", "reports", "save", "verify"],
    "core.inference.testing": ["Bootstrap", "test"],
    "core.mechanisms.kernel": ["SingularMarginal"],
    "core.mechanisms.matrix": ["MatrixMechanism"],
    "core.mechanisms.mechanism": ["Mechanism"],
    "core.records.counts": ["Counts", "count"],
    "core.records.reading.source": ["RecordsAt"],
    "core.reports": ["Reports"],
    "devices.audit": ["audit"],
    "devices.worksheet": ["worksheet"],
    "planner.plan": ["plan"],
}

__all__ = [
    "Allocation",
    "Attribute",
    "Bins",
    "Bootstrap",
    "Constraints",
    "Counts",
    "Design",
    "Domain",
    "Infeasible",
    "InvalidInput",
    "InvalidProblem",
    "MatrixMechanism",
    "Mechanism",
    "MethodTooLarge",
    "MissingAtRandom",
    "OptrrError",
    "OptrrWarning",
    "PublicColumns",
    "RecordsAt",
    "Reports",
    "Sample",
    "SampledTables",
    "SingularMarginal",
    "SolveFailed",
    "SolveOptions",
    "Specification",
    "TooFewRecords",
    "Verification",
    "Workload",
    "allocate",
    "audit",
    "count",
    "design",
    "estimate",
    "export",
    "load",
    "plan",
    "read_specification",
    "reports",
    "save",
    "test",
    "verify",
    "worksheet",
]

# Packages that hold what has no name here.
_PACKAGES = ("allocation", "analysis", "core", "devices", "genomics", "longitudinal", "planner", "studies")

__getattr__, __dir__, _ = lazy.attach(__name__, _PACKAGES, _HOMES)
