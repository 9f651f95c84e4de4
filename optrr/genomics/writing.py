"""Cohorts and randomized records as files: PLINK's bed, bim and fam, VCF (plain, or in the blocks of bgzip), CSV and Parquet.

Files of randomized people are shuffled, and people in them are numbered anew: a place in the order of the true records tells
about the status, where cases come first, and so does a name that was given in that order. All files of a form appear together,
with a sidecar: a status beside the genotypes of other people is worse than none. What nothing randomized is not written:
family and parents are "unknown" in a fam file, and so is sex, unless there are variants of chromosome X or Y that mean nothing
without it.

A VCF has no place for a status. So it stands in ``NAME.pheno`` beside ``NAME.vcf`` (for ``NAME.vcf.gz`` in ``NAME.vcf.pheno``)
as PLINK has it: ``#IID status`` with 2 for a case and 1 for a control, and SEX where it is written. ALT is A1, the counted
allele, and REF is A2, which need not be the reference genome's. Calls are written with two alleles everywhere, as PLINK's files
have them: 1/1 where somebody has one copy, and it is A1.

bgzip's blocks (SAM specification, §4.1): gzip members of at most 64 KiB that say their own size, then an empty one.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from optrr.core.display import SOFTWARE, epsilon_text
from optrr.core.domain import Domain, ReleasedColumn, shown
from optrr.core.errors import InvalidInput
from optrr.core.provenance import Provenance, sidecar_path, write_sidecar
from optrr.core.records import format_to_write, released_file, whole_files
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import BLOCK, MISSING, Codes, Texts, Variants, required
from optrr.genomics.layout import STATUS
from optrr.genomics.phenotypes import SEX, side_file
from optrr.genomics.plink import BED_MISSING, PLINK_FILES
from optrr_solvers.randomness import BitSource, RandomState, as_source, permutation

WRITTEN_VCF = (".vcf", ".vcf.gz")

# Bytes of text in one block: as bgzip has it, so that a block that does not shrink still fits in 64 KiB.
_BLOCK_TEXT = 0xFF00
_BLOCK_HEAD = struct.Struct("<4BI2BH2BHH")
_LAST_BLOCK = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")

# A call by its code: missing, which numpy's index −1 finds last, stands there.
_CALLS = np.array([list(b"\t0/0"), list(b"\t0/1"), list(b"\t1/1"), list(b"\t./.")], dtype=np.uint8)
_COLUMNS = "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT"

# Cells of a table written at once.
_CELLS = 1 << 22


def is_written_vcf(path: Path) -> bool:
    """Whether a file of this name is written as a VCF."""
    return path.name.lower().endswith(WRITTEN_VCF)


def write_plink(  # noqa: PLR0913 (all but two have defaults)
    cohort: Cohort,
    target: Path,
    provenance: Provenance | None = None,
    *,
    random_state: RandomState | BitSource = None,
    keep_order: bool = False,
    keep_names: bool = False,
) -> None:
    """The cohort as ``target`` (.bed) with its .bim and .fam: all three appear, or none.

    ``provenance`` is that of randomized genotypes, for the sidecar. Their people are shuffled by ``random_state`` unless
    ``keep_order``, and numbered 1 to n unless ``keep_names``. A chromosome or an allele that is not known is written as 0.

    Raises
    ------
    InvalidInput
        for another ending, names with blanks in them, and where the system does not let the files be written.
    """
    if target.suffix != ".bed":
        raise InvalidInput(f"{target} ends in {target.suffix!r}; PLINK genotypes are written as .bed")
    variants = cohort.variants
    order, people = written_people(cohort.people, provenance, random_state, keep_order, keep_names)
    _refuse_blanks(people)
    if (blank := _first_blank(variants.name)) is not None:
        raise InvalidInput(f"variant {shown(str(variants.name[blank]))} has a blank in its name; write .csv")
    unknown = np.full(people.size, "0")
    sex = 0 if cohort.male is None else np.where(cohort.male[order], 1, 2)
    properties = {
        "fid": unknown,
        "iid": people.astype(str),
        "father": unknown,
        "mother": unknown,
        "sex": np.broadcast_to(sex, people.size).astype(np.int32),
        "pheno": np.where(cohort.status[order] == 1, "2", "1"),
        "chromosome": _known(variants.chromosome),
        "sid": variants.name.astype(str),
        "cm_position": np.zeros(len(variants)),
        "bp_position": variants.position.astype(np.int32),
        "allele_1": _known(variants.a1),
        "allele_2": _known(variants.a2),
    }
    with (
        _together([target.with_suffix(suffix) for suffix in PLINK_FILES], provenance) as (bed, *_),
        required("bed_reader").create_bed(
            bed, iid_count=people.size, sid_count=len(variants), properties=properties
        ) as file,
    ):
        for _, codes in cohort.blocks(BLOCK):
            own = codes[order]
            for variant in np.ascontiguousarray(np.where(own == MISSING, np.int8(BED_MISSING), own).T):
                file.write(variant)


def write_vcf(  # noqa: PLR0913 (all but two have defaults)
    cohort: Cohort,
    target: Path,
    provenance: Provenance | None = None,
    *,
    random_state: RandomState | BitSource = None,
    keep_order: bool = False,
    keep_names: bool = False,
) -> None:
    """The cohort as ``target`` (.vcf or .vcf.gz) and its side file: both appear, or none.

    The header says by which design and at which ε calls were randomized. The rest as of :func:`write_plink`.

    Raises
    ------
    InvalidInput
        for another ending, names with blanks, and variants without a chromosome or letters for both alleles.
    """
    if not is_written_vcf(target):
        raise InvalidInput(f"{target} is to be a VCF, which is written as {' or '.join(WRITTEN_VCF)}")
    _check_variants(cohort.variants)
    order, people = written_people(cohort.people, provenance, random_state, keep_order, keep_names)
    _refuse_blanks(people)
    male = None if cohort.male is None else cohort.male[order]
    with _together([target, side_file(target)], provenance) as (vcf, beside):
        pack, end = (_bgzip, _LAST_BLOCK) if target.suffix.lower() == ".gz" else (bytes, b"")
        with vcf.open("wb") as file:
            file.write(pack(_header(cohort.variants, people, provenance).encode()))
            for chosen, codes in cohort.blocks(BLOCK):
                file.write(pack(_lines(cohort.variants.take(chosen), codes[order])))
            file.write(end)
        beside.write_text(_statuses(people, cohort.status[order], male), encoding="utf-8")


def write_records(  # noqa: PLR0913 (what, of whom, where to, what it says of itself, and in which order)
    records: Codes,
    domain: Domain,
    people: Texts,
    target: Path,
    provenance: Provenance,
    *,
    random_state: RandomState | BitSource = None,
    keep_order: bool = False,
    keep_names: bool = False,
) -> None:
    """Randomized records as CSV or Parquet: ``sample``, then one column for each attribute.

    Order and names as of :func:`write_plink`.
    """
    format_to_write(target)
    if domain.m and "sample" in domain.names:
        raise InvalidInput("an attribute is called 'sample', the column of people's names; rename it")
    columns = [ReleasedColumn(a) for a in domain]
    schema = pa.schema([("sample", pa.string()), *((c.attribute.name, c.type) for c in columns)])
    step = max(1, min(records.shape[0], _CELLS // domain.m))
    order, names = written_people(people, provenance, random_state, keep_order, keep_names)

    def batch(start: int) -> pa.RecordBatch:
        called = pa.array(names[start : start + step].astype(str).tolist(), type=pa.string())
        piece = records[order[start : start + step]]
        own = [
            pc.if_else(pa.array(codes == MISSING), pa.scalar(None, column.type), column.decode(np.maximum(codes, 0)))
            for codes, column in zip(piece.T, columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays([called, *own], schema=schema)

    with released_file(target, schema, provenance) as writer:
        writer.write(map(batch, range(0, records.shape[0], step)))


def written_people(
    people: Texts,
    provenance: Provenance | None,
    random_state: RandomState | BitSource,
    keep_order: bool,
    keep_names: bool,
) -> tuple[NDArray[np.int64], Texts]:
    """Who is written first, second, …, and under which names."""
    shuffle = provenance is not None and not keep_order
    order = permutation(as_source(random_state), people.size) if shuffle else np.arange(people.size)
    if provenance is None or keep_names:
        return order, people[order]
    return order, np.array([str(k + 1) for k in range(people.size)], dtype=object)


@contextmanager
def _together(places: Sequence[Path], provenance: Provenance | None) -> Iterator[Sequence[Path]]:
    """Paths to write to; all files move to their places when the block ends, or none, with a sidecar of the provenance.

    Existing files stay untouched until then. While they are moved the first is absent: it never stands beside files of others.
    """
    sidecar = [] if provenance is None else [sidecar_path(places[0])]
    with whole_files([*places, *sidecar]) as written:
        yield written[: len(places)]
        if provenance is not None:
            write_sidecar(written[-1], provenance)
    if provenance is None:
        sidecar_path(places[0]).unlink(missing_ok=True)  # of what these files replaced


def _first_blank(names: Texts) -> int | None:
    """The first of the names that has a blank in it, or nothing else."""
    return next((k for k, name in enumerate(names) if len(str(name).split()) != 1), None)


def _refuse_blanks(people: Texts) -> None:
    """Raise InvalidInput for a person's name with a blank in it, by place only."""
    blank = _first_blank(people)
    if blank is not None:
        raise InvalidInput(f"person number {blank + 1} has a blank in the name; leave out --keep-names, or write .csv")


def _known(texts: Texts) -> NDArray[np.str_]:
    """The texts, with PLINK's 0 for unknown where a table has none."""
    return np.where(texts == ".", "0", texts.astype(str))


def _header(variants: Variants, people: Texts, provenance: Provenance | None) -> str:
    lines = ["##fileformat=VCFv4.2", f"##source={SOFTWARE}"]
    if provenance is not None:
        release = provenance.release
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


def _bgzip(text: bytes) -> bytes:
    """The blocks of bgzip that hold a text."""
    out = bytearray()
    for start in range(0, len(text), _BLOCK_TEXT):
        piece = text[start : start + _BLOCK_TEXT]
        packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        packed = packer.compress(piece) + packer.flush()
        # a gzip head with a field of six bytes: B, C, its length, and the block's size less one
        out += _BLOCK_HEAD.pack(31, 139, 8, 4, 0, 0, 255, 6, 66, 67, 2, _BLOCK_HEAD.size + len(packed) + 7)
        out += packed + struct.pack("<II", zlib.crc32(piece), len(piece))
    return bytes(out)
