"""The reverse of design: from a total ε, or from required accuracies, to designs; and which way of asking is best.

``workload`` says what is to be learned, ``allocate`` chooses the budgets and ``result`` carries them; ``advice``
compares the ways of asking in ``options``, and ``tradeoffs`` are the curves.
"""

from optrr.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "optrr.budgets.tradeoffs": ("cap_tradeoff",),
        "optrr.budgets.workload": ("WantedTable",),
    },
)
