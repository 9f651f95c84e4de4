"""The same plan by command and in Python: lines to copy, which give the numbers that the page shows."""

from __future__ import annotations

import json
from typing import Any

from optrr.domain.domain import Attribute
from optrr.plans.question import Question

# Names of the files that the commands write and read.
_QUESTIONS, _TABLES = "questions.toml", "tables.toml"


def shell_lines(question: Question) -> list[str]:
    """Commands for a terminal: the files that are needed, and the allocation."""
    options = f"--total-epsilon {question.total!r} --n {question.n}"
    lines = _file(_QUESTIONS, question.specification.to_toml())
    if question.learn.name == "pairs":
        options += " --workload pairs"
    elif question.learn.name != "marginals":
        options += f" --workload {_TABLES}"
        tables = (f"[[tables]]\nattributes = {_json(list(t.attributes))}" for t in question.learn.tables)
        lines += _file(_TABLES, "\n\n".join(tables))
    options += f" --keep {question.keep}" if question.keep else ""
    options += f" --way {question.way}" if question.way else ""
    return [*lines, f"optrr allocate {_QUESTIONS} {options}"]


def python_lines(question: Question) -> list[str]:
    """The same in Python; what is not plain of the attributes is read from the file that the commands write."""
    if all(map(_is_plain, question.domain)):
        pairs = (f"    {_text(a.name)}: {_categories(a)}," for a in question.domain)
        lines = ["import optrr", "", "questions = {", *pairs, "}"]
    else:
        lines = ["import optrr", "", f'questions = optrr.read_specification("{_QUESTIONS}").domain']
    named = question.learn.name in ("marginals", "pairs")
    learn = _text(question.learn.name) if named else f"[{', '.join(map(_table, question.learn.tables))}]"
    keep = f", keep={_text(question.keep)}" if question.keep else ""
    choosing = f".choosing({_text(question.way)})" if question.way else ""
    call = f"optrr.allocate(questions, {question.total!r}, learn={learn}, n={question.n}{keep}){choosing}"
    return [*lines, f"allocation = {call}", "print(allocation)"]


def _file(name: str, content: str) -> list[str]:
    return [f"cat > {name} <<'END'", *content.strip("\n").split("\n"), "END"]


def _is_plain(attribute: Attribute) -> bool:
    return attribute.bins is None and not attribute.missing and attribute.rest is None and None not in attribute.texts


def _categories(attribute: Attribute) -> str:
    if attribute.numbers is not None:
        return str(attribute.numbers)
    return f"[{', '.join(_text(text) for text in attribute.texts)}]"


def _table(table: Any) -> str:
    names = ", ".join(map(_text, table.attributes))
    return f"({names},)" if len(table.attributes) == 1 else f"({names})"


def _text(text: object) -> str:
    """A text as Python reads it, in double quotes where nothing in it needs an escape that JSON writes in another way."""
    return _json(text) if str(text).isprintable() else repr(text)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
