"""Which allele a design counts: A1 and A2 of every variant stand in its categories, A2/A2, A1/A2 and A1/A1.

Two files of the same variants may count different alleles, as PLINK does when it makes A1 the rarer one of the people at hand.
So files are brought to the design's A1 where they name the same two alleles the other way round, and refused where they name
others. A/T and C/G read the same on both strands of the DNA, so the other way round may mean the other strand: they are refused
too. What a file or the design does not know is taken as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optrr.domain.domain import shown
from optrr.errors import InvalidInput
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import BLOCK, MISSING, Codes, Genotypes, Texts, Variants, allele_text
from optrr.genomics.layout import Layout
from optrr.show.printable import amount

_COMPLEMENTS = ({"A", "T"}, {"C", "G"})


def turned(variants: Variants, layout: Layout) -> NDArray[np.bool_]:
    """Which variants, (V,), name the design's A1 as their A2.

    Raises
    ------
    InvalidInput
        where a variant has other alleles than in the design, or A/T or C/G the other way round.
    """
    if not any(map(any, layout.alleles)):
        return np.zeros(len(variants), dtype=np.bool_)
    wanted = dict(zip(layout.names, layout.alleles, strict=True))
    rows = zip(variants.name, variants.a1, variants.a2, strict=True)
    return np.array(
        [_is_turned(n, (allele_text(str(a)), allele_text(str(b))), wanted.get(n, ("", ""))) for n, a, b in rows],
        dtype=np.bool_,
    )


def aligned(cohort: Cohort, layout: Layout) -> tuple[Cohort, list[str]]:
    """The cohort with the design's A1 as the counted allele, and what to say of it, a line each.

    Raises
    ------
    InvalidInput
        as :func:`turned`.
    """
    variants, said = cohort.variants, []
    flip = turned(variants, layout)
    wanted = dict(zip(layout.names, layout.alleles, strict=True))
    designs = [wanted.get(name, ("", "")) for name in variants.name]
    here = zip(variants.a1, variants.a2, designs, strict=True)
    unknown = np.array([bool(d[0]) and not allele_text(str(a)) and not allele_text(str(b)) for a, b, d in here])
    if unknown.any():
        said.append(
            f"the file does not name the alleles of {amount(int(unknown.sum()), 'variant')}: its counts are taken for those of "
            "the design's A1, and nothing shows it if they are not"
        )
    if not flip.any():
        return cohort, said
    said.append(f"{amount(int(flip.sum()), 'variant')} named A1 and A2 the other way round than the design: turned")
    names = replace(variants, a1=np.where(flip, variants.a2, variants.a1), a2=np.where(flip, variants.a1, variants.a2))
    genotypes = _Turned(names, cohort.genotypes.people, cohort.genotypes.skipped, cohort.genotypes, flip)
    return replace(cohort, genotypes=genotypes), said


def refuse_turned(variants: Variants, layout: Layout) -> None:
    """Raise InvalidInput where the design's other allele is counted; see :func:`aligned`."""
    at = np.flatnonzero(turned(variants, layout))
    if at.size:
        raise InvalidInput(
            f"variant {shown(str(variants.name[at[0]]))} counts the design's A2; bring the cohort to its A1 first "
            "(optrr.genomics.aligned)"
        )


def _is_turned(name: str, here: tuple[str, str], wanted: tuple[str, str]) -> bool:
    """Whether a file's A1 and A2 are the design's A2 and A1."""
    if not all(wanted) or not any(here):
        return False
    same, other = (all(not a or a == b for a, b in zip(here, x, strict=True)) for x in (wanted, wanted[::-1]))
    if same:
        return False
    if other and set(wanted) not in _COMPLEMENTS:
        return True
    files, designs = ("/".join(x or "unknown" for x in pair) for pair in (here, wanted))
    why = "which may be the other strand" if other else "the design's are others"
    raise InvalidInput(
        f"variant {shown(str(name))} has A1/A2 {files}, and {designs} in the design: {why}; bring the file to the "
        "design's strand and alleles (plink --flip, --a1-allele), or leave the variant out"
    )


@dataclass(frozen=True, eq=False)
class _Turned:
    """Genotypes in which copies of the other allele are counted in the variants of ``flip``."""

    variants: Variants
    people: Texts
    skipped: Mapping[str, int]
    genotypes: Genotypes
    flip: NDArray[np.bool_]

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Codes]]:
        """Every variant once, in order."""
        for chosen, codes in self.genotypes.blocks(size):
            other = self.flip[chosen][None, :] & (codes != MISSING)
            yield chosen, np.where(other, 2 - codes, codes).astype(np.int8)
