"""Texts for respondents in their language: gettext catalogues in ``locale``, with the English text as the key.

The page (``t``, ``n``), Python (``words``, ``words.plural``) and templates (``words``, ``plural``) share them. A message
that a catalogue lacks stays English. ``python -m tests.catalogue_files`` writes new messages into the catalogues.
"""

from collections.abc import Sequence
from functools import cache
from gettext import c2py
from importlib.resources import files
from typing import Any

from babel import Locale, UnknownLocaleError
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po
from babel.numbers import format_decimal

from optrr.core.display import ENGLISH, Words

# Languages with a catalogue; English texts are the source.
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "tr", "ar", "ja")
# Line of a catalogue's comment: nobody who speaks the language has read the machine's draft.
UNREVIEWED = "X-Reviewed: no"
# Numbers with which each plural form occurs.
_COUNTS = (*range(200), 10**6)


class _Translated(Words):
    """Words of a catalogue."""

    def __init__(self, locale: Locale, catalog: Catalog) -> None:
        self._locale = locale
        self.language, self.direction = locale.language, locale.text_direction
        self.reviewed = UNREVIEWED not in catalog.header_comment
        self.messages = {_forms(m.id)[0]: _forms(m.string) for m in catalog if m.id and all(_forms(m.string))}
        form = c2py(catalog.plural_expr)
        # from the plural category of a number, which Intl.PluralRules and Babel name alike, to its form
        self.plurals = {locale.plural_form(n): form(n) for n in _COUNTS}
        self.plurals.setdefault("other", catalog.num_plurals - 1)

    def form(self, count: int) -> int:
        """Return the index of the plural form for a number."""
        return self.plurals[self._locale.plural_form(count)]

    def number(self, value: float, decimals: int | None = None) -> str:
        """Format a number, by default with at most three decimals."""
        pattern = "#,##0.###" if decimals is None else f"#,##0.{'0' * decimals}".rstrip(".")
        return format_decimal(value, pattern, self._locale, numbering_system="latn")


def words_of(language: str) -> Words:
    """Return the words in a language such as ``de`` or ``de-AT``; English if it has no catalogue."""
    found = language.replace("_", "-").split("-")[0].lower()
    return _translated(found) if found in LANGUAGES[1:] else ENGLISH


def words_record(language: str) -> dict[str, Any]:
    """Return the catalogue of a language as the page loads it."""
    words = words_of(language)
    return {key: getattr(words, key) for key in ("language", "direction", "plurals", "messages")}


def name_of(language: str) -> str:
    """Return a language's name in itself, such as Deutsch; the code if it is unknown."""
    try:
        return Locale.parse(language.replace("-", "_")).get_display_name() or language
    except (UnknownLocaleError, ValueError):
        return language


@cache
def _translated(language: str) -> _Translated:
    with (files(__package__) / "locale" / f"{language}.po").open("rb") as file:
        return _Translated(Locale(language), read_po(file, language))


def _forms(string: str | Sequence[str] | None) -> tuple[str, ...]:
    return (string or "",) if isinstance(string, str | None) else tuple(string)
