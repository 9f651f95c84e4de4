"""Proportions given on the command line: numbers, or a file that holds a table."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
import numpy as np

from optrr.domain import Domain, listed
from optrr.errors import InvalidInput
from optrr_solvers.problem import FloatArray

_HELP = (
    "Shares of the cells that sum to 1: numbers separated by commas, the last attribute changing fastest, or a JSON file "
    "with a nested list or what `estimate --json` printed."
)


_Command = TypeVar("_Command", bound=Callable[..., Any])


def proportions_option(purpose: str, required: bool = False) -> Callable[[_Command], _Command]:
    """The option --proportions; its help opens with what the command does with it."""
    return click.option("--proportions", metavar="P,P,…|FILE", help=f"{purpose} {_HELP}", required=required)


def read_proportions(text: str, domain: Domain) -> FloatArray:
    """Proportions over the domain's cells, in its shape.

    Raises
    ------
    InvalidInput
        for a file that cannot be read, entries that are not numbers, or another number of them than cells. Whether they are
        a distribution is checked where they are used.
    """
    values = _from_file(Path(text)) if text.endswith(".json") else text.split(",")
    shape = tuple(map(int, domain.sizes))
    try:
        given = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"--proportions {text} holds what is not a number; give {prod(shape)} shares") from None
    if given.shape != shape and given.shape != (prod(shape),):
        raise InvalidInput(
            f"--proportions {text} has shape {given.shape} and the table of {listed(domain.names)} {shape}; give "
            f"{prod(shape)} shares"
        )
    return given.reshape(shape)


def _from_file(path: Path) -> Any:
    try:
        held = msgspec.json.decode(path.read_bytes())
    except msgspec.DecodeError as reason:
        raise InvalidInput(f"{path} is not JSON: {reason}") from None
    if isinstance(held, dict) and "estimate" not in held:
        raise InvalidInput(f"{path} has no key 'estimate'; give a nested list or what `optrr estimate --json` printed")
    return held["estimate"] if isinstance(held, dict) else held
