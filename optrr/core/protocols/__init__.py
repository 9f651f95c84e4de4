"""Protocols: who sends what, and what the collector makes of it (MDR §3–5, SIC §4, RIJ §3).

A :class:`Protocol` says what everybody's record is randomized by; its account lists everything one person releases and what it
costs in all. A :class:`Collector` estimates from the randomized records. ``protocol`` has them by name, with the laws of
clusters; ``clustering`` and ``dependence`` find the clusters.
"""

from optrr.core.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "optrr.core.provenance.accounting": ("Account", "Spent"),
        "optrr.core.protocols.protocol": (
            "Collector",
            "Protocol",
            "of_design",
            "optimum",
            "rr_clusters",
            "rr_ind_joint",
            "rr_independent",
            "rr_joint",
            "sic_clusters",
        ),
    },
)
