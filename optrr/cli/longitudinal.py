"""optrr longitudinal-design, optrr longitudinal-perturb, optrr longitudinal-estimate."""

from pathlib import Path

import click

from optrr.cli import designing, printing, releasing
from optrr.cli.inputs import FILE, confidence_option, input_argument, split_names, table_attributes_option
from optrr.cli.main import cleaned_up
from optrr.cli.outputs import design_output_option
from optrr.core.display.text import bound_text, epsilon_text
from optrr.core.records.reading.source import RecordsAt
from optrr.core.records.writing import formula_doubts
from optrr.longitudinal.design import (
    SECONDS,
    LongitudinalDesign,
    Stages,
    load_longitudinal,
    longitudinal,
    save_longitudinal,
)
from optrr.longitudinal.panel import PanelEstimate, estimate_rounds
from optrr.longitudinal.rounds import Key, release_round

design_option = click.option(
    "--design",
    "design_file",
    required=True,
    type=FILE,
    help="File from optrr longitudinal-design.",
)
person_option = click.option(
    "--person", required=True, metavar="COLUMN", help="Column that tells people apart, the same in every round."
)


@click.command()
@designing.spec_argument
@designing.attribute_option
@design_output_option
@click.option("--forever", type=float, required=True, help="Most that all reports of a person may ever cost, in nats.")
@click.option(
    "--one-report",
    type=float,
    help="Most that one report may cost, in nats: the epsilons of SPEC are then proportions (all alike where it gives none).",
)
@click.option(
    "--second",
    type=click.Choice(SECONDS),
    default="whole",
    help="How a report is drawn from the permanent answer: by a coin for the whole record, or attribute by attribute.",
)
@designing.method_option("Solver of the optimum, the best one by default.")
@designing.preserve_option
@printing.json_option
def longitudinal_design(
    spec: Path | None,
    attributes: tuple[str, ...],
    output: Path | None,
    forever: float,
    one_report: float | None,
    second: str,
    method: str,
    preserve: str,
    as_json: bool,
) -> None:
    """Design for people who report again and again: a permanent answer, and a report drawn from it in every round.

    One report has the accuracies in SPEC (TOML or JSON) at the smallest total epsilon; all reports of a person together never
    cost more than --forever, however many rounds there are.
    """
    wanted = designing.read_wanted(spec, attributes)
    designing.keep_specification(spec, output)
    with printing.watched("designing") as options:
        stages = Stages(second, method, preserve, options=options)  # type: ignore[arg-type]  # the choices are the literals
        asked = wanted.required_epsilons() if one_report is None else wanted.proportions()
        made = longitudinal(wanted.domain, asked, forever, one_report=one_report, stages=stages)
    if output is not None:
        save_longitudinal(made, output)
    printing.warn([*made.warnings, *designing.left_out(wanted.public)])
    if as_json:
        printing.print_json(made.summary())
    else:
        show_longitudinal(made)


def show_longitudinal(made: LongitudinalDesign) -> None:
    """Print the totals by number of reports and one row per attribute."""
    summary = made.summary()
    printing.say(made.headline())
    # "one report" or "for ever"
    printing.say(f"certified lower bound, {summary['lower_bound_of']}: {bound_text(made.lower_bound)}")
    printing.print_table(
        "total epsilon of one person's reports, in nats",
        ["reports", "epsilon", ""],
        [
            (
                each["reports"],
                epsilon_text(each["epsilon"], printing.TABLE_DECIMALS),
                "exact" if each["exact"] else "at most",
            )
            for each in summary["reports"]
        ]
        + [("for ever", epsilon_text(made.epsilon, printing.TABLE_DECIMALS), "exact")],
    )
    printing.print_table(
        "epsilon per attribute, in nats",
        ["attribute", "size", "requested", "one report", "conditional", "for ever", "conditional for ever"],
        [
            (
                row["name"],
                row["size"],
                row["requested_epsilon"],
                row["epsilon"],
                epsilon_text(row["conditional_epsilon"], printing.TABLE_DECIMALS),
                row["forever_epsilon"],
                epsilon_text(row["forever_conditional_epsilon"], printing.TABLE_DECIMALS),
            )
            for row in summary["attributes"]
        ],
    )


@click.command()
@input_argument
@design_option
@releasing.records_output_option()
@click.option(
    "--key",
    "key_file",
    required=True,
    type=FILE,
    help="Secret that permanent answers are drawn from; stays with the true records.",
)
@click.option("--new-key", is_flag=True, help="Make the key first; its file must not exist yet.")
@person_option
@click.option("--round", "round_name", required=True, help="Name of the round; the same name gives the same reports.")
@releasing.after_option("rounds of this design and key count once; ")
@releasing.limit_option
@releasing.keep_order_option
@printing.json_option
def longitudinal_perturb(
    input: RecordsAt,
    design_file: Path,
    output: Path,
    key_file: Path,
    new_key: bool,
    person: str,
    round_name: str,
    after: tuple[Path, ...],
    limit: float | None,
    keep_order: bool,
    as_json: bool,
) -> None:
    """Everybody's report of one round from the true records of INPUT, one column per attribute and one that names the person.

    Permanent answers are drawn from the key, the person and the record, so that every round starts from the same ones.
    What is written is in random order, because a record's place may tell its value.
    """
    design = load_longitudinal(design_file)
    key = Key.new() if new_key else Key.load(key_file)
    options = releasing.following((), after, limit=limit, keep_order=keep_order)
    printing.warn(releasing.replaced_release(output, same=key.release_id(design.digest)))
    if new_key:
        key.save(key_file)
    with printing.late_bar() as show, cleaned_up():
        place = input.watched(lambda done, share: show(f"{done} reports drawn", share))
        made = release_round(place, design, output, key=key, round_name=round_name, person=person, options=options)
    printing.warn(formula_doubts(output, design.domain))
    releasing.report_release(made, output, as_json)


@click.command()
@click.argument("rounds", metavar="ROUND...", nargs=-1, required=True, type=FILE)
@design_option
@person_option
@table_attributes_option
@click.option("--change", is_flag=True, help="Also how much each cell moved from the first round to the last.")
@confidence_option
@printing.json_option
def longitudinal_estimate(
    rounds: tuple[Path, ...],
    design_file: Path,
    person: str,
    attributes: str,
    change: bool,
    confidence: float,
    as_json: bool,
) -> None:
    """Proportions from the reports of several rounds, in order: their average, and with --change what moved.

    Errors are computed from people, whose reports depend on each other through the permanent answer.
    """
    design = load_longitudinal(design_file)
    panel, doubts = estimate_rounds(rounds, design, split_names(attributes), person=person)
    results = [panel.average(confidence), *([panel.change(confidence=confidence)] if change else [])]
    printing.warn(doubts)
    if as_json:
        printing.print_json({**{r.what: r.summary() for r in results}, "doubts": doubts})
        return
    for result in results:
        show_panel(result)


def show_panel(result: PanelEstimate) -> None:
    """Print one row per cell."""
    printing.print_shown(f"{result.headline()}, {100 * result.confidence:g}% intervals", result.shown())
