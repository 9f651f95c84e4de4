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
    count       count, count_many, Counts
    estimate    estimate, Estimate; derive, Derived; count_query, consistent_tables; poisoning, Poisoning;
                posterior, Posterior: credible intervals of small samples
    measure     measure, Measures (shares in groups, risks, odds, means, ordinal association); optrr.measures;
                estimate_among: a table without the people whose true answer is missing, say
    weight      estimate_weighted, test_weighted, WeightedEstimate, PublicColumns: survey weights, strata, clusters, groups
    model       fit_loglinear, stepwise, compare_models, LogLinear; optrr.models
    regress     regress, Regression: linear and logistic, formulas; optrr.regression
    hand on     synthesize, Synthetic: records drawn from a model with the estimated pair tables
    test        stratified_test, test, homogeneity, goodness_of_fit, TestResult; power, predicted_power,
                required_records of an Alternative (alternative_of)
    errors      OptrrError and the kinds below it (optrr.errors); OptrrWarning, the Python warnings about records

More: optrr.longitudinal (people who are asked again), optrr.genomics, optrr.cluster, optrr.protocols, optrr.matrix,
optrr.studies, optrr.solvers, optrr.records.datasets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optrr.lazy_names import lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from optrr.allocating.advice import Advice, advise
    from optrr.allocating.allocate import Allocation, allocate
    from optrr.allocating.tradeoffs import Tradeoff, cap_tradeoff, tradeoff
    from optrr.allocating.workload import WantedTable, Workload
    from optrr.asking import Asking
    from optrr.auditing.audit import AuditOptions, audit
    from optrr.auditing.result import Audit
    from optrr.bayes import Posterior, posterior
    from optrr.deployment.fit import Fitted, export
    from optrr.designing.design import Design
    from optrr.designing.proposing import Proposing
    from optrr.designing.solving import design
    from optrr.designing.specification import Specification, read_specification
    from optrr.designing.verify import Verification, verify
    from optrr.designing.wishes import Wishes
    from optrr.designing.worksheet import Worksheet, worksheet
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
    from optrr.estimation import (
        Derived,
        Estimate,
        Poisoning,
        consistent_tables,
        count_query,
        derive,
        estimate,
        poisoning,
    )
    from optrr.inference import (
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
    from optrr.kernel import SingularMarginal
    from optrr.matrix import MatrixMechanism
    from optrr.measures import Comparing, Measures, estimate_among, measure
    from optrr.mechanisms.mechanism import Mechanism
    from optrr.mechanisms.perturb import perturb
    from optrr.mechanisms.randomizer import Randomizer
    from optrr.models import LogLinear, compare_models, fit_loglinear, stepwise, stratified_test
    from optrr.protocols.sampled_tables import SampledTables
    from optrr.protocols.saved import load_asking
    from optrr.records.bins import Bins
    from optrr.records.counts import Counts, count, count_many
    from optrr.records.domain import Attribute, Domain
    from optrr.records.public import PublicColumns
    from optrr.records.reading.source import RecordsAt
    from optrr.regression.fitting import regress
    from optrr.regression.result import Regression
    from optrr.solvers import SolveOptions
    from optrr.synthesis.drawing import synthesize
    from optrr.synthesis.result import Synthetic
    from optrr.weighting.estimating import estimate_weighted
    from optrr.weighting.result import WeightedEstimate
    from optrr.weighting.testing import test_weighted

# Where each public name lives. Imported on first use: `optrr --help` need not load a solver.
_HOMES = {
    "allocating.advice": (
        "Advice",
        "advise",
    ),
    "allocating.allocate": (
        "Allocation",
        "allocate",
    ),
    "allocating.tradeoffs": (
        "Tradeoff",
        "cap_tradeoff",
        "tradeoff",
    ),
    "allocating.workload": (
        "WantedTable",
        "Workload",
    ),
    "asking": ("Asking",),
    "auditing.audit": ("AuditOptions", "audit"),
    "auditing.result": ("Audit",),
    "bayes": ("Posterior", "posterior"),
    "deployment.fit": ("Fitted", "export"),
    "designing.design": ("Design",),
    "designing.solving": ("design",),
    "designing.proposing": ("Proposing",),
    "designing.specification": (
        "Specification",
        "read_specification",
    ),
    "designing.verify": ("Verification", "verify"),
    "designing.wishes": ("Wishes",),
    "designing.worksheet": ("Worksheet", "worksheet"),
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
    "estimation": (
        "Derived",
        "Estimate",
        "Poisoning",
        "consistent_tables",
        "count_query",
        "derive",
        "estimate",
        "poisoning",
    ),
    "inference": (
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
    "kernel": ("SingularMarginal",),
    "matrix": ("MatrixMechanism",),
    "measures": (
        "Comparing",
        "Measures",
        "estimate_among",
        "measure",
    ),
    "mechanisms.mechanism": ("Mechanism",),
    "mechanisms.perturb": ("perturb",),
    "mechanisms.randomizer": ("Randomizer",),
    "models": (
        "LogLinear",
        "compare_models",
        "fit_loglinear",
        "stepwise",
        "stratified_test",
    ),
    "protocols.sampled_tables": ("SampledTables",),
    "protocols.saved": ("load_asking",),
    "regression.fitting": ("regress",),
    "regression.result": ("Regression",),
    "records.bins": ("Bins",),
    "records.counts": (
        "Counts",
        "count",
        "count_many",
    ),
    "records.public": ("PublicColumns",),
    "records.reading.source": ("RecordsAt",),
    "records.domain": (
        "Attribute",
        "Domain",
    ),
    "solvers": ("SolveOptions",),
    "synthesis.drawing": ("synthesize",),
    "synthesis.result": ("Synthetic",),
    "weighting.estimating": ("estimate_weighted",),
    "weighting.result": ("WeightedEstimate",),
    "weighting.testing": ("test_weighted",),
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
