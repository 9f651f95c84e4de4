"""What a digest sees of code: what it does, and neither how it is written down nor where it stands.

The text of a function, a class or a constant is taken from its syntax tree without docstrings, comments, layout and imports,
without its own name, and without the names that a function gives to its own variables. Wherever it names something else it has
a hole, which the reader of the tree fills: with that thing's digest where the project defines it, with the name otherwise.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Hole:
    """Where a text names something: ``owner.name``, with no owner for a plain name and no name for a plain owner.

    Attributes
    ----------
    owner : str
        A variable of the module, or empty for an attribute of some expression.
    name : str
        An attribute, or empty.
    quoted : bool
        It is a text that may be the place of something, such as "package.module:name" (an owner), or the name of a method.
    """

    owner: str
    name: str = ""
    quoted: bool = False


Shape = tuple[str | Hole, ...]
"""Text with holes."""


def digest(texts: Iterable[str]) -> str:
    """Eight hexadecimal digits: a project has some ten thousand items, so two of them meet once in a hundred projects."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:8]


def filled(shape: Shape, label: Callable[[Hole], str]) -> str:
    """A text with its holes filled."""
    return "".join(part if isinstance(part, str) else label(part) for part in shape)


def shape(trees: Iterable[ast.AST], own_name: str = "") -> Shape:
    """The text of one item, whose own name is left out; the trees stay as they are."""
    writer = _Writer(own_name)
    for tree in trees:
        writer.write(tree)
    return tuple(writer.joined())


def flat(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements, also those inside ``if`` and ``try``."""
    for statement in statements:
        if isinstance(statement, ast.If | ast.Try):
            inner = [*statement.body, *statement.orelse]
            inner += [s for handler in getattr(statement, "handlers", ()) for s in handler.body]
            yield from flat(inner)
        else:
            yield statement


class _Writer:
    """Writes trees into one list of texts and holes."""

    def __init__(self, own_name: str) -> None:
        self._own_name = own_name
        self._parts: list[str | Hole] = []
        self._numbers: dict[str, str] | None = None
        self._given: frozenset[str] = frozenset()

    def joined(self) -> Iterator[str | Hole]:
        texts: list[str] = []
        for part in self._parts:
            if isinstance(part, str):
                texts.append(part)
            else:
                yield "".join(texts)
                yield part
                texts = []
        yield "".join(texts)

    def write(self, node: Any) -> None:
        if isinstance(node, ast.AST):
            kind = type(node)
            special = _SPECIAL.get(kind)
            if special is None:
                self._fields(node)
            else:
                special(self, node)
        elif isinstance(node, list):
            self._parts.append("[")
            for each in node:
                self.write(each)
            self._parts.append("]")
        elif node is not None:
            self._parts.append(f"{node!r};")

    def _fields(self, node: ast.AST, without: str = "") -> None:
        self._parts.append(f"({type(node).__name__} ")
        for field in node._fields:
            value = getattr(node, field, None)
            # fields that are empty differ between versions of Python
            if value is not None and value != [] and field not in ("ctx", "kind", "type_comment", without):
                self._parts.append(field + "=")
                self.write(value)
        self._parts.append(")")

    def _constant(self, node: ast.Constant) -> None:
        text = node.value if isinstance(node.value, str) else ""
        if text.isidentifier():
            self._parts.append(Hole("", text, quoted=True))
        elif "." in text and text.replace(".", "").replace(":", "").isidentifier():
            self._parts.append(Hole(text, quoted=True))
        else:
            self._parts.append(f"{node.value!r};")

    def _name(self, node: ast.Name) -> None:
        if self._numbers is not None and node.id in self._numbers:
            self._parts.append(self._number(node.id))
        elif node.id in self._given:
            self._parts.append(f"{node.id};")
        elif isinstance(node.ctx, ast.Store) and node.id == self._own_name:
            self._parts.append("_;")
        else:
            self._parts.append(Hole(node.id))

    def _number(self, name: str) -> str:
        assert self._numbers is not None
        known = sum(number != "" for number in self._numbers.values())
        # a number is no name that a program can have, so it meets no other
        self._numbers[name] = self._numbers[name] or f"{known};"
        return self._numbers[name]

    def _attribute(self, node: ast.Attribute) -> None:
        owner = node.value
        plain = isinstance(owner, ast.Name) and owner.id not in (self._numbers or ()) and owner.id not in self._given
        if isinstance(owner, ast.Name) and plain:
            self._parts.append(Hole(owner.id, node.attr))
        else:
            self.write(owner)
            self._parts.append(Hole("", node.attr))

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        outermost = self._numbers is None and not isinstance(node, ast.ClassDef)
        if outermost:
            self._numbers, self._given = _own_variables(node)
        inner = self._numbers is not None and node.name in self._numbers
        name = self._number(node.name) if inner else "_;" if node.name == self._own_name else f"{node.name};"
        self._parts.append(name)
        described = ast.get_docstring(node, clean=False) is not None
        bare = type(node)(**{f: getattr(node, f) for f in node._fields if f != "name"}, name=None)  # type: ignore[arg-type]
        bare.body = node.body[1:] if described else node.body
        self._fields(bare)
        if outermost:
            self._numbers, self._given = None, frozenset()

    def _skip(self, node: ast.AST) -> None:
        """An import binds names, and what they mean stands in the holes."""


_SPECIAL: dict[type, Callable[[Any, Any], None]] = {
    ast.Constant: _Writer._constant,
    ast.Name: _Writer._name,
    ast.Attribute: _Writer._attribute,
    ast.FunctionDef: _Writer._definition,
    ast.AsyncFunctionDef: _Writer._definition,
    ast.ClassDef: _Writer._definition,
    ast.Import: _Writer._skip,
    ast.ImportFrom: _Writer._skip,
    ast.Pass: _Writer._skip,
}


def _own_variables(function: ast.AST) -> tuple[dict[str, str], frozenset[str]]:
    """The variables that a function binds, without numbers as yet, and its parameters, which keep their names."""
    own, given = set[str](), set[str]()
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            given.add(node.arg)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            given.update(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, DEFINITIONS) and node is not function:
            own.add(node.name)
    return dict.fromkeys(own - given, ""), frozenset(given)
