"""Export a design to a deployment file of limited size, with every ε recomputed from its integers.

A design whose noise distribution has a small automaton uses that automaton. Other balls are drawn by rejection
(:mod:`optrr_solvers.laws.trials`), in files of some 30 bytes per attribute. A ball whose weights are too fine for a
client to check is solved again with coarser ones, which costs at most 1 % of ε up to a thousand attributes: the new
design has the old one's certificate, and the data collector must estimate with the new design.
"""

import gzip
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from optrr.core.design import Design, encoded_design, load_design
from optrr.core.display import SOFTWARE, Result, Table, amount, epsilon_text
from optrr.core.errors import InvalidInput
from optrr.core.files import MOST_BYTES
from optrr.core.mechanisms import Mechanism
from optrr.core.provenance import DEPLOYMENT, FORMATS, kind_of
from optrr.core.records import whole_files
from optrr.devices.deployment_file import (
    DeployedTrials,
    Deployment,
    DeploymentFile,
    StatedEpsilons,
)
from optrr.devices.exact import epsilons
from optrr_solvers import Status
from optrr_solvers.balls.rounding import coarse_ball
from optrr_solvers.laws import BallLaw
from optrr_solvers.laws.trials import MOST_SUMS, Trials, trials_of
from optrr_solvers.sampling.diagram import Layers
from optrr_solvers.solution import checked

# Largest file that clients read, in bytes before compression.
MOST_READ = 1 << 22


def deployment_of(mechanism: Mechanism) -> Deployment:
    """Build the deployment of a mechanism of any size.

    Its ε are those of the integers that a device draws with, exactly (with hidden chances: bounded from above), rounded up in
    the 15th place.

    Raises InvalidInput where the law has no automaton, or one too large for exact sums.
    """
    layers = _plain_automaton(mechanism)
    exact = epsilons(layers)
    stated = StatedEpsilons(
        f"{exact.total:f}", tuple(f"{x:f}" for x in exact.attributes), tuple(f"{x:f}" for x in exact.conditional)
    )
    made = _written(mechanism, layers, stated)
    # refuse what a reader of the file would refuse, before the survey begins
    return Deployment.read(made.to_bytes())


def compressed_size(deployment: DeploymentFile) -> int:
    """Compute the size of the file after gzip, in bytes.

    Raises InvalidInput if the file itself is larger than clients read.
    """
    raw = deployment.to_bytes()
    if len(raw) > MOST_READ:
        raise InvalidInput(
            f"the deployment file has {len(raw)} bytes, and clients read {MOST_READ} at most; merge categories, or "
            "shorten their texts"
        )
    return len(gzip.compress(raw, 9, mtime=0))


def _plain_automaton(mechanism: Mechanism) -> Layers:
    """Return the mechanism's automaton; raise InvalidInput without one."""
    automaton = mechanism.law.automaton
    if automaton is None:
        raise InvalidInput(
            f"the mechanism of {mechanism.domain.m} attributes has no automaton of a writable size; design by "
            "method 'ball' with fewer attributes, or randomize in the place of the records"
        )
    return automaton.layers.plain()


def _written(mechanism: Mechanism, layers: Layers, stated: StatedEpsilons) -> Deployment:
    return Deployment(mechanism.domain, layers, stated, mechanism.digest.partition(":")[2], SOFTWARE)


# Labels of a design and of its deployment that differ by less, in nats, are the same but for rounding.
_SAME = 1e-8


