"""Proportions from several rounds of the same people: each round's, their average, and changes between rounds.

A report of a person in round t adds g(z) to the unbiased estimate of a cell, with g = P⁻¹ 1_cell of both stages together. The
reports of one person depend on each other through the permanent answer and the record, so errors are computed from people, not
from reports: with d_jt = (g(z_jt) − π̂_t)/n_t for the n_t people of round t and 0 for the others,

    Cov(π̂_s, π̂_t) ≈ n/(n−1) Σ_j d_js d_jt,

whatever the dependence is. People who miss rounds are left out of these rounds only; that is unbiased where missing has nothing
to do with the answer. Nothing needs the record to stay as it is.

Intervals have each round's variance under the hypothesis and its own n_t, so that
rounds of few people and cells that nobody reported have theirs. Standard errors are those of the reports, and never below what
the mechanism alone causes.

Intervals of contrasts of rounds, Σ c_t π_t: averages and changes, also where a round has few people or few of a cell.

The variance of a round's estimate must be that of the hypothesis: a round of 20 people in which nobody reported a rare cell
has no variance of its own to show. Two intervals are made that both see to this, and what is printed reaches from the lower of
their lower ends to the higher of their higher ones:

- The score test inverted (Miettinen & Nurminen, Statistics in Medicine 4, 1985, 213): θ belongs to it unless Σ c_t π̂_t lies z
  of its standard errors off where the contrast is θ. The rounds' shares are there moved from their estimates by μ V c, with V
  their covariance and μ so that Σ c_t p_t = θ and none leaves [0, 1]: the likeliest ones, were estimates normal. V has the
  variance of each round under its own p_t and n_t, and correlations ρ.
- The method of variance estimates recovery (Newcombe, Statistics in Medicine 17, 1998, 873; Zou & Donner, 27, 2008, 1693): with
  d_t the distance from π̂_t to the end of the round's own interval on the side that moves the contrast down,
  the lower end is Σ c_t π̂_t − √(Σ c_s c_t ρ_st d_s d_t), and the upper end is made alike.

The first is right where many small rounds add up, since their chance errors are not taken one by one; the second where one
round of few reports decides, since the round's own interval (:mod:`optrr.core.estimation.score_interval`) is exact in whole
reports. Where rounds are large they agree.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from scipy.special import ndtri

from optrr.core.display.result import intervals_said
from optrr.core.domain.domain import CellsResult, Domain
from optrr.core.errors import InvalidInput, warn
from optrr.core.estimation.estimator import check_confidence
from optrr.core.estimation.score_interval import cell_intervals, cell_variances
from optrr.core.estimation.simplex import projection
from optrr.core.mechanisms.kernel import Kernel
from optrr.core.records.frames import FrameCodec
from optrr.core.records.reading.registry import check_design, open_source
from optrr.longitudinal.design import LongitudinalDesign
from optrr.longitudinal.rounds import people_of
from optrr.longitudinal.stages import TwoStage
from optrr_solvers.arrays import FloatArray, IntArray

What = Literal["average", "change"]
ABSENT = -1
# Cells of a table for which every person's weights are looked at.
MOST_CELLS = 4096
# People in a round.
_FEWEST = 2
# People more in a cell, and as many out of it, where correlations are computed (Agresti & Coull 1998).
_MORE_PEOPLE = 2
# The shares of a hypothesis need their own covariance, which is found by turns.
_TURNS = 4
# Newton steps for the multiplier, whose equation is piecewise linear: one for each share that meets 0 or 1 on the way.
_STEPS = 4
# Halvings by which ends are found, to 10^-6 of the range, and rounded outwards.
_HALVINGS = 20


@dataclass(frozen=True, eq=False)
class Contrast:
    """Σ c_t π_t for C cells and R rounds.

    ``observed`` (R, sizes) are each round's proportions of reports through the ``kernel``; ``counts`` the people of each round,
    (R,); ``weights`` c, (R,); ``correlations`` those of the rounds' estimates, (C, R, R), with 1 on the diagonal; ``least`` the
    variance that the mechanism alone causes in the contrast, (C,).
    """

    kernel: Kernel
    observed: FloatArray
    counts: FloatArray
    weights: FloatArray
    correlations: FloatArray
    least: FloatArray

    @cached_property
    def rounds(self) -> FloatArray:
        """π̂ of every round, (R, C)."""
        return self.kernel.solve(self.observed).reshape(self.counts.size, -1)

    @cached_property
    def _variances(self) -> FloatArray:
        """Of every round's estimate by powers of its share, (3, R, C)."""
        variances = cell_variances(self.kernel, self.observed)[0].reshape(3, self.counts.size, -1)
        return np.asarray(variances / self.counts[:, None])

    @property
    def range(self) -> tuple[float, float]:
        """Least and largest value of the contrast of shares in [0, 1]."""
        return float(self.weights.clip(max=0).sum()), float(self.weights.clip(min=0).sum())

    def interval(self, confidence: float) -> FloatArray:
        """Lower and upper ends, (2, C), within the range; they hold the estimate moved into it."""
        scored, composed = self._scored(1 - confidence), self._composed(1 - confidence)
        ends = [np.minimum(scored[0], composed[0]), np.maximum(scored[1], composed[1])]
        return np.asarray(np.clip(ends, *self.range))

    def variance(self, value: FloatArray) -> FloatArray:
        """Of the estimated contrast of every cell where the contrast is ``value``, (C,)."""
        c, shares = self.weights[:, None], np.clip(self.rounds, 0.0, 1.0)
        for turn in range(_TURNS):
            errors = np.sqrt(
                np.maximum(self._variances[0] + shares * (self._variances[1] + shares * self._variances[2]), 0)
            )
            along = errors * np.einsum("brs,sb->rb", self.correlations, errors * c)
            if turn < _TURNS - 1:
                shares = _constrained(self.rounds, along, c, value)
        return np.asarray(np.maximum(np.sum(c * along, axis=0), self.least))

    def _scored(self, level: float) -> FloatArray:
        """Where the estimate is as many standard errors off as the level says, on both sides; else the range's end."""
        estimate, square = np.clip(self.weights @ self.rounds, *self.range), float(ndtri(level / 2)) ** 2

        def kept(value: FloatArray) -> FloatArray:
            return np.asarray((estimate - value) ** 2 <= square * self.variance(value))

        ends = []
        for end in self.range:
            inside, outside = estimate, np.full_like(estimate, end)
            inside = np.where(kept(outside), outside, inside)
            for _ in range(_HALVINGS):
                middle = (inside + outside) / 2
                within = kept(middle)
                inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
            ends.append(outside)
        return np.asarray(ends)

    def _composed(self, level: float) -> FloatArray:
        shape = self.rounds.shape
        ends = cell_intervals(self.kernel, self.observed, np.repeat(self.counts, shape[1]), level)
        lower, upper = (end.reshape(shape) for end in ends)
        below, above = np.maximum(self.rounds - lower, 0), np.maximum(upper - self.rounds, 0)
        c, rising = self.weights[:, None], self.weights[:, None] > 0
        down, up = c * np.where(rising, below, above), c * np.where(rising, above, below)
        reach = [
            np.sqrt(np.clip(np.einsum("sb,bst,tb->b", d, self.correlations, d), self.least, None)) for d in (down, up)
        ]
        estimate = self.weights @ self.rounds
        return np.asarray([estimate - reach[0], estimate + reach[1]])


