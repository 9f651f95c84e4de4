"""The solver package's public names: arrays in, laws and bounds out."""

from optrr_solvers import *  # noqa: F403 (a re-export of that package's __all__)
from optrr_solvers import __all__ as __all__  # noqa: PLC0414 (the same list)
