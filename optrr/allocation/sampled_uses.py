"""Uses of sampled tables: devices, Spark, and the evaluation worksheet.

Their queries, proportions and thresholds form a deployment file (``docs/deployment-format.md``, §8). Reports of devices
have the columns ``table`` and ``cells`` that :meth:`SampledTables.estimate` reads. Open questions of the worksheet are
those of :mod:`optrr.devices.worksheet`.
"""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from optrr.allocation.sampled_tables import SCHEMA, SHARE_BITS, SampledTables
from optrr.allocation.supports import unlikely_threshold
from optrr.core.display import SOFTWARE, crossed
from optrr.core.errors import InvalidInput
from optrr.core.files import MOST_BYTES
from optrr.core.mechanisms import BatchKernel, Randomized, check_frame, published
from optrr.core.records import FrameCodec, arrow_schema
from optrr.devices.deployment_file import DeployedQuestion, DeployedQuestions
from optrr.devices.export import Exported, check_deployment_path, compressed_size
from optrr.devices.worksheet import MOST_LISTED, filled
from optrr_solvers.randomness import BitSource

_BITS = 64


def questions_of(asking: SampledTables) -> DeployedQuestions:
    """Build the queries that devices draw, with the same probabilities.

    Each table's proportion and threshold are those in memory.

    The total ε is exact from these integers, rounded up in the 15th place.

    Raises InvalidInput where a table's share is below what 32 bits hold, so that it would never be asked.
    """
    ends = [0, *asking.share_ends.tolist()[:-1], 1 << SHARE_BITS]
    for names, low, high in zip(asking.tables, ends, ends[1:], strict=False):
        if low >= high:
            raise InvalidInput(
                f"the table {crossed(names)} has a share below 2^-{SHARE_BITS}, which is never drawn; leave it out"
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
    # refuse what a reader of the file would refuse, before the survey begins
    return DeployedQuestions.read(stated.to_bytes())


def exports_of_questions(asking: SampledTables) -> list[DeployedQuestions]:
    """List the only possible content of an export.

    See :data:`optrr.core.provenance.formats.FORMATS`.
    """
    return [questions_of(asking)]


def export_questions(asking: SampledTables, path: str | Path, *, max_bytes: int = MOST_BYTES) -> Exported:
    """Write the deployment file of sampled tables; see :func:`optrr.export`.

    Raises InvalidInput as :func:`questions_of`; where it has more than ``max_bytes`` compressed bytes, or a design would be
    written over.
    """
    path = Path(path)
    check_deployment_path(path)
    made = questions_of(asking)
    compressed = compressed_size(made)
    if compressed > max_bytes:
        raise InvalidInput(
            f"``max_bytes`` {max_bytes}: the deployment file of {len(made.questions)} questions takes {compressed} compressed "
            "bytes; allow them, or ask about fewer tables"
        )
    made.save(path)
    numbers = {
        "epsilon": float(made.total),
        "questions": len(made.questions),
        "compressed_bytes": compressed,
        "most_report_bytes": made.most_report_bytes,
    }
    return Exported(str(path), numbers, asking)


def questions_worksheet(asking: SampledTables, n: int) -> str:
    """Answer an evaluator's questions as far as the file does.

    ``n`` is the number of respondents.
    """
    each = zip(asking.tables, asking.shares.tolist(), asking.subset_reports, asking.shapes, strict=True)
    tables = [
        (crossed(names), f"{share:.3g}", report.subset_sizes, report.parts(shape))
        for names, share, report, shape in islice(each, MOST_LISTED)
    ]
    more = max(0, len(asking.tables) - MOST_LISTED)
    return filled("worksheet_queries.md", asking, n, asking.verification(), tables=tables, more=more)


def answer_once(frame: Any, asking: SampledTables, path: str, keep_order: bool = False) -> Any:
    """Write everybody's answer to ``path`` and return the frame that reads it.

    New Parquet with columns ``table`` and ``cells``.

    :meth:`SampledTables.estimate` reads the folder. For other arguments and exceptions see
    :func:`optrr.core.mechanisms.spark.randomize_once`.
    """
    check_frame(frame)
    # refuse columns other than the attributes, before any computation
    FrameCodec(asking.domain, arrow_schema(frame))

    def answered(batch: pa.RecordBatch, source: BitSource) -> pa.RecordBatch:
        if not batch.num_rows:
            return pa.RecordBatch.from_pylist([], schema=SCHEMA)
        return pa.Table.from_batches(asking.batches([batch], source), SCHEMA).combine_chunks().to_batches()[0]

    def of_partition() -> BatchKernel:
        return answered

    return published(frame, Randomized(of_partition, SCHEMA), path, keep_order)
