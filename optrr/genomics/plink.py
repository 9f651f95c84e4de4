"""PLINK's binary files: bed, bim and fam through bed-reader, and PLINK 2's pgen, pvar and psam through pgenlib.

A1, the counted allele, is that of the bim file, as in PLINK, and in PLINK 2 the alternate one, with A2 the reference. Of pgen
files variants of more than two alleles are left out and counted; calls are the file's hard calls, and phase is ignored. The
texts beside a pgen file are read here: pvar (also ``.pvar.zst``) with or without a line of names, psam with one.
"""

import sys
from collections.abc import Iterator, Mapping
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr.core.errors import InvalidInput, in_one_line
from optrr.genomics.filters import EVERYTHING, OUTSIDE, GenotypeFilter
from optrr.genomics.genotypes import (
    BLOCK,
    LARGEST_POSITION,
    MISSING,
    Codes,
    Variants,
    checked_people,
    required,
    unique_names,
    whole_number,
)
from optrr.genomics.people_tables import names_of_people, people_column, table_columns, text_column, text_lines
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
_REMEDY = "write it with plink2 --make-pgen"
_PGEN_MISSING = -9


class PlinkGenotypes:
    """Reads ``FILE.bed`` with its bim and fam beside it; blocks come straight from the file.

    People are named by IID, or by FID_IID where IIDs repeat. ``fam_phenotype`` are the texts of its sixth field;
    ``fam_male`` is 1 for men, 0 for women, −1 for unknown, shape (n,). Raises InvalidInput where one of the three files is
    missing or malformed.
    """

    def __init__(self, path: Path, chosen: GenotypeFilter = EVERYTHING) -> None:
        self.path = Path(path)
        for suffix in PLINK_FILES:
            if not self.path.with_suffix(suffix).is_file():
                raise InvalidInput(
                    f"{self.path.with_suffix(suffix)} does not exist; PLINK data are .bed, .bim and .fam"
                )
        families, persons, father, mother, sex, self.fam_phenotype = _columns(self.path.with_suffix(".fam"), 4, "sex")
        self.people = checked_people(
            [str(name) for name in names_of_people(families, persons)], str(self.path.with_suffix(".fam"))
        )
        self._families, *self._parents = (np.array(x) for x in (families, father, mother))
        self.fam_male: Codes = np.array([_FAM_MALE.get(int(x), -1) for x in sex], dtype=np.int8)
        columns = _columns(self.path.with_suffix(".bim"), 3, "position")
        chromosome, name, a1, a2 = (np.array(columns[k], dtype=object) for k in (0, 1, 4, 5))
        # PLINK uses no variant of a negative position, which stands for an unknown one
        position = np.maximum(np.array([int(x) for x in columns[3]], dtype=np.int64), 0)
        if not name.size:
            raise InvalidInput(f"{self.path.with_suffix('.bim')} lists no variants; give files with at least one")
        everywhere = Variants(chromosome, position, unique_names(chromosome, position, name, a1, a2), a1, a2)
        try:
            self._bed = required("bed_reader").open_bed(self.path, self.people.size, name.size)
        except (OSError, ValueError) as error:
            raise InvalidInput(f"cannot read {self.path}: {in_one_line(error)}") from error
        self._at = np.flatnonzero(chosen.within(everywhere))
        self.variants = everywhere.take(self._at)
        gone = len(everywhere) - self._at.size
        self.skipped: Mapping[str, int] = {OUTSIDE: gone} if gone else {}

    def relatives(self, rows: NDArray[np.int64]) -> int:
        """How many of these people share a family (a FID other than 0) or a parent, who is one of that family, with another."""
        related, families = np.zeros(rows.size, dtype=np.bool_), self._families[rows]
        for column in (families, *(parents[rows] for parents in self._parents)):
            pairs = np.stack([families, column], axis=1)
            _, which, times = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
            related |= (column != "0") & (times[which] > 1)
        return int(related.sum())

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Codes]]:
        """Copies of A1, n × size bytes at a time."""
        for start in range(0, len(self.variants), size):
            chosen = slice(start, min(start + size, len(self.variants)))
            try:
                codes: Codes = self._bed.read(np.s_[:, self._at[chosen]], dtype="int8", order="F", num_threads=1)
            except Exception as error:
                raise InvalidInput(f"cannot read {self.path}: {in_one_line(error)}; is it cut short?") from error
            codes[codes == BED_MISSING] = MISSING
            yield chosen, codes


def _columns(path: Path, whole: int, what: str) -> list[list[str]]:
    """The columns of a bim or fam file, of fields between blanks, of which one is whole numbers; no message shows a value."""
    rows = []
    for k, line in enumerate(text_lines(path), start=1):
        fields = line.split()
        if not fields:
            continue
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


