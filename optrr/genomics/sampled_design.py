"""Which questions about variants keep most of what tests of association need, at a total ε; no genotype is looked at.

With one variant each, by the best report on its genotype and the status, and the best share of people who are asked for the
status alone; or with several, by naming a cell of their table. Both are compared by the share of a true record's information
that they keep, on average over the frequencies and the shares of cases that are expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.errors import InvalidInput
from optrr.genomics.genotypes import GENOTYPES
from optrr.genomics.layout import Alleles
from optrr.genomics.sampled_variants import MOST_EACH, SampledVariants, one_cell
from optrr.releases.account import checked_epsilon
from optrr_solvers.allocating.association import Population, best_report
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.problem import EPSILON_RANGE

# Frequencies of the rarer allele that a design is made for where none is known, and odds of cases around the expected ones.
_FREQUENCIES, _AROUND = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5), (0.85, 1.0, 1.18)
_CASES = (0.15, 0.3, 0.5)
# Known frequencies are put into classes, each with a report of its own, made for the class and a little around it.
_CLASSES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
_NEAR = (0.9, 1.0, 1.1)
# Shares of people who are asked for the status alone, of which the best is taken.
_STATUS_SHARES = (0.0, 0.003, 0.01, 0.02, 0.04, 0.07, 0.11, 0.16)
# By so much, relative, an answer stays below the total; beyond 2^-64 e^ε of thresholds where that is more.
_ROUNDING = 1e-9
# Beyond, sets of cells keep nothing that single cells do not.
_MOST_OF_SETS = 12.0


def sampled_variants(
    names: Sequence[str],
    total: float,
    *,
    alleles: Sequence[Alleles] = (),
    cases: float | None = None,
    frequencies: ArrayLike | None = None,
) -> SampledVariants:
    """The questions that keep most of the tests' information on average, at a total ε in nats; two seconds.

    Parameters
    ----------
    names, alleles
        of the variants; A1 and A2 of each, where they are known.
    cases
        the share of cases that is expected among the people asked; another share costs power, never validity. Unless given,
        the questions are made for anything from one case in seven to one in two.
    frequencies
        of A1 of each variant, from public sources; unless given, A1 is taken for the rarer allele of each.

    Raises
    ------
    InvalidInput
        for a total outside 1e-6..50, and shares and frequencies that are not between 0 and 1.
    """
    checked_epsilon(total)
    if cases is not None and not 0 < cases < 1:
        raise InvalidInput(f"a share of cases of {cases}; give one between 0 and 1")
    task = _Planner(
        tuple(names),
        tuple(alleles) or (("", ""),) * len(names),
        max(total * (1 - _ROUNDING), EPSILON_RANGE[0]),
        _CASES if cases is None else tuple(cases * factor / (1 - cases + cases * factor) for factor in _AROUND),
        _Classes.of(len(names), frequencies),
    )
    best = max((*task.of_sets(), *task.of_cells()), key=lambda one: one.kept)
    return within_total(best, total)


def within_total(asking: SampledVariants, total: float) -> SampledVariants:
    """The same questions, answered with a little less ε where what is drawn would pass the total."""
    while asking.epsilon > total > EPSILON_RANGE[0]:
        # thresholds of 64 bits are coarse where e^ε is large
        lower = asking.answer_epsilon - 2 * (asking.epsilon - total)
        asking = replace(asking, answer_epsilon=lower)
    return asking


@dataclass(frozen=True, eq=False)
class _Classes:
    """Frequencies of the rarer allele in each class of variants, the variants' classes, and whether A1 is the other one."""

    frequencies: tuple[tuple[float, ...], ...]
    of_variant: IntArray
    turned: NDArray[np.bool_]

    @classmethod
    def of(cls, count: int, frequencies: ArrayLike | None) -> _Classes:
        if frequencies is None:
            return cls((_FREQUENCIES,), np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_))
        known = np.asarray(frequencies, dtype=np.float64)
        if known.shape != (count,) or not np.all((known > 0) & (known < 1)):
            raise InvalidInput("frequencies of A1 must be one for each variant, between 0 and 1")
        rarer = np.minimum(known, 1 - known)
        nearest = np.abs(np.log(rarer)[:, None] - np.log(_CLASSES)).argmin(axis=1)
        present, classes = np.unique(nearest, return_inverse=True)
        near = tuple(tuple(min(_CLASSES[c] * factor, 0.5) for factor in _NEAR) for c in present.tolist())
        return cls(near, classes, known > 0.5)

    @property
    def weights(self) -> FloatArray:
        """Share of the variants in each class."""
        return np.bincount(self.of_variant, minlength=len(self.frequencies)) / self.of_variant.size


@dataclass(frozen=True, eq=False)
class _Planner:
    names: tuple[str, ...]
    alleles: tuple[Alleles, ...]
    total: float
    cases: tuple[float, ...]
    classes: _Classes

    def _populations(self, told: float, channel: FloatArray) -> list[list[Population]]:
        """Those of each class, where so many others, for each who answers, tell of the status through this channel."""
        return [
            [Population(f, c, told * _told_of_status(c, channel)) for f in frequencies for c in self.cases]
            for frequencies in self.classes.frequencies
        ]

    def of_sets(self) -> Iterator[SampledVariants]:
        """With one variant each, for several shares of people who are asked for the status alone."""
        count, turned = len(self.names), self.classes.turned
        if self.total > _MOST_OF_SETS:
            return
        for share in _STATUS_SHARES if count > 1 else (0.0,):
            populations = self._populations(count * share / (1 - share), one_cell(2, 2, self.total))
            best = [best_report(each, self.total) for each in populations]
            weights = (1 - share) / count * self.classes.weights
            every = [*(b.report for b in best), *(b.report.mirrored() for b in best)]
            used, report_of = np.unique(self.classes.of_variant + len(best) * turned, return_inverse=True)
            yield SampledVariants(
                self.names,
                self.alleles,
                self.total,
                1,
                share,
                tuple(every[k] for k in used.tolist()),
                report_of,
                float(weights @ [b.kept for b in best]),
                float(weights @ [b.bound for b in best]),
            )

    def of_cells(self) -> Iterator[SampledVariants]:
        """With several variants each, as long as that keeps more."""
        count, before, none = len(self.names), 0.0, np.zeros(len(self.names), dtype=np.int64)
        for each in range(1, min(count, MOST_EACH) + 1):
            cells = 2 * GENOTYPES**each
            channel = one_cell(cells, 2 * GENOTYPES, self.total)
            populations = self._populations(count / each - 1, one_cell(cells, 2, self.total))
            mean = self.classes.weights @ [float(np.mean([p.kept(channel) for p in of])) for of in populations]
            kept = float(mean) * each / count
            yield SampledVariants(self.names, self.alleles, self.total, each, 0.0, (), none, kept)
            if kept < before:
                return
            before = kept


def _told_of_status(cases: float, channel: FloatArray) -> float:
    """The information of an answer about the status, by this channel, about the logit of the share of cases."""
    chance, spread = float(channel[1] @ [1 - cases, cases]), cases * (1 - cases)
    return float((spread * (channel[1, 1] - channel[1, 0])) ** 2 / (chance * (1 - chance)))
