"""How long the page of a plan takes to answer a slider that moves: 200 random moves, the curve being there.

An answer is all that the page shows for one question: every fragment, from the body of the request to that of the response.
The first answer is the one before anything is computed. Minutes to run, most of them for the curves of 12 and 100 attributes.
"""

from __future__ import annotations

import time

import msgspec
import numpy as np
from count_queries import markdown, write_text

from optrr.designs.specification import Specification
from optrr.domain.datasets import adult_domain
from optrr.domain.domain import Domain
from optrr.plans.app import PageAnswers
from optrr.plans.question import LEAST_TOTAL, MOST_TOTAL, Question

MOVES = 200


def main() -> None:
    rng = np.random.default_rng(1)
    domains = {
        3: Domain.of({"a": 2, "b": 3, "c": 5}),
        9: adult_domain(),
        12: Domain.of({f"q{k}": int(r) for k, r in enumerate(rng.integers(2, 7, 12))}),
        100: Domain.of({f"q{k}": 2 for k in range(100)}),
    }
    write_text("plan_latency.md", markdown([measured(domain, rng) for domain in domains.values()]))


def measured(domain: Domain, rng: np.random.Generator) -> dict[str, object]:
    """Seconds of the first answer, and of slider moves."""
    learn = "pairs" if domain.m < 100 else "marginals"
    specification = Specification(domain, np.full(domain.m, np.nan))
    answers = PageAnswers(lambda *_: [])
    try:
        first = seconds(answers, Question.of(specification, learn, total=1.0, n=1000), rests=True)
        while answered(answers, Question.of(specification, learn, total=1.0, n=1000), rests=True)["busy"]:
            time.sleep(0.5)
        moves = [
            Question.of(specification, learn, total=float(total), n=int(n), prior=float(prior))
            for total, n, prior in zip(
                np.exp(rng.uniform(np.log(LEAST_TOTAL * 3), np.log(MOST_TOTAL * 0.7), MOVES)),
                np.exp(rng.uniform(3, 14, MOVES)),
                rng.uniform(0.01, 0.99, MOVES),
                strict=True,
            )
        ]
        taken = [seconds(answers, question, rests=False) for question in moves]
    finally:
        answers.close()
    return {
        "attributes": domain.m,
        "learn": learn,
        "first answer, seconds": first,
        "median of 200 moves": float(np.median(taken)),
        "worst of 200 moves": max(taken),
    }


def answered(answers: PageAnswers, question: Question, rests: bool) -> dict:
    return answers.preview(msgspec.json.encode({"question": question.state(), "rests": rests}))


def seconds(answers: PageAnswers, question: Question, rests: bool) -> float:
    start = time.perf_counter()
    msgspec.json.encode(answered(answers, question, rests))
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
