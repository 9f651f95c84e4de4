"""A VCF read in a process of its own, so that what ends the native library is an error message here.

The process has the file's size to go by: its memory and its time are limited, it writes no core file, and what it sends is
checked, because a library that has been led astray may send anything.
"""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from optrr.errors import InvalidInput, in_one_line
from optrr.genomics.chromosomes import SINGLE
from optrr.genomics.vcf_size import MOST_RECORDS, checked_size, too_many_records

_WORKER = Path(__file__).with_name("vcf_worker.py")
_HEAD = struct.Struct("<cQ")

# Address space of the process: its libraries, and htslib's copies of a line of the longest kind.
MEMORY = 1536 * 1024 * 1024

# Seconds of processor time: reading takes 1 s for each 40 MB on one core of 2024, and gets forty times that.
_SECONDS = 60
_BYTES_PER_SECOND = 1_000_000

# Bytes of one frame: names of people are the longest, and come from a line of at most 64 MiB.
_LONGEST_FRAME = 512 * 1024 * 1024


def frames(path: Path, genotypes: bool) -> Generator[tuple[bytes, bytes], None, None]:
    """Kind and content of every frame of one pass over the file (see :mod:`optrr.genomics.vcf_worker`).

    Raises
    ------
    InvalidInput
        where the file is beyond the limits, unreadable, or crashes the library.
    """
    with subprocess.Popen(
        [sys.executable, "-P", str(_WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=1 << 18,
    ) as process:
        try:
            # measured while the process imports its libraries
            _order(process, path, genotypes)
            yield from _received(process, path)
        finally:
            process.kill()


def _order(process: subprocess.Popen[bytes], path: Path, genotypes: bool) -> None:
    assert process.stdin is not None
    order = {
        "path": str(path),
        "genotypes": genotypes,
        "memory": MEMORY,
        "seconds": _SECONDS + checked_size(path) // _BYTES_PER_SECOND,
        "most_records": MOST_RECORDS,
        "single": sorted(SINGLE),
    }
    try:
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.close()
    except BrokenPipeError:
        # it has ended already; how is told by its exit code
        pass


def _received(process: subprocess.Popen[bytes], path: Path) -> Iterator[tuple[bytes, bytes]]:
    assert process.stdout is not None
    while True:
        head = process.stdout.read(_HEAD.size)
        kind, length = _HEAD.unpack(head) if len(head) == _HEAD.size else (b"", 0)
        content = process.stdout.read(length) if length <= _LONGEST_FRAME else b""
        if not kind or len(content) < length:
            raise _ended(process.wait(), path)
        if kind == b"Z":
            return
        if kind == b"T":
            raise too_many_records(path)
        if kind == b"M":
            raise _out_of_memory(path)
        if kind == b"E":
            raise _unreadable(content, path)
        yield kind, content


def decoded(content: bytes, path: Path) -> Any:
    """A frame's JSON. Raises InvalidInput where memory was overwritten before it was written."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _ended(0, path) from error


def _unreadable(content: bytes, path: Path) -> InvalidInput:
    error = decoded(content, path)
    hint = "; is it cut short or malformed?" if error["opened"] else "; check that it is a VCF (bcftools view)"
    return InvalidInput(f"cannot read {path}: {in_one_line(error['said'])}{hint}")


def _out_of_memory(path: Path) -> InvalidInput:
    return InvalidInput(
        f"cannot read {path}: its header or a line takes more than {MEMORY >> 20} MiB of memory; split it by people"
    )


def _ended(code: int, path: Path) -> InvalidInput:
    """What the end of the process says of the file."""
    if code == -signal.SIGXCPU:
        return InvalidInput(
            f"cannot read {path}: the library that reads VCF did not come to an end; check the file (bcftools view)"
        )
    how = (signal.strsignal(-code) or f"signal {-code}").lower() if code < 0 else f"exit code {code}"
    return InvalidInput(
        f"cannot read {path}: it crashes the library that reads VCF ({how}), so it is malformed; "
        "check it (bcftools view), or convert it to PLINK"
    )
