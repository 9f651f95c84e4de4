"""Randomize, estimate, compare with the records: what a predicted error is checked against."""

import numpy as np

from optrr.records.counts import count_many


def simulated(mechanism, domain, tables, codes, runs, seed):
    """Per run, the summed squared error of the unbiased tables against the records themselves, times n."""
    rng = np.random.default_rng(seed)
    truth = {t: counted.proportions for t, counted in count_many(codes, domain, tables).items()}
    kernels = {t: mechanism.kernel(t) for t in tables}
    out = []
    for _ in range(runs):
        counted = count_many(mechanism.perturb_codes(codes, rng), domain, tables)
        estimates = {t: kernels[t].solve(counted[t].proportions) for t in tables}
        out.append(len(codes) * sum(float(np.sum((estimates[t] - truth[t]) ** 2)) for t in tables))
    return np.asarray(out)


def skewed_codes(domain, n):
    rng = np.random.default_rng(7)
    return np.stack([np.minimum(rng.geometric(0.5, n) - 1, r - 1) for r in domain.sizes], axis=1)
