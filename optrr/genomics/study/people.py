"""Whom a study asks, and who of them is a case.

People are those of a panel as they are, or as many as wanted drawn from it. Drawn people are mosaics: stretches copied from
people of the panel, of the same group (and the same status, where statuses are the panel's own), so that neighbouring variants
stay in disequilibrium and groups keep their frequencies. A stretch ends between two variants with chance 1 − e^(−d/L), d their
distance and L the mean length of a stretch; at the end of a chromosome it always does. Without L whole people are drawn,
with replacement. Genotypes are copied, not haplotypes: disequilibrium is that between genotypes.

Statuses are the panel's, or drawn for planted effects of k variants, by one of two models:

    odds ratios    logit Pr(case) = a + Σ ln ψ g + u
    heritability   liability = Σ b g + u + normal noise of variance 1 − h²; cases are above a threshold a. Σ b g has the
                   variance h² among the panel, in equal shares of the k variants were they independent

g counts copies of A1, u is a group's shift, of standard deviation ``structure`` between groups: it confounds, because
frequencies differ between groups too. a gives the wanted share of cases.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtr

from optrr.core.errors import InvalidInput
from optrr.genomics.genotypes import GENOTYPES, MISSING, Codes, Texts, Variants
from optrr.genomics.power import FARTHEST_ODDS
from optrr_solvers.arrays import FloatArray, IntArray

# The rarest allele of a planted variant; rarer ones show no effect in a panel of thousands.
_RAREST_CAUSAL = 0.05
# A standard deviation of standardized genotypes that is rounding.
_NOTHING = 1e-9
# So far from everybody's score nobody is a case, or everybody is.
_FARTHEST = 60.0
# People by whom the tables of a population of mosaics are worked out, and cells of them at once.
_REFERENCE_PEOPLE, _CELLS = 50_000, 1 << 24


@dataclass(frozen=True)
class PlantedTrait:
    """A trait to be planted.

    Parameters
    ----------
    causal
        k, how many variants raise the risk, of those with a frequency of 5 to 95 %; drawn by the study's seed.
    odds_ratio
        ψ per copy of A1, of each of them.
    heritability
        h² on the scale of the liability, at least 0 and below 1, in place of an odds ratio.
    cases
        share of cases, above 0 and below 1.
    structure
        standard deviation of the groups' shifts, in log odds or in units of the liability.
    """

    causal: int = 10
    odds_ratio: float | None = None
    heritability: float | None = None
    cases: float = 0.5
    structure: float = 0.0

    def __post_init__(self) -> None:
        if self.causal < 1:
            raise InvalidInput(f"{self.causal} causal variants; give at least 1")
        if (self.odds_ratio is None) == (self.heritability is None):
            raise InvalidInput("a planted trait has an odds ratio per copy or a heritability; give one of them")
        if self.odds_ratio is not None and not 1 / FARTHEST_ODDS <= self.odds_ratio <= FARTHEST_ODDS:
            raise InvalidInput(f"an odds ratio of {self.odds_ratio}; give one of 0.01 to {FARTHEST_ODDS:g}")
        if self.heritability is not None and not 0 <= self.heritability < 1:
            raise InvalidInput(f"a heritability of {self.heritability}; give 0 or more, below 1")
        if not 0 < self.cases < 1:
            raise InvalidInput(f"a share of cases of {self.cases}; give one above 0 and below 1")
        if not 0 <= self.structure <= math.log(FARTHEST_ODDS):
            raise InvalidInput(
                f"a structure of {self.structure}; give 0 or more, at most {math.log(FARTHEST_ODDS):.1f}"
            )

    @property
    def said(self) -> str:
        """The trait in words."""
        effect = (
            f"an odds ratio of {self.odds_ratio:g} per copy each"
            if self.odds_ratio is not None
            else f"a heritability of {self.heritability:g} on the scale of the liability"
        )
        shift = f"; groups are shifted by {self.structure:g} (standard deviation)" if self.structure else ""
        return f"{self.causal} causal variants with {effect}, {100 * self.cases:g} % cases{shift}"

    def planted(self, codes: Codes, groups: IntArray, generator: np.random.Generator) -> "PlantedRisk":
        """The trait in these people, (n, V) and (n,).

        Raises InvalidInput where fewer variants vary enough, or cancel each other, and for a structure of one group.
        """
        if self.structure > 0 and not groups.any():
            raise InvalidInput(
                "a structure is between groups, and all people are of one; name the column of their groups (--group-column, "
                "groups=), or leave the structure out"
            )
        called = np.ma.masked_outside(codes, 0, GENOTYPES - 1)
        frequency = np.asarray(called.mean(axis=0).filled(0.0)) / 2
        varies = np.asarray((called.max(axis=0) > called.min(axis=0)).filled(False))
        fit = np.flatnonzero(varies & (np.minimum(frequency, 1 - frequency) >= _RAREST_CAUSAL))
        if fit.size < self.causal:
            raise InvalidInput(
                f"{self.causal} causal variants are asked for, and {fit.size} vary and have a frequency of 5 to 95 %; ask for "
                "fewer"
            )
        which = np.sort(generator.choice(fit, self.causal, replace=False))
        chosen = called[:, which]
        if self.heritability is None:
            effects, noise = np.full(self.causal, math.log(self.odds_ratio or 1.0)), None
        else:
            effects = 1 / np.asarray(chosen.std(axis=0))
            whole = float((chosen.filled(chosen.mean(axis=0)) @ effects).std())
            if whole <= _NOTHING:
                raise InvalidInput(
                    "the causal variants that were drawn cancel each other in everybody, so they leave nothing to inherit; ask "
                    "for another number of them, or take another seed"
                )
            effects, noise = effects * math.sqrt(self.heritability) / whole, math.sqrt(1 - self.heritability)
        shifts = generator.standard_normal(int(groups.max()) + 1)
        if shifts.size > 1:
            shifts = (shifts - shifts.mean()) / shifts.std()
        middle = np.asarray(chosen.mean(axis=0))
        risk = PlantedRisk(which, effects, middle, self.structure * shifts, noise, 0.0)
        scores = risk.scores(codes, groups)
        farthest = _FARTHEST + float(np.abs(scores).max())
        level = brentq(lambda a: risk.of_scores(scores + a).mean() - self.cases, -farthest, farthest)
        return replace(risk, level=float(level))


@dataclass(frozen=True, eq=False)
class PlantedRisk:
    """Chances to be a case: ``which`` variants count by which ``effects`` beside ``means``, and ``shifts`` of groups.

    ``noise`` is the standard deviation of the rest of the liability, None for the logistic model.
    """

    which: IntArray
    effects: FloatArray
    means: FloatArray
    shifts: FloatArray
    noise: float | None
    level: float

    def scores(self, codes: Codes, groups: IntArray) -> FloatArray:
        """Σ effects (g − mean) + u + a, (n,); a missing call counts like the mean."""
        chosen = codes[:, self.which]
        # a code of 3 is a missing call, too, where it is a category
        away = np.where((chosen == MISSING) | (chosen == GENOTYPES), 0.0, chosen - self.means)
        return np.asarray(away @ self.effects + self.shifts[groups] + self.level)

    def of_scores(self, scores: FloatArray) -> FloatArray:
        """Chances by scores."""
        return np.asarray(expit(scores) if self.noise is None else ndtr(scores / self.noise))

    def chances(self, codes: Codes, groups: IntArray) -> FloatArray:
        """Of these people, (n,)."""
        return self.of_scores(self.scores(codes, groups))


@dataclass(frozen=True, eq=False)
class StudyPeople:
    """A panel and how people are drawn from it.

    ``records`` (n, 1 + V), the status first; ``groups`` (n,), from 0; ``ends`` (V,): the chance that a stretch ends before each
    variant, None for whole people; ``risk``: of a planted trait, None where statuses are the panel's.
    """

    records: Codes
    groups: IntArray
    ends: FloatArray | None
    risk: PlantedRisk | None

    @classmethod
    def of(
        cls,
        records: Codes,
        variants: Variants,
        groups: Texts | None = None,
        stretch: float | None = None,
        trait: tuple[PlantedTrait, np.random.Generator] | None = None,
    ) -> "StudyPeople":
        """From a panel; ``stretch`` is the mean length of a stretch in base pairs, in variants where no places are known.

        Raises InvalidInput for a length that is not positive, names of groups that are not one for each person, and as
        :meth:`PlantedTrait.planted`.
        """
        if groups is not None and groups.shape != (len(records),):
            raise InvalidInput(f"{groups.size} groups for {len(records)} people; give one for each")
        of_group = np.zeros(len(records), dtype=np.int64)
        if groups is not None:
            of_group = np.unique(groups.astype(str), return_inverse=True)[1].astype(np.int64)
        risk = None if trait is None else trait[0].planted(records[:, 1:], of_group, trait[1])
        return cls(records, of_group, None if stretch is None else _ends(variants, stretch), risk)

    @cached_property
    def _alike(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Of each person the class within which is copied; the panel by class, where each begins, and how many they are."""
        classes = self.groups if self.risk is not None else 2 * self.groups + self.records[:, 0]
        counts = np.bincount(classes)
        return classes, np.argsort(classes, kind="stable"), np.concatenate([[0], np.cumsum(counts)[:-1]]), counts

    def drawn(self, n: int, generator: np.random.Generator) -> tuple[Codes, IntArray]:
        """Records (n, 1 + V) and groups (n,) of new people; O(n V)."""
        source = generator.integers(0, len(self.records), n)
        classes, order, starts, counts = self._alike
        own = classes[source]
        records, groups = self.records[source], self.groups[source]
        if self.ends is not None:
            for k, chance in enumerate(self.ends.tolist()):
                new = np.flatnonzero(generator.random(n) < chance)
                if new.size:
                    place = (generator.random(new.size) * counts[own[new]]).astype(np.int64)
                    source[new] = order[starts[own[new]] + place]
                records[:, 1 + k] = self.records[source, 1 + k]
        if self.risk is not None:
            records[:, 0] = generator.random(n) < self.risk.chances(records[:, 1:], groups)
        return records, groups

    def tables(self, rows: int, generator: np.random.Generator) -> FloatArray:
        """Shares of genotype and status in the population, (V, rows, 2).

        Exact, but for a planted trait among mosaics: there by 50,000 of them, their chances in place of statuses.
        """
        out = np.zeros((self.records.shape[1] - 1, rows, 2))
        for codes, case in self._population(generator):
            for g in range(rows):
                has = (codes == g).astype(np.float64)
                out[:, g, 1] += case @ has
                out[:, g, 0] += (1 - case) @ has
        return np.asarray(out / np.maximum(out.sum(axis=(1, 2), keepdims=True), 1e-300))

    def _population(self, generator: np.random.Generator) -> Iterator[tuple[Codes, FloatArray]]:
        """Codes of many people and their chances to be a case."""
        if self.risk is None:
            yield self.records[:, 1:], self.records[:, 0].astype(np.float64)
            return
        if self.ends is None:
            yield self.records[:, 1:], self.risk.chances(self.records[:, 1:], self.groups)
            return
        step = max(1, _CELLS // self.records.shape[1])
        for start in range(0, _REFERENCE_PEOPLE, step):
            records, groups = self.drawn(min(step, _REFERENCE_PEOPLE - start), generator)
            yield records[:, 1:], self.risk.chances(records[:, 1:], groups)


def _ends(variants: Variants, stretch: float) -> FloatArray:
    if not (math.isfinite(stretch) and stretch > 0):
        raise InvalidInput(f"stretches of {stretch}; give a positive number of base pairs")
    chromosome, position = variants.chromosome.astype(str), variants.position
    placed = bool((position > 0).any())
    distance = np.abs(np.diff(position)).astype(np.float64) if placed else np.ones(len(variants) - 1)
    ends = -np.expm1(-distance / stretch)
    ends[chromosome[1:] != chromosome[:-1]] = 1.0
    # everybody begins with somebody
    return np.concatenate([[0.0], ends])


def permuted_status(status: Codes, groups: IntArray | None, generator: np.random.Generator) -> NDArray[np.int8]:
    """Statuses at random among all people, or within each group, where group and status stay as dependent as they are."""
    if groups is None:
        return generator.permutation(status)
    out = status.copy()
    for group in np.unique(groups):
        at = np.flatnonzero(groups == group)
        out[at] = generator.permutation(status[at])
    return out
