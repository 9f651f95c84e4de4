"""Coverage of the 95 % intervals of measures: proportions in groups, risks, odds, means, ordinal association.

Takes ten minutes; 500 data sets a setting. Tables, mechanisms and numbers of records are those of derived_coverage.py, half
of them drawn at random. Of a measure with several rows one is drawn; rows without a value (a share within an empty group, an
odds ratio 0/0) are left out.

An interval holds the truth where the test of the truth does not reject, or where values on both sides of it are accepted; here
the test counts, and of the first CHECKED data sets the printed interval is compared with it. "no limit" is the share of these
with an infinite limit or one at the end of the range. A coverage of 95 % measured by 500 data sets has standard error 1 %:
one setting in 50 comes out below 93 % by chance. Writes results/measures_coverage.csv and .md.

Small groups have a separate page: shares of 2–20 % of the people, ε 0.5..1.4, 2,000 to 30,000 records, the group a
category or two conditions; a share in it, and the difference from another group. Widths are compared with those of an interval
of the Cramér–Rao error (Fisher information of the reports, numerical derivatives) around an estimate that attains it, cut to
the range, and with those of the profile likelihood of tables without negative cells by its χ² law. Writes
results/measures_groups.csv and .md.

Sparse groups, of 6 to 100,000 people with noise from none to strong, have 60 settings more, and intervals without noise are
compared in width with those of statsmodels over 200 tables. Writes results/measures_sparse.csv and .md.
"""

from collections.abc import Iterator
from math import isfinite, isnan, log

import numpy as np
from derived_coverage import Setting, Z, bound, chosen, drawn
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint
from writing import markdown, measure_all, three_decimals, write

from optrr import Counts, Domain, design
from optrr.analysis.measures import MEASURES, Comparing, quantities
from optrr.analysis.measures.measure import asked, label
from optrr.analysis.measures.quantities import Inversion, Odds, value_at
from optrr.core.estimation.likelihood import likeliest_weights
from optrr.core.estimation.table import Sampling
from optrr.core.mechanisms.kernel import Kernel

SEED = 5
RUNS, CHECKED, MOST_ROWS = 2000, 10, 1
LEAST, MOST, TAIL = 0.93, 0.97, 0.025
# The interval's limits are found to a thousandth of a standard error.
ROUNDING = 2e-3


