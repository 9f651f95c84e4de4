"""Designs for genotypes and status: a fixed ε for each variant, or a fixed total (POR §IV, §V-B; theory §3.7).

With the total fixed, every ε is scaled by one factor, found by bisection over the certified solver: the largest factor
whose total, rounded up, stays within. The status is one attribute that all tests share, so it is worth far more than a
variant: unless its ε is given, it maximizes the squared joint eigenvalue of variants and status, max λ_is², as if all
variants were alike (with different budgets, at their mean square).

For tests of association alone, each participant answers about one variant, by the best report on its genotype and the
status, with the best proportion of participants who answer about the status alone; or about several, by naming a cell
of their table. Both are compared by the proportion of a true record's information that they keep, on average over the
expected frequencies and proportions of cases. No genotype is looked at.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from optrr.core.design import FAINT, Design
from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput, warn
from optrr.core.provenance import checked_epsilon
from optrr.genomics.genotypes import (
    GENOTYPES,
    Variants,
    allele_pairs,
)
from optrr.genomics.layout import Alleles, Layout, genomic_domain, layout_of, star_eigenvalues
from optrr.genomics.people_tables import text_column
from optrr.genomics.sampled_variants import MOST_EACH, SampledVariants, one_cell
from optrr_solvers import Problem, Solution, solve
from optrr_solvers.allocation.association import Population, best_report
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.calibrate import calibrate, scale_range
from optrr_solvers.problem import EPSILON_RANGE

# Factors are found to this relative precision; the total then misses its goal by about as much, always downwards.
_FACTOR = 1e-8
# While the best ε of the status is searched, this precision is enough, because factors only have to rank candidates.
_ROUGH = 1e-4
# Tolerance of the status' ε, relative to its range; the objective is flat there.
_STATUS = 0.01
# At 10 nats one status in 22,000 is changed; a larger ε brings nothing.
_MOST_STATUS = 10.0
# Smallest ε of a status: below half a nat it is too attenuated to be optimal at any larger total.
_LEAST_STATUS = 0.5


@dataclass(frozen=True)
class Budget:
    """Accuracies or total ε available to a design.

    Parameters
    ----------
    total
        total ε in nats; None where ``variants`` states every ε itself.
    variants
        ε of each variant in nats, one number or shape (V,); with a total only their ratios matter.
    status
        ε of the status in nats; None: with a total the most useful one, otherwise 1.
    """

    total: float | None = None
    variants: float | FloatArray = 1.0
    status: float | None = None


@dataclass(frozen=True)
class Wanted:
    """Requirements of a genomic design.

    Names of variants, missing category, solver, and whether pairs (variant, status) are kept at κ = 1.

    ``alleles``: A1 and A2 of each variant (:func:`optrr.genomics.genotypes.allele_pairs`), so that whatever uses the
    design counts the same one; ``places``: the position of each (:attr:`optrr.genomics.Variants.places`), for results.
    """

    names: Sequence[str]
    missing: bool = False
    method: str = "auto"
    preserve_pairs: bool = False
    alleles: Sequence[Alleles] = ()
    places: Sequence[str] = ()

    @classmethod
    def of(
        cls, variants: Variants, missing: bool = False, method: str = "auto", preserve_pairs: bool = False
    ) -> "Wanted":
        """Build requirements from all that a file contains about the variants."""
        names = [str(name) for name in variants.name]
        return cls(names, missing, method, preserve_pairs, allele_pairs(variants), variants.places)


def numbers_by_variant(file: Path, column: str, names: Sequence[str]) -> FloatArray:
    """Read one number per variant from a table.

    The table has a column ``variant`` and this one. Raises InvalidInput if a variant has no number.
    """
    listed = text_column(file, "variant")
    given = dict(zip(listed, text_column(file, column), strict=True))
    if len(given) < len(listed):
        raise InvalidInput(f"{file} lists variant {Counter(listed).most_common(1)[0][0]!r} twice; list each once")
    if absent := [name for name in names if given.get(name) is None]:
        raise InvalidInput(
            f"{file} has no {column} for variant {absent[0]!r} ({len(absent)} in all); give one for each"
        )
    try:
        return np.array([float(str(given[name])) for name in names])
    except ValueError as error:
        raise InvalidInput(f"{file}, column {column!r}: {error}; give a number for each variant") from error


def genomic_design(wanted: Wanted, budget: Budget) -> Design:
    """Solve for the mechanism with the smallest total or the largest accuracies.

    ``budget`` gives either the accuracies or the total.

    Raises
    ------
    InvalidInput
        for budgets that do not fit, and totals that no ε in the supported range can meet.
    """
    domain = genomic_domain(wanted.names, wanted.missing, wanted.alleles, wanted.places)
    search = _RatioSearch(layout_of(domain), domain, wanted, _variant_epsilons(wanted, budget))
    if budget.total is None:
        status = 1.0 if budget.status is None else budget.status
        return Design(domain, search.solved(1.0, status))
    total = float(budget.total)
    if not (np.isfinite(total) and total > 0):
        raise InvalidInput(f"``total`` {budget.total}: give a positive number of nats")
    if budget.status is not None and budget.status >= total:
        raise InvalidInput(
            f"``status`` {budget.status:g}: leaves nothing of a total of {total:g} for variants; lower it"
        )
    status = search.best_status(total) if budget.status is None else budget.status
    made = Design(domain, search.at_total(total, status, _FACTOR))
    if made.epsilon < _MET * total:
        warn([_unmet_total(made, total)])
    return made


# Fraction of the requested total that is accepted as the total.
_MET = 0.99


def _unmet_total(design: Design, total: float) -> str:
    """Explain why the total is well below the one required."""
    most = float(design.solution.problem.epsilons.max())
    at_end = most >= _MET * EPSILON_RANGE[1]
    why = (
        f"an attribute has {most:.3g}, the largest supported epsilon, at which values hardly ever change; the others "
        "keep the requested ratios"
        if at_end
        else f"method {design.method} has no total between"
    )
    return f"the total epsilon is {design.epsilon:.4g} and not {total:.4g}: {why}"


def association_warnings(design: Design) -> tuple[str, ...]:
    """Warn if an association is much more attenuated than under independent RR.

    At most one line, for associations of a variant with the status.

    Relative to the requested ε, as preserving pairs is. A scan does not use pairs of two variants.
    """
    layout = layout_of(design.domain)
    leaves = layout.attributes
    wished = design.solution.problem.eigenvalues
    seen = star_eigenvalues(design.law, leaves, layout.status)[:, 1, 1] / (wished[leaves] * wished[layout.status])
    k = int(np.argmin(np.abs(seen)))
    if abs(seen[k]) >= FAINT:
        return ()
    return (
        f"the association of variant {layout.names[k]!r} and the status is attenuated to {abs(seen[k]):.3g} of its "
        "eigenvalue under independent randomized response; preserve the pairs for tests of association (``preserve`` "
        "pairs)",
    )


def _variant_epsilons(wanted: Wanted, budget: Budget) -> FloatArray:
    values = np.asarray(budget.variants, dtype=np.float64)
    if values.ndim and values.shape != (len(wanted.names),):
        raise InvalidInput(f"{values.size} variant epsilons for {len(wanted.names)} variants; give one for each")
    wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if wrong.size:
        which = f"variant {wanted.names[int(wrong[0])]!r}" if values.ndim else "every variant"
        raise InvalidInput(f"epsilon {values.flat[int(wrong[0])]:g} for {which}; give a positive number of nats")
    return np.broadcast_to(values, (len(wanted.names),))


# Variants whose pairs with the status may be preserved: their program has a matrix of all pairs, 3 GB of doubles.
MOST_PRESERVED = 20_000


@dataclass(frozen=True, eq=False)
class _RatioSearch:
    layout: Layout
    domain: Domain
    wanted: Wanted
    ratios: FloatArray

    def solved(self, factor: float, status: float) -> Solution:
        epsilons = np.empty(self.domain.m)
        epsilons[self.layout.attributes] = factor * self.ratios
        epsilons[self.layout.status] = status
        pairs: list[tuple[int, int]] = []
        if self.wanted.preserve_pairs:
            if len(self.wanted.names) > MOST_PRESERVED:
                raise InvalidInput(
                    f"pairs of {len(self.wanted.names)} variants with the status are too many to preserve; at most "
                    f"{MOST_PRESERVED} fit: design for association, or leave pairs out"
                )
            pairs = [(self.layout.status, i) for i in self.layout.attributes.tolist()]
        problem = Problem(self.domain.sizes, epsilons, pairs=tuple(pairs), names=self.domain.names)
        return solve(problem, self.wanted.method)

    def at_total(self, total: float, status: float, precision: float, start: float | None = None) -> Solution:
        """Solve for the largest factor whose total does not exceed ``total``.

        ``start`` is a first guess of the factor.

        The usual one is where Σ KL(f_i ‖ d_i), a lower bound on the total, meets it: to second order in ε,
        Σ ε_i² (r_i−1)/(2 r_i²).
        """
        r = self.domain.sizes[self.layout.attributes].astype(np.float64)
        usual = float(np.sqrt(total / np.sum(self.ratios**2 * (r - 1) / (2 * r**2))))
        return calibrate(
            lambda factor: self.solved(factor, status),
            total,
            scale_range(self.ratios),
            guess=start or usual,
            tolerance=precision,
            scan=self.wanted.method == "inductive",
        ).solution

    def best_status(self, total: float) -> float:
        """Find the status' ε with the largest mean λ_is² at this total."""
        center, leaves = self.layout.status, self.layout.attributes
        # different variants need a slow solver, and the answer hardly depends on how they differ
        alike = replace(self, ratios=np.full(self.ratios.size, np.sqrt(np.mean(self.ratios**2))))
        reasons: list[str] = []
        last: float | None = None

        def faintness(status: float) -> float:
            nonlocal last
            try:
                optimum = alike.at_total(total, status, _ROUGH, last)
                last = float(optimum.problem.epsilons[leaves[0]] / alike.ratios[0])
                return -float(np.mean(star_eigenvalues(optimum.law, leaves, center)[:, 1, 1] ** 2))
            except InvalidInput as error:
                reasons.append(str(error))
                return 0.0

        low, high = min(0.02 * total, _LEAST_STATUS), min(0.98 * total, _MOST_STATUS)
        options = {"xatol": _STATUS * (high - low)}
        optimum = minimize_scalar(faintness, bounds=(low, high), method="bounded", options=options)
        if not optimum.fun < 0:
            raise InvalidInput(f"method {self.wanted.method!r}, total epsilon {total:g}: {reasons[0]}")
        return float(optimum.x)


