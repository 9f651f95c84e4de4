"""What a study compares: totals, numbers of people, and the ways of every trust."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optrr.core.display import amount
from optrr.core.errors import InvalidInput
from optrr.genomics.randomize import MissingPolicy
from optrr.genomics.scan import ScanOptions
from optrr.genomics.study.curators import CURATED
from optrr.genomics.study.people import PlantedTrait
from optrr.genomics.study.ways import LOCAL

METHODS = {**LOCAL, **CURATED}
# Fewer people have no test, and fewer variants no ranks to compare.
_FEWEST, _FEWEST_RANKED = 10, 3


@dataclass(frozen=True)
class StudyOptions:
    """What to compare.

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
        how many of the truly most associated variants are to be found again, and ranked.
    seed
        of everything that is drawn.
    missing, missing_category
        missing calls are refused, left out ("exclude"), or randomized as a category.
    people
        how many are drawn anew for each repeat; empty: everybody of the panel as they are, in each repeat, unless a trait is
        planted or stretches are given: then as many as the panel has.
    stretch
        mean length in base pairs of what drawn people copy from one of the panel (:mod:`optrr.genomics.study.people`); None:
        whole people.
    trait
        a planted one in place of the panel's statuses.
    """

    totals: Sequence[float]
    repeats: int = 20
    methods: Sequence[str] = tuple(METHODS)
    test: str = "trend"
    alpha: float = 0.05
    top: int = 20
    seed: int = 1
    missing: MissingPolicy = "refuse"
    missing_category: bool = False
    people: Sequence[int] = ()
    stretch: float | None = None
    trait: PlantedTrait | None = None

    def __post_init__(self) -> None:
        ScanOptions(self.test)
        if not self.totals or not all(np.isfinite(t) and t > 0 for t in self.totals):
            raise InvalidInput(
                f"total epsilons {list(self.totals)}; give one or more positive numbers of nats (totals, --total-epsilon)"
            )
        if self.repeats < 2:
            raise InvalidInput(
                f"{amount(self.repeats, 'repeat')}; give at least 2, standard errors come from their spread"
            )
        if not 0 < self.alpha < 1:
            raise InvalidInput(f"level {self.alpha}; give a number between 0 and 1")
        if self.top < _FEWEST_RANKED:
            raise InvalidInput(f"top {self.top}; give at least {_FEWEST_RANKED} variants to rank")
        for method in self.methods:
            if method not in METHODS:
                raise InvalidInput(f"unknown method {method!r}; choose among {', '.join(METHODS)}")
        for name, listed in (("total", self.totals), ("method", self.methods), ("number of people", self.people)):
            if len(set(listed)) < len(listed):
                raise InvalidInput(f"a {name} is given twice; give each once")
        if any(n < _FEWEST for n in self.people):
            raise InvalidInput(f"{min(self.people)} people; give at least {_FEWEST}")

    @property
    def draws_people(self) -> bool:
        """Whether every repeat has people of its own, so that standard errors are over people, too."""
        return bool(self.people) or self.stretch is not None or self.trait is not None

    @property
    def errors_said(self) -> str:
        """What the standard errors are over, in one sentence."""
        over = (
            "each with people drawn anew and randomized anew, so over people and randomizations"
            if self.draws_people
            else "which randomize the same people anew, so over randomizations alone and not over people"
        )
        return f"Standard errors are between {self.repeats} repeats, {over}."
