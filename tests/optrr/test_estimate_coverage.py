"""Unbiased and 95 % intervals, over 2000 simulated data sets, for the three kinds of mechanism.

Records are drawn, perturbed by the mechanism itself and counted: what is tested is the whole way. False alarms: the largest of
the z-scores tested per case stays below 4.5 with probability 0.9999 or more; coverage of a cell is binomial(2000, 0.95) with
standard deviation 0.5 %, and 93–97 % is four of them, about 6e-5 a cell and 1e-3 over all cells here. The seed is fixed.
"""

import numpy as np
import pytest

from optrr import Counts, Domain, design
from optrr.tables.estimation.estimator import estimate

DOMAIN = Domain.of({"a": 3, "b": 2, "c": 2})
RUNS, N = 2000, 1000
TABLE = np.random.default_rng(8).dirichlet(np.full(12, 4.0)).reshape(3, 2, 2)
DESIGNS = {
    "kronecker": {"method": "kronecker"},
    "optimal": {},
    "pairs": {"preserve": "pairs"},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DESIGNS)
def test_estimates_are_unbiased_and_intervals_cover(kind):
    mechanism = design(DOMAIN, [1.5, 1.2, 1.0], **DESIGNS[kind]).mechanism
    rng = np.random.default_rng(11)
    cells = rng.choice(12, p=TABLE.ravel(), size=RUNS * N)
    codes = np.stack(np.unravel_index(cells, TABLE.shape), axis=1)
    out = mechanism.perturb_codes(codes, random_state=12).astype(np.int64)
    run = np.repeat(np.arange(RUNS), N)
    for names, axis in ((("a",), (1, 2)), (("b", "c"), (0,)), (("a", "b"), (2,))):
        truth = TABLE.sum(axis=axis)
        sizes = truth.shape
        at = np.ravel_multi_index((run, *out[:, list(DOMAIN.indices(names))].T), (RUNS, *sizes))
        counted = np.bincount(at, minlength=RUNS * truth.size).reshape(RUNS, *sizes)
        kernel = mechanism.kernel(names)
        values = kernel.solve(counted / N)
        errors = np.sqrt(kernel.variance(counted / N, N))
        z = (values.mean(axis=0) - truth) / (values.std(axis=0, ddof=1) / np.sqrt(RUNS))
        assert np.abs(z).max() < 4.5
        # the variance estimate is unbiased too: its mean is the observed variance, known to 3.2 %
        np.testing.assert_allclose((errors**2).mean(axis=0), values.var(axis=0, ddof=1), rtol=0.16)
        covered = (np.abs(values - truth) < 1.959964 * errors).mean(axis=0)
        assert covered.min() > 0.93 and covered.max() < 0.97
        # one of the tables through the public function, which is what people use
        far = int(values.reshape(RUNS, -1).min(axis=1).argmax())
        estimated = estimate(Counts(DOMAIN.subset(names), counted[far]), mechanism)
        np.testing.assert_allclose(estimated.proportions, values[far], atol=1e-13)
        # no cell is near 0 in that one, where the interval is about the estimate plus and minus 1.96 standard errors
        np.testing.assert_allclose(estimated.upper - estimated.lower, 2 * 1.959964 * errors[far], rtol=0.1)


def test_data_set_intervals_cover_the_data_set():
    """The same records perturbed again and again: only the randomization varies."""
    mechanism = design(DOMAIN, [1.5, 1.2, 1.0], preserve="pairs").mechanism
    kernel = mechanism.kernel(("a", "b"))
    fixed = np.array([[200, 150], [250, 100], [180, 120]])
    rng = np.random.default_rng(3)
    p = kernel.matrix()
    out = sum(rng.multinomial(k, row, size=RUNS) for k, row in zip(fixed.ravel(), p, strict=True)).reshape(-1, 3, 2)
    lam = out / fixed.sum()
    values, errors = kernel.solve(lam), np.sqrt(kernel.data_variance(lam, fixed.sum()))
    covered = (np.abs(values - fixed / fixed.sum()) < 1.959964 * errors).mean(axis=0)
    assert covered.min() > 0.93 and covered.max() < 0.97
    counts = Counts(DOMAIN.subset(["a", "b"]), out[0])
    narrow = estimate(counts, mechanism, target="data").standard_errors
    assert np.all(narrow < estimate(counts, mechanism).standard_errors)
    np.testing.assert_allclose(narrow, errors[0])
