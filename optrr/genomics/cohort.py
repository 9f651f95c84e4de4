"""A cohort: genotypes and case/control status of the same people, matched by name and checked.

Status comes from the fam file or from a table, by PLINK's values (1 control, 2 case) unless others are named. People without a
status, or in the table only, are left out and counted, and so are people of unknown sex where there are variants of chromosome
X or Y; a table that names nobody of the genotype file is refused.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optrr.core.display import amount, counted
from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput, warn
from optrr.core.records import FrameCodec, open_source
from optrr.genomics.filters import EVERYTHING, GenotypeFilter
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
from optrr.genomics.layout import variant_alleles
from optrr.genomics.people_tables import check_rows, table_columns, text_column
from optrr.genomics.phenotypes import (
    UNKNOWN,
    PhenotypeColumns,
    beside_vcf,
    coded_status,
    table_groups,
    table_sexes,
    table_status,
)
from optrr.genomics.plink import PgenGenotypes, PlinkGenotypes, own_phenotype
from optrr.genomics.vcf import STANDARD_INPUT, VcfGenotypes

_VCF_ENDINGS = (".vcf", ".vcf.gz", ".vcf.bgz", ".bcf")
_READERS: tuple[tuple[tuple[str, ...], str, Callable[[Path, GenotypeFilter], Genotypes]], ...] = (
    ((".bed",), "plink", PlinkGenotypes),
    ((".pgen",), "plink", PgenGenotypes),
    (_VCF_ENDINGS, "vcf", VcfGenotypes),
)
_TABLE_ENDINGS = (".csv", ".csv.gz", ".parquet")
# Of a variant in a table: 0, 1, 2, and the missing value, whether or not a design randomizes it.
_CATEGORIES = (*range(GENOTYPES), None)
# Calls of a block: with a byte each, and a few copies, tens of megabytes however many people there are.
_CALLS = 1 << 24
# Status by the fam file alone.
_FAM = PhenotypeColumns()


@dataclass(frozen=True, eq=False)
class Cohort:
    """People who have both: ``rows`` of the genotypes, and their ``status``, 0 control, 1 case; shape (n,), int8.

    ``left_out`` counts people without a status or without genotypes, by reason. ``male``, (n,), says who is a man where there
    are variants of chromosome X or Y, and is None elsewhere. ``relatives`` is how many share a family or a parent with another.
    """

    genotypes: Genotypes
    rows: NDArray[np.int64]
    status: Codes
    left_out: Mapping[str, int] = field(default_factory=dict)
    male: NDArray[np.bool_] | None = None
    relatives: int = 0

    def __post_init__(self) -> None:
        if self.status.shape != self.rows.shape:
            raise InvalidInput(f"{self.status.size} statuses for {self.rows.size} people; give one for each")
        if self.male is not None and self.male.shape != self.rows.shape:
            raise InvalidInput(f"{self.male.size} sexes for {self.rows.size} people; give one for each")
        if not np.all((self.status == 0) | (self.status == 1)):
            raise InvalidInput("status is 0 for controls and 1 for cases; leave out people without one")

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
        """Blocks of genotypes of these people only, of at most ``size`` variants and, beyond one, of 2^24 calls."""
        size = max(1, min(size, _CALLS // max(1, self.genotypes.people.size)))
        everyone = np.array_equal(self.rows, np.arange(self.genotypes.people.size))
        for chosen, codes in self.genotypes.blocks(size):
            yield chosen, codes if everyone else codes[self.rows]

    def check_varies(self) -> None:
        """Raise InvalidInput unless there are cases and controls: when few people are randomized, all may get one status."""
        if np.unique(self.status).size < 2:
            kind = "no people" if not self.n else "only cases" if self.status[0] else "only controls"
            raise InvalidInput(f"the phenotype is constant: {kind}; give cases and controls")

    def doubts(self) -> list[str]:
        """What somebody who randomizes these people should know of them, a line each."""
        out = []
        if np.unique(self.status).size == 1:
            kind = "case" if self.status[0] else "control"
            out.append(f"the one person is a {kind}" if self.n == 1 else f"all {self.n} people are {kind}s")
        if self.male is not None:
            out.append("everybody's sex is written as it is, for variants of chromosome X or Y: no epsilon covers it")
        return [*out, *self.relatedness()]

    def relatedness(self) -> list[str]:
        """One line where people are known to be relatives."""
        if not self.relatives:
            return []
        return [
            f"{self.relatives} of {self.n} people share a family or a parent in the fam file; tests take people for "
            "independent, so p-values come out too small where relatives are alike in status: keep one of each family"
        ]

    def with_status(self, status: Codes) -> "Cohort":
        """The same people with another status, for permutations."""
        return replace(self, status=status)


def read_cohort(
    path: Path | str,
    phenotype: PhenotypeColumns = _FAM,
    declared: Domain | None = None,
    chosen: GenotypeFilter = EVERYTHING,
) -> Cohort:
    """Genotypes by the file's ending (.bed, .pgen, .vcf[.gz], .bcf, .csv, .parquet; ``-`` is a VCF from a pipe) and status.

    Unless a status is named, it is that of the fam or psam file, or of the file that :mod:`optrr.genomics.writing` writes
    beside a VCF. A few people may all be cases, or controls, and can be randomized; :meth:`Cohort.check_varies` is for tests.

    Parameters
    ----------
    declared
        the domain of a design, for tables that hold what it randomized: the genotypes are its categories.
    chosen
        which variants, people and calls are used.

    Raises
    ------
    InvalidInput
        for unreadable files, tables that do not match, values that do not occur, nobody with a status, and variants of
        chromosome X or Y where nothing says who is a man.
    """
    path = Path(path)
    phenotype = _located(path, phenotype)
    own = phenotype.table is None
    if (phenotype.column is None) != own or (own and path.suffix.lower() != ".bed"):
        raise InvalidInput(
            f"{path} does not say who is a case; name a table and its column (--phenotype FILE --phenotype-column NAME), and "
            "the value of cases where it is not PLINK's 2 (--case VALUE, or --zero-one)"
        )
    genotypes = read_genotypes(path, phenotype, declared, chosen)
    kept = chosen.kept(genotypes.people)
    warn(chosen.absent_names(genotypes.people))
    male = _sexes(genotypes, path, phenotype)
    if own:
        where = f"{path.with_suffix('.fam')}, phenotype (field 6)"
        status = coded_status(genotypes.own_status or [], phenotype, where, "line")
        left_out = {"without status in the fam file": int(np.sum(status == UNKNOWN))}
    else:
        status, left_out = table_status(genotypes.people, phenotype, path)
    left_out[f"not listed in {chosen.keep}"] = int(np.sum(~kept & (status != UNKNOWN)))
    return _matched(genotypes, np.where(kept, status, np.int8(UNKNOWN)), left_out, male)


def _located(path: Path, phenotype: PhenotypeColumns) -> PhenotypeColumns:
    """With the table of statuses, where none is named: a VCF's own, a psam file, or the table of genotypes itself."""
    name = path.name.lower()
    if name.endswith(_VCF_ENDINGS) and not (phenotype.table or phenotype.column or phenotype.cases):
        return beside_vcf(path) or phenotype
    if name.endswith(".pgen"):
        return own_phenotype(path, phenotype)
    return replace(phenotype, table=path) if phenotype.table is None and _is_table(path) else phenotype


