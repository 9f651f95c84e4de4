"""optrr estimate --posterior: the options of credible intervals, and how they are printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from optrr.cli.counted import counted
from optrr.cli.inputs import split_names
from optrr.cli.outputs import Outputs
from optrr.cli.printing import print_shown, say
from optrr.errors import InvalidInput
from optrr.records.reports import Reports

if TYPE_CHECKING:
    from optrr.designs.design import Design
    from optrr.tables.bayes import Posterior

_Command = TypeVar("_Command", bound=Callable[..., Any])
_OPTIONS = (
    click.option(
        "--posterior", is_flag=True, help="Credible intervals under a Dirichlet prior instead, for small samples."
    ),
    click.option(
        "--prior", type=float, help="Of --posterior: records that the prior adds to each cell; 0.5 unless given."
    ),
    click.option("--random-state", type=click.IntRange(min=0), help="Of --posterior: the seed of its draws."),
)


def posterior_options(command: _Command) -> _Command:
    """The options --posterior, --prior and --random-state."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def check_posterior(posterior: bool, others: dict[str, bool], prior: float | None, random_state: int | None) -> None:
    """Refuse options that do not go with --posterior, by name whether they were given, or that need it. Raises InvalidInput."""
    if posterior:
        for option, given in others.items():
            if given:
                raise InvalidInput(f"{option} says nothing of a posterior; leave out {option} or --posterior")
    elif prior is not None or random_state is not None:
        option = "--prior" if prior is not None else "--random-state"
        raise InvalidInput(f"{option} is for credible intervals; give --posterior too")


def give_posterior(
    reports: Reports,
    design: Design,
    design_file: Path,
    attributes: str,
    wished: dict[str, Any],
    outputs: Outputs,
) -> None:
    """Draw the posterior of a table, and give it to whatever outputs are asked for; ``wished`` without those that are None."""
    from optrr.tables.bayes import posterior  # noqa: PLC0415 (few ask for it)

    known = counted(design, reports, split_names(attributes))
    asked = {name: value for name, value in wished.items() if value is not None}
    result = posterior(known.counts[0], known.mechanism, **asked)
    outputs.give_table(result, (design, design_file, reports, known.doubts), lambda: _print(result))


def _print(result: Posterior) -> None:
    from optrr.tables.bayes.result import PROMISE  # noqa: PLC0415 (as above)

    print_shown(
        f"{' × '.join(result.domain.names)}: posterior of the proportions behind {result.n} records, "
        f"{100 * result.confidence:g}% credible intervals, each alone",
        result.shown(),
    )
    for line in (result.prior_text, result.drawn_text, PROMISE):
        say(line)
