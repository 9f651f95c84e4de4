"""A noise distribution in one file of somebody else: at most one attribute changes e^nats times as often as any more do.

Density e^nats for at most one change and 1 beyond, a ball of equal weights; the method "near" takes the least nats for the
accuracies asked for. Importing this file registers both.
"""

import itertools
import math
import time

import msgspec
import numpy as np
from scipy.optimize import brentq

from optrr_solvers import Guarantee, InvalidProblem, Method
from optrr_solvers.laws import Law
from optrr_solvers.laws.base import checked_subset
from optrr_solvers.methods import register
from optrr_solvers.solution import checked


class NearRecord(msgspec.Struct, forbid_unknown_fields=True):
    """ln of the density of few changes."""

    nats: float


class NearLaw(Law):
    kind = "near"
    Record = NearRecord

    def __init__(self, sizes, nats):
        self.sizes, self.nats = np.asarray(sizes, dtype=np.int64), float(nats)

    def to_record(self):
        return NearRecord(self.nats)

    @classmethod
    def from_record(cls, record, sizes):
        return cls(sizes, record.nats)

    def marginal(self, subset):
        chosen, out = checked_subset(subset, self.m), np.zeros((2,) * len(subset))
        for s in itertools.product((0, 1), repeat=self.m):
            outputs = math.prod(int(r) - 1 for r, c in zip(self.sizes, s, strict=True) if c)
            out[tuple(s[i] for i in chosen)] += outputs * math.exp(self.nats * (sum(s) <= 1))
        return out / out.sum()


def near(problem, options):
    began = time.perf_counter()

    def spare(nats):
        return float((NearLaw(problem.sizes, nats).attribute_epsilons() - problem.epsilons).min())

    if spare(30.0) < 0:
        raise InvalidProblem("at most one change is not accurate enough; ask for less")
    law = NearLaw(problem.sizes, brentq(spare, 0.0, 30.0, xtol=1e-13) + 1e-12)
    return checked(problem, "near", law, None, started=began, tolerance=None)


register(Method("near", near, Guarantee.BASELINE, "few changes", most=8, automatic=lambda problem: False))
