"""Estimation from randomized records: proportions, counts, derived statistics, and their errors.

``estimator`` makes the estimates of ``result``: the kernel inverts (another room), ``simplex`` projects, ``likelihood`` and
``adjustment`` fit. A cell's interval is in ``score_interval``, a derived statistic's in ``intervals`` and ``paths``. Statistics
such as Cramér's V are in ``statistics`` and ``derived``, sums over cells in ``queries``. ``impossible`` says when no records
that a mechanism randomized can have been counted, ``fake_reports`` how far fake reports can move an estimate.
"""
