"""Solvers: arrays in, laws and bounds out. Knows nothing of records; imports nothing of the optrr package.

``solve`` (``auto``) tries the methods in the table of ``methods``. Every solution passes the gate ``checked`` in
``solution``, which recomputes its bounds before it is returned.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
