"""Dependences from pair tables counted under secure sum: of true values (MDR §4.2), or of randomized pairs (MDR §4.3, SIC §4).

§4.2 publishes the exact two-way tables: nobody's record is seen, but the tables are not differentially private (a cell that
counts one person links that person's values). §4.3 randomizes each pair first. MDR would count its ε once per attribute,
because the sum makes releases unlinkable; that rests on the secure sum, so the label here is the sum over all pairs, which
holds whatever the others see, and the smaller figure stands in the warning. SIC §4 is §4.3 without the secure sum.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Collection
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.designs.dependence.learned import Dependences, dependence_matrix, needing_pairs
from optrr.designs.dependence.measures import dependence_of
from optrr.designs.dependence.randomized_pair import RandomizedPair
from optrr.domain.codes import checked_codes
from optrr.domain.domain import Domain
from optrr.domain.scores import PairScores
from optrr.mechanisms.mechanism import Mechanism
from optrr.releases.spent import Account, Spent, checked_epsilon
from optrr.show.rounding import sum_of_epsilons
from optrr.studies.secure_sum import SecureSumFailed, SecureSumParty, run_in_memory
from optrr_solvers.arrays import IntArray
from optrr_solvers.laws.joint import joint_law
from optrr_solvers.randomness import RandomState, as_source

PairTables = dict[tuple[str, str], IntArray]

_EXACT = "exact two-way tables: confidential by secure sum, but not differentially private"


def pair_cells(domain: Domain) -> list[int]:
    """Number of cells of every pair's table, pairs in the order of ``combinations(domain.names, 2)``."""
    return [math.prod(pair) for pair in combinations(domain.sizes.tolist(), 2)]


def cells_of(codes: NDArray[np.integer], domain: Domain) -> IntArray:
    """Which cell of each pair's table each record is in, shape (n, pairs)."""
    columns = codes.T.astype(np.int64)
    pairs = combinations(range(domain.m), 2)
    return np.stack([columns[i] * int(domain.sizes[j]) + columns[j] for i, j in pairs], axis=1)


def pair_vector(cells: ArrayLike, domain: Domain) -> IntArray:
    """One record's cells as zeros and ones over all pair tables: what a party puts into the sum."""
    sizes = pair_cells(domain)
    out = np.zeros(sum(sizes), dtype=np.int64)
    out[np.cumsum([0, *sizes[:-1]]) + np.asarray(cells, dtype=np.int64)] = 1
    return out


def tables_of(counts: IntArray, domain: Domain) -> PairTables:
    """The summed vector cut into its tables."""
    pieces = np.split(counts, np.cumsum(pair_cells(domain))[:-1])
    names = combinations(domain.names, 2)
    return {p: c.reshape(domain[p[0]].size, domain[p[1]].size) for p, c in zip(names, pieces, strict=True)}


def checked_margins(tables: PairTables) -> PairTables:
    """The tables themselves, if they count true values, which must agree on every attribute.

    Raises
    ------
    SecureSumFailed
        where two tables disagree: some party broke the protocol.
    """
    seen: dict[str, IntArray] = {}
    for (a, b), table in tables.items():
        for name, marginal in ((a, table.sum(axis=1)), (b, table.sum(axis=0))):
            if not np.array_equal(seen.setdefault(name, marginal), marginal):
                raise SecureSumFailed(
                    f"the tables disagree on the counts of {name!r}: some party broke the protocol; start a new session"
                )
    return tables


def tallied(cells: IntArray, domain: Domain) -> PairTables:
    """Pair tables counted by whoever sees all the cells: the same result as any secure sum, for studies and for SIC §4."""
    counts = [np.bincount(column, minlength=size) for column, size in zip(cells.T, pair_cells(domain), strict=True)]
    return tables_of(np.concatenate(counts), domain)


