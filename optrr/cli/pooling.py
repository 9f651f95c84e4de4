"""--pool: rare categories that count as one in estimates, measures, tests, models and regressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import click

from optrr.cli.inputs import split_names
from optrr.errors import InvalidInput
from optrr.records.counts import OpenedRecords

_Opened = TypeVar("_Opened", bound=OpenedRecords)

pool_option = click.option(
    "--pool",
    multiple=True,
    metavar="SHARE|A=X,Y,…",
    help="Count as one category the rare ones, such as 1%, whose estimated shares are below that; or those named. Repeatable "
    "for several attributes.",
)


def with_pool(reports: _Opened, texts: Sequence[str], names: Sequence[str]) -> _Opened:
    """The reports with the categories of ``names`` pooled as --pool says; the same ones where it is not given.

    Raises
    ------
    InvalidInput
        for what is neither a share nor an attribute's categories, both at once, and as :func:`optrr.tables.pooled.pooled`.
    """
    if not texts:
        return reports
    from optrr.tables.pooled import Pool, pooled  # noqa: PLC0415 (few commands pool categories)

    if all("=" in text for text in texts):
        given = dict(text.split("=", 1) for text in texts)
        if len(given) < len(texts):
            raise InvalidInput("--pool names an attribute twice; give all of its categories together, A=X,Y")
        pool: Pool = {name.strip(): split_names(categories) for name, categories in given.items()}
    else:
        if len(texts) > 1:
            raise InvalidInput("--pool takes one share, or the categories of attributes, A=X,Y; give one of these")
        pool = texts[0]
    return pooled(reports, pool, names)
