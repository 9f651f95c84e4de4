"""The distribution that synthetic records are drawn from: the tables to keep, and the model that has them.

A margin is kept where the log-linear model that records are drawn from has the interactions of its attributes: fitted to true
records, its table would have their margin. A regression needs the margin of its outcome and predictors together. So the model
is that of all pairs and these margins, fitted to the randomized records (:mod:`optrr.analysis.loglinear.fitting`), and nothing
is drawn towards independence.

Several data sets have a law each: as many reports as there were are drawn from the fitted law and the mechanism, and the model
is fitted to them again (a parametric bootstrap). So these laws differ from the fitted one as that does from the truth.

Where that table is too large, or nothing is named, there are proper pair tables. Unbiased tables of one file agree on
their common attributes, but have negative cells, and where randomization is strong their noise is larger than the
dependence, so that no records have all of them at once. So each table is shrunk towards independence by the proportion
of noise in its distance from there (James & Stein 1961, positive part), then projected onto the simplex and scaled to
the projected margins of its attributes (Sinkhorn & Knopp, Pac. J. Math. 21, 1967). Pairs share single attributes only,
so that they agree to the tolerance at which the scaling stops.

Candidate records then get weights with which all of their pair tables are those wanted. The distribution of largest entropy
with given pair tables is the log-linear model of all pairs. Where all records fit into memory they are the candidates, and
raking (Deming & Stephan, Ann. Math. Stat. 11, 1940) finds it. Elsewhere candidates are drawn from the tree of the most
dependent pairs (Chow & Liu, IEEE Trans. Inf. Theory 14, 1968), which has the pair tables of its edges already, and raking
supplies the others; the result is then as rich as its candidates.

Margins of more attributes to keep come as they are estimated, without being drawn towards independence, and the pair
tables inside them are theirs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import prod

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from optrr.analysis.loglinear.fitting import Terms, check_seen, fit, parse_terms
from optrr.analysis.regression.formulas import Formula
from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.estimation import projection
from optrr.core.mechanisms import Kernel, Randomizer
from optrr.core.records import Counts
from optrr_solvers.arrays import FloatArray, IntArray

# A margin's attributes, by position; and two of them.
Axes = tuple[int, ...]
Pair = tuple[int, int]
# A table that is scaled to margins needs an entry wherever both have one: this part of independence is mixed in.
_MIXED = 1e-6
# Scaling stops where margins are off by less than this.
_TOLERANCE = 1e-10
_MOST_SCALINGS = 500


def proper_pairs(counts: Mapping[Pair, Counts], mechanism: Randomizer) -> dict[Axes, FloatArray]:
    """Compute proper pair tables by positions that agree on every attribute.

    Raises SingularMarginal naming a pair that the mechanism hides.
    """
    raw = {pair: mechanism.kernel(c.domain.names).solve(c.proportions) for pair, c in counts.items()}
    shares: dict[int, FloatArray] = {}
    for pair, table in raw.items():
        for axis, attribute in enumerate(pair):
            shares.setdefault(attribute, projection(table.sum(axis=1 - axis)))
    out: dict[Axes, FloatArray] = {}
    for pair, table in raw.items():
        rows, columns = shares[pair[0]], shares[pair[1]]
        apart = np.outer(rows, columns)
        c = counts[pair]
        kept = _seen(table - apart, mechanism.kernel(c.domain.names).variance(c.proportions, c.n), c.n)
        out[pair] = _scaled(apart + kept * (table - apart), (rows, columns))
    return out


def _seen(distance: FloatArray, variance: FloatArray, n: int) -> float:
    """Estimate how much of a table's dependence is more than noise.

    From the variances of its cells.
    """
    # cells that no report speaks of have variance 0, and are known to a record at best
    square = float(np.mean(distance**2 / np.maximum(variance, n**-2.0)))
    return max(0.0, 1 - 1 / square) if square > 0 else 0.0


def with_margins(pairs: Mapping[Axes, FloatArray], margins: Mapping[Axes, FloatArray]) -> dict[Axes, FloatArray]:
    """Add tables of more attributes, scaled to the pairs' one-way margins.

    A pair inside a margin has the margin's table; inside several, that of the last.
    """
    out = dict(pairs)
    for axes, table in margins.items():
        shares = [sums(pairs[(axes[0], axis)], 1) for axis in axes[1:]]
        out[axes] = _scaled(table, (sums(pairs[(axes[0], axes[1])], 0), *shares))
        for pair in combinations(range(len(axes)), 2):
            others = tuple(k for k in range(len(axes)) if k not in pair)
            out[(axes[pair[0]], axes[pair[1]])] = out[axes].sum(axis=others)
    return out


def sums(table: FloatArray, axis: int) -> FloatArray:
    """Sum a table over all axes but one."""
    return np.asarray(table.sum(axis=tuple(k for k in range(table.ndim) if k != axis)))


def product(shares: Sequence[FloatArray]) -> FloatArray:
    """Build the table of independent attributes."""
    return reduce(np.multiply.outer, shares)


def _scaled(table: FloatArray, shares: Sequence[FloatArray]) -> FloatArray:
    """Project to the nearest proper table with these one-way margins."""
    out = (1 - _MIXED) * projection(table.ravel()).reshape(table.shape) + _MIXED * product(shares)
    for _ in range(_MOST_SCALINGS):
        for axis, wanted in enumerate(shares):
            present = sums(out, axis)
            scales = np.divide(wanted, present, out=np.zeros_like(present), where=present > 0)
            out *= scales.reshape([-1 if k == axis else 1 for k in range(out.ndim)])
        if np.abs(sums(out, 0) - shares[0]).max() < _TOLERANCE:
            break
    return out


def all_pairs(domain: Domain) -> Sequence[Pair]:
    """List all pairs of attributes by position; raise InvalidInput for one."""
    if domain.m < 2:
        raise InvalidInput("synthetic records need at least two attributes; estimate a single one with `estimate`")
    return list(combinations(range(domain.m), 2))


# Up to this many cells every record is a candidate.
EVERY_RECORD = 1 << 17
# Candidates for each record that is wanted; and the fewest and the most candidates in all.
_FOR_EACH, _FEWEST, _MOST = 4, 1 << 17, 1 << 20
# Raking stops where no cell of a pair is off by more than this proportion, or after this number of rounds: the pair
# tables that are left then are inconsistent.
_RAKED = 1e-5
_MOST_ROUNDS = 20


def candidates(
    tables: Mapping[Axes, FloatArray], sizes: Sequence[int], size: int, rng: np.random.Generator
) -> IntArray:
    """Generate records for raking, (N, m), from pair tables.

    Other tables are ignored.
    """
    if prod(sizes) <= EVERY_RECORD:
        return every_record(sizes)
    return _from_tree(tables, sizes, min(max(_FOR_EACH * size, _FEWEST), _MOST), rng)


def raked(records: IntArray, tables: Mapping[Axes, FloatArray]) -> FloatArray:
    """Compute weights (N,) with sum 1 that reproduce these tables best."""
    weights = np.full(len(records), 1 / len(records))
    for _ in range(_MOST_ROUNDS):
        off = 0.0
        for axes, table in tables.items():
            cell = np.ravel_multi_index(tuple(records[:, axes].T), table.shape)
            present = np.bincount(cell, weights=weights, minlength=table.size)
            off = max(off, float(np.abs(present - table.ravel())[present > 0].max()))
            weights *= np.divide(table.ravel(), present, out=np.zeros(table.size), where=present > 0)[cell]
        weights /= weights.sum()
        if off < _RAKED:
            break
    return weights


def _from_tree(
    tables: Mapping[Axes, FloatArray], sizes: Sequence[int], count: int, rng: np.random.Generator
) -> IntArray:
    m = len(sizes)
    lengths = np.zeros((m, m))
    for i, j in combinations(range(m), 2):
        table = tables[(i, j)]
        apart, held = np.outer(table.sum(axis=1), table.sum(axis=0)), table > 0
        # all edges are negative, that of the pair with most mutual information most; 0 would be none
        lengths[i, j] = -1.0 - float(np.sum(table[held] * np.log(table[held] / apart[held])))
    order, parents = breadth_first_order(minimum_spanning_tree(lengths), 0, directed=False)
    out = np.empty((count, m), dtype=np.int64)
    for child in order:
        parent = int(parents[child])
        if parent < 0:
            # every two attributes are joined, so only the first of all has no parent
            shares = tables[(0, 1)].sum(axis=1)
            out[:, child] = rng.choice(sizes[child], size=count, p=shares / shares.sum())
            continue
        table = tables[(parent, child)] if parent < child else tables[(child, parent)].T
        steps = np.cumsum(table, axis=1)
        steps = steps / np.maximum(steps[:, -1:], np.finfo(np.float64).tiny)
        drawn = (rng.random(count)[:, None] > steps[out[:, parent]]).sum(axis=1)
        out[:, child] = np.minimum(drawn, sizes[child] - 1)
    return out


def every_record(sizes: Sequence[int]) -> IntArray:
    """List all possible records, (N, m), in order."""
    return np.stack(np.unravel_index(np.arange(prod(sizes)), sizes), axis=1)


def drawn(pool: IntArray, weights: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Draw a systematic sample of ``size`` records of an ordered pool.

    Each occurs as often as its weight requires, up to one record.

    Equal or similar records are neighbours, so that proportions of a sample miss their law's by some 1/size, not by
    1/√size: next to no error is added to that of the weights.
    """
    steps = np.cumsum(weights)
    places = np.searchsorted(steps, (np.arange(size) + rng.random()) / size * steps[-1])
    return np.asarray(rng.permutation(pool[np.minimum(places, len(pool) - 1)]))


