"""The tables of the papers' statements: complete, and every place that they name is there."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STATEMENTS = tomllib.loads((ROOT / "benchmarks" / "papers" / "statements.toml").read_text(encoding="utf-8"))

# What each paper numbers: read in the papers, and written down here.
NUMBERED = {
    "por": {"Definition": 1, "Algorithm": 3, "Figure": 5, "eq.": 11},
    "mdr": {
        "Definition": 2,
        "Protocol": 2,
        "Algorithm": 2,
        "Proposition": 1,
        "Corollary": 1,
        "Figure": 3,
        "eq.": 16,
    },
    "sic": {"Table": 1, "Figure": 3, "eq.": 11},
    "rij": {"Definition": 1, "Algorithm": 3, "Theorem": 3, "Corollary": 1, "Figure": 12, "Table": 1},
    "rvl": {"Definition": 2, "Theorem": 4, "Lemma": 2, "Result": 5, "Figure": 6, "eq.": 26},
}
ROMAN = {"por": {"I"}, "mdr": {"I", "II"}}


def numbered(statement: str) -> set[tuple[str, int]]:
    """What a row is about: of "Result 2, eqs. (7)–(9)" the second result and three equations."""
    named = set()
    for kind, first, last in re.findall(
        r"(Definition|Algorithm|Protocol|Proposition|Corollary|Theorem|Lemma|Result|Figure|Table)s? (\d+)(?:–(\d+))?",
        statement,
    ):
        named |= {(kind, k) for k in range(int(first), int(last or first) + 1)}
    for first, last in re.findall(r"\((\d+)\)(?:–\((\d+)\))?", statement):
        named |= {("eq.", k) for k in range(int(first), int(last or first) + 1)}
    return named


@functools.cache
def names_in(path: str) -> set[str]:
    """Functions and classes of a module, and methods as ``Class.method``."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    defined = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    inside = {
        f"{c.name}.{n.name}"
        for c in defined
        if isinstance(c, ast.ClassDef)
        for n in c.body
        if isinstance(n, ast.FunctionDef)
    }
    return {n.name for n in defined} | inside


def problems(row: dict[str, object]) -> list[str]:
    """What is wrong with a row."""
    wrong = [f"no {key!r}" for key in ("statement", "says", "got") if not row.get(key)]
    wrong += [] if bool(row.get("where")) != bool(row.get("reason")) else ["neither a place nor a reason, or both"]
    places = row.get("where", [])
    assert isinstance(places, list)
    for place in places:
        path, _, name = place.partition(":")
        if not (ROOT / path).exists():
            wrong.append(f"{path} is not there")
        elif name and name not in names_in(path):
            wrong.append(f"{path} has no {name}")
    return wrong


def test_every_row_has_a_place_or_a_reason() -> None:
    wrong = {f"{paper} {row['statement']}": problems(row) for paper, rows in STATEMENTS.items() for row in rows}
    assert len(wrong) > 100
    assert not {row: said for row, said in wrong.items() if said}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"says": "a", "got": "b", "where": ["Makefile"]}, "statement"),
        ({"statement": "a", "says": "a", "got": "b"}, "reason"),
        ({"statement": "a", "says": "a", "got": "b", "where": ["optrr/nowhere.py"]}, "not there"),
        ({"statement": "a", "says": "a", "got": "b", "where": ["optrr/errors.py:Nothing"]}, "has no Nothing"),
    ],
)
def test_a_bad_row_is_seen(row: dict[str, object], said: str) -> None:
    assert any(said in text for text in problems(row))


@pytest.mark.parametrize("paper", list(NUMBERED))
def test_whatever_a_paper_numbers_has_a_row(paper: str) -> None:
    there = set().union(*(numbered(row["statement"]) for row in STATEMENTS[paper]))
    wanted = {(kind, k) for kind, last in NUMBERED[paper].items() for k in range(1, last + 1)}
    assert wanted - there == set()
    tables = {t for row in STATEMENTS[paper] for t in re.findall(r"Table (I+)", row["statement"])}
    assert tables == ROMAN.get(paper, set())


@pytest.mark.parametrize("paper", list(NUMBERED))
def test_a_paper_s_page_shows_every_row(paper: str) -> None:
    page = (ROOT / "docs" / "papers" / f"{paper}.md").read_text(encoding="utf-8")
    shown = page.partition("## Every statement of the paper")[2].splitlines()
    assert len([line for line in shown if line.startswith("|")]) == len(STATEMENTS[paper]) + 2
