"""Distinct reports of a formula's attributes, weighted or not, and the columns of its terms in each of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from optrr.analysis.regression.formulas import Predictors, Term
from optrr.analysis.weighting.linearised import Clusters, Single, WeightedReports, sample_warnings
from optrr.analysis.weighting.sampled import SampledRecords, read_sample
from optrr.core.domain import Attribute, Domain, PublicColumns, checked_codes, listed
from optrr.core.errors import InvalidInput, did_you_mean
from optrr.core.mechanisms import MAX_DENSE, Randomizer
from optrr.core.records import Counts, count, distinct, origins_of
from optrr_solvers.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from optrr.core.provenance import Origin


@dataclass(frozen=True, eq=False)
class DistinctReports:
    """Distinct reports ``codes`` (N, m), with their frequencies in B data sets.

    Of the attributes that a regression names.

    These ``numbers`` are (B, N). Attributes that are not the mechanism's are public; ``origins`` is the provenance of
    the records. ``sample`` describes the sample where the records are weighted, and then of one data set; ``numbers``
    are the proportions of the weights times the number of records.
    """

    domain: Domain
    codes: IntArray
    numbers: FloatArray
    mechanism: Randomizer
    origins: "tuple[Origin, ...]" = ()
    sample: WeightedReports | None = None

    @property
    def n(self) -> FloatArray:
        """Records, (B,)."""
        return np.asarray(self.numbers.sum(axis=1), dtype=np.float64)

    def randomized(self, names: Iterable[str]) -> tuple[str, ...]:
        """List the randomized names in the domain's order."""
        wanted = set(names)
        return tuple(n for n in self.domain.names if n in wanted and n in self.mechanism.domain.names)

    def public(self, names: Iterable[str]) -> tuple[str, ...]:
        """List the public names."""
        wanted = set(names)
        return tuple(n for n in self.domain.names if n in wanted and n not in self.mechanism.domain.names)

    def sizes(self, names: Sequence[str]) -> tuple[int, ...]:
        """List the numbers of categories."""
        return tuple(self.domain[name].size for name in names)

    def pairs(self) -> list[Counts]:
        """Count the tables of every two randomized attributes in the first data set.

        A single attribute has its own table.
        """
        names = self.randomized(self.domain.names)
        sets: list[tuple[str, ...]] = [*combinations(names, 2)] or [(name,) for name in names]
        out = []
        for each in sets:
            sizes = self.sizes(each)
            table = np.bincount(self.cells(each), weights=self.numbers[0], minlength=prod(sizes))
            out.append(Counts(self.domain.subset(each), table.astype(np.int64).reshape(sizes), self.origins))
        return out

    def cells(self, names: Sequence[str]) -> IntArray:
        """Find each report's cell in the table of these attributes, (N,)."""
        if not names:
            return np.zeros(len(self.codes), dtype=np.int64)
        columns = self.codes[:, list(self.domain.indices(names))]
        return np.asarray(np.ravel_multi_index(tuple(columns.T), self.sizes(names)))

    def groups(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Find the distinct combinations of these attributes, (G, k).

        Also returns the combination of each report, (N,).
        """
        if not names:
            return np.zeros((1, 0), dtype=np.int64), np.zeros(len(self.codes), dtype=np.int64)
        rows, which = np.unique(self.codes[:, list(self.domain.indices(names))], axis=0, return_inverse=True)
        return rows, which.ravel()


def every_combination(groups: IntArray, sizes: Sequence[int]) -> IntArray:
    """Combine every group (G, k) with every cell of the sizes.

    Returns codes (G R, k + j), groups outermost.
    """
    cells = np.stack(np.unravel_index(np.arange(prod(sizes)), sizes), axis=1) if sizes else np.zeros((1, 0), np.int64)
    return np.concatenate([np.repeat(groups, len(cells), axis=0), np.tile(cells, (len(groups), 1))], axis=1)


def read_reports(
    data: Any, mechanism: Randomizer, names: Sequence[str], public: Iterable[str | Attribute]
) -> DistinctReports:
    """Read the reports of these attributes in one data set.

    ``data`` is what :func:`optrr.count` takes, or :class:`Counts` that contain the attributes. Public attributes are declared,
    or named, and then have the values that occur.

    Raises InvalidInput for a name that is neither of the mechanism nor public, a public one that the mechanism randomizes, or
    no records.
    """
    domain = domain_of(data, mechanism, names, list(public))
    if isinstance(data, Counts):
        table = count(data, domain, domain.names).table
        codes = np.argwhere(table)
        numbers, origins = table[tuple(codes.T)], data.origins
    else:
        origins = tuple(origins_of(data))
        codes, numbers = distinct(_columns(data, mechanism, domain), domain, allow_extra=True)
    return DistinctReports(domain, codes.astype(np.int64), numbers[None].astype(np.float64), mechanism, origins)


def _columns(data: Any, mechanism: Randomizer, domain: Domain) -> Any:
    """Select the domain's columns of an array of codes; leave other data as it is."""
    if not isinstance(data, np.ndarray):
        return data
    outside = [name for name in domain.names if name not in mechanism.domain.names]
    if outside:
        raise InvalidInput(
            f"an array of codes has the design's columns only, and no {listed(outside)}; give a data frame"
        )
    return checked_codes(data, mechanism.domain)[:, list(mechanism.domain.indices(domain.names))]


def domain_of(data: Any, mechanism: Randomizer, names: Sequence[str], public: list[str | Attribute]) -> Domain:
    """Build the domain of the mechanism's and public attributes of these names.

    See :func:`read_reports`.
    """
    declared = {a.name: a for a in public if isinstance(a, Attribute)}
    named = [a for a in public if not isinstance(a, Attribute)]
    randomized = mechanism.domain.names
    both = [n for n in (*declared, *named) if n in randomized]
    if both:
        raise InvalidInput(
            f"{listed(both)} cannot be public, because this mechanism randomizes it; remove it from the public "
            "attributes"
        )
    observed = [n for n in named if n in names]
    if observed and isinstance(data, Counts):
        declared |= {n: data.domain[n] for n in observed}
    elif observed:
        from optrr.core.records import observed_domain  # noqa: PLC0415 (readers are slow to import)

        declared |= {a.name: a for a in observed_domain(data, observed)}
    out = []
    for name in names:
        if name not in randomized and name not in declared:
            known = (*randomized, *declared)
            raise InvalidInput(
                f"{name!r} is not an attribute of the design ({listed(randomized)}); if it is a column that was not "
                "randomized, "
                f"name it in ``public``{did_you_mean(name, known)}"
            )
        out.append(declared[name] if name in declared else mechanism.domain[name])
    return Domain(tuple(out))


# Doubles of the largest array: 400 MB.
MOST_DOUBLES = 5 * 10**7


@dataclass(frozen=True, eq=False)
class Columns:
    """A term's columns as tables of its randomized attributes.

    One for each group of reports with the same public attributes.

    ``values`` (G, *sizes, k), ``group`` (N,) of each report, ``places`` of the columns in the design.
    """

    randomized: tuple[str, ...]
    values: FloatArray
    group: IntArray
    places: tuple[int, ...]

    def over(self, randomized: tuple[str, ...], groups: IntArray) -> FloatArray:
        """Select the values of these groups with axes for all these attributes.

        An axis has length 1 if the term does not depend on it: (G', *sizes, k).
        """
        sizes = dict(zip(self.randomized, self.values.shape[1:], strict=False))
        shape = [sizes.get(name, 1) for name in randomized]
        return np.asarray(self.values[groups].reshape(len(groups), *shape, self.values.shape[-1]))


def columns_of(predictors: Predictors, reports: DistinctReports, term: Term) -> Columns:
    """Build a term's columns; for the offset, the values it adds."""
    randomized, public = reports.randomized(term.attributes), reports.public(term.attributes)
    groups, group = reports.groups(public)
    sizes = reports.sizes(randomized)
    check_size(len(groups) * prod(sizes) * len(predictors.labels), term.name)
    chosen = every_combination(groups, sizes)
    codes = np.zeros((len(chosen), predictors.domain.m), dtype=np.int64)
    codes[:, [predictors.domain.index(name) for name in (*public, *randomized)]] = chosen
    values = predictors.at(codes)[:, list(term.columns)] if term.columns else predictors.offset(codes)
    return Columns(randomized, values.reshape(len(groups), *sizes, -1), group, term.columns)


def outcome_column(reports: DistinctReports, outcome: str, scores: FloatArray, place: int) -> Columns:
    """Build a column of the outcome's scores."""
    if reports.randomized([outcome]):
        return Columns((outcome,), scores[None, :, None], np.zeros(len(reports.codes), dtype=np.int64), (place,))
    groups, group = reports.groups([outcome])
    return Columns((), scores[groups[:, 0]][:, None], group, (place,))


def check_size(doubles: int, what: str) -> None:
    """Refuse a table that does not fit into memory."""
    if doubles > MOST_DOUBLES:
        raise InvalidInput(
            f"{what} would take {doubles:.2g} numbers, and {MOST_DOUBLES:.2g} fit; give attributes fewer categories, or leave "
            "some out"
        )


def read_sampled(  # noqa: PLR0913 (as regress takes them)
    data: Any,
    mechanism: Randomizer,
    names: Sequence[str],
    public: Iterable[str | Attribute],
    columns: PublicColumns,
    lonely_psu: Single,
) -> tuple[DistinctReports, DistinctReports, list[str]]:
    """Read reports with a sample design: distinct ones, their weights, warnings.

    ``data`` is what :func:`optrr.analysis.estimate_weighted` takes, with its ``columns``.

    Raises InvalidInput for what :func:`read_reports` and weighted estimates refuse, a column
    that is in the formula, counts, and more distinct reports than their covariance may have.
    """
    if isinstance(data, Counts):
        raise InvalidInput(f"counts have no {columns.said()}; give the records with these columns")
    both = [name for name in columns.names if name in names]
    if both:
        raise InvalidInput(
            f"{listed(both)} describes the sample and is in the formula; give a copy of the column another name"
        )
    columns.apart_from(mechanism.domain)
    domain = domain_of(data, mechanism, names, list(public))
    sample = read_sample(data, domain, columns)
    clusters = Clusters.of(sample.strata, lonely_psu)
    counted, weighted = distinct_sampled(sample, mechanism, clusters)
    return counted, weighted, sample_warnings(columns, lonely_psu, clusters)


def distinct_sampled(
    sample: SampledRecords, mechanism: Randomizer, clusters: Clusters
) -> tuple[DistinctReports, DistinctReports]:
    """Group records of positive weight by distinct report, counted and weighted."""
    rows = np.flatnonzero(sample.weights > 0)
    seen, places = np.unique(sample.cells[rows], return_inverse=True)
    if seen.size > MAX_DENSE:
        raise InvalidInput(
            f"the formula's attributes have {seen.size} distinct reports; weighted regressions have at most {MAX_DENSE}: give "
            "attributes fewer categories, or leave some out"
        )
    cells, numbers = np.zeros_like(sample.cells), np.bincount(places.ravel())
    cells[rows] = places.ravel()
    weighted = WeightedReports.of(replace(sample, cells=cells), clusters, rows, int(seen.size))
    weighted.check_enough()
    codes = np.stack(np.unravel_index(seen, tuple(sample.domain.sizes)), axis=1).astype(np.int64)
    counted = DistinctReports(sample.domain, codes, numbers[None].astype(np.float64), mechanism, sample.origins)
    return counted, replace(counted, numbers=(weighted.n * weighted.shares)[None], sample=weighted)
