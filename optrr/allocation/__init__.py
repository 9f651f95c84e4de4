"""The reverse of design: from a total ε, or from required accuracies, to designs; and the best way of asking.

``workload`` says what is to be learned, ``allocate`` compares the ways of asking in ``options`` and ``result`` carries them;
``tradeoffs`` are the curves.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
