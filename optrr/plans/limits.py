"""What a plan does not promise, one sentence each, and what only people can answer.

The list is that of docs/security.md, §4, by its names; what it says of files that are read and of waiting for them is nothing
that a plan is about.
"""

from __future__ import annotations

from optrr.plans.question import Question

__all__ = ["NOT_PROMISED", "for_you", "not_promised"]

# By the names of docs/security.md, §4.
NOT_PROMISED = {
    "Timing, memory, power": "Whoever can measure the device while it randomizes, or shares its processor, may learn the true "
    "answers.",
    "Repetition": "Every fresh answer spends the epsilon again, and releases that are in no account cannot be added up.",
    "Place, index and names": "A record's place in a list may tell what is true of it, so lists are shuffled before they are "
    "handed on.",
    "That somebody took part": "Who took part, when, and from which address, is not hidden.",
    "Inference about an attribute": "Answers that go together tell about one another, up to the total epsilon; and what is "
    "learned of a population tells about its members, also about those who did not answer.",
    "Poisoning": "Whoever may send reports may send made-up ones, and each of them counts like many people.",
    "The analyst": "Whoever estimates can choose tables until something shows; intervals hold for what was asked beforehand.",
    "Seeds": "What was drawn from a seed is not private; here random bits come from the operating system.",
    "The true data": "Forms, logs, caches and backups that hold true answers elsewhere are not protected.",
    "The program that is served": "Whoever serves a page can serve another one tomorrow; files can be compared with the "
    "published package.",
    "What verification takes for granted": "Verification takes for granted that the software, Python and the processor compute "
    "what they should.",
}
_PUBLIC = "Public columns ({}) stand beside the answers as they are, and nothing protects them."


def not_promised(question: Question) -> list[str]:
    """One sentence each."""
    public = question.specification.public
    named = [_PUBLIC.format(", ".join(public.names))] if public else []
    return [*(f"{name}. {text}" for name, text in NOT_PROMISED.items()), *named]


def for_you(reason: str) -> list[str]:
    """At most six questions that neither a design nor its plan can answer."""
    small = "For what harm to people is this epsilon small enough, and which of the answers are sensitive?"
    return [
        small if reason.strip() else f"Who chose this epsilon, and why? {small}",
        "Where are answers randomized: on each person's own device, or where true ones are gathered, which is then trusted?",
        "Can one person answer more than once, and which other surveys ask the same people? Who keeps that account?",
        "Where are true answers written on the way (forms, logs, backups), and when are they deleted?",
        "What else is gathered (addresses, times, names), and who may read the reports, which by law may be personal data?",
        "Who does not answer, whom do the categories leave out, and may people leave a question out?",
    ]
