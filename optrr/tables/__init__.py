"""Numbers of the true table with honest intervals, from randomized records.

``estimation`` has tables and statistics of them, ``measures`` what is said of one attribute beside another, and
``weighting`` survey weights.
"""

from optrr.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "optrr.tables.estimation.derived": ("Derived", "derive"),
        "optrr.tables.estimation.estimator": ("Estimate", "estimate"),
        "optrr.tables.estimation.fake_reports": ("Poisoning", "poisoning"),
        "optrr.tables.measures": (
            "Comparing",
            "Measures",
            "WeightedShare",
            "contrast",
            "estimate_among",
            "measure",
            "quantiles",
        ),
        "optrr.tables.weighting.estimating": ("WeightedEstimate", "estimate_weighted"),
    },
)
