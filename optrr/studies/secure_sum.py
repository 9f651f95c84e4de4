"""Secure sum: n parties learn how many of them are in each cell, and nothing else (MDR §4.2).

Party i holds a vector x_i of zeros and ones, a single 1 in each table. All arithmetic is modulo ℓ = n+1:

    1. party i draws shares r_i1, …, r_in that sum to 0, uniform otherwise, and sends r_ij to party j alone;
    2. party j adds what it received to its own vector and broadcasts r_j = Σ_i r_ij + x_j;
    3. everybody adds the broadcasts: Σ_j r_j = Σ_j x_j, the counts.

Privacy: as long as two parties follow the protocol and do not share their messages with the others, the others learn the sum
of their two vectors and nothing more, whatever computing power they have. As printed, one dishonest party can move counts
between cells unseen. Sums over different sets of the same parties tell their difference.

The parties of a study live in one process; nothing here is for a network. Each party sends n−1 shares and a broadcast of one
number per cell: O(n · cells) per party, and O(n² · cells) in all.

Dependences come from pair tables counted under secure sum: of true values (MDR §4.2), or of randomized pairs (MDR §4.3, SIC
§4). §4.2 publishes the exact two-way tables: nobody's record is seen, but the tables are not differentially private (a cell
that counts one person links that person's values). §4.3 randomizes each pair first. MDR would count its ε once per attribute,
because the sum makes releases unlinkable; that rests on the secure sum, so the label here is the sum over all pairs, which
holds against all other parties; the warning states the smaller number. SIC §4 is §4.3 without the secure sum.
"""

import math
from collections.abc import Callable, Collection
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.core.display import sum_of_epsilons
from optrr.core.domain import Domain, PairScores, checked_codes
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms import Mechanism
from optrr.core.protocols import Dependences, RandomizedPair, dependence_matrix, dependence_of, needing_pairs
from optrr.core.provenance import Account, Spent, checked_epsilon
from optrr_solvers.arrays import IntArray
from optrr_solvers.laws.few_changes import joint_law
from optrr_solvers.randomness import BitSource, RandomState, SystemSource, as_source, bounded

PairTables = dict[tuple[str, str], IntArray]
# Callback for each message: sender, recipient, and one number modulo n+1 per cell.
Watch = Callable[[int, int, IntArray], None]
_EXACT = "exact two-way tables: confidential by secure sum, but not differentially private"


def shares_of_zero(parties: int, cells: int, source: BitSource) -> IntArray:
    """Draw one party's shares, shape (parties, cells).

    They are uniform modulo parties + 1; the last one makes the sum 0.
    """
    modulus = parties + 1
    free = bounded(source, (parties - 1) * cells, modulus).reshape(parties - 1, cells)
    return np.vstack([free, -free.sum(axis=0) % modulus]).astype(np.int64)


def partial_sum(shares: IntArray, vector: IntArray) -> IntArray:
    """Compute a party's broadcast: its vector plus the shares it received.

    ``shares`` has shape (parties, cells).
    """
    return np.asarray((shares.sum(axis=0) + vector) % (len(shares) + 1))


def secure_sum(vectors: ArrayLike, source: BitSource | None = None, watch: Watch | None = None) -> IntArray:
    """Count the parties in each cell by the messages of the protocol.

    Shape (cells,) from (parties, cells).

    ``source`` is the parties' randomness, by default the operating system's.

    Raises InvalidInput for fewer than three parties: with two, the sum tells each the other's vector.
    """
    own = np.asarray(vectors, dtype=np.int64)
    n = len(own)
    if n < 3:
        raise InvalidInput(f"a secure sum requires at least 3 parties; there are {n}")
    drawn = source or SystemSource()
    shares = np.stack([shares_of_zero(n, own.shape[1], drawn) for _ in range(n)])
    partials = np.stack([partial_sum(shares[:, j], own[j]) for j in range(n)])
    if watch is not None:
        for sender in range(n):
            for recipient in (j for j in range(n) if j != sender):
                watch(sender, recipient, shares[sender, recipient])
                watch(sender, recipient, partials[sender])
    return np.asarray(partials.sum(axis=0) % (n + 1))


def pair_cells(domain: Domain) -> list[int]:
    """Count the cells of every pair's table.

    Pairs are in the order of ``combinations(domain.names, 2)``.
    """
    return [math.prod(pair) for pair in combinations(domain.sizes.tolist(), 2)]


def cells_of(codes: NDArray[np.integer], domain: Domain) -> IntArray:
    """Find the cell of each record in each pair's table, shape (n, pairs)."""
    columns = codes.T.astype(np.int64)
    pairs = combinations(range(domain.m), 2)
    return np.stack([columns[i] * int(domain.sizes[j]) + columns[j] for i, j in pairs], axis=1)


