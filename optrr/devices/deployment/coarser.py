"""Mechanisms of one problem on coarser and coarser grids: which are worth writing to a file of at most a stated size.

The grids stand on a ladder that the problem alone settles. A larger size looks at every rung that a smaller one looks at and
at more, so that it never ends at a larger ε. Rungs between two of them are taken only where they do not undercut the next
rung, for the same reason.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from optrr.designs.design import Design
from optrr.devices.deployment.deployment_file import StatedEpsilons
from optrr.devices.deployment.export import compressed_size, plain_automaton, written
from optrr.devices.deployment.short import shortened
from optrr.mechanisms.mechanism import Mechanism
from optrr_solvers.balls.coarse import CoarseBlocks
from optrr_solvers.laws import Law
from optrr_solvers.problem import Problem

__all__ = ["LEAST_BYTES", "MOST_WORK", "Draft", "Progress", "coarser"]

# A state takes at least this many compressed bytes; so a diagram with more states need not be built.
LEAST_BYTES = 6
# ... and usually about this many, by which the finest grid is chosen.
_USUAL_BYTES = 13
# Width of the radius, in units. Narrower ones take far longer, and save less than one rung does.
_RATIO = 0.25
# ... but no narrower than this share of the radius, divided by the attributes of a block: below it the search for a ball over
# few attributes takes minutes, and saves nothing.
_NARROWEST = 0.08
# Attributes of a block at least.
_SMALLEST_BLOCK = 3
# From one rung to the next the unit shrinks by this factor, and by its sixth root between the two around the size.
_STEP, _BETWEEN = 2**0.5, 6
# A ball over m attributes needs a grid of at least about m²/3 states; the ladder starts at this share of m².
_COARSEST = 1 / 8
# The finest rung has this many times the states that usually fit; files above that many times the size end a ladder.
_FINEST, _FAR = 4.0, 1.15
# Grids this many times as fine as the coarsest cost as little as blocks can, up to this share.
_FINE, _SAVING = 8, 0.1
# A rung that saves less than this share of the one before is the last: finer grids take ever longer to save less.
_LEAST_SAVING = 3e-4
# A draft that costs no more than this share of the total is good enough; finer grids take minutes to save less.
_GOOD = 1e-4
# Work after which no other grid is begun: a law counts as many units as it has attributes, and a grid that has none a part of
# that. It is half a minute or so, and counted instead of clocked, so that a file does not depend on the machine.
MOST_WORK = 6000
_WITHOUT_LAW = 0.05


class Progress(Protocol):
    """Is told what is tried, and which share of the work is done at most."""

    def __call__(self, description: str, fraction: float | None, /) -> None:
        """Show it."""


@dataclass(frozen=True, eq=False)
class Draft:
    """A law on a coarse grid, when its search started, and about how many bytes its file takes, whose ε are not known yet."""

    law: Law
    started: float
    size: int


class _Grids:
    """Independent balls for so many blocks of one problem, on any grid."""

    def __init__(self, problem: Problem, count: int) -> None:
        self._balls = CoarseBlocks(problem, count)
        self._narrowest = _NARROWEST * 2 * self._balls.states * count / problem.m**2

    def law(self, states: float) -> Law | None:
        """On a grid of so many states, roughly. None where it is too coarse."""
        unit = self._balls.states / states
        return self._balls.law(unit, max(unit * _RATIO, self._narrowest))


@dataclass(eq=False)
class _Search:
    """One design, one size; ``fits`` says whether the file of a draft is small enough, ``best`` is the smallest ε that does."""

    design: Design
    size: int
    fits: Callable[[Draft], bool]
    progress: Progress
    best: float
    work: float = 0.0

    def drafts(self) -> Iterator[Draft]:
        """Every draft; blocks that cost more on a fine grid than what fits already are passed over."""
        problem = self.design.solution.problem
        for count in _counts(problem.m):
            coarsest = problem.m**2 * _COARSEST / count
            if coarsest * _USUAL_BYTES <= _FINEST * self.size:
                grids = _Grids(problem, count)
                if self._dearer(grids, coarsest):
                    return
                yield from self._ladder(grids, coarsest)

    def _dearer(self, grids: _Grids, coarsest: float) -> bool:
        if self.best == math.inf or self._done():
            return False
        law = self._law(grids, coarsest * _FINE)
        return law is not None and law.epsilon * (1 - _SAVING) > self.best

    def _ladder(self, grids: _Grids, coarsest: float) -> Iterator[Draft]:
        """From coarse to fine until files are far too large; and finer steps between one that fits and one that does not."""
        states, before, fitted_before = coarsest, math.inf, False
        while states * _USUAL_BYTES <= _FINEST * self.size:
            law, draft = self._tried(grids, states)
            if law is not None:
                fitting = self._noted(draft)
                if draft is not None:
                    yield draft
                if fitted_before and not fitting:
                    yield from self._between(grids, states, law.epsilon)
                if draft is None or draft.size > _FAR * self.size or self._good(law, before):
                    return
                before, fitted_before = law.epsilon, fitting
            states *= _STEP

    def _between(self, grids: _Grids, states: float, next_epsilon: float) -> Iterator[Draft]:
        for part in range(1, _BETWEEN):
            _, draft = self._tried(grids, states / _STEP ** (part / _BETWEEN))
            if draft is not None and draft.law.epsilon >= next_epsilon:
                self._noted(draft)
                yield draft

    def _noted(self, draft: Draft | None) -> bool:
        """Whether it fits; ``best`` is kept."""
        fitting = draft is not None and self.fits(draft)
        if draft is not None and fitting:
            self.best = min(self.best, draft.law.epsilon)
        return fitting

    def _good(self, law: Law, before: float) -> bool:
        """Whether finer grids are not worth their work. What fits plays no part in it, so that every size stops here."""
        saved = before / law.epsilon - 1
        return law.epsilon <= self.design.epsilon * (1 + _GOOD) or 0 <= saved < _LEAST_SAVING

    def _tried(self, grids: _Grids, states: float) -> tuple[Law | None, Draft | None]:
        """The ball on that grid, and its draft unless it has far too many states."""
        if self._done():
            return None, None
        started = time.perf_counter()
        law = self._law(grids, states)
        if law is None or law.diagram(4 * self.size // LEAST_BYTES) is None or law.automaton is None:
            return law, None
        mechanism = Mechanism(self.design.domain, law)
        file = written(mechanism, shortened(plain_automaton(mechanism)), _unknown(self.design.domain.m))
        return law, Draft(law, started, compressed_size(file))

    def _law(self, grids: _Grids, states: float) -> Law | None:
        law = grids.law(states)
        self.work += self.design.domain.m * (_WITHOUT_LAW if law is None else 1.0)
        return law

    def _done(self) -> bool:
        """Whether all the work is done that may be, which is shown as well."""
        self.progress("trying coarser grids", min(1.0, self.work / MOST_WORK) if MOST_WORK else 1.0)
        return self.work >= MOST_WORK


def coarser(
    design: Design, size: int, fits: Callable[[Draft], bool], progress: Progress, best: float = math.inf
) -> Iterator[Draft]:
    """Drafts on coarser grids for a design without pairs and caps; ``best``, in nats: only what costs less is of use.

    None is begun after :data:`MOST_WORK`.
    """
    return _Search(design, size, fits, progress, best).drafts()


def _counts(m: int) -> Iterator[int]:
    """Numbers of blocks: 1, 2, 3, 4, 6, 8, 12 and so on."""
    count, following = 1, 2
    while count == 1 or count * _SMALLEST_BLOCK <= m:
        yield count
        count, following = following, max(following + 1, 2 * count)


def _unknown(m: int) -> StatedEpsilons:
    """ε of as many digits as true ones have, none of which compress."""
    texts = [f"{int(hashlib.sha256(str(i).encode()).hexdigest(), 16) % 10**16 / 10**15:.15f}" for i in range(2 * m)]
    return StatedEpsilons("99.999999999999999", tuple(texts[:m]), tuple(texts[m:]))
