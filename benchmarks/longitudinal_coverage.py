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
from pathlib import Path

import numpy as np

from optrr import design as one_report_design
from optrr.longitudinal import LongitudinalDesign, Panel, Stages, longitudinal
from optrr.longitudinal.panel import ABSENT

RESULTS = Path(__file__).parent / "results"
SETTINGS, RUNS = 80, 400


@dataclass(frozen=True, eq=False)
class Setting:
    """A design and a panel: shares of cells in the first and in the second half of the rounds, flat."""

    design: LongitudinalDesign
    people: int
    rounds: int
    shares: np.ndarray
    moving: float
    missing: float

    @property
    def later(self) -> np.ndarray:
        """People who move draw from the shares in reverse order."""
        return (1 - self.moving) * self.shares + self.moving * self.shares[::-1]


def setting(number: int) -> Setting:
    rng = np.random.default_rng([11, number])
    sizes = rng.integers(2, 6, int(rng.integers(1, 4)))
    domain = {f"a{i}": int(r) for i, r in enumerate(sizes)}
    asked = np.exp(rng.uniform(np.log(0.3), np.log(2), sizes.size))
    second = ("whole", "kronecker")[number % 2]
    forever = one_report_design(domain, asked, preserve="pairs").epsilon * rng.uniform(1.2, 3)
    made = longitudinal(domain, asked, forever, stages=Stages(second, preserve="pairs"))
    shares = rng.dirichlet(np.full(int(np.prod(sizes)), np.exp(rng.uniform(np.log(0.2), np.log(2)))))
    people = round(float(np.exp(rng.uniform(np.log(100), np.log(3000)))))
    missing = 0.1 if number % 3 == 0 else 0.0
    return Setting(made, people, int(rng.integers(2, 11)), shares, float(rng.choice([0, 0.1, 0.5])), missing)


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
    cells[rng.random(cells.shape) < s.missing] = ABSENT
    names = s.design.domain.names[:2]
    return Panel(s.design.domain.subset(names), s.design.mechanism, cells[(cells != ABSENT).any(axis=1)])


def measured(number: int, runs: int) -> dict:
    s = setting(number)
    rng = np.random.default_rng([12, number])
    shape = tuple(s.design.domain.sizes.tolist())
    before, after = (x.reshape(shape).sum(axis=tuple(range(2, len(shape)))).ravel() for x in (s.shares, s.later))
    weight = (s.rounds // 2) / s.rounds
    targets = {"average": weight * before + (1 - weight) * after, "change": after - before}
    inside = dict.fromkeys(targets, 0.0)
    misses: dict[str, list[np.ndarray]] = {what: [] for what in targets}
    for _ in range(runs):
        made = panel(s, rng)
        for result in (made.average(), made.change()):
            target = targets[result.what]
            inside[result.what] += ((result.lower.ravel() <= target) & (target <= result.upper.ravel())).mean() / runs
            misses[result.what].append(result.estimate.ravel() - target)
    biases = {
        what: np.abs(np.mean(m, axis=0) / (np.std(m, axis=0) / np.sqrt(runs))).max() for what, m in misses.items()
    }
    return {
        "setting": number,
        "second": s.design.second,
        "sizes": " ".join(map(str, shape)),
        "people": s.people,
        "rounds": s.rounds,
        "moving": s.moving,
        "missing": s.missing,
        "cells": before.size,
        **{f"{what} coverage": round(float(inside[what]), 4) for what in targets},
        **{f"{what} bias": round(float(biases[what]), 2) for what in targets},
    }


def page(rows: list[dict], runs: int) -> str:
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
            mine = [r for r in rows if r["second"] == second]
            known = np.array([r[f"{what} coverage"] for r in mine])
            bias, cells = max(r[f"{what} bias"] for r in mine), sum(r["cells"] for r in mine)
            spread = f"{known.mean():.3f} | {np.quantile(known, 0.1):.3f} | {known.min():.3f} | {known.max():.3f}"
            lines.append(f"| {what}, {second} | {spread} | {bias:.2f} of {cells} cells |")
    return "\n".join(lines) + "\n"


def main(settings: int, runs: int) -> None:
    rows = [measured(number, runs) for number in range(settings)]
    with (RESULTS / "longitudinal_coverage.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (RESULTS / "longitudinal_coverage.md").write_text(page(rows, runs))


if __name__ == "__main__":
    given = [int(x) for x in sys.argv[1:3]]
    main(*(given + [SETTINGS, RUNS][len(given) :]))
