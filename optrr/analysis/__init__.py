"""Analyses of randomized records: what each method of :class:`optrr.Reports` does, and the models behind them.

``tables``, ``hypotheses`` and ``models`` hold the methods. ``measures`` compare attributes, ``weighting`` estimates with survey
weights, ``weighted`` corrects tests for a survey's design, ``collapsed`` merges rare categories; ``loglinear`` fits models of a
table, ``regression`` relates one attribute to others, ``synthesis`` draws records from a model; ``equations`` solves and tests
models of every kind.
"""

from optrr.core.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "optrr.analysis.loglinear.comparing": ("compare_models", "stratified_test"),
        "optrr.analysis.loglinear.estimating": ("LogLinear", "fit_loglinear", "stepwise"),
        "optrr.analysis.measures": (
            "Comparing",
            "Measures",
            "WeightedShare",
            "contrast",
            "estimate_among",
            "measure",
            "quantiles",
        ),
        "optrr.analysis.regression.fitting": ("Regression", "regress"),
        "optrr.analysis.synthesis.combined": ("Combined", "combine"),
        "optrr.analysis.synthesis.drawing": ("Synthetic", "synthesize"),
        "optrr.analysis.weighted": ("test_weighted",),
        "optrr.analysis.weighting.estimating": ("WeightedEstimate", "estimate_weighted"),
    },
)
