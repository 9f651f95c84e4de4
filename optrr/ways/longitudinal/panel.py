"""Proportions from several rounds of the same people: each round's, their average, and changes between rounds.

A report of a person in round t adds g(z) to the unbiased estimate of a cell, with g = P⁻¹ 1_cell of both stages together. The
reports of one person depend on each other through the permanent answer and the record, so errors are computed from people, not
from reports: with d_jt = (g(z_jt) − π̂_t)/n_t for the n_t people of round t and 0 for the others,

    Cov(π̂_s, π̂_t) ≈ n/(n−1) Σ_j d_js d_jt,

whatever the dependence is. People who miss rounds are left out of these rounds only; that is unbiased where missing has nothing
to do with the answer. Nothing needs the record to stay as it is.

Intervals have each round's variance under the hypothesis and its own n_t (:mod:`optrr.ways.longitudinal.contrasts`), so that
rounds of few people and cells that nobody reported have theirs. Standard errors are those of the reports, and never below what
the mechanism alone causes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from optrr.domain.cells import CellsResult
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput, warn
from optrr.records.frames import FrameCodec
from optrr.records.origins import check_design
from optrr.records.reading.registry import open_source
from optrr.show.result import intervals_said
from optrr.tables.estimation.result import check_confidence
from optrr.tables.estimation.simplex import projection
from optrr.tables.estimation.weighted_mean import cell_means
from optrr.ways.longitudinal.contrasts import Contrast
from optrr.ways.longitudinal.design import LongitudinalDesign
from optrr.ways.longitudinal.rounds import people_of
from optrr.ways.longitudinal.two_stage import TwoStage
from optrr_solvers.arrays import FloatArray, IntArray

What = Literal["average", "change"]

# Cells of a table for which every person's weights are looked at.
MOST_CELLS = 4096
_FEWEST = 2
# People more in a cell, and as many out of it, where correlations are computed (Agresti & Coull 1998).
_MORE_PEOPLE = 2
ABSENT = -1


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

    Raises
    ------
    InvalidInput
        for a table of too many cells, and a round of fewer than two people.
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
        return Contrast(cell_means(kernel, observed, 1), counts[taken], combination[taken], correlations, least)

    def _estimated(self, what: What, combination: FloatArray, confidence: float) -> PanelEstimate:
        """Σ c_t π̂_t for every cell, its standard error, and its interval."""
        check_confidence(confidence)
        contrast = self.contrast(what, combination)
        means, covariances = self.by_round
        variance = np.maximum(np.einsum("s,cst,t->c", combination, covariances, combination), contrast.least)
        return self._result(what, means @ combination, variance, contrast.interval(confidence), confidence)

    def average(self, confidence: float = 0.95) -> PanelEstimate:
        """The mean over the rounds of every cell's proportion."""
        rounds = self.cells.shape[1]
        return self._estimated("average", np.full(rounds, 1 / rounds), confidence)

    def change(self, first: int = 0, last: int = -1, confidence: float = 0.95) -> PanelEstimate:
        """By how much every cell's proportion moved from one round to another."""
        combination = np.zeros(self.cells.shape[1])
        combination[last] += 1
        combination[first] -= 1
        if not combination.any():
            raise InvalidInput("a change is between two different rounds; give at least two")
        return self._estimated("change", combination, confidence)

    def _result(
        self,
        what: What,
        estimate: FloatArray,
        variance: FloatArray,
        ends: Any,
        confidence: float,
    ) -> PanelEstimate:
        shape = tuple(int(r) for r in self.domain.sizes)
        point, error, lower, upper = (x.reshape(shape) for x in (estimate, np.sqrt(variance), *ends))
        people, rounds = self.cells.shape
        return PanelEstimate(self.domain, what, people, rounds, point, error, lower, upper, confidence)


def estimate_rounds(
    rounds: Sequence[Any], design: LongitudinalDesign, attributes: str | Iterable[str], *, person: str
) -> tuple[Panel, list[str]]:
    """The panel of several rounds' reports, files or frames in order, and warnings (Python's, too) about where they come from.

    Raises
    ------
    InvalidInput
        for reports of another design, a person who stands in a round twice, and what :class:`Panel` refuses.
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
