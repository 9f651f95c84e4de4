"""Tests of hypotheses about the true records, made on randomized ones; every p-value comes with how far it can be trusted."""

from optrr.inference.goodness import goodness_of_fit
from optrr.inference.homogeneity import homogeneity
from optrr.inference.interval_width import IntervalWidths
from optrr.inference.naive import naive_pearson
from optrr.inference.power_analysis import (
    Alternative,
    alternative,
    alternative_of,
    goodness_alternative,
    homogeneity_alternative,
    power,
    required_records,
)
from optrr.inference.result import TestResult
from optrr.inference.score import ScoreTests, all_contrasts, score_tests, trend_contrast
from optrr.inference.tail import reliable_down_to, tail_probability
from optrr.inference.testing import TESTS, test

__all__ = [
    "TESTS",
    "Alternative",
    "IntervalWidths",
    "ScoreTests",
    "TestResult",
    "all_contrasts",
    "alternative",
    "alternative_of",
    "goodness_alternative",
    "goodness_of_fit",
    "homogeneity",
    "homogeneity_alternative",
    "naive_pearson",
    "power",
    "reliable_down_to",
    "required_records",
    "score_tests",
    "tail_probability",
    "test",
    "trend_contrast",
]
