"""λ_GC of a randomized scan, and how much of an inflation by confounding stays visible through the mechanism.

Population structure and the like add a share d of the covariance V that a variant's contrasts have without a mechanism
(Devlin & Roeder 1999) to the one they have with it, V', both per person at the null fit. So a statistic of df degrees of
freedom is raised by 1 + d · share on average, and the median of a scan by as much to first order in d, with

    share = mean over variants of tr(V'⁻¹ V) / df.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta, chi2

from optrr.genomics.tests import Scores, covariances, genomic_control
from optrr.mechanisms.kernel import Kernel
from optrr.models.tests.testing import genotype_test

# Variants at once, so that their influences stay near the cache.
_VARIANTS = 1 << 13
# λ counts as inflated where independent variants without an association would have so large a one no more often than this.
_CHANCE = 0.01


def visible_share(scores: Scores, kernel: Kernel, test: str) -> float:
    """The share of an inflation that stays visible in these scores; NaN where nothing was tested."""
    if scores.fit is None or not scores.tested.size:
        return math.nan
    absent, own, total = scores.absent[scores.tested], kernel.part(scores.tested), 0.0
    for g in np.unique(absent):
        contrasts, _ = genotype_test(test, scores.fit.rows.shape[1], int(g))
        which = np.flatnonzero(absent == g)
        for at in np.array_split(which, -(-which.size // _VARIANTS)):
            plain, seen = covariances(scores.fit.part(at), own.part(at), contrasts)
            total += float(np.trace(np.linalg.solve(seen, plain), axis1=1, axis2=2).sum()) / contrasts.shape[0]
    return total / absent.size


@dataclass(frozen=True)
class Inflation:
    """λ_GC of a scan, ``factor``; ``chance``: how often independent variants without an association have as large a one.

    ``relative_error`` is that of a median of as many independent statistics; variants in disequilibrium make it larger.
    ``visible`` is the share of an inflation by confounding that the mechanism leaves, NaN where it is not known.
    """

    factor: float
    relative_error: float
    chance: float
    visible: float

    @classmethod
    def of(cls, scores: Scores, visible: float) -> Inflation:
        """What the statistics of a scan say."""
        use = np.isfinite(scores.statistic)
        v, factor = int(use.sum()), genomic_control(scores.statistic, scores.df)
        if not v:
            return cls(math.nan, math.nan, math.nan, visible)
        df, times = np.unique(scores.df[use], return_counts=True)
        middle, share = chi2.median(df), times / v
        error = float(share @ (1 / (2 * chi2.pdf(middle, df) * middle))) / math.sqrt(v)
        # the middle one of v uniform numbers is distributed like this
        below = float(share @ chi2.cdf(factor * middle, df))
        return cls(factor, error, float(beta.sf(below, (v + 1) / 2, (v + 1) / 2)), visible)

    @property
    def is_clear(self) -> bool:
        """Whether λ is above 1 by more than chance."""
        return bool(self.chance <= _CHANCE)

    def __str__(self) -> str:
        clear = ["λ is above 1 by more than chance"] if self.is_clear else []
        if math.isnan(self.visible):
            return clear[0] if clear else "confounding cannot be judged from λ here"
        # noise may take the estimate outside 0..1; two digits, which would be 1e+02 of a hundred
        share = min(max(self.visible, 0.0), 1.0)
        shown = f"about {100 * share:.2g} %" if share < 0.995 else "100 %"
        seen = f"{shown} of an inflation by confounding remains visible after randomization"
        return "; ".join([*clear, seen]) if clear else f"{seen}, so λ near 1 does not rule out confounding"

    def warnings(self) -> tuple[str, ...]:
        """One line where λ is above 1 by more than chance."""
        if not self.is_clear:
            return ()
        return (
            f"λ = {self.factor:.3g} is more than chance makes of independent variants (p = {self.chance:.2g}): population "
            "structure, relatives, or very many true associations; the p-values P do not allow for what is "
            "left of the first two, so adjust for it (public covariates, strata), or see P_GC",
        )