# Frequencies of the rarer allele that a design is made for where none is known, and odds of cases around the expected
# ones.
_FREQUENCIES, _AROUND = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5), (0.85, 1.0, 1.18)
_CASES = (0.15, 0.3, 0.5)
# Known frequencies are put into classes, each with a report of its own, made for the class and a little around it.
_CLASSES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
_NEAR = (0.9, 1.0, 1.1)
# Candidate proportions of participants who answer about the status alone.
_STATUS_SHARES = (0.0, 0.003, 0.01, 0.02, 0.04, 0.07, 0.11, 0.16)
# By so much, relative, an answer stays below the total; beyond 2^-64 e^ε of thresholds where that is more.
_BELOW = 1e-9
# Beyond, sets of cells keep nothing that single cells do not.
_MOST_OF_SETS = 12.0


def sampled_variants(
    wanted: Wanted, total: float, cases: float | None = None, frequencies: ArrayLike | None = None
) -> SampledVariants:
    """Design the queries that keep most of the tests' information on average.

    ``total`` is the total ε in nats. Takes about two seconds.

    Parameters
    ----------
    wanted
        the variants.
    cases
        the expected proportion of cases among participants; another proportion costs power, never validity. Unless
        given, the questions are made for anything from one case in seven to one in two.
    frequencies
        of A1 of each variant, from public sources; unless given, A1 is taken for the rarer allele of each.

    Raises
    ------
    InvalidInput
        for a total outside 1e-6..50, and shares and frequencies that are not between 0 and 1.
    """
    checked_epsilon(total)
    if cases is not None and not 0 < cases < 1:
        raise InvalidInput(f"share of cases {cases}: give one between 0 and 1")
    task = _Planner(
        tuple(wanted.names),
        tuple(wanted.alleles) or (("", ""),) * len(wanted.names),
        max(total * (1 - _BELOW), EPSILON_RANGE[0]),
        _CASES if cases is None else tuple(cases * factor / (1 - cases + cases * factor) for factor in _AROUND),
        _Classes.of(len(wanted.names), frequencies),
    )
    best = max((*task.of_sets(), *task.of_cells()), key=lambda one: one.kept)
    return replace(_within_total(best, total), places=tuple(wanted.places))


