"""Which allele a design counts: the categories A2/A2, A1/A2 and A1/A1 of a variant state its A1 and A2.

Two files of the same variants may count different alleles, as PLINK does when it makes A1 the rarer one of the people
at hand. So files are converted to the design's A1 if they name the same two alleles in the other order, or those of the
other strand of the DNA (A for T, C for G), and refused if they name other alleles. A/T and C/G are equal on both
strands, so another order may mean the other strand: they are refused too. Alleles unknown to the file or the design are
left unchanged.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from optrr.core.display import amount
from optrr.core.domain import shown
from optrr.core.errors import InvalidInput
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import MISSING, Codes, FileGenotypes, Variants, allele_text
from optrr.genomics.layout import UNNAMED, Alleles, Layout

_COMPLEMENTS = ({"A", "T"}, {"C", "G"})
_OTHER_STRAND = dict(zip("ACGT", "TGCA", strict=True))


def aligned(cohort: Cohort, layout: Layout) -> tuple[Cohort, list[str]]:
    """Return the cohort with the design's A1 as the counted allele.

    Also returns warnings, one line each.

    Raises
    ------
    InvalidInput
        where a variant has other alleles than in the design, or A/T or C/G the other way round.
    """
    variants = cohort.variants
    flip, strand, unknown = _marks(variants, layout)
    texts = (
        (unknown, "results are wrong for {} if the file does not count the design's A1: it does not name the alleles"),
        (strand, "{} with alleles of the other strand: read as the design's alleles"),
        (flip, "{} with A1 and A2 swapped relative to the design: counts were converted"),
    )  # fmt: skip
    said = [text.format(amount(int(marked.sum()), "variant")) for marked, text in texts if marked.any()]
    if not (flip | strand).any():
        return cohort, said
    designs, genotypes = np.array(_designs(variants, layout), dtype=object), cohort.genotypes
    a1, a2 = (np.where(flip | strand, designs[:, k], own) for k, own in enumerate((variants.a1, variants.a2)))

    def read(chosen: slice) -> Codes:
        codes = genotypes.read(chosen)
        return np.where(flip[chosen] & (codes != MISSING), 2 - codes, codes).astype(np.int8)

    counted = FileGenotypes(replace(variants, a1=a1, a2=a2), genotypes.people, read, skipped=genotypes.skipped)
    return replace(cohort, genotypes=counted), said


def turned(variants: Variants, layout: Layout) -> NDArray[np.bool_]:
    """Find the variants that name the design's A1 as their A2.

    Returns an array (V,). Raises InvalidInput as :func:`aligned` does.
    """
    flip: NDArray[np.bool_] = _marks(variants, layout)[0]
    return flip


def refuse_turned(variants: Variants, layout: Layout) -> None:
    """Raise InvalidInput if the design's other allele is counted.

    See :func:`aligned`.
    """
    at = np.flatnonzero(turned(variants, layout))
    if at.size:
        raise InvalidInput(
            f"variant {shown(str(variants.name[at[0]]))} counts the design's A2; align the cohort to its A1 first "
            "(optrr.genomics.aligned)"
        )


def _designs(variants: Variants, layout: Layout) -> list[Alleles]:
    """Look up the design's alleles of these variants."""
    wanted = dict(zip(layout.names, layout.alleles, strict=True))
    return [wanted.get(name, UNNAMED) for name in variants.name]


def _marks(variants: Variants, layout: Layout) -> NDArray[np.bool_]:
    """Mark swapped, other-strand and unnamed variants, shape (3, V)."""
    rows = zip(variants.name, variants.a1, variants.a2, _designs(variants, layout), strict=True)
    marks = [_compared(name, (allele_text(str(a1)), allele_text(str(a2))), d) for name, a1, a2, d in rows]
    return np.asarray(np.array(marks, dtype=np.bool_).reshape(-1, 3).T)


def _compared(name: str, here: Alleles, wanted: Alleles) -> tuple[bool, bool, bool]:
    """Compare alleles: swapped, on the other strand, unknown."""
    if not all(wanted) or not any(here):
        return False, False, all(wanted)
    other = tuple(_OTHER_STRAND.get(allele, "") for allele in here)
    strand = set(here) != set(wanted) == set(other)
    read = (other[0], other[1]) if strand else here
    same, flip = (all(not a or a == b for a, b in zip(read, x, strict=True)) for x in (wanted, wanted[::-1]))
    if same or (flip and set(wanted) not in _COMPLEMENTS):
        return not same, strand, False
    files, designs = ("/".join(x or "unknown" for x in pair) for pair in (read, wanted))
    why = "which may be the other strand" if flip else "the design's are others"
    raise InvalidInput(
        f"variant {shown(str(name))} has A1/A2 {files}, and {designs} in the design: {why}; convert the file to the "
        "design's strand and alleles (plink --flip, --a1-allele), or leave the variant out"
    )