# Products of two coefficients and a cell in a step of the fit, some tenths of a second; a fit takes from five steps to sixty.
MOST_PRODUCTS = 3 * 10**8


@dataclass(frozen=True)
class KeptTables:
    """Tables that records keep in addition to all pairs.

    ``margins`` are attribute sets, in the domain's order; ``hidden`` the interactions of formulas that the mechanism hides,
    which no records can have.
    """

    domain: Domain
    margins: tuple[tuple[str, ...], ...] = ()
    hidden: tuple[tuple[str, ...], ...] = ()

    @staticmethod
    def of(keep: str | Iterable[str | Sequence[str]], domain: Domain, mechanism: Randomizer) -> "KeptTables":
        """Parse the tables to keep.

        Formulas such as "y ~ a + b", tables such as "a*b*c", or names of attributes.

        Raises InvalidInput for tables that cannot be parsed, and for an attribute that the domain has not.
        SingularMarginal for a table that the mechanism hides; of a formula all that it shows is kept.
        """
        margins: list[tuple[str, ...]] = []
        hidden: list[tuple[str, ...]] = []
        for each in (keep,) if isinstance(keep, str) else keep:
            if isinstance(each, str) and "~" in each:
                names = _ordered(domain, Formula.of(each).names)
                sets = [some for k in range(2, len(names) + 1) for some in combinations(names, k)]
                shown = {some: mechanism.kernel(some).is_invertible for some in sets}
                margins += [some for some in sets if shown[some]]
                hidden += [some for some in sets if not shown[some]]
                continue
            tables = _tables(each, domain)
            for names in tables:
                mechanism.kernel(names).check_invertible()
            margins += tables
        largest = [s for s in dict.fromkeys(margins) if not any(set(s) < set(t) for t in margins)]
        return KeptTables(domain, tuple(largest), tuple(dict.fromkeys(hidden)))

    @property
    def terms(self) -> Terms:
        """The model: all pairs, and the margins."""
        return Terms.of(self.domain, [*combinations(self.domain.names, 2), *self.margins])

    @property
    def axes(self) -> dict[Axes, tuple[str, ...]]:
        """The margins by positions."""
        return {self.domain.indices(names): names for names in self.margins}


