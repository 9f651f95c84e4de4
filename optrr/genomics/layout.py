"""How a person's genotypes and status become one record, and which attribute is what.

genotype (default)  ``status`` (control, case), then one attribute for each variant: 0, 1 or 2 copies of A1, and, where missing
                    calls are randomized too, the missing value as a fourth category.
alleles             POR §V-B: allele × status as one attribute of size 4. A person has two alleles, so two attributes for each
                    variant, ``name/1`` and ``name/2``: both are paid for, and status is reported with each of them.

One person's genotypes and status are one record, so the total ε covers all of it at once; a file that randomizes the same
people's alleles, genotypes and status in separate releases spends the sum of their totals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from optrr.errors import InvalidInput
from optrr.genomics.genotypes import GENOTYPES
from optrr.records.domain import Domain, listed
from optrr_solvers.arrays import IntArray

Kind = Literal["genotype", "alleles"]

STATUS = "status"
STATUS_CATEGORIES = ("control", "case")
# allele × status, the allele slower: code = 2 · (carries A1) + (is a case)
ALLELE_CATEGORIES = ("A2/control", "A2/case", "A1/control", "A1/case")
_COPIES = ("/1", "/2")


@dataclass(frozen=True, eq=False)
class Layout:
    """Attribute numbers: ``status`` (None in the alleles layout), and for each variant its one or two attributes.

    ``attributes`` has shape (V, 1) or (V, 2); ``missing``: whether the missing genotype is a category.
    """

    kind: Kind
    names: tuple[str, ...]
    status: int | None
    attributes: IntArray
    missing: bool

    @property
    def variants(self) -> int:
        """V, the number of variants."""
        return len(self.names)


def genomic_domain(names: Sequence[str], kind: Kind = "genotype", missing: bool = False) -> Domain:
    """The domain of a record over these variants.

    Raises
    ------
    InvalidInput
        for no variants, repeated ones, a variant called ``status``, and missing calls in the alleles layout, which has no
        place for them.
    """
    if not len(names):
        raise InvalidInput("there are no variants; give at least one")
    twice, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InvalidInput(f"variant {twice!r} is listed {times} times; list each once")
    if STATUS in names:
        raise InvalidInput(f"a variant is called {STATUS!r}, which is the name of the phenotype; rename it")
    if kind == "alleles":
        if missing:
            raise InvalidInput("the alleles layout has no place for missing calls; use the genotype layout")
        return Domain.of({f"{name}{copy}": ALLELE_CATEGORIES for name in names for copy in _COPIES})
    # plain sizes share one tuple of categories, however many variants there are
    genotype = (*range(GENOTYPES), None) if missing else GENOTYPES
    return Domain.of({STATUS: STATUS_CATEGORIES} | dict.fromkeys(names, genotype))


def layout_of(domain: Domain) -> Layout:
    """Which attribute is what, read from a design's domain.

    Raises
    ------
    InvalidInput
        where the domain is not one of :func:`genomic_domain`'s.
    """
    if STATUS in domain.names:
        return _genotype_layout(domain)
    names = tuple(dict.fromkeys(name[:-2] for name in domain.names))
    expected = [f"{name}{copy}" for name in names for copy in _COPIES]
    if expected != list(domain.names) or any(a.texts != ALLELE_CATEGORIES for a in domain):
        raise InvalidInput(
            f"the design's attributes ({listed(domain.names)}) are neither {STATUS!r} with one genotype each nor alleles "
            "in pairs; make it with optrr gwas-design"
        )
    return Layout("alleles", names, None, np.arange(2 * len(names)).reshape(-1, 2), missing=False)


def _genotype_layout(domain: Domain) -> Layout:
    status = domain.index(STATUS)
    if domain.attributes[status].size != 2:
        raise InvalidInput(f"attribute {STATUS!r} has {domain.attributes[status].size} categories; it needs 2")
    others = np.flatnonzero(np.arange(domain.m) != status)
    names = tuple(domain.names[i] for i in others)
    if not names:
        raise InvalidInput(f"the design has only {STATUS!r}; add at least one variant")
    sizes = domain.sizes[others]
    wrong = np.flatnonzero((sizes != sizes[0]) | ((sizes != GENOTYPES) & (sizes != GENOTYPES + 1)))
    if wrong.size:
        raise InvalidInput(
            f"attribute {names[wrong[0]]!r} has {sizes[wrong[0]]} categories; genotypes have 3, or 4 with missing, all alike"
        )
    missing = bool(sizes[0] > GENOTYPES)
    first = domain.attributes[others[0]]
    if missing and first.missing_code not in (None, GENOTYPES):
        raise InvalidInput(f"attribute {first.name!r} has null in place {first.missing_code}; put it last")
    return Layout("genotype", names, status, others[:, None], missing)
