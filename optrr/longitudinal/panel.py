"""Proportions from several waves of the same people: of each wave, their average, and changes between waves.

A report of a person in wave t adds g(z) to the unbiased estimate of a cell, with g = P⁻¹ 1_cell of both stages
together. The reports of one person depend on each other through the memoized response and the record, so standard
errors are computed over people instead of reports: with d_jt = (g(z_jt) − π̂_t)/n_t for the n_t people of wave t and 0
for the others,

    Cov(π̂_s, π̂_t) ≈ n/(n−1) Σ_j d_js d_jt,

for any dependence. People who miss waves are left out of these waves only; the estimate is unbiased if missingness is
independent of the answer. Records may change between waves.

Standard errors are those of the reports, and never less than the mechanism alone causes. In intervals, the variance of
a wave's estimate must be that of the hypothesis, because a wave of 20 people without a report of a rare cell shows no
variance. With ρ_st the correlations of the waves' estimates, the interval is

- of an average, Σ c_t π_t with c_t = 1/R, that of one proportion (:mod:`optrr.core.estimation.score_interval`) whose estimate
  has the variance of one report times Σ c_s c_t ρ_st/√(n_s n_t), as in a sample with a design effect (Kish, Survey Sampling,
  1965);
- of a change, its estimate plus and minus z standard errors, after adding z²/4 people in the cell and as many outside it to
  both waves (Agresti & Caffo, American Statistician 54, 2000, 280).

Coverage: benchmarks/longitudinal_coverage.py.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from optrr.core.display import Result, Table, intervals_said
from optrr.core.domain import CellsResult, Domain
from optrr.core.errors import InvalidInput, warn
from optrr.core.estimation import cell_variances, check_confidence, projection, wilson
from optrr.core.records import check_design, open_source
from optrr.longitudinal.design import LongitudinalDesign
from optrr.longitudinal.rounds import PersonRecords
from optrr.longitudinal.stages import TwoStage
from optrr_solvers.arrays import FloatArray, IntArray

What = Literal["average", "change"]
ABSENT = -1
# Maximum number of cells of a table, since weights of each person are stored.
MOST_CELLS = 4096
# Minimum number of people in a wave.
_FEWEST = 2
# People more in a cell, and as many out of it, where correlations are computed (Agresti & Coull 1998).
_MORE_PEOPLE = 2


@dataclass(frozen=True, eq=False, repr=False)
class PanelEstimate(CellsResult):
    """A combination of waves per cell; arrays have the domain's shape.

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
        """Summarize the combination, its table, the people and the waves."""
        names = " × ".join(self.domain.names)
        return f"{self.what} of {names} over {self.rounds} waves, {self.people} people"

    def numbers(self) -> dict[str, FloatArray]:
        """Return the combination with standard errors and intervals."""
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
        """Return the JSON object; categories are texts."""
        return super().summary() | {"categories": [list(a.texts) for a in self.domain]}


