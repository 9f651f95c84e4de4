"""Tests of one log-linear model against a larger one, and those of three attributes that go by names of their own.

The score statistic needs the fit of the smaller model only. With J_0, J_1 the derivatives of the expected reports in the
parameters of both models, taken at that fit, and W = diag(1/λ_0),

    U = J_1ᵀ W (λ̂ − λ_0),      T = n Uᵀ (J_1ᵀ W J_1)⁺ U  ~  χ² with rank J_1 − rank J_0 degrees of freedom,

because U vanishes in the directions of the smaller model (Rao, Proc. Camb. Phil. Soc. 44, 1948). It is unaffected by cells that
the larger model would fit with 0, at which the likelihood ratio 2n (ℓ_1 − ℓ_0) falls short of χ². For the true records it is
Pearson's statistic; for two attributes it is the score test of independence.

    conditional-independence   a*c + b*c against the model with all three: general association in any stratum of c
    common-association         a*c + b*c against a*b + a*c + b*c: the same odds ratios in all strata (Cochran–Mantel–Haenszel)
    common-trend               a*c + b*c with one parameter more, for the product of scores: a trend alike in all strata
    same-odds-ratios           a*b + a*c + b*c against the model with all three: do odds ratios differ between strata?
    (Agresti, Categorical Data Analysis, 2013, §8.4 and §9)

p-values are those of χ² where every report expects 50 records, and from tables drawn from the fitted smaller model elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from scipy.stats import chi2

from optrr.errors import InvalidInput
from optrr.inference.result import TestResult, simulated_result
from optrr.inference.simulation import Simulation, simulated_p_values
from optrr.kernel import Kernel
from optrr.mechanisms.randomizer import Randomizer, kernel_from
from optrr.models.fitting import Fitted, fit, pushed
from optrr.models.loglinear import check_seen
from optrr.models.terms import Terms
from optrr.records.counts import Counts
from optrr_solvers.arrays import FloatArray, IntArray

StratifiedName = Literal["conditional-independence", "common-association", "common-trend", "same-odds-ratios"]
STRATIFIED: tuple[str, ...] = get_args(StratifiedName)
# As for two attributes (calibration): with fewer expected records χ² is off by more than a factor of two at small levels.
MANY_EXPECTED = 50.0
# Singular values below this share of the largest are rounding.
_RANK = 1e-9
# Tables of a bootstrap: the larger number where fits are fast.
_DRAWS, _LARGE, _CELLS = 1999, 9999, 100
_BOUNDED = "cells of the smaller model are fitted with 0, and their tables are never drawn; leave out an interaction"


@dataclass(frozen=True, eq=False)
class _Comparison:
    """The smaller model, and the columns (d, *sizes) that the larger one adds."""

    name: str
    smaller: Terms
    added: FloatArray
    kernel: Kernel

    def fitted(self, observed: FloatArray, start: FloatArray | None = None) -> Fitted:
        """The smaller model's fit."""
        return fit(self.smaller, observed, self.kernel, start)

    def statistic(self, observed: FloatArray, n: int, fitted: Fitted) -> tuple[float, int]:
        """T and its degrees of freedom."""
        weight = 1 / np.sqrt(fitted.expected.ravel())
        old = _basis(fitted.derivative * weight)
        new = pushed(self.added, fitted.proportions, self.kernel) * weight
        # what the new directions say beyond the old ones
        basis = _basis(new - (new @ old.T) @ old, float(np.linalg.norm(new, axis=1).max(initial=0.0)))
        distance = (observed - fitted.expected).ravel() * weight
        return float(n * np.sum((basis @ distance) ** 2)), len(basis)


def _basis(rows: FloatArray, size: float | None = None) -> FloatArray:
    """Orthonormal rows that span the given ones, to rounding of rows of that size."""
    _, values, vectors = np.linalg.svd(rows, full_matrices=False)
    largest = values.max(initial=0.0) if size is None else size
    return np.asarray(vectors[values > _RANK * largest])


