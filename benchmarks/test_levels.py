"""Type I error, at nominal 5 % and 0.1 %, of every test that `optrr test` offers.

Takes six minutes. 60 settings, more than half of them drawn at random: tables of 2 × 2 to 4 × 3 with absent and rare
categories, 300 to 100,000 records, ε_i of 0.5 to 6, randomized by independent randomized response, the optimum and the
optimum that keeps pairs; groups of unequal sizes for homogeneity. 20,000 data sets each: standard errors of 0.15 % and
0.02 %.

Among some 400 rows, a few leave the limits by chance: at a true 0.1 %, 1 row in 200 counts fewer than 10 data sets of 20,000.
A row outside the limits, or below the limits and exact, is measured once more with 200,000 new data sets, and only these
figures count then; the column of runs says where.

p-values come from the code that `optrr test` runs, for many tables at once. Its simulations stop after 100 statistics that
reached the observed one, here after 1, of 999 at most: where their law is known exactly that leaves the level what it is
(Besag & Clifford 1991).

Every row has a verdict. Within: 4–6 % and 0.05–0.2 %. Exact: rejects less for the steps of sparse tables.
Stated: outside, and the result states what was measured. Refused.
Writes results/test_levels.csv and .md.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from writing import markdown, three_decimals, write

from optrr import Constraints, InvalidInput, design
from optrr.core.inference.associations import association
from optrr.core.inference.groups import goodness_tests, homogeneity_tests
from optrr.core.inference.simulation import Simulation
from optrr.core.inference.testing import SPARSE
from optrr.core.mechanisms.kernel import Kernel

SEED = 7
RUNS = 20_000
# Runs of a row that was not within the limits: with so many, a true 0.1 % stays within them but once in 10^12.
MORE_RUNS = 200_000
RULE = Simulation(hits=1, most=999)
MECHANISMS = {
    "kronecker": {"method": "kronecker"},
    "optimum": {},
    "pairs": {"constraints": Constraints(preserve="pairs")},
}
SHAPES = ((2, 2), (3, 2), (3, 3), (4, 3))
WITHIN_5, WITHIN_01 = (0.04, 0.06), (0.0005, 0.002)
ASSOCIATIONS = ("independence", "trend", "likelihood-ratio")
# Of three categories beside two there is one more.
GENOTYPES = ("independence", "trend", "genotypic", "likelihood-ratio")


@dataclass(frozen=True)
class Setting:
    """Margins of independent attributes, what randomizes them, and how many records; ``groups``: shares of n."""

    mechanism: str
    epsilons: tuple[float, float]
    n: int
    rows: tuple[float, ...]
    columns: tuple[float, ...]
    groups: tuple[float, ...]

    def kernel(self, names: tuple[str, ...]) -> Kernel:
        """Of two of three attributes, or of one."""
        domain = {"a": len(self.rows), "b": len(self.columns), "c": 3}
        return design(domain, [*self.epsilons, 2.0], **MECHANISMS[self.mechanism]).mechanism.kernel(names)


def named_settings() -> Iterator[Setting]:
    """Two categories that are common, rare or absent beside a rare or common one, from few records to many."""
    margins = {"common": (0.55, 0.35, 0.10), "rare": (0.70, 0.29, 0.01), "absent": (0.65, 0.35, 0.0)}
    kinds = [(rows, n, epsilon) for epsilon in (1.0, 4.0) for rows in margins for n in (300, 3000, 20_000)]
    kinds += [(rows, n, 6.0) for rows in ("rare", "absent") for n in (300, 3000)]
    for i, (rows, n, epsilon) in enumerate(kinds):
        columns = ((0.7, 0.3), (0.97, 0.03))[i % 2]
        groups = ((0.5, 0.5), (0.9, 0.1), (0.6, 0.3, 0.1))[i % 3]
        yield Setting(list(MECHANISMS)[i % 3], (epsilon, epsilon), n, margins[rows], columns, groups)


def random_settings(count: int) -> Iterator[Setting]:
    """Margins from a Dirichlet law that favours rare categories, one of them absent in a third of the settings."""
    rng = np.random.default_rng(2026)
    for _ in range(count):
        shape = SHAPES[rng.choice(len(SHAPES), p=[0.3, 0.4, 0.2, 0.1])]
        rows, columns = (rng.dirichlet(np.full(r, 0.7)) for r in shape)
        if rng.random() < 1 / 3:
            rows[np.argmin(rows)] = 0
        groups = rng.dirichlet(np.full(rng.integers(2, 4), 2.0))
        yield Setting(
            str(rng.choice(list(MECHANISMS))),
            tuple(np.round(rng.uniform(0.5, 6, 2), 2).tolist()),
            int(np.round(np.exp(rng.uniform(np.log(300), np.log(20_000))))),
            tuple((rows / rows.sum()).tolist()),
            tuple(columns.tolist()),
            tuple(groups.tolist()),
        )


def absent_settings(count: int) -> Iterator[Setting]:
    """Categories that nobody or nearly nobody has, in one attribute or both, in tables of many records."""
    rng = np.random.default_rng(2027)
    for k in range(count):
        shape = (SHAPES[0], SHAPES[1], SHAPES[1], SHAPES[2], SHAPES[3])[k % 5]
        faint = (0.0, 1e-4, 1e-3)[k % 3]
        rows, columns = (rng.dirichlet(np.full(r, 2.0)) for r in shape)
        # with two categories, neither can be absent, because nothing would be left to test
        rows[np.argmin(rows)] = faint if shape[0] > len(SHAPES[0]) else max(faint, 1e-4)
        if k % 2 and (shape[1] > len(SHAPES[0]) or faint > 0):
            columns[np.argmin(columns)] = faint
        groups = rng.dirichlet(np.full(rng.integers(2, 4), 2.0))
        yield Setting(
            list(MECHANISMS)[k // 2 % 3],
            tuple(np.round(rng.uniform(0.5, 6, 2), 2).tolist()),
            (20_000, 100_000)[k // 6 % 2],
            tuple((rows / rows.sum()).tolist()),
            tuple((columns / columns.sum()).tolist()),
            tuple(groups.tolist()),
        )


def association_row(setting: Setting, name: str, rng: np.random.Generator, runs: int) -> dict[str, object]:
    kernel = setting.kernel(("a", "b"))
    try:
        kernel.check_invertible()
        chosen = association(kernel, name)
    except InvalidInput:
        return {"verdict": "refused"}
    law = kernel.expected(np.outer(setting.rows, setting.columns)).ravel()
    tables = rng.multinomial(setting.n, law / law.sum(), size=runs).reshape(runs, *kernel.sizes).astype(np.float64)
    out, n = [], np.full(runs, float(setting.n))
    fewest, clear = np.empty(runs), np.empty(runs, dtype=bool)
    for at, form in chosen.forms(tables):
        tests = form.tested(tables[at])
        out.append(form.calibrated(tables[at], tests, rng, RULE))
        fewest[at], clear[at] = form.fewest(tests.fit, n[at]), form.clear(tests.fit, n[at])
    p, drawn = (np.concatenate([getattr(o, k) for o in out]) for k in ("p_value", "simulated"))
    return judged(p, float(drawn.mean()), False, bool(np.median(fewest) < SPARSE or not np.median(clear)))


def goodness_row(setting: Setting, _: str, rng: np.random.Generator, runs: int) -> dict[str, object]:
    kernel = setting.kernel(("a", "b"))
    if not kernel.is_invertible:
        return {"verdict": "refused"}
    law = kernel.expected(np.outer(setting.rows, setting.columns)).ravel()
    tables = rng.multinomial(setting.n, law / law.sum(), size=runs).astype(np.float64)
    tested = goodness_tests(tables, law / law.sum(), rng, RULE)
    return judged(tested.p_value, tested.simulated.mean(), True, False)


def homogeneity_row(setting: Setting, _: str, rng: np.random.Generator, runs: int) -> dict[str, object]:
    law = setting.kernel(("a",)).expected(np.asarray(setting.rows))
    sizes = np.maximum(1, np.round(setting.n * np.asarray(setting.groups)).astype(int))
    tested = homogeneity_tests(np.stack([rng.multinomial(k, law, size=runs) for k in sizes], axis=1), rng, RULE)
    return judged(tested.p_value, tested.simulated.mean(), True, False)


def judged(p: np.ndarray, share: float, exact: bool, stated: bool) -> dict[str, object]:
    five, tenth = float(np.mean(p <= 0.05)), float(np.mean(p <= 0.001))
    verdict = "outside"
    if WITHIN_5[0] <= five <= WITHIN_5[1] and WITHIN_01[0] <= tenth <= WITHIN_01[1]:
        verdict = "within"
    elif exact and share > 0 and five <= WITHIN_5[1] and tenth <= WITHIN_01[1]:
        verdict = "exact"
    elif stated and share > 0:
        verdict = "stated"
    return {"simulated": float(share), "at_5_percent": five, "at_0.1_percent": tenth, "verdict": verdict}


def measured() -> Iterator[dict[str, object]]:
    first, second = np.random.default_rng(SEED), np.random.default_rng(10 * SEED)
    for i, setting in enumerate([*named_settings(), *random_settings(22), *absent_settings(16)]):
        described = {
            "setting": i + 1,
            "mechanism": setting.mechanism,
            "epsilons": "{:g}, {:g}".format(*setting.epsilons),
            "n": setting.n,
            "rows": ", ".join(f"{x:.4g}" for x in setting.rows),
            "columns": ", ".join(f"{x:.4g}" for x in setting.columns),
        }
        names = GENOTYPES if (len(setting.rows), len(setting.columns)) == (3, 2) else ASSOCIATIONS
        groups = ":".join(f"{x:.2f}" for x in setting.groups)
        tests = [(name, association_row) for name in names]
        tests += [("goodness-of-fit", goodness_row), (f"homogeneity {groups}", homogeneity_row)]
        for name, row in tests:
            runs, result = RUNS, row(setting, name, first, RUNS)
            if result["verdict"] in ("outside", "exact"):
                runs, result = MORE_RUNS, row(setting, name, second, MORE_RUNS)
            yield finished(described | {"test": name, "runs": runs} | result)


def finished(row: dict[str, object]) -> dict[str, object]:
    """The row with every column in its place: nothing is measured where a test is refused."""
    verdict = row.pop("verdict")
    return {"simulated": "", "at_5_percent": "", "at_0.1_percent": ""} | row | {"verdict": verdict}


def summary(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    out = []
    for name in dict.fromkeys(str(r["test"]).split(" ")[0].rstrip(",") for r in rows):
        own = [r for r in rows if str(r["test"]).split(" ")[0].rstrip(",") == name]
        tested = [r for r in own if r["verdict"] != "refused"]
        five, tenth = ([float(r[k]) for r in tested] for k in ("at_5_percent", "at_0.1_percent"))
        out.append(
            {
                "test": str(own[0]["test"]) if "homogeneity" not in name else name,
                "settings": len(own),
                **{v: sum(r["verdict"] == v for r in own) for v in ("within", "exact", "stated", "refused", "outside")},
                "at 5 %": f"{min(five):.3f}–{max(five):.3f}",
                "at 0.1 %": f"{min(tenth):.5f}–{max(tenth):.5f}",
            }
        )
    return out


def main() -> None:
    rows = list(measured())
    write(
        "test_levels",
        rows,
        "# Type I error of every test at nominal 5 % and 0.1 %",
        f"{RUNS} data sets in each of {rows[-1]['setting']} settings, and {MORE_RUNS} new ones for each of the "
        f"{sum(r['runs'] == MORE_RUNS for r in rows)} rows that were outside, or exact and below, at first. "
        "Within: 4–6 % and 0.05–0.2 %. Exact: below that for the steps of sparse tables. "
        "Stated: the result says what was measured in tables as sparse. Refused: the "
        "mechanism hides the association.",
        markdown(summary(rows), three_decimals),
        "## All settings",
        markdown(rows, three_decimals),
    )


if __name__ == "__main__":
    main()
