"""The least total ε for required variances, by local queries (design §3.9).

Attribute i is to be estimated with as little variance as under randomized response at ε_i, whatever is reported. A design flips
it as rarely, and keeps whole records. Here each person answers one question drawn at random (:class:`optrr.SampledTables`),
which costs less and leaves no records. Randomized response has

    n Σ_c Var π̂_c = (1 − 1/r_i)/λ_i² − Σ_c (π_c − 1/r_i)²

in a population of shares π, and questions of the same first term have at most as much: they are asked of fewer people each, so
that the second term, which is what sampling does not add in a population that is not even, is multiplied by 1 or more. (Of
questions with weights w_a and n_a answers by Σ w_a²/n_a ≥ 1/n.)
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from numpy.typing import ArrayLike

from optrr.allocation.sampled_tables import SampledTables
from optrr.core.design import Declared, Design, design
from optrr_solvers import SolveFailed, SolveOptions
from optrr_solvers.allocation.any_mechanism import total_bound
from optrr_solvers.allocation.questions import MAX_CELLS
from optrr_solvers.allocation.variances import sufficient_questions
from optrr_solvers.problem import EPSILON_RANGE

# Questions take the place of a design where they save this share of its total.
_SAVED = 1e-6
NO_QUESTIONS = (
    "no mixture of questions that was found estimates every attribute as well at a smaller total epsilon, so this is the "
    "design that flips as rarely"
)


def variance_design(
    domain: Declared,
    epsilons: float | ArrayLike | Mapping[str, float] | None = None,
    *,
    options: SolveOptions = SolveOptions(),
) -> SampledTables | Design:
    """Find questions that estimate attribute i with at most the variance of randomized response at ε_i.

    Parameters
    ----------
    domain, epsilons, options
        as of :func:`optrr.design`.

    Returns
    -------
    SampledTables
        questions of which each person answers one. Variances, summed over the categories of an attribute, are at most
        randomized response's in every population, where as many people answer each question as its share says. The total is
        the smallest that a search found; :func:`optrr_solvers.allocation.any_mechanism.total_bound` is its lower bound.
    Design
        where no questions cost less; a warning of the design says so.

    Raises
    ------
    InvalidInput, InvalidProblem, MethodTooLarge, SolveFailed
        as :func:`optrr.design`.
    """
    flips, show = design(domain, epsilons, options=options), options.progress
    sizes = flips.domain.sizes
    least = 0.0 if show is None else total_bound(sizes, flips.requested_epsilons)
    watched = None if show is None else lambda total: show(0.0, total, least)
    most = min(flips.epsilon * (1 - _SAVED), EPSILON_RANGE[1])
    # of an attribute with more categories nobody can name a subset
    asked = bool((sizes <= MAX_CELLS).all())
    mixed = None
    with suppress(SolveFailed):
        mixed = sufficient_questions(sizes, flips.requested_epsilons, most, watched) if asked else None
    # what people are asked cannot cost less than the smallest ε there is
    total = most if mixed is None else max(mixed.total, EPSILON_RANGE[0])
    if mixed is None or total > most:
        solution = replace(flips.solution, notes=(*flips.solution.notes, NO_QUESTIONS))
        return replace(flips, solution=solution)
    names = tuple(tuple(flips.domain.names[i] for i in q.attributes) for q in mixed.questions)
    return SampledTables(flips.domain, names, mixed.shares, total, tuple(q.report for q in mixed.questions))
