"""Protocols: what each client sends, and how the collector estimates from it (MDR §3–5, SIC §4, RIJ §3).

A :class:`Protocol` defines the mechanism of every record; its account lists everything that one person releases, and
the total ε. A :class:`Collector` estimates from the randomized records. ``protocol`` has them by name, with the laws of
clusters; ``clustering`` and ``dependence`` find the clusters.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
