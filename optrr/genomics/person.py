"""One person's genotype file, brought to a design: its variants alone, and what the file says of each.

A file of one person usually lists only where that person differs from the reference, so a variant that is not in it may be two
copies of the reference allele, or was not called. The file does not say which, so whoever has it must:

refuse     (default) every variant of the design must be listed
reference  what is not listed is two copies of the reference allele, which is the design's A2, as in designs made from a VCF
missing    what is not listed is a missing call

Variants are found by name. One that the design calls chrom:pos:A2:A1, because no file named it, is found by its place and
alleles, whichever of them is the reference here, with ``chr`` or without.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Literal

import numpy as np

from optrr.core.display import amount
from optrr.core.domain import listed, shown
from optrr.core.errors import InvalidInput
from optrr.genomics.alleles import aligned, turned
from optrr.genomics.cohort import Cohort, read_genotypes
from optrr.genomics.filters import EVERYTHING, GenotypeFilter
from optrr.genomics.genotypes import (
    MISSING,
    Genotypes,
    MatrixGenotypes,
    Variants,
    refuse_single_copies,
)
from optrr.genomics.layout import Layout

Absent = Literal["refuse", "reference", "missing"]

# Parts of a variant's name that is made of its place and alleles.
_PARTS = 4


def read_person(
    path: Path,
    layout: Layout,
    case: bool,
    absent: Absent = "refuse",
    chosen: GenotypeFilter = EVERYTHING,
) -> tuple[Cohort, list[str]]:
    """One person as a cohort of the design's variants, its A1 counted, and what to say of the file, a line each.

    Parameters
    ----------
    case
        whether the person is a case.
    absent
        what variants are of which the file has no record; see the top of this module.
    chosen
        which records of the file are used; what a filter leaves out is not read, and never as the reference.

    Raises
    ------
    InvalidInput
        for a file of more than one person, or that has no record of any variant of the design; as :func:`aligned`; for variants
        of chromosome X, Y or MT; for variants that are absent, where that is refused or cannot be told.
    """
    genotypes = read_genotypes(Path(path), chosen=chosen)
    people = genotypes.people.size
    if people != 1:
        raise InvalidInput(
            f"{path} holds {people} people, and a report is one person's; take one out of it (bcftools view -s NAME)"
        )
    places = _places(genotypes.variants, layout, path)
    if not places:
        raise InvalidInput(
            f"{path} has a record of none of the design's {amount(layout.variants, 'variant')}; give it the names that the "
            "design uses (bcftools annotate -c ID), or design for this file's variants"
        )
    at = np.array(sorted(places), dtype=np.int64)
    variants = replace(genotypes.variants.take(at), name=np.array([places[k] for k in at.tolist()], dtype=object))
    refuse_single_copies(
        variants.chromosome, "a report does not say who is a man: leave these variants out of the design"
    )
    codes = np.concatenate([block for _, block in genotypes.blocks()], axis=1)[:, at]
    gone = [name for name in layout.names if name not in set(variants.name)]
    said: list[str] = []
    if gone:
        own = _absent(path, genotypes, variants, layout, gone, absent)
        pairs = dict(zip(layout.names, layout.alleles, strict=True))
        filled = Variants.named(gone, [pairs[name] for name in gone])
        columns = (np.concatenate([getattr(x, f.name) for x in (variants, filled)]) for f in fields(Variants))
        variants = Variants(*columns)
        codes = np.concatenate([codes, np.full((1, len(gone)), own, dtype=np.int8)], axis=1)
        how = "missing calls" if own == MISSING else "two copies of the reference allele"
        said.append(f"{path} has no record of {amount(len(gone), 'variant')} of the design: taken as {how}")
    # the person's name in the file is of no use to anybody
    held = MatrixGenotypes(variants, np.array(["1"], dtype=object), codes)
    cohort, more = aligned(Cohort(held, np.arange(1), np.array([case], dtype=np.int8)), layout)
    return cohort, [*said, *more]


def _places(variants: Variants, layout: Layout, path: Path) -> dict[int, str]:
    """Which of the file's variants are the design's, and which. Raises InvalidInput where two are the same."""
    wanted = dict(zip(layout.names, layout.alleles, strict=True))
    # names that are made of place and alleles
    spots = {_spot(*name.split(":")[:2]) for name in wanted if name.count(":") == _PARTS - 1}
    out: dict[int, str] = {}
    for k, name in enumerate(variants.name):
        spot = _spot(variants.chromosome[k], variants.position[k])
        if name in wanted:
            out[k] = name
        elif spot in spots and (ours := _by_place(spot, str(variants.a1[k]), str(variants.a2[k]), wanted)):
            out[k] = ours
    twice = [name for name, times in Counter(out.values()).items() if times > 1]
    if twice:
        raise InvalidInput(f"{path} has two records of the design's variant {shown(twice[0])}; leave one of them out")
    return out


def _spot(chromosome: object, position: object) -> str:
    return f"{str(chromosome).removeprefix('chr')}:{position}"


def _by_place(spot: str, a1: str, a2: str, wanted: Mapping[str, tuple[str, str]]) -> str:
    """The design's name for these alleles at this place, in either order where it says which allele it counts; or none."""
    for first, second in ((a2, a1), (a1, a2)):
        for name in (f"{spot}:{first}:{second}", f"chr{spot}:{first}:{second}"):
            if name in wanted and (first == a2 or all(wanted[name])):
                return name
    return ""


def _absent(  # noqa: PLR0913 (the file, what was read of it, the design, and what is not there)
    path: Path, genotypes: Genotypes, variants: Variants, layout: Layout, gone: list[str], absent: Absent
) -> int:
    """What the variants that are not in the file are. Raises InvalidInput where that is refused, or not the reference's."""
    if absent == "missing":
        return MISSING
    if absent == "refuse":
        raise InvalidInput(
            f"{path} has no record of {amount(len(gone), 'variant')} of the design ({listed(gone)}): a file of one person "
            "usually lists only where that person differs from the reference, so nobody knows whether they are as in the "
            "reference or were not called; say which (--absent reference, --absent missing)"
        )
    if not genotypes.names_reference:
        raise InvalidInput(f"{path} is no VCF, which alone says what the reference is; take --absent missing")
    every = genotypes.variants
    spots = Counter(zip(every.chromosome, every.position.tolist(), strict=True))
    own = set(zip(variants.chromosome, variants.position.tolist(), strict=True))
    reasons = ", ".join(f"{count} {reason}" for reason, count in genotypes.skipped.items())
    hiding = f"records that are not read ({reasons})" if reasons else ""
    if any(times > 1 and spot not in own for spot, times in spots.items()):
        hiding = "several records at one place"
    if hiding:
        raise InvalidInput(
            f"{path} has {hiding}, so a variant of the design that seems absent may be one of them; keep the design's variants "
            "only (bcftools view -i 'ID=@names.txt'), and split what is left (bcftools norm -m -)"
        )
    flip = turned(variants, layout)
    if flip.any():
        raise InvalidInput(
            f"the reference allele of variant {shown(str(variants.name[int(np.argmax(flip))]))} is the design's A1, so those "
            "of the variants that are not listed are not known to be A2; take --absent missing, or a file that lists them"
        )
    unnamed = [name for name, pair in zip(layout.names, layout.alleles, strict=True) if name in gone and not all(pair)]
    if unnamed:
        raise InvalidInput(
            f"the design does not name the alleles of variant {shown(unnamed[0])}, so which is the reference is not "
            "known; design from a file that names alleles, or take --absent missing"
        )
    return 0