def read_panel(
    path: Path | str, phenotype: PhenotypeColumns = _FAM, chosen: GenotypeFilter = EVERYTHING, *, status: bool = True
) -> tuple[Cohort, Texts | None]:
    """People to draw from in a study, and the group of each where ``phenotype.group`` names its column.

    Without ``status`` nobody's is read, and all are controls. Raises InvalidInput as :func:`read_cohort`, and where somebody
    has no group.
    """
    path = Path(path)
    if phenotype.table is None and _is_table(path):
        phenotype = replace(phenotype, table=path)
    if phenotype.group is not None:
        if phenotype.table is None:
            raise InvalidInput(f"groups are a column {phenotype.group!r} of a table; name that too (--phenotype FILE)")
        # before the genotypes, so that a slip in the column's name is told of as such
        text_column(phenotype.table, phenotype.group)
    if status:
        cohort = read_cohort(path, phenotype, chosen=chosen)
    else:
        genotypes = read_genotypes(path, phenotype, chosen=chosen)
        rows = np.flatnonzero(chosen.kept(genotypes.people))
        cohort = Cohort(genotypes, rows, np.zeros(rows.size, dtype=np.int8))
    if phenotype.group is None:
        return cohort, None
    return cohort, table_groups(cohort.genotypes.people, phenotype, path)[cohort.rows]


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith(_TABLE_ENDINGS)


def listed_variants(
    path: Path | str, phenotype: PhenotypeColumns = _FAM, chosen: GenotypeFilter = EVERYTHING
) -> tuple[Variants, Mapping[str, int]]:
    """The variants, and how many other records there are by reason; no genotype is looked at."""
    path = Path(path)
    if not _is_table(path):
        genotypes = read_genotypes(path, phenotype, chosen=chosen)
        return genotypes.variants, genotypes.skipped
    chosen.check_kind(path, "table")
    others = {_own_sample_column(path, phenotype), phenotype.column, phenotype.sex, phenotype.group}
    return Variants.named([name for name in table_columns(path) if name not in others]), {}


def read_genotypes(
    path: Path | str,
    phenotype: PhenotypeColumns = _FAM,
    declared: Domain | None = None,
    chosen: GenotypeFilter = EVERYTHING,
) -> Genotypes:
    """Genotypes alone, of everybody; ``phenotype`` says which columns of a table are no variants; the rest as `read_cohort`."""
    path = Path(path)
    # standard input is a VCF
    name = ".vcf" if path.name == STANDARD_INPUT else path.name.lower()
    for endings, kind, reader in _READERS:
        if name.endswith(endings):
            chosen.check_kind(path, kind)
            return reader(path, chosen)
    if _is_table(path):
        chosen.check_kind(path, "table")
        inside = phenotype.table is None or phenotype.table == path
        others = [name for name in (phenotype.column, phenotype.sex, phenotype.group) if inside and name]
        return _table_genotypes(path, _own_sample_column(path, phenotype), others, declared)
    raise InvalidInput(
        f"{path} is of no known kind; genotypes are read from .bed, .pgen, .vcf, .vcf.gz, .bcf, .csv, .parquet, or - (VCF)"
    )


