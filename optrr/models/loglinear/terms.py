"""Terms of a hierarchical log-linear model: which attributes interact, and the columns of the design matrix that say so.

    ln π_x = β_0 + Σ_T β_T(x_T),      T over the terms: attribute sets, each with all of its subsets.

Columns are in reference coding: for a set T one column for every choice of a category other than the first in each of its
attributes. β of an attribute is then a log odds against its first category, β of two a log odds ratio, where all other
attributes have their first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.show.printable import category_word
from optrr_solvers.arrays import FloatArray


@dataclass(frozen=True)
class Terms:
    """The terms of a hierarchical model: every set with all of its subsets, small ones first; ``sets`` hold positions."""

    domain: Domain
    sets: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(domain: Domain, generators: Iterable[Iterable[str]]) -> Terms:
        """The closure of generators, such as [("a", "b"), ("c",)]; every attribute has a term of its own in any case.

        Raises
        ------
        InvalidInput
            for an attribute that the domain has not, or one named twice in a generator.
        """
        sets: set[tuple[int, ...]] = {(i,) for i in range(domain.m)}
        for generator in generators:
            chosen = tuple(sorted(domain.indices(tuple(generator))))
            sets |= {part for k in range(1, len(chosen) + 1) for part in combinations(chosen, k)}
        return Terms(domain, tuple(sorted(sets, key=lambda s: (len(s), s))))

    @property
    def generators(self) -> tuple[tuple[int, ...], ...]:
        """The sets that lie in no other: they name the model."""
        return tuple(s for s in self.sets if not any(set(s) < set(t) for t in self.sets))

    def with_term(self, term: Sequence[int]) -> Terms:
        """The model with one more set, and its subsets."""
        return Terms.of(self.domain, [self._names(s) for s in (*self.sets, tuple(term))])

    def without_term(self, term: tuple[int, ...]) -> Terms:
        """The model without a generator."""
        return Terms(self.domain, tuple(s for s in self.sets if s != term))

    def _names(self, positions: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.domain.names[i] for i in positions)

    def __str__(self) -> str:
        return " + ".join("*".join(self._names(s)) for s in self.generators)

    def __le__(self, other: Terms) -> bool:
        """Whether every term is one of the other model's."""
        return self.domain == other.domain and set(self.sets) <= set(other.sets)

    @property
    def parameters(self) -> int:
        """Number of columns."""
        return sum(int(np.prod([self.domain.sizes[i] - 1 for i in s])) for s in self.sets)

    def columns(self) -> FloatArray:
        """The design matrix, (p, *sizes): one table of 0 and 1 for every parameter."""
        return np.concatenate([indicators(self.domain, s) for s in self.sets])

    def labels(self) -> list[str]:
        """What each parameter is about: ``sex = M``, ``sex = M : income = high``."""
        out = []
        for s in self.sets:
            categories = [self.domain.attributes[i].texts[1:] for i in s]
            for codes in np.ndindex(*(len(c) for c in categories)):
                named = zip(self._names(s), (c[k] for c, k in zip(categories, codes, strict=True)), strict=True)
                out.append(" : ".join(f"{name} = {category_word(text)}" for name, text in named))
        return out


def indicators(domain: Domain, chosen: Sequence[int]) -> FloatArray:
    """One table for every choice of categories other than the first in these attributes, (p, *sizes)."""
    sizes = tuple(map(int, domain.sizes))
    axes = [np.eye(sizes[i])[1:] for i in chosen]
    out = np.ones((1, *(1,) * len(sizes)))
    for i, each in zip(chosen, axes, strict=True):
        shape = [1] * len(sizes)
        shape[i] = sizes[i]
        factor = each.reshape(each.shape[0], *shape)
        out = (out[:, None] * factor[None]).reshape(-1, *np.broadcast_shapes(out.shape[1:], factor.shape[1:]))
    return np.broadcast_to(out, (out.shape[0], *sizes)).copy()


def parse_terms(text: str, domain: Domain) -> Terms:
    """``a*b + c``: attribute sets joined by +, attributes of a set by *; names with these signs cannot be written so.

    Raises
    ------
    InvalidInput
        for a name that the domain has not.
    """
    generators = [[name.strip() for name in part.split("*")] for part in text.split("+")]
    if any(not name for part in generators for name in part):
        raise InvalidInput(f"the model {text!r} names an empty term; write sets such as a*b + c")
    return Terms.of(domain, generators)
