"""Log-linear models of a table's true proportions, fitted to randomized records, and tests of one model against another.

``fitting`` reads a model and fits it, to one table or to many; ``estimating`` is public, with intervals and the choice
among models. ``comparing`` has the public tests and their power, and ``within`` the likelihood ratio within strata.
"""
