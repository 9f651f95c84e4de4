"""HTML report of a design: privacy, requirements, accuracy, attenuation of pairs, and how to verify it."""

from dataclasses import replace

import numpy as np

from optrr.core.design.designs import Design, requirements
from optrr.core.display.charts import figure_svg
from optrr.core.display.pages import CHARTED, ROWS, checked, told
from optrr.core.display.parts import Chart, Page, Part, Section, Table, Text, warnings
from optrr.core.display.text import amount, bound_text, changed_of_hundred, epsilon_text
from optrr_solvers import Status

MEANING = (
    "Attribute epsilon: the accuracy bought, as the epsilon of randomized response on that attribute alone. Conditional "
    "epsilon: the most that an observer who already knows a person's other attributes learns about this one; where "
    "attributes are "
    "correlated, an observer who knows less may learn up to the total."
)
PAIRS = (
    "Eigenvalue ratio of a pair: the association of two attributes that is left after randomization, relative to "
    "independent randomized response with the same attribute epsilons. If it is nearer to 0 than 1, tables of that pair "
    "are less accurate than under independent randomized response; near 0 they cannot be estimated; below 0 the sign of "
    "the association is reversed, which estimates correct."
)
# Attributes of a chart of pairs.
_MOST_PAIRED = 20
_AUDIT = (
    "A program that randomizes by this design can be tested from outside against the design (optrr audit), and the "
    "author of the file can sign it, which recipients can check (optrr sign, optrr verify)."
)


def design_page(design: Design, file: str | None = None) -> Page:
    """Build the HTML report of a design; ``file`` is its file name."""
    problem = design.solution.problem
    m = amount(problem.m, "attribute")
    lead = [
        f"Total epsilon {epsilon_text(design.epsilon)} for a whole record of {m}.",
        f"Independent randomized response of every attribute needs {epsilon_text(design.kronecker_epsilon)} for the "
        "same accuracies. " + _bound(design),
    ]
    if design.earlier:
        lead.append(f"With earlier releases of the same respondents: {epsilon_text(design.epsilon_in_all)} in all.")
    sections = [
        *warnings(design.warnings),
        told(design.epsilon_in_all),
        _asked(design),
        Section("Accuracy and privacy", bought(design)),
        *_pairs(design),
        Section("Verification", [*checked(design, file), Text(_AUDIT)]),
    ]
    return Page(f"A design for {m}", sections, lead)


def _bound(design: Design) -> str:
    if design.solution.status is Status.BASELINE:
        return "This method is a baseline: the same accuracies may cost less."
    least = bound_text(design.lower_bound)
    return f"No mechanism with these {requirements(design)} has a total below {least}; its file proves it."


def bought(design: Design) -> list[Part]:
    """List each attribute's accuracy, privacy loss and rate of replacement."""
    table = design.shown()
    sizes, epsilons = design.domain.sizes.tolist(), design.attribute_epsilons.tolist()
    rows = [
        [*row, changed_of_hundred(size, epsilon)]
        for row, size, epsilon in zip(table.rows, sizes, epsilons, strict=True)
    ]
    table = replace(table, columns=[*table.columns, "replaced, of 100 answers"], rows=rows).first(ROWS)
    parts: list[Part] = [table, Text(MEANING)]
    if design.domain.m <= CHARTED:
        said = "Attribute and conditional epsilon of every attribute, as in the table, beside the total"
        parts.append(Chart(figure_svg(design.plot()), description=said))
    return parts


def _asked(design: Design) -> Section:
    problem = design.solution.problem
    every = problem.m * (problem.m - 1) // 2
    preserved = (
        "none" if not problem.pairs else "every pair" if len(problem.pairs) == every else f"{len(problem.pairs)} pairs"
    )
    rows: list[tuple[str, object]] = [("attributes", problem.m), ("pairs to preserve", preserved)]
    if problem.pairs:
        rows.append(("their minimum eigenvalue ratio (kappa)", problem.kappa))
    if problem.caps is not None and np.isfinite(problem.caps).any():
        caps = problem.caps[np.isfinite(problem.caps)]
        rows.append(("caps on conditional epsilons", f"{caps.size}, the lowest {caps.min():g}"))
    rows += [("method", design.method), ("status", str(design.solution.status))]
    return Section("Request", [Table(["item", "value"], rows)])


def _pairs(design: Design) -> list[Section]:
    """List the attenuation of pairs; empty for one attribute or too many."""
    if design.faintest_pair is None:
        return []
    ratio, first, second = design.faintest_pair
    parts: list[Part] = [Text(f"Most attenuated: {first} × {second}, {ratio:.3g}."), Text(PAIRS)]
    if 2 < design.domain.m <= _MOST_PAIRED:
        said = (
            "Eigenvalue ratio of every pair relative to independent randomized response; the most attenuated is "
            f"{first} × {second} with {ratio:.3g}"
        )
        parts.append(Chart(figure_svg(design.plot_pairs()), description=said))
    return [Section("Pairs", parts)]
