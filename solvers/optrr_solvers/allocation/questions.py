"""Local queries about a few attributes, answered by naming subsets (theory §3.9).

A query is about a few attributes. Its report names a random subset of k_i of the r_i categories of each, and its
probability depends only on which of these subsets contain the record's category, the *matches*. Some patterns of
matches are e^ε times as likely as the others, so the report consumes ε. Alternatively, one subset of the cells of the
whole table is named (subset selection). With κ_i = k_i/r_i and the density f of a pattern, which is e^ε g or g, an
effect S of the question's attributes gets the energy

    e_S = (E f Π_{i∈S} φ_i)²,      φ_i = √((1−κ_i)/κ_i) on a match, −√(κ_i/(1−κ_i)) else,

and a subset of the cells of a table spreads the variance of its density evenly over the cells but one.

Letters: S effect, κ chance of a match, φ and Φ one's and several attributes' effect.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr_solvers.arrays import FloatArray

# The cells of a table are reported on as a whole up to here.
MAX_CELLS = 1 << 16
# A report on t subsets has 2^t patterns of matches, and as many effects; a record's cells have numbers of so many bits.
MOST_SUBSETS = 12
CELL_BITS = 62
# Maximum number of patterns of all queries together: a second of work.
MOST_PATTERNS = 1 << 20
# Energies below this fraction of a report's largest one are rounding and count as 0.
_UNSEEN = 1e-12


@dataclass(frozen=True)
class SubsetReport:
    """Report on a table: its subsets and its likely patterns of matches.

    Likely patterns are e^ε times as likely as the others.

    ``subset_sizes`` are the k_i of the attributes, in their order; or one number, of cells of the whole table.
    ``likely`` are the numbers of patterns, sums of 2^i over the matching subsets i.
    """

    subset_sizes: tuple[int, ...]
    likely: tuple[int, ...] = (1,)

    def parts(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the number of categories, or cells, that each subset is taken from.

        ``sizes`` are the table's r_i.
        """
        return tuple(sizes) if len(self.subset_sizes) == len(sizes) else (math.prod(sizes),)

    def flaw(self, sizes: Sequence[int]) -> str:
        """Describe why the report cannot answer a table of r_i categories; "" if valid."""
        each, patterns = self.parts(sizes), 1 << min(len(self.subset_sizes), MOST_SUBSETS)
        if len(self.subset_sizes) not in (1, len(sizes)):
            return "has a wrong number of subset sizes; give one for its cells, or one for each attribute"
        if len(each) > MOST_SUBSETS:
            return f"is answered by {len(each)} subsets; use at most {MOST_SUBSETS} attributes"
        if len(each) == 1 and each[0] > MAX_CELLS:
            return f"has {each[0]} cells, more than {MAX_CELLS}; merge categories"
        if math.prod(sizes) > 1 << CELL_BITS:
            return "has too many cells for one report; use fewer attributes"
        if not all(1 <= k < r for k, r in zip(self.subset_sizes, each, strict=True)):
            return "has an empty or a full subset; give subset sizes from 1 to one less than the number of categories or cells"
        known = all(0 <= p < patterns for p in self.likely)
        if not known or not 0 < len(set(self.likely)) == len(self.likely) < patterns:
            return f"has invalid likely patterns; give some, but not all, of the numbers 0..{patterns - 1}"
        return ""

    def weights(self, sizes: Sequence[int]) -> list[int]:
        """Compute the number of cells of every pattern; they sum to Π r_i.

        Π of k_i where i matches and r_i − k_i where it does not.
        """
        out = [1]
        for r, k in zip(self.parts(sizes), self.subset_sizes, strict=True):
            out = [w * (r - k) for w in out] + [w * k for w in out]
        return out

    def likely_weight(self, sizes: Sequence[int]) -> int:
        """Count the cells, of the Π r_i, that a report marks as likely."""
        weights = self.weights(sizes)
        return sum(weights[pattern] for pattern in self.likely)

    def likely_share(self, sizes: Sequence[int]) -> float:
        """Compute the proportion of likely cells."""
        return self.likely_weight(sizes) / math.prod(sizes)

    def energies(self, sizes: Sequence[int], total: float) -> FloatArray:
        """Compute e_S of every subset S of the table's attributes, shape (2^t,).

        The index of S is Σ 2^i over its members; the entry of ∅ is 0.
        """
        cells, gain = math.prod(sizes), math.expm1(min(total, 700.0))
        if len(self.subset_sizes) == len(sizes):
            likely = np.zeros((1 << len(sizes), 1), dtype=np.bool_)
            likely[list(self.likely)] = True
            kappa = np.asarray(self.subset_sizes) / np.asarray(sizes)
            energies = responses(kappa[:, None], likely, gain)[:, 0] ** 2
            return np.asarray(np.where(energies > _UNSEEN * energies.max(), energies, 0.0))
        share = self.likely_weight(sizes) / cells
        dims = np.ones(1)
        for r in sizes:
            dims = np.concatenate([dims, dims * (r - 1)])
        dims[0] = 0
        return np.asarray(dims * (share * (1 - share) * (gain / (1 + gain * share)) ** 2 / (cells - 1)))


