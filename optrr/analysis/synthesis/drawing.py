"""Synthetic records from randomized ones, and their closeness to the direct estimates."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optrr.analysis.loglinear.fitting import Terms
from optrr.analysis.synthesis.laws import (
    KeptTables,
    affordable,
    all_pairs,
    candidates,
    check_affordable,
    drawn,
    every_record,
    likeliest,
    likeliest_again,
    product,
    proper_pairs,
    raked,
    sums,
    with_margins,
)
from optrr.core.display import Table, TableResult, amount, crossed, interval_figure
from optrr.core.domain import Attribute, Domain
from optrr.core.errors import InvalidInput
from optrr.core.estimation import check_confidence, check_records, estimate, norm, warn_of_records
from optrr.core.mechanisms import Randomizer, checked_mechanism
from optrr.core.provenance import SyntheticNote
from optrr.core.records import Counts, count, count_many
from optrr_solvers.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Closeness:
    """Comparison of a synthetic table with its estimate from randomized records.

    ``within`` of its ``cells`` lie in the direct estimate's intervals, and none is further from it than
    ``largest_difference``. ``kept`` is the proportion of the association that the records have: the departure of their
    table from independence in the direction of the unbiased estimate, over that of the estimate. An effect in an
    additive model shrinks about as much as its pair. ``covered`` is the approximate coverage of a proportion's interval
    that treats the records of one set as people, on average over the cells.
    """

    attributes: tuple[str, ...]
    cells: int
    within: int
    largest_difference: float
    kept: float
    covered: float = nan

    @property
    def name(self) -> str:
        """Compared attributes, as text."""
        return " × ".join(self.attributes)


def table_closeness(  # noqa: PLR0913 (what is compared, with what, and how)
    codes: IntArray, domain: Domain, counts: Counts, mechanism: Randomizer, confidence: float, sets: int
) -> Closeness:
    """Compare a table of the records (N, m) of all sets with its direct estimate."""
    direct = estimate(counts, mechanism, confidence=confidence)
    table = count(codes, domain, counts.domain.names).proportions
    inside = (direct.lower <= table) & (table <= direct.upper)
    difference = float(np.abs(table - direct.estimate).max())
    known = direct.standard_error > 0
    halves = norm.isf((1 - confidence) / 2) * np.sqrt(table * (1 - table) * sets / len(codes))
    chances = 2 * norm.cdf(halves[known] / direct.standard_error[known]) - 1
    covered = float(chances.mean()) if known.any() else nan
    share = kept(table, direct.estimate)
    return Closeness(counts.domain.names, table.size, int(inside.sum()), difference, share, covered)


def kept(table: FloatArray, unbiased: FloatArray) -> float:
    """Compute the proportion of dependence that a table keeps; 1 without any.

    By least squares against the unbiased table's departure from independence.
    """
    has, wanted = (each - product([sums(each, axis) for axis in range(each.ndim)]) for each in (table, unbiased))
    square = float(np.sum(wanted**2))
    return max(float(np.sum(has * wanted)) / square, 0.0) if square > 0 else 1.0


# With fewer cells inside their intervals than this, the model does not do.
ENOUGH = 0.9
# The column that says which of several sets a record belongs to.
SET = "synthetic_set"


@dataclass(frozen=True, eq=False, repr=False)
class Synthetic(TableResult):
    """Synthetic records: ``codes`` (sets · n, m) over ``domain``, set after set.

    ``n`` is the number of randomized records that they come from, ``confidence`` that of the intervals that they are
    compared with: ``pairs``, and the ``margins`` to keep in addition, including those for regressions. ``shrunk``
    states that pair tables were shrunk towards independence. ``missing`` has a sentence for each interaction that could
    not be kept.
    """

    domain: Domain
    codes: IntArray
    n: int
    confidence: float
    pairs: tuple[Closeness, ...]
    note: SyntheticNote
    margins: tuple[Closeness, ...] = ()
    shrunk: bool = True
    missing: tuple[str, ...] = ()

    in_summary = ("n", "sets", "confidence", "within", "kept", "covered", "pairs", "margins", "warnings")

    @property
    def sets(self) -> int:
        """Number of data sets."""
        return self.note.sets

    @property
    def within(self) -> float:
        """Share of all pairs' cells inside the estimates' intervals."""
        return sum(p.within for p in self.pairs) / sum(p.cells for p in self.pairs)

    @property
    def covered(self) -> float:
        """Approximate coverage of naive intervals of pairs' proportions.

        Naive intervals treat one set's records as people.
        """
        return float(np.average([p.covered for p in self.pairs], weights=[p.cells for p in self.pairs]))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for recipients of the records."""
        lines = [self._errors]
        if self.shrunk:
            least = min(self.pairs, key=lambda p: p.kept)
            lines.append(
                f"associations are pulled towards 0: the median pair keeps {self.kept:.0%} of its association in the "
                f"randomized records, {least.name} {least.kept:.0%}, and an effect in an additive model shrinks about "
                "as much as its pair; name the tables to keep (margins), or take effects from the randomized records "
                "(regress, measure)"
            )
        if self.within < ENOUGH:
            lines.append(
                f"only {self.within:.0%} of the cells of pairs lie within the estimates' intervals; synthesize fewer attributes"
            )
        return (*lines, *self.missing)

    @property
    def kept(self) -> float:
        """Proportion of its association that the median pair keeps."""
        return float(np.median([p.kept for p in self.pairs]))

    @property
    def _errors(self) -> str:
        """Validity of standard errors that are computed from these records."""
        wrong = (
            f"these records are drawn from a model of the estimates: {100 * self.confidence:g}% intervals that treat "
            f"them as people cover a proportion of a pair in about {self.covered:.0%} of surveys"
        )
        if self.sets == 1:
            return (
                f"{wrong}; take errors from the randomized records (estimate, test, regress), or draw several sets and combine "
                "them"
            )
        return f"{wrong}; compute each number from every set and combine them (``combine``). {NOT_KEPT}"

    def headline(self) -> str:
        """Summarize the records and their closeness to the estimates."""
        share = f"{self.within:.1%} of the cells of pairs within {100 * self.confidence:g}% intervals"
        share += f", {self.kept:.0%} of the median pair's association kept"
        several = f" in {self.sets} sets" if self.sets > 1 else ""
        return f"{amount(len(self.codes), 'synthetic record')}{several} of {self.domain.m} attributes, {share}"

    def tables_shown(self, most: int | None = None) -> list[Table]:
        """List tables of closeness; the records are in :meth:`to_arrow`."""
        compared = (("pairs", self.pairs), ("tables that are kept", self.margins))
        heads = ["attributes", "cells", "within intervals", "largest difference", "association kept"]
        return [
            Table(heads, [[c.name, c.cells, c.within, c.largest_difference, c.kept] for c in each[:most]], title)
            for title, each in compared
            if each
        ]

    def sentences(self) -> list[str]:
        """Explain the columns of the tables."""
        return [
            f"within intervals: cells of the records in the estimate's {100 * self.confidence:g}% intervals; largest "
            "difference: of a proportion from its estimate; association kept: departure from independence in the direction of "
            "the estimate, over that of the estimate"
        ]

    def to_arrow(self) -> "pa.Table":
        """Convert the records to a table with one column per attribute.

        Its metadata states that they are synthetic.

        Of several sets, the first column, ``synthetic_set``, is the number of the record's set, from 1.
        """
        import pyarrow as pa  # noqa: PLC0415 (slow to import)

        columns = {a.name: _values(a).take(pa.array(self.codes[:, i])) for i, a in enumerate(self.domain)}
        if self.sets > 1:
            number = np.repeat(np.arange(1, self.sets + 1), len(self.codes) // self.sets)
            columns = {SET: pa.array(number), **columns}
        return pa.table(columns).replace_schema_metadata(self.note.metadata())

    def to_pandas(self) -> Any:
        """Convert the records to a pandas data frame, marked in its ``attrs``."""
        out = super().to_pandas()
        out.attrs.update(self.note.metadata())
        return out

    def each_set(self) -> Iterator[Any]:
        """Iterate over the sets as pandas data frames of the attributes alone.

        Statistics of each set are combined afterwards.
        """
        frame = self.to_pandas()
        size = len(frame) // self.sets
        for k in range(self.sets):
            yield frame.iloc[k * size : (k + 1) * size].drop(columns=SET, errors="ignore").reset_index(drop=True)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the records to a CSV or Parquet file, completely or not at all.

        The file states that they are synthetic.
        """
        from optrr.core.records import released_file  # noqa: PLC0415 (readers and writers are slow to import)

        table = self.to_arrow()
        with released_file(Path(path), table.schema.remove_metadata(), self.note) as writer:
            writer.write(table.to_batches())

    def summary(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"records": len(self.codes), "attributes": list(self.domain.names), **super().summary()}

    def plot(self) -> "Figure":
        """Plot the kept proportion of association of each pair and further table."""
        compared = (*self.pairs, *self.margins)
        names, none = [each.name for each in compared], np.full(len(compared), np.nan)
        return interval_figure(names, [each.kept for each in compared], (none, none), "association kept")


def _values(attribute: Attribute) -> "pa.Array":
    """Convert categories to an array; null for the missing value.

    Numbers or truth values if all are, else texts.
    """
    import pyarrow as pa  # noqa: PLC0415 (as above)

    kinds = {type(c) for c in attribute.categories if c is not None}
    alike = len(kinds) == 1 or kinds <= {int, float}
    return pa.array(attribute.categories if alike else attribute.texts)


# Said of several sets.
NOT_KEPT = (
    "Combined intervals hold for pairs, additive effects and the tables that are kept; interactions of three "
    "attributes or more that are "
    "not kept are not in the records (measured: 0.1% of 95% intervals held such an interaction, 96% where it was kept)"
)
# Codes of so many records of some attributes: 800 MB at a hundred attributes.
MOST_RECORDS = 10**6


def synthesize(  # noqa: PLR0913 (each argument is one question a user answers)
    data: Any,
    mechanism: Randomizer,
    attributes: str | Iterable[str] | None = None,
    *,
    margins: str | Iterable[str | Sequence[str]] = (),
    sets: int = 1,
    n: int | None = None,
    random_state: int | np.random.Generator | None = None,
    confidence: float = 0.95,
) -> Synthetic:
    """Draw synthetic records with the tables estimated from randomized records.

    The tables are all pairs and further ones requested.

    They are drawn from the log-linear model of all pairs and of the tables to keep, so other interactions of three
    attributes or more are missing. Without tables to keep, the pair tables of one set are shrunk towards independence
    by their proportion of noise. The tables to keep are kept as they are estimated, and so are all pairs if there are
    several sets, or if the model with these tables is small enough to be fitted to the table of all attributes.
    Computations from randomized records consume no further ε.

    Parameters
    ----------
    data
        randomized records, as :func:`optrr.count` takes them.
    attributes
        all of the mechanism's unless given; at least two.
    margins
        regressions and tables beyond pairs: formulas such as "income ~ sex + age", tables such as "sex*age*income", or
        tuples of names.
    sets
        number of data sets, each of ``n`` records, for intervals (:func:`optrr.analysis.combine`): 20 do for most purposes.
    n
        number of records, at most a million in all sets; as many as there are randomized ones unless given.
    random_state
        Seed or generator of the draw.
    confidence
        Confidence of the estimates' intervals that the records are compared with.

    Raises
    ------
    InvalidInput
        for one attribute, fewer than two records, or another size; for tables that cannot be parsed or kept; for
        several sets of more attributes than the model can be fitted to. SingularMarginal naming a table that the
        mechanism hides.
    """
    check_confidence(confidence)
    known = checked_mechanism(mechanism).domain
    domain = known if attributes is None else known.subset(attributes)
    wanted = KeptTables.of(margins, domain, mechanism)
    whole = bool(wanted.margins) and affordable(wanted.terms)
    if sets != 1:
        if not isinstance(sets, int | np.integer) or sets < 1:
            raise InvalidInput(f"``sets``: {sets!r}; give a whole number of data sets, such as 20")
        if SET in domain.names:
            raise InvalidInput(f"an attribute is called {SET!r}, which names the set of each record; rename it")
        check_affordable(wanted.terms)
        whole = True
    counts = _counted(data, known, wanted, whole)
    of_pairs = {pair: counts[domain.names[pair[0]], domain.names[pair[1]]] for pair in all_pairs(domain)}
    people = of_pairs[0, 1].n
    check_records(people)
    warn_of_records(list(of_pairs.values()), mechanism)
    each = _checked_size(people if n is None else n, sets)
    rng = np.random.default_rng(random_state)
    if whole:
        pool = every_record(domain.sizes.tolist())
        laws = [likeliest(wanted.terms, counts[domain.names], mechanism)]
        if sets > 1:
            laws = [likeliest_again(wanted.terms, laws[0], people, mechanism, rng) for _ in range(sets)]
    else:
        full = {axes: Terms.of(domain.subset(names), [names]) for axes, names in wanted.axes.items()}
        kept = {axes: likeliest(terms, counts[terms.domain.names], mechanism) for axes, terms in full.items()}
        tables = with_margins(proper_pairs(of_pairs, mechanism), kept)
        pool = candidates(tables, domain.sizes.tolist(), each, rng)
        # in order, for a systematic sample
        pool = pool[np.lexsort(pool.T[::-1])]
        laws = [raked(pool, tables)]
    codes = np.concatenate([drawn(pool, law.ravel(), each, rng) for law in laws])

    def compared(names: Sequence[str]) -> Closeness:
        return table_closeness(codes, domain, counts[tuple(names)], mechanism, confidence, len(laws))

    return Synthetic(
        domain=domain,
        codes=codes,
        n=people,
        confidence=confidence,
        pairs=tuple(compared(c.domain.names) for c in of_pairs.values()),
        note=SyntheticNote(mechanism.digest, people, len(laws)),
        margins=tuple(compared(names) for names in wanted.margins if len(names) > 2),
        shrunk=not whole,
        missing=tuple(_missing(wanted)),
    )


def _checked_size(n: int, sets: int) -> int:
    if not isinstance(n, int | np.integer) or not 1 <= n * sets <= MOST_RECORDS:
        of_each = f" for each of {sets} sets" if sets > 1 else ""
        raise InvalidInput(
            f"``n``: {n!r}{of_each}; give a whole number of records from 1 to {MOST_RECORDS // max(sets, 1)}"
        )
    return int(n)


def _counted(data: Any, known: Domain, wanted: KeptTables, whole: bool) -> Mapping[tuple[str, ...], Counts]:
    """Count pairs, requested tables and, if needed, the whole table in one pass."""
    names = wanted.domain.names
    pairs = [(names[i], names[j]) for i, j in all_pairs(wanted.domain)]
    tables: list[tuple[str, ...]] = list(dict.fromkeys([*pairs, *wanted.margins]))
    if not whole:
        return count_many(data, known, tables, allow_extra=True)
    joint = count_many(data, known, [names], allow_extra=True)[names]
    return {names: joint} | {each: joint.marginal(each) for each in tables}


def _missing(wanted: KeptTables) -> Iterator[str]:
    for names in wanted.hidden:
        yield (
            f"the mechanism hides the interaction {crossed(names)}, so that these records do not have it; additive effects "
            "need pairs of the outcome and the table of the predictors"
        )
