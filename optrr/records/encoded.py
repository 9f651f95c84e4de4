"""Records as codes, batch by batch, from whatever holds them: a frame, a file, a stream of batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optrr.domain.domain import Domain
from optrr.records.frames import FrameCodec
from optrr.records.reading.registry import record_batches


def encoded_batches(data: Any, domain: Domain, *, allow_extra: bool = False) -> Iterator[NDArray[np.int32]]:
    """Codes of each batch, shape (n, m), in the order of the data; empty batches are left out.

    Raises
    ------
    InvalidInput
        for missing columns, unless ``allow_extra`` for columns that are not the domain's attributes, and for an undeclared
        value, with the first record it stands in.
    """
    codec: FrameCodec | None = None
    for batch in record_batches(data, domain, None if allow_extra else domain):
        if codec is None or not batch.schema.equals(codec.schema):
            codec = FrameCodec(domain, batch.schema, first_record=0 if codec is None else codec.records)
        codes = codec.encode(batch)
        if codes.shape[0]:
            yield codes


def encoded(data: Any, domain: Domain) -> NDArray[np.int32]:
    """Codes of all records, shape (N, m), of data that may have other columns, too. Raises InvalidInput as above."""
    empty = np.zeros((0, domain.m), dtype=np.int32)
    return np.concatenate([empty, *encoded_batches(data, domain, allow_extra=True)])
