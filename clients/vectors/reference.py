"""The walks of ``docs/deployment-format.md``, §3 and §8, in the slowest and plainest way: whole numbers, no cleverness.

Works on the JSON object of a deployment file. Test vectors are made with it; clients are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol


class Source(Protocol):
    """What the walk draws from."""

    def word(self, bits: int, compared: list[int], others: list[int]) -> int:
        """A whole number of so many bits, about to be compared with ``compared``; ``others`` are other states' thresholds."""
        ...

    def below(self, n: int, size: int = 4) -> int:
        """Uniform on 0..n−1, from so many bytes at a time."""
        ...


class Bytes:
    """A source over a stream of bytes; ``take(n)`` hands out the next n."""

    def __init__(self, take: Callable[[int], bytes]) -> None:
        self._take = take

    def word(self, bits: int, compared: list[int], others: list[int]) -> int:
        """The next bits/8 bytes, the first the highest."""
        del compared, others
        return int.from_bytes(self._take(bits // 8), "big")

    def below(self, n: int, size: int = 4) -> int:
        """So many bytes at a time until they are below the largest multiple of n; none for n = 1."""
        if n == 1:
            return 0
        while True:
            w = int.from_bytes(self._take(size), "big")
            if w < (1 << 8 * size) - (1 << 8 * size) % n:
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


def tried_in_turn(content: dict[str, Any], codes: list[int], source: Source) -> list[int]:
    """The randomized codes of a record, of a file of trials (§9)."""
    trials, sizes = content["trials"], [len(a["categories"]) for a in content["attributes"]]
    (uniform,), ends = thresholds(trials["uniform"], 64), thresholds(trials["ends"], 64)
    v = source.word(64, [uniform], [])
    w = source.word(64, ends, ends)
    ball = trials["balls"][len([end for end in ends if end <= w])]
    first, second = thresholds(ball["thresholds"], 64), thresholds(ball["second_thresholds"], 64)
    acceptance = thresholds(ball["acceptance"], 32)
    limits, accepted = {ball["least"] + k: limit for k, limit in enumerate(acceptance)}, []
    for _ in range(trials["count"]):
        words = [source.word(64, [a, b], first) for a, b in zip(first, second, strict=True)]
        changed = [u < a for u, a in zip(words, first, strict=True)]
        total = sum(x for x, moves in zip(ball["weights"], changed, strict=True) if moves)
        total += sum(u < b for u, b in zip(words, second, strict=True))
        if source.word(32, [limits.get(total, 0)], acceptance) < limits.get(total, 0):
            accepted.append(changed)
    out = []
    for i, (code, r) in enumerate(zip(codes, sizes, strict=True)):
        free, step = source.below(r), source.below(r - 1)
        changes = accepted and accepted[0][i]
        out.append(free if v < uniform or not accepted else (code + 1 + step) % r if changes else code)
    return out


def answered(content: dict[str, Any], codes: list[int], source: Source) -> dict[str, Any]:
    """The ``table`` and the ``cells`` that a record is answered with, of a file of questions."""
    bits, ends = content["bits"], thresholds(content["ends"], content["bits"])
    w = source.word(bits, ends, ends)
    asked = len([end for end in ends if end <= w])
    question = content["questions"][asked]
    (a,) = thresholds(question["threshold"], bits)
    v = source.word(bits, [a], ends)
    sizes = [len(content["attributes"][i]["categories"]) for i in question["attributes"]]
    truth = [codes[i] for i in question["attributes"]]
    if len(question["subset_sizes"]) != len(sizes):
        cell = 0
        for code, r in zip(truth, sizes, strict=True):
            cell = cell * r + code
        truth, sizes = [cell], [math.prod(sizes)]
    numbers = {}
    for likely in (False, True):
        patterns = [p for p in range(2 ** len(sizes)) if (p in question["likely"]) == likely]
        weights = [
            math.prod(
                k if p // 2**i % 2 else r - k
                for i, (r, k) in enumerate(zip(sizes, question["subset_sizes"], strict=True))
            )
            for p in patterns
        ]
        number = source.below(sum(weights), 8)
        numbers[likely] = next(p for j, p in enumerate(patterns) if number < sum(weights[: j + 1]))
    pattern = numbers[v >= a]
    subsets = []
    for i, (r, k) in enumerate(zip(sizes, question["subset_sizes"], strict=True)):
        others = [c for c in range(r) if c != truth[i]]
        for j in range(k):
            place = j + source.below(r - 1 - j)
            others[j], others[place] = others[place], others[j]
        chosen = [truth[i], *others[: k - 1]] if pattern // 2**i % 2 else others[:k]
        subsets.append(" ".join(str(c) for c in sorted(chosen)))
    return {"table": asked + 1, "cells": "|".join(subsets)}


def thresholds(text: str, bits: int) -> list[int]:
    """Fixed-width hexadecimal digits as integers."""
    width = bits // 4
    return [int(text[k : k + width], 16) for k in range(0, len(text), width)]
