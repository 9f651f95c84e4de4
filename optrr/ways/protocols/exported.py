"""Sampled tables on devices: their questions, shares and thresholds as a deployment file (``docs/deployment-format.md``, §8).

Reports of devices have the columns ``table`` and ``cells`` that :meth:`SampledTables.estimate` reads.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from optrr.devices.deployment_file import DeployedQuestion, DeployedQuestions, save_deployment
from optrr.devices.export import DEFAULT_SIZE, compressed_size, keep_design
from optrr.errors import InvalidInput
from optrr.mechanisms.supports import unlikely_threshold
from optrr.show.text import crossed
from optrr.show.version import SOFTWARE
from optrr.ways.protocols.sampled_tables import SHARE_BITS, SampledTables

__all__ = ["export_questions", "questions_of"]

_BITS = 64


def questions_of(asking: SampledTables) -> DeployedQuestions:
    """What devices draw by: each table is asked with its share, and answered with its threshold, as in memory.

    The total ε is exact from these integers, rounded up in the 15th place.

    Raises
    ------
    InvalidInput
        where a table's share is below what 32 bits hold, so that it would never be asked.
    """
    ends = [0, *asking.share_ends.tolist()[:-1], 1 << SHARE_BITS]
    for names, low, high in zip(asking.tables, ends, ends[1:], strict=False):
        if low >= high:
            raise InvalidInput(
                f"the table {crossed(names)} is asked with a share below 2^-{SHARE_BITS}, which is never drawn; leave it out"
            )
    questions = tuple(
        DeployedQuestion(
            members,
            replace(report, likely=tuple(sorted(report.likely))),
            unlikely_threshold(report, shape, asking.answer_epsilon),
        )
        for members, report, shape in zip(asking.indices, asking.subset_reports, asking.shapes, strict=True)
    )
    shares = tuple(end << _BITS - SHARE_BITS for end in ends[1:-1])
    made = DeployedQuestions(
        asking.domain, _BITS, shares, questions, "0." + "0" * 15, asking.digest.partition(":")[2], SOFTWARE
    )
    stated = replace(made, total=f"{made.exact_total:f}")
    # what a reader would refuse is refused here, before anybody is asked
    return DeployedQuestions.read(stated.to_bytes())


def export_questions(asking: SampledTables, path: str | Path, size: int = DEFAULT_SIZE) -> DeployedQuestions:
    """Write the deployment file of sampled tables, and return what it holds.

    Raises
    ------
    InvalidInput
        as :func:`questions_of`; where it has more than ``size`` compressed bytes, or a design would be written over.
    """
    made = questions_of(asking)
    compressed = compressed_size(made)
    if compressed > size:
        raise InvalidInput(
            f"the deployment file of {len(made.questions)} questions takes {compressed} compressed bytes, above {size}; "
            f"allow them (--size {compressed}), or ask about fewer tables"
        )
    keep_design(Path(path))
    save_deployment(made, path)
    return made
