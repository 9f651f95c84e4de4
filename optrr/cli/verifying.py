"""optrr verify; optrr sign."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from optrr.cli.printing import json_option, print_json, say, warn
from optrr.cli.targets import OUTPUT
from optrr.designs.checks import Check, Verification
from optrr.designs.signing import (
    is_exposed,
    sign_file,
    signature_check,
    signature_path,
)
from optrr.designs.specification_record import refuse_specification
from optrr.designs.verify import verify as verified
from optrr.designs.work import refuse_large
from optrr.devices.deployment.verify import verify_deployment
from optrr.errors import InvalidInput
from optrr.releases.sealed import DEPLOYMENT, DESIGN, LONGITUDINAL, RECORDS, format_of, kind_of
from optrr.releases.sidecar import SUFFIX, origin_from_sidecar
from optrr.releases.small_files import Content, content_of
from optrr.ways.longitudinal.verify import verify_longitudinal


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--design",
    "design_file",
    type=click.Path(path_type=Path),
    help="Also check that a deployment file is that of this design.",
)
@click.option(
    "--no-limit",
    is_flag=True,
    help="Check a file however long it takes and however much memory; otherwise 8 s and 0.65 GB.",
)
@click.option(
    "--key",
    metavar="PUBLIC.PEM",
    type=click.Path(path_type=Path),
    help="Also check that FILE was signed by the owner of this public key (optrr sign).",
)
@click.option("--signature", type=click.Path(path_type=Path), help="Where the signature is; by default FILE.sig.")
@json_option
def verify(
    file: Path, design_file: Path | None, no_limit: bool, key: Path | None, signature: Path | None, as_json: bool
) -> int:
    """Recompute every number of FILE; exit 1 where one does not hold.

    A design's numbers follow from its law and its certificate alone, those of a deployment file from its integers. With --key
    also who made it.
    """
    if signature is not None and key is None:
        raise InvalidInput("--signature needs --key, the public key of whoever should have made the file")
    if not no_limit:
        refuse_large(file)
    held = content_of(file, "file")
    # asked first, because a stranger's file may be refused before its numbers are looked at
    signed = None if key is None else signature_check(held, key, signature, _kind(held))
    result = _verified(held, design_file, limited=not no_limit)
    if signed is not None:
        result = replace(result, checks=(signed, *result.checks))
    named = result.design if result.holds else None
    if as_json:
        more = {"public": result.public.summary()} if named is not None and result.public else {}
        print_json(result.summary() | ({"design": named} if named is not None else {}) | more)
    else:
        _show(result)
        if named is not None:
            say(f"design {named}")
            if result.public:
                say(result.public.warning())
    return 0 if result.holds else 1


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--key", metavar="KEY.PEM", required=True, type=click.Path(path_type=Path), help="Your private Ed25519 key, in PEM."
)
@click.option("-o", "--output", type=OUTPUT, help="Signature to write; by default FILE.sig.")
@json_option
def sign(file: Path, key: Path, output: Path | None, as_json: bool) -> int:
    """Sign a design, a deployment file or a release's sidecar that verifies; exit 1, and nothing written, where it does not.

    The signature is Ed25519 over a line with the kind of FILE and its SHA-256: optrr verify --key checks it (of a release optrr
    account --key), and so does openssl pkeyutl.
    """
    held = content_of(file, "file")
    result = _verified(held, None, limited=False)
    if not result.holds:
        _show(result)
        return 1
    known = sign_file(held, key, output, _asked if sys.stdin.isatty() else None, _kind(held))
    warn([f"{key} can be read by others on this machine; chmod 600 {key}"] if is_exposed(key) else [])
    target = signature_path(file) if output is None else output
    if as_json:
        print_json({"output": str(target), "key": known})
    else:
        say(f"{target}: signed by key {known}")
    return 0


def _asked() -> str:
    return str(click.prompt("Passphrase", hide_input=True, err=True))


def _kind(file: Content) -> str:
    """What the file is signed as."""
    if file.path.name.endswith(SUFFIX):
        return RECORDS
    said = kind_of(file)
    return said if said in (DEPLOYMENT, LONGITUDINAL) else DESIGN


def _released(file: Content) -> Verification:
    """Whether a sidecar is that of the file that it stands beside."""
    target = file.path.with_name(file.path.name.removesuffix(SUFFIX))
    origin = origin_from_sidecar(target, file.raw)
    holds = origin.bound is not None
    check = Check("content", "size and SHA-256", "those of the file" if holds else "others", "read whole", holds)
    return Verification((check,), True)


def _verified(file: Content, design_file: Path | None, *, limited: bool) -> Verification:
    kind = _kind(file)
    if kind == RECORDS:
        return _released(file)
    if kind == DEPLOYMENT:
        return verify_deployment(file, design_file, limited=limited)
    if design_file is not None:
        raise InvalidInput(f"{file} is no deployment file; --design is for files from optrr export")
    if kind == LONGITUDINAL:
        return verify_longitudinal(file, limited=limited)
    if not format_of(file.raw):
        refuse_specification(file.raw, file)
        raise InvalidInput(
            f"{file} cannot be read as a design or a deployment file: it is damaged, or another file; "
            "get it again from whoever wrote it"
        )
    return verified(file, limited=limited)


def _show(result: Verification) -> None:
    for check in result.checks:
        say(check.line())
    for line in result.unchecked:
        say(f"not checked: {line}")
    click.echo("digest holds" if result.digest else "digest FAILS: the file was changed after it was written")
    click.echo("verified" if result.holds else "NOT verified")
