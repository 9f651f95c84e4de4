"""What a study compares, and what came out: a row for each number of people, total and way, and what it was made from."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from optrr.core.display.result import TableResult, in_json
from optrr.core.display.text import amount
from optrr.core.errors import InvalidInput
from optrr.genomics.genotypes import Variants
from optrr.genomics.randomize import MissingPolicy
from optrr.genomics.scan import ScanOptions
from optrr.genomics.study.measures import FEWEST_RANKED, Measured, Truth
from optrr.genomics.study.people import PlantedTrait
from optrr.genomics.study.ways import CURATED, LOCAL, TRUST
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

METHODS = (*LOCAL, *CURATED)
# Fewer people have no test.
_FEWEST = 10
# What a table of outcomes says of the designs.
_LABELS = ("lower_bound", "variant_epsilon", "status_epsilon", "max_conditional_epsilon", "joint_eigenvalue")
# A type I error counts as a failure where chance alone would make it so large no more often than this.
_CHANCE = 1e-3


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
        of METHODS.
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
    methods: Sequence[str] = METHODS
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
        if self.top < FEWEST_RANKED:
            raise InvalidInput(f"top {self.top}; give at least {FEWEST_RANKED} variants to rank")
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


@dataclass(frozen=True, eq=False)
class Outcome:
    """One way to ask so many people at one total; ``measures`` maps each name to its mean and standard error.

    ``epsilon`` is what the way spends, infinite without privacy, under the ``trust`` that is named; ``reported`` how many
    variants a person's record or answer is about. ``qq`` and ``naive_qq`` are points of QQ plots under permuted statuses,
    (K, 2); ``first`` the p-values of the first repeat, (V,).
    """

    people: int
    total: float
    method: str
    trust: str
    epsilon: float
    reported: int
    labels: Mapping[str, float]
    measures: Measured
    qq: FloatArray
    naive_qq: FloatArray
    first: FloatArray

    @property
    def label(self) -> str:
        """The way's name, and under which trust, where it is another than the local one."""
        return self.method if self.trust == TRUST else f"{self.method} ({self.trust})"


@dataclass(frozen=True, eq=False, repr=False)
class Study(TableResult):
    """All outcomes; ``unavailable``: (total, method, why) where a method cannot reach a total.

    ``n`` people of the panel, of whom ``cases``; ``digests`` are SHA-256 of what was given, so that another run can be seen to
    be of the same.
    """

    options: StudyOptions
    n: int
    cases: int
    variants: Variants
    truth: Truth
    digests: Mapping[str, str]
    outcomes: list[Outcome] = field(default_factory=list)
    unavailable: list[tuple[float, str, str]] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)

    in_summary = ("n", "cases", "left_out", "digests", "options")
    drawn = ("predicted_noncentrality_ratio",)

    def _keys(self) -> int:
        return 3

    def headline(self) -> str:
        """How many people and variants, and what was compared."""
        methods = ", ".join(dict.fromkeys(o.method for o in self.outcomes))
        people = " and ".join(f"{n:,}" for n in sorted({o.people for o in self.outcomes})) or f"{self.n:,}"
        return f"{people} people, {len(self.variants)} variants, {self.options.repeats} repeats: {methods or 'nothing'}"

    @property
    def naive_failures(self) -> list[Outcome]:
        """Outcomes whose naive test rejects true null hypotheses clearly more often than its level."""
        level, repeats = self.options.alpha, self.options.repeats
        # where repeats happen to agree, the standard error is still taken to be that of independent draws
        least = math.sqrt(level * (1 - level) / (repeats * self.truth.usable.size))
        reach = float(student.isf(_CHANCE, repeats - 1))
        measured = [(o, *o.measures["naive_type_one"]) for o in self.outcomes]
        return [o for o, rate, error in measured if rate > level + reach * max(error, least)]

    @property
    def zero_said(self) -> str:
        """Which χ² error an answer has that is always 0, for the most people."""
        most = max(self.outcomes, key=lambda o: o.people, default=None)
        return "none" if most is None else f"{most.measures['chi2_error_of_zero'][0]:.4g} ({most.people:,} people)"

    def ranked(self) -> None:
        """Put the outcomes in order: of each number of people and total, the one first that leaves most noncentrality."""
        self.outcomes.sort(
            key=lambda o: (o.people, o.total, -np.nan_to_num(o.measures["predicted_noncentrality_ratio"][0], nan=-1.0))
        )

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object, with the rows."""
        return super().summary() | {
            "variants": len(self.variants),
            "associated": int(self.truth.associated.size),
            "standard_errors": self.options.errors_said,
            "results": [in_json(row) for row in self.to_arrow().to_pylist()],
            "unavailable": [{"total": t, "method": m, "reason": why} for t, m, why in self.unavailable],
            "naive_fails": [{"total": o.total, "method": o.method} for o in self.naive_failures],
        }

    def to_arrow(self) -> "pa.Table":
        """One row for each number of people, total and way: what it costs and reports, every measure and its standard error.

        Of each total the method comes first that leaves most of the tests' noncentrality.
        """
        import pyarrow as pa  # noqa: PLC0415 (slow to import, and --help needs none of it)

        outcomes = self.outcomes
        columns: dict[str, list[object]] = {
            name: [getattr(o, name) for o in outcomes] for name in ("people", "total", "method", "trust", "epsilon")
        }
        columns["variants_reported"] = [o.reported for o in outcomes]
        for name in _LABELS:
            columns[name] = [o.labels.get(name, math.nan) for o in outcomes]
        for name in outcomes[0].measures if outcomes else ():
            columns[name] = [o.measures[name][0] for o in outcomes]
            columns[f"{name}_se"] = [o.measures[name][1] for o in outcomes]
        return pa.table(columns)
