"""Names that are imported on first use, so that a command that estimates need not load a solver: of packages, and methods."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package; ``homes`` lists its public names by the module they live in.

    No module may bear the name of something public in the package, for importing a module sets its name on the package.
    """
    modules = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted(modules)

    return get, names


class LazyMethod:
    """A method whose function, ``"package.module:function"``, is imported on first use; the object is its first argument."""

    def __init__(self, home: str) -> None:
        self.home = home

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        module, name = self.home.split(":")
        function = getattr(importlib.import_module(module), name)
        return function if instance is None else MethodType(function, instance)
