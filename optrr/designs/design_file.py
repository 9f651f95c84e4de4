"""Design files: versioned JSON that carries everything needed to perturb, estimate and re-check (design §5.2).

One JSON object: ``format``, ``software``, ``method``, ``status``, ``epsilon``, ``lower_bound``, ``seconds``,
``attributes`` (what :mod:`optrr.domain.domain` writes of one, requested_epsilon, epsilon, conditional_epsilon,
conditional_cap), ``pairs`` and ``kappa`` (what was to be preserved), ``law`` (``kind`` and the numbers of that kind; each
law writes and reads its own, see :mod:`optrr_solvers.laws.record`), ``certificate``, ``notes``, ``tolerance``,
``digest``, ``earlier`` where the design follows other releases of the same people, and ``public`` where columns that are not
randomized stand beside the attributes (:mod:`optrr.domain.public`). The ε are labels of what is drawn
(:class:`optrr_solvers.laws.base.Labels`).

Doubles are written in the shortest form that reads back to the same bits; certificate integers, which may have hundreds
of bits, as decimal text. A digest over the whole content catches edits by hand; whoever recomputes the digest still has
to pass :func:`verify_design`, which trusts no number in the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from optrr.designs.apart import CheckedFiles
from optrr.designs.checks import Verification, checks, provable_status
from optrr.designs.design import Design
from optrr.designs.specification import refuse_specification
from optrr.designs.work import is_heavy
from optrr.domain.domain import DeclaredAttribute, Domain, declaration
from optrr.domain.public import NONE, PublicColumns, PublicRecord
from optrr.errors import InvalidInput, in_one_line
from optrr.records.whole_files import whole_file
from optrr.releases.account import Release, ReleaseRecord
from optrr.releases.sealed import (
    DEPLOYMENT,
    LONGITUDINAL,
    SAMPLED_TABLES,
    SAMPLED_VARIANTS,
    Given,
    Sealed,
    encoded,
    sha256_of,
)
from optrr.show.version import SOFTWARE
from optrr_solvers import Certificate, Problem, Solution, Status
from optrr_solvers.laws.record import law_of, record_of

FORMAT = "optrr-design/1"
# Kinds of other files of ours that may be given for a design, and what to do then.
_OTHERS = {
    LONGITUDINAL: "give it to the longitudinal- commands",
    DEPLOYMENT: "it is a deployment file; give the design that it was exported from",
    SAMPLED_TABLES: "people answer one question each, which perturb, estimate, measure, test, model, export and verify take; "
    "this needs a design of whole records (optrr allocate --way optimum)",
    SAMPLED_VARIANTS: "people answer about a few variants each, which gwas-perturb, gwas and verify take; this needs a design "
    "of whole records (optrr gwas-design)",
}
# No law that a file may hold has more nats than this for each attribute, so that higher caps limit nothing.
_MOST_CAP = 500.0

__all__ = ["FORMAT", "DesignRecord", "decoded_design", "load_design", "save_design", "verify_design"]


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
    earlier: list[ReleaseRecord] | msgspec.UnsetType = msgspec.UNSET
    public: PublicRecord | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        """Raise ValueError for a cap whose e^η no arithmetic needs."""
        most = _MOST_CAP * len(self.attributes)
        for a in self.attributes:
            if a.conditional_cap is not None and not a.conditional_cap <= most:
                raise ValueError(
                    f"a conditional cap is {a.conditional_cap:g} nats, and no law of {len(self.attributes)} attributes has "
                    f"more than {most:g}; leave it out"
                )


_SEALED = Sealed(
    _DesignContent,
    FORMAT,
    "design file ",
    "is not a design",
    lambda written: f": {_OTHERS.get(written.partition('/')[0], 'design again')}",
    refuse_specification,
)


def save_design(design: Design, path: str | Path) -> None:
    """Write a design file, whole or not at all."""
    with whole_file(Path(path)) as partial:
        partial.write_bytes(encoded_design(design))


def encoded_design(design: Design) -> bytes:
    """The content of a design file."""
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
        earlier=[r.to_record() for r in design.earlier] or msgspec.UNSET,
        public=design.public.record(),
    )
    record.digest = sha256_of(record)
    return encoded(record)


@dataclass(frozen=True, eq=False)
class DesignRecord:
    """What a design file holds: domain and solution, the numbers it states, and whether it is as it was written."""

    domain: Domain
    solution: Solution
    stated: dict[str, list[float]]
    intact: bool
    earlier: tuple[Release, ...] = ()
    public: PublicColumns = NONE


def decoded_design(raw: bytes, source: Given) -> DesignRecord:
    """What the content of a design file holds, unchecked: :func:`load_design` recomputes its numbers.

    ``source`` is where it stands, for messages.

    Raises
    ------
    InvalidInput
        where it is malformed, or of an unknown version.
    """
    record = _SEALED.decoded(raw, source)
    digest, record.digest = record.digest, ""
    try:
        domain, solution = _contents(record)
        earlier = () if record.earlier is msgspec.UNSET else tuple(map(Release.from_record, record.earlier))
        public = PublicColumns.of_record(record.public).apart_from(domain)
    except (ValueError, ArithmeticError) as error:
        raise InvalidInput(f"design file {source}: {in_one_line(error)}") from error
    return DesignRecord(domain, solution, stated_numbers(record), digest == sha256_of(record), earlier, public)


def _checks_of(record: DesignRecord) -> Verification:
    made = Design(record.domain, record.solution)
    return Verification(tuple(checks(made, record.stated)), record.intact, made.digest, record.public)


DESIGNS = CheckedFiles(
    "design file",
    "optrr.designs.design_file:DESIGNS.checked",
    decoded_design,
    _checks_of,
    lambda record: is_heavy(record.solution),
)


def load_design(path: Given, *, limited: bool = True) -> Design:
    """Read a design file and recompute every number in it; see :func:`optrr.load`."""
    record = DESIGNS.loaded(path, limited=limited)
    return Design(record.domain, record.solution, record.earlier, record.public)


def verify_design(path: Given, *, limited: bool = True) -> Verification:
    """Recompute every number of a design file from its law and certificate alone (design §3.4); see :func:`optrr.verify`."""
    return DESIGNS.verified(path, limited=limited)


def stated_numbers(record: _DesignContent) -> dict[str, list[float]]:
    """The claims of a file, by name."""
    return {
        "epsilon": [record.epsilon],
        "lower_bound": [record.lower_bound],
        "attribute_epsilons": [a.epsilon for a in record.attributes],
        "conditional_epsilons": [a.conditional_epsilon for a in record.attributes],
    }


def _contents(record: _DesignContent) -> tuple[Domain, Solution]:
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
    return domain, solution


def _certificate_record(c: Certificate | None) -> _CertificateRecord | None:
    if c is None:
        return None
    return _CertificateRecord(
        [list(members) for members in c.classes],
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
