"""optrr plan: from a question, or from data, to what is asked; by a page on this machine or without one."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import click
import numpy as np

from optrr.cli import printing
from optrr.cli.designing import ATTRIBUTE, PEOPLE
from optrr.cli.options import argument, command, option, refuse_options
from optrr.cli.outputs import FOLDER
from optrr.cli.printing import is_json
from optrr.cli.proposing import BINS, all_bins
from optrr.core.design import Proposing, Specification, parse_attributes, propose, read_specification
from optrr.core.display import SHOWN, brief, crossed
from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput, not_installed
from optrr.planner.plan import Plan, refuse_foreign
from optrr.planner.plan import plan as make_plan
from optrr.planner.plan_file import PlanCheck, SeenWay, is_plan, read_plan
from optrr.planner.plan_file import checked as checked_plan
from optrr.planner.preview import Preview
from optrr.planner.question import Question

# Files of these kinds say what is asked; all others hold records.
_DECLARED = (".toml", ".json")
# What a page begins with where nothing is named.
_FIRST = {"answer": ["yes", "no"]}
# What a question is made of, all of it settled in a plan that is opened.
_OF_QUESTIONS = ("attributes", "bins", "n", "total_epsilon", "workload", "keep", "way", "margin", "prior", "releases")


@command
def plan(
    source: Path | None = argument(metavar="[SPEC|DATA]", required=False),
    attributes: tuple[str, ...] = ATTRIBUTE,
    bins: tuple[str, ...] = BINS,
    n: int | None = PEOPLE,
    total_epsilon: float | None = option("Total epsilon to spend, in nats; by default the least for --margin, or 1."),
    workload: str = option(
        "What is to be learned; FILE (.toml or .json) lists tables.",
        default="marginals",
        metavar="marginals|pairs|FILE",
    ),
    keep: Literal["records"] | None = option("Only ways after which any table can be estimated."),
    way: str | None = option("Take this way of asking instead of the best, by its name.", "--protocol", metavar="NAME"),
    margin: float | None = option("± percentage points, 95 %, that every table shall be known to."),
    prior: float = option("What somebody thinks of a person beforehand.", default=0.1),
    releases: int = option("How often the same people are asked.", type=click.IntRange(min=1), default=1),
    reason: str = option("Why this choice, for the record.", default="", show_default=False),
    output: Path | None = option("Folder that the plan is written to; by default plan.", "-o", type=FOLDER),
    port: int = option("0 takes a free one.", type=click.IntRange(0, 65535), default=0),
    no_browser: bool = option("Print the page's address, and open no browser."),
    write: bool = option("Write the plan without a page."),
    checking: Path | None = option("Recompute a plan; exit 1 where it differs.", "--check", metavar="PLAN.TOML"),
) -> int:
    """From a question to a total epsilon that one can defend: a page on this machine, and a folder with all that follows.

    SPEC is a specification or an earlier plan.toml. Of DATA only the header and the categories are taken, as optrr spec
    proposes them. The page is served to this machine alone, and saves into the folder: plan.toml, specification, design,
    sampler, statement, analysis. With --write the folder is written at once.
    """
    if checking is not None:
        refuse_options(
            "is for making a plan; leave it out with --check",
            *(*_OF_QUESTIONS, "reason", "output", "port", "no_browser", "write"),
        )
        if source is not None:
            raise InvalidInput(f"--check reads a plan, and {source} is beside it; leave one out")
        return _check(checked_plan(checking))
    folder = FOLDER.convert("plan", None, None) if output is None else output
    refuse_foreign(folder)
    if write:
        refuse_options("is for the page; leave it out with --write", "port", "no_browser")
    elif is_json():
        raise InvalidInput("--json is for --write and --check; leave it out with the page")
    chosen: dict[str, Any] = {"keep": keep, "way": way, "margin": margin, "prior": prior, "releases": releases}
    recorded = read_plan(source) if source is not None and not attributes and _is_plan(source) else None
    opened = None if recorded else _opened(source, attributes, bins)
    if recorded:
        refuse_options("is settled in the plan that is opened; leave it out", *_OF_QUESTIONS)
    if not write:
        refuse_options("is for --write; the page has a place for it", "reason")
    if write:
        if recorded:
            # what is not decided anew stays as it was written down
            made = Plan.of(recorded.question, reason or recorded.reason, recorded.seen)
        elif opened is None:
            raise InvalidInput("nothing is asked; give SPEC, DATA or --attribute name=size")
        else:
            made = make_plan(opened, total_epsilon, learn=workload, n=n, reason=reason, **chosen)
        _written(made, folder)
        return 0
    if recorded:
        question = recorded.question
    else:
        start = {"total": 1.0 if total_epsilon is None else total_epsilon, "n": 1000 if n is None else n}
        first = Domain.of(_FIRST)
        shown = opened or Specification(first, np.full(first.m, np.nan))
        question = Question.of(shown, workload, **start, **chosen)
    _serve(question, folder, port, browser=not no_browser)
    return 0


def _is_plan(source: Path) -> bool:
    return source.suffix.lower() in _DECLARED and is_plan(source)


def _opened(source: Path | None, attributes: tuple[str, ...], bins: tuple[str, ...]) -> Specification | None:
    """What is asked; None where neither SPEC nor an attribute is given."""
    if source is not None and attributes:
        raise InvalidInput(f"give either {source} or --attribute, not both")
    if source is None or source.suffix.lower() in _DECLARED:
        refuse_options("is for DATA; leave it out where no records are looked at", "bins")
        if source is None:
            return parse_attributes(attributes) if attributes else None
        return read_specification(source)
    proposal = propose(source, Proposing(bins=all_bins(bins)))
    printing.warn(proposal.warnings())
    printing.warn(proposal.disclosed, always=True)
    return Specification(proposal.domain, np.full(proposal.domain.m, np.nan))


def _written(made: Plan, folder: Path) -> None:
    printing.warn(made.warnings)
    written = made.save(folder)
    if is_json():
        printing.print_json(made.summary() | {"files": [str(path) for path in written]})
        return
    printing.say(made.headline())
    for line in made.meaning.sentences():
        printing.say(line)
    tables = [(crossed(t.attributes), t.cells, t.margin, t.sampling_margin) for t in made.preview.tables[:SHOWN]]
    printing.print_table("expected", ["table", "cells", "± points", "by sampling alone"], tables)
    printing.say(f"written to {folder}: {', '.join(path.name for path in written)}")


def _check(result: PlanCheck) -> int:
    def show() -> None:
        printing.say(result.headline())
        if result.differences:
            rows = [(each.name, brief(each.recorded), brief(each.recomputed)) for each in result.differences]
            printing.print_table("what differs", ["entry", "the plan says", "recomputed"], rows)

    printing.give(result.summary, show)
    return 0 if result.holds else 1


def _serve(question: Question, folder: Path, port: int, browser: bool) -> None:
    try:
        # the page brings a web server
        from optrr.planner.app import serve_plan  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise not_installed(error, "the page of optrr plan needs", "serve", "; or use --write") from error

    def save(asked: Question, reason: str, seen: Sequence[Preview]) -> list[str]:
        made = Plan.of(asked, reason, [SeenWay.of(each) for each in seen])
        return [str(path) for path in made.save(folder)]

    with TemporaryDirectory(prefix="optrr-plan-") as private:

        def ready(address: str) -> None:
            printing.say(f"the plan's page: {address}")
            printing.say(f"it saves to {folder}; Ctrl+C ends it")
            if browser:
                webbrowser.open(_redirect(address, Path(private)).as_uri())

        serve_plan(question, save, port, ready)


def _redirect(address: str, private: Path) -> Path:
    """A file that only this user can read and that leads to the address, whose token a list of processes would show."""
    place = private / "plan.html"
    place.touch(mode=0o600)
    target = escape(address)
    place.write_text(
        f'<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>optrr plan</title>'
        f'<meta http-equiv="refresh" content="0; url={target}"><a href="{target}">The plan\'s page</a>',
        encoding="utf-8",
    )
    return place
