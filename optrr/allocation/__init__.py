"""The reverse of design: from a total ε, or from required accuracies, to designs; and the best way of asking.

``workload`` says what is to be learned, ``allocate`` compares the ways of asking in ``options`` and ``result`` carries them;
``tradeoffs`` are the curves.
"""

from optrr.core.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "optrr.allocation.tradeoffs": ("cap_tradeoff",),
        "optrr.allocation.workload": ("WantedTable",),
    },
)
