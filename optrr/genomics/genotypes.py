"""Genotypes as blocks of codes: the one shape that every reader brings its format to.

A code is the number of copies of allele A1, 0, 1 or 2, or MISSING. People are rows, variants columns; a reader hands
out blocks of variants in order, so that memory is n · block bytes however many variants there are.

Chromosomes of which some people have one copy: X (males), Y (males; females none) and MT (all people), treated as PLINK
does.

Codes count a single copy like two, 0 or 2, as PLINK files and VCF have it. A call with both alleles where there is one
copy is missing. The two stretches that X and Y share are diploid: PLINK calls them XY (25), and they must be named so
here as well.

Readers of the field's formats are an extra; if one is not installed, the error states how to install it.
"""

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optrr.core.display import amount
from optrr.core.errors import InvalidInput, library, warn

Codes = NDArray[np.int8]
Texts = NDArray[np.object_]

MISSING = -1
GENOTYPES = 3
# Proportion of A1 among the two alleles of each genotype.
HALVES = np.arange(GENOTYPES) / (GENOTYPES - 1)

# Variants read at once: 2,000 people × 2,048 variants are 4 MB of codes.
BLOCK = 2048


@dataclass(frozen=True, eq=False)
class Variants:
    """Positions and names of variants, arrays of one length in the file's order.

    ``a1`` is the counted allele (the alternate one in VCF), ``a2`` the other; ``position`` in base pairs, 0 if unknown.
    """

    chromosome: Texts
    position: NDArray[np.int64]
    name: Texts
    a1: Texts
    a2: Texts

    def __len__(self) -> int:
        return int(self.name.size)

    def take(self, chosen: NDArray[np.integer] | slice) -> "Variants":
        """Select variants."""
        return Variants(*(getattr(self, each.name)[chosen] for each in fields(self)))

    @classmethod
    def of(cls, rows: Sequence[tuple[str, int, str, str, str]]) -> "Variants":
        """Build variants from rows of chromosome, position, name, A1, A2.

        Unnamed and repeated names become chrom:pos:A2:A1, with a warning.

        Raises
        ------
        InvalidInput
            where two variants agree in all of that.
        """
        seen = Counter(row[2] for row in rows)
        twice = sum(count for name, count in seen.items() if count > 1 and name not in _UNKNOWN)
        if twice:
            warn([f"named chrom:pos:A2:A1, because their names are listed twice: {amount(twice, 'variant')}"])
        names = [
            f"{chromosome}:{position}:{a2}:{a1}" if name in _UNKNOWN or seen[name] > 1 else name
            for chromosome, position, name, a1, a2 in rows
        ]
        again, times = Counter(names).most_common(1)[0] if names else ("", 0)
        if times > 1:
            raise InvalidInput(f"variant {again} is listed twice with the same place and alleles; list it once")
        chromosome, name, a1, a2 = (
            np.array(column, dtype=object)
            for column in ([r[0] for r in rows], names, [r[3] for r in rows], [r[4] for r in rows])
        )
        return cls(chromosome, np.array([row[1] for row in rows], dtype=np.int64), name, a1, a2)

    @classmethod
    def named(
        cls, names: Sequence[str], alleles: Sequence[tuple[str, str]] = (), places: Sequence[str] = ()
    ) -> "Variants":
        """Build variants from names.

        ``alleles`` are A1 and A2, ``places`` CHROMOSOME:POSITION; unknown ones are empty.
        """
        blank = np.full(len(names), ".", dtype=object)
        a1, a2 = (np.array([pair[k] or "." for pair in alleles], dtype=object) if alleles else blank for k in (0, 1))
        at = [text.rpartition(":") for text in places] or [("", "", "")] * len(names)
        position = np.array([whole_number(text) or 0 for _, _, text in at], dtype=np.int64)
        chromosome = np.array([text or "." for text, _, _ in at], dtype=object)
        return cls(chromosome, position, np.array(list(names), dtype=object), a1, a2)

    @property
    def places(self) -> list[str]:
        """CHROMOSOME:POSITION of each, as designs keep it; empty where it is not known."""
        known = zip(self.chromosome, self.position.tolist(), strict=True)
        return ["" if chromosome in _UNKNOWN else f"{chromosome}:{position}" for chromosome, position in known]


# What files write for an allele that is not known.
_UNKNOWN = ("", ".", "0")
# Length beyond which alleles, of insertions, are named by their beginning and a digest.
_LONGEST = 24


def allele_text(allele: str) -> str:
    """Write an allele as designs do, in capitals.

    Empty if the allele is unknown or not allowed in a category.
    """
    text = allele.strip().upper()
    if text in _UNKNOWN or "/" in text:
        return ""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def allele_pairs(variants: Variants) -> list[tuple[str, str]]:
    """List A1 and A2 of each variant as designs write them.

    Both are empty if either is unknown.
    """
    pairs = [(allele_text(str(a)), allele_text(str(b))) for a, b in zip(variants.a1, variants.a2, strict=True)]
    return [pair if all(pair) and pair[0] != pair[1] else ("", "") for pair in pairs]


