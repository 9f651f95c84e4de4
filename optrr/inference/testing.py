"""Tests on randomized records by name: independence, trend, genotypic, allelic, allelic-hwe, likelihood ratio.

    independence       all contrasts, (r_a−1)(r_b−1) df: the score test of design §4.4
    trend              one contrast, the covariance of category scores (Cochran–Armitage for 3 × 2), 1 df
    genotypic          independence of a genotype (three categories) and a status, 2 df for two statuses
    allelic            difference of allele frequencies, people as sampling units: the trend's statistic and p-value, 1 df
    allelic-hwe        the same with its variance under Hardy–Weinberg proportions, which it needs to be valid, 1 df
    likelihood-ratio   constrained likelihood ratio of independence

The target is the population the records are a sample of. p-values of score tests: the χ² limit where it is good to a factor
of two (see :mod:`optrr.inference.tail`), tilted simulation beyond; a plain parametric bootstrap on request. Of the likelihood
ratio: the χ² limit where every cell of the null fit is clear of 0, the bootstrap elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr.estimation.statistics import checked_scores
from optrr.inference.likelihood_ratio import MAX_CELLS, likeliest_product, likelihood_ratios, padded_null
from optrr.inference.nullfit import Fitter, hardy_weinberg_fit, independence_fit
from optrr.inference.result import TestResult
from optrr.inference.score import all_contrasts, score_tests, trend_contrast
from optrr.inference.tail import reliable_down_to, tail_probability
from optrr.kernel import Kernel
from optrr.mechanisms.randomizer import Randomizer, kernel_from
from optrr.records.counts import Counts
from optrr_solvers.problem import FloatArray

TestName = Literal["independence", "trend", "genotypic", "allelic", "allelic-hwe", "likelihood-ratio"]
TESTS: tuple[str, ...] = get_args(TestName)
CalibrationName = Literal["auto", "asymptotic", "tilted", "bootstrap"]
CALIBRATIONS: tuple[str, ...] = get_args(CalibrationName)

_GENOTYPES = 3
# Below this expectation of a true cell p-values under the level were measured up to five times too small.
_FEWEST_EXPECTED, _SAFE_LEVEL = 1.0, 0.01
# A simulated tail with a larger relative error says no more than the order of magnitude.
_TOO_NOISY = 0.25
_ALLELIC_NOTE = (
    "without assuming Hardy–Weinberg equilibrium, the allelic test is the trend test; allelic-hwe assumes it"
)
_ASSUMING_NOTE = "the allelic-hwe test is valid only in Hardy–Weinberg equilibrium; prefer the trend test"
_BOUNDARY_NOTE = "cells of the fitted null lie near 0, where the χ² p-value is too large; use calibration='bootstrap'"
# Cells up to which the likelihood ratio is bootstrapped without being asked: 2000 tables of 64 cells take two seconds.
_MAX_BOOTSTRAPPED = 64


@dataclass(frozen=True, eq=False)
class _Plan:
    """A test made concrete: the table with its kernel, the contrasts, the null hypothesis, and what must be said."""

    name: str
    table: FloatArray
    kernel: Kernel
    contrasts: FloatArray
    fitter: Fitter
    notes: tuple[str, ...] = ()

    def statistics(self, tables: FloatArray) -> FloatArray:
        """The test's statistic for a batch of tables (B, r_a, r_b)."""
        if self.name == "likelihood-ratio":
            return likelihood_ratios(tables, self.kernel).statistic
        return score_tests(tables, self.kernel, self.contrasts, self.fitter).statistic

    def null(self) -> FloatArray:
        """Expected outputs under the null hypothesis, which a bootstrap draws from, flat."""
        n = float(self.table.sum())
        fit = self.fitter((self.table / n)[None], self.kernel)
        expected = padded_null(fit, n, self.kernel).expected if self.name == "likelihood-ratio" else fit.expected
        return np.asarray(expected[0].ravel() / expected[0].sum())


