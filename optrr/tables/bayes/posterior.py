"""The posterior of the true table under a Dirichlet prior: every cell's credible interval, and that of any other number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from optrr.domain.domain import CellsResult, Domain
from optrr.errors import InvalidInput, MethodTooLarge, SolveFailed
from optrr.mechanisms.kernel import Kernel, SingularMarginal
from optrr.mechanisms.mechanism import Randomizer
from optrr.records.counts import Counts
from optrr.show.text import amount, records_enough
from optrr.tables.bayes.sampling import FEWEST, DrawSummary, PosteriorLaw, moments, prior_draws, sweeps
from optrr.tables.estimation.impossible import kernel_of
from optrr.tables.estimation.result import check_confidence
from optrr_solvers.arrays import FloatArray

PROMISE = (
    "A credible interval holds the share with that probability for somebody who thought, before the reports came, what the "
    "prior says. For one given true table it may hold less often, most of all where cells are empty or the prior weighs much: "
    "only the intervals of an estimate without a prior promise to hold for every table."
)


@dataclass(frozen=True)
class Quantity:
    """A number of the true table: posterior mean and standard deviation, and the ends of its credible interval.

    ``monte_carlo_error`` is the standard error of the less certain end, as far as it comes from the number of draws.
    """

    mean: float
    standard_deviation: float
    lower: float
    upper: float
    monte_carlo_error: float
    effective_draws: float


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(CellsResult):
    """Posterior of the true proportions of a population, given randomized counts and a Dirichlet prior.

    Parameters
    ----------
    domain
        the attribute set; tables have the shape of its sizes.
    n
        number of records counted.
    prior
        Dirichlet parameters of the cells, of that shape: as many true records as the prior counts for.
    draws
        tables drawn from the posterior, (L, C, *sizes): L sweeps of C chains, after as many that were left out.
    confidence
        posterior probability of each interval, which leaves as much below as above.
    seed
        with which the same draws come again; None where a generator was given.
    warnings
        what a reader must know, one sentence each.
    """

    domain: Domain
    n: int
    prior: FloatArray
    draws: FloatArray
    confidence: float
    seed: int | None = None
    warnings: tuple[str, ...] = ()

    in_summary = ("n", "confidence", "prior", "seed", "warnings")

    @cached_property
    def moments(self) -> DrawSummary:
        """Of every cell, (R,) each."""
        return moments(self.draws.reshape(*self.draws.shape[:2], -1), self.confidence)

    @property
    def proportions(self) -> FloatArray:
        """Posterior means, which sum to 1."""
        return self.moments.mean.reshape(self.prior.shape)

    @property
    def standard_deviations(self) -> FloatArray:
        """Of the posterior."""
        return self.moments.deviation.reshape(self.prior.shape)

    @property
    def lower(self) -> FloatArray:
        """Lower ends of the cells' intervals."""
        return self.moments.lower.reshape(self.prior.shape)

    @property
    def upper(self) -> FloatArray:
        """Upper ends."""
        return self.moments.upper.reshape(self.prior.shape)

    @property
    def effective_draws(self) -> float:
        """As good as so many independent draws, for the cell and the number of it that are known least well."""
        return float(self.moments.effective_draws.min())

    def quantity(self, function: Callable[[FloatArray], FloatArray]) -> Quantity:
        """Any number of the true table, such as an odds ratio: ``function`` takes tables (B, *sizes) and gives (B,) numbers.

        Raises
        ------
        InvalidInput
            where it gives something else, or numbers that are not finite. SolveFailed where the draws say too little of it.
        """
        flat = self.draws.reshape(-1, *self.prior.shape)
        values = np.asarray(function(flat), dtype=np.float64)
        if values.shape != flat.shape[:1] or not np.isfinite(values).all():
            raise InvalidInput(
                f"the function of the table gave an array of shape {values.shape}, or numbers that are not finite, for "
                f"{len(flat)} tables; give one finite number for each table"
            )
        of = moments(values.reshape(*self.draws.shape[:2], 1), self.confidence)
        if not of.settled:
            raise SolveFailed(
                f"the draws are as good as {of.effective_draws[0]:.0f} independent ones for this number, fewer than {FEWEST}; "
                "ask for one that hangs less on rare tables, such as a logarithm"
            )
        return Quantity(*(float(getattr(of, name)[0]) for name in vars(of)))

    def headline(self) -> str:
        """Which table, of how many records, under which prior."""
        return f"{' × '.join(self.domain.names)} of {self.n} records, posterior under a {self.prior_text}"

    @property
    def prior_text(self) -> str:
        """The prior in words."""
        least, most = float(self.prior.min()), float(self.prior.max())
        each = f"{least:g} in each cell" if least == most else f"{least:g} to {most:g} a cell"
        return f"Dirichlet prior with {each} of {self.prior.size}, worth {amount(f'{self.prior.sum():g}', 'record')} in all"

    @property
    def drawn_text(self) -> str:
        """How many draws there are, and what they leave uncertain, in words."""
        seed = "" if self.seed is None else f", seed {self.seed}"
        return (
            f"{prod(self.draws.shape[:2])} draws of {self.draws.shape[1]} chains, as good as {self.effective_draws:.0f} "
            f"independent ones or more for every mean and limit; Monte-Carlo error of a limit at most "
            f"{self.moments.monte_carlo_error.max():.2g}{seed}"
        )

    def numbers(self) -> dict[str, FloatArray]:
        """The posterior mean as ``estimate``, its deviation, interval and errors."""
        names = ("estimate", "standard_deviation", "lower", "upper", "monte_carlo_error", "effective_draws")
        kept = vars(self.moments).values()
        return {name: each.reshape(self.prior.shape) for name, each in zip(names, kept, strict=True)}

    def _axis(self) -> tuple[str, None]:
        return f"proportion, {100 * self.confidence:g}% credible", None

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object; tables are nested lists in the order of ``attributes``."""
        return super().summary() | {
            "method": "posterior",
            "interval": "credible",
            "promise": PROMISE,
            "draws": prod(self.draws.shape[:2]),
            "chains": self.draws.shape[1],
            "least_effective_draws": self.effective_draws,
        }


# A table of 64 cells takes 20 to 60 s of processor time, one of 16 cells 3 s.
MOST_CELLS = 64
# Below, splits of two cells come too near to 0 and 1 for double precision; above, the prior is the answer.
LEAST_PRIOR, MOST_PRIOR = 0.2, 1e6
JEFFREYS = 0.5
# Chains that move side by side cost little more than one. The first check comes after so many sweeps; where the draws have not
# settled, their number doubles, and at the most there is an error instead of an answer.
_CHAINS, _FIRST, _MOST = 64, 512, 4096


def posterior(
    counts: Counts,
    mechanism: Randomizer,
    *,
    prior: float | ArrayLike = JEFFREYS,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> Posterior:
    """Credible intervals of the population's proportions, for samples too small for anything else to say much.

    Parameters
    ----------
    counts
        of randomized records over any attributes of the mechanism, up to 64 cells.
    mechanism
        that randomized them: a Mechanism, or anything with a ``domain`` and a ``kernel(names)``.
    prior
        Dirichlet parameter, the same for every cell or a table of them, from 0.2 to 10^6. 1/2 is Jeffreys' for records that are
        not randomized, 1 holds all tables for equally likely.
    confidence
        posterior probability of each cell's interval, above 0 and below 1; as much lies below it as above.
    random_state
        a seed or a generator; the result names the seed that was drawn where none is given.

    Raises
    ------
    InvalidInput
        for counts of another domain, priors out of range, or no records. MethodTooLarge for too many cells. SolveFailed where
        the draws do not settle: no limit is then shown.

    Notes
    -----
    The draws are those of a Markov chain whose law is exactly the posterior (:mod:`optrr.tables.bayes.sampling`); what their
    number leaves uncertain is measured (:mod:`optrr.tables.bayes.sampling`). Where the mechanism hides an effect, the posterior
    of it is the prior's, and a warning says so.
    """
    check_confidence(confidence)
    kernel = kernel_of(counts, mechanism)
    if counts.n < 1:
        raise InvalidInput("there are no records, so the posterior is the prior; count at least one")
    if kernel.cells > MOST_CELLS:
        raise MethodTooLarge(
            f"the table has {kernel.cells} cells, and a posterior is drawn for at most {MOST_CELLS}; ask for fewer attributes, "
            "or estimate without a prior"
        )
    alpha = _checked_prior(prior, kernel.sizes)
    seed = None
    if not isinstance(random_state, np.random.Generator):
        seed = random_state = int(np.random.default_rng().integers(2**32)) if random_state is None else random_state
    rng = np.random.default_rng(random_state)
    table = counts.table.ravel()
    seen = table > 0
    law = PosteriorLaw(kernel.matrix()[:, seen], table[seen].astype(np.float64), alpha.ravel())
    draws = _settled(law, confidence, rng)
    tables = draws.reshape(*draws.shape[:2], *kernel.sizes)
    warnings = _warnings(counts, kernel, float(alpha.sum()))
    return Posterior(counts.domain, counts.n, alpha, tables, confidence, seed, warnings)


def _settled(law: PosteriorLaw, confidence: float, rng: np.random.Generator) -> FloatArray:
    """Draws (L, C, R) that have settled, the first half of all sweeps left out."""
    draws, at, total = np.empty((0, _CHAINS, law.prior.size)), prior_draws(law, _CHAINS, rng), 0
    while total < _MOST:
        more = sweeps(law, at, max(total, _FIRST), rng)
        draws = np.concatenate([draws, more])
        total, at = len(draws), more[-1]
        kept = draws[total // 2 :]
        known = moments(kept, confidence)
        if known.settled:
            return kept
    raise SolveFailed(
        f"the draws of the posterior are as good as {known.effective_draws.min():.0f} independent ones after {total} sweeps of "
        f"{_CHAINS} chains, fewer than {FEWEST}, so no limit is shown; ask for fewer cells, or estimate without a prior"
    )


def _checked_prior(prior: float | ArrayLike, sizes: tuple[int, ...]) -> FloatArray:
    given = np.asarray(prior, dtype=np.float64)
    if given.shape not in ((), sizes):
        raise InvalidInput(f"the prior has shape {given.shape}; give one number, or a table of shape {sizes}")
    if not (np.all(given >= LEAST_PRIOR) and np.all(given <= MOST_PRIOR)):
        raise InvalidInput(
            f"prior = {float(given.min()):g}; Dirichlet parameters from {LEAST_PRIOR:g} to {MOST_PRIOR:g} are taken, such as "
            "0.5"
        )
    return np.broadcast_to(given, sizes).copy()


def _warnings(counts: Counts, kernel: Kernel, prior: float) -> tuple[str, ...]:
    """What the prior decides: everything that the mechanism hides, or most where the reports tell less than it."""
    try:
        kernel.check_invertible()
    except SingularMarginal as reason:
        return (f"what the mechanism hides is the prior's in this posterior: {reason}",)
    even = np.full(kernel.sizes, 1 / kernel.cells)
    without_noise = (1 - 1 / kernel.cells) / kernel.cells
    worth = counts.n * without_noise / float(kernel.exact_variance(kernel.expected(even), 1.0).mean())
    if worth >= prior:
        return ()
    return (
        f"the {counts.n} reports tell as much of an even table as {worth:.2g} true records, and the prior counts for "
        f"{prior:g}, so the posterior is more the prior's than theirs: {records_enough(counts.n * prior / worth)}; else merge "
        "categories, or lower the prior",
    )
