"""A cohort: genotypes and case/control status of the same people, matched by name and checked.

Status comes from the fam file (1 control, 2 case) or from a table. People without a status, or in the table
only, are left out and counted; a table that names nobody of the genotype file, or gives everybody the same status, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optrr.errors import InvalidInput
from optrr.genomics.csv_genotypes import read_csv_genotypes, table_columns, text_column
from optrr.genomics.genotypes import BLOCK, Codes, Genotypes, Texts, Variants
from optrr.genomics.plink import PlinkGenotypes
from optrr.genomics.vcf import VcfGenotypes

_VCF_ENDINGS = (".vcf", ".vcf.gz", ".vcf.bgz", ".bcf")
_TABLE_ENDINGS = (".csv", ".parquet")
UNKNOWN = -1


@dataclass(frozen=True)
class PhenotypeColumns:
    """Where status stands in a table.

    ``table``: CSV or Parquet; None takes the fam file, or for genotypes in a table that table itself. ``cases`` and
    ``controls`` are values of ``column``; without ``controls`` everyone else with a value is a control.
    """

    table: Path | None = None
    sample: str | None = None
    column: str | None = None
    cases: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Cohort:
    """People who have both: ``rows`` of the genotypes, and their ``status``, 0 control, 1 case; shape (n,), int8.

    ``left_out`` counts people without a status or without genotypes, by reason.
    """

    genotypes: Genotypes
    rows: NDArray[np.int64]
    status: Codes
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status.shape != self.rows.shape:
            raise InvalidInput(f"{self.status.size} statuses for {self.rows.size} people; give one for each")
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
        """Blocks of genotypes of these people only."""
        everyone = np.array_equal(self.rows, np.arange(self.genotypes.people.size))
        for chosen, codes in self.genotypes.blocks(size):
            yield chosen, codes if everyone else codes[self.rows]

    def check_varies(self) -> None:
        """Raise InvalidInput unless there are cases and controls: when few people are randomized, all may get one status."""
        if np.unique(self.status).size < 2:
            kind = "no people" if not self.n else "only cases" if self.status[0] else "only controls"
            raise InvalidInput(f"the phenotype is constant: {kind}; give cases and controls")

    def with_status(self, status: Codes) -> Cohort:
        """The same people with another status, for permutations."""
        return Cohort(self.genotypes, self.rows, status, self.left_out)


def read_cohort(path: Path, phenotype: PhenotypeColumns = PhenotypeColumns()) -> Cohort:
    """Genotypes by the file's ending (.bed, .vcf[.gz], .bcf, .csv, .parquet) and their status.

    Raises
    ------
    InvalidInput
        for unreadable files, tables that do not match, values that do not occur, a constant phenotype.
    """
    plink = path.suffix.lower() == ".bed"
    fam = plink and phenotype.table is None and phenotype.column is None
    table = phenotype.table or (path if path.suffix.lower() in _TABLE_ENDINGS else None)
    if not fam and (table is None or phenotype.column is None or not phenotype.cases):
        raise InvalidInput(
            f"{path} does not say who is a case; name a table, its column and the value of cases "
            "(--phenotype FILE --phenotype-column NAME --case VALUE)"
        )
    genotypes = read_genotypes(path, phenotype)
    if table is None:
        assert isinstance(genotypes, PlinkGenotypes)
        status = genotypes.fam_status
        return _matched(genotypes, status, {"without status in the fam file": int(np.sum(status == UNKNOWN))})
    status, left_out = _status_from(table, genotypes.people, phenotype, same_file=table == path)
    return _matched(genotypes, status, left_out)


def variant_names(path: Path, phenotype: PhenotypeColumns = PhenotypeColumns()) -> list[str]:
    """Names of a file's variants, from its header, bim file or records' first columns; no genotype is looked at."""
    if path.suffix.lower() not in _TABLE_ENDINGS:
        return [str(name) for name in read_genotypes(path, phenotype).variants.name]
    others = {_own_sample_column(path, phenotype), phenotype.column}
    return [name for name in table_columns(path) if name not in others]


def read_genotypes(path: Path, phenotype: PhenotypeColumns = PhenotypeColumns()) -> Genotypes:
    """Genotypes alone; ``phenotype`` says which columns of a table are not variants."""
    name = path.name.lower()
    if name.endswith(".bed"):
        return PlinkGenotypes(path)
    if name.endswith(_VCF_ENDINGS):
        return VcfGenotypes(path)
    if name.endswith(_TABLE_ENDINGS):
        inside = phenotype.table is None or phenotype.table == path
        others = [phenotype.column] if inside and phenotype.column else []
        return read_csv_genotypes(path, _own_sample_column(path, phenotype), others)
    raise InvalidInput(
        f"{path} is of no known kind; genotypes are read from .bed, .vcf, .vcf.gz, .bcf, .csv or .parquet"
    )


def _own_sample_column(path: Path, phenotype: PhenotypeColumns) -> str | None:
    """The genotype table's own column of names: the one named, or ``sample``, or none."""
    present = table_columns(path)
    if phenotype.sample and phenotype.sample not in present and phenotype.table in (None, path):
        raise InvalidInput(
            f"{path} has no column {phenotype.sample!r}; name the column of people's names (--sample-column)"
        )
    return next((name for name in (phenotype.sample, "sample") if name in present), None)


