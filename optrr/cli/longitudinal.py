"""optrr waves: design, randomize and estimate for respondents who report in several waves."""

from pathlib import Path

from optrr.cli import designing
from optrr.cli.inputs import CONFIDENCE, INPUT, TABLE_ATTRIBUTES, split_names
from optrr.cli.main import cleaned_up
from optrr.cli.options import argument, command, option
from optrr.cli.outputs import DESIGN_OUTPUT
from optrr.cli.printing import give, progress, warn, watched
from optrr.cli.releasing import AFTER, KEEP_ORDER, LIMIT, RECORDS_OUTPUT
from optrr.core.design import Preserve, Specification
from optrr.core.mechanisms import ReleaseOptions
from optrr.core.records import RecordsAt
from optrr.longitudinal.design import load_longitudinal, longitudinal, save_longitudinal
from optrr.longitudinal.panel import estimate_waves
from optrr.longitudinal.rounds import Key, randomize_wave

DESIGN_FILE = option("File from optrr waves design.", "--design", required=True)
ID_COLUMN = option("Column that identifies each person, the same in every wave.", required=True, metavar="COLUMN")


@command
def design(
    wanted: Specification = designing.WANTED,
    output: Path | None = DESIGN_OUTPUT,
    lifetime_epsilon: float = option("Maximum epsilon of all reports of a person, in nats.", required=True),
    report_epsilon: float | None = option(
        "Maximum epsilon of one report, in nats; the epsilons of SPEC then set proportions (equal by default)."
    ),
    method: str = designing.method_option("Solver of the optimum; default: the best one."),
    preserve: Preserve = designing.PRESERVE,
) -> None:
    """Design a memoized response and the reports drawn from it.

    One report has the accuracies in SPEC at the smallest total epsilon. All reports of a person together never consume
    more than --lifetime-epsilon, for any number of waves.

    Example: optrr waves design spec.toml --lifetime-epsilon 6
    """
    designing.keep_specification(output)
    made = longitudinal(
        wanted.domain,
        wanted.required_epsilons() if report_epsilon is None else wanted.proportions(),
        lifetime_epsilon,
        report_epsilon=report_epsilon,
        method=method,
        preserve=preserve,
        options=watched(),
    )
    if output is not None:
        save_longitudinal(made, output)
    warn([*made.warnings, *wanted.public.left_out("a longitudinal design")])
    give(made)


@command
def randomize(
    input: RecordsAt = INPUT,
    design_file: Path = DESIGN_FILE,
    output: Path = RECORDS_OUTPUT,
    secret: Path = option(
        "Secret from which memoized responses are drawn; keep it with the true records.", required=True
    ),
    new_secret: bool = option("Make the secret first; its file must not exist yet."),
    id_column: str = ID_COLUMN,
    wave: str = option("Name of the wave; the same name gives the same reports.", required=True),
    after: tuple[Path, ...] = AFTER,
    limit: float | None = LIMIT,
    keep_order: bool = KEEP_ORDER,
) -> None:
    """Write everybody's report of one wave.

    Memoized responses are drawn from the secret, the person and the record, so that they are the same in every wave.
    Reports are written in random order, because the position of a record may reveal its value.

    Example: optrr waves randomize people.csv --design waves.json --secret key --new-secret --id-column id --wave 1 -o
    wave1.csv
    """
    protocol = load_longitudinal(design_file)
    options = ReleaseOptions.following((), after, limit=limit, keep_order=keep_order)
    key = Key.new() if new_secret else Key.load(secret)
    if new_secret:
        key.save(secret)
    place = input.watched(lambda done, share: progress(f"{done} reports drawn", share))
    with cleaned_up():
        made = randomize_wave(place, protocol, output, key=key, wave=wave, id_column=id_column, options=options)
    warn(made.warnings)
    give(made)


@command
def estimate(
    waves: tuple[Path, ...] = argument(metavar="WAVE...", required=True),
    design_file: Path = DESIGN_FILE,
    id_column: str = ID_COLUMN,
    attributes: str = TABLE_ATTRIBUTES,
    change: bool = option("Also estimate the change of each cell from the first wave to the last."),
    confidence: float = CONFIDENCE,
) -> None:
    """Estimate proportions from the reports of several waves.

    Standard errors are computed over people, because the reports of a person depend on each other through the memoized
    response.

    Example: optrr waves estimate wave1.csv --design waves.json --id-column id --attributes sex
    """
    design = load_longitudinal(design_file)
    names = split_names(attributes)
    made = estimate_waves(waves, design, names, id_column=id_column, change=change, confidence=confidence)
    warn(made.warnings)
    give(made)
