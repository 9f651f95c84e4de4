"""Tests on randomized records by name: independence, trend, genotypic, likelihood ratio.

With x the copies of an allele in a genotype (0, 1, 2), W_s the share of status s, and p_g that of genotype g:

    independence       all contrasts: the score test of design §4.4                                        (r_a−1)(r_b−1) df
    trend              Σ_g x_g (π_g1 W_0 − π_g0 W_1), the covariance of category scores (Cochran–Armitage for 3 × 2)    1 df
    genotypic          independence of genotype and status, π_g1 W_0 − π_g0 W_1 for g = 0, 1          2 df for two statuses,
                                                                                             1 where a genotype is absent
    likelihood-ratio   constrained likelihood ratio of independence

The target is the population the records are a sample of. Where p-values come from: :mod:`optrr.core.inference.calibration`.
Without a mechanism these are the Cochran–Armitage test and Pearson's χ² on genotypes. The trend test is also the allelic test
with people as sampling units (Schaid & Jacobsen 1999). Counting alleles as if each were drawn on its own is wrong where people
of different ancestry are pooled (Sasieni 1997), randomized or not.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from optrr.core.domain.domain import Domain, GivenScores, plain_scores, scores_of_pair
from optrr.core.errors import InvalidInput
from optrr.core.estimation.plausibility import warn_of_records
from optrr.core.inference.calibration import (
    MAX_CELLS,
    Association,
    Limit,
    affordable,
    calibrated,
    can_be_permuted,
    can_be_simulated,
    chi_square_limit,
    likeliest_product,
    simulated,
)
from optrr.core.inference.nullfit import (
    Fitter,
    all_contrasts,
    independence_fit,
    trend_contrast,
)
from optrr.core.inference.result import TOO_NOISY, Calibration, TestResult, check_testable, simulated_result
from optrr.core.inference.simulation import MANY_EXPECTED, Simulation
from optrr.core.inference.tail import reliable_down_to, tail_probability
from optrr.core.mechanisms.kernel import MAX_DENSE, Kernel
from optrr.core.mechanisms.mechanism import Randomizer, kernel_from
from optrr.core.records.counts import Counts
from optrr_solvers.arrays import FloatArray, IntArray

GENOTYPE_TESTS = ("trend", "genotypic")
GENOTYPES = 3
# What is said where one of three genotypes is absent.
ABSENT = "one genotype does not show in the records: the genotypic test compares the other two, with fewer degrees of freedom"
# A genotype is there where its estimated share is above 0 by so many standard errors of the mechanism's noise.
_THERE = 2.0
# What rounding leaves of a share of 0.
_ROUNDING = 1e-12
# What each genotype counts where the first, second or third is absent: the two that are there, one against the other. Nobody
# has the absent one, so that what it counts changes only the noise: least where it goes with its neighbour.
_WITHOUT = ((0.0, 0.0, 1.0), (0.0, 0.5, 1.0), (0.0, 1.0, 1.0))


def genotype_test(name: str, rows: int = GENOTYPES, absent: int = -1) -> tuple[FloatArray, Fitter]:
    """Contrasts (K, rows, 2) and null hypothesis of one of `GENOTYPE_TESTS`.

    ``rows``: 3 genotypes, or 2 alleles each drawn on its own. Tables may have more rows: those of a missing genotype, of which
    the hypothesis says nothing. ``absent``: the genotype that nobody has, which leaves genotypic one contrast; −1 for none.
    """
    trend = trend_contrast(np.arange(rows), np.arange(2))
    contrasts = genotypic_contrasts(2, absent) if name == "genotypic" else trend
    return contrasts, partial(independence_fit, rows=rows)


def genotypic_contrasts(columns: int, absent: int = -1) -> FloatArray:
    """Contrasts (K, 3, columns) of genotypes that are there with the columns' categories: one for each pair that is free."""
    if absent < 0:
        return all_contrasts(GENOTYPES, columns)
    return np.stack([trend_contrast(_WITHOUT[absent], column)[0] for column in np.eye(columns)[1:]])


