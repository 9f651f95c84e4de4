"""Coverage of intervals of averages and changes over waves, for random longitudinal designs and panels.

A setting: one to three attributes of two to five categories, ε_i of one report 0.3..2, ε_∞ 1.2 to 3 times one report's,
100 to 3000 people, 2 to 10 rounds, shares from a Dirichlet law of parameter 0.2..2 (many cells nearly
empty), and a share of 0, 0.1 or 0.5 of the people drawing a new record half-way, with a new permanent answer. In a third of
the settings with equal rounds a tenth of the reports of every round is missing. Unequal rounds have 20 to 2000 people, ε_i up
to 6 and shares from a Dirichlet law of parameter 0.05..1. Of each setting, RUNS panels of people drawn at random; intervals at
95 %. A setting with a cell that is covered below LEAST is measured again with MORE_RUNS new panels, and only these count then.

Shown: coverage over all cells of each setting, its mean, quantiles and the least, and the least of single cells, for averages
and for changes; and the largest mean error over its standard error, which for unbiased estimates behaves like the largest of
as many normal numbers as there are cells. Takes an hour. Writes longitudinal_coverage.csv and .md.
"""

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from writing import measure_all, write_csv, write_text

from optrr import Constraints
from optrr import design as one_report_design
from optrr.longitudinal import LongitudinalDesign, Panel, longitudinal
from optrr.longitudinal.panel import ABSENT

SEED = 12
SETTINGS, RUNS, MORE_RUNS = 80, 1000, 10_000
CONFIDENCE, LEAST = 0.95, 0.93
# Expected numbers of a cell's people in the smallest round that coverage is shown by.
EXPECTED = (0.0, 1.0, 5.0, 20.0, np.inf)


@dataclass(frozen=True, eq=False)
class Setting:
    """A design and a panel: shares of cells in the first and in the second half of the rounds, flat.

    ``sizes`` are the people of each round where rounds are unequal; ``apart``: nobody is in two of them.
    """

    design: LongitudinalDesign
    people: int
    rounds: int
    shares: np.ndarray
    moving: float
    missing: float
    sizes: tuple[int, ...] = ()
    apart: bool = False

    @property
    def later(self) -> np.ndarray:
        """People who move draw from the shares in reverse order."""
        return (1 - self.moving) * self.shares + self.moving * self.shares[::-1]


def log_uniform(rng: np.random.Generator, low: float, high: float, size: int | None = None) -> Any:
    return np.exp(rng.uniform(np.log(low), np.log(high), size))


def setting(number: int) -> Setting:
    """Settings of even and of odd pairs of numbers have equal and unequal rounds."""
    unequal = number % 4 > 1
    rng = np.random.default_rng([11, number])
    sizes = rng.integers(2, 6, int(rng.integers(1, 4)))
    domain = {f"a{i}": int(r) for i, r in enumerate(sizes)}
    asked = log_uniform(rng, 0.3, 6 if unequal else 2, sizes.size)
    forever = one_report_design(domain, asked, constraints=Constraints(preserve="pairs")).epsilon * rng.uniform(1.2, 3)
    made = longitudinal(domain, asked, forever, preserve="pairs")
    concentration = log_uniform(rng, *((0.05, 1) if unequal else (0.2, 2)))
    shares = rng.dirichlet(np.full(int(np.prod(sizes)), concentration))
    moving = float(rng.choice([0, 0.1, 0.5]))
    if unequal:
        counts = tuple(int(n) for n in np.rint(log_uniform(rng, 20, 2000, int(rng.integers(2, 7)))))
        apart = bool(rng.random() < 0.5)
        return Setting(made, sum(counts) if apart else max(counts), len(counts), shares, moving, 0.0, counts, apart)
    people = round(float(log_uniform(rng, 100, 3000)))
    return Setting(made, people, int(rng.integers(2, 11)), shares, moving, 0.1 if number % 3 == 0 else 0.0)


def present(s: Setting, rng: np.random.Generator) -> np.ndarray:
    """Who reports in which round, (people, rounds)."""
    if not s.sizes:
        there = round((1 - s.missing) * s.people)
        return np.stack([rng.permutation(s.people) < there for _ in range(s.rounds)], axis=1)
    if s.apart:
        return np.repeat(np.eye(s.rounds, dtype=bool), s.sizes, axis=0)
    return np.stack([rng.permutation(s.people) < n for n in s.sizes], axis=1)


