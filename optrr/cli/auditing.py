"""optrr audit."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from optrr.auditing.audit import LEVEL, QUERIES, AuditOptions, audited
from optrr.auditing.clients import Client, CommandClient, LogClient, own_client
from optrr.auditing.label import Label, label_of
from optrr.auditing.messages import plant, read_planted
from optrr.auditing.questions import FEWEST, Layout, planned
from optrr.cli.output import json_option, print_json, say
from optrr.errors import InvalidInput


@click.command()
@click.argument("label_file", metavar="LABEL", type=click.Path(path_type=Path))
@click.option("--command", help="Ask this program: it reads lines from standard input and answers each with a line.")
@click.option("--each", is_flag=True, help="Start the program anew for every record.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds that one start of it may take.")
@click.option("--plant", "plant_file", type=click.Path(path_type=Path), help="Write the records to plant, and end.")
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
    how, label = AuditOptions(queries, level, once), label_of(label_file)
    if (planted is None) != (received is None) or (planted is not None and command is not None):
        raise InvalidInput("give --planted and --received together, and neither with --command")
    if planted is not None and received is not None:
        layout, runs = read_planted(planted, label.domain)
        client: Client = LogClient(received, label.domain)
    else:
        layout = Layout.of(queries, label.domain.m)
        runs = planned(layout, label.sizes)
        client = _asked(label, command, each, timeout)
    if plant_file is not None:
        plant(plant_file, runs, label.domain)
        line = {"output": str(plant_file), "queries": 2 * layout.rows}
        print_json(line) if as_json else say(f"{2 * layout.rows} records in {plant_file}")
        return 0
    result = audited(label, client, layout, runs, how)
    if as_json:
        print_json(result.summary())
    else:
        for finding in result.findings:
            say(finding.line())
        say(result.headline())
    return 0 if result.holds else 1


def _asked(label: Label, command: str | None, each: bool, timeout: float | None) -> Client:
    if command is None:
        return own_client(label)
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise InvalidInput(f"--command cannot be split into words: {error}") from error
    if not arguments:
        raise InvalidInput("--command is empty; name a program")
    return CommandClient(arguments, label.domain, each, timeout)
