"""Specifications in, certified designs out; design files and their verification.

``specification`` reads the requirements, ``solving`` calls the solvers, ``designs`` holds their result, and
``design_file`` writes, reads and checks it. ``verification`` limits the time and memory of a file's checks.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
