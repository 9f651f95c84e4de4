"""PLINK's binary files: bed, bim and fam through bed-reader, and PLINK 2's pgen, pvar and psam through pgenlib.

A1, the counted allele, is that of the bim file, as in PLINK, and in PLINK 2 the alternate one, with A2 the reference. Of pgen
files variants of more than two alleles are left out and counted; calls are the file's hard calls, and phase is ignored. The
texts beside a pgen file are read here: pvar (also ``.pvar.zst``) with or without a line of names, psam with one.
"""

import sys
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optrr.core.errors import InvalidInput, in_one_line
from optrr.genomics.filters import EVERYTHING, OUTSIDE, GenotypeFilter
from optrr.genomics.genotypes import (
    BLOCK,
    LARGEST_POSITION,
    MISSING,
    Codes,
    Genotypes,
    Variants,
    checked_people,
    required,
    unique_names,
    whole_number,
)
from optrr.genomics.people_tables import fields_of, names_of_people, people_column, table_columns, text_column
from optrr.genomics.phenotypes import SEX, PhenotypeColumns, sexes
from optrr.genomics.vcf import MOST_RECORDS
from optrr_solvers.arrays import IntArray

BED_MISSING = -127
PLINK_FILES = (".bed", ".fam", ".bim")

# What a fam file writes for men and women; anything else is unknown.
_FAM_MALE = {1: 1, 2: 0}

# Fields of a line of a bim or fam file.
_FIELDS = 6

PGEN_FILES = (".pgen", ".pvar", ".psam")
# A variant's columns where there is no line of names: those of a bim file, which may lack the third.
_BIM = ("#CHROM", "ID", "CM", "POS", "ALT", "REF")
_WANTED = ("#CHROM", "POS", "ID", "ALT", "REF")
# Columns of a psam file that are no phenotype.
_NO_PHENOTYPE = ("FID", "IID", "SID", "PAT", "MAT", SEX)
_LONGEST_LINE = 1 << 26
_PGEN_MISSING = -9


class _FromFiles(Genotypes):
    """Genotypes of PLINK's binary files; ``at`` are the numbers in the file of the variants that are used."""

    def __init__(self, files: Sequence[Path], remedy: str) -> None:
        self.path = files[0]
        for file in files:
            if not file.is_file():
                raise InvalidInput(f"{file} does not exist; {remedy}")

    def use(self, variants: Variants, chosen: GenotypeFilter, numbers: IntArray, skipped: Mapping[str, int]) -> None:
        """Take those of the variants, of these numbers in the file, that are chosen."""
        inside = np.flatnonzero(chosen.within(variants))
        self.variants, self.at = variants.take(inside), numbers[inside]
        gone = {**skipped, OUTSIDE: len(variants) - inside.size}
        self.skipped = {reason: count for reason, count in gone.items() if count}

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Codes]]:
        """Copies of A1, n × size bytes at a time."""
        for start in range(0, self.at.size, size):
            chosen = slice(start, min(start + size, self.at.size))
            yield chosen, self.read(self.at[chosen])

    @abstractmethod
    def read(self, at: IntArray) -> Codes:
        """Codes of the variants of these numbers in the file, (n, k)."""


class PlinkGenotypes(_FromFiles):
    """Reads ``FILE.bed`` with its bim and fam beside it; blocks come straight from the file.

    People are named by IID, or by FID_IID where IIDs repeat. Raises InvalidInput where one of the three files is missing or
    malformed.
    """

    def __init__(self, path: Path, chosen: GenotypeFilter = EVERYTHING) -> None:
        bed, fam, bim = (path.with_suffix(suffix) for suffix in PLINK_FILES)
        super().__init__((bed, fam, bim), "PLINK data are .bed, .bim and .fam")
        families, persons, father, mother, sex, phenotype = _columns(fam, 4, "sex")
        self.people = checked_people([str(name) for name in names_of_people(families, persons)], str(fam))
        self._families, *self._parents = (np.array(x) for x in (families, father, mother))
        self.male = np.array([_FAM_MALE.get(int(x), -1) for x in sex], dtype=np.int8)
        self.own_status = [None if text in ("NA", "") else text for text in phenotype]
        columns = _columns(bim, 3, "position")
        chromosome, name, a1, a2 = (np.array(columns[k], dtype=object) for k in (0, 1, 4, 5))
        # PLINK uses no variant of a negative position, which stands for an unknown one
        position = np.maximum(np.array([int(x) for x in columns[3]], dtype=np.int64), 0)
        if not name.size:
            raise InvalidInput(f"{bim} lists no variants; give files with at least one")
        everywhere = Variants(chromosome, position, unique_names(chromosome, position, name, a1, a2), a1, a2)
        try:
            self._bed = required("bed_reader").open_bed(bed, self.people.size, name.size)
        except (OSError, ValueError) as error:
            raise InvalidInput(f"cannot read {bed}: {in_one_line(error)}") from error
        self.use(everywhere, chosen, np.arange(name.size), {})

    def relatives(self, rows: NDArray[np.int64]) -> int:
        """How many of these people share a family (a FID other than 0) or a parent, who is one of that family, with another."""
        related, families = np.zeros(rows.size, dtype=np.bool_), self._families[rows]
        for column in (families, *(parents[rows] for parents in self._parents)):
            pairs = np.stack([families, column], axis=1)
            _, which, times = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
            related |= (column != "0") & (times[which] > 1)
        return int(related.sum())

    def read(self, at: IntArray) -> Codes:
        """As :class:`_FromFiles`."""
        try:
            codes: Codes = self._bed.read(np.s_[:, at], dtype="int8", order="F", num_threads=1)
        except Exception as error:
            raise InvalidInput(f"cannot read {self.path}: {in_one_line(error)}; is it cut short?") from error
        codes[codes == BED_MISSING] = MISSING
        return codes


