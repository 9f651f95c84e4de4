"""VCF files (plain, bgzipped, BCF) through cyvcf2.

A1, the counted allele, is the alternate one. Records that are not biallelic, symbolic alleles, records without genotypes
and those where nobody is diploid, except on chromosomes X, Y and MT, are left out and counted by reason. Phase is ignored. A
call with one allele unknown is missing; a haploid call is coded as homozygous, as in PLINK. Which records are used beyond that
is asked by a :class:`optrr.genomics.filters.GenotypeFilter`.

The native library runs in a process of its own, so that a file that crashes it is one line here. The process has the file's
size to go by: its memory and its time are limited, it writes no core file, and what it sends is checked, because a library that
has been led astray may send anything.

A compressed file may hold a thousand times its size, and htslib keeps a whole line in memory. So lines are counted and measured
first, a megabyte at a time, and a file beyond the limits is refused with the limit and the remedy.
"""

import gzip
import json
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from optrr.core.errors import InvalidInput, in_one_line
from optrr.genomics.filters import EVERYTHING, OUTSIDE, GenotypeFilter, none_within
from optrr.genomics.genotypes import (
    BLOCK,
    GENOTYPES,
    MISSING,
    SINGLE,
    Codes,
    Genotypes,
    Variants,
    checked_people,
    required,
)

_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"
_BCF = b"BCF"

# Bytes of a line: a million people with sixty bytes each, which is genotypes with depths, qualities and likelihoods.
LONGEST_LINE = 64 * 1024 * 1024

# Records of a file, usable or not: their places, names and alleles are held in memory, about 1 GB in all.
MOST_RECORDS = 5_000_000

# The name of a file that is a pipe into this process.
STANDARD_INPUT = "-"

_SPLIT = "split it by region (bcftools view -r) or convert it to PLINK"


def checked_size(path: Path) -> int:
    """Bytes of the expanded file.

    A BCF file has no lines: only its bytes are counted here, and its records are bounded where they are read. Raises
    InvalidInput for a line above ``LONGEST_LINE``, more than ``MOST_RECORDS`` lines, and gzip data that are damaged.
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


def _expanded(path: Path) -> Iterator[bytes]:
    """The file's text in pieces of at most a megabyte; every member of a gzip file, as bgzip writes them."""
    with path.open("rb") as raw:
        file = gzip.GzipFile(fileobj=raw) if raw.peek(len(_GZIP)).startswith(_GZIP) else raw
        try:
            while data := file.read(_CHUNK):
                yield data
        except EOFError:
            # cut short, which is told where it is read
            return
        except (gzip.BadGzipFile, zlib.error) as error:
            raise InvalidInput(f"cannot read {path}: its gzip data are damaged ({error}); compress it again") from error


_WORKER = Path(__file__).with_name("vcf_worker.py")
_HEAD = struct.Struct("<cQ")

# Address space of the process: its libraries, and htslib's copies of a line of the longest kind.
MEMORY = 1536 * 1024 * 1024

# Seconds of processor time, beyond those of its start: reading takes 1 s for each 40 MB on one core of 2024, and gets forty
# times that. Of contigs, filters and tags that the header does not name, htslib takes the square of their number.
_SECONDS = 4
_BYTES_PER_SECOND = 1_000_000

# Bytes of one frame: names of people are the longest, and come from a line of at most 64 MiB.
_LONGEST_FRAME = 512 * 1024 * 1024