def test(  # noqa: PLR0913 (the front door: each argument is one question a user answers)
    counts: Counts,
    mechanism: Randomizer | Kernel,
    test: TestName = "independence",
    *,
    scores: tuple[ArrayLike, ArrayLike] | None = None,
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
        numbers for the categories of the two attributes, for "trend"; 0..r−1 unless given.
    calibration
        "auto": the χ² limit where it is good to a factor of two; beyond, tilted simulation for score tests and the
        bootstrap for the likelihood ratio of up to 64 cells. "bootstrap": the share of ``bootstrap`` tables, drawn from
        the fitted null, with a statistic at least as large; no p-value below 1/(bootstrap+1). The result says which it was.
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
    kernel = kernel_from(mechanism, counts.domain.names)
    plan = _plan(counts, kernel, test, scores)
    if calibration not in CALIBRATIONS:
        raise InvalidInput(f"there is no calibration {calibration!r}; choose among {', '.join(CALIBRATIONS)}")
    kernel.check_invertible()
    rng = np.random.default_rng(random_state)
    if test == "likelihood-ratio":
        return _ratio_result(plan, counts.n, calibration, bootstrap, rng)
    return _score_result(plan, counts.n, calibration, bootstrap, rng)


def _ratio_result(plan: _Plan, n: int, calibration: str, bootstrap: int, rng: np.random.Generator) -> TestResult:
    if calibration == "tilted":
        raise InvalidInput("tilted simulation is for score tests; use calibration='bootstrap' for the likelihood ratio")
    found = likelihood_ratios(plan.table[None], plan.kernel)
    near = bool(found.near_boundary[0])
    out = TestResult(plan.name, float(found.statistic[0]), found.df, float(found.p_value[0]), n, reliable=not near)
    small = plan.kernel.cells <= _MAX_BOOTSTRAPPED
    if calibration == "bootstrap" or (calibration == "auto" and near and small):
        return _bootstrapped(out, plan, bootstrap, rng)
    return replace(out, notes=(_BOUNDARY_NOTE,)) if near else out


def _score_result(plan: _Plan, n: int, calibration: str, bootstrap: int, rng: np.random.Generator) -> TestResult:
    found = score_tests(plan.table[None], plan.kernel, plan.contrasts, plan.fitter)
    limit = float(reliable_down_to(found.fit, np.array([float(n)]), plan.kernel, plan.contrasts)[0])
    p = float(found.p_value[0])
    out = TestResult(
        test=plan.name,
        statistic=float(found.statistic[0]),
        df=found.df,
        p_value=p,
        n=n,
        effect=float(found.effect[0]) if found.df == 1 else None,
        reliable_down_to=limit,
        reliable=p >= limit,
        notes=plan.notes,
    )
    if calibration == "bootstrap":
        out = _bootstrapped(out, plan, bootstrap, rng)
    elif calibration == "tilted" or (calibration == "auto" and not out.reliable):
        out = _tilted(out, plan, rng)
    elif not out.reliable:
        note = f"below {limit:.2g} the χ² limit may be off by more than a factor of two; use calibration='tilted'"
        out = replace(out, notes=(*out.notes, note))
    return _doubted_if_sparse(out, float(n * (found.fit.rows[0][:, None] * found.fit.columns[0]).min()))


def _doubted_if_sparse(out: TestResult, fewest: float) -> TestResult:
    """No calibration covers the error of the fitted null where a cell expects less than one record (see `tail`)."""
    if fewest >= _FEWEST_EXPECTED or out.p_value >= _SAFE_LEVEL:
        return out
    note = (
        f"a cell expects {max(fewest, 0.0):.2g} records: small p-values may be several times too small; pool categories"
    )
    return replace(out, reliable=False, notes=(*out.notes, note))


def _tilted(out: TestResult, plan: _Plan, rng: np.random.Generator) -> TestResult:
    tail = tail_probability(plan.table, plan.kernel, plan.contrasts, plan.fitter, rng)
    if not tail.relative_error < _TOO_NOISY:
        note = f"the simulated tail has relative error {tail.relative_error:.2g}; only the χ² p-value's order is known"
        return replace(out, reliable=False, notes=(*out.notes, note))
    return replace(out, p_value=tail.p_value, calibration="tilted", relative_error=tail.relative_error, reliable=True)


def _bootstrapped(out: TestResult, plan: _Plan, samples: int, rng: np.random.Generator) -> TestResult:
    if samples < 1:
        raise InvalidInput(f"bootstrap = {samples}; give a number of samples of at least 1")
    draws = rng.multinomial(out.n, plan.null(), size=samples).astype(np.float64)
    # equal statistics differ by rounding
    as_large = int(
        np.count_nonzero(plan.statistics(draws.reshape(samples, *plan.table.shape)) >= out.statistic * (1 - 1e-9))
    )
    p = (as_large + 1) / (samples + 1)
    error = float(np.sqrt((1 - p) / (p * samples)))
    note = f"{as_large} of {samples} simulated tables reached the statistic; a larger bootstrap makes p more precise"
    return replace(
        out,
        p_value=p,
        calibration="bootstrap",
        relative_error=error,
        reliable_down_to=1 / (samples + 1),
        reliable=error < _TOO_NOISY,
        notes=out.notes if error < _TOO_NOISY else (*out.notes, note),
    )


def _plan(counts: Counts, kernel: Kernel, test: str, scores: tuple[ArrayLike, ArrayLike] | None) -> _Plan:
    if test not in TESTS:
        raise InvalidInput(f"there is no test {test!r}; choose among {', '.join(TESTS)}")
    table = counts.table.astype(np.float64)
    if table.ndim != 2 or kernel.sizes != table.shape:
        raise InvalidInput(f"{test!r} tests two attributes, got {table.ndim} of shape {table.shape}; count a pair")
    if counts.n < 2:
        raise InvalidInput(f"{counts.n} records show no association; count at least 2")
    if scores is not None and test != "trend":
        raise InvalidInput(f"scores are for the trend test; leave them out for {test!r}")
    if test == "trend":
        return _Plan(test, table, kernel, trend_contrast(*checked_scores(table.shape, scores)), independence_fit)
    if test in ("genotypic", "allelic", "allelic-hwe") and table.shape[0] != _GENOTYPES:
        raise InvalidInput(
            f"the {test} test takes a genotype of three categories as first attribute, got {table.shape[0]}; "
            "name the genotype first"
        )
    if test in ("allelic", "allelic-hwe"):
        contrast = trend_contrast(np.arange(table.shape[0]), np.arange(table.shape[1]))
        if test == "allelic":
            return _Plan(test, table, kernel, contrast, independence_fit, (_ALLELIC_NOTE,))
        return _Plan(test, table, kernel, contrast, hardy_weinberg_fit, (_ASSUMING_NOTE,))
    if test == "likelihood-ratio":
        if kernel.cells > MAX_CELLS:
            raise InvalidInput(
                f"the table has {kernel.cells} cells; the likelihood ratio takes at most {MAX_CELLS}; test 'independence'"
            )
        return _Plan(test, table, kernel, all_contrasts(*table.shape), likeliest_product)
    return _Plan(test, table, kernel, all_contrasts(*table.shape), independence_fit)