def _columns(path: Path, whole: int, what: str) -> list[list[str]]:
    """The columns of a bim or fam file, of fields between blanks, of which one is whole numbers; no message shows a value."""
    rows = []
    for k, fields in fields_of(path):
        if len(fields) != _FIELDS:
            raise InvalidInput(f"{path}, line {k} has {len(fields)} fields instead of {_FIELDS}; mend it there")
        number = whole_number(fields[whole].removeprefix("-"))
        if number is None or number > LARGEST_POSITION:
            raise InvalidInput(
                f"{path}, line {k} has no whole number up to {LARGEST_POSITION} as its {what} (field {whole + 1}); mend it "
                "there"
            )
        # chromosomes, alleles and parents repeat
        rows.append(tuple(map(sys.intern, fields)))
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(_FIELDS)]


class PgenGenotypes(_FromFiles):
    """Reads ``FILE.pgen`` with its pvar and psam beside it; blocks come straight from the file.

    Raises InvalidInput where one of the three files is missing or malformed, or no variant is left.
    """

    def __init__(self, path: Path, chosen: GenotypeFilter = EVERYTHING) -> None:
        psam, pvar = path.with_suffix(".psam"), path.with_suffix(".pvar")
        if not pvar.is_file() and path.with_suffix(".pvar.zst").is_file():
            pvar = path.with_suffix(".pvar.zst")
        super().__init__((path, psam, pvar), "PLINK 2's data are .pgen, .pvar and .psam")
        self.people = checked_people([str(name) for name in people_column(psam, None)], str(psam))
        has_sex = SEX in table_columns(psam)
        texts = [text or "" for text in text_column(psam, SEX)] if has_sex else [""] * self.people.size
        self.male = sexes(texts, f"{psam}, column {SEX!r}")
        rows, alleles = _rows(pvar)
        two = np.flatnonzero(alleles == 2)
        if not two.size:
            raise InvalidInput(f"{pvar} lists no variant of two alleles; give files with at least one")
        offsets = None if two.size == len(rows) else np.concatenate([[0], np.cumsum(alleles)]).astype(np.uint64)
        try:
            self._file = required("pgenlib").PgenReader(
                str(path).encode(),
                raw_sample_ct=self.people.size,
                variant_ct=len(rows),
                allele_idx_offsets=offsets,
            )
        except RuntimeError as error:
            raise self._unreadable(error) from error
        gone = {"not biallelic": len(rows) - two.size}
        self.use(Variants.of([rows[k] for k in two]), chosen, two.astype(np.int64), gone)

    def read(self, at: IntArray) -> Codes:
        """As :class:`_FromFiles`."""
        codes: Codes = np.empty((at.size, self.people.size), dtype=np.int8)
        try:
            self._file.read_list(at.astype(np.uint32), codes)
        except RuntimeError as error:
            raise self._unreadable(error) from error
        codes[codes == _PGEN_MISSING] = MISSING
        return codes.T

    def _unreadable(self, error: Exception) -> InvalidInput:
        said = error.args[0] if error.args else error
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        return InvalidInput(
            f"cannot read {self.path}: {in_one_line(text.strip())}; check that it is whole and that .pvar and .psam are its own"
        )


def own_phenotype(pgen: Path, phenotype: PhenotypeColumns) -> PhenotypeColumns:
    """Where the status stands in the psam file, unless another table is named.

    Raises InvalidInput where several columns could be the phenotype, or none.
    """
    if phenotype.table is not None:
        return phenotype
    psam = pgen.with_suffix(".psam")
    column = phenotype.column
    if column is None:
        known = [name for name in table_columns(psam) if name not in _NO_PHENOTYPE] if psam.is_file() else []
        if len(known) != 1:
            what = "several phenotypes" if known else "no phenotype"
            raise InvalidInput(
                f"{psam} has {what}; name the one to use (--phenotype-column), or a table (--phenotype FILE)"
            )
        (column,) = known
    return replace(phenotype, table=psam, sample=None, column=column)


def _rows(pvar: Path) -> tuple[list[tuple[str, int, str, str, str]], IntArray]:
    """Chromosome, position, name, A1 and A2 of every variant, and how many alleles it has."""
    rows: list[tuple[str, int, str, str, str]] = []
    alleles: list[int] = []
    at: list[int] = []
    for number, fields in fields_of(pvar, _LONGEST_LINE):
        if number > MOST_RECORDS:
            raise InvalidInput(f"{pvar} has more than {MOST_RECORDS:,} lines; split it by chromosome (plink2 --chr)")
        if not at:
            is_head = fields[0].startswith("#")
            names = fields if is_head else _BIM if len(fields) == len(_BIM) else (*_BIM[:2], *_BIM[3:])
            if not set(_WANTED) <= set(names):
                raise InvalidInput(
                    f"{pvar}, line {number} does not name {', '.join(_WANTED)}; write it with plink2 --make-pgen"
                )
            at = [names.index(name) for name in _WANTED]
            if is_head:
                continue
        position = whole_number(fields[at[1]]) if len(fields) > max(at) else None
        if position is None or position > LARGEST_POSITION:
            raise InvalidInput(
                f"{pvar}, line {number} has too few fields, or no whole number up to {LARGEST_POSITION} as its position; "
                "mend it there"
            )
        chromosome, _, name, alternate, reference = (fields[k] for k in at)
        alleles.append(1 + max(1, len(alternate.split(","))))
        rows.append((chromosome, position, name, alternate, reference))
    return rows, np.array(alleles, dtype=np.int64)
