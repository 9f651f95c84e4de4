"""What the survey page says: numbers never below what is spent and never much above, and what became of a report."""

import json
import re

import numpy as np
import pytest
from mpmath import exp, mpf, workdps

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
        ("999.999999999999999", "1000.000"),
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


def test_how_often_an_answer_is_replaced_is_said_of_a_hundred_reports():
    texts = called(WORDS, "changeText", [0.0, 0.004, 0.274, 0.5, 0.999])
    assert [re.findall(r"[0-9]+ of 100", x) for x in texts] == [
        ["1 of 100"],
        ["1 of 100"],
        ["27 of 100"],
        ["50 of 100"],
        [],
    ]


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
        import {{ deliver }} from {json.dumps(of_the_page("sending.js").as_uri())};
        export async function answered({{ status, body }}) {{
          const asked = [];
          globalThis.fetch = async (...request) => {{
            asked.push(request);
            if (!status) throw new TypeError("no network");
            return new Response(body, {{ status }});
          }};
          const outcome = await deliver({{ id: "x" }});
          const [[path, {{ method, body: sent, credentials }}], ...more] = asked;
          return {{ ...outcome, asked: [path, method, sent, credentials, more.length] }};
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
