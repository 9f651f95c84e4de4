"""Records as codes: an integer array, shape (n, m), the positions of each record's categories in the domain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput


def checked_codes(codes: NDArray[np.integer], domain: Domain) -> NDArray[np.integer]:
    """The array itself, if it holds codes of this domain, shape (n, m), n at least 1.

    Raises
    ------
    InvalidInput
        for another shape or type, or a code outside 0..r_i−1.
    """
    array = np.asarray(codes)
    if array.ndim != 2 or array.shape[1] != domain.m or not np.issubdtype(array.dtype, np.integer):
        raise InvalidInput(
            f"an array of shape {array.shape} and type {array.dtype} is not codes of this domain; "
            f"give integers of shape (n, {domain.m})"
        )
    if not array.shape[0]:
        raise InvalidInput("the array holds no records; give at least one row")
    bad = (array.min(axis=0) < 0) | (array.max(axis=0) >= domain.sizes)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        row = int(np.flatnonzero((array[:, i] < 0) | (array[:, i] >= domain.sizes[i]))[0])
        raise InvalidInput(
            f"attribute {domain.names[i]!r} has a code outside its categories in record {row + 1}; "
            f"its codes are 0..{domain.sizes[i] - 1}"
        )
    return array
