"""An evaluator's questions about a differentially private system, answered for one design.

The topics are those of NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees" (March 2025): epsilon, the
unit of privacy, composition, the trust model, correct implementation, side channels, utility and bias, security and access,
and exposure while data are collected. The questions are in our words, not quoted from it, and NIST has not seen them. A design
answers some of them; what only those who deploy it can know is put to them as a question, and never answered here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import Any

from optrr.designs.checks import Verification
from optrr.designs.design import Asking, Design, requirements
from optrr.designs.design_file import verification
from optrr.domain.domain import shown
from optrr.errors import InvalidInput
from optrr.show.text import amount, bound_text, epsilon_text, one_line
from optrr_solvers import Status

__all__ = ["Entry", "Facts", "Worksheet", "filled", "worksheet"]

# Characters that Markdown or HTML would read as markup; names of attributes may hold any.
_MARKUP = frozenset("\\`*{}[]<>#|&~$")
# Attributes listed one by one; of more only the range is shown.
_MOST_LISTED = 40
# Digits of a number that a person reads.
_MOST_DIGITS = 15


@dataclass(frozen=True)
class Entry:
    """One question: what holds for this design, and what remains to be answered by those who deploy it."""

    topic: str
    question: str
    holds: tuple[str, ...]
    for_you: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"topic": self.topic, "question": self.question, "holds": self.holds, "for_you_to_answer": self.for_you}


@dataclass(frozen=True)
class Worksheet:
    """All questions about one design, for ``records`` people."""

    design: str
    records: int
    entries: tuple[Entry, ...]

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object."""
        return {
            "source": "topics of NIST SP 800-226 (March 2025)",
            "design": self.design,
            "records": self.records,
            "entries": [e.summary() for e in self.entries],
        }

    def markdown(self) -> str:
        """The sheet as Markdown, to be filled in."""
        lines = [
            "# Evaluation worksheet",
            "",
            f"Design {self.design}. Topics of NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees.",
            "The questions are in our words, not quoted from it.",
        ]
        for entry in self.entries:
            lines += ["", f"## {entry.topic.capitalize()}: {entry.question}", ""]
            lines += [f"- {_literal(line)}" for line in entry.holds]
            lines += ["", "For you to answer:", ""]
            lines += [f"- [ ] {_literal(line)}" for line in entry.for_you]
        return "\n".join(lines)


@dataclass(frozen=True)
class Facts:
    """What a sheet says of one way of asking alone: what is protected, how strongly, how it is drawn, checked and kept."""

    protects: str
    unit: str
    strength: tuple[str, ...]
    attributes: tuple[str, ...]
    earlier: str
    drawn: str
    basis: str
    verified: Verification
    accuracy: tuple[str, ...]
    kept: str


