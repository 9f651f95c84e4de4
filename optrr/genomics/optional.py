"""Readers of the field's formats are an extra; asking for one that is not installed says how to get it."""

from __future__ import annotations

import importlib
from typing import Any

from optrr.errors import not_installed

_READ_BY = {"bed_reader": "PLINK files", "cyvcf2": "VCF files"}


def required(module: str) -> Any:
    """The module, imported now. Raises InvalidInput naming the extra where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise not_installed(error, f"reading {_READ_BY[module]} needs", "genomics") from error
