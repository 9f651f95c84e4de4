"""From requirements to a design: one solve, or a search for the accuracies that spend a given total (POR §IV)."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from optrr.core.design.designs import Design
from optrr.core.design.specification import Declared, Specification
from optrr.core.display.text import brief
from optrr.core.domain.domain import Domain
from optrr.core.domain.public import NONE, PublicColumns
from optrr.core.errors import InvalidInput, MethodTooLarge
from optrr_solvers import Problem, SolveOptions, solve
from optrr_solvers.arrays import FloatArray, real
from optrr_solvers.baselines import MOST_BY_PROGRAM
from optrr_solvers.calibrate import TOLERANCE, calibrate, scale_range
from optrr_solvers.laws import Law
from optrr_solvers.problem import EPSILON_RANGE
from optrr_solvers.solution import checked

# A million pairs take a minute to set up and half a gigabyte.
MAX_PAIRS_KEPT = 1 << 20

Preserve = Literal["marginals", "pairs"] | Sequence[tuple[str, str]]
# One number of nats for every attribute, a mapping by name for some, or no limit.
Limits = float | Mapping[str, float] | None


@dataclass(frozen=True)
class Constraints:
    """Requirements in addition to accuracies or a total.

    Parameters
    ----------
    preserve
        "marginals": only the one-way accuracies. "pairs": also the eigenvalue of every pair at least ``kappa`` times
        that of independent randomized response at the design's requested ε_i (the achieved ones may be larger); a list
        of name pairs: only these. At kappa = 1 the total still never exceeds that of independent randomized response,
        nor does the expected summed squared error of any kept pair table; single cells may be worse, effects among
        three attributes may vanish or change sign, and the conditional ε is larger.
    kappa
        Smallest ratio of a pair's eigenvalue to that of independent randomized response, for designs; above 1 may be
        infeasible.
    conditional_cap
        largest conditional ε in nats, of all or by name; up to about 10 attributes, never below the attribute's ε.
    min_epsilon
        Smallest ε_i of allocations in nats, of all or by name; the attribute must be at least so accurate.
    max_epsilon
        Largest ε_i of allocations in nats. With the desired ε_i, and weights of the attributes by the importance of
        their accuracy, this is POR's policy of lowering budgets until they fit the total (its repository's README).

    Examples
    --------
    >>> import optrr
    >>> constraints = optrr.Constraints(preserve="pairs", conditional_cap=2.0)
    >>> design = optrr.design({"sex": 2, "income": 3}, 1.0, constraints=constraints)
    >>> bool(design.conditional_epsilons.max() <= 2.0)
    True
    """

    preserve: Preserve = "marginals"
    kappa: float = 1.0
    conditional_cap: Limits = None
    min_epsilon: Limits = None
    max_epsilon: Limits = None

    def problem(self, domain: Domain, epsilons: FloatArray) -> Problem:
        """Build the design problem over ``domain``.

        Raises InvalidInput for an unknown name or an invalid number of nats.
        """
        caps = self.caps(domain)
        return Problem(
            domain.sizes,
            epsilons,
            pairs=self.pairs(domain),
            kappa=self.kappa,
            caps=caps if np.isfinite(caps).any() else None,
            names=domain.names,
        )

    def pairs(self, domain: Domain) -> tuple[tuple[int, int], ...]:
        """List the pairs to preserve by index."""
        if self.preserve == "marginals":
            return ()
        if self.preserve == "pairs":
            count = domain.m * (domain.m - 1) // 2
            if count > MAX_PAIRS_KEPT:
                raise MethodTooLarge(
                    f"``preserve``: {domain.m} attributes have {count} pairs; at most {MAX_PAIRS_KEPT} can be preserved: name "
                    "those that matter, preserve=[(name, name), …], or split the record"
                )
            return tuple(combinations(range(domain.m), 2))
        if isinstance(self.preserve, str):
            raise InvalidInput(
                f"``preserve``: {self.preserve!r}; give 'marginals', 'pairs' or a list of pairs of names"
            )
        return tuple((domain.index(a), domain.index(b)) for a, b in self.preserve)

    def caps(self, domain: Domain) -> FloatArray:
        """Return the largest conditional ε of each attribute, (m,); inf for none."""
        return limits(domain, self.conditional_cap, math.inf, "conditional_cap")

    def least(self, domain: Domain) -> FloatArray:
        """Return the smallest ε_i, shape (m,); 0 for none."""
        return limits(domain, self.min_epsilon, 0.0, "min_epsilon")

    def most(self, domain: Domain) -> FloatArray:
        """Return the largest ε_i, shape (m,); inf for none."""
        return limits(domain, self.max_epsilon, math.inf, "max_epsilon")


def limits(domain: Domain, given: Limits, default: float, what: str) -> FloatArray:
    """Return one number for each attribute, shape (m,).

    ``given``, or ``default`` for those not named. Raises InvalidInput.
    """
    out = np.full(domain.m, default)
    if given is not None:
        for name, value in given.items() if isinstance(given, Mapping) else dict.fromkeys(domain.names, given).items():
            out[domain.index(name)] = number = real(value)
            if math.isnan(number):
                raise InvalidInput(f"``{what}``: {brief(value)} for attribute {name!r}; give a number of nats")
    return out


def design(  # noqa: PLR0913 (public: each argument is one choice of the user)
    domain: Declared,
    epsilons: float | ArrayLike | Mapping[str, float] | None = None,
    *,
    total: float | None = None,
    method: str = "auto",
    constraints: Constraints = Constraints(),
    options: SolveOptions = SolveOptions(),
    public: PublicColumns | Mapping[str, Any] = NONE,
) -> Design:
    """Find the mechanism with the smallest total ε (POR §IV).

    It flips attribute i as rarely as randomized response at ε_i.

    Parameters
    ----------
    domain
        a Domain, a mapping of names to categories or sizes, or a specification or its file.
    epsilons
        ε_i in nats, 1e-6..50: one number for all, a sequence in the domain's order, or a mapping by name. Left out, those of
        the specification.
    total
        E in nats: the ε_i are then proportions, and the design is the most accurate one in these proportions whose total is
        at most E (POR's fixed ratio); within 1e-6 of it, relative, unless an ε_i is at 50, or caps and kappa allow no more.
    method
        auto, closed-form, lp, classes, reduced, ball, por, inductive or kronecker: the names in
        :data:`optrr_solvers.METHODS`. The last three are baselines, of which por and inductive may replace epsilons.
    constraints
        pairs to preserve and largest conditional ε.
    options
        tolerance of the gap, time limit, progress.
    public
        non-randomized columns beside the attributes, by role, such as ``{"weight": "w", "group": ["region"]}``, in
        addition to those of the specification. :meth:`Design.randomize` passes them on, every privacy statement names
        them as not protected, and analyses take them into account.

    Returns
    -------
    Design
        whose ``epsilon`` is never below the mechanism's true ε and whose ``lower_bound`` no law of change sets can go below.

    Raises
    ------
    InvalidInput, InvalidProblem, MethodTooLarge, Infeasible
        one line each, with the problem, its place and the remedy. All are ValueErrors.
    SolveFailed
        If a solver's result fails its check.

    Examples
    --------
    >>> import optrr
    >>> design = optrr.design({"sex": ["F", "M"], "age": 5, "income": 3}, {"sex": 0.5, "age": 1, "income": 1})
    >>> round(design.epsilon, 3), round(design.kronecker_epsilon, 3)
    (1.961, 2.5)
    """
    given, asked = declared_epsilons(domain, epsilons, optional=total is not None)
    declared = given.domain
    beside = given.public.merged(PublicColumns.of(public)).apart_from(declared)
    if constraints.min_epsilon is not None or constraints.max_epsilon is not None:
        raise InvalidInput("``constraints``: smallest and largest epsilons are for optrr.allocate; leave them out")
    if total is None:
        return Design(declared, solve(constraints.problem(declared, asked), method, options), public=beside)
    bad = np.flatnonzero(~(np.isfinite(asked) & (asked > 0)))
    if bad.size:
        i = int(bad[0])
        raise InvalidInput(f"attribute {declared.names[i]!r} has proportion {asked[i]}; give a positive number")
    if not (math.isfinite(real(total)) and total > 0):
        raise InvalidInput(f"``total``: {brief(total)}; give a positive number of nats")
    scales = scale_range(asked)
    if scales[0] > scales[1]:
        low, high = EPSILON_RANGE
        raise InvalidInput(
            f"the proportions range from {asked.min():g} to {asked.max():g}; give proportions with a ratio of at most "
            f"{high / low:g}"
        )
    # no ε_i is above its cap
    most = float(np.min(constraints.caps(declared) / asked)) * (1 - 2.0**-50)
    calibrated = calibrate(
        lambda s: solve(constraints.problem(declared, s * asked), method, options),
        float(total),
        (scales[0], min(scales[1], max(most, scales[0]))),
        # with independent randomized response the ε_i add up to the total
        guess=total / float(asked.sum()),
        # POR's heuristic may replace the requested ε_i, so its total need not grow with the scale
        scan=method == "inductive" or (method == "por" and declared.m > MOST_BY_PROGRAM),
    )
    solution = calibrated.solution
    if constraints != Constraints() and solution.upper < total * (1 - 2 * TOLERANCE):
        said = (
            f"the design uses {solution.upper:.6g} of the total epsilon of {total:g}: in these proportions caps or "
            "preserved pairs allow no more; other proportions may use the rest"
        )
        solution = replace(solution, notes=(*solution.notes, said))
    return Design(declared, solution, public=beside)


def declared_epsilons(
    domain: Declared, epsilons: float | ArrayLike | Mapping[str, float] | None, *, optional: bool = False
) -> tuple[Specification, FloatArray]:
    """Return the specification and ε_i, shape (m,).

    Given ε_i, or its own; all equal if none is required.
    """
    given = Specification.of(domain)
    if epsilons is not None:
        return given, epsilon_vector(given.domain, epsilons)
    return given, given.proportions() if optional else given.required_epsilons()


def epsilon_vector(domain: Domain, epsilons: float | ArrayLike | Mapping[str, float]) -> FloatArray:
    """Return ε_i in the domain's order, shape (m,).

    Raises InvalidInput if a name is missing or unknown, or an ε is not a number.
    """
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


def baseline_design(  # noqa: PLR0913 (what is solved for, as in a Solution)
    domain: Domain,
    law: Law,
    method: str,
    requested: FloatArray | None = None,
    *,
    notes: tuple[str, ...] = (),
    started: float | None = None,
) -> Design:
    """Build the design of a noise distribution with status "baseline".

    It claims no optimality; the lower bound holds anyway.

    ``requested`` are the ε_i in nats that the law was made for, shape (m,); left out, the accuracies that it reaches.
    ``started`` is by :func:`time.perf_counter`, for the seconds it took.

    Raises InvalidProblem if an accuracy is below 1e-6 nats: such an attribute has no information and should be left
    out.
    """
    epsilons = np.minimum(law.attribute_epsilons(), EPSILON_RANGE[1]) if requested is None else requested
    problem = Problem(domain.sizes, epsilons, names=domain.names)
    began = time.perf_counter() if started is None else started
    return Design(domain, checked(problem, method, law, None, started=began, tolerance=None, notes=notes))
