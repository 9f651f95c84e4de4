"""Randomize a cohort: every person's genotypes and status, as one record, through the design's mechanism.

The mechanism works by person, genotype files by variant. The records are held in one array of one byte a cell, in
memory up to half a gigabyte and beyond that in an unnamed temporary file, which holds true genotypes and vanishes with
the process. Everything else works in blocks, so the memory on top is bounded however many variants there are.

It is not protected who is in the file, nor who was left out because the status is not known. So randomize before people
are chosen by anything private.

Missing calls, where the design has no category for them, are refused, or stay missing by ``missing="exclude"``: then
the pattern of missing calls is published as it is, and no ε covers it.
"""

import tempfile
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from optrr.core.errors import InvalidInput
from optrr.core.mechanisms import Mechanism, flip
from optrr.genomics.alleles import refuse_turned
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import (
    BLOCK,
    GENOTYPES,
    MISSING,
    Codes,
    MatrixGenotypes,
    with_single_copies,
)
from optrr.genomics.layout import Layout
from optrr.genomics.score_tests import Progress
from optrr_solvers.arrays import in_a_row
from optrr_solvers.randomness import BitSource, RandomState, as_source

MissingPolicy = Literal["refuse", "exclude"]

# Records of up to this many bytes are held in memory.
_IN_MEMORY = 1 << 29
# Cells randomized at once, a few bytes each: records enough for several threads. A law that holds more for each while
# it samples draws fewer at a time.
_RANDOMIZED = 1 << 24

# What to do about missing calls that a design has no category for.
_CATEGORY = "design with ``missing`` category, or publish which calls are missing with ``missing`` exclude"


def records_of(cohort: Cohort, layout: Layout, missing: MissingPolicy = "refuse", remedy: str = _CATEGORY) -> Codes:
    """Build true records as codes of the design's domain.

    MISSING if a call is missing and stays so; shape (n, m), int8.

    ``remedy``: what to do about missing calls that are refused.

    Raises
    ------
    InvalidInput
        where the cohort's variants are not exactly the design's, or calls are missing without a category or a policy.
    """
    at = _positions(cohort, layout)
    refuse_turned(cohort.variants, layout)
    records = _room(cohort.n, layout.variants + 1)
    records[:, layout.status] = cohort.status
    for chosen, codes in cohort.blocks(BLOCK):
        block = with_single_copies(codes, cohort.variants.chromosome[chosen], cohort.male)
        gone = block == MISSING
        if layout.missing:
            block = np.where(gone, np.int8(GENOTYPES), block)
        elif gone.any() and missing == "refuse":
            first = str(cohort.variants.name[chosen][int(np.argmax(gone.any(axis=0)))])
            raise InvalidInput(f"variant {first!r} has missing calls and the design has no category for them; {remedy}")
        records[:, in_a_row(layout.attributes[at[chosen]])] = block
    return records


def _positions(cohort: Cohort, layout: Layout) -> NDArray[np.int64]:
    """Find the design's number of each of the cohort's variants."""
    known = {name: k for k, name in enumerate(layout.names)}
    at = [known.get(name, -1) for name in cohort.variants.name]
    if -1 in at:
        other = str(cohort.variants.name[at.index(-1)])
        raise InvalidInput(f"variant {other!r} is not in the design; design for this file's variants")
    if absent := sorted(known.keys() - set(cohort.variants.name)):
        raise InvalidInput(
            f"{len(absent)} of the design's variants are not in the file ({absent[0]!r}, …); a record needs all of them"
        )
    return np.array(at, dtype=np.int64)


def _room(n: int, m: int) -> Codes:
    if n * m <= _IN_MEMORY:
        return np.empty((n, m), dtype=np.int8)
    # the file's name is removed at once: nobody can open the true genotypes by it, and nothing is left when the process
    # ends
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype=np.int8, mode="w+", shape=(n, m))


def randomize_records(
    records: Codes, mechanism: Mechanism, random_state: RandomState | BitSource = None, progress: Progress | None = None
) -> None:
    """Randomize records in place, some thousands at a time; MISSING stays as it is.

    Each person's change set is drawn for all attributes; what falls on a missing call is dropped, which leaves a
    marginal of the mechanism and no larger ε.
    """
    source = as_source(random_state)
    n, m = records.shape
    step = max(1, min(n, _RANDOMIZED // m))
    for start in range(0, n, step):
        piece = records[start : start + step]
        gone = piece == MISSING
        hidden = gone.any()
        if hidden:
            piece[gone] = 0
        flip(piece, mechanism.law, source)
        if hidden:
            piece[gone] = MISSING
        if progress is not None:
            progress(min(start + step, n), n)


def variants_with_missing(records: Codes) -> int:
    """Count the attributes whose missing calls are published unchanged."""
    return sum(bool((column == MISSING).any()) for column in records.T)


def called(records: Codes, layout: Layout) -> Codes:
    """Convert attribute codes to calls; missing ones become MISSING."""
    return np.where(records == GENOTYPES, np.int8(MISSING), records) if layout.missing else records


def randomized_cohort(cohort: Cohort, records: Codes, layout: Layout) -> Cohort:
    """Build a cohort in memory from randomized records."""
    # in the design's own order the variants follow each other
    codes = called(records[:, in_a_row(layout.attributes[_positions(cohort, layout)])], layout)
    genotypes = MatrixGenotypes(cohort.variants, cohort.people, codes, skipped=cohort.genotypes.skipped)
    return replace(cohort, genotypes=genotypes, rows=np.arange(cohort.n), status=records[:, layout.status].copy())
