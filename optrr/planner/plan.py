"""A plan: the question, the choice with its numbers, the alternatives considered, the reason, and the files for the survey.

    plan = optrr.plan({"theft": ["yes", "no"], "class": 5}, margin=4, n=1000, reason="…")
    plan.summary(); plan.statement(); plan.save("plan")

The numbers come from :func:`optrr.allocate`, which is called again when a plan is opened.

:meth:`Plan.save` writes one folder with everything from the specification to the analysis, completely or not at all. It
replaces files of an earlier plan, and no others. ``tables.toml`` is written if the tables have no common name.
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
from optrr.planner.statement import Device, statement

if TYPE_CHECKING:
    import pyarrow as pa

# Parts of a nat to which a computed total is rounded up, as totals are shown.
_PARTS = 1e6
# Relative excess up to which a margin counts as reached, because totals and errors are doubles.
_REACHED = 1e-9
# Factor by which totals grow until one reaches the margin, and relative width at which the bisection then stops.
_STEP, _NEAR = 1.05, 1e-3
# Relative slack of a margin above which a smaller total is tried.
_SLACK = 1e-4
_TOTAL, _PEOPLE = 1.0, 1000


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Result):
    """A recorded decision: question, allocation, reason and alternatives."""

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
        # keep the allocation that was just computed
        out.__dict__["allocation"] = made
        return out

    @cached_property
    def allocation(self) -> Allocation:
        """All compared protocols, the chosen one first; computed again if unknown."""
        return allocated(self.question)

    @property
    def asking(self) -> Asking:
        """Protocol to save, randomize and estimate with."""
        return self.allocation.asking

    @cached_property
    def device(self) -> Device:
        """What a device draws with: its file and its ε."""
        return Device.of(self.asking)

    @cached_property
    def preview(self) -> Preview:
        """Errors and intervals of the choice with n people."""
        return Preview(self.question, self.point)

    def meant(self, prior: float = 0.1, releases: int = 1) -> "Plan":
        """Change the attacker's prior belief and the number of releases.

        The belief about a person must be within 0.001..0.999.
        """
        out = replace(self, question=replace(self.question, prior=prior, releases=releases))
        out.__dict__["allocation"] = self.allocation
        return out

    @property
    def meaning(self) -> Meaning:
        """Effect of the total on an attacker's belief about one person."""
        return meaning_of(self.preview)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to read before using the plan, one line each."""
        wished = self.question.margin
        largest = max((table.margin for table in self.preview.tables), default=0.0)
        if wished is None or largest <= wished * (1 + _REACHED):
            return self.point.warnings
        needed = f"the required margin of ± {wished:g} points is not met: some table has ± {largest:.3g}"
        return (*self.point.warnings, f"{needed}; raise the total, or ask more people")

    def headline(self) -> str:
        """Summarize respondents, privacy budget, protocol and accuracy."""
        return (
            f"total epsilon {epsilon_text(self.point.epsilon)} for {self.question.n:,} people by "
            f"{self.point.way.name}: typically ± {self.preview.typical_margin:.3g} points, "
            f"{nearness(self.preview.over_bound)}"
        )

    def summary(self) -> dict[str, Any]:
        """Return plain values for JSON.

        They are the question, the choice with its numbers, the alternatives, and predicted errors.
        """
        return {
            "question": self.question.state(),
            "choice": in_json(choice(self.preview, self.asking)),
            "device": in_json(self.device.numbers()),
            "seen": in_json(to_builtins(self.seen)),
            "reason": self.reason,
            "expected": in_json(self.preview.tables),
            "sentences": list(self.point.sentences),
            "warnings": list(self.warnings),
        }

    def to_arrow(self) -> "pa.Table":
        """Convert to a table with one row per required table.

        Columns: cells, and ± percentage points (95 % confidence) in total and by sampling alone.
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
        """Write all files of the plan, completely or not at all, and return them.

        Raises InvalidInput if that would overwrite files that are not from a plan, or a design of which reports may
        exist.
        """
        texts = {_PLAN: self.to_toml(), "statement.html": page_html(self.statement())}
        return hand_over(folder, self.preview, self.asking, self.device, texts)


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

    Parameters
    ----------
    domain
        a specification, its file or a plan's, a Domain, or a mapping of names to categories or sizes.
    total
        privacy budget ε of each person in nats, 0.05..20; by default the smallest for ``margin``, or 1.
    workload, records_only
        as in :func:`optrr.allocate`.
    n
        number of respondents; by default the fewest for ``margin`` at the total, or 1000.
    protocol
        name of a protocol to use instead of the best.
    margin
        ± on each proportion, in percentage points with 95 % confidence, as a root mean square over a table's cells.
    reason
        reason of the choice, for the record.

    Returns
    -------
    Plan
        recorded decision, for an attacker with prior belief 10 % and one release; :meth:`Plan.meant` changes both.

    Raises
    ------
    InvalidInput, Infeasible
        if an argument is not allowed, or if the margin cannot be reached; the message states the margin that can.

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
            f"no number of people gives ± {margin:g} points at a total of {question.total:g} by "
            f"{made.point.way.name}; raise the total, or choose another protocol"
        )
    return Plan.of(replace(question, n=people, way=_way(made, best)), reason)


def specification_of(given: Declared) -> Specification:
    """Return the specification of a specification, file, plan file or domain."""
    if is_file(given) and is_plan(path_of(given)):
        return read_plan(path_of(given)).question.specification
    return Specification.of(given)


