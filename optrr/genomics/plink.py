"""PLINK's binary files: bed, bim and fam through bed-reader, and PLINK 2's pgen, pvar and psam through pgenlib.

A1, the counted allele, is that of the bim file, as in PLINK, and in PLINK 2 the alternate one, with A2 the reference.
Of pgen files variants of more than two alleles are left out and counted; calls are the file's hard calls, and phase is
ignored. The text files of both are read here: pvar (also ``.pvar.zst``) and psam with a line of names.
"""

import sys
from pathlib import Path

import numpy as np

from optrr.core.errors import InvalidInput, in_one_line
from optrr.genomics.genotypes import (
    LARGEST_POSITION,
    MISSING,
    Codes,
    FileGenotypes,
    Genotypes,
    Texts,
    Variants,
    checked_people,
    required,
    whole_number,
)
from optrr.genomics.people_tables import SEX, fields_of, people_column, table_columns, text_column
from optrr.genomics.phenotypes import sexes

BED_MISSING = -127
_PGEN_MISSING = -9
PLINK_FILES = (".bed", ".fam", ".bim")
PGEN_FILES = (".pgen", ".pvar", ".psam")

# Columns of a pvar file that are read, and their places in a bim file.
_PVAR = ("#CHROM", "POS", "ID", "ALT", "REF")
_BIM = (0, 3, 1, 4, 5)


def read_bed(path: Path) -> Genotypes:
    """Open ``FILE.bed`` with its bim and fam; blocks come straight from the file.

    People are named by IID, or by FID_IID where IIDs repeat. Raises InvalidInput where one of the three files is
    missing or malformed.
    """
    bed, fam, bim = files = [path.with_suffix(suffix) for suffix in PLINK_FILES]
    _require(files)
    people, male = _people(fam)
    variants = Variants.of(_variants(bim, _BIM))
    try:
        file = required("bed_reader").open_bed(bed, people.size, len(variants))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot read {bed}: {in_one_line(error)}") from error

    def read(chosen: slice) -> Codes:
        try:
            codes: Codes = file.read(np.s_[:, chosen], dtype="int8", order="F", num_threads=1)
        except Exception as error:
            raise InvalidInput(f"cannot read {bed}: {in_one_line(error)}; check that it is complete") from error
        codes[codes == BED_MISSING] = MISSING
        return codes

    return FileGenotypes(variants, people, read, male=male)


def read_pgen(path: Path) -> Genotypes:
    """Open ``FILE.pgen`` with its pvar and psam.

    Blocks come straight from the file.

    Raises InvalidInput where one of the three files is missing or malformed, or no variant is left.
    """
    psam, pvar = path.with_suffix(".psam"), path.with_suffix(".pvar")
    if not pvar.is_file() and path.with_suffix(".pvar.zst").is_file():
        pvar = path.with_suffix(".pvar.zst")
    _require([path, psam, pvar])
    people, male = _people(psam)
    rows = _variants(pvar)
    alleles = np.array([1 + len(row[3].split(",")) for row in rows], dtype=np.int64)
    two = np.flatnonzero(alleles == 2)
    if not two.size:
        raise InvalidInput(f"{pvar}: no biallelic variant; give files with at least one")
    offsets = None if two.size == len(rows) else np.concatenate([[0], np.cumsum(alleles)]).astype(np.uint64)

    def unreadable(error: RuntimeError) -> InvalidInput:
        said = error.args[0] if error.args else error
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        return InvalidInput(
            f"cannot read {path}: {in_one_line(text.strip())}; check that it is complete and that .pvar and .psam "
            "belong to it"
        )

    try:
        file = required("pgenlib").PgenReader(
            str(path).encode(), raw_sample_ct=people.size, variant_ct=len(rows), allele_idx_offsets=offsets
        )
    except RuntimeError as error:
        raise unreadable(error) from error

    def read(chosen: slice) -> Codes:
        at = two[chosen].astype(np.uint32)
        codes: Codes = np.empty((at.size, people.size), dtype=np.int8)
        try:
            file.read_list(at, codes)
        except RuntimeError as error:
            raise unreadable(error) from error
        codes[codes == _PGEN_MISSING] = MISSING
        return codes.T

    gone = len(rows) - two.size
    skipped = {"not biallelic": gone} if gone else {}
    return FileGenotypes(Variants.of([rows[k] for k in two]), people, read, skipped=skipped, male=male)


def _require(files: list[Path]) -> None:
    for file in files:
        if not file.is_file():
            kinds = ", ".join(each.suffix for each in files)
            raise InvalidInput(f"{file} does not exist; give all three PLINK files of one name ({kinds})")


def _people(path: Path) -> tuple[Texts, Codes]:
    """Read names and sexes from a fam or psam file."""
    people = checked_people([str(name) for name in people_column(path, None)], str(path))
    texts = text_column(path, SEX) if SEX in table_columns(path) else [None] * people.size
    return people, sexes([text or "" for text in texts], f"{path}, column {SEX!r}")


def _variants(path: Path, at: tuple[int, ...] = ()) -> list[tuple[str, int, str, str, str]]:
    """Read chromosome, position, name, A1 and A2 from a bim or pvar file.

    ``at`` gives their columns if there is no header line.
    """
    rows: list[tuple[str, int, str, str, str]] = []
    for number, fields in fields_of(path):
        if not at:
            if not set(_PVAR) <= set(fields):
                raise InvalidInput(
                    f"{path}, line {number} does not name {', '.join(_PVAR)}; write it with plink2 --make-pgen"
                )
            at = tuple(fields.index(name) for name in _PVAR)
            continue
        # PLINK ignores variants with a negative position, which means unknown
        position = whole_number(fields[at[1]].removeprefix("-")) if len(fields) > max(at) else None
        if position is None or position > LARGEST_POSITION:
            raise InvalidInput(
                f"{path}, line {number} has too few fields, or a position that is not an integer up to "
                f"{LARGEST_POSITION}; correct the line"
            )
        # chromosomes and alleles repeat
        chromosome, _, name, a1, a2 = (sys.intern(fields[k]) for k in at)
        rows.append((chromosome, 0 if fields[at[1]].startswith("-") else position, name, a1, a2))
    if not rows:
        raise InvalidInput(f"{path}: no variants; give files with at least one")
    return rows
