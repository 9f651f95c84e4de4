"""A group in which everybody knows all logarithms: points are their logarithms modulo a small prime. Breaks every seal."""

from dataclasses import dataclass

import numpy as np

from optrr.studies.secure_sum.group import NotInGroup


@dataclass(frozen=True)
class KnownLogarithms:
    """The integers modulo ``order``; G is 1 and H is ``log_h``."""

    order: int
    log_h: int
    width: int = 2

    @property
    def second(self):
        return self._point(self.log_h)

    def base(self, k):
        return self._point(k)

    def times(self, k, point):
        return self._point(k * self.log(point))

    def add(self, one, other):
        return self._point(self.log(one) + self.log(other))

    def subtract(self, one, other):
        return self._point(self.log(one) - self.log(other))

    def checked(self, point):
        if len(point) != self.width or self.log(point) >= self.order:
            raise NotInGroup("too large")
        return point

    def log(self, point):
        return int.from_bytes(point, "little")

    def _point(self, k):
        return (k % self.order).to_bytes(self.width, "little")


class PlayedScalars:
    """A bit source that makes ``scalars`` return these numbers, in this order, and then zeros."""

    def __init__(self, numbers):
        self._words = [w for v in numbers for w in (v, 0, 0, 0)]

    def words(self, count):
        out = (self._words[:count] + [0] * count)[:count]
        self._words = self._words[count:]
        return np.asarray(out, dtype=np.uint64)
