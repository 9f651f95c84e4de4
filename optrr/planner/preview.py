"""Accuracy of a choice: errors and margins of every protocol, at any total and number of people.

A :class:`Point` holds the result of :func:`optrr.allocate` at one total, without the number of people, which only
divides the errors. Between two points, log errors are interpolated linearly in the log total, since an allocation takes
seconds; such a preview is marked as one. A :class:`Preview` is a point with n people.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from optrr.allocation.allocating import Allocation, Progress, allocate
from optrr.allocation.strategies import Strategy
from optrr.core.design import Query
from optrr.planner.question import MOST_TOTAL, Question

# Totals in nats at which curves are computed; those in between are interpolated.
LADDER = tuple(float(2 ** (k / 2)) for k in range(-6, 9))
# Maximum number of tables that are predicted one by one; nobody reads more.
MOST_TABLES = 200
# Half of an interval of 95 % in standard errors, and in percentage points of the standard error of a share.
HALF_WIDTH = 1.959964
POINTS = 100 * HALF_WIDTH
# Relative excess up to which a margin counts as reached, because totals and errors are doubles.
REACHED = 1e-9


class TableErrors(NamedTuple):
    """Errors of one table: n times the expected squared error, summed over the cells."""

    attributes: tuple[str, ...]
    cells: int
    error: float


class AttributeLabel(NamedTuple):
    """Stated accuracy ε and conditional ε of one attribute of whole records."""

    name: str
    epsilon: float
    conditional_epsilon: float


@dataclass(frozen=True)
class Point:
    """Results at one total: every protocol, and the chosen one's tables; ``exact`` if an allocation computed them.

    ``epsilon`` is that of what would be drawn; ``labels`` are those of attributes, empty where single questions are asked.
    """

    total: float
    epsilon: float
    way: Strategy
    best: str
    ways: tuple[Strategy, ...]
    tables: tuple[TableErrors, ...]
    labels: tuple[AttributeLabel, ...]
    error_bound: float
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]
    exact: bool = True
    queries: tuple[Query, ...] = ()


def allocated(question: Question, progress: Progress | None = None) -> Allocation:
    """Allocate for the question's choices, with the chosen protocol marked."""
    spec, keep = question.specification, question.keep is not None
    made = allocate(spec, question.total, workload=question.wanted, n=question.n, records_only=keep, progress=progress)
    return made.choosing(question.way)


def point(question: Question, made: Allocation | None = None) -> Point:
    """Build the point of the question's total, from an allocation if given."""
    made = made or allocated(question)
    asking, domain = made.asking, question.domain
    wanted = [table.attributes for table in question.learn.tables[:MOST_TABLES]]
    cells = [math.prod(domain[name].size for name in names) for names in wanted]
    tables = tuple(map(TableErrors, wanted, cells, map(asking.table_error, wanted)))
    labels = tuple(AttributeLabel(*budget) for budget in asking.budgets)
    protocols = made.protocol, made.best.name, made.protocols
    said = made.sentences(), made.warnings
    return Point(
        question.total, asking.epsilon, *protocols, tables, labels, made.error_bound, *said, queries=asking.queries
    )


def between(low: Point, high: Point, total: float) -> Point:
    """Interpolate the errors of tables between two points.

    Stated losses are those of the larger total, so that none is understated; other protocols are not interpolated.
    """
    share = math.log(total / low.total) / math.log(high.total / low.total)

    def mixed(a: float, b: float) -> float:
        if min(a, b) <= 0 or not (math.isfinite(a) and math.isfinite(b)):
            return b if share > 0.5 else a
        return math.exp((1 - share) * math.log(a) + share * math.log(b))

    way = replace(high.way, epsilon=total, error=mixed(low.way.error, high.way.error))
    tables = tuple(a._replace(error=mixed(a.error, b.error)) for a, b in zip(low.tables, high.tables, strict=True))
    # sentences about another total do not hold for this one
    return replace(high, total=total, epsilon=total, way=way, tables=tables, sentences=(), warnings=(), exact=False)


