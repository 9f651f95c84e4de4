"""optrr verify, sign and audit: check files and clients."""

import sys
from pathlib import Path

import click

from optrr.cli.options import argument, command, option
from optrr.cli.outputs import Target
from optrr.cli.printing import give, warn
from optrr.core import files
from optrr.core.provenance import content_of
from optrr.core.records import refuse_replacing, whole_file

_SHEET = Target("a worksheet", ".md", ".txt")


@command
def verify(
    file: Path = argument(),
    design_file: Path | None = option("Design that the deployment file should belong to.", "--design"),
    public_key: Path | None = option("Ed25519 public key of the owner who should have signed FILE.", metavar="KEY.PEM"),
    worksheet: Path | None = option("Write an evaluation worksheet of a design, in Markdown.", type=_SHEET),
    n: int = option(
        "Number of respondents assumed in the worksheet.",
        type=click.IntRange(min=1),
        default=10_000,
        needs="worksheet",
    ),
) -> int:
    """Recompute every number of FILE.

    Exit 1 if a number differs. The numbers of a design follow from its mechanism and its certificate alone, those of a
    deployment file from its integers. A worksheet has the questions of an evaluator by the topics of NIST SP 800-226,
    with the answers that the design gives.

    Example: optrr verify design.json --worksheet worksheet.md --n 2000
    """
    held = content_of(file, "file")
    result = files.verify(held, design_file, public_key=public_key)
    if result.holds and worksheet is not None:
        from optrr.devices.worksheet import worksheet as written  # noqa: PLC0415 (brings templates)

        refuse_replacing(worksheet, [file], f"{file} is the design itself; write the worksheet to another file")
        text = written(files.load(held), n)
        with whole_file(worksheet) as partial:
            partial.write_text(text, encoding="utf-8")
    give(result)
    return 0 if result.holds else 1


@command
def sign(
    file: Path = argument(),
    private_key: Path = option(
        "Your Ed25519 private key; make one with: openssl genpkey -algorithm ed25519 -out KEY.PEM.",
        metavar="KEY.PEM",
        required=True,
    ),
) -> None:
    """Sign a design or a deployment file that verifies.

    The signature in FILE.sig is Ed25519 over a line with the kind of FILE and its SHA-256. Check it with optrr verify
    --public-key, or with openssl pkeyutl.

    Example: optrr sign design.json --private-key key.pem
    """
    asked = (
        (lambda: str(click.prompt("Passphrase", hide_input=True, err=True)))
        if sys.stdin and sys.stdin.isatty()
        else None
    )
    made = files.sign(file, private_key, asked)
    warn(made.warnings)
    give(made)


@command
def audit(
    label: Path = argument(metavar="LABEL"),
    client: str | None = option(
        "Command of the client to audit; it answers each line of standard input with one line.", "--command"
    ),
    n: int = option("Number of records sent to the client.", type=click.IntRange(min=200), default=100_000),
    alpha: float = option("Maximum probability of a false alarm.", default=1e-6),
) -> int:
    """Test a client from outside against LABEL.

    Exit 1 if it violates LABEL, a design or deployment file. The client is a command; without one, optrr's own
    randomizer is audited. A record is a line {"person": 17, "values": ["F", null]}; an answer is {"values": […]} or the
    list alone; for local queries it is {"table": 1, "cells": "0 2|1"}.

    Example: optrr audit sampler.json --n 2000
    """
    from optrr.devices.audit import audit as audited  # noqa: PLC0415 (brings scipy)

    result = audited(label, client, n=n, alpha=alpha)
    give(result)
    return 0 if result.holds else 1
