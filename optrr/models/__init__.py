"""Models of the true table and tests between them: independence, log-linear models, regressions, survey-weighted tests.

``tests`` asks whether attributes are independent and plans for it, ``loglinear`` fits and compares models of a table,
``regression`` relates one attribute to others, and ``weighted`` corrects tests for a survey's design.
"""
