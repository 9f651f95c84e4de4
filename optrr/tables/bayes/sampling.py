"""Draws from the posterior of a true table: many chains side by side, each of which moves share between two cells at a time.

With reports' counts N, true shares π, expected reports λ = Pᵀπ and a Dirichlet prior with parameters α, the posterior is

    p(π | N) ∝ Π_u π_u^(α_u − 1) · Π_v λ_v^(N_v).

Of two cells u and w the sum s is kept and its split is drawn anew: π_u = s sin²θ, π_w = s cos²θ, and λ is linear in sin²θ. The
prior of θ is sin^(2α_u − 1)θ cos^(2α_w − 1)θ on (0, π/2), even where α is 1/2. A slice sampler that starts from the whole
interval draws from that law exactly and has nothing to tune (Neal, Ann. Stat. 31, 2003, §4). A sweep makes as many such moves
as there are cells. The usual alternative, which draws the true records behind the reports and then the shares, moves by
little: under randomization the records that it has drawn say nearly all about the shares that it draws next.

Cost of a sweep: O(C R V) for C chains, R cells and V different reports, some ten times over.
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
