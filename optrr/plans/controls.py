"""What a plan's page starts with: the question in its form, and the numbers that sliders stand for."""

from __future__ import annotations

import json
import math

from optrr.plans.preview import LADDER
from optrr.plans.question import LEAST_TOTAL, MOST_PEOPLE, MOST_RELEASES, MOST_TOTAL, Question
from optrr.show.parts import page_environment
from optrr.show.version import SOFTWARE

# Steps of the slider of totals for each factor of two, and of people for each factor of ten.
_PER_DOUBLE, _PER_TEN = 20, 12
_FEWEST, _DECADES = 10, 5
# What somebody may think beforehand, in percent.
_PRIORS = (1, 2, 5, *range(10, 91, 5), 95, 98, 99)


def totals() -> list[float]:
    """Totals in nats that the slider stands for, evenly in their logarithms, in three digits; from end to end of the ladder."""
    steps = round(_PER_DOUBLE * math.log2(LADDER[-1] / LADDER[0]))
    return [float(f"{LADDER[0] * 2 ** (k / _PER_DOUBLE):.3g}") for k in range(steps + 1)]


def people() -> list[int]:
    """Numbers of people that the slider stands for."""
    steps = range(_DECADES * _PER_TEN + 1)
    return [int(float(f"{_FEWEST * 10 ** (k / _PER_TEN):.2g}")) for k in steps]


def priors() -> list[float]:
    """Beliefs beforehand that the slider stands for."""
    return [percent / 100 for percent in _PRIORS]


def page_markup(question: Question) -> str:
    """The page as HTML."""
    return (
        page_environment("optrr.plans")
        .get_template("plan.html")
        .render(
            state=json.dumps(question.state()),
            totals=json.dumps(totals()),
            people=json.dumps(people()),
            priors=json.dumps(priors()),
            prior_texts=json.dumps([f"{percent} of 100" for percent in _PRIORS]),
            ticks=[f"{total:g}" for total in LADDER[::2]],
            people_ticks=["10", "100", "1,000", "10 k", "100 k", "1 M"],
            limits={"least": LEAST_TOTAL, "most": MOST_TOTAL, "people": MOST_PEOPLE, "releases": MOST_RELEASES},
            software=SOFTWARE,
        )
    )
