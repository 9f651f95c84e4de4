"""Tests on randomized records by name: independence, trend, genotypic, allelic, allelic-hwe, likelihood ratio.

    independence       all contrasts, (r_a−1)(r_b−1) df: the score test of design §4.4
    trend              one contrast, the covariance of category scores (Cochran–Armitage for 3 × 2), 1 df
    genotypic          independence of a genotype (three categories) and a status: 2 df for two statuses, 1 without one genotype
    allelic            difference of allele frequencies, people as sampling units: the trend's statistic and p-value, 1 df
    allelic-hwe        the same with its variance under Hardy–Weinberg proportions, which it needs to be valid, 1 df
    likelihood-ratio   constrained likelihood ratio of independence

The target is the population the records are a sample of. Where p-values come from: :mod:`optrr.models.tests.calibration`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from optrr.domain.domain import Domain
from optrr.domain.scores import GivenScores, PairScores, plain_scores, scores_of_pair
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import MAX_DENSE, Kernel
from optrr.mechanisms.randomizer import Randomizer, kernel_from
from optrr.models.tests.calibration import (
    Association,
    Limit,
    affordable,
    can_be_permuted,
    can_be_simulated,
    chi_square_limit,
    simulated,
)
from optrr.models.tests.chi_square import MANY_EXPECTED
from optrr.models.tests.conditional import calibrated
from optrr.models.tests.genotypes import (
    ABSENT,
    GENOTYPE_TESTS,
    GENOTYPES,
    absent_genotypes,
    genotype_test,
    genotypic_contrasts,
)
from optrr.models.tests.likelihood_ratio import MAX_CELLS, likeliest_product
from optrr.models.tests.nullfit import independence_fit
from optrr.models.tests.result import TOO_NOISY, Calibration, TestResult, check_testable, simulated_result
from optrr.models.tests.score import ScoreTests, all_contrasts, trend_contrast
from optrr.models.tests.simulation import Simulation
from optrr.models.tests.tail import reliable_down_to, tail_probability
from optrr.records.counts import Counts
from optrr.tables.estimation.impossible import warn_of_records
from optrr_solvers.arrays import FloatArray

TestName = Literal["independence", "trend", "genotypic", "allelic", "allelic-hwe", "likelihood-ratio"]
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
_TREND_WARNINGS: dict[str, tuple[str, ...]] = {
    "trend": (),
    "allelic": (
        "without assuming Hardy–Weinberg equilibrium, the allelic test is the trend test; allelic-hwe assumes it",
    ),
    "allelic-hwe": ("the allelic-hwe test is valid only in Hardy–Weinberg equilibrium; prefer the trend test",),
}


def test(  # noqa: PLR0913 (the front door: each argument is one question a user answers)
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
    rng = np.random.default_rng(random_state)
    table = counts.table[None].astype(np.float64)
    limit = chi_square_limit(chosen, table)
    plain = _plain(chosen, limit, counts.n)
    if calibration == "bootstrap":
        return _simulated(plain, chosen, table, limit, rng, Simulation(bootstrap + 1, bootstrap))
    if calibration == "tilted":
        return _tilted(plain, chosen, table, rng)
    if len(chosen.contrasts) == 1 and not can_be_simulated(chosen):
        return _large(plain, chosen, limit)
    if calibration == "auto" and chosen.name in GENOTYPE_TESTS and scores is None and kernel.sizes == (GENOTYPES, 2):
        return _as_in_a_scan(plain, chosen, table, limit)
    if calibration == "asymptotic" or limit.holds[0]:
        return _doubted(plain, chosen, limit)
    return _automatic(plain, chosen, table, limit, rng)


def _plain(chosen: Association, limit: Limit, n: int) -> TestResult:
    return TestResult(
        test=chosen.name,
        statistic=float(limit.statistic[0]),
        df=limit.df,
        p_value=float(limit.p_value[0]),
        n=n,
        effect=float(limit.effect[0]) if limit.df == 1 and not chosen.is_ratio else None,
        reliable_down_to=min(float(limit.down_to[0]), 1.0),
        warnings=chosen.warnings,
        scores=plain_scores(chosen.scores),
    )


def _large(plain: TestResult, chosen: Association, limit: Limit) -> TestResult:
    """One contrast of many categories: a sum over records, however few of them each category has."""
    down_to = reliable_down_to(limit.fit, np.array([float(plain.n)]), chosen.kernel, chosen.contrasts)
    out = replace(plain, reliable_down_to=float(down_to[0]))
    return out if out.reliable else replace(out, warnings=(*out.warnings, _beyond(out)))


def _beyond(out: TestResult) -> str:
    return f"below {out.reliable_down_to:.2g} the χ² limit may be off by more than a factor of two"


def _as_in_a_scan(plain: TestResult, chosen: Association, table: FloatArray, limit: Limit) -> TestResult:
    """Genotype and status: the p-value that a scan of many variants prints for this table."""
    scores = ScoreTests(limit.statistic, limit.df, limit.p_value, limit.effect, limit.fit)
    tail = calibrated(scores, table, chosen.kernel, chosen.contrasts, chosen.fitter)
    error = float(tail.relative_error[0])
    source: Calibration = tail.source[0]
    return replace(
        plain,
        p_value=float(tail.p_value[0]),
        calibration=source,
        relative_error=error if source == "tilted" else None,
        reliable_down_to=1.0 if error >= TOO_NOISY else 0.0,
    )


def _automatic(
    plain: TestResult, chosen: Association, table: FloatArray, limit: Limit, rng: np.random.Generator
) -> TestResult:
    far = not chosen.is_ratio and limit.fewest[0] >= MANY_EXPECTED
    if far and len(chosen.contrasts) <= _FEW_CONTRASTS:
        return _tilted(plain, chosen, table, rng)
    if far or not can_be_simulated(chosen):
        return _doubted(plain, chosen, limit)
    rule = affordable(chosen)
    out = _simulated(plain, chosen, table, limit, rng, rule)
    # above this number, some simulated table reached the statistic; otherwise the p-value is only the least that so many tables
    # can give
    if out.p_value > 1.5 / (rule.most + 1):
        return out
    return _beyond_simulation(out, plain, chosen, table, limit, rng)


def _beyond_simulation(  # noqa: PLR0913 (one table, what is known of it, and how to simulate)
    out: TestResult,
    plain: TestResult,
    chosen: Association,
    table: FloatArray,
    limit: Limit,
    rng: np.random.Generator,
) -> TestResult:
    """Where no simulated table reached the statistic: a smaller p-value by tilting or χ², which nothing confirms there."""
    guess = plain
    if not chosen.is_ratio and len(chosen.contrasts) <= _FEW_CONTRASTS:
        guess = _tilted(plain, chosen, table, rng)
    elif limit.fewest[0] < MANY_EXPECTED:
        return out
    if guess.p_value >= out.p_value or (guess is not plain and guess.calibration != "tilted"):
        return out
    return replace(guess, reliable_down_to=out.reliable_down_to, warnings=out.warnings)


def _doubted(plain: TestResult, chosen: Association, limit: Limit) -> TestResult:
    """The χ² limit's result, with the reason why its p-value is in doubt."""
    if plain.reliable:
        return plain
    if chosen.is_ratio:
        warning = "cells of the fitted null lie near 0, where the χ² p-value is too large; use calibration='bootstrap'"
    elif limit.fewest[0] < MANY_EXPECTED:
        remedy = "leave the calibration to auto" if can_be_simulated(chosen) else "merge categories"
        warning = f"some reports expect only {limit.fewest[0]:.2g} records, where the χ² limit may be off; {remedy}"
    else:
        warning = f"{_beyond(plain)}; use calibration='tilted'"
    return replace(plain, warnings=(*plain.warnings, warning))


