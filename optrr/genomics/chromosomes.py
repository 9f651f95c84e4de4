"""Chromosomes of which some people have one copy: X (men), Y (men; women none) and MT (everybody), treated as PLINK does.

Codes count a single copy like two, 0 or 2, as PLINK files and VCF have it. A call with both alleles where there is one copy is
missing. The two stretches that X and Y share are diploid: PLINK calls them XY (25), and they must be named so here as well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optrr.errors import InvalidInput
from optrr.genomics.genotypes import MISSING, Codes, Texts
from optrr.show.printable import amount

# Chromosomes by the names that PLINK and VCF give them, in capitals and without "chr". XY, 25 and PAR are like any other.
SINGLE = {"X": "X", "23": "X", "Y": "Y", "24": "Y", "MT": "MT", "M": "MT", "26": "MT"}


def single_copy_chromosome(name: str) -> str:
    """X, Y or MT, whatever it is called; empty for every other chromosome."""
    return SINGLE.get(name.strip().upper().removeprefix("CHR"), "")


def single_copy_chromosomes(chromosome: Texts) -> Texts:
    """The same for each variant, shape (V,)."""
    names, which = np.unique(chromosome.astype(str), return_inverse=True)
    return np.array([single_copy_chromosome(str(name)) for name in names], dtype=object)[which]


def needs_sexes(chromosome: Texts) -> int:
    """How many variants mean one thing in men and another in women."""
    return int(np.isin(single_copy_chromosomes(chromosome), ("X", "Y")).sum())


def copies(kind: str, people: int, male: NDArray[np.bool_] | None) -> Codes:
    """How many copies of a chromosome everybody has, 0, 1 or 2; shape (people,)."""
    if kind in ("", "MT"):
        return np.full(people, 1 if kind else 2, dtype=np.int8)
    if male is None:
        raise InvalidInput(
            f"there are variants of chromosome {kind}, and nothing says who is a man; give everybody's sex (fam file, "
            "--sex-column)"
        )
    return np.where(male, 1, 2 if kind == "X" else 0).astype(np.int8)


def with_single_copies(codes: Codes, chromosome: Texts, male: NDArray[np.bool_] | None) -> Codes:
    """True calls (n, k) of variants on these chromosomes as they are randomized: see the top of this module.

    Who has no copy gets the code 0 before it is randomized, which says nothing.
    """
    kinds = single_copy_chromosomes(chromosome)
    if not kinds.any():
        return codes
    out = codes.copy()
    for kind in ("X", "Y", "MT"):
        at, number = np.flatnonzero(kinds == kind), copies(kind, codes.shape[0], male) if kind in kinds else None
        if number is not None:
            block = out[:, at]
            block[(number == 1)[:, None] & (block == 1)] = MISSING
            block[number == 0] = 0
            out[:, at] = block
    return out


def refuse_single_copies(chromosome: Texts, remedy: str) -> None:
    """Raise InvalidInput where a variant is on X, Y or MT: what is asked for takes two copies of everybody."""
    count = int(np.count_nonzero(single_copy_chromosomes(chromosome).astype(bool)))
    if count:
        what = f"{amount(count, 'variant')} of chromosome X, Y or MT, of which not everybody has two copies"
        raise InvalidInput(f"{what}; {remedy}")
