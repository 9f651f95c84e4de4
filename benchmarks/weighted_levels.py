"""Type I error, at nominal 5 % and 0.1 %, of the test of independence of weighted, stratified and clustered samples.

Takes five minutes; 10,000 samples a setting. 100 settings drawn at random: tables of 2 × 2 to 3 × 3, a quarter of them with
rare categories, 1 to 6 strata of unequal size, two weights that differ by a factor of up to five within every stratum,
clusters in which the first attribute is alike, ε_i in 0.7..6, the mechanism. 64 of them have 15 to 80 clusters in each
stratum, of 4 or 20 people, or 100 to 1500 people sampled one by one; 36 have 1000 to 100,000 people in all, one by one or in
clusters of up to 66. The attributes are independent in every cluster, and both are distributed alike in all strata.

Samples with a category whose share is not clear of 0 are refused; the level is that of the others. Within: 4–6 % and
0.05–0.2 %. Stated: outside, and at least half of the results state the level that was measured, because the rarest report
expects few effective records or the variance has few degrees of freedom. A row that is outside, stated or not, is measured
again with MORE_RUNS new samples, and only these count then. The p-values of the first CHECKED samples are compared with those
that `tested_sample` gives. Writes results/weighted_levels.csv and .md.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import f as f_distribution
from test_levels import MECHANISMS, WITHIN_01, WITHIN_5
from writing import markdown, measure_all, three_decimals, write

from optrr import Domain, InvalidInput, design
from optrr.analysis.weighted import is_rough, rao_scott, tested_sample
from optrr.analysis.weighting.sampled import SampledRecords
from optrr.core.domain.public import PublicColumns
from optrr.core.mechanisms.mechanism import Mechanism
from optrr_solvers.arrays import FloatArray, IntArray

SEED = 11
RUNS, MORE_RUNS, TOGETHER, CHECKED = 10_000, 60_000, 100, 3
SETTINGS, LARGE_SETTINGS, MOST_CLUSTERS = 64, 36, 1500
# Of three kinds of clusters, how common each is, and where on the scale of the first attribute.
KINDS, SHIFTS = np.array([0.25, 0.5, 0.25]), np.array([-1.0, 0.0, 1.0])
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Setting:
    """What is sampled and how: ``clusters`` of ``people`` each in every one of the ``strata``, whose shares these are."""

    mechanism: str
    epsilons: tuple[float, float]
    rows: FloatArray
    columns: FloatArray
    strata: FloatArray
    clusters: int
    people: int
    alike: float
    spread: float

    @property
    def domain(self) -> Domain:
        """Attributes a and b."""
        return Domain.of({"a": len(self.rows), "b": len(self.columns)})

    def randomizer(self) -> Mechanism:
        """Of both attributes."""
        return design(self.domain, list(self.epsilons), **MECHANISMS[self.mechanism]).mechanism

    @property
    def weights(self) -> FloatArray:
        """Of both kinds of people, (2,)."""
        return np.exp(np.sqrt(np.log1p(self.spread**2)) * np.array([-1.0, 1.0]))

    def laws(self, mechanism: Mechanism) -> FloatArray:
        """Chances of the reports in each kind of cluster, (3, cells)."""
        scale = np.linspace(-0.5, 0.5, len(self.rows))
        rows = self.rows * np.exp(self.alike * SHIFTS[:, None] * scale)
        tables = (rows / rows.sum(axis=1, keepdims=True))[:, :, None] * self.columns
        return np.asarray(mechanism.kernel(("a", "b")).expected(tables).reshape(3, -1))


def settings(rng: np.random.Generator) -> Iterator[Setting]:
    """Samples of some 60 to 4800 people."""
    for place in range(SETTINGS):
        people = int(rng.choice([1, 4, 20]))
        setting = random_setting(rng, people, place % 4 == 0)
        yield clustered(setting, int(rng.choice([100, 400, 1500] if people == 1 else [15, 40, 80])), rng)


def large_settings(rng: np.random.Generator) -> Iterator[Setting]:
    """Samples of 1000 to 100,000 people; clusters are larger where they would be more than MOST_CLUSTERS."""
    for place in range(LARGE_SETTINGS):
        n, people = np.exp(rng.uniform(*np.log([1000, 100_000]))), int(rng.choice([1, 4, 20]))
        people = people if people == 1 else max(people, int(n / MOST_CLUSTERS))
        setting = random_setting(rng, people, place % 4 == 0)
        yield clustered(setting, max(15, int(n / (people * len(setting.strata)))), rng)


def clustered(setting: Setting, clusters: int, rng: np.random.Generator) -> Setting:
    alike = 0.0 if setting.people == 1 else float(rng.choice([0.0, 0.5, 1.5]))
    return replace(setting, clusters=clusters, alike=alike, spread=float(rng.choice([0.0, 0.5, 1.0])))


def random_setting(rng: np.random.Generator, people: int, sparse: bool) -> Setting:
    """Margins, strata and mechanism."""
    even = 0.6 if sparse else 2.0
    return Setting(
        str(rng.choice(["kronecker", "pairs"])),
        tuple(rng.uniform(3.5 if sparse else 0.7, 6, 2).round(2).tolist()),
        rng.dirichlet(np.full(int(rng.integers(2, 4)), even)),
        rng.dirichlet(np.full(int(rng.integers(2, 4)), even)),
        rng.dirichlet(np.full(int(rng.choice([1, 2, 6])), 4.0)),
        0,
        people,
        0.0,
        0.0,
    )


@dataclass(frozen=True, eq=False)
class Samples:
    """Clusters of B samples in H strata: ``numbers`` (B, H, K) of each of K patterns of reports, (B, H, K, 2, cells).

    A pattern holds how many people of either weight report each cell; it may be shared by samples and strata, (1, 1, …). Where
    clusters are people there are few patterns, and elsewhere each cluster has its own.
    """

    numbers: FloatArray
    patterns: FloatArray


def drawn(setting: Setting, laws: FloatArray, count: int, rng: np.random.Generator) -> Samples:
    strata, cells = len(setting.strata), laws.shape[1]
    if setting.people == 1:
        chances = np.tile(KINDS @ laws, 2) / 2
        numbers = rng.multinomial(setting.clusters, chances / chances.sum(), size=(count, strata)).astype(float)
        return Samples(numbers, np.eye(2 * cells).reshape(1, 1, 2 * cells, 2, cells))
    shape = (count, strata, setting.clusters)
    kind, first = rng.choice(3, shape, p=KINDS), rng.binomial(setting.people, 0.5, shape)
    own = [
        rng.multinomial(k, laws[kind] / laws[kind].sum(axis=-1, keepdims=True)) for k in (first, setting.people - first)
    ]
    return Samples(np.ones(shape), np.stack(own, axis=3).astype(float))


@dataclass(frozen=True, eq=False)
class Summed:
    """What the test reads of B samples.

    Shares (B, cells), their covariance, the squared weights of each report (B, cells) over the square of all, the degrees of
    freedom, and the effective records.
    """

    shares: FloatArray
    covariance: FloatArray
    squares: FloatArray
    degrees: FloatArray
    effective: FloatArray


def summed(setting: Setting, samples: Samples) -> Summed:
    """The linearised covariance as its formula stands, of all samples at once."""
    of_one = setting.strata / (setting.clusters * setting.people)
    weights = setting.weights
    patterns = whole_patterns(samples)
    sums = np.einsum("k,bhcky->bhcy", weights, patterns)
    squares = np.einsum("k,bhcky->bhcy", weights**2, patterns) * (of_one**2)[:, None, None]
    sums = sums * of_one[:, None, None]
    totals = np.einsum("bhc,bhcy->by", samples.numbers, sums)
    whole = totals.sum(axis=1)
    shares = totals / whole[:, None]
    apart = sums - sums.sum(axis=-1, keepdims=True) * shares[:, None, None, :]
    apart = apart - (np.einsum("bhc,bhcy->bhy", samples.numbers, apart) / setting.clusters)[:, :, None, :]
    scaled = (apart * np.sqrt(samples.numbers)[..., None]).reshape(len(shares), -1, shares.shape[1])
    factor = setting.clusters / (setting.clusters - 1)
    parts = squares.sum(axis=-1)
    weighed = np.einsum("bhc,bhc->b", samples.numbers, parts)
    return Summed(
        shares,
        factor * scaled.transpose(0, 2, 1) @ scaled / whole[:, None, None] ** 2,
        np.einsum("bhc,bhcy->by", samples.numbers, squares) / whole[:, None] ** 2,
        weighed**2 / (factor * np.einsum("bhc,bhc->b", samples.numbers, parts**2)),
        whole**2 / weighed,
    )


def whole_patterns(samples: Samples) -> FloatArray:
    """The patterns of all samples and strata, (B, H, K, 2, cells)."""
    return np.broadcast_to(samples.patterns, (*samples.numbers.shape, *samples.patterns.shape[3:]))


def records(setting: Setting, samples: Samples, which: int) -> SampledRecords:
    """One of the samples, person by person."""
    numbers = samples.numbers[which].astype(np.int64)
    patterns = whole_patterns(samples)[which]
    of_one = setting.strata / (setting.clusters * setting.people)
    cells, weights, clusters, strata = [], [], [], []
    for h, k in np.argwhere(numbers):
        for _ in range(numbers[h, k]):
            for kind, cell in np.argwhere(patterns[h, k]):
                times = int(patterns[h, k, kind, cell])
                cells += [cell] * times
                weights += [setting.weights[kind] * of_one[h]] * times
                clusters += [len(strata)] * times
            strata.append(h)
    n = len(cells)
    plain = (np.array(cells), np.array(weights), np.array(clusters), np.array(strata))
    return SampledRecords(setting.domain, *plain, np.zeros(n, dtype=np.int64), ((),))


def measured(setting: Setting, place: int) -> dict[str, object]:
    row = once(setting, RUNS, np.random.default_rng([SEED, place]))
    if row["verdict"] in ("outside", "stated"):
        row = once(setting, MORE_RUNS, np.random.default_rng([SEED + 1, place]))
    return {"setting": place + 1} | row


def once(setting: Setting, runs: int, rng: np.random.Generator) -> dict[str, object]:
    mechanism = setting.randomizer()
    kernel, laws = mechanism.kernel(("a", "b")), setting.laws(mechanism)
    p_values, rough = [], []
    for start in range(0, runs, TOGETHER):
        samples = drawn(setting, laws, TOGETHER, rng)
        seen = summed(setting, samples)
        tested = rao_scott(kernel, seen.shares, seen.covariance, seen.squares, seen.degrees)
        p = np.where(tested.clear, f_distribution.sf(tested.statistic, tested.upper, tested.lower), np.nan)
        p_values.append(p)
        rough.append([is_rough(e, d) for e, d in zip(tested.rarest * seen.effective, seen.degrees, strict=True)])
        if not start:
            compare(setting, samples, mechanism, p)
    return described(setting) | {"runs": runs} | verdict(np.concatenate(p_values), np.concatenate(rough))


def compare(setting: Setting, samples: Samples, mechanism: Mechanism, p: FloatArray) -> None:
    """Raises AssertionError where the test of one sample gives another p-value."""
    for which in range(CHECKED):
        try:
            own = tested_sample(records(setting, samples, which), mechanism, PublicColumns("w", "s", "c")).p_value
        except InvalidInput:
            own = np.nan
        assert np.isclose(own, p[which], rtol=SAME, atol=0, equal_nan=True), (own, p[which])


def described(setting: Setting) -> dict[str, object]:
    return {
        "mechanism": setting.mechanism,
        "epsilons": "{:g}, {:g}".format(*setting.epsilons),
        "n": setting.people * setting.clusters * len(setting.strata),
        "strata": len(setting.strata),
        "clusters": setting.clusters * len(setting.strata),
        "rows": ", ".join(f"{x:.2g}" for x in setting.rows),
        "columns": ", ".join(f"{x:.2g}" for x in setting.columns),
        "alike": setting.alike,
        "spread": setting.spread,
    }


def verdict(p: FloatArray, rough: IntArray) -> dict[str, object]:
    made = ~np.isnan(p)
    out: dict[str, object] = {"refused": float(1 - made.mean())}
    out |= dict.fromkeys(("flagged", "at_5_percent", "at_0.1_percent"), "")
    if made.mean() < 1 / 2:
        return out | {"verdict": "refused"}
    five, tenth, told = (float(each[made].mean()) for each in (p <= 0.05, p <= 0.001, rough))
    inside = WITHIN_5[0] <= five <= WITHIN_5[1] and WITHIN_01[0] <= tenth <= WITHIN_01[1]
    word = "within" if inside else "stated" if told >= 1 / 2 else "outside"
    return out | {"flagged": told, "at_5_percent": five, "at_0.1_percent": tenth, "verdict": word}


def page(rows: list[dict[str, object]]) -> str:
    words = [str(r["verdict"]) for r in rows]
    said = []
    for word in ("within", "stated", "outside"):
        own = [r for r in rows if r["verdict"] == word]
        if own:
            five, tenth = ([r[k] for r in own] for k in ("at_5_percent", "at_0.1_percent"))
            said.append(
                f"{word}: {len(own)}, {min(five):.2%}–{max(five):.2%} at 5 % and {min(tenth):.3%}–{max(tenth):.3%} at 0.1 %"
            )
    flagged = [r["flagged"] for r in rows if r["verdict"] == "within"]
    lines = [
        "# Type I error of the test of independence of sampled records, at nominal 5 % and 0.1 %",
        f"Made by `benchmarks/weighted_levels.py`: {RUNS} samples in each of {len(rows)} settings, {MORE_RUNS} new ones in "
        f"{sum(r['runs'] == MORE_RUNS for r in rows)} that were outside at first. Settings {'; '.join(said)}; refused in at "
        f"least half of the samples: {words.count('refused')}. Of samples in settings within, {np.mean(flagged):.1%} state "
        "another level.",
        markdown(rows, three_decimals),
    ]
    return "\n\n".join(lines)


def main() -> None:
    known = [*settings(np.random.default_rng(2031)), *large_settings(np.random.default_rng(2032))]
    rows = measure_all(measured, known, range(len(known)))
    write("weighted_levels", rows, page(rows))


if __name__ == "__main__":
    main()
