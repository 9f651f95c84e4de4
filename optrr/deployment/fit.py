"""A deployment of at most a stated size: where a design's automaton is larger, the problem is solved again on a coarse grid.

The new mechanism is a design of its own, with the old one's certificate: whoever collects answers must estimate with
it. What the smaller file costs in ε is the difference of the two totals.
"""

from __future__ import annotations

import gzip
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from optrr.deployment.deployment_file import Deployment, StatedEpsilons
from optrr.deployment.export import deployment_of, plain_automaton, written
from optrr.deployment.short import shortened
from optrr.designing.design import Design
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Mechanism
from optrr_solvers import Status
from optrr_solvers.balls.coarse import CoarseBlocks
from optrr_solvers.laws import Law
from optrr_solvers.solution import checked

__all__ = ["DEFAULT_SIZE", "Fitted", "compressed_size", "design_beside", "export", "fitted_deployment"]

# Bytes of a file as it is sent, compressed: what a phone fetches in a blink.
DEFAULT_SIZE = 64 * 1024
# A state takes at least this many compressed bytes; so a diagram with more states need not be built.
_LEAST_BYTES = 6
# ... and usually about this many, from which the search starts.
_USUAL_BYTES = 13
# Widths of the radius tried, in units.
_RATIOS = (1.0, 0.25, 0.06)
# Attributes of a block at least.
_SMALLEST_BLOCK = 8
# The first step of the search for the finest unit that fits, and how often it is halved.
_STEP, _HALVINGS = 1.6, 4
# A draft that costs no more than this share of the total is good enough; finer grids take minutes to save less.
_GOOD = 1e-4
# Units tried for one ratio.
_MOST_TRIES = 10


@dataclass(frozen=True, eq=False)
class Fitted:
    """A deployment, the design that it belongs to, its compressed size in bytes, and whether that design was solved anew."""

    design: Design
    deployment: Deployment
    size: int
    anew: bool

    def save(self, path: str | Path) -> None:
        """Write the deployment file, and a design that was solved anew beside it (:func:`design_beside`)."""
        if self.anew:
            # before the file that asks people, so that nobody collects what cannot be estimated
            self.design.save(design_beside(path))
        self.deployment.save(path)


def export(design: Design, path: str | Path, size: int = DEFAULT_SIZE) -> Fitted:
    """Write the deployment file of a design: what a device needs to randomize one person's record.

    Where the design's own mechanism is too large, it is solved again on a coarser grid. The design to estimate with is then
    another one, which is written beside the file (:func:`design_beside`) and returned.

    Parameters
    ----------
    size
        most bytes of the file, compressed.

    Raises
    ------
    InvalidInput
        as :func:`fitted_deployment`; where the directory is missing, or the second design's file is there already.
    """
    fitted = fitted_deployment(design, size)
    beside = design_beside(path)
    if fitted.anew and beside.exists():
        raise InvalidInput(f"{beside} is there already, and the design to estimate with goes there; give another path")
    fitted.save(path)
    return fitted


def design_beside(path: str | Path) -> Path:
    """Where the design of a file goes that was solved again: ``sampler.design.json`` for ``sampler.json``."""
    return Path(path).with_suffix(".design.json")


def compressed_size(deployment: Deployment) -> int:
    """Bytes of the file after gzip."""
    return len(gzip.compress(deployment.to_bytes(), 9, mtime=0))


def fitted_deployment(design: Design, size: int = DEFAULT_SIZE) -> Fitted:
    """The deployment of a design within ``size`` compressed bytes, on a coarser grid where it must be.

    Raises
    ------
    InvalidInput
        where nothing fits: the message says the smallest size that does, or why the design cannot be solved again.
    """
    own = _own(design, size)
    if own is not None and own.size <= size:
        return own
    _require_solvable(design, own, size)
    drafts = list(_coarser(design, size))
    for draft in sorted((d for d in drafts if d.size <= size), key=lambda d: d.law.epsilon):
        made = _designed(design, draft)
        deployment = deployment_of(made.mechanism, short=True)
        bytes_ = compressed_size(deployment)
        if bytes_ <= size:
            return Fitted(made, deployment, bytes_, anew=True)
    least = min((d.size for d in drafts), default=None)
    hint = "" if least is None else f"; {least} bytes are possible (--size {least})"
    raise InvalidInput(f"no mechanism for these {design.domain.m} attributes fits {size} compressed bytes{hint}")


