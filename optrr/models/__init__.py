"""Models of the true table and tests between them: independence, log-linear models, regressions, survey-weighted tests.

``tests`` asks whether attributes are independent and plans for it, ``loglinear`` fits and compares models of a table,
``regression`` relates one attribute to others, ``synthesis`` draws records from a model, and ``weighted`` corrects tests for a
survey's design.
"""

from optrr.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "optrr.models.loglinear": (
            "LogLinear",
            "compare_models",
            "fit_loglinear",
            "stepwise",
            "stratified_test",
        ),
        "optrr.models.regression.fitting": ("regress",),
        "optrr.models.regression.result": ("Regression",),
        "optrr.models.synthesis": ("Combined", "Synthetic", "combine", "synthesize"),
        "optrr.models.tests": (
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
        ),
        "optrr.models.weighted": ("test_weighted",),
    },
)