def securely_summed(cells: IntArray, domain: Domain) -> PairTables:
    """Pair tables by really running the secure sum between one party per record, in memory.

    O(n² · cells) time: for tens of parties (n = 50 with 100 cells: about 0.2 s).

    Raises
    ------
    SecureSumFailed
        for fewer than 3 records.
    """
    session, sizes = secrets.token_hex(16), pair_cells(domain)
    parties = [
        SecureSumParty(i, len(cells), pair_vector(row, domain), session, sizes) for i, row in enumerate(cells.tolist())
    ]
    if not parties:
        raise SecureSumFailed("a secure sum takes at least 3 parties; there are no records")
    return tables_of(run_in_memory(parties), domain)


def summed_pair_tables(codes: NDArray[np.integer], domain: Domain) -> PairTables:
    """Exact pair tables of true records, one party each, by secure sum (MDR §4.2)."""
    return checked_margins(securely_summed(cells_of(checked_codes(codes, needing_pairs(domain)), domain), domain))


def dependences_by_secure_sum(
    tables: PairTables, domain: Domain, *, ordinal: Collection[str] = (), small_sample: bool = False
) -> Dependences:
    """Dependences from exact pair tables (MDR §4.2). The account says that no finite ε covers this."""
    matrix = dependence_matrix(
        domain, ordinal, lambda names, scores: dependence_of(tables[names], scores, small_sample)
    )
    return Dependences(domain.names, matrix, Account((Spent("secure sum of true pairs", float("inf"), _EXACT),)))


def randomized_cells(
    codes: NDArray[np.integer], domain: Domain, pair_epsilon: float, random_state: RandomState = None
) -> IntArray:
    """Each pair of each record randomized on its own by RR-Joint at ``pair_epsilon`` nats: cells, shape (n, pairs)."""
    checked, source = checked_codes(codes, domain), as_source(random_state)
    out = []
    for names in combinations(domain.names, 2):
        mechanism = _pair_mechanism(domain, names, pair_epsilon)
        randomized = mechanism.perturb_codes(checked[:, list(domain.indices(names))], source)  # type: ignore[arg-type]
        out.append(cells_of(randomized, mechanism.domain)[:, 0])
    return np.stack(out, axis=1)


def dependences_by_randomized_pairs(  # noqa: PLR0913 (all but three have defaults)
    codes: NDArray[np.integer],
    domain: Domain,
    pair_epsilon: float,
    *,
    ordinal: Collection[str] = (),
    small_sample: bool = True,
    random_state: RandomState = None,
    summed: Callable[[IntArray, Domain], PairTables] = tallied,
) -> Dependences:
    """Each party randomizes every pair of its record at ``pair_epsilon`` nats; the pairs are summed (MDR §4.3, SIC §4).

    ``summed`` turns cells into tables: ``tallied`` counts them at once, ``securely_summed`` runs the secure sum.

    Raises
    ------
    InvalidInput
        for codes outside the domain, fewer than two attributes, or ``pair_epsilon`` outside 1e-6..50.
    """
    tables = summed(randomized_cells(codes, needing_pairs(domain), pair_epsilon, random_state), domain)

    def measure(names: tuple[str, str], scores: PairScores | None) -> float:
        mechanism = _pair_mechanism(domain, names, pair_epsilon)
        return RandomizedPair.of(tables[names], mechanism, names).corrected(scores, small_sample)

    matrix = dependence_matrix(domain, ordinal, measure)
    return Dependences(domain.names, matrix, randomized_pairs_account(domain, pair_epsilon))


def randomized_pairs_account(domain: Domain, pair_epsilon: float) -> Account:
    """ε of releasing every pair once, the sum over m(m−1)/2 pairs; MDR's smaller claim goes into the warning."""
    each = [_pair_mechanism(domain, names, pair_epsilon).epsilon for names in combinations(domain.names, 2)]
    total = sum_of_epsilons(each)
    claim = (
        f"MDR counts each attribute once instead of {domain.m - 1} times, taking the releases as unlinkable: that holds only "
        "as far as the secure sum does"
    )
    return Account((Spent("randomized pairs for dependence", total, claim),))


def _pair_mechanism(domain: Domain, names: tuple[str, str], pair_epsilon: float) -> Mechanism:
    pair = domain.subset(names)
    return Mechanism(pair, joint_law(pair.sizes, checked_epsilon(pair_epsilon, "pair_epsilon")))
