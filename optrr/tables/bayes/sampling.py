"""Draws from the posterior of a true table: many chains side by side, each of which moves share between two cells at a time.

With reports' counts N, true shares π, expected reports λ = Pᵀπ and a Dirichlet prior with parameters α, the posterior is

    p(π | N) ∝ Π_u π_u^(α_u − 1) · Π_v λ_v^(N_v).

Of two cells u and w the sum s is kept and its split is drawn anew: π_u = s sin²θ, π_w = s cos²θ, and λ is linear in sin²θ. The
prior of θ is sin^(2α_u − 1)θ cos^(2α_w − 1)θ on (0, π/2), even where α is 1/2. A slice sampler that starts from the whole
interval draws from that law exactly and has nothing to tune (Neal, Ann. Stat. 31, 2003, §4). A sweep makes as many such moves
as there are cells. The usual alternative, which draws the true records behind the reports and then the shares, moves by
little: under randomization the records that it has drawn say nearly all about the shares that it draws next.

Cost of a sweep: O(C R V) for C chains, R cells and V different reports, some ten times over.

Whether draws have settled, and how far their means and limits are from those of endless draws, is counted: the chains are cut
in halves, and what the halves disagree by, more than draws within them do, is the error of their mean: for H
halves and a number with variance σ² over all draws whose means over halves have variance b, H σ²/b draws that were independent
would be as good. Chains start from tables drawn from the prior, which lie farther apart than the posterior's, so that chains
that have not met disagree and count for little. The same is counted for the share of draws beyond each limit of an interval.
(Gelman & Rubin, Stat. Sci. 7, 1992; for many short chains Margossian et al., Bayesian Analysis, 2024.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optrr_solvers.arrays import FloatArray

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
    halves = (
        values[: 2 * (length // 2)]
        .reshape(2, length // 2, chains, count)
        .swapaxes(1, 2)
        .reshape(-1, length // 2, count)
    )
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
    return np.asarray(
        np.minimum(
            np.divide(number * spread, disagreement, out=np.full(spread.shape, most), where=disagreement > 0), most
        )
    )
