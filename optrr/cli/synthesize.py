"""optrr synthesize: synthetic records from a model of the estimates, and combined numbers of several sets."""

from __future__ import annotations

from pathlib import Path

import click

from optrr.analysis import combine as combined
from optrr.analysis.synthesis.combined import read_estimates
from optrr.cli import inputs, outputs
from optrr.cli.options import command, option, refuse_options
from optrr.cli.printing import give, warn
from optrr.core.design import load_design
from optrr.core.errors import InvalidInput
from optrr.core.records import RecordsAt, format_to_write, formula_doubts


@command
def synthesize(
    input: RecordsAt = inputs.INPUT,
    design_file: Path | None = option("Design file from optrr design.", "--design"),
    output: Path | None = option("CSV or Parquet file for the records.", "-o", type=outputs.OUTPUT),
    attributes: str | None = option("Attributes of the records; default: all of the design.", metavar="A,B,…"),
    margins: tuple[str, ...] = option(
        "Regression, or table of more than two attributes, to preserve in addition to all pairs; repeatable.",
        metavar="Y~A+B|A*B*C",
    ),
    sets: int = option(
        "Number of data sets, of --n records each; with 20 or more, combined numbers have valid intervals.",
        type=click.IntRange(min=1),
        default=1,
    ),
    n: int | None = option("Number of records; default: as many as INPUT has.", type=click.IntRange(min=1)),
    random_state: int | None = inputs.RANDOM_STATE,
    combine: bool = option(
        "Combine numbers computed from several sets: INPUT has the columns parameter and estimate, with one row "
        "per parameter and set, and the sets in the same order."
    ),
    confidence: float = inputs.CONFIDENCE,
) -> None:
    """Draw synthetic records, or combine estimates of several sets.

    Records are drawn from a model of the estimated pair tables, and may be shared.

    Example: optrr synthesize randomized.csv --design design.json --sets 3 -o synthetic.csv
    """
    if output is not None:
        inputs.keep_input(output, input)
    if combine:
        refuse_options(
            "applies to drawing records; leave it out with --combine",
            *("design_file", "attributes", "margins", "sets", "n", "random_state"),
        )
        numbers = combined(read_estimates(input), confidence=confidence)
        if output is not None:
            outputs.write_estimate(numbers, numbers.summary(), output)
        warn(numbers.warnings)
        give(numbers)
        return
    if design_file is None or output is None:
        missing = "design_file" if design_file is None else "output"
        raise InvalidInput(f"``{missing}``: missing; give it, or combine numbers with ``combine``")
    format_to_write(output)
    design = load_design(design_file)
    reports = design.reports(input)
    chosen = None if attributes is None else inputs.split_names(attributes)
    result = reports.synthesize(
        n, attributes=chosen, margins=margins, sets=sets, confidence=confidence, random_state=random_state
    )
    result.save(output)
    doubts = [*reports.unweighted_doubts, *formula_doubts(output, design.domain)]
    warn([*doubts, *result.warnings])
    give(result, output=str(output), doubts=doubts)
