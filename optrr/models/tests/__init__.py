"""Tests of hypotheses about the true records, made on randomized ones; every p-value comes with how far it can be trusted.

Associations: ``testing`` is public, ``nullfit`` fits the null hypothesis and makes the statistic, ``calibration`` says
where χ² holds for it and what stands in elsewhere: ``simulation`` draws until a p-value is known well enough, ``tail`` goes far
out. ``homogeneity`` tests tables of one or several groups. ``result`` is what tests return, one or several. Power is in
``power_analysis``, and where reports are rare in ``drawn_power``.
"""
