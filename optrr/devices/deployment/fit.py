"""A deployment of at most a stated size: where a design's automaton is larger, another mechanism takes its place.

What is tried is the problem solved again on coarser grids (:mod:`optrr.devices.deployment.coarser`), and every attribute
randomized on its own, as accurately as asked for: the smallest ε that fits is taken. The new mechanism is a design of its own,
with the old one's certificate: whoever collects answers must estimate with it. What the smaller file costs in ε is the
difference of the two totals.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from optrr.designs.design import Design
from optrr.designs.design_file import encoded_design
from optrr.devices.deployment.coarser import LEAST_BYTES, Draft, Progress, coarser
from optrr.devices.deployment.deployment_file import Deployment
from optrr.devices.deployment.export import compressed_size, deployment_of
from optrr.errors import InvalidInput
from optrr.records.whole_files import whole_files
from optrr.releases.sealed import DESIGN, LONGITUDINAL, kind_of
from optrr_solvers import SolveFailed, Status
from optrr_solvers.laws import Law, ProductLaw
from optrr_solvers.solution import checked

__all__ = ["DEFAULT_SIZE", "Fitted", "compressed_size", "design_beside", "export", "fitted_deployment", "keep_design"]

# Bytes of a file as it is sent, compressed: what a phone fetches in a blink.
DEFAULT_SIZE = 64 * 1024
# A file has at most this many bytes more than its draft, whose ε have digits that do not compress ...
_MORE = 64
# ... and at most this many bytes less for each attribute, where its ε repeat.
_LESS = 16
# Attributes up to which the file of a product law is made only to say how small a file can be: a second or two.
_FEW = 512


@dataclass(frozen=True, eq=False)
class Fitted:
    """A deployment, the design that it belongs to, its compressed size in bytes, and whether that design was made anew."""

    design: Design
    deployment: Deployment
    size: int
    anew: bool

    def save(self, path: str | Path) -> None:
        """Write the deployment file, and beside it (:func:`design_beside`) a design that was made anew, both or none.

        Raises
        ------
        InvalidInput
            where a file cannot be written; where ``path`` is a design, or another file's design is beside it: answers that
            were collected by that could not be estimated any more, or would be estimated with the wrong one.
        """
        path = Path(path)
        keep_design(path)
        beside = design_beside(path)
        there = beside.exists()
        if there and not _same_mechanism(self.design, beside):
            raise InvalidInput(
                f"{beside} is there already and is another design, by which answers may have been collected; "
                "give another output, or move it away"
            )
        if there or not self.anew:
            self.deployment.save(path)
            return
        with whole_files([path, beside]) as (file, second):
            second.write_bytes(encoded_design(self.design))
            file.write_bytes(self.deployment.to_bytes())


def keep_design(path: Path) -> None:
    """Refuse to write over a design: without it nothing that was collected by it can be estimated. Raises InvalidInput."""
    if not path.is_fifo() and kind_of(path) in (DESIGN, LONGITUDINAL):
        raise InvalidInput(f"{path} is a design, by which answers may have been collected; give another output")


def _same_mechanism(design: Design, path: Path) -> bool:
    try:
        return Design.load(path).mechanism.digest == design.mechanism.digest
    except InvalidInput:
        return False


def export(design: Design, path: str | Path, size: int = DEFAULT_SIZE) -> Fitted:
    """Write the deployment file of a design: what a device needs to randomize one person's record.

    Where the design's own mechanism is too large, another takes its place (:func:`fitted_deployment`). The design to estimate
    with is then another one, which is written beside the file (:func:`design_beside`) and returned.

    Parameters
    ----------
    size
        most bytes of the file, compressed.

    Raises
    ------
    InvalidInput
        as :func:`fitted_deployment` and :meth:`Fitted.save`.
    """
    fitted = fitted_deployment(design, size)
    fitted.save(path)
    return fitted


def design_beside(path: str | Path) -> Path:
    """Where the design of a file goes that was solved again: ``sampler.design.json`` for ``sampler.json``."""
    return Path(path).with_suffix(".design.json")


def _unseen(description: str, fraction: float | None, /) -> None:
    del description, fraction


def fitted_deployment(design: Design, size: int = DEFAULT_SIZE, progress: Progress = _unseen) -> Fitted:
    """The deployment of a design within ``size`` compressed bytes, by another mechanism where it must be.

    The design's own mechanism is taken wherever it fits. Otherwise the one with the smallest ε that fits, among balls on
    coarser grids and every attribute randomized on its own: never worse than the latter, and a larger ``size`` never costs
    more ε than a smaller one does, but for what the design itself may be above the optimum (``design.gap``). Coarser grids
    are tried up to so much work (:data:`optrr.devices.deployment.coarser.MOST_WORK`).

    Raises
    ------
    InvalidInput
        where nothing fits: the message says a size that does, which the smallest file that was made has.
    """
    own = _own(design, size)
    if own is not None and own.size <= size:
        return own
    files = _Files(design, size)
    product = _product(files) if _replaceable(design) else None
    known = [x for x in (own, product) if x is not None]
    # its automaton has one state for each attribute, fewer than any other: where it does not fit, no other does
    least = min((x for x in known if x.size <= size), key=lambda x: x.design.epsilon, default=None)
    if not _replaceable(design) or (design.solution.problem.constrained and least is None):
        raise InvalidInput(f"the design does not fit {size} bytes: {_reason(design, own)}{_hint(known)}")
    if design.solution.problem.constrained and least is not None:
        return least
    if product is not None and least is None:
        raise InvalidInput(_refused(design, size, known))
    drafts = list(coarser(design, size, files.fits, progress, math.inf if least is None else least.design.epsilon))
    for draft in sorted(drafts, key=lambda d: d.law.epsilon):
        if least is not None and least.design.epsilon <= draft.law.epsilon:
            break
        made = files.made(draft) if files.fits(draft) else None
        if made is not None and made.size <= size:
            return made
    if least is not None:
        return least
    raise InvalidInput(_refused(design, size, known + files.smallest(drafts)))


def _own(design: Design, size: int) -> Fitted | None:
    """The design's own deployment; None without an automaton, or where its states alone are far too many."""
    automaton = design.law.automaton
    if automaton is None or automaton.states * LEAST_BYTES > 4 * size:
        return None
    deployment = deployment_of(design.mechanism)
    if compressed_size(deployment) > size:
        deployment = deployment_of(design.mechanism, short=True)
    return Fitted(design, deployment, compressed_size(deployment), anew=False)


