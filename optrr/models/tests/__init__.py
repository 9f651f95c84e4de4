"""Tests of hypotheses about the true records, made on randomized ones; every p-value comes with how far it can be trusted.

Associations: ``testing`` is the front door, ``nullfit`` fits the null hypothesis, ``score`` and ``likelihood_ratio``
make the statistic. ``calibration`` says where χ² holds for it, and where a p-value is simulated instead:
``simulation`` draws until that is known well enough, ``tail`` and ``saddlepoint`` go far into the tail; scans take
theirs from ``conditional``. ``goodness`` and ``homogeneity`` test tables of one or several groups, with ``exact`` for
what they share; ``family`` adjusts p-values of several tests. Power is in ``power_analysis``, and where reports are rare in
``drawn_power``; records needed for narrow intervals in ``interval_width``.
"""

from optrr.models.tests.drawn_power import PredictedPower
from optrr.models.tests.family import TestFamily, family
from optrr.models.tests.homogeneity import goodness_of_fit, homogeneity, naive_pearson
from optrr.models.tests.nullfit import ScoreTests, all_contrasts, score_tests, trend_contrast
from optrr.models.tests.power_analysis import (
    Alternative,
    IntervalWidths,
    alternative,
    alternative_of,
    goodness_alternative,
    homogeneity_alternative,
    power,
    predicted_power,
    required_records,
)
from optrr.models.tests.result import TestResult
from optrr.models.tests.tail import reliable_down_to, tail_probability
from optrr.models.tests.testing import TESTS, test

__all__ = [
    "TESTS",
    "Alternative",
    "IntervalWidths",
    "PredictedPower",
    "ScoreTests",
    "TestFamily",
    "TestResult",
    "all_contrasts",
    "alternative",
    "alternative_of",
    "family",
    "goodness_alternative",
    "goodness_of_fit",
    "homogeneity",
    "homogeneity_alternative",
    "naive_pearson",
    "power",
    "predicted_power",
    "reliable_down_to",
    "required_records",
    "score_tests",
    "tail_probability",
    "test",
    "trend_contrast",
]