def compare_models(
    counts: Counts,
    mechanism: Randomizer,
    smaller: Iterable[Iterable[str]] | Terms,
    larger: Iterable[Iterable[str]] | Terms,
    random_state: int | np.random.Generator | None = None,
) -> TestResult:
    """Score test of a log-linear model against a larger one.

    Raises
    ------
    InvalidInput
        where the smaller model is not part of the larger one, or the mechanism hides what one of them has.
    """
    kernel = kernel_from(mechanism, counts.domain.names)
    terms = [m if isinstance(m, Terms) else Terms.of(counts.domain, m) for m in (smaller, larger)]
    added = [s for s in terms[1].sets if s not in terms[0].sets]
    if not terms[0] <= terms[1] or not added:
        raise InvalidInput(f"the model {terms[0]} is not a part of {terms[1]}; a test needs one model inside the other")
    check_seen(terms[1], kernel)
    columns = Terms(counts.domain, tuple(added)).columns()
    return _tested(_Comparison("models", terms[0], columns, kernel), counts, np.random.default_rng(random_state))


def stratified_test(
    counts: Counts,
    mechanism: Randomizer,
    name: StratifiedName = "conditional-independence",
    random_state: int | np.random.Generator | None = None,
) -> TestResult:
    """Test an association of the first two attributes within the strata of the others.

    Parameters
    ----------
    counts
        of the two attributes, then of those whose categories together are the strata.
    name
        one of `STRATIFIED`; "common-trend" takes the categories' positions as scores.

    Raises
    ------
    InvalidInput
        for an unknown test, fewer than three attributes, or fewer than two records. SingularMarginal where the mechanism hides
        what the test is about.
    """
    if name not in STRATIFIED:
        raise InvalidInput(f"there is no test {name!r}; choose among {', '.join(STRATIFIED)}")
    if counts.domain.m < 3:
        raise InvalidInput(f"{name!r} needs two attributes and at least one that makes strata; count three")
    if counts.n < 2:
        raise InvalidInput(f"{counts.n} records show no association; count at least 2")
    kernel = kernel_from(mechanism, counts.domain.names)
    kernel.check_invertible()
    comparison = _stratified(name, counts, kernel)
    return _tested(comparison, counts, np.random.default_rng(random_state))


def _stratified(name: str, counts: Counts, kernel: Kernel) -> _Comparison:
    domain = counts.domain
    a, b, *strata = domain.names
    apart = [(a, *strata), (b, *strata)]
    if name == "same-odds-ratios":
        smaller, larger = Terms.of(domain, [(a, b), *apart]), Terms.of(domain, [domain.names])
    else:
        smaller = Terms.of(domain, apart)
        larger = smaller.with_term((0, 1)) if name == "common-association" else Terms.of(domain, [domain.names])
    if name == "common-trend":
        x, y = (np.arange(float(r)) for r in domain.sizes[:2])
        product = np.multiply.outer(x, y).reshape(*map(int, domain.sizes[:2]), *(1,) * len(strata))
        return _Comparison(name, smaller, np.broadcast_to(product, kernel.sizes)[None].copy(), kernel)
    added = Terms(domain, tuple(s for s in larger.sets if s not in smaller.sets)).columns()
    return _Comparison(name, smaller, added, kernel)


def _tested(comparison: _Comparison, counts: Counts, rng: np.random.Generator) -> TestResult:
    observed, n = counts.proportions, counts.n
    fitted = comparison.fitted(observed)
    statistic, df = comparison.statistic(observed, n, fitted)
    plain = TestResult(comparison.name, statistic, df, float(chi2.sf(statistic, df)), n)
    if n * fitted.expected.min() >= MANY_EXPECTED:
        return plain
    rule = Simulation(most=_LARGE if comparison.kernel.cells <= _CELLS else _DRAWS)
    law = fitted.expected.ravel() / fitted.expected.sum()

    def draw(of: IntArray, size: int) -> FloatArray:
        tables = rng.multinomial(n, law, size=(of.size, size)) / n
        fits = ((table, comparison.fitted(table, fitted.coefficients)) for table in tables.reshape(-1, *observed.shape))
        return np.array([comparison.statistic(table, n, its)[0] for table, its in fits]).reshape(of.size, size)

    drawn = simulated_p_values(np.array([statistic]), draw, rule)
    out = simulated_result(plain, drawn.p_value[0], drawn.reached[0], rule, "bootstrap")
    return replace(out, warnings=(*out.warnings, _BOUNDED)) if fitted.unbounded else out
