"""Reports under a protocol, and unbiased tables from them: one-way for all, two-way where people report both attributes.

Two-way under SPL: with z_v = (1[v supported] − q)/(p − q) for each attribute, the mean of z_v z'_w over people is unbiased
for π_vw, because the two reports of one person are independent given the record. Under SMP nobody reports two attributes
(sample pairs instead: give the protocol the pairs' product domains). Under RS+FD a report holds at most one true answer,
so the joint distribution of two answers shows the two marginals and nothing else: the eigenvalue λ_ij is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optrr.errors import InvalidInput
from optrr.ways.protocols.oracles import indicators, report, support_probabilities, supports
from optrr_solvers.arrays import FloatArray
from optrr_solvers.randomness import BitSource, RandomState, as_source, bounded

if TYPE_CHECKING:
    from optrr.studies.baselines.protocols import FieldProtocol

# Entries of a cumulative distribution compared with uniform words: 2^53 equal steps, as in numpy's own uniforms.
_UNIFORM_BITS = 11


@dataclass(frozen=True, eq=False)
class FieldReports:
    """Answers to every attribute: codes (N_i,) from GRR, bits (N_i, r_i) from OUE."""

    protocol: FieldProtocol
    answers: tuple[NDArray[np.integer], ...]

    def estimate(self) -> tuple[FloatArray, ...]:
        """Unbiased proportions π̂ of every attribute, shape (r_i,), not clipped.

        Raises
        ------
        InvalidInput
            where nobody answered an attribute (possible under SMP with few people).
        """
        return tuple(self.estimate_one(i) for i in range(self.protocol.m))

    def estimate_one(self, i: int) -> FloatArray:
        """Unbiased proportions of attribute i, shape (r_i,)."""
        answers = self.answers[i]
        if not answers.shape[0]:
            raise InvalidInput(f"nobody was asked for attribute {i}; collect from more people")
        a, b = self.protocol.support(i)
        return np.asarray((supports(answers, a.size) / answers.shape[0] - b) / (a - b))

    def estimate_pair(self, i: int, j: int) -> FloatArray:
        """Unbiased two-way proportions under SPL of two different attributes, shape (r_i, r_j), not clipped.

        Raises
        ------
        InvalidInput
            under the other protocols, saying why it cannot be estimated; for an attribute paired with itself.
        """
        if i == j or not {i, j} <= set(range(self.protocol.m)):
            raise InvalidInput(f"a pair of attributes {i} and {j} was asked for; name two of 0..{self.protocol.m - 1}")
        if self.protocol.kind == "SMP":
            raise InvalidInput(
                "nobody reports two attributes under SMP, so no pair can be estimated; sample pairs instead"
            )
        if self.protocol.fakes:
            raise InvalidInput(
                f"under {self.protocol.kind} at most one answer of a report is true, so the eigenvalue of every pair is "
                "0 and no pair can be estimated; split the budget or design with preserve='pairs'"
            )
        left, right = (self._debiased(k) for k in (i, j))
        return np.asarray(left.T @ right / left.shape[0])

    def _debiased(self, i: int) -> FloatArray:
        size = int(self.protocol.sizes[i])
        p, q = support_probabilities(self.protocol.oracles[i], size, self.protocol.answer_epsilon)
        return (indicators(self.answers[i], size) - q) / (p - q)


def collect(protocol: FieldProtocol, codes: NDArray[np.integer], random_state: RandomState = None) -> FieldReports:
    """Every person's report; codes of shape (n, m).

    O(n Σ r_i) time and bytes with OUE, O(n m) with GRR.

    Raises
    ------
    InvalidInput
        for codes that are not whole numbers within the protocol's sizes, or of nobody.
    """
    array = np.asarray(codes)
    if not np.issubdtype(array.dtype, np.integer):
        raise InvalidInput(f"codes are of type {array.dtype}; give whole numbers 0..r_i−1, one per attribute")
    if array.ndim != 2 or array.shape[1] != protocol.m or not array.shape[0]:
        raise InvalidInput(f"codes of shape {array.shape} do not fit {protocol.m} attributes; give (n, {protocol.m})")
    if ((array < 0) | (array >= protocol.sizes)).any():
        raise InvalidInput("a code lies outside 0..r_i−1; encode the records with the same sizes as the protocol")
    source = as_source(random_state)
    chosen = None if protocol.kind == "SPL" else bounded(source, array.shape[0], protocol.m)
    columns = (array[:, i].astype(np.int64) for i in range(protocol.m))
    answers = tuple(_answers(protocol, i, column, chosen, source) for i, column in enumerate(columns))
    return FieldReports(protocol, answers)


def _answers(
    protocol: FieldProtocol, i: int, column: NDArray[np.int64], chosen: NDArray[np.int64] | None, source: BitSource
) -> NDArray[np.integer]:
    oracle, size = protocol.oracles[i], int(protocol.sizes[i])
    if chosen is not None and not protocol.fakes:
        column = column[chosen == i]
    if chosen is None or not protocol.fakes:
        return report(column, oracle, size, protocol.answer_epsilon, source)
    fake = protocol.fakes[i]
    true = chosen == i
    if oracle == "grr" and fake is not None:
        out = _draw(fake, column.size, source)
        out[true] = report(column[true], oracle, size, protocol.answer_epsilon, source)
        return out
    shown = np.full(column.size, -1) if fake is None else _draw(fake, column.size, source)
    return report(np.where(true, column, shown), oracle, size, protocol.answer_epsilon, source)


def _draw(distribution: FloatArray, n: int, source: BitSource) -> NDArray[np.int64]:
    uniform = (source.words(n) >> np.uint64(_UNIFORM_BITS)) * 2.0 ** -(64 - _UNIFORM_BITS)
    return np.minimum(np.searchsorted(np.cumsum(distribution), uniform, side="right"), distribution.size - 1)


def pair_variance(protocol: FieldProtocol, i: int, j: int, joint: FloatArray, n: int) -> FloatArray:
    """Variance of SPL's two-way estimate in every cell, shape (r_i, r_j), for people drawn at random.

    n var = Σ over (v true or not) × (w true or not) of Pr · E[z_v²] E[z'_w²] − π_vw².
    """
    true_i, false_i = protocol.second_moments(i)
    true_j, false_j = protocol.second_moments(j)
    row, column = joint.sum(axis=1, keepdims=True), joint.sum(axis=0, keepdims=True)
    second = (
        joint * true_i * true_j
        + (row - joint) * true_i * false_j
        + (column - joint) * false_i * true_j
        + (1 - row - column + joint) * false_i * false_j
    )
    return np.asarray((second - joint**2) / n)