def _ordered(domain: Domain, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(domain.names[i] for i in sorted(domain.indices(tuple(names))))


def _tables(text: str | Sequence[str], domain: Domain) -> list[tuple[str, ...]]:
    """List the requested tables of at least two attributes."""
    if not isinstance(text, str):
        sets = [_ordered(domain, text)]
    else:
        sets = [tuple(domain.names[i] for i in axes) for axes in parse_terms(text, domain).generators]
    out = [names for names in sets if len(names) > 1]
    if not out:
        raise InvalidInput(f"{text!r} keeps no table; name two attributes or more, as 'a*b*c' or as 'y ~ a + b'")
    return out


def affordable(terms: Terms) -> bool:
    """Check whether a model can be fitted to the table of all its attributes."""
    return terms.parameters**2 * prod(map(int, terms.domain.sizes)) <= MOST_PRODUCTS


def check_affordable(terms: Terms) -> None:
    """Raise InvalidInput for a model too large for the table of its attributes."""
    if not affordable(terms):
        names, sizes = terms.domain.names, list(map(int, terms.domain.sizes))
        raise InvalidInput(
            f"the model of {', '.join(names)} has {terms.parameters} parameters in {prod(sizes)} cells, and parameters squared "
            f"times cells may be at most {MOST_PRODUCTS}; name fewer attributes, or keep smaller tables"
        )


def likeliest(terms: Terms, counts: Counts, mechanism: Randomizer) -> FloatArray:
    """Fit the model by maximum likelihood to counted reports of its attributes.

    Raises InvalidInput if it is not :func:`affordable`. SingularMarginal naming an interaction that the mechanism hides.
    """
    names = terms.domain.names
    check_affordable(terms)
    check_seen(terms, mechanism)
    return _fitted(terms, counts.proportions, mechanism.kernel(names))


def likeliest_again(
    terms: Terms, law: FloatArray, n: int, mechanism: Randomizer, rng: np.random.Generator
) -> FloatArray:
    """Fit the model to n reports drawn from a distribution and the mechanism."""
    kernel = mechanism.kernel(terms.domain.names)
    chances = kernel.expected(law)
    reports = rng.multinomial(n, chances.ravel() / chances.sum()).reshape(chances.shape)
    return _fitted(terms, reports / n, kernel)


def _fitted(terms: Terms, observed: FloatArray, kernel: Kernel) -> FloatArray:
    equations, solved = fit(terms, observed, kernel)
    return np.asarray(equations.proportions(solved.theta)[0].reshape(observed.shape))