def pair_vector(cells: ArrayLike, domain: Domain) -> IntArray:
    """Convert one record's cells to zeros and ones over all pair tables.

    This is a party's input to the sum.
    """
    sizes = pair_cells(domain)
    out = np.zeros(sum(sizes), dtype=np.int64)
    out[np.cumsum([0, *sizes[:-1]]) + np.asarray(cells, dtype=np.int64)] = 1
    return out


def tables_of(counts: IntArray, domain: Domain) -> PairTables:
    """Split the summed vector into its tables."""
    pieces = np.split(counts, np.cumsum(pair_cells(domain))[:-1])
    names = combinations(domain.names, 2)
    return {p: c.reshape(domain[p[0]].size, domain[p[1]].size) for p, c in zip(names, pieces, strict=True)}


def tallied(cells: IntArray, domain: Domain) -> PairTables:
    """Count pair tables from all cells in the clear.

    The result is that of a secure sum, for studies and for SIC §4.
    """
    counts = [np.bincount(column, minlength=size) for column, size in zip(cells.T, pair_cells(domain), strict=True)]
    return tables_of(np.concatenate(counts), domain)


def securely_summed(cells: IntArray, domain: Domain) -> PairTables:
    """Count pair tables by a secure sum between one party per record, in memory.

    O(n² · cells) time and memory: for tens of parties. Raises InvalidInput for fewer than 3 records.
    """
    vectors = [pair_vector(row, domain) for row in cells.tolist()]
    return tables_of(secure_sum(vectors), domain)


def dependences_by_secure_sum(
    tables: PairTables, domain: Domain, *, ordinal: Collection[str] = (), small_sample: bool = False
) -> Dependences:
    """Compute dependences from exact pair tables (MDR §4.2).

    The privacy account states that no finite ε covers this.
    """
    matrix = dependence_matrix(
        domain, ordinal, lambda names, scores: dependence_of(tables[names], scores, small_sample)
    )
    return Dependences(domain.names, matrix, Account((Spent("secure sum of true pairs", float("inf"), _EXACT),)))


def randomized_cells(
    codes: NDArray[np.integer], domain: Domain, pair_epsilon: float, random_state: RandomState = None
) -> IntArray:
    """Randomize each pair of each record independently by RR-Joint.

    ``pair_epsilon`` is in nats; returns cells, shape (n, pairs).
    """
    checked, source = checked_codes(codes, domain), as_source(random_state)
    out = []
    for names in combinations(domain.names, 2):
        mechanism = _pair_mechanism(domain, names, pair_epsilon)
        randomized = mechanism.randomize_codes(checked[:, list(domain.indices(names))], source)  # type: ignore[arg-type]
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
    """Compute dependences from randomized pairs (MDR §4.3, SIC §4).

    Each party randomizes every pair of its record at ``pair_epsilon`` nats, and the pairs are summed.

    ``summed`` turns cells into tables: ``tallied`` counts them at once, ``securely_summed`` runs the secure sum.

    Raises InvalidInput for codes outside the domain, fewer than two attributes, or ``pair_epsilon`` outside 1e-6..50.
    """
    tables = summed(randomized_cells(codes, needing_pairs(domain), pair_epsilon, random_state), domain)

    def measure(names: tuple[str, str], scores: PairScores | None) -> float:
        mechanism = _pair_mechanism(domain, names, pair_epsilon)
        return RandomizedPair.of(tables[names], mechanism, names).corrected(scores, small_sample)

    matrix = dependence_matrix(domain, ordinal, measure)
    return Dependences(domain.names, matrix, randomized_pairs_account(domain, pair_epsilon))


def randomized_pairs_account(domain: Domain, pair_epsilon: float) -> Account:
    """Account for releasing every pair once, the sum over m(m−1)/2 pairs.

    MDR's smaller claim is in the warning.
    """
    each = [_pair_mechanism(domain, names, pair_epsilon).epsilon for names in combinations(domain.names, 2)]
    total = sum_of_epsilons(each)
    claim = (
        f"MDR counts each attribute once instead of {domain.m - 1} times, because the secure sum makes the releases "
        "unlinkable: the smaller count depends on the security of that sum"
    )
    return Account((Spent("randomized pairs for dependence", total, claim),))


def _pair_mechanism(domain: Domain, names: tuple[str, str], pair_epsilon: float) -> Mechanism:
    pair = domain.subset(names)
    return Mechanism(pair, joint_law(pair.sizes, checked_epsilon(pair_epsilon, "pair_epsilon")))
