"""optrr perturb and account, and what all commands ask and say about releases.

Whether one may follow another, what has been spent, and by which design.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from optrr.cli.inputs import FILE, design_option, input_argument, key_option, public_option, signature_option
from optrr.cli.main import cleaned_up
from optrr.cli.outputs import OUTPUT
from optrr.cli.printing import is_strict, json_option, late_bar, print_json, print_table, warn
from optrr.designs.design import Asking, Design
from optrr.designs.signing import require_signed
from optrr.domain.domain import listed
from optrr.domain.public import PublicColumns
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import FileRelease, ReleaseOptions
from optrr.records.reading.registry import open_source, origins_of
from optrr.records.reading.source import STANDARD_INPUT, RecordsAt
from optrr.records.writing import formula_doubts
from optrr.releases.provenance import (
    PERSON,
    SEEDED,
    UNIT,
    Origin,
    Provenance,
    Release,
    distinct_releases,
    finite,
    origin_from_sidecar,
    recomputed,
    sidecar_path,
    total_epsilon,
)
from optrr.releases.sealed import (
    DESIGN,
    LONGITUDINAL,
    RECORDS,
    SAMPLED_TABLES,
    SAMPLED_VARIANTS,
    Content,
    content_of,
    kind_of,
)
from optrr.show.text import amount, epsilon_text
from optrr.ways.protocols.sampled_tables import load_asking

_Command = TypeVar("_Command", bound=Callable[..., Any])

again_option = click.option(
    "--again", is_flag=True, help="Randomize INPUT although it says it is randomized already; the epsilons add up."
)


def after_option(more: str = "") -> Callable[[_Command], _Command]:
    """The option --after; ``more`` is what its help says beside."""
    return click.option(
        "--after",
        multiple=True,
        type=FILE,
        help=f"Earlier release of the same people, to be added up in the account; {more}repeatable.",
    )


def records_output_option(more: str = "") -> Callable[[_Command], _Command]:
    """The option -o of randomized records; ``more`` is what may be given instead of a file."""
    return click.option("-o", "--output", required=True, type=OUTPUT, help=f"CSV or Parquet file to write{more}.")


keep_order_option = click.option(
    "--keep-order",
    is_flag=True,
    help="Leave the records in the order of INPUT, which no epsilon covers, instead of shuffling them.",
)
limit_option = click.option(
    "--limit", type=click.FloatRange(min=0, min_open=True), help="Most that one person may have spent in all, in nats."
)
seed_option = click.option(
    "--random-state",
    type=click.IntRange(min=0),
    help="Seed, for studies only; the default draws from the operating system.",
)


def releases_in(files: Sequence[Path]) -> list[Release]:
    """The releases that files of randomized records stand for, in order.

    Raises
    ------
    InvalidInput
        for a file that does not say, or that cannot be read.
    """
    return [release for known in provenances_in(files) for release in known.releases]


def following(earlier: Sequence[Release], after: Sequence[Path], **options: Any) -> ReleaseOptions:
    """How records are released that follow earlier releases, and those of files; ``options`` are of ReleaseOptions."""
    known = provenances_in(after)
    unit = PERSON if any(each.unit == PERSON for each in known) else UNIT
    return ReleaseOptions(earlier=(*earlier, *(r for each in known for r in each.releases)), unit=unit, **options)


def provenances_in(files: Sequence[Path]) -> list[Provenance]:
    """What files of randomized records say of themselves, in order. Raises InvalidInput as :func:`releases_in`."""
    out: list[Provenance] = []
    for path in files:
        for origin in origins_of(path):
            if origin.bound is None:
                # where there is no file, the error says that
                _ = None if path.exists() else open_source(RecordsAt(path))
                said = origin.doubt or "it is not bound to a design"
                raise InvalidInput(
                    f"{origin.what} does not say what was spent: {said}; give the file as optrr wrote it"
                )
            out.append(origin.bound)
    return out


def release_summary(provenance: Provenance) -> dict[str, Any]:
    """For JSON: ε spent in all and by this release, in nats, by what unit, and whether it is private.

    In all it is null where an earlier release was seeded, as in ``optrr account``.
    """
    return {
        "epsilon": finite(_in_all(provenance)),
        "unit": provenance.unit,
        "release_epsilon": provenance.randomizations[-1].epsilon,
        "randomizations": len(provenance.randomizations),
        "seeded": provenance.seeded,
        "private": not provenance.seeded,
        "order": provenance.order,
        **({"public": provenance.public.summary()} if provenance.public else {}),
    }


def _in_all(provenance: Provenance) -> float:
    """What was spent by all releases, as an account states it; of a single one, what its mechanism is labelled with."""
    return provenance.epsilon if len(provenance.releases) == 1 else provenance.cost


def epsilon_phrase(provenance: Provenance) -> str:
    """The total; where several releases add up to it, also each of them; where it is of all rounds, that."""
    spent = provenance.releases
    total = f"total epsilon {epsilon_text(_in_all(provenance))}" + (" for ever" if provenance.unit == PERSON else "")
    if len(spent) == 1:
        return total
    parts = " + ".join(epsilon_text(r.epsilon) for r in spent)
    return f"{total} in all ({parts})"


def replaced_release(output: Path, same: str = "") -> list[str]:
    """A warning where an output already holds a release: whoever kept a copy of it will have both.

    A release of the id ``same`` counts once with what replaces it, and needs none.
    """
    known = [o.bound for o in origins_of(output) if o.bound is not None] if output.is_file() else []
    return [
        f"{output} held a release of epsilon {epsilon_text(each.epsilon)}, which this one replaces; whoever kept a copy has "
        "both, and the epsilons add up (--after counts it)"
        for each in known
        if not same or {r.id for r in each.releases} != {same}
    ]


def report_release(release: FileRelease, output: Path, as_json: bool) -> None:
    """Say what was written, at which ε, and warn where it is not private."""
    warn([*release.provenance.not_private(str(output)), *release.provenance.in_order(str(output)), *release.warnings])
    if as_json:
        dropped = {"dropped": list(release.dropped)} if release.dropped else {}
        print_json(
            {"records": release.records, **release_summary(release.provenance), "output": str(output), **dropped}
        )
    else:
        phrase = epsilon_phrase(release.provenance)
        click.echo(f"{amount(release.records, 'record')} randomized at {phrase}, written to {output}")


# Whose ε it is, in words.
_UNITS = {
    UNIT: "each record",
    PERSON: "each person over time (all their reports for ever, while the true record stays as it is)",
}
_NOT_GIVEN = (
    "releases that are not given here are not in the sum, nor is what was done to records before they were randomized where "
    "the file that held them said nothing (a CSV without its sidecar)"
)

_DEVICES = (
    "answers of devices do not show whether each was drawn once, and how (optrr audit looks at a client); files that hold the "
    "same identifiers are counted once, and files that differ in one as further answers of the same people"
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

    Answers that devices sent (columns table, cells, design and id) state no epsilon; it is that of their --design.
    """
    epsilons = _epsilons_of(designs)
    sent = {} if key is not None else {file: each for file in files if (each := _sent_by_devices(file, epsilons))}
    others = [file for file in files if file not in sent]
    said = provenances_in(others) if key is None else [_signed(file, key) for file in files]
    known = [*said, *sent.values()]
    stated = distinct_releases(release for each in known for release in each.releases)
    _refuse_two_contents(others, said)
    spent = recomputed(stated, epsilons)
    units = list(dict.fromkeys(each.unit for each in known))
    total = math.inf if any(r.seeded for r in spent) else total_epsilon(spent)
    within = limit is None or total <= limit
    wrong = _differences(stated, spent)
    unknown = [*_unknown(stated, epsilons, signed=key is not None), *([_DEVICES] if sent else [])]
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


