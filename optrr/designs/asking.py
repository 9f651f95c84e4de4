"""A way of asking: what everybody is asked, what answering costs, how large the errors will be, and how answers become tables.

There is one type for all of them: people give a randomized record (:class:`optrr.Design`), answer one random table each
(:class:`optrr.SampledTables`), follow one of the papers' protocols (:mod:`optrr.ways.protocols`) or one that the field compares
with (:mod:`optrr.ways.baselines`). Allocations compare ways of asking by what this type promises:

    epsilon              what one person spends in all, of the answers as they are drawn, rounded up
    table_error(U)       V_U, an upper bound over all populations of n E‖π̂_U − π_U‖² for many people; some reach it
    perturb, estimate    the answers, and a table from them, with the error that is promised
    optrr.save           a file that both sides work from; :func:`optrr.load` reads it back
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from math import inf, prod, sqrt
from typing import TYPE_CHECKING, Any

from optrr.domain.domain import Domain
from optrr.domain.public import NONE, PublicColumns
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import SingularMarginal
from optrr.mechanisms.mechanism import FileRelease, Mechanism, ReleaseOptions, perturbed_frame
from optrr.records.reading.source import Places
from optrr.releases.account import Release

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from optrr.analyses import Reports
    from optrr.domain.public import PublicColumns
    from optrr.mechanisms.mechanism import FileRelease, Mechanism, ReleaseOptions
    from optrr.models.tests.drawn_power import PredictedPower
    from optrr.records.reading.source import Places
    from optrr.releases.account import Release
    from optrr.tables.estimation.estimator import Estimate
    from optrr.tables.estimation.impossible import CountedTable
    from optrr_solvers.randomness import RandomState


class Asking(ABC):
    """One way of asking people for the attributes of ``domain``."""

    if TYPE_CHECKING:
        # some subclasses have fields of these names and others properties, so they are declared for type checkers only
        @property
        def name(self) -> str:
            """What it is called in tables and messages."""
            ...

        @property
        def domain(self) -> Domain:
            """The attributes asked for."""
            ...

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """Total ε in nats of everything one person answers, rounded up."""

    @property
    @abstractmethod
    def keeps_records(self) -> bool:
        """Whether any table can be estimated, now or later."""

    @abstractmethod
    def table_error(self, names: str | Iterable[str]) -> float:
        """V of the table over these attributes: n E‖π̂ − π‖² is at most this for every population of many people.

        ``inf`` where the table cannot be estimated without bias.

        Raises InvalidInput for unknown or repeated attributes.
        """

    @abstractmethod
    def perturb(self, data: Any, random_state: RandomState = None) -> Any:
        """Everybody's randomized answer to records in a data frame, in its order, which no ε covers.

        None draws random bits from the operating system.
        """

    @abstractmethod
    def estimate(self, answers: Any, attributes: str | Iterable[str], confidence: float = 0.95) -> Estimate:
        """Unbiased proportions over these attributes from the answers, with standard errors and intervals.

        Raises InvalidInput for answers that this way of asking cannot give, or a table that it cannot estimate.
        """

    def reports(self, *given: Any) -> Reports:
        """What people answered, from each place or frame; opened once, whatever is made of them.

        Each is what :func:`optrr.count` takes. The same given twice, and what was asked otherwise, are refused as soon
        as something is asked of them.
        """
        from optrr.analyses import Reports  # noqa: PLC0415 (as in FullRecords)

        return Reports.of(self, *given)

    def counted(self, answers: Any, attributes: str | Iterable[str], partly: bool = False) -> CountedTable:
        """A table with the law of its estimate, for measures, tests and models, from answers that are no records.

        ``partly``: effects that no answer tells about are 0 and have no variance, instead of an error.

        Raises InvalidInput where there is none.
        """
        raise InvalidInput(f"{self.name} gives plain tables only: estimate(…)")

    @property
    def digest(self) -> str:
        """What identifies it wherever its answers go (:mod:`optrr.releases.provenance`)."""
        raise InvalidInput(f"{self.name} is for studies, and its answers are not bound to it; use a design")

    @property
    def earlier(self) -> tuple[Release, ...]:
        """Releases of the same people that this way of asking follows."""
        return ()

    @property
    def public(self) -> PublicColumns:
        """Columns that stand beside the attributes and are not randomized."""
        return NONE

    def randomize(
        self,
        data: Any,
        target: str | os.PathLike[str] | None = None,
        random_state: RandomState = None,
        **options: Any,
    ) -> Any:
        """Everybody's randomized answer: to a frame as the same kind of frame, to a file in another one.

        Parameters
        ----------
        data
            a data frame, whose index and order stay; or, with ``target``, a place of records.
        target
            the file to write, shuffled, whole or not at all; what it says of its answers is returned
            (:class:`optrr.mechanisms.mechanism.FileRelease`).
        random_state
            None draws random bits from the operating system; a seed is for studies, and marks what it drew.
        options
            of a file: ``progress``, ``drop``, ``keep_order`` and the others of
            :class:`optrr.mechanisms.mechanism.ReleaseOptions`.
        """
        if target is None:
            if options:
                raise InvalidInput(
                    f"a frame is randomized without {', '.join(options)}; name a target file, or leave it out"
                )
            return self.perturb(data, random_state)
        return self.release_file(data, target, random_state, ReleaseOptions(**options))

    def release_file(
        self,
        source: Places,
        target: str | os.PathLike[str],
        random_state: RandomState = None,
        options: ReleaseOptions | None = None,
    ) -> FileRelease:
        """The answers to the records of one file in another, as :meth:`randomize` with a ``target`` and options writes them."""
        raise InvalidInput(f"{self.name} is for studies in memory; perturb a data frame, or use a design")

    def standard_error(self, names: str | Iterable[str], n: int) -> float:
        """Root mean square over the table's cells of the standard error with ``n`` people: √(V/(n Π r_i)), at most."""
        cells = prod(self.domain.attributes[i].size for i in self.domain.indices(names))
        return sqrt(self.table_error(names) / (n * cells))


