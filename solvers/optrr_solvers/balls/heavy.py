"""Heavy attributes out of the way of Newton's method (design §3.5).

An attribute whose flip probability is tiny (f = e^{−20}, say) may hardly ever change inside the ball, and the weight that
brings this about lies orders of magnitude above the others: second derivatives do not lead there. But to forbid the change
altogether costs next to nothing: inside the ball the attribute changes with probability f at most, so the ball loses a share
f of its mass. So the heavy attributes H are never changed inside; among them the smallest ratio

    ρ_H = min_H f_i/(d_i − f_i)

bounds Q = 1 + 1/(E_μ[t] min ρ), and all others are more accurate than asked for. In the dual, h⁺ is the same as with one
attribute that never changes, of f = 1, d − f = 1/ρ_H and weight c = w_h f_h: the light attributes and this one are a problem of
the same form without any extremes. Its ρ_H may be far below what double precision tells from 0 next to the light attributes'
flips; then a larger one, ``_LEAST_RHO``, stands in for it, which asks the light attributes to be more accurate by as much.
"""

from dataclasses import dataclass, replace

import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.balls.moments import Classes

# Costs this times Σ ε_i (d_i − f_i) nats, and leaves nine digits of ρ.
_LEAST_RHO = 1e-7
# Stands for ln of the odds that an attribute changes where it never does: the exponential of this number is 0.
_NEVER = -1e4


@dataclass(frozen=True, eq=False)
class Pool:
    """The classes ``whole``, and ``classes``: the ``light`` ones of them, followed by one for all ``heavy`` ones, if any."""

    whole: Classes
    classes: Classes
    light: IntArray
    heavy: IntArray

    @classmethod
    def of(cls, whole: Classes, flip: float) -> "Pool":
        """Attributes that flip with less than this probability are heavy."""
        light, heavy = np.flatnonzero(whole.f >= flip), np.flatnonzero(whole.f < flip)
        if not heavy.size:
            return cls(whole, whole, light, heavy)
        least = float(np.min(whole.f[heavy] / whole.gaps[heavy]))
        stand_in = max(least, _LEAST_RHO)
        kept = float(whole.counts[heavy] @ np.log1p(-whole.d[heavy]))
        pooled = replace(
            whole,
            members=tuple(whole.members[g] for g in light),
            counts=np.append(whole.counts[light], 1.0),
            log_odds=np.append(whole.log_odds[light], _NEVER),
            d=np.append(whole.d[light], 0.0),
            f=np.append(whole.f[light], 1.0),
            gaps=np.append(whole.gaps[light], 1 / stand_in),
            epsilons=np.append(whole.epsilons[light], 1.0),
            log_kept=kept,
            share=least / stand_in,
        )
        return cls(whole, pooled, light, heavy)

    def weights(self, w: FloatArray) -> FloatArray:
        """Weights of all classes, shape (G,), for a lower bound: ``w`` belongs to the pooled ones.

        The attributes of the smallest ratio share c; the other heavy ones get the radius itself, which is enough to leave every
        change set with one of them outside the ball.
        """
        if not self.heavy.size:
            return w
        out = np.empty(self.whole.counts.size)
        out[self.light] = w[:-1]
        f, counts = self.whole.f[self.heavy], self.whole.counts[self.heavy]
        ratio = f / self.whole.gaps[self.heavy]
        first = ratio <= ratio.min() * (1 + 1e-12)
        taken = float(counts[~first] @ f[~first])
        radius = self.classes.radius(w) / max(1 - taken, 0.5)
        out[self.heavy] = radius
        out[self.heavy[first]] = np.maximum(w[-1] / (f[first] * float(counts[first].sum())), radius)
        return out

    def pooled(self, whole: FloatArray) -> FloatArray:
        """The pooled weights with the dual function of these weights of all classes, as :meth:`weights` returns them."""
        if not self.heavy.size:
            return whole
        share = self.whole.counts[self.heavy] @ (whole[self.heavy] * self.whole.f[self.heavy])
        return np.append(whole[self.light], share)

    def log_advantage(self, whole: FloatArray) -> float:
        """ln of w·(d−f) over all classes."""
        return float(np.log(self.whole.counts @ (self.whole.gaps * whole)))

    def spread(self, values: FloatArray, at_heavy: float) -> FloatArray:
        """``values`` of the pooled classes for all classes, shape (G,): the heavy ones get ``at_heavy``."""
        if not self.heavy.size:
            return values
        out = np.full(self.whole.counts.size, at_heavy)
        out[self.light] = values[:-1]
        return out

    def changed(self, changed: FloatArray) -> FloatArray:
        """Shares that change inside, shape of the pooled classes, from those of all classes."""
        return changed if not self.heavy.size else np.append(changed[self.light], 0.0)
