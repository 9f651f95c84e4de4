"""Tests of hypotheses about true records from randomized ones; each p-value states its reliability.

Associations: ``testing`` is public and has the table of calibrations, ``associations`` that of statistics. ``nullfit`` fits
the null hypothesis and makes score statistics, ``likelihood_ratio`` another one. ``simulation`` says where χ² serves, and draws
until a p-value is known well enough elsewhere. ``groups`` tests tables of one or several groups. ``result`` is what tests
return, one or several. Power is in ``power_analysis``, and where reports are rare in ``drawn_power``.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