def measured(setting: Setting, place: int) -> list[dict[str, object]]:
    """A row for every measure, for one of its comparisons."""
    mechanism, rng = setting.mechanism(), np.random.default_rng(place)
    kernel, domain = mechanism.kernel(("a", "b")), mechanism.domain.subset(["a", "b"])
    draws = rng.multinomial(setting.n, kernel.expected(setting.table).ravel(), size=RUNS // PART)
    empty = Counts(domain, draws[0].reshape(kernel.sizes))
    out = []
    for name in MEASURES:
        rows = [(said, odds) for said, odds in asked(empty.domain, name, Comparing()) if defined(odds, setting.table)]
        for k in sorted(rng.choice(len(rows), min(MOST_ROWS, len(rows)), replace=False)):
            said, odds = rows[k]
            out.append(described(setting, name) | {"of": label(said)} | covered(odds, kernel, setting, draws))
    return out


def described(setting: Setting, measure: str) -> dict[str, object]:
    row = {"table": setting.name, "mechanism": setting.kind, "ε": setting.epsilon, "n": setting.n}
    return row | {"runs": RUNS // PART, "measure": measure}


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


def page(rows: list[dict[str, object]]) -> str:
    cover = np.array([r["covered"] for r in rows])
    two_sided = np.array([r["too low"] > 0 and r["too high"] > 0 for r in rows])
    lines = [
        "# Coverage of the 95 % intervals of measures",
        f"Made by `benchmarks/measures_coverage.py`: {RUNS // PART} data sets for each of {len(rows)} settings, half "
        "of the "
        "tables drawn at random. An interval is printed for every data set, and all count.",
        f"Coverage: {cover.mean():.1%} on average, least {cover.min():.1%}, most {cover.max():.1%}; below 93 % in "
        f"{np.sum(cover < LEAST)} of {len(rows)} settings, 93–97 % in {np.sum((cover >= LEAST) & (cover <= MOST))}. "
        "In the "
        f"{two_sided.sum()} settings where intervals miss on both sides: {cover[two_sided].mean():.1%} on average. "
        "Coverage above 97 % comes from ends of ranges, where only one limit can miss or none.",
        markdown(rows, three_decimals),
    ]
    return "\n\n".join(lines)


# A part of the data sets; widths are means over some of these, and the profile likelihood is computed at so many
# shares.
GROUPS, PART, WIDE, GRID = 24, 4, 40, 41
# Beyond this share of the range an error leaves the whole range possible.
HIDDEN, WIDER, OFTEN = 1 / 3, 1.3, 0.985


def grouped(rng: np.random.Generator) -> Iterator[Setting]:
    """Tables whose first cells but for the last axis are the group; half of the groups are of two conditions."""
    for k in range(GROUPS):
        epsilon, n = float(np.exp(rng.uniform(log(0.5), log(1.4)))), int(np.exp(rng.uniform(log(2000), log(30_000))))
        group = float(np.exp(rng.uniform(log(0.02), log(0.2))))
        sizes = tuple(int(r) for r in (rng.integers(2, 6, 1) if k % 2 else rng.integers(2, 4, 2)))
        outcomes = int(rng.integers(2, 5 if k % 2 else 4))
        people = np.append(group, (1 - group) * rng.dirichlet(np.full(int(np.prod(sizes)) - 1, 3.0)))
        table = people[:, None] * rng.dirichlet(np.full(outcomes, 1.5), size=people.size)
        shape = (*sizes, outcomes)
        name = " × ".join(map(str, shape)) + f", group {group:.1%}"
        yield Setting(name, table.reshape(shape), ("kronecker", "pairs")[k // 2 % 2], round(epsilon, 2), n)


def in_groups(setting: Setting, place: int) -> list[dict[str, object]]:
    """A share in the group, and how it differs from the group beside it."""
    mechanism, rng = setting.mechanism(), np.random.default_rng(place)
    kernel, shape = mechanism.kernel(setting.names), setting.table.shape
    draws = rng.multinomial(setting.n, kernel.expected(setting.table).ravel(), size=RUNS // PART)
    row_of, outcome = np.divmod(np.arange(kernel.cells), shape[-1])
    hit, group, other = (outcome == 0).astype(float), (row_of == 0).astype(float), (row_of == 1).astype(float)
    rows = []
    for name, odds in (
        ("share", quantities.share(hit * group, (1 - hit) * group)),
        ("difference", quantities.difference(hit, group, other)),
    ):

        def of_tables(tables: np.ndarray, name: str = name) -> np.ndarray:
            flat = tables.reshape(len(tables), -1)
            own, others = (flat @ (hit * g) / (flat @ g) for g in (group, other))
            return own if name == "share" else own - others

        error = bound(of_tables, setting.table, kernel, setting.n)
        out = covered(odds, kernel, setting, draws)
        widths = [interval_width(odds, kernel, setting.n, d) for d in draws[:WIDE]]
        profile = [profile_width(kernel, d, shape[-1]) for d in draws[:WIDE]] if name == "share" else [float("nan")]
        known = {k: out[k] for k in ("truth", "covered", "too low", "too high")}
        lengths = {
            "error": error / (odds.high - odds.low),
            "width": float(np.mean(widths)),
            "attainable": attainable_width(odds.position(float(out["truth"])), error / (odds.high - odds.low)),
            "profile": float(np.mean(profile)),
            "whole": float(np.mean(np.array(widths) == 1)),
        }
        rows.append(described(setting, name) | known | lengths)
    return rows


def interval_width(odds: Odds, kernel: Kernel, n: int, counts: np.ndarray) -> float:
    low, high = Inversion(odds, Sampling(kernel, n, odds.sums), counts / n).limits(TAIL)
    return high - low


def attainable_width(position: float, error: float) -> float:
    """Mean width of estimate ± z errors, cut to 0..1, of an estimate that is normal around the position."""
    noise = np.linspace(-6, 6, 1201)
    weights = np.exp(-(noise**2) / 2)
    low, high = (np.clip(position + error * (noise + side * Z), 0.0, 1.0) for side in (-1, 1))
    return float(weights @ (high - low) / weights.sum())


def profile_width(kernel: Kernel, counts: np.ndarray, outcomes: int) -> float:
    """Of all shares at which twice the likelihood ratio, maximised over tables without negative cells, is at most z².

    The likeliest table with a share v in the group is the likeliest mixture of records outside and of pairs of a hit, with
    chance v, and a miss.
    """
    matrix, n, shares = kernel.matrix(), int(counts.sum()), np.linspace(0.0, 1.0, GRID)
    mixed = np.stack([np.vstack([v * matrix[:1] + (1 - v) * matrix[1:outcomes], matrix[outcomes:]]) for v in shares])
    seen = np.tile(counts / n, (GRID, 1))

    def likelihoods(components: np.ndarray) -> np.ndarray:
        even = np.full((GRID, components.shape[1]), 1 / components.shape[1])
        weights = likeliest_weights(seen, components, even, 1e-10)[0]
        return (counts * np.log(np.maximum((weights[:, None] @ components)[:, 0], 1e-300))).sum(axis=1)

    held = 2 * (likelihoods(matrix[None])[0] - likelihoods(mixed)) <= Z**2
    return float(held.mean())


def groups_page(rows: list[dict[str, object]]) -> str:
    numbers = {k: np.array([r[k] for r in rows]) for k in ("covered", "error", "width", "attainable", "profile")}
    cover, wide = numbers["covered"], numbers["width"] / numbers["attainable"]
    lines = [
        "# Coverage and width of 95 % intervals in small groups",
        f"Made by `benchmarks/measures_coverage.py`: {RUNS // PART} data sets for each of {len(rows)} settings. Errors "
        'and widths are shares of the range; "attainable" is the mean width of an interval of the Cramér–Rao error, cut to '
        'the range, "profile" that of the profile likelihood by its χ² law, and "whole" the share of intervals that are '
        "the whole range.",
    ]
    for said, chosen_ in (
        ("at most a third", numbers["error"] <= HIDDEN),
        ("more than a third", numbers["error"] > HIDDEN),
    ):
        held, ratio = cover[chosen_], wide[chosen_]
        lines.append(
            f"Where the attainable error is {said} of the range ({held.size} settings): coverage {held.mean():.1%} on "
            "average, "
            f"{held.min():.1%} to {held.max():.1%}, below 93 % in {np.sum(held < LEAST)}; widths "
            f"{np.median(ratio):.2f} times "
            f"the attainable one in the median, {ratio.max():.2f} at most; covered in more than {OFTEN:.1%} with a "
            "width of "
            f"more than {WIDER:g} times it in {np.sum((held > OFTEN) & (ratio > WIDER))}."
        )
    against = numbers["width"] / numbers["profile"]
    lines += [
        f"Against the profile likelihood: {np.nanmedian(against):.2f} in the median, {np.nanmax(against):.2f} at most."
    ]
    return "\n\n".join([*lines, markdown(rows, three_decimals)])


# Settings, half of the data sets of each, and tables whose widths are compared.
SPARSE, FEWER, TABLES = 60, 2, 200
# What statsmodels calls these comparisons.
COMPARED = {"row-proportions": "", "risk-difference": "diff", "risk-ratio": "ratio", "odds-ratio": "odds-ratio"}
NOISE = (25.0, 6.0, 3.0, 1.5, 0.8)


def sparse(rng: np.random.Generator) -> Iterator[Setting]:
    """Groups of 6 to 100,000 people beside a larger one, an outcome in two categories, and noise from none to strong."""
    for k in range(SPARSE):
        group, times = float(np.exp(rng.uniform(log(6), log(100_000)))), float(rng.uniform(1, 20))
        shares = rng.uniform(0.05, 0.95, 2)
        people = np.array([times, 1]) / (1 + times)
        table = people[:, None] * np.stack([1 - shares, shares], axis=1)
        yield Setting(f"group of {group:.0f}", table, "kronecker", NOISE[k % len(NOISE)], round(group * (1 + times)))


def in_sparse_groups(setting: Setting, place: int) -> list[dict[str, object]]:
    """The share in the group, and the measures that compare it with the other one."""
    mechanism, rng = setting.mechanism(), np.random.default_rng(place)
    kernel, domain = mechanism.kernel(setting.names), mechanism.domain.subset(setting.names)
    draws = rng.multinomial(setting.n, kernel.expected(setting.table).ravel(), size=RUNS // FEWER)
    out = []
    for name in COMPARED:
        *_, (_, odds) = asked(domain, name, Comparing())
        row = {"table": setting.name, "ε": setting.epsilon, "n": setting.n, "runs": len(draws), "measure": name}
        out.append(row | covered(odds, kernel, setting, draws))
    return out


def widths(place: int) -> dict[str, object]:
    """Widths without noise over those of statsmodels, the nearer one where it has two; of ratios on a logarithmic scale."""
    rng, domain = np.random.default_rng(place), Domain.of({"group": 2, "outcome": 2})
    kernel = design(domain, [NOISE[0]] * 2, method="kronecker").mechanism.kernel(domain.names)
    people = np.exp(rng.uniform(np.log(6), np.log(1000), 2)).astype(int)
    # limits of statsmodels break down where a cell is empty
    hits = np.clip(rng.binomial(people, rng.uniform(0.05, 0.95, 2)), 1, people - 1)
    table = np.array([[people[0] - hits[0], hits[0]], [people[1] - hits[1], hits[1]]])
    out: dict[str, object] = {"table": str(table.tolist())}
    for name, compare in COMPARED.items():
        *_, (_, odds) = asked(domain, name, Comparing())
        limits = Inversion.of(odds, Sampling(kernel, int(table.sum())), table.ravel() / table.sum()).limits(TAIL)
        known = [proportion_confint(hits[1], people[1], method="wilson")] if not compare else []
        for method in {"": (), "diff": ("score", "newcomb")}.get(compare, ("score",)):
            try:
                known.append(
                    confint_proportions_2indep(hits[1], people[1], hits[0], people[0], method=method, compare=compare)
                )
            except ValueError:  # a search of statsmodels meets a NaN
                continue
        scale = np.log if "ratio" in name else np.asarray
        ratios = [np.ptp(scale([odds.shown(v) for v in limits])) / np.ptp(scale(each)) for each in known]
        out[name] = min(ratios, key=lambda r: abs(log(r)), default=float("nan"))
    return out


def sparse_page(rows: list[dict[str, object]], wide: list[dict[str, object]]) -> str:
    cover = np.array([r["covered"] for r in rows])
    said = []
    for name in list(wide[0])[1:]:
        ratios = np.array([r[name] for r in wide])
        said.append(
            f"{name} {np.nanmin(ratios):.2f}–{np.nanmax(ratios):.2f}, median {np.nanmedian(ratios):.3f} "
            f"({np.isfinite(ratios).sum()} tables)"
        )
    by_noise = [
        {"ε": e, "settings": int(own.size), "average": own.mean(), "least": own.min(), "most": own.max()}
        for e in NOISE
        for own in [np.array([r["covered"] for r in rows if r["ε"] == e])]
    ]
    lines = [
        "# Coverage of 95 % intervals in groups of 6 to 100,000, and their widths without noise",
        f"Made by `benchmarks/measures_coverage.py`: {rows[0]['runs']} data sets for each of {SPARSE} settings and "
        "four "
        f"measures. Coverage {cover.mean():.1%} on average, {cover.min():.1%} to {cover.max():.1%}; below 91.5 % in "
        f"{np.sum(cover < 0.915)} of {cover.size}. ε = {NOISE[0]:g} is next to no noise.",
        markdown(by_noise, three_decimals),
        f"Widths without noise over those of Wilson, Miettinen and Nurminen or Newcombe, {len(wide)} random tables: "
        f"{'; '.join(said)}.",
        markdown(rows, three_decimals),
    ]
    return "\n\n".join(lines)


def main() -> None:
    settings, small = [*chosen(), *drawn(np.random.default_rng(2))], list(grouped(np.random.default_rng(SEED)))
    rows = measure_all(measured, settings, range(len(settings)))
    write("measures_coverage", rows, page(rows))
    rows = measure_all(in_groups, small, range(len(small)))
    write("measures_groups", rows, groups_page(rows))
    rare = list(sparse(np.random.default_rng(SEED)))
    rows = measure_all(in_sparse_groups, rare, range(len(rare)))
    write("measures_sparse", rows, sparse_page(rows, [widths(place) for place in range(TABLES)]))


if __name__ == "__main__":
    main()
