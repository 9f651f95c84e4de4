"""optrr plan: from a margin of error, or a total epsilon, to a recorded decision, on a local page or without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from optrr.cli import printing
from optrr.cli.designing import ATTRIBUTE, PEOPLE, PROTOCOL, RECORDS_ONLY, WORKLOAD
from optrr.cli.inputs import by_name
from optrr.cli.options import argument, command, option, refuse_options
from optrr.cli.outputs import FOLDER
from optrr.cli.proposing import BINS, bins_of_text
from optrr.core.design import Proposing, Specification, parse_attributes, propose, read_specification
from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput, not_installed
from optrr.planner.plan import Plan, refuse_foreign
from optrr.planner.plan import plan as make_plan
from optrr.planner.plan_file import is_plan, read_plan
from optrr.planner.question import Question

# Suffixes of specifications; all other files hold records.
_DECLARED = (".toml", ".json")
# First question of a page without SPEC or DATA.
_FIRST = {"answer": ["yes", "no"]}
# Options of a question, which an opened plan has already set.
_OF_QUESTIONS = [
    "attributes",
    "bins",
    "n",
    "total",
    "workload",
    "records_only",
    "protocol",
    "margin",
    "prior",
    "releases",
]


@command
def plan(
    source: Path | None = argument(metavar="[SPEC|DATA]", required=False),
    attributes: tuple[str, ...] = ATTRIBUTE,
    bins: tuple[str, ...] = BINS,
    n: int | None = PEOPLE,
    total: float | None = option(
        "Total privacy budget epsilon, in nats; default: the smallest for --margin, or 1.", "--total-epsilon"
    ),
    workload: str = WORKLOAD,
    records_only: bool = RECORDS_ONLY,
    protocol: str | None = PROTOCOL,
    margin: float | None = option("Required margin of every table, in ± percentage points with 95 % confidence."),
    prior: float = option("Prior belief of an attacker about a person, as a probability.", default=0.1),
    releases: int = option("Number of releases of the same people.", default=1),
    reason: str = option("Reason for the choice, for the record.", default="", show_default=False),
    output: Path | None = option("Folder for the plan; default: plan.", "-o", type=FOLDER),
    port: int = option("Port of the page; use 0 for a free one.", type=click.IntRange(0, 65535), default=0),
    no_browser: bool = option("Print the page's address, and open no browser."),
    write: bool = option("Write the plan without a page."),
) -> None:
    """Choose a total epsilon, and record the decision.

    SPEC is a specification or an earlier plan.toml. From DATA, only the header and the categories are used, as optrr
    spec proposes them. The page is available on this machine only, and saves into the folder: plan.toml, specification,
    design, sampler, statement, analysis. With --write, the folder is written at once. To recompute plan.toml, use optrr
    verify.

    Example: optrr plan spec.toml --margin 5 --n 2000 --write
    """
    folder = FOLDER.convert("plan", None, None) if output is None else output
    refuse_foreign(folder)
    if write:
        refuse_options("applies to the page only; leave it out with --write", "port", "no_browser")
    else:
        refuse_options("requires --write, since the page has a field for it; leave it out", "reason")
        if printing.is_json():
            raise InvalidInput("--json: requires --write; leave it out for the page")
    given = source is not None and not attributes and source.suffix.lower() in _DECLARED
    recorded = read_plan(source) if given and source is not None and is_plan(source) else None
    asked = recorded.question if recorded else None
    if recorded:
        refuse_options("is already set in the plan that is opened; leave it out", *_OF_QUESTIONS)
    specification = None if recorded else _specification(source, attributes, bins)
    if not write:
        if asked is None:
            first = Domain.of(_FIRST)
            asked = Question.of(
                specification or Specification(first, np.full(first.m, np.nan)),
                workload,
                total=1.0 if total is None else total,
                n=1000 if n is None else n,
                keep="records" if records_only else None,
                way=protocol,
                margin=margin,
                prior=prior,
                releases=releases,
            )
        try:
            # the page imports a web server
            from optrr.planner.app import serve_plan  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise not_installed(error, "the page of optrr plan needs", "serve", "; or use ``write``") from error
        serve_plan(asked, folder, port, printing.say, browser=not no_browser)
        return
    if recorded:
        # choices that are not repeated keep their recorded values
        made = Plan.of(recorded.question, reason or recorded.reason)
    elif specification is None:
        raise InvalidInput("no questions are given; give SPEC, DATA or --attribute name=size")
    else:
        chosen: dict[str, Any] = {"records_only": records_only, "protocol": protocol, "margin": margin}
        made = make_plan(specification, total, workload=workload, n=n, reason=reason, **chosen)
        made = made.meant(prior, releases)
    printing.warn(made.warnings)
    files = made.save(folder)
    printing.give(made, files=[str(path) for path in files])
    if not printing.is_json():
        printing.say(f"written to {folder}: {', '.join(path.name for path in files)}")


def _specification(source: Path | None, attributes: tuple[str, ...], bins: tuple[str, ...]) -> Specification | None:
    """Return the specification; None without SPEC or attributes."""
    if source is not None and attributes:
        raise InvalidInput(f"give either {source} or --attribute, not both")
    if source is None or source.suffix.lower() in _DECLARED:
        refuse_options("requires DATA; leave it out without records", "bins")
        if source is None:
            return parse_attributes(attributes) if attributes else None
        return read_specification(source)
    proposal = propose(source, Proposing(bins=by_name("bins", bins, bins_of_text)))
    printing.warn(proposal.warnings)
    printing.warn(proposal.disclosed, always=True)
    return Specification.proposed(proposal)
