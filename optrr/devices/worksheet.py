"""An evaluator's questions about a differentially private system, answered for one design.

The topics are those of NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees" (March 2025). The questions
are in our words, and NIST has not seen them. A design answers some of them; those who deploy it must answer the others. The
texts are in ``templates/worksheet.md`` and, for designs and for mixtures of local queries, the two templates that extend it.
This module computes their numbers.
"""

import math
from functools import cache
from typing import TYPE_CHECKING, Any

from optrr.core.design import Asking, Design, Verification, recomputed_design, requirements
from optrr.core.display import amount, bound_text, epsilon_text, one_line
from optrr.core.domain import shown
from optrr.core.errors import InvalidInput
from optrr.core.provenance import function_of

if TYPE_CHECKING:
    from jinja2 import Environment

# Characters that Markdown or HTML would read as markup; names of attributes may hold any.
_MARKUP = frozenset("\\`*{}[]<>#|&~$")
# Maximum number of attributes, or tables, that are listed one by one.
MOST_LISTED = 40
# Significant digits of printed numbers.
_MOST_DIGITS = 15


def worksheet(design: Asking, n: int = 10_000) -> str:
    """Write an evaluation worksheet, answered as far as the design does.

    Parameters
    ----------
    design : Design or SampledTables
        The protocol to evaluate.
    n : int
        Number of respondents, for the standard errors.

    Returns
    -------
    str
        Markdown. Open questions, for those who deploy the design, are unchecked boxes.

    Raises
    ------
    InvalidInput
        If there is no worksheet for this kind of protocol.

    References
    ----------
    NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees", March 2025.

    Examples
    --------
    >>> import optrr
    >>> sheet = optrr.worksheet(optrr.design({"smokes": 2, "age": 4}, 1.0), n=500)
    >>> sheet.count("- [ ] ") > 10
    True
    """
    kind = getattr(design, "file_format", "")
    fill = function_of(kind, "worksheet") if kind else None
    if fill is None:
        raise InvalidInput(f"``design``: a {type(design).__name__} has no worksheet; give a design or sampled tables")
    if n < 1:
        raise InvalidInput(f"``n`` {n}: must be at least 1")
    text: str = fill(design, n)
    return text


def records_worksheet(design: Design, n: int) -> str:
    """Write the worksheet of a design of whole records."""
    names = [shown(a.name) for a in design.domain.attributes[:MOST_LISTED]]
    return filled(
        "worksheet_records.md",
        design,
        n,
        recomputed_design(design),
        requested=requirements(design),
        method=repr(design.method),
        attributes=list(
            zip(names, design.attribute_epsilons.tolist(), design.conditional_epsilons.tolist(), strict=False)
        ),
        more=max(0, design.domain.m - MOST_LISTED),
    )


def filled(template: str, asking: Asking, records: int, verified: Verification, **numbers: Any) -> str:
    """Fill in a template with the numbers of any protocol.

    And with those of this one alone.
    """
    sizes = asking.domain.sizes.tolist()
    digits = math.fsum(map(math.log10, sizes))
    listed = asking.domain.attributes[:MOST_LISTED]
    each = [(shown(a.name), asking.standard_error(a.name, records)) for a in listed]
    text: str = (
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
    return f"{text}\n"


@cache
def _environment() -> "Environment":
    """Create templates whose expressions print text literally in Markdown."""
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
    """Escape text for Markdown."""
    return "".join(f"&#{ord(c)};" if c in _MARKUP else c for c in one_line(str(value)))
