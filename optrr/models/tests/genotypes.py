"""Tests of a genotype (0, 1, 2 copies of an allele) and a status, made of contrasts and a null hypothesis.

With x the copies, W_s the share of status s, and p_g that of genotype g:

    trend        Σ_g x_g (π_g1 W_0 − π_g0 W_1), the Cochran–Armitage contrast                                          1 df
    genotypic    π_g1 W_0 − π_g0 W_1 for g = 0, 1                                  2 df; 1 where a genotype is absent
    allelic      difference of allele frequencies, with the variance that people's genotypes have under the null
                 hypothesis (Schaid & Jacobsen 1999): the trend test, number for number                                1 df
    allelic-hwe  the same with the variance of 2n independent alleles: valid only in Hardy–Weinberg proportions        1 df

Without a mechanism these are the Cochran–Armitage test, Pearson's χ² on genotypes and (allelic-hwe) Pearson's χ² on alleles.
Counting alleles as if each were drawn on its own is what makes the classical allelic test wrong where people of different
ancestry are pooled (Sasieni 1997), randomized or not.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from optrr.mechanisms.kernel import Kernel
from optrr.models.tests.nullfit import Fitter, hardy_weinberg_fit, independence_fit
from optrr.models.tests.score import all_contrasts, trend_contrast
from optrr_solvers.arrays import FloatArray, IntArray

GENOTYPE_TESTS = ("trend", "genotypic", "allelic", "allelic-hwe")
# The test that is valid only in Hardy–Weinberg proportions.
ASSUMING = "allelic-hwe"
GENOTYPES = 3


# What is said where one of three genotypes is absent.
ABSENT = "one genotype does not show in the records: the genotypic test compares the other two, with fewer degrees of freedom"
# A genotype is there where its estimated share is above 0 by so many standard errors of the mechanism's noise.
_THERE = 2.0
# What rounding leaves of a share of 0.
_ROUNDING = 1e-12
# What each genotype counts where the first, second or third is absent: the two that are there, one against the other. Nobody
# has the absent one, so that what it counts changes only the noise: least where it goes with its neighbour.
_WITHOUT = ((0.0, 0.0, 1.0), (0.0, 0.5, 1.0), (0.0, 1.0, 1.0))


def counts_alleles(test: str) -> bool:
    """Whether the test is of alleles, of which a person may have one or two."""
    return test in ("allelic", ASSUMING)


def genotype_test(name: str, rows: int = GENOTYPES, absent: int = -1) -> tuple[FloatArray, Fitter]:
    """Contrasts (K, rows, 2) and null hypothesis of one of `GENOTYPE_TESTS`.

    ``rows``: 3 genotypes, or 2 alleles each drawn on its own. Tables may have more rows: those of a missing genotype, of which
    the hypothesis says nothing. ``absent``: the genotype that nobody has, which leaves genotypic one contrast; −1 for none.
    """
    trend = trend_contrast(np.arange(rows), np.arange(2))
    contrasts = genotypic_contrasts(2, absent) if name == "genotypic" else trend
    in_proportions = name == ASSUMING and rows == GENOTYPES
    return contrasts, partial(hardy_weinberg_fit if in_proportions else independence_fit, rows=rows)


def genotypic_contrasts(columns: int, absent: int = -1) -> FloatArray:
    """Contrasts (K, 3, columns) of genotypes that are there with the columns' categories: one for each pair that is free."""
    if absent < 0:
        return all_contrasts(GENOTYPES, columns)
    return np.stack([trend_contrast(_WITHOUT[absent], column)[0] for column in np.eye(columns)[1:]])


def absent_genotypes(name: str, counts: NDArray[np.number], kernel: Kernel) -> IntArray:
    """Which genotype each table (V, R, C) shows to be absent, for `genotype_test`; −1 for none, shape (V,).

    It is the one that is not above 0 by two standard errors of the mechanism's noise, where the two others are: without a
    mechanism, the one that nobody has. The margins that decide on it are nearly uncorrelated with the contrasts under the null
    hypothesis, so that the test keeps its level; a genotype that is too rare to be seen is left out as well, and with it next
    to nothing that the test could have found.
    """
    if name != "genotypic":
        return np.full(counts.shape[0], -1)
    flat = np.asarray(counts, dtype=np.float64).reshape(counts.shape[0], 1, -1)
    n = flat.sum(axis=2)
    cells = np.zeros((GENOTYPES, *kernel.sizes))
    cells[np.arange(GENOTYPES), np.arange(GENOTYPES)] = 1
    weights = kernel.solve_adjoint(cells[None]).reshape(-1, GENOTYPES, kernel.cells)
    share, square = np.sum(weights * flat, axis=2) / n, np.sum(weights**2 * flat, axis=2) / n
    # of people whose genotypes are given only the mechanism's noise is left: E[w²] − E[w] for weights of mean 0 or 1
    noise = np.sqrt(np.maximum(square - share, 0.0) / n)
    there = share > _THERE * noise + _ROUNDING
    return np.where(there.sum(axis=1) == GENOTYPES - 1, np.argmin(there, axis=1), -1)
