"""Texts for respondents, in one or several languages, and questions that depend on earlier answers.

A text in one language is a string; a text in several is a table, ``{"en": "Yes", "de": "Ja"}``. An attribute with a
:class:`Branch` is asked only after certain answers to earlier ones. Otherwise its value is a category of its own, such
as ``not asked``, so that the record has a value for every attribute and nothing else depends on the path.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from optrr.core.display.text import brief
from optrr.core.domain.domain import Attribute, Category, Domain, category_text, listed, shown
from optrr.core.errors import InvalidInput, did_you_mean

Text = str | dict[str, str]
Labels = list[str] | dict[str, list[str]]

# Keys of texts of the whole survey.
WHOLE_TEXTS = ("title", "asker", "introduction", "thanks")
# Category of an attribute that was not asked, unless ``not_asked`` names another one.
NOT_ASKED = "not asked"
# Language of texts without one.
_DEFAULT_LANGUAGE = "en"
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")


class Wording(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True, omit_defaults=True):
    """Texts for respondents; None if the specification gives none.

    ``language`` is that of texts without a table of languages. ``asker`` names the data collector, ``introduction`` is
    a paragraph, ``thanks`` is read after sending. ``questions`` and ``labels`` have the texts of an attribute and of its
    categories; an attribute without a question is asked by its name. ``columns`` are questions about columns with several
    answers.
    """

    language: str | None = None
    title: Text | None = None
    asker: Text | None = None
    introduction: Text | None = None
    thanks: Text | None = None
    questions: dict[str, Text] = {}
    labels: dict[str, Labels] = {}
    columns: dict[str, Text] = {}

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """All languages of the texts, the default one first."""
        others = dict.fromkeys(key for _, text in self.parts() if isinstance(text, dict) for key in text)
        return tuple(dict.fromkeys((self.language or next(iter(others), _DEFAULT_LANGUAGE), *others)))

    def text(self, value: Any, language: str | None = None) -> tuple[Any, str]:
        """Return a text or labels in a language, with the language it is in.

        A missing one falls back to the default language, then to any other. None stays None.
        """
        first = self.languages[0]
        if not isinstance(value, dict):
            return value, first
        found = next(key for key in (language, first, *value) if key in value)
        return value[found], found

    def given(self, language: str) -> dict[str, Any]:
        """Return the texts that are given in a language, by key; those of attributes and columns by name."""

        def inside(texts: Mapping[str, Any]) -> dict[str, Any]:
            found = {key: self.text(value, language) for key, value in texts.items()}
            return {key: text for key, (text, its_language) in found.items() if text and its_language == language}

        parts = {key: inside(getattr(self, key)) for key in ("questions", "labels", "columns")}
        return inside({key: getattr(self, key) for key in WHOLE_TEXTS}) | {
            k: texts for k, texts in parts.items() if texts
        }

    def lacking(self, language: str, labelled: Sequence[str]) -> list[str]:
        """Name the texts that other languages have and this one lacks, with labels of these attributes."""
        texts = self.given(language)
        out = [key for key, _ in self.parts() if key in WHOLE_TEXTS and key not in texts]
        for key in ("questions", "columns"):
            out += [f"question of {shown(name)}" for name in getattr(self, key) if name not in texts.get(key, {})]
        return out + [f"labels of {shown(name)}" for name in labelled if name not in texts.get("labels", {})]

    def parts(self) -> Iterator[tuple[str, Text | Labels]]:
        """Iterate over the given texts with their places in the file."""
        whole = {key: getattr(self, key) for key in WHOLE_TEXTS}
        yield from ((key, text) for key, text in whole.items() if text is not None)
        yield from ((f"attribute {shown(name)}, question", text) for name, text in self.questions.items())
        yield from ((f"attribute {shown(name)}, labels", texts) for name, texts in self.labels.items())
        yield from ((f"columns, {shown(name)}", text) for name, text in self.columns.items())

    def check(self, domain: Domain) -> None:
        """Raise InvalidInput for empty texts, invalid languages, and labels that do not fit the categories."""
        if self.language is not None:
            _check_language("language", self.language)
        for place, given in self.parts():
            by_language = given if isinstance(given, dict) else {"": given}
            if not by_language:
                raise InvalidInput(f'{place}: has no language; write a text, or a table such as {{en = "…"}}')
            for language, text in by_language.items():
                if language:
                    _check_language(place, language)
                for each in [text] if isinstance(text, str) else text:
                    if not each.strip() or not is_unicode(each):
                        raise InvalidInput(f"{place}: is {shown(each)}; write a text in UTF-8, or leave it out")
        for name, labels in self.labels.items():
            for texts in labels.values() if isinstance(labels, dict) else [labels]:
                _check_labels(domain[name], texts)
        known = [a.multi_select.column for a in domain if a.multi_select is not None]
        for name in self.columns:
            if name not in known:
                hint = did_you_mean(name, known) or "; name the column of a multi_select"
                raise InvalidInput(f"columns: {shown(name)} is not a column with several answers{hint}")


class Branch(msgspec.Struct, frozen=True):
    """Condition of a question: earlier attributes with the categories (canonical texts) after which it is asked.

    All must hold. ``otherwise`` is the category of those who are not asked.
    """

    when: dict[str, tuple[str, ...]]
    otherwise: str = NOT_ASKED


def branch_of(
    attribute: Attribute, earlier: Mapping[str, Attribute], ask_if: Mapping[str, list[Category]], otherwise: str
) -> Branch:
    """Check the condition of an attribute's question against the attributes before it."""
    place = f"attribute {shown(attribute.name)}"
    if attribute.multi_select is not None:
        raise InvalidInput(f"{place}, ask_if: it is a check box among others; leave ask_if out")
    if otherwise not in attribute.codes:
        raise InvalidInput(
            f"{place}, not_asked: {shown(otherwise)} is not one of its categories; add it to the categories"
            + (", which must replace the bins" if attribute.bins is not None else "")
        )
    if not ask_if:
        raise InvalidInput(f'{place}, ask_if: names no attribute; write one, such as {{theft = ["yes"]}}')
    when = {}
    for name, categories in ask_if.items():
        if name not in earlier:
            hint = did_you_mean(name, earlier) or "; name an attribute above this one"
            raise InvalidInput(f"{place}, ask_if: {shown(name)} is not an earlier attribute{hint}")
        texts = tuple(str(category_text(c)) for c in categories)
        known = [text for text in earlier[name].texts if text is not None]
        if not texts or (wrong := next((t for t in texts if t not in known), None)) is not None:
            problem = f"{shown(str(wrong))} is not a category of" if texts else "has no category of"
            raise InvalidInput(f"{place}, ask_if: {problem} {shown(name)}; choose among {listed(known)}")
        when[name] = texts
    return Branch(when, otherwise)


def is_unicode(text: str) -> bool:
    """Check that a text has no halves of surrogate pairs, which no file can be written with."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _check_language(place: str, language: str) -> None:
    if not _LANGUAGE.fullmatch(language):
        raise InvalidInput(f"{place}: {brief(language)} is not the code of a language; write one such as de or pt-BR")


def _check_labels(attribute: Attribute, texts: list[str]) -> None:
    place = f"attribute {shown(attribute.name)}, labels"
    if len(texts) != attribute.size:
        last = ", the missing value last" if attribute.missing_code is not None else ""
        raise InvalidInput(
            f"{place}: {len(texts)} for {attribute.size} categories; give one for each, in their order{last}"
        )
    if len(set(texts)) < len(texts):
        twice = next(text for k, text in enumerate(texts) if text in texts[:k])
        raise InvalidInput(f"{place}: {shown(twice)} occurs twice; respondents must be able to tell answers apart")
