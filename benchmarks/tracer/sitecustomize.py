"""Notes which functions of the project a benchmark runs and which of its files it opens.

Python imports this module by itself at start wherever its folder is on the path, so processes that a benchmark starts are
traced as well. Each function and method of the project is compiled with one more statement in front, which notes the first
call: tracing by ``sys.settrace`` would triple the time of a benchmark. Lines are appended to the file that OPTRR_TRACE names
at the moment something is first seen, so nothing is lost when a process ends abruptly. Without OPTRR_TRACE nothing happens.
"""

from __future__ import annotations

import ast
import builtins
import os
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import cast

_WRITING = os.O_WRONLY | os.O_RDWR
# Found among the builtins by every function; underscores on both sides keep classes from changing the names.
_CALLED, _NOTE = "__optrr_called__", "__optrr_note__"


class _Trace:
    """Appends a line for everything that is seen for the first time under one of the watched folders."""

    def __init__(self, target: str, folders: tuple[str, ...]) -> None:
        # appended in one call each, so that lines of several processes never mix
        self._target = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        # with the separator behind it, so that a folder's neighbour whose name begins the same is not taken for its content
        self._places, self._insides = folders, tuple(f + os.sep for f in folders)
        self._opened: set[tuple[str, bool]] = set()
        self._functions: list[tuple[str, str]] = []
        self.called: list[bool] = []

    def watches(self, path: str) -> bool:
        return path.startswith(self._insides) or path in self._places

    def note(self, function: int) -> None:
        self.called[function] = True
        self._write("F", *self._functions[function])

    def compiled(self, path: str) -> CodeType:
        """A module with a statement in front of every function and method that notes its first call."""
        with open(path, "rb") as file:
            tree = ast.parse(file.read(), path)
        self._mark(tree.body, path, "")
        return cast(CodeType, compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True))

    def _mark(self, body: list[ast.stmt], path: str, prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                self._mark(node.body, path, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._functions.append((path, prefix + node.name))
                self.called.append(False)
                k = len(self.called) - 1
                statement = ast.parse(f"{_CALLED}[{k}] or {_NOTE}({k})").body[0]
                node.body.insert(1 if ast.get_docstring(node) is not None else 0, _at(statement, node))
            elif isinstance(node, ast.If | ast.Try):
                handlers = [h.body for h in getattr(node, "handlers", ())]
                for inner in (node.body, node.orelse, *handlers):
                    self._mark(inner, path, prefix)

    def audited(self, event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path = os.path.abspath(os.fsdecode(arguments[0]))
        if self.watches(path) and not path.endswith((".py", ".pyc")) and "__pycache__" not in path:
            mode, flags = arguments[1], arguments[2]
            writes = any(c in mode for c in "wax+") if isinstance(mode, str) else bool(int(str(flags)) & _WRITING)
            if (path, writes) not in self._opened:
                self._opened.add((path, writes))
                self._write("W" if writes else "R", path)

    def _write(self, *parts: str) -> None:
        os.write(self._target, ("\t".join(parts) + "\n").encode())


def _at(statement: ast.stmt, place: ast.stmt) -> ast.stmt:
    for node in ast.walk(statement):
        ast.copy_location(node, place)
    return statement


def _start() -> None:
    target = os.environ.get("OPTRR_TRACE")
    if not target:
        return
    trace = _Trace(target, tuple(os.environ["OPTRR_TRACE_FOLDERS"].split(os.pathsep)))
    plain = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        path = loader.get_filename(fullname)
        return trace.compiled(path) if trace.watches(path) else plain(loader, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
    setattr(builtins, _CALLED, trace.called)
    setattr(builtins, _NOTE, trace.note)
    sys.addaudithook(trace.audited)


_start()
