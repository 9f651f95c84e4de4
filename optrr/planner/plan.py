"""A plan: the question, the choice with its numbers, the reason, and the files for the survey.

    plan = optrr.plan({"theft": ["yes", "no"], "class": 5}, margin=4, n=1000, reason="…")
    plan.summary(); plan.statement(); plan.save("plan")

The numbers come from :func:`optrr.allocate`. :meth:`Plan.save` writes one folder with everything from the specification
to the analysis, completely or not at all. It replaces files of an earlier plan, and no others.
"""

import math
import shutil
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from optrr.allocation.allocating import Allocation
from optrr.allocation.workload import WorkloadLike
from optrr.core import files
from optrr.core.design import Asking, Declared, Specification, toml_text
from optrr.core.display import Result, Table, brief, crossed, epsilon_text, in_json, nearness
from optrr.core.domain import shown
from optrr.core.errors import InvalidInput, warn
from optrr.core.provenance import Given
from optrr.core.records import was_killed, whole_files
from optrr.planner.device import Device
from optrr.planner.meaning import Meaning
from optrr.planner.plan_file import choice, is_plan, meaning_of, plan_toml, read_plan, verify_plan
from optrr.planner.preview import REACHED, Point, Preview, allocated, people_needed, point
from optrr.planner.question import LEAST_TOTAL, MOST_MARGIN, MOST_PEOPLE, MOST_TOTAL, Margins, Question
from optrr.planner.statement import statement

if TYPE_CHECKING:
    import pyarrow as pa

