"""optrr randomize and account, and the options of releases that commands share."""

from pathlib import Path
from typing import Any

import click

from optrr.allocation.sampled_tables import load_asking
from optrr.cli.inputs import DESIGN_FILE, INPUT, PUBLIC, PUBLIC_KEY
from optrr.cli.main import cleaned_up
from optrr.cli.options import argument, command, option
from optrr.cli.outputs import OUTPUT
from optrr.cli.printing import give, progress, warn
from optrr.core.design import require_signed
from optrr.core.domain import PublicColumns
from optrr.core.provenance import content_of
from optrr.core.records import RecordsAt

LIMIT = option("Maximum total epsilon of one person, in nats.", type=click.FloatRange(min=0, min_open=True))
KEEP_ORDER = option("Keep the order of INPUT, which no epsilon protects, instead of shuffling the records.")
SEED = option("Seed, for simulations only; default: the operating system's random bits.", type=click.IntRange(min=0))
AFTER = option("Earlier release of the same people, whose epsilon is added; repeatable.")
RECORDS_OUTPUT = option("CSV or Parquet file to write.", "-o", required=True, type=OUTPUT)


@command
def account(
    paths: tuple[Path, ...] = argument(metavar="FILE...", required=True),
    designs: tuple[Path, ...] = option(
        "Design of a release, from which epsilon is recomputed instead of taken from the file; repeatable.", "--design"
    ),
    limit: float | None = LIMIT,
) -> int:
    """Add up the epsilon of releases of the same people.

    Exit 1 if the sum exceeds --limit. FILEs have randomized records of the same people. Each release counts once, by
    its id, and so do the releases that it followed (randomize --after). Other releases are not in the sum.

    Example: optrr account randomized.csv --design design.json
    """
    from optrr.core.account import account as added  # noqa: PLC0415 (brings Arrow's readers)

    result = added(paths, designs, limit)
    warn(result.warnings)
    give(result)
    return 0 if result.within_limit else 1


@command
def randomize(
    input: RecordsAt = INPUT,
    design_file: Path = DESIGN_FILE,
    public_key: Path | None = PUBLIC_KEY,
    output: Path = RECORDS_OUTPUT,
    drop_undeclared: bool = option("Drop every column of INPUT that the design does not declare."),
    public: tuple[str, ...] = PUBLIC,
    after: tuple[Path, ...] = AFTER,
    limit: float | None = LIMIT,
    keep_order: bool = KEEP_ORDER,
    random_state: int | None = SEED,
) -> None:
    """Randomize the records of INPUT.

    INPUT has one column per attribute of the design. Records are written in random order, because the position of a
    record may reveal its value.

    Example: optrr randomize records.csv --design design.json -o released.csv
    """
    asking = load_asking(require_signed(content_of(design_file, "design file"), public_key))
    how: dict[str, Any] = {"drop_undeclared": drop_undeclared, "limit": limit, "public": PublicColumns.parsed(public)}
    place = input.watched(lambda done, share: progress(f"{done} records randomized", share))
    with cleaned_up():
        made = asking.randomize(place, output, random_state, after=after, keep_order=keep_order, **how)
    warn(made.warnings)
    give(made)
