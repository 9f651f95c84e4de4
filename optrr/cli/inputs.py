"""Options that commands on records share: INPUT, the design, attributes, proportions, scores, and confidence intervals.

Options that a command does not use are refused rather than ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import numpy as np

from optrr.cli.options import argument, group, option
from optrr.core.design import read_declared
from optrr.core.domain import (
    Domain,
    GivenSample,
    LonelyPsu,
    Missing,
    MissingAtRandom,
    Sample,
    listed,
    shown,
)
from optrr.core.errors import InvalidInput
from optrr.core.records import RecordsAt, file_formats, files_at, refuse_replacing
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    from optrr.core.reports import Reports


def _records(
    input: tuple[str, ...] = argument(metavar="INPUT…", required=True),
    format: str | None = option(
        f"Format of INPUT, if its name does not state it: {', '.join(file_formats())}.", metavar="FORMAT"
    ),
    delimiter: str | None = option(
        "Delimiter of CSV; default: the one with which the first line contains the declared names.", metavar="CHARACTER"
    ),
    encoding: str | None = option(
        "Encoding of CSV, such as latin-1; default: UTF-8, or windows-1252 if INPUT is not UTF-8.", metavar="NAME"
    ),
    decimal: str | None = option("Decimal separator of CSV, such as a comma; default: a point.", metavar="CHARACTER"),
    date_format: str | None = option(
        "Date format of CSV, such as %d.%m.%Y; default: ISO dates, such as 2024-03-01.", metavar="FORMAT"
    ),
    query: str | None = option(
        "Query for databases (duckdb:FILE, sqlite:FILE, postgresql://…), with one row per record.", metavar="SQL"
    ),
) -> RecordsAt:
    """Build the places of records with their format options."""
    return RecordsAt(
        input[0] if len(input) == 1 else input,
        format,
        "\t" if delimiter in ("\\t", "tab") else delimiter,
        encoding,
        decimal,
        date_format,
        query,
    )


INPUT = group(_records)
DESIGN_FILE = option("Design file from optrr design.", "--design", required=True)
CONFIDENCE = option("Confidence level of each interval.", default=0.95)
SIMULTANEOUS = option("Make confidence intervals simultaneous: all are correct with that confidence.")
TABLE_ATTRIBUTES = option(
    "Attributes of the table, separated by commas; write a comma in a name twice.",
    metavar="A,B",
    required=True,
)
TESTED = option("Attributes of the test; two for an association.", metavar="A,B", required=True)
STRATA_OF = option(
    "Attributes whose combinations of categories are strata, for tests within strata.", "--given", metavar="C,…"
)
WHERE = option(
    "Use only people whose true answer to A, in the table or not, is one of these; repeatable.",
    metavar="A=CATEGORY,…",
)
RANDOM_STATE = option("Seed of the random numbers.", type=click.IntRange(min=0))


PUBLIC_KEY = option("Ed25519 public key; refuse a design that its owner did not sign.", metavar="KEY.PEM")

_Value = TypeVar("_Value")


def by_name(
    option: str, texts: Iterable[str], read: Callable[[str], _Value], names: Sequence[str] = ()
) -> dict[str, _Value]:
    """Parse values by name from texts such as ``age=18-29,30-39``.

    With ``names``, the names may contain =. Raises InvalidInput for a text without one of the names, and for a repeated
    name.
    """
    out: dict[str, _Value] = {}
    for text in texts:
        places = [k for k, c in enumerate(text) if k and c == "=" and (not names or text[:k] in names)]
        if not places:
            if names and "=" in text:
                unknown = shown(text.partition("=")[0])
                raise InvalidInput(f"``{option}``: there is no attribute {unknown}; the domain has {listed(names)}")
            of = f", with NAME one of {listed(names)}" if names else ""
            raise InvalidInput(f"``{option}`` {shown(text)}: not understood; write NAME=VALUE{of}")
        at = places[0 if names else -1]
        if text[:at] in out:
            raise InvalidInput(f"``{option}``: given twice for {shown(text[:at])}; give it once")
        out[text[:at]] = read(text[at + 1 :])
    return out


def categories_of(option: str, texts: Sequence[str], domain: Domain) -> dict[str, tuple[str, ...]]:
    """Parse categories by attribute; see :func:`by_name`."""
    return by_name(option, texts, split_names, domain.names)


def numbers(option: str, text: str) -> list[float]:
    """Parse numbers separated by commas; raise InvalidInput if one is invalid."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(
            f"``{option}`` {shown(text)}: not a list of numbers; write numbers separated by commas"
        ) from None


def keep_input(output: Path, input: RecordsAt) -> None:
    """Raise InvalidInput if the output is a file of INPUT.

    Overwritten records could be replaced only by a second release.
    """
    said = f"{output} is an input of this command; write to another file"
    refuse_replacing(output, files_at(input.named) or [], said)


def split_names(text: str) -> tuple[str, ...]:
    """Split names at commas; a doubled comma is one inside a name."""
    return tuple(n.replace("\0", ",").strip() for n in text.replace(",,", "\0").split(","))


def proportions_option(purpose: str, required: bool = False) -> Any:
    """Create the option --proportions; its help starts with its purpose."""
    form = (
        "Use numbers that sum to 1, with the last attribute changing fastest, or a JSON file: a nested list or "
        "`estimate --json`."
    )
    return option(f"{purpose} {form}", metavar="P,P,…|FILE", required=required)


