"""The field's protocols for m attributes at once, as comparators for designed mechanisms.

    SPL      every attribute reported, each with ε/m (the budget is split)
    SMP      one attribute drawn at random, its name told, reported with all of ε
    RS+FD    one attribute drawn at random and *not* told, reported with ε'; all others get fake, uniform answers
    RS+RFD   the same with fake answers drawn from a public guess of each distribution

Whatever the protocol, category v of attribute i is supported by an answer with probability a_v where it is true and b_v
where it is not, so with C_v supports among N answers

    π̂_v = (C_v/N − b_v)/(a_v − b_v),      E π̂_v = π_v,
    var π̂_v = γ_v(1 − γ_v) / (N (a_v − b_v)²),  γ_v = b_v + π_v(a_v − b_v)          (people drawn at random)

and nothing is clipped. Under SMP N is binomial, and 1/N is replaced by its mean.

**What RS+FD's ε means.** The papers set ε' = ln(m(e^ε − 1) + 1), "amplified by sampling". That argument needs answers that
do not depend on the record when the attribute is not drawn; but *some* attribute is always drawn. Compare two records
that differ everywhere, with a report that agrees with one of them everywhere: the probability ratio is e^{ε'} exactly
(``proofs/prove_fake_data.py``). The published ε is what is lost when *one* attribute changes and all are of one size. Here
``epsilon`` is that of the whole record, ε', and ``published_epsilon`` the other. ``epsilon`` is computed from the thresholds
that are drawn with, and rounded up, as a design's is.

Sources: Wang, Blocki, Li & Jha (2017); Arcolezi, Couchot, Al Bouna & Xiao (2021), *Random sampling plus fake data*;
Arcolezi, Gambs, Couchot & Palamidessi (2023), *On the risks of collecting multidimensional data under LDP* (RS+RFD).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import expm1, log1p
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from optrr.account import checked_epsilon
from optrr.errors import InvalidInput
from optrr.protocols.oracles import Oracle, drawn_epsilon, report_error, support_probabilities
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.problem import SIZE_RANGE

Kind = Literal["SPL", "SMP", "RS+FD", "RS+RFD"]
Fake = Literal["uniform", "zero"]

# The reports that the published protocols use.
_PUBLISHED: tuple[Oracle, ...] = ("grr", "oue")
# A prior is read from public tables with a few digits; its sum may be off by this much before it is rescaled.
_PRIOR_SUM = 1e-6
# Beyond this many standard deviations a binomial has less than 1e-30 of its mass.
_DEVIATIONS = 12


@dataclass(frozen=True, eq=False)
class Protocol:
    """One of the four, for attributes of given sizes. Make it with :func:`split`, :func:`sample` or :func:`fake_data`.

    Parameters
    ----------
    sizes
        r_i, shape (m,).
    kind
        SPL, SMP, RS+FD or RS+RFD.
    answer_epsilon
        what one attribute's true answer is randomized with, in nats.
    oracles
        the report of each attribute.
    fakes
        fake distributions, each of shape (r_i,), for RS+FD and RS+RFD; None means OUE of the zero vector.
    """

    sizes: IntArray
    kind: Kind
    answer_epsilon: float
    oracles: tuple[Oracle, ...]
    fakes: tuple[FloatArray | None, ...] = ()

    @property
    def m(self) -> int:
        """Number of attributes."""
        return int(self.sizes.size)

    @cached_property
    def epsilon(self) -> float:
        """Total ε in nats, local differential privacy of the whole record, of the answers as drawn; rounded up."""
        answers = [drawn_epsilon(o, int(r), self.answer_epsilon) for o, r in zip(self.oracles, self.sizes, strict=True)]
        return math.nextafter(math.fsum(answers), math.inf) if self.kind == "SPL" else max(answers)

    @property
    def published_epsilon(self) -> float:
        """The ε the protocol's paper would print, in nats: below ``epsilon`` for RS+FD and RS+RFD, else the same.

        In double precision, for comparison with those papers.
        """
        return log1p(expm1(self.answer_epsilon) / self.m) if self.fakes else self.epsilon

    def support(self, i: int) -> tuple[FloatArray, FloatArray]:
        """a and b of attribute i, each of shape (r_i,): Pr(v supported | v true), Pr(v supported | v not true)."""
        size = int(self.sizes[i])
        p, q = support_probabilities(self.oracles[i], size, self.answer_epsilon)
        if not self.fakes:
            return np.full(size, p), np.full(size, q)
        fake = self.fakes[i]
        by_chance = np.full(size, q) if fake is None else q + fake * (p - q)
        if self.oracles[i] == "grr" and fake is not None:
            by_chance = fake
        return (p + (self.m - 1) * by_chance) / self.m, (q + (self.m - 1) * by_chance) / self.m

    def inverse_answers(self, n: int) -> float:
        """E[1/N | N ≥ 1] for the number N of true or fake answers to one attribute, from n people."""
        if self.kind != "SMP":
            return 1 / n
        return mean_reciprocal(n, 1 / self.m)

    def variance(self, proportions: Sequence[ArrayLike], n: int) -> tuple[FloatArray, ...]:
        """Variance of every π̂_v, per attribute shape (r_i,), for n people drawn from a population of these proportions."""
        return tuple(self._variance(i, np.asarray(pi, dtype=np.float64), n) for i, pi in enumerate(proportions))

    def _variance(self, i: int, pi: FloatArray, n: int) -> FloatArray:
        a, b = self.support(i)
        gamma = b + pi * (a - b)
        return np.asarray(gamma * (1 - gamma) / (a - b) ** 2 * self.inverse_answers(n))

    def data_variance(self, proportions: Sequence[ArrayLike], n: int) -> tuple[FloatArray, ...]:
        """The same with these n people's records held fixed: only the protocol's own randomness, draws included.

        π̂_v then misses the data set's own proportion: γ(1−γ)/(N(a−b)²) loses π_v(1−π_v)/n (under SMP also through drawing
        people without replacement).
        """
        out = []
        for i, given in enumerate(proportions):
            pi = np.asarray(given, dtype=np.float64)
            a, b = self.support(i)
            within = (pi * a * (1 - a) + (1 - pi) * b * (1 - b)) / (a - b) ** 2
            inverse = self.inverse_answers(n)
            drawn = (n * inverse - 1) / (n - 1) if n > 1 else 0.0
            out.append(within * inverse + pi * (1 - pi) * drawn)
        return tuple(out)


def split(sizes: ArrayLike, epsilon: float, oracle: Oracle | Literal["best"] = "best") -> Protocol:
    """SPL at total ε. ``best`` takes for each attribute the report with the smaller variance (see :func:`best_oracle`)."""
    r = _checked_sizes(sizes)
    each = checked_epsilon(epsilon) / r.size
    return Protocol(r, "SPL", each, _oracles(r, each, oracle))


def sample(sizes: ArrayLike, epsilon: float, oracle: Oracle | Literal["best"] = "best") -> Protocol:
    """SMP at total ε; for pairs give the sizes of the pairs' product domains, and their codes when collecting."""
    r = _checked_sizes(sizes)
    return Protocol(r, "SMP", checked_epsilon(epsilon), _oracles(r, epsilon, oracle))


