"""Growth of the cost of dependence acquisition and clustering in m and n: fitted exponents next to the papers' orders.

Takes a minute. Sent bytes are counted from the messages of real runs; times are processor seconds of one thread, least of
three. Writes protocols_costs.csv, .svg and .md.
"""

import time
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import NullLocator
from writing import markdown, save, write_csv, write_text

from optrr.core.domain.domain import Domain
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.core.protocols.clustering import checked_affinity, greedy_clusters, iterates, power_iteration_clusters
from optrr.core.protocols.dependence import dependences_from_randomized
from optrr.studies.secure_sum import cells_of, pair_cells, pair_vector, partial_sum, secure_sum, shares_of_zero
from optrr_solvers.laws import ProductLaw
from optrr_solvers.randomness import SystemSource

SEED = 1
SIZE = 4


def domain_of(m: int) -> Domain:
    return Domain.of({f"a{i}": SIZE for i in range(m)})


def seconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def randomized_seconds(n: int, m: int) -> float:
    """MDR §4.1: the collector tabulates and measures all pairs of n randomized records."""
    domain = domain_of(m)
    mechanism = Mechanism(domain, ProductLaw(domain.sizes, np.ones(m)))
    codes = np.random.default_rng(SEED).integers(0, SIZE, (n, m))
    return seconds(lambda: dependences_from_randomized(codes, mechanism, correct=False))


def message_bytes(m: int) -> float:
    """MDR §4.1: what one person sends, a digit and a comma a value (the envelope is 128 bytes or so, whatever m)."""
    return float(len(msgspec.json.encode([0] * m)) - 1)


def secure_sum_bytes(n: int, m: int) -> tuple[float, float]:
    """MDR §4.2, really run: bytes received by one party, and by all together."""
    domain = domain_of(m)
    codes = np.random.default_rng(SEED + 1).integers(0, SIZE, (n, m))
    received, width = np.zeros(n), np.min_scalar_type(n).itemsize

    def note(_sender: int, recipient: int, numbers: np.ndarray) -> None:
        received[recipient] += width * numbers.size

    secure_sum([pair_vector(row, domain) for row in cells_of(codes, domain)], watch=note)
    return float(received[0]), float(received.sum())


def party_seconds(n: int, m: int) -> float:
    """What one of n parties computes: its shares, its broadcast, and the sum of all broadcasts."""
    domain = domain_of(m)
    codes = np.random.default_rng(SEED + 1).integers(0, SIZE, (n, m))
    vectors = [pair_vector(row, domain) for row in cells_of(codes, domain)]

    def work() -> None:
        shares = shares_of_zero(n, vectors[0].size, SystemSource())
        partial = partial_sum(shares, vectors[0])
        _ = np.stack([partial] * n).sum(axis=0) % (n + 1)

    return seconds(work)


def clustering_seconds(m: int, algorithm: Callable[[np.ndarray], object]) -> float:
    dependence = np.random.default_rng(SEED + 2).random((m, m))
    dependence = (dependence + dependence.T) / 2
    return seconds(lambda: algorithm(dependence))


