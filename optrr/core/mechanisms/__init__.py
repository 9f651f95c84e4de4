"""Mechanisms: the randomization of a record, and the kernels that estimation needs.

``mechanism`` has the interface and laws of change sets, ``matrix`` general matrices, ``kernel`` what undoes both; ``release``
and ``spark`` randomize files, streams and Spark frames.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
