"""Linear, logistic, ordered and multinomial regression of true records, from randomized ones, by formulas.

Predictors may be randomized or public. ``formulas`` reads formulas, ``building`` reports; from them come the estimating
equations of ``linear`` (least squares) and ``likelihood`` (categorical outcomes), which :mod:`optrr.analysis.equations` solves
and tests. ``fitting`` is the public function with its result.
"""
