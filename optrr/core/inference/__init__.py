"""Tests of hypotheses about true records from randomized ones; each p-value states its reliability.

Associations: ``testing`` is public and has the table of calibrations, ``associations`` that of statistics. ``nullfit``
fits the null hypothesis and makes score statistics, ``likelihood_ratio`` another one. ``simulation`` decides where χ²
serves, and elsewhere draws until a p-value is known well enough. ``groups`` tests tables of one or several groups.
``result`` has the results of one or several tests. Power is in ``power_analysis``, and where reports are rare in
``drawn_power``.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
