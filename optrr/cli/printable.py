"""Text as a terminal may have it: names and values come from files, and may hold what moves a cursor or hides a line."""

from __future__ import annotations

# Characters of a message: a longer one is cut, so that no file can fill a log.
LONGEST_LINE = 4_000


def printable(text: str) -> str:
    """The text with every character that does not print written as an escape, line breaks kept."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """The text on one line, escaped, and cut where it is very long."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}… ({len(line)} characters)"
