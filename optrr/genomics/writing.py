"""Cohorts and randomized records as files: PLINK's bed, bim and fam, CSV and Parquet.

Files of randomized people are shuffled, and people in them get new numbers: a position in the order of the true records
reveals the status if cases come first, and so does a name that was given in that order. All files of a form appear
together, with a sidecar: a status next to the genotypes of other people is worse than none. What nothing randomized is
not written: family and parents are "unknown" in a fam file, and so is sex, unless there are variants of chromosome X or
Y that mean nothing without it.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from optrr.core.domain import Domain, ReleasedColumn, shown
from optrr.core.errors import InvalidInput
from optrr.core.provenance import Provenance, sidecar_path, write_sidecar
from optrr.core.records import format_to_write, released_file, whole_files
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import BLOCK, MISSING, Codes, Texts, required
from optrr.genomics.plink import BED_MISSING, PLINK_FILES
from optrr_solvers.randomness import BitSource, RandomState, as_source, permutation

# Cells of a table written at once.
_CELLS = 1 << 22


def write_plink(  # noqa: PLR0913 (all but two have defaults)
    cohort: Cohort,
    target: Path,
    provenance: Provenance | None = None,
    *,
    random_state: RandomState | BitSource = None,
    keep_order: bool = False,
    keep_names: bool = False,
) -> None:
    """Write the cohort as ``target`` (.bed) with .bim and .fam.

    All three files appear, or none.

    ``provenance`` is that of randomized genotypes, for the sidecar. Their people are shuffled by ``random_state``
    unless ``keep_order``, and numbered 1 to n unless ``keep_names``. A chromosome or an allele that is not known is
    written as 0.

    Raises
    ------
    InvalidInput
        for another ending, names with blanks in them, and where the system does not let the files be written.
    """
    if target.suffix != ".bed":
        raise InvalidInput(f"{target} ends in {target.suffix!r}; PLINK genotypes are written as .bed")
    variants = cohort.variants
    order, people = _written_people(cohort.people, provenance, random_state, keep_order, keep_names)
    if (blank := _first_blank(people)) is not None:
        raise InvalidInput(
            f"person number {blank + 1} has a blank in the name; leave out ``keep_names``, or write .csv"
        )
    if (blank := _first_blank(variants.name)) is not None:
        raise InvalidInput(
            f"variant {shown(str(variants.name[blank]))} has a blank in its name; rename it, or write .csv"
        )
    sex = 0 if cohort.male is None else np.where(cohort.male[order], 1, 2)
    properties = {
        "iid": people.astype(str),
        "sex": np.broadcast_to(sex, people.size).astype(np.int32),
        "pheno": np.where(cohort.status[order] == 1, "2", "1"),
        "chromosome": _known(variants.chromosome),
        "sid": variants.name.astype(str),
        "bp_position": variants.position.astype(np.int32),
        "allele_1": _known(variants.a1),
        "allele_2": _known(variants.a2),
    }
    places = [target.with_suffix(suffix) for suffix in PLINK_FILES]
    sidecar = [] if provenance is None else [sidecar_path(target)]
    with whole_files([*places, *sidecar]) as written:
        with required("bed_reader").create_bed(
            written[0], iid_count=people.size, sid_count=len(variants), properties=properties
        ) as file:
            for _, codes in cohort.blocks(BLOCK):
                own = codes[order]
                for variant in np.ascontiguousarray(np.where(own == MISSING, np.int8(BED_MISSING), own).T):
                    file.write(variant)
        if provenance is not None:
            write_sidecar(written[-1], provenance)
    if provenance is None:
        sidecar_path(target).unlink(missing_ok=True)  # of what these files replaced


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
    """Write randomized records as CSV or Parquet.

    Columns are ``sample``, then one for each attribute.

    Order and names: see :func:`write_plink`.
    """
    format_to_write(target)
    if domain.m and "sample" in domain.names:
        raise InvalidInput("an attribute is called 'sample', the column of people's names; rename it")
    columns = [ReleasedColumn(a) for a in domain]
    schema = pa.schema([("sample", pa.string()), *((c.attribute.name, c.type) for c in columns)])
    step = max(1, min(records.shape[0], _CELLS // domain.m))
    order, names = _written_people(people, provenance, random_state, keep_order, keep_names)

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


def _written_people(
    people: Texts,
    provenance: Provenance | None,
    random_state: RandomState | BitSource,
    keep_order: bool,
    keep_names: bool,
) -> tuple[NDArray[np.int64], Texts]:
    """Choose the order of people in the file, and their names."""
    shuffle = provenance is not None and not keep_order
    order = permutation(as_source(random_state), people.size) if shuffle else np.arange(people.size)
    if provenance is None or keep_names:
        return order, people[order]
    return order, np.array([str(k + 1) for k in range(people.size)], dtype=object)


def _first_blank(names: Texts) -> int | None:
    """Find the first name that contains a blank or is blank."""
    return next((k for k, name in enumerate(names) if len(str(name).split()) != 1), None)


def _known(texts: Texts) -> NDArray[np.str_]:
    """Replace missing texts by PLINK's 0."""
    return np.where(texts == ".", "0", texts.astype(str))
