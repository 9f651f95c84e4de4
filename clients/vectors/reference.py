"""The walk of ``docs/deployment-format.md``, §3, in the slowest and plainest way: whole numbers, no cleverness.

Works on the JSON object of a deployment file. Test vectors are made with it; clients are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Source(Protocol):
    """What the walk draws from."""

    def word(self, bits: int, compared: list[int], others: list[int]) -> int:
        """A whole number of so many bits, about to be compared with ``compared``; ``others`` are other states' thresholds."""
        ...

    def below(self, n: int) -> int:
        """Uniform on 0..n−1."""
        ...


class Bytes:
    """A source over a stream of bytes; ``take(n)`` hands out the next n."""

    def __init__(self, take: Callable[[int], bytes]) -> None:
        self._take = take

    def word(self, bits: int, compared: list[int], others: list[int]) -> int:
        """The next bits/8 bytes, the first the highest."""
        del compared, others
        return int.from_bytes(self._take(bits // 8), "big")

    def below(self, n: int) -> int:
        """Four bytes at a time until they are below the largest multiple of n; none for n = 1."""
        if n == 1:
            return 0
        while True:
            w = int.from_bytes(self._take(4), "big")
            if w < (1 << 32) - (1 << 32) % n:
                return w % n


def randomized(content: dict[str, Any], codes: list[int], source: Source) -> list[int]:
    """The randomized codes of a record."""
    bits, out, s = content["bits"], list(codes), 0
    for layer in content["layers"]:
        if layer["kind"] == "choice":
            ends = thresholds(layer["ends"], bits)
            w = source.word(bits, ends, ends)
            s = layer["next"][sum(end <= w for end in ends)]
            continue
        i = layer["attribute"]
        r = len(content["attributes"][i]["categories"])
        if layer["kind"] == "uniform":
            out[i] = source.below(r)
            s = layer["next"][s]
            continue
        first = thresholds(layer["threshold"], bits)
        a = first[s]
        b = thresholds(layer["second_threshold"], bits)[s] if "second" in layer else 0
        w = source.word(bits, [a, b] if b else [a], first)
        d = source.below(r - 1)
        if w < a:
            out[i] = (codes[i] + 1 + d) % r
        s = layer["second"][s] if w < b else layer["changed"][s] if w < a else layer["kept"][s]
    return out


def thresholds(text: str, bits: int) -> list[int]:
    """Fixed-width hexadecimal digits as integers."""
    width = bits // 4
    return [int(text[k : k + width], 16) for k in range(0, len(text), width)]
