"""Read one person's genotype file for a design: the genotypes of the design's variants.

A file of one person usually lists only where that person differs from the reference, so a variant that is not in it may
be two copies of the reference allele, or was not called. The file does not state which, so the user must:

refuse     (default) every variant of the design must be listed
reference  unlisted variants have two copies of the reference allele, the design's A2, as in designs made from a VCF
missing    unlisted variants are missing calls

Variants are found by name, which is chrom:pos:A2:A1 where a file has none.
"""

from dataclasses import fields
from pathlib import Path
from typing import Literal

import numpy as np

from optrr.core.display import amount
from optrr.core.domain import listed, shown
from optrr.core.errors import InvalidInput
from optrr.genomics.alleles import aligned, turned
from optrr.genomics.cohort import Cohort, read_genotypes
from optrr.genomics.genotypes import MISSING, Genotypes, MatrixGenotypes, Variants, plain_name, refuse_single_copies
from optrr.genomics.layout import Layout

Absent = Literal["refuse", "reference", "missing"]


def read_person(path: Path, layout: Layout, case: bool, absent: Absent = "refuse") -> tuple[Cohort, list[str]]:
    """Read one person as a cohort of the design's variants.

    The design's A1 is counted. Also returns warnings, one line each.

    Parameters
    ----------
    case
        whether the person is a case.
    absent
        meaning of variants without a record in the file; see the module docstring.

    Raises
    ------
    InvalidInput
        for a file of more than one person, or that has no record of any variant of the design; as :func:`aligned`; for
        variants of chromosome X, Y or MT; for absent variants, if these are refused or ambiguous.
    """
    genotypes = read_genotypes(Path(path))
    people = genotypes.people.size
    if people != 1:
        raise InvalidInput(
            f"{path} holds {people} people; extract the one who makes the report (bcftools view -s NAME)"
        )
    at = np.flatnonzero(np.isin(genotypes.variants.name, layout.names))
    if not at.size:
        raise InvalidInput(
            f"{path} has no record of any of the design's {amount(layout.variants, 'variant')}; give it the names "
            "that the "
            "design uses (bcftools annotate), or design for this file's variants"
        )
    variants = genotypes.variants.take(at)
    refuse_single_copies(
        variants.chromosome, "a report does not contain the sex; leave these variants out of the design"
    )
    codes = np.concatenate([block for _, block in genotypes.blocks()], axis=1)[:, at]
    gone = [name for name in layout.names if name not in set(variants.name)]
    said: list[str] = []
    if gone:
        if absent == "refuse":
            raise InvalidInput(
                f"{path} has no record of {amount(len(gone), 'variant')} of the design ({listed(gone)}), which could "
                "be equal to the reference or not called; state which (``absent`` reference, ``absent`` missing)"
            )
        if absent == "reference":
            _check_reference(path, genotypes, variants, layout, gone)
        own, how = (0, "two copies of the reference allele") if absent == "reference" else (MISSING, "missing calls")
        pairs = dict(zip(layout.names, layout.alleles, strict=True))
        filled = Variants.named(gone, [pairs[name] for name in gone])
        variants = Variants(
            *(np.concatenate([getattr(x, f.name) for x in (variants, filled)]) for f in fields(Variants))
        )
        codes = np.concatenate([codes, np.full((1, len(gone)), own, dtype=np.int8)], axis=1)
        said.append(f"{path} has no record of {amount(len(gone), 'variant')} of the design: taken as {how}")
    # the person's name in the file is of no use to anybody
    held = MatrixGenotypes(variants, np.array(["1"], dtype=object), codes)
    cohort, more = aligned(Cohort(held, np.arange(1), np.array([case], dtype=np.int8)), layout)
    return cohort, [*said, *more]


def _check_reference(path: Path, genotypes: Genotypes, variants: Variants, layout: Layout, gone: list[str]) -> None:
    """Raise InvalidInput unless the ``gone`` variants must be two copies of A2."""
    otherwise = "or take ``absent`` missing"
    if not genotypes.names_reference:
        raise InvalidInput(f"{path} is not a VCF, and only a VCF states the reference; give one, {otherwise}")
    if genotypes.skipped:
        reasons = ", ".join(f"{count} {reason}" for reason, count in genotypes.skipped.items())
        raise InvalidInput(
            f"{path} has unsupported records ({reasons}), which could be the absent variants of the design; keep the "
            "design's variants only (bcftools view -i 'ID=@names.txt'), and split the rest (bcftools norm -m -)"
        )
    flip = turned(variants, layout)
    if flip.any():
        raise InvalidInput(
            f"the reference allele of variant {shown(str(variants.name[int(np.argmax(flip))]))} is the design's A1, "
            "so A2 cannot be assumed as the reference of variants that are not listed; give a file that lists them, "
            f"{otherwise}"
        )
    here = {_spot(place) for place in genotypes.variants.places}
    for name, pair, place in zip(layout.names, layout.alleles, layout.places, strict=True):
        if name in gone and not (all(pair) and place):
            raise InvalidInput(
                f"the design does not state the position and the alleles of variant {shown(name)}, so the reference "
                f"is unknown; design from a file that states them, {otherwise}"
            )
        if name in gone and _spot(place) in here:
            raise InvalidInput(
                f"{path} has a record at the position of the design's variant {shown(name)}, under another name; give "
                f"both the same name (bcftools annotate), {otherwise}"
            )


def _spot(place: str) -> tuple[str, str]:
    chromosome, _, position = place.rpartition(":")
    return plain_name(chromosome), position
