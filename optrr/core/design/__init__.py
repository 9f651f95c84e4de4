"""Specifications in, certified designs out; design files and their verification.

``specification`` is what is asked for, ``solving`` asks the solvers, ``designs`` are the answer and ``design_file`` how
it is kept and checked. ``verification`` limits what the checks of a file may take.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
