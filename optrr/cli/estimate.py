"""optrr estimate: a table of the true records, or a statistic of a table."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import click
import msgspec

from optrr.analysis.measures import MEASURES
from optrr.cli import inputs
from optrr.cli.options import command, group, option
from optrr.cli.outputs import TableAnalysis
from optrr.core.domain import GivenSample, Missing
from optrr.core.errors import InvalidInput
from optrr.core.estimation import STATISTICS, Estimate, Method

if TYPE_CHECKING:
    from collections.abc import Callable

    from optrr.core.display import Given, Page

# Statistics of a table with separate methods.
_METHODS = {"proportion": "proportion", "contrast": "contrast", "quantile": "quantiles"}


@command
def estimate(
    run: TableAnalysis = group(TableAnalysis),
    attributes: str | None = option(
        "Attributes of the table; for a statistic of two, groups before outcomes. Write a comma in a name twice.",
        metavar="A,B",
    ),
    statistic: str | None = option(
        "Statistic of the table to estimate, instead of the table.",
        type=click.Choice([*MEASURES, *STATISTICS, *_METHODS]),
    ),
    of: tuple[str, ...] = option(
        "Categories of A that a proportion counts; repeatable, and then all attributes must match.",
        metavar="A=CATEGORY,…",
    ),
    terms: tuple[str, ...] = option(
        'Proportion in a contrast: {"of": {"income": "high"}, "where": {"sex": "F"}, "weight": -1}; repeatable.',
        "--term",
        metavar="JSON",
    ),
    probabilities: str | None = option("Quantile levels between 0 and 1; default: 0.5.", metavar="Q,…"),
    coding: tuple[tuple[str, ...], tuple[str, ...]] = group(inputs.coding),
    method: Method | None = option("Estimation method of the table; default: unbiased."),
    fakes: int | None = option(
        "Number K of fake reports; also report how far up to K of them can move each cell.",
        type=click.IntRange(min=1),
        metavar="K",
    ),
    where: tuple[str, ...] = inputs.WHERE,
    missing: Missing | None = group(inputs.missing),
    collapse: tuple[str, ...] = inputs.COLLAPSE,
    sample: GivenSample = group(inputs.sample),
    by: str | None = option(
        ("Public columns that form groups; estimate one table for each combination of their values."), metavar="C,D"
    ),
    confidence: float = inputs.CONFIDENCE,
    simultaneous: bool = inputs.SIMULTANEOUS,
) -> None:
    """Estimate a table of the true records, or a statistic of one.

    If the design, the release or options name public columns of weights, strata or sampling units, the estimate is
    weighted and its standard errors account for the sampling design.

    Example: optrr estimate randomized.csv --design design.json --attributes sex,income --statistic odds-ratio
    """
    names = () if attributes is None else inputs.split_names(attributes)
    reports = run.open(collapse, names)
    domain, measured = reports.asking.domain, statistic not in (None, *_METHODS)
    references = inputs.by_name("reference", coding[0], str, domain.names)
    numbers = inputs.scores_of(coding[1])
    given: dict[str, Any] = {
        "attributes": names,
        "of": inputs.categories_of("of", of, domain),
        "terms": [_term(text) for text in terms],
        "probabilities": None if probabilities is None else inputs.numbers("probabilities", probabilities),
        **({"coding": references | numbers} if measured else {"reference": references, "scores": numbers}),
        "method": method,
        "fakes": fakes,
        "where": inputs.categories_of("where", where, domain),
        "missing": missing,
        "sample": sample,
        "by": () if by is None else inputs.split_names(by),
        "simultaneous": simultaneous,
    }
    given = {name: value for name, value in given.items() if value} | {"confidence": confidence}
    added = None if statistic else given.pop("fakes", None)
    if statistic == "quantile":
        if len(names) != 1:
            raise InvalidInput(f"``attributes``: quantiles are of one attribute, not {len(names)}; name one")
        given["attribute"] = given.pop("attributes")[0]
    asked = getattr(reports, "measure" if measured else _METHODS[statistic] if statistic else "table")
    result = run.made(lambda: _called(asked, statistic, (statistic,) if measured else (), given))
    how: dict[str, Any] = {"method": method or "unbiased", "sample": sample}
    moved = None if added is None else run.made(lambda: reports.poisoning(*names, fakes=added, **how))

    def page(about: Given) -> Page:
        from optrr.core.estimation import estimate_page  # noqa: PLC0415 (pages bring charts)

        return estimate_page(result, about, moved)

    run.give(result, page if isinstance(result, Estimate) else None, poisoning=moved)


def _called(method: Callable[..., Any], statistic: str | None, first: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """Call a method with the options it takes; raise InvalidInput for others."""
    known = signature(method).parameters
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        of = "a table" if statistic is None else statistic
        raise InvalidInput(f"``{unknown}``: not accepted by {of}; leave it out, or choose another ``statistic``")
    several = [value for name in ("attributes", "terms") for value in given.pop(name, ())]
    return method(*first, *several, **given)


def _term(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f'``terms`` {text}: not JSON ({error}); write {{"of": {{"income": "high"}}, "weight": -1}}'
        ) from None
