"""Random changes of inputs: of bytes, of tokens that readers look for, and of the structure of JSON."""

import json
import random

import numpy as np

from tests.mutations import mutated

TOKENS = [
    b"null", b"[]", b"{}", b'"', b"1e999", b"NaN", b"-0", b"inf", b"\xff", b"\\ud800", b"\xed\xa0\x80", b",", b";", b"\t",
    b"=", b":", b"[" * 2000, b'{"a":' * 2000, b"\x00", b"\r", b"\n", b"9" * 5000, b"18446744073709551616", b"1e-400", b"0x1",
    b"1_0", b"\xef\xbb\xbf", b"\xff\xfe", b"__class__", b"../x", b"\x1b[31m", b"true", b"2024-01-01", b"\xc2\xa0", b"%s",
    b"{0}", b"-1", b"\x1f\x8b", b"PAR1",
]  # fmt: skip


def changed(data: bytes, rng: random.Random, longest: int) -> bytes:
    """One to four changes."""
    if data[:1] in b"{[" and rng.random() < 0.5:
        return _restructured(data, rng)[:longest]
    for _ in range(rng.randint(1, 4)):
        a = rng.randrange(len(data) + 1)
        b = min(len(data), a + rng.choice([0, 0, 1, 1, 2, 4, 20, 100]))
        c = rng.randrange(len(data) + 1)
        piece = rng.choice(
            [b"", rng.randbytes(rng.randint(1, 8)), rng.choice(TOKENS), data[c : c + rng.randint(1, 64)]]
        )
        data = data[:a] + piece + data[b:]
    return data[:longest]


def _restructured(data: bytes, rng: random.Random) -> bytes:
    try:
        content = json.loads(data)
        if not content:
            return data
        numbers = np.random.default_rng(rng.getrandbits(64))
        return json.dumps(mutated(content, numbers, _texts)).encode()
    except (ValueError, RecursionError, OverflowError, TypeError, KeyError, IndexError):
        # other changes have made it something else
        return data


def _texts(value: str, rng: np.random.Generator) -> str:
    return str(
        rng.choice(
            ["", value * 2, value[1:], "optimal", "product", "0", "1", "9" * 400, "\ud7ff\x00", "é", value.upper()]
        )
    )