@dataclass(frozen=True, eq=False, repr=False)
class Fitted(Result):
    """A deployment with the design that it belongs to.

    Its compressed size in bytes, and whether that design was solved again.

    It prints as the design, with the ε of a device.
    """

    design: Design
    deployment: Deployment | DeployedTrials
    size: int
    anew: bool
    file_format: ClassVar[str] = DEPLOYMENT

    def headline(self) -> str:
        """Summarize the design and the ε of a device."""
        return (
            f"{self.design.headline()}; a device consumes {epsilon_text(float(self.deployment.stated.total))}, by a "
            f"file of {self.size} compressed bytes ({self.deployment.drawn_by})"
        )

    def tables_shown(self, most: int | None = None) -> Sequence[Table]:
        """List the design's tables."""
        return self.design.tables_shown(most)

    def sentences(self) -> list[str]:
        """State the design's notes, and whether a device's attribute ε is larger."""
        stated = np.array(self.deployment.stated.conditional, dtype=float)
        more = stated > self.design.conditional_epsilons + _SAME
        said = f"on a device the conditional epsilon of {amount(int(more.sum()), 'attribute')} is bounded by the total only"
        return [*self.design.sentences(), *([said] if more.any() else [])]

    def summary(self) -> dict[str, Any]:
        """Return the design's JSON object, with ``device`` for the ε of a device."""
        stated = self.deployment.stated
        return self.design.summary() | {
            "device": {
                "epsilon": float(stated.total),
                "attribute_epsilons": [float(x) for x in stated.attributes],
                "conditional_epsilons": [float(x) for x in stated.conditional],
                "compressed_bytes": self.size,
                "drawn_by": self.deployment.drawn_by,
            }
        }

    def save(self, path: str | Path) -> None:
        """Write the deployment file, and a design that was solved again.

        The latter beside it (:func:`design_beside`); both or none.

        Raises InvalidInput where a file cannot be written; where ``path`` is a design, or another file's design is beside it:
        answers that were collected by that could not be estimated any more, or would be estimated with the wrong one.
        """
        path = Path(path)
        keep_design(path)
        beside = design_beside(path)
        there = beside.exists()
        if there and not _same_mechanism(self.design, beside):
            raise InvalidInput(
                f"{beside}: is another design, for which reports may have been collected; give another output, or "
                "move it away"
            )
        if there or not self.anew:
            self.deployment.save(path)
            return
        with whole_files([path, beside]) as (file, second):
            second.write_bytes(encoded_design(self.design))
            file.write_bytes(self.deployment.to_bytes())


# Minimum compressed bytes of a state; a diagram with too many states is not built.
LEAST_BYTES = 6
# Maximum compressed bytes of an automaton that is preferred to trials.
_SMALL = 1 << 16
# Totals up to the radius of a ball with coarse weights: so many, and so many for each attribute. It costs 0.05 % of ε at a
# hundred attributes, 0.8 % at a thousand.
_LEAST_TOTALS, _TOTALS = 1000, 4
# Totals beyond the radius, which is soft, take the rest.
_SPARE = 0.9
# A ball with at most this many times as many totals keeps its weights.
_FINE = 2


def fitted_deployment(design: Design, max_bytes: int = MOST_BYTES) -> Fitted:
    """Find the deployment of a design and its ε before anything is exported.

    If the weights of the design's noise distribution are too fine for a client, coarser ones take their place. It takes
    some 0.1 s at a hundred attributes and 1 s at a thousand.

    Parameters
    ----------
    design : Design
        The design.
    max_bytes : int
        Maximum size of the deployment file, compressed.

    Returns
    -------
    optrr.devices.Fitted
        ``design``, which devices draw and reports are estimated with; ``deployment``, with the ε that it states; and ``size``.

    Raises
    ------
    InvalidInput
        If nothing fits; the message says what size does.

    Examples
    --------
    >>> import optrr
    >>> made = optrr.design({"smokes": 2, "age": 4}, 1.0).for_devices()
    >>> made.deployment.stated.total, made.size < 1000
    ('1.803390272195502', True)
    """
    # a small automaton draws the exact design; a large one is slower for a client than trials
    made = _own(design, min(max_bytes, _SMALL)) or _tried(design) or _own(design, max(max_bytes, MOST_BYTES))
    if made is None or made.size > max_bytes:
        remedy = "" if made is None else f"; raise ``max_bytes`` to at least {made.size}"
        raise InvalidInput(
            f"the design of {design.domain.m} attributes does not fit into {max_bytes} compressed bytes{remedy}"
        )
    return made


def _own(design: Design, size: int) -> Fitted | None:
    """Return the design's automaton; None without one, or if it is too large.

    ``size`` is the maximum of compressed bytes.
    """
    if not _has_automaton(design, size):
        return None
    deployment = deployment_of(design.mechanism)
    made = Fitted(design, deployment, compressed_size(deployment), anew=False)
    return made if made.size <= size else None


def _tried(design: Design) -> Fitted | None:
    """Return trials of the design's ball, or of one with coarser weights.

    None if there are neither.
    """
    m = design.domain.m
    target = min(max(_LEAST_TOTALS, _TOTALS * m), _SPARE * MOST_SUMS / m)
    trials = _trials(design.law)
    free = _replaceable(design) and not design.solution.problem.constrained
    if trials is not None and (trials.work <= _FINE * target * m or not free):
        return _fitted(design, trials, anew=False)
    coarse = _coarse(design, target) if free else None
    trials = None if coarse is None else _trials(coarse.law)
    return None if coarse is None or trials is None else _fitted(coarse, trials, anew=True)


def _trials(law: Any) -> Trials | None:
    return trials_of(law) if isinstance(law, BallLaw) else None


