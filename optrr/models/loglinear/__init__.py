"""Log-linear models of a table's true proportions, fitted to randomized records, and tests of one model against another.

``fitting`` reads a model and fits it, to one table or to many; ``estimating`` is the front door, with intervals and the choice
among models. ``comparing`` is the front door of tests and their power, and ``within`` the likelihood ratio within strata.
"""
