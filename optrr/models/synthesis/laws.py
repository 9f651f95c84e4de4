"""What synthetic records are to keep beside all pairs, and the likeliest law that keeps it.

A margin is kept where the log-linear model that records are drawn from has the interactions of its attributes: fitted to true
records, its table would have their margin. A regression needs the margin of its outcome and predictors together. So the model
is that of all pairs and these margins, fitted to the randomized records (:mod:`optrr.models.loglinear.fitting`), and nothing
is drawn towards independence.

Several data sets have a law each: as many reports as there were are drawn from the fitted law and the mechanism, and the model
is fitted to them again (a parametric bootstrap). So these laws differ from the fitted one as that does from the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod

import numpy as np

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Randomizer
from optrr.models.loglinear.fitting import fit
from optrr.models.loglinear.loglinear import check_seen
from optrr.models.loglinear.margins import Terms, parse_terms
from optrr.models.regression.formulas import Formula
from optrr.models.synthesis.pairs import Axes
from optrr.records.counts import Counts
from optrr_solvers.arrays import FloatArray

# Products of two coefficients and a cell in a step of the fit, some tenths of a second; a fit takes from five steps to sixty.
MOST_PRODUCTS = 3 * 10**8


@dataclass(frozen=True)
class KeptTables:
    """What records keep beside all pairs.

    ``margins`` are attribute sets, in the domain's order; ``formulas`` regressions, each with its attributes in that order;
    ``hidden`` the interactions of formulas that the mechanism hides, which no records can have.
    """

    domain: Domain
    margins: tuple[tuple[str, ...], ...] = ()
    formulas: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hidden: tuple[tuple[str, ...], ...] = ()

    @staticmethod
    def of(keep: str | Iterable[str | Sequence[str]], domain: Domain, mechanism: Randomizer) -> KeptTables:
        """Read what is to be kept: formulas such as "y ~ a + b", tables such as "a*b*c", or names of attributes.

        Raises
        ------
        InvalidInput
            for what cannot be read, and for an attribute that the domain has not. SingularMarginal for a table that the
            mechanism hides; of a formula all that it shows is kept.
        """
        margins: list[tuple[str, ...]] = []
        formulas: dict[str, tuple[str, ...]] = {}
        hidden: list[tuple[str, ...]] = []
        for each in (keep,) if isinstance(keep, str) else keep:
            if isinstance(each, str) and "~" in each:
                names = _ordered(domain, Formula.of(each).names)
                formulas[each] = names
                sets = [some for k in range(2, len(names) + 1) for some in combinations(names, k)]
                shown = {some: mechanism.kernel(some).is_invertible for some in sets}
                margins += [some for some in sets if shown[some]]
                hidden += [some for some in sets if not shown[some]]
                continue
            tables = _tables(each, domain)
            for names in tables:
                mechanism.kernel(names).check_invertible()
            margins += tables
        largest = [s for s in dict.fromkeys(margins) if not any(set(s) < set(t) for t in margins)]
        return KeptTables(domain, tuple(largest), formulas, tuple(dict.fromkeys(hidden)))

    @property
    def terms(self) -> Terms:
        """The model: all pairs, and the margins."""
        return Terms.of(self.domain, [*combinations(self.domain.names, 2), *self.margins])

    @property
    def axes(self) -> dict[Axes, tuple[str, ...]]:
        """The margins by positions."""
        return {self.domain.indices(names): names for names in self.margins}


def _ordered(domain: Domain, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(domain.names[i] for i in sorted(domain.indices(tuple(names))))


def _tables(text: str | Sequence[str], domain: Domain) -> list[tuple[str, ...]]:
    """The tables of two attributes or more that a text or names ask for."""
    if not isinstance(text, str):
        sets = [_ordered(domain, text)]
    else:
        sets = [tuple(domain.names[i] for i in axes) for axes in parse_terms(text, domain).generators]
    out = [names for names in sets if len(names) > 1]
    if not out:
        raise InvalidInput(f"{text!r} keeps no table; name two attributes or more, as 'a*b*c' or as 'y ~ a + b'")
    return out


def affordable(terms: Terms) -> bool:
    """Whether a model is fitted to the table of all its attributes."""
    return terms.parameters**2 * prod(map(int, terms.domain.sizes)) <= MOST_PRODUCTS


def check_affordable(terms: Terms) -> None:
    """Raise InvalidInput for a model that is too large to be fitted to the table of all its attributes."""
    if not affordable(terms):
        names, sizes = terms.domain.names, list(map(int, terms.domain.sizes))
        raise InvalidInput(
            f"the model of {', '.join(names)} has {terms.parameters} parameters in {prod(sizes)} cells, and parameters squared "
            f"times cells may be at most {MOST_PRODUCTS}; name fewer attributes, or keep smaller tables"
        )


def likeliest(terms: Terms, counts: Counts, mechanism: Randomizer) -> FloatArray:
    """The likeliest table of the model behind counted reports of its attributes.

    Raises
    ------
    InvalidInput
        where it is not :func:`affordable`. SingularMarginal naming an interaction that the mechanism hides.
    """
    names = terms.domain.names
    check_affordable(terms)
    check_seen(terms, mechanism)
    return fit(terms, counts.proportions, mechanism.kernel(names)).proportions


def likeliest_again(
    terms: Terms, law: FloatArray, n: int, mechanism: Randomizer, rng: np.random.Generator
) -> FloatArray:
    """The likeliest table behind n reports that are drawn from a law and the mechanism."""
    kernel = mechanism.kernel(terms.domain.names)
    chances = kernel.expected(law)
    reports = rng.multinomial(n, chances.ravel() / chances.sum()).reshape(chances.shape)
    return fit(terms, reports / n, kernel).proportions
