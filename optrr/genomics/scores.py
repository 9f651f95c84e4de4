"""Association of genotype and status from randomized tables of many variants: trend, genotypic and allelic tests.

The tests are those of :mod:`optrr.models.tests`, contrasts and null hypotheses from :mod:`optrr.models.tests.genotypes`, null
fit, statistic and p-value from the same code for one table and for a scan. The target is the population the people were drawn
from; a person's two alleles are one observation. A fourth genotype row, where the mechanism has one, is "missing": it takes
part in the estimate, and the hypothesis is about the other three.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import Kernel, unrandomized
from optrr.models.tests.conditional import calibrated
from optrr.models.tests.genotypes import ASSUMING, GENOTYPE_TESTS, GENOTYPES, absent_genotypes, genotype_test
from optrr.models.tests.nullfit import NullFit
from optrr.models.tests.score import score_tests
from optrr_solvers.arrays import FloatArray, IntArray

ASSUMPTION = (
    f"the {ASSUMING} test is valid only in Hardy-Weinberg proportions; allelic and trend need no such assumption"
)
# Variants, rows, statuses.
_AXES = 3


@dataclass(frozen=True, eq=False)
class Scores:
    """One test for each variant, arrays of shape (V,); NaN where the test is undefined (no variation at all).

    ``df`` are degrees of freedom: genotypic has one where a genotype is ``absent``, which is then its number, else −1.
    ``expected`` is the smallest expected count of an observed cell under the null hypothesis; ``fit`` the null fits of the
    variants that were tested, ``tested`` which these are, and ``n`` their people.
    """

    statistic: FloatArray
    df: IntArray
    p_value: FloatArray
    expected: FloatArray
    fit: NullFit | None
    tested: IntArray
    n: FloatArray
    absent: IntArray

    @property
    def independence(self) -> NullFit | None:
        """The fit where it is one of independence alone, to every variant."""
        usable = self.fit is not None and not self.fit.hardy_weinberg and self.tested.size == self.statistic.size
        return self.fit if usable else None


def score_test(counts: NDArray[np.number], kernel: Kernel, test: str = "trend", tail: bool = True) -> Scores:
    """The test for every variant.

    Parameters
    ----------
    counts
        observed tables, shape (V, R, 2): rows are genotypes 0, 1, 2 and, as a fourth, missing; or two alleles, each
        counted one drawn on its own (not for genotypic). Columns control, case.
    kernel
        of the mechanism that randomized them, one for all variants or one for each;
        :func:`optrr.mechanisms.kernel.unrandomized` for data that are not randomized.
    test
        trend, genotypic, allelic or allelic-hwe.
    tail
        whether small p-values come from :mod:`optrr.models.tests.conditional`, which is more accurate there; False takes all of
        them from the χ² limit.

    Raises
    ------
    InvalidInput
        for an unknown test or tables of another shape.
    """
    rows = counts.shape[1] if counts.ndim == _AXES and counts.shape[2] == 2 else 0
    if test not in GENOTYPE_TESTS or rows not in ((3, 4) if test == "genotypic" else (2, 3, 4)):
        raise InvalidInput(
            f"{test!r} of counts of shape {counts.shape}; give one of {', '.join(GENOTYPE_TESTS)}, and tables of 3 or 4 "
            "genotypes (2 alleles will do, but not for genotypic) by 2 statuses, shape (variants, rows, 2)"
        )
    v = counts.shape[0]
    which = np.flatnonzero(_varies(counts))
    out, absent = np.full((3, v), np.nan), np.full(v, -1)
    df = np.full(v, genotype_test(test, min(rows, GENOTYPES))[0].shape[0])
    if not which.size:
        return Scores(out[0], df, out[1], out[2], None, which, np.empty(0), absent)
    chosen, own = (counts, kernel) if which.size == v else (counts[which], kernel.part(which))
    absent[which] = absent_genotypes(test, chosen, own)
    fits, order = [], []
    for g in np.unique(absent[which]):
        at = np.flatnonzero(absent[which] == g)
        contrasts, fitter = genotype_test(test, min(rows, GENOTYPES), int(g))
        these, theirs = (chosen, own) if at.size == which.size else (chosen[at], own.part(at))
        tested = score_tests(these, theirs, contrasts, fitter)
        p = calibrated(tested, these, theirs, contrasts, fitter).p_value if tail else tested.p_value
        out[:2, which[at]], df[which[at]] = (tested.statistic, p), tested.df
        fits.append(tested.fit)
        order.append(at)
    fit = fits[0] if len(fits) == 1 else NullFit.joined(fits).part(np.argsort(np.concatenate(order)))
    n = chosen.reshape(which.size, -1).astype(np.float64) @ np.ones(own.cells)
    out[2, which] = n * np.min(np.moveaxis(fit.expected, 0, -1).reshape(own.cells, -1), axis=0)
    return Scores(out[0], df, out[1], out[2], fit, which, n, absent)


def _varies(counts: NDArray[np.number]) -> NDArray[np.bool_]:
    """Whether both genotype and status take more than one value among the people of a table."""
    known = counts[:, :GENOTYPES] if counts.shape[1] > GENOTYPES else counts
    rows, columns = known.sum(axis=2) > 0, known.sum(axis=1) > 0
    return np.asarray((rows @ np.ones(rows.shape[1]) > 1) & (columns @ np.ones(2) > 1))


def naive_score_test(counts: NDArray[np.number], test: str = "trend") -> Scores:
    """The test as if the counts were true ones, by the χ² limit: for comparison with the valid one only.

    It is valid only where the mechanism happens to make no dependence of its own; see :func:`optrr.genomics.noise.naive_shift`.
    """
    return score_test(counts, unrandomized(counts.shape[1:]), test, tail=False)
