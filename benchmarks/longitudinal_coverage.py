"""How often intervals of averages and changes over rounds cover, over random longitudinal designs and panels.

A setting: one to three attributes of two to five categories, ε_i of one report 0.3..2, ε_∞ 1.2 to 3 times one report's,
either second stage, 100 to 3000 people, 2 to 10 rounds, shares from a Dirichlet law of parameter 0.2..2 (many cells nearly
empty), and a share of 0, 0.1 or 0.5 of the people drawing a new record half-way, with a new permanent answer. In a third of
the settings a tenth of the reports is missing. Of each, RUNS panels of people drawn at random; intervals at 95 %.

Shown: coverage over all cells of each setting, its mean, quantiles and the least, for averages and for changes; and the largest
mean error over its standard error, which for unbiased estimates behaves like the largest of as many normal numbers as there are
cells. Run as ``python benchmarks/longitudinal_coverage.py [SETTINGS] [RUNS]`` (80 and 400 unless told; two minutes). Writes
longitudinal_coverage.csv and .md.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from optrr import design as one_report_design
from optrr.longitudinal import LongitudinalDesign, Panel, Stages, longitudinal
from optrr.longitudinal.panel import ABSENT

RESULTS = Path(__file__).parent / "results"
SETTINGS, RUNS, AGAIN = 80, 16, 120
# Settings drawn again, and expected numbers of a cell's people in the smallest round that coverage is shown by.
WORST = 5
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
    second = ("whole", "kronecker")[number % 2]
    forever = one_report_design(domain, asked, preserve="pairs").epsilon * rng.uniform(1.2, 3)
    made = longitudinal(domain, asked, forever, stages=Stages(second, preserve="pairs"))
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
        return rng.random((s.people, s.rounds)) >= s.missing
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
    answers = s.design.permanent.perturb_codes(codes[0], rng)
    changed = (codes[0] != codes[1]).any(axis=1)
    after = np.where(changed[:, None], s.design.permanent.perturb_codes(codes[1], rng), answers)
    cells = np.empty((s.people, s.rounds), dtype=np.int64)
    for t in range(s.rounds):
        report = s.design.instantaneous.perturb_codes(answers if t < s.rounds // 2 else after, rng)
        cells[:, t] = np.ravel_multi_index(tuple(report[:, :2].T), shape[:2])
    cells[~present(s, rng)] = ABSENT
    names = s.design.domain.names[:2]
    return Panel(s.design.domain.subset(names), s.design.mechanism, cells[(cells != ABSENT).any(axis=1)])


def measured(number: int, runs: int, seed: int = 12) -> tuple[dict, dict[str, np.ndarray]]:
    """A row of the table, and every cell's coverage and expected number of people in the smallest round."""
    s = setting(number)
    rng = np.random.default_rng([seed, number])
    shape = tuple(s.design.domain.sizes.tolist())
    before, after = (x.reshape(shape).sum(axis=tuple(range(2, len(shape)))).ravel() for x in (s.shares, s.later))
    weight = (s.rounds // 2) / s.rounds
    targets = {"average": weight * before + (1 - weight) * after, "change": after - before}
    inside = {what: np.zeros(before.size) for what in targets}
    misses: dict[str, list[np.ndarray]] = {what: [] for what in targets}
    for _ in range(runs):
        made = panel(s, rng)
        for result in (made.average(), made.change()):
            target = targets[result.what]
            inside[result.what] += ((result.lower.ravel() <= target) & (target <= result.upper.ravel())) / runs
            misses[result.what].append(result.estimate.ravel() - target)
    biases = {
        what: np.abs(np.mean(m, axis=0) / (np.std(m, axis=0) / np.sqrt(runs))).max() for what, m in misses.items()
    }
    row = {
        "setting": number,
        "second": s.design.second,
        "sizes": " ".join(map(str, shape)),
        "people": s.people,
        "rounds": s.rounds,
        "each": " ".join(map(str, s.sizes)),
        "apart": s.apart,
        "epsilons": " ".join(f"{e:.2f}" for e in s.design.mechanism.attribute_epsilons),
        "moving": s.moving,
        "missing": s.missing,
        "cells": before.size,
        **{f"{what} coverage": round(float(inside[what].mean()), 4) for what in targets},
        **{f"{what} least cell": round(float(inside[what].min()), 4) for what in targets},
        **{f"{what} bias": round(float(biases[what]), 2) for what in targets},
    }
    return row, {**inside, "expected": min(s.sizes or (s.people,)) * np.minimum(before, after)}


def page(rows: list[dict], cells: list[dict[str, np.ndarray]], again: list[dict], runs: int) -> str:
    lines = [
        "# Averages and changes over rounds: coverage",
        "",
        f"Made by `benchmarks/longitudinal_coverage.py`: {len(rows)} random designs and panels, {runs} draws of each;",
        "intervals at 95 %.",
        "",
        "| | mean | 10 % of settings below | least | most | largest mean error, in its standard errors |",
        "|---|---|---|---|---|---|",
    ]
    for what in ("average", "change"):
        for second in ("whole", "kronecker"):
            for kind in ("equal", "unequal"):
                mine = [r for r in rows if r["second"] == second and bool(r["each"]) == (kind == "unequal")]
                known = np.array([r[f"{what} coverage"] for r in mine])
                bias, size = max(r[f"{what} bias"] for r in mine), sum(r["cells"] for r in mine)
                spread = f"{known.mean():.3f} | {np.quantile(known, 0.1):.3f} | {known.min():.3f} | {known.max():.3f}"
                lines.append(f"| {what}, {second}, {kind} rounds | {spread} | {bias:.2f} of {size} cells |")
    lines += [
        "",
        "By how many people the smallest round has in a cell, expected; few reports come in whole numbers, so that an interval",
        "that is never covered too seldom is covered more often there:",
        "",
        "| people | cells | average | change |",
        "|---|---|---|---|",
    ]
    expected, average, change = (np.concatenate([c[k] for c in cells]) for k in ("expected", "average", "change"))
    for low, high in pairwise(EXPECTED):
        of = (expected >= low) & (expected < high)
        lines.append(f"| {low:g} to {high:g} | {of.sum()} | {average[of].mean():.3f} | {change[of].mean():.3f} |")
    lines += [
        "",
        f"The {len(again)} settings with the cells covered least, drawn again ({AGAIN} panels each):",
        "",
        "| setting | cells | average | its least cell | change | its least cell |",
        "|---|---|---|---|---|---|",
    ]
    for r in again:
        known = " | ".join(
            f"{r[f'{what} {of}']:.3f}" for what in ("average", "change") for of in ("coverage", "least cell")
        )
        lines.append(f"| {r['setting']} | {r['cells']} | {known} |")
    return "\n".join(lines) + "\n"


def main(settings: int, runs: int) -> None:
    both = [measured(number, runs) for number in range(settings)]
    rows, cells = [row for row, _ in both], [each for _, each in both]
    worst = sorted(rows, key=lambda r: min(r["average least cell"], r["change least cell"]))[:WORST]
    again = [measured(r["setting"], AGAIN, seed=13)[0] for r in worst]
    with (RESULTS / "longitudinal_coverage.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (RESULTS / "longitudinal_coverage.md").write_text(page(rows, cells, again, runs))


if __name__ == "__main__":
    given = [int(x) for x in sys.argv[1:3]]
    main(*(given + [SETTINGS, RUNS][len(given) :]))
