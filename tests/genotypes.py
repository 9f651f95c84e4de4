"""Genotypes for tests: people of given codes as a cohort, all codes of a source, and a command's answer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from optrr.cli.main import run
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import MatrixGenotypes, Variants


def cohort_of(
    codes: np.ndarray,
    status: np.ndarray | None = None,
    chromosomes: Sequence[str] | str = "1",
    male: np.ndarray | None = None,
    alleles: Sequence[tuple[str, str]] | None = None,
    names: Sequence[str] | None = None,
) -> Cohort:
    """People p0, p1, … with variants rs0, rs1, … (or ``names``) a hundred base pairs apart; every second one is a case."""
    n, v = codes.shape
    where = [chromosomes] * v if isinstance(chromosomes, str) else chromosomes
    rows = [
        (where[k], 100 * k + 7, names[k] if names else f"rs{k}", *(alleles[k] if alleles else ("A", "G")))
        for k in range(v)
    ]
    people = np.array([f"p{k}" for k in range(n)], dtype=object)
    own = np.arange(n) % 2 if status is None else status
    genotypes = MatrixGenotypes(Variants.of(rows), people, codes.astype(np.int8))
    return Cohort(genotypes, np.arange(n), np.asarray(own).astype(np.int8), {}, male)


def whole(source: Any, size: int = 7) -> np.ndarray:
    """All codes of genotypes or a cohort, block by block."""
    return np.concatenate([codes for _, codes in source.blocks(size)], axis=1)


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error; one argument may be a whole line."""
    words = str(arguments[0]).split() if len(arguments) == 1 else list(map(str, arguments))
    code = run(words)
    return (code, *capsys.readouterr())


def refused(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    """Check that a command line is refused with this in one line on standard error."""
    code, out, err = command(capsys, line)
    assert code == 2, (line, out, err)
    assert said in err and err.count("\n") == 1, (line, err)
