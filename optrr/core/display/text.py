"""Texts of numbers, and the meaning of an ε in words for respondents.

The survey's page says the same sentences (``words.js``). They are English here; ``words`` translates them for respondents
(:mod:`optrr.survey.words`).

Text for terminals and pages: names and values come from files, and may hold what moves a cursor or hides a line.

Rounding: an ε is rounded up and a bound down, so that the printed number holds, and a required number of records up.

Files and JSON have every digit. A sum of ε is rounded up to the next double.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from optrr_solvers.errors import written

# Characters of a message: a longer one is cut, so that no file can fill a log.
LONGEST_LINE = 4_000
# Characters of a cell.
LONGEST_CELL = 200
# Characters of a name in a title.
_LONGEST_NAME = 60
# Printed text of the missing value.
MISSING = "(missing)"


def printable(text: str) -> str:
    """Escape every character that does not print.

    Line breaks and spaces of all widths are kept.
    """
    if text.isprintable():
        return text
    return "".join(c if prints(c) else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """Format the text on one line, escaped, and cut if it is very long."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}… ({len(line)} characters)"


def cell(text: str, most: int = LONGEST_CELL) -> str:
    """Format the text for a table cell: escaped, cut after ``most`` characters."""
    text = printable(text)
    return text if len(text) <= most else f"{text[:most]}…"


def category_word(text: str | None) -> str:
    """Format a category for output."""
    return MISSING if text is None else text


def crossed(names: Iterable[str]) -> str:
    """Name a table of these attributes, for titles."""
    return " × ".join(cell(" ".join(name.split()), _LONGEST_NAME) for name in names)


def brief(value: object) -> str:
    """Format a value as Python does, escaped, and cut if it is long."""
    return printable(written(value))


def amount(number: int | str, noun: str) -> str:
    """Format a number with its noun: ``1 record``, ``2 records``.

    The plural ends in s.
    """
    return f"{number} {noun}{'' if str(number) == '1' else 's'}"


def counted(number: int, people: str) -> str:
    """Format a number before a text that may begin with ``people``.

    ``2 people without status``, ``1 person without status``.
    """
    single = number == 1 and people.partition(" ")[0] == "people"
    return f"{number} {'person' + people.removeprefix('people') if single else people}"


