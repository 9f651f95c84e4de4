"""Type I error, at nominal 5 % and 0.1 %, of the tests within strata and of log-linear models against each other.

Takes twenty minutes. 64 settings, two thirds of them drawn at random: tables of 2 × 2 × 2 to 3 × 3 × 3, up to six strata, some
of them with 1 % of the people or fewer, categories that are rare or absent within a stratum, 1000 to 100,000 records, ε_i of
0.5 to 6, randomized by independent randomized response, the optimum and the optimum that keeps pairs. 20,000 data sets
each: standard errors of 0.15 % and 0.02 %. A row outside these limits is measured once more with 60,000 new data sets,
and only these figures count then. Levels are those of the data sets that have a p-value.

Settings, simulations and verdicts are as in test_levels.py. Of two binary attributes the trend is the association, and is left
out. Writes results/model_levels.csv and .md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from model_tests import ModelTests
from test_levels import MECHANISMS, RULE, finished, judged, summary
from writing import markdown, measure_all, three_decimals, write

from optrr import Domain, InvalidInput, design
from optrr.analysis.loglinear.comparing import (
    FAINTLY_SHOWN,
    LEAST_SHOWN,
    LEAST_WORTH,
    STRATIFIED,
    ModelTest,
    model_test,
    within_strata,
)
from optrr.analysis.loglinear.fitting import Terms
from optrr.core.mechanisms.mechanism import Randomizer
from optrr_solvers.arrays import FloatArray

SEED = 8
RUNS, MORE_RUNS = 20_000, 60_000
# Medians of what is measured of each table, by their columns in the results.
COLUMNS = {"expected": "fewest", "worth": "worth", "shown": "shown"}
SHAPES = ((2, 2, 2), (2, 2, 3), (2, 2, 6), (3, 2, 3), (3, 3, 2), (3, 3, 3))
PAIRS_OF_MODELS = (
    ([], [("a", "b"), ("a", "c"), ("b", "c")]),
    ([("a", "b")], [("a", "b"), ("a", "c")]),
    ([("a", "b")], [("a", "b"), ("a", "c"), ("b", "c")]),
    ([], [("a", "b")]),
)


@dataclass(frozen=True, eq=False)
class Setting:
    """What randomizes how many records, and the true shares.

    Of the strata (r_c,), of both attributes within them (r_a, r_c) and (r_b, r_c), the log odds ratios between these, and which
    of the pairs of models is compared.
    """

    mechanism: str
    epsilons: tuple[float, ...]
    n: int
    strata: FloatArray
    rows: FloatArray
    columns: FloatArray
    associated: FloatArray
    models: int

    @property
    def domain(self) -> Domain:
        """Attributes a, b and the strata c."""
        return Domain.of({"a": len(self.rows), "b": len(self.columns), "c": len(self.strata)})

    def table(self, name: str) -> FloatArray:
        """True proportions for which the hypothesis holds."""
        pi = self.strata * self.rows[:, None] * self.columns[None]
        if name == "same-odds-ratios":
            pi = pi * np.exp(self.associated)[:, :, None]
        if name == "models":
            inner, _ = PAIRS_OF_MODELS[self.models]
            pair = pi.sum(axis=2) if inner else np.outer(pi.sum(axis=(1, 2)), pi.sum(axis=(0, 2)))
            pi = pair[:, :, None] * self.strata
        return np.asarray(pi / pi.sum())

    @property
    def described(self) -> dict[str, object]:
        """Columns of a row."""
        epsilons, sizes = ", ".join(f"{e:g}" for e in self.epsilons), " × ".join(map(str, self.domain.sizes))
        return {"mechanism": self.mechanism, "epsilons": epsilons, "n": self.n, "table": sizes}

    @cached_property
    def randomizer(self) -> Randomizer:
        """The mechanism."""
        return design(self.domain, list(self.epsilons), **MECHANISMS[self.mechanism]).mechanism

    def test(self, name: str) -> ModelTest:
        """One of `STRATIFIED`, or of the models."""
        if name != "models":
            return within_strata(name, self.domain, self.randomizer)  # type: ignore[arg-type]  # one of STRATIFIED
        inner, outer = (Terms.of(self.domain, generators) for generators in PAIRS_OF_MODELS[self.models])
        return model_test(self.randomizer, inner, outer)


def named_settings() -> Iterator[Setting]:
    """Strata of all sizes, or one that few or hardly any people are in; both attributes follow the strata."""
    strata = {"even": (0.4, 0.35, 0.25), "faint": (0.6, 0.39, 0.01), "fainter": (0.7, 0.299, 0.001)}
    rows = np.array([[0.7, 0.4, 0.1], [0.3, 0.6, 0.9]])
    columns = np.array([[0.6, 0.3, 0.2], [0.4, 0.7, 0.8]])
    kinds = [(s, n, epsilon) for epsilon in (1.5, 4.0) for s in strata for n in (1000, 10_000, 100_000)]
    kinds += [("faint", n, 0.7) for n in (1000, 100_000)]
    for i, (name, n, epsilon) in enumerate(kinds):
        yield Setting(
            list(MECHANISMS)[i % 3],
            (epsilon,) * 3,
            n,
            np.array(strata[name]),
            rows,
            columns,
            np.array([[0.0, 0.0], [0.0, 1.0]]),
            i % len(PAIRS_OF_MODELS),
        )


def random_settings(count: int) -> Iterator[Setting]:
    """Shares from Dirichlet laws that favour rare categories; one absent in a stratum in a third of the settings."""
    rng = np.random.default_rng(2028)
    for k in range(count):
        shape = SHAPES[k % len(SHAPES)]
        rows, columns = (rng.dirichlet(np.full(r, 1.0), size=shape[2]).T for r in shape[:2])
        if rng.random() < 1 / 3:
            rows[np.argmin(rows[:, 0]), 0] = 0
        yield Setting(
            str(rng.choice(list(MECHANISMS))),
            tuple(np.round(rng.uniform(0.5, 6, 3), 2).tolist()),
            int(np.round(np.exp(rng.uniform(np.log(1000), np.log(100_000))))),
            rng.dirichlet(np.full(shape[2], 0.7)),
            rows / rows.sum(axis=0),
            columns,
            rng.normal(size=shape[:2]),
            int(rng.integers(len(PAIRS_OF_MODELS))),
        )


def level_row(setting: Setting, name: str, rng: np.random.Generator, runs: int) -> dict[str, object]:
    try:
        test = setting.test(name)
    except InvalidInput:
        return {"verdict": "refused"}
    law = test.null.kernel.expected(setting.table(name)).ravel()
    tables = rng.multinomial(setting.n, law / law.sum(), size=runs).reshape(runs, *test.null.kernel.sizes)
    out = ModelTests.of(test, tables.astype(np.float64), rng, RULE)
    made = (out.worth >= LEAST_WORTH) & (out.shown >= LEAST_SHOWN)
    medians = {name: float(np.median(getattr(out, each))) for name, each in COLUMNS.items()}
    seen = medians | {"refused": float(1 - made.mean())}
    if made.mean() < 1 / 2:
        return seen | {"verdict": "refused"}
    # a result from drawn tables states what was measured where what is tested is shown faintly
    stated = out.simulated[made] & (out.shown[made] < FAINTLY_SHOWN)
    return seen | judged(out.p_value[made], float(out.simulated[made].mean()), False, bool(np.median(stated)))


def measured(place: int, setting: Setting) -> list[dict[str, object]]:
    first, second = np.random.default_rng([SEED, place]), np.random.default_rng([10 * SEED, place])
    strata = ", ".join(f"{x:.3g}" for x in setting.strata)
    described = {"setting": place} | setting.described | {"strata": strata}
    rows = []
    for name in (*STRATIFIED, "models"):
        if name == "common-trend" and setting.associated.shape == (2, 2):
            continue
        runs, result = RUNS, level_row(setting, name, first, RUNS)
        if result["verdict"] in ("outside", "stated"):
            runs, result = MORE_RUNS, level_row(setting, name, second, MORE_RUNS)
        rows.append(
            finished(described | {"test": name, "runs": runs} | dict.fromkeys((*COLUMNS, "refused"), "") | result)
        )
    return rows


def main() -> None:
    settings = [*named_settings(), *random_settings(44)]
    rows = measure_all(measured, range(1, len(settings) + 1), settings)
    write(
        "model_levels",
        rows,
        "# Type I error of tests within strata and of log-linear models, at nominal 5 % and 0.1 %",
        f"{RUNS} data sets in each of {rows[-1]['setting']} settings, and {MORE_RUNS} new ones for each of the "
        f"{sum(r['runs'] == MORE_RUNS for r in rows)} rows that were outside at first. Within: 4–6 % and 0.05–0.2 % "
        "of the "
        "data sets that have a p-value. Refused: in at least half of the data sets the records show the smaller "
        "model's "
        f"margins no better than {LEAST_WORTH:g} true ones a cell would, or what is tested no better than "
        f"{LEAST_SHOWN:g}, or "
        "the mechanism hides it. Stated: outside, and most results say what was measured, because the records show "
        "what "
        f"is tested no better than {FAINTLY_SHOWN:g} true ones would. Expected: records in the rarest report; worth: "
        "true "
        "records a cell, of the faintest margin; shown: of what is tested; refused: share of data sets without a "
        "p-value; "
        "simulated: share of p-values from drawn tables.",
        markdown(summary(rows), three_decimals),
        "## All settings",
        markdown(rows, three_decimals),
    )


if __name__ == "__main__":
    main()