def _table_genotypes(
    path: Path, sample_column: str | None, not_variants: Sequence[str], declared: Domain | None
) -> MatrixGenotypes:
    """From a CSV or Parquet table: a row for each person, a column for each variant, values 0, 1, 2 or empty.

    A table is stored by person, so all of it is decoded at once: n · variants bytes. Every column but ``sample_column`` and
    ``not_variants`` is a variant; people are numbered without the former. ``declared``: the domain of the design that
    randomized the table, whose categories the genotypes are; 0, 1, 2 elsewhere. Raises InvalidInput naming the column, the
    kind of value and the record for anything but 0, 1, 2 or empty; for no variants, and repeated ones.
    """
    skip = {sample_column, *not_variants}
    names = [name for name in table_columns(path) if name not in skip]
    if not names:
        raise InvalidInput(
            f"{path} has no variant columns beside {sorted(x for x in skip if x)}; give one for each variant"
        )
    twice, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InvalidInput(f"{path} has {times} columns {twice!r}; give each variant one")
    known = {a.name: (*a.categories[:GENOTYPES], None) for a in declared or ()}
    places = {a.name: a.label for a in declared or ()}
    domain = Domain.of({name: known.get(name, _CATEGORIES) for name in names})
    file = open_source(path, domain)
    codec: FrameCodec | None = None
    blocks: list[Codes] = []
    rows = 0
    for batch in file.batches(names):
        rows += batch.num_rows
        check_rows(path, rows)
        codec = codec or FrameCodec(domain, batch.schema)
        blocks.append(codec.encode(batch).astype(np.int8))
    if not blocks:
        raise InvalidInput(f"{path} holds no people; give at least two")
    codes = np.concatenate(blocks)
    codes[codes == GENOTYPES] = MISSING
    alleles = [variant_alleles(a) for a in domain]
    variants = Variants.named(names, alleles, [places.get(name, "") for name in names])
    return MatrixGenotypes(variants, _people(path, sample_column, codes.shape[0]), codes)


def _people(path: Path, sample_column: str | None, n: int) -> Texts:
    if sample_column is None:
        return checked_people([str(k + 1) for k in range(n)], str(path))
    names = text_column(path, sample_column)
    if any(name is None for name in names):
        raise InvalidInput(f"{path}, column {sample_column!r}: record {names.index(None) + 1} has no name; give one")
    return checked_people([str(name) for name in names], str(path))


def _own_sample_column(path: Path, phenotype: PhenotypeColumns) -> str | None:
    """The genotype table's own column of names: the one named, or ``sample``, or none."""
    present = table_columns(path)
    if phenotype.sample and phenotype.sample not in present and phenotype.table in (None, path):
        raise InvalidInput(
            f"{path} has no column {phenotype.sample!r}; name the column of people's names (--id-column)"
        )
    return next((name for name in (phenotype.sample, "sample") if name in present), None)


def _sexes(genotypes: Genotypes, path: Path, phenotype: PhenotypeColumns) -> Codes | None:
    """1 for men, 0 for women, −1 for unknown; None where no variant needs to know it.

    Raises InvalidInput where some do, and nothing says of anybody.
    """
    # variants that mean one thing in men and another in women
    count = int(np.isin(single_copy_chromosomes(genotypes.variants.chromosome), ("X", "Y")).sum())
    if not count:
        return None
    male = genotypes.male
    if phenotype.sex is not None:
        if phenotype.table is None:
            raise InvalidInput(f"--sex-column {phenotype.sex} is a column of a table; name that too (--phenotype FILE)")
        male = table_sexes(genotypes.people, phenotype, path)
    if male is None or not (male != UNKNOWN).any():
        raise InvalidInput(
            f"{path} has {amount(count, 'variant')} of chromosome X or Y, of which men have one copy, and nothing says who "
            "is a man; give sexes (field 5 of the fam file, SEX of the psam file, or --phenotype FILE --sex-column NAME), or "
            "leave these variants out (plink --autosome)"
        )
    return male


def _matched(genotypes: Genotypes, status: Codes, left_out: Mapping[str, int], male: Codes | None) -> Cohort:
    if male is not None:
        left_out = {**left_out, "of unknown sex": int(np.sum((male == UNKNOWN) & (status != UNKNOWN)))}
        status = np.where(male == UNKNOWN, np.int8(UNKNOWN), status)
    rows = np.flatnonzero(status != UNKNOWN)
    if not rows.size:
        reasons = ", ".join(counted(v, f"people {k}") for k, v in left_out.items() if v)
        raise InvalidInput(
            f"nobody has a phenotype that can be used ({reasons or 'no people'}); give cases and controls"
        )
    kept = {k: v for k, v in left_out.items() if v}
    known = None if male is None else male[rows] == 1
    return Cohort(genotypes, rows, status[rows], kept, known, genotypes.relatives(rows))