class FullRecords(Asking):
    """Everybody's whole record, randomized by one mechanism: any table can be estimated, now or later."""

    if TYPE_CHECKING:

        @property
        def mechanism(self) -> Mechanism:
            """What randomizes each record."""
            ...

    @property
    def keeps_records(self) -> bool:
        """True."""
        return True

    def table_error(self, names: str | Iterable[str]) -> float:
        """Σ_{∅≠W⊆U} c_W/λ_W² (design §3.2); ``inf`` where the mechanism hides an effect of the table."""
        # statistics take longer to import than most designs take to solve, so they come where they are used
        from optrr.tables.estimation.accuracy import expected_squared_error  # noqa: PLC0415

        try:
            return expected_squared_error(self.mechanism.kernel(names), 1)
        except SingularMarginal:
            return inf

    def perturb(self, data: Any, random_state: RandomState = None) -> Any:
        """Randomized records, as the same kind of frame; see :meth:`optrr.mechanisms.mechanism.Randomizer.perturb`.

        Public columns go through as they are.
        """
        if self.public:
            return perturbed_frame(data, self.mechanism, self.public, random_state)
        return self.mechanism.perturb(data, random_state)

    @property
    def digest(self) -> str:
        """The mechanism's."""
        digest: str = self.mechanism.digest
        return digest

    def release_file(
        self,
        source: Places,
        target: str | os.PathLike[str],
        random_state: RandomState = None,
        options: ReleaseOptions | None = None,
    ) -> FileRelease:
        """Randomize a file into another; see :func:`optrr.mechanisms.perturb.release_file`. Public columns go through."""
        from optrr.mechanisms.perturb import release_file  # noqa: PLC0415 (files bring Arrow's readers)

        return release_file(source, self.mechanism, target, random_state, self.with_public(options))

    def with_public(self, options: ReleaseOptions | None) -> ReleaseOptions | None:
        """The options of a release with the public columns that were declared, beside those that it declares itself."""
        if not self.public:
            return options
        how = options or ReleaseOptions()
        return replace(how, public=self.public.merged(how.public))

    def power(
        self, *attributes: str, truth: ArrayLike, n: float, level: float = 0.05, **hypothesis: Any
    ) -> PredictedPower:
        """The chance that a test at this level rejects where ``truth`` is true of n people.

        Raises InvalidInput for proportions of another shape, and as the test refuses. SingularMarginal where the mechanism
        hides the effect.

        Parameters
        ----------
        attributes
            that the test is about, as in :meth:`optrr.analyses.Reports.test`.
        truth
            the true proportions, an axis for each attribute, those of ``given`` last.
        hypothesis
            ``hypothesis``, ``given``, ``proportions`` and ``scores``, as there.
        """
        from optrr.analyses import chance_to_reject  # noqa: PLC0415 (as above)

        return chance_to_reject(self, attributes, truth, n, level, **hypothesis)

    def records_for(
        self, *attributes: str, truth: ArrayLike, power: float = 0.8, level: float = 0.05, **hypothesis: Any
    ) -> int:
        """How many people a test needs to reject with this chance; all else as in :meth:`power`."""
        from optrr.analyses import records_to_reject  # noqa: PLC0415 (as above)

        return records_to_reject(self, attributes, truth, power, level, **hypothesis)

    def estimate(self, answers: Any, attributes: str | Iterable[str], confidence: float = 0.95) -> Estimate:
        """The unbiased table of randomized records; :func:`optrr.estimate` has the other methods.

        Records that say they were randomized by another design, or twice, are refused, and so is a file that is given twice.
        Weights, strata and clusters among public columns are ignored, with a warning;
        :func:`optrr.tables.estimate_weighted` takes them into account.
        """
        from optrr.tables.estimation.estimator import estimate  # noqa: PLC0415 (as above)

        reports = self.reports(answers)
        twice, (counts,) = reports.twice, reports.counts(attributes)
        out = estimate(counts, self.mechanism, confidence=confidence)
        return replace(out, warnings=(*twice, *out.warnings, *reports.public.ignored()))
