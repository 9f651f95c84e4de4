"""optrr power: the number of records that a test or an interval needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from optrr.analysis.hypotheses import hypotheses
from optrr.cli import inputs
from optrr.cli.options import command, option, refuse_options
from optrr.cli.printing import give
from optrr.core.design import load_design
from optrr.core.errors import InvalidInput

# Options that do not apply to intervals.
_OF_TESTS = ("hypothesis", "given", "proportions", "scores", "n", "power", "alpha")


@command
def power(
    design_file: Path = inputs.DESIGN_FILE,
    attributes: str = inputs.TESTED,
    truth: tuple[str, ...] = inputs.proportions_option(
        "True table of the attributes, then of those of --given; repeatable: for homogeneity, one table per group.",
        required=True,
    ),
    hypothesis: str | None = inputs.hypothesis_option(hypotheses()),
    given: str | None = inputs.STRATA_OF,
    proportions: str | None = inputs.proportions_option("Proportions under the hypothesis of goodness-of-fit."),
    scores: tuple[str, ...] = inputs.SCORES,
    n: int | None = option("Number of records for which to compute the power.", type=click.IntRange(min=1)),
    power: float | None = option("Power for which to compute the number of records; default: 0.8."),
    alpha: float = option("Level of the test.", default=0.05),
    width: float | None = option("Maximum width of a cell's interval, instead of a test."),
    confidence: float = inputs.CONFIDENCE,
    simultaneous: bool = inputs.SIMULTANEOUS,
) -> None:
    """Compute power, or the records that a test or an interval needs.

    Example: optrr power --design design.json --attributes sex,income --truth 0.35,0.15,0.25,0.25 --power 0.9
    """
    design = load_design(design_file)
    names, within = inputs.split_names(attributes), () if given is None else inputs.split_names(given)
    domain = design.domain.subset([*names, *within])
    tables = [inputs.read_proportions(text, domain, "truth") for text in truth]
    true = np.stack(tables) if hypothesis == "homogeneity" or len(tables) > 1 else tables[0]
    if width is not None:
        refuse_options("applies to tests, and --width to intervals of a table; leave out one of them", *_OF_TESTS)
        give(
            design.records_for_width(*names, truth=true, width=width, confidence=confidence, simultaneous=simultaneous)
        )
        return
    refuse_options("requires --width; give it too, or leave this option out", "confidence", "simultaneous")
    if n is not None and power is not None:
        raise InvalidInput("``power``: excludes ``n``, for which power is computed; leave one of them out")
    how: dict[str, Any] = {"truth": true, "hypothesis": hypothesis, "given": within, "alpha": alpha}
    how |= {"scores": inputs.scores_of(scores)}
    if proportions is not None:
        how["proportions"] = inputs.read_proportions(proportions, domain)
    give(design.records_for(*names, power=power or 0.8, **how) if n is None else design.power(*names, n=n, **how))
