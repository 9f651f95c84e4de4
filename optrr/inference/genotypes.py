"""Tests of a genotype (0, 1, 2 copies of an allele) and a status, made of contrasts and a null hypothesis.

With x the copies, W_s the share of status s, and p_g that of genotype g:

    trend        Σ_g x_g (π_g1 W_0 − π_g0 W_1), the Cochran–Armitage contrast                                          1 df
    genotypic    π_g1 W_0 − π_g0 W_1 for g = 0, 1                                                                      2 df
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

from optrr.inference.nullfit import Fitter, hardy_weinberg_fit, independence_fit
from optrr.inference.score import all_contrasts, trend_contrast
from optrr_solvers.arrays import FloatArray

GENOTYPE_TESTS = ("trend", "genotypic", "allelic", "allelic-hwe")
# The test that is valid only in Hardy–Weinberg proportions.
ASSUMING = "allelic-hwe"
GENOTYPES = 3


def genotype_test(name: str, rows: int = GENOTYPES) -> tuple[FloatArray, Fitter]:
    """Contrasts (K, rows, 2) and null hypothesis of one of `GENOTYPE_TESTS`.

    ``rows``: 3 genotypes, or 2 alleles each drawn on its own. Tables may have more rows: those of a missing genotype, of which
    the hypothesis says nothing.
    """
    contrasts = all_contrasts(rows, 2) if name == "genotypic" else trend_contrast(np.arange(rows), np.arange(2))
    in_proportions = name == ASSUMING and rows == GENOTYPES
    return contrasts, partial(hardy_weinberg_fit if in_proportions else independence_fit, rows=rows)
