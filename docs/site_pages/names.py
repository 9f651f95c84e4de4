"""References that Sphinx cannot follow by itself.

Annotations name a class by the module that defines it, and the site shows it under its public name; other libraries'
documentation is not at hand where a site is built offline. What is left must lead somewhere, or the build fails.
"""

import importlib
from functools import cache
from typing import Any

from docutils import nodes

from site_pages import python

OURS = ("optrr", "optrr_solvers")


@cache
def public_names() -> dict[int, str]:
    """The name under which the site shows an object, by its identity."""
    shown = {}
    for page in python.listed_pages():
        for name in page.names:
            module, _, attribute = name.rpartition(".")
            shown[id(getattr(importlib.import_module(module), attribute))] = name
    return shown


def named(target: str) -> Any:
    """The object of a dotted name; LookupError where there is none."""
    parts = target.split(".")
    for k in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:k]))
        except ImportError:
            continue
        try:
            for part in parts[k:]:
                value = getattr(value, part)
        except AttributeError:
            break
        return value
    raise LookupError(target)


def resolve(app: Any, env: Any, node: Any, content: nodes.Node) -> nodes.Node | None:
    """What a reference to Python leads to; None where it leads nowhere, which Sphinx then reports.

    An internal name that exists, and any name of another library, is shown without a link.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    if target.partition(".")[0] not in OURS:
        # a bare name is written in a docstring beside what it names, or it is another library's
        return content
    try:
        value = named(target)
    except LookupError:
        return None
    name = public_names().get(id(value))
    if name is None or name == target:
        return content
    return env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content) or content
