"""The genotypic test: independence of a genotype and another attribute, whatever the order of the genotypes.

    π_g1 W_0 − π_g0 W_1 for g = 0, 1, with W_s the proportion of status s

are its contrasts for two statuses: 2 degrees of freedom, and 1 where a genotype is absent.

Without a mechanism it is Pearson's χ² on genotypes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optrr.core.errors import InvalidInput
from optrr.core.inference import Association, all_contrasts, trend_contrast
from optrr.genomics.genotypes import GENOTYPES
from optrr_solvers.arrays import FloatArray, IntArray

# Note on variants with one of three genotypes absent.
ABSENT = "one genotype is not observed: the genotypic test compares the other two, with fewer degrees of freedom"
# A genotype is there where its estimated share is above 0 by so many standard errors of the mechanism's noise.
_THERE = 2.0
# Largest proportion that is a rounded 0.
_ROUNDING = 1e-12
# What each genotype counts where the first, second or third is absent: the two that are there, one against the other.
# Nobody has the absent one, so that what it counts changes only the noise: least where it goes with its neighbour.
_WITHOUT = ((0.0, 0.0, 1.0), (0.0, 0.5, 1.0), (0.0, 1.0, 1.0))


@dataclass(frozen=True, eq=False)
class Genotypic(Association):
    """Test of three genotypes, which are the first attribute.

    ``absent`` is the unobserved genotype, −1 for none.
    """

    absent: int = field(default=-1, kw_only=True)

    name = "genotypic"
    of_genotypes = "any difference of the genotypes (two degrees of freedom)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sizes[0] != GENOTYPES:
            raise InvalidInput(
                f"the genotypic test needs a genotype of three categories as first attribute, got {self.sizes[0]}; "
                "name the "
                "genotype first"
            )

    @cached_property
    def contrasts(self) -> FloatArray:
        """Contrasts of each present genotype with each free category of the other."""
        if self.absent < 0:
            return all_contrasts(*self.sizes)
        return np.stack([trend_contrast(_WITHOUT[self.absent], column)[0] for column in np.eye(self.sizes[1])[1:]])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warning that a genotype is absent."""
        return () if self.absent < 0 else (ABSENT,)

    def forms(self, tables: NDArray[np.number]) -> Iterator[tuple[IntArray, Association]]:
        """Group the tables by the genotype that is absent from them.

        It is the one that is not above 0 by two standard errors of the mechanism's noise, where the two others are:
        without a mechanism, the unobserved one. The margins that decide on it are nearly uncorrelated with the
        contrasts under the null hypothesis, so that the test keeps its level; a genotype that is too rare to be
        detected is left out as well, with hardly any loss of power.
        """
        absent = self._absent(np.asarray(tables, dtype=np.float64).reshape(len(tables), 1, -1))
        for genotype in np.unique(absent).tolist():
            at = np.flatnonzero(absent == genotype)
            yield at, replace(self, absent=genotype, kernel=self.kernel.part(at))

    def _absent(self, counts: FloatArray) -> IntArray:
        n = counts.sum(axis=2)
        cells = np.zeros((GENOTYPES, *self.kernel.sizes))
        cells[np.arange(GENOTYPES), np.arange(GENOTYPES)] = 1
        weights = self.kernel.solve_adjoint(cells[None]).reshape(-1, GENOTYPES, self.kernel.cells)
        share, square = np.sum(weights * counts, axis=2) / n, np.sum(weights**2 * counts, axis=2) / n
        # of people whose genotypes are given only the mechanism's noise is left: E[w²] − E[w] for weights of mean 0 or
        # 1
        noise = np.sqrt(np.maximum(square - share, 0.0) / n)
        there = share > _THERE * noise + _ROUNDING
        return np.where(there.sum(axis=1) == GENOTYPES - 1, np.argmin(there, axis=1), -1)
