"""Digests of code that see what it does and not how it is written down.

A digest is taken of the syntax tree without docstrings, comments and layout. The proofs use it to notice that a function
changed after it was proved, the benchmarks to notice that a result is older than the code that made it.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Iterable


def digest_of_trees(trees: Iterable[ast.AST]) -> str:
    """Sixteen hexadecimal digits of one digest over several trees in the order given; the trees stay as they are."""
    hashed = hashlib.sha256()
    for tree in trees:
        hashed.update(repr(_shape(_bare(copy.deepcopy(tree)))).encode())
    return hashed.hexdigest()[:16]


def _bare(tree: ast.AST) -> ast.AST:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _shape(node: object) -> object:
    # ast.dump would do, but its treatment of empty fields differs between versions of Python
    if isinstance(node, ast.AST):
        fields = ((name, _shape(value)) for name, value in ast.iter_fields(node))
        return (type(node).__name__, *((name, value) for name, value in fields if value not in (None, ())))
    return tuple(_shape(x) for x in node) if isinstance(node, list) else node
