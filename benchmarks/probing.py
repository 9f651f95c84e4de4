"""Prints what a benchmark's probe returns, as JSON: ``python benchmarks/probing.py SCRIPT``.

A script's function ``probe`` does a hundredth of its work, with the script's own functions, in two seconds at most. It returns
numbers and texts in lists, none of which is a time. Where code changed and the probe says the same as before, so would the
whole run.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

AGREES = 1e-9
"""Relative, and absolute below 1: what another order of the same sums may change."""


def flattened(value: object) -> Iterator[float | str | None]:
    """Numbers and texts of any nesting, in their order; those of a dictionary without its keys, which may be renamed."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist()
    if isinstance(value, str):
        yield value
    elif isinstance(value, Iterable):
        for each in value:
            yield from flattened(each)
    elif value is None:
        yield None
    else:
        number = float(value)  # type: ignore[arg-type]
        yield number if np.isfinite(number) else str(number)


def equal(before: list[object], now: list[object]) -> bool:
    """Whether two probes say the same."""
    return len(before) == len(now) and all(map(_alike, before, now))


def _alike(a: object, b: object) -> bool:
    if isinstance(a, int | float) and isinstance(b, int | float):
        return abs(a - b) <= AGREES * max(1.0, abs(a), abs(b))
    return a == b


if __name__ == "__main__":
    folder = Path(__file__).resolve().parent
    sys.path.insert(0, str(folder))
    sys.stdout, printed = sys.stderr, sys.stdout
    print(json.dumps(list(flattened(importlib.import_module(sys.argv[1]).probe()))), file=printed)