def _fitted(design: Design, trials: Trials, *, anew: bool) -> Fitted:
    made = DeployedTrials.of(design.domain, trials, design.digest.partition(":")[2], SOFTWARE)
    return Fitted(design, made, compressed_size(made), anew)


def _coarse(design: Design, totals: float) -> Design | None:
    """Solve the problem again with at most so many totals up to the radius.

    The certificate stays the same.
    """
    started, old = time.perf_counter(), design.solution
    law = coarse_ball(old.problem, totals)
    if law is None:
        return None
    note = f"with coarser weights, for devices: {law.epsilon - old.law.epsilon:.3g} nats more than the original design"
    solution = checked(
        old.problem, "ball", law, old.certificate,
        started=started, tolerance=old.tolerance, bracketed=True, notes=(note,),
    )  # fmt: skip
    return replace(design, solution=solution)


def _has_automaton(design: Design, size: int) -> bool:
    """Check that the automaton's states fit, before it is built."""
    return design.law.diagram(size // LEAST_BYTES) is not None and design.law.automaton is not None


def _replaceable(design: Design) -> bool:
    """Check that another mechanism may replace this one.

    Not if the method was requested, or a total must be kept.
    """
    return design.solution.status not in (Status.BASELINE, Status.ALLOCATED)


def keep_design(path: Path) -> None:
    """Refuse to overwrite a design with InvalidInput.

    Without it, collected reports cannot be estimated.
    """
    if not path.is_fifo() and kind_of(path) in FORMATS.keys() - {DEPLOYMENT}:
        raise InvalidInput(f"{path}: is a design, for which reports may have been collected; give another output")


@dataclass(frozen=True, repr=False)
class Exported(Result):
    """A written file, its ``numbers`` by name, and the protocol for estimation."""

    output: str
    numbers: dict[str, Any]
    design: Any
    warnings: tuple[str, ...] = ()

    def headline(self) -> str:
        """Summarize the file and its numbers."""
        numbers = {name: epsilon_text(x) if isinstance(x, float) else x for name, x in self.numbers.items() if x}
        said = [f"{name.replace('_', ' ')} {value}" for name, value in numbers.items()]
        return f"{self.output}: {', '.join(said)}"

    def summary(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"output": self.output, **self.numbers, **({"warnings": self.warnings} if self.warnings else {})}


def export_design(design: Design, path: str | Path, *, max_bytes: int = MOST_BYTES) -> Exported:
    """Write the deployment file of a design, or of one with coarser weights.

    The weights are coarser if the file would be too large. See :func:`optrr.export`.
    """
    path = Path(path)
    check_deployment_path(path)
    fitted = fitted_deployment(design, max_bytes)
    fitted.save(path)
    cost = fitted.design.epsilon - design.epsilon
    numbers: dict[str, Any] = {
        "epsilon": float(fitted.deployment.stated.total),
        "drawn_by": fitted.deployment.drawn_by,
        "compressed_bytes": fitted.size,
        "cost": cost,
    }
    warnings = design.public.left_out("a deployment file")
    if fitted.anew:
        numbers["design"] = str(design_beside(path))
        warnings.append(
            f"estimate with {numbers['design']}: its weights are coarser, which costs {epsilon_text(cost)} nats "
            f"more than {epsilon_text(design.epsilon)}"
        )
    return Exported(str(path), numbers, fitted.design, tuple(warnings))


def check_deployment_path(path: Path) -> None:
    """Refuse to overwrite a design and misleading suffixes with InvalidInput."""
    if path.suffix.lower() != ".json":
        raise InvalidInput(f"{path}: a deployment file must be .json; name such a file")
    keep_design(path)


def exports_of_design(design: Design) -> Iterator[DeploymentFile]:
    """Iterate over possible exports of the design: trials, or its automaton."""
    trials = _trials(design.law)
    if trials is not None:
        yield _fitted(design, trials, anew=False).deployment
    if _has_automaton(design, MOST_BYTES):
        yield deployment_of(design.mechanism)


def save_exported(made: DeploymentFile | Fitted, path: str | Path) -> None:
    """Write a deployment file and, if the design was fitted, that design."""
    made.save(path)


def _same_mechanism(design: Design, path: Path) -> bool:
    try:
        return load_design(path).mechanism.digest == design.mechanism.digest
    except InvalidInput:
        return False


def design_beside(path: str | Path) -> Path:
    """Return the path of a design that was solved again.

    ``sampler.design.json`` for ``sampler.json``.
    """
    return Path(path).with_suffix(".design.json")
