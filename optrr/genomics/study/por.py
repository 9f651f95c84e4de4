"""The table of a SNP in POR §V-B: allele and status as one attribute of four categories, and its ordinary χ².

A χ² of randomized counts is not valid; valid tests are in :mod:`optrr.genomics.score_tests`.
"""

import numpy as np

from optrr.genomics.score_tests import naive_score_test
from optrr_solvers.arrays import FloatArray, IntArray

CELLS = 4


def allele_tables(records: IntArray) -> IntArray:
    """Count allele × status of each SNP, (V, 2, 2).

    ``records`` (n, V) hold the codes 2 · allele + status.
    """
    return np.stack([np.bincount(column, minlength=CELLS) for column in records.T]).reshape(-1, 2, 2)


def naive_chi_squared(tables: IntArray) -> FloatArray:
    """Compute Pearson's χ² of tables (V, 2, 2) as if counts were true; (V,)."""
    return naive_score_test(tables).statistic
