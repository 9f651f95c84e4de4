"""Power of tests by a design alone: the methods ``power``, ``records_for`` and ``records_for_width`` of designs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from optrr.analysis.hypotheses import HOMOGENEITY, check_stated, default_hypothesis
from optrr.analysis.loglinear.comparing import STRATIFIED, stratified_alternative
from optrr.core.domain import plain_scores, scores_by_name, scores_of_pair
from optrr.core.errors import InvalidInput
from optrr.core.inference import (
    ASSOCIATIONS,
    IntervalWidths,
    Power,
    Widths,
    alternative_of,
    goodness_alternative,
    homogeneity_alternative,
    predicted_power,
    required_records,
)
from optrr.core.mechanisms import Mechanism
from optrr_solvers.allocation.delsarte import energy_cap
from optrr_solvers.laws import ProductLaw
from optrr_solvers.problem import EPSILON_RANGE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from optrr.core.inference import Alternative
    from optrr_solvers.arrays import FloatArray


def power(  # noqa: PLR0913 (each argument is one question a user answers)
    design: Any,
    *attributes: str,
    truth: ArrayLike,
    n: int,
    alpha: float = 0.05,
    hypothesis: str | None = None,
    given: str | Iterable[str] = (),
    proportions: ArrayLike | None = None,
    scores: Mapping[str, ArrayLike] | None = None,
) -> Power:
    """Predict the chance that a test rejects its hypothesis if ``truth`` is true.

    Parameters
    ----------
    attributes
        Attributes that the test is about.
    truth
        True proportions, an axis for each attribute, those of ``given`` last. For homogeneity the first axis is of the
        groups: each group's proportions, or all of them together, which defines the proportion of records of each
        group.
    n
        Number of records.
    alpha
        Level of the test.
    hypothesis, given, proportions, scores
        As in :meth:`optrr.Reports.test`.

    Returns
    -------
    Power
        The power, where it comes from, and what of the effect the randomization leaves.

    Raises
    ------
    InvalidInput
        For proportions of another shape, and as the test.
    SingularMarginal
        Where the mechanism hides the effect.

    Examples
    --------
    >>> import optrr
    >>> design = optrr.design({"sex": ["F", "M"], "income": ["low", "high"]}, {"sex": 1.5, "income": 2.0})
    >>> round(design.power("sex", "income", truth=[[0.35, 0.15], [0.25, 0.25]], n=500).power, 1)
    0.8
    """
    effect, about = _effect(design, attributes, truth, hypothesis, given, proportions, scores)
    return _predicted(effect, n, alpha, about)


def records_for(  # noqa: PLR0913 (each argument is one question a user answers)
    design: Any,
    *attributes: str,
    truth: ArrayLike,
    power: float = 0.8,
    alpha: float = 0.05,
    hypothesis: str | None = None,
    given: str | Iterable[str] = (),
    proportions: ArrayLike | None = None,
    scores: Mapping[str, ArrayLike] | None = None,
) -> Power:
    """Find the number of records at which a test has this power.

    Parameters
    ----------
    attributes, truth, alpha, hypothesis, given, proportions, scores
        As in :meth:`power`.
    power
        Chance that the test is to reject, above ``alpha`` and below 1.

    Returns
    -------
    Power
        Its ``n`` is the number of records, and its ``power`` that of so many.

    Raises
    ------
    InvalidInput
        As :meth:`power`, and where no survey is large enough.

    Examples
    --------
    >>> import optrr
    >>> design = optrr.design({"sex": ["F", "M"], "income": ["low", "high"]}, {"sex": 1.5, "income": 2.0})
    >>> design.records_for("sex", "income", truth=[[0.35, 0.15], [0.25, 0.25]]).n < 1000
    True
    """
    effect, about = _effect(design, attributes, truth, hypothesis, given, proportions, scores)
    return _predicted(effect, required_records(effect, power, alpha), alpha, about)


def records_for_width(
    design: Any,
    *attributes: str,
    truth: ArrayLike,
    width: float,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> Widths:
    """Find the number of records at which no interval is wider than required.

    Parameters
    ----------
    attributes
        Attributes of the table.
    truth
        True proportions, an axis for each attribute.
    width
        Largest width of an interval, where reports are as expected.
    confidence, simultaneous
        Confidence of the intervals, as in :meth:`optrr.Reports.table`.

    Returns
    -------
    Widths
        The number of records, and their widest interval.

    Raises
    ------
    InvalidInput
        For proportions of another shape, or a width that is not above 0 and below 1.

    Examples
    --------
    >>> import optrr
    >>> design = optrr.design({"sex": ["F", "M"]}, {"sex": 1.5})
    >>> design.records_for_width("sex", truth=[0.5, 0.5], width=0.1).widest <= 0.1
    True
    """
    domain = design.domain.subset(attributes)
    return IntervalWidths(domain, design.mechanism, truth, confidence, simultaneous).enough(width)


def _predicted(effect: Alternative, n: int, alpha: float, about: dict[str, Any]) -> Power:
    """Compute the power of n records, with details of the test."""
    predicted = predicted_power(effect, n, alpha)
    return Power(
        n=n,
        power=predicted.power,
        alpha=alpha,
        df=effect.df,
        noncentrality=effect.noncentrality,
        power_source=predicted.source,
        power_standard_error=predicted.standard_error,
        **about,
    )


def _effect(  # noqa: PLR0913 (as in power)
    design: Any,
    attributes: Sequence[str],
    truth: ArrayLike,
    hypothesis: str | None,
    given: str | Iterable[str],
    proportions: ArrayLike | None,
    scores: Mapping[str, ArrayLike] | None,
) -> tuple[Alternative, dict[str, Any]]:
    """Compute the alternative of some attributes, with its description."""
    within = (given,) if isinstance(given, str) else tuple(given)
    name = hypothesis or default_hypothesis(within, proportions)
    check_stated(name, attributes, within, proportions is not None, name == HOMOGENEITY)
    domain = design.domain.subset([*attributes, *within])
    pair = scores_by_name(scores, domain.names[:2])
    if pair is not None and not name.endswith("trend"):
        raise InvalidInput(f"``scores``: only for trends; leave ``scores`` out for {name}")
    if name in ASSOCIATIONS and domain.m != 2:
        raise InvalidInput(f"``attributes``: {name} is of two attributes, and {domain.m} are named; name two")

    def seen(mechanism: Any) -> Alternative:
        if name in STRATIFIED:
            return stratified_alternative(truth, domain, mechanism, name, pair)  # type: ignore[arg-type]  # names are checked
        kernel = mechanism.kernel(attributes)
        if proportions is not None:
            return goodness_alternative(truth, proportions, kernel)
        if name == HOMOGENEITY:
            groups, shares = _groups(truth)
            return homogeneity_alternative(groups, kernel, shares)
        return alternative_of(name, truth, kernel, pair, domain)

    # as good as no randomization, for any test
    plain = Mechanism(domain, ProductLaw(domain.sizes, np.full(domain.m, EPSILON_RANGE[1])))
    effect, whole = seen(design.mechanism), seen(plain).noncentrality
    chosen = scores_of_pair(domain, pair) if name.endswith("trend") else None
    return effect, {
        "attributes": domain.names,
        "test": name,
        "noncentrality_kept": effect.noncentrality / whole if whole > 0 else nan,
        # of any density that lies within a factor e^ε, sinh²(ε/2) is the largest variance, whatever the population
        "noncentrality_bound": min(1.0, energy_cap(np.inf, design.epsilon)),
        "scores": plain_scores(chosen),
    }


def _groups(truth: ArrayLike) -> tuple[list[FloatArray], FloatArray | None]:
    """Return each group's proportions, and the groups' proportions if stated."""
    groups = np.asarray(truth, dtype=np.float64)
    shares = groups.reshape(len(groups), -1).sum(axis=1)
    if not (np.isclose(shares.sum(), 1) and shares.min() > 0):
        return list(groups), None
    return [group / share for group, share in zip(groups, shares, strict=True)], shares
