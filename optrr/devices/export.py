"""From a design to what a device runs: the law's automaton, every ε recomputed from its integers, of at most a stated size.

Where a design's automaton is larger, another mechanism takes its place. What is tried is the problem solved again on coarser
grids, and every attribute randomized on its own, as accurately as asked for: the smallest ε that fits is taken. The new
mechanism is a design of its own, with the old one's certificate: whoever collects answers must estimate with it. What the
smaller file costs in ε is the difference of the two totals.

The grids stand on a ladder that the problem alone settles. A larger size looks at every rung that a smaller one looks at and
at more, so that it never ends at a larger ε. Rungs between two of them are taken only where they do not undercut the next
rung, for the same reason.
"""

import gzip
import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from optrr.core.design import Design, encoded_design, load_design
from optrr.core.display import SOFTWARE, Result, epsilon_text
from optrr.core.errors import InvalidInput
from optrr.core.files import MOST_BYTES
from optrr.core.mechanisms import Mechanism
from optrr.core.provenance import DEPLOYMENT, FORMATS, kind_of
from optrr.core.records import whole_files
from optrr.devices.deployment_file import (
    Deployment,
    DeploymentFile,
    StatedEpsilons,
)
from optrr.devices.exact import epsilons, shortened
from optrr_solvers import SolveFailed, Status
from optrr_solvers.balls.rounding import CoarseBlocks
from optrr_solvers.laws import Law, ProductLaw
from optrr_solvers.problem import Problem
from optrr_solvers.sampling.diagram import Layers
from optrr_solvers.solution import checked


def deployment_of(mechanism: Mechanism, *, short: bool = False) -> Deployment:
    """The deployment of a mechanism, whatever its size; ``short``: with no more digits than the total ε needs.

    Its ε are those of the integers that a device draws with, exactly (with hidden chances: bounded from above), rounded up in
    the 15th place. The total does not exceed the mechanism's label by more than that, or, where ``short``, by 1e-9.

    Raises InvalidInput where the law has no automaton, or one too large for exact sums.
    """
    layers = _plain_automaton(mechanism)
    layers = shortened(layers) if short else layers
    exact = epsilons(layers)
    stated = StatedEpsilons(
        f"{exact.total:f}", tuple(f"{x:f}" for x in exact.attributes), tuple(f"{x:f}" for x in exact.conditional)
    )
    made = _written(mechanism, layers, stated)
    # what a reader would refuse is refused here, before anybody is asked
    return Deployment.read(made.to_bytes())


def compressed_size(deployment: DeploymentFile) -> int:
    """Bytes of the file after gzip."""
    return len(gzip.compress(deployment.to_bytes(), 9, mtime=0))


def _plain_automaton(mechanism: Mechanism) -> Layers:
    """What the mechanism draws with. Raises InvalidInput where it has no automaton."""
    automaton = mechanism.law.automaton
    if automaton is None:
        raise InvalidInput(
            f"the law of {mechanism.domain.m} attributes has no automaton of a size that can be written; "
            "design by method 'ball' with fewer attributes, or randomize where the records are"
        )
    return automaton.layers.plain()


def _written(mechanism: Mechanism, layers: Layers, stated: StatedEpsilons) -> Deployment:
    return Deployment(mechanism.domain, layers, stated, mechanism.digest.partition(":")[2], SOFTWARE)


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

# A file has at most this many bytes more than its draft, whose ε have digits that do not compress ...
_MORE = 64
# ... and at most this many bytes less for each attribute, where its ε repeat.
_LESS = 16
# Attributes up to which the file of a product law is made only to say how small a file can be: a second or two.
_FEW = 512


