"""From randomized records to synthetic ones: pair tables, a model that has them, records drawn from it, how near they are."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optrr.domain.domain import Attribute, Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Randomizer, checked_mechanism
from optrr.records.counts import Counts, count_many
from optrr.releases.provenance import SyntheticNote
from optrr.show.charts import interval_figure
from optrr.show.result import TableResult
from optrr.show.text import amount
from optrr.tables.estimation.estimator import check_confidence, check_records, estimate
from optrr.tables.estimation.impossible import warn_of_records
from optrr.tables.synthesis.pairs import Pair, all_pairs, candidates, proper_pairs, raked
from optrr_solvers.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure


# Said of all of them.
ERRORS = (
    "these records are drawn from a model of the estimates: intervals and tests computed from them are wrong; take errors from "
    "the randomized records (estimate, test, regress)"
)
# With fewer cells inside their intervals than this, a model without interactions of three attributes does not do.
ENOUGH = 0.9


@dataclass(frozen=True)
class PairCloseness:
    """How many of a pair's ``cells`` lie ``within`` the estimate's intervals; the largest difference of shares from it.

    ``kept`` is the share of the pair's association that the records have: how far their table departs from independence in the
    direction of the unbiased estimate, over how far that does. An effect in an additive model shrinks about as much.
    """

    attributes: tuple[str, str]
    cells: int
    within: int
    largest_difference: float
    kept: float


@dataclass(frozen=True, eq=False, repr=False)
class Synthetic(TableResult):
    """Synthetic records: ``codes`` (size, m) over ``domain``; ``pairs`` compares each pair's table with the estimate's.

    ``n`` is the number of randomized records behind them, ``confidence`` that of the intervals they are compared with.
    """

    domain: Domain
    codes: IntArray
    n: int
    confidence: float
    pairs: tuple[PairCloseness, ...]
    note: SyntheticNote

    in_summary = ("n", "confidence", "within", "kept", "pairs", "warnings")

    @property
    def within(self) -> float:
        """Share of all pairs' cells inside the estimates' intervals."""
        return sum(p.within for p in self.pairs) / sum(p.cells for p in self.pairs)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever is handed the records must know."""
        if self.within >= ENOUGH:
            return (ERRORS, self._weaker)
        far = f"only {self.within:.0%} of the cells of pairs lie within the estimates' intervals; synthesize fewer attributes"
        return (ERRORS, self._weaker, far)

    @property
    def kept(self) -> float:
        """The share of its association that the median pair keeps."""
        return float(np.median([p.kept for p in self.pairs]))

    @property
    def _weaker(self) -> str:
        """By how much associations and effects are too small."""
        least = min(self.pairs, key=lambda p: p.kept)
        return (
            f"associations are pulled towards 0: the median pair keeps {self.kept:.0%} of what the randomized records show, "
            f"{' × '.join(least.attributes)} {least.kept:.0%}, and an effect in an additive model shrinks about as much as its "
            "pair; take effects from the randomized records (regress, measure)"
        )

    def headline(self) -> str:
        """How many records, of what, and how near."""
        share = f"{self.within:.1%} of the cells of pairs within {100 * self.confidence:g}% intervals"
        share += f", {self.kept:.0%} of the median pair's association kept"
        return f"{amount(len(self.codes), 'synthetic record')} of {self.domain.m} attributes, {share}"

    def to_arrow(self) -> pa.Table:
        """The records, one column per attribute; their metadata says that they are synthetic."""
        import pyarrow as pa  # noqa: PLC0415 (slow to import)

        columns = {a.name: _values(a).take(pa.array(self.codes[:, i])) for i, a in enumerate(self.domain)}
        return pa.table(columns).replace_schema_metadata(self.note.metadata())

    def to_pandas(self) -> Any:
        """The records as a pandas data frame, which says so in its ``attrs``."""
        out = self.to_arrow().to_pandas()
        out.attrs.update(self.note.metadata())
        return out

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the records to a CSV or Parquet file that says that they are synthetic, whole or not at all."""
        from optrr.records.writing import released_file  # noqa: PLC0415 (readers and writers are slow to import)

        table = self.to_arrow()
        with released_file(Path(path), table.schema.remove_metadata(), self.note) as writer:
            for batch in table.to_batches():
                writer.write(batch)

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object."""
        return {"records": len(self.codes), "attributes": list(self.domain.names), **super().summary()}

    def plot(self) -> Figure:
        """The share of its association that each pair keeps."""
        names, none = [" × ".join(pair.attributes) for pair in self.pairs], np.full(len(self.pairs), np.nan)
        return interval_figure(names, [pair.kept for pair in self.pairs], (none, none), "association kept")


