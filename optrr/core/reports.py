"""Reports: randomized records, bound to the design that they were randomized by, and every analysis of them.

    reports = optrr.reports("out.parquet", design)      or design.reports(frame)
    reports.table("sex", "income")                      proportions, for groups or with weights
    reports.measure("odds-ratio", "sex", "income")      two attributes compared; one number of a table
    reports.proportion({"income": ">50K"}, where={"sex": "F"})   in a sub-population; contrast(…): sums of them
    reports.quantiles("age", [0.25, 0.5, 0.75])         medians and other quantiles
    reports.test("sex", "income", given="age")          a hypothesis; tests([…]): a family of them
    reports.model("sex*income + age")                   a log-linear model
    reports.regress("income ~ age + sex")               a regression
    reports.synthesize(1000)                            synthetic records
    reports.cluster(50, 0.1)                            attributes that depend on each other, and a design for them
    reports.collapsed(0.01).table("race", "income")     the same with rare categories collapsed

:data:`ANALYSES` lists these methods. Each is a function whose first argument is the reports; it is imported when the method is
first used. A line in the list adds an analysis.

Answers to local queries (:class:`optrr.SampledTables`) are no records, but every table that they cover is estimated with its
noise distribution, so that tables, measures, tests and models are the same calls; what needs records is refused.

Doubts about the records are a Python warning of each analysis (:class:`optrr.OptrrWarning`). Weights, strata and sampling units
that the design, the release or ``sample`` names are taken into account by tables, measures of two attributes, proportions,
contrasts, quantiles, regressions and tests of independence, unless ``sample="ignore"``; other analyses warn that they ignore
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from optrr.core.domain.arguments import GivenSample, LonelyPsu, Sample
from optrr.core.domain.public import NONE, PublicColumns
from optrr.core.errors import InvalidInput, warn
from optrr.core.lazy_methods import LazyMethod
from optrr.core.records.counts import OpenedRecords

if TYPE_CHECKING:
    from optrr.core.estimation.table import EstimatedTable
    from optrr.core.mechanisms.mechanism import Mechanism
    from optrr.core.records.counts import Counts

# Every analysis: the method's name, and the function that takes the reports first.
ANALYSES = {
    "table": "optrr.analysis.tables:table",
    "tables": "optrr.analysis.tables:tables",
    "measure": "optrr.analysis.tables:measure",
    "proportion": "optrr.analysis.tables:proportion",
    "contrast": "optrr.analysis.tables:contrast",
    "quantiles": "optrr.analysis.tables:quantiles",
    "poisoning": "optrr.analysis.tables:poisoning",
    "collapsed": "optrr.analysis.collapsed:collapsed",
    "test": "optrr.analysis.hypotheses:test",
    "tests": "optrr.analysis.hypotheses:tests",
    "model": "optrr.analysis.models:model",
    "regress": "optrr.analysis.models:regress",
    "synthesize": "optrr.analysis.models:synthesize",
    "cluster": "optrr.core.protocols.clusters:cluster",
}


class Reports(OpenedRecords):
    """Randomized records with the protocol that randomized them.

    Each method of :data:`ANALYSES` is one analysis of them.

    Errors are :class:`optrr.InvalidInput`: for records of another design, for attributes that the design does not have,
    and as documented for each analysis.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"smokes": ["no", "yes"], "drinks": ["no", "yes"]}, 2.0)
    >>> true = pandas.DataFrame({"smokes": ["no", "yes"] * 500, "drinks": ["no", "yes"] * 500})
    >>> reports = optrr.reports(design.randomize(true, random_state=1), design)
    >>> [type(result).__name__ for result in (reports.table("smokes"), reports.measure("odds-ratio", "smokes", "drinks"))]
    ['Estimate', 'Measures']
    >>> reports.test("smokes", "drinks").p_value < 0.001
    True
    """

    asking: Any
    """Protocol of the reports: a design, or another (:class:`optrr.core.design.designs.Asking`)."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @property
    def of_records(self) -> bool:
        """Whether these are randomized records, and no answers to local queries."""
        return self.mechanism is not None

    @property
    def randomizer(self) -> Mechanism:
        """The mechanism of the records. Raises InvalidInput for answers to local queries."""
        if not self.of_records:
            raise InvalidInput(
                "answers to local queries have only tables, measures, tests, models and regressions; for other "
                "analyses collect whole records, with a design"
            )
        mechanism: Mechanism = self.mechanism
        return mechanism

    @property
    def place(self) -> Any:
        """The single place of the reports; raises InvalidInput for several groups."""
        return self.alone.places[0]

    @property
    def alone(self) -> Reports:
        """These reports; raises InvalidInput if they are of more than one place."""
        if len(self.given) != 1:
            raise InvalidInput(
                f"these reports were opened from {len(self.given)} places, which are groups to be compared; open a list of "
                "them to read them together"
            )
        return self

    def counted(self, attributes: str | Iterable[str]) -> Counts:
        """Count these attributes in the single place of the reports."""
        (counts,) = self.alone.counts(attributes)
        return counts

    def estimated(self, attributes: str | Iterable[str]) -> EstimatedTable:
        """Estimate the table of these attributes from records or answers."""
        from optrr.core.estimation.table import counted_table  # noqa: PLC0415 (as analyses, on first use)

        if self.of_records:
            return counted_table(self.counted(attributes), self.randomizer)
        table: EstimatedTable
        (table,) = self.once(attributes, lambda names: (self.asking.counted(self.alone, names),))
        return table

    def sampled(self, sample: GivenSample, by: Sequence[str] = ()) -> tuple[PublicColumns, LonelyPsu]:
        """Return the public columns of an analysis and its lonely PSU rule.

        Groups are included.

        Raises InvalidInput if the design and the releases disagree on a column that ``sample`` leaves open, and for
        arguments that answers to local queries do not support.
        """
        if not (sample in (None, "ignore") or isinstance(sample, Sample)):
            raise InvalidInput(f"``sample``: {sample!r} is not a sample; give optrr.Sample(weights='w'), or 'ignore'")
        if not self.of_records and (sample is not None or by):
            raise InvalidInput(
                f"``{'by' if by else 'sample'}``: answers to local queries have no public columns; leave this "
                "argument out, or collect whole records, with a design"
            )
        if sample == "ignore" or not self.of_records:
            return PublicColumns(group=tuple(by)), "refuse"
        asked = sample or Sample()
        known = self.agreed(asked.columns)
        columns = PublicColumns(known.weight, known.stratum, known.cluster, tuple(by))
        if asked.lonely_psu != "refuse" and not columns.samples:
            raise InvalidInput(
                "``lonely_psu``: no column describes the sample; leave ``lonely_psu`` out, or name a column"
            )
        return columns, asked.lonely_psu

    def warn(self, ignoring: PublicColumns | None = None) -> None:
        """Warn of collapsed categories and ignored columns.

        By default all columns of the sample.
        """
        warn([*self.collapsed_notes, *(self.public if ignoring is None else ignoring).ignored()])

    def warn_unless(self, columns: PublicColumns, sample: GivenSample) -> None:
        """Warn as :meth:`warn`, except of a sample that is used or explicitly ignored."""
        self.warn(ignoring=NONE if columns.samples or sample == "ignore" else None)


for _name, _home in ANALYSES.items():
    setattr(Reports, _name, LazyMethod(_home))
