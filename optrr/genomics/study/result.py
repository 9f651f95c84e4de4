"""Results of a study: a row for each number of people, total and protocol, with the options and the data."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scipy.stats import t as student

from optrr.core.display import Table, TableResult, amount, in_json
from optrr.genomics.genotypes import Variants
from optrr.genomics.study.measures import Measured, Truth
from optrr.genomics.study.options import StudyOptions
from optrr.genomics.study.ways import StudiedWay

if TYPE_CHECKING:
    import pyarrow as pa

# Columns of the designs in a table of outcomes.
_LABELS = ("lower_bound", "variant_epsilon", "status_epsilon", "max_conditional_epsilon", "joint_eigenvalue")
# Measures that a terminal and a notebook show.
_SHOWN = ("predicted_noncentrality_ratio", "noncentrality_ratio", "power", "recall", "type_one", "chi2_error")
# A type I error counts as a failure where chance alone would make it so large no more often than this.
_CHANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Outcome:
    """One protocol for so many people at one total.

    ``measures`` maps each name to its mean and standard error.
    """

    people: int
    total: float
    method: str
    way: StudiedWay
    measures: Measured

    @property
    def predicted(self) -> float:
        """The predicted noncentrality relative to true records."""
        return self.measures["predicted_noncentrality_ratio"][0]


@dataclass(frozen=True, eq=False, repr=False)
class Study(TableResult):
    """All outcomes, sorted by people, total and noncentrality left.

    ``unavailable``: (total, method, why) where a method cannot reach a total. ``n`` people of the panel, of whom
    ``cases``.
    """

    options: StudyOptions
    n: int
    cases: int
    variants: Variants
    truth: Truth
    left_out: Mapping[str, int]
    outcomes: list[Outcome] = field(default_factory=list)
    unavailable: list[tuple[float, str, str]] = field(default_factory=list)

    in_summary = ("n", "cases", "left_out", "options")
    drawn = ("predicted_noncentrality_ratio",)

    def _keys(self) -> int:
        return 3

    def headline(self) -> str:
        """Summarize the people, variants and protocols compared."""
        methods = ", ".join(dict.fromkeys(o.method for o in self.outcomes))
        people = " and ".join(f"{n:,}" for n in sorted({o.people for o in self.outcomes})) or f"{self.n:,}"
        return f"{people} people, {len(self.variants)} variants, {self.options.repeats} repeats: {methods or 'nothing'}"

    @property
    def naive_failures(self) -> list[Outcome]:
        """Outcomes whose naive test clearly exceeds its level under the null."""
        level, repeats = self.options.alpha, self.options.repeats
        # where repeats happen to agree, the standard error is still taken to be that of independent draws
        least = math.sqrt(level * (1 - level) / (repeats * self.truth.usable.size))
        reach = float(student.isf(_CHANCE, repeats - 1))
        measured = [(o, *o.measures["naive_type_one"]) for o in self.outcomes]
        return [o for o, rate, error in measured if rate > level + reach * max(error, least)]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Methods that are not available, and where the naive test is wrong."""
        return (
            *(f"total {t:g}: {m} is not available: {why}" for t, m, why in self.unavailable),
            *(
                f"{o.people} people, total {o.total:g}, {o.method}: the naive test's type I error is "
                f"{o.measures['naive_type_one'][0]:.3f} at level {self.options.alpha:g}; the naive test is not valid"
                for o in self.naive_failures
            ),
        )

    @property
    def zero_said(self) -> str:
        """Which χ² error an answer has that is always 0, for the most people."""
        most = max(self.outcomes, key=lambda o: o.people, default=None)
        return "none" if most is None else f"{most.measures['chi2_error_of_zero'][0]:.4g} ({most.people:,} people)"

    def shown(self, most: int | None = None) -> Table:
        """Tabulate the main measures."""
        names = ["people", "total", "method", *_SHOWN]
        names += ["odds_coverage"] if self.options.draws_people else []
        rows = [list(row.values()) for row in self.to_arrow().select(names).to_pylist()]
        return Table([name.replace("_", " ").replace("noncentrality ", "") for name in names], rows[:most])

    def sentences(self) -> tuple[str, ...]:
        """Explain the measures and their errors."""
        truth, level = self.truth, f"p ≤ {self.options.alpha:g}"
        found, variants = truth.associated.size, amount(truth.usable.size, "variant")
        of = (
            f"proportion of {amount(found, 'associated variant')} with {level}" if found else "no variant is associated"
        )
        return (
            "Means over the repeats. Ratio: noncentrality relative to true records, in decreasing order. Power: "
            f"{of}. Recall: proportion of the true top {truth.top.size} of {variants} among as many of the smallest "
            "p-values. "
            f"Type one: proportion of variants with {level} under permuted statuses. Chi2 error: mean distance from "
            "the χ² of the "
            f"true records; an answer that is always 0 has {self.zero_said}.",
            self.options.errors_said,
        )

    def summary(self) -> dict[str, Any]:
        """Return the JSON object with the rows."""
        return super().summary() | {
            "variants": len(self.variants),
            "associated": int(self.truth.associated.size),
            "standard_errors": self.options.errors_said,
            "results": [in_json(row) for row in self.to_arrow().to_pylist()],
            "unavailable": [{"total": t, "method": m, "reason": why} for t, m, why in self.unavailable],
            "naive_fails": [{"total": o.total, "method": o.method} for o in self.naive_failures],
        }

    def to_arrow(self) -> "pa.Table":
        """Convert to a table with a row per number of people, total and protocol.

        Columns are its cost, every measure and its standard error.
        """
        import pyarrow as pa  # noqa: PLC0415 (slow to import, and --help needs none of it)

        outcomes = self.outcomes
        columns: dict[str, list[Any]] = {
            name: [getattr(o, name) for o in outcomes] for name in ("people", "total", "method")
        }
        columns["epsilon"] = [o.way.epsilon for o in outcomes]
        columns["variants_reported"] = [o.way.reported for o in outcomes]
        columns |= {name: [o.way.labels.get(name, math.nan) for o in outcomes] for name in _LABELS}
        for name in outcomes[0].measures if outcomes else ():
            columns[name], columns[f"{name}_se"] = map(list, zip(*(o.measures[name] for o in outcomes), strict=True))
        return pa.table(columns)