def frames(
    path: Path, genotypes: bool, chosen: GenotypeFilter = EVERYTHING, handle: int | None = None
) -> Generator[tuple[bytes, bytes], None, None]:
    """Kind and content of every frame of one pass over the file (see :mod:`optrr.genomics.vcf_worker`).

    ``handle``: of the file, where it has no name. Raises InvalidInput where the file is beyond the limits, unreadable, or
    crashes the library.
    """
    with subprocess.Popen(
        [sys.executable, "-P", str(_WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=1 << 18,
        pass_fds=() if handle is None else (handle,),
    ) as process:
        try:
            # measured while the process imports its libraries
            seconds = _SECONDS + checked_size(path) // _BYTES_PER_SECOND
            limits = {"memory": MEMORY, "seconds": seconds, "most_records": MOST_RECORDS}
            wanted = {"path": str(path), "genotypes": genotypes, "single": sorted(SINGLE)}
            # limits last, so that nothing that is asked for replaces one
            order = chosen.order() | wanted | limits
            assert process.stdin is not None
            # where it has ended already, how is told by its exit code
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(order).encode() + b"\n")
                process.stdin.close()
            yield from _received(process, path)
        finally:
            process.kill()


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
        if kind in b"TME":
            raise _refused(kind, content, path)
        yield kind, content


def decoded(content: bytes, path: Path) -> Any:
    """A frame's JSON. Raises InvalidInput where memory was overwritten before it was written."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _ended(0, path) from error


def _refused(kind: bytes, content: bytes, path: Path) -> InvalidInput:
    """What the process says of the file before it ends by itself."""
    if kind == b"T":
        return InvalidInput(f"{path} has more than {MOST_RECORDS:,} records; {_SPLIT}")
    if kind == b"M":
        return InvalidInput(
            f"cannot read {path}: its header or a line takes more than {MEMORY >> 20} MiB of memory; split it by people"
        )
    error = decoded(content, path)
    hint = "is it cut short or malformed?" if error["opened"] else "check that it is a VCF (bcftools view)"
    return InvalidInput(f"cannot read {path}: {in_one_line(error['said'])}; {hint}")


def _ended(code: int, path: Path) -> InvalidInput:
    """What the end of the process says of the file."""
    how = (signal.strsignal(-code) or f"signal {-code}").lower() if code < 0 else f"exit code {code}"
    said = f"it crashes the library that reads VCF ({how}), so it is malformed"
    if code == -signal.SIGXCPU:
        said = "the library that reads VCF did not come to an end"
    return InvalidInput(f"cannot read {path}: {said}; check it (bcftools view), or convert it to PLINK")


# Bytes that variants' names and alleles may take in all, and for each variant.
_MOST_TEXT, _TEXT_EACH = 64 * 1024 * 1024, 256


class VcfGenotypes(Genotypes):
    """Reads a VCF twice or more: once for the variants, then for their genotypes.

    Raises InvalidInput where the file is missing, unreadable, beyond the limits, has no samples, or no biallelic variant.
    """

    names_reference = True

    def __init__(self, path: Path, chosen: GenotypeFilter = EVERYTHING) -> None:
        self._chosen, self._spool = chosen, None
        self.path = Path(path)
        if self.path.name == STANDARD_INPUT:
            self._spool = _spooled()
            self.path = Path(f"/dev/fd/{self._spool.fileno()}")
        elif not self.path.is_file():
            raise InvalidInput(f"{self.path} does not exist; give a VCF file")
        required("cyvcf2")
        people: list[str] = []
        rows: list[tuple[str, int, str, str, str]] = []
        self.skipped: dict[str, int] = {}
        text = 0
        for kind, content in self._frames(genotypes=False):
            if kind == b"P":
                people = decoded(content, self.path)
            elif kind == b"S":
                self.skipped = decoded(content, self.path)
            elif kind == b"V":
                text += len(content)
                rows += decoded(content, self.path)
                if text > _MOST_TEXT + _TEXT_EACH * len(rows):
                    raise InvalidInput(
                        f"the variants' names and alleles in {self.path} take more than {_MOST_TEXT >> 20} MiB and "
                        f"{_TEXT_EACH} bytes each; {_SPLIT}"
                    )
        if not people:
            raise InvalidInput(f"{self.path} has no samples; give a VCF with genotypes")
        self.people = checked_people(people, str(self.path))
        if not rows and self.skipped.get(OUTSIDE) and len(self.skipped) == 1:
            raise none_within(chosen.regions)
        if not rows:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.skipped.items()) or "it has no records"
            raise InvalidInput(
                f"{self.path} has no biallelic diploid variant ({reasons}); give a file with at least one"
            )
        self.variants = Variants.of(rows)

    def _frames(self, genotypes: bool) -> Generator[tuple[bytes, bytes], None, None]:
        if self._spool is None:
            yield from frames(self.path, genotypes, self._chosen)
            return
        # where opening it by its number does not begin at its beginning
        self._spool.seek(0)
        try:
            yield from frames(self.path, genotypes, self._chosen, self._spool.fileno())
        except InvalidInput as error:
            raise InvalidInput(str(error).replace(str(self.path), "standard input")) from error

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Codes]]:
        """Copies of the alternate allele, n × size bytes at a time."""
        n, total = self.people.size, len(self.variants)
        with closing(self._frames(genotypes=True)) as received:
            for start in range(0, total, size):
                chosen = slice(start, min(start + size, total))
                codes: Codes = np.empty((chosen.stop - start, n), dtype=np.int8)
                for row in codes:
                    sent: Codes = np.frombuffer(next(received, (b"", b""))[1], dtype=np.int8)
                    if sent.size != n or sent.min() < MISSING or sent.max() >= GENOTYPES:
                        raise self._changed()
                    row[:] = sent
                yield chosen, codes.T
            if next(received, None) is not None:
                raise self._changed()

    def _changed(self) -> InvalidInput:
        return InvalidInput(f"{self.path} was read differently the second time; leave it alone while it is read")


def _spooled() -> IO[bytes]:
    """Standard input in an unnamed temporary file, because a VCF is read twice; it vanishes with the process."""
    if sys.stdin is None:
        raise InvalidInput("standard input is closed; name a file")
    spool = tempfile.TemporaryFile()  # noqa: SIM115 (it is read as often as asked)
    shutil.copyfileobj(sys.stdin.buffer, spool, _CHUNK)
    spool.flush()
    return spool
