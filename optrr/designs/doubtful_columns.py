"""What looks wrong about columns of which attributes are proposed: slips of writing, scales out of order, rows that are counts.

Each check looks at which values occur and how often, and says one sentence; none changes a value. A sentence is said of what
is often wrong and of little that is right, so each check asks for more than one sign.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from optrr.domain.columns import MISSING_MARKS
from optrr.domain.domain import Category, listed, shown

# Scales as questionnaires have them, from the lowest to the highest; a column may have any three of one.
_SCALES = (
    "strongly disagree|disagree strongly|disagree|somewhat disagree|slightly disagree|neutral|undecided|"
    "neither agree nor disagree|slightly agree|somewhat agree|agree|agree strongly|strongly agree",
    "never|almost never|very rarely|rarely|seldom|occasionally|sometimes|often|frequently|very often|usually|almost always|"
    "always",
    "very poor|very bad|poor|bad|fair|average|good|very good|excellent",
    "very low|low|medium|moderate|high|very high",
    "none|mild|moderate|severe|very severe",
    "very dissatisfied|dissatisfied|somewhat dissatisfied|neutral|somewhat satisfied|satisfied|very satisfied",
    "very unlikely|unlikely|neutral|likely|very likely",
    "very small|small|medium|large|very large",
    "not at all|a little|slightly|somewhat|moderately|quite a bit|a lot|very much|extremely",
    "not important|slightly important|moderately important|important|very important|extremely important",
    "much worse|worse|about the same|better|much better",
    "primary|secondary|tertiary",
    "daily|weekly|monthly|quarterly|yearly",
    "nie|selten|manchmal|oft|häufig|immer",
    "sehr schlecht|schlecht|mittel|gut|sehr gut",
    "niedrig|mittel|hoch",
)
_RANKS = [{word: k for k, word in enumerate(scale.split("|"))} for scale in _SCALES]
_FEWEST_WORDS = 3
# Words beside the marks of records.columns that people write for an answer that is not there.
_NO_ANSWERS = (
    "refused|refusal|missing|unknown|not known|don't know|dont know|do not know|dk|no answer|not answered|no response|"
    "not stated|not applicable|prefer not to say|prefer not to answer|declined|keine angabe|k.a.|k. a.|weiß nicht|unbekannt"
)
_NO_ANSWER = frozenset(_NO_ANSWERS.split("|"))
# Numbers that stand for no answer where they lie apart from all others.
_NO_NUMBER = frozenset([-1, -7, -8, -9, -77, -88, -98, -99, -777, -888, -998, -999, -9999, 99, 999, 9999, 99999])
# How far above the largest other number such a number lies, as a multiple of it.
_APART = 2
_DATE = re.compile(r"\s*\d{1,2}([./-])\d{1,2}\1(\d{4}|\d{2})\s*")
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")
_NUMBER = re.compile(r"\s*[-+]?\d+([.,]\d+)?\s*")
# Names of columns that say how many people a row stands for.
_COUNTS = frozenset(
    "freq|frequency|frequencies|count|counts|n|number|wfreq|anzahl|häufigkeit|haeufigkeit|effectif".split("|")  # noqa: SIM905
)
# Rows above which a table is one of people: a table of counts has as many rows as cells.
MOST_ROWS = 10_000


def scale_order(values: Iterable[Category]) -> list[Category] | None:
    """The categories in the order of a scale of words that holds them all, or None where there is none."""
    words: dict[str, str] = {}
    for value in values:
        if not isinstance(value, str):
            return None
        words[value] = _plain(value)
    if len(words) < _FEWEST_WORDS:
        return None
    for ranks in _RANKS:
        if len(set(words.values())) == len(words) and all(word in ranks for word in words.values()):
            return [*sorted(words, key=lambda value: ranks[words[value]])]
    return None


def doubtful(name: str, known: Mapping[Any, int], missing: Sequence[str]) -> list[str]:
    """One sentence for each thing that looks wrong about the values of a column, beside those declared ``missing``."""
    said: list[str] = []
    if name != name.strip():
        said.append("its name begins or ends with a space; mend it in the file, or every command must write it so")
    elif not unicodedata.is_normalized("NFC", name):
        said.append(
            "its name stores accents apart from their letters (not Unicode's NFC), so it is not found as it is typed"
        )
    words = [v for v in known if isinstance(v, str)]
    alike: dict[str, list[str]] = defaultdict(list)
    for word in words:
        alike[_plain(word)].append(word)
    several = [values for values in alike.values() if len(values) > 1]
    spaced = [values[0] for values in alike.values() if values[0] != values[0].strip()]
    if several:
        said.append(
            f"{_quoted(several[0])} differ only in spaces, capitals or how accents are stored, and would be different "
            "categories; write them alike"
        )
    elif spaced:
        said.append(f"{_quoted(spaced[:1])} has spaces around it; take them away, or answers without them are refused")
    if written_as_dates(known):
        said.append(
            "its texts look like dates such as 01.03.2024; write them as 2024-03-01, so that they can have bins"
        )
    elif _all_match(_NUMBER, known) and any(map(_DECIMAL_COMMA.fullmatch, words)):
        said.append("its texts look like numbers with a decimal comma; write a point, so that they can have bins")
    if marks := no_answers(known):
        plain = [text if re.fullmatch(r"[\w/.]+", text) else f"'{text}'" for text in map(str, marks[:4])]
        more, each = "also " if missing else "", " ".join(f"--missing {text}" for text in plain)
        said.append(f"{listed(marks)} may {more}stand for a missing answer; if so, propose again with {each}")
    scaled = [[v for v in words if _plain(v) in ranks] for ranks in _RANKS]
    enough = next((values for values in scaled if len(values) >= _FEWEST_WORDS), None)
    if enough and scale_order(v for v in known if not (isinstance(v, str) and _is_mark(v))) is None:
        said.append(f"{listed(enough)} look like a scale, and stand in the order of the alphabet; declare their order")
    return [f"column {shown(name)}: {line}" for line in said]


def written_as_dates(values: Iterable[Category]) -> bool:
    """Whether all values are texts such as 01.03.2024."""
    return _all_match(_DATE, values)


def _plain(text: str) -> str:
    """A text without what people do not see or do not mean: spaces around and between, capitals, how accents are stored."""
    return " ".join(unicodedata.normalize("NFKC", text).split()).casefold()


def _quoted(values: Sequence[str]) -> str:
    """Texts that may look alike: what does not stand in ASCII is escaped where they would."""
    plain = len({unicodedata.normalize("NFC", v) for v in values}) == len(values)
    return " and ".join(shown(v) if plain else ascii(v) for v in values[:4])


def _all_match(form: re.Pattern[str], values: Iterable[Category]) -> bool:
    """Whether every value that is not a mark of a missing one is a text of this form."""
    texts = [v for v in values if not (isinstance(v, str) and _is_mark(v))]
    return len(texts) > 1 and all(isinstance(v, str) and form.fullmatch(v) for v in texts)


def _is_mark(text: str) -> bool:
    return text.strip() in MISSING_MARKS or _plain(text) in _NO_ANSWER


def no_answers(known: Iterable[Category]) -> list[Category]:
    """The values that may stand for an answer that is not there: marks, words, and numbers far from all others."""
    values = list(known)
    marks: list[Category] = [v for v in values if isinstance(v, str) and _is_mark(v)]
    numbers = {v: number for v in values if (number := _number(v)) is not None}
    odd = [v for v, number in numbers.items() if number in _NO_NUMBER]
    rest = [number for v, number in numbers.items() if v not in odd]
    if len(rest) > 1:
        # 99 is an age among ages; it is a mark where nothing else comes near it
        marks += [v for v in odd if (numbers[v] < 0 <= min(rest)) or numbers[v] > _APART * max(rest) >= 0]
    return marks


def _number(value: Category) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return float(value) if re.fullmatch(r"\s*-?\d+\s*", value) else None
    return None if value is None else float(value)


class CountsSought:
    """Whether a table has one row for each combination of its columns, and a column of how many people that row stands for."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.column = next((name for name in columns if _plain(name) in _COUNTS), None) if len(columns) > 1 else None
        self.others = [name for name in columns if name != self.column]
        self._rows: list[tuple[Any, ...]] = []
        self._counts: list[Any] = []

    def add(self, batch: Any) -> None:
        """Look at a batch of records, until they are too many."""
        if self.column is None:
            return
        if len(self._counts) + batch.num_rows > MOST_ROWS:
            self.column = None
            return
        self._counts += batch.column(self.column).to_pylist()
        self._rows += zip(*(batch.column(name).to_pylist() for name in self.others), strict=True)

    def said(self) -> Iterator[str]:
        """One sentence where it is such a table."""
        counts = [_number(value) for value in self._counts]
        whole = [c for c in counts if c is not None and c >= 0 and c == round(c)]
        if self.column is None or len(whole) < len(counts) or sum(whole) <= len(whole) or len(whole) < 2:
            return
        each = [len({row[k] for row in self._rows}) == len(self._rows) for k in range(len(self.others))]
        # a column that tells all rows apart by itself is a person's number, unless it is the table's only one
        if len(set(self._rows)) == len(self._rows) and (len(each) == 1 or not any(each)):
            yield (
                f"this looks like a table of counts: its {len(whole)} rows are all different, and column "
                f"{shown(self.column)} may say how many people each stands for, {sum(whole):.0f} in all; here every row is one "
                "person, so write one row for each person first"
            )
