"""What the main job needs: declare, design, randomize, open, estimate, test, verify.

``domain`` declares attributes; ``design`` finds and certifies a mechanism, ``protocols`` those of the papers; ``mechanisms``
randomize, ``records`` read, count and write; ``estimation`` and ``inference`` analyse; ``provenance`` notes what was released;
``display`` shows results. ``reports`` opens randomized records, ``files`` reads and writes every file of the package. The core
imports none of the packages beside it.
"""

import importlib
from types import ModuleType

# Packages, imported on first use.
_PACKAGES = (
    "design",
    "display",
    "domain",
    "estimation",
    "inference",
    "mechanisms",
    "protocols",
    "provenance",
    "records",
)


def __getattr__(name: str) -> ModuleType:
    if name not in _PACKAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"optrr.core.{name}")


def __dir__() -> list[str]:
    return list(_PACKAGES)
