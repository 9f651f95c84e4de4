"""optrr randomize and account, and the options and messages about releases that commands share."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from optrr.allocation.sampled_tables import load_asking
from optrr.cli.inputs import DESIGN_FILE, INPUT, PUBLIC, Signed
from optrr.cli.main import cleaned_up
from optrr.cli.options import argument, command, group, option
from optrr.cli.outputs import OUTPUT
from optrr.cli.printing import give, is_json, is_strict, print_json, print_table, progress, warn
from optrr.core.design import Asking, Design
from optrr.core.display import amount, epsilon_text
from optrr.core.domain import PublicColumns, listed
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms import FileRelease, ReleaseOptions
from optrr.core.provenance import (
    DEPLOYMENT,
    PERSON,
    SEEDED,
    UNIT,
    Provenance,
    Release,
    content_of,
    distinct_releases,
    finite,
    kind_of,
    shown_digest,
    total_epsilon,
    unit_of,
)
from optrr.core.records import STANDARD_INPUT, RecordsAt, formula_doubts, open_source, origins_of

LIMIT = option("Most that one person may have spent in all, in nats.", type=click.FloatRange(min=0, min_open=True))
KEEP_ORDER = option("Leave the records in the order of INPUT, which no epsilon covers, instead of shuffling them.")
SEED = option("Seed, for studies only; the default draws from the operating system.", type=click.IntRange(min=0))


def after_option(more: str = "") -> Any:
    """The option --after; ``more`` is added to its help."""
    return option(f"Earlier release of the same people, whose epsilon adds up; {more}repeatable.")


def records_output_option(more: str = "") -> Any:
    """The option -o of randomized records; ``more`` is what may be given instead of a file."""
    return option(f"CSV or Parquet file to write{more}.", "-o", required=True, type=OUTPUT)


def provenances_in(files: Sequence[Path]) -> list[Provenance]:
    """The notes of files of randomized records, in order. Raises InvalidInput for a file without one."""
    out: list[Provenance] = []
    for path in files:
        for origin in origins_of(path):
            if origin.provenance is None:
                if not path.exists():
                    open_source(RecordsAt(path))  # raises, and its error says that there is no file
                raise InvalidInput(
                    f"{origin.what} has no provenance metadata, so its epsilon is not known; give the file as optrr wrote it"
                )
            out.append(origin.provenance)
    return out


def following(earlier: Sequence[Release], after: Sequence[Path], **options: Any) -> ReleaseOptions:
    """Options of a release that follows earlier ones, and those of the files of --after."""
    return ReleaseOptions(earlier=(*earlier, *(r for each in provenances_in(after) for r in each.releases)), **options)


def release_summary(provenance: Provenance) -> dict[str, Any]:
    """For JSON: ε in all and of this release, in nats, its unit, and whether it is private."""
    return {
        "epsilon": finite(_in_all(provenance)),
        "unit": unit_of(provenance.releases),
        "release_epsilon": provenance.release.epsilon,
        "private": not provenance.seeded,
        **({"public": provenance.public.summary()} if provenance.public else {}),
    }


def _in_all(provenance: Provenance) -> float:
    """Total ε that was consumed; of a single seeded release, its stated ε."""
    known = provenance.releases
    return math.inf if provenance.seeded and len(known) > 1 else total_epsilon(known)


def epsilon_phrase(provenance: Provenance) -> str:
    """The total in words, with its parts if several releases add up to it."""
    known = provenance.releases
    forever = " for ever" if unit_of(known) == PERSON else ""
    total = f"total epsilon {epsilon_text(_in_all(provenance))}{forever}"
    if len(known) == 1:
        return total
    parts = " + ".join(epsilon_text(r.epsilon) for r in known)
    return f"{total} in all ({parts})"


def replaced_release(output: Path, same: str = "") -> list[str]:
    """A warning if an output already holds a release, other than that of the id ``same``: somebody may have a copy of it."""
    known = [o.provenance for o in origins_of(output) if o.provenance is not None] if output.is_file() else []
    return [
        f"{output} held a release of epsilon {epsilon_text(each.epsilon)}, which this one replaces; whoever kept a copy has "
        "both, and the epsilons add up (--after counts it)"
        for each in known
        if not same or {r.id for r in each.releases} != {same}
    ]


def report_release(release: FileRelease, output: Path) -> None:
    """Say what was written, at which ε, and warn if it is not private."""
    warn([*release.provenance.not_private(str(output)), *release.warnings])
    dropped = {"dropped": list(release.dropped)} if release.dropped else {}
    summary = {"records": release.records, **release_summary(release.provenance), "output": str(output), **dropped}
    phrase = f"{amount(release.records, 'record')} randomized at {epsilon_phrase(release.provenance)}"
    give(lambda: summary, lambda: click.echo(f"{phrase}, written to {output}"))


# The unit of ε in words.
_UNITS = {
    UNIT: "each record",
    PERSON: "each person over time (all their reports for ever, while the true record stays as it is)",
}


@command
def account(
    paths: tuple[Path, ...] = argument(metavar="FILE...", required=True),
    designs: tuple[Path, ...] = option(
        "Recompute the epsilon of the releases that this design drew instead of believing the files; repeatable.",
        "--design",
    ),
    limit: float | None = LIMIT,
) -> int:
    """Add up the epsilon of several releases of the same people; exit 1 if it is above --limit.

    FILEs hold randomized records of the same people. Each release counts once, by its id, and so do the releases that it
    followed (randomize --after); the epsilons add up (sequential composition). The unit is one record; of rounds of a
    longitudinal design it is a person over time: everything that one person ever reports. Releases that are not given are not
    in the sum. What a file states is believed unless its --design is given.
    """
    stated = distinct_releases(release for each in provenances_in(paths) for release in each.releases)
    epsilons = {made.digest: made.epsilon for made in map(_loaded, designs)}
    releases = [_recomputed(release, epsilons) for release in stated]
    private = not any(r.seeded for r in releases)
    total = total_epsilon(releases) if private else math.inf
    within = limit is None or total <= limit
    warn([] if private else [f"a release was {SEEDED}"])
    if is_json():
        print_json(
            {
                "epsilon": finite(total),
                "limit": limit,
                "within_limit": within,
                "private": private,
                "unit": unit_of(releases),
                "releases": releases,
            }
        )
        return 0 if within else 1
    rows = [
        (
            r.id[:12] or "unknown",
            shown_digest(r.design),
            r.mechanism,
            epsilon_text(r.epsilon),
            "its design" if r.design in epsilons else "the file",
            "no" if r.seeded else "yes",
        )
        for r in releases
    ]
    print_table("releases", ["release", "design", "mechanism", "epsilon", "from", "private"], rows)
    whose = _UNITS[unit_of(releases)]
    click.echo(f"total epsilon {epsilon_text(total)} for {whose}, if these files are about the same people")
    if not within:
        click.echo(f"error: {epsilon_text(total)} nats are above the limit of {limit:g}", err=True)
    return 0 if within else 1


def _loaded(path: Path) -> Any:
    """A design of any kind, whose ε is recomputed."""
    from optrr.core import files  # noqa: PLC0415 (it brings every kind of design)

    held = content_of(path, "design file")
    return load_asking(held) if kind_of(held) == DEPLOYMENT else files.load(held)


def _recomputed(stated: Release, epsilons: dict[str, float]) -> Release:
    """The release with the ε of its design, if that is known. Raises InvalidInput if less is stated."""
    true = epsilons.get(stated.design, stated.epsilon)
    if stated.epsilon < true:
        raise InvalidInput(
            f"a file states epsilon {epsilon_text(stated.epsilon)} for release {stated.id[:12] or 'unknown'}, and its design "
            f"consumes {epsilon_text(true)}: its provenance was edited; give the file as optrr wrote it"
        )
    return msgspec.structs.replace(stated, epsilon=true)


@command
def randomize(
    input: RecordsAt = INPUT,
    design_file: Path = DESIGN_FILE,
    signed: Signed = group(Signed),
    output: Path = records_output_option(", or - for CSV on standard output"),
    drop: tuple[str, ...] = option("Column of INPUT to leave out, such as an id; repeatable.", metavar="NAME"),
    drop_undeclared: bool = option("Leave out every column of INPUT that the design does not declare, and say which."),
    public: tuple[str, ...] = PUBLIC,
    after: tuple[Path, ...] = after_option(),
    limit: float | None = LIMIT,
    keep_order: bool = KEEP_ORDER,
    random_state: int | None = SEED,
) -> None:
    """Randomize the records of INPUT, one column per attribute of the design.

    INPUT is a CSV, TSV, Parquet, JSON lines or Arrow file (text also compressed), a directory or several of them, a database
    with --query, or - for standard input. What is written is in random order, because a record's place may tell its value.
    """
    held = content_of(design_file, "design file")
    signed.check(held)
    asking = load_asking(held)
    replaced = replaced_release(output)
    asked = PublicColumns.parsed(public)
    if asked and not asking.budgets:
        raise InvalidInput(
            f"{design_file} is no design of whole records, which alone pass public columns on; leave out --public"
        )
    how = {"drop": drop, "drop_undeclared": drop_undeclared, "limit": limit, "public": asked}
    options = following(asking.earlier, after, keep_order=keep_order, **how)
    place = input.watched(lambda done, share: progress(f"{done} records randomized", share))
    if str(output) == STANDARD_INPUT:
        # what has gone into a pipe is out: there is nothing to clean up, and nothing to be said of it
        _release_to_pipe(asking, place, random_state, options)
        return
    with cleaned_up():
        made = asking.release_file(place, output, random_state, options)
    beside = made.provenance.public
    warn([*replaced, *formula_doubts(output, asking.domain), *([beside.warning()] if beside else [])])
    _say_dropped(made, drop_undeclared)
    report_release(made, output)


def _say_dropped(made: FileRelease, undeclared: bool) -> None:
    """Which columns were left out, where nobody has named them."""
    if undeclared and made.dropped:
        warn([f"left out, because the design does not declare them: {listed(made.dropped)}"], always=True)


def _release_to_pipe(asking: Asking, place: RecordsAt, random_state: int | None, options: ReleaseOptions) -> None:
    """Randomized records on standard output, so what is said of them goes to standard error."""
    if is_strict():
        raise InvalidInput("a pipe has no provenance, which --strict takes for a failure; name a file with -o")
    if is_json() or not asking.budgets:
        raise InvalidInput(
            "standard output takes only records that a design randomized, without --json; name a file with -o"
        )
    from optrr.core.mechanisms import release_pipe  # noqa: PLC0415 (most releases are files)

    design = cast(Design, asking)
    made = release_pipe(place, design.mechanism, sys.stdout.buffer, random_state, design.with_public(options))
    _say_dropped(made, options.drop_undeclared)
    said = f"{amount(made.records, 'record')} randomized at {epsilon_phrase(made.provenance)}"
    warn([f"{said}; a pipe has no provenance", *made.provenance.not_private("this release"), *made.warnings])
