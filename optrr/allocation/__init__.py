"""The reverse of design: from a total ε, or from required accuracies, to designs; and the most accurate protocol.

``workload`` states which tables are wanted, ``allocating`` compares the ``strategies``, and ``result`` holds them.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
