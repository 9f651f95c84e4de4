"""Records that several scripts randomize: of the 1000 Genomes Project, and applicants to Berkeley in 1973."""

import csv
import gzip
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from optrr import Domain
from optrr.core.domain.datasets import adult, adult_domain
from optrr.core.records.counts import encoded_batches

DATA = Path(__file__).parent / "data"
SOURCE = DATA / "people.csv.gz"
ADMISSIONS = Domain.of({"gender": ["male", "female"], "admitted": ["yes", "no"], "department": list("ABCDEF")})


@contextmanager
def people_table() -> Iterator[Path]:
    """A CSV file of 2,504 people at 55 ancestry markers, there while the context lasts (see make_data.py).

    Its columns are sample, superpopulation and one for each marker.
    """
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "people.csv"
        table.write_bytes(gzip.decompress(SOURCE.read_bytes()))
        yield table


def adult_codes(*names: str) -> np.ndarray:
    """Adult's records, of all attributes or of some."""
    domain = adult_domain().subset(names) if names else adult_domain()
    return np.concatenate(list(encoded_batches(adult().select(list(domain.names)), domain, domain)))


def applicants() -> np.ndarray:
    """Counts by gender, admission and department, six largest departments (Bickel, Hammel & O'Connell, Science 187, 1975)."""
    out = np.zeros(tuple(map(int, ADMISSIONS.sizes)))
    with (DATA / "ucb_admissions.csv").open() as file:
        for row in csv.DictReader(file):
            out[tuple(int(a.codes[row[a.name]]) for a in ADMISSIONS)] = float(row["people"])
    return out
