"""Linear, logistic, ordered and multinomial regression of true records, from randomized ones, by formulas.

Predictors may be randomized or public. ``formulas`` reads formulas, ``building`` reports; from them it makes the estimating
equations of ``families`` (linear, unbiased score) and ``likelihood``, which ``solving`` solves and tests. ``fitting`` is the
public function with its result; that of answers to questions is :mod:`optrr.analysis.estimated`.
"""