def _matched(genotypes: Genotypes, status: Codes, left_out: Mapping[str, int]) -> Cohort:
    rows = np.flatnonzero(status != UNKNOWN)
    cohort = Cohort(genotypes, rows, status[rows], {k: v for k, v in left_out.items() if v})
    cohort.check_varies()
    return cohort


def _status_from(
    table: Path, people: Texts, phenotype: PhenotypeColumns, same_file: bool
) -> tuple[Codes, dict[str, int]]:
    assert phenotype.column is not None
    values = text_column(table, phenotype.column)
    _check_values(table, phenotype, {v for v in values if v is not None})
    if same_file:
        by_person = dict(zip(people, values, strict=True))
    else:
        names = text_column(table, phenotype.sample or "sample")
        by_person = dict(zip(names, values, strict=True))
        if len(by_person) < len(names):
            raise InvalidInput(f"{table}, column {phenotype.sample or 'sample'!r} names somebody twice; list each once")
        if not any(person in by_person for person in people):
            raise InvalidInput(
                f"{table}, column {phenotype.sample or 'sample'!r} names none of the {people.size} people of the genotype "
                "file; give the table of the same people, named alike, and their column (--sample-column)"
            )
    status = np.array([_status_of(by_person.get(person), phenotype) for person in people], dtype=np.int8)
    absent = sum(person not in by_person for person in people)
    return status, {
        "in the phenotype table only": len(by_person) - (people.size - absent),
        "not in the phenotype table": absent,
        "without a phenotype": int(np.sum(status == UNKNOWN)) - absent,
    }


def _check_values(table: Path, phenotype: PhenotypeColumns, present: set[str]) -> None:
    for value in (*phenotype.cases, *phenotype.controls):
        if value not in present:
            raise InvalidInput(
                f"{table}, column {phenotype.column!r} has no value {value!r}{_near_miss(value, present)}"
            )
    both = set(phenotype.cases) & set(phenotype.controls)
    if both:
        raise InvalidInput(f"{sorted(both)[0]!r} is given both as a case and as a control; give it once")


def _near_miss(value: str, present: set[str]) -> str:
    """How the values that are there differ from the one asked for; they are people's own, so none is named."""
    near = any(" ".join(v.casefold().split()) == " ".join(value.casefold().split()) for v in present)
    hint = "one differs from it in upper and lower case or in spaces only: " if near else ""
    return f" among its {len(present)} values; {hint}write it as it stands in the table"


def _status_of(value: str | None, phenotype: PhenotypeColumns) -> int:
    if value is None:
        return UNKNOWN
    if value in phenotype.cases:
        return 1
    return 0 if not phenotype.controls or value in phenotype.controls else UNKNOWN
