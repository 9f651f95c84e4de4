"""Coverage of regressions in sampled populations: weights, strata and clusters.

Takes three minutes; 200 samples of each of 16 settings. Settings are drawn at random as those of `weighted_coverage.py`; an
interval holds the truth where its test does not reject it. The truth is the fit of the model to the whole population,
which follows no model exactly.

Writes results/regression_weighted.md.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import weighted_coverage
from regression_coverage import attribute
from writing import markdown, measure_all, three_decimals, write_text

from optrr import Constraints, Domain, Mechanism, design
from optrr.analysis.equations import estimated, tail, test
from optrr.analysis.regression.building import DistinctReports, distinct_sampled, every_combination
from optrr.analysis.regression.fitting import equations, model
from optrr.analysis.regression.formulas import Formula
from optrr.analysis.weighting.linearised import Clusters

SEED = 9
RUNS, SETTINGS = 200, 16
LEVELS = (0.05, 0.001)


@dataclass(frozen=True, eq=False)
class WeightedSetting(weighted_coverage.Setting):
    """A sampled population, and the regression of its last attribute on the others."""

    family: str = "logistic"

    @cached_property
    def mechanism(self) -> Mechanism:
        """Of all attributes."""
        *sizes, r = self.attributes
        each = [attribute(f"x{k}", size, False) for k, size in enumerate(sizes)]
        outcome = attribute("y", r, self.family == "linear")
        domain = Domain((*each, replace(outcome, ordered=self.family in ("linear", "ordered"))))
        how = {"constraints": Constraints(preserve="pairs")} if self.kind == "pairs kept" else {"method": "kronecker"}
        return design(domain, list(self.epsilon), **how).mechanism

    @property
    def formula(self) -> Formula:
        """Additive."""
        return Formula.of(f"y ~ {' + '.join(f'x{k}' for k in range(len(self.attributes) - 1))}")


def weighted_at_random(rng: np.random.Generator, count: int) -> list[WeightedSetting]:
    """One or two predictors with an outcome whose chances, in every stratum and kind of people, are near those of others."""
    out = []
    while len(out) < count:
        family = ("logistic", "linear", "ordered", "multinomial")[len(out) % 4]
        sampled = weighted_coverage.one_at_random(rng)
        sizes = tuple(map(int, rng.integers(2, 5, int(rng.integers(1, 3)))))
        r = 2 if family == "logistic" else 3
        strata, kinds = sampled.people.shape
        x = rng.dirichlet(np.full(int(np.prod(sizes)), 3.0), size=(strata, kinds))
        chances = rng.dirichlet(np.full(r, 3.0), size=x.shape[-1]) * rng.uniform(0.6, 1.6, (strata, kinds, 1, r))
        table = x[..., None] * chances / chances.sum(axis=-1, keepdims=True)
        own = {
            "attributes": (*sizes, r),
            "epsilon": tuple(map(float, rng.uniform(1.5, 4, len(sizes) + 1).round(2))),
            "kind": str(rng.choice(["kronecker", "pairs kept"])),
            "table": table.reshape(strata, kinds, -1),
        }
        out.append(WeightedSetting(**(vars(sampled) | own), family=family))
    return out


def weighted_once(setting: WeightedSetting, place: int) -> dict[str, object]:
    """How often tests of the truth reject, and unweighted ones, of parameters together and of the worst."""
    rng, mechanism = np.random.default_rng(place), setting.mechanism
    sizes = tuple(map(int, mechanism.domain.sizes))
    chances = mechanism.kernel(mechanism.domain.names).expected(setting.truth.reshape(sizes))
    codes = every_combination(np.zeros((1, 0), dtype=np.int64), sizes)
    exact = DistinctReports(mechanism.domain, codes, 1e9 * chances.reshape(1, -1), mechanism)
    family = "linear" if setting.family == "linear" else None
    fit = model(setting.formula, exact, family, {})
    truth = estimated(equations(fit, exact)).theta[0]
    reject, tested = np.zeros((2, truth.size)), np.zeros((2, truth.size))
    degrees = []
    for _ in range(RUNS):
        sampled = replace(weighted_coverage.sample(setting, rng), domain=mechanism.domain)
        clusters = Clusters.of(sampled.strata, "refuse")
        for row, reports in enumerate(distinct_sampled(sampled, mechanism, clusters)):
            made = equations(fit, reports)
            degrees += [made.degrees] * row
            solved = estimated(made)
            for k in range(truth.size):
                others = np.array([i for i in range(truth.size) if i != k])
                if solved.converged[0] and made.clear(solved.theta, others)[0]:
                    p = tail(float(test(made, (k,), truth[[k]], solved.theta).statistic[0]), 1, made.degrees)
                    reject[row, k] += p < LEVELS[0]
                    tested[row, k] += not np.isnan(p)
    with np.errstate(invalid="ignore"):
        plain, weighted = reject / tested
    return {
        "family": setting.family,
        "attributes": "×".join(map(str, setting.attributes)),
        "ε": " ".join(f"{e:g}" for e in setting.epsilon),
        "n": int(setting.sizes.sum()),
        "strata": setting.sizes.size,
        "cluster": setting.each,
        "degrees": round(float(np.median(degrees))),
        "without interval": round(float(1 - tested[1].mean() / RUNS), 3),
        "covered": round(float(1 - reject[1].sum() / tested[1].sum()), 3),
        "least covered": round(float(1 - np.nanmax(weighted)), 3),
        "covered unweighted": round(float(1 - reject[0].sum() / tested[0].sum()), 3),
        "least unweighted": round(float(1 - np.nanmax(plain)), 3),
    }


def main() -> None:
    settings = weighted_at_random(np.random.default_rng(SEED), SETTINGS)
    rows = measure_all(weighted_once, settings, range(SETTINGS))
    write_text(
        "regression_weighted.md",
        "# Regressions of sampled populations",
        f"Made by `benchmarks/regression_weighted.py`: {RUNS} samples for each of {SETTINGS} settings drawn at "
        "random,\n"
        "as those of weighted tables: strata, kinds of people with unequal weights, clusters. Share of 95 % intervals "
        "that\n"
        "hold the population's coefficient, over all coefficients and the one that is covered least, beside those of "
        "no\n"
        "weights. No population follows the model exactly, and what it would be fitted to is the truth. Fewer are "
        "covered\n"
        "where so few records stand for so many people that degrees of freedom are few for n, and the model is wrong.",
        markdown(rows, three_decimals),
    )


if __name__ == "__main__":
    main()
