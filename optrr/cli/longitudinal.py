"""optrr longitudinal-design, optrr longitudinal-randomize, optrr longitudinal-estimate."""

from pathlib import Path

from optrr.cli import designing, printing, releasing
from optrr.cli.inputs import CONFIDENCE, INPUT, TABLE_ATTRIBUTES, split_names
from optrr.cli.main import cleaned_up
from optrr.cli.options import argument, command, option
from optrr.cli.outputs import DESIGN_OUTPUT
from optrr.core.design import Preserve, Specification
from optrr.core.display import bound_text, epsilon_text
from optrr.core.records import RecordsAt, formula_doubts
from optrr.longitudinal.design import (
    LongitudinalDesign,
    Second,
    Stages,
    load_longitudinal,
    longitudinal,
    save_longitudinal,
)
from optrr.longitudinal.panel import estimate_rounds
from optrr.longitudinal.rounds import Key, release_round

DESIGN_FILE = option("File from optrr longitudinal-design.", "--design", required=True)
PERSON = option(
    "Column that tells people apart, the same in every round.", "--id-column", required=True, metavar="COLUMN"
)


@command
def longitudinal_design(
    wanted: Specification = designing.WANTED,
    output: Path | None = DESIGN_OUTPUT,
    forever: float = option(
        "Most that all reports of a person may ever cost, in nats.", "--lifetime-epsilon", required=True
    ),
    one_report: float | None = option(
        "Most that one report may cost, in nats: the epsilons of SPEC are then proportions (all alike where it gives none).",
        "--report-epsilon",
    ),
    second: Second = option(
        "How a report is drawn from the permanent answer: by a coin for the whole record, or attribute by attribute.",
        default="whole",
    ),
    method: str = designing.method_option("Solver of the optimum, the best one by default."),
    preserve: Preserve = designing.PRESERVE,
) -> None:
    """Design for people who report again and again: a permanent answer, and a report drawn from it in every round.

    One report has the accuracies in SPEC (TOML or JSON) at the smallest total epsilon; all reports of a person together never
    cost more than --lifetime-epsilon, however many rounds there are.
    """
    designing.keep_specification(output)
    stages = Stages(second, method, preserve, options=printing.watched())
    asked = wanted.required_epsilons() if one_report is None else wanted.proportions()
    made = longitudinal(wanted.domain, asked, forever, one_report=one_report, stages=stages)
    if output is not None:
        save_longitudinal(made, output)
    printing.warn([*made.warnings, *wanted.public.left_out("a longitudinal design")])
    printing.give(made.summary, lambda: show_longitudinal(made))


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


@command
def longitudinal_randomize(
    input: RecordsAt = INPUT,
    design_file: Path = DESIGN_FILE,
    output: Path = releasing.records_output_option(),
    key_file: Path = option(
        "Secret that permanent answers are drawn from; stays with the true records.", "--key", required=True
    ),
    new_key: bool = option("Make the key first; its file must not exist yet."),
    person: str = PERSON,
    round_name: str = option("Name of the round; the same name gives the same reports.", "--wave", required=True),
    after: tuple[Path, ...] = releasing.after_option("rounds of this design and key count once; "),
    limit: float | None = releasing.LIMIT,
    keep_order: bool = releasing.KEEP_ORDER,
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
    with cleaned_up():
        place = input.watched(lambda done, share: printing.progress(f"{done} reports drawn", share))
        made = release_round(place, design, output, key=key, round_name=round_name, person=person, options=options)
    printing.warn(formula_doubts(output, design.domain))
    releasing.report_release(made, output)


@command
def longitudinal_estimate(
    rounds: tuple[Path, ...] = argument(metavar="ROUND...", required=True),
    design_file: Path = DESIGN_FILE,
    person: str = PERSON,
    attributes: str = TABLE_ATTRIBUTES,
    change: bool = option("Also how much each cell moved from the first round to the last."),
    confidence: float = CONFIDENCE,
) -> None:
    """Proportions from the reports of several rounds, in order: their average, and with --change what moved.

    Errors are computed from people, whose reports depend on each other through the permanent answer.
    """
    design = load_longitudinal(design_file)
    panel, doubts = estimate_rounds(rounds, design, split_names(attributes), person=person)
    results = [panel.average(confidence), *([panel.change(confidence=confidence)] if change else [])]
    printing.warn(doubts)

    def show() -> None:
        for result in results:
            printing.print_shown(f"{result.headline()}, {100 * result.confidence:g}% intervals", result.shown())

    printing.give(lambda: {**{r.what: r.summary() for r in results}, "doubts": doubts}, show)
