"""What commands ask and say about releases: whether one may follow another, what has been spent, and by which design."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from optrr.cli.inputs import FILE
from optrr.cli.printing import print_json, warn
from optrr.cli.targets import OUTPUT
from optrr.errors import InvalidInput
from optrr.mechanisms.release import FileRelease, ReleaseOptions
from optrr.records.origins import origins_of
from optrr.records.reading.registry import open_source
from optrr.records.reading.source import RecordsAt
from optrr.releases.account import Release, finite
from optrr.releases.provenance import PERSON, UNIT, Provenance
from optrr.show.printable import amount
from optrr.show.rounding import epsilon_text

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
