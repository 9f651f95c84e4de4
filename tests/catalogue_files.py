"""Messages of the sources, and catalogues that have exactly these: ``python -m tests.catalogue_files`` updates them."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_file
from babel.messages.pofile import read_po, write_po

from optrr.survey.words import LANGUAGES, UNREVIEWED

TREE = Path(__file__).parents[1]
LOCALE = TREE / "optrr" / "survey" / "locale"
KEYWORDS = {"t": None, "n": (1, 2), "words": None, "plural": (1, 2)}
SOURCES = {
    "optrr/core/display/text.py": "python",
    "optrr/survey/*.py": "python",
    "optrr/survey/templates/*.html": "jinja2.ext:babel_extract",
    "optrr/survey/page/*.js": "javascript",
    "optrr/survey/page/*.py": "python",
    "optrr/planner/statement.py": "python",
    "optrr/planner/templates/statement.html": "jinja2.ext:babel_extract",
}
# CLDR's plural rules as gettext writes them, in CLDR's order of categories, where Babel's differ.
_PLURALS = {
    "pt": "nplurals=2; plural=(n > 1);",
    "tr": "nplurals=2; plural=(n != 1);",
    "ar": "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);",
}
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@cache
def extracted() -> Catalog:
    """The messages of all sources, in their order."""
    found = Catalog(project="optrr", creation_date=_BEGAN)
    for pattern, method in SOURCES.items():
        for path in sorted(TREE.glob(pattern)):
            for _, message, _, _ in extract_from_file(method, str(path), KEYWORDS, options={"encoding": "utf-8"}):
                found.add(message, locations=[(str(path.relative_to(TREE)), 0)])
    return found


def catalogue(language: str) -> Catalog:
    path = LOCALE / f"{language}.po"
    if path.exists():
        with path.open("rb") as file:
            return read_po(file, language)
    draft = f"# {language}: machine draft.\n# {UNREVIEWED}"
    made = Catalog(
        language, project="optrr", header_comment=draft, creation_date=_BEGAN, revision_date=_BEGAN, fuzzy=False
    )
    if language in _PLURALS:
        made.mime_headers = [*made.mime_headers, ("Plural-Forms", _PLURALS[language])]
    return made


def update() -> None:
    template = extracted()
    for language in LANGUAGES[1:]:
        found = catalogue(language)
        found.update(template, no_fuzzy_matching=True)
        with (LOCALE / f"{language}.po").open("wb") as file:
            write_po(file, found, width=120, omit_header=False, no_location=True, ignore_obsolete=True)


if __name__ == "__main__":
    update()
