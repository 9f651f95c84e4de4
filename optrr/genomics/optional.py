"""Readers of the field's formats are an extra; asking for one that is not installed says how to get it."""

from __future__ import annotations

import importlib
from typing import Any

from optrr.errors import InvalidInput

_PACKAGES = {"bed_reader": ("bed-reader", "PLINK files"), "cyvcf2": ("cyvcf2", "VCF files")}


def required(module: str) -> Any:
    """The module, imported now. Raises InvalidInput naming the extra where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package, what = _PACKAGES[module]
        raise InvalidInput(f"reading {what} needs {package}; install it with: pip install 'optrr[genomics]'") from error
