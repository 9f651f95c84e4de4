"""What randomized records say of the true table to somebody with a Dirichlet prior: draws, credible intervals (design §4.9).

With reports' counts N, true shares π, expected reports λ = Pᵀπ and a Dirichlet prior with parameters α, the posterior is

    p(π | N) ∝ Π_u π_u^(α_u − 1) · Π_v λ_v^(N_v).

Many chains run side by side. Of two cells u and w the sum s is kept and its split drawn anew: π_u = s sin²θ, π_w = s cos²θ, and
λ is linear in sin²θ. The prior of θ is sin^(2α_u − 1)θ cos^(2α_w − 1)θ on (0, π/2), even where α is 1/2. A slice sampler that
starts from the whole interval draws from that law exactly and has nothing to tune (Neal, Ann. Stat. 31, 2003, §4). A sweep is
as many such moves as there are cells, at a cost of O(C R V) for C chains, R cells and V different reports, some ten times over.
Why the true records behind the reports are not drawn, as is usual, stands in docs/design.md, §4.9.

Whether draws have settled, and how far their means and limits are from those of endless draws, is counted: the chains are cut
in halves, and what the halves disagree by is the error of their mean: for H halves and a number with variance σ² over all draws
whose means over halves have variance b, H σ²/b draws that were independent would be as good. Chains start from tables drawn
from the prior, which lie farther apart than the posterior's, so that chains that have not met disagree and count for little.
The same is counted for the share of draws beyond each limit of an interval. (Gelman & Rubin, Stat. Sci. 7, 1992; for many short
chains Margossian et al., Bayesian Analysis, 2024.)
"""

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
from optrr.tables.estimation.estimator import check_confidence
from optrr.tables.estimation.impossible import counted_table
from optrr_solvers.arrays import FloatArray

__all__ = ["Posterior", "Quantity", "posterior"]

# Shares and expected reports below this are 0 to every number that follows; it keeps logarithms finite.
_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class PosteriorLaw:
    """``chances`` (R, V) of the reports that were seen, given each true cell; their ``tallies`` (V,); ``prior`` α (R,)."""

    chances: FloatArray
    tallies: FloatArray
    prior: FloatArray

    def log_likelihood(self, expected: FloatArray) -> FloatArray:
        """Of expected reports (C, V), in nats, (C,)."""
        return np.asarray(np.log(np.maximum(expected, _LEAST)) @ self.tallies)


def prior_draws(law: PosteriorLaw, chains: int, rng: np.random.Generator) -> FloatArray:
    """Where chains start, (C, R): tables drawn from the prior, which lie farther apart than those of the posterior."""
    return np.asarray(rng.dirichlet(law.prior, size=chains))