def _constrained(start: FloatArray, along: FloatArray, c: FloatArray, value: FloatArray) -> FloatArray:
    """Shares within [0, 1] of the form start + μ along whose contrast is the value, (R, B)."""
    multiplier = np.zeros_like(value)
    for _ in range(_STEPS):
        moved = start + multiplier * along
        shares = np.clip(moved, 0.0, 1.0)
        slope = np.sum(c * along * (moved == shares), axis=0)
        short = value - np.sum(c * shares, axis=0)
        multiplier = multiplier + np.divide(short, slope, out=np.zeros_like(short), where=slope > 0)
    return np.asarray(np.clip(start + multiplier * along, 0.0, 1.0))


@dataclass(frozen=True, eq=False, repr=False)
class PanelEstimate(CellsResult):
    """A combination of rounds for every cell of ``domain``: arrays have the shape of its sizes.

    ``what`` is "average" or "change"; ``people`` are those with at least one report. Averages lie in [0, 1], and so do their
    intervals; changes in [−1, 1].
    """

    domain: Domain
    what: What
    people: int
    rounds: int
    estimate: FloatArray
    standard_errors: FloatArray
    lower: FloatArray
    upper: FloatArray
    confidence: float
    warnings: tuple[str, ...] = ()

    in_summary = ("what", "people", "rounds", "confidence", "warnings")

    def headline(self) -> str:
        """What it is, of which table, from how many people and rounds."""
        names = " × ".join(self.domain.names)
        return f"{self.what} of {names} over {self.rounds} rounds, {self.people} people"

    def numbers(self) -> dict[str, FloatArray]:
        """The combination with its errors and intervals."""
        return {
            "estimate": self.estimate,
            "standard_error": self.standard_errors,
            "lower": self.lower,
            "upper": self.upper,
        }

    def _axis(self) -> tuple[str, float | None]:
        said = f"{self.what} of the proportion, {intervals_said(self.confidence)}"
        return said, 0.0 if self.what == "change" else None

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object; categories are texts."""
        return super().summary() | {"categories": [list(a.texts) for a in self.domain]}


@dataclass(frozen=True, eq=False)
class Panel:
    """Reports of n people in R rounds on one table: ``cells`` holds flat cell numbers, shape (n, R), −1 where absent.

    Raises InvalidInput for a table of too many cells, and a round of fewer than two people.
    """

    domain: Domain
    mechanism: TwoStage
    cells: IntArray

    def __post_init__(self) -> None:
        count = int(np.prod(self.domain.sizes))
        if count > MOST_CELLS:
            raise InvalidInput(
                f"the table has {count} cells; at most {MOST_CELLS} over several rounds: ask for fewer attributes"
            )
        if self.present.sum(axis=0).min() < _FEWEST:
            raise InvalidInput("a round has fewer than two people; leave it out")

    @property
    def present(self) -> FloatArray:
        """1 where a person reported, shape (n, R)."""
        return np.asarray(self.cells != ABSENT, dtype=np.float64)

    @cached_property
    def _weights(self) -> FloatArray:
        """g for every cell (rows) and report, shape (C, C)."""
        kernel = self.mechanism.kernel(self.domain.names)
        rows = [kernel.solve_adjoint(row.reshape(kernel.sizes)).ravel() for row in np.eye(kernel.cells)]
        return np.asarray(rows)

    @cached_property
    def _repeated(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """For every cell, of people who keep their record, (C,) each.

        Over the records that a person can have, the least variance of one report given y and that of y's mean; and the
        correlation of two reports of one person, where two people more have the cell and two more have not.
        """
        permanent = self.mechanism.permanent.kernel(self.domain.names)
        second = self.mechanism.instantaneous.kernel(self.domain.names)
        n, pooled = len(self.cells), projection(self.by_round[0].mean(axis=1))
        shares = (n * pooled + _MORE_PEOPLE) / (n + 2 * _MORE_PEOPLE)
        each, whole, alike = [], [], []
        for cell, weights in enumerate(self._weights):
            g = weights.reshape(permanent.sizes)
            mean = second.adjoint(g)
            once, twice = (permanent.adjoint(x).ravel() for x in (second.adjoint(g * g), mean * mean))
            each.append(float((once - twice).min()))
            whole.append(float((twice - permanent.adjoint(mean).ravel() ** 2).min()))
            p, others = shares[cell], np.delete(pooled, cell)
            rest = others / others.sum() if others.sum() > 0 else np.full(others.size, 1 / others.size)
            first, both = (p * x[cell] + (1 - p) * (rest @ np.delete(x, cell)) - p**2 for x in (once, twice))
            alike.append(float(both / first))
        return np.maximum(each, 0.0), np.maximum(whole, 0.0), np.clip(alike, 0.0, 1.0)

    @cached_property
    def by_round(self) -> tuple[FloatArray, FloatArray]:
        """Estimates, shape (C, R), and their covariances, shape (C, R, R)."""
        present = self.present
        counts, n = present.sum(axis=0), len(self.cells)
        means, covariances = [], []
        for weights in self._weights:
            values = np.where(present > 0, weights[self.cells], 0.0)
            mean = values.sum(axis=0) / counts
            influence = np.where(present > 0, values - mean, 0.0) / counts
            means.append(mean)
            covariances.append(influence.T @ influence * (n / (n - 1)))
        return np.asarray(means), np.asarray(covariances)

    def _correlations(self, prior: FloatArray) -> FloatArray:
        """Of the rounds' estimates, (C, R, R): of the people in both rounds, and as much of the prior, (C,), as one report.

        People who report a cell in both rounds are what shows a correlation; where there are hardly any, the prior rules.
        """
        present = self.present
        counts, both = present.sum(axis=0), present.T @ present
        shared = both / np.sqrt(np.outer(counts, counts))
        out = []
        for weights, means, expected in zip(self._weights, self.by_round[0], prior, strict=True):
            off = np.where(present > 0, weights[self.cells] - means, 0.0)
            own = (off**2).T @ present
            report = (weights.max() - weights.min()) ** 2
            rho = shared * (off.T @ off + report * expected) / (np.sqrt(own * own.T) + report)
            np.fill_diagonal(rho, 1.0)
            out.append(rho)
        return np.asarray(out)

    def contrast(self, what: What, combination: FloatArray) -> Contrast:
        """Σ c_t π_t of every cell, with what its interval needs."""
        each, whole, alike = self._repeated
        counts = self.present.sum(axis=0)
        least = each * np.sum(combination**2 / counts) + whole * combination.sum() ** 2 / len(self.cells)
        taken = np.flatnonzero(combination)
        # what makes intervals wider: an average of rounds that are alike, a change between rounds that are not
        prior = alike if what == "average" else np.zeros_like(alike)
        correlations = self._correlations(prior)[:, taken[:, None], taken]
        kernel = self.mechanism.kernel(self.domain.names)
        tables = [
            np.bincount(x[x != ABSENT], minlength=kernel.cells) / (x != ABSENT).sum() for x in self.cells.T[taken]
        ]
        observed = np.asarray(tables).reshape(-1, *kernel.sizes)
        return Contrast(kernel, observed, counts[taken], combination[taken], correlations, least)

    def _estimated(self, what: What, combination: FloatArray, confidence: float) -> PanelEstimate:
        """Σ c_t π̂_t for every cell, its standard error, and its interval."""
        check_confidence(confidence)
        contrast = self.contrast(what, combination)
        means, covariances = self.by_round
        variance = np.maximum(np.einsum("s,cst,t->c", combination, covariances, combination), contrast.least)
        shape, arrays = self.domain.sizes, (means @ combination, np.sqrt(variance), *contrast.interval(confidence))
        point, error, lower, upper = (np.reshape(each, shape) for each in arrays)
        people, rounds = self.cells.shape
        return PanelEstimate(self.domain, what, people, rounds, point, error, lower, upper, confidence)

    def average(self, confidence: float = 0.95) -> PanelEstimate:
        """The mean over the rounds of every cell's proportion."""
        rounds = self.cells.shape[1]
        return self._estimated("average", np.full(rounds, 1 / rounds), confidence)

    def change(self, first: int = 0, last: int = -1, confidence: float = 0.95) -> PanelEstimate:
        """By how much every cell's proportion moved from one round to another."""
        rounds = self.cells.shape[1]
        if not all(-rounds <= each < rounds for each in (first, last)):
            raise InvalidInput(f"a change from round {first} to {last} of {rounds}; number them 0..{rounds - 1}")
        combination = np.zeros(rounds)
        combination[last] += 1
        combination[first] -= 1
        if not combination.any():
            raise InvalidInput("a change is between two different rounds; give at least two")
        return self._estimated("change", combination, confidence)


