"""Which variants, people and calls of a genotype file are used: regions, a list of people, and marks of quality.

Regions are written CHROMOSOME, CHROMOSOME:FROM or CHROMOSOME:FROM-TO, both ends included, with or without ``chr``.

Of a VCF, records that did not pass its filters are left out unless they are asked for. Where a least quality (GQ) or depth (DP)
is given, calls below it are missing, and so are those of which none is said. A dosage makes a call where it is near enough to
a whole number, and is missing elsewhere. On X, Y and MT calls are taken as they are, because programs write the dosage of a
man's single copy in two ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optrr.errors import InvalidInput
from optrr.genomics.genotypes import LARGEST_POSITION, MISSING, Codes, Texts, Variants, plain_name, whole_number
from optrr.genomics.people_tables import listed_people
from optrr.show.text import amount
from optrr_solvers.arrays import FloatArray

OUTSIDE = "outside the regions"
# A dosage as near as this to a whole number and its half is none: 1.5 is as near to 1 as to 2.
_HALF = 0.5


@dataclass(frozen=True)
class GenotypeFilter:
    """What to use of a genotype file; by default every variant that passed the file's own filters.

    ``regions`` as above; ``keep`` a file of people; ``all_filters`` takes records that did not pass, too; ``min_gq`` and
    ``min_dp`` the least quality and depth of a call; ``dosage_threshold``, above 0 and below 0.5, how far a dosage may be from
    the whole number that it is taken for.

    Raises
    ------
    InvalidInput
        for regions that are none, and numbers out of range.
    """

    regions: tuple[str, ...] = ()
    keep: Path | None = None
    all_filters: bool = False
    min_gq: float | None = None
    min_dp: float | None = None
    dosage_threshold: float | None = None

    def __post_init__(self) -> None:
        list(self.places())
        for name, least in (("--min-gq", self.min_gq), ("--min-dp", self.min_dp)):
            if least is not None and not 0 <= least < np.inf:
                raise InvalidInput(f"{name} is {least:g}; give a number of at least 0")
        if self.dosage_threshold is not None and not 0 < self.dosage_threshold < _HALF:
            raise InvalidInput(
                f"--dosage-threshold is {self.dosage_threshold:g}; give a number above 0 and below 0.5, such as 0.1"
            )

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
        """Raise InvalidInput where files of this kind (vcf, pgen, bed or table) lack what is asked of them."""
        of_vcf = {"--all-filters": self.all_filters, "--min-gq": self.min_gq, "--min-dp": self.min_dp}
        for option, given, kinds in (
            *((name, value is not None and value is not False, ("vcf",)) for name, value in of_vcf.items()),
            ("--dosage-threshold", self.dosage_threshold is not None, ("vcf", "pgen")),
            ("--region", bool(self.regions), ("vcf", "pgen", "bed")),
        ):
            if given and kind not in kinds:
                what = {"vcf": "VCF", "pgen": "PLINK 2 (.pgen)", "bed": "PLINK (.bed)"}
                raise InvalidInput(
                    f"{option} is for {' and '.join(what[k] for k in kinds)} files, and not for {path}; leave it out"
                )

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
        return {
            "regions": list(self.places()),
            "all_filters": self.all_filters,
            "least": {name: value for name, value in (("GQ", self.min_gq), ("DP", self.min_dp)) if value is not None},
            "dosage": self.dosage_threshold,
        }


EVERYTHING = GenotypeFilter()


def none_within(regions: tuple[str, ...]) -> InvalidInput:
    """What is said where no variant is in the regions."""
    return InvalidInput(f"no variant is in {', '.join(regions)}; name chromosomes and positions as the file does")


def called(dosages: FloatArray, threshold: float) -> Codes:
    """Calls of dosages: the nearest whole number where it is within the threshold, missing elsewhere; negative is unknown."""
    nearest = np.rint(dosages)
    # single precision, in which files have them: 0.9 is 0.1 from 1
    good = (np.abs(dosages - nearest) <= threshold + 1e-6) & (nearest >= 0) & (nearest <= 2)
    return np.where(good, nearest, MISSING).astype(np.int8)