def absent_genotypes(name: str, counts: NDArray[np.number], kernel: Kernel) -> IntArray:
    """Which genotype each table (V, R, C) shows to be absent, for `genotype_test`; −1 for none, shape (V,).

    It is the one that is not above 0 by two standard errors of the mechanism's noise, where the two others are: without a
    mechanism, the one that nobody has. The margins that decide on it are nearly uncorrelated with the contrasts under the null
    hypothesis, so that the test keeps its level; a genotype that is too rare to be seen is left out as well, and with it next
    to nothing that the test could have found.
    """
    if name != "genotypic":
        return np.full(counts.shape[0], -1)
    flat = np.asarray(counts, dtype=np.float64).reshape(counts.shape[0], 1, -1)
    n = flat.sum(axis=2)
    cells = np.zeros((GENOTYPES, *kernel.sizes))
    cells[np.arange(GENOTYPES), np.arange(GENOTYPES)] = 1
    weights = kernel.solve_adjoint(cells[None]).reshape(-1, GENOTYPES, kernel.cells)
    share, square = np.sum(weights * flat, axis=2) / n, np.sum(weights**2 * flat, axis=2) / n
    # of people whose genotypes are given only the mechanism's noise is left: E[w²] − E[w] for weights of mean 0 or 1
    noise = np.sqrt(np.maximum(square - share, 0.0) / n)
    there = share > _THERE * noise + _ROUNDING
    return np.where(there.sum(axis=1) == GENOTYPES - 1, np.argmin(there, axis=1), -1)


TestName = Literal["independence", "trend", "genotypic", "likelihood-ratio"]
TESTS: tuple[str, ...] = get_args(TestName)
CalibrationName = Literal["auto", "asymptotic", "tilted", "bootstrap"]
CALIBRATIONS: tuple[str, ...] = get_args(CalibrationName)
# Contrasts up to which a tilted simulation takes about a second.
_FEW_CONTRASTS = 8
# The bootstrap keeps an error of the fitted null hypothesis where that is near the boundary, as a likelihood ratio's is that
# needs it, or where reports expect fewer records: benchmarks/test_levels.py.
SPARSE = 5.0
_MEASURED = (
    "in tables as sparse as this one a bootstrapped test at level 5 % was measured to reject 3 to 7 % of the time"
)


def test(  # noqa: PLR0913 (public: each argument is one choice of the user)
    counts: Counts,
    mechanism: Randomizer | Kernel,
    test: TestName = "independence",
    *,
    scores: GivenScores | None = None,
    calibration: CalibrationName = "auto",
    bootstrap: int = 1999,
    random_state: int | np.random.Generator | None = None,
) -> TestResult:
    """Test an association of two attributes from counts of their randomized records.

    Parameters
    ----------
    counts
        of two attributes.
    mechanism
        that randomized them, or the kernel of exactly these two attributes.
    test
        one of `TESTS`.
    scores
        numbers for the categories of the two attributes, for "trend": their own where all are numbers, 0..r−1 elsewhere, unless
        given. The result says which they were.
    calibration
        "auto": the χ² limit where it is good to a factor of two, simulation elsewhere. "asymptotic": the χ² limit.
        "tilted": simulation of the far tail of score tests. "bootstrap": ``bootstrap`` simulated tables, no p-value below
        1/(bootstrap + 1). The result says which it was.
    bootstrap
        number of tables drawn, at least 1.
    random_state
        of simulations.

    Raises
    ------
    InvalidInput
        for an unknown test or calibration, or a table it cannot take. SingularMarginal where the mechanism hides the
        association.
    """
    kernel = _checked(counts, kernel_from(mechanism, counts.domain.names), test)
    chosen = association(kernel, test, scores, counts.domain)
    if calibration not in CALIBRATIONS:
        raise InvalidInput(f"there is no calibration {calibration!r}; choose among {', '.join(CALIBRATIONS)}")
    if calibration == "tilted" and chosen.is_ratio:
        raise InvalidInput("tilted simulation is for score tests; use calibration='bootstrap' for the likelihood ratio")
    if bootstrap < 1:
        raise InvalidInput(f"bootstrap = {bootstrap}; give a number of samples of at least 1")
    warn_of_records([counts], mechanism)
    kernel.check_invertible()
    chosen = of_genotypes_there(chosen, counts.table)
    own = chosen.name in GENOTYPE_TESTS and scores is None and kernel.sizes == (GENOTYPES, 2)
    rng = np.random.default_rng(random_state)
    tested = _Tested(chosen, counts.table[None].astype(np.float64), calibration, bootstrap, own, rng)
    return next(result(tested) for serves, result in _IN_ORDER if serves(tested))


