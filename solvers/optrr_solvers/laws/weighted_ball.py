"""One weighted ball: integer weights by randomised rounding, and how much of it lies inside at every total (design §3.5).

A change set S has the random total X = Σ_{i∈S} W_i, where W_i is a_i + 1 with probability b_i and a_i otherwise, and belongs
to the ball to the degree t_S = E[G(X)], with a profile G falling from 1 to 0 around the radius. Such a t is a mixture of
sharp balls (one for every rounding and every step of G), so a density 1 + (Q−1) t never leaves [1, Q]. Profiles that rise
and fall again are shells: they keep pairs visible (design §3.6).

Letters: a floors, b fractions, G profile, given by its levels at integer knots and linear in between.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from optrr_solvers.arrays import FloatArray, IntArray

# A normal radius is cut off at this many widths, which leaves out 6e-16 of its mass.
PROFILE_REACH = 8.0
# Totals stay below this, so that they are exact as doubles and sums of them as int64.
TOTAL_LIMIT = 1 << 53


@dataclass(frozen=True, eq=False)
class WeightedBall:
    """Weights of G classes and a profile over totals.

    Parameters
    ----------
    floors, fractions
        a_g ≥ 0 and 0 ≤ b_g < 1 for every class, shape (G,).
    knots
        increasing totals, shape (K,), K ≥ 2.
    levels
        G at the knots, in [0, 1], shape (K,); constant before the first; the last must be 0 and holds from there on.
    """

    floors: IntArray
    fractions: FloatArray
    knots: IntArray
    levels: FloatArray

    def __post_init__(self) -> None:
        for name, kind in (
            ("floors", np.int64),
            ("fractions", np.float64),
            ("knots", np.int64),
            ("levels", np.float64),
        ):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=kind))
        if self.floors.ndim != 1 or self.floors.shape != self.fractions.shape:
            raise ValueError("a ball needs one floor and one fraction for every class")
        if np.any(self.floors < 0) or np.any(self.floors >= TOTAL_LIMIT):
            raise ValueError(f"the floors of a ball must lie in 0..2^53, got {self.floors.min()}..{self.floors.max()}")
        if not np.all((self.fractions >= 0) & (self.fractions < 1)):
            raise ValueError("the fractions of a ball must lie in [0, 1)")
        if self.knots.ndim != 1 or self.knots.size < 2 or self.knots.shape != self.levels.shape:
            raise ValueError("a profile needs at least two knots with a level each")
        if np.any(np.diff(self.knots) <= 0) or np.any(np.abs(self.knots) >= TOTAL_LIMIT):
            raise ValueError("the knots of a profile must increase and stay within 2^53")
        if not np.all((self.levels >= 0) & (self.levels <= 1)) or self.levels[-1] != 0:
            raise ValueError("the levels of a profile must lie in [0, 1] and end with 0")

    @property
    def weights(self) -> FloatArray:
        """a + b, the mean weights, shape (G,)."""
        return np.asarray(self.floors + self.fractions)

    @property
    def end(self) -> int:
        """From this total on a change set is outside."""
        return int(self.knots[-1])

    @property
    def falls(self) -> bool:
        """Whether a larger total is never more inside: the ball is no shell."""
        return bool(np.all(np.diff(self.levels) <= 0))

    def profile(self, totals: IntArray) -> FloatArray:
        """G at the given totals; the distance to the knot is an exact integer, whatever the totals' size."""
        at = np.clip(np.searchsorted(self.knots, totals, side="right") - 1, 0, self.knots.size - 2)
        step = np.clip((totals - self.knots[at]) / (self.knots[at + 1] - self.knots[at]), 0.0, 1.0)
        return np.asarray(self.levels[at] + step * (self.levels[at + 1] - self.levels[at]))

    def band(self) -> FloatArray:
        """G at every total from the first knot to the last, in order."""
        return self.profile(np.arange(self.knots[0], self.knots[-1] + 1))


def soft(floors: IntArray, fractions: FloatArray, radius: float, width: float, most_knots: int = 4096) -> WeightedBall:
    """A radius with a normal law of the given standard deviation (``width``, in units of the grid)."""
    low, high = int(np.floor(radius - PROFILE_REACH * width)), int(np.ceil(radius + PROFILE_REACH * width)) + 1
    if high - low < most_knots:
        knots = np.arange(low, high + 1)
    else:
        knots = np.unique(np.round(np.linspace(low, high, most_knots)).astype(np.int64))
    levels = ndtr((radius - knots) / width)
    levels[0], levels[-1] = 1.0, 0.0
    return WeightedBall(floors, fractions, knots, levels)