# Parts of a nat to which a computed total is rounded up, as totals are shown.
_PARTS = 1e6
# Relative width of the interval at which the search of a total stops, and logarithm of an impossible number of people.
_NEAR, _IMPOSSIBLE = 1e-4, 50.0


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Result):
    """A recorded decision: question, allocation (all compared protocols, the chosen one marked) and reason."""

    question: Question
    allocation: Allocation
    reason: str = ""

    @classmethod
    def of(cls, question: Question, reason: str = "") -> "Plan":
        """Build the plan of a question; raise as :func:`optrr.allocate` does."""
        return cls(question, allocated(question), reason)

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
        return Preview(self.question, point(self.question, self.allocation))

    @property
    def point(self) -> Point:
        """Results at the total."""
        return self.preview.point

    def meant(self, prior: float = 0.1, releases: int = 1) -> "Plan":
        """Change the attacker's prior belief about a person, 0.001..0.999, and the number of releases."""
        return replace(self, question=replace(self.question, prior=prior, releases=releases))

    @property
    def meaning(self) -> Meaning:
        """Effect of the total on an attacker's belief about one person."""
        return meaning_of(self.preview)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to read before using the plan, one line each."""
        missed = (
            f"the required margin is not met: {crossed(table.attributes)} has ± {_points(table.margin)} instead of "
            f"± {self.question.margin_of(table.attributes):g} points; raise the total, or ask more people"
            for table in self.preview.missed[:1]
        )
        return (*self.point.warnings, *map(_left_out, self.question.left_out), *missed)

    def headline(self) -> str:
        """Summarize respondents, privacy budget, protocol and accuracy."""
        return (
            f"total epsilon {epsilon_text(self.point.epsilon)} for {self.question.n:,} people by {self.point.way.name}: "
            f"typically ± {_points(self.preview.typical_margin)} points, {nearness(self.preview.over_bound)}"
        )

    def summary(self) -> dict[str, Any]:
        """Return the question, the choice with its numbers, and predicted errors as plain values for JSON."""
        raw, epsilon, conditional, refusal = self.device
        return {
            "question": self.question.state(),
            "choice": in_json(choice(self.preview, self.asking)),
            "device": {"epsilon": epsilon, "conditional_epsilon": conditional, "bytes": len(raw), "refusal": refusal},
            "reason": self.reason,
            "expected": in_json([table._asdict() for table in self.preview.tables]),
            "sentences": list(self.point.sentences),
            "warnings": list(self.warnings),
        }

    def to_arrow(self) -> "pa.Table":
        """Convert to a table: cells and ± percentage points of each table, in total and by sampling alone."""
        import pyarrow as pa  # noqa: PLC0415 (slow to import, and help needs none of it)

        rows = [table._asdict() | {"attributes": crossed(table.attributes)} for table in self.preview.tables]
        return pa.Table.from_pylist(rows).rename_columns(["table", "cells", "margin", "sampling_margin"])

    def tables_shown(self, most: int | None = None) -> list[Table]:
        """List the predicted errors of each table."""
        rows = [(crossed(t.attributes), t.cells, _points(t.margin), t.sampling_margin) for t in self.preview.tables]
        table = Table(["table", "cells", "± points", "by sampling alone"], rows)
        return [table if most is None else table.first(most)]

    def sentences(self) -> tuple[str, ...]:
        """State the meaning of the total for one person."""
        return self.meaning.sentences()

    def statement(self) -> str:
        """Write the statement for an ethics board as HTML that prints on two sheets."""
        return statement(self.preview, self.asking, self.reason, self.device)

    def to_toml(self) -> str:
        """Format the decision as ``plan.toml``."""
        return plan_toml(self.preview, self.asking, self.reason)

    def save(self, folder: str | Path) -> tuple[Path, ...]:
        """Write all files of the plan, completely or not at all, and return them; raise as :func:`refuse_foreign`."""
        place = Path(folder)
        refuse_foreign(place, self.asking.digest)
        with TemporaryDirectory(prefix="optrr-plan-") as name:
            made = Path(name)
            _write(made, self)
            written, new = [each for each in _NAMES if (made / each).exists()], not place.exists()
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
        for each in set(_NAMES) - set(written):
            # files of an earlier plan that this one does not need
            (place / each).unlink(missing_ok=True)
        return tuple(place / each for each in written)


def _points(margin: float) -> str:
    """Format a margin; words if it says nothing about a proportion."""
    return f"{margin:.4g}" if margin <= MOST_MARGIN else "(cannot tell)"


def _left_out(name: str) -> str:
    return f"no table needs {shown(name)}: it is left out of the survey; add its table to ask it"


def plan(  # noqa: PLR0913 (public: each argument is one choice of the user)
    domain: Declared,
    total: float | None = None,
    *,
    workload: WorkloadLike = "marginals",
    n: int | None = None,
    records_only: bool = False,
    protocol: str | None = None,
    margin: Margins | None = None,
    reason: str = "",
) -> Plan:
    """Choose a total ε for a margin of error and record the decision.

    Parameters
    ----------
    domain
        a specification or its file, a Domain, or a mapping of names to categories or sizes.
    total
        privacy budget ε of each person in nats, 0.05..20; by default the smallest for ``margin``, or 1.
    workload, records_only
        as in :func:`optrr.allocate`; attributes that no table needs are left out, with a warning.
    n
        number of respondents; by default the fewest for ``margin`` at the total, or 1000.
    protocol
        name of a protocol to use instead of the best.
    margin
        ± on each proportion, in percentage points with 95 % confidence, as a root mean square over a table's cells: of
        every table, or of single ones, ``{"theft": 4, ("theft", "class"): 6}``, and the others as they come.
    reason
        reason of the choice, for the record.

    Returns
    -------
    Plan
        recorded decision, for an attacker with prior belief 10 % and one release; :meth:`Plan.meant` changes both.

    Raises
    ------
    InvalidInput, Infeasible
        if an argument is not allowed, or if a margin cannot be reached; the message says what to change.

    Examples
    --------
    >>> import optrr
    >>> plan = optrr.plan({"theft": ["yes", "no"], "class": 5}, margin=5, n=2000, reason="for the school board")
    >>> max(table.margin for table in plan.preview.tables) <= 5
    True
    """
    choices = {"total": total, "n": n, "way": protocol, "keep": "records" if records_only else None}
    given = {name: value for name, value in choices.items() if value is not None}
    question = Question.of(Specification.of(domain), workload, margin, **given)
    warn(map(_left_out, question.left_out))
    if margin is not None and total is None:
        return _least_total(question, reason)
    if margin is None or n is not None:
        return Plan.of(question, reason)
    made = Plan.of(question, reason)
    people = people_needed(question, made.point)
    if people > MOST_PEOPLE:
        raise InvalidInput(
            f"no number of people gives {question.margins_text} at a total of {question.total:g} by "
            f"{made.point.way.name}; raise the total, or choose another protocol"
        )
    return replace(made, question=replace(question, n=math.ceil(people)))


def load_plan(path: Given, *, limited: bool = True) -> Plan:
    """Load and recompute a plan, see :func:`optrr.load`; raise InvalidInput if a number differs."""
    result = verify_plan(path, limited=limited)
    if not result.holds:
        raise InvalidInput(f"plan {path} is not valid: {result.headline()}; make it again with optrr.plan")
    recorded = read_plan(path)
    return Plan.of(recorded.question, recorded.reason)


def _least_total(question: Question, reason: str) -> Plan:
    """Find the plan with the least total at which the chosen or the best protocol has the required margins.

    The total is rounded up to the sixth decimal, and is at most a ten-thousandth larger than the least. The best
    protocol has the smallest average error; another one, or one that is optimized for the largest error
    (:func:`optrr.allocate` with ``standard_error``), may need less.
    """
    from scipy.optimize import brentq  # noqa: PLC0415 (slow to import)

    tried: dict[float, Plan] = {}

    def excess(log_total: float) -> float:
        total = min(max(math.ceil(math.exp(log_total) * _PARTS) / _PARTS, LEAST_TOTAL), MOST_TOTAL)
        if total not in tried:
            tried[total] = Plan.of(question.at(total), reason)
        needed = people_needed(question, tried[total].point)
        return math.log(needed / question.n) if math.isfinite(needed) else _IMPOSSIBLE

    low, high = math.log(LEAST_TOTAL), math.log(MOST_TOTAL)
    if excess(high) > REACHED:
        raise InvalidInput(
            f"{question.margins_text} needs a total of more than {MOST_TOTAL:g} nats with {question.n} people; ask "
            "more people, or accept a larger margin"
        )
    if excess(low) > 0:
        root = brentq(excess, low, high, xtol=_NEAR / 2)
        while excess(root) > 0:
            root += _NEAR / 4
    return next(made for _, made in sorted(tried.items()) if not made.preview.missed)


_PLAN = "plan.toml"
# Files of a plan, the plan first.
_NAMES = [_PLAN, "specification.toml", "tables.toml", "design.json", "sampler.json", "statement.html"]
_NAMES += ["analysis.py", "README.txt"]


def refuse_foreign(place: Path, digest: str | None = None) -> None:
    """Raise InvalidInput if a file would be lost that is not from a plan.

    With a digest, also if another design would be lost that reports may need.
    """
    if place.exists() and not place.is_dir():
        raise InvalidInput(f"{place} is a file; name a folder for the plan")
    there = [name for name in _NAMES if (place / name).exists()]
    if not there or was_killed(place / _PLAN):
        return
    if not is_plan(place / _PLAN):
        raise InvalidInput(f"{place / there[0]} was written by no plan and would be overwritten; choose another folder")
    others = sorted({each.name for each in place.iterdir() if not each.name.startswith((".", "_"))} - set(_NAMES))
    if others and digest is not None and read_plan(place / _PLAN).choice.get("digest") != digest:
        raise InvalidInput(
            f"{place} holds {brief(others[0])} of another plan, whose reports may need its design; choose another folder"
        )


def _write(made: Path, plan: Plan) -> None:
    """Write all files of a plan into an empty folder."""
    from jinja2 import Environment, PackageLoader  # noqa: PLC0415 (only plans that are handed over need it)

    question, device = plan.question, plan.device
    known = [tuple(table.attributes) for table in plan.point.tables if math.isfinite(table.error)]
    texts = {_PLAN: plan.to_toml(), "specification.toml": question.specification.to_toml()}
    texts["statement.html"] = plan.statement()
    if not question.learn.word:
        texts["tables.toml"] = toml_text(
            {"tables": [{"attributes": list(t.attributes)} for t in question.learn.tables]}
        )
    files.save(plan.asking, made / "design.json")
    if device.raw:
        (made / "sampler.json").write_bytes(device.raw)
    about = {"written": {*texts, *(each.name for each in made.iterdir())}, "tables": list(map(repr, known))}
    about |= {"names": ", ".join(map(repr, known[0])) if known else "…"}
    about |= {"refusal": device.refusal, "spent": epsilon_text(device.epsilon)}
    templates = Environment(loader=PackageLoader("optrr.planner"), trim_blocks=True, keep_trailing_newline=True)
    for name, template in (("analysis.py", "analysis.py.txt"), ("README.txt", "README.txt")):
        texts[name] = templates.get_template(template).render(about)
    for name, text in texts.items():
        (made / name).write_text(text, encoding="utf-8")
