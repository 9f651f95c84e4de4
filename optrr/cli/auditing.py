"""optrr audit."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from optrr.cli.printing import json_option, print_json, say
from optrr.cli.refusals import refuse_options
from optrr.cli.targets import Target
from optrr.devices.auditing.audit import LEVEL, QUERIES, AuditOptions
from optrr.devices.auditing.audit import audit as audited
from optrr.devices.auditing.clients import CommandClient, LogClient
from optrr.devices.auditing.label import Label, label_of
from optrr.devices.auditing.messages import plant
from optrr.devices.auditing.questions import FEWEST, RecordKinds, planned
from optrr.errors import InvalidInput

_PLANTED = Target("what is planted, in JSON lines,", ".jsonl", ".json", ".txt")


@click.command()
@click.argument("label_file", metavar="LABEL", type=click.Path(path_type=Path))
@click.option("--command", help="Ask this program: it reads lines from standard input and answers each with a line.")
@click.option("--each", is_flag=True, help="Start the program anew for every record.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds that one start of it may take.")
@click.option(
    "--plant",
    "plant_file",
    type=_PLANTED,
    help="Write the records to plant, and end.",
)
@click.option("--planted", type=click.Path(path_type=Path), help="The records that --plant wrote.")
@click.option("--received", type=click.Path(path_type=Path), help="What came back, a line for each of --planted.")
@click.option(
    "--queries", type=click.IntRange(min=FEWEST), default=QUERIES, show_default=True, help="Records to plant."
)
@click.option("--level", type=float, default=LEVEL, show_default=True, help="Largest probability of a false alarm.")
@click.option("--once", is_flag=True, help="The client promises one answer for each person.")
@json_option
def audit(
    label_file: Path,
    command: str | None,
    each: bool,
    timeout: float | None,
    plant_file: Path | None,
    planted: Path | None,
    received: Path | None,
    queries: int,
    level: float,
    once: bool,
    as_json: bool,
) -> int:
    """Test a client from outside against LABEL, a design or deployment file; exit 1 where it violates it.

    By default the client is optrr's own randomizer. A question is a line {"person": 17, "values": ["F", null]}; an answer is
    {"values": […]} or the list alone.
    """
    label = label_of(label_file)
    if (planted is None) != (received is None) or (planted is not None and command is not None):
        raise InvalidInput("give --planted and --received together, and neither with --command")
    if command is None:
        refuse_options("is for a program; give --command too, or leave it out", "each", "timeout")
    if received is not None:
        refuse_options(
            "is for records that are still to be planted; leave it out with --received", "queries", "plant_file"
        )
    if plant_file is not None:
        refuse_options("is for the audit after --plant; leave it out", "command", "level", "once")
        return _plant(label, queries, plant_file, as_json)
    client = _client(label, command, each, timeout) if received is None else LogClient(received, label.domain)
    result = audited(label, client, AuditOptions(queries, level, once, planted=planted))
    if as_json:
        print_json(result.summary())
    else:
        for finding in result.findings:
            say(finding.line())
        for line in result.unseen:
            say(f"not seen from outside: {line}")
        say(result.headline())
    return 0 if result.holds else 1


def _plant(label: Label, queries: int, output: Path, as_json: bool) -> int:
    layout = RecordKinds.of(queries, label.domain.m)
    plant(output, planned(layout, label.sizes), label.domain)
    planted = 2 * layout.rows
    print_json({"output": str(output), "queries": planted}) if as_json else say(f"{planted} records in {output}")
    return 0


def _client(label: Label, command: str | None, each: bool, timeout: float | None) -> CommandClient | None:
    if command is None:
        return None
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise InvalidInput(f"--command cannot be split into words: {error}") from error
    if not arguments:
        raise InvalidInput("--command is empty; name a program")
    return CommandClient(arguments, label.domain, each, timeout)
