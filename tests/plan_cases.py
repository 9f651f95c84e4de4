"""Random questions that a plan can be made for in a moment."""

from __future__ import annotations

import html.parser
from typing import Any

import numpy as np

from optrr.plans.question import Question

WORDS = ("sex", "Alter × Klasse", 'say "a, b"', "π̂ <b>", "back\\slash", "two  spaces", "income, net", "日本")


def random_question(seed: int, most: int = 4) -> Question:
    """2 to ``most`` attributes with names that need care, every kind of workload, with or without records."""
    rng = np.random.default_rng([32, seed])
    m = int(rng.integers(2, most + 1))
    names = rng.choice(WORDS, m, replace=False).tolist()
    attributes: list[dict[str, Any]] = [
        {"name": name, "size": int(rng.integers(2, 6)), "question": f"What of {name}?"} for name in names
    ]
    attributes[0] = {"name": names[0], "categories": ["yes", "no", "=1+1", "🙂"][: int(rng.integers(2, 5))]}
    tables = [[names[0], names[1]], *([name] for name in names)]
    learn = ("marginals", "pairs", tables)[seed % 3]
    state = {
        "attributes": attributes,
        "title": f"A survey <{seed}>",
        "learn": learn,
        "total": float(np.exp(rng.uniform(np.log(0.3), np.log(6)))),
        "n": int(rng.integers(50, 20_000)),
        "prior": float(rng.choice([0.01, 0.1, 0.5])),
        "releases": int(rng.integers(1, 4)),
    }
    return Question.from_state(state | ({"keep": "records", "way": "optimum"} if seed % 2 else {}))


class PageTables(html.parser.HTMLParser):
    """The tables of a page, each a list of rows of texts, and all of its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self._cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self._cell = True
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._cell:
            self.tables[-1][-1][-1] += data

    def table(self, first: str) -> list[list[str]]:
        """The rows of the table whose first head this is, with the heads."""
        return next(each for each in self.tables if each[0][0] == first)
