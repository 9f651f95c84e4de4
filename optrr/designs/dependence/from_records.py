"""Dependences from randomized records that were collected anyway (MDR §4.1), or from true ones.

Every party sends its record with each attribute randomized on its own; one collector tabulates all pairs. Covariances shrink
by λ_i λ_j (MDR Proposition 1; proved in ``proofs/prove_dependence.py``), so with one λ for all attributes their order is
kept (Corollary 1). Cramér's V need not keep its order: tables with unlike marginals shrink unlike. ``correct`` undoes the
shrinking by the unbiased estimate, and works for every mechanism, not only the independent one.

Cost: O(n m²) to tabulate, O(Σ r_i r_j) to measure; each party sends O(m), the collector receives O(n m).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations
from typing import Any

from optrr.designs.dependence.learned import Dependences, dependence_matrix, needing_pairs
from optrr.designs.dependence.measures import dependence_of
from optrr.designs.dependence.randomized_pair import RandomizedPair
from optrr.domain.domain import Domain
from optrr.domain.scores import PairScores
from optrr.mechanisms.mechanism import Mechanism
from optrr.records.counts import Counts, count_many
from optrr.releases.spent import Account, Spent
from optrr.tables.estimation.impossible import warn_of_records


def dependences_from_randomized(
    data: Any,
    mechanism: Mechanism,
    *,
    ordinal: Collection[str] = (),
    correct: bool = True,
    small_sample: bool = False,
) -> Dependences:
    """Dependences of all pairs from records randomized by ``mechanism``.

    Parameters
    ----------
    data
        randomized records: anything :func:`optrr.records.counts.count` takes; columns beyond the mechanism's are ignored.
    ordinal
        attributes whose categories are in order; pairs of them are measured by |r|, all others by V.
    correct
        from the unbiased estimates; False measures the randomized records as they are (attenuated).
    small_sample
        also take the noise's part off V: unrelated attributes then come out near 0 instead of near the noise.

    Raises
    ------
    InvalidInput
        where a pair's eigenvalue is nearly 0, for unusable records, and for records that say they are another design's.
    """
    tables = pair_tables(data, mechanism)
    warn_of_records(list(tables.values()), mechanism)
    return dependences_from_tables(tables, mechanism, ordinal=ordinal, correct=correct, small_sample=small_sample)


def pair_tables(data: Any, mechanism: Mechanism) -> dict[tuple[str, ...], Counts]:
    """Counts of all pairs of attributes, in one pass over the data."""
    domain = needing_pairs(mechanism.domain)
    return count_many(data, domain, list(combinations(domain.names, 2)), allow_extra=True)


def dependences_from_tables(
    tables: Mapping[tuple[str, ...], Counts],
    mechanism: Mechanism,
    *,
    ordinal: Collection[str] = (),
    correct: bool = True,
    small_sample: bool = False,
) -> Dependences:
    """The same from :func:`pair_tables`, for records whose design is checked."""
    domain = needing_pairs(mechanism.domain)

    def measure(names: tuple[str, str], scores: PairScores | None) -> float:
        pair = RandomizedPair.of(tables[names].table, mechanism, names)
        return pair.corrected(scores, small_sample) if correct else pair.attenuated(scores)

    matrix = dependence_matrix(domain, ordinal, measure)
    return Dependences(domain.names, matrix, Account((Spent("randomized records for dependence", mechanism.epsilon),)))


def dependences_of(
    data: Any, domain: Domain, *, ordinal: Collection[str] = (), small_sample: bool = False
) -> Dependences:
    """Dependences of TRUE records: for public or reference data, and for studies. No ε covers them otherwise."""
    tables = count_many(data, needing_pairs(domain), list(combinations(domain.names, 2)))
    matrix = dependence_matrix(
        domain, ordinal, lambda names, scores: dependence_of(tables[names].table, scores, small_sample)
    )
    warning = "true records: not differentially private unless they are public"
    account = Account((Spent("dependences of true records", float("inf"), warning),))
    return Dependences(domain.names, matrix, account)
