"""What an allocation hands back: every way of asking, the best one's predicted errors, and what no mechanism can be below."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from optrr.allocation.strategies import Strategy
from optrr.allocation.workload import Workload
from optrr.core.design import Asking, Design
from optrr.core.display import (
    COLOURS,
    PAGE_WIDTH,
    TableResult,
    amount,
    bound_text,
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

# More tables than this are predicted by kind only.
MAX_LISTED = 5000
# The largest error of answering 1/2 without asking anybody: a proportion lies within 0..1.
_USELESS = 0.5
# How the note begins that an allocated design carries; it is a record, not a warning.
NOTE = "allocated"
# Of which laws a bound on errors holds where floors, ceilings, caps or standard errors were asked for.
LIMITS = " and these limits"
# Where a sentence goes on from who wins to what that costs.
_COST = " It gives up: "
# Two options within this of each other, relative, are called equal.
_EQUAL = 0.01
# Predicted errors are bounds over all populations. Where sampling and the rest are within this factor of each other, a skewed
# population may turn their order: on Adult, a bound of 65 stands for an error of 44.
_NEAR = 1.7


@dataclass(frozen=True)
class Prediction:
    """What to expect of one table.

    ``error`` is G_U, an upper bound of n E‖π̂_U − π_U‖² for every population; ``sampling_error`` the part of it that is left
    without any randomization; ``standard_error`` the root mean square over cells with n people, None without n.
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
        """As plain values for JSON."""
        out: dict[str, Any] = {"attributes": list(self.attributes), "weight": self.weight, "cells": self.cells}
        out |= {"error": self.error, "sampling_error": self.sampling_error, "standard_error": self.standard_error}
        return out | ({"required_standard_error": self.required} if self.required is not None else {})


