"""The option --scores A=S,S,…: numbers for the categories of attributes, in place of their own."""

from __future__ import annotations

from collections.abc import Sequence

import click

from optrr.cli.inputs import by_name
from optrr.cli.tables import read_numbers
from optrr.domain.domain import Domain, listed
from optrr.domain.scores import GivenScores, PairScores, scores_of_pair
from optrr.errors import InvalidInput

_TRENDS = ("trend", "common-trend")
scores_option = click.option(
    "--scores",
    multiple=True,
    metavar="A=S,S,…",
    help="Numbers for the categories of A, in their declared order, in place of their own (or of 0, 1, 2 …); repeatable.",
)


def scores_by_name(texts: Sequence[str]) -> dict[str, list[float]]:
    """The scores of each attribute that the option names. Raises InvalidInput where a text is not understood."""
    given = by_name(texts, "--scores", "age=20,30,40")
    meant = "takes numbers separated by commas; write --scores age=20,30,40"
    return {name: read_numbers(said, f"--scores {name}={said} {meant}") for name, said in given.items()}


def scores_of_two(texts: Sequence[str], names: Sequence[str]) -> GivenScores | None:
    """The scores of the first two of these attributes; None where no option is given.

    Raises
    ------
    InvalidInput
        where a text is not understood, or names another attribute.
    """
    given = scores_by_name(texts)
    for name in given:
        if name not in names[:2]:
            raise InvalidInput(f"--scores is given for {name!r}; it is for {listed(names[:2])}")
    return (given.get(names[0]), given.get(names[1])) if given else None


def check_trend(test: str, texts: Sequence[str]) -> None:
    """Raise InvalidInput where the option is given for a test that is not of a trend."""
    if texts and test not in _TRENDS:
        raise InvalidInput(f"--scores is for --test {' or '.join(_TRENDS)}; leave it out for {test}")


def scores_of_trend(test: str, texts: Sequence[str], domain: Domain) -> PairScores | None:
    """What the categories of the first two attributes count in a trend; None for other tests, which have no scores."""
    check_trend(test, texts)
    return scores_of_pair(domain, scores_of_two(texts, domain.names)) if test in _TRENDS else None
