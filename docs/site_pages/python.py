"""The Python reference: a page for each package of `optrr`, and for `optrr_solvers`, with every public name.

Which names are public is read from the packages' `__all__` when the site is built, so that none can be forgotten.
"""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.pycode import ModuleAnalyzer

FOLDER = Path(__file__).resolve().parents[1] / "reference" / "python"
# Packages whose names have a short form, as in `optrr.analysis.measure`.
_SHORT = ("optrr.allocation", "optrr.analysis", "optrr.devices", "optrr.planner")
# Of the core's packages, the names for users; the others are for the packages beside the core.
_CORE = {
    "optrr.core.estimation": ("Derived", "Estimate", "Poisoning", "derive", "estimate", "poisoning"),
    "optrr.core.inference": (
        "Alternative",
        "PredictedPower",
        "TestResult",
        "alternative_of",
        "goodness_of_fit",
        "homogeneity",
        "power",
        "predicted_power",
        "required_records",
        "test",
    ),
    "optrr.core.protocols": (
        "Collector",
        "Protocol",
        "of_design",
        "optimum",
        "rr_clusters",
        "rr_ind_joint",
        "rr_independent",
        "rr_joint",
        "sic_clusters",
    ),
}
# Modules and packages whose names are public without an `__all__`, or beside those that the walk below sees.
_ALSO = (
    "optrr.core.domain.datasets",
    "optrr.core.mechanisms.kernel",
    "optrr.core.mechanisms.matrix",
    "optrr.studies.graphs",
    "optrr.studies.laplace",
    "optrr.studies.merging",
)
_NOT_PYTHON = ("optrr.cli",)
_INHERITED_FROM = "object, tuple, str, int, float, Enum, Struct, Exception, ABC, Protocol, Generic"


@dataclass
class Page:
    """A package or module, and the names shown on its page."""

    name: str
    module: ModuleType
    names: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (inspect.getdoc(self.module) or "").partition("\n")[0]


def public_modules() -> list[str]:
    """Packages of `optrr` that say what is public, at any depth, and the modules that are public as a whole."""
    import optrr  # noqa: PLC0415 (heavy)

    walked = (m.name for m in pkgutil.walk_packages(optrr.__path__, "optrr.") if m.ispkg)
    walked = (name for name in walked if not name.startswith("optrr.core"))
    packages = [n for n in walked if getattr(importlib.import_module(n), "__all__", None)]
    return sorted([*(n for n in packages if n not in _NOT_PYTHON), "optrr.core.errors", *_ALSO])


def home(value: Any, name: str) -> str:
    """The package that a name of `optrr` belongs to: the first part of its module's name."""
    module = getattr(value, "__module__", "")
    parts = module.split(".")
    package = parts[: 3 if parts[1:2] == ["core"] else 2]
    return ".".join(package) if parts[0] == "optrr" and len(parts) > 1 else "optrr_solvers" if parts else name


def listed_pages() -> list[Page]:
    """All pages; a name that `optrr` or a package exports is shown under that short name, on the page of its package."""
    found: dict[str, Page] = {}

    def page_of(name: str) -> Page:
        return found.setdefault(name, Page(name, importlib.import_module(name)))

    shown: set[int] = set()
    public = {package: importlib.import_module(package).__all__ for package in ("optrr", *_SHORT)}
    for package, names in (public | _CORE).items():
        short = importlib.import_module(package)
        for name in names:
            value = getattr(short, name)
            if id(value) not in shown:
                shown.add(id(value))
                page_of(home(value, name)).names.append(f"{package}.{name}")
    for module in [*public_modules(), "optrr_solvers", "optrr_solvers.laws"]:
        for name in names_of(module):
            value = getattr(importlib.import_module(module), name)
            if id(value) not in shown or not hasattr(value, "__module__"):
                shown.add(id(value))
                page_of(module).names.append(f"{module}.{name}")
    return [found[name] for name in sorted(found)]


def names_of(module: str) -> list[str]:
    """A module's public names: its `__all__`, or what it defines itself."""
    imported = importlib.import_module(module)
    listed = getattr(imported, "__all__", None)
    if listed is not None:
        return sorted(listed)
    return [n for n, v in vars(imported).items() if not n.startswith("_") and getattr(v, "__module__", "") == module]


def directive(name: str) -> str:
    """What autodoc is told to show a name in full."""
    module, _, attribute = name.rpartition(".")
    value = getattr(importlib.import_module(module), attribute)
    if inspect.isclass(value):
        inherited = "" if issubclass(value, BaseException) else f"   :inherited-members: {_INHERITED_FROM}\n"
        return f".. autoclass:: {name}\n   :members:\n{inherited}"
    return f".. autofunction:: {name}\n" if callable(value) else data(name, value)


def data(name: str, value: Any) -> str:
    """A constant: what stands below it in its module, and the keys of a table."""
    head = f".. py:data:: {name}\n\n   {said_of(value, name.rpartition('.')[2])}\n"
    if isinstance(value, Mapping | tuple):
        return head + "\n   Its names: " + ", ".join(f"``{k}``" for k in value) + ".\n"
    return head + f"\n   Its value: ``{value!r}``.\n"


def said_of(value: Any, name: str) -> str:
    """The docstring below a constant, from the module that defines it."""
    defining = [m for n, m in sys.modules.items() if n.startswith("optrr") and vars(m).get(name) is value]
    for module in defining:
        attributes = ModuleAnalyzer.for_module(module.__name__).find_attr_docs()
        if ("", name) in attributes:
            return " ".join(attributes["", name]).strip()
    return ""


def text_of(page: Page) -> str:
    """The text of a page."""
    title = page.name
    listed = "".join(f"   {n}\n" for n in page.names)
    parts = [
        f"{title}\n{'=' * len(title)}\n",
        f".. automodule:: {page.name}\n\n.. currentmodule:: None\n",
        f".. autosummary::\n   :nosignatures:\n\n{listed}",
        *map(directive, page.names),
    ]
    return "\n".join(parts)


def pages() -> dict[Path, str]:
    """Every page and its text."""
    every = listed_pages()
    rows = "".join(f"   * - :doc:`{r.name}`\n     - {r.summary}\n" for r in every)
    index = (
        "Python\n======\n\n"
        "Every public name, by package. What :mod:`optrr` exports is shown under that short\n"
        "name; the packages have further names for those who build on them.\n\n"
        f".. list-table::\n   :widths: 30 70\n\n{rows}\n"
        ".. toctree::\n   :hidden:\n\n" + "".join(f"   {r.name}\n" for r in every)
    )
    return {FOLDER / "index.rst": index} | {FOLDER / f"{r.name}.rst": text_of(r) for r in every}
