"""Iterative Bayesian update against a generic optimiser on small tables, and on a joint of a million cells.

Run as ``python benchmarks/likelihood.py [UPDATES]`` (minutes; at most 1000 updates on the large joint unless told). The
optimiser is Clarabel's interior point through cvxpy on the dense matrix. Writes results/likelihood.csv and .md.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import cvxpy
import numpy as np
from inference_level import markdown, write

from optrr import design
from optrr.mechanisms.kernel import EffectKernel
from optrr.tables.estimation.likelihood import ibu, log_likelihood

SMALL = ((3, 2), (6, 3), (4, 3, 2), (2, 2, 2, 2), (9, 16))


def generic(observed: np.ndarray, kernel: EffectKernel) -> float:
    pi, seen = cvxpy.Variable(kernel.cells, nonneg=True), observed.ravel() > 0
    goal = observed.ravel()[seen] @ cvxpy.log(kernel.matrix().T[seen] @ pi)
    tight = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    cvxpy.Problem(cvxpy.Maximize(goal), [cvxpy.sum(pi) == 1]).solve("CLARABEL", **tight)
    inside = np.maximum(pi.value, 0)
    return log_likelihood((inside / inside.sum()).reshape(kernel.sizes), observed, kernel)


def small_rows() -> list[dict[str, object]]:
    rng, rows = np.random.default_rng(7), []
    for sizes in SMALL:
        domain = {f"a{i}": r for i, r in enumerate(sizes)}
        for epsilon in (0.5, 1.0, 2.0):
            kernel = design(domain, epsilon, preserve="pairs").mechanism.kernel(list(domain))
            truth = rng.dirichlet(np.full(kernel.cells, 0.3)).reshape(sizes)
            observed = rng.multinomial(5000, kernel.expected(truth).ravel()).reshape(sizes) / 5000
            start = time.perf_counter()
            fit = ibu(observed, kernel, n=5000)
            seconds = time.perf_counter() - start
            short = generic(observed, kernel) - log_likelihood(fit.proportions, observed, kernel)
            rows.append(
                {
                    "table": "x".join(map(str, sizes)),
                    "epsilon": epsilon,
                    "updates": fit.convergence.iterations,
                    "bound": fit.convergence.value,
                    "optimiser minus IBU, nats per record": short,
                    "milliseconds": 1e3 * seconds,
                }
            )
    return rows


def million(updates: int) -> str:
    domain = {f"a{i}": 10 for i in range(6)}
    kernel = design(domain, 2.0, method="kronecker").mechanism.kernel(list(domain))
    rng = np.random.default_rng(8)
    expected = kernel.expected(rng.dirichlet(np.full(10**6, 0.01)).reshape(kernel.sizes)).ravel()
    observed = rng.multinomial(10**6, expected / expected.sum()).reshape(kernel.sizes) / 1e6
    start = time.perf_counter()
    fit = ibu(observed, kernel, tolerance=1e-7, max_iterations=updates, n=10**6)
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    report = fit.convergence
    return (
        f"{report.iterations} updates in {seconds:.0f} s, peak {memory:.0f} MB of the process; at most {report.value:.2g} nats "
        f"per record below the maximum, {1e6 * report.value:.2g} in all; converged to {report.tolerance:g}: "
        f"{report.converged}; {np.count_nonzero(fit.proportions)} cells above 0"
    )


def main(updates: int) -> None:
    rows = small_rows()
    write("likelihood.csv", rows)
    worst = max(r["optimiser minus IBU, nats per record"] for r in rows)
    parts = [
        "# Small tables",
        f"At most {worst:.1e} nats per record below the optimiser (negative: IBU is above it).",
        markdown(rows),
        "# A joint of 10^6 cells, six attributes of ten categories, 10^6 records",
        million(updates),
    ]
    (Path(__file__).parent / "results" / "likelihood.md").write_text("\n\n".join(parts) + "\n")
    print("\n\n".join(parts))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
