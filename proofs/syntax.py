"""Digests of code that see what it does and not how it is written down.

A digest is taken of the syntax tree without docstrings, comments and layout, and without the names that a function gives to
its own variables. The proofs use it to notice that a function changed after it was proved, the benchmarks to notice that a
result is older than the code that made it.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from typing import Any


def digest_of_trees(trees: Iterable[ast.AST]) -> str:
    """Sixteen hexadecimal digits of one digest over several trees in the order given; the trees stay as they are."""
    return digest_of_shapes(shape(tree) for tree in trees)


def digest_of_shapes(shapes: Iterable[bytes]) -> str:
    """The same digest from the trees' shapes, for whoever keeps them."""
    return hashlib.sha256(b"".join(shapes)).hexdigest()[:16]


def shape(tree: ast.AST) -> bytes:
    """All of a tree that a digest sees; the tree stays as it is."""
    return repr(_shape(_numbered(_bare(_copied(tree))))).encode()


def _copied(node: Any) -> Any:
    """A tree without its places in the file; `copy.deepcopy`, which can do more, takes several times as long."""
    if isinstance(node, ast.AST):
        return type(node)(**{name: _copied(value) for name, value in ast.iter_fields(node)})
    return [_copied(x) for x in node] if isinstance(node, list) else node


def _bare(tree: ast.AST) -> ast.AST:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _numbered(tree: ast.AST) -> ast.AST:
    """The variables of every outermost function by numbers in the order of their first use; parameters keep their names."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _number(node)
        else:
            waiting.extend(ast.iter_child_nodes(node))
    return tree


def _number(function: ast.AST) -> None:
    nodes = list(ast.walk(function))
    elsewhere = {a.arg for a in nodes if isinstance(a, ast.arg)}
    elsewhere |= {name for n in nodes if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
    names = [n for n in nodes if isinstance(n, ast.Name)]
    own = {n.id for n in names if isinstance(n.ctx, ast.Store)} - elsewhere
    # a number is no name that a program can have, so it meets no other
    numbers: dict[str, str] = {}
    for node in names:
        if node.id in own:
            node.id = numbers.setdefault(node.id, str(len(numbers)))


def _shape(node: object) -> object:
    # ast.dump would do, but its treatment of empty fields differs between versions of Python
    if isinstance(node, ast.AST):
        fields = ((name, _shape(value)) for name, value in ast.iter_fields(node))
        return (type(node).__name__, *((name, value) for name, value in fields if value not in (None, ())))
    return tuple(_shape(x) for x in node) if isinstance(node, list) else node
