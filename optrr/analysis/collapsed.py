"""Rare categories collapsed after randomization, and the mechanism of the collapsed records.

A law of change sets moves an attribute to each of its other categories alike. Report and truth then collapse alike:
with groups g of s_g of the r categories and w_g = s_g/r, an eigenvalue λ of an attribute's effects stays λ,

    P' = Σ_W λ_W ⊗_i (i ∈ W ? I − 1wᵀ : 1wᵀ),

whatever the proportions of the categories within a group are (lumpability: Kemeny & Snell, Finite Markov Chains, 1960,
§6.3). So they need not be known, estimates of collapsed cells are sums of estimates of cells, and likelihoods, tests
and regressions have fewer parameters. Which categories collapse is declared, or decided by estimated proportions of the
attribute alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from optrr.analysis.measures.subgroups import code_of
from optrr.core.display import category_word
from optrr.core.domain import Attribute, Category, Domain, PublicColumns, listed
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms import EffectKernel, Kernel, MatrixKernel, Randomizer
from optrr.core.records import OpenedRecords, count_many
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import BitSource

Opened = TypeVar("Opened", bound=OpenedRecords)
REST = "(rest)"
# A proportion, such as 0.01 or "1%", or by attribute the categories that collapse.
Collapse = float | str | Mapping[str, Iterable[Category]]
# Chances of collapsed reports may differ by rounding between the categories of a group.
_ALIKE = 1e-9


@dataclass(frozen=True, eq=False)
class CollapsedMechanism(Randomizer):
    """The mechanism ``whole`` as seen after categories are collapsed.

    ``groups`` (r_i,) map old codes to the codes of ``domain``.

    It is for the analysis of randomized records, and cannot randomize.
    """

    whole: Randomizer
    domain: Domain
    groups: tuple[IntArray, ...]

    @property
    def epsilon(self) -> float:
        """Total ε of the records, which are randomized as before, in nats."""
        return self.whole.epsilon

    @property
    def attribute_epsilons(self) -> FloatArray:
        """Attribute ε of the records, in nats."""
        return self.whole.attribute_epsilons

    @property
    def conditional_epsilons(self) -> FloatArray:
        """Conditional ε of the records, in nats."""
        return self.whole.conditional_epsilons

    @property
    def digest(self) -> str:
        """Digest of the records' mechanism."""
        return self.whole.digest

    def kernel(self, names: str | Iterable[str]) -> Kernel:
        """Build the kernel on these attributes; dense if one has collapsed categories.

        Raises InvalidInput if a mechanism treats the categories of a group differently.
        """
        chosen = self.domain.indices(names)
        kernel = self.whole.kernel(names)
        groups = [self.groups[i] for i in chosen]
        if all(group.size == group.max() + 1 for group in groups):
            return kernel
        labels = tuple(self.domain.names[i] for i in chosen)
        effects = isinstance(kernel, EffectKernel) and not kernel.batch
        matrix = _of_effects(kernel.eigenvalues, groups) if effects else _lumped(kernel, groups, labels)  # type: ignore[attr-defined]
        return MatrixKernel(np.maximum(matrix, 0.0), [int(group.max()) + 1 for group in groups], labels)

    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Raise an error: records are randomized first and collapsed afterwards."""
        raise InvalidInput("categories collapse in records that are randomized already; randomize by the design")


def _of_effects(eigenvalues: FloatArray, groups: Sequence[IntArray]) -> FloatArray:
    """Build the matrix of collapsed categories from the eigenvalues λ_W, (2,)*k."""
    out = eigenvalues
    for group in groups:
        even = np.tile(np.bincount(group) / group.size, (int(group.max()) + 1, 1))
        out = np.tensordot(out, np.stack([even, np.eye(len(even)) - even]), axes=(0, 0))
    order = [*range(0, out.ndim, 2), *range(1, out.ndim, 2)]
    cells = int(np.prod(out.shape[::2]))
    return out.transpose(order).reshape(cells, cells)


def _lumped(kernel: Kernel, groups: Sequence[IntArray], names: Sequence[str]) -> FloatArray:
    cells = np.ravel_multi_index(np.ix_(*groups), [int(group.max()) + 1 for group in groups]).ravel()
    members = np.eye(int(cells.max()) + 1)[cells]
    chances = kernel.matrix() @ members
    first = chances[[int(np.argmax(cells == cell)) for cell in range(members.shape[1])]]
    if np.abs(chances - first[cells]).max() > _ALIKE:
        raise InvalidInput(
            f"the mechanism treats the collapsed categories of {listed(names)} differently; collapse none of them"
        )
    return np.asarray(first)


class _RestWithMissing(Attribute):
    """Attribute whose rest category includes missing values."""

    @property
    def missing_code(self) -> int:
        return self.codes[REST]


@dataclass(frozen=True, eq=False)
class CollapsedAsking:
    """Protocol whose reports have collapsed categories.

    It replaces the design in every analysis of these reports.

    ``notes`` state the collapsed categories, one line for each attribute.
    """

    asking: Any
    parts: Mapping[str, tuple[int, ...]]
    why: str = ""
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", self.asking.digest)

    @classmethod
    def declared(cls, asking: Any, given_categories: Mapping[str, Iterable[Category]]) -> "CollapsedAsking":
        """Collapse the given categories of each attribute into one.

        Raises InvalidInput for an unknown attribute or category, for fewer than two categories of one attribute, or all
        of them; and for an ordered attribute, in whose order the collapsed category has no place.
        """
        parts = {}
        for name, categories in given_categories.items():
            attribute, given = asking.domain[name], [categories] if isinstance(categories, str) else list(categories)
            if not _can_be_collapsed(attribute):
                raise InvalidInput(
                    f"``collapse``: attribute {name!r} is ordered, and collapsed rare categories have no place in the "
                    f"order; leave {name!r} out"
                )
            codes = {code_of(attribute, category) for category in given}
            if not 2 <= len(codes) < attribute.size:
                raise InvalidInput(
                    f"``collapse``: {listed(given)} of {name!r}; name two of its {attribute.size} categories or more, not all"
                )
            parts[name] = tuple(sorted(codes))
        return cls(asking, parts)

    @classmethod
    def below(cls, asking: Any, share: float, estimates: Mapping[str, FloatArray]) -> "CollapsedAsking":
        """Collapse the categories whose estimated proportions are below ``share``.

        If there is only one, the next rarest joins it.
        """
        if not 0 < share < 1:
            raise InvalidInput(
                f"``collapse``: {share:g} is not a proportion; give one above 0 and below 1, such as 0.01"
            )
        parts = {}
        for name, shares in estimates.items():
            attribute = asking.domain[name]
            rarest = [int(k) for k in np.argsort(shares, kind="stable") if k != attribute.missing_code]
            below = sum(float(shares[k]) < share for k in rarest)
            rare = rarest[: max(below, 2)] if below else []
            # one category stays separate, whatever the threshold
            rare = rare[: attribute.size - 1]
            if len(rare) > 1 and _can_be_collapsed(attribute):
                parts[name] = tuple(sorted(rare))
        return cls(
            asking, parts, f": estimated proportions below {100 * share:g} %, or the next rarest beside a single one"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Statement of the collapsed categories."""
        domain = self.asking.domain
        return tuple(
            f"{name}: {', '.join(category_word(domain[name].texts[k]) for k in codes)} collapsed as {REST}{self.why}"
            for name, codes in self.parts.items()
        )

    @cached_property
    def domain(self) -> Domain:
        """The attributes, each with those of its categories that are kept, then the rest."""
        return Domain(tuple(self._attribute(a) for a in self.asking.domain))

    def _attribute(self, attribute: Attribute) -> Attribute:
        codes = self.parts.get(attribute.name)
        if codes is None:
            return attribute
        kept = tuple(c for k, c in enumerate(attribute.categories) if k not in codes)
        # randomized records hold declared categories alone: a category that is not kept is one of the rest
        if attribute.missing_code in codes:
            return _RestWithMissing(attribute.name, (*kept, REST), rest=REST)
        return Attribute(attribute.name, (*kept, REST), missing=attribute.missing, rest=REST)

    @cached_property
    def mechanism(self) -> CollapsedMechanism:
        """Mechanism of the collapsed records."""
        groups = []
        for attribute in self.asking.domain:
            codes = self.parts.get(attribute.name, ())
            kept = [k for k in range(attribute.size) if k not in codes]
            group = np.full(attribute.size, len(kept))
            group[kept] = np.arange(len(kept))
            groups.append(group)
        return CollapsedMechanism(self.asking.mechanism, self.domain, tuple(groups))

    @property
    def public(self) -> PublicColumns:
        """Public columns of the design."""
        public: PublicColumns = self.asking.public
        return public