@dataclass(frozen=True, eq=False)
class Panel:
    """Reports of n people in R waves on one table.

    ``cells`` are flat cell numbers, shape (n, R), −1 where a person is absent.

    Raises InvalidInput for a table of too many cells, and a round of fewer than two people.
    """

    domain: Domain
    mechanism: TwoStage
    cells: IntArray

    def __post_init__(self) -> None:
        count = int(np.prod(self.domain.sizes))
        if count > MOST_CELLS:
            raise InvalidInput(
                f"the table has {count} cells, more than {MOST_CELLS}, the maximum over several waves; use fewer "
                "attributes"
            )
        if self.present.sum(axis=0).min() < _FEWEST:
            raise InvalidInput("a wave has fewer than two people; leave it out")

    @property
    def present(self) -> FloatArray:
        """Indicator of reports by person and wave, shape (n, R)."""
        return np.asarray(self.cells != ABSENT, dtype=np.float64)

    @cached_property
    def _weights(self) -> FloatArray:
        """g by cell (rows) and report, shape (C, C)."""
        kernel = self.mechanism.kernel(self.domain.names)
        rows = [kernel.solve_adjoint(row.reshape(kernel.sizes)).ravel() for row in np.eye(kernel.cells)]
        return np.asarray(rows)

    @cached_property
    def _repeated(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Variances and correlation of repeated reports of one person, (C,) each.

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
        """Estimate correlations of the waves' estimates, (C, R, R).

        From people in both waves, with the prior (C,) counted as one report.

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

    def _estimated(self, what: What, combination: FloatArray, confidence: float) -> PanelEstimate:
        """Compute Σ c_t π̂_t per cell, with standard errors and intervals."""
        check_confidence(confidence)
        each, whole, alike = self._repeated
        counts, (means, covariances) = self.present.sum(axis=0), self.by_round
        least = each * np.sum(combination**2 / counts) + whole * combination.sum() ** 2 / len(self.cells)
        variance = np.maximum(np.einsum("s,cst,t->c", combination, covariances, combination), least)
        estimate, interval = means @ combination, self._average if what == "average" else self._change
        # the conservative choice: an interval is wider for an average of similar waves, and for a change between different
        # ones
        correlations = self._correlations(alike if what == "average" else np.zeros_like(alike))
        ends = interval(combination, correlations, least, 1 - confidence)
        shape = self.domain.sizes
        point, error, lower, upper = (np.reshape(x, shape) for x in (estimate, np.sqrt(variance), *ends))
        people, rounds = self.cells.shape
        return PanelEstimate(self.domain, what, people, rounds, point, error, lower, upper, confidence)

    def _observed(self) -> FloatArray:
        """Compute proportions of the reports of every wave, (R, sizes)."""
        count = self._weights.shape[0]
        tables = [np.bincount(x[x != ABSENT], minlength=count) / (x != ABSENT).sum() for x in self.cells.T]
        return np.reshape(tables, (-1, *self.domain.sizes))

    def _average(
        self, combination: FloatArray, correlations: FloatArray, least: FloatArray, level: float
    ) -> tuple[FloatArray, FloatArray]:
        """Compute the interval of the mean over waves.

        As for one proportion, with the effective number of people.
        """
        scaled = combination / np.sqrt(self.present.sum(axis=0))
        people = 1 / np.einsum("s,cst,t->c", scaled, correlations, scaled)
        kernel = self.mechanism.kernel(self.domain.names)
        variances, skew = cell_variances(kernel, np.tensordot(combination, self._observed(), 1))
        variances = variances / people
        variances[0] = np.maximum(variances[0], least)
        return wilson(self.by_round[0] @ combination, variances, level, skew / people)

    def _change(
        self, combination: FloatArray, correlations: FloatArray, least: FloatArray, level: float
    ) -> tuple[FloatArray, FloatArray]:
        """Compute the interval of a difference of two waves.

        Each wave has z²/4 more people in the cell and as many outside it.
        """
        taken, z = np.flatnonzero(combination), -float(ndtri(level / 2))
        c, counts = combination[taken, None], self.present.sum(axis=0)[taken, None]
        estimates, more = self.by_round[0][:, taken].T, z**2 / 4
        shares = (counts * estimates + more) / (counts + 2 * more)
        kernel, inside = self.mechanism.kernel(self.domain.names), np.clip(shares, 0.0, 1.0)
        variances = cell_variances(kernel, self._observed()[taken])[0].reshape(3, *shares.shape)
        squares = (variances[0] + inside * (variances[1] + inside * variances[2])) / (counts + 2 * more)
        errors, rho = c * np.sqrt(np.maximum(squares, 0.0)), correlations[:, taken[:, None], taken]
        reach = z * np.sqrt(np.maximum(np.einsum("sb,bst,tb->b", errors, rho, errors), least))
        middle, estimate = np.sum(c * shares, axis=0), np.sum(c * estimates, axis=0).clip(-1, 1)
        ends = np.clip(middle - reach, -1, 1), np.clip(middle + reach, -1, 1)
        return np.minimum(ends[0], estimate), np.maximum(ends[1], estimate)

    def average(self, confidence: float = 0.95) -> PanelEstimate:
        """Estimate the mean over waves of every cell's proportion."""
        rounds = self.cells.shape[1]
        return self._estimated("average", np.full(rounds, 1 / rounds), confidence)

    def change(self, first: int = 0, last: int = -1, confidence: float = 0.95) -> PanelEstimate:
        """Estimate the change of every cell's proportion from one wave to another."""
        rounds = self.cells.shape[1]
        if not all(-rounds <= each < rounds for each in (first, last)):
            raise InvalidInput(f"a change from wave {first} to {last} of {rounds}; number waves 0..{rounds - 1}")
        combination = np.zeros(rounds)
        combination[last] += 1
        combination[first] -= 1
        if not combination.any():
            raise InvalidInput("a change requires two different waves; give at least two")
        return self._estimated("change", combination, confidence)


@dataclass(frozen=True, repr=False)
class WavesEstimate(Result):
    """The average over several waves and, if requested, the change.

    The change is from the first wave to the last.
    """

    average: PanelEstimate
    change: PanelEstimate | None = None
    warnings: tuple[str, ...] = ()

    def headline(self) -> str:
        """Return the headline of the average."""
        return self.average.headline()

    def tables_shown(self, most: int | None = None) -> list[Table]:
        """List the tables of the average and the change."""
        each = [x for x in (self.average, self.change) if x is not None]
        return [replace(x.shown(most), title=f"{x.what}, {100 * x.confidence:g}% intervals") for x in each]

    def summary(self) -> dict[str, Any]:
        """Return the JSON object."""
        change = {} if self.change is None else {"change": self.change.summary()}
        return {"average": self.average.summary(), **change, "doubts": list(self.warnings)}


def estimate_waves(  # noqa: PLR0913 (which waves, of what, and how sure)
    waves: Sequence[Any],
    design: LongitudinalDesign,
    attributes: str | Iterable[str],
    *,
    id_column: str,
    change: bool = False,
    confidence: float = 0.95,
) -> WavesEstimate:
    """Estimate the average proportions and their change over several waves.

    Parameters
    ----------
    waves : sequence of files or frames
        Reports, in the order of the waves.
    design : LongitudinalDesign
        The design of these reports.
    attributes : str or iterable of str
        Attributes of the table.
    id_column : str
        Column that names each respondent.
    change : bool
        Also estimate the change of each cell from the first wave to the last.
    confidence : float
        Confidence level of the intervals, in (0, 1).

    Returns
    -------
    WavesEstimate

    Raises
    ------
    InvalidInput
        For reports of another design, a respondent who occurs in a wave twice, and a wave of fewer than two.
    """
    panel, doubts = panel_of(waves, design, attributes, id_column=id_column)
    moved = panel.change(confidence=confidence) if change else None
    return WavesEstimate(panel.average(confidence), moved, tuple(doubts))


def panel_of(
    rounds: Sequence[Any], design: LongitudinalDesign, attributes: str | Iterable[str], *, id_column: str
) -> tuple[Panel, list[str]]:
    """Read the panel of several waves' reports, and list warnings.

    The waves are files or frames in order. Warnings concern the origin of the reports and are also raised in Python.

    Raises InvalidInput for reports of another design or a person who occurs in a wave twice, and as :class:`Panel`.
    """
    if not rounds:
        raise InvalidInput("there are no waves; give at least one file of reports")
    chosen = design.domain.subset(attributes)
    doubts = [line for data in rounds for line in check_design(data, design.digest)]
    warn(doubts)
    numbers: dict[str, int] = {}
    each = [_round_cells(data, chosen, id_column) for data in rounds]
    for people, _ in each:
        for name in people:
            numbers.setdefault(name, len(numbers))
    cells = np.full((len(numbers), len(rounds)), ABSENT, dtype=np.int64)
    for t, (people, values) in enumerate(each):
        cells[[numbers[name] for name in people], t] = values
    return Panel(chosen, design.mechanism, cells), list(dict.fromkeys(doubts))


def _round_cells(data: Any, domain: Domain, id_column: str) -> tuple[list[str], IntArray]:
    reader, names, cells = (
        PersonRecords(open_source(data, domain), domain, id_column),
        [],
        [np.zeros(0, dtype=np.int64)],
    )
    for people, _, codes in reader.batches():
        names += people
        cells.append(np.ravel_multi_index(tuple(codes.T), tuple(domain.sizes.tolist())))
    return names, np.concatenate(cells)