def _replaceable(design: Design) -> bool:
    """Whether another mechanism may take its place: not that of a method that was asked for, or of a total to be kept."""
    return design.solution.status not in (Status.BASELINE, Status.ALLOCATED)


def _reason(design: Design, own: Fitted | None) -> str:
    kept = "pairs or caps" if _replaceable(design) else f"method {design.method!r}"
    needs = "has no small automaton" if own is None else f"takes {own.size} compressed bytes"
    return f"it {needs}, and {kept} cannot be had on a coarser grid"


def _refused(design: Design, size: int, known: Iterable[Fitted]) -> str:
    return f"no mechanism for these {design.domain.m} attributes fits {size} compressed bytes{_hint(known)}"


def _hint(known: Iterable[Fitted]) -> str:
    least = min((x.size for x in known), default=None)
    return "" if least is None else f"; {least} bytes are possible (--size {least})"


def _product(files: _Files) -> Fitted | None:
    """Every attribute on its own, as accurate as asked for; None where that misses a pair or a cap, or is far too large."""
    problem = files.design.solution.problem
    if problem.m > _FEW and problem.m * LEAST_BYTES > 4 * files.size:
        return None
    try:
        return files.file_of("kronecker", ProductLaw(problem.sizes, problem.epsilons), time.perf_counter())
    except SolveFailed:
        return None


@dataclass(frozen=True, eq=False)
class _Files:
    """The files that were made of drafts, whose sizes are known to the byte."""

    design: Design
    size: int
    _made: dict[Draft, Fitted | None] = field(default_factory=dict)

    def fits(self, draft: Draft) -> bool:
        """Whether the file of a draft fits; it is made where that is not plain from the draft's size."""
        if draft.size + _MORE <= self.size:
            return True
        if draft.size > self.size + _MORE + _LESS * self.design.domain.m:
            return False
        made = self.made(draft)
        return made is not None and made.size <= self.size

    def made(self, draft: Draft) -> Fitted | None:
        """The file of a draft, made once; None where its exact sums would take too long."""
        if draft not in self._made:
            self._made[draft] = self.file_of("ball", draft.law, draft.started)
        return self._made[draft]

    def smallest(self, drafts: Iterable[Draft]) -> list[Fitted]:
        """Every file that was made, the one of the smallest draft among them."""
        for draft in sorted(drafts, key=lambda d: d.size)[:1]:
            self.made(draft)
        return [made for made in self._made.values() if made is not None]

    def file_of(self, method: str, law: Law, started: float) -> Fitted | None:
        """The law as a design for the same problem, with the certificate that the problem already has, and its file.

        Raises SolveFailed where the law does not meet the problem's wishes.
        """
        old = self.design.solution
        how = "on a coarser grid" if method == "ball" else "every attribute on its own"
        note = f"{how}, for devices: {law.epsilon - old.law.epsilon:.3g} nats above the design it is made from"
        solution = checked(
            old.problem, method, law, old.certificate,
            started=started, tolerance=old.tolerance, bracketed=True, notes=(note,),
        )  # fmt: skip
        made = Design(self.design.domain, solution, public=self.design.public)
        try:
            deployment = deployment_of(made.mechanism, short=True)
        except InvalidInput:
            return None
        return Fitted(made, deployment, compressed_size(deployment), anew=True)