def _within_total(asking: SampledVariants, total: float) -> SampledVariants:
    """Lower ε slightly if the queries as drawn would exceed the total."""
    while asking.epsilon > total > EPSILON_RANGE[0]:
        # thresholds of 64 bits are coarse where e^ε is large
        lower = asking.answer_epsilon - 2 * (asking.epsilon - total)
        asking = replace(asking, answer_epsilon=lower)
    return asking


@dataclass(frozen=True, eq=False)
class _Classes:
    """Classes of variants.

    Frequencies of the rarer allele by class, the class of each variant, and whether A1 is the other allele.
    """

    frequencies: tuple[tuple[float, ...], ...]
    of_variant: IntArray
    turned: NDArray[np.bool_]

    @classmethod
    def of(cls, count: int, frequencies: ArrayLike | None) -> "_Classes":
        if frequencies is None:
            return cls((_FREQUENCIES,), np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_))
        known = np.asarray(frequencies, dtype=np.float64)
        if known.shape != (count,) or not np.all((known > 0) & (known < 1)):
            raise InvalidInput("frequencies of A1 must be between 0 and 1; give one for each variant")
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
        """List the populations of each class given this status channel."""
        return [
            [Population(f, c, told * _told_of_status(c, channel)) for f in frequencies for c in self.cases]
            for frequencies in self.classes.frequencies
        ]

    def of_sets(self) -> Iterator[SampledVariants]:
        """Propose queries about one variant each.

        They differ in the proportion of people who report the status alone.
        """
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
        """Propose queries about several variants each, while that keeps more."""
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
    """Compute the information on the logit of the case rate in one answer."""
    chance, spread = float(channel[1] @ [1 - cases, cases]), cases * (1 - cases)
    return float((spread * (channel[1, 1] - channel[1, 0])) ** 2 / (chance * (1 - chance)))
