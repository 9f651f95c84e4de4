"""Design files: versioned JSON that carries everything needed to randomize, estimate and re-check (architecture §5.2).

One JSON object: ``format``, ``software``, ``method``, ``status``, ``epsilon``, ``lower_bound``, ``seconds``,
``attributes`` (each with the keys of :mod:`optrr.core.domain.domain`, requested_epsilon, epsilon, conditional_epsilon,
conditional_cap), ``pairs`` and ``kappa`` (the pairs to preserve), ``law`` (``kind`` and the numbers of that kind; each
law writes and reads its own, see :mod:`optrr_solvers.laws.base`), ``certificate``, ``notes``, ``tolerance``,
``digest``, ``earlier`` where the design follows other releases of the same respondents, and ``public`` where the data
have columns that are not randomized (:mod:`optrr.core.domain.public`). The ε are those of the distribution that is
drawn (:class:`optrr_solvers.laws.base.Labels`).

In the checks the upper side comes from the law and the lower side from the certificate; nothing that a solver reported is
used. For small domains both are exact rational arithmetic; elsewhere doubles with outward error bounds.

Doubles are written in the shortest form that reads back to the same bits; certificate integers, which may have hundreds
of bits, as decimal text. A digest over the whole content catches edits by hand; a file with a recomputed digest still
has to pass the checks, which trust no number in the file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from optrr.core.design.designs import FELT, Design
from optrr.core.design.specification import refuse_specification
from optrr.core.design.verification import LAST_PLACES, SAME, Check, CheckedFiles, Verification, is_heavy
from optrr.core.display import SOFTWARE
from optrr.core.domain.domain import DeclaredAttribute, Domain, declaration
from optrr.core.domain.public import NONE, PublicColumns
from optrr.core.errors import InvalidInput, in_one_line
from optrr.core.mechanisms.mechanism import drawn_epsilon
from optrr.core.provenance.accounting import Release
from optrr.core.provenance.formats import instead_of_design
from optrr.core.provenance.sealed import Given, Sealed, encoded, sha256_of
from optrr.core.records.atomic import whole_file
from optrr_solvers import Certificate, Problem, Solution, SolveFailed, Status, lower_bound
from optrr_solvers.arrays import FloatArray
from optrr_solvers.certificates.certificate import EXACT_CELLS
from optrr_solvers.laws.base import law_of, record_of
from optrr_solvers.solution import require, shortfalls

FORMAT = "optrr-design/1"
# Largest ε per attribute, in nats, of any law in a file; higher caps have no effect.
_MOST_CAP = 500.0
# "optimal" means: at most this far above the lower bound, in nats and relative to a total above one nat. The solvers
# use no wider gap by default, and the tolerance in a file does not widen it.
OPTIMAL_GAP = 1e-3
# Laws whose conditional ε are differences of the numbers stored, so that no machine rounds them otherwise.
_STORED = ("product", "table", "count")


class _DesignedAttribute(DeclaredAttribute, forbid_unknown_fields=True, kw_only=True):
    requested_epsilon: float
    epsilon: float
    conditional_epsilon: float
    conditional_cap: float | None = None


class _CertificateRecord(msgspec.Struct, forbid_unknown_fields=True):
    classes: list[list[int]]
    weights: list[str]
    pairs: list[tuple[int, int, str]] = []
    caps: list[tuple[int, int, bool, str]] = []
    effects: list[str] = []
    unit: str = "1"


class _DesignContent(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    software: str
    method: str
    status: Status
    epsilon: float
    lower_bound: float
    seconds: float
    attributes: list[_DesignedAttribute]
    pairs: list[tuple[int, int]]
    kappa: float
    law: dict[str, Any]
    certificate: _CertificateRecord | None
    notes: list[str]
    tolerance: float | None = None
    digest: str = ""
    earlier: tuple[Release, ...] | msgspec.UnsetType = msgspec.UNSET
    public: PublicColumns | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        """Raise ValueError for a cap whose e^η no arithmetic needs."""
        most = _MOST_CAP * len(self.attributes)
        for a in self.attributes:
            if a.conditional_cap is not None and not a.conditional_cap <= most:
                raise ValueError(
                    f"a conditional cap of {a.conditional_cap:g} nats is above {most:g}, the maximum for "
                    f"{len(self.attributes)} attributes; leave the cap out"
                )


_SEALED = Sealed(
    _DesignContent,
    FORMAT,
    "design file ",
    "is not a design",
    lambda written: f": {instead_of_design(written)}",
    refuse_specification,
)


def save_design(design: Design, path: str | Path) -> None:
    """Write a design file, whole or not at all."""
    with whole_file(Path(path)) as partial:
        partial.write_bytes(encoded_design(design))


def encoded_design(design: Design) -> bytes:
    """Encode a design file."""
    problem, solution = design.solution.problem, design.solution
    caps: list[float | None] = [None] * problem.m
    if problem.caps is not None:
        caps = [c if c <= _MOST_CAP * problem.m else None for c in problem.caps.tolist()]
    record = _DesignContent(
        format=FORMAT,
        software=SOFTWARE,
        method=solution.method,
        status=provable_status(solution),
        epsilon=design.epsilon,
        lower_bound=solution.lower,
        seconds=solution.seconds,
        attributes=[
            _DesignedAttribute(
                **declaration(a), requested_epsilon=r, epsilon=e, conditional_epsilon=c, conditional_cap=cap
            )
            for a, r, e, c, cap in zip(
                design.domain,
                problem.epsilons.tolist(),
                design.attribute_epsilons.tolist(),
                design.conditional_epsilons.tolist(),
                caps,
                strict=True,
            )
        ],
        pairs=list(problem.pairs),
        kappa=problem.kappa,
        law=record_of(solution.law),
        certificate=_certificate_record(solution.certificate),
        notes=list(solution.notes),
        tolerance=solution.tolerance,
        earlier=design.earlier or msgspec.UNSET,
        public=design.public or msgspec.UNSET,
    )
    record.digest = sha256_of(record)
    return encoded(record)


@dataclass(frozen=True, eq=False)
class DesignRecord:
    """Content of a design file.

    A design, the numbers it states by name, and whether the file is intact.
    """

    design: Design
    stated: dict[str, list[float]]
    intact: bool


def decoded_design(raw: bytes, source: Given) -> DesignRecord:
    """Decode a design file without checking it.

    :func:`load_design` recomputes its numbers.

    ``source`` is its place, for messages.

    Raises InvalidInput if it is malformed, or of an unknown version.
    """
    record = _SEALED.decoded(raw, source)
    digest, record.digest = record.digest, ""
    try:
        design = _design_of(record)
    except (ValueError, ArithmeticError) as error:
        raise InvalidInput(f"design file {source}: {in_one_line(error)}") from error
    stated = {
        "epsilon": [record.epsilon],
        "lower_bound": [record.lower_bound],
        "attribute_epsilons": [a.epsilon for a in record.attributes],
        "conditional_epsilons": [a.conditional_epsilon for a in record.attributes],
    }
    return DesignRecord(design, stated, digest == sha256_of(record))


def _checks_of(record: DesignRecord) -> Verification:
    made = record.design
    return Verification(tuple(checks(made, record.stated)), record.intact, made.digest, made.public)


DESIGNS = CheckedFiles(
    "design file",
    "optrr.core.design.design_file:DESIGNS.checked",
    decoded_design,
    _checks_of,
    lambda record: is_heavy(record.design.solution),
)


def load_design(path: Given, *, limited: bool = True) -> Design:
    """Read a design file and recompute every number in it; see :func:`optrr.load`."""
    return DESIGNS.loaded(path, limited=limited).design


def verify_design(path: Given, *, limited: bool = True) -> Verification:
    """Recompute every number of a design file (theory §3.4).

    From its noise distribution and certificate alone; see :func:`optrr.verify`.
    """
    return DESIGNS.verified(path, limited=limited)


def _design_of(record: _DesignContent) -> Design:
    domain = Domain(tuple(a.attribute() for a in record.attributes))
    caps = [np.inf if a.conditional_cap is None else a.conditional_cap for a in record.attributes]
    problem = Problem(
        domain.sizes,
        np.asarray([a.requested_epsilon for a in record.attributes]),
        pairs=tuple(record.pairs),
        kappa=record.kappa,
        caps=np.asarray(caps) if np.isfinite(caps).any() else None,
        names=domain.names,
    )
    certificate = None if record.certificate is None else _certificate_of(record.certificate)
    solution = Solution(
        problem=problem,
        method=record.method,
        law=law_of(record.law, domain.sizes),
        certificate=certificate,
        lower=record.lower_bound,
        status=record.status,
        seconds=record.seconds,
        notes=tuple(record.notes),
        tolerance=record.tolerance,
    )
    return Design(domain, solution, record.earlier or (), record.public or NONE)


def _certificate_record(c: Certificate | None) -> _CertificateRecord | None:
    if c is None:
        return None
    return _CertificateRecord(
        [[int(i) for i in members] for members in c.classes],
        [str(w) for w in c.weights],
        [(a, b, str(v)) for a, b, v in c.pairs],
        [(cell, g, up, str(v)) for cell, g, up, v in c.caps],
        [str(b) for b in c.effects],
        str(c.unit),
    )


def _certificate_of(r: _CertificateRecord) -> Certificate:
    return Certificate(
        tuple(tuple(members) for members in r.classes),
        tuple(int(w) for w in r.weights),
        tuple((a, b, int(v)) for a, b, v in r.pairs),
        tuple((cell, g, up, int(v)) for cell, g, up, v in r.caps),
        tuple(int(b) for b in r.effects),
        int(r.unit),
    )


def recomputed_design(design: Design) -> Verification:
    """Recompute every number from the noise distribution and certificate alone."""
    return Verification(tuple(checks(design)))


def checks(design: Design, stated: Mapping[str, Sequence[float]] | None = None) -> list[Check]:
    """Check a design against the numbers ``stated``, by default its own."""
    claims = stated or {
        "epsilon": [design.epsilon],
        "lower_bound": [design.lower_bound],
        "attribute_epsilons": design.attribute_epsilons.tolist(),
        "conditional_epsilons": design.conditional_epsilons.tolist(),
    }
    with np.errstate(divide="ignore"):
        # probabilities too small for a double make numbers infinite, and those are refused
        return [
            _total(design, claims["epsilon"][0]),
            _lower(design, claims["lower_bound"][0]),
            _attributes(design, np.asarray(claims["attribute_epsilons"])),
            _conditional(design, np.asarray(claims["conditional_epsilons"])),
            _requirements(design),
            _optimality(
                design,
                claims["lower_bound"][0],
                design.solution.status if stated else provable_status(design.solution),
            ),
        ]


def provable_status(solution: Solution) -> Status:
    """Return the status that a file may state.

    "bracketed" if a requested gap is wider than "optimal" means.
    """
    asked = solution.tolerance is not None and solution.gap <= solution.tolerance
    wide = not solution.gap <= OPTIMAL_GAP * max(1.0, solution.upper)
    return Status.BRACKETED if solution.status is Status.OPTIMAL and asked and wide else solution.status


def _total(design: Design, stated: float) -> Check:
    exact = design.law.epsilon_ceiling()
    value = drawn_epsilon(design.law, design.law.epsilon if exact is None else exact)
    # a stated ε above the recomputed total by more than rounding is wrong, too
    holds = value <= stated <= value + SAME * (1 + value)
    return Check("total epsilon", repr(stated), repr(value), "rounded up" if exact is None else "exact", bool(holds))


def _lower(design: Design, stated: float) -> Check:
    solution, epsilon = design.solution, design.epsilon
    certificate = solution.certificate
    exact = certificate is not None and not certificate.effects and certificate.cells <= EXACT_CELLS
    how = "exact rationals" if exact else "KL bound" if certificate is None else "outward error bounds"
    try:
        value = lower_bound(solution.problem, certificate)
    except (ValueError, ArithmeticError, IndexError, MemoryError) as error:
        return Check("lower bound", repr(stated), str(error) or type(error).__name__, how, holds=False)
    # a law that misses its accuracies by rounding may undercut the bound by as much; its file then states its total
    value, exact = (epsilon, False) if value > epsilon else (value, exact)
    holds = stated == value if exact else _within(stated, value, below=SAME, above=LAST_PLACES)
    return Check("lower bound", repr(stated), repr(value), how, bool(holds))


def _attributes(design: Design, stated: FloatArray) -> Check:
    bounds = design.law.attribute_epsilon_bounds()
    value = design.attribute_epsilons
    how = "doubles" if bounds is None else "exact rationals"
    # accuracies may differ between machines: sums over very many attributes add up more than the last places
    rounding = SAME if design.law.automaton is None else LAST_PLACES
    holds = stated.shape == value.shape and np.all(_within(stated, value, below=SAME, above=rounding))
    if holds and bounds is not None:
        slack = SAME * (1 + np.abs(value))
        holds = np.all((stated >= bounds[0] - slack) & (stated <= bounds[1] + slack))
    return Check("attribute epsilons", ends_text(stated), ends_text(value), how, bool(holds))


def _conditional(design: Design, stated: FloatArray) -> Check:
    value = design.conditional_epsilons
    below = 0.0 if design.law.kind in _STORED else LAST_PLACES
    holds = stated.shape == value.shape and np.all(_within(stated, value, below=below, above=SAME))
    return Check(
        "conditional epsilons",
        ends_text(stated),
        ends_text(value),
        "from the noise distribution, rounded up",
        bool(holds),
    )


def _within(stated: Any, value: Any, *, below: float, above: float) -> Any:
    """Check that a number is within relative tolerances of another.

    Relative to 1 + its size; False if it is not finite.
    """
    scale = 1 + np.abs(value)
    with np.errstate(invalid="ignore"):
        return np.isfinite(value) & (stated >= value - below * scale) & (stated <= value + above * scale)


def _requirements(design: Design) -> Check:
    if design.solution.status is Status.BASELINE:
        short = float(shortfalls(design.solution.problem, design.law).max())
        value = "met" if short == 0 else f"{short:.3g} nats short"
        return Check("requested accuracies", "baseline", value, "not claimed", holds=True)
    try:
        require(design.solution.problem, design.method, design.law)
    except SolveFailed as error:
        return Check("requested accuracies", "met", str(error), "from the noise distribution", holds=False)
    short = float(np.max(design.requested_epsilons - design.attribute_epsilons))
    most = float(np.max(LAST_PLACES * (1 + design.requested_epsilons)))
    # of a design without an automaton, whose accuracies as drawn are stated beside, only what is felt
    said = short > (FELT if design.law.automaton is None else most)
    value = f"met; {short:.2g} nats below, as sampled with rounded probabilities" if said else "met"
    return Check("requested accuracies", "met", value, "from the noise distribution", holds=True)


def _optimality(design: Design, lower: float, status: Status) -> Check:
    """Check the status against the total and the stated lower bound.

    The lower bound is checked separately.
    """
    solution, how = design.solution, "from both bounds"
    if status is not Status.OPTIMAL:
        return Check("optimality", str(status), str(status), "not claimed", holds=True)
    gap = design.epsilon - lower
    if solution.tolerance is None:
        return Check("optimality", "no tolerance", f"gap of {gap:.3g}", how, holds=False)
    # the file's own tolerance may be narrower than what "optimal" means, never wider
    most = min(solution.tolerance, OPTIMAL_GAP * max(1.0, design.epsilon))
    # a bound recomputed on another machine may differ in the last places
    holds = gap <= most + SAME * (1 + design.epsilon)
    return Check("optimality", f"gap of at most {most:g}", f"{max(gap, 0.0):.3g}", how, bool(holds))


def ends_text(values: FloatArray) -> str:
    """Format the smallest and the largest number."""
    return f"{values.min():.9g}..{values.max():.9g}"