@dataclass(frozen=True)
class Question:
    """Local query about some attributes, given by number, and its report."""

    attributes: tuple[int, ...]
    report: SubsetReport


def patterns_of(reports: Sequence[SubsetReport]) -> int:
    """Count the patterns of matches of these reports in all."""
    return sum(1 << len(report.subset_sizes) for report in reports)


def whole_table(sizes: Sequence[int], total: float) -> SubsetReport:
    """Return the most accurate subset report on the cells of a whole table.

    No report of this ε on the table is more accurate on all of it.
    """
    cells, gain = math.prod(sizes), math.expm1(min(total, 700.0))
    below = min(max(int(cells / (2 + gain)), 1), cells - 1)

    def energy(k: int) -> float:
        return k / cells * (1 - k / cells) * (gain / (1 + gain * k / cells)) ** 2

    return SubsetReport((max((below, min(below + 1, cells - 1)), key=energy),))


def chances(kappa: FloatArray) -> FloatArray:
    """Compute the chance of each pattern, shape (2^t, B), for B groups.

    κ are the chances of a match, shape (t, B).
    """
    out = np.ones((1, kappa.shape[1]))
    for k in kappa:
        # the first attribute's bit is the lowest, so each further one goes in front
        out = np.concatenate([out * (1 - k), out * k])
    return out


def at_patterns(kappa: FloatArray, effects: FloatArray) -> FloatArray:
    """Compute Σ_S v_S Φ_S at each pattern, attribute by attribute in O(t 2^t).

    v and the result have shape (2^t, B).
    """
    odds = np.sqrt((1 - kappa) / kappa)
    return transformed(effects, (np.ones_like(odds), -1 / odds, np.ones_like(odds), odds))


def responses(kappa: FloatArray, likely: NDArray[np.bool_], gain: float) -> FloatArray:
    """Compute E f Φ_S of likely patterns, shape (2^t, B), in O(t 2^t) each.

    ``likely`` has shape (2^t, B); the entry of S = ∅ is 0.
    """
    spread = np.sqrt(kappa * (1 - kappa))
    held = transformed(likely.astype(np.float64), (1 - kappa, kappa, -spread, spread))
    # the entry of S = ∅ is the proportion of the likely patterns
    out = gain * held / (1 + gain * held[0])
    out[0] = 0
    return np.asarray(out)


def transformed(values: FloatArray, factors: tuple[FloatArray, FloatArray, FloatArray, FloatArray]) -> FloatArray:
    """Transform values by the Kronecker product of the attributes' 2 × 2 matrices.

    Values have shape (2^t, B); the factors are the matrices' entries by rows, shape (t, B) each.

    Entries alike in all columns may have the shape (t, 1). Columns are last because numpy's inner loops run over the
    last axis.
    """
    for i, (a, b, c, d) in enumerate(zip(*factors, strict=True)):
        parts = values.reshape(-1, 2, 1 << i, values.shape[-1])
        off, on = parts[:, 0], parts[:, 1]
        values = np.stack([a * off + b * on, c * off + d * on], axis=1).reshape(values.shape)
    return values


def growth(p: FloatArray, total: float) -> FloatArray:
    """Compute (g/(1 + g p))², g = e^ε − 1, the factor of a question's energies.

    p is the proportion of likely cells.
    """
    return np.asarray((-math.expm1(-total) / (math.exp(-total) - math.expm1(-total) * p)) ** 2)
