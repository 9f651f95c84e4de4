"""Tables of results, and a scan's as other programs and catalogues read them: PLINK 2's ``--glm`` columns, and GWAS-SSF.

A :class:`ColumnsResult` is the base of every result with a row for each variant or pair: its columns by name, as arrow, as a
file of tab separated columns, and as rows in JSON.

GWAS-SSF (Hayhurst et al. 2022; specification 1.1.0, EBISPOT/gwas-summary-statistics-standard) is a table whose first eight
columns have a fixed order and no missing value, and beside it ``NAME-meta.yaml``, which says what the numbers are of. A variant
that lacks one of those eight (a place, letters for both alleles, a bounded interval) has no row there; how many do is counted,
and said in the metadata, because a list without them is no longer a list of everything that was tested.

A scan's columns are taken by name: odds ratios of a status (OR), slopes of a trait (BETA), statistics with a sign where it has
them (Z_STAT, T_STAT) and else the root of χ² with the sign of the effect.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr.errors import InvalidInput
from optrr.genomics.genotypes import plain_name, single_copy_chromosome
from optrr.records.whole_files import whole_file, whole_files
from optrr.show import SOFTWARE
from optrr.show.result import TableResult, in_json
from optrr.show.text import amount, epsilon_text
from optrr_solvers.arrays import FloatArray, IntArray

FORMATS = ("optrr", "plink2", "ssf")
NOT_REPORTED = "NR"
META = "-meta.yaml"
_SSF_NAMES = (".tsv", ".tsv.gz")

# PLINK 2's name of a test of one number for each copy of A1, and of both genotypes together.
_PLINK_TESTS = dict.fromkeys(("TREND", "ALLELIC", "ALLELIC-HWE", "ADD-COV", "LINEAR"), "ADD") | {
    "GENOTYPIC": "GENO_2DF"
}
# GWAS-SSF numbers chromosomes; what PLINK calls XY or 25 is the part of X that Y shares.
_NUMBERS = {str(k): k for k in range(1, 23)} | dict.fromkeys(("XY", "25", "PAR", "PAR1", "PAR2"), 23)
_SINGLE_NUMBERS = {"X": 23, "Y": 24, "MT": 25}
_LETTERS = re.compile("[ACGT]+")
_RS = re.compile("rs[0-9]+")
# Rows formatted at once, so that text takes a few megabytes.
_ROWS = 1 << 14

Columns = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class ScannedStudy:
    """What GWAS-SSF's metadata say of a study: the genome ``assembly``, the ``trait``, and how people were randomized.

    ``epsilon`` is the total of one record, in nats; ``digest`` names the design; ``covariates`` are those adjusted for, one
    name each; ``cases`` is the estimated share of cases, where the scan does not say it itself.

    Raises
    ------
    InvalidInput
        without an assembly.
    """

    assembly: str
    epsilon: float
    digest: str
    trait: str = NOT_REPORTED
    covariates: tuple[str, ...] = ()
    cases: float | None = None

    def __post_init__(self) -> None:
        if not self.assembly.strip():
            raise InvalidInput("GWAS-SSF says which genome assembly positions refer to; name it (--assembly GRCh38)")


def arrow_columns(columns: Columns) -> pa.Table:
    """The columns as a table; undefined numbers are null."""
    return pa.table({name: pa.array(values.tolist(), from_pandas=True) for name, values in columns.items()})


@contextmanager
def text_file(path: Path) -> Iterator[TextIO]:
    """A file to write text to, compressed where its name ends in .gz."""
    if path.suffix.lower() == ".gz":
        # no name and no time inside, so that one result is one file
        with (
            path.open("wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
            TextIOWrapper(packed, encoding="utf-8") as out,
        ):
            yield out
    else:
        with path.open("w", encoding="utf-8") as out:
            yield out


def write_columns(path: Path, columns: Columns) -> None:
    """A file of tab separated columns, NA where undefined; whole or not at all; compressed where the name ends in .gz."""
    rows = len(next(iter(columns.values())))
    with whole_file(path) as partial, text_file(partial) as out:
        out.write("\t".join(columns) + "\n")
        for start in range(0, rows, _ROWS):
            pieces = [_texts(column[start : start + _ROWS]) for column in columns.values()]
            out.writelines("\t".join(row) + "\n" for row in zip(*pieces, strict=True))


class ColumnsResult(TableResult):
    """A result of columns under the field's names, with a row for each variant or pair."""

    @abstractmethod
    def rows(self, which: slice | IntArray) -> dict[str, NDArray[np.generic]]:
        """The rows of these numbers, column by column."""

    @cached_property
    def columns(self) -> dict[str, NDArray[np.generic]]:
        """The table, column by column, shape (V,) each, or (P,) of pairs."""
        return self.rows(slice(None))

    def to_arrow(self) -> pa.Table:
        """One row per variant or pair, the columns of the TSV; undefined numbers are null."""
        return arrow_columns(self.columns)

    def write_tsv(self, path: Path) -> None:
        """Write the table, whole or not at all; compressed where the name ends in .gz."""
        write_columns(path, self.columns)