def panel(s: Setting, rng: np.random.Generator) -> Panel:
    """One panel on the table of the first two attributes, or the only one."""
    shape = tuple(s.design.domain.sizes.tolist())
    first = rng.choice(s.shares.size, s.people, p=s.shares)
    moved = rng.random(s.people) < s.moving
    last = np.where(moved, rng.choice(s.shares.size, s.people, p=s.shares[::-1]), first)
    codes = [np.stack(np.unravel_index(c, shape), axis=1) for c in (first, last)]
    answers = s.design.permanent.randomize_codes(codes[0], rng)
    changed = (codes[0] != codes[1]).any(axis=1)
    after = np.where(changed[:, None], s.design.permanent.randomize_codes(codes[1], rng), answers)
    cells = np.empty((s.people, s.rounds), dtype=np.int64)
    for t in range(s.rounds):
        report = s.design.instantaneous.randomize_codes(answers if t < s.rounds // 2 else after, rng)
        cells[:, t] = np.ravel_multi_index(tuple(report[:, :2].T), shape[:2])
    cells[~present(s, rng)] = ABSENT
    names = s.design.domain.names[:2]
    return Panel(s.design.domain.subset(names), s.design.mechanism, cells[(cells != ABSENT).any(axis=1)])


def measured(number: int) -> tuple[dict, dict[str, np.ndarray]]:
    """A row of the table, and every cell's coverage and expected number of people in the smallest round."""
    first = once(number, RUNS, np.random.default_rng([SEED, number]))
    if min(first[0]["average least cell"], first[0]["change least cell"]) >= LEAST:
        return first
    return once(number, MORE_RUNS, np.random.default_rng([SEED + 1, number]))


def once(number: int, runs: int, rng: np.random.Generator) -> tuple[dict, dict[str, np.ndarray]]:
    """The same from so many panels."""
    s = setting(number)
    shape = tuple(s.design.domain.sizes.tolist())
    before, after = (x.reshape(shape).sum(axis=tuple(range(2, len(shape)))).ravel() for x in (s.shares, s.later))
    weight = (s.rounds // 2) / s.rounds
    targets = {"average": weight * before + (1 - weight) * after, "change": after - before}
    inside = {what: np.zeros(before.size) for what in targets}
    misses: dict[str, list[np.ndarray]] = {what: [] for what in targets}
    for _ in range(runs):
        made = panel(s, rng)
        for result in (made.average(CONFIDENCE), made.change(confidence=CONFIDENCE)):
            lower, upper, target = result.lower.ravel(), result.upper.ravel(), targets[result.what]
            inside[result.what] += ((lower <= target) & (target <= upper)) / runs
            misses[result.what].append(result.estimate.ravel() - target)
    errors = {what: np.stack(m) for what, m in misses.items()}
    biases = {what: np.abs(e.mean(axis=0) / (e.std(axis=0) / np.sqrt(runs))).max() for what, e in errors.items()}
    row = {
        "setting": number,
        "sizes": " ".join(map(str, shape)),
        "people": s.people,
        "rounds": s.rounds,
        "each": " ".join(map(str, s.sizes)),
        "apart": s.apart,
        "epsilons": " ".join(f"{e:.2f}" for e in s.design.mechanism.attribute_epsilons),
        "moving": s.moving,
        "missing": s.missing,
        "panels": runs,
        "cells": before.size,
        **{f"{what} coverage": round(float(inside[what].mean()), 4) for what in targets},
        **{f"{what} least cell": round(float(inside[what].min()), 4) for what in targets},
        **{f"{what} bias": round(float(biases[what]), 2) for what in targets},
    }
    return row, {**inside, "expected": min(s.sizes or (s.people,)) * np.minimum(before, after)}


def page(rows: list[dict], cells: list[dict[str, np.ndarray]]) -> str:
    again = [r for r in rows if r["panels"] != RUNS]
    known = {what: np.concatenate([c[what] for c in cells]) for what in ("average", "change", "expected")}
    below = {what: int(np.sum(known[what] < LEAST)) for what in ("average", "change")}
    lines = [
        "# Averages and changes over rounds: coverage",
        "",
        f"Made by `benchmarks/longitudinal_coverage.py`: {len(rows)} random designs and panels, {RUNS} draws of each; "
        f"intervals at 95 %. {MORE_RUNS} new ones of {len(again)} settings in which a cell was below {LEAST:.0%} at "
        "first.",
        "",
        f"Of {known['average'].size} cells, averages are covered below {LEAST:.0%} in {below['average']} (least "
        f"{known['average'].min():.1%}, mean {known['average'].mean():.1%}), changes in {below['change']} (least "
        f"{known['change'].min():.1%}, mean {known['change'].mean():.1%}).",
        "",
        "| all cells of a setting | mean | 10 % of settings below | least | most | largest mean error, in standard "
        "errors |",
        "|---|---|---|---|---|---|",
    ]
    for what, kind in product(("average", "change"), ("equal", "unequal")):
        mine = [r for r in rows if bool(r["each"]) == (kind == "unequal")]
        share = np.array([r[f"{what} coverage"] for r in mine])
        bias, size = max(r[f"{what} bias"] for r in mine), sum(r["cells"] for r in mine)
        spread = f"{share.mean():.3f} | {np.quantile(share, 0.1):.3f} | {share.min():.3f} | {share.max():.3f}"
        lines.append(f"| {what}, {kind} rounds | {spread} | {bias:.2f} of {size} cells |")
    lines += [
        "",
        "By how many people the smallest round has in a cell, expected. Few reports come in whole numbers, so that an "
        "interval "
        "that is never covered too seldom is covered more often there:",
        "",
        "| people | cells | average | least | change | least |",
        "|---|---|---|---|---|---|",
    ]
    for low, high in pairwise(EXPECTED):
        of = (known["expected"] >= low) & (known["expected"] < high)
        if not of.any():
            continue
        shown = (f"{known[what][of].mean():.3f} | {known[what][of].min():.3f}" for what in ("average", "change"))
        lines.append(f"| {low:g} to {high:g} | {of.sum()} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    both = measure_all(measured, range(SETTINGS))
    rows = [row for row, _ in both]
    write_csv("longitudinal_coverage.csv", rows, 6)
    write_text("longitudinal_coverage.md", page(rows, [each for _, each in both]))


if __name__ == "__main__":
    main()
