"""Estimation from randomized records: proportions, counts, derived statistics, and their errors.

``estimator`` makes estimates: a mechanism's kernel inverts, ``simplex`` makes tables proper and consistent,
``likelihood`` and ``adjustment`` fit. A cell's interval is in ``score_interval``, a derived statistic's in
``intervals``. Statistics such as Cramér's V are in ``statistics`` and ``derived``. ``plausibility`` detects counts that
a mechanism cannot have produced, and ``poisoned`` bounds the effect of fake reports on an estimate.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