def _sent_by_devices(file: Path, epsilons: Mapping[str, float]) -> Provenance | None:
    """What the answers to questions that devices sent stand for, by the design that each of them names; None for other files.

    Collections of the same identifiers are one release, whatever their order; memory grows with their number.

    Raises InvalidInput for answers to several designs, or to one that is not among those whose ε are known.
    """
    if not file.is_file() or (origins_of(file)[0].bound is not None):
        return None
    source = open_source(RecordsAt(file))
    if not {"table", "cells", "design", "id"} <= set(source.column_names()):
        return None
    held = [batch.to_pydict() for batch in source.batches(["design", "id"])]
    named = {f"sha256:{design}" for batch in held for design in batch["design"]}
    if len(named) > 1:
        raise InvalidInput(f"{file} holds answers to {len(named)} designs; give those to each on their own")
    design = next(iter(named), "")
    if design not in epsilons:
        raise InvalidInput(
            f"{file} holds answers that devices sent, which say their design ({design[7:19] or 'none'}) and not its epsilon; "
            "give its file with --design"
        )
    identifiers = sorted({str(each) for batch in held for each in batch["id"]})
    release = hashlib.sha256("\n".join([design, *identifiers]).encode()).hexdigest()[:32]
    return Provenance((Release(design, epsilons[design], id=release),))


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
    from optrr.genomics.sampled_variants import load_sampled_variants  # noqa: PLC0415 (they bring the arithmetic of laws)
    from optrr.ways.longitudinal.design import load_longitudinal  # noqa: PLC0415
    from optrr.ways.protocols.sampled_tables import load_asking  # noqa: PLC0415

    of_kind: dict[str, Callable[[Content], Any]] = {
        LONGITUDINAL: load_longitudinal,
        SAMPLED_VARIANTS: load_sampled_variants,
    }
    out: dict[str, float] = {}
    for path in designs:
        held = content_of(path, "design file")
        made = of_kind.get(kind_of(held), load_asking)(held)
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


