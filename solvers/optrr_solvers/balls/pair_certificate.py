"""From real multipliers of rank one to a certificate of whole numbers (design §3.6)."""

import math

import numpy as np

from optrr_solvers.arrays import FloatArray
from optrr_solvers.balls.moments import Classes
from optrr_solvers.balls.pair_ascent import RankOnePoint
from optrr_solvers.certificates.certificate import EFFECT_LIMIT, Certificate
from optrr_solvers.partition import group_numbers
from optrr_solvers.problem import Problem

# Limits of one bound: attributes times pairs of totals (a few seconds), and pairs of totals.
_WORK, _CELLS = 1 << 30, 1 << 22
# Where few attributes change, rounding costs more than its variance suggests, so that finer grids are tried as well; then
# coarser ones until one fits.
_FINER, _COARSER = (1.0, 5.0), 40
# Rounding the multipliers may cost this much, relative to the total.
_COST = 2e-4
# Effects that together move less than this many nats are taken to be absent.
_FAINT = 1e-6


def clique(problem: Problem, classes: Classes) -> FloatArray:
    """Classes, 1 or 0 each, shape (G,), among which every pair is to be kept; grown greedily where not all are."""
    groups = classes.counts.size
    where = group_numbers(classes.members)
    pairs = np.sort(where[np.asarray(problem.pairs)], axis=1)
    named = np.zeros((groups, groups))
    np.add.at(named, (pairs[:, 0], pairs[:, 1]), 1)
    all_of = np.outer(classes.counts, classes.counts)
    all_of[np.diag_indices_from(all_of)] = classes.counts * (classes.counts - 1) / 2
    complete = named + np.triu(named, 1).T >= all_of
    out = np.zeros(groups, dtype=bool)
    for g in np.argsort(-complete.sum(axis=0), kind="stable"):
        if complete[g, g] and np.all(complete[g, out]):
            out[g] = True
    return out.astype(np.float64) if out.sum() > 1 or classes.counts[out].sum() > 1 else np.zeros(groups)


def rounded(problem: Problem, classes: Classes, point: RankOnePoint) -> list[Certificate]:
    """Certificates at whole numbers near (w, a), coarse and fine; none where the effects are too faint to matter."""
    b = point.a / classes.d
    shift = float(classes.counts @ (b * classes.gaps))
    if shift * float(b.max()) < _FAINT:
        return []
    # grid points a nat, so that rounding costs its share of the total where many attributes change
    changed = max(float(classes.counts @ classes.f), 1.0)
    scale = math.sqrt(changed / (12 * _COST * max(point.bound, 1.0)))
    certificates = [_at_scale(problem, classes, point, scale * finer) for finer in _FINER]
    return [x for x in certificates if x is not None]


def _at_scale(problem: Problem, classes: Classes, point: RankOnePoint, scale: float) -> Certificate | None:
    """With ``scale`` grid points a nat, or as many as the work allows."""
    b, r = point.a / classes.d, problem.sizes[[int(c[0]) for c in classes.members]].astype(np.float64)
    shift = float(classes.counts @ (b * classes.gaps))
    m = float(classes.counts.sum())
    for _ in range(_COARSER):
        unit = max(1, round(scale * shift**2))
        effects = np.round(b * math.sqrt(unit * scale))
        least = np.ceil(-(effects**2) * (1 - 2 / r) / (2 * unit) + 1e-9)
        totals = np.maximum(np.round(scale * (point.w - 0.5 * b**2 * (1 - 2 / r))), least)
        cells = (float(classes.counts @ np.abs(totals)) + 1) * (float(classes.counts @ effects) + 1)
        allowed = min(_CELLS, _WORK / m)
        if cells <= allowed:
            break
        scale *= min(0.95, math.sqrt(allowed / cells))
    fits = cells <= allowed and max(float(np.abs(totals).max()), float(unit)) < EFFECT_LIMIT
    if not fits or not effects.any():
        return None
    return Certificate(
        tuple(tuple(c.tolist()) for c in classes.members),
        tuple(int(u) for u in totals), effects=tuple(int(x) for x in effects), unit=unit,
    )  # fmt: skip
