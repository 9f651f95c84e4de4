"""How a person's genotypes and status become one record, and which attribute is what.

``status`` (control, case) is an attribute, and every variant is one: 0, 1 or 2 copies of A1, and, where missing calls
are randomized too, the missing value as a fourth category. Where the alleles are known, the categories name them: G/G,
A/G, A/A, of which A is A1.

One person's genotypes and status are one record, so the total ε covers all of it at once; a file that randomizes the
same people's genotypes and status in separate releases consumes the sum of their totals.

Eigenvalues of every variant together with the status: only these pairs, never pairs of two variants.

All that association tests need of a law is λ_i, λ_s and λ_is for each variant i and the status s. Alike attributes
share them, so the cost is one marginal for each class, or O(m) arithmetic; nothing is quadratic in m.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optrr.core.domain import Attribute, Domain, listed
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms import EffectKernel
from optrr.genomics.genotypes import GENOTYPES
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws import Law

STATUS = "status"
STATUS_CATEGORIES = ("control", "case")

# A1 and A2 of a variant.
Alleles = tuple[str, str]
UNNAMED: Alleles = ("", "")


@dataclass(frozen=True, eq=False)
class Layout:
    """Attribute numbers of the status and of each variant, ``attributes`` (V,).

    ``missing``: whether the missing genotype is a category. ``alleles``: A1 and A2 of each variant, and ``places``,
    CHROMOSOME:POSITION, empty texts where the design does not know them.
    """

    names: tuple[str, ...]
    status: int
    attributes: IntArray
    missing: bool
    alleles: tuple[Alleles, ...]
    places: tuple[str, ...]

    @property
    def variants(self) -> int:
        """V, the number of variants."""
        return len(self.names)


def genomic_domain(
    names: Sequence[str], missing: bool = False, alleles: Sequence[Alleles] = (), places: Sequence[str] = ()
) -> Domain:
    """Build the domain of a record over these variants.

    ``alleles`` are A1 and A2 of each if known; ``places`` are labels.

    Raises
    ------
    InvalidInput
        for no variants, repeated ones, and a variant called ``status``.
    """
    if not len(names):
        raise InvalidInput("no variants; give at least one")
    twice, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InvalidInput(f"variant {twice!r} is listed {times} times; list each once")
    if STATUS in names:
        raise InvalidInput(f"a variant has the name of the phenotype, {STATUS!r}; rename it")
    # plain sizes share one tuple of categories, however many variants there are
    last = (None,) if missing else ()
    plain = (*range(GENOTYPES), *last)
    pairs, labels = alleles or [UNNAMED] * len(names), places or [""] * len(names)
    variants = (
        Attribute(name, (*_genotype_categories(pair), *last) if all(pair) else plain, label=label)
        for name, pair, label in zip(names, pairs, labels, strict=True)
    )
    return Domain((Attribute(STATUS, STATUS_CATEGORIES), *variants))


def _genotype_categories(pair: Alleles) -> tuple[str, str, str]:
    """Name no copy of A1, one copy and two copies."""
    a1, a2 = pair
    return f"{a2}/{a2}", f"{a1}/{a2}", f"{a1}/{a1}"


def variant_alleles(attribute: Attribute) -> Alleles:
    """Return A1 and A2 of a variant; empty if its categories do not name them."""
    texts = attribute.texts
    if attribute.numbers is not None or len(texts) < GENOTYPES:
        return UNNAMED
    pair = (str(texts[2]).split("/")[0], str(texts[0]).split("/")[0])
    return pair if texts[:GENOTYPES] == _genotype_categories(pair) else UNNAMED


def layout_of(domain: Domain) -> Layout:
    """Read from a design's domain which attribute is which.

    Raises
    ------
    InvalidInput
        where the domain is not one of :func:`genomic_domain`'s.
    """
    if STATUS not in domain.names:
        raise InvalidInput(
            f"not a design for genotypes: its attributes are {listed(domain.names)}; make one with optrr gwas design"
        )
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
            f"attribute {names[wrong[0]]!r} has {sizes[wrong[0]]} categories; give all genotypes 3, or all 4 with "
            "missing"
        )
    missing = bool(sizes[0] > GENOTYPES)
    first = domain.attributes[others[0]]
    if missing and first.missing_code not in (None, GENOTYPES):
        raise InvalidInput(f"attribute {first.name!r} has null in place {first.missing_code}; put it last")
    variants = [domain.attributes[i] for i in others]
    alleles, places = tuple(map(variant_alleles, variants)), tuple(a.label for a in variants)
    return Layout(names, status, others, missing, alleles, places)


# Smallest ratio of a joint eigenvalue to λ_i λ_s (that of independent randomized response) that is not rounding.
_VISIBLE = 1e-6


def star_kernel(law: Law, leaves: IntArray, center: int) -> EffectKernel:
    """Build the kernel of every pair of leaf (rows) and center (columns).

    The leaves must have the same size; the batch has one kernel per leaf.
    """
    sizes = int(law.sizes[leaves[0]]), int(law.sizes[center])
    return EffectKernel(sizes, star_eigenvalues(law, leaves, center), ("variant", "status"))


def star_eigenvalues(law: Law, leaves: IntArray, center: int, one: FloatArray | None = None) -> FloatArray:
    """Compute λ_W of every pair of leaf and center.

    The shape is (number of leaves, 2, 2), index 1 if leaf or center is in W.

    ``one``: the law's one-way eigenvalues, where they are known already. Raises InvalidInput where a pair cannot be
    seen through the law at all, with the remedy.
    """
    one = law.one_way_eigenvalues() if one is None else one
    joint = law.joint_eigenvalues(leaves, center)
    hidden = np.flatnonzero(np.abs(joint) < _VISIBLE * np.abs(one[leaves] * one[center]))
    if hidden.size:
        i = int(leaves[hidden[0]])
        raise InvalidInput(
            f"attributes {i} and {center} have joint eigenvalue {joint[hidden[0]]:.2g}: their association is "
            "non-identifiable under this mechanism; give them larger epsilons, or preserve the pairs"
        )
    out = np.ones((leaves.size, 2, 2))
    out[:, 1, 0], out[:, 0, 1], out[:, 1, 1] = one[leaves], one[center], joint
    return out