def sentence(text: str) -> str:
    """Convert a line of a terminal to a sentence of a page."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def prints(character: str) -> bool:
    """Check whether a character prints and moves nothing.

    Printable ones, line breaks and spaces of all widths.
    """
    return character.isprintable() or character == "\n" or unicodedata.category(character) == "Zs"


_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]\d+)?|-?inf|nan")
# A double has at most 767 significant digits.
_EXACT = 800
# A number of records beyond this is no advice.
_MOST_RECORDS = 1e15
# An error this near a lower bound, relative, is called equal to it.
_OPTIMAL = 1e-6


def sum_of_epsilons(epsilons: Iterable[float]) -> float:
    """Compute the smallest double not below the exact sum.

    Sequential composition; inf if one is infinite.
    """
    from optrr_solvers.enclosure import sum_ceiling  # noqa: PLC0415 (brings numpy, and most texts need no number of it)

    each = list(epsilons)
    return math.inf if math.inf in each else sum_ceiling(each)


def epsilon_text(epsilon: float, decimals: int = 6) -> str:
    """Format ε with that many decimals, rounded up.

    The text is never below the privacy loss.
    """
    return _rounded(epsilon, decimals, ROUND_CEILING)


def bound_text(bound: float, decimals: int = 6) -> str:
    """Format a lower bound with that many decimals, rounded down."""
    return _rounded(bound, decimals, ROUND_FLOOR)


def nearness(ratio: float) -> str:
    """Describe how close an error is to the lower bound for any mechanism.

    ``ratio`` is the error over the bound.
    """
    if ratio <= 1 + _OPTIMAL:
        return "optimal among all ε-LDP mechanisms"
    above = 100 * (ratio - 1)
    unit = 10.0 ** (math.floor(math.log10(above)) - 1)
    return f"within {math.ceil(above / unit) * unit:.6g} % of the best ε-LDP mechanism"


def records_enough(n: float) -> str:
    """State a sufficient number of records, rounded up to two digits.

    In words if it is unrealistic.
    """
    if not n <= _MOST_RECORDS:
        return "more records would be needed than any survey has"
    return f"about {two_digits_up(n)} records would do"


def two_digits_up(n: float) -> int:
    """Round n > 0 up to two significant digits."""
    unit = int(10 ** max(int(math.log10(n)) - 1, 0)) if n > 1 else 1
    return math.ceil(n / unit) * unit


def reads_as_number(text: str) -> bool:
    """Check whether a text is a number, as right-aligned cells of tables are."""
    return _NUMBER.fullmatch(text) is not None


def _rounded(value: float, decimals: int, rounding: str) -> str:
    if not math.isfinite(value):
        return f"{value}"
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-decimals), rounding, Context(prec=_EXACT)):f}"


# As in words.js: math.exp may be off by a unit in the last place, and a factor is never stated too small.
_OUTWARD = 1 + 2.0**-48
# From here a factor is written as a power of ten.
_LONGEST = 1e6
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Words:
    """Texts for respondents in English; a subclass translates them.

    The English text is the key of its translation. Its ``{names}`` are values; numbers are written as in the language.
    """

    language, direction, reviewed = "en", "ltr", True
    # translations, one for each plural form, by the English text; and the forms by their plural categories
    messages: Mapping[str, tuple[str, ...]] = {}
    plurals: Mapping[str, int] = {"one": 0, "other": 1}

    def __call__(self, text: str, /, **values: object) -> str:
        """Translate a text and fill in the values."""
        return self._filled(self.messages.get(text, (text,))[0], values)

    def plural(self, one: str, many: str, count: int, **values: object) -> str:
        """Translate the text for this ``{count}``."""
        forms = self.messages.get(one)
        text = (many if count != 1 else one) if forms is None else forms[self.form(count)]
        return self._filled(text, {"count": count, **values})

    def form(self, count: int) -> int:
        """Return the index of the plural form for a number."""
        return int(count != 1)

    def number(self, value: float, decimals: int | None = None) -> str:
        """Format a number, by default with at most three decimals."""
        return f"{value:,.{decimals}f}" if decimals is not None else f"{value:,.3f}".rstrip("0").rstrip(".")

    def _filled(self, text: str, values: Mapping[str, object]) -> str:
        said = {name: self.number(v) if isinstance(v, int | float) else v for name, v in values.items()}
        return text.format(**said)


ENGLISH = Words()


def factor_text(epsilon: float, words: Words = ENGLISH) -> str:
    """Format e^ε with three digits, rounded up.

    Never below the privacy loss. From a million on as a power of ten.
    """
    if epsilon <= 0:
        return "1"
    if epsilon < math.log(_LONGEST) and (factor := math.exp(epsilon) * _OUTWARD) < _LONGEST:
        digits = 2 - math.floor(math.log10(factor))
        scale = 10 ** abs(digits)
        up = math.ceil(factor * scale) / scale if digits > 0 else math.ceil(factor / scale) * scale
        return words.number(up)
    exponent = math.floor(epsilon / math.log(10))
    # far more than the digits that the logarithm lost
    lead = math.ceil(10 ** (epsilon / math.log(10) - exponent) * (1 + 1e-9) * 10) / 10
    lead, exponent = (lead / 10, exponent + 1) if lead >= 10 else (lead, exponent)
    return f"{words.number(lead)} × 10{str(exponent).translate(_SUPERSCRIPTS)}"


def percent_at_best(epsilon: float) -> int:
    """Compute the posterior of even prior odds in percent, rounded up.

    100 e^ε/(1 + e^ε).
    """
    return min(100, math.ceil(100 * _OUTWARD / (1 + math.exp(-epsilon))))


def promise(epsilon: float, words: Words = ENGLISH) -> str:
    """State the promise of a total ε, in nats, to every respondent."""
    return words(
        "Whatever you answer, what you send is at most {factor} times as likely with your answers as with any other answers.",
        factor=factor_text(epsilon, words),
    )


def example(epsilon: float, words: Words = ENGLISH) -> str:
    """State the promise of a total ε by an example."""
    percent = percent_at_best(epsilon)
    if epsilon <= 0:
        return words(
            "Suppose someone has two guesses about your answers and finds both equally likely. "
            "After seeing what you send, they know no more than before."
        )
    if percent >= 100:
        return words(
            "Suppose someone has two guesses about your answers and finds both equally likely. "
            "After seeing what you send, they can be almost certain of one of them. That protects you very little."
        )
    return words(
        "Suppose someone has two guesses about your answers and finds both equally likely. "
        "After seeing what you send, they can be at most {percent} percent sure of one of them.",
        percent=percent,
    )


def changed_of_hundred(size: int, epsilon: float) -> int:
    """Compute how many of 100 reports have the attribute's value replaced.

    f_i = (r−1)/(r−1+e^ε), to the nearest whole number.
    """
    return round(100 * (size - 1) / (size - 1 + math.exp(min(epsilon, 700.0))))


def changed_text(answer: str, changed: int, other: str | None = None, words: Words = ENGLISH) -> str:
    """State how many of 100 people with this answer have another one recorded.

    ``other`` is the other one of two answers.
    """
    if other is None:
        return words(
            "Of 100 people who would answer “{answer}”, {changed} are recorded with another answer.",
            answer=answer,
            changed=changed,
        )
    return words(
        "Of 100 people who would answer “{answer}”, {changed} are recorded as “{other}”.",
        answer=answer,
        changed=changed,
        other=other,
    )
