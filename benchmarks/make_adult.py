"""Makes optrr/records/data/adult.csv.gz: the nine categorical columns of the Adult records, byte for byte repeatable.

Run as ``python benchmarks/make_adult.py [SOURCE]``; SOURCE is a CSV file of the Adult training records with a header.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from pathlib import Path

from optrr.records.datasets import adult_domain

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT.parent / "shared" / "data" / "adult.csv"
TARGET = ROOT / "optrr" / "records" / "data" / "adult.csv.gz"


def packed(source: Path) -> bytes:
    """The compressed file: no name, no time of day, so that the same source gives the same bytes."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    names = adult_domain().names
    writer.writerow(names)
    with source.open(newline="", encoding="utf-8") as lines:
        writer.writerows([record[name] for name in names] for record in csv.DictReader(lines))
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=0) as file:
        file.write(text.getvalue().encode())
    return out.getvalue()


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(packed(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE))
    print(TARGET.relative_to(ROOT), TARGET.stat().st_size, "bytes")
