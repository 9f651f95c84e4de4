"""Genotypes as a VCF (plain, or in the blocks of bgzip) with a file of statuses beside it.

ALT is A1, the counted allele, and REF is A2, which need not be the reference genome's. Calls are written with two alleles
everywhere, as PLINK's files have them: 1/1 where somebody has one copy, and it is A1.

A VCF has no place for a status. So it stands in ``NAME.pheno`` beside ``NAME.vcf`` (for ``NAME.vcf.gz`` in ``NAME.vcf.pheno``)
as PLINK has it: ``#IID status`` with 2 for a case and 1 for a control, and SEX where variants mean nothing without it. Both
files appear together, with a sidecar that is bound to both: a status beside the genotypes of other people is worse than none.

bgzip's blocks (SAM specification, §4.1): gzip members of at most 64 KiB that say their own size, then an empty one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from optrr.domain.domain import shown
from optrr.errors import InvalidInput
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import BLOCK, Codes, Texts, Variants
from optrr.genomics.layout import STATUS
from optrr.genomics.phenotypes import SEX, side_file
from optrr.genomics.randomize import written_people
from optrr.records.whole_files import whole_files
from optrr.releases.provenance import Provenance, sidecar_path, write_sidecar
from optrr.show.text import epsilon_text
from optrr.show.version import SOFTWARE
from optrr_solvers.randomness import BitSource, RandomState

WRITTEN_VCF = (".vcf", ".vcf.gz")

# Bytes of text in one block: as bgzip has it, so that a block that does not shrink still fits in 64 KiB.
_BLOCK_TEXT = 0xFF00
_BLOCK_HEAD = struct.Struct("<4BI2BH2BHH")
_LAST_BLOCK = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")

# A call by its code: missing, which numpy's index −1 finds last, stands there.
_CALLS = np.array([list(b"\t0/0"), list(b"\t0/1"), list(b"\t1/1"), list(b"\t./.")], dtype=np.uint8)
_COLUMNS = "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT"


def is_written_vcf(path: Path) -> bool:
    """Whether a file of this name is written as a VCF."""
    return path.name.lower().endswith(WRITTEN_VCF)


def write_vcf(
    cohort: Cohort,
    target: Path,
    provenance: Provenance | None = None,
    *,
    random_state: RandomState | BitSource = None,
    keep_names: bool = False,
) -> None:
    """The cohort as ``target`` (.vcf or .vcf.gz) and its side file: both appear, or none.

    ``provenance`` is that of randomized genotypes: the header says by which design and at which ε calls were randomized. Order
    and names of people, and what else it is for, as of :func:`optrr.genomics.randomize.write_plink`.

    Raises
    ------
    InvalidInput
        for another ending, names with blanks, and variants without a chromosome or letters for both alleles.
    """
    if not is_written_vcf(target):
        raise InvalidInput(f"{target} is to be a VCF, which is written as {' or '.join(WRITTEN_VCF)}")
    _check_variants(cohort.variants)
    order, people = written_people(cohort.people, provenance, random_state, keep_names)
    _check_people(people)
    male = None if cohort.male is None else cohort.male[order]
    places = [target, side_file(target), *([] if provenance is None else [sidecar_path(target)])]
    with whole_files(places, withdraw=True) as (vcf, beside, *sidecar):
        with vcf.open("wb") as file, _compressed(file, target.suffix.lower() == ".gz") as out:
            out.write(_header(cohort.variants, people, provenance).encode())
            for chosen, codes in cohort.blocks(BLOCK):
                out.write(_lines(cohort.variants.take(chosen), codes[order]))
        beside.write_text(_statuses(people, cohort.status[order], male), encoding="utf-8")
        for path in sidecar:
            assert provenance is not None
            write_sidecar(path, [vcf, beside], provenance)


def _header(variants: Variants, people: Texts, provenance: Provenance | None) -> str:
    lines = ["##fileformat=VCFv4.2", f"##source={SOFTWARE}"]
    if provenance is not None:
        release = provenance.randomizations[-1]
        lines += [
            "##optrr_calls=locally randomized, person by person: none is known to be true, and tests undo it by the design",
            f"##optrr_design={release.design}",
            f"##optrr_epsilon={epsilon_text(release.epsilon)} nats for one person's record in this release",
            *(f"##optrr_warning={line}" for line in provenance.not_private("this file")),
        ]
    lines.append("##optrr_alleles=ALT is the allele that the design counts; REF need not be the reference genome's")
    lines += [f"##contig=<ID={name}>" for name in dict.fromkeys(variants.chromosome)]
    lines.append('##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">')
    return "\n".join(lines) + "\n" + "\t".join([_COLUMNS, *people]) + "\n"


def _lines(variants: Variants, codes: Codes) -> bytes:
    """One line for each variant."""
    columns = (variants.chromosome, variants.position, variants.name, variants.a2, variants.a1)
    heads = ("\t".join(map(str, row)) for row in zip(*columns, strict=True))
    calls = (_CALLS[column].tobytes() for column in codes.T)
    return b"".join(f"{head}\t.\t.\t.\tGT".encode() + own + b"\n" for head, own in zip(heads, calls, strict=True))


def _statuses(people: Texts, status: Codes, male: NDArray[np.bool_] | None) -> str:
    columns = [people, *([] if male is None else [np.where(male, "1", "2")]), np.where(status == 1, "2", "1")]
    head = ["#IID", *([] if male is None else [SEX]), STATUS]
    return "".join("\t".join(row) + "\n" for row in [head, *zip(*columns, strict=True)])


def _check_variants(variants: Variants) -> None:
    columns = zip(variants.name, variants.chromosome, variants.a1, variants.a2, strict=True)
    for name, chromosome, a1, a2 in columns:
        letters = all(set(str(allele).upper()) <= set("ACGTN") and allele for allele in (a1, a2))
        if not letters or chromosome in (".", "", "0"):
            raise InvalidInput(
                f"variant {shown(str(name))} has no chromosome, or no letters for both alleles, and a VCF cannot do without; "
                "write .bed, .csv or .parquet"
            )
        if len(str(name).split()) != 1 or ";" in str(name):
            raise InvalidInput(f"variant {shown(str(name))} has a blank or a semicolon in its name; write .csv")


def _check_people(people: Texts) -> None:
    """A person is named by place only."""
    blank = next((k for k, name in enumerate(people) if len(str(name).split()) != 1), None)
    if blank is not None:
        raise InvalidInput(f"person number {blank + 1} has a blank in the name; leave out --keep-names, or write .csv")


class _Blocks:
    """Writes text in bgzip's blocks."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._text = file, bytearray()

    def write(self, text: bytes) -> None:
        """Append text; whole blocks go to the file."""
        self._text += text
        whole = len(self._text) - len(self._text) % _BLOCK_TEXT
        for start in range(0, whole, _BLOCK_TEXT):
            self._block(bytes(self._text[start : start + _BLOCK_TEXT]))
        del self._text[:whole]

    def finish(self) -> None:
        """The rest, and the empty block that says that nothing is cut off."""
        if self._text:
            self._block(bytes(self._text))
        self._file.write(_LAST_BLOCK)

    def _block(self, text: bytes) -> None:
        packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        packed = packer.compress(text) + packer.flush()
        # a gzip head with a field of six bytes: B, C, its length, and the block's size less one
        size = _BLOCK_HEAD.size + len(packed) + 7
        self._file.write(_BLOCK_HEAD.pack(31, 139, 8, 4, 0, 0, 255, 6, 66, 67, 2, size))
        self._file.write(packed + struct.pack("<II", zlib.crc32(text), len(text)))


@contextmanager
def _compressed(file: BinaryIO, blocks: bool) -> Iterator[BinaryIO | _Blocks]:
    if not blocks:
        yield file
        return
    out = _Blocks(file)
    yield out
    out.finish()
