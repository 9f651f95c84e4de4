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


def design(  # noqa: PLR0913 (each argument is one question a user answers)
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
    """The mechanism of flips with the smallest total ε; parameters, result and errors as of :func:`optrr.design`."""
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
