"""A posterior as a result: every cell's credible interval, and that of any other number of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from optrr.domain.cells import CellsResult
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput, SolveFailed
from optrr.show.printable import amount
from optrr.tables.bayes.settling import FEWEST, Moments, moments
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
    def moments(self) -> Moments:
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