@dataclass(frozen=True, eq=False)
class _Tested:
    """A table (1, r_a, r_b) under test, the calibration that was asked for, and whether scans test ``as_in_a_scan``."""

    chosen: Association
    table: FloatArray
    asked: CalibrationName
    draws: int
    as_in_a_scan: bool
    rng: np.random.Generator

    @cached_property
    def limit(self) -> Limit:
        """What χ² says."""
        return chi_square_limit(self.chosen, self.table)

    @cached_property
    def plain(self) -> TestResult:
        """The χ² limit's result."""
        chosen, tests = self.chosen, self.limit.tests
        return TestResult(
            test=chosen.name,
            statistic=float(tests.statistic[0]),
            df=tests.df,
            p_value=float(tests.p_value[0]),
            n=int(self.table.sum()),
            effect=float(tests.effect[0]) if tests.df == 1 and not chosen.is_ratio else None,
            reliable_down_to=min(float(self.limit.down_to[0]), 1.0),
            warnings=chosen.warnings,
            scores=plain_scores(chosen.scores),
        )

    @property
    def expects_many(self) -> bool:
        """Whether every report expects many records: χ² is in doubt only where the p-value is far in the tail."""
        return bool(self.limit.fewest[0] >= MANY_EXPECTED)

    @property
    def can_be_tilted(self) -> bool:
        """Whether a tilted simulation takes about a second."""
        return not self.chosen.is_ratio and len(self.chosen.contrasts) <= _FEW_CONTRASTS


def _large(tested: _Tested) -> TestResult:
    """χ² down to where Cramér's series says."""
    chosen, n = tested.chosen, np.array([float(tested.plain.n)])
    down_to = reliable_down_to(tested.limit.tests.fit, n, chosen.kernel, chosen.contrasts)
    out = replace(tested.plain, reliable_down_to=float(down_to[0]))
    return out if out.reliable else _warned(out, _beyond(out))


def _scanned(tested: _Tested) -> TestResult:
    """The p-value that a scan of many variants prints for this table."""
    chosen = tested.chosen
    tail = calibrated(tested.limit.tests, tested.table, chosen.kernel, chosen.contrasts, chosen.fitter)
    error = float(tail.relative_error[0])
    source: Calibration = tail.source[0]
    return replace(
        tested.plain,
        p_value=float(tail.p_value[0]),
        calibration=source,
        relative_error=error if source == "tilted" else None,
        reliable_down_to=1.0 if error >= TOO_NOISY else 0.0,
    )


def _limited(tested: _Tested) -> TestResult:
    """The χ² limit's result, with the reason why its p-value is in doubt."""
    plain = tested.plain
    if plain.reliable:
        return plain
    if tested.chosen.is_ratio:
        warning = "cells of the fitted null lie near 0, where the χ² p-value is too large; use calibration='bootstrap'"
    elif tested.expects_many:
        warning = f"{_beyond(plain)}; use calibration='tilted'"
    else:
        remedy = "leave the calibration to auto" if can_be_simulated(tested.chosen) else "merge categories"
        fewest = f"some reports expect only {tested.limit.fewest[0]:.2g} records"
        warning = f"{fewest}, where the χ² limit may be off; {remedy}"
    return _warned(plain, warning)


def _tilted(tested: _Tested) -> TestResult:
    """The far tail, simulated; the χ² limit's result where that is too noisy."""
    chosen = tested.chosen
    tail = tail_probability(tested.table[0], chosen.kernel, chosen.contrasts, chosen.fitter, tested.rng)
    error = tail.relative_error
    if not error < TOO_NOISY:
        warning = f"the simulated tail has relative error {error:.2g}; only the χ² p-value's order is known"
        return _warned(replace(tested.plain, reliable_down_to=1.0), warning)
    return replace(tested.plain, p_value=tail.p_value, calibration="tilted", relative_error=error, reliable_down_to=0.0)


def _drawn(tested: _Tested, rule: Simulation) -> TestResult:
    """Permuted or bootstrapped."""
    chosen, table = tested.chosen, tested.table
    p, reached = simulated(chosen, table, tested.limit.tests, tested.rng, rule)
    source: Calibration = "exact" if can_be_permuted(chosen, table) else "bootstrap"
    out = simulated_result(tested.plain, p[0], reached[0], rule, source)
    stated = source == "bootstrap" and (chosen.is_ratio or tested.limit.fewest[0] < SPARSE)
    return _warned(out, _MEASURED) if stated else out


def _simulated(tested: _Tested) -> TestResult:
    """As many tables as two seconds allow; where none reached the statistic, a smaller p-value, which nothing confirms."""
    rule = affordable(tested.chosen)
    out = _drawn(tested, rule)
    # above this number, some simulated table reached the statistic; otherwise the p-value is only the least that so many tables
    # can give
    if out.p_value > 1.5 / (rule.most + 1):
        return out
    if tested.can_be_tilted:
        guess = _tilted(tested)
        known = guess.calibration == "tilted"
    else:
        guess, known = tested.plain, tested.expects_many
    if not known or guess.p_value >= out.p_value:
        return out
    return replace(guess, reliable_down_to=out.reliable_down_to, warnings=out.warnings)