def _own(design: Design, size: int) -> Fitted | None:
    """The design's own deployment; None without an automaton, or where its states alone are far too many."""
    automaton = design.law.automaton
    if automaton is None or automaton.states * _LEAST_BYTES > 4 * size:
        return None
    deployment = deployment_of(design.mechanism)
    if compressed_size(deployment) > size:
        deployment = deployment_of(design.mechanism, short=True)
    return Fitted(design, deployment, compressed_size(deployment), anew=False)


def _require_solvable(design: Design, own: Fitted | None, size: int) -> None:
    problem = design.solution.problem
    if problem.constrained or design.solution.status in (Status.BASELINE, Status.ALLOCATED):
        kept = "pairs or caps" if problem.constrained else f"method {design.method!r}"
        needs = "has no small automaton" if own is None else f"takes {own.size} compressed bytes (--size {own.size})"
        raise InvalidInput(
            f"the design does not fit {size} bytes: it {needs}, and {kept} cannot be had on a coarser grid"
        )


@dataclass(frozen=True, eq=False)
class _Draft:
    """Balls on a coarse grid, the seconds of its search, and the size of its file, whose ε are not known yet."""

    law: Law
    started: float
    size: int


def _coarser(design: Design, size: int) -> Iterator[_Draft]:
    """One ball on coarse grids, and more and more blocks with a ball each until one count after the first has fitted.

    (One ball just before the grid is too coarse for it may cost more than two balls on finer grids.)
    """
    problem = design.solution.problem
    fitted_before = False
    for count in range(1, max(problem.m // _SMALLEST_BLOCK, 1) + 1):
        drafts = [d for ratio in _RATIOS for d in _search(design, CoarseBlocks(problem, count), ratio, size)]
        yield from drafts
        fitting = [d for d in drafts if d.size <= size]
        if fitted_before or any(_good(d, design) for d in fitting):
            return
        fitted_before = bool(fitting)


def _search(design: Design, balls: CoarseBlocks, ratio: float, size: int) -> Iterator[_Draft]:
    """For one ratio of width and unit the finest unit that fits is approached."""
    unit, step, fitted_before = balls.states * _USUAL_BYTES / size, _STEP, None
    halvings = tries = 0
    while halvings < _HALVINGS and tries < _MOST_TRIES:
        tries, started = tries + 1, time.perf_counter()
        law = balls.law(unit, unit * ratio)
        draft = None if law is None else _draft(design, law, size, started)
        if draft is not None:
            yield draft
        # where there is no ball the grid is too coarse, as if it fitted
        fits = law is None or (draft is not None and draft.size <= size)
        if draft is not None and fits and _good(draft, design):
            return
        if fitted_before is not None and fits != fitted_before:
            step, halvings = step**0.5, halvings + 1
        fitted_before = fits
        unit = unit / step if fits else unit * step


def _good(draft: _Draft, design: Design) -> bool:
    return draft.law.epsilon <= design.epsilon * (1 + _GOOD)


def _draft(design: Design, law: Law, size: int, started: float) -> _Draft | None:
    # a law with far too many states is not worth its automaton
    if law.diagram(4 * size // _LEAST_BYTES) is None or law.automaton is None:
        return None
    mechanism = Mechanism(design.domain, law)
    file = written(mechanism, shortened(plain_automaton(mechanism)), _unknown(design.domain.m))
    return _Draft(law, started, compressed_size(file))


def _unknown(m: int) -> StatedEpsilons:
    """ε of as many digits as true ones have, none of which compress."""
    texts = [f"{int(hashlib.sha256(str(i).encode()).hexdigest(), 16) % 10**16 / 10**15:.15f}" for i in range(2 * m)]
    return StatedEpsilons("99.999999999999999", tuple(texts[:m]), tuple(texts[m:]))


def _designed(design: Design, draft: _Draft) -> Design:
    """The law as a design for the same problem, with the certificate that the problem already has."""
    old, law = design.solution, draft.law
    note = f"on a coarse grid, for devices: {law.epsilon - old.law.epsilon:.3g} nats above the design it is made from"
    solution = checked(
        old.problem, "ball", law, old.certificate,
        started=draft.started, tolerance=old.tolerance, bracketed=True, notes=(note,),
    )  # fmt: skip
    return Design(design.domain, solution, public=design.public)
