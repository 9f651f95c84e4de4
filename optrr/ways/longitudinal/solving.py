"""From what is asked for to a longitudinal design: one report's accuracies, and what all reports may cost for ever."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from optrr.designs.design import Design
from optrr.designs.solving import Preserve, Wishes, design, epsilon_vector
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Mechanism
from optrr.show.text import epsilon_text
from optrr.ways.longitudinal.design import LongitudinalDesign
from optrr.ways.longitudinal.spending import TwoStage, eigenvalues_of, epsilons_of
from optrr.ways.longitudinal.stages import WORD, WholeOrUniform, sharpened
from optrr_solvers import SolveOptions, solve
from optrr_solvers.arrays import FloatArray
from optrr_solvers.calibrate import calibrate
from optrr_solvers.laws import ProductLaw
from optrr_solvers.problem import EPSILON_RANGE

Second = Literal["whole", "kronecker"]
SECONDS: tuple[str, ...] = get_args(Second)

# Halvings of the share that a report keeps: its total is then met to 2^-40 of it.
_HALVINGS = 40
# Shares are raised by what eigenvalues lose in doubles, so that no accuracy is missed by rounding.
_RAISED = 1 + 2.0**-48
# The label of a law exceeds the total that it was made for by a few last places at most.
_BELOW = 1 - 2.0**-49
# A share closer to 1 than this has an ε that doubles no longer resolve.
_MOST_SHARE = 1 - 2.0**-40


@dataclass(frozen=True)
class Stages:
    """How both stages are made.

    Parameters
    ----------
    second
        "whole": a coin sends the permanent answer whole, or a uniformly random record; one report is then the certified
        optimum for its accuracies. "kronecker": every attribute is randomized again on its own, after a permanent answer that
        is the certified optimum for its own accuracies; one report costs more, and an answer is never sent untouched by design.
    method, preserve, kappa
        of the stage that is solved for: see :func:`optrr.design`.
    options
        of the solver.
    """

    second: Second = "whole"
    method: str = "auto"
    preserve: Preserve = "marginals"
    kappa: float = 1.0
    options: SolveOptions = field(default_factory=SolveOptions)

    def __post_init__(self) -> None:
        if self.second not in SECONDS:
            raise InvalidInput(f"second = {self.second!r}; give one of {', '.join(SECONDS)}")

    def optimum(self, domain: Domain, epsilons: FloatArray, total: float | None = None) -> Design:
        """The certified optimum at these accuracies, or in their proportions at a total."""
        return design(
            domain,
            epsilons,
            total=total,
            method=self.method,
            preserve=self.preserve,
            kappa=self.kappa,
            options=self.options,
        )


def longitudinal(
    domain: Domain | Mapping[str, int | Iterable[Any]],
    epsilons: float | ArrayLike | Mapping[str, float],
    forever: float | Mapping[str, float],
    *,
    one_report: float | None = None,
    stages: Stages = Stages(),
) -> LongitudinalDesign:
    """A permanent law and an instantaneous one for people who report again and again (design §9).

    Parameters
    ----------
    domain
        a Domain, or a mapping of names to categories or sizes.
    epsilons
        ε_i in nats: one report is as accurate on attribute i as randomized response at ε_i; with ``one_report``, proportions.
    forever
        ε_∞ in nats: what everything that a person ever reports may cost in all, while the record stays as it is. A mapping by
        name: how accurate the permanent answer is on each attribute, which only the second stage "kronecker" can be asked for.
    one_report
        ε_1 in nats: what one report may cost in all. Accuracies are then the best in the proportions ``epsilons``.
    stages
        the kind of the second stage, and how the optimum is solved for.

    Raises
    ------
    InvalidInput, Infeasible
        where one report alone costs more than ``forever``; and what :func:`optrr.design` raises.
    """
    declared = domain if isinstance(domain, Domain) else Domain.of(domain)
    asked = epsilon_vector(declared, epsilons)
    if isinstance(forever, Mapping):
        if stages.second != "kronecker" or one_report is not None:
            raise InvalidInput(
                "accuracies for ever need the second stage 'kronecker' and no total for one report; give forever as one number"
            )
        return _kronecker(stages.optimum(declared, epsilon_vector(declared, forever)), asked)
    for name, total in (("forever", forever), ("one_report", one_report)):
        if total is not None and not (isinstance(total, int | float) and 0 < total < math.inf):
            raise InvalidInput(f"{name} = {total!r}; give a positive number of nats")
    if one_report is not None and one_report >= forever:
        raise InvalidInput(
            f"one report may cost {one_report:g} nats and all of them {forever:g}; give one report less, or use a design "
            "without rounds, whose answer is sent once"
        )
    if stages.second == "whole":
        return with_coin(stages.optimum(declared, asked, one_report), float(forever))
    if one_report is not None:
        return _kronecker_at_totals(stages.optimum(declared, asked, float(forever)), one_report)
    return _kronecker(_at_accuracies(declared, asked, float(forever), stages), asked)


def with_coin(optimum: Design, forever: float) -> LongitudinalDesign:
    """Reports by a given optimum, from a permanent answer of total ``forever`` and a coin.

    Raises
    ------
    InvalidInput
        where the optimum costs as much itself.
    """
    # what is drawn is labelled some last places above the law's own total, and the label is to keep to what was asked for
    permanent = Mechanism(optimum.domain, sharpened(optimum.law, forever * _BELOW))
    shares = optimum.law.one_way_eigenvalues() / permanent.law.one_way_eigenvalues()
    threshold = math.ceil(Fraction(float(shares.max() * _RAISED)) * WORD)
    coin = WholeOrUniform(optimum.domain, min(max(threshold, 1), WORD - 1))
    return LongitudinalDesign(optimum, TwoStage(permanent, coin), optimum.requested_epsilons)


def _at_accuracies(domain: Domain, asked: FloatArray, forever: float, stages: Stages) -> Design:
    """The optimum whose λ_i are those asked for over the smallest share c that ε_∞ allows."""
    alone = stages.optimum(domain, asked)
    if alone.epsilon >= forever:
        raise InvalidInput(
            f"one report with these accuracies costs {epsilon_text(alone.epsilon)} nats, so all of them cannot cost "
            f"{forever:g}; raise forever, or ask for less accuracy"
        )
    sizes, wishes = domain.sizes, Wishes(stages.preserve, stages.kappa)
    eigenvalues = eigenvalues_of(asked, sizes)
    # at half of the largest ε, eigenvalues are still told from 1
    most = eigenvalues_of(np.full(domain.m, EPSILON_RANGE[1] / 2), sizes)

    def solved(scale: float) -> Any:
        return solve(wishes.problem(domain, epsilons_of(scale * eigenvalues, sizes)), stages.method, stages.options)

    return Design(domain, calibrate(solved, forever, (1.0, float((most / eigenvalues).min()))).solution)


def _kronecker(permanent: Design, asked: FloatArray) -> LongitudinalDesign:
    """The second stage after which every attribute is at least as accurate as asked for."""
    sizes = permanent.domain.sizes
    shares = eigenvalues_of(asked, sizes) / eigenvalues_of(permanent.attribute_epsilons, sizes)
    if shares.max() > 1:
        i = int(np.argmax(shares))
        raise InvalidInput(
            f"attribute {permanent.domain.names[i]!r} is asked for at epsilon {asked[i]:g} in one report and less for ever; "
            "ask for more for ever"
        )
    return _each(permanent, shares * _RAISED, asked)


def _each(permanent: Design, shares: FloatArray, asked: FloatArray | None) -> LongitudinalDesign:
    sizes = permanent.domain.sizes
    law = ProductLaw(sizes, epsilons_of(np.minimum(shares, _MOST_SHARE), sizes))
    both = TwoStage(permanent.mechanism, Mechanism(permanent.domain, law))
    return LongitudinalDesign(permanent, both, both.attribute_epsilons if asked is None else asked)


def _kronecker_at_totals(permanent: Design, one_report: float) -> LongitudinalDesign:
    """The largest share of every permanent λ_i with which one report stays within its total."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        share = (low + high) / 2
        fits = _each(permanent, np.full(permanent.domain.m, share), None).mechanism.epsilon <= one_report
        low, high = (share, high) if fits else (low, share)
    if not low:
        raise InvalidInput(f"no report costs as little as {one_report:g} nats; give more")
    return _each(permanent, np.full(permanent.domain.m, low), None)