def nearest(points: Sequence[Point], question: Question) -> Point | None:
    """Return the point at the question's total, computed or interpolated; None if no two points enclose the total."""
    total = question.total
    low = max((p for p in points if p.total <= total), key=lambda p: p.total, default=None)
    high = min((p for p in points if p.total >= total), key=lambda p: p.total, default=None)
    if low is None or high is None or low is high:
        return low if high else None
    # the lower bound takes no time, so it is not interpolated
    return replace(between(low, high, total), error_bound=question.wanted.error_bound(question.domain, total))


class Expected(NamedTuple):
    """Predicted ± percentage points of one table (95 %, root mean square over its cells), and by sampling alone."""

    attributes: tuple[str, ...]
    cells: int
    margin: float
    sampling_margin: float


@dataclass(frozen=True, eq=False)
class Preview:
    """A question, and the results at its total."""

    question: Question
    point: Point

    @property
    def n(self) -> int:
        """How many people will answer."""
        return self.question.n

    @cached_property
    def tables(self) -> tuple[Expected, ...]:
        """Predicted errors of every required table, in their order."""
        return tuple(expected(table, self.n) for table in self.point.tables)

    @property
    def over_bound(self) -> float:
        """The chosen protocol's error over the lower bound for any mechanism."""
        return self.point.way.error / self.point.error_bound

    @property
    def typical_margin(self) -> float:
        """± percentage points, 95 %, as a root mean square over all cells of all tables."""
        return self.margin_of(self.point.way)

    def margin_of(self, way: Strategy) -> float:
        """Compute the margin of another protocol; ``inf`` if a table is impossible."""
        return typical_margin(self.question, way.error)

    @property
    def bound_margin(self) -> float:
        """Lower bound of the same for any mechanism of this total."""
        return typical_margin(self.question, self.point.error_bound)

    @cached_property
    def required(self) -> tuple[Expected, ...]:
        """Tables with a required margin, the farthest from it first."""
        wanted = [(table, self.question.margin_of(table.attributes)) for table in self.tables]
        given = [(table.margin / margin, table) for table, margin in wanted if margin is not None]
        return tuple(table for _, table in sorted(given, reverse=True))

    @cached_property
    def missed(self) -> tuple[Expected, ...]:
        """Tables that miss their required margin."""
        margin_of = self.question.margin_of
        return tuple(t for t in self.tables if t.margin > (margin_of(t.attributes) or math.inf) * (1 + REACHED))


def typical_margin(question: Question, error: float) -> float:
    """Compute ± percentage points (95 %) of a workload error, as a root mean square over all cells of all tables."""
    cells = sum(t.weight * t.cells(question.domain) for t in question.wanted.tables)
    return POINTS * math.sqrt(error / (question.n * cells))


def expected(table: TableErrors, n: int) -> Expected:
    """Predict a table with n people."""
    margins = (POINTS * math.sqrt(error / (n * table.cells)) for error in (table.error, 1 - 1 / table.cells))
    return Expected(table.attributes, table.cells, *margins)


def people_needed(question: Question, point: Point) -> float:
    """Compute the number of people for the required margins at a point; ``inf`` if none is enough."""
    wanted = [(table, question.margin_of(table.attributes)) for table in point.tables]
    return max((t.error / t.cells * (POINTS / m) ** 2 for t, m in wanted if m is not None), default=1.0)


def total_for(points: Sequence[Point], question: Question, n: int) -> float | None:
    """Find the least total at which n people give the required margins; None if the largest does not.

    The logarithm of the people that are needed is interpolated between the points, and the total is rounded up to three
    digits.
    """
    needed = [(each.total, people_needed(question, each)) for each in sorted(points, key=lambda each: each.total)]
    if needed and needed[0][1] <= n:
        return needed[0][0]
    for (low, more), (high, less) in pairwise(needed):
        if less <= n:
            share = math.log(more / n) / math.log(more / less) if math.isfinite(more) else 1.0
            total = math.exp((1 - share) * math.log(low) + share * math.log(high))
            digits = 10.0 ** (2 - math.floor(math.log10(total)))
            return min(math.ceil(total * digits * (1 - REACHED)) / digits, MOST_TOTAL)
    return None
