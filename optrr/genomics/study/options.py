"""Options of a study: totals, numbers of people, and protocols."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from optrr.core.errors import InvalidInput
from optrr.genomics.score_tests import genotype_tests
from optrr.genomics.study.people import SimulatedTrait
from optrr.genomics.study.ways import METHODS

# Fewer people have no test, and fewer variants no ranks to compare.
_FEWEST, _FEWEST_RANKED = 10, 3


@dataclass(frozen=True)
class StudyOptions:
    """Settings of a study.

    Parameters
    ----------
    totals
        ε of a person's record, nats.
    repeats
        how often, at least 2: standard errors come from their spread.
    methods
        names in METHODS.
    test
        trend or genotypic.
    alpha
        the level of one test.
    top
        number of the truly most associated variants to find and to rank.
    seed
        of everything that is drawn.
    missing
        missing calls are refused ("refuse"), left out ("exclude"), or randomized as a category ("category").
    people
        number of people to sample for each repeat; empty: the people of the panel in each repeat, or as many as the
        panel has if a trait is simulated.
    trait
        a simulated one in place of the panel's statuses.

    Raises
    ------
    InvalidInput
        For numbers outside their ranges, and values listed twice.
    """

    totals: Sequence[float]
    repeats: int = 20
    methods: Sequence[str] = tuple(METHODS)
    test: str = "trend"
    alpha: float = 0.05
    top: int = 20
    seed: int = 1
    missing: Literal["refuse", "exclude", "category"] = "refuse"
    people: Sequence[int] = ()
    trait: SimulatedTrait | None = None

    def __post_init__(self) -> None:
        if self.test not in genotype_tests():
            raise InvalidInput(f"``test`` {self.test!r}: unknown test; choose among {', '.join(genotype_tests())}")
        if not self.totals or not all(np.isfinite(t) and t > 0 for t in self.totals):
            raise InvalidInput(
                f"``totals``: {list(self.totals) or 'missing'}; give one or more positive numbers of nats"
            )
        if self.repeats < 2:
            raise InvalidInput(f"``repeats`` {self.repeats}: give at least 2; standard errors come from their spread")
        if not 0 < self.alpha < 1:
            raise InvalidInput(f"``alpha`` {self.alpha}: give one greater than 0 and less than 1")
        if self.top < _FEWEST_RANKED:
            raise InvalidInput(f"``top`` {self.top}: give at least {_FEWEST_RANKED} variants to rank")
        for method in self.methods:
            if method not in METHODS:
                raise InvalidInput(f"``methods`` {method!r}: unknown protocol; choose among {', '.join(METHODS)}")
        for name in ("totals", "methods", "people"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise InvalidInput(f"``{name}``: a value is given twice; give each once")
        if any(n < _FEWEST for n in self.people):
            raise InvalidInput(f"``people`` {min(self.people)}: give at least {_FEWEST}")

    @property
    def missing_category(self) -> bool:
        """Whether missing calls are randomized as a category."""
        return self.missing == "category"

    @property
    def draws_people(self) -> bool:
        """Whether each repeat draws its own people, as standard errors then include."""
        return bool(self.people) or self.trait is not None

    @property
    def errors_said(self) -> str:
        """Statement of the repeats that the standard errors are over."""
        over = (
            "each with a new sample of people and a new randomization, so they cover both"
            if self.draws_people
            else "with new randomizations of the same people, so they do not cover the sampling of people"
        )
        return f"Standard errors are between {self.repeats} repeats, {over}."