@dataclass(frozen=True, eq=False)
class Fitted:
    """A deployment, the design that it belongs to, its compressed size in bytes, and whether that design was made anew.

    ``own_size``: where it was, the bytes that would have kept the design as it was; None where that is not known.
    """

    design: Design
    deployment: Deployment
    size: int
    anew: bool
    own_size: int | None = None
    file_format: ClassVar[str] = DEPLOYMENT

    def save(self, path: str | Path) -> None:
        """Write the deployment file, and beside it (:func:`design_beside`) a design that was made anew, both or none.

        Raises InvalidInput where a file cannot be written; where ``path`` is a design, or another file's design is beside it:
        answers that were collected by that could not be estimated any more, or would be estimated with the wrong one.
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


# Is told what is tried, and which share of the work is done at most.
Progress: TypeAlias = Callable[[str, float | None], None]
# The ball on a grid of so many states, roughly; None where it is too coarse.
Grids: TypeAlias = Callable[[float], Law | None]


@dataclass(frozen=True, eq=False)
class Draft:
    """A law on a coarse grid, when its search started, and about how many bytes its file takes, whose ε are not known yet."""

    law: Law
    started: float
    size: int


def _grids(problem: Problem, count: int) -> Grids:
    """Independent balls for so many blocks of one problem, on any grid."""
    balls = CoarseBlocks(problem, count)
    narrowest = _NARROWEST * 2 * balls.states * count / problem.m**2

    def law(states: float) -> Law | None:
        unit = balls.states / states
        return balls.law(unit, max(unit * _RATIO, narrowest))

    return law


@dataclass(eq=False)
class _Search:
    """Other mechanisms for one design, in a file of one size: laws, drafts, and the files that were made of these.

    ``best`` is the smallest ε of what fits, in nats. Only what costs less is of use.
    """

    design: Design
    size: int
    progress: Progress
    best: float = math.inf
    work: float = 0.0
    made: dict[Draft, Fitted | None] = field(default_factory=dict)

    def drafts(self) -> Iterator[Draft]:
        """Every draft; blocks that cost more on a fine grid than what fits already are passed over.

        None is begun after :data:`MOST_WORK`.
        """
        problem = self.design.solution.problem
        for count in _counts(problem.m):
            coarsest = problem.m**2 * _COARSEST / count
            if coarsest * _USUAL_BYTES <= _FINEST * self.size:
                grids = _grids(problem, count)
                if self._dearer(grids, coarsest):
                    return
                yield from self._ladder(grids, coarsest)

    def _dearer(self, grids: Grids, coarsest: float) -> bool:
        if self.best == math.inf or self._done():
            return False
        law = self._law(grids, coarsest * _FINE)
        return law is not None and law.epsilon * (1 - _SAVING) > self.best

    def _ladder(self, grids: Grids, coarsest: float) -> Iterator[Draft]:
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

    def _between(self, grids: Grids, states: float, next_epsilon: float) -> Iterator[Draft]:
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

    def _tried(self, grids: Grids, states: float) -> tuple[Law | None, Draft | None]:
        """The ball on that grid, and its draft unless it has far too many states."""
        if self._done():
            return None, None
        started = time.perf_counter()
        law = self._law(grids, states)
        if law is None or law.diagram(4 * self.size // LEAST_BYTES) is None or law.automaton is None:
            return law, None
        mechanism = Mechanism(self.design.domain, law)
        file = _written(mechanism, shortened(_plain_automaton(mechanism)), _unknown(self.design.domain.m))
        return law, Draft(law, started, compressed_size(file))

    def _law(self, grids: Grids, states: float) -> Law | None:
        law = grids(states)
        self.work += self.design.domain.m * (_WITHOUT_LAW if law is None else 1.0)
        return law

    def _done(self) -> bool:
        """Whether all the work is done that may be, which is shown as well."""
        self.progress("trying coarser grids", min(1.0, self.work / MOST_WORK) if MOST_WORK else 1.0)
        return self.work >= MOST_WORK

    def product(self) -> Fitted | None:
        """Every attribute on its own, as accurate as asked for; None where that misses a pair or a cap, or is far too large."""
        problem = self.design.solution.problem
        if problem.m > _FEW and problem.m * LEAST_BYTES > 4 * self.size:
            return None
        try:
            return self._file_of("kronecker", ProductLaw(problem.sizes, problem.epsilons), time.perf_counter())
        except SolveFailed:
            return None

    def fits(self, draft: Draft) -> bool:
        """Whether the file of a draft fits; it is made where that is not plain from the draft's size."""
        if draft.size + _MORE <= self.size:
            return True
        if draft.size > self.size + _MORE + _LESS * self.design.domain.m:
            return False
        made = self.file(draft)
        return made is not None and made.size <= self.size

    def file(self, draft: Draft) -> Fitted | None:
        """The file of a draft, made once; None where its exact sums would take too long."""
        if draft not in self.made:
            self.made[draft] = self._file_of("ball", draft.law, draft.started)
        return self.made[draft]

    def smallest(self, drafts: Iterable[Draft]) -> list[Fitted]:
        """Every file that was made, the one of the smallest draft among them."""
        for draft in sorted(drafts, key=lambda d: d.size)[:1]:
            self.file(draft)
        return [made for made in self.made.values() if made is not None]

    def _file_of(self, method: str, law: Law, started: float) -> Fitted | None:
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


def keep_design(path: Path) -> None:
    """Refuse to write over a design: without it nothing that was collected by it can be estimated. Raises InvalidInput."""
    if not path.is_fifo() and kind_of(path) in FORMATS.keys() - {DEPLOYMENT}:
        raise InvalidInput(f"{path} is a design, by which answers may have been collected; give another output")


