"""One BLAS thread while many small systems are solved: on tiny matrices threads wait for each other longer than they work.

OpenBLAS starts a thread for each core. With two of them an allocation for all pairs of nine attributes took half as much
processor time again as with one.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

_P = ParamSpec("_P")
_R = TypeVar("_R")


def one_thread(solve: Callable[_P, _R]) -> Callable[_P, _R]:
    """Limit BLAS to one thread while the function runs; takes 25 µs a call."""

    @wraps(solve)
    def limited(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with _libraries().limit(limits=1, user_api="blas"):
            return solve(*args, **kwargs)

    return limited


@cache
def _libraries() -> ThreadpoolController:
    """Find the BLAS libraries of this process once, in 20 ms.

    After SciPy has loaded its own.
    """
    import scipy.linalg  # noqa: F401, PLC0415 (its library must be there to be found)

    return ThreadpoolController()
