"""Protocols: who sends what, and what the collector makes of it (MDR §3–5, SIC §4, RIJ §3).

A :class:`Protocol` says what everybody's record is randomized by; its account lists everything one person releases and what it
costs in all. A :class:`Collector` estimates from the randomized records. ``protocol`` has them by name, with the laws of
clusters; ``clustering`` and ``dependence`` find the clusters.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