@dataclass(frozen=True, repr=False)
class Exported(Result):
    """A file that was written, its ``numbers`` by name, and the protocol that its reports are estimated with."""

    output: str
    numbers: dict[str, Any]
    design: Any
    warnings: tuple[str, ...] = ()

    def headline(self) -> str:
        """The file and its numbers."""
        said = [f"{name.replace('_', ' ')} {value}" for name, value in self.numbers.items()]
        return f"{self.output}: {', '.join(said)}"

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object."""
        return {"output": self.output, **self.numbers, **({"warnings": self.warnings} if self.warnings else {})}


def export_design(
    design: Design, path: str | Path, *, max_bytes: int = MOST_BYTES, progress: Progress | None = None
) -> Exported:
    """Write the deployment file of a design, or of the one that takes its place; see :func:`optrr.export`."""
    path = Path(path)
    check_deployment_path(path)
    fitted = fitted_deployment(design, max_bytes, progress or _unseen)
    fitted.save(path)
    cost, made = fitted.design.epsilon - design.epsilon, fitted.design
    numbers: dict[str, Any] = {
        "epsilon": float(fitted.deployment.stated.total),
        "states": fitted.deployment.automaton.states,
        "compressed_bytes": fitted.size,
        "cost": cost,
    }
    warnings = design.public.left_out("a deployment file")
    if fitted.anew:
        numbers["design"] = str(design_beside(path))
        how = "every attribute on its own" if made.method == "kronecker" else "solved again on a coarser grid"
        keeps = "" if fitted.own_size is None else f", or allow {fitted.own_size} bytes to keep the design as it is"
        warnings.append(
            f"estimate with {numbers['design']}: {how} to fit, {epsilon_text(cost)} nats above "
            f"{epsilon_text(design.epsilon)}{keeps}"
        )
    return Exported(str(path), numbers, made, tuple(warnings))


def check_deployment_path(path: Path) -> None:
    """Refuse to write over a design, and a file that other programs would take for something else. Raises InvalidInput."""
    if path.suffix.lower() != ".json":
        raise InvalidInput(f"{path}: a deployment file is written as .json; name such a file")
    keep_design(path)


def exports_of_design(design: Design) -> list[Deployment]:
    """What the design's own export can be, with all digits and with few; see :data:`optrr.core.provenance.formats.FORMATS`."""
    return [deployment_of(design.mechanism, short=short) for short in (False, True)]


def save_exported(made: DeploymentFile | Fitted, path: str | Path) -> None:
    """Write a deployment file; with what was fitted, also its design."""
    made.save(path)


def _same_mechanism(design: Design, path: Path) -> bool:
    try:
        return load_design(path).mechanism.digest == design.mechanism.digest
    except InvalidInput:
        return False


def design_beside(path: str | Path) -> Path:
    """Where the design of a file goes that was solved again: ``sampler.design.json`` for ``sampler.json``."""
    return Path(path).with_suffix(".design.json")


def _unseen(description: str, fraction: float | None) -> None:
    del description, fraction


def fitted_deployment(design: Design, size: int = MOST_BYTES, progress: Progress = _unseen) -> Fitted:
    """The deployment of a design within ``size`` compressed bytes, by another mechanism where it must be.

    The design's own mechanism is taken wherever it fits. Otherwise the one with the smallest ε that fits, among balls on
    coarser grids and every attribute randomized on its own: never worse than the latter, and a larger ``size`` never costs
    more ε than a smaller one does, but for what the design itself may be above the optimum (``design.gap``). Coarser grids
    are tried up to so much work (:data:`optrr.devices.export.MOST_WORK`).

    Raises InvalidInput where nothing fits: the message says a size that does, which the smallest file that was made has.
    """
    own = _own(design, size)
    if own is not None and own.size <= size:
        return own
    made = _replaced(design, size, own, progress)
    return replace(made, own_size=own.size) if own is not None and made.anew else made


def _replaced(design: Design, size: int, own: Fitted | None, progress: Progress) -> Fitted:
    """The one with the smallest ε that fits, where the design's own does not."""
    search = _Search(design, size, progress)
    product = search.product() if _replaceable(design) else None
    known = [x for x in (own, product) if x is not None]
    # its automaton has one state for each attribute, fewer than any other: where it does not fit, no other does
    least = min((x for x in known if x.size <= size), key=lambda x: x.design.epsilon, default=None)
    if not _replaceable(design) or (design.solution.problem.constrained and least is None):
        raise InvalidInput(f"the design does not fit {size} bytes: {_reason(design, own)}{_hint(known)}")
    if design.solution.problem.constrained and least is not None:
        return least
    if product is not None and least is None:
        raise InvalidInput(_refused(design, size, known))
    search.best = math.inf if least is None else least.design.epsilon
    drafts = list(search.drafts())
    for draft in sorted(drafts, key=lambda d: d.law.epsilon):
        if least is not None and least.design.epsilon <= draft.law.epsilon:
            break
        made = search.file(draft) if search.fits(draft) else None
        if made is not None and made.size <= size:
            return made
    if least is not None:
        return least
    raise InvalidInput(_refused(design, size, known + search.smallest(drafts)))


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
    return "" if least is None else f"; {least} bytes are possible (``max_bytes`` {least})"
