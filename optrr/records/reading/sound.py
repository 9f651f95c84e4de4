"""What Arrow read from a file, looked through before anything uses it.

Arrow takes from its own formats what they say of themselves: offsets into texts, numbers of dictionary entries, text that is
said to be UTF-8. Where that is wrong, whoever uses the arrays reads other memory, and the process may crash.
"""

from __future__ import annotations

import pyarrow as pa

from optrr.errors import InvalidInput


def sound_schema(schema: pa.Schema, name: str) -> pa.Schema:
    """The schema itself; ``name`` is where it was read, for messages.

    Raises
    ------
    InvalidInput
        where a column's name is no text.
    """
    try:
        schema.names  # noqa: B018 (names are decoded only when they are asked for)
    except UnicodeDecodeError:
        raise InvalidInput(f"{name} names a column in something else than UTF-8; write it again") from None
    return schema


def sound(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """The batch itself; ``name`` is where it was read, for messages.

    Raises
    ------
    InvalidInput
        where its arrays are not what they say.
    """
    try:
        batch.validate(full=True)
    except pa.ArrowException:
        # Arrow's own words may hold a value
        raise InvalidInput(
            f"cannot read {name}: a column is not what it says, or holds text that is not UTF-8; write it again"
        ) from None
    return batch
