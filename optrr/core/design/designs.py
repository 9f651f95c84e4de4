"""Interface of every protocol, and the design: the protocol whose records all serve for any table.

There is one type for all protocols: respondents give a randomized record (:class:`optrr.Design`), answer one random
table each (:class:`optrr.SampledTables`) or follow one of the papers' protocols (:mod:`optrr.core.protocols`).
Allocations compare protocols by the members of this type:

    epsilon              total ε that one person consumes, of the answers as they are drawn, rounded up
    table_error(U)       V_U, an upper bound of n E‖π̂_U − π_U‖² over all populations, for large n; some reach it
    randomize, reports   the answers, and analyses of them with the promised errors
    optrr.save           a file that both sides work from; :func:`optrr.load` reads it back

A design is the smallest total ε for the required accuracies, with the mechanism that reaches it and the lower bound.
Three numbers are always shown together: the total ε of the whole record; each attribute ε, which states its accuracy;
and each conditional ε, the most that an observer who already knows a person's other attributes learns about this one.
With independent randomized response the last two agree; at the optimum the conditional ε goes up to the total.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, inf, prod, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from optrr.core.display.charts import COLOURS, PAGE_WIDTH, Shading, heat_figure, label_text, legend_below, new_figure
from optrr.core.display.parts import Table
from optrr.core.display.result import TableResult
from optrr.core.display.text import amount, bound_text, epsilon_text
from optrr.core.domain.domain import Domain
from optrr.core.domain.public import NONE, PublicColumns
from optrr.core.errors import InvalidInput
from optrr.core.lazy_methods import LazyMethod
from optrr.core.mechanisms.kernel import SingularMarginal
from optrr.core.mechanisms.mechanism import FileRelease, Labelled, Mechanism, ReleaseOptions, randomized_frame
from optrr.core.provenance.accounting import Release, total_epsilon
from optrr.core.provenance.sealed import DESIGN
from optrr.core.records.reading.source import Places
from optrr_solvers import Solution, Status
from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.arrays import FloatArray
from optrr_solvers.laws import Law
from optrr_solvers.partition import singles
from optrr_solvers.solution import shortfalls

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from optrr.core.estimation.table import EstimatedTable
    from optrr.core.reports import Reports
    from optrr_solvers.allocation.error_certificate import ErrorCertificate
    from optrr_solvers.randomness import RandomState

# Pair eigenvalues are listed for at most this many attributes (2016 pairs).
MAX_PAIRS_REPORTED = 64
# Decimals of an epsilon in a printed table.
_DECIMALS = 4
# Attributes up to which a chart of pairs has room for numbers.
_MOST_NUMBERED = 12
# Ratios of eigenvalues that differ by less than this are equal but for rounding.
_EQUAL = 1e-9
# Loss of accuracy of a slower sampler, in nats, above which a warning is given.
FELT = 0.01
# Number of categories above which the large file gets a warning, and bytes of each.
_MANY_CATEGORIES = 100_000
_CATEGORY_BYTES = 12
_NO_AUTOMATON = (
    "too large to be drawn from one table of whole numbers: records are randomized by a slower sampler, whose rounding the "
    "total covers by a proven bound, and devices draw it, or one with coarser weights, by rejection"
)
# Eigenvalue ratio of a pair below which its table needs at least four times the records.
FAINT = 0.5


class ReportPart(NamedTuple):
    """Part of a report: ``named`` of the ``of`` values of some attributes.

    With probability ``holds`` the person's own value is among them.
    """

    attributes: tuple[str, ...]
    named: int
    of: int
    holds: float


class Query(NamedTuple):
    """What a person is asked with probability ``share``, and the parts of the report."""

    share: float
    parts: tuple[ReportPart, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes that the person is asked about."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.attributes))


class Asking(ABC):
    """One protocol for the attributes of ``domain``."""

    # Kind of the file that holds it (:data:`optrr.core.provenance.formats.FORMATS`); empty for one that has no file.
    file_format: ClassVar[str] = ""

    if TYPE_CHECKING:
        # some subclasses have fields of these names and others properties, so they are declared for type checkers only
        @property
        def name(self) -> str:
            """Name in tables and messages."""
            ...

        @property
        def domain(self) -> Domain:
            """Requested attributes."""
            ...

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """Total ε in nats of everything one person answers, rounded up."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """Identity in files of its answers; see :mod:`optrr.core.provenance.provenance`."""

    @property
    @abstractmethod
    def keeps_records(self) -> bool:
        """Whether any table can be estimated, now or later."""

    @abstractmethod
    def table_error(self, names: str | Iterable[str]) -> float:
        """Compute V of the table over these attributes.

        n E‖π̂ − π‖² is at most V in every population, for large n.

        ``inf`` where the table cannot be estimated without bias.

        Raises InvalidInput for unknown or repeated attributes.
        """

    @abstractmethod
    def randomize_frame(self, data: Any, random_state: RandomState = None) -> Any:
        """Draw a report for each record of a data frame.

        The order is kept, which no ε covers.

        None draws random bits from the operating system.
        """

    def reports(self, *given: Any) -> Reports:
        """Open randomized records for analyses; see :func:`optrr.reports`.

        Parameters
        ----------
        given
            Each place or frame of records, or of answers; several are groups to be compared.

        Returns
        -------
        Reports

        Raises
        ------
        InvalidInput
            At the first analysis: for records that are given twice, and for those of another design.

        Examples
        --------
        >>> import optrr, pandas
        >>> design = optrr.design({"smokes": ["no", "yes"]}, 1.0)
        >>> released = design.randomize(pandas.DataFrame({"smokes": ["no", "yes"] * 500}))
        >>> design.reports(released).table("smokes").n
        1000
        """
        from optrr.core.reports import Reports  # noqa: PLC0415 (statistics are slow to import)

        return Reports.of(self, *given)

    def counted(self, answers: Any, attributes: str | Iterable[str], partly: bool = False) -> EstimatedTable:
        """Estimate a table with its distribution from answers to local queries.

        For measures, tests and models.

        ``partly``: effects without information in the answers are 0 and have no variance, instead of an error.

        Raises InvalidInput if the protocol has no such table.
        """
        raise InvalidInput(f"{self.name} supports plain tables only; use estimate(…)")

    @property
    def earlier(self) -> tuple[Release, ...]:
        """Earlier releases of the same respondents."""
        return ()

    @property
    def epsilon_in_all(self) -> float:
        """Total ε in nats including earlier releases, rounded up.

        For a respondent who took part in all of them.
        """
        return self.epsilon

    @property
    def public(self) -> PublicColumns:
        """Non-randomized columns beside the attributes."""
        return NONE

    def beside(self, public: PublicColumns) -> Asking:
        """Return the protocol with these public columns, if it can keep any."""
        del public
        return self

    def bounded(self, certify: Callable[[], ErrorCertificate]) -> Asking:
        """Return the protocol with a lower bound for any mechanism.

        Only if its file holds one.
        """
        del certify
        return self

    @property
    def budgets(self) -> list[tuple[str, float, float]]:
        """Name, attribute ε and conditional ε of each attribute.

        Empty if a respondent answers one query.
        """
        return []

    @property
    def queries(self) -> tuple[Query, ...]:
        """Queries of which each person answers one; empty if they are not stated."""
        return ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for users of the protocol, one line each."""
        return ()

    def summary(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"epsilon": self.epsilon}

    def table_errors(self, tables: Sequence[tuple[str, ...]]) -> list[float]:
        """Compute :meth:`table_error` of several tables."""
        return [self.table_error(names) for names in tables]

    def randomize(  # noqa: PLR0913 (what, where to, and five options of a file)
        self,
        data: Any,
        target: str | os.PathLike[str] | None = None,
        random_state: RandomState = None,
        *,
        after: Iterable[str | Path] = (),
        limit: float | None = None,
        public: PublicColumns | Mapping[str, Any] = NONE,
        drop_undeclared: bool = False,
        keep_order: bool = False,
    ) -> Any:
        """Randomize every record of a frame or a file.

        A frame gives the same kind of frame, a file another file.

        Parameters
        ----------
        data : frame or place of records
            A data frame, whose index and order stay; or, with ``target``, a file or whatever else holds records.
        target : path-like, optional
            File to write, shuffled, whole or not at all.
        random_state : None, int or numpy Generator
            None draws random bits from the operating system; a seed is for studies, and marks its output.
        after : iterable of path-like
            Earlier releases of the same respondents, whose ε adds up.
        limit : float, optional
            Maximum of the total ε of this release and those before it, in nats.
        public : PublicColumns or mapping
            Columns that are not randomized, by role.
        drop_undeclared : bool
            Leave out every column that the design does not declare.
        keep_order : bool
            Leave the records in the order of ``data``, which no ε covers, instead of shuffling them.

        Returns
        -------
        frame or FileRelease
            Randomized records; with ``target`` the file that was written, and its ε.

        Raises
        ------
        InvalidInput
            For columns or values that the design does not declare, records that are randomized already, and a total above
            ``limit``; nothing is written.

        Examples
        --------
        >>> import optrr, pandas
        >>> design = optrr.design({"smokes": ["no", "yes"]}, 1.0)
        >>> design.randomize(pandas.DataFrame({"smokes": ["no", "no", "yes"]})).shape
        (3, 1)
        """
        how = {"drop_undeclared": drop_undeclared, "keep_order": keep_order}
        options = ReleaseOptions.following(self.earlier, after, limit=limit, public=PublicColumns.of(public), **how)
        if target is not None:
            return self.release_file(data, target, random_state, options)
        if options != ReleaseOptions(self.earlier):
            raise InvalidInput(
                "``target`` is missing: the other options are for files; name a target file, or leave the other options out"
            )
        return self.randomize_frame(data, random_state)

    @abstractmethod
    def release_file(
        self,
        source: Places,
        target: str | os.PathLike[str],
        random_state: RandomState = None,
        options: ReleaseOptions | None = None,
    ) -> FileRelease:
        """Randomize the records of one file into another.

        As :meth:`randomize` does with a ``target`` and options.
        """

    def standard_error(self, names: str | Iterable[str], n: int) -> float:
        """Predict the standard error of a table with ``n`` respondents.

        √(V/(n Π r_i)), a root mean square over its cells.

        Parameters
        ----------
        names
            Attributes of the table.
        n
            Number of respondents, at least 1.

        Returns
        -------
        float
            An upper bound over all populations; ``inf`` where the table cannot be estimated.

        Raises
        ------
        InvalidInput
            For unknown attributes, or no respondents.

        Examples
        --------
        >>> import optrr
        >>> round(optrr.design({"smokes": ["no", "yes"]}, 1.0).standard_error("smokes", 1000), 4)
        0.0342
        """
        if not n >= 1:
            raise InvalidInput(f"``n``: {n}; give a number of respondents of at least 1")
        cells = prod(self.domain.attributes[i].size for i in self.domain.indices(names))
        return sqrt(self.table_error(names) / (n * cells))