def worksheet(design: Design, records: int) -> Worksheet:
    """An evaluator's questions, answered as far as the design goes; the rest are put to those who deploy it.

    ``records`` is how many people will answer, for what is said of errors. Raises InvalidInput for another way of asking.
    """
    if not isinstance(design, Design):
        raise InvalidInput(
            f"this sheet is of designs, and got a {type(design).__name__}; "
            "optrr.ways.protocols.sampled_uses.questions_worksheet is for sampled tables"
        )
    least = bound_text(design.lower_bound)
    bound = f"no mechanism with the requested {requirements(design)} has a total below {least} nats"
    if design.solution.status is Status.BASELINE:
        bound = f"method {design.method!r} is a baseline and claims no optimality; {bound}"
    each = zip(design.domain, design.attribute_epsilons.tolist(), design.conditional_epsilons.tolist(), strict=True)
    attributes = [
        f"{shown(a.name)}: as accurate as randomized response at {bound_text(e)} nats; to whoever knows all other attributes "
        f"of the person it gives away at most {epsilon_text(c)} nats"
        for a, e, c in islice(each, _MOST_LISTED)
    ]
    if design.domain.m > _MOST_LISTED:
        more = amount(design.domain.m - _MOST_LISTED, "more attribute")
        attributes.append(f"and {more}: optrr verify and the design file list them")
    earlier = len(design.earlier)
    known = (
        f"this design follows {earlier} earlier release{'s' if earlier > 1 else ''} of the same people: "
        f"{epsilon_text(design.epsilon_in_all)} nats in all"
        if earlier
        else "this design names no earlier release of the same people"
    )
    automaton = design.law.automaton
    drawn = (
        f"drawn from whole numbers of {automaton.bits} bits; the epsilons above cover these numbers, so that no floating-point "
        "arithmetic stands between label and draw"
        if automaton is not None
        else "too large to be drawn from one table of whole numbers: drawn by a slower sampler, whose rounding the total "
        "covers by a proven bound"
    )
    facts = Facts(
        "a whole record",
        f"the {amount(design.domain.m, 'attribute')} that one person reports once",
        (bound,),
        (
            *attributes,
            "an attribute epsilon is an accuracy and no promise of privacy: where attributes are associated, an observer "
            "may learn about one of them as much as from the total epsilon",
        ),
        known,
        drawn,
        "the law and the certificate",
        verification(design),
        tuple(f"warning of the design: {w}" for w in design.warnings),
        "one randomized record",
    )
    return filled(design, records, facts)


