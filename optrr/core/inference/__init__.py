"""Tests of hypotheses about the true records, made on randomized ones; every p-value comes with how far it can be trusted.

Associations: ``testing`` is public, ``nullfit`` fits the null hypothesis and makes the statistic, ``calibration`` says
where χ² holds for it and what stands in elsewhere: ``simulation`` draws until a p-value is known well enough, ``tail`` goes far
out. ``homogeneity`` tests tables of one or several groups. ``result`` is what tests return, one or several. Power is in
``power_analysis``, and where reports are rare in ``drawn_power``.
"""

from optrr.core.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "optrr.core.inference.drawn_power": ("PredictedPower",),
        "optrr.core.inference.homogeneity": ("goodness_of_fit", "homogeneity"),
        "optrr.core.inference.power_analysis": (
            "Alternative",
            "alternative_of",
            "power",
            "predicted_power",
            "required_records",
        ),
        "optrr.core.inference.result": ("TestResult",),
        "optrr.core.inference.testing": ("test",),
    },
)
