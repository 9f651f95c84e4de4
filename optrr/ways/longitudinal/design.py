"""A longitudinal design: what one person draws once and keeps, and what is drawn from it for every report (design §9).

Three numbers belong together and are always shown together: ε of one report, ε of several, and ε of all reports for ever. The
last one is spent once per person, however many rounds there are, as long as the person's record stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from optrr.designs.design import Design
from optrr.designs.design_warnings import solution_warnings
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Mechanism
from optrr.releases.small_files import Given, read_named
from optrr.show.printable import amount
from optrr.show.result import TableResult
from optrr.show.rounding import epsilon_text
from optrr.ways.longitudinal.design_file import decoded_longitudinal, save_longitudinal
from optrr.ways.longitudinal.spending import ReportsEpsilon
from optrr.ways.longitudinal.two_stage import TwoStage
from optrr.ways.longitudinal.verify import verified_bytes
from optrr.ways.longitudinal.whole import WholeOrUniform
from optrr_solvers.arrays import FloatArray

# Numbers of reports whose ε is listed where nobody asks for others.
LISTED = (1, 2, 5, 10, 30, 100)


@dataclass(frozen=True, eq=False, repr=False)
class LongitudinalDesign(TableResult):
    """Two stages, and the certified optimum behind them. A table of its attributes.

    Parameters
    ----------
    optimum
        a design: with the second stage "whole" that of one report, with "kronecker" that of the permanent answer.
    mechanism
        one report: the permanent law, then the instantaneous one. What estimates and tests take.
    requested_epsilons
        ε_i that were asked of one report, nats, shape (m,).
    """

    optimum: Design
    mechanism: TwoStage
    requested_epsilons: FloatArray

    in_summary = ("epsilon", "lower_bound", "second", "warnings")
    drawn = ("epsilon",)

    @property
    def domain(self) -> Domain:
        """The attributes of every report."""
        return self.optimum.domain

    @property
    def permanent(self) -> Mechanism:
        """What a person draws once, and keeps."""
        return self.mechanism.permanent

    @property
    def instantaneous(self) -> Mechanism | WholeOrUniform:
        """What is drawn from the permanent answer for every report."""
        return self.mechanism.instantaneous

    @property
    def second(self) -> str:
        """The kind of the second stage: whole or kronecker."""
        return "whole" if isinstance(self.instantaneous, WholeOrUniform) else "kronecker"

    def spent(self, reports: int | None = None) -> ReportsEpsilon:
        """ε of so many reports of one person; None: of all for ever."""
        spending = self.mechanism.spending
        return spending.forever if reports is None else spending.on(reports)

    @property
    def epsilon(self) -> float:
        """What a person spends for ever, in nats, rounded up."""
        return self.permanent.epsilon

    @property
    def lower_bound(self) -> float:
        """No mechanism with these accuracies has a total below this, in nats: of one report, with "kronecker" for ever."""
        return self.optimum.lower_bound

    @property
    def digest(self) -> str:
        """What identifies it wherever its reports go."""
        return self.mechanism.digest

    def save(self, path: str | Path) -> None:
        """Write the file that both sides work from, whole or not at all."""
        save_longitudinal(self, path)

    @staticmethod
    def load(path: Given) -> LongitudinalDesign:
        """Read a file and recompute every number in it.

        Raises
        ------
        InvalidInput
            where it is missing, malformed, of an unknown version, edited, or states a number that does not hold.
        """
        raw = read_named(path, "longitudinal design")
        result = verified_bytes(raw, path, limited=True, loading=True)
        if not result.digest:
            raise InvalidInput(
                f"longitudinal design {path} was changed after it was written (its digest differs); design again"
            )
        if result.failed:
            raise InvalidInput(f"longitudinal design {path} does not hold: {result.failed[0].line()}; design again")
        record = decoded_longitudinal(raw, path)
        optimum = Design(record.optimum.domain, record.optimum.solution, record.optimum.earlier)
        return LongitudinalDesign(optimum, record.mechanism, record.requested)

    def headline(self) -> str:
        """Both totals, how many attributes, and the kind of the second stage."""
        one = self.spent(1)
        return (
            f"epsilon {epsilon_text(one.epsilon)} of one report, {epsilon_text(self.epsilon)} for ever, "
            f"{amount(self.domain.m, 'attribute')}, second stage {self.second}"
        )

    def to_arrow(self) -> pa.Table:
        """One row per attribute: accuracy asked for and given by one report, conditional ε, and both for ever."""
        return pa.table(
            {
                "name": list(self.domain.names),
                "size": self.domain.sizes,
                "requested_epsilon": self.requested_epsilons,
                "epsilon": self.mechanism.attribute_epsilons,
                "conditional_epsilon": self.mechanism.conditional_epsilons,
                "forever_epsilon": self.permanent.attribute_epsilons,
                "forever_conditional_epsilon": self.permanent.conditional_epsilons,
            }
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user must know before using this design, one line each."""
        return (
            *solution_warnings(self.optimum),
            f"for ever means while a person's record stays as it is: each further record that a person comes to have spends "
            f"another {epsilon_text(self.epsilon)} nats, and reports may show when it changed",
        )

    def summary(self, reports: Sequence[int] = LISTED) -> dict[str, Any]:
        """The command line's JSON object."""
        return {
            "one_report_epsilon": self.spent(1).epsilon,
            "reports": [
                {"reports": each.reports, "epsilon": each.epsilon, "exact": each.exact}
                for each in map(self.spent, reports)
            ],
            "lower_bound_of": "one report" if self.second == "whole" else "for ever",
            "method": self.optimum.method,
            "attributes": self.to_arrow().to_pylist(),
            **super().summary(),
        }
