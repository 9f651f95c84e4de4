"""Records of data frames, files, databases and Spark; their counts; and files that are written whole or not at all.

Files are read in ``reading/``, whose ``registry`` is the table of formats and asks records where they come from, and
written by ``writing`` and ``atomic``. ``frames`` turns whole data sets into codes and back; ``spark`` lets Spark's
workers do it. ``counts`` binds randomized records to their design, lists warnings about them, and counts them.
:mod:`optrr.core.domain` defines the meaning of values.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