@dataclass(frozen=True, eq=False)
class Genotypes(ABC):
    """Genotypes of ``people`` (rows) at ``variants`` (columns).

    They are read in blocks as often as needed.

    ``skipped`` counts variants that were left out, by reason. If the file states them, ``male`` is 1 for males, 0 for
    females and −1 for unknown. ``names_reference``: whether A2 is the reference.
    """

    variants: Variants
    people: Texts
    skipped: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    male: Codes | None = field(default=None, kw_only=True)
    names_reference: bool = field(default=False, kw_only=True)

    @abstractmethod
    def read(self, chosen: slice) -> Codes:
        """Read the codes of some variants, shape (n, k)."""

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Codes]]:
        """Iterate over all variants in order, in blocks.

        Yields the variants of a block and their codes, shape (n, at most size).
        """
        for start in range(0, len(self.variants), size):
            chosen = slice(start, min(start + size, len(self.variants)))
            yield chosen, self.read(chosen)


@dataclass(frozen=True, eq=False)
class MatrixGenotypes(Genotypes):
    """Genotypes in memory or in a memory-mapped file.

    ``codes`` has shape (n, variants) and values 0, 1, 2 or MISSING.
    """

    codes: Codes

    def __post_init__(self) -> None:
        if self.codes.shape != (self.people.size, len(self.variants)):
            raise InvalidInput(
                f"codes of shape {self.codes.shape} for {self.people.size} people and {len(self.variants)} variants; "
                "give one row for each person and one column for each variant"
            )

    def read(self, chosen: slice) -> Codes:
        """Return a view of ``codes``."""
        return self.codes[:, chosen]


@dataclass(frozen=True, eq=False)
class FileGenotypes(Genotypes):
    """Genotypes that ``reader`` takes from a file, a block at a time."""

    reader: Callable[[slice], Codes]

    def read(self, chosen: slice) -> Codes:
        """Read and decode a block of the file."""
        return self.reader(chosen)


def checked_people(names: Sequence[str], where: str) -> Texts:
    """Return people's names as an array; refuse repeats and an empty list.

    A repeated name is reported by its positions only, because it is a private value if the wrong column was read as
    names.
    """
    people = np.array([str(name) for name in names], dtype=object)
    if not people.size:
        raise InvalidInput(f"{where}: no people; give at least two")
    first: dict[str, int] = {}
    for k, name in enumerate(people):
        if first.setdefault(name, k) != k:
            raise InvalidInput(
                f"{where} lists people twice: {people.size - len(set(people))} names are repeated, the first of them "
                f"at {first[name] + 1} and {k + 1}; list each once"
            )
    return people


# Chromosomes by the names that PLINK and VCF give them, in capitals and without "chr". XY, 25 and PAR are like any
# other.
SINGLE = {"X": "X", "23": "X", "Y": "Y", "24": "Y", "MT": "MT", "M": "MT", "26": "MT"}


# The largest position that PLINK's files, VCF and the libraries that read them hold.
LARGEST_POSITION = 2**31 - 1
# Digits of a number that 64 bits hold whatever they are.
_DIGITS = 18


def whole_number(text: str) -> int | None:
    """Parse at most 18 of the digits 0 to 9; None for any other text.

    Python's ``int`` would also accept digits such as those of other scripts.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


def plain_name(chromosome: str) -> str:
    """Normalize a chromosome's name: capitals, without ``chr``."""
    return chromosome.strip().upper().removeprefix("CHR")


def single_copy_chromosomes(chromosome: Texts) -> Texts:
    """Return X, Y or MT for each variant, shape (V,).

    Empty for all other chromosomes, whatever the notation.
    """
    names, which = np.unique(chromosome.astype(str), return_inverse=True)
    return np.array([SINGLE.get(plain_name(str(name)), "") for name in names], dtype=object)[which]


def copies(kind: str, people: int, male: NDArray[np.bool_] | None) -> Codes:
    """Count each person's copies of a chromosome, 0, 1 or 2; shape (people,)."""
    if kind in ("", "MT"):
        return np.full(people, 1 if kind else 2, dtype=np.int8)
    if male is None:
        raise InvalidInput(
            f"there are variants of chromosome {kind}, and no sexes; give the sex of each person (fam file, or ``sex``)"
        )
    return np.where(male, 1, 2 if kind == "X" else 0).astype(np.int8)


def with_single_copies(codes: Codes, chromosome: Texts, male: NDArray[np.bool_] | None) -> Codes:
    """Convert true calls (n, k) on these chromosomes to the calls to randomize.

    See the module's docstring.

    A person without a copy gets the code 0 before randomization, which carries no information.
    """
    kinds = single_copy_chromosomes(chromosome)
    if not kinds.any():
        return codes
    out = codes.copy()
    for kind in set(kinds) - {""}:
        at, number = kinds == kind, copies(kind, codes.shape[0], male)[:, None]
        block = np.where((number == 1) & (codes[:, at] == 1), MISSING, codes[:, at])
        out[:, at] = np.where(number == 0, 0, block)
    return out


def refuse_single_copies(chromosome: Texts, remedy: str) -> None:
    """Raise InvalidInput if a variant is on X, Y or MT.

    The method needs two copies of each person.
    """
    count = int(np.count_nonzero(single_copy_chromosomes(chromosome).astype(bool)))
    if count:
        what = f"{amount(count, 'variant')} of chromosome X, Y or MT, of which not all people have two copies"
        raise InvalidInput(f"{what}; {remedy}")


def required(module: str) -> Any:
    """Import a module; raise InvalidInput naming the extra if it is missing."""
    return library(module, "these files of genotypes need", "genomics")