def fake_data(
    sizes: ArrayLike,
    epsilon: float,
    oracle: Oracle = "grr",
    *,
    fakes: Fake | Sequence[ArrayLike] = "uniform",
    accounting: Literal["record", "published"] = "record",
) -> Protocol:
    """RS+FD, or RS+RFD where ``fakes`` lists a public distribution for every attribute.

    Parameters
    ----------
    fakes
        uniform: a uniformly random category, reported as if true (for OUE: encoded and randomized); zero: OUE of the zero
        vector; a list of distributions of shapes (r_i,): RS+RFD. They must not be computed from the protected records.
    accounting
        record: ε is the whole record's, which is what every other mechanism here means by it; published: ε as RS+FD's
        papers count it, so that the record's ε becomes ln(m(e^ε − 1) + 1).
    """
    r = _checked_sizes(sizes)
    if accounting not in ("record", "published"):
        raise InvalidInput(f"accounting = {accounting!r}; give 'record' or 'published'")
    if oracle not in _PUBLISHED:
        raise InvalidInput(f"oracle = {oracle!r}; fake data needs 'grr' or 'oue'")
    given = checked_epsilon(epsilon)
    local = given if accounting == "record" else log1p(r.size * expm1(given))
    if isinstance(fakes, str):
        if fakes not in ("uniform", "zero") or (fakes == "zero" and oracle == "grr"):
            raise InvalidInput(f"fakes = {fakes!r} with {oracle}; give 'uniform', 'zero' (oue only) or distributions")
        rows = tuple(None if fakes == "zero" else np.full(int(k), 1 / k) for k in r)
        return Protocol(r, "RS+FD", local, (oracle,) * r.size, rows)
    return Protocol(r, "RS+RFD", local, (oracle,) * r.size, _checked_fakes(r, fakes))


def best_oracle(size: int, epsilon: float) -> Oracle:
    """Of the published protocols' reports the one with the smaller summed variance: about grr for r < 3e^ε + 2, else oue."""
    return min(_PUBLISHED, key=lambda oracle: report_error(oracle, size, epsilon))


def mean_reciprocal(n: int, probability: float) -> float:
    """E[1/N | N ≥ 1] for N ~ Binomial(n, probability), by summation around the mean."""
    mean, deviation = n * probability, np.sqrt(n * probability)
    low = max(1, int(mean - _DEVIATIONS * deviation))
    high = min(n, int(mean + _DEVIATIONS * deviation) + _DEVIATIONS)
    counts = np.arange(low, high + 1)
    weights = binom.pmf(counts, n, probability)
    return float(np.sum(weights / counts) / np.sum(weights))


def _oracles(sizes: IntArray, epsilon: float, oracle: str) -> tuple[Oracle, ...]:
    if oracle == "best":
        return tuple(best_oracle(int(r), epsilon) for r in sizes)
    if oracle not in _PUBLISHED:
        raise InvalidInput(f"oracle = {oracle!r}; give 'grr', 'oue' or 'best'")
    return (oracle,) * sizes.size


def _checked_sizes(sizes: ArrayLike) -> IntArray:
    r = np.atleast_1d(np.asarray(sizes))
    low, high = SIZE_RANGE
    if r.ndim != 1 or not r.size or not np.all((r >= low) & (r <= high) & (r == np.round(r))):
        raise InvalidInput(f"sizes = {sizes!r}; give a list of whole numbers from {low} to {high}")
    return r.astype(np.int64)


def _checked_fakes(sizes: IntArray, fakes: Sequence[ArrayLike]) -> tuple[FloatArray, ...]:
    rows = tuple(np.asarray(row, dtype=np.float64) for row in fakes)
    if len(rows) != sizes.size:
        raise InvalidInput(f"{len(rows)} fake distributions for {sizes.size} attributes; give one for each")
    for i, (row, size) in enumerate(zip(rows, sizes, strict=True)):
        if row.shape != (size,) or not (row > 0).all() or abs(row.sum() - 1) > _PRIOR_SUM:
            raise InvalidInput(
                f"the fake distribution of attribute {i} must be {size} positive numbers that sum to 1 "
                "(a category never faked would give its true holders away); add a little to every entry and rescale"
            )
    return tuple(row / row.sum() for row in rows)