@dataclass(frozen=True, eq=False)
class BestLaw:
    """The best law of change sets as a design, and what proves how good it is.

    ``error`` is the workload's, and no law of the same total and limits has one below ``lower_error``; ``kronecker_error`` is
    what the best split over independent attributes gives with them (None where none exists). Where accuracies were required
    instead of a total, no law that meets them has a total ε below ``least_total``.
    """

    design: Design
    method: str
    error: float
    lower_error: float | None
    kronecker_error: float | None
    least_total: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Allocation(TableResult):
    """Every way of asking for a workload, the chosen one first of all, and what no mechanism can be below.

    Parameters
    ----------
    domain, workload, n, public
        what was asked for.
    total
        E in nats; None where standard errors were required instead, so that each way has the total that it needs.
    keep
        "records" where only ways after which any table can be estimated may be chosen.
    wishes
        whether floors, ceilings, caps or pairs to preserve were asked for, which have a meaning for records only.
    ways
        by increasing error; by increasing total where that was not given.
    way
        the one that errors, predictions and ``asking`` are of: the best, unless another was chosen.
    law
        the best law of change sets; None where there is none, and then ``refusal`` says why.
    """

    domain: Domain
    workload: Workload
    n: int | None
    total: float | None
    keep: str | None
    wishes: bool
    ways: tuple[Strategy, ...]
    way: Strategy
    law: BestLaw | None
    refusal: InvalidInput | None = None
    public: PublicColumns = NONE

    in_summary = ("n", "error", "total_bound", "keep", "warnings")

    @cached_property
    def best(self) -> Strategy:
        """The best way that has all that was asked for."""
        return next(o for o in self.ways if o.suits and (o.keeps_records or self.keep is None))

    @cached_property
    def best_with_records(self) -> Strategy | None:
        """The best among those after which any table can be estimated; None where none of them has what was asked for."""
        return next((o for o in self.ways if o.suits and o.keeps_records), None)

    def option(self, name: str) -> Strategy:
        """The way of that name. Raises InvalidInput where there is none."""
        chosen = next((o for o in self.ways if o.name == name), None)
        if chosen is None:
            raise InvalidInput(f"no way of asking {name!r}; choose among {', '.join(o.name for o in self.ways)}")
        return chosen

    def choosing(self, name: str) -> "Allocation":
        """The same with the way of that name chosen. Raises InvalidInput where there is none, or it keeps no records."""
        chosen = self.option(name)
        if self.keep is not None and not chosen.keeps_records:
            raise InvalidInput(f"way {name!r} keeps no records; choose another, or do not ask that records be kept")
        return replace(self, way=chosen)

    @property
    def best_law(self) -> BestLaw:
        """The best law of change sets; where none has what was asked for, the refusal is raised."""
        if self.law is None:
            raise self.refusal or InvalidInput("there is no best law of change sets")
        return self.law

    @property
    def design(self) -> Design:
        """That law's design."""
        return self.best_law.design

    @cached_property
    def asking(self) -> Asking:
        """What to save, ask and estimate with: the chosen way."""
        return self.way.asking.beside(self.public)

    def certified(self) -> Asking:
        """The chosen way; questions with the bound on any mechanism's error, and its proof, unless they are too many."""
        total = max(self.total or 0.0, self.asking.epsilon)
        return self.asking.bounded(lambda: self.workload.error_certificate(self.domain, total))

    @property
    def epsilon(self) -> float:
        """Total ε in nats of the chosen way, as it is drawn."""
        return self.asking.epsilon

    @property
    def error(self) -> float:
        """Σ weight G_U of the chosen way."""
        return self.way.error

    @cached_property
    def error_bound(self) -> float:
        """What no mechanism of this total, of whatever form, can have less of than as error."""
        return self._bound(self.way)

    def _bound(self, option: Strategy) -> float:
        return self._bounds[option.epsilon if self.total is None else self.total]

    @cached_property
    def _bounds(self) -> dict[float, float]:
        totals = {o.epsilon for o in self.ways} if self.total is None else {self.total}
        return {total: self.workload.error_bound(self.domain, total) for total in totals}

    def over_bound(self, option: Strategy) -> float | None:
        """A way's error over what no mechanism of its total can have less of; None where it cannot estimate every table."""
        return option.error / self._bound(option) if np.isfinite(option.error) else None

    @cached_property
    def total_bound(self) -> float | None:
        """Total ε in nats below which no mechanism, of whatever form, has the standard errors required; None without any."""
        return self.workload.total_bound(self.domain, self.n) if self.workload.required else None

    @property
    def limits(self) -> str:
        """What the bound on laws' errors takes for granted beside the total, within a sentence; empty for nothing."""
        return LIMITS if self.wishes or self.workload.required else ""

    @property
    def gap(self) -> float | None:
        """By how much, relative to its error, a more accurate law of the design's total and limits is not excluded."""
        lower, error = self.best_law.lower_error, self.best_law.error
        return None if lower is None else max(error - lower, 0.0) / error

    def ratio(self, option: Strategy) -> float:
        """Its error relative to that of the best way; where totals are what is compared, its total."""
        if self.total is None:
            return option.epsilon / self.best.epsilon
        return option.error / self.best.error

    def typical_standard_error(self, option: Strategy) -> float | None:
        """Root mean square over all cells of all tables, by weight; None without n."""
        return self.workload.typical_standard_error(self.domain, option.error, self.n)

    @cached_property
    def predictions(self) -> tuple[Prediction, ...]:
        """What to expect of every table from the chosen way, of each kind of alike ones where there are more than 5000."""
        return tuple(predictions(self.domain, self.workload, self.way.asking, self.n))

    def sentences(self) -> tuple[str, ...]:
        """In words: which way is best, by how much, what that gives up, and what keeping records costs."""
        what = "squared error" if self.total is not None else "total epsilon"
        out = [self._lead(what), self._least()]
        first, record = self.ways[0], self.best_with_records
        if self.wishes:
            out.append(
                "Floors, ceilings, caps and pairs to preserve have a meaning for whole records only, so one that keeps them "
                "is chosen."
            )
        if self.keep is not None and first is not self.best and first.epsilon and np.isfinite(first.error):
            out.append(
                f"Without {'these wishes' if self.wishes else 'the wish for records'}, {first.words} has "
                f"{self.ratio(first):.3g} times the {what}."
            )
        elif not self.best.keeps_records:
            out.append(
                "If records are needed, no way has what was asked for."
                if record is None
                else f"If records are needed, {record.words} is best{'' if self.total else ' of the ways compared'}, with "
                f"{self.ratio(record):.3g} times the {what} of the winner."
            )
        whole = next((o for o in self.ways if o.suits and o.name == "optimum"), None)
        if record is not None and whole is not None and whole is not record:
            out.append(
                "If more than tables is to be made of them, such as regressions, they must be whole: the optimum has "
                f"{self.ratio(whole):.3g} times the {what} of the winner."
            )
        near = [o for o in self.ways if o.suits and self.ratio(o) <= _NEAR]
        if len({o.asks_one for o in near}) > 1 and self.total is not None and self.keep is None:
            out.append(
                "These are bounds over all populations, and for skewed tables sampling's is the looser one: so near the "
                "crossing sampling may be ahead of what is shown here."
            )
        named = {o.name: o for o in self.ways}
        if self.total is not None and {"kronecker", "optimum"} <= set(named):
            kronecker, optimum = named["kronecker"], named["optimum"]
            out.append(
                f"Kronecker's best split has {kronecker.error / optimum.error:.3g} times the optimum's squared error, at "
                f"conditional epsilon {kronecker.conditional_epsilon:.3g} instead of {optimum.conditional_epsilon:.3g}."
            )
        return tuple(out)

    def _lead(self, what: str) -> str:
        # the even and the best split of one way of asking count as one
        others = (o for o in self.ways if o.suits and o.family != self.best.family)
        runner = next((o for o in others if o.keeps_records or self.keep is None), None)
        if runner is None:
            lead = f"{self.best.title} is the only one with all that was asked for."
        elif not np.isfinite(runner.error):
            lead = f"{self.best.title} is the only one that can estimate every table."
        elif self.ratio(runner) < 1 + _EQUAL:
            same = "equally accurate" if self.total is not None else "equally cheap"
            lead = f"{self.best.title} and {runner.words} are {same} (within 1 %)."
        else:
            lead = (
                f"{self.best.title} wins: next best is {runner.words}, with {self.ratio(runner):.3g} times its {what}."
            )
        return lead + _COST + ("; ".join(self.best.gives_up) or "nothing") + "."

    def _least(self) -> str:
        if self.total is None and self.total_bound is not None:
            return (
                f"It needs a total of {epsilon_text(self.best.epsilon)}; no mechanism of any form has these standard errors "
                f"below {bound_text(self.total_bound)}."
            )
        bound = self._bound(self.best)
        return (
            f"No mechanism of this total, of whatever form, has an error below {bound:.6g}; the winner's is "
            f"{nearness(self.best.error / bound)}."
        )

    def headline(self) -> str:
        """Workload, total, the best way and by how much."""
        total = epsilon_text(self.epsilon)
        return f"workload {self.workload.name} at total epsilon {total}: {self.sentences()[0].partition(_COST)[0]}"

    def to_arrow(self) -> pa.Table:
        """One row per table of the workload: table, weight, cells, error, sampling_error, standard_error."""
        rows = [p.summary() | {"table": " × ".join(p.attributes)} for p in self.predictions]
        names = ("table", "weight", "cells", "error", "sampling_error", "standard_error")
        return pa.table({name: [row[name] for row in rows] for name in names})

    def plot(self) -> "Figure":
        """The error of each way of asking, the smallest on top; a way that cannot estimate every table has no dot."""
        shown = self.ways[::-1]
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
        """What to know before using it."""
        said = [w for w in self.asking.warnings if not w.startswith(NOTE)]
        useless = [p for p in self.predictions if p.standard_error is not None and p.standard_error > _USELESS]
        if useless:
            worst = max(useless, key=lambda p: p.standard_error or 0.0)
            which = "every table" if len(useless) == len(self.predictions) else amount(len(useless), "table")
            said.append(
                f"with n = {self.n} nothing can be learned of {which}: {' × '.join(worst.attributes)} would have a standard "
                f"error of {worst.standard_error:.3g}, and any guess within 0..1 is closer than {_USELESS:g}; "
                "ask more people, raise the total, or merge categories"
            )
        return tuple(said)

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object: the chosen way's, a design's own keys among them, then every way's.

        Where accuracies of tables were required, the lower bound is that of every law that reaches them; the design's own is
        that of its attributes' ε alone.
        """
        asking, law, way = self.asking, self.law, self.asking.summary()
        least = None if law is None else law.least_total
        if law is not None and self.way.name == "optimum":
            if least is not None:
                bound = max(law.design.lower_bound, least)
                way |= {"lower_bound": bound, "gap": law.design.epsilon - bound}
            way["method"] = law.method
        else:
            way["method"] = self.way.name
        smallest = min(o.error for o in self.ways)
        rows = [
            o.summary()
            | {
                "relative_error": in_json(o.error / smallest),
                "error_over_bound": self.over_bound(o),
                "standard_error": self.typical_standard_error(o),
            }
            | ({"epsilon": asking.epsilon} if o is self.way else {})
            for o in self.ways
        ]
        record = self.best_with_records
        return way | {
            "keeps_records": asking.keeps_records,
            "workload": self.workload.name,
            "total_epsilon": self.total,
            "error_lower_bound": None if law is None else law.lower_error,
            "error_gap": None if law is None else self.gap,
            "kronecker_error": None if law is None else law.kronecker_error,
            "least_total": least,
            "error_bound": self.error_bound,
            "error_over_bound": self.error / self.error_bound,
            "relative_error": self.error / smallest,
            "best": self.best.name,
            "best_with_records": None if record is None else record.name,
            "way": self.way.name,
            "ways": rows,
            "sentences": list(self.sentences()),
            "tables": in_json(self.predictions),
            **super().summary(),
        }


def predictions(domain: Domain, workload: Workload, asking: Asking, n: int | None) -> Iterable[Prediction]:
    """One for every table of the workload (for each kind of alike ones where there are more than 5000)."""
    wanted = workload.tables
    if len(wanted) > MAX_LISTED:
        representatives = {frozenset(domain.names[i] for i in t) for t in workload.arrays(domain).tables}
        wanted = tuple(t for t in wanted if frozenset(t.attributes) in representatives)
    for t, error in zip(wanted, asking.table_errors([t.attributes for t in wanted]), strict=True):
        cells = t.cells(domain)
        yield Prediction(t.attributes, t.weight, error, 1 - 1 / cells, cells, n, t.standard_error)
