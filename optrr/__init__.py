"""Mechanism design for randomized response on multi-attribute records.

State each attribute's accuracy (ε_i) and get the mechanism with the smallest total ε, the proof that there is no smaller
one, randomized records, and estimates with honest errors. In the order of use:

    declare     Domain, Attribute, Bins; read_specification, Specification (from_frame with Proposing, to_toml)
    read        paths, frames and whatever else holds records are taken everywhere; RecordsAt says how a place is written
    design      design, Design (save, load, verify), verify, Wishes, SolveOptions
    or choose   allocate, advise, tradeoff, Workload; Asking, SampledTables, load_asking
    check       worksheet, Worksheet: an evaluator's questions; audit, AuditOptions: a client, from outside, against its label
    deploy      export, Fitted: the file by which devices randomize
    randomize   perturb, or design.mechanism.perturb; Mechanism, MatrixMechanism
    count       count, count_many, Counts; design.reports(…) opens records once, for as many tables as are wanted
    estimate    estimate, Estimate; derive, Derived; count_query, consistent_tables; poisoning, Poisoning;
                posterior, Posterior: credible intervals of small samples
    measure     measure, Measures (shares in groups, risks, odds, means, ordinal association); optrr.tables.measures;
                estimate_among: a table without the people whose true answer is missing, say
    weight      estimate_weighted, test_weighted, WeightedEstimate, PublicColumns: survey weights, strata, clusters, groups
    model       fit_loglinear, stepwise, compare_models, LogLinear; optrr.models.loglinear
    regress     regress, Regression: linear and logistic, formulas; optrr.models.regression
    hand on     synthesize, Synthetic: records drawn from a model with the estimated pair tables
    test        stratified_test, test, homogeneity, goodness_of_fit, TestResult; power, predicted_power,
                required_records of an Alternative (alternative_of)
    errors      OptrrError and the kinds below it (optrr.errors); OptrrWarning, the Python warnings about records

More: optrr.ways.longitudinal (people who are asked again), optrr.genomics, optrr.designs.cluster, optrr.ways.protocols,
optrr.mechanisms.matrix, optrr.studies, optrr.solvers, optrr.domain.datasets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optrr.lazy_names import lazy_names
from optrr.version import __version__ as __version__

if TYPE_CHECKING:
    from optrr.budgets.advice import Advice, advise
    from optrr.budgets.allocate import Allocation, allocate
    from optrr.budgets.tradeoffs import Tradeoff, cap_tradeoff, tradeoff
    from optrr.budgets.workload import WantedTable, Workload
    from optrr.designs.asking import Asking
    from optrr.designs.design import Design
    from optrr.designs.proposing import Proposing
    from optrr.designs.solving import design
    from optrr.designs.specification import Specification, read_specification
    from optrr.designs.verify import Verification, verify
    from optrr.designs.wishes import Wishes
    from optrr.designs.worksheet import Worksheet, worksheet
    from optrr.devices.auditing.audit import AuditOptions, audit
    from optrr.devices.auditing.result import Audit
    from optrr.devices.deployment.export import Fitted, export
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
    from optrr.mechanisms.kernel import SingularMarginal
    from optrr.mechanisms.matrix import MatrixMechanism
    from optrr.mechanisms.mechanism import Mechanism, Randomizer
    from optrr.mechanisms.perturb import perturb
    from optrr.models.loglinear import LogLinear, compare_models, fit_loglinear, stepwise, stratified_test
    from optrr.models.regression.fitting import regress
    from optrr.models.regression.result import Regression
    from optrr.models.tests import (
        Alternative,
        PredictedPower,
        TestResult,
        alternative_of,
        goodness_of_fit,
        homogeneity,
        power,
        predicted_power,
        required_records,
        test,
    )
    from optrr.models.weighted import test_weighted
    from optrr.records.counts import Counts, count, count_many
    from optrr.records.reading.source import RecordsAt
    from optrr.solvers import SolveOptions
    from optrr.tables.bayes import Posterior, posterior
    from optrr.tables.estimation.consistency import consistent_tables
    from optrr.tables.estimation.derived import Derived, derive
    from optrr.tables.estimation.estimator import estimate
    from optrr.tables.estimation.fake_reports import Poisoning, poisoning
    from optrr.tables.estimation.queries import count_query
    from optrr.tables.estimation.result import Estimate
    from optrr.tables.measures import Comparing, Measures, estimate_among, measure
    from optrr.tables.synthesis.drawing import Synthetic, synthesize
    from optrr.tables.weighting.estimating import WeightedEstimate, estimate_weighted
    from optrr.ways.protocols.sampled_tables import SampledTables, load_asking

# Where each public name lives. Imported on first use: `optrr --help` need not load a solver.
_HOMES = {
    "budgets.advice": (
        "Advice",
        "advise",
    ),
    "budgets.allocate": (
        "Allocation",
        "allocate",
    ),
    "budgets.tradeoffs": (
        "Tradeoff",
        "cap_tradeoff",
        "tradeoff",
    ),
    "budgets.workload": (
        "WantedTable",
        "Workload",
    ),
    "designs.asking": ("Asking",),
    "devices.auditing.audit": (
        "AuditOptions",
        "audit",
    ),
    "devices.auditing.result": ("Audit",),
    "tables.bayes": (
        "Posterior",
        "posterior",
    ),
    "devices.deployment.export": (
        "Fitted",
        "export",
    ),
    "designs.design": ("Design",),
    "designs.solving": ("design",),
    "designs.proposing": ("Proposing",),
    "designs.specification": (
        "Specification",
        "read_specification",
    ),
    "designs.verify": (
        "Verification",
        "verify",
    ),
    "designs.wishes": ("Wishes",),
    "designs.worksheet": (
        "Worksheet",
        "worksheet",
    ),
    "errors": (
        "Infeasible",
        "InvalidInput",
        "InvalidProblem",
        "MethodTooLarge",
        "OptrrError",
        "OptrrWarning",
        "SolveFailed",
        "TooFewRecords",
    ),
    "tables.estimation.consistency": ("consistent_tables",),
    "tables.estimation.derived": (
        "Derived",
        "derive",
    ),
    "tables.estimation.estimator": ("estimate",),
    "tables.estimation.fake_reports": (
        "Poisoning",
        "poisoning",
    ),
    "tables.estimation.queries": ("count_query",),
    "tables.estimation.result": ("Estimate",),
    "models.tests": (
        "Alternative",
        "PredictedPower",
        "TestResult",
        "alternative_of",
        "goodness_of_fit",
        "homogeneity",
        "power",
        "predicted_power",
        "required_records",
        "test",
        "test_weighted",
    ),
    "mechanisms.kernel": ("SingularMarginal",),
    "mechanisms.matrix": ("MatrixMechanism",),
    "tables.measures": (
        "Comparing",
        "Measures",
        "estimate_among",
        "measure",
    ),
    "mechanisms.mechanism": (
        "Mechanism",
        "Randomizer",
    ),
    "mechanisms.perturb": ("perturb",),
    "models.loglinear": (
        "LogLinear",
        "compare_models",
        "fit_loglinear",
        "stepwise",
        "stratified_test",
    ),
    "ways.protocols.sampled_tables": (
        "SampledTables",
        "load_asking",
    ),
    "models.regression.fitting": ("regress",),
    "models.regression.result": ("Regression",),
    "domain.bins": ("Bins",),
    "records.counts": (
        "Counts",
        "count",
        "count_many",
    ),
    "domain.public": ("PublicColumns",),
    "records.reading.source": ("RecordsAt",),
    "domain.domain": (
        "Attribute",
        "Domain",
    ),
    "solvers": ("SolveOptions",),
    "tables.synthesis.drawing": (
        "Synthetic",
        "synthesize",
    ),
    "tables.weighting.estimating": (
        "WeightedEstimate",
        "estimate_weighted",
    ),
    "models.weighted": ("test_weighted",),
}

__all__ = [
    "Advice",
    "Allocation",
    "Alternative",
    "Asking",
    "Attribute",
    "Audit",
    "AuditOptions",
    "Bins",
    "Comparing",
    "Counts",
    "Derived",
    "Design",
    "Domain",
    "Estimate",
    "Fitted",
    "Infeasible",
    "InvalidInput",
    "InvalidProblem",
    "LogLinear",
    "MatrixMechanism",
    "Measures",
    "Mechanism",
    "MethodTooLarge",
    "OptrrError",
    "OptrrWarning",
    "Poisoning",
    "Posterior",
    "PredictedPower",
    "Proposing",
    "PublicColumns",
    "Randomizer",
    "RecordsAt",
    "Regression",
    "SampledTables",
    "SingularMarginal",
    "SolveFailed",
    "SolveOptions",
    "Specification",
    "Synthetic",
    "TestResult",
    "TooFewRecords",
    "Tradeoff",
    "Verification",
    "WantedTable",
    "WeightedEstimate",
    "Wishes",
    "Workload",
    "Worksheet",
    "advise",
    "allocate",
    "alternative_of",
    "audit",
    "cap_tradeoff",
    "compare_models",
    "consistent_tables",
    "count",
    "count_many",
    "count_query",
    "derive",
    "design",
    "estimate",
    "estimate_among",
    "estimate_weighted",
    "export",
    "fit_loglinear",
    "goodness_of_fit",
    "homogeneity",
    "load_asking",
    "measure",
    "perturb",
    "poisoning",
    "posterior",
    "power",
    "predicted_power",
    "read_specification",
    "regress",
    "required_records",
    "stepwise",
    "stratified_test",
    "synthesize",
    "test",
    "test_weighted",
    "tradeoff",
    "verify",
    "worksheet",
]

__getattr__, _names = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted([*_names(), "__version__"])