def walk_operations(m: int) -> float:
    """Multiplications of power iteration's walk: steps to its stop, times m²."""
    dependence = np.random.default_rng(SEED + 2).random((m, m))
    affinity = checked_affinity((dependence + dependence.T) / 2)
    return float(m**2 * (1 + [steady for _, steady in iterates(affinity)].index(True)))


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of ln y over ln x, over the larger half of the sizes, where fixed costs have faded."""
    half = len(x) // 2
    return float(np.polyfit(np.log(x[half:]), np.log(y[half:]), 1)[0])


def measures() -> list[tuple[str, str, str, list[int], list[float]]]:
    """What, against which variable, the papers' order, sizes, costs."""
    n_values, m_values = [10**5, 2 * 10**5, 4 * 10**5, 8 * 10**5], [4, 8, 16, 32]
    parties, attributes = [6, 12, 24, 48], [4, 6, 9, 13, 19]
    large = [400, 800, 1600, 3200, 6400]
    sums_n = [secure_sum_bytes(n, 3) for n in parties]
    sums_m = [secure_sum_bytes(4, m) for m in attributes]
    greedy = [clustering_seconds(m, lambda d: greedy_clusters(d, [2] * len(d), 64, 0.1)) for m in large]
    power = [clustering_seconds(m, lambda d: power_iteration_clusters(d, 3)) for m in large]
    collector_n = [randomized_seconds(n, 6) for n in n_values]
    collector_m = [randomized_seconds(30_000, m) for m in m_values]
    return [
        ("randomized records: collector's time (§4.1)", "n", "O(n)", n_values, collector_n),
        ("randomized records: collector's time (§4.1)", "m", "O(m²) pairs", m_values, collector_m),
        ("randomized records: sent by one person (§4.1)", "m", "O(m)", m_values, [message_bytes(m) for m in m_values]),
        ("secure sum: bytes to one party (§4.2, §4.3)", "n", "O(n · cells)", parties, [a for a, _ in sums_n]),
        ("secure sum: bytes to all (§4.2, §4.3)", "n", "n parties of O(n)", parties, [b for _, b in sums_n]),
        ("secure sum: bytes to one party (§4.2, §4.3)", "m", "O(cells): m²", attributes, [a for a, _ in sums_m]),
        ("secure sum: one party's time", "n", "O(n · cells)", parties, [party_seconds(n, 3) for n in parties]),
        ("secure sum: one party's time", "m", "O(cells): m²", attributes, [party_seconds(4, m) for m in attributes]),
        ("clustering, Algorithm 1: time", "m", "none stated; here O(m² log m)", large, greedy),
        ("clustering, power iteration: time", "m", "none stated; O(m²) a step", large, power),
        ("clustering, power iteration: multiplications", "m", "steps · m²", large, list(map(walk_operations, large))),
    ]


def sizes_and_times() -> list[str]:
    """The secure sum for small and wide tables: one party's traffic and time."""
    rows = []
    for m in (2, 4, 9, 19):
        received, cells = secure_sum_bytes(10, m)[0], sum(pair_cells(domain_of(m)))
        row = {"attributes": m, "cells": cells, "received": f"{received / 1e3:.1f} kB"}
        rows.append(row | {"time": f"{party_seconds(10, m):.3g} s"})
    return [
        "What the secure sum costs one party (received bytes; processor seconds), as measured with 10 parties:",
        "",
        markdown(rows),
        "",
        "Both grow in proportion to the number of other parties. One dishonest party can move counts between the "
        "cells of a "
        "table unseen; nobody learns more of anybody's record by that.",
    ]


def main() -> None:
    rows, lines = [], ["# Cost of learning dependences and of clustering", ""]
    lines += ["| cost | grows with | the papers' order | measured exponent |", "|---|---|---|---|"]
    figure, axes = plt.subplots(3, 4, figsize=(14, 9))
    for axis, (what, variable, order, sizes, costs) in zip(axes.flat, measures(), strict=False):
        slope = exponent(sizes, costs)
        rows += [
            {"cost": what, "variable": variable, "size": s, "value": c, "exponent": slope}
            for s, c in zip(sizes, costs, strict=True)
        ]
        lines.append(f"| {what} | {variable} = {sizes[0]}..{sizes[-1]} | {order} | {slope:.2f} |")
        axis.loglog(sizes, costs, "o-")
        # labels at the sizes alone, because those that a logarithmic axis adds between them would overlap
        axis.set_xticks(sizes, [f"{s:,}" for s in sizes], fontsize=7)
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_title(f"{what}\nexponent {slope:.2f}", fontsize=7)
        axis.set_xlabel(variable)
    axes.flat[-1].axis("off")
    save(figure, "protocols_costs.svg")
    write_csv("protocols_costs.csv", rows)
    pairs = [sum(pair_cells(domain_of(m))) for m in (4, 8)]
    lines += [
        "",
        f"All attributes have {SIZE} categories, so all pair tables together have {SIZE**2} m(m−1)/2 cells "
        f"({pairs[0]} at m = 4, {pairs[1]} at m = 8). MDR states the secure sum's cost per individual; all n together "
        "exchange n times as much, which is why §4.2 and §4.3 are for hundreds of parties and §4.1 for millions of "
        "records.",
        "",
        *sizes_and_times(),
    ]
    write_text("protocols_costs.md", "\n".join(lines))


if __name__ == "__main__":
    main()
