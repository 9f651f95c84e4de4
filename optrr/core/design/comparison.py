"""Comparison of all applicable methods on one specification."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from optrr.core.design.designs import Design
from optrr.core.design.solving import Constraints, declared_epsilons, design
from optrr.core.design.specification import Declared
from optrr.core.display.parts import Table
from optrr.core.display.result import TableResult
from optrr.core.display.text import amount, bound_text, epsilon_text
from optrr.core.errors import SolveFailed
from optrr_solvers import InvalidProblem, MethodTooLarge, applicable
from optrr_solvers.allocation.any_mechanism import total_bound

if TYPE_CHECKING:
    import pyarrow as pa

# Decimals of an epsilon, and the difference in nats within which two totals are called the same.
_DECIMALS, _SAME = 4, 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class MethodComparison(TableResult):
    """Designs of one specification by several methods.

    ``failed`` has the reasons of methods without a design.

    ``total_bound`` is a total ε, in nats, below which no mechanism estimates every attribute with as little variance, whatever
    respondents send.
    """

    designs: tuple[Design, ...]
    failed: Mapping[str, str]
    total_bound: float

    drawn = ("epsilon",)

    @property
    def best(self) -> Design:
        """The design with the smallest total."""
        return min(self.designs, key=lambda made: made.epsilon)

    def headline(self) -> str:
        """Summarize the smallest total and the number of methods."""
        total = epsilon_text(self.best.epsilon, _DECIMALS)
        return f"smallest total epsilon {total}, of {amount(len(self.designs), 'method')}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Notes of the methods, and the reasons why some failed."""
        notes = [f"{each.method}: {note}" for each in self.designs for note in each.solution.notes]
        return (*notes, *(f"{method}: {reason}" for method, reason in self.failed.items()))

    def to_arrow(self) -> "pa.Table":
        """Convert to a table with one row per method.

        Columns are method, epsilon, lower_bound, gap, status, min_eigenvalue_ratio, conditional_epsilon, seconds.
        """
        import pyarrow as pa  # noqa: PLC0415 (slow to import, and text needs none of it)

        return pa.Table.from_pylist([self._row(each) for each in self.designs])

    def _row(self, made: Design) -> dict[str, Any]:
        names = ("method", "epsilon", "lower_bound", "gap", "status", "seconds")
        row = {name: value for name, value in made.summary().items() if name in names}
        faintest = None if made.faintest_pair is None else made.faintest_pair[0]
        return row | {"min_eigenvalue_ratio": faintest, "conditional_epsilon": float(made.conditional_epsilons.max())}

    def shown(self, most: int | None = None) -> Table:
        """Build the printed table, which marks the smallest total.

        Every ε is rounded up and every bound down.
        """
        rows = [
            (
                each.method,
                epsilon_text(each.epsilon, _DECIMALS),
                bound_text(each.lower_bound, _DECIMALS),
                f"{max(each.gap, 0.0):.2g}",
                str(each.solution.status),
                None if each.faintest_pair is None else each.faintest_pair[0],
                epsilon_text(float(each.conditional_epsilons.max()), _DECIMALS),
                f"{each.solution.seconds:.2f}",
            )
            for each in self.designs
        ]
        least = self.best.epsilon
        winners = [k for k, each in enumerate(self.designs) if each.epsilon <= least + _SAME]
        heads = ["method", "total", "lower bound", "gap", "status", "faintest pair", "largest conditional", "seconds"]
        note = (
            "* smallest total epsilon; epsilons in nats; faintest pair: the association of the most attenuated "
            "pair, relative to that under independent randomized response; negative if its sign is reversed"
        )
        return Table(heads, rows[:most], note=note, strong=winners)

    def sentences(self) -> Sequence[str]:
        """State the lower bound for any mechanism."""
        bound = bound_text(self.total_bound, _DECIMALS)
        return [f"any mechanism that estimates every attribute with as little variance has a total of at least {bound}"]

    def summary(self) -> dict[str, Any]:
        """Return the JSON object: designs, failed methods and the lower bound."""
        failed = [{"method": method, "error": reason} for method, reason in self.failed.items()]
        return {
            "methods": [each.summary() for each in self.designs],
            "failed": failed,
            "total_bound": self.total_bound,
            "warnings": list(self.warnings),
        }


def compare(
    domain: Declared,
    epsilons: float | ArrayLike | Mapping[str, float] | None = None,
    *,
    constraints: Constraints = Constraints(),
) -> MethodComparison:
    """Design for the required accuracies by every applicable method.

    Parameters
    ----------
    domain, epsilons, constraints
        as in :func:`optrr.design`.

    Returns
    -------
    MethodComparison
        in which a method that fails has its reason in place of a design.

    Raises
    ------
    InvalidInput, InvalidProblem
        as :func:`optrr.design`.
    """
    declared, asked = declared_epsilons(domain, epsilons)
    made, failed = [], {}
    for method in applicable(constraints.problem(declared.domain, asked)):
        try:
            made.append(design(declared, asked, method=method, constraints=constraints))
        except (SolveFailed, MethodTooLarge, InvalidProblem) as error:
            failed[method] = str(error)
    return MethodComparison(tuple(made), failed, total_bound(declared.domain.sizes, asked))
