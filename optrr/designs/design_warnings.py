"""What a person must know before relying on a design: how far it was solved, what it leaves faint, what its size costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optrr.designs.checks import FELT
from optrr.show.text import bound_text, epsilon_text
from optrr_solvers import Status
from optrr_solvers.solution import shortfalls

if TYPE_CHECKING:
    from optrr.designs.design import Design

# A file of more categories than this is larger than a person expects; each takes about so many bytes.
_MANY_CATEGORIES = 100_000
_CATEGORY_BYTES = 12
_NO_AUTOMATON = (
    "too large to be drawn from one table of whole numbers: records are randomized by a slower sampler, whose rounding the "
    "total covers by a proven bound, and an export solves it again on a coarser grid"
)
# Below this share of Kronecker's visibility a pair's table takes four times the records or more.
FAINT = 0.5


def design_warnings(design: Design) -> tuple[str, ...]:
    """What a user must know before using this design, one line each."""
    out = [*([design.public.warning()] if design.public else []), *solution_warnings(design)]
    categories = int(design.domain.sizes.sum())
    if categories > _MANY_CATEGORIES:
        out.append(
            f"a design file lists every category: {categories} here, some {categories * _CATEGORY_BYTES / 1e6:.0f} MB; "
            "merge categories, or declare ranges, if nobody needs them apart"
        )
    if design.law.automaton is None:
        lost = float(np.max(design.law.attribute_epsilons() - design.attribute_epsilons))
        out.append(
            f"{_NO_AUTOMATON}; that costs an attribute {lost:.2g} nats of accuracy" if lost > FELT else _NO_AUTOMATON
        )
    faint = design.faintest_pair
    if faint is not None and abs(faint[0]) < FAINT:
        out.append(
            f"the association of {faint[1]!r} and {faint[2]!r} keeps only {abs(faint[0]):.3g} of its visibility under "
            f"Kronecker at the requested epsilons; if you need its table, {_how_to_keep(design, faint[1], faint[2])}"
        )
    return tuple(out)


def _how_to_keep(design: Design, first: str, second: str) -> str:
    """What to ask for so that a pair stays visible, given what was asked for."""
    problem = design.solution.problem
    if design.solution.status is Status.BASELINE:
        return "use method 'auto' with --preserve pairs (preserve='pairs')"
    if (design.domain.index(first), design.domain.index(second)) in problem.pairs:
        return f"raise kappa, which is {problem.kappa:g}"
    if problem.pairs:
        return "name it among the pairs to preserve"
    return "use --preserve pairs (preserve='pairs')"


def solution_warnings(design: Design) -> tuple[str, ...]:
    """What a user must know of how far this design was solved, one line each."""
    out = list(design.solution.notes)
    if design.solution.status is Status.BASELINE:
        out.append(f"method {design.method!r} is a baseline, not certified: {_where_the_optimum_is(design)}")
    elif design.solution.status is Status.BRACKETED:
        out.append(f"stopped early: the optimum is only known to lie within {design.gap:.3g} nats below this total")
    return tuple(out)


def _where_the_optimum_is(design: Design) -> str:
    if shortfalls(design.solution.problem, design.law).any():
        return f"it misses requested epsilons; with them a total is at least {bound_text(design.lower_bound, 4)} nats"
    return f"the optimum lies between {bound_text(design.lower_bound, 4)} and {epsilon_text(design.epsilon, 4)} nats"
