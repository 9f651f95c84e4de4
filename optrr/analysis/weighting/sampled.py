"""Randomized records with their public columns: each one's cell, weight, cluster within its stratum, and group."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optrr.core.domain import Domain, PublicColumns, shown
from optrr.core.errors import InvalidInput
from optrr.core.estimation import warn_of_records
from optrr.core.mechanisms import Randomizer, checked_mechanism
from optrr.core.provenance import Origin
from optrr.core.records import Counts, FrameCodec, PublicNames, checked_columns, open_source, origins_of, public_weights
from optrr_solvers.arrays import FloatArray, IntArray

# A group by the values of its columns, None if one is missing.
Label = tuple[str | None, ...]


@dataclass(frozen=True, eq=False)
class SampledRecords:
    """n records over a table's ``domain`` with their public columns.

    ``origins`` are the provenance notes of the files.

    ``cells`` (n,) are the cells of the reports, last attribute fastest; ``weights`` (n,) at least 0, not all 0, and all 1 where
    there is no column of weights; ``clusters`` (n,) which of the C clusters each is in, its own where there is no column of
    clusters; ``strata`` (C,) which of the H strata each cluster is in; ``groups`` (n,) which of the ``labels`` each is in.
    """

    domain: Domain
    cells: IntArray
    weights: FloatArray
    clusters: IntArray
    strata: IntArray
    groups: IntArray
    labels: tuple[Label, ...]
    origins: tuple[Origin, ...] = ()

    @property
    def n(self) -> int:
        """Number of records."""
        return int(self.cells.size)

    def by_group(self) -> list[tuple[Label, IntArray]]:
        """List every group with positive weight and its records."""
        order = np.argsort(self.groups, kind="stable")
        order = order[self.weights[order] > 0]
        starts = np.searchsorted(self.groups[order], np.arange(len(self.labels) + 1))
        pairs = zip(self.labels, starts, starts[1:], strict=False)
        return [(label, order[start:stop]) for label, start, stop in pairs if stop > start]

    def counts(self) -> Counts:
        """Count the reports of every cell without weights."""
        table = np.bincount(self.cells, minlength=int(np.prod(self.domain.sizes)))
        return Counts(self.domain, table.reshape(tuple(self.domain.sizes)), self.origins)


def read_sample(data: Any, domain: Domain, columns: PublicColumns) -> SampledRecords:
    """Read records over a table's attributes with their public columns.

    One pass, about 40 bytes of memory per record.

    ``data`` is what :func:`optrr.count` takes, with named columns. Clusters are numbered within strata: the same name
    in two strata means two clusters. ``columns.group`` are the columns that groups are made of.

    Raises InvalidInput for columns that are not there, weights that are no numbers of at least 0, strata or clusters that are
    missing, and what counting refuses.
    """
    columns.apart_from(domain)
    origins = tuple(origins_of(data))
    source = open_source(data, domain)
    wanted = Domain((*domain, *Domain.of(dict.fromkeys(columns.names, 2)))) if columns else domain
    checked_columns(source.column_names(), wanted, None)
    codec: FrameCodec | None = None
    cells, weights = [], []
    stratum, cluster = PublicNames(columns.stratum), PublicNames(columns.cluster)
    group = [PublicNames(name) for name in columns.group]
    for batch in source.batches([*domain.names, *columns.names]):
        attributes = batch.select(list(domain.names))
        codec = codec or FrameCodec(domain, attributes.schema)
        start = codec.records
        codes = codec.encode(attributes)
        cells.append(np.ravel_multi_index(tuple(codes.T), tuple(domain.sizes)))
        weights.append(public_weights(batch, columns.weight, start))
        for names in (stratum, cluster, *group):
            names.add(batch, start, missing=names in group)
    if codec is None or not codec.records:
        raise InvalidInput("the data contains no records; give at least one")
    each = np.concatenate(weights)
    if not each.sum() > 0:
        raise InvalidInput(f"column {shown(str(columns.weight))}: every weight is 0; give weights above 0")
    within = np.arange(each.size) if columns.cluster is None else cluster.codes()
    pairs, clusters = np.unique(np.stack([stratum.codes(), within]), axis=1, return_inverse=True)
    labels, groups = _crossed(group, each.size)
    return SampledRecords(domain, np.concatenate(cells), each, clusters.ravel(), pairs[0], groups, labels, origins)


def sample_of(
    data: Any, mechanism: Randomizer, attributes: str | Iterable[str], columns: PublicColumns
) -> SampledRecords:
    """Read some of the mechanism's attributes with public columns.

    Warns as :func:`warn_of_records` does.
    """
    domain = checked_mechanism(mechanism).domain
    sample = read_sample(data, domain.subset(attributes), columns.apart_from(domain))
    warn_of_records([sample.counts()], mechanism)
    return sample


def _crossed(columns: Sequence[PublicNames], n: int) -> tuple[tuple[Label, ...], IntArray]:
    """Find the combinations of the groups' columns, sorted, missing last."""
    rows, which = np.unique(
        np.stack([c.codes() for c in columns] or [np.zeros(n, dtype=np.int64)]), axis=1, return_inverse=True
    )
    texts = [c.texts for c in columns]
    labels = [tuple(names[k] for names, k in zip(texts, row, strict=False)) for row in rows.T.tolist()]
    order = sorted(range(len(labels)), key=lambda k: [_rank(text) for text in labels[k]])
    return tuple(labels[k] for k in order), np.argsort(order)[which.ravel()]


def _rank(text: str | None) -> tuple[bool, float, str]:
    try:
        return text is None, float(text or ""), ""
    except ValueError:
        return text is None, np.inf, text or ""
