"""A plan: the question, the choice with its numbers, the alternatives seen and the reason, and all that follows from them.

    plan = optrr.plan({"theft": ["yes", "no"], "class": 5}, margin=4, n=1000, reason="…")
    plan.summary(); plan.statement(); plan.save("plan")

The numbers are those of :func:`optrr.allocate`, which is called again where a plan is opened.

A plan hands over one folder with everything from the specification to the analysis, whole or not at all. Files of an earlier
plan are replaced, and no others. ``tables.toml`` is there where the tables have no name of their own.
"""

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import to_builtins

from optrr.allocation.allocating import Allocation, allocate
from optrr.allocation.strategies import comparable
from optrr.allocation.workload import WorkloadLike
from optrr.core import files
from optrr.core.design import Asking, Declared, Specification
from optrr.core.display import (
    Page,
    Result,
    Table,
    brief,
    crossed,
    epsilon_text,
    in_json,
    nearness,
    page_html,
)
from optrr.core.errors import InvalidInput
from optrr.core.provenance import Given, is_file, path_of
from optrr.core.records import was_killed, whole_files
from optrr.planner.meaning import Meaning
from optrr.planner.plan_file import SeenWay, choice, is_plan, meaning_of, plan_toml, read_plan, toml_text, verify_plan
from optrr.planner.preview import POINTS, Point, Preview, allocated, point
from optrr.planner.question import LEAST_TOTAL, MOST_PEOPLE, MOST_TOTAL, Question
from optrr.planner.statement import device_numbers, statement

if TYPE_CHECKING:
    import pyarrow as pa

