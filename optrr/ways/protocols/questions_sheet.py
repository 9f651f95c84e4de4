"""The evaluation worksheet of sampled tables: what holds where people answer one question each.

The questions to those who deploy it are those of :mod:`optrr.designs.worksheet`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from optrr.designs.worksheet import Facts, Worksheet, filled
from optrr.show.text import amount, crossed, epsilon_text
from optrr.ways.protocols.sampled_tables import SampledTables

# Tables listed one by one.
_MOST_LISTED = 40


def questions_worksheet(asking: SampledTables, records: int) -> Worksheet:
    """An evaluator's questions, answered as far as the file goes; ``records`` is how many people will answer."""
    count, most = len(asking.tables), max(map(len, asking.tables))
    tables = [
        f"{crossed(names)}: asked of a share of {share:.3g}, answered by subsets of "
        f"{_listed(report.subset_sizes)} of {_listed(report.parts(shape))}"
        for names, share, report, shape in islice(
            zip(asking.tables, asking.shares.tolist(), asking.subset_reports, asking.shapes, strict=True), _MOST_LISTED
        )
    ]
    more = [f"and {amount(count - _MOST_LISTED, 'more table')}: the file lists them"] if count > _MOST_LISTED else []
    facts = Facts(
        "the one answer that a person gives",
        f"the {amount(asking.domain.m, 'attribute')} of one person, who answers about some of them once",
        (f"which of {amount(count, 'table')} a person is asked about is public and does not depend on the record",),
        (
            f"an answer is about at most {amount(most, 'attribute')}; of these, one alone or all together, it gives away at "
            f"most {epsilon_text(asking.epsilon)} nats, whatever an observer knows already",
        ),
        "this file names no earlier release of the same people",
        "drawn from whole numbers of 64 bits; the epsilon above covers these numbers, so that no floating-point arithmetic "
        "stands between label and draw",
        "what is drawn with",
        asking.verification(),
        (*tables, *more, "only tables whose effects are asked about can be estimated; whole records are never known"),
        "one answer to one question",
    )
    return filled(asking, records, facts)


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes))
