"""Advice: which way of asking gives the smallest error for *this* workload at this total ε, and what each gives up.

Compared at one total ε, all by predicted error (an upper bound over populations, exact for the uniform one):

    optimum          the most accurate law of change sets (:mod:`optrr.budgets.allocate`)
    Kronecker        every attribute on its own, the total split evenly, and split as well as it can be
    clusters         randomized response on the product of each cluster (MDR §4), best split
    whole record     one randomized response on the product of everything
    sampling         each person answers one table only, drawn at random, with the whole ε, by the subset of its cells that is
                     most accurate for it; one that is wanted alone is answered by all
    mixture          each person answers one question, drawn at random, of those that are most accurate together
                     (:mod:`optrr_solvers.allocating.mixture`)

The last two give up records: nobody's answers can be linked, so only the tables asked for can ever be estimated, each from all
answers that tell about it. For few effects at small ε they beat every mechanism that keeps full records, and the advice says so
(design §3.7). Beside all stands what no mechanism can be below (:mod:`optrr_solvers.allocating.energy`). Each can be carried
out: :attr:`Option.asking` is a design, or :class:`optrr.ways.protocols.sampled_tables.SampledTables`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from optrr.budgets.allocate import allocate
from optrr.budgets.options import Option, every_way
from optrr.budgets.result import Allocation
from optrr.budgets.workload import Workload, WorkloadLike, workload_of
from optrr.designs.asking import Asking
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.show.charts import COLOURS, PAGE_WIDTH, label_lines, legend_below, new_figure, plain_logarithms
from optrr.show.result import TableResult, in_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Where a sentence goes on from who wins to what that costs.
_COST = " It gives up: "
# Two options within this of each other, relative, are called equal.
_EQUAL = 0.01
# Predicted errors are bounds over all populations. Where sampling and the rest are within this factor of each other, a skewed
# population may turn their order: on Adult, a bound of 65 stands for an error of 44.
_NEAR = 1.7


@dataclass(frozen=True, eq=False, repr=False)
class Advice(TableResult):
    """Options by increasing error, with the allocation behind the optimum."""

    domain: Domain
    workload: Workload
    total_epsilon: float
    n: int | None
    options: tuple[Option, ...]
    allocation: Allocation

    in_summary = ("total_epsilon", "n", "error_bound")

    @cached_property
    def best(self) -> Option:
        """Smallest error of all."""
        return self.options[0]

    @cached_property
    def best_with_records(self) -> Option:
        """Smallest error among those that keep full records."""
        return next(o for o in self.options if o.keeps_records)

    @cached_property
    def error_bound(self) -> float:
        """What no mechanism of this total, of whatever form, can have less of than as error."""
        return self.workload.error_bound(self.domain, self.total_epsilon)

    @property
    def recommended(self) -> Asking:
        """The best option as what can be saved, randomized with and estimated from."""
        return self.best.asking

    def option(self, name: str) -> Option:
        """The option of that name. Raises InvalidInput where there is none."""
        chosen = next((o for o in self.options if o.name == name), None)
        if chosen is None:
            raise InvalidInput(f"no way of asking {name!r}; choose among {', '.join(o.name for o in self.options)}")
        return chosen

    def ratio(self, option: Option) -> float:
        """Its error relative to the smallest."""
        return option.error / self.best.error

    def typical_standard_error(self, option: Option) -> float | None:
        """Root mean square over all cells of all tables, by weight; None without n."""
        return self.workload.typical_standard_error(self.domain, option.error, self.n)

    def sentences(self) -> tuple[str, ...]:
        """The advice in words: who wins, by how much, and what that gives up."""
        # the even and the best split of one way of asking count as one
        runner = next(o for o in self.options if o.family != self.best.family)
        second = runner.title[0].lower() + runner.title[1:]
        if not np.isfinite(runner.error):
            lead = f"{self.best.title} is the only one that can estimate every table."
        elif self.ratio(runner) < 1 + _EQUAL:
            lead = f"{self.best.title} and {second} are equally accurate (within 1 %)."
        else:
            lead = (
                f"{self.best.title} wins: next best is {second}, with {self.ratio(runner):.3g} times its squared error."
            )
        out = [lead + _COST + ("; ".join(self.best.gives_up) or "nothing") + "."]
        out.append(
            f"No mechanism of this total, of whatever form, has an error below {self.error_bound:.6g}; the winner's is "
            f"{self.best.error / self.error_bound:.4g} times that."
        )
        if not self.best.keeps_records:
            record = self.best_with_records
            out.append(
                f"If full records are needed, {record.title[0].lower()}{record.title[1:]} is best, with "
                f"{self.ratio(record):.3g} times the squared error of the winner."
            )
        near = [o for o in self.options if o.error <= _NEAR * self.best.error]
        if len({o.keeps_records for o in near}) > 1:
            out.append(
                "These are bounds over all populations, and for skewed tables sampling's is the looser one: so near the "
                "crossing sampling may be ahead of what is shown here."
            )
        kronecker = next((o for o in self.options if o.name == "kronecker"), None)
        optimum = next(o for o in self.options if o.name == "optimum")
        if kronecker is not None:
            out.append(
                f"Kronecker's best split has {kronecker.error / optimum.error:.3g} times the optimum's squared error, at "
                f"conditional epsilon {kronecker.conditional_epsilon:.3g} instead of {optimum.conditional_epsilon:.3g}."
            )
        return tuple(out)

    def headline(self) -> str:
        """Who wins, and by how much."""
        return self.sentences()[0].partition(_COST)[0]

    def to_arrow(self) -> pa.Table:
        """One row per way of asking: its name, errors, what it keeps, conditional epsilon and faintest pair."""
        rows = [{k: v for k, v in row.items() if k != "gives_up"} for row in self.summary()["options"]]
        return pa.Table.from_pylist(rows)

    def plot(self) -> Figure:
        """The error of each way of asking, the smallest on top; a way that cannot estimate every table has no dot."""
        shown = self.options[::-1]
        errors = [o.error if self.n is None else float(self.typical_standard_error(o) or np.nan) for o in shown]
        figure = new_figure(PAGE_WIDTH, 1.3 + 0.52 * len(shown))
        axes, places = figure.subplots(), np.arange(len(shown))
        kinds = ((True, "o", "full records"), (False, "D", "one table of each person"))
        for keeps, marker, label in kinds:
            rows = [k for k, o in enumerate(shown) if o.keeps_records is keeps and np.isfinite(errors[k])]
            if rows:
                axes.plot([errors[k] for k in rows], places[rows], marker, color=COLOURS[not keeps], label=label)
        axes.set_xscale("log")
        plain_logarithms(axes.xaxis)
        axes.set_ylim(-0.5, len(shown) - 0.5)
        axes.set_yticks(places, [label_lines(o.title) for o in shown])
        axes.set_xlabel("workload error" if self.n is None else "typical standard error")
        axes.set_axisbelow(True)
        axes.grid(visible=True, color="#dddddd")
        legend_below(figure)
        return figure

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object."""
        rows = []
        for o in self.options:
            extra = {"relative_error": in_json(self.ratio(o)), "error_over_bound": in_json(o.error / self.error_bound)}
            rows.append(o.summary() | extra | {"standard_error": self.typical_standard_error(o)})
        return {
            **super().summary(),
            "workload": self.workload.name,
            "best": self.best.name,
            "best_with_records": self.best_with_records.name,
            "advice": list(self.sentences()),
            "options": rows,
        }


