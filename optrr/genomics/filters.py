"""Which variants and people of a genotype file are used: regions, a list of people, and the file's own filters.

Regions are written CHROMOSOME, CHROMOSOME:FROM or CHROMOSOME:FROM-TO, both ends included, with or without ``chr``.

Of a VCF, records that did not pass its filters are left out unless they are asked for. Calls are taken as they are: bcftools
and plink2 set those of low quality missing, and make calls of dosages.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optrr.core.display import amount
from optrr.core.errors import InvalidInput
from optrr.genomics.genotypes import LARGEST_POSITION, Texts, Variants, plain_name, whole_number
from optrr.genomics.people_tables import listed_people

OUTSIDE = "outside the regions"


@dataclass(frozen=True)
class GenotypeFilter:
    """What to use of a genotype file; by default every variant that passed the file's own filters.

    ``regions`` as above; ``keep`` a file of people; ``all_filters`` takes records that did not pass, too.

    Raises
    ------
    InvalidInput
        for regions that are none.
    """

    regions: tuple[str, ...] = ()
    keep: Path | None = None
    all_filters: bool = False

    def __post_init__(self) -> None:
        list(self.places())

    def places(self) -> Iterator[tuple[str, int, int]]:
        """Chromosome without ``chr`` and in capitals, first and last position, of every region."""
        for text in self.regions:
            chromosome, colon, ends = text.strip().rpartition(":")
            if not colon:
                chromosome, ends = ends, ""
            first, dash, last = ends.replace(",", "").partition("-")
            start = whole_number(first) if colon else 0
            end = whole_number(last) if dash else LARGEST_POSITION
            if not chromosome or start is None or end is None or start > end:
                raise InvalidInput(f"region {text!r} is none; write CHROMOSOME, CHROMOSOME:FROM or CHROMOSOME:FROM-TO")
            yield plain_name(chromosome), start, min(end, LARGEST_POSITION)

    def check_kind(self, path: Path, kind: str) -> None:
        """Raise InvalidInput where files of this kind (vcf, plink or table) lack what is asked of them."""
        if self.all_filters and kind != "vcf":
            raise InvalidInput(f"--all-filters is for VCF files, and not for {path}; leave it out")
        if self.regions and kind == "table":
            raise InvalidInput(f"--region is for VCF and PLINK files, and not for {path}; leave it out")

    def within(self, variants: Variants) -> NDArray[np.bool_]:
        """Which variants are in the regions, (V,); all where there are none.

        Raises
        ------
        InvalidInput
            where no variant is.
        """
        if not self.regions:
            return np.ones(len(variants), dtype=np.bool_)
        names, which = np.unique(variants.chromosome.astype(str), return_inverse=True)
        plain = np.array([plain_name(str(name)) for name in names], dtype=object)[which]
        inside = np.zeros(len(variants), dtype=np.bool_)
        for chromosome, first, last in self.places():
            inside |= (plain == chromosome) & (variants.position >= first) & (variants.position <= last)
        if not inside.any():
            raise none_within(self.regions)
        return inside

    def kept(self, people: Texts) -> NDArray[np.bool_]:
        """Which people are on the list, (n,); all where there is none.

        Raises
        ------
        InvalidInput
            where nobody is.
        """
        if self.keep is None:
            return np.ones(people.size, dtype=np.bool_)
        listed = listed_people(self.keep, people.tolist())
        kept = np.array([str(person) in listed for person in people], dtype=np.bool_)
        if not kept.any():
            raise InvalidInput(
                f"{self.keep} names none of the {people.size} people of the genotype file; name them as it does, one a line"
            )
        return kept

    def absent_names(self, people: Texts) -> list[str]:
        """One line where names are on the list of people and not among these."""
        gone = 0 if self.keep is None else len(listed_people(self.keep, people.tolist()) - set(map(str, people)))
        return [f"not in the genotype file: {amount(gone, 'name')} of {self.keep}"] if gone else []

    def order(self) -> dict[str, Any]:
        """What the process that reads a VCF is told (:mod:`optrr.genomics.vcf_worker`)."""
        return {"regions": list(self.places()), "all_filters": self.all_filters}


EVERYTHING = GenotypeFilter()


def none_within(regions: tuple[str, ...]) -> InvalidInput:
    """What is said where no variant is in the regions."""
    return InvalidInput(f"no variant is in {', '.join(regions)}; name chromosomes and positions as the file does")
