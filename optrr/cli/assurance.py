"""optrr verify, sign, audit and worksheet: why somebody should believe a file."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import click

from optrr.allocation.sampled_tables import load_asking
from optrr.cli.options import argument, command, option, refuse_options
from optrr.cli.outputs import OUTPUT, Target
from optrr.cli.printing import give, is_json, print_json, say, warn
from optrr.core import files
from optrr.core.design import (
    Verification,
    is_exposed,
    refuse_large,
    refuse_specification,
    sign_file,
    signature_check,
    signature_path,
)
from optrr.core.errors import InvalidInput
from optrr.core.provenance import (
    DEPLOYMENT,
    DESIGN,
    LONGITUDINAL,
    PLAN,
    SAMPLED_TABLES,
    SAMPLED_VARIANTS,
    Content,
    content_of,
    format_of,
    kind_of,
)
from optrr.core.records import refuse_replacing, whole_file
from optrr.devices.audit import LEVEL, QUERIES, AuditOptions
from optrr.devices.audit import audit as audited
from optrr.devices.clients import CommandClient, LogClient
from optrr.devices.label import label_of
from optrr.devices.planting import FEWEST, PlantedRecords, planned, plant
from optrr.devices.query_audit import QueryLabel
from optrr.devices.record_audit import Label
from optrr.devices.worksheet import Worksheet
from optrr.devices.worksheet import worksheet as answered


@command
def verify(
    file: Path = argument(),
    design_file: Path | None = option("Also check that a deployment file is that of this design.", "--design"),
    limited: bool = option(
        "Check a file however long it takes and however much memory; otherwise 8 s and 0.65 GB.",
        "--no-limit",
        default=True,
        flag_value=False,
    ),
    key: Path | None = option(
        "Also check that FILE was signed by the owner of this public key (optrr sign).", metavar="PUBLIC.PEM"
    ),
    signature: Path | None = option("Where the signature is; by default FILE.sig.", needs="key"),
) -> int:
    """Recompute every number of FILE; exit 1 where one does not hold.

    A design's numbers follow from its law and its certificate alone, those of a deployment file from its integers. With --key
    also who made it.
    """
    if limited:
        refuse_large(file)
    held = content_of(file, "file")
    # asked first, because a stranger's file may be refused before its numbers are looked at
    signed = None if key is None else signature_check(held, key, signature, _kind(held))
    result = _verified(held, design_file, limited=limited)
    if signed is not None:
        result = replace(result, checks=(signed, *result.checks))
    named = result.design if result.holds else None
    if is_json():
        more = {"public": result.public.summary()} if named is not None and result.public else {}
        print_json(result.summary() | ({"design": named} if named is not None else {}) | more)
    else:
        _show(result)
        if named is not None:
            say(f"design {named}")
            if result.public:
                say(result.public.warning())
    return 0 if result.holds else 1


@command
def sign(
    file: Path = argument(),
    key: Path = option("Your private Ed25519 key, in PEM.", metavar="KEY.PEM", required=True),
    output: Path | None = option("Signature to write; by default FILE.sig.", "-o", type=OUTPUT),
) -> int:
    """Sign a design or a deployment file that verifies; exit 1, and nothing written, where it does not.

    The signature is Ed25519 over a line with the kind of FILE and its SHA-256: optrr verify --key checks it, and so does
    openssl pkeyutl.
    """
    held = content_of(file, "file")
    result = _verified(held, None, limited=False)
    if not result.holds:
        _show(result)
        return 1
    known = sign_file(held, key, output, _asked if sys.stdin is not None and sys.stdin.isatty() else None, _kind(held))
    warn([f"{key} can be read by others on this machine; chmod 600 {key}"] if is_exposed(key) else [])
    target = signature_path(file) if output is None else output
    give(lambda: {"output": str(target), "key": known}, lambda: say(f"{target}: signed by key {known}"))
    return 0


def _asked() -> str:
    return str(click.prompt("Passphrase", hide_input=True, err=True))


def _kind(file: Content) -> str:
    """What the file is signed as."""
    said = kind_of(file)
    return said if said in (DEPLOYMENT, LONGITUDINAL, PLAN, SAMPLED_TABLES, SAMPLED_VARIANTS) else DESIGN


def _verified(file: Content, design_file: Path | None, *, limited: bool) -> Verification:
    kind = _kind(file)
    if kind == DESIGN and design_file is None and not format_of(file.raw):
        refuse_specification(file.raw, file)
        raise InvalidInput(
            f"{file} cannot be read as a design or a deployment file: it is damaged, or another file; "
            "get it again from whoever wrote it"
        )
    return files.verify(file, design_file, limited=limited)


def _show(result: Verification) -> None:
    for check in result.checks:
        say(check.line())
    for line in result.unchecked:
        say(f"not checked: {line}")
    click.echo("digest holds" if result.digest else "digest FAILS: the file was changed after it was written")
    click.echo("verified" if result.holds else "NOT verified")


_PLANTED = Target("what is planted, in JSON lines,", ".jsonl", ".json", ".txt")


@command
def audit(
    label_file: Path = argument(metavar="LABEL"),
    command: str | None = option("Ask this program: it reads lines from standard input and answers each with a line."),
    each: bool = option("Start the program anew for every record.", needs="command"),
    timeout: float | None = option(
        "Seconds that one start of it may take.", type=click.FloatRange(min=0, min_open=True), needs="command"
    ),
    plant_file: Path | None = option("Write the records to plant, and end.", "--plant", type=_PLANTED),
    planted: Path | None = option("The records that --plant wrote."),
    received: Path | None = option("What came back, a line for each of --planted."),
    queries: int = option("Records to plant.", type=click.IntRange(min=FEWEST), default=QUERIES),
    level: float = option("Largest probability of a false alarm.", default=LEVEL),
    once: bool = option("The client promises one answer for each person."),
) -> int:
    """Test a client from outside against LABEL, a design or deployment file; exit 1 where it violates it.

    By default the client is optrr's own randomizer. A question is a line {"person": 17, "values": ["F", null]}; an answer is
    {"values": […]} or the list alone; for a file of questions it is {"table": 1, "cells": "0 2|1"}.
    """
    label = label_of(label_file)
    if (planted is None) != (received is None) or (planted is not None and command is not None):
        raise InvalidInput("give --planted and --received together, and neither with --command")
    if received is not None:
        refuse_options(
            "is for records that are still to be planted; leave it out with --received", "queries", "plant_file"
        )
    if plant_file is not None:
        refuse_options("is for the audit after --plant; leave it out", "command", "level", "once")
        return _plant(label, queries, plant_file)
    log = None if received is None else LogClient(received, label)
    client = log or _client(label, command, each, timeout)
    result = audited(label, client, AuditOptions(queries, level, once, planted=planted))
    lines = [each.line() for each in result.findings]
    lines += [f"not seen from outside: {line}" for line in result.unseen]
    give(result.summary, lambda: say("\n".join([*lines, result.headline()])))
    return 0 if result.holds else 1


def _plant(label: Label | QueryLabel, queries: int, output: Path) -> int:
    layout = PlantedRecords.of(queries, max(label.width, label.domain.m))
    plant(output, planned(layout, label.sizes), label.domain)
    planted = 2 * layout.rows
    give(lambda: {"output": str(output), "queries": planted}, lambda: say(f"{planted} records in {output}"))
    return 0


def _client(label: Label | QueryLabel, command: str | None, each: bool, timeout: float | None) -> CommandClient | None:
    if command is None:
        return None
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise InvalidInput(f"--command cannot be split into words: {error}") from error
    if not arguments:
        raise InvalidInput("--command is empty; name a program")
    return CommandClient(arguments, label, each, timeout)


_SHEET = Target("a worksheet, in Markdown,", ".md", ".txt")


@command
def worksheet(
    design_file: Path = argument(metavar="DESIGN"),
    records: int = option(
        "How many people will answer, for what is said of errors.", type=click.IntRange(min=1), default=10_000
    ),
    output: Path | None = option("Write Markdown to this file, to be filled in.", "-o", type=_SHEET),
) -> None:
    """An evaluator's questions, by the topics of NIST SP 800-226, answered where DESIGN answers them and open where you must.

    The questions are in our words, not quoted, and NIST has not seen them.

    Only what was recomputed from DESIGN, or holds for every design, is stated.
    """
    asking = load_asking(design_file)
    sheet = answered(asking, records)
    if output is not None:
        _write(output, design_file, sheet)
    if is_json():
        print_json(sheet.summary())
    elif output is None:
        say(sheet.markdown())
    else:
        say(f"{output}: {len(sheet.entries)} questions, {sum(len(e.for_you) for e in sheet.entries)} for you to answer")


def _write(output: Path, design_file: Path, sheet: Worksheet) -> None:
    refuse_replacing(
        output, [design_file], f"{design_file} is the design itself and would be written over; give another --output"
    )
    with whole_file(output) as partial:
        partial.write_text(sheet.markdown() + "\n", encoding="utf-8")
