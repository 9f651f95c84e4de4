"""Making the field's protocols: SPL, SMP, RS+FD and RS+RFD at a total ε, with the reports that their papers use."""

from __future__ import annotations

from collections.abc import Sequence
from math import expm1, log1p
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr.mechanisms.kernel.matrices import WRITTEN_SUM
from optrr.releases.spent import checked_epsilon
from optrr.studies.baselines.protocols import FieldProtocol
from optrr.ways.protocols.oracles import Oracle, report_error
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.problem import SIZE_RANGE

Fake = Literal["uniform", "zero"]

# The reports that the published protocols use.
_PUBLISHED: tuple[Oracle, ...] = ("grr", "oue")


def split(sizes: ArrayLike, epsilon: float, oracle: Oracle | Literal["best"] = "best") -> FieldProtocol:
    """SPL at total ε. ``best`` takes for each attribute the report with the smaller variance (see :func:`best_oracle`)."""
    r = _checked_sizes(sizes)
    each = checked_epsilon(epsilon) / r.size
    return FieldProtocol(r, "SPL", each, _oracles(r, each, oracle))


def sample(sizes: ArrayLike, epsilon: float, oracle: Oracle | Literal["best"] = "best") -> FieldProtocol:
    """SMP at total ε; for pairs give the sizes of the pairs' product domains, and their codes when collecting."""
    r = _checked_sizes(sizes)
    return FieldProtocol(r, "SMP", checked_epsilon(epsilon), _oracles(r, epsilon, oracle))


def fake_data(
    sizes: ArrayLike,
    epsilon: float,
    oracle: Oracle = "grr",
    *,
    fakes: Fake | Sequence[ArrayLike] = "uniform",
    accounting: Literal["record", "published"] = "record",
) -> FieldProtocol:
    """RS+FD, or RS+RFD where ``fakes`` lists a public distribution for every attribute.

    Parameters
    ----------
    fakes
        uniform: a uniformly random category, reported as if true (for OUE: encoded and randomized); zero: OUE of the zero
        vector; a list of distributions of shapes (r_i,): RS+RFD. They must not be computed from the protected records.
    accounting
        record: ε is the whole record's, which is what every other mechanism here means by it; published: ε as RS+FD's
        papers count it, so that the record's ε becomes ln(m(e^ε − 1) + 1).
    """
    r = _checked_sizes(sizes)
    if accounting not in ("record", "published"):
        raise InvalidInput(f"accounting = {accounting!r}; give 'record' or 'published'")
    if oracle not in _PUBLISHED:
        raise InvalidInput(f"oracle = {oracle!r}; fake data needs 'grr' or 'oue'")
    given = checked_epsilon(epsilon)
    local = given if accounting == "record" else log1p(r.size * expm1(given))
    if isinstance(fakes, str):
        if fakes not in ("uniform", "zero") or (fakes == "zero" and oracle == "grr"):
            raise InvalidInput(f"fakes = {fakes!r} with {oracle}; give 'uniform', 'zero' (oue only) or distributions")
        rows = tuple(None if fakes == "zero" else np.full(int(k), 1 / k) for k in r)
        return FieldProtocol(r, "RS+FD", local, (oracle,) * r.size, rows)
    return FieldProtocol(r, "RS+RFD", local, (oracle,) * r.size, _checked_fakes(r, fakes))


def best_oracle(size: int, epsilon: float) -> Oracle:
    """Of the published protocols' reports the one with the smaller summed variance: about grr for r < 3e^ε + 2, else oue."""
    return min(_PUBLISHED, key=lambda oracle: report_error(oracle, size, epsilon))


def _oracles(sizes: IntArray, epsilon: float, oracle: str) -> tuple[Oracle, ...]:
    if oracle == "best":
        return tuple(best_oracle(int(r), epsilon) for r in sizes)
    if oracle not in _PUBLISHED:
        raise InvalidInput(f"oracle = {oracle!r}; give 'grr', 'oue' or 'best'")
    return (oracle,) * sizes.size


def _checked_sizes(sizes: ArrayLike) -> IntArray:
    r = np.atleast_1d(np.asarray(sizes))
    low, high = SIZE_RANGE
    if r.ndim != 1 or not r.size or not np.all((r >= low) & (r <= high) & (r == np.round(r))):
        raise InvalidInput(f"sizes = {sizes!r}; give a list of whole numbers from {low} to {high}")
    return r.astype(np.int64)


def _checked_fakes(sizes: IntArray, fakes: Sequence[ArrayLike]) -> tuple[FloatArray, ...]:
    rows = tuple(np.asarray(row, dtype=np.float64) for row in fakes)
    if len(rows) != sizes.size:
        raise InvalidInput(f"{len(rows)} fake distributions for {sizes.size} attributes; give one for each")
    for i, (row, size) in enumerate(zip(rows, sizes, strict=True)):
        if row.shape != (size,) or not (row > 0).all() or abs(row.sum() - 1) > WRITTEN_SUM:
            raise InvalidInput(
                f"the fake distribution of attribute {i} must be {size} positive numbers that sum to 1 "
                "(a category never faked would give its true holders away); add a little to every entry and rescale"
            )
    return tuple(row / row.sum() for row in rows)
