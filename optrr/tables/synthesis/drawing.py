"""From randomized records to synthetic ones: pair tables, a model that has them, records drawn from it, how near they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from optrr.errors import InvalidInput
from optrr.mechanisms.randomizer import Randomizer, checked_mechanism
from optrr.records.counts import Counts, count_many
from optrr.releases.provenance import SyntheticNote
from optrr.tables.estimation.estimator import estimate
from optrr.tables.estimation.impossible import warn_of_records
from optrr.tables.estimation.result import check_confidence, check_records
from optrr.tables.synthesis.pairs import Pair, all_pairs, proper_pairs
from optrr.tables.synthesis.raking import candidates, raked
from optrr.tables.synthesis.result import Synthetic, closeness

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
    counted = count_many(data, known, [_named(domain.names, pair) for pair in pairs], allow_extra=True)
    counts: dict[Pair, Counts] = {pair: counted[_named(domain.names, pair)] for pair in pairs}
    n = counts[pairs[0]].n
    check_records(n)
    warn_of_records(list(counts.values()), mechanism)
    wanted = n if size is None else size
    if wanted != int(wanted) or not 1 <= wanted <= MOST_RECORDS:
        raise InvalidInput(f"size = {wanted}; give a whole number of records from 1 to {MOST_RECORDS}")
    codes = _drawn(proper_pairs(counts, mechanism), tuple(map(int, domain.sizes)), int(wanted), random_state)
    each = [
        closeness(codes, pair, _named(domain.names, pair), estimate(c, mechanism, confidence=confidence))
        for pair, c in counts.items()
    ]
    note = SyntheticNote(mechanism.digest, n)
    return Synthetic(domain, codes, n, confidence, tuple(each), note)


def _drawn(tables: Any, sizes: tuple[int, ...], size: int, random_state: int | np.random.Generator | None) -> Any:
    rng = np.random.default_rng(random_state)
    pool = candidates(tables, sizes, size, rng)
    # a systematic sample of the candidates in order: records that are alike come as often as they should, to a record
    pool = pool[np.lexsort(pool.T[::-1])]
    steps = np.cumsum(raked(pool, tables))
    places = np.searchsorted(steps, (np.arange(size) + rng.random()) / size * steps[-1])
    return rng.permutation(pool[np.minimum(places, len(pool) - 1)])


def _named(names: tuple[str, ...], pair: Pair) -> tuple[str, str]:
    return names[pair[0]], names[pair[1]]
