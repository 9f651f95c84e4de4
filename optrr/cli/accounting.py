"""optrr account."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from optrr.cli.inputs import FILE
from optrr.cli.printing import json_option, print_json, print_table, warn
from optrr.cli.releases import limit_option, provenances_in
from optrr.designs.signing import require_signed
from optrr.errors import InvalidInput
from optrr.releases.account import Release, distinct_releases, recomputed, total_epsilon
from optrr.releases.binding import Origin
from optrr.releases.provenance import PERSON, SEEDED, UNIT, Provenance
from optrr.releases.sealed import LONGITUDINAL, RECORDS, kind_of
from optrr.releases.sidecar import origin_from_sidecar, sidecar_path
from optrr.releases.small_files import Content, content_of
from optrr.show.rounding import epsilon_text

# Whose ε it is, in words.
_UNITS = {
    UNIT: "each record",
    PERSON: "each person over time (all their reports for ever, while the true record stays as it is)",
}
_NOT_GIVEN = (
    "releases that are not given here are not in the sum, nor is what was done to records before they were randomized where "
    "the file that held them said nothing (a CSV without its sidecar)"
)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--design",
    "designs",
    multiple=True,
    type=FILE,
    help="Recompute the epsilon of the releases that this design drew instead of believing the files; repeatable.",
)
@click.option(
    "--key",
    metavar="PUBLIC.PEM",
    type=FILE,
    help="Refuse a file whose sidecar the owner of this public key did not sign (optrr sign FILE.optrr.json).",
)
@limit_option
@json_option
def account(
    files: tuple[Path, ...], designs: tuple[Path, ...], key: Path | None, limit: float | None, as_json: bool
) -> int:
    """What the people of these files have spent in all; exit 1 where that is above --limit, or a design says otherwise.

    The files hold randomized records of the same people. Every release counts once, however many copies of it are given, and
    the epsilons add up (sequential composition). The unit is one record: what one person sent once; of rounds of a longitudinal
    design it is a person over time: everything that one person ever reports. What cannot be known is said beside the sum.
    """
    known = provenances_in(files) if key is None else [_signed(file, key) for file in files]
    stated = distinct_releases(release for each in known for release in each.releases)
    _refuse_two_contents(files, known)
    epsilons = _epsilons_of(designs)
    spent = recomputed(stated, epsilons)
    units = list(dict.fromkeys(each.unit for each in known))
    total = math.inf if any(r.seeded for r in spent) else total_epsilon(spent)
    within = limit is None or total <= limit
    wrong = _differences(stated, spent)
    unknown = _unknown(stated, epsilons, signed=key is not None)
    warn([f"a release was {SEEDED}"] if any(r.seeded for r in spent) else [])
    if as_json:
        more = {"unit": " and ".join(units), "differs": wrong, "unknown": unknown}
        print_json({**_summary(spent, total, limit, within), **more})
        return 0 if within and not wrong else 1
    _show(spent, epsilons)
    whose = " and ".join(_UNITS[unit] for unit in units)
    click.echo(f"total epsilon {epsilon_text(total)} for {whose}, if these files are about the same people")
    for line in unknown:
        click.echo(f"not known: {line}")
    above = [] if within else [f"{epsilon_text(total)} nats are above the limit of {limit:g}"]
    for line in [*wrong, *above]:
        click.echo(f"error: {line}", err=True)
    return 0 if within and not wrong else 1


def _show(spent: Sequence[Release], epsilons: Mapping[str, float]) -> None:
    rows = [
        (
            r.id[:12] or "unknown",
            r.shown_design,
            epsilon_text(r.epsilon),
            "its design" if r.design in epsilons else "the file",
            "no" if r.seeded else "yes",
        )
        for r in spent
    ]
    print_table("releases", ["release", "design", "epsilon", "from", "private"], rows)


def _signed(file: Path, key: Path) -> Provenance:
    """What a file's sidecar says, from the bytes that are signed. Raises InvalidInput where they are not."""
    beside = sidecar_path(file)
    if not beside.is_file():
        raise InvalidInput(
            f"{file} has no sidecar {beside.name}, which --key could check; release it as CSV, and sign that"
        )
    held: Content = content_of(beside, "sidecar")
    require_signed(held, key, None, RECORDS)
    origin: Origin = origin_from_sidecar(file, held.raw)
    if origin.bound is None:
        raise InvalidInput(f"{file} does not say what was spent: {origin.doubt}; give the file as optrr wrote it")
    return origin.bound


def _epsilons_of(designs: Sequence[Path]) -> dict[str, float]:
    """ε by digest, recomputed from design files of every kind."""
    from optrr.ways.longitudinal.design import LongitudinalDesign  # noqa: PLC0415 (both bring the arithmetic of laws)
    from optrr.ways.protocols.saved import load_asking  # noqa: PLC0415

    out: dict[str, float] = {}
    for path in designs:
        held = content_of(path, "design file")
        made = LongitudinalDesign.load(held) if kind_of(held) == LONGITUDINAL else load_asking(held)
        out[made.digest] = made.epsilon
    return out


def _refuse_two_contents(files: Sequence[Path], known: Sequence[Provenance]) -> None:
    """Refuse one release's id on files of one kind whose bytes differ; rounds of a permanent answer share theirs."""
    if len(files) != len(known):
        return  # a directory holds several parts of one release
    first: dict[tuple[str, str], tuple[Path, str]] = {}
    for file, each in zip(files, known, strict=True):
        release = each.randomizations[-1]
        if not release.id or each.unit == PERSON or not file.is_file():
            continue
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        other, content = first.setdefault((release.id, file.suffix.lower()), (file, digest))
        if content != digest:
            raise InvalidInput(
                f"{other} and {file} hold different records under the id {release.id[:12]} of one release; give the files as "
                "optrr wrote them, and the parts of one release as a directory"
            )


def _differences(stated: Sequence[Release], spent: Sequence[Release]) -> list[str]:
    return [
        f"a file states epsilon {epsilon_text(said.epsilon)} for release {said.id[:12] or 'unknown'}, and its design "
        f"({said.shown_design}) spends {epsilon_text(true.epsilon)}, which is counted; the file was edited"
        for said, true in zip(stated, spent, strict=True)
        if said.epsilon < true.epsilon
    ]


def _unknown(stated: Sequence[Release], epsilons: Mapping[str, float], *, signed: bool) -> list[str]:
    """What the sum takes on trust, one sentence each."""
    unchecked = sorted({r.shown_design for r in stated if r.design not in epsilons})
    believed = (
        [f"the epsilon of releases by {', '.join(unchecked)} is what the files state; --design recomputes it"]
        if unchecked
        else []
    )
    edited = "whoever edits a file together with what it says of itself leaves no trace; --key asks for a signature"
    return [*believed, *([] if signed else [edited]), _NOT_GIVEN]


def _summary(spent: tuple[Release, ...], total: float, limit: float | None, within: bool) -> dict[str, object]:
    return {
        "epsilon": total if math.isfinite(total) else None,
        "limit": limit,
        "within_limit": within,
        "private": not any(r.seeded for r in spent),
        "releases": [r.to_record() for r in spent],
    }
