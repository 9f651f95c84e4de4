"""optrr gwas-randomize --status: one person's report, which is drawn once and remembered."""

from dataclasses import dataclass
from pathlib import Path
from typing import IO

import click
import msgspec

from optrr.cli.options import option, refuse_options
from optrr.cli.printing import give, warn
from optrr.core.display import amount, epsilon_text
from optrr.core.errors import InvalidInput
from optrr.core.records import STANDARD_INPUT, refuse_randomized, whole_file
from optrr.genomics.genotypes import Codes
from optrr.genomics.person import Absent, read_person
from optrr.genomics.person_reports import ENDING, ReportedDesign, spent_in
from optrr.genomics.randomize import MissingPolicy

_STATUS = {"case": True, "control": False}


@dataclass(frozen=True)
class OnePerson:
    """The options of one person's report."""

    status: str | None = option("INPUT is one person's file: write that person's one report.", metavar="case|control")
    status_file: IO[str] | None = option(
        "File that holds the word case or control, or - for standard input; shells keep what --status says.",
        type=click.File("r", encoding="utf-8"),
    )
    absent: Absent = option(
        "Variants of which one person's file has no record: two copies of the reference allele, or missing calls.",
        default="refuse",
    )
    diary: Path | None = option(
        "Folder that keeps what this person has sent, as the Python client does.  [default: INPUT.diary, beside INPUT]",
        type=click.Path(path_type=Path, file_okay=False),
    )

    def asked(self, output: Path) -> bool:
        """Whether one person's report is asked for. Raises InvalidInput for options that only that has, and for .json."""
        if self.status is not None or self.status_file is not None:
            return True
        refuse_options(
            "is for one person's file; give --status or --status-file too, or leave it out", "absent", "diary"
        )
        if output.suffix.lower() == ENDING:
            raise InvalidInput(
                f"{output} is where one person's report goes; say that person's --status, or write .bed, .csv or .parquet"
            )
        return False


def _is_case(status: str | None, file: IO[str] | None) -> bool:
    """Raises InvalidInput for another word, which may be somebody's diagnosis and is not shown."""
    if status is not None and file is not None:
        raise InvalidInput("--status and --status-file say the same; give one of them")
    option, word = (
        ("--status-file", file.read(64)) if status is None and file is not None else ("--status", status or "")
    )
    case = _STATUS.get(word.strip().casefold())
    if case is None:
        raise InvalidInput(f"{option} holds neither case nor control; write one of these words, and nothing else")
    return case


def report_one_person(
    one: OnePerson,
    input: Path,
    asked: ReportedDesign,
    output: Path,
    how: tuple[MissingPolicy, float | None],
) -> None:
    """Write the report that is kept for this design, or draw it, keep it and write it."""
    if output.suffix.lower() != ENDING:
        raise InvalidInput(f"cannot write {output}: one person's report is written as {ENDING}")
    case = _is_case(one.status, one.status_file)
    missing, limit = how
    if str(input) == STANDARD_INPUT and one.diary is None:
        raise InvalidInput("standard input has no folder beside it that could remember; name one (--diary FOLDER)")
    folder = one.diary or input.with_name(f"{input.name}.diary")

    def record() -> Codes:
        refuse_randomized(input)
        person, said = read_person(input, asked.layout, case, one.absent)
        true = asked.records(person, missing)
        said.extend(asked.exposed(true))
        # before anything is drawn, because with --strict nothing is
        warn(said)
        return true

    report, new = asked.report_once(record, folder, limit)
    if not new:
        # not a warning, which --strict would take for a failure: sending the same again is what a diary is for
        click.echo(f"note: drawn before: the same report again, from {folder}", err=True)
    with whole_file(output) as partial:
        partial.write_bytes(msgspec.json.encode(report) + b"\n")
    variants, spent, epsilon = asked.layout.variants, spent_in(folder), asked.design.epsilon
    made = {"records": 1, "variants": variants, "epsilon": epsilon, "new": new, "spent": spent}
    drawn = "drawn now, and kept" if new else "drawn before: the same report again, and nothing was drawn"
    line = (
        f"one report about {amount(variants, 'variant')} at total epsilon {epsilon_text(epsilon)}, {drawn}; "
        f"written to {output}, remembered in {folder} (epsilon {epsilon_text(spent)} spent in all)"
    )
    give(lambda: made | {"output": str(output), "diary": str(folder)}, lambda: click.echo(line))
