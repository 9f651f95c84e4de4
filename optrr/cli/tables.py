"""Proportions given on the command line: numbers, or a file that holds a table."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
import numpy as np

from optrr.domain.domain import Category, Domain, listed, shown
from optrr.errors import InvalidInput
from optrr.releases.small_files import read_small
from optrr_solvers.arrays import FloatArray

_HELP = (
    "Shares of the cells that sum to 1: numbers separated by commas, the last attribute changing fastest, or a JSON file "
    "with a nested list or what `estimate --json` printed."
)


_Command = TypeVar("_Command", bound=Callable[..., Any])


def proportions_option(purpose: str, required: bool = False) -> Callable[[_Command], _Command]:
    """The option --proportions; its help opens with what the command does with it."""
    return click.option("--proportions", metavar="P,P,…|FILE", help=f"{purpose} {_HELP}", required=required)


def read_numbers(text: str, refusal: str) -> list[float]:
    """Numbers separated by commas. Raises InvalidInput with the ``refusal`` where one is none."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(refusal) from None


def read_proportions(text: str, domain: Domain) -> FloatArray:
    """Proportions over the domain's cells, in its shape.

    Raises
    ------
    InvalidInput
        for a file that cannot be read or holds another table, entries that are not numbers, or another number of them than
        cells. Whether they are a distribution is checked where they are used.
    """
    values, held = _from_file(Path(text), domain) if text.endswith(".json") else (text.split(","), domain)
    shape = tuple(map(int, held.sizes))
    try:
        given = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise InvalidInput(
            f"--proportions {shown(text)} holds something that is not a number; give {prod(shape)} shares"
        ) from None
    if given.shape != shape and given.shape != (prod(shape),):
        raise InvalidInput(
            f"--proportions {shown(text)} has shape {given.shape} and the table of {listed(held.names)} {shape}; give "
            f"{prod(shape)} shares"
        )
    return given.reshape(shape).transpose(held.indices(domain.names))


class _Printed(msgspec.Struct):
    """The fields of ``estimate --json`` that are read: which attributes, their categories, and the table."""

    attributes: list[str]
    categories: list[list[Category]]
    estimate: Any


def _from_file(path: Path, domain: Domain) -> tuple[Any, Domain]:
    """The shares, and the domain with its attributes in the order of the file's axes.

    The order matters where attributes have the same size, because the shape alone does not tell them apart.
    """
    try:
        held = msgspec.json.decode(read_small(path))
        if not isinstance(held, dict):
            return held, domain
        printed = msgspec.convert(held, _Printed)
    except msgspec.ValidationError as reason:
        raise InvalidInput(
            f"{path} is neither a nested list nor what `optrr estimate --json` printed: {reason}"
        ) from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}; check the path") from error
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8; save it in that encoding") from None
    except (msgspec.DecodeError, RecursionError) as reason:
        raise InvalidInput(
            f"{path} is not JSON: {reason}; give a nested list or what `estimate --json` printed"
        ) from None
    if sorted(printed.attributes) != sorted(domain.names):
        raise InvalidInput(
            f"{path} is a table of {listed(printed.attributes)}, not of {listed(domain.names)}; estimate that table"
        )
    ordered = domain.subset(printed.attributes)
    if printed.categories != [list(a.categories) for a in ordered]:
        raise InvalidInput(f"{path} has other categories than the design; give an estimate of this design's table")
    return printed.estimate, ordered
