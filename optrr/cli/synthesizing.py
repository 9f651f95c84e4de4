"""optrr synthesize and combine: records drawn from a model of the estimates, and numbers from several sets of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from optrr.cli.inputs import confidence_option, design_option, input_argument, keep_input, split_names
from optrr.cli.outputs import OUTPUT, check_estimate_suffix, table_option, write_estimate
from optrr.cli.printing import json_option, print_json, print_shown, print_table, say, warn
from optrr.designs.design_file import load_design
from optrr.errors import InvalidInput
from optrr.models.synthesis.combined import combine as combined
from optrr.models.synthesis.drawing import Closeness
from optrr.models.synthesis.drawing import synthesize as draw_records
from optrr.records.reading.registry import open_source
from optrr.records.reading.source import RecordsAt
from optrr.records.writing import check_written_suffix, formula_doubts


@click.command()
@input_argument
@design_option
@click.option("-o", "--output", required=True, type=OUTPUT, help="CSV or Parquet file for the records.")
@click.option("--attributes", metavar="A,B,…", help="Attributes of the records; all of the design's unless given.")
@click.option(
    "--keep",
    multiple=True,
    metavar="Y~A+B|A*B*C",
    help="A regression, or a table of more than two attributes, that the records keep beside all pairs; repeatable.",
)
@click.option(
    "--sets",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of data sets, of --size records each; numbers from 20 have intervals that hold (optrr combine).",
)
@click.option("--size", type=click.IntRange(min=1), help="Number of records; as many as INPUT holds unless given.")
@click.option("--random-state", type=click.IntRange(min=0), help="Seed of the draw.")
@json_option
def synthesize(
    *,
    input: RecordsAt,
    design_file: Path,
    output: Path,
    attributes: str | None,
    keep: tuple[str, ...],
    sets: int,
    size: int | None,
    random_state: int | None,
    as_json: bool,
) -> None:
    """Records to hand on, drawn from a model with the pair tables estimated from randomized ones; errors are the estimates'."""
    check_written_suffix(output)
    keep_input(output, input)
    design = load_design(design_file)
    reports = design.reports(input)
    doubts = reports.unweighted_doubts
    chosen = None if attributes is None else split_names(attributes)
    result = draw_records(
        reports.places[0], design.mechanism, chosen, keep=keep, sets=sets, size=size, random_state=random_state
    )
    result.save(output)
    doubts += formula_doubts(output, design.domain)
    warn([*doubts, *result.warnings])
    if as_json:
        print_json(result.summary() | {"output": str(output), "doubts": doubts})
        return
    _print_closeness("pair tables beside the estimates", "pair", result.pairs)
    _print_closeness("tables that are kept beside the estimates", "table", result.margins)
    _print_closeness("regressions that are kept beside those of the reports", "regression", result.regressions)
    say(f"{result.headline()}, written to {output}")


def _print_closeness(title: str, what: str, compared: Sequence[Closeness]) -> None:
    if compared:
        cells = "coefficients" if what == "regression" else "cells"
        heads = [what, cells, "within intervals", "largest difference", "association kept"]
        print_table(title, heads, [[c.name, c.cells, c.within, c.largest_difference, c.kept] for c in compared])


@click.command()
@input_argument
@confidence_option
@table_option
@json_option
def combine(*, input: RecordsAt, confidence: float, output: Path | None, as_json: bool) -> None:
    """Numbers computed from each of several synthetic sets, combined: intervals that count the error of randomization.

    INPUT has the columns parameter and estimate, and may have standard_error: one row for each parameter and set, the sets in
    the same order for every parameter.
    """
    if output is not None:
        check_estimate_suffix(output)
        keep_input(output, input)
    estimates, errors = _read(input)
    result = combined(estimates, errors, confidence=confidence)
    if output is not None:
        write_estimate(result, result.summary(), output)
    warn(result.warnings)
    if as_json:
        print_json(result.summary())
        return
    print_shown(f"{result.headline()}, {100 * confidence:g}% intervals", result.shown())


_PARAMETER, _ESTIMATE, _ERROR = "parameter", "estimate", "standard_error"


def _read(place: RecordsAt) -> tuple[list[dict[str, float]], list[dict[str, float]] | None]:
    """Estimates and errors of each set, by parameter. Raises InvalidInput."""
    source = open_source(place)
    present = source.column_names()
    absent = [name for name in (_PARAMETER, _ESTIMATE) if name not in present]
    if absent:
        raise InvalidInput(
            f"{place} has no column {absent[0]!r}; give one row for each parameter and set, with the columns parameter, "
            "estimate and, if you like, standard_error"
        )
    names = [_PARAMETER, _ESTIMATE, *([_ERROR] if _ERROR in present else [])]
    columns: dict[str, dict[str, list[float]]] = {name: {} for name in names[1:]}
    for batch in source.batches(names):
        parameters = batch.column(_PARAMETER).to_pylist()
        for name, rows in columns.items():
            for parameter, value in zip(parameters, batch.column(name).to_pylist(), strict=True):
                rows.setdefault(str(parameter), []).append(_number(value, name, place))
    sets = {len(values) for values in columns[_ESTIMATE].values()}
    if len(sets) != 1:
        odd = {name: len(values) for name, values in columns[_ESTIMATE].items()}
        said = ", ".join(f"{name} {number}" for name, number in odd.items()) or "none"
        raise InvalidInput(f"{place} has estimates of {said}; give as many of every parameter, one for each set")
    each = [[{p: v[k] for p, v in rows.items()} for k in range(*sets)] for rows in columns.values()]
    return each[0], each[1] if len(each) > 1 else None


def _number(value: object, column: str, place: RecordsAt) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise InvalidInput(f"{place} has {value!r} in the column {column!r}, which is no number; mend it") from None
