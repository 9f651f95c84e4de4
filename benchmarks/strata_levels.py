"""Type I error, at nominal 5 % and 0.1 %, of tests of independence within strata by likelihood ratios.

Takes twelve minutes. 44 settings drawn at random: tables of 2 × 2 × 2 to 3 × 3 × 3 and up to six strata, in every second
setting with a category or a stratum that less than 2 % of the people are in, 700 to 40,000 records, ε_i of 0.4 to 2.5,
randomized by independent randomized response, the optimum and the optimum that keeps pairs. 300 data sets each: a
standard error of 1.3 % in a setting, and over all of 0.12 % and 0.02 %. A p-value ends with ten drawn statistics that
reach the observed one, so that there are enough draws for 0.1 %.

Writes results/strata_levels.csv and .md.
"""

from collections.abc import Iterator

import numpy as np
from model_levels import SHAPES, Setting
from model_tests import ModelTests
from test_levels import MECHANISMS
from writing import markdown, measure_all, three_decimals, write

from optrr import InvalidInput
from optrr.core.inference.simulation import Simulation

SEED = 33
RUNS, SETTINGS, RARE = 300, 44, 0.02
RULE = Simulation(hits=10, most=1999)
TESTS = ("conditional-independence", "common-association", "common-trend")


def rarest(setting: Setting) -> float:
    """Share of people in the rarest category, of any of the three attributes."""
    margins = (setting.strata, setting.rows @ setting.strata, setting.columns @ setting.strata)
    return float(min(each.min() for each in margins))


def settings() -> Iterator[Setting]:
    """By turns with and without a category that is rarer than 2 %."""
    rng = np.random.default_rng(2033)
    for k in range(SETTINGS):
        shape = SHAPES[k % len(SHAPES)]
        epsilons = tuple(np.round(rng.uniform(0.4, 2.5, 3), 2).tolist())
        mechanism, n = str(rng.choice(list(MECHANISMS))), int(np.exp(rng.uniform(np.log(700), np.log(40_000))))
        while True:
            rows, columns = (rng.dirichlet(np.ones(r), size=shape[2]).T for r in shape[:2])
            strata = rng.dirichlet(np.ones(shape[2]))
            drawn = Setting(mechanism, epsilons, n, strata, rows, columns, np.zeros(shape[:2]), 0)
            if (rarest(drawn) < RARE) == bool(k % 2):
                break
        yield drawn


def level_row(place: int, setting: Setting, name: str) -> dict[str, object]:
    row = {"setting": place, "test": name} | setting.described | {"rarest": rarest(setting)}
    try:
        test = setting.test(name)
    except InvalidInput:
        return row | {"verdict": "hidden"}
    rng = np.random.default_rng([SEED, place, TESTS.index(name)])
    law = test.null.kernel.expected(setting.table(name)).ravel()
    tables = rng.multinomial(setting.n, law / law.sum(), size=RUNS).reshape(RUNS, *test.null.kernel.sizes)
    out = ModelTests.of(test, tables.astype(np.float64), rng, RULE)
    return row | {
        "worth": float(np.median(out.worth)),
        "shown": float(np.median(out.shown)),
        "by ratio": float(out.by_ratio.mean()),
        "answered": float(out.answered.mean()),
        "at 5 %": float(np.mean(out.p_value <= 0.05)),
        "at 0.1 %": float(np.mean(out.p_value <= 0.001)),
        "verdict": "measured",
    }


def measured(place: int, setting: Setting) -> list[dict[str, object]]:
    names = TESTS if setting.associated.shape != (2, 2) else TESTS[:2]
    return [level_row(place, setting, name) for name in names]


def summary(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Levels over the settings of each test, with and without rare categories."""
    out = []
    for name in TESTS:
        for rare in (False, True):
            own = [r for r in rows if r["test"] == name and r["verdict"] == "measured" and (r["rarest"] < RARE) == rare]
            levels = np.array([r["at 5 %"] for r in own])
            tail = np.array([r["at 0.1 %"] for r in own])
            out.append(
                {
                    "test": name,
                    "rare": rare,
                    "settings": len(own),
                    "at 5 %": float(levels.mean()),
                    "lowest": float(levels.min()),
                    "highest": float(levels.max()),
                    "at 0.1 %": float(tail.mean()),
                }
            )
    return out


def main() -> None:
    each = list(settings())
    rows = measure_all(measured, range(1, len(each) + 1), each)
    write(
        "strata_levels",
        rows,
        "# Type I error of independence within strata by likelihood ratio, at nominal 5 % and 0.1 %",
        f"{RUNS} data sets in each of {SETTINGS} settings. Worth and shown: medians of how many true records a cell "
        "would show "
        "the margins within strata, and what is tested, as well; the score test that draws its law refuses below 10 "
        "and 0.5. "
        "By ratio: share of p-values that come from the likelihood ratio.",
        markdown(summary(rows), three_decimals),
        "## All settings",
        markdown(rows, three_decimals),
    )


if __name__ == "__main__":
    main()