def _values(attribute: Attribute) -> pa.Array:
    """Categories by code: numbers or truth values where all are, else texts; null for the missing value."""
    import pyarrow as pa  # noqa: PLC0415 (as above)

    kinds = {type(c) for c in attribute.categories if c is not None}
    alike = len(kinds) == 1 or kinds <= {int, float}
    return pa.array(attribute.categories if alike else attribute.texts)


def closeness(codes: IntArray, pair: tuple[int, int], names: tuple[str, str], estimate: Any) -> PairCloseness:
    """One pair's table of the records beside its estimate."""
    shape = estimate.proportions.shape
    table = np.bincount(codes[:, pair[0]] * shape[1] + codes[:, pair[1]], minlength=shape[0] * shape[1]) / len(codes)
    inside = (estimate.lower.ravel() <= table) & (table <= estimate.upper.ravel())
    difference = float(np.abs(table - estimate.proportions.ravel()).max())
    return PairCloseness(
        names, table.size, int(inside.sum()), difference, kept(table.reshape(shape), estimate.proportions)
    )


def kept(table: FloatArray, unbiased: FloatArray) -> float:
    """The share of an unbiased pair table's departure from independence that a table has (least squares); 1 without one."""
    has, wanted = (each - np.outer(each.sum(axis=1), each.sum(axis=0)) for each in (table, unbiased))
    square = float(np.sum(wanted**2))
    return max(float(np.sum(has * wanted)) / square, 0.0) if square > 0 else 1.0


# Codes of so many records of some attributes: 800 MB at a hundred attributes.
MOST_RECORDS = 10**6


def synthesize(  # noqa: PLR0913 (each argument is one question a user answers)
    data: Any,
    mechanism: Randomizer,
    attributes: str | Iterable[str] | None = None,
    *,
    size: int | None = None,
    random_state: int | np.random.Generator | None = None,
    confidence: float = 0.95,
) -> Synthetic:
    """Synthetic records whose pair tables are those estimated from randomized records.

    They are drawn from the log-linear model of all pairs, so interactions of three attributes that follow from no pair are
    missing. What is computed from randomized records costs nobody any further ε.

    Parameters
    ----------
    data
        randomized records, as :func:`optrr.count` takes them.
    attributes
        all of the mechanism's unless given; at least two.
    size
        number of records, at most a million; as many as there are randomized ones unless given.
    random_state
        for the draw.
    confidence
        of the estimates' intervals that the records' pair tables are compared with.

    Raises
    ------
    InvalidInput
        for one attribute, fewer than two records, or another size. SingularMarginal naming a pair that the mechanism hides.
    """
    check_confidence(confidence)
    known = checked_mechanism(mechanism).domain
    domain = known if attributes is None else known.subset(attributes)
    pairs = all_pairs(domain)
    named = {pair: (domain.names[pair[0]], domain.names[pair[1]]) for pair in pairs}
    counted = count_many(data, known, list(named.values()), allow_extra=True)
    counts: dict[Pair, Counts] = {pair: counted[names] for pair, names in named.items()}
    n = counts[pairs[0]].n
    check_records(n)
    warn_of_records(list(counts.values()), mechanism)
    wanted = n if size is None else size
    if wanted != int(wanted) or not 1 <= wanted <= MOST_RECORDS:
        raise InvalidInput(f"size = {wanted}; give a whole number of records from 1 to {MOST_RECORDS}")
    tables, rng = proper_pairs(counts, mechanism), np.random.default_rng(random_state)
    pool = candidates(tables, tuple(map(int, domain.sizes)), int(wanted), rng)
    # a systematic sample of the candidates in order: records that are alike come as often as they should, to a record
    pool = pool[np.lexsort(pool.T[::-1])]
    steps = np.cumsum(raked(pool, tables))
    places = np.searchsorted(steps, (np.arange(int(wanted)) + rng.random()) / int(wanted) * steps[-1])
    codes = rng.permutation(pool[np.minimum(places, len(pool) - 1)])
    each = [
        closeness(codes, pair, named[pair], estimate(c, mechanism, confidence=confidence)) for pair, c in counts.items()
    ]
    note = SyntheticNote(mechanism.digest, n)
    return Synthetic(domain, codes, n, confidence, tuple(each), note)