def estimate_rounds(
    rounds: Sequence[Any], design: LongitudinalDesign, attributes: str | Iterable[str], *, person: str
) -> tuple[Panel, list[str]]:
    """The panel of several rounds' reports, files or frames in order, and warnings (Python's, too) about where they come from.

    Raises InvalidInput for reports of another design, a person who stands in a round twice, and what :class:`Panel` refuses.
    """
    if not rounds:
        raise InvalidInput("there are no rounds; give at least one file of reports")
    chosen = design.domain.subset(attributes)
    doubts = [line for data in rounds for line in check_design(data, design.digest)]
    warn(doubts)
    numbers: dict[str, int] = {}
    each = [_round_cells(data, chosen, person) for data in rounds]
    for people, _ in each:
        for name in people:
            numbers.setdefault(name, len(numbers))
    cells = np.full((len(numbers), len(rounds)), ABSENT, dtype=np.int64)
    for t, (people, values) in enumerate(each):
        cells[[numbers[name] for name in people], t] = values
    return Panel(chosen, design.mechanism, cells), list(dict.fromkeys(doubts))


def _round_cells(data: Any, domain: Domain, person: str) -> tuple[list[str], IntArray]:
    source = open_source(data, domain)
    if person not in source.column_names():
        raise InvalidInput(f"{source.name} has no column {person!r}; name the column that tells people apart")
    codec = FrameCodec(
        domain, pa.schema([source.schema.field(name) for name in domain.names if name in source.schema.names])
    )
    people, parts = [], []
    for batch in source.batches([person, *codec.schema.names]):
        people += people_of(batch.column(person), codec.records)
        codes = codec.encode(batch.select(codec.schema.names))
        parts.append(np.ravel_multi_index(tuple(codes.T), tuple(int(r) for r in domain.sizes)))
    if len(set(people)) < len(people):
        raise InvalidInput(f"{source.name} has a person twice; give one report for each person and round")
    return people, np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