def advise(  # noqa: PLR0913 (each argument is one question a user answers)
    domain: Domain | Mapping[str, int | Iterable[Any]],
    total: float,
    *,
    learn: WorkloadLike = "marginals",
    n: int | None = None,
    clusters: Sequence[Sequence[str]] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Advice:
    """Compare the ways of asking for what ``learn`` names at one total ε in nats.

    Parameters
    ----------
    domain
        a Domain, or a mapping of names to categories or sizes.
    total, learn, n
        as for :func:`optrr.allocate`; required standard errors play no part here.
    clusters
        lists of attribute names to randomize together; attributes in none stand alone.
    progress
        called while the most accurate questions are searched, with their error so far.

    Raises
    ------
    InvalidInput, InvalidProblem, MethodTooLarge
        one line each: what is wrong and the remedy.
    """
    declared = domain if isinstance(domain, Domain) else Domain.of(domain)
    wanted = workload_of(learn, declared)
    wanted = replace(wanted, tables=tuple(replace(t, standard_error=None) for t in wanted.tables))
    allocation = allocate(declared, total, learn=wanted, n=n)
    total = float(total)
    ways = every_way(declared, wanted, total, allocation.design, allocation.error, clusters, progress)
    return Advice(declared, wanted, total, n, ways, allocation)
