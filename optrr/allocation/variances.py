"""optrr.design: the least total ε for required accuracies, of flips or of variances (design §3.9).

An accuracy ε_i asks that an attribute be as good as under randomized response at ε_i. Flipped as rarely: then whole records are
kept, and the design is certified. Or estimated with as little variance, by whatever people send: then each person answers one
question drawn at random (:class:`optrr.SampledTables`), which costs less and leaves no records. Randomized response has

    n Σ_c Var π̂_c = (1 − 1/r_i)/λ_i² − Σ_c (π_c − 1/r_i)²

in a population of shares π, and questions of the same first term have at most as much: they are asked of fewer people each, so
that the second term, which is what sampling does not add in a population that is not even, is multiplied by 1 or more. (Of
questions with weights w_a and n_a answers by Σ w_a²/n_a ≥ 1/n.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from optrr.core.design import Design, Limits, Preserve, epsilon_vector
from optrr.core.design import design as design_of_flips
from optrr.core.display import brief
from optrr.core.domain import NONE, Domain, PublicColumns
from optrr.core.errors import InvalidInput
from optrr_solvers import SolveFailed, SolveOptions
from optrr_solvers.allocation.any_mechanism import total_bound
from optrr_solvers.allocation.questions import MAX_CELLS
from optrr_solvers.allocation.variances import required_energies, sufficient_questions
from optrr_solvers.problem import EPSILON_RANGE

if TYPE_CHECKING:
    from optrr.allocation.sampled_tables import SampledTables

# Questions take the place of a design where they save this share of its total.
_SAVED = 1e-6
NO_QUESTIONS = (
    "no mixture of questions that was found estimates every attribute as well at a smaller total epsilon, so this is the "
    "design that flips as rarely"
)


@overload
def design(
    domain: Domain | Mapping[str, int | Iterable[Any]],
    epsilons: float | ArrayLike | Mapping[str, float],
    *,
    accuracy: Literal["flips"] = "flips",
    total: float | None = None,
    method: str = "auto",
    preserve: Preserve = "marginals",
    kappa: float = 1.0,
    conditional_cap: Limits = None,
    options: SolveOptions = SolveOptions(),
    public: PublicColumns | Mapping[str, Any] = NONE,
) -> Design: ...


@overload
def design(
    domain: Domain | Mapping[str, int | Iterable[Any]],
    epsilons: float | ArrayLike | Mapping[str, float],
    *,
    accuracy: Literal["variance"],
    options: SolveOptions = SolveOptions(),
) -> SampledTables | Design: ...


def design(  # noqa: PLR0913 (public: each argument is one choice of the user)
    domain: Domain | Mapping[str, int | Iterable[Any]],
    epsilons: float | ArrayLike | Mapping[str, float],
    *,
    accuracy: Literal["flips", "variance"] = "flips",
    total: float | None = None,
    method: str = "auto",
    preserve: Preserve = "marginals",
    kappa: float = 1.0,
    conditional_cap: Limits = None,
    options: SolveOptions = SolveOptions(),
    public: PublicColumns | Mapping[str, Any] = NONE,
) -> Design | SampledTables:
    """Way of asking with the smallest total ε that is as accurate on attribute i as randomized response at ε_i (POR §IV).

    Parameters
    ----------
    domain
        a Domain, or a mapping of names to categories or sizes.
    epsilons
        ε_i in nats, 1e-6..50: one number for all, a sequence in the domain's order, or a mapping by name.
    accuracy
        "flips": each attribute is flipped as rarely. "variance": its shares are estimated with at most the same variance,
        summed over categories, in every population, where as many people answer each question as its share says. No
        parameter below but ``options`` goes with the second.
    total
        E in nats: the ε_i are then proportions, and the design is the most accurate one in these proportions whose total is
        at most E (POR's fixed ratio); within 1e-6 of it, relative, unless an ε_i is at 50, or caps and kappa allow no more.
    method
        auto, closed-form, lp, classes, reduced, ball, por, inductive or kronecker: the names in
        :data:`optrr_solvers.METHODS`. The last three are baselines, of which por and inductive may replace epsilons.
    preserve, kappa, conditional_cap
        see :class:`optrr.core.design.solving.Constraints`.
    options
        tolerance of the gap, time limit, progress: a :class:`optrr_solvers.SolveOptions`.
    public
        columns that stand beside the attributes and are not randomized, by what they are for, such as
        ``{"weight": "w", "group": ["region"]}``: perturbing passes them on, every label names them as not protected, and
        :func:`optrr.analysis.estimate_weighted` takes them into account.

    Returns
    -------
    Design
        whose ``epsilon`` is never below the mechanism's true ε and whose ``lower_bound`` no law of change sets can go below.
        Of variances, too, where no questions cost less: a warning of the design says so.
    SampledTables
        of variances: the questions, of which everybody is asked one. Their total is the smallest that a search found, not
        proved to be; what no mechanism can be below is :func:`optrr_solvers.allocation.any_mechanism.total_bound`.

    Raises
    ------
    InvalidInput, InvalidProblem, MethodTooLarge, Infeasible
        one line each: what is wrong, where, and the remedy. All are ValueErrors; all but the first are from
        :mod:`optrr_solvers`.
    SolveFailed
        where a solver's answer did not survive its check.
    """
    if accuracy not in ("flips", "variance"):
        raise InvalidInput(f"accuracy {brief(accuracy)}; give 'flips' or 'variance'")
    wishes = {
        "total": total,
        "method": method,
        "preserve": preserve,
        "kappa": kappa,
        "conditional_cap": conditional_cap,
        "public": public,
    }
    if accuracy == "flips":
        return design_of_flips(domain, epsilons, options=options, **wishes)  # type: ignore[arg-type]  # as they came
    usual = {"method": "auto", "preserve": "marginals", "kappa": 1.0, "public": NONE}
    given = [name for name, value in wishes.items() if value is not usual.get(name) and value != usual.get(name)]
    if given:
        raise InvalidInput(f"accuracy 'variance' takes no {given[0]}; leave it out, or ask for 'flips'")
    declared = Domain.of(domain)
    return variance_design(design_of_flips(declared, epsilons, options=options), options)[0]


def variance_design(
    flips: Design, options: SolveOptions = SolveOptions()
) -> tuple[SampledTables | Design, float | None]:
    """Questions that estimate each attribute as well as ``flips`` was asked to, or that design where none cost less.

    The second is a total in nats below which no mixture of the questions that were looked at does; None without questions.
    """
    from optrr.allocation.sampled_tables import SampledTables  # noqa: PLC0415 (most designs ask no questions)

    domain, show = flips.domain, options.progress
    least = 0.0 if show is None else total_bound(domain.sizes, flips.requested_epsilons)
    watched = None if show is None else lambda total: show(0.0, total, least)
    most = min(flips.epsilon * (1 - _SAVED), EPSILON_RANGE[1])
    # of an attribute with more categories nobody can name a subset
    asked = bool((domain.sizes <= MAX_CELLS).all())
    mixed = None
    with suppress(SolveFailed):
        mixed = sufficient_questions(domain.sizes, flips.requested_epsilons, most, watched) if asked else None
    # what people are asked cannot cost less than the smallest ε there is
    if mixed is None or max(mixed.total, EPSILON_RANGE[0]) > most:
        solution = replace(flips.solution, notes=(*flips.solution.notes, NO_QUESTIONS))
        return replace(flips, solution=solution), None
    names = tuple(tuple(domain.names[i] for i in q.attributes) for q in mixed.questions)
    total, reports = max(mixed.total, EPSILON_RANGE[0]), tuple(q.report for q in mixed.questions)
    return SampledTables(domain, names, mixed.shares, total, reports), mixed.least


def accuracies(made: SampledTables | Design, epsilons: float | ArrayLike | Mapping[str, float]) -> list[dict[str, Any]]:
    """One row per attribute: its n × squared error, that of randomized response at ε_i, and the ratio of standard errors.

    Errors are n E‖π̂ − π‖², of an even population; in any other, both are smaller by the same or the first by more.
    """
    sizes, asked = made.domain.sizes, epsilon_vector(made.domain, epsilons)
    required = (sizes - 1.0) ** 2 / sizes / required_energies(sizes, asked)
    errors = np.asarray([made.table_error((name,)) for name in made.domain.names])
    columns = (made.domain.names, sizes, asked, errors, required, np.sqrt(errors / required))
    heads = ("name", "size", "requested_epsilon", "error", "randomized_response_error", "standard_error_ratio")
    return [dict(zip(heads, row, strict=True)) for row in zip(*(np.asarray(c).tolist() for c in columns), strict=True)]
