"""Make the bundled data and the benchmarks' data from their sources, reproducible byte for byte.

Run as ``python benchmarks/make_data.py adult ADULT.csv`` or ``python benchmarks/make_data.py people PEOPLE.vcf SAMPLES.csv``.

    adult    ADULT.csv holds the Adult training records with a header: UCI Machine Learning Repository, "Adult" (Becker and
             Kohavi, 1996), https://doi.org/10.24432/C5XW20, CC BY 4.0. Makes optrr/core/domain/data/adult.csv.gz, the nine
             categorical columns, and benchmarks/data/adult_age_sex.csv, how many people there are of each age and sex.
    people   PEOPLE.vcf holds 2,504 people of the 1000 Genomes Project, phase 3 (open data without restrictions, Fort
             Lauderdale principles; https://www.internationalgenome.org), at 55 ancestry markers of the Kidd laboratory's
             panel; SAMPLES.csv their superpopulation. Makes benchmarks/data/people.csv.gz: one row for each
             person, the number of alternative alleles for each marker.
"""

import csv
import gzip
import io
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from optrr.core.domain.datasets import adult_domain

ROOT = Path(__file__).resolve().parents[1]
BUNDLED = ROOT / "optrr" / "core" / "domain" / "data"
DATA = ROOT / "benchmarks" / "data"


def written(header: Iterable[object], rows: Iterable[Iterable[object]]) -> bytes:
    """A CSV file with one kind of line end."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()


def packed(content: bytes) -> bytes:
    """The text compressed, without a file name and a time, so that the same source gives the same bytes."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=0) as file:
        file.write(content)
    return out.getvalue()


def adult(source: Path) -> dict[Path, bytes]:
    with source.open(newline="", encoding="utf-8") as lines:
        records = list(csv.DictReader(lines))
    names = adult_domain().names
    people = Counter((int(r["age"]), r["sex"].strip()) for r in records)
    return {
        BUNDLED / "adult.csv.gz": packed(written(names, ([r[name] for name in names] for r in records))),
        DATA / "adult_age_sex.csv": written(("age", "sex", "people"), ((*k, n) for k, n in sorted(people.items()))),
    }


def people(genotypes: Path, samples: Path) -> dict[Path, bytes]:
    from optrr.genomics.cohort import read_genotypes

    read = read_genotypes(genotypes)
    codes = np.concatenate([codes for _, codes in read.blocks()], axis=1)
    with samples.open(newline="", encoding="utf-8") as lines:
        groups = {r["sample"]: r["superpopulation"] for r in csv.DictReader(lines)}
    header = ("sample", "superpopulation", *map(str, read.variants.name))
    rows = ((name, groups[name], *map(int, row)) for name, row in zip(map(str, read.people), codes, strict=True))
    return {DATA / "people.csv.gz": packed(written(header, rows))}


def main(kind: str, sources: list[Path]) -> None:
    for target, content in {"adult": adult, "people": people}[kind](*sources).items():
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(content)
        print(target.relative_to(ROOT), len(content), "bytes")


if __name__ == "__main__":
    if len(sys.argv) != {"adult": 3, "people": 4}.get(" ".join(sys.argv[1:2])):
        sys.exit("usage: python benchmarks/make_data.py adult ADULT.csv | people PEOPLE.vcf SAMPLES.csv")
    main(sys.argv[1], [Path(x) for x in sys.argv[2:]])
