"""RR-Adjustment of a whole file: one table of the records reweighted to the margins of all attributes (MDR §5, Algorithm 2).

The weights depend on all attributes and on what was randomized together, so this starts from the records, not from counts of
the table that is asked for. Its associations stay as weakened as the randomized records show them; its intervals are those of
the unbiased estimate, moved outwards to the adjusted one.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from optrr.mechanisms.randomizer import Randomizer, checked_mechanism
from optrr.records.counts import Counts, distinct
from optrr.records.origins import origins_of
from optrr.tables.estimation.adjustment import adjust, estimated_margin, margin_groups
from optrr.tables.estimation.estimator import BIAS
from optrr.tables.estimation.impossible import warn_of_records
from optrr.tables.estimation.result import Estimate, check_confidence, check_records
from optrr.tables.estimation.unbiased_errors import TableErrors, with_intervals, with_standard_errors

# The most rounds of reweighting: many more than estimates with sampling error need.
ADJUSTMENT_ROUNDS = 200


def estimate_adjusted(
    data: Any,
    mechanism: Randomizer,
    attributes: str | Iterable[str],
    *,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> Estimate:
    """The table over some attributes of the adjusted records of a file; axes in the order asked for.

    Parameters
    ----------
    data
        randomized records over all attributes of the mechanism: whatever `count` takes, further columns allowed.
    mechanism
        that randomized them. Attributes of one cluster are adjusted to the cluster's table, others one by one.
    attributes
        of the table.
    confidence, simultaneous
        of the intervals, as in `estimate`.

    Raises
    ------
    InvalidInput
        for unknown attributes, categories that are not declared, or fewer than two records. SingularMarginal where the
        mechanism hides an attribute or a cluster.
    """
    check_confidence(confidence)
    domain = checked_mechanism(mechanism).domain
    chosen = domain.indices(attributes)
    origins = tuple(origins_of(data))
    rows, numbers = distinct(data, domain, allow_extra=True)
    check_records(int(numbers.sum()))
    weights = numbers.astype(np.float64)
    groups = [domain.indices(group) for group in margin_groups(mechanism)]
    margins = [
        estimated_margin(rows, weights, group, mechanism.kernel([domain.names[i] for i in group])) for group in groups
    ]
    fitted = adjust(rows, weights, margins, groups, max_rounds=ADJUSTMENT_ROUNDS)
    kernel = mechanism.kernel([domain.names[i] for i in chosen])
    cells = np.ravel_multi_index(tuple(rows[:, list(chosen)].T), kernel.sizes)

    def table(of: Any) -> Any:
        return np.bincount(cells, weights=of, minlength=prod(kernel.sizes)).reshape(kernel.sizes)

    proportions, observed = table(fitted.weights), table(weights / weights.sum())
    asked = domain.subset([domain.names[i] for i in chosen])
    warn_of_records([Counts(asked, table(weights), origins)], mechanism)
    named = TableErrors(asked, int(numbers.sum()), "adjusted", confidence, simultaneous=simultaneous)
    plain = named.around(proportions, BIAS["adjusted"], fitted.convergence)
    return with_intervals(with_standard_errors(plain, kernel, observed), kernel, observed)
