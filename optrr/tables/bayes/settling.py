"""Whether draws have settled, and how far their means and limits are from those of endless draws.

The chains are cut in halves, and what the halves disagree by, more than draws within them do, is the error of their mean: for H
halves and a number with variance σ² over all draws whose means over halves have variance b, H σ²/b draws that were independent
would be as good. Chains start from tables drawn from the prior, which lie farther apart than the posterior's, so that chains
that have not met disagree and count for little. The same is counted for the share of draws beyond each limit of an interval.
(Gelman & Rubin, Stat. Sci. 7, 1992; for many short chains Margossian et al., Bayesian Analysis, 2024.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optrr_solvers.arrays import FloatArray

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
    error = np.maximum(*(_error_of_limit(flat, share, n) for share, n in ((tail, counted[1]), (1 - tail, counted[2]))))
    effective = np.floor(np.minimum.reduce(counted))
    return DrawSummary(flat.mean(axis=0), flat.std(axis=0, ddof=1), lower, upper, error, effective)


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


def _error_of_limit(flat: FloatArray, share: float, effective: FloatArray) -> FloatArray:
    """Half the distance between the quantiles a standard error of ``share`` below and above it, (K,)."""
    error = np.sqrt(share * (1 - share) / effective)
    ends = [np.clip(share + side * error, 0.0, 1.0) for side in (-1, 1)]
    each = [[np.quantile(column, at) for column, at in zip(flat.T, end, strict=True)] for end in ends]
    return np.asarray(np.subtract(each[1], each[0]) / 2)
