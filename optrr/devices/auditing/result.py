"""What an audit finds: one line for each of its checks, with the bound or the event it rests on, and its level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optrr.devices.auditing.exact_tests import Worst
from optrr.show.result import TableResult, in_json
from optrr.show.rounding import bound_text, epsilon_text

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Finding:
    """One check: a claim of the label, and how it stands.

    Parameters
    ----------
    check
        its name.
    violates
        whether the claim is refuted at the audit's level.
    says
        the result in words: the bound, or the most extreme event.
    p_value
        of the most extreme event, times the number of tests in the whole audit it stands for; 0 for a certainty.
    tests
        how many were done.
    stated, bound
        the label's ε and the confidence bound of the true one, nats; None where the check is about no ε.
    """

    check: str
    violates: bool
    says: str
    p_value: float = 1.0
    tests: int = 1
    stated: float | None = None
    bound: float | None = None

    @classmethod
    def of_tests(cls, check: str, worst: Worst, level: float, checks: int) -> Finding:
        """From many tests of one check, which is one of ``checks``."""
        p = min(1.0, worst.adjusted * checks)
        if p > level:
            return cls(check, False, f"{worst.tests} tests", p, worst.tests)
        return cls(check, True, worst.what, p, worst.tests)

    def line(self) -> str:
        """The finding in one line."""
        verdict = "VIOLATES" if self.violates else "consistent"
        chance = f"; p at most {self.p_value:.1e}" if self.violates and self.p_value > 0 else ""
        return f"{self.check} {verdict}: {self.says}{chance}"


@dataclass(frozen=True, repr=False)
class Audit(TableResult):
    """The findings of one audit.

    If the client does what its label says, the probability that ``holds`` is false is at most ``level``: each check has an
    equal share of it, and each test of a check an equal share of that.
    """

    client: str
    queries: int
    level: float
    epsilon: float
    findings: tuple[Finding, ...]

    in_summary = ("holds", "client", "queries", "level", "epsilon", "epsilon_bound", "findings", "rarest", "unseen")
    drawn = ("p_value",)

    @property
    def holds(self) -> bool:
        """Whether nothing refutes the label."""
        return not any(f.violates for f in self.findings)

    @property
    def epsilon_bound(self) -> float:
        """Nats that the true total ε is at least, at confidence 1 − level."""
        return max((f.bound for f in self.findings if f.check == TOTAL and f.bound is not None), default=0.0)

    @property
    def rarest(self) -> float:
        """The chance of an event that so many queries miss with a probability of 5 %: a rarer one is missed more often."""
        return float(-np.expm1(np.log(MISSED) / self.queries))

    @property
    def unseen(self) -> tuple[str, ...]:
        """What a client may do that no audit from outside sees, and what this one had too few queries for."""
        return (
            f"an event that happens to one person in {1 / self.rarest:,.0f} or to fewer stays out of {self.queries} queries "
            f"with a chance of {MISSED:.0%} or more; and a true record that is sent as it is looks like an answer that changed "
            "nothing",
            "noise that somebody can predict may have the right law: made without a secret (from the person's number and "
            "answer, a clock, a short seed), it gives every record away to those who know how; only the client's code shows "
            "where its random bits come from",
            "what a client does for people who are not planted, once it knows that it is audited, and beside its answers "
            "(time, size, a second channel)",
        )

    def headline(self) -> str:
        """The verdict, the label, the bound, and what it took."""
        verdict = "consistent with" if self.holds else "VIOLATES"
        return (
            f"{verdict} its label at {self.level:g}: total epsilon {epsilon_text(self.epsilon)}, at least "
            f"{bound_text(self.epsilon_bound)}; {self.queries} queries to {self.client}"
        )

    def to_arrow(self) -> pa.Table:
        """One row per check: check, violates, says, p_value, tests, stated, bound."""
        import pyarrow as pa  # noqa: PLC0415 (takes longer to import than a small audit takes)

        return pa.Table.from_pylist(in_json(self.findings))


# Names of the checks, in the order of an audit's table.
DECLARED = "categories"
TOTAL = "total epsilon"
CONDITIONAL = "conditional epsilon"
ATTRIBUTE = "attribute epsilon"
CHANGES = "changes together"
REPLACEMENTS = "replacements"
INPUTS = "true values"
IN_A_ROW = "records in a row"
TWO_RUNS = "noise that repeats"
AGAIN = "asked again"
TURNS = "true records in turns"
# Those that may err; each has an equal share of the level.
SHARING = (TOTAL, CONDITIONAL, ATTRIBUTE, CHANGES, REPLACEMENTS, INPUTS, IN_A_ROW, TWO_RUNS, TURNS, AGAIN)
# The chance to miss an event that the rarest one is stated for.
MISSED = 0.05
