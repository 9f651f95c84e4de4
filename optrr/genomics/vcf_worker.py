"""Worker process that reads a VCF with cyvcf2: it reads one file, sends the content to its parent, and ends.

htslib, which cyvcf2 wraps, is native code: a malformed file may end the process that reads it. So this file runs as a
separate script (started by :mod:`optrr.genomics.vcf`) and imports nothing of optrr, which keeps its start short.

Its argument is JSON: the file, limits, and the handle of a file for genotypes. Output: lines of JSON, which are the
names of people, then chromosome, position, name, alternate and reference allele of every usable record, then the
left-out records, by reason, or an error. Genotypes go to the handle as copies of the alternate allele, a byte each,
record by record.
"""

import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

# Codes by the library's: copies of the alternate allele, and 3 for unknown.
_CODES = np.array([0, 1, 2, -1], dtype=np.int8)
_DIPLOID = 2


def _unusable(record: Any, single: list[str]) -> str:
    """Explain why a record is left out; empty if it is usable.

    All people can have one copy of the chromosomes in ``single``.
    """
    if record.FILTER:
        return "not passed by the file's filters"
    if len(record.ALT) != 1:
        return "not biallelic"
    if record.ALT[0].startswith("<") or record.ALT[0] == "*":
        return "symbolic allele"
    if "GT" not in record.FORMAT:
        return "without genotypes"
    one = str(record.CHROM).upper().removeprefix("CHR") in single
    return "" if record.ploidy == _DIPLOID or (record.ploidy == 1 and one) else "not diploid"


def read(order: dict[str, Any]) -> Iterator[object]:
    """Yield the objects to send, one per line."""
    import cyvcf2  # noqa: PLC0415 (the parent has made sure that it is installed)

    # exceptions also hold what htslib writes to standard error
    cyvcf2.cyvcf2.set_htslib_log_level(0)
    skipped: Counter[str] = Counter()
    used = text = 0
    codes = None if order["codes"] is None else open(order["codes"], "wb", closefd=False)  # noqa: SIM115 (closed below)
    hint = "check that it is a VCF (bcftools view)"
    try:
        file = cyvcf2.VCF(order["path"], gts012=True, strict_gt=True)
        hint = "check that it is complete and well formed"
        yield list(file.samples)
        for record in file if file.samples else ():
            if reason := _unusable(record, order["single"]):
                skipped[reason] += 1
                continue
            row = (record.CHROM, record.POS, record.ID or ".", record.ALT[0], record.REF)
            used, text = used + 1, text + len(row[0]) + sum(map(len, row[2:]))
            if used > order["most_records"] or text > order["most_text"]:
                most = f"more than {order['most_records']:,} records, or {order['most_text'] >> 20} MiB of alleles"
                yield {"error": f"it has {most}; split it by region (bcftools view -r) or convert it to PLINK"}
                return
            if codes is not None:
                codes.write(_CODES[record.gt_types].tobytes())
            yield row
        if codes is not None:
            codes.close()
    except MemoryError:
        most = f"its header or a line needs more than {order['memory'] >> 20} MiB of memory"
        yield {"error": f"{most}; split it by people (bcftools view -S)"}
    except Exception as error:
        yield {"error": f"{' '.join(str(error)[:300].split())}; {hint}"}
    else:
        yield {"skipped": skipped}


def _limit(memory: int, seconds: int) -> None:
    """Limit memory and processor time, and forbid core files of genotypes.

    macOS does not enforce the memory limit.
    """
    import resource  # noqa: PLC0415 (POSIX only, as cyvcf2 is)

    seconds += math.ceil(time.process_time())
    for kind, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY or most <= hard:
            resource.setrlimit(kind, (most, hard))


def main() -> None:
    """Read the order, send the lines."""
    order = json.loads(sys.argv[1])
    # output of native code must not mix with the lines
    with os.fdopen(os.dup(1), "w") as out:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        _limit(order["memory"], order["seconds"])
        for line in read(order):
            out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
