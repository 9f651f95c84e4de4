"""From what is asked for to a design: one solve, or a search for the accuracies that spend a given total (POR §IV)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from optrr.designs.design import Design
from optrr.designs.wishes import Limits, Preserve, Wishes
from optrr.domain.domain import Domain
from optrr.domain.public import NONE, PublicColumns
from optrr.errors import InvalidInput
from optrr.show.text import brief
from optrr_solvers import SolveOptions, solve
from optrr_solvers.arrays import FloatArray, real
from optrr_solvers.calibrate import calibrate, scale_range
from optrr_solvers.por import MOST_BY_PROGRAM
from optrr_solvers.problem import EPSILON_RANGE


def design(  # noqa: PLR0913 (the product's front door: each argument is one question a user answers)
    domain: Domain | Mapping[str, int | Iterable[Any]],
    epsilons: float | ArrayLike | Mapping[str, float],
    *,
    total: float | None = None,
    method: str = "auto",
    preserve: Preserve = "marginals",
    kappa: float = 1.0,
    conditional_cap: Limits = None,
    options: SolveOptions = SolveOptions(),
    public: PublicColumns | Mapping[str, Any] = NONE,
) -> Design:
    """Mechanism with the smallest total ε whose attribute i is as accurate as randomized response at ε_i (POR §IV).

    Parameters
    ----------
    domain
        a Domain, or a mapping of names to categories or sizes.
    epsilons
        ε_i in nats, 1e-6..50: one number for all, a sequence in the domain's order, or a mapping by name.
    total
        E in nats: the ε_i are then proportions, and the design is the most accurate one in these proportions whose total is
        at most E (POR's fixed ratio); within 1e-6 of it, relative, unless every ε_i is at 50 before.
    method
        auto, closed-form, lp, classes, reduced, ball, por, inductive or kronecker: the names in
        :data:`optrr_solvers.METHODS`. The last three are baselines, of which por and inductive may replace epsilons.
    preserve, kappa, conditional_cap
        see :class:`optrr.designs.wishes.Wishes`.
    options
        tolerance of the gap, time limit, progress: a :class:`optrr_solvers.SolveOptions`.
    public
        columns that stand beside the attributes and are not randomized, by what they are for, such as
        ``{"weight": "w", "group": ["region"]}``: perturbing passes them on, every label names them as not protected, and
        :func:`optrr.tables.estimate_weighted` takes them into account.

    Returns
    -------
    Design
        whose ``epsilon`` is never below the mechanism's true ε and whose ``lower_bound`` no mechanism can go below.

    Raises
    ------
    InvalidInput, InvalidProblem, MethodTooLarge, Infeasible
        one line each: what is wrong, where, and the remedy. All are ValueErrors; all but the first are from
        :mod:`optrr_solvers`.
    SolveFailed
        where a solver's answer did not survive its check.
    """
    declared = domain if isinstance(domain, Domain) else Domain.of(domain)
    beside = (public if isinstance(public, PublicColumns) else PublicColumns.of(public)).apart_from(declared)
    wishes = Wishes(preserve, kappa, conditional_cap)
    asked = epsilon_vector(declared, epsilons)
    if total is None:
        return Design(declared, solve(wishes.problem(declared, asked), method, options), public=beside)
    bad = np.flatnonzero(~(np.isfinite(asked) & (asked > 0)))
    if bad.size:
        i = int(bad[0])
        raise InvalidInput(f"attribute {declared.names[i]!r} has proportion {asked[i]}; give a positive number")
    if not (math.isfinite(real(total)) and total > 0):
        raise InvalidInput(f"total epsilon {brief(total)}; give a positive number of nats")
    scales = scale_range(asked)
    if scales[0] > scales[1]:
        low, high = EPSILON_RANGE
        raise InvalidInput(
            f"the proportions reach from {asked.min():g} to {asked.max():g}; their ratio can be at most {high / low:g}"
        )
    calibrated = calibrate(
        lambda s: solve(wishes.problem(declared, s * asked), method, options),
        float(total),
        scales,
        # where every attribute stands alone the ε_i add up to the total
        guess=total / float(asked.sum()),
        # POR's heuristic may replace what it is asked for, so its total need not grow with the scale
        scan=method == "inductive" or (method == "por" and declared.m > MOST_BY_PROGRAM),
    )
    return Design(declared, calibrated.solution, public=beside)


def epsilon_vector(domain: Domain, epsilons: float | ArrayLike | Mapping[str, float]) -> FloatArray:
    """ε_i in the domain's order, shape (m,). Raises InvalidInput where a name is missing or unknown, or ε is no number."""
    try:
        if isinstance(epsilons, Mapping):
            for name in epsilons:
                domain.index(name)
            missing = [n for n in domain.names if n not in epsilons]
            if missing:
                raise InvalidInput(f"attribute {missing[0]!r} has no epsilon; give it one in nats")
            return np.asarray([epsilons[n] for n in domain.names], dtype=np.float64)
        values = np.asarray(epsilons, dtype=np.float64)
        if values.ndim and values.shape != (domain.m,):
            raise InvalidInput(f"{values.size} epsilons for {domain.m} attributes; give one number or one for each")
        return np.broadcast_to(values, (domain.m,)).astype(np.float64)
    except InvalidInput:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"epsilons are numbers of nats, one for all or one for each attribute; got {brief(epsilons)}"
        ) from error
