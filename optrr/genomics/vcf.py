"""VCF files (plain, bgzipped, BCF) through cyvcf2.

A1, the counted allele, is the alternate one. Records that did not pass the file's filters, are not biallelic or have
symbolic alleles or no genotypes are left out and counted by reason, and so are those without diploid people, except on
chromosomes X, Y and MT. Phase is ignored. A call with one allele unknown is missing; a haploid call is coded as
homozygous, as in PLINK.

The native library runs in a separate process (:mod:`optrr.genomics.vcf_worker`), so a crash results in a one-line
error. Its memory and its time are limited, because a compressed file may hold a thousand times its size, and it writes
no core file. It reads the file once, so that a pipe will do, and leaves the genotypes in an unnamed temporary file,
which vanishes with this process.
"""

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from optrr.core.errors import InvalidInput
from optrr.genomics.genotypes import MISSING, SINGLE, Codes, MatrixGenotypes, Variants, checked_people, required

# The name of a file that is a pipe into this process.
STANDARD_INPUT = "-"

_WORKER = Path(__file__).with_name("vcf_worker.py")

# Address space of the process: its libraries, and htslib's copies of a long line.
MEMORY = 1536 * 1024 * 1024
# Records that are used, and bytes of their names and alleles, which are held in memory.
MOST_RECORDS, _MOST_TEXT = 5_000_000, 1 << 30
# Seconds of processor time, beyond those of its start, and bytes of the file for each more: htslib reads 40 MB of text
# each, and genotypes are compressed a hundredfold, so a file gets twenty times what it needs. Of contigs, filters and
# tags that the header does not name, htslib takes the square of their number.
SECONDS, _BYTES_PER_SECOND = 10, 20_000
_DAY = 86_400

_Row = tuple[str, int, str, str, str]


class _End(msgspec.Struct):
    """The last line of the process's output."""

    skipped: dict[str, int] = {}
    error: str = ""


def read_vcf(path: Path, genotypes: bool = True) -> MatrixGenotypes:
    """Read the usable records of a file or of standard input.

    Without ``genotypes`` all calls are read as missing.

    Raises InvalidInput where the file is missing, unreadable, beyond the limits, has no samples, or no biallelic
    variant.
    """
    required("cyvcf2")
    piped = path.name == STANDARD_INPUT
    name = "standard input" if piped else str(path)
    if piped and sys.stdin is None:
        raise InvalidInput("standard input is closed; name a file")
    if not piped and not path.is_file():
        raise InvalidInput(f"{path} does not exist; give a VCF file")
    with tempfile.TemporaryFile() as file:
        order = {
            "path": str(path),
            "codes": file.fileno() if genotypes else None,
            "single": sorted(SINGLE),
            "most_records": MOST_RECORDS,
            "most_text": _MOST_TEXT,
            "memory": MEMORY,
            "seconds": _DAY if piped else SECONDS + path.stat().st_size // _BYTES_PER_SECOND,
        }
        code, output = run_worker(order)
        lines = output.splitlines()
        try:
            end = msgspec.json.decode(b"".join(lines[-1:]), type=_End)
            if end.error:
                raise InvalidInput(f"cannot read {name}: {end.error}")
            people = msgspec.json.decode(lines[0], type=list[str])
            rows = msgspec.json.decode(b"[%b]" % b",".join(lines[1:-1]), type=list[_Row])
        except msgspec.MsgspecError as error:
            raise _ended(code, name) from error
        if not people:
            raise InvalidInput(f"{name} has no samples; give a VCF with genotypes")
        if not rows:
            reasons = ", ".join(f"{count} {reason}" for reason, count in end.skipped.items()) or "it has no records"
            raise InvalidInput(f"{name} has no biallelic diploid variant ({reasons}); give a file with at least one")
        shape = len(rows), len(people)
        if genotypes and file.seek(0, 2) != shape[0] * shape[1]:
            raise _ended(code, name)
        codes: Codes = np.broadcast_to(np.int8(MISSING), shape)
        if genotypes:
            codes = np.memmap(file, dtype=np.int8, mode="r", shape=shape)
    named = Variants.of(rows), checked_people(people, name)
    return MatrixGenotypes(*named, codes.T, skipped=end.skipped, names_reference=True)


def run_worker(order: dict[str, Any]) -> tuple[int, bytes]:
    """Run the process that reads a VCF; return its exit code and output."""
    handles = () if order["codes"] is None else (order["codes"],)
    ended = subprocess.run(
        [sys.executable, "-P", str(_WORKER), json.dumps(order)],
        stdin=None if order["path"] == STANDARD_INPUT else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=handles,
        check=False,
    )
    return ended.returncode, ended.stdout


def _ended(code: int, name: str) -> InvalidInput:
    """Convert the worker's exit to an error about the file."""
    how = (signal.strsignal(-code) or f"signal {-code}").lower() if code < 0 else f"exit code {code}"
    said = f"the VCF library crashes on it ({how}), so it is malformed"
    if code == -signal.SIGXCPU:
        said = "the VCF library did not finish"
    return InvalidInput(f"cannot read {name}: {said}; check it (bcftools view), or convert it to PLINK")