# A total that is looked for is a whole number of these parts of a nat, as totals are shown, and rounded up.
_PARTS = 1e6
# A margin that is missed by less than this share is reached: totals and errors are doubles.
_REACHED = 1e-9
# Totals that are tried above one that does not do grow by this factor, until one does; then they are halved to this share.
_STEP, _NEAR = 1.05, 1e-3
# A margin that is undercut by more than this share is had with less.
_SLACK = 1e-4
_TOTAL, _PEOPLE = 1.0, 1000


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Result):
    """A recorded decision.

    A question, its allocation, the reason, and the alternatives considered.
    """

    question: Question
    point: Point
    reason: str = ""
    seen: tuple[SeenWay, ...] = ()

    drawn: ClassVar[tuple[str, ...]] = ("margin",)

    @classmethod
    def of(cls, question: Question, reason: str = "", seen: Sequence[SeenWay] = ()) -> "Plan":
        """Build the plan of a question; raise as :func:`optrr.allocate` does."""
        made = allocated(question)
        out = cls(question, point(question, made), reason, tuple(seen))
        # what was just computed need not be computed again
        out.__dict__["allocation"] = made
        return out

    @cached_property
    def allocation(self) -> Allocation:
        """All compared protocols, the chosen one first.

        Computed again if not known.
        """
        return allocated(self.question)

    @property
    def asking(self) -> Asking:
        """What to save, ask and estimate with."""
        return self.allocation.asking

    @cached_property
    def preview(self) -> Preview:
        """What the choice buys with n people."""
        return Preview(self.question, self.point)

    def meant(self, prior: float = 0.1, releases: int = 1) -> "Plan":
        """Change the attacker's prior belief and the number of releases.

        The belief about a person is in 0.001..0.999.
        """
        out = replace(self, question=replace(self.question, prior=prior, releases=releases))
        out.__dict__["allocation"] = self.allocation
        return out

    @property
    def meaning(self) -> Meaning:
        """What the total means for one person."""
        return meaning_of(self.preview)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before using it."""
        wished = self.question.margin
        largest = max((table.margin for table in self.preview.tables), default=0.0)
        if wished is None or largest <= wished * (1 + _REACHED):
            return self.point.warnings
        needed = f"a margin of ± {wished:g} points was wished for, and some table has ± {largest:.3g}"
        return (*self.point.warnings, f"{needed}; raise the total, or ask more people")

    def headline(self) -> str:
        """Summarize respondents, privacy budget, protocol and accuracy."""
        return (
            f"total epsilon {epsilon_text(self.point.epsilon)} for {self.question.n:,} people by {self.point.way.name}: "
            f"typically ± {self.preview.typical_margin:.3g} points, {nearness(self.preview.over_bound)}"
        )

    def summary(self) -> dict[str, Any]:
        """Return plain values for JSON.

        The question, the choice with its numbers, the alternatives, and predicted errors.
        """
        return {
            "question": self.question.state(),
            "choice": in_json(choice(self.preview, self.asking)),
            "device": in_json(device_numbers(self.asking)),
            "seen": in_json(to_builtins(self.seen)),
            "reason": self.reason,
            "expected": in_json(self.preview.tables),
            "sentences": list(self.point.sentences),
            "warnings": list(self.warnings),
        }

    def to_arrow(self) -> "pa.Table":
        """Convert to a table with one row per required table.

        Cells, and ± percentage points (95 % confidence) in all and by sampling alone.
        """
        import pyarrow as pa  # noqa: PLC0415 (slow to import, and help needs none of it)

        tables = self.preview.tables
        return pa.table(
            {
                "table": [crossed(t.attributes) for t in tables],
                "cells": [t.cells for t in tables],
                "margin": [t.margin for t in tables],
                "sampling_margin": [t.sampling_margin for t in tables],
            }
        )

    def _axis(self) -> tuple[str, float | None]:
        return "± percentage points", None

    def tables_shown(self, most: int | None = None) -> Sequence[Table]:
        """List the predicted errors of each table."""
        rows = [(crossed(t.attributes), t.cells, t.margin, t.sampling_margin) for t in self.preview.tables]
        table = Table(["table", "cells", "± points", "by sampling alone"], rows)
        return [table if most is None else table.first(most)]

    def sentences(self) -> Sequence[str]:
        """State the meaning of the total for one person."""
        return self.meaning.sentences()

    def statement(self) -> Page:
        """Build the statement for an ethics board.

        Its HTML (:func:`optrr.core.display.parts.page_html`) prints on two sheets.
        """
        return statement(self.preview, self.asking, self.seen, self.reason)

    def to_toml(self) -> str:
        """Format the decision as ``plan.toml``."""
        return plan_toml(self.preview, self.asking, self.seen, self.reason)

    def save(self, folder: str | Path) -> tuple[Path, ...]:
        """Write all that the plan hands over, whole or not at all; returns the files.

        Raises InvalidInput where that would overwrite what no plan wrote, or a design that reports may have been gathered by.
        """
        return hand_over(
            folder,
            self.preview,
            self.asking,
            decision_toml=self.to_toml(),
            statement_html=page_html(self.statement()),
        )


def plan(  # noqa: PLR0913 (public: each argument is one choice of the user)
    domain: Declared,
    total: float | None = None,
    *,
    workload: WorkloadLike = "marginals",
    n: int | None = None,
    records_only: bool = False,
    protocol: str | None = None,
    margin: float | None = None,
    reason: str = "",
) -> Plan:
    """Choose a total ε for a margin of error and record the decision.

    Or record the accuracy of a given total.

    Parameters
    ----------
    domain
        a specification, its file or a plan's, a Domain, or a mapping of names to categories or sizes.
    total
        ε in nats that each person spends, 0.05..20. Where it is left out, the least one for the ``margin``, or 1.
    workload, records_only
        as of :func:`optrr.allocate`.
    n
        number of respondents. Where it is left out, as few as the ``margin`` needs at the total, or 1000.
    protocol
        name of a protocol to take instead of the best.
    margin
        ± on each proportion, in percentage points with 95 % confidence, as a root mean square over a table's cells.
    reason
        why this choice, for the record.

    Returns
    -------
    Plan
        for an attacker who thinks 10 % likely what is true of a person, and one release; :meth:`Plan.meant` changes both.

    Raises
    ------
    InvalidInput, Infeasible
        one line each; where the margin cannot be had, with the number that can.

    Examples
    --------
    >>> import optrr
    >>> plan = optrr.plan({"theft": ["yes", "no"], "class": 5}, margin=5, n=2000, reason="for the school board")
    >>> max(table.margin for table in plan.preview.tables) <= 5
    True
    """
    specification = specification_of(domain)
    question = Question.of(
        specification,
        workload,
        total=_TOTAL if total is None else total,
        n=_PEOPLE if n is None else n,
        keep="records" if records_only else None,
        way=protocol,
        margin=margin,
    )
    if margin is not None and total is None:
        return _least_total(question, margin, reason)
    made = Plan.of(question, reason)
    if margin is None or n is not None:
        return made
    people, best = min(
        ((Preview(question, each).people_for(margin) or MOST_PEOPLE + 1, each) for each in _points(made)),
        key=lambda one: one[0],
    )
    if people > MOST_PEOPLE:
        raise InvalidInput(
            f"no number of people gives ± {margin:g} points at a total of {question.total:g} by {made.point.way.name}; "
            "raise the total, or choose another protocol"
        )
    return Plan.of(replace(question, n=people, way=_way(made, best)), reason)


def specification_of(given: Declared) -> Specification:
    """Return the specification of the argument.

    Itself, a file's, that of a plan's file, or of a domain.
    """
    if is_file(given) and is_plan(path_of(given)):
        return read_plan(path_of(given)).question.specification
    return Specification.of(given)


def load_plan(path: Given, *, limited: bool = True) -> Plan:
    """Load and recompute a plan; see :func:`optrr.load`.

    Raises InvalidInput if a number differs.
    """
    result = verify_plan(path, limited=limited)
    if not result.holds:
        raise InvalidInput(f"plan {path} does not hold: {result.headline()}; make it again with optrr.plan")
    recorded = read_plan(path)
    return Plan.of(recorded.question, recorded.reason, recorded.seen)


def _least_total(question: Question, margin: float, reason: str) -> Plan:
    """Find the plan with the least total at which a protocol has this margin.

    For every table, rounded up to the sixth decimal.

    An allocation with the errors required says where to begin. Where all ways, as they are best on average at that total, leave
    some table with more, higher totals are tried, and where one has less, lower ones. Questions that are best for the largest
    error instead may do with less: :func:`optrr.allocate` with ``standard_error`` has them.
    """
    needed = allocate(
        question.specification,
        workload=question.learn,
        n=question.n,
        standard_error=margin / POINTS,
        records_only=question.keep is not None,
    )
    named = next((each for each in needed.protocols if each.name == question.way), None)
    high = max(_rounded_up(needed.epsilon if named is None else named.epsilon), LEAST_TOTAL)
    if high > MOST_TOTAL:
        raise _too_small(margin, question)
    made, low = _closest(question.at(high), reason), high
    while not _reaches(made, margin):
        low, high = high, min(_rounded_up(high * _STEP), MOST_TOTAL)
        if low == high:
            raise _too_small(margin, question)
        made = _closest(question.at(high), reason)
    if low == high and _reaches(made, margin * (1 - _SLACK)):
        # a way that is compared at a total alone does with less
        low = max(needed.total_bound or 0.0, LEAST_TOTAL)
    while high > low * (1 + _NEAR):
        middle = _rounded_up(math.sqrt(low * high))
        tried = _closest(question.at(middle), reason)
        low, high, made = (low, middle, tried) if _reaches(tried, margin) else (middle, high, made)
    return made


def _closest(question: Question, reason: str) -> Plan:
    """Find the plan of the protocol with the smallest largest margin.

    The best on average if it is as good.
    """
    made = Plan.of(question, reason)
    best = min(_points(made), key=lambda each: _worst_margin(question, each))
    way = _way(made, best)
    return made if way == question.way else Plan.of(replace(question, way=way), reason)


def _worst_margin(question: Question, each: Point) -> float:
    return comparable(max(table.margin for table in Preview(question, each).tables))


def _points(made: Plan) -> list[Point]:
    """List the chosen protocol's point, or those of all admissible ones.

    All if no protocol was chosen.
    """
    question, allocation = made.question, made.allocation
    if question.way is not None:
        return [made.point]
    others = [o for o in allocation.protocols if o.suits and o.name != made.point.way.name and math.isfinite(o.error)]
    kept = [o for o in others if o.keeps_records or question.keep is None]
    return [made.point, *(point(question, allocation.choosing(o.name)) for o in kept)]


def _way(made: Plan, best: Point) -> str | None:
    """Name the protocol of a point; None if it is the chosen one."""
    return made.question.way if best is made.point else best.way.name


def _too_small(margin: float, question: Question) -> InvalidInput:
    return InvalidInput(
        f"± {margin:g} points needs a total above {MOST_TOTAL:g} nats with {question.n} people; ask more people, or take a "
        "larger margin"
    )


def _reaches(made: Plan, margin: float) -> bool:
    return max(table.margin for table in made.preview.tables) <= margin * (1 + _REACHED)


def _rounded_up(total: float) -> float:
    return math.ceil(total * _PARTS) / _PARTS


_PLAN = "plan.toml"
_TABLES = "tables.toml"
# What a plan may hand over, the plan first.
_NAMES = (
    _PLAN,
    "specification.toml",
    _TABLES,
    "design.json",
    "sampler.json",
    "statement.html",
    "analysis.py",
    "README.txt",
)


def hand_over(
    folder: str | Path, preview: Preview, asking: Asking, *, decision_toml: str, statement_html: str
) -> tuple[Path, ...]:
    """Write everything into a folder and return the files, the plan first.

    The folder is created if it is missing.

    Raises InvalidInput where a file of one of these names is no plan's, where reports may have been gathered by the plan that
    stands there.
    """
    place = Path(folder)
    refuse_foreign(place, asking.digest)
    with TemporaryDirectory(prefix="optrr-plan-") as name:
        made = Path(name)
        (made / _PLAN).write_text(decision_toml, encoding="utf-8")
        (made / "statement.html").write_text(statement_html, encoding="utf-8")
        _write(made, preview, asking)
        written = [each for each in _NAMES if (made / each).exists()]
        new = not place.exists()
        try:
            place.mkdir(exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"cannot make the folder {place}: {error.strerror}; choose another") from error
        try:
            with whole_files([place / each for each in written]) as paths:
                for path in paths:
                    shutil.copyfile(made / path.name, path)
        except BaseException:
            if new and not any(place.iterdir()):
                place.rmdir()
            raise
    for each in _NAMES:
        # an earlier plan's, which this one does not need
        if each not in written:
            (place / each).unlink(missing_ok=True)
    return tuple(place / each for each in written)


def refuse_foreign(place: Path, digest: str | None = None) -> None:
    """Raise InvalidInput if a file would be lost that no plan wrote.

    Given a digest, also another design that reports may need.
    """
    if place.exists() and not place.is_dir():
        raise InvalidInput(f"{place} is a file; name a folder for the plan")
    there = [name for name in _NAMES if (place / name).exists()]
    if not there:
        return
    if was_killed(place / _PLAN):
        return
    if not is_plan(place / _PLAN):
        raise InvalidInput(f"{place / there[0]} was written by no plan and would be lost; choose another folder")
    others = sorted(
        each.name for each in place.iterdir() if each.name not in _NAMES and not each.name.startswith((".", "_"))
    )
    if others and digest is not None and read_plan(place / _PLAN).choice.get("digest") != digest:
        raise InvalidInput(
            f"{place} holds {brief(others[0])} beside another plan, whose reports may need its design; choose another folder"
        )


def _write(made: Path, preview: Preview, asking: Asking) -> None:
    from jinja2 import Environment, PackageLoader  # noqa: PLC0415 (only plans that are handed over need it)

    question = preview.question
    (made / "specification.toml").write_text(question.specification.to_toml(), encoding="utf-8")
    if not question.learn.word:
        wanted = [{"attributes": list(t.attributes)} for t in question.learn.tables]
        (made / _TABLES).write_text(toml_text({"tables": wanted}), encoding="utf-8")
    files.save(asking, made / "design.json")
    refusal = spent = None
    try:
        spent = epsilon_text(files.export(asking, made / "sampler.json").numbers["epsilon"])
    except InvalidInput as error:
        refusal = error
    known = [table.attributes for table in preview.point.tables if table.error < float("inf")]
    named = ", ".join(map(repr, known[0])) if known else "…"
    texts = Environment(loader=PackageLoader("optrr.planner"), trim_blocks=True, keep_trailing_newline=True)
    analysis = texts.get_template("analysis.py.txt").render(tables=[repr(tuple(names)) for names in known])
    (made / "analysis.py").write_text(analysis, encoding="utf-8")
    written = {each.name for each in made.iterdir()}
    about = texts.get_template("README.txt").render(written=written, names=named, refusal=refusal, spent=spent)
    (made / "README.txt").write_text(about, encoding="utf-8")
