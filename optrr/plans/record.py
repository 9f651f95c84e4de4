"""What is written down of a plan: the question, the alternatives seen, the choice with its numbers, and the reason.

    format = "optrr-plan/1"
    reason, software        texts
    [question]              as :meth:`optrr.plans.question.Question.state`
    [[seen]]                total, n, way, margin, over_bound of each alternative that was looked at
    [choice]                total as drawn in nats, way, error, error_bound, over_bound, margin, conditional_epsilon, meaning,
                            digest of the way of asking, and digest of the question
    [[choice.tables]]       attributes and margin of each wanted table (the first 200)
    [[choice.labels]]       name, epsilon and conditional_epsilon of each attribute, where whole records are asked

Margins are ± percentage points with 95 % confidence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from optrr.designs.asking import Asking
from optrr.designs.specification import toml_text
from optrr.errors import InvalidInput
from optrr.plans.meaning import Meaning
from optrr.plans.preview import Preview
from optrr.plans.question import Question
from optrr.show.version import SOFTWARE

FORMAT = "optrr-plan/1"


@dataclass(frozen=True)
class SeenWay:
    """An alternative for the same attributes and tables that was looked at, with numbers of an allocation.

    Parameters
    ----------
    total
        ε in nats.
    n
        how many people.
    way
        the name of the way of asking.
    margin
        typical ± percentage points, 95 %; ``inf`` where some table cannot be estimated.
    over_bound
        its error over what no mechanism of this total can have less of than.
    """

    total: float
    n: int
    way: str
    margin: float
    over_bound: float

    @classmethod
    def of(cls, preview: Preview) -> SeenWay:
        """What an exact preview shows."""
        return cls(
            float(preview.question.total),
            preview.n,
            preview.point.way.name,
            float(preview.typical_margin),
            float(preview.over_bound),
        )


def meaning_of(preview: Preview) -> Meaning:
    """What the total, as it is drawn, means for one person; of whole records also to whoever knows all other answers."""
    question, labels = preview.question, preview.point.labels
    conditional = max(label.conditional_epsilon for label in labels) if labels else None
    return Meaning(preview.point.epsilon, question.prior, conditional, question.releases)


def digest_of(asking: Asking) -> str | None:
    """What identifies the way of asking; None for those of studies, which have no digest and no file."""
    try:
        return asking.digest
    except InvalidInput:
        return None


def choice(preview: Preview, asking: Asking) -> dict[str, Any]:
    """The choice with its numbers, as plain values for TOML and JSON."""
    point, digest = preview.point, digest_of(asking)
    labels = [(each.name, float(each.epsilon), float(each.conditional_epsilon)) for each in point.labels]
    return {
        "total": float(point.epsilon),
        "way": point.way.name,
        "error": float(point.way.error),
        "error_bound": float(point.error_bound),
        "over_bound": float(preview.over_bound),
        "margin": float(preview.typical_margin),
        "conditional_epsilon": float(point.way.conditional_epsilon),
        "meaning": list(meaning_of(preview).sentences()),
        **({} if digest is None else {"digest": digest}),
        "question_digest": _question_digest(preview.question),
        "tables": [{"attributes": list(t.attributes), "margin": float(t.margin)} for t in preview.tables],
        "labels": [dict(zip(("name", "epsilon", "conditional_epsilon"), each, strict=True)) for each in labels],
    }


def plan_toml(preview: Preview, asking: Asking, seen: Sequence[SeenWay], reason: str) -> str:
    """The whole file."""
    return toml_text(
        {
            "format": FORMAT,
            "reason": reason,
            "software": SOFTWARE,
            "question": preview.question.state(),
            "seen": [asdict(each) for each in seen],
            "choice": choice(preview, asking),
        }
    )


def _question_digest(question: Question) -> str:
    """Of everything that was asked, also what moves no number, such as texts; catches accidents, as digests in files do."""
    canonical = json.dumps(question.state(), sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"