class FullRecords(Asking):
    """Protocol that randomizes every whole record by one mechanism.

    Any table can be estimated from the reports, now or later.
    """

    if TYPE_CHECKING:

        @property
        def mechanism(self) -> Mechanism:
            """Mechanism that randomizes each record."""
            ...

    @property
    def keeps_records(self) -> bool:
        """True."""
        return True

    def table_error(self, names: str | Iterable[str]) -> float:
        """Compute the error constant of a table, Σ_{∅≠W⊆U} c_W/λ_W² (theory §3.2).

        ``inf`` if an effect of the table is not identifiable.
        """
        # statistics take longer to import than most designs take to solve, so they come where they are used
        from optrr.core.estimation.accuracy import expected_squared_error  # noqa: PLC0415

        try:
            return expected_squared_error(self.mechanism.kernel(names), 1)
        except SingularMarginal:
            return inf

    def randomize_frame(self, data: Any, random_state: RandomState = None) -> Any:
        """Randomize records; return the same kind of frame.

        See :meth:`optrr.core.mechanisms.mechanism.Randomizer.randomize`.

        Public columns go through as they are.
        """
        if self.public:
            return randomized_frame(data, self.mechanism, self.public, random_state)
        return self.mechanism.randomize(data, random_state=random_state)

    @property
    def digest(self) -> str:
        """Digest of the mechanism."""
        digest: str = self.mechanism.digest
        return digest

    @property
    def mechanism_name(self) -> str:
        """Name of the mechanism."""
        return self.mechanism.mechanism_name

    def release_file(
        self,
        source: Places,
        target: str | os.PathLike[str],
        random_state: RandomState = None,
        options: ReleaseOptions | None = None,
    ) -> FileRelease:
        """Randomize a file into another; public columns are unchanged.

        See :func:`optrr.core.mechanisms.release.release_file`.
        """
        from optrr.core.mechanisms.release import release_file  # noqa: PLC0415 (files bring Arrow's readers)

        return release_file(source, self.mechanism, target, random_state, self.with_public(options))

    def with_public(self, options: ReleaseOptions | None) -> ReleaseOptions | None:
        """Add the declared public columns to the options of a release."""
        if not self.public:
            return options
        how = options or ReleaseOptions()
        return replace(how, public=self.public.merged(how.public))

    power = LazyMethod("optrr.analysis.power:power")
    records_for = LazyMethod("optrr.analysis.power:records_for")
    records_for_width = LazyMethod("optrr.analysis.power:records_for_width")


