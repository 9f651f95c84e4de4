"""The process that hands a VCF to cyvcf2: it reads one file, sends what it read to its parent, and ends.

htslib, which cyvcf2 wraps, is native code: a malformed file may end the process that reads it. So this file is run as a
script of its own (:mod:`optrr.genomics.vcf` starts it) and imports nothing of optrr, which keeps its start short.

Input: one line of JSON that says what to read, and which records (:class:`optrr.genomics.filters.GenotypeFilter`).

Output: frames of a kind (one byte), a length (eight bytes, little-endian) and that many bytes. ``P`` names of people, ``V``
variants (both JSON), ``G`` one variant's codes (int8), ``S`` counts of what was left out (JSON), ``Z`` the end, ``E`` what the
library said of the file, ``M`` memory is used up, ``T`` too many records.
"""

import json
import math
import os
import struct
import sys
import time
from collections import Counter
from typing import Any, BinaryIO

import numpy as np

_UNKNOWN = 3
_MISSING = -1
_DIPLOID = 2

# Variants sent at once, and characters of their names and alleles: some 200 kB of JSON, or little more than one long line.
_BATCH, _BATCH_TEXT = 4_096, 1 << 20


def _send(out: BinaryIO, kind: bytes, content: bytes = b"") -> None:
    out.write(struct.pack("<cQ", kind, len(content)))
    out.write(content)


def _send_json(out: BinaryIO, kind: bytes, content: object) -> None:
    _send(out, kind, json.dumps(content).encode())


def _plain_name(record: Any) -> str:
    return str(record.CHROM).upper().removeprefix("CHR")


def _unusable(record: Any, order: dict[str, Any]) -> str:
    """Why a record is left out; empty where it is not. Everybody may have one copy of the chromosomes of ``single``."""
    regions = order["regions"]
    if regions and not any(c == _plain_name(record) and a <= record.POS <= b for c, a, b in regions):
        return "outside the regions"
    if record.FILTER and not order["all_filters"]:
        return "not passed by the file's filters"
    if len(record.ALT) != 1:
        return "not biallelic"
    if record.ALT[0].startswith("<") or record.ALT[0] == "*":
        return "symbolic allele"
    single = _plain_name(record) in order["single"]
    if "GT" not in record.FORMAT:
        return "without genotypes"
    return "" if record.ploidy == _DIPLOID or (record.ploidy == 1 and single) else "not diploid"


def _send_variants(file: Any, order: dict[str, Any], out: BinaryIO) -> None:
    """Names of people, then chromosome, position, name, alternate and reference allele of every usable record."""
    _send_json(out, b"P", list(file.samples))
    skipped: Counter[str] = Counter()
    rows: list[tuple[str, int, str, str, str]] = []
    text = 0
    for number, record in enumerate(file if file.samples else ()):
        if number == order["most_records"]:
            _send(out, b"T")
            return
        reason = _unusable(record, order)
        if reason:
            skipped[reason] += 1
            continue
        name, alternate = record.ID or ".", record.ALT[0]
        rows.append((record.CHROM, record.POS, name, alternate, record.REF))
        text += len(record.CHROM) + len(name) + len(alternate) + len(record.REF)
        if len(rows) == _BATCH or text > _BATCH_TEXT:
            _send_json(out, b"V", rows)
            rows, text = [], 0
    _send_json(out, b"V", rows)
    _send_json(out, b"S", skipped)
    _send(out, b"Z")


def _send_genotypes(file: Any, order: dict[str, Any], out: BinaryIO) -> None:
    """Copies of the alternate allele of every usable record, one frame each."""
    for record in file:
        if not _unusable(record, order):
            # copies of the alternate allele
            codes = record.gt_types.astype(np.int8)
            codes[codes == _UNKNOWN] = _MISSING
            _send(out, b"G", codes.tobytes())
    _send(out, b"Z")


def _limit(memory: int, seconds: int) -> None:
    """No more memory and further time than this, and no core file of people's genotypes. macOS does not enforce the memory."""
    import resource  # noqa: PLC0415 (POSIX only, as cyvcf2 is)

    seconds += math.ceil(time.process_time())
    for kind, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY or most <= hard:
            resource.setrlimit(kind, (most, hard))


def _serve(out: BinaryIO) -> None:
    import cyvcf2  # noqa: PLC0415 (the parent has made sure that it is installed)

    # exceptions also hold what htslib writes to standard error
    cyvcf2.cyvcf2.set_htslib_log_level(0)
    # the parent orders a pass when it has looked at the file, while this process was importing
    order = json.loads(sys.stdin.readline())
    _limit(order["memory"], order["seconds"])
    opened = False
    try:
        file = cyvcf2.VCF(order["path"], gts012=True, strict_gt=True)
        opened = True
        if order["genotypes"]:
            _send_genotypes(file, order, out)
        else:
            _send_variants(file, order, out)
    except MemoryError:
        _send(out, b"M")
    except Exception as error:
        _send_json(out, b"E", {"opened": opened, "said": str(error)[:300]})


def main() -> None:
    """Read the order, send the frames."""
    # whatever native code prints must not stand between the frames
    with os.fdopen(os.dup(1), "wb", buffering=1 << 18) as out:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        _serve(out)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        # the parent has stopped reading
        sys.exit(1)
