"""Result of an allocation: every protocol, the predicted errors of the best one, and lower bounds for any mechanism."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from optrr.allocation.strategies import Strategy
from optrr.allocation.workload import Workload
from optrr.core.design import Asking, Constraints, Design
from optrr.core.display import (
    COLOURS,
    PAGE_WIDTH,
    Table,
    TableResult,
    amount,
    bound_text,
    crossed,
    epsilon_text,
    in_json,
    label_lines,
    legend_below,
    nearness,
    new_figure,
    plain_logarithms,
)
from optrr.core.domain import NONE, Domain, PublicColumns
from optrr.core.errors import InvalidInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Number of tables above which predictions are by kind only.
MAX_LISTED = 5000
# Largest error of the guess 1/2 without any data, since a proportion lies within 0..1.
_USELESS = 0.5
# Beginning of the note in an allocated design; it is a record, not a warning.
NOTE = "allocated"
# Restriction of a bound on errors if limits or standard errors were required.
LIMITS = " and these limits"
# Explanation of the columns of protocols and of predicted errors.
_COLUMNS = (
    "Errors are n times the expected squared error, summed over a table's cells and, by weight, over tables; they "
    "are exact for a uniform population and an upper bound for any other. The bound is a lower bound of the error "
    "of unbiased estimates under any ε-LDP mechanism of this total, at the uniform population. Standard errors are per "
    "cell, as a root mean square. Any table: whether tables outside the workload can be estimated. Pair visibility: the "
    "eigenvalue of the most attenuated pair over that of independent randomized response with the same attribute "
    "epsilons; above 1 the association is better preserved; below 0 its sign is reversed, which estimates undo."
)
# Relative difference up to which two protocols count as equal.
_EQUAL = 0.01


@dataclass(frozen=True)
class Prediction:
    """Predicted error of one table.

    ``error`` is G_U, an upper bound of n E‖π̂_U − π_U‖² for all populations; ``sampling_error`` the part of it that
    remains without any randomization; ``standard_error`` the root mean square over cells with n people, None without n.
    """

    attributes: tuple[str, ...]
    weight: float
    error: float
    sampling_error: float
    cells: int
    n: int | None
    required: float | None = None

    @property
    def standard_error(self) -> float | None:
        """√(error / (n cells))."""
        return None if self.n is None else float(np.sqrt(self.error / (self.n * self.cells)))

    def summary(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        out: dict[str, Any] = {"attributes": list(self.attributes), "weight": self.weight, "cells": self.cells}
        out |= {"error": self.error, "sampling_error": self.sampling_error, "standard_error": self.standard_error}
        return out | ({"required_standard_error": self.required} if self.required is not None else {})


@dataclass(frozen=True, eq=False)
class BestLaw:
    """The best noise distribution as a design, with a bound on its error.

    ``error`` is that of the workload, and no noise distribution of the same total and limits has an error below
    ``lower_error``. If accuracies were required instead of a total, no noise distribution that meets them has a total ε
    below ``least_total``.
    """

    design: Design
    method: str
    error: float
    lower_error: float | None
    least_total: float | None


@dataclass(frozen=True, eq=False)
class Requested:
    """Requirements of an allocation; ``total`` is None with required standard errors."""

    domain: Domain
    workload: Workload
    total: float | None
    n: int | None = None
    records_only: bool = False
    constraints: Constraints = Constraints()
    public: PublicColumns = NONE

    @property
    def limited(self) -> bool:
        """Whether there are constraints, which have a meaning for whole records only."""
        return self.constraints != Constraints()

    def allows(self, protocol: Strategy) -> bool:
        """Check whether a protocol meets the requirements."""
        return protocol.suits and (protocol.keeps_records or not (self.records_only or self.limited))


@dataclass(frozen=True, eq=False, repr=False)
class Allocation(TableResult):
    """All protocols for a workload, the chosen one, and lower bounds.

    The bounds hold for any mechanism.

    Parameters
    ----------
    asked
        the requirements.
    protocols
        compared protocols by increasing error, or by increasing total if none was given.
    protocol
        the chosen protocol, by default the best, to which errors, predictions and ``asking`` belong.
    law
        the best noise distribution, or None without one; ``refusal`` then states the reason.

    Examples
    --------
    >>> import optrr
    >>> allocation = optrr.allocate({"sex": 2, "income": 3}, 1.0, workload="pairs", records_only=True)
    >>> allocation.asking.keeps_records, allocation.error >= allocation.error_bound
    (True, True)
    """

    asked: Requested
    protocols: tuple[Strategy, ...]
    protocol: Strategy
    law: BestLaw | None
    refusal: InvalidInput | None = None

    in_summary = ("n", "error", "total_bound", "warnings")

    @property
    def domain(self) -> Domain:
        """The attributes."""
        return self.asked.domain

    @property
    def workload(self) -> Workload:
        """The tables that are wanted."""
        return self.asked.workload

    @property
    def n(self) -> int | None:
        """Number of respondents; None where it was not given."""
        return self.asked.n

    @property
    def total(self) -> float | None:
        """Total ε in nats.

        None if standard errors were required instead; each protocol then has its own total.
        """
        return self.asked.total

    @cached_property
    def best(self) -> Strategy:
        """The best protocol that has all that was asked for."""
        return next(o for o in self.protocols if self.asked.allows(o))

    @cached_property
    def best_with_records(self) -> Strategy | None:
        """Best protocol after which any table can be estimated.

        None if none of them meets the requirements.
        """
        return next((o for o in self.protocols if o.suits and o.keeps_records), None)

    def option(self, name: str) -> Strategy:
        """Find a protocol by name; raise InvalidInput for another name."""
        chosen = next((o for o in self.protocols if o.name == name), None)
        if chosen is None:
            raise InvalidInput(
                f"``protocol``: {name!r} is unknown; choose among {', '.join(o.name for o in self.protocols)}"
            )
        return chosen

    def choosing(self, name: str | None) -> "Allocation":
        """Choose the protocol of that name; None keeps the best.

        Raises InvalidInput for an unknown name, or if it keeps no records although these are required.
        """
        if name is None:
            return self
        chosen = self.option(name)
        if not chosen.keeps_records and (self.asked.records_only or self.asked.limited):
            raise InvalidInput(
                f"``protocol``: {name!r} keeps no records; choose another, or leave out ``records_only`` and limits"
            )
        return replace(self, protocol=chosen)

    @property
    def best_law(self) -> BestLaw:
        """Best noise distribution; raises the refusal if none meets the requirements."""
        if self.law is None:
            raise self.refusal or InvalidInput("there is no optimal noise distribution")
        return self.law

    @property
    def design(self) -> Design:
        """Design of the best noise distribution."""
        return self.best_law.design

    @cached_property
    def asking(self) -> Asking:
        """The chosen protocol, to save, randomize and estimate with."""
        return self.protocol.asking.beside(self.asked.public)

    def certified(self) -> Asking:
        """Return the chosen protocol with a lower bound and its proof.

        Queries get the bound on any mechanism's error, unless they are too many.
        """
        total = max(self.total or 0.0, self.asking.epsilon)
        return self.asking.bounded(lambda: self.workload.error_certificate(self.domain, total))

    @property
    def epsilon(self) -> float:
        """Total ε in nats of the chosen protocol, as it is drawn."""
        return self.asking.epsilon

    @property
    def error(self) -> float:
        """Workload error Σ weight G_U of the chosen protocol."""
        return self.protocol.error

    @cached_property
    def error_bound(self) -> float:
        """The lower bound on the error of any mechanism of this total."""
        return self._bound(self.protocol)

    def _bound(self, protocol: Strategy) -> float:
        return self._bounds[protocol.epsilon if self.total is None else self.total]

    @cached_property
    def _bounds(self) -> dict[float, float]:
        totals = {o.epsilon for o in self.protocols} if self.total is None else {self.total}
        return {total: self.workload.error_bound(self.domain, total) for total in totals}

    def over_bound(self, protocol: Strategy) -> float | None:
        """Compute a protocol's error over the lower bound at its total.

        None if it cannot estimate every table.
        """
        return protocol.error / self._bound(protocol) if np.isfinite(protocol.error) else None

    @cached_property
    def total_bound(self) -> float | None:
        """Lower bound of the total ε, in nats, for the required standard errors.

        It holds for any mechanism; None without requirements.
        """
        return self.workload.total_bound(self.domain, self.n) if self.workload.required else None

    @property
    def limits(self) -> str:
        """Assumptions of the bound besides the total, for a sentence; may be empty."""
        return LIMITS if self.asked.limited or self.workload.required else ""

    @property
    def gap(self) -> float | None:
        """Relative improvement that is not excluded for noise distributions.

        With the design's total and limits.
        """
        lower, error = self.best_law.lower_error, self.best_law.error
        return None if lower is None else max(error - lower, 0.0) / error

    def ratio(self, protocol: Strategy) -> float:
        """Compute the protocol's error relative to the best, or its total.

        The total if totals are compared.
        """
        if self.total is None:
            return protocol.epsilon / self.best.epsilon
        return protocol.error / self.best.error

    def typical_standard_error(self, protocol: Strategy) -> float | None:
        """Compute the weighted root mean square over all cells; None without n."""
        return self.workload.typical_standard_error(self.domain, protocol.error, self.n)

    @cached_property
    def predictions(self) -> tuple[Prediction, ...]:
        """Predicted errors of every table from the chosen protocol.

        Of each kind of alike tables if there are more than 5000.
        """
        return tuple(predictions(self.domain, self.workload, self.protocol.asking, self.n))

    def sentences(self) -> tuple[str, ...]:
        """State the best protocol, its limitations, the cost of records, and bounds."""
        what = "squared error" if self.total is not None else "total epsilon"
        out = [self._lead(what), self._least()]
        first, record = self.protocols[0], self.best_with_records
        if self.asked.limited:
            out.append(
                "Limits and preserved pairs require whole records, so only protocols with whole records are compared."
            )
        if first is not self.best and self.best.keeps_records and first.epsilon and np.isfinite(first.error):
            without = "limits" if self.asked.limited else "the need for any table"
            out.append(f"Without {without}, {first.words} has {self.ratio(first):.3g} times the {what}.")
        elif not self.best.keeps_records:
            out.append(
                "If any table may be needed, no protocol meets the requirements."
                if record is None
                else f"If any table may be needed, {record.words} is best{'' if self.total else ' of those compared'}, with "
                f"{self.ratio(record):.3g} times the {what} of the winner."
            )
        law = self.law
        if law is not None and self.gap is not None:
            out.append(
                f"optimum has error {law.error:.6g}; no noise distribution of its total{self.limits} has an error "
                f"below {law.lower_error:.6g}."
            )
        if law is not None and law.least_total is not None:
            also = LIMITS if self.asked.limited else ""
            out.append(
                f"No noise distribution with these accuracies{also} has a total below {bound_text(law.least_total)}."
            )
        return tuple(out)

    def _lead(self, what: str) -> str:
        runner = next((o for o in self.protocols if self.asked.allows(o) and o is not self.best), None)
        if runner is None:
            lead = f"{self.best.words} is the only protocol that meets all requirements."
        elif not np.isfinite(runner.error):
            lead = f"{self.best.words} is the only protocol that can estimate every table."
        elif self.ratio(runner) < 1 + _EQUAL:
            same = "equally accurate" if self.total is not None else "equally cheap"
            lead = f"{self.best.words} and {runner.words} are {same} (within 1 %)."
        else:
            lead = f"{self.best.words} is best; {runner.words} is next, with {self.ratio(runner):.3g} times its {what}."
        return lead + " It gives up: " + ("; ".join(self.best.gives_up) or "nothing") + "."

    def _least(self) -> str:
        if self.total is None and self.total_bound is not None:
            return (
                f"It needs a total of {epsilon_text(self.best.epsilon)}; any mechanism with these standard errors "
                f"needs at least {bound_text(self.total_bound)}."
            )
        bound = self._bound(self.best)
        return (
            f"Any mechanism of this total has an error of at least {bound:.6g}; the best protocol is "
            f"{nearness(self.best.error / bound)}."
        )

    def headline(self) -> str:
        """Summarize workload, total, protocol and distance to the lower bound."""
        return (
            f"workload {self.workload.name} at total epsilon {epsilon_text(self.epsilon)} by {self.protocol.name}, "
            f"{nearness(self.error / self.error_bound) if np.isfinite(self.error) else 'not for every table'}"
        )

    def to_arrow(self) -> pa.Table:
        """Convert to a table with one row per protocol and the JSON's names."""
        return pa.Table.from_pylist(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        """Return each protocol as plain values."""
        smallest = min(o.error for o in self.protocols)
        return [
            o.summary()
            | {
                "relative_error": in_json(o.error / smallest),
                "error_over_bound": self.over_bound(o),
                "standard_error": self.typical_standard_error(o),
            }
            | ({"epsilon": self.epsilon} if o is self.protocol else {})
            for o in self.protocols
        ]

    def shown(self, most: int | None = None) -> Table:
        """Build the printed table of protocols with the chosen one marked."""
        columns = ["name", "epsilon", "error", "error_over_bound", "standard_error", "keeps_records"]
        columns += ["conditional_epsilon", "pair_visibility"]
        rows = [[epsilon_text(row["epsilon"]) if c == "epsilon" else row[c] for c in columns] for row in self._rows()]
        heads = ["protocol", "total epsilon", "error", "error over bound", "standard error", "any table"]
        heads += ["conditional epsilon", "pair visibility"]
        return Table(heads, rows[:most], note=_COLUMNS, strong=[self.protocols.index(self.protocol)])

    def predicted(self) -> Table:
        """Build the table of predicted errors."""
        columns = ["weight", "cells", "error", "sampling_error", "standard_error", "required"]
        held = [[getattr(p, c) for c in columns] for p in self.predictions]
        used = [k for k, c in enumerate(columns) if any(row[k] not in (None, 1) for row in held)]
        rows = [[crossed(p.attributes), *(row[k] for k in used)] for p, row in zip(self.predictions, held, strict=True)]
        return Table(["table", *(columns[k].replace("_", " ") for k in used)], rows, "predicted errors")

    def tables_shown(self, most: int | None = None) -> Sequence[Table]:
        """List protocols, attribute ε of whole records, and predicted errors."""
        tables = [self.shown()]
        if self.asking.budgets:
            tables.append(replace(cast(Design, self.asking).shown(most), title="epsilon per attribute, in nats"))
        predicted = self.predicted()
        return [*tables, predicted if most is None else predicted.first(most)]

    def plot(self) -> "Figure":
        """Plot the error of each protocol, the smallest on top.

        A protocol that cannot estimate every table has no dot.
        """
        shown = self.protocols[::-1]
        errors = [o.error if self.n is None else float(self.typical_standard_error(o) or np.nan) for o in shown]
        label = "workload error" if self.n is None else "typical standard error"
        if self.total is None:
            errors, label = [o.epsilon for o in shown], "total epsilon, nats"
        figure = new_figure(PAGE_WIDTH, 1.5 + 0.52 * len(shown))
        axes, places = figure.subplots(), np.arange(len(shown))
        kinds = ((True, "o", "any table can be estimated"), (False, "D", "the workload's tables only"))
        for keeps, marker, kind in kinds:
            rows = [k for k, o in enumerate(shown) if o.keeps_records is keeps and np.isfinite(errors[k])]
            if rows:
                axes.plot([errors[k] for k in rows], places[rows], marker, color=COLOURS[not keeps], label=kind)
        axes.set_xscale("log")
        plain_logarithms(axes.xaxis)
        axes.set_ylim(-0.5, len(shown) - 0.5)
        axes.set_yticks(places, [label_lines(o.title) for o in shown])
        axes.set_xlabel(label)
        axes.set_axisbelow(True)
        axes.grid(visible=True, color="#dddddd")
        legend_below(figure, 1)
        return figure

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to read before using the result, one line each."""
        said = [w for w in self.asking.warnings if not w.startswith(NOTE)]
        if not self.asking.budgets:
            said += self.asked.public.left_out("an answer to one question")
        useless = [p for p in self.predictions if p.standard_error is not None and p.standard_error > _USELESS]
        if useless:
            worst = max(useless, key=lambda p: p.standard_error or 0.0)
            which = "every table" if len(useless) == len(self.predictions) else amount(len(useless), "table")
            said.append(
                f"with n = {self.n}, nothing can be learned about {which}: {' × '.join(worst.attributes)} would "
                f"have a standard error of {worst.standard_error:.3g}, while any guess within 0..1 is closer than "
                f"{_USELESS:g}; ask more people, raise the total, or merge categories"
            )
        return tuple(said)

    def summary(self) -> dict[str, Any]:
        """Return the JSON object.

        The chosen protocol's keys, with those of a design, then every protocol's.

        Where accuracies of tables were required, the lower bound is that of every law that reaches them; the design's own is
        that of its attributes' ε alone.
        """
        asking, law, out = self.asking, self.law, self.asking.summary()
        least = None if law is None else law.least_total
        out["method"] = self.protocol.name
        if law is not None and self.protocol.name == "optimum":
            out["method"] = law.method
            if least is not None:
                bound = max(law.design.lower_bound, least)
                out |= {"lower_bound": bound, "gap": law.design.epsilon - bound}
        record = self.best_with_records
        return out | {
            "keeps_records": asking.keeps_records,
            "workload": self.workload.name,
            "total_epsilon": self.total,
            "records_only": self.asked.records_only,
            "error_lower_bound": None if law is None else law.lower_error,
            "error_gap": None if law is None else self.gap,
            "least_total": least,
            "error_bound": self.error_bound,
            "error_over_bound": self.error / self.error_bound,
            "best": self.best.name,
            "best_with_records": None if record is None else record.name,
            "protocol": self.protocol.name,
            "protocols": self._rows(),
            "sentences": list(self.sentences()),
            "tables": in_json(self.predictions),
            **super().summary(),
        }


def predictions(domain: Domain, workload: Workload, asking: Asking, n: int | None) -> Iterable[Prediction]:
    """Iterate over predictions for the tables of the workload.

    One for each kind of alike tables if there are more than 5000.
    """
    wanted = workload.tables
    if len(wanted) > MAX_LISTED:
        representatives = {frozenset(domain.names[i] for i in t) for t in workload.arrays(domain).tables}
        wanted = tuple(t for t in wanted if frozenset(t.attributes) in representatives)
    for t, error in zip(wanted, asking.table_errors([t.attributes for t in wanted]), strict=True):
        cells = t.cells(domain)
        yield Prediction(t.attributes, t.weight, error, 1 - 1 / cells, cells, n, t.standard_error)