def _tilted(plain: TestResult, chosen: Association, table: FloatArray, rng: np.random.Generator) -> TestResult:
    tail = tail_probability(table[0], chosen.kernel, chosen.contrasts, chosen.fitter, rng)
    if not tail.relative_error < TOO_NOISY:
        warning = (
            f"the simulated tail has relative error {tail.relative_error:.2g}; only the χ² p-value's order is known"
        )
        return replace(plain, reliable_down_to=1.0, warnings=(*plain.warnings, warning))
    return replace(
        plain, p_value=tail.p_value, calibration="tilted", relative_error=tail.relative_error, reliable_down_to=0.0
    )


def _simulated(  # noqa: PLR0913 (one table, its limit, and how to simulate)
    plain: TestResult,
    chosen: Association,
    table: FloatArray,
    limit: Limit,
    rng: np.random.Generator,
    rule: Simulation,
) -> TestResult:
    drawn = simulated(chosen, table, limit, rng, rule)
    if can_be_permuted(chosen, table):
        return simulated_result(plain, drawn.p_value[0], drawn.reached[0], rule, "exact")
    out = simulated_result(plain, drawn.p_value[0], drawn.reached[0], rule, "bootstrap")
    if chosen.is_ratio or limit.fewest[0] < SPARSE:
        return replace(out, warnings=(*out.warnings, _MEASURED))
    return out


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

    Raises
    ------
    InvalidInput
        for scores of another test or shape, or more cells or other ones than the test takes.
    """
    rows, columns = kernel.sizes
    if scores is not None and test != "trend":
        raise InvalidInput(f"scores are for the trend test; leave them out for {test!r}")
    if test in ("genotypic", "allelic", "allelic-hwe") and rows != GENOTYPES:
        raise InvalidInput(
            f"the {test} test takes a genotype of three categories as first attribute, got {rows}; name the genotype first"
        )
    if test in _TREND_WARNINGS:
        pair = scores_of_pair(domain or Domain.of(dict(zip("ab", kernel.sizes, strict=True))), scores)
        return _trend(test, kernel, pair)
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


def _trend(test: str, kernel: Kernel, scores: PairScores) -> Association:
    """A trend, or an allelic test, which is that of the copies of an allele."""
    if test != "trend" and np.ptp(np.diff(scores[0])) > 0:
        raise InvalidInput(
            f"the {test} test counts copies of an allele, and the genotypes are {scores[0].tolist()}; declare them as 0, 1, 2"
        )
    # a trend is the same wherever its scores begin, and far from 0, as years are, their products would lose digits
    contrast = trend_contrast(*(each - each.min() for each in scores))
    fitter = independence_fit if test == "trend" else genotype_test(test)[1]
    return Association(test, kernel, contrast, fitter, _TREND_WARNINGS[test], scores)
