"""People of a study, and a simulated trait.

People are those of a panel as they are, or as many as wanted, drawn from it with replacement. Statuses are the panel's,
or drawn with the risk of k causal variants,

    logit Pr(case) = a + Σ ln ψ g,

g copies of A1, ψ the odds ratio per copy, and a such that the wanted share are cases.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from optrr.core.errors import InvalidInput
from optrr.genomics.genotypes import GENOTYPES, MISSING, Codes
from optrr.genomics.power import FARTHEST_ODDS
from optrr_solvers.arrays import FloatArray, IntArray

# Rarest allele of a causal variant; rarer ones show no effect in a panel of thousands.
_RAREST_CAUSAL = 0.05
# Distance from all logits at which no person is a case, or all are.
_FARTHEST = 60.0


@dataclass(frozen=True)
class SimulatedTrait:
    """A case/control status with known causal variants.

    Parameters
    ----------
    causal
        how many variants raise the risk, of those with a frequency of 5 to 95 %; drawn by the study's seed.
    odds_ratio
        per copy of A1 of each causal variant, 0.01 to 100.
    cases
        proportion of cases, above 0 and below 1.
    """

    causal: int = 10
    odds_ratio: float = 1.3
    cases: float = 0.5

    def __post_init__(self) -> None:
        if self.causal < 1:
            raise InvalidInput(f"``causal`` {self.causal}: must be at least 1")
        if not 1 / FARTHEST_ODDS <= self.odds_ratio <= FARTHEST_ODDS:
            raise InvalidInput(f"``odds_ratio`` {self.odds_ratio:g}: give 0.01 to {FARTHEST_ODDS:g}")
        if not 0 < self.cases < 1:
            raise InvalidInput(f"proportion of cases {self.cases:g}: must be greater than 0 and less than 1")

    def risk(self, codes: Codes, generator: np.random.Generator) -> "Risk":
        """Draw the risk of these people, (n, V).

        Raises InvalidInput if too few variants vary.
        """
        called = np.ma.masked_outside(codes, 0, GENOTYPES - 1)
        frequency = np.asarray(called.mean(axis=0).filled(0.0)) / 2
        varies = np.asarray((called.max(axis=0) > called.min(axis=0)).filled(False))
        fit = np.flatnonzero(varies & (np.minimum(frequency, 1 - frequency) >= _RAREST_CAUSAL))
        if fit.size < self.causal:
            raise InvalidInput(
                f"``causal`` {self.causal}: only {fit.size} variants have a frequency of 5 to 95 %; give fewer"
            )
        which = np.sort(generator.choice(fit, self.causal, replace=False))
        risk = Risk(which, math.log(self.odds_ratio), np.asarray(called[:, which].mean(axis=0)), 0.0)
        logits = risk.logits(codes)
        farthest = _FARTHEST + float(np.abs(logits).max())
        level = brentq(lambda a: expit(logits + a).mean() - self.cases, -farthest, farthest)
        return Risk(which, risk.effect, risk.means, float(level))


@dataclass(frozen=True, eq=False)
class Risk:
    """Model of the probability of being a case.

    ``effect`` per copy of A1 of the variants ``which``, their ``means``, and ``level``.
    """

    which: IntArray
    effect: float
    means: FloatArray
    level: float

    def logits(self, codes: Codes) -> FloatArray:
        """Compute logits (n,) of codes (n, V); a missing call counts as the mean."""
        chosen = codes[:, self.which]
        # a code of 3 is a missing call, too, where it is a category
        away = np.where((chosen == MISSING) | (chosen == GENOTYPES), 0.0, chosen - self.means)
        return np.asarray(self.effect * away.sum(axis=1) + self.level)


@dataclass(frozen=True, eq=False)
class StudyPeople:
    """A panel's ``records`` (n, 1 + V), status first.

    ``risk`` is that of a simulated trait that replaces the status.
    """

    records: Codes
    risk: Risk | None = None

    def drawn(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw records of new people, (n, 1 + V)."""
        records = self.records[generator.integers(0, len(self.records), n)]
        if self.risk is not None:
            records[:, 0] = generator.random(n) < expit(self.risk.logits(records[:, 1:]))
        return records

    def tables(self, rows: int) -> FloatArray:
        """Compute population proportions of genotype and status, (V, rows, 2)."""
        codes = self.records[:, 1:]
        case = self.records[:, 0].astype(np.float64) if self.risk is None else expit(self.risk.logits(codes))
        has = ((codes == g).astype(np.float64) for g in range(rows))
        out = np.stack([np.stack([(1 - case) @ x, case @ x], axis=1) for x in has], axis=1)
        return np.asarray(out / np.maximum(out.sum(axis=(1, 2), keepdims=True), 1e-300))
