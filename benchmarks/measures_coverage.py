"""Coverage of the 95 % intervals of measures: shares in groups, risks, odds, means, ordinal association.

Run as ``python benchmarks/measures_coverage.py [RUNS] [JOBS]`` (2000 data sets a setting and one process unless told; about
six minutes of one core). Tables, mechanisms and numbers of records are those of derived_coverage.py, half of them drawn at
random. Of a measure with several rows one is drawn; rows without a value (a share within an empty group, an odds ratio 0/0)
are left out.

An interval holds the truth where the test of the truth does not reject, or where values on both sides of it are accepted; here
the test counts, and of the first CHECKED data sets the printed interval is compared with it. "no limit" is the share of these
with an infinite limit or one at the end of the range. A coverage of 95 % measured by 2000 data sets has standard error 0.5 %:
one setting in 20,000 comes out below 93 % by chance. Writes results/measures_coverage.csv and .md.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from math import isfinite, isnan

import numpy as np
from derived_coverage import Setting, chosen, drawn, markdown, write

from optrr import Counts
from optrr.tables.estimation.intervals import Sampling
from optrr.tables.measures import MEASURES, Comparing
from optrr.tables.measures.measure import asked, label
from optrr.tables.measures.quantities import Inversion, Odds, value_at

RUNS, CHECKED, MOST_ROWS = 2000, 10, 1
LEAST, MOST, TAIL = 0.93, 0.97, 0.025
# The interval's limits are found to a thousandth of a standard error.
ROUNDING = 2e-3


def measured(setting: Setting, runs: int, seed: int) -> list[dict[str, object]]:
    """A row for every measure, for one of its comparisons."""
    mechanism, rng = setting.mechanism(), np.random.default_rng(seed)
    kernel, domain = mechanism.kernel(("a", "b")), mechanism.domain.subset(["a", "b"])
    draws = rng.multinomial(setting.n, kernel.expected(setting.table).ravel(), size=runs)
    empty = Counts(domain, draws[0].reshape(kernel.sizes))
    out = []
    for name in MEASURES:
        rows = [(said, odds) for said, odds in asked(empty.domain, name, Comparing()) if defined(odds, setting.table)]
        for k in sorted(rng.choice(len(rows), min(MOST_ROWS, len(rows)), replace=False)):
            said, odds = rows[k]
            row = {"table": setting.name, "mechanism": setting.kind, "ε": setting.epsilon, "n": setting.n, "runs": runs}
            out.append(row | {"measure": name, "of": label(said)} | covered(odds, kernel, setting, draws))
    return out


def defined(odds: Odds, table: np.ndarray) -> bool:
    return not isnan(value_at(odds, table.ravel()))


def covered(odds: Odds, kernel: object, setting: Setting, draws: np.ndarray) -> dict[str, object]:
    truth = value_at(odds, setting.table.ravel())
    position = odds.position(truth)
    sampling = Sampling(kernel, setting.n, odds.sums)
    high, low, endless, differ = 0, 0, 0, 0
    for k, counts in enumerate(draws):
        inversion = Inversion(odds, sampling, counts / setting.n)
        too_high, too_low = (excess < 0 for excess in inversion.excesses(position, TAIL))
        if k < CHECKED:
            first, last = inversion.limits(TAIL)
            endless += first == 0 or last == 1
            rounding = ROUNDING * inversion.deviation() if isfinite(inversion.deviation()) else 0.0
            held = first - rounding <= position <= last + rounding
            differ += not held and not (too_high or too_low)
            too_high, too_low = too_high and not held, too_low and not held
        high, low = high + too_high, low + too_low
    n = len(draws)
    return {
        "truth": truth,
        "covered": 1 - (high + low) / n,
        "too low": low / n,
        "too high": high / n,
        "no limit": endless / CHECKED,
        "differ": differ,
    }


def page(rows: list[dict[str, object]], runs: int) -> str:
    cover = np.array([float(str(r["covered"])) for r in rows])
    two_sided = np.array([float(str(r["too low"])) > 0 and float(str(r["too high"])) > 0 for r in rows])
    lines = [
        "# Coverage of the 95 % intervals of measures",
        f"Made by `benchmarks/measures_coverage.py`: {runs} data sets for each of {len(rows)} settings, half of the tables "
        "drawn at random. An interval is printed for every data set, and all count.",
        f"Coverage: {cover.mean():.1%} on average, least {cover.min():.1%}, most {cover.max():.1%}; below 93 % in "
        f"{np.sum(cover < LEAST)} of {len(rows)} settings, 93–97 % in {np.sum((cover >= LEAST) & (cover <= MOST))}. In the "
        f"{two_sided.sum()} settings where intervals miss on both sides: {cover[two_sided].mean():.1%} on average. "
        "Coverage above 97 % comes from ends of ranges, where only one limit can miss or none.",
        markdown(rows),
    ]
    return "\n\n".join(lines) + "\n"


def main(runs: int, jobs: int) -> None:
    settings = [*chosen(), *drawn(np.random.default_rng(2))]
    rows = []
    with ProcessPoolExecutor(jobs) as pool:
        for k, new in enumerate(pool.map(measured, settings, [runs] * len(settings), range(len(settings)))):
            rows += new
            print(
                f"{k + 1} of {len(settings)}", *(f"{r['measure']} {r['of']}: {r['covered']:.3f}" for r in new), sep="; "
            )
            sys.stdout.flush()
    write("measures_coverage", rows, page(rows, runs))


def probe() -> object:
    """A hundredth of the work, to see whether the whole would come out the same."""
    settings = [*chosen(), *drawn(np.random.default_rng(2))]
    return [measured(setting, 2, seed) for seed, setting in list(enumerate(settings))[::10]]


if __name__ == "__main__":
    main(*(int(sys.argv[k]) if len(sys.argv) > k else default for k, default in ((1, RUNS), (2, 1))))
