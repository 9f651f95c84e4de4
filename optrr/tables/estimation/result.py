"""What an estimate carries: the table, its errors, where its interval comes from, its bias, and how it converged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from optrr.domain.domain import CellsResult, Domain
from optrr.errors import InvalidInput, TooFewRecords
from optrr.show.charts import Shading, heat_figure
from optrr.show.result import intervals_said
from optrr.show.text import category_word
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Columns of a shaded table up to which its cells hold intervals, and numbers.
_MOST_WITH_INTERVALS, _MOST_NUMBERED = 6, 10
# What the intervals speak about: the population the records are a sample of, or exactly these records.
Target = Literal["population", "data"]


def check_confidence(confidence: float) -> None:
    """Raise InvalidInput for a confidence that no interval can have."""
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence = {confidence}; give a number above 0 and below 1, such as 0.95")


def check_records(n: int) -> None:
    """Raise InvalidInput for so few records that nothing can be said of how sure an estimate is."""
    if n < 2:
        raise TooFewRecords(f"{n} {'record has' if n == 1 else 'records have'} no standard error; count at least 2")


def check_bootstrap(samples: int) -> None:
    """Raise InvalidInput for a number of bootstrap samples that has no standard deviation; 0 asks for none."""
    if samples < 0 or samples == 1:
        raise InvalidInput(f"bootstrap = {samples}; give a number of samples of at least 2, or 0 for none")


@dataclass(frozen=True)
class Convergence:
    """How an iteration ended.

    ``criterion`` says what ``value`` measures; it is at most ``tolerance`` where ``converged``. ``log_likelihood`` is in
    nats over all records, None where the method does not maximise one.
    """

    iterations: int
    converged: bool
    criterion: str
    value: float
    tolerance: float
    log_likelihood: float | None = None


@dataclass(frozen=True, eq=False)
class FittedTable:
    """A fitted table, and how it was reached; None where nothing was iterated."""

    proportions: FloatArray
    convergence: Convergence | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(CellsResult):
    """Estimated proportions of one attribute set.

    Parameters
    ----------
    domain
        the attribute set; ``proportions`` and the arrays after it have the shape of its sizes.
    n
        number of records counted.
    standard_errors
        of each cell: the unbiased estimate's, or the method's own from a parametric bootstrap, as ``errors`` says; NaN where
        the cell cannot be estimated without bias, or all reports that tell about it are alike.
    lower, upper
        ends of each cell's interval, within [0, 1], at ``confidence`` for that cell alone, or for all of them together where
        ``simultaneous``. They invert a test by the unbiased estimate (:mod:`optrr.tables.estimation.score_interval`), whatever
        the method, and are moved outwards to contain ``proportions``. NaN where ``interval`` is "none".
    target
        "population" or "data": what the interval covers.
    bias
        one sentence on the bias of ``method``.
    convergence
        None for methods that do not iterate.
    warnings
        what a reader must know, one sentence each.
    """

    domain: Domain
    n: int
    method: str
    proportions: FloatArray
    standard_errors: FloatArray
    lower: FloatArray
    upper: FloatArray
    confidence: float
    interval: Literal["score", "none"]
    bias: str
    target: Target = "population"
    errors: Literal["unbiased", "bootstrap", "none"] = "unbiased"
    simultaneous: bool = False
    convergence: Convergence | None = None
    warnings: tuple[str, ...] = ()

    in_summary: ClassVar[tuple[str, ...]] = (
        *("n", "confidence", "method", "target", "interval", "interval_note", "simultaneous", "errors", "bias"),
        *("convergence", "warnings"),
    )

    @property
    def counts(self) -> FloatArray:
        """Estimated counts n π̂, same shape."""
        return self.n * self.proportions

    @property
    def is_proper(self) -> bool:
        """Whether no cell is negative; the cells always sum to 1."""
        return bool(self.proportions.min() >= 0)

    @property
    def method_note(self) -> str:
        """One sentence on the method and its bias."""
        return f"method {self.method}: {self.bias.removeprefix(f'{self.method}; ')}"

    @property
    def interval_note(self) -> str:
        """One sentence on what the intervals hold for, and where they come from."""
        if self.interval == "none":
            return "no intervals"
        covered = "the table's population" if self.target == "population" else "exactly these records"
        each = f"all {self.proportions.size} cells together" if self.simultaneous else "each cell alone"
        said = f"intervals for {covered}, {100 * self.confidence:g}% for {each}, by inverting a test of every share"
        if self.method == "unbiased":
            return said
        return f"{said} with the unbiased estimate, moved outwards where the {self.method} estimate lies beyond"

    def marginal(self, names: str | Iterable[str]) -> FloatArray:
        """Proportions summed to these attributes, axes in the order asked for."""
        chosen = self.domain.indices(names)
        rest = tuple(i for i in range(self.domain.m) if i not in chosen)
        return np.transpose(self.proportions.sum(axis=rest), np.argsort(np.argsort(chosen)))

    def headline(self) -> str:
        """Which table, of how many records, by which method."""
        return f"{' × '.join(self.domain.names)} of {self.n} records, method {self.method}"

    def numbers(self) -> dict[str, FloatArray]:
        """Proportions with their errors and intervals."""
        return {
            "estimate": self.proportions,
            "standard_error": self.standard_errors,
            "lower": self.lower,
            "upper": self.upper,
        }

    def plot(self) -> Figure:
        """Every cell's proportion with its interval: a shaded table for two attributes, else a row for each cell."""
        return self._shaded() if self.domain.m == 2 else super().plot()

    def _axis(self) -> tuple[str, None]:
        return f"proportion, {intervals_said(self.confidence, self.simultaneous)}", None

    def _shaded(self) -> Figure:
        columns = self.proportions.shape[1]
        texts = np.full(self.proportions.shape, "", dtype=object)
        # what rounds to 0 has no sign
        if columns <= _MOST_NUMBERED:
            for at, share in np.ndenumerate(self.proportions):
                texts[at] = f"{round(share, 3) + 0.0:.3f}"
                if columns <= _MOST_WITH_INTERVALS and np.isfinite(self.lower[at]):
                    texts[at] += f"\n{self.lower[at]:.3f}–{self.upper[at]:.3f}"
        said = self._axis()[0] if columns <= _MOST_WITH_INTERVALS else "proportion"
        shading = Shading(self.proportions, texts, said, (0.0, float(max(self.proportions.max(), 0.0)) or 1.0))
        first, second = self.domain
        labels = [list(map(category_word, each.texts)) for each in (first, second)]
        return heat_figure((first.name, second.name), (labels[0], labels[1]), shading)
