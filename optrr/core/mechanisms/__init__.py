"""Mechanisms: what randomizes a record, and what estimation needs to know of it.

``mechanism`` has the interface and laws of change sets, ``matrix`` general matrices, ``kernel`` what undoes both; ``release``
and ``spark`` randomize files, streams and Spark frames.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
