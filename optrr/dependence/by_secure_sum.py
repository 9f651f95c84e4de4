"""Dependences from pair tables counted under secure sum: of true values (MDR §4.2), or of randomized pairs (MDR §4.3, SIC §4).

§4.2 publishes the exact two-way tables: nobody's record is seen, but the tables are not differentially private (a cell that
counts one person links that person's values). §4.3 randomizes each pair first. MDR would count its ε once per attribute,
because the sum makes releases unlinkable; that rests on the secure sum, so the label here is the sum over all pairs, which
holds whatever the others see, and the smaller figure stands in the caveat. SIC §4 is §4.3 without the secure sum.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from optrr.dependence.learned import Dependences, dependence_matrix
from optrr.dependence.measures import bias_corrected_v, cramers_v, pearson
from optrr.dependence.randomized_pair import RandomizedPair
from optrr.dependence.secure_sum import SecureSumFailed, SecureSumParty, run_in_memory
from optrr.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanism import Mechanism, checked_codes
from optrr.protocols.account import Account, Spent
from optrr_solvers.joint import joint_law
from optrr_solvers.problem import IntArray
from optrr_solvers.randomness import RandomState, as_source

PairTables = dict[tuple[str, str], IntArray]

_EXACT = "exact two-way tables: confidential by secure sum, but not differentially private"


def pair_cells(domain: Domain) -> list[int]:
    """Number of cells of every pair's table, pairs in the order of ``combinations(domain.names, 2)``."""
    return [prod(pair) for pair in combinations(domain.sizes.tolist(), 2)]


def pair_vector(record: Sequence[int], domain: Domain) -> IntArray:
    """A record's codes as zeros and ones over the cells of all pair tables: what a party puts into the sum."""
    cells = pair_cells(domain)
    out = np.zeros(sum(cells), dtype=np.int64)
    within = [a * int(s) + b for (a, b), (_, s) in zip(combinations(record, 2), combinations(domain.sizes, 2), strict=True)]
    out[np.cumsum([0, *cells[:-1]]) + np.asarray(within, dtype=np.int64)] = 1
    return out


def tables_of(counts: IntArray, domain: Domain) -> PairTables:
    """The summed vector cut into its tables.

    Raises
    ------
    SecureSumFailed
        where two tables disagree on the counts of an attribute: some party broke the protocol.
    """
    pieces = np.split(counts, np.cumsum(pair_cells(domain))[:-1])
    names = list(combinations(domain.names, 2))
    tables = {p: c.reshape(domain[p[0]].size, domain[p[1]].size) for p, c in zip(names, pieces, strict=True)}
    seen: dict[str, IntArray] = {}
    for (a, b), table in tables.items():
        for name, marginal in ((a, table.sum(axis=1)), (b, table.sum(axis=0))):
            if not np.array_equal(seen.setdefault(name, marginal), marginal):
                raise SecureSumFailed(
                    f"the tables disagree on the counts of {name!r}: some party broke the protocol; start a new session"
                )
    return tables


def summed_pair_tables(codes: NDArray[np.integer], domain: Domain, session: str) -> PairTables:
    """Exact pair tables by really running the secure sum between one party per record, in memory.

    O(n² · cells) time: for tens of parties. Peers on a network: :mod:`optrr.dependence.secure_sum_network`.
    """
    parties = [
        SecureSumParty(i, len(codes), pair_vector(record, domain), session, pair_cells(domain))
        for i, record in enumerate(checked_codes(codes, domain).tolist())
    ]
    return tables_of(run_in_memory(parties), domain)


def dependences_by_secure_sum(
    tables: PairTables, domain: Domain, *, ordinal: Collection[str] = (), small_sample: bool = False
) -> Dependences:
    """Dependences from exact pair tables (MDR §4.2). The account says that no finite ε covers this."""

    def measure(names: tuple[str, str], both: bool) -> float:
        table = tables[names]
        if both:
            return pearson(table)
        return bias_corrected_v(table, int(table.sum())) if small_sample else cramers_v(table)

    matrix = dependence_matrix(domain, ordinal, measure)
    return Dependences(domain.names, matrix, Account((Spent("secure sum of true pairs", float("inf"), _EXACT),)))


def dependences_by_randomized_pairs(  # noqa: PLR0913 (the last three are keywords with defaults)
    codes: NDArray[np.integer],
    domain: Domain,
    pair_epsilon: float,
    *,
    ordinal: Collection[str] = (),
    small_sample: bool = True,
    random_state: RandomState = None,
) -> Dependences:
    """Each party randomizes every pair of its record by RR-Joint at ``pair_epsilon`` nats; the pairs are tallied (MDR §4.3).

    The tally is what the secure sum of the randomized pairs yields (its result does not depend on how it is run).
    """
    if domain.m < 2:
        raise InvalidInput("dependences need at least two attributes; the domain has one")
    checked = checked_codes(codes, domain)
    source = as_source(random_state)

    def measure(names: tuple[str, str], both: bool) -> float:
        pair_domain = domain.subset(names)
        mechanism = Mechanism(pair_domain, joint_law(pair_domain.sizes, pair_epsilon))
        columns = list(domain.indices(names))
        randomized = mechanism.perturb_codes(checked[:, columns], random_state=source)  # type: ignore[arg-type]
        cells = np.ravel_multi_index(randomized.T.astype(np.int64), pair_domain.sizes)
        counts = np.bincount(cells, minlength=prod(pair_domain.sizes)).reshape(pair_domain.sizes)
        return RandomizedPair.of(counts, mechanism, names).corrected(both, small_sample)

    matrix = dependence_matrix(domain, ordinal, measure)
    return Dependences(domain.names, matrix, randomized_pairs_account(domain.m, pair_epsilon))


def randomized_pairs_account(m: int, pair_epsilon: float) -> Account:
    """ε of releasing every pair once: m(m−1)/2 times the pair's; MDR's smaller claim goes into the caveat."""
    total = m * (m - 1) / 2 * pair_epsilon
    claim = f"MDR counts {pair_epsilon:.6g}, taking releases as unlinkable; that holds only as far as the secure sum does"
    return Account((Spent("randomized pairs for dependence", total, claim),))
