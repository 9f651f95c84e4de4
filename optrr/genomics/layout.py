"""How a person's genotypes and status become one record, and which attribute is what.

genotype (default)  ``status`` (control, case), then one attribute for each variant: 0, 1 or 2 copies of A1, and, where missing
                    calls are randomized too, the missing value as a fourth category. Where the alleles are known, the
                    categories name them: G/G, A/G, A/A, of which A is A1.
alleles             POR §V-B: allele × status as one attribute of size 4. A person has two alleles, so two attributes for each
                    variant, ``name/1`` and ``name/2``: both are paid for, and status is reported with each of them.

One person's genotypes and status are one record, so the total ε covers all of it at once; a file that randomizes the same
people's alleles, genotypes and status in separate releases spends the sum of their totals.

Eigenvalues of every variant together with the status: only these pairs, never pairs of two variants.

All that association tests need of a law is λ_i, λ_s and λ_is for each variant i and the status s. Alike attributes share
them, so the cost is one marginal for each class, or O(m) arithmetic; nothing is quadratic in m.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from optrr.domain.domain import Attribute, Category, Domain, listed
from optrr.errors import InvalidInput
from optrr.genomics.genotypes import GENOTYPES
from optrr.mechanisms.kernel import EffectKernel
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws import Law

Kind = Literal["genotype", "alleles"]

STATUS = "status"
STATUS_CATEGORIES = ("control", "case")
# allele × status, the allele slower: code = 2 · (carries A1) + (is a case)
ALLELE_CATEGORIES = ("A2/control", "A2/case", "A1/control", "A1/case")
_COPIES = ("/1", "/2")

# A1 and A2 of a variant.
Alleles = tuple[str, str]
_UNNAMED: Alleles = ("", "")


@dataclass(frozen=True, eq=False)
class Layout:
    """Attribute numbers: ``status`` (None in the alleles layout), and for each variant its one or two attributes.

    ``attributes`` has shape (V, 1) or (V, 2); ``missing``: whether the missing genotype is a category. ``alleles``: A1 and A2
    of each variant, empty texts where the design does not know them.
    """

    kind: Kind
    names: tuple[str, ...]
    status: int | None
    attributes: IntArray
    missing: bool
    alleles: tuple[Alleles, ...]

    @property
    def variants(self) -> int:
        """V, the number of variants."""
        return len(self.names)


def genomic_domain(
    names: Sequence[str], kind: Kind = "genotype", missing: bool = False, alleles: Sequence[Alleles] = ()
) -> Domain:
    """The domain of a record over these variants; ``alleles`` are A1 and A2 of each, where they are known.

    Raises
    ------
    InvalidInput
        for no variants, repeated ones, a variant called ``status``, and missing calls in the alleles layout, which has no
        place for them.
    """
    if not len(names):
        raise InvalidInput("there are no variants; give at least one")
    twice, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InvalidInput(f"variant {twice!r} is listed {times} times; list each once")
    if STATUS in names:
        raise InvalidInput(f"a variant is called {STATUS!r}, which is the name of the phenotype; rename it")
    if kind == "alleles":
        if missing:
            raise InvalidInput("the alleles layout has no place for missing calls; use the genotype layout")
        pairs = alleles or [_UNNAMED] * len(names)
        return Domain.of(
            {f"{name}{copy}": _allele_categories(p) for name, p in zip(names, pairs, strict=True) for copy in _COPIES}
        )
    # plain sizes share one tuple of categories, however many variants there are
    plain = (*range(GENOTYPES), None) if missing else GENOTYPES
    genotypes: dict[str, int | tuple[Category, ...]] = dict.fromkeys(names, plain)
    last = (None,) if missing else ()
    for name, pair in zip(names, alleles, strict=False):
        if all(pair):
            genotypes[name] = (*_genotype_categories(pair), *last)
    return Domain.of({STATUS: STATUS_CATEGORIES, **genotypes})


def _genotype_categories(pair: Alleles) -> tuple[str, str, str]:
    """No copy of A1, one and two."""
    a1, a2 = pair
    return f"{a2}/{a2}", f"{a1}/{a2}", f"{a1}/{a1}"


def _allele_categories(pair: Alleles) -> tuple[str, ...]:
    a1, a2 = pair
    if not all(pair):
        return ALLELE_CATEGORIES
    return tuple(f"{allele}/{status}" for allele in (a2, a1) for status in STATUS_CATEGORIES)


def variant_alleles(attribute: Attribute, kind: Kind = "genotype") -> Alleles:
    """A1 and A2 of a variant by one of its attributes; empty texts where its categories do not name them."""
    texts = attribute.texts
    if attribute.numbers is not None or len(texts) < GENOTYPES or texts[:4] == ALLELE_CATEGORIES:
        return _UNNAMED
    pair = tuple(str(texts[k]).split("/")[0] for k in (2, 0))
    made: tuple[str | None, ...] = (
        _genotype_categories(pair) if kind == "genotype" else _allele_categories(pair)  # type: ignore[arg-type]
    )
    return (pair[0], pair[1]) if texts[: len(made)] == made else _UNNAMED


def layout_of(domain: Domain) -> Layout:
    """Which attribute is what, read from a design's domain.

    Raises
    ------
    InvalidInput
        where the domain is not one of :func:`genomic_domain`'s.
    """
    if STATUS in domain.names:
        return _genotype_layout(domain)
    names = tuple(dict.fromkeys(name[:-2] for name in domain.names))
    expected = [f"{name}{copy}" for name in names for copy in _COPIES]
    pairs = tuple(variant_alleles(a, "alleles") for a in domain.attributes[:: len(_COPIES)])
    categories = [_allele_categories(pair) for pair in pairs for _ in _COPIES]
    if expected != list(domain.names) or [a.texts for a in domain] != categories:
        raise InvalidInput(
            f"the design's attributes ({listed(domain.names)}) are neither {STATUS!r} with one genotype each nor alleles "
            "in pairs; make it with optrr gwas-design"
        )
    return Layout("alleles", names, None, np.arange(2 * len(names)).reshape(-1, 2), False, pairs)


def _genotype_layout(domain: Domain) -> Layout:
    status = domain.index(STATUS)
    if domain.attributes[status].size != 2:
        raise InvalidInput(f"attribute {STATUS!r} has {domain.attributes[status].size} categories; it needs 2")
    others = np.flatnonzero(np.arange(domain.m) != status)
    names = tuple(domain.names[i] for i in others)
    if not names:
        raise InvalidInput(f"the design has only {STATUS!r}; add at least one variant")
    sizes = domain.sizes[others]
    wrong = np.flatnonzero((sizes != sizes[0]) | ((sizes != GENOTYPES) & (sizes != GENOTYPES + 1)))
    if wrong.size:
        raise InvalidInput(
            f"attribute {names[wrong[0]]!r} has {sizes[wrong[0]]} categories; genotypes have 3, or 4 with missing, all alike"
        )
    missing = bool(sizes[0] > GENOTYPES)
    first = domain.attributes[others[0]]
    if missing and first.missing_code not in (None, GENOTYPES):
        raise InvalidInput(f"attribute {first.name!r} has null in place {first.missing_code}; put it last")
    alleles = tuple(variant_alleles(domain.attributes[i]) for i in others)
    return Layout("genotype", names, status, others[:, None], missing, alleles)


# Below this share of λ_i λ_s (what Kronecker would keep) a joint effect is rounding noise of the law's arithmetic.
_VISIBLE = 1e-6


def star_kernel(law: Law, leaves: IntArray, center: int) -> EffectKernel:
    """The kernel of every pair of leaf (rows) and center (columns), a batch of as many as there are leaves, alike in size."""
    sizes = int(law.sizes[leaves[0]]), int(law.sizes[center])
    return EffectKernel(sizes, star_eigenvalues(law, leaves, center), ("variant", "status"))


def star_eigenvalues(law: Law, leaves: IntArray, center: int, one: FloatArray | None = None) -> FloatArray:
    """λ_W of every pair of leaf and center, shape (number of leaves, 2, 2), index 1 where leaf or center is in W.

    ``one``: the law's one-way eigenvalues, where they are known already. Raises InvalidInput where a pair cannot be seen
    through the law at all, with the remedy.
    """
    one = law.one_way_eigenvalues() if one is None else one
    joint = law.joint_eigenvalues(leaves, center)
    hidden = np.flatnonzero(np.abs(joint) < _VISIBLE * np.abs(one[leaves] * one[center]))
    if hidden.size:
        i = int(leaves[hidden[0]])
        raise InvalidInput(
            f"attributes {i} and {center} have joint eigenvalue {joint[hidden[0]]:.2g}: their association cannot be "
            "seen through this mechanism; give them larger epsilons, or keep the pairs (--preserve pairs)"
        )
    out = np.ones((leaves.size, 2, 2))
    out[:, 1, 0], out[:, 0, 1], out[:, 1, 1] = one[leaves], one[center], joint
    return out
