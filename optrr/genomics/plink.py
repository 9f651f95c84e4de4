"""PLINK binary files (bed, bim, fam) through bed-reader.

A1 of the bim file is the counted allele, as in PLINK. Writing leaves out what the mechanism did not randomize: family and
parents are set to "unknown" in the fam file, and so is sex, unless there are variants that mean nothing without it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optrr.domain.domain import shown
from optrr.errors import InvalidInput, in_one_line
from optrr.genomics.filters import EVERYTHING, OUTSIDE, GenotypeFilter
from optrr.genomics.genotypes import BLOCK, MISSING, Codes, Texts, Variants, checked_people, required, unique_names
from optrr.genomics.plink_tables import names_of_people
from optrr.records.whole_files import undo_killed_run, whole_files
from optrr.releases.provenance import Provenance, sidecar_path, write_sidecar

_BED_MISSING = -127
PLINK_FILES = (".bed", ".fam", ".bim")

# What a fam file writes for men and women; anything else is unknown.
_FAM_MALE = {1: 1, 2: 0}

# Fields of a line of a bim or fam file, those that are whole numbers, and the largest that bed-reader holds (int32).
_FIELDS = 6
_NUMBERS = {".fam": {4: "sex"}, ".bim": {3: "position"}}
_LARGEST = 2**31 - 1


class PlinkGenotypes:
    """Reads ``FILE.bed`` with its bim and fam beside it; blocks come straight from the file.

    People are named by IID, or by FID_IID where IIDs repeat.
    ``fam_phenotype`` are the texts of its sixth field; ``fam_male`` is 1 for men, 0 for women, −1 for unknown, shape (n,).

    Raises
    ------
    InvalidInput
        where one of the three files is missing or malformed.
    """

    def __init__(self, path: Path, chosen: GenotypeFilter = EVERYTHING) -> None:
        self.path = Path(path)
        undo_killed_run(self.path)
        for suffix in PLINK_FILES:
            if not self.path.with_suffix(suffix).is_file():
                raise InvalidInput(
                    f"{self.path.with_suffix(suffix)} does not exist; PLINK data are .bed, .bim and .fam"
                )
        self._bed = _opened(self.path)
        try:
            with warnings.catch_warnings():
                # bed-reader uses numpy's text reader, which prints a warning for an empty file
                warnings.simplefilter("ignore")
                self.people = checked_people(self._names(), str(self.path.with_suffix(".fam")))
                everywhere = self._read_variants()
                self.fam_phenotype = [str(p) for p in self._bed.pheno]
                self._families = [
                    np.asarray(x).astype(str) for x in (self._bed.fid, self._bed.father, self._bed.mother)
                ]
                self.fam_male: Codes = np.array([_FAM_MALE.get(int(x), -1) for x in self._bed.sex], dtype=np.int8)
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(_why_unreadable(self.path)) from error
        self._at = np.flatnonzero(chosen.within(everywhere))
        self.variants = everywhere.take(self._at)
        gone = len(everywhere) - self._at.size
        self.skipped: Mapping[str, int] = {OUTSIDE: gone} if gone else {}

    def relatives(self, rows: NDArray[np.int64]) -> int:
        """How many of these people share a family (a FID that is neither 0 nor their own IID) or a parent with another."""
        related, own = np.zeros(rows.size, dtype=np.bool_), self._bed.iid.astype(str)[rows]
        for column in self._families:
            names = np.where((column[rows] == "0") | (column[rows] == own), "", column[rows])
            _, which, times = np.unique(names, return_inverse=True, return_counts=True)
            related |= (names != "") & (times[which] > 1)
        return int(related.sum())

    def _names(self) -> list[str]:
        return [str(name) for name in names_of_people(list(self._bed.fid), list(self._bed.iid))]

    def _read_variants(self) -> Variants:
        b = self._bed
        chromosome, name, a1, a2 = (np.array(x, dtype=object) for x in (b.chromosome, b.sid, b.allele_1, b.allele_2))
        position = np.asarray(b.bp_position, dtype=np.int64)
        if not name.size:
            raise InvalidInput(f"{self.path.with_suffix('.bim')} lists no variants; give files with at least one")
        return Variants(chromosome, position, unique_names(chromosome, position, name, a1, a2), a1, a2)

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Codes]]:
        """Copies of A1, n × size bytes at a time."""
        for start in range(0, len(self.variants), size):
            chosen = slice(start, min(start + size, len(self.variants)))
            try:
                codes: Codes = self._bed.read(np.s_[:, self._at[chosen]], dtype="int8", order="F", num_threads=1)
            except Exception as error:
                raise InvalidInput(f"cannot read {self.path}: {in_one_line(error)}; is it cut short?") from error
            codes[codes == _BED_MISSING] = MISSING
            yield chosen, codes


def _why_unreadable(bed: Path) -> str:
    """The first line of the bim or fam file that is not as PLINK has it, by its place: a library would show its values."""
    for suffix, numbers in _NUMBERS.items():
        path = bed.with_suffix(suffix)
        try:
            with path.open(encoding="utf-8") as file:
                for k, line in enumerate(file, start=1):
                    wrong = _wrong_with(line.split(), numbers)
                    if wrong:
                        return f"{path}, line {k} {wrong}; mend it there"
        except UnicodeDecodeError:
            return f"{path} is not UTF-8; save it in that encoding"
    return (
        f"cannot read {bed.with_suffix('.bim')} or {bed.with_suffix('.fam')}; check that they are as PLINK writes them"
    )


def _wrong_with(fields: list[str], numbers: Mapping[int, str]) -> str:
    if len(fields) != _FIELDS:
        return f"has {len(fields)} fields instead of {_FIELDS}"
    for k, what in numbers.items():
        try:
            good = abs(int(fields[k])) <= _LARGEST
        except ValueError:
            good = False
        if not good:
            return f"has no whole number up to {_LARGEST} as its {what} (field {k + 1})"
    return ""


def _opened(path: Path) -> Any:
    try:
        return required("bed_reader").open_bed(path)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot read {path}: {in_one_line(error)}") from error


@contextmanager
def whole_plink(target: Path, provenance: Provenance | None = None) -> Iterator[Path]:
    """A .bed path to write to, with its siblings; all three move to ``target``'s place when the block ends, or none.

    Existing files stay untouched until then. While the three are moved ``target`` itself is absent: no bed file ever stands
    beside a bim or fam file of another. With a provenance comes a sidecar that is bound to all three.

    Raises
    ------
    InvalidInput
        where the system does not let the files be written.
    """
    if target.suffix != ".bed":
        raise InvalidInput(f"{target} ends in {target.suffix!r}; PLINK genotypes are written as .bed")
    places = [target.with_suffix(suffix) for suffix in PLINK_FILES]
    if provenance is None:
        with whole_files(places, withdraw=True) as (bed, *_):
            yield bed
        return
    with whole_files([*places, sidecar_path(target)], withdraw=True) as (bed, fam, bim, beside):
        yield bed
        write_sidecar(beside, [bed, fam, bim], provenance)


class PlinkWriter:
    """Writes a bed file block by block, then bim and fam; ``path`` and its siblings must be free to write.

    ``status`` is 0 control, 1 case; ``male`` says who is a man. Family and parents are written as unknown, and so is a
    chromosome, an allele or a sex that is not known.

    Raises
    ------
    InvalidInput
        for names with blanks in them, which PLINK's text files cannot hold.
    """

    def __init__(
        self, path: Path, variants: Variants, people: Texts, status: Codes, male: NDArray[np.bool_] | None = None
    ) -> None:
        for names, what in ((people, "person"), (variants.name, "variant")):
            blank = next((k for k, name in enumerate(names) if len(str(name).split()) != 1), None)
            if blank is not None:
                # a person is named by place only
                which = f"variant {shown(str(names[blank]))}" if what == "variant" else f"{what} number {blank + 1}"
                raise InvalidInput(f"{which} has a blank in its name; PLINK files cannot hold it, write .csv")
        unknown = np.full(people.size, "0")
        properties = {
            "fid": unknown,
            "iid": people.astype(str),
            "father": unknown,
            "mother": unknown,
            "sex": np.zeros(people.size, dtype=np.int32) if male is None else np.where(male, 1, 2).astype(np.int32),
            "pheno": np.where(status == 1, "2", "1"),
            "chromosome": _known(variants.chromosome),
            "sid": variants.name.astype(str),
            "cm_position": np.zeros(len(variants)),
            "bp_position": variants.position.astype(np.int32),
            "allele_1": _known(variants.a1),
            "allele_2": _known(variants.a2),
        }
        self._file = required("bed_reader").create_bed(
            path, iid_count=people.size, sid_count=len(variants), properties=properties
        )

    def write(self, codes: Codes) -> None:
        """Append variants, shape (n, k)."""
        for variant in np.ascontiguousarray(np.where(codes == MISSING, np.int8(_BED_MISSING), codes).T):
            self._file.write(variant)

    def __enter__(self) -> PlinkWriter:
        self._file.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.__exit__(*exception)


def _known(texts: Texts) -> NDArray[np.str_]:
    """The texts, with PLINK's 0 for unknown where a table has none."""
    return np.where(texts == ".", "0", texts.astype(str))
