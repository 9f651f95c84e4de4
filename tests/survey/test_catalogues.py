"""Catalogues of the respondents' texts: complete, with the same placeholders, plurals and numbers as the sources."""

import json
import re
import subprocess
from gettext import c2py

import pytest

pytest.importorskip("babel", reason="Babel is not installed (the serve extra)")

from catalogue_files import SOURCES, TREE, catalogue, extracted
from javascript import node

from optrr.core.display import ENGLISH, changed_text, example, promise
from optrr.survey.words import LANGUAGES, name_of, words_of, words_record

TRANSLATED = LANGUAGES[1:]
PLACEHOLDER = re.compile(r"\{(\w+)\}")
TEXTS = (
    lambda w: promise(1.0718, w),
    lambda w: promise(20, w),
    lambda w: example(1.0718, w),
    lambda w: changed_text("x", 27, "y", w),
)


def forms_of(string):
    return [string] if isinstance(string, str) else list(string)


def keys_of(catalog):
    return {message.id for message in catalog if message.id}


def test_sources_have_messages_of_all_kinds():
    found = keys_of(extracted())
    assert all(ENGLISH(text) for text in found if isinstance(text, str) and not PLACEHOLDER.search(text))
    assert "Of 100 people who would answer “{answer}”, {changed} are recorded as “{other}”." in found


def test_no_literal_of_the_sources_is_left_out():
    """Babel does not see a call within the arguments of another one, nor a template's method."""
    found = {text for key in keys_of(extracted()) for text in forms_of(key)}
    for pattern in SOURCES:
        for path in sorted(TREE.glob(pattern)):
            call = r"\b[tn]" if path.suffix == ".js" else r"\b(?:words|plural)"
            literals = re.findall(call + r'\(\s*"((?:[^"\\]|\\.)*)"\s*[,)]', path.read_text(encoding="utf-8"))
            lost = [text for text in literals if text not in found]
            assert not lost, f"{path.name}: take {lost} out of the arguments of another text"


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_catalogue_has_exactly_the_messages_of_the_sources(language):
    held, wanted = keys_of(catalogue(language)), keys_of(extracted())
    assert held == wanted, "run python -m tests.catalogue_files"


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_translation_has_the_placeholders_of_its_message(language):
    found = catalogue(language)
    rule = c2py(found.plural_expr)
    single = {k for k in range(found.num_plurals) if sum(rule(n) == k for n in range(200)) == 1}
    for message in found:
        wanted = set(PLACEHOLDER.findall(" ".join(forms_of(message.id))))
        forms = forms_of(message.string)
        if not message.id or not any(forms):
            continue
        assert all(forms), f"{language}: {message.id} has an empty plural form"
        for k, form in enumerate(forms):
            # a form of one number, such as Arabic's dual, may write the number as a word
            optional = {"count"} if len(forms) > 1 and k in single else set()
            assert wanted - optional <= set(PLACEHOLDER.findall(form)) <= wanted, f"{language}: {form}"


@pytest.mark.parametrize("language", TRANSLATED)
def test_browsers_python_and_gettext_choose_the_same_plural_forms(language):
    rule, words = c2py(catalogue(language).plural_expr), words_of(language)
    counts = list(range(300))
    wanted = [rule(n) for n in counts]
    assert [words.form(n) for n in counts] == wanted
    code = (
        f"const r = new Intl.PluralRules('{language}'); console.log(JSON.stringify({counts}.map((n) => r.select(n))))"
    )
    said = json.loads(subprocess.run([node(), "-e", code], capture_output=True, text=True, check=True).stdout)
    assert [words_record(language)["plurals"][category] for category in said] == wanted


def digits(text):
    return re.findall(r"\d+", text.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")))


@pytest.mark.parametrize("language", TRANSLATED)
def test_the_promise_has_the_same_numbers_in_every_language(language):
    for text in TEXTS:
        assert sorted(digits(text(words_of(language)))) == sorted(digits(text(ENGLISH))), language


def test_numbers_are_written_as_browsers_write_them():
    values = [0, 2.93, 27, 486, 0.125, 99999.5]
    code = (
        f"const said = (l) => {values}.map((x) => new Intl.NumberFormat(l, {{ numberingSystem: 'latn' }}).format(x)); "
        f"console.log(JSON.stringify({list(LANGUAGES)}.map(said)))"
    )
    said = json.loads(subprocess.run([node(), "-e", code], capture_output=True, text=True, check=True).stdout)
    assert [[words_of(language).number(x) for x in values] for language in LANGUAGES] == said


def test_a_language_without_a_catalogue_is_said_to_be_english():
    assert words_of("sv") is ENGLISH
    assert words_record("sv") == {
        "language": "en",
        "direction": "ltr",
        "plurals": {"one": 0, "other": 1},
        "messages": {},
    }
    assert words_of("de-AT").language == "de"
    assert words_of("ar").direction == "rtl"
    assert [name_of(x) for x in ("de", "ja", "pt-BR", "x-y")] == ["Deutsch", "日本語", "português (Brasil)", "x-y"]


def test_drafts_are_not_called_reviewed():
    assert ENGLISH.reviewed
    assert not any(words_of(language).reviewed for language in TRANSLATED)


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_translated_plural_is_found(language):
    words = words_of(language)
    for message in catalogue(language):
        if isinstance(message.id, tuple) and all(message.string):
            for count in (0, 1, 2, 5, 11, 100):
                given = dict.fromkeys(set(PLACEHOLDER.findall(" ".join(message.id))) - {"count"}, "x")
                found = message.string[words.form(count)].format(count=words.number(count), **given)
                assert words.plural(*message.id, count, **given) == found


def test_plurals_in_english():
    assert ENGLISH.plural("{count} answer is missing", "{count} answers are missing", 1) == "1 answer is missing"
    assert (
        ENGLISH.plural("{count} answer is missing", "{count} answers are missing", 1200) == "1,200 answers are missing"
    )
