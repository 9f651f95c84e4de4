"""VCF files of single people for tests: written in either allele coding, and read without a process for each of hundreds."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from optrr.genomics import vcf, vcf_worker

HEADER = (
    "##fileformat=VCFv4.2\n##contig=<ID=1>\n##contig=<ID=X>\n"
    '##FORMAT=<ID=GT,Number=1,Type=String,Description="g">\n'
    "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t{}\n"
)
# Calls by how many copies of the alternate allele they have; -1 is a missing call.
CALLS = {-1: "./.", 0: "0/0", 1: "0/1", 2: "1/1"}


def line(name: str, a1: str, a2: str, copies: int, turned: bool = False, place: str = "1\t10") -> str:
    """A record of ``copies`` of A1, which is the alternate allele, or the reference where ``turned``."""
    ref, alt, count = (a1, a2, 2 - copies if copies >= 0 else copies) if turned else (a2, a1, copies)
    return f"{place}\t{name}\t{ref}\t{alt}\t.\t.\t.\tGT\t{CALLS[count]}\n"


def write_vcf(path: Path, lines: Sequence[str], person: str = "ann") -> Path:
    path.write_text(HEADER.format(person) + "".join(lines))
    return path


def read_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the same code that reads a VCF in a process of its own run in this one, which starts nothing: 2 ms a file."""
    pytest.importorskip("cyvcf2", reason="cyvcf2 is not installed")

    def run_worker(order: dict[str, Any]) -> tuple[int, bytes]:
        return 0, "".join(json.dumps(line) + "\n" for line in vcf_worker.read(order)).encode()

    monkeypatch.setattr(vcf, "run_worker", run_worker)