@dataclass(frozen=True, eq=False, repr=False)
class Design(Labelled, FullRecords, TableResult):
    """A mechanism with its accuracies, total ε, lower bound and certificate.

    Converts to a table of its attributes.

    Parameters
    ----------
    domain
        The attributes.
    solution
        The problem, the noise distribution that solves it, and its certificate.
    earlier
        Releases of the same respondents that it follows, such as the one its clusters were learned from.
    public
        Non-randomized columns beside the attributes.

    Examples
    --------
    >>> import optrr
    >>> design = optrr.design({"smokes": ["no", "yes"], "drinks": ["no", "yes"]}, 1.0)
    >>> design.epsilon < design.kronecker_epsilon, design.attribute_epsilons.round(6).tolist()
    (True, [1.0, 1.0])
    """

    domain: Domain
    solution: Solution
    earlier: tuple[Release, ...] = ()
    public: PublicColumns = NONE

    file_format = DESIGN
    for_devices = LazyMethod("optrr.devices.export:fitted_deployment")
    in_summary = ("epsilon", "epsilon_in_all", "lower_bound", "gap", "method", "kronecker_epsilon", "warnings")

    def __post_init__(self) -> None:
        self.public.apart_from(self.domain)
        if not np.array_equal(self.domain.sizes, self.solution.problem.sizes):
            raise InvalidInput("the solution is for other sizes than the domain's; design for this domain")

    def headline(self) -> str:
        """Summarize total, bound, method and number of attributes.

        A baseline's bound is left out, because it claims no optimality.
        """
        baseline = self.solution.status is Status.BASELINE
        bound = ", not claimed to be the smallest" if baseline else f" >= {bound_text(self.lower_bound)}"
        return (
            f"total epsilon {epsilon_text(self.epsilon)}{bound}, independent RR "
            f"{epsilon_text(self.kronecker_epsilon)}, {amount(self.domain.m, 'attribute')}, method {self.method}"
            + (f"; {epsilon_text(self.epsilon_in_all)} in all with earlier releases" if self.earlier else "")
        )

    @property
    def epsilon_in_all(self) -> float:
        """Total ε in nats including earlier releases, rounded up.

        For a respondent who took part in all of them.
        """
        return total_epsilon((*self.earlier, Release.of(self)))

    def beside(self, public: PublicColumns) -> Design:
        """Return the design with these public columns."""
        return replace(self, public=public) if public else self

    @property
    def budgets(self) -> list[tuple[str, float, float]]:
        """Name, attribute ε and conditional ε of each attribute."""
        each = self.attribute_epsilons.tolist(), self.conditional_epsilons.tolist()
        return list(zip(self.domain.names, *each, strict=True))

    @property
    def queries(self) -> tuple[Query, ...]:
        """One query about the whole record; each attribute is kept or replaced."""
        parts = zip(self.domain, self.attribute_epsilons.tolist(), strict=True)
        return (
            Query(1.0, tuple(ReportPart((a.name,), 1, a.size, 1 / (1 + (a.size - 1) * exp(-e))) for a, e in parts)),
        )

    def table_errors(self, tables: Sequence[tuple[str, ...]]) -> list[float]:
        """Compute :meth:`table_error` of several tables from all eigenvalues at once."""
        members = tuple(self.domain.indices(names) for names in tables)
        every = TableWorkload(self.domain.sizes, singles(self.domain.m), members, np.ones(len(members)))
        out: list[float] = every.table_errors(every.eigenvalues(self.law)).tolist()
        return out

    def to_arrow(self) -> pa.Table:
        """Convert to a table with one row per attribute.

        Columns are name, size, requested_epsilon, epsilon, conditional_epsilon.
        """
        return pa.table(
            {
                "name": list(self.domain.names),
                "size": self.domain.sizes,
                "requested_epsilon": self.requested_epsilons,
                "epsilon": self.attribute_epsilons,
                "conditional_epsilon": self.conditional_epsilons,
            }
        )

    def shown(self, most: int | None = None) -> Table:
        """Build the printed table with one row per attribute, every ε rounded up."""
        chosen = slice(0, most)
        columns = (self.requested_epsilons, self.attribute_epsilons, self.conditional_epsilons)
        rows = [
            (a.name, a.size, requested, achieved, epsilon_text(conditional, _DECIMALS))
            for a, requested, achieved, conditional in zip(
                self.domain.attributes[chosen], *(c[chosen].tolist() for c in columns), strict=True
            )
        ]
        heads = ["attribute", "categories", "requested epsilon", "attribute epsilon", "conditional epsilon"]
        more = self.domain.m - len(rows)
        return Table(heads, rows, note=f"… and {amount(more, 'more attribute')}" if more else "")

    def sentences(self) -> list[str]:
        """State the most attenuated pair."""
        if self.faintest_pair is None:
            return []
        ratio, first, second = self.faintest_pair
        turned = "; negative: its sign is reversed, which estimates correct" if ratio < 0 else ""
        return [
            f"most attenuated pair {first} × {second}: it keeps {ratio:.4f} of its association under independent "
            f"randomized response{turned}"
        ]

    def plot(self) -> Figure:
        """Plot attribute ε and conditional ε as bars, beside the total."""
        figure = new_figure(PAGE_WIDTH, 1.4 + 0.4 * self.domain.m)
        axes = figure.subplots()
        places = np.arange(self.domain.m)
        axes.barh(places - 0.2, self.attribute_epsilons, 0.36, color=COLOURS[0], label="attribute (accuracy)")
        axes.barh(places + 0.2, self.conditional_epsilons, 0.36, color=COLOURS[1], label="conditional (others known)")
        axes.axvline(self.epsilon, color=COLOURS[5], linewidth=1, label="total")
        axes.set_yticks(places, [label_text(name) for name in self.domain.names])
        axes.invert_yaxis()
        axes.set_xlabel("epsilon, nats")
        legend_below(figure)
        return figure

    @cached_property
    def mechanism(self) -> Mechanism:
        """The mechanism to randomize with."""
        return Mechanism(self.domain, self.law)

    @property
    def law(self) -> Law:
        """Probability of each change set."""
        return self.solution.law

    @property
    def method(self) -> str:
        """The solver that produced the law."""
        return self.solution.method

    @property
    def name(self) -> str:
        """The method."""
        return self.method

    @property
    def lower_bound(self) -> float:
        """Lower bound of the total ε of any mechanism with these requirements, in nats.

        See :func:`requirements`.
        """
        return self.solution.lower

    @property
    def gap(self) -> float:
        """Total ε minus lower bound, in nats."""
        return self.epsilon - self.lower_bound

    @property
    def requested_epsilons(self) -> FloatArray:
        """Requested ε_i in nats, shape (m,)."""
        return self.solution.problem.epsilons

    @property
    def kronecker_epsilon(self) -> float:
        """Total Σ ε_i of independent randomized response per attribute, in nats."""
        return self.solution.problem.kronecker_epsilon

    @cached_property
    def faintest_pair(self) -> tuple[float, str, str] | None:
        """Most attenuated pair: λ_ij/(λ_i λ_j) nearest to 0, and two names.

        None for one attribute or more than 64.

        λ_i is that of the *requested* ε_i, so that the ratio compares with independent randomized response at the same
        request: preserved pairs have at least kappa, although an attribute that is more accurate than requested has a
        larger λ_i. A table's error grows as the ratio nears 0 from either side; a negative one reverses the
        association's sign, which estimates correct.
        """
        ratio = self.pair_visibilities
        if ratio is None:
            return None
        i, j = np.triu_indices(self.domain.m, 1)
        visible = np.abs(ratio[i, j])
        # the first of equal pairs, whatever the rounding
        k = int(np.argmax(visible <= visible.min() + _EQUAL))
        return float(ratio[i[k], j[k]]), self.domain.names[i[k]], self.domain.names[j[k]]

    @cached_property
    def pair_visibilities(self) -> FloatArray | None:
        """λ_ij/(λ_i λ_j) of every pair, shape (m, m), NaN on the diagonal.

        None for one attribute or more than 64.

        λ_i is that of the *requested* ε_i; 1 is what randomizing each attribute on its own would show.
        """
        if not 2 <= self.domain.m <= MAX_PAIRS_REPORTED:
            return None
        requested = self.solution.problem.eigenvalues
        ratio = np.asarray(self.law.pair_eigenvalues() / np.outer(requested, requested))
        np.fill_diagonal(ratio, np.nan)
        return ratio

    def plot_pairs(self) -> Figure:
        """Plot each pair's eigenvalue ratio relative to independent RR.

        Darker is more; red marks a reversed sign.

        Raises InvalidInput for one attribute, or more than 64.
        """
        ratio = self.pair_visibilities
        if ratio is None:
            raise InvalidInput(f"{self.domain.m} attributes have no chart of pairs; 2 to {MAX_PAIRS_REPORTED} have one")
        lower = np.where(np.tri(self.domain.m, k=-1, dtype=bool), ratio, np.nan)[1:, :-1]
        numbered = self.domain.m <= _MOST_NUMBERED
        texts = np.array(
            [[f"{v:.2f}" if numbered and np.isfinite(v) else "" for v in row] for row in lower], dtype=object
        )
        most = float(max(1.0, np.nanmax(np.abs(lower))))
        said = "eigenvalue ratio of the pair, 1 under independent randomized response"
        shading = Shading(lower, texts, said, (-most, most), "RdBu")
        return heat_figure(("", ""), (self.domain.names[1:], self.domain.names[:-1]), shading)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for users of this design, one line each."""
        out = [*([self.public.warning()] if self.public else []), *solution_warnings(self)]
        categories = int(self.domain.sizes.sum())
        if categories > _MANY_CATEGORIES:
            out.append(
                f"a design file lists every category: {categories} here, some {categories * _CATEGORY_BYTES / 1e6:.0f} MB; "
                "merge categories, or declare ranges, if they need not be distinguished"
            )
        if self.law.automaton is None:
            lost = float(np.max(self.law.attribute_epsilons() - self.attribute_epsilons))
            out.append(
                f"{_NO_AUTOMATON}; that costs an attribute {lost:.2g} nats of accuracy"
                if lost > FELT
                else _NO_AUTOMATON
            )
        faint = self.faintest_pair
        if faint is not None and abs(faint[0]) < FAINT:
            out.append(
                f"the association of {faint[1]!r} and {faint[2]!r} keeps only {abs(faint[0]):.3g} of its strength "
                "under independent randomized response at the requested epsilons; if you need its table, "
                f"{_how_to_keep(self, faint[1], faint[2])}"
            )
        return tuple(out)

    def summary(self) -> dict[str, Any]:
        """Return the JSON object.

        Total, bound, gap, and per attribute requested, achieved and conditional ε.
        """
        out = TableResult.summary(self) | {
            "status": str(self.solution.status),
            "seconds": self.solution.seconds,
            "attributes": self.to_arrow().to_pylist(),
        }
        if self.faintest_pair is not None:
            ratio, a, b = self.faintest_pair
            out["pairs"] = {"min_eigenvalue_ratio": ratio, "attributes": [a, b]}
        if self.public:
            out["public"] = self.public.summary()
        return out


def requirements(design: Design) -> str:
    """Describe the requirements for which a design's lower bound holds.

    Accuracies, pairs and caps.
    """
    problem = design.solution.problem
    capped = problem.caps is not None and np.isfinite(problem.caps).any()
    words = ["accuracies", *(["preserved pairs"] if problem.pairs else []), *(["conditional caps"] if capped else [])]
    return " and ".join(words)


def _how_to_keep(design: Design, first: str, second: str) -> str:
    """Advise how to avoid a pair's attenuation, given the present requirements."""
    problem = design.solution.problem
    if design.solution.status is Status.BASELINE:
        return "use ``method='auto'`` and ``preserve='pairs'``"
    if (design.domain.index(first), design.domain.index(second)) in problem.pairs:
        return f"raise kappa, which is {problem.kappa:g}"
    if problem.pairs:
        return "name it among the pairs to preserve"
    return "use ``preserve='pairs'``"


def solution_warnings(design: Design) -> tuple[str, ...]:
    """List warnings about the solution, one line each."""
    out = list(design.solution.notes)
    if design.solution.status is Status.BASELINE:
        out.append(f"method {design.method!r} is a baseline, not certified: {_where_the_optimum_is(design)}")
    elif design.solution.status is Status.BRACKETED:
        out.append(f"stopped early: the optimum is only known to lie within {design.gap:.3g} nats below this total")
    return tuple(out)


def _where_the_optimum_is(design: Design) -> str:
    if shortfalls(design.solution.problem, design.law).any():
        least = bound_text(design.lower_bound, 4)
        return f"the design does not reach the requested epsilons; with them the total is at least {least} nats"
    return f"the optimum lies between {bound_text(design.lower_bound, 4)} and {epsilon_text(design.epsilon, 4)} nats"
