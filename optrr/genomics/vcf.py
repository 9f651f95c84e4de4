"""VCF files (plain, bgzipped, BCF) through cyvcf2.

A1, the counted allele, is the alternate one. Records that are not biallelic, symbolic alleles, records without genotypes
and those where nobody is diploid are left out and counted by reason. Phase is ignored. A call with one allele unknown is
missing; a haploid call in a record of diploid ones (chromosome X) counts as homozygous, as in PLINK.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from optrr.errors import InvalidInput, in_one_line
from optrr.genomics.genotypes import BLOCK, MISSING, Codes, Variants, checked_people
from optrr.genomics.optional import required

_UNKNOWN = 3
_DIPLOID = 2


class VcfGenotypes:
    """Reads a VCF twice or more: once for the variants, then for their genotypes.

    Raises
    ------
    InvalidInput
        where the file is missing, unreadable, has no samples, or no biallelic variant.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise InvalidInput(f"{self.path} does not exist; give a VCF file")
        file = self._opened()
        if not file.samples:
            raise InvalidInput(f"{self.path} has no samples; give a VCF with genotypes")
        self.people = checked_people(file.samples, str(self.path))
        self.skipped: dict[str, int] = {}
        rows = []
        for record in self._records(file):
            reason = _unusable(record)
            if reason:
                self.skipped[reason] = self.skipped.get(reason, 0) + 1
            else:
                rows.append((record.CHROM, record.POS, record.ID or ".", record.ALT[0], record.REF))
        if not rows:
            raise InvalidInput(
                f"{self.path} has no biallelic diploid variant ({_counted(self.skipped)}); give a file with at least one"
            )
        self.variants = Variants.of(rows)

    def _opened(self) -> Any:
        cyvcf2 = required("cyvcf2")
        # exceptions also hold what htslib writes to standard error
        cyvcf2.cyvcf2.set_htslib_log_level(0)
        try:
            return cyvcf2.VCF(str(self.path), gts012=True, strict_gt=True)
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(f"cannot read {self.path}: {in_one_line(error)}") from error

    def _records(self, file: Any) -> Iterator[Any]:
        try:
            yield from file
        except Exception as error:
            raise InvalidInput(f"cannot read {self.path}: {in_one_line(error)}; is it cut short?") from error

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Codes]]:
        """Copies of the alternate allele."""
        columns: list[Codes] = []
        done = 0
        for record in self._records(self._opened()):
            if _unusable(record):
                continue
            codes = record.gt_types.astype(np.int8)
            codes[codes == _UNKNOWN] = MISSING
            columns.append(codes)
            if len(columns) == size:
                yield slice(done, done + size), np.stack(columns, axis=1)
                done += size
                columns = []
        if columns:
            yield slice(done, done + len(columns)), np.stack(columns, axis=1)


def _unusable(record: Any) -> str:
    """Why a record is left out; empty where it is not."""
    if len(record.ALT) != 1:
        return "not biallelic"
    if record.ALT[0].startswith("<") or record.ALT[0] == "*":
        return "symbolic allele"
    if "GT" not in record.FORMAT:
        return "without genotypes"
    return "" if record.ploidy == _DIPLOID else "not diploid"


def _counted(skipped: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in skipped.items()) or "it has no records"