class PgenGenotypes:
    """Reads ``FILE.pgen`` with its pvar and psam beside it; blocks come straight from the file.

    ``fam_male`` is 1 for men, 0 for women, −1 for unknown, shape (n,). Raises InvalidInput where one of the three files is
    missing or malformed, or no variant is left.
    """

    def __init__(self, path: Path, chosen: GenotypeFilter = EVERYTHING) -> None:
        self.path = Path(path)
        psam, pvar = psam_of(self.path), self.path.with_suffix(".pvar")
        if not pvar.is_file() and self.path.with_suffix(".pvar.zst").is_file():
            pvar = self.path.with_suffix(".pvar.zst")
        for file in (self.path, psam, pvar):
            if not file.is_file():
                raise InvalidInput(f"{file} does not exist; PLINK 2's data are .pgen, .pvar and .psam")
        library = required("pgenlib")
        self.people = checked_people([str(name) for name in people_column(psam, None)], str(psam))
        has_sex = SEX in table_columns(psam)
        texts = [text or "" for text in text_column(psam, SEX)] if has_sex else [""] * self.people.size
        self.fam_male: Codes = sexes(texts, f"{psam}, column {SEX!r}")
        rows, alleles = _rows(pvar)
        self._offsets = np.concatenate([[0], np.cumsum(alleles)]).astype(np.uint64)
        two = np.flatnonzero(alleles == 2)
        everywhere = Variants.of([rows[k] for k in two])
        if not two.size:
            raise InvalidInput(f"{pvar} lists no variant of two alleles; give files with at least one")
        inside = chosen.within(everywhere)
        self.variants = everywhere.take(np.flatnonzero(inside))
        self._at: IntArray = two[inside].astype(np.int64)
        gone = {"not biallelic": len(rows) - two.size, OUTSIDE: int(np.count_nonzero(~inside))}
        self.skipped = {reason: count for reason, count in gone.items() if count}
        self._library, self._variants_in_file = library, len(rows)
        self._opened().close()

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Codes]]:
        """Copies of the alternate allele, n × size bytes at a time."""
        reader = self._opened()
        try:
            for start in range(0, self._at.size, size):
                chosen = slice(start, min(start + size, self._at.size))
                yield chosen, self._block(reader, chosen).T
        finally:
            reader.close()

    def _block(self, reader: Any, chosen: slice) -> Codes:
        at = self._at[chosen].astype(np.uint32)
        codes: Codes = np.empty((at.size, self.people.size), dtype=np.int8)
        try:
            reader.read_list(at, codes)
        except RuntimeError as error:
            raise self._unreadable(error) from error
        codes[codes == _PGEN_MISSING] = MISSING
        return codes

    def _opened(self) -> Any:
        try:
            return self._library.PgenReader(
                str(self.path).encode(),
                raw_sample_ct=self.people.size,
                variant_ct=self._variants_in_file,
                allele_idx_offsets=None if (np.diff(self._offsets) == 2).all() else self._offsets,
            )
        except RuntimeError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> InvalidInput:
        said = error.args[0] if error.args else error
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        return InvalidInput(
            f"cannot read {self.path}: {in_one_line(text.strip())}; check that it is whole and that .pvar and .psam are its own"
        )


def psam_of(pgen: Path) -> Path:
    """Where the people of a pgen file stand."""
    return pgen.with_suffix(".psam")


def own_phenotype(pgen: Path, phenotype: PhenotypeColumns) -> PhenotypeColumns:
    """Where the status stands in the psam file, unless another table is named.

    Raises InvalidInput where several columns could be the phenotype, or none.
    """
    if phenotype.table is not None:
        return phenotype
    psam = psam_of(pgen)
    column = phenotype.column
    if column is None:
        known = [name for name in table_columns(psam) if name not in _NO_PHENOTYPE] if psam.is_file() else []
        if len(known) != 1:
            what = "several phenotypes" if known else "no phenotype"
            raise InvalidInput(
                f"{psam} has {what}; name the one to use (--phenotype-column), or a table (--phenotype FILE)"
            )
        (column,) = known
    return PhenotypeColumns(psam, None, column, phenotype.cases, phenotype.controls, phenotype.sex, phenotype.zero_one)


def _rows(pvar: Path) -> tuple[list[tuple[str, int, str, str, str]], IntArray]:
    """Chromosome, position, name, A1 and A2 of every variant, and how many alleles it has."""
    rows: list[tuple[str, int, str, str, str]] = []
    alleles: list[int] = []
    at: list[int] = []
    for number, line in enumerate(_lines(pvar), start=1):
        if number > MOST_RECORDS:
            raise InvalidInput(f"{pvar} has more than {MOST_RECORDS:,} lines; split it by chromosome (plink2 --chr)")
        if line.startswith("##") or not line.strip():
            continue
        fields = line.split()
        if not at:
            names = fields if line.startswith("#") else _BIM if len(fields) == len(_BIM) else (*_BIM[:2], *_BIM[3:])
            if not set(_WANTED) <= set(names):
                raise InvalidInput(f"{pvar}, line {number} does not name {', '.join(_WANTED)}; {_REMEDY}")
            at = [names.index(name) for name in _WANTED]
            if line.startswith("#"):
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


def _lines(pvar: Path) -> Iterator[str]:
    """The file's lines, decompressed where it is .zst."""
    try:
        packed = pvar.suffix == ".zst"
        raw = BufferedReader(pa.input_stream(str(pvar), compression="zstd")) if packed else pvar.open("rb")
        with raw, TextIOWrapper(raw, encoding="utf-8") as file:
            while line := file.readline(_LONGEST_LINE + 1):
                if len(line) > _LONGEST_LINE:
                    raise InvalidInput(f"{pvar} has a line of more than {_LONGEST_LINE >> 20} MiB; {_REMEDY}")
                yield line
    except (UnicodeDecodeError, OSError, pa.ArrowException) as error:
        raise InvalidInput(f"cannot read {pvar}: {in_one_line(error)}; {_REMEDY}") from error