# The calibrations in the order in which they are asked whether they serve a table; the first that does makes its result.
_IN_ORDER: tuple[tuple[Callable[[_Tested], bool], Callable[[_Tested], TestResult]], ...] = (
    (lambda t: t.asked == "bootstrap", lambda t: _drawn(t, Simulation(t.draws + 1, t.draws))),
    (lambda t: t.asked == "tilted", _tilted),
    # one contrast of many categories is a sum over records, however few of them each category has
    (lambda t: len(t.chosen.contrasts) == 1 and not can_be_simulated(t.chosen), _large),
    (lambda t: t.asked == "auto" and t.as_in_a_scan, _scanned),
    (lambda t: t.asked == "asymptotic" or bool(t.limit.holds[0]), _limited),
    (lambda t: t.expects_many and t.can_be_tilted, _tilted),
    (lambda t: (t.expects_many and not t.chosen.is_ratio) or not can_be_simulated(t.chosen), _limited),
    (lambda t: True, _simulated),
)


def _beyond(out: TestResult) -> str:
    return f"below {out.reliable_down_to:.2g} the χ² limit may be off by more than a factor of two"


def _warned(out: TestResult, warning: str) -> TestResult:
    return replace(out, warnings=(*out.warnings, warning))


def _checked(counts: Counts, kernel: Kernel, test: str) -> Kernel:
    if test not in TESTS:
        raise InvalidInput(f"there is no test {test!r}; choose among {', '.join(TESTS)}")
    if counts.table.ndim != 2 or kernel.sizes != counts.table.shape:
        shape = counts.table.shape
        raise InvalidInput(f"{test!r} tests two attributes, got {len(shape)} of shape {shape}; count a pair")
    check_testable(counts.n)
    return kernel


def association(
    kernel: Kernel, test: str, scores: GivenScores | None = None, domain: Domain | None = None
) -> Association:
    """What one of `TESTS` is for this kernel of two attributes; ``scores`` are the trend's, else those of the ``domain``.

    A kernel knows sizes only: without a domain the categories are 0..r−1.

    Raises InvalidInput for scores of another test or shape, or more cells or other ones than the test takes.
    """
    rows, columns = kernel.sizes
    if scores is not None and test != "trend":
        raise InvalidInput(f"scores are for the trend test; leave them out for {test!r}")
    if test == "genotypic" and rows != GENOTYPES:
        raise InvalidInput(
            f"the genotypic test takes a genotype of three categories as first attribute, got {rows}; name the genotype first"
        )
    if test == "trend":
        pair = scores_of_pair(domain or Domain.of(dict(zip("ab", kernel.sizes, strict=True))), scores)
        # a trend is the same wherever its scores begin, and far from 0, as years are, their products would lose digits
        contrast = trend_contrast(*(each - each.min() for each in pair))
        return Association(test, kernel, contrast, independence_fit, scores=pair)
    if test == "likelihood-ratio":
        if kernel.cells > MAX_CELLS:
            raise InvalidInput(
                f"the table has {kernel.cells} cells; the likelihood ratio takes at most {MAX_CELLS}; test 'independence'"
            )
        return Association(test, kernel, all_contrasts(rows, columns), likeliest_product)
    if kernel.cells > MAX_DENSE:
        df = (rows - 1) * (columns - 1)
        raise InvalidInput(
            f"{test!r} of {rows} × {columns} has {df} degrees of freedom; it takes at most {MAX_DENSE} cells: merge "
            "categories, or test 'trend', which has one"
        )
    return Association(test, kernel, all_contrasts(rows, columns), independence_fit)


def of_genotypes_there(chosen: Association, table: NDArray[np.number], kernel: Kernel | None = None) -> Association:
    """The genotypic test without a genotype that the table shows to be absent; other tests as they are.

    ``kernel``: what randomized the table, the test's own unless given.
    """
    if chosen.name != "genotypic":
        return chosen
    absent = int(absent_genotypes(chosen.name, table[None], kernel or chosen.kernel)[0])
    if absent < 0:
        return chosen
    contrasts = genotypic_contrasts(chosen.kernel.sizes[1], absent)
    return replace(chosen, contrasts=contrasts, warnings=(*chosen.warnings, ABSENT))