def sweeps(law: PosteriorLaw, start: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """The tables of all chains after each of so many sweeps, (count, C, R), from ``start`` (C, R)."""
    out = np.empty((count, *start.shape))
    shares = start.copy()
    for at in range(count):
        expected = shares @ law.chances
        for _ in range(start.shape[1]):
            expected = _moved(law, shares, expected, rng)
        shares /= shares.sum(axis=1, keepdims=True)
        out[at] = shares
    return out


def _moved(law: PosteriorLaw, shares: FloatArray, expected: FloatArray, rng: np.random.Generator) -> FloatArray:
    """One move of every chain, made in ``shares`` (C, R); returns the expected reports after it."""
    chains, cells = shares.shape
    each = np.arange(chains)
    one = rng.integers(cells, size=chains)
    other = (one + rng.integers(1, cells, size=chains)) % cells
    total = shares[each, one] + shares[each, other]
    angle = np.arctan2(np.sqrt(shares[each, one]), np.sqrt(shares[each, other]))
    direction = total[:, None] * (law.chances[one] - law.chances[other])
    without = expected - (np.sin(angle) ** 2)[:, None] * direction
    split = _Split(law, law.prior[one], law.prior[other], without, direction)
    angle = split.drawn(angle, rng)
    shares[each, one], shares[each, other] = total * np.sin(angle) ** 2, total * np.cos(angle) ** 2
    return np.asarray(without + (np.sin(angle) ** 2)[:, None] * direction)


@dataclass(frozen=True, eq=False)
class _Split:
    """The law of every chain's angle: its cells' priors (C,), and reports ``without`` + sin²θ ``direction``, both (C, V)."""

    law: PosteriorLaw
    one: FloatArray
    other: FloatArray
    without: FloatArray
    direction: FloatArray

    def log_density(self, angle: FloatArray) -> FloatArray:
        sine, cosine = np.sin(angle), np.cos(angle)
        prior = (2 * self.one - 1) * np.log(np.maximum(sine, _LEAST))
        prior += (2 * self.other - 1) * np.log(np.maximum(cosine, _LEAST))
        return np.asarray(prior + self.law.log_likelihood(self.without + (sine**2)[:, None] * self.direction))

    def drawn(self, angle: FloatArray, rng: np.random.Generator) -> FloatArray:
        """An angle of each chain's slice, from intervals that shrink towards the present one."""
        level = self.log_density(angle) - rng.exponential(size=angle.size)
        low, high = np.zeros(angle.size), np.full(angle.size, np.pi / 2)
        out = angle.copy()
        waiting = np.ones(angle.size, dtype=np.bool_)
        while waiting.any():
            tried = rng.uniform(low, high)
            inside = self.log_density(tried) >= level
            # where the interval has shrunk to nothing, the present angle is the only one left
            inside |= high - low <= np.finfo(np.float64).tiny
            out = np.where(waiting & inside, tried, out)
            waiting &= ~inside
            low = np.where(tried < angle, tried, low)
            high = np.where(tried < angle, high, tried)
        return out


# With so many draws that were independent, limits of a 95 % interval lie where 2.5 % ± 0.35 % of the posterior are beyond.
FEWEST = 2000


@dataclass(frozen=True, eq=False)
class DrawSummary:
    """Of K numbers over all draws, each (K,).

    ``monte_carlo_error`` is the standard error of the less certain limit, ``effective_draws`` the least count of independent
    draws as good as these, over the mean and both limits.
    """

    mean: FloatArray
    deviation: FloatArray
    lower: FloatArray
    upper: FloatArray
    monte_carlo_error: FloatArray
    effective_draws: FloatArray

    @property
    def settled(self) -> bool:
        """Whether everything is known as well as from `FEWEST` independent draws."""
        return bool(self.effective_draws.min() >= FEWEST)


def moments(values: FloatArray, confidence: float) -> DrawSummary:
    """Of values (L, C, K): K numbers after each of L sweeps of C chains."""
    length, chains, count = values.shape
    apart = values[: 2 * (length // 2)].reshape(2, length // 2, chains, count)
    halves = apart.swapaxes(1, 2).reshape(-1, length // 2, count)
    flat = halves.reshape(-1, count)
    tail = (1 - confidence) / 2
    lower, upper = np.quantile(flat, [tail, 1 - tail], axis=0)
    counted = [_effective(halves), _effective(halves < lower), _effective(halves > upper)]
    limits = []
    for share, n in ((tail, counted[1]), (1 - tail, counted[2])):
        # half the distance between the quantiles a standard error of the share below and above it
        error = np.sqrt(share * (1 - share) / n)
        ends = [np.clip(share + side * error, 0.0, 1.0) for side in (-1, 1)]
        each = [[np.quantile(column, at) for column, at in zip(flat.T, end, strict=True)] for end in ends]
        limits.append(np.subtract(each[1], each[0]) / 2)
    effective = np.floor(np.minimum.reduce(counted))
    return DrawSummary(flat.mean(axis=0), flat.std(axis=0, ddof=1), lower, upper, np.maximum(*limits), effective)


def _effective(halves: FloatArray) -> FloatArray:
    """Independent draws as good for the mean of values (H, L, K), no more than there are draws, (K,)."""
    number = halves.shape[0]
    disagreement = halves.mean(axis=1).var(axis=0, ddof=1)
    spread = halves.reshape(-1, halves.shape[2]).var(axis=0)
    most = float(halves.shape[0] * halves.shape[1])
    alike = np.full(spread.shape, most)
    return np.asarray(np.minimum(np.divide(number * spread, disagreement, out=alike, where=disagreement > 0), most))


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
    """Posterior of the true proportions of a population, given the counts of ``n`` randomized records and a Dirichlet prior.

    ``prior`` has the parameters of the cells, of the shape of the ``domain``'s sizes: as many true records as the prior counts
    for. ``draws`` (L, C, *sizes) are tables drawn from the posterior, L sweeps of C chains, after as many that were left out;
    with the ``seed`` they come again, which is None where a generator was given. ``confidence`` is the posterior probability of
    each interval, which leaves as much below as above.
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
        return self.numbers()["estimate"]

    @property
    def standard_deviations(self) -> FloatArray:
        """Of the posterior."""
        return self.numbers()["standard_deviation"]

    @property
    def lower(self) -> FloatArray:
        """Lower ends of the cells' intervals."""
        return self.numbers()["lower"]

    @property
    def upper(self) -> FloatArray:
        """Upper ends."""
        return self.numbers()["upper"]

    @property
    def effective_draws(self) -> float:
        """As good as so many independent draws, for the cell and the number of it that are known least well."""
        return float(self.moments.effective_draws.min())

    def quantity(self, function: Callable[[FloatArray], FloatArray]) -> Quantity:
        """Any number of the true table, such as an odds ratio: ``function`` takes tables (B, *sizes) and gives (B,) numbers.

        Raises InvalidInput where it gives something else, or numbers that are not finite. SolveFailed where the draws say too
        little of it.
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
# Of the fewest draws that are shown about one lies beyond a limit of this confidence; limits of a larger one would be the same.
MOST_CONFIDENCE = 0.9999
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

    The draws are those of a Markov chain whose law is exactly the posterior; what their number leaves uncertain is measured.
    Where the mechanism hides an effect, the posterior of it is the prior's, and a warning says so. Raises InvalidInput for
    counts of another domain, priors out of range, or no records. MethodTooLarge for too many cells. SolveFailed where the
    draws do not settle: no limit is then shown.

    Parameters
    ----------
    counts
        of randomized records over any attributes of the mechanism, up to 64 cells.
    prior
        Dirichlet parameter, the same for every cell or a table of them, from 0.2 to 10^6. 1/2 is Jeffreys' for records that are
        not randomized, 1 holds all tables for equally likely.
    confidence
        posterior probability of each cell's interval, above 0 and at most 0.9999; as much lies below it as above.
    random_state
        a seed or a generator; the result names the seed that was drawn where none is given.

    """
    check_confidence(confidence)
    if confidence > MOST_CONFIDENCE:
        raise InvalidInput(
            f"confidence = {confidence}; no draws lie beyond such limits: ask for at most {MOST_CONFIDENCE}, or leave out the "
            "prior"
        )
    kernel = counted_table(counts, mechanism).kernel
    if counts.n < 1:
        raise InvalidInput("there are no records, so the posterior is the prior; count at least one")
    if kernel.cells > MOST_CELLS:
        raise MethodTooLarge(
            f"the table has {kernel.cells} cells, and a posterior is drawn for at most {MOST_CELLS}; ask for fewer attributes, "
            "or estimate without a prior"
        )
    given = np.asarray(prior, dtype=np.float64)
    if given.shape not in ((), kernel.sizes):
        raise InvalidInput(f"the prior has shape {given.shape}; give one number, or a table of shape {kernel.sizes}")
    if not (np.all(given >= LEAST_PRIOR) and np.all(given <= MOST_PRIOR)):
        raise InvalidInput(
            f"prior = {float(given.min()):g}; Dirichlet parameters from {LEAST_PRIOR:g} to {MOST_PRIOR:g} are taken, such as "
            "0.5"
        )
    alpha = np.broadcast_to(given, kernel.sizes).copy()
    seed = None
    if not isinstance(random_state, np.random.Generator):
        seed = random_state = int(np.random.default_rng().integers(2**32)) if random_state is None else random_state
    table = counts.table.ravel()
    seen = table > 0
    law = PosteriorLaw(kernel.matrix()[:, seen], table[seen].astype(np.float64), alpha.ravel())
    draws = _settled(law, confidence, np.random.default_rng(random_state))
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