def load_plan(path: Given, *, limited: bool = True) -> Plan:
    """Load and recompute a plan; see :func:`optrr.load`.

    Raises InvalidInput if a number differs.
    """
    result = verify_plan(path, limited=limited)
    if not result.holds:
        raise InvalidInput(f"plan {path} is not valid: {result.headline()}; make it again with optrr.plan")
    recorded = read_plan(path)
    return Plan.of(recorded.question, recorded.reason, recorded.seen)


def _least_total(question: Question, margin: float, reason: str) -> Plan:
    """Find the plan with the least total at which a protocol has this margin.

    The margin holds for all tables, and the total is rounded up to the sixth decimal. The search starts from an
    allocation with the required errors. If every protocol, optimized for the average error at that total, exceeds the
    margin in some table, higher totals are tried; if one stays below it, lower ones. Protocols optimized for the
    largest error instead may need less: :func:`optrr.allocate` with ``standard_error`` computes them.
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
        # a protocol that is compared at a given total may need less
        low = max(needed.total_bound or 0.0, LEAST_TOTAL)
    while high > low * (1 + _NEAR):
        middle = _rounded_up(math.sqrt(low * high))
        tried = _closest(question.at(middle), reason)
        low, high, made = (low, middle, tried) if _reaches(tried, margin) else (middle, high, made)
    return made


def _closest(question: Question, reason: str) -> Plan:
    """Find the plan whose protocol has the smallest largest margin.

    The protocol that is best on average is taken if it is as good.
    """
    made = Plan.of(question, reason)
    best = min(_points(made), key=lambda each: _worst_margin(question, each))
    way = _way(made, best)
    return made if way == question.way else Plan.of(replace(question, way=way), reason)


def _worst_margin(question: Question, each: Point) -> float:
    return comparable(max(table.margin for table in Preview(question, each).tables))


def _points(made: Plan) -> list[Point]:
    """List the chosen protocol's point, or those of all admissible ones."""
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
        f"± {margin:g} points needs a total of more than {MOST_TOTAL:g} nats with {question.n} people; ask more "
        "people, or accept a larger margin"
    )


def _reaches(made: Plan, margin: float) -> bool:
    return max(table.margin for table in made.preview.tables) <= margin * (1 + _REACHED)


def _rounded_up(total: float) -> float:
    return math.ceil(total * _PARTS) / _PARTS


_PLAN = "plan.toml"
_TABLES = "tables.toml"
# Files of a plan, the plan first.
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
    folder: str | Path, preview: Preview, asking: Asking, device: Device, texts: dict[str, str]
) -> tuple[Path, ...]:
    """Write all files, with the ``texts`` by name, into a folder and return them.

    The folder is created if it is missing. Raises InvalidInput if a file of one of these names is not from a plan, or
    if reports may exist that were collected with the plan in the folder.
    """
    place = Path(folder)
    refuse_foreign(place, asking.digest)
    with TemporaryDirectory(prefix="optrr-plan-") as name:
        made = Path(name)
        for name_of_text, text in texts.items():
            (made / name_of_text).write_text(text, encoding="utf-8")
        _write(made, preview, asking, device)
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
        # files of an earlier plan that this one does not need
        if each not in written:
            (place / each).unlink(missing_ok=True)
    return tuple(place / each for each in written)


def refuse_foreign(place: Path, digest: str | None = None) -> None:
    """Raise InvalidInput if a file would be lost that is not from a plan.

    With a digest, also if another design would be lost that reports may need.
    """
    if place.exists() and not place.is_dir():
        raise InvalidInput(f"{place} is a file; name a folder for the plan")
    there = [name for name in _NAMES if (place / name).exists()]
    if not there:
        return
    if was_killed(place / _PLAN):
        return
    if not is_plan(place / _PLAN):
        raise InvalidInput(f"{place / there[0]} was written by no plan and would be overwritten; choose another folder")
    others = sorted(
        each.name for each in place.iterdir() if each.name not in _NAMES and not each.name.startswith((".", "_"))
    )
    if others and digest is not None and read_plan(place / _PLAN).choice.get("digest") != digest:
        raise InvalidInput(
            f"{place} holds {brief(others[0])} of another plan, whose reports may need its design; choose another "
            "folder"
        )


def _write(made: Path, preview: Preview, asking: Asking, device: Device) -> None:
    from jinja2 import Environment, PackageLoader  # noqa: PLC0415 (only plans that are handed over need it)

    question = preview.question
    (made / "specification.toml").write_text(question.specification.to_toml(), encoding="utf-8")
    if not question.learn.word:
        wanted = [{"attributes": list(t.attributes)} for t in question.learn.tables]
        (made / _TABLES).write_text(toml_text({"tables": wanted}), encoding="utf-8")
    files.save(asking, made / "design.json")
    if device.raw:
        (made / "sampler.json").write_bytes(device.raw)
    known = [table.attributes for table in preview.point.tables if table.error < float("inf")]
    named = ", ".join(map(repr, known[0])) if known else "…"
    texts = Environment(loader=PackageLoader("optrr.planner"), trim_blocks=True, keep_trailing_newline=True)
    analysis = texts.get_template("analysis.py.txt").render(tables=[repr(tuple(names)) for names in known])
    (made / "analysis.py").write_text(analysis, encoding="utf-8")
    written = {each.name for each in made.iterdir()}
    about = texts.get_template("README.txt").render(
        written=written, names=named, refusal=device.refusal, spent=epsilon_text(device.epsilon)
    )
    (made / "README.txt").write_text(about, encoding="utf-8")
