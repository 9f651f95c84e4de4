"""VCF files (plain, bgzipped, BCF) through cyvcf2.

A1, the counted allele, is the alternate one. Records that are not biallelic, symbolic alleles, records without genotypes
and those where nobody is diploid, except on chromosomes X, Y and MT, are left out and counted by reason. Phase is ignored. A
call with one allele unknown is missing; a haploid call is coded as homozygous, as in PLINK.

The native library runs in a process of its own (:mod:`optrr.genomics.vcf_process`): a file that crashes it is one line here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from optrr.errors import InvalidInput
from optrr.genomics.genotypes import BLOCK, GENOTYPES, MISSING, Codes, Variants, checked_people
from optrr.genomics.optional import required
from optrr.genomics.vcf_process import decoded, frames

# Bytes of all variants' names and alleles: five million of some fifty, or fewer with long alleles.
_MOST_TEXT = 512 * 1024 * 1024


class VcfGenotypes:
    """Reads a VCF twice or more: once for the variants, then for their genotypes.

    Raises
    ------
    InvalidInput
        where the file is missing, unreadable, beyond the limits, has no samples, or no biallelic variant.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise InvalidInput(f"{self.path} does not exist; give a VCF file")
        required("cyvcf2")
        people: list[str] = []
        rows: list[tuple[str, int, str, str, str]] = []
        self.skipped: dict[str, int] = {}
        text = 0
        for kind, content in frames(self.path, genotypes=False):
            if kind == b"P":
                people = decoded(content, self.path)
            elif kind == b"S":
                self.skipped = decoded(content, self.path)
            elif kind == b"V":
                text += len(content)
                if text > _MOST_TEXT:
                    raise InvalidInput(
                        f"the variants' names and alleles in {self.path} take more than {_MOST_TEXT >> 20} MiB; "
                        "split it by region (bcftools view -r)"
                    )
                rows += decoded(content, self.path)
        if not people:
            raise InvalidInput(f"{self.path} has no samples; give a VCF with genotypes")
        self.people = checked_people(people, str(self.path))
        if not rows:
            raise InvalidInput(
                f"{self.path} has no biallelic diploid variant ({_counted(self.skipped)}); give a file with at least one"
            )
        self.variants = Variants.of(rows)

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Codes]]:
        """Copies of the alternate allele, n × size bytes at a time."""
        n, total = self.people.size, len(self.variants)
        with closing(frames(self.path, genotypes=True)) as received:
            for start in range(0, total, size):
                chosen = slice(start, min(start + size, total))
                codes: Codes = np.empty((chosen.stop - start, n), dtype=np.int8)
                for row in codes:
                    row[:] = self._checked(next(received, (b"", b""))[1])
                yield chosen, codes.T
            if next(received, None) is not None:
                raise self._changed()

    def _checked(self, content: bytes) -> Codes:
        codes: Codes = np.frombuffer(content, dtype=np.int8)
        if codes.size != self.people.size or codes.min() < MISSING or codes.max() >= GENOTYPES:
            raise self._changed()
        return codes

    def _changed(self) -> InvalidInput:
        return InvalidInput(f"{self.path} was read differently the second time; leave it alone while it is read")


def _counted(skipped: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in skipped.items()) or "it has no records"