def rows_in_json(columns: Columns) -> list[dict[str, Any]]:
    """One object for each row; undefined numbers are None."""
    values = [in_json(c) if c.dtype.kind == "f" else c.tolist() for c in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def check_form(form: str, test: str, naive: bool) -> None:
    """Raise InvalidInput where a form of ``FORMATS`` has no place for what a scan holds."""
    if naive and form != FORMATS[0]:
        raise InvalidInput(
            f"the form {form} has no columns for the naive test; leave that out (--naive), or write this program's own table"
        )
    if form == "ssf" and test == "genotypic":
        raise InvalidInput(
            "GWAS-SSF has a row for one effect and its p-value, and the genotypic test's p-value is of two; take another "
            "test, or write this program's own table or plink2's"
        )


def write_plink2(columns: Columns, path: Path) -> None:
    """The columns of ``plink2 --glm``; NA where a number is not defined. Raises InvalidInput where it cannot be written."""
    effect, head = ("BETA", ("BETA", "SE", "T_STAT")) if "BETA" in columns else ("OR", ("OR", "LOG(OR)_SE", "Z_STAT"))
    tests = [_PLINK_TESTS.get(str(test), str(test)) for test in columns["TEST"]]
    texts = {"#CHROM": "CHR", "POS": "BP", "ID": "SNP", "REF": "A2", "ALT": "A1", "A1": "A1"}
    numbers = (columns[effect], columns["SE"], signed_statistic(columns), columns["P"])
    out: dict[str, NDArray[np.generic]] = {name: columns[own] for name, own in texts.items()}
    out |= {"TEST": np.array(tests, dtype=object), "OBS_CT": columns["N"].astype(str)}
    # an infinite number is one that is not defined, too
    write_columns(
        path, out | {n: np.where(np.isfinite(x), x, np.nan) for n, x in zip((*head, "P"), numbers, strict=True)}
    )


def signed_statistic(columns: Columns) -> FloatArray:
    """The scan's own z or t; else √χ² with the sign of the effect, where χ² has one degree of freedom. Shape (V,)."""
    for name in ("Z_STAT", "T_STAT"):
        if name in columns:
            return np.asarray(columns[name], dtype=np.float64)
    effect = np.asarray(columns["BETA"] if "BETA" in columns else columns["OR"], dtype=np.float64)
    chi_squared, df = (np.asarray(columns[name], dtype=np.float64) for name in ("STAT", "DF"))
    sign = np.sign(effect - (0 if "BETA" in columns else 1))
    return np.where(df == 1, sign * np.sqrt(chi_squared), np.nan)


def write_ssf(columns: Columns, path: Path, study: ScannedStudy, cases: float | None = None) -> dict[str, int]:
    """GWAS-SSF to ``path`` (.tsv or .tsv.gz) with its metadata beside it: both appear, or none.

    ``cases`` is the estimated share of cases, where it is known. Returns how many variants have no row, by reason. Raises
    InvalidInput for another ending, and where no variant has all that the form demands.
    """
    if not path.name.lower().endswith(_SSF_NAMES):
        raise InvalidInput(f"{path} is to be GWAS-SSF, which is written as {' or '.join(_SSF_NAMES)}")
    table, left_out = ssf_table(columns)
    if not table["chromosome"]:
        reasons = ", ".join(f"{amount(count, 'variant')} {reason}" for reason, count in left_out.items())
        raise InvalidInput(f"no variant can be written as GWAS-SSF ({reasons}); write the table of results as it is")
    with whole_files([path, path.with_name(path.name + META)]) as (data, meta):
        with text_file(data) as out:
            out.write("\t".join(table) + "\n")
            out.writelines("\t".join(row) + "\n" for row in zip(*table.values(), strict=True))
        with data.open("rb") as content:
            md5 = hashlib.file_digest(content, "md5").hexdigest()
        people = int(np.max(columns["N"]))
        about = _metadata(study, path.name, md5, table, left_out) | {
            "samples": [_sample(people, "BETA" in columns, cases)]
        }
        meta.write_text("".join(_yaml(name, value) for name, value in about.items()), encoding="utf-8")
    return left_out


def ssf_table(columns: Columns) -> tuple[dict[str, list[str]], dict[str, int]]:
    """The columns of GWAS-SSF as texts, and how many variants have no row there, by reason."""
    effect = "beta" if "BETA" in columns else "odds_ratio"
    # its number in GWAS-SSF, 0 where it has none
    chromosome = np.array(
        [
            _NUMBERS.get(plain_name(c), _SINGLE_NUMBERS.get(single_copy_chromosome(c), 0))
            for c in map(str, columns["CHR"])
        ],
        dtype=np.int64,
    )
    position = np.asarray(columns["BP"], dtype=np.int64)
    a1, a2 = ([str(a).upper() for a in columns[name]] for name in ("A1", "A2"))
    frequency = columns["A1_FREQ"] if "A1_FREQ" in columns else columns["F_U"]
    numbers = {
        effect: np.asarray(columns["BETA" if effect == "beta" else "OR"], dtype=np.float64),
        "standard_error": np.asarray(columns["SE"], dtype=np.float64),
        # noise takes estimates outside of what frequencies can be
        "effect_allele_frequency": np.clip(np.asarray(frequency, dtype=np.float64), 0.0, 1.0),
        "p_value": np.asarray(columns["P"], dtype=np.float64),
    }
    lettered = np.array([bool(_LETTERS.fullmatch(a) and _LETTERS.fullmatch(b)) for a, b in zip(a1, a2, strict=True)])
    left_out: dict[str, int] = {}
    kept = np.ones(position.size, dtype=np.bool_)
    for reason, good in (
        ("on no chromosome of 1 to 22, X, Y and MT, or without a position", (chromosome > 0) & (position > 0)),
        ("whose alleles are not given as letters A, C, G and T", lettered),
        ("without a p-value", np.isfinite(numbers["p_value"])),
        ("whose effect has no bounded interval", np.all([np.isfinite(x) for x in numbers.values()], axis=0)),
    ):
        if gone := int(np.count_nonzero(kept & ~good)):
            left_out[reason] = gone
        kept &= good
    rows = np.flatnonzero(kept).tolist()
    place = [(str(chromosome[k]), str(position[k])) for k in rows]
    names = [str(columns["SNP"][k]) for k in rows]
    return {
        "chromosome": [c for c, _ in place],
        "base_pair_location": [p for _, p in place],
        "effect_allele": [a1[k] for k in rows],
        "other_allele": [a2[k] for k in rows],
        **{name: _numbers(values[rows], "#NA") for name, values in numbers.items()},
        "variant_id": [f"{c}_{p}_{a2[k]}_{a1[k]}" for (c, p), k in zip(place, rows, strict=True)],
        "rsid": [name if _RS.fullmatch(name) else "#NA" for name in names],
        "ci_upper": _numbers(np.asarray(columns["U95"], dtype=np.float64)[rows], "#NA"),
        "ci_lower": _numbers(np.asarray(columns["L95"], dtype=np.float64)[rows], "#NA"),
        "n": [str(n) for n in columns["N"][rows]],
    }, left_out


def _metadata(
    study: ScannedStudy, name: str, md5: str, table: Mapping[str, Sequence[str]], left_out: Mapping[str, int]
) -> dict[str, Any]:
    """What the metadata hold apart from the people."""
    effect = "beta" if "beta" in table else "the natural logarithm of odds_ratio"
    whose = "everybody" if effect == "beta" else "controls"
    places = list(zip(map(int, table["chromosome"]), map(int, table["base_pair_location"]), strict=True))
    notes = (
        "The data are locally randomized: every person's genotypes and status were randomized as one record, which has local "
        f"differential privacy at epsilon = {epsilon_text(study.epsilon)} nats in all (design {study.digest}). Estimates, "
        f"standard errors and p-values allow for it. standard_error is that of {effect}; effect_allele_frequency is "
        f"estimated among {whose} and kept within 0 to 1; variant_id names other_allele first, which need not be the reference."
    )
    notes += "".join(f" Not listed: {amount(count, 'variant')} {reason}." for reason, count in left_out.items())
    return {
        "author_notes": notes,
        "date_metadata_last_modified": date.today(),
        "trait_description": [study.trait],
        "genome_assembly": study.assembly,
        "coordinate_system": "1-based",
        "genotyping_technology": [NOT_REPORTED],
        "data_file_name": name,
        "file_type": "GWAS-SSF v1.0",
        "data_file_md5sum": md5,
        "analysis_software": SOFTWARE,
        **({"adjusted_covariates": list(study.covariates)} if study.covariates else {}),
        "is_harmonised": False,
        "is_sorted": places == sorted(places),
    }


def _sample(people: int, of_trait: bool, cases: float | None) -> dict[str, Any]:
    """The people: their cases are counted in randomized records, so that their number is an estimate."""
    about = {"sample_ancestry_category": [NOT_REPORTED], "sample_size": people, "case_control_study": not of_trait}
    if of_trait or cases is None:
        return about
    ill = round(float(np.clip(cases, 0.0, 1.0)) * people)
    return about | {"case_count": ill, "control_count": people - ill}


def _yaml(name: str, value: Any, indent: str = "") -> str:
    """A key and its value; texts are written as JSON has them, which YAML reads."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        inner = ["".join(_yaml(k, v, f"{indent}    ") for k, v in item.items()) for item in value]
        return f"{indent}{name}:\n" + "".join(f"{indent}  - {text[len(indent) + 4 :]}" for text in inner)
    if isinstance(value, list):
        return f"{indent}{name}:\n" + "".join(f"{indent}  - {json.dumps(item)}\n" for item in value)
    return f"{indent}{name}: {value.isoformat() if isinstance(value, date) else json.dumps(value)}\n"


def _numbers(values: NDArray[np.generic], missing: str) -> list[str]:
    numbers = np.asarray(values, dtype=np.float64)
    return [f"{x:.6g}" if np.isfinite(x) else missing for x in numbers.tolist()]


def _texts(values: NDArray[np.generic]) -> list[str]:
    if values.dtype.kind != "f":
        return [str(v) for v in values]
    return ["NA" if math.isnan(v) else f"{v:.6g}" for v in values.tolist()]
