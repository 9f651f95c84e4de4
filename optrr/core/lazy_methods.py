"""Methods that are imported on first use, so that a command that estimates need not load a solver."""

import importlib
from types import MethodType
from typing import Any


class LazyMethod:
    """A method whose function is imported on first use.

    ``"package.module:function"``; the object is its first argument.
    """

    def __init__(self, home: str) -> None:
        self.home = home

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        module, name = self.home.split(":")
        function = getattr(importlib.import_module(module), name)
        return function if instance is None else MethodType(function, instance)