def read_proportions(text: str, domain: Domain, option: str = "proportions") -> FloatArray:
    """Read proportions over the domain's cells, in its shape.

    Whether they form a distribution is checked by their user. Raises InvalidInput for a file that cannot be read or has
    another table, and for entries that are not one number per cell.
    """
    values, of = (
        (read_declared(text, "table", "shares"), domain) if text.endswith(".json") else (text.split(","), domain)
    )
    if isinstance(values, dict):
        names: Any = values.get("attributes")
        known = isinstance(names, list) and sorted(map(str, names)) == sorted(domain.names)
        of = domain.subset(names) if known else domain
        if not known or values.get("categories") != [list(a.categories) for a in of]:
            raise InvalidInput(
                f"{text} is neither a nested list nor an estimate of {listed(domain.names)} by this design; estimate that "
                "table with `estimate --json`"
            )
        values = values.get("estimate")
    shape = tuple(map(int, of.sizes))
    try:
        given = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise InvalidInput(
            f"``{option}`` {shown(text)}: not a list of numbers; give {prod(shape)} proportions"
        ) from None
    if given.shape not in (shape, (prod(shape),)):
        raise InvalidInput(
            f"``{option}`` {shown(text)}: has {given.size} numbers; give one for each of the {prod(shape)} cells of "
            f"the table of {listed(of.names)}"
        )
    # the axes of the file may have another order than the domain's
    return given.reshape(shape).transpose(of.indices(domain.names))


SCORES = option(
    (
        "Scores of the categories of A, in their declared order; default: the categories' numbers, or 0, 1, 2 …. "
        "Repeatable."
    ),
    metavar="A=S,S,…",
)


def coding(
    reference: tuple[str, ...] = option(
        "Reference category of an attribute; default: the first one. Repeatable.", metavar="A=CATEGORY"
    ),
    scores: tuple[str, ...] = SCORES,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return how options code the categories of attributes."""
    return reference, scores


def scores_of(texts: Sequence[str], names: Sequence[str] = ()) -> dict[str, list[float]]:
    """Parse the scores of each attribute; see :func:`by_name`."""
    return by_name("scores", texts, partial(numbers, "scores"), names)


def hypothesis_option(names: Sequence[str]) -> Any:
    """Create the option --hypothesis of a test."""
    return option(
        "Hypothesis; default: independence, conditional-independence with --given, goodness-of-fit with "
        "--proportions, or homogeneity of groups.",
        type=click.Choice(names),
    )


_COMPLETE = option(
    "Use complete cases: leave out people whose true record has a missing value in one of the attributes."
)


def complete_cases(complete_cases: bool = _COMPLETE) -> Missing | None:
    """Return the treatment of missing values that options select."""
    return "complete-cases" if complete_cases else None


def missing(
    complete_cases: bool = _COMPLETE,
    missing_at_random: str | None = option(
        (
            "Estimate for all people, under the declared assumption that answering about A depends on the other "
            "attributes only."
        ),
        metavar="A",
    ),
) -> Missing | None:
    """Return the treatment of missing values; raise InvalidInput for two."""
    if complete_cases and missing_at_random is not None:
        raise InvalidInput("``complete_cases``: excludes ``missing_at_random``; leave one of them out")
    if missing_at_random is not None:
        return MissingAtRandom(missing_at_random)
    return "complete-cases" if complete_cases else None


COLLAPSE = option(
    "Collapse categories whose estimated proportions are below this, such as 1%, or the named ones; repeatable for "
    "several attributes.",
    metavar="SHARE|A=X,Y,…",
)


def with_collapsed(reports: Reports, texts: Sequence[str], names: Sequence[str]) -> Reports:
    """Collapse categories of ``names`` as the option states.

    Raises InvalidInput for unknown names.
    """
    if not texts:
        return reports
    from optrr.analysis.collapsed import collapsed  # noqa: PLC0415 (few commands collapse categories)

    if len(texts) == 1 and "=" not in texts[0]:
        return collapsed(reports, texts[0], *names)
    return collapsed(reports, categories_of("collapse", texts, reports.asking.domain), *names)


PUBLIC = option(
    "Column next to the attributes that is not randomized: weight=, stratum=, cluster= or group=; repeatable.",
    metavar="ROLE=COLUMN",
)


def sample(
    weights: str | None = option(
        "Public column of weights, in addition to those of the design and the release.", metavar="COLUMN"
    ),
    strata: str | None = option(
        "Public column of strata, in addition to those of the design and the release.", metavar="COLUMN"
    ),
    psu: str | None = option(
        (
            "Public column of primary sampling units within the strata, in addition to those of "
            "the design and the release."
        ),
        metavar="COLUMN",
    ),
    lonely_psu: LonelyPsu | None = option(
        "Treatment of a stratum with one primary sampling unit: refuse it (default), or center it at the overall mean."
    ),
    unweighted: bool = option("Ignore the weights, strata and sampling units named by the design or release."),
) -> GivenSample:
    """Build the sample; raise InvalidInput for details of one that is ignored."""
    named = {"weights": weights, "strata": strata, "psu": psu, "lonely_psu": lonely_psu}
    given: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if unweighted and given:
        raise InvalidInput(
            f"``{next(iter(given))}``: excludes ``unweighted``, which ignores the sampling design; "
            "leave one of them out"
        )
    return "ignore" if unweighted else Sample(**given) if given else None