def filled(design: Asking, records: int, facts: Facts) -> Worksheet:
    """The sheet of any way of asking, with what is to be said of it alone."""
    # e^ε for people, rounded up
    factor = (
        epsilon_text(math.nextafter(math.exp(design.epsilon), math.inf), 3)
        if design.epsilon < 30
        else f"e^{epsilon_text(design.epsilon)}"
    )
    checks = facts.verified.checks
    shares = []
    for a in design.domain.attributes[:_MOST_LISTED]:
        error = design.standard_error(a.name, records)
        name = shown(a.name)
        shares.append(
            f"{name}: shares are known to {error:.2g} (standard errors' root mean square, at most, with {records} records)"
            if math.isfinite(error)
            else f"{name}: shares cannot be estimated"
        )
    digits = math.fsum(math.log10(r) for r in design.domain.sizes.tolist())
    different = f"{math.prod(design.domain.sizes.tolist())}" if digits < _MOST_DIGITS else f"about 10^{digits:.0f}"
    entries = (
        Entry(
            "epsilon",
            "How strong is the guarantee?",
            (
                f"pure local differential privacy, delta = 0: total epsilon {epsilon_text(design.epsilon)} nats for "
                f"{facts.protects}",
                f"any report is at most {factor} times as likely under one true record as under any other",
                *facts.strength,
            ),
            (
                "Who chose this epsilon, and for what harm to people is it small enough?",
                "Would asking for fewer attributes, or coarser categories, do with a smaller one?",
            ),
        ),
        Entry(
            "epsilon",
            "What does it mean for a single attribute?",
            facts.attributes,
            ("Which attributes are sensitive, and what do likely observers already know about a person?",),
        ),
        Entry(
            "unit of privacy",
            "Whose data are protected against being told apart?",
            (
                f"one record: {facts.unit}; any two records are neighbours, in every attribute at once",
                "that somebody took part is not hidden",
            ),
            (
                "Can one person answer more than once, with several devices or for several people of a household?",
                "Does a record tell about others than the person who reports it (family, employer)?",
            ),
        ),
        Entry(
            "composition",
            "What else is released about the same people?",
            (
                facts.earlier,
                "epsilons of several releases add up; a record randomized again by the same design spends its epsilon again",
                "whatever is computed from randomized records spends nothing more",
            ),
            (
                "Which other surveys, releases or copies of the true data tell about the same people?",
                "Who keeps the account (optrr account adds up randomized files), and at which limit does asking stop?",
            ),
        ),
        Entry(
            "trust model",
            "Who has to be trusted?",
            (
                "the local model: whoever holds only randomized records is not trusted, and neither is whoever breaks in there",
                "the place where a record is randomized is trusted, with its software, its operating system and its source of "
                "random bits",
            ),
            (
                "Where does the randomization run: on each person's own device, or where true records have been gathered "
                "already? In the second case that place is trusted with everything.",
                "Who delivers the program that randomizes, and how would people notice another one?",
            ),
        ),
        Entry(
            "correct implementation",
            "Why believe that the mechanism has this epsilon?",
            (
                f"{sum(c.holds for c in checks)} of {len(checks)} checks held when this sheet was written, "
                f"by recomputation from {facts.basis}: " + "; ".join(f"{c.name} ({c.how})" for c in checks),
                facts.drawn,
            ),
            (
                "Which program randomizes, in which version, and does it pass the clients' test vectors "
                "(docs/deployment-format.md)?",
                "Has the running system been tested from outside (optrr audit)?",
            ),
        ),
        Entry(
            "correct implementation",
            "Where do the random bits come from?",
            (
                "from the operating system's generator, unless a seed is given; what a seed drew is marked as not private",
                "whoever knows or guesses the random bits of a report knows the true record",
            ),
            (
                "Do the devices have a good source of random bits from their first start (virtual machines, embedded devices)?",
            ),
        ),
        Entry(
            "side channels",
            "What can be observed beside the report?",
            (
                "not covered: how long randomizing takes, memory and power, when and from where a report is sent; the software "
                "makes no claim to run in constant time",
            ),
            (
                "Who can measure the device while it randomizes, or sees when, from which address and how often a report is "
                "sent?",
                "Does a missing answer, an error or a retry tell something about the true record?",
            ),
        ),
        Entry(
            "utility",
            "Are the results accurate enough?",
            (*shares, *facts.accuracy),
            (
                f"How many people will answer (this sheet assumes {records}), and which error is still useful?",
                "Which tables of several attributes are wanted? optrr allocate compares ways of asking for them.",
            ),
        ),
        Entry(
            "bias",
            "Whom do errors hit?",
            (
                "everybody's record is randomized alike, so that the error of a share does not depend on whose share it is; "
                "relative to a small group's share it is large",
                "the unbiased estimate has no statistical bias; estimates that are cut off at 0 or made consistent have",
            ),
            (
                "Which small groups matter, and are their shares larger than the errors above?",
                "Who does not answer at all, and whom do the categories leave out? Randomizing mends no bias of the question.",
            ),
        ),
        Entry(
            "security and access",
            "What is kept, and who can read it?",
            (
                f"of each person {facts.kept} is needed, bound to the design {design.digest[:19]}…; nothing else",
                "the guarantee holds against everybody who reads these records, and does not rest on keeping them secret",
            ),
            (
                "Where are true values written on the way: forms, logs, caches, crash reports, backups, spreadsheets? When are "
                "they deleted?",
                "Who may change the design, the page or the client, and is the design signed (optrr sign)?",
                "Who may read the randomized records? In many laws they are still personal data.",
            ),
        ),
        Entry(
            "data collection exposure",
            "What is asked, and is all of it needed?",
            (f"{amount(design.domain.m, 'attribute')} with {different} different records in all",),
            (
                "For which purpose is each attribute asked, and may people leave one out?",
                "What are people told, before they answer, of what is randomized, what epsilon means and what is not hidden?",
                "What else does the collection gather (addresses, times, names, devices)?",
            ),
        ),
        Entry(
            "security and access",
            "Can results be falsified?",
            ("anybody who can send reports can send made-up ones; the design does not tell them from true ones",),
            ("Who may answer, how often, and how is that enforced without linking reports to people?",),
        ),
    )
    return Worksheet(design.digest, records, entries)


def _literal(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"&#{ord(c)};" if c in _MARKUP else c for c in one_line(text))