@click.command()
@input_argument
@design_option
@key_option
@signature_option
@records_output_option(", or - for CSV on standard output")
@click.option("--drop", multiple=True, metavar="NAME", help="Column of INPUT to leave out, such as an id; repeatable.")
@click.option(
    "--drop-undeclared",
    is_flag=True,
    help="Leave out every column of INPUT that the design does not declare, and say which.",
)
@public_option
@again_option
@after_option()
@limit_option
@keep_order_option
@seed_option
@json_option
def perturb(
    input: RecordsAt,
    design_file: Path,
    key: Path | None,
    signature: Path | None,
    output: Path,
    drop: tuple[str, ...],
    drop_undeclared: bool,
    public: tuple[str, ...],
    again: bool,
    after: tuple[Path, ...],
    limit: float | None,
    keep_order: bool,
    random_state: int | None,
    as_json: bool,
) -> None:
    """Randomize the records of INPUT, one column per attribute of the design.

    INPUT is a CSV, TSV, Parquet, JSON lines or Arrow file (text also compressed), a directory or several of them, a database
    with --query, or - for standard input. What is written is in random order, because a record's place may tell its value.
    """
    held = content_of(design_file, "design file")
    require_signed(held, key, signature, SAMPLED_TABLES if kind_of(held) == SAMPLED_TABLES else DESIGN)
    asking = load_asking(held)
    replaced = replaced_release(output)
    asked = PublicColumns.parsed(public)
    if asked and not isinstance(asking, Design):
        raise InvalidInput(
            f"{design_file} is no design of whole records, which alone pass public columns on; leave out --public"
        )
    how = {"drop": drop, "drop_undeclared": drop_undeclared, "again": again, "limit": limit, "public": asked}
    options = following(asking.earlier, after, keep_order=keep_order, **how)
    with late_bar() as show:
        place = input.watched(lambda done, share: show(f"{done} records randomized", share))
        if str(output) == STANDARD_INPUT:
            # what has gone into a pipe is out: there is nothing to clean up, and nothing to be said of it
            _release_to_pipe(asking, place, random_state, options, as_json)
            return
        with cleaned_up():
            made = asking.release_file(place, output, random_state, options)
    beside = made.provenance.public
    warn([*replaced, *formula_doubts(output, asking.domain), *([beside.warning()] if beside else [])])
    _say_dropped(made, drop_undeclared)
    report_release(made, output, as_json)


def _say_dropped(made: FileRelease, undeclared: bool) -> None:
    """Which columns were left out, where nobody has named them."""
    if undeclared and made.dropped:
        warn([f"left out, because the design does not declare them: {listed(made.dropped)}"], always=True)


def _release_to_pipe(
    asking: Asking, place: RecordsAt, random_state: int | None, options: ReleaseOptions, as_json: bool
) -> None:
    """Randomized records on standard output, so what is said of them goes to standard error."""
    if is_strict():
        raise InvalidInput(
            "a pipe keeps no account of what was spent, which --strict takes for a failure; name a file with -o"
        )
    if as_json or not isinstance(asking, Design):
        raise InvalidInput(
            "standard output takes only records that a design randomized, without --json; name a file with -o"
        )
    from optrr.mechanisms.perturb import release_pipe  # noqa: PLC0415 (most releases are files)

    how = asking.with_public(options)
    made = release_pipe(place, asking.mechanism, sys.stdout.buffer, random_state, how)
    _say_dropped(made, options.drop_undeclared)
    said = f"{amount(made.records, 'record')} randomized at {epsilon_phrase(made.provenance)}"
    known = made.provenance
    warn(
        [
            f"{said}; a pipe keeps no account of that",
            *known.not_private("this release"),
            *known.in_order("this release"),
        ]
    )
