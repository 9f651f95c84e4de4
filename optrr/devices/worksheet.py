"""An evaluator's questions about a differentially private system, answered for one design.

The topics are those of NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees" (March 2025). The questions
are in our words, and NIST has not seen them. A design answers some of them; those who deploy it must answer the others. The
texts are in ``templates/worksheet.md`` and, for designs and for mixtures of local queries, the two templates that extend it.
This module computes their numbers.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property
from html import unescape
from typing import TYPE_CHECKING, Any

from optrr.core.design import Asking, Design, Verification, recomputed_design, requirements
from optrr.core.display import amount, bound_text, epsilon_text, one_line
from optrr.core.domain import shown
from optrr.core.errors import InvalidInput
from optrr.core.provenance import function_of

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Entry", "Worksheet", "filled", "worksheet"]

# Characters that Markdown or HTML would read as markup; names of attributes may hold any.
_MARKUP = frozenset("\\`*{}[]<>#|&~$")
# Maximum number of attributes, or tables, that are listed one by one.
MOST_LISTED = 40
# Digits of a number that a person reads.
_MOST_DIGITS = 15


@dataclass(frozen=True)
class Entry:
    """One question: what holds for this design, and what those who deploy it must answer."""

    topic: str
    question: str
    holds: tuple[str, ...]
    for_you: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"topic": self.topic, "question": self.question, "holds": self.holds, "for_you_to_answer": self.for_you}


@dataclass(frozen=True)
class Worksheet:
    """All questions about one design, for ``records`` people, as Markdown text to be filled in."""

    design: str
    records: int
    text: str

    def markdown(self) -> str:
        """The text."""
        return self.text

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The text's sections."""
        return tuple(map(_entry, self.text.split("\n## ")[1:]))

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object."""
        return {
            "source": "topics of NIST SP 800-226 (March 2025)",
            "design": self.design,
            "records": self.records,
            "entries": [e.summary() for e in self.entries],
        }


_ANSWER = "- [ ] "


def _entry(section: str) -> Entry:
    heading, *lines = section.splitlines()
    topic, _, question = heading.partition(": ")
    holds = [unescape(line[2:]) for line in lines if line.startswith("- ") and not line.startswith(_ANSWER)]
    for_you = [line.removeprefix(_ANSWER) for line in lines if line.startswith(_ANSWER)]
    return Entry(topic.lower(), question, tuple(holds), tuple(for_you))


def worksheet(design: Asking, records: int) -> Worksheet:
    """Answer an evaluator's questions as far as the design does, and leave the rest to those who deploy it.

    ``records`` is how many people will answer, for the errors. Raises InvalidInput for a protocol without a worksheet.
    """
    fill = function_of(getattr(design, "file_format", ""), "worksheet")
    if fill is None:
        raise InvalidInput(f"a {type(design).__name__} has no worksheet; give a design or sampled tables")
    made: Worksheet = fill(design, records)
    return made


def records_worksheet(design: Design, records: int) -> Worksheet:
    """The worksheet of a design of whole records."""
    names = [shown(a.name) for a in design.domain.attributes[:MOST_LISTED]]
    return filled(
        "worksheet_records.md",
        design,
        records,
        recomputed_design(design),
        requested=requirements(design),
        method=repr(design.method),
        attributes=list(
            zip(names, design.attribute_epsilons.tolist(), design.conditional_epsilons.tolist(), strict=False)
        ),
        more=max(0, design.domain.m - MOST_LISTED),
    )


def filled(template: str, asking: Asking, records: int, verified: Verification, **numbers: Any) -> Worksheet:
    """Fill in a template with the numbers of any protocol, and with those that it alone has."""
    sizes = asking.domain.sizes.tolist()
    digits = math.fsum(map(math.log10, sizes))
    listed = asking.domain.attributes[:MOST_LISTED]
    each = [(shown(a.name), asking.standard_error(a.name, records)) for a in listed]
    text = (
        _environment()
        .get_template(template)
        .render(
            asking=asking,
            records=records,
            checks=verified.checks,
            # e^ε for people, rounded up
            factor=(
                epsilon_text(math.nextafter(math.exp(asking.epsilon), math.inf), 3)
                if asking.epsilon < 30
                else f"e^{epsilon_text(asking.epsilon)}"
            ),
            errors=[(name, f"{error:.2g}" if math.isfinite(error) else None) for name, error in each],
            different=math.prod(sizes) if digits < _MOST_DIGITS else f"about 10^{digits:.0f}",
            **numbers,
        )
    )
    return Worksheet(asking.digest, records, text)


@cache
def _environment() -> "Environment":
    """Templates whose expressions print text that Markdown shows as it is."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 (only worksheets need it)

    environment = Environment(
        loader=PackageLoader("optrr.devices"),
        finalize=_literal,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"nats": epsilon_text, "least": bound_text, "amount": amount}
    return environment


def _literal(value: object) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"&#{ord(c)};" if c in _MARKUP else c for c in one_line(str(value)))
