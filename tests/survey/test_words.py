"""What the survey page says: numbers never below what is spent and never much above, and what became of a report."""

import json
import re
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from catalogue_files import extracted
from mpmath import exp, mpf, workdps

import optrr
from optrr.survey.page import page_files
from tests.javascript import called, of_the_page

WORDS = of_the_page("words.js")
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def stated(text: str) -> mpf:
    """The number that a factor's text says."""
    plain = re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})*(\.[0-9]+)?", text)
    if plain:
        return mpf(text.replace(",", ""))
    power = re.fullmatch(r"([0-9](\.[0-9]{1,2})?) × 10([⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text)
    assert power, text
    return mpf(power[1]) * mpf(10) ** int(power[3].translate(SUPERSCRIPTS))


def test_a_factor_is_rounded_up_by_a_tenth_of_it_at_most():
    rng = np.random.default_rng(7)
    whole = np.log(np.concatenate([np.arange(1, 1001), [1000, 1e4, 999_999, 1e6, 1e7]]))
    epsilons = [*rng.uniform(0, 14, 500), *10 ** rng.uniform(-12, 3.7, 500), *whole, *np.nextafter(whole, 0)[1:]]
    texts = called(WORDS, "factorText", [float(x) for x in epsilons])
    with workdps(40):
        for epsilon, text in zip(epsilons, texts, strict=True):
            truth = exp(mpf(float(epsilon)))
            # three digits below a million, two above
            loose = mpf("1.0101") if truth < 10**6 else mpf("1.1001")
            assert truth <= stated(text) <= truth * loose, (epsilon, text)


def test_odds_in_percent_are_rounded_up():
    epsilons = [0.0, 1e-9, 0.1, 1.0, 2.5, 4.0, 4.595, 10.0, 800.0]
    with workdps(40):
        exact = [100 / (1 + exp(-mpf(x))) for x in epsilons]
    shown = called(WORDS, "percentAtBest", epsilons)
    assert all(x <= y < x + 1 + 1e-9 for x, y in zip(exact, shown, strict=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.000000000000000", "0.000"),
        ("0.000000000000001", "0.001"),
        ("1.000000000000000", "1.000"),
        ("1.000000000000001", "1.001"),
        ("12.345678901234567", "12.346"),
        ("999.999999999999999", "1,000.000"),
    ],
)
def test_an_epsilon_is_rounded_up_exactly(text, expected):
    assert called(WORDS, "epsilonText", [text]) == [expected]


def test_the_sentence_before_anything_is_drawn():
    (sentence,) = called(WORDS, "promise", [1.0718])
    assert sentence == (
        "Whatever you answer, what you send is at most 2.93 times as likely with your answers as with any other answers."
    )
    certain, nothing = called(WORDS, "example", [8.0, 0.0])
    assert "almost certain" in certain
    assert "no more than before" in nothing


def spread(function: str, tasks: list[list[object]], folder: Path, catalogue: object = None) -> list[str]:
    """What a function of the page says for each list of arguments, in the language of a catalogue."""
    module = folder / "spread.mjs"
    urls = {name: json.dumps(of_the_page(f"{name}.js").as_uri()) for name in ("words", "catalog")}
    use = "" if catalogue is None else f"use({json.dumps(catalogue)});"
    module.write_text(
        f"import * as words from {urls['words']}; import * as catalog from {urls['catalog']};"
        f"const {{ use }} = catalog; {use} export const said = (given) => ({{ ...catalog, ...words }}).{function}(...given);",
        encoding="utf-8",
    )
    return called(module, "said", tasks)


def test_how_often_an_answer_is_replaced_is_said_of_a_hundred_people(tmp_path):
    texts = spread("changeText", [[x, "yes"] for x in (0.004, 0.274, 0.5, 0.999)], tmp_path)
    assert texts == [
        f"Of 100 people who would answer “yes”, {x} are recorded with another answer."
        for x in ("fewer than 1", "27", "50", "nearly all")
    ]
    assert spread("changeText", [[0.2689, "yes", "no"]], tmp_path) == [
        "Of 100 people who would answer “yes”, 27 are recorded as “no”."
    ]


def test_what_a_recorded_answer_reveals_is_said_by_the_number_of_others_with_it(tmp_path):
    def verdict(epsilon, sizes, **more):
        flip = (sizes - 1) / (sizes - 1 + np.exp(epsilon))
        return [{"flip": flip, "sizes": sizes, "answer": "a", "isSame": True, **more}]

    certain = verdict(4, 2, other="b")
    said = spread(
        "verdictText",
        [verdict(1, 2, other="b"), verdict(1, 2, isSame=False), verdict(0.5, 200), certain, verdict(12, 2)],
        tmp_path,
    )
    start = "Recorded as you answered."
    assert said == [
        f"{start} Nobody else can tell: of 100 people who would answer “b”, 27 are recorded as “a” as well.",
        "Changed by chance. This happens to 27 of 100 people who answer like you.",
        f"{start} Nobody else can tell: of 1,000 people with any other answer, 5 are recorded as “a” as well.",
        f"{start} Of 1,000 people with any other answer, only 18 are recorded as “a” as well. That protects this answer "
        "very little.",
        f"{start} Of 1,000,000 people with any other answer, only 6 are recorded as “a” as well. That protects this answer "
        "very little.",
    ]


def test_what_was_sent_for_a_local_query_reveals_is_said(tmp_path):
    held = {"isHeld": True, "match": 0.618, "named": 2, "from": 5}
    said = spread(
        "listVerdictText", [[held], [held | {"isHeld": False}], [held | {"match": 0.9988, "named": 1}]], tmp_path
    )
    # (2 − 0.618)/4 and (1 − 0.9988)/4
    assert said == [
        "Your answer is among them. Nobody else can tell: of 100 people with any other answer, 35 send it as well.",
        "Your answer is not among them. This happens to 38 of 100 people who answer like you.",
        "Your answer is among them. Of 10,000 people with any other answer, only 3 send it as well. That protects this "
        "answer very little.",
    ]


ARABIC = {
    "language": "ar",
    "direction": "rtl",
    "plurals": {"zero": 0, "one": 1, "two": 2, "few": 3, "many": 4, "other": 5},
    "messages": {"{count} try so far": ["z", "o", "t", "f {count}", "m {count}", "x {count}"], "Try it": ["جرّب"]},
}


def test_plurals_and_numbers_are_those_of_the_language(tmp_path):
    tries = [["{count} try so far", "{count} tries so far", x] for x in (0, 1, 2, 5, 1234, 100)]
    assert spread("n", tries, tmp_path) == [
        *(
            "0 tries so far",
            "1 try so far",
            "2 tries so far",
            "5 tries so far",
            "1,234 tries so far",
            "100 tries so far",
        )
    ]
    assert spread("n", tries, tmp_path, ARABIC) == ["z", "o", "t", "f 5", "m 1,234", "x 100"]
    assert spread("t", [["Try it"], ["Next"], ["{a} of {a}", {"a": 0.5}]], tmp_path, ARABIC) == [
        "جرّب",
        "Next",
        "0.5 of 0.5",
    ]
    # no shorter form for four digits
    spanish = ARABIC | {"language": "es", "direction": "ltr", "messages": {}}
    assert spread("number", [[1234.5]], tmp_path, spanish) == ["1.234,5"]


@pytest.mark.parametrize(
    ("language", "typed"),
    [
        (
            "en",
            {
                "18": 18,
                "-3": -3,
                "18.5": 18.5,
                "18,5": 18.5,
                "1,234": 1234,
                "1,234.5": 1234.5,
                " 7 ": 7,
                ".5": 0.5,
                "0,500": 0.5,
            },
        ),
        (
            "de",
            {
                "18,5": 18.5,
                "18.5": 18.5,
                "1.234": 1234,
                "1.234.567,8": 1234567.8,
                "0.125": 0.125,
                "-0.125": -0.125,
                "1.000,5": 1000.5,
                "1 234": 1234,
                "−2": -2,
            },
        ),
        ("fr", {"1\u202f234,5": 1234.5, "1.234": 1.234}),
        ("ar", {"٢٥": 25, "١٨٫٥": 18.5, "۴۲": 42}),
        ("ja", {"３５": 35, "35": 35, "１２．５": 12.5}),
        (
            "pl",
            {
                **dict.fromkeys(
                    [
                        "",
                        "x",
                        "1e5",
                        "0x10",
                        "1,2,3",
                        "1.2.3",
                        "--1",
                        "12a",
                        "١x",
                        "Infinity",
                        "9" * 400,
                        "5²",
                        "²5",
                        "½",
                    ]
                )
            },
        ),
    ],
)
def test_a_typed_number_is_understood_in_every_language(language, typed, tmp_path):
    catalogue = {"language": language, "direction": "ltr", "plurals": {"other": 0}, "messages": {}}
    # JSON has no NaN
    assert spread("typedNumber", [[x] for x in typed], tmp_path, catalogue) == list(typed.values())


def test_a_bin_without_a_text_is_read_as_a_range(tmp_path):
    bins = [
        *(*optrr.Bins((-np.inf, 10, 16.5, np.inf)).labels, *optrr.Bins((-np.inf, 10, 1e5, np.inf), "right").labels),
        *optrr.Bins((date(1999, 12, 31), date(2005, 1, 1), np.inf)).labels,
        *("<b>", "a, b", "[a, b)", "> you", "[1, 2", "ages [1, 2)"),
    ]
    module = tmp_path / "texts.mjs"
    module.write_text(
        f"import {{ textsOf }} from {json.dumps(of_the_page('texts.js').as_uri())};"
        "export const said = (category) =>"
        "  textsOf({ languages: ['en'], texts: {} }, 'en').answer({ name: 'x', categories: [category] }, 0).text;"
    )
    assert called(module, "said", bins) == [
        *("below 10", "from 10 to below 16.5", "16.5 or more"),
        *("up to 10", "more than 10, up to 100,000", "more than 100,000"),
        *("from Dec 31, 1999 to below Jan 1, 2005", "Jan 1, 2005 or more"),
        *("<b>", "a, b", "[a, b)", "> you", "[1, 2", "ages [1, 2)"),
    ]


def test_the_first_language_is_one_that_the_reader_prefers(tmp_path):
    survey = ["de", "pt", "ar"]
    wanted = [["en", "ar-EG"], ["pt-BR", "de"], ["fr"], [], ["DE-at", "ar"]]
    assert spread("preferred", [[survey, each] for each in wanted], tmp_path) == ["ar", "pt", "de", "de", "de"]


ANSWERS = [
    ({"status": 200, "body": '{"kept": true}'}, "sent", None),
    ({"status": 201, "body": '{"kept": true}'}, "sent", None),
    # a network's sign-in page, and others that are not the collector
    (
        {"status": 200, "body": "<!doctype html><title>Sign in</title>"},
        "waiting",
        "The answer came from somewhere else",
    ),
    ({"status": 200, "body": '{"kept": "yes"}'}, "waiting", "The answer came from somewhere else"),
    ({"status": 200, "body": "null"}, "waiting", "The answer came from somewhere else"),
    ({"status": 201}, "waiting", "The answer came from somewhere else"),
    ({"status": 400, "body": "null"}, "refused", "answer 400"),
    (
        {"status": 400, "body": '{"error": "the design is another one"}'},
        "refused",
        "does not accept it: the design is another one",
    ),
    ({"status": 422, "body": '{"error": 5}'}, "refused", "answer 422"),
    ({"status": 413, "body": "<html>"}, "refused", "answer 413"),
    ({"status": 404, "body": ""}, "refused", "answer 404"),
    ({"status": 415, "body": '{"error": "' + "x" * 5000 + '"}'}, "refused", "x" * 300),
    ({"status": 409, "body": '{"error": "y"}'}, "refused", "same identifier"),
    ({"status": 410, "body": ""}, "refused", "The survey is closed."),
    ({"status": 408}, "waiting", "answer 408"),
    ({"status": 425}, "waiting", "answer 425"),
    ({"status": 429}, "waiting", "answer 429"),
    ({"status": 500}, "waiting", "answer 500"),
    ({"status": 503, "body": '{"error": "the disk is full"}'}, "waiting", "answer 503"),
    ({}, "waiting", "could not be reached"),
]


def test_every_answer_of_a_collector_is_understood(tmp_path):
    stand_in = tmp_path / "stand_in.mjs"
    stand_in.write_text(
        f"""
        import {{ deliver, reasonText }} from {json.dumps(of_the_page("sending.js").as_uri())};
        export async function answered({{ status, body }}) {{
          const asked = [];
          globalThis.fetch = async (...request) => {{
            asked.push(request);
            if (!status) throw new TypeError("no network");
            return new Response(body, {{ status }});
          }};
          const outcome = await deliver({{ id: "x" }});
          const [[path, {{ method, body: sent, credentials }}], ...more] = asked;
          const reason = outcome.state === "sent" ? null : reasonText(outcome);
          return {{ ...outcome, reason, asked: [path, method, sent, credentials, more.length] }};
        }}
        """,
        encoding="utf-8",
    )
    results = called(stand_in, "answered", [answer for answer, _, _ in ANSWERS])
    for (answer, state, reason), result in zip(ANSWERS, results, strict=True):
        assert result["asked"] == ["reports", "POST", '{"id":"x"}', "omit", 0]
        assert result["state"] == state, answer
        assert (
            (result["reason"] is None)
            if reason is None
            else (reason in result["reason"] and len(result["reason"]) < 400)
        ), answer


def test_every_message_of_the_page_is_extracted():
    """Babel does not see a call within the arguments of another one."""
    messages = {key for message in extracted() for key in ([message.id] if isinstance(message.id, str) else message.id)}
    for name, file in page_files().items():
        if name.endswith(".js"):
            called_with = re.findall(r'\b[tn]\(\s*"((?:[^"\\]|\\.)*)"', file.body.decode())
            assert set(called_with) <= messages, name
