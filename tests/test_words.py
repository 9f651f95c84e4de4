"""One word per concept: what docs/design.md §2.1 retires is in no name and in no text of the project."""

import ast
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmarks", "clients", "docs", "optrr", "proofs", "solvers", "tests")
TEXTS = {".py", ".md", ".toml", ".json", ".html", ".j2", ".css", ".js", ".mjs", ".ts"}
# What is computed or copied, and what tells of the words that there were before.
LEFT_OUT = ("benchmarks/results", "docs/source", "CHANGELOG.md")
# The unit of rounding has this name everywhere in numerical code.
EXCEPTED = {"solvers/optrr_solvers/certificates/modulus_bound.py": ["eps"]}
TABLE = re.compile(r"^### 2\.1 Retired words$.*?(?=^## )", re.MULTILINE | re.DOTALL)


def retired() -> dict[str, list[str]]:
    """Words of the table by what they are retired as: a whole name, part of a name, or a text."""
    words: dict[str, list[str]] = {"whole name": [], "name": [], "text": []}
    section = TABLE.search((ROOT / "docs" / "design.md").read_text(encoding="utf-8"))
    assert section is not None
    for row in re.findall(r"^\| (.*?) \| (whole name|name|text) \| .*? \|$", section[0], re.MULTILINE):
        words[row[1]] += row[0].split(", ")
    return words


def files() -> Iterator[Path]:
    """All texts of the project; not what is installed or computed."""
    inside = [f for folder in FOLDERS for f in (ROOT / folder).rglob("*") if f.suffix in TEXTS]
    for file in [*inside, *ROOT.glob("*.md"), *ROOT.glob("*.toml")]:
        path = file.relative_to(ROOT)
        if "node_modules" not in path.parts and not path.as_posix().startswith(LEFT_OUT):
            yield file


def names_in(file: Path, text: str) -> Iterable[str]:
    """What a file of code gives a name: variables, parameters, functions, classes, attributes, keys."""
    if file.suffix == ".py":
        return _python_names(ast.parse(text))
    if file.suffix == ".json":
        return _keys(json.loads(text))
    declared = r"\b(?:const|let|var|function|class)\s+(\w+)"
    return re.findall(declared, text) if file.suffix in {".js", ".mjs", ".ts"} else ()


def _python_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.keyword(arg=str(name)) | ast.alias(asname=str(name)):
                yield name
            case ast.Dict(keys=keys):
                yield from (k.value for k in keys if isinstance(k, ast.Constant) and isinstance(k.value, str))


def _keys(value: object) -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                yield key
                yield from _keys(inner)
        case list():
            for inner in value:
                yield from _keys(inner)


def parts(name: str) -> str:
    """A name's or a text's words between underscores: of ``keepPairs``, ``_keep_pairs_`` and ``KEEP PAIRS`` the same."""
    return "_" + "_".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)).lower() + "_"


def uses(file: Path, text: str, words: dict[str, list[str]]) -> list[str]:
    """The retired words that a file uses."""
    as_names: list[str] = []
    written = parts(text)
    # parsing takes longest, and a name can only be where its words follow each other
    if any(f"_{w}_" in written for w in (*words["name"], *words["whole name"])):
        own = {parts(name) for name in names_in(file, text)}
        as_names += [w for w in words["name"] if any(f"_{w}_" in name for name in own)]
        as_names += [w for w in words["whole name"] if f"_{w}_" in own]
    # a phrase may go on in the next line of a comment or a docstring
    flowing = re.sub(r"\s*\n[\s#>]*", " ", TABLE.sub("", text)).lower()
    # most files hold none of the phrases, which is seen much faster than by a regular expression
    there = [w for w in words["text"] if w in flowing]
    return as_names + [m for w in there for m in re.findall(rf"\b{re.escape(w)}\b", flowing)]


def test_no_retired_word_is_used() -> None:
    words, seen = retired(), 0
    for file in files():
        seen += 1
        used = uses(file, file.read_text(encoding="utf-8"), words)
        path = file.relative_to(ROOT).as_posix()
        assert used == EXCEPTED.get(path, []), f"{path} says {', '.join(used)}; docs/design.md §2.1 has the word to use"
    assert seen > 300


@pytest.mark.parametrize("kind", ["whole name", "name", "text"])
def test_every_retired_word_is_seen_where_it_is_used(kind: str) -> None:
    """Planted in each place where a word can stand, every word of the table is caught, and nothing else is."""
    words = retired()
    assert words[kind]
    for word in words[kind]:
        first, _, rest = word.partition(" ")
        planted = {
            "whole name": [f"{word} = 1", f"for _{word} in x: ...", f"lambda {word}: 1"],
            "name": [
                f"my_{word} = 1",
                f"def f(*, {word}): ...",
                f"self.{word}_too = 0",
                f"f({word}=1)",
                f"def {word}(): ...",
                f"class {word.title().replace('_', '')}: ...",
                f"row = {{'{word}': 1}}",
                f"row = {{'a {word.replace('_', ' ')} too': 1}}",
            ],
            "text": [
                f'"""Has a {word}."""',
                f"# {word.capitalize()} here",
                f"# a\n# {first}" + (f"\n#     {rest}" if rest else ""),
            ],
        }[kind]
        for text in planted:
            assert word in uses(Path("planted.py"), text, words), (word, text)
    assert not uses(Path("plain.py"), "import numpy as np\nstep = np.finfo(float).eps  # the kept pairs", words)


def test_names_of_other_languages_and_of_files_are_seen() -> None:
    words = retired()
    assert uses(Path("a.js"), "const keepPairs = 1", words) == ["keep_pairs"]
    assert uses(Path("a.json"), '{"a": [{"total_eps": 1}]}', words) == ["eps"]