def collapsed(reports: Opened, categories: Collapse, *attributes: str) -> Opened:
    """Collapse categories of the reports' attributes to "(rest)".

    Every analysis uses and states it.

    Parameters
    ----------
    categories
        A proportion, such as 0.01 or "1%": collapse the categories whose estimated proportions are below it. Or by attribute
        the categories themselves, which nothing in the records decides: ``{"race": ["Other", "Eskimo"]}``.
    attributes
        Attributes to which a proportion applies; all of them unless named.

    Returns
    -------
    Reports
        The same records; proportions are estimated, without bias, from the reports themselves, which are read for it.

    Raises
    ------
    InvalidInput
        For unknown attributes and categories, fewer than two categories of an attribute or all of them, ordered categories,
        reports that are collapsed already, and answers to local queries.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"town": ["a", "b", "c"]}, {"town": 2.0})
    >>> true = pandas.DataFrame({"town": ["a"] * 800 + ["b", "c"] * 100})
    >>> reports = optrr.reports(design.randomize(true, random_state=1), design)
    >>> reports.collapsed({"town": ["b", "c"]}).asking.domain["town"].categories
    ('a', '(rest)')
    """
    asking = reports.asking
    if isinstance(asking, CollapsedAsking) or not hasattr(asking, "mechanism"):
        raise InvalidInput(
            "``collapse``: only categories of randomized records collapse, and only once; give all of them together"
        )
    if isinstance(categories, Mapping):
        return replace(reports, asking=CollapsedAsking.declared(asking, categories), kept=None)
    below = _proportion(categories)
    sets = [(name,) for name in attributes or asking.domain.names]
    tables = [count_many(place, asking.domain, sets, allow_extra=True) for place in reports.places]
    estimates = {}
    for (name,) in sets:
        observed = np.sum([counts[(name,)].table for counts in tables], axis=0)
        estimates[name] = asking.mechanism.kernel((name,)).solve(observed / observed.sum())
    return replace(reports, asking=CollapsedAsking.below(asking, below, estimates), kept=None)


def _proportion(given: object) -> float:
    """Parse a proportion from a number or text; raise InvalidInput if invalid."""
    text = str(given).strip()
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise InvalidInput(
            f"``collapse``: {given!r} is not a proportion; give one such as 1% or 0.01, or the categories of an "
            "attribute, A=X,Y"
        ) from None


def collapse_example(attribute: Attribute, category: str | None) -> str | None:
    """Show how to collapse a category with another one; None if it cannot be.

    The other one is the first, so that a missing value joins an answer.
    """
    others = [text for text in attribute.texts if text != category]
    if len(others) < 2 or REST in (category, *others) or not _can_be_collapsed(attribute):
        return None
    pair = ",".join(category_word(text).replace(",", ",,") for text in (others[0], category))
    return f"``collapse='{attribute.name}={pair}'``"


def _can_be_collapsed(attribute: Attribute) -> bool:
    return not attribute.ordered and attribute.bins is None
