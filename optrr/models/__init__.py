"""Models of the true table and tests between them: independence, log-linear models, regressions, survey-weighted tests.

``tests`` asks whether attributes are independent and plans for it, ``loglinear`` fits and compares models of a table,
``regression`` relates one attribute to others, ``synthesis`` draws records from a model, ``weighted`` corrects tests for a
survey's design, and ``estimated`` does all this with answers to questions.
"""

from optrr.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "optrr.models.loglinear.comparing": ("compare_models", "stratified_test"),
        "optrr.models.loglinear.estimating": ("LogLinear", "fit_loglinear", "stepwise"),
        "optrr.models.regression.fitting": ("Regression", "regress"),
        "optrr.models.synthesis.combined": ("Combined", "combine"),
        "optrr.models.synthesis.drawing": ("Synthetic", "synthesize"),
        "optrr.models.tests.drawn_power": ("PredictedPower",),
        "optrr.models.tests.homogeneity": ("goodness_of_fit", "homogeneity"),
        "optrr.models.tests.power_analysis": (
            "Alternative",
            "alternative_of",
            "power",
            "predicted_power",
            "required_records",
        ),
        "optrr.models.tests.result": ("TestResult",),
        "optrr.models.tests.testing": ("test",),
        "optrr.models.weighted": ("test_weighted",),
    },
)
