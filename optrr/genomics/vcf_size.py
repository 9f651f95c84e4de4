"""How large a VCF is once expanded, found with bounded memory before any native library reads it.

A compressed file may hold a thousand times its size; htslib keeps a whole line in memory. The lines are counted and measured
here, a megabyte at a time, and a file beyond the limits is refused with the limit and the remedy.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from optrr.errors import InvalidInput

_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"
# zlib's word for: a gzip header, and the largest window
_GZIP_WINDOW = 31
_BCF = b"BCF"

# Bytes of a line: a million people with sixty bytes each, which is genotypes with depths, qualities and likelihoods.
LONGEST_LINE = 64 * 1024 * 1024

# Records of a file, usable or not: their places, names and alleles are held in memory, about 1 GB in all.
MOST_RECORDS = 5_000_000

_SPLIT = "split it by region (bcftools view -r) or convert it to PLINK"


def checked_size(path: Path) -> int:
    """Bytes of the expanded file.

    A BCF file has no lines: only its bytes are counted here, and its records are bounded where they are read.

    Raises
    ------
    InvalidInput
        for a line above ``LONGEST_LINE``, more than ``MOST_RECORDS`` lines, and gzip data that are damaged.
    """
    total = lines = line = 0
    binary = False
    for piece in _expanded(path):
        binary = binary or (total == 0 and piece.startswith(_BCF))
        total += len(piece)
        if binary:
            continue
        first = piece.find(b"\n")
        line += len(piece) if first < 0 else first
        if line > LONGEST_LINE:
            raise InvalidInput(
                f"{path}, line {lines + 1} is longer than {LONGEST_LINE >> 20} MiB; check that it is a VCF, "
                "or split it by people (bcftools view -S)"
            )
        if first >= 0:
            lines += piece.count(b"\n")
            line = len(piece) - 1 - piece.rfind(b"\n")
        if lines > MOST_RECORDS:
            raise InvalidInput(f"{path} has more than {MOST_RECORDS:,} lines; {_SPLIT}")
    return total


def too_many_records(path: Path) -> InvalidInput:
    """What a file beyond ``MOST_RECORDS`` is answered with where the records are read."""
    return InvalidInput(f"{path} has more than {MOST_RECORDS:,} records; {_SPLIT}")


def _expanded(path: Path) -> Iterator[bytes]:
    """The file's text in pieces of at most a megabyte; every member of a gzip file, as bgzip writes them."""
    with path.open("rb") as file:
        data = file.read(_CHUNK)
        if not data.startswith(_GZIP):
            while data:
                yield data
                data = file.read(_CHUNK)
            return
        member = zlib.decompressobj(_GZIP_WINDOW)
        try:
            while data:
                yield member.decompress(data, _CHUNK)
                data = member.unconsumed_tail or member.unused_data or file.read(_CHUNK)
                if member.eof:
                    if not data.startswith(_GZIP[:1]):
                        return
                    member = zlib.decompressobj(_GZIP_WINDOW)
        except zlib.error as error:
            raise InvalidInput(f"cannot read {path}: its gzip data are damaged ({error}); compress it again") from error
