"""A cohort: genotypes and case/control status of the same people, matched by name and checked.

Status comes from the fam or psam file or from a table, by PLINK's values (1 control, 2 case) unless others are given.
People without a status, or only in the table, are left out and counted, and so are people of unknown sex if there are
variants of chromosome X or Y; a table without any person of the genotype file is refused.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optrr.core.display import amount, counted
from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.records import FrameCodec, open_source
from optrr.genomics.genotypes import (
    BLOCK,
    GENOTYPES,
    MISSING,
    Codes,
    Genotypes,
    MatrixGenotypes,
    Texts,
    Variants,
    checked_people,
    single_copy_chromosomes,
)
from optrr.genomics.layout import STATUS, variant_alleles
from optrr.genomics.people_tables import SEX, check_column, table_columns, text_column
from optrr.genomics.phenotypes import UNKNOWN, PhenotypeColumns, table_sexes, table_status
from optrr.genomics.plink import read_bed, read_pgen
from optrr.genomics.vcf import STANDARD_INPUT, read_vcf

_KINDS = {
    "bed": (".bed",),
    "pgen": (".pgen",),
    "vcf": (".vcf", ".vcf.gz", ".vcf.bgz", ".bcf"),
    "table": (".csv", ".csv.gz", ".parquet"),
}
# Of a variant in a table: 0, 1, 2, and the missing value, whether or not a design randomizes it.
_CATEGORIES = (*range(GENOTYPES), None)
# Calls of a block: with a byte each, and a few copies, tens of megabytes however many people there are.
_CALLS = 1 << 24
# Status by the genotype file's own columns.
_OWN = PhenotypeColumns()
# Suffix of the file of people of each genotype format, and its columns that are not phenotypes.
_PEOPLE = {"bed": ".fam", "pgen": ".psam"}
_NO_PHENOTYPE = ("FID", "IID", "SID", "PAT", "MAT", SEX)


@dataclass(frozen=True, eq=False)
class Cohort:
    """People with genotypes and status.

    ``rows`` number them in the genotypes; ``status`` is 0 for controls and 1 for cases, shape (n,), int8.

    ``left_out`` counts people without a status or without genotypes, by reason. ``male``, (n,), is True for males; None
    without variants of chromosome X or Y.
    """

    genotypes: Genotypes
    rows: NDArray[np.int64]
    status: Codes
    left_out: Mapping[str, int] = field(default_factory=dict)
    male: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        male = self.status if self.male is None else self.male
        if not self.status.shape == male.shape == self.rows.shape:
            raise InvalidInput(
                f"{self.status.size} statuses and {male.size} sexes for {self.rows.size} people; give one for each"
            )
        if not np.all((self.status == 0) | (self.status == 1)):
            raise InvalidInput("a status is neither 0 (control) nor 1 (case); leave out people without a status")

    @property
    def n(self) -> int:
        """Number of people."""
        return int(self.rows.size)

    @property
    def variants(self) -> Variants:
        """All variants of the genotypes."""
        return self.genotypes.variants

    @property
    def people(self) -> Texts:
        """Names, in row order."""
        return self.genotypes.people[self.rows]

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Codes]]:
        """Iterate over blocks of these people's genotypes.

        A block has at most ``size`` variants and, beyond one, at most 2^24 calls.
        """
        size = max(1, min(size, _CALLS // max(1, self.genotypes.people.size)))
        for chosen, codes in self.genotypes.blocks(size):
            yield chosen, codes[self.rows]

    def check_varies(self) -> None:
        """Raise InvalidInput unless there are cases and controls.

        If few people are randomized, all may get one status.
        """
        if np.unique(self.status).size < 2:
            kind = "no people" if not self.n else "only cases" if self.status[0] else "only controls"
            raise InvalidInput(f"the phenotype is constant: {kind}; give cases and controls")

    def doubts(self) -> list[str]:
        """List warnings for the data collector about these people, one line each."""
        out = []
        if np.unique(self.status).size == 1:
            kind = "case" if self.status[0] else "control"
            out.append(f"the one person is a {kind}" if self.n == 1 else f"all {self.n} people are {kind}s")
        if self.male is not None:
            out.append(
                "sexes are published without randomization, for chromosomes X and Y: they are not covered by epsilon"
            )
        return out

    def with_status(self, status: Codes) -> "Cohort":
        """Return the same people with another status, for permutations."""
        return replace(self, status=status)


def read_cohort(path: Path | str, phenotype: PhenotypeColumns = _OWN, declared: Domain | None = None) -> Cohort:
    """Read genotypes and status.

    The file's ending decides on the format: .bed, .pgen, .vcf[.gz], .bcf, .csv or .parquet; ``-`` is a VCF from a pipe.

    Unless a status is named, it is that of the fam or psam file. A few people may all be cases, or controls, and can be
    randomized; :meth:`Cohort.check_varies` is for tests.

    Parameters
    ----------
    declared
        the domain of a design, for tables of records it randomized: the genotypes are its categories.

    Raises
    ------
    InvalidInput
        For unreadable files, tables that do not match, values that do not occur, cohorts without a status, and variants
        of chromosome X or Y without sexes.
    """
    path = Path(path)
    phenotype = _located(path, phenotype)
    genotypes = read_genotypes(path, phenotype, declared)
    male = _sexes(genotypes, path, phenotype)
    status, left_out = table_status(genotypes.people, phenotype, path)
    if male is not None:
        left_out["of unknown sex"] = int(np.sum((male == UNKNOWN) & (status != UNKNOWN)))
        status = np.where(male == UNKNOWN, np.int8(UNKNOWN), status)
    rows = np.flatnonzero(status != UNKNOWN)
    left_out = {reason: count for reason, count in left_out.items() if count}
    if not rows.size:
        reasons = ", ".join(counted(count, f"people {reason}") for reason, count in left_out.items())
        raise InvalidInput(f"no person has a usable phenotype ({reasons or 'no people'}); give cases and controls")
    return Cohort(genotypes, rows, status[rows], left_out, None if male is None else male[rows] == 1)


def _located(path: Path, phenotype: PhenotypeColumns) -> PhenotypeColumns:
    """Fill in the table and column of the status.

    If none is named, a fam or psam file, or the table of genotypes itself.
    """
    table, sample, column, kind = phenotype.table, phenotype.sample, phenotype.column, _kind(path)
    if table is None and kind == "table":
        table = path
    elif table is None and kind in _PEOPLE:
        table, sample = path.with_suffix(_PEOPLE[kind]), None
        known = [name for name in table_columns(table) if name not in _NO_PHENOTYPE] if table.is_file() else [""]
        if column is None and len(known) != 1:
            what = "several phenotypes" if known else "no phenotype"
            raise InvalidInput(f"{table} has {what}; name the column to use (``column``), or a table (``table``)")
        column = column or known[0]
    if table is None or column is None:
        raise InvalidInput(
            f"{path} does not state case status; name a table and its column (``table`` and ``column``), and the "
            "value of "
            "cases if it is not PLINK's 2 (``cases``)"
        )
    return replace(phenotype, table=table, sample=sample, column=column)


def read_panel(path: Path | str, phenotype: PhenotypeColumns = _OWN, *, status: bool = True) -> Cohort:
    """Read the people of a study.

    Without ``status`` no status is read and all are controls. Raises InvalidInput as `read_cohort` does.
    """
    if status:
        return read_cohort(path, phenotype)
    genotypes = read_genotypes(path, phenotype)
    everyone = np.arange(genotypes.people.size)
    return Cohort(genotypes, everyone, np.zeros(everyone.size, dtype=np.int8))


def _kind(path: Path) -> str:
    """Find the format by the file name extension; raise InvalidInput if unknown."""
    name = ".vcf" if path.name == STANDARD_INPUT else path.name.lower()
    kinds = [kind for kind, endings in _KINDS.items() if name.endswith(endings)]
    if not kinds:
        raise InvalidInput(
            f"{path}: unknown file type; give .bed, .pgen, .vcf, .vcf.gz, .bcf, .csv, .parquet, or - (VCF)"
        )
    return kinds[0]


def listed_variants(path: Path | str, phenotype: PhenotypeColumns = _OWN) -> tuple[Variants, Mapping[str, int]]:
    """List the variants without reading genotypes.

    Also returns the numbers of other records by reason.
    """
    path = Path(path)
    kind = _kind(path)
    if kind == "table":
        others = {_own_sample_column(path, phenotype), phenotype.column, phenotype.sex}
        names = [name for name in table_columns(path) if name not in others]
        if STATUS in names:
            raise InvalidInput(
                f"column {STATUS!r} is read as a variant; if it is the case/control status, give ``column={STATUS}`` "
                "``cases=VALUE``"
            )
        return Variants.named(names), {}
    genotypes = read_vcf(path, genotypes=False) if kind == "vcf" else read_genotypes(path)
    return genotypes.variants, genotypes.skipped


def read_genotypes(path: Path | str, phenotype: PhenotypeColumns = _OWN, declared: Domain | None = None) -> Genotypes:
    """Read all genotypes without a status.

    ``phenotype`` names the columns of a table that are not variants; otherwise as `read_cohort`.
    """
    path = Path(path)
    kind = _kind(path)
    if kind == "table":
        return _table_genotypes(path, phenotype, declared)
    return {"bed": read_bed, "pgen": read_pgen, "vcf": read_vcf}[kind](path)


def _table_genotypes(path: Path, phenotype: PhenotypeColumns, declared: Domain | None) -> MatrixGenotypes:
    """Read a table: a row per person, a column per variant, 0, 1, 2 or empty.

    A table is stored by person, so all of it is decoded at once: n · variants bytes. Every column is a variant but
    those of names and of the phenotype; people are numbered without the former. ``declared``: the domain of the design
    that randomized the table, whose categories the genotypes are; 0, 1, 2 elsewhere. Raises InvalidInput naming the
    column, the kind of value and the record for anything but 0, 1, 2 or empty; for no variants, and repeated ones.
    """
    sample = _own_sample_column(path, phenotype)
    inside = phenotype.table in (None, path)
    columns = table_columns(path)
    own = [each for each in (phenotype.column, phenotype.sex) if inside and each is not None]
    for each in own:
        check_column(path, each, columns)
    skip = {sample, *own}
    names = [name for name in columns if name not in skip]
    if not names:
        raise InvalidInput(
            f"{path} has no variant columns beside {sorted(x for x in skip if x)}; give one for each variant"
        )
    twice, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InvalidInput(f"{path} has {times} columns {twice!r}; give each variant one column")
    known = {a.name: a for a in declared or ()}
    domain = Domain.of(
        {name: (*known[name].categories[:GENOTYPES], None) if name in known else _CATEGORIES for name in names}
    )
    codec: FrameCodec | None = None
    blocks: list[Codes] = []
    for batch in open_source(path, domain).batches(names):
        codec = codec or FrameCodec(domain, batch.schema)
        blocks.append(codec.encode(batch).astype(np.int8))
    if not blocks:
        raise InvalidInput(f"{path}: no people; give at least two")
    codes = np.concatenate(blocks)
    codes[codes == GENOTYPES] = MISSING
    places = [known[name].label if name in known else "" for name in names]
    variants = Variants.named(names, [variant_alleles(a) for a in domain], places)
    people: list[str | None] = [str(k + 1) for k in range(len(codes))] if sample is None else text_column(path, sample)
    if None in people:
        raise InvalidInput(f"{path}, column {sample!r}: record {people.index(None) + 1} has no name; give one")
    return MatrixGenotypes(variants, checked_people([str(name) for name in people], str(path)), codes)


def _own_sample_column(path: Path, phenotype: PhenotypeColumns) -> str | None:
    """Find the table's column of names: the one named, ``sample``, or none."""
    present = table_columns(path)
    if phenotype.sample and phenotype.sample not in present and phenotype.table in (None, path):
        raise InvalidInput(f"{path} has no column {phenotype.sample!r}; name the column of people's names (``sample``)")
    return next((name for name in (phenotype.sample, "sample") if name in present), None)


def _sexes(genotypes: Genotypes, path: Path, phenotype: PhenotypeColumns) -> Codes | None:
    """Return 1 for male, 0 for female, −1 for unknown; None if not needed.

    Raises InvalidInput if some do, and there are no sexes.
    """
    # variants with one meaning in males and another in females
    count = int(np.isin(single_copy_chromosomes(genotypes.variants.chromosome), ("X", "Y")).sum())
    if not count:
        return None
    male = genotypes.male if phenotype.sex is None else table_sexes(genotypes.people, phenotype, path)
    if male is None or not (male != UNKNOWN).any():
        raise InvalidInput(
            f"{path} has {amount(count, 'variant')} of chromosome X or Y, of which males have one copy, and no sexes; "
            "give sexes (field 5 of the fam file, SEX of the psam file, or ``table`` and ``sex``), or leave these "
            "variants out (plink --autosome)"
        )
    return male
