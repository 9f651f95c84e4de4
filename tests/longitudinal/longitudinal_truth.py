"""The truth about T reports of one person, by listing every sequence of them: rationals, and no formula of the package."""

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, islice

import mpmath as mp
import numpy as np

from optrr.core.mechanisms.mechanism import Mechanism
from optrr.longitudinal import LongitudinalDesign, WholeOrUniform
from tests import naive

# Multisets that are looked at in doubles at once.
PIECE = 1 << 14
# Products and sums of doubles are off by far less than this, relative: the worst in rationals is among the nearly worst here.
NEAR = 1e-9


def stage_matrix(stage: Mechanism | WholeOrUniform) -> list[list[Fraction]]:
    """Pr(output | input) of one stage as it is drawn, over all records."""
    sizes = stage.domain.sizes.tolist()
    records = naive.outputs(sizes)
    if isinstance(stage, WholeOrUniform):
        kept = Fraction(stage.threshold, 1 << 64)
        return [[(1 - kept) / len(records) + kept * (u == v) for v in records] for u in records]
    nu = naive.drawn_probabilities(stage.law.automaton.layers)

    def entry(u: tuple[int, ...], v: tuple[int, ...]) -> Fraction:
        changed = tuple(int(a != b) for a, b in zip(u, v, strict=True))
        return nu[changed] / math.prod(r - 1 for r, c in zip(sizes, changed, strict=True) if c)

    return [[entry(u, v) for v in records] for u in records]


def spent(design: LongitudinalDesign, reports: int) -> tuple[mp.mpf, list[mp.mpf]]:
    """Total ε of so many reports, and the conditional ε of every attribute: the largest |ln| over all multisets of reports."""
    permanent, second = stage_matrix(design.permanent), stage_matrix(design.instantaneous)
    records = naive.outputs(design.domain.sizes.tolist())
    pairs = [
        (None, [(u, v) for u in range(len(records)) for v in range(len(records))]),
        *(
            (i, [(u, v) for u, a in enumerate(records) for v, b in enumerate(records) if _differ(a, b) == [i]])
            for i in range(design.domain.m)
        ),
    ]
    worst = [Fraction(1)] * len(pairs)
    for chosen in _candidates(permanent, second, [p for _, p in pairs], reports):
        chances = _chances(permanent, second, chosen)
        for k, (_, some) in enumerate(pairs):
            worst[k] = max(worst[k], *(chances[u] / chances[v] for u, v in some))
    logs = [naive.log_of(w) for w in worst]
    return logs[0], logs[1:]


def _differ(a: tuple[int, ...], b: tuple[int, ...]) -> list[int]:
    return [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]


def _chances(permanent: list[list[Fraction]], second: list[list[Fraction]], chosen: tuple[int, ...]) -> list[Fraction]:
    """Pr(these reports | record) for every record."""
    likelihood = [math.prod(row[z] for z in chosen) for row in second]
    return [sum(p * x for p, x in zip(row, likelihood, strict=True)) for row in permanent]


def _candidates(
    permanent: list[list[Fraction]], second: list[list[Fraction]], pairs: list[list[tuple[int, int]]], reports: int
) -> Iterator[tuple[int, ...]]:
    """All multisets of reports that doubles do not tell from the worst, for every set of pairs of records."""
    p, i = (np.array([[float(x) for x in row] for row in m]) for m in (permanent, second))
    every = combinations_with_replacement(range(len(p)), reports)
    pieces = []
    while piece := list(islice(every, PIECE)):
        likelihood = np.prod(i[:, np.array(piece, dtype=np.int64)], axis=2)
        chances = p @ likelihood
        pieces.append(np.array([_worst(chances, some) for some in pairs]))
    ratios = np.concatenate(pieces, axis=1)
    near = np.flatnonzero((ratios >= ratios.max(axis=1, keepdims=True) * (1 - NEAR)).any(axis=0))
    # of many equally bad ones, by symmetry, some are enough where all are as bad in doubles
    wanted = set(near[np.unique(np.round(ratios[:, near], 12), axis=1, return_index=True)[1]].tolist())
    for k, chosen in enumerate(combinations_with_replacement(range(len(p)), reports)):
        if k in wanted:
            yield chosen


def _worst(chances: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    out = np.ones(chances.shape[1])
    for u, v in pairs:
        np.maximum(out, chances[u] / chances[v], out=out)
    return out
