"""Every file of ours that holds a way of asking: written whole, read with its numbers recomputed, verified.

A file says what it is: a design, a longitudinal design, sampled tables or variants, or a deployment. Each kind's own module
knows its content (:mod:`optrr.core.design.design_file`, :mod:`optrr.longitudinal.design`,
:mod:`optrr.allocation.sampled_tables`, :mod:`optrr.genomics.sampled_variants`, :mod:`optrr.devices.verify`); the
artefacts themselves know nothing of files.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, overload

from optrr.allocation.sampled_tables import (
    SampledTables,
    load_sampled_tables,
    save_sampled_tables,
    verify_sampled_tables,
)
from optrr.allocation.sampled_uses import export_questions, questions_of
from optrr.core.design.design import Asking, Design
from optrr.core.design.design_file import load_design, save_design, verification, verify_design
from optrr.core.design.verification import Verification
from optrr.core.errors import InvalidInput
from optrr.core.provenance.sealed import (
    DEPLOYMENT,
    LONGITUDINAL,
    SAMPLED_TABLES,
    SAMPLED_VARIANTS,
    Given,
    content_of,
    kind_of,
)
from optrr.core.reports import Reports
from optrr.devices.deployment_file import Deployed, DeployedQuestions, DeploymentFile, save_deployment
from optrr.devices.export import DEFAULT_SIZE, Fitted, fitted_deployment, save_fitted
from optrr.devices.verify import load_deployment, verify_deployment
from optrr.genomics.sampled_variants import (
    SampledVariants,
    load_sampled_variants,
    save_sampled_variants,
    verify_sampled_variants,
)
from optrr.longitudinal.design import LongitudinalDesign, load_longitudinal, save_longitudinal, verify_longitudinal

__all__ = ["export", "load", "reports", "save", "verify"]

_WRITERS: tuple[tuple[type, Callable[[Any, str | Path], object]], ...] = (
    (Design, save_design),
    (LongitudinalDesign, save_longitudinal),
    (SampledTables, save_sampled_tables),
    (SampledVariants, save_sampled_variants),
    (DeploymentFile, save_deployment),
    (Fitted, save_fitted),
)
# What a file of ours may hold.
Saved: TypeAlias = Design | LongitudinalDesign | SampledTables | SampledVariants | Deployed


def save(made: Asking | LongitudinalDesign | SampledVariants | DeploymentFile | Fitted, path: str | Path) -> None:
    """Write the file that both sides work from, whole or not at all; it carries everything that :func:`load` needs.

    An export's :class:`optrr.devices.export.Fitted` is written with the design that its reports are estimated with,
    where that was made anew.

    Raises
    ------
    InvalidInput
        for a way of asking that is for studies and has no file.
    """
    for kind, write in _WRITERS:
        if isinstance(made, kind):
            write(made, path)
            return
    name = made.name if isinstance(made, Asking) else type(made).__name__
    raise InvalidInput(f"{name} is for studies and has no file; save a design or sampled tables")


@overload
def export(design: Design, path: str | Path, size: int = DEFAULT_SIZE) -> Fitted: ...
@overload
def export(design: SampledTables, path: str | Path, size: int = DEFAULT_SIZE) -> DeployedQuestions: ...
def export(design: Design | SampledTables, path: str | Path, size: int = DEFAULT_SIZE) -> Fitted | DeployedQuestions:
    """Write the deployment file of a design, or of sampled tables: what a device needs to answer for one person.

    Where a design's own mechanism is too large, another takes its place
    (:func:`optrr.devices.export.fitted_deployment`). The design to estimate with is then another one, which is
    written beside the file and returned.

    Parameters
    ----------
    size
        most bytes of the file, compressed.

    Raises
    ------
    InvalidInput
        where nothing fits, or a file of another design would be written over.
    """
    if isinstance(design, SampledTables):
        return export_questions(design, path, size)
    if not isinstance(design, Design):
        raise InvalidInput(f"a {type(design).__name__} has no deployment file; give a design or sampled tables")
    fitted = fitted_deployment(design, size)
    save_fitted(fitted, path)
    return fitted


def load(path: Given, *, limited: bool = True) -> Saved:
    """What a file of ours holds, whatever its kind, with every number in it recomputed.

    Parameters
    ----------
    limited
        refuse a file whose checks take longer, or more memory, than :class:`optrr.core.design.verification.Limits` allows to a
        file of its size.

    Raises
    ------
    InvalidInput
        where the file is missing, malformed, of an unknown version, edited, or states a number that does not hold.
    """
    held = content_of(path, "design file")
    kind = kind_of(held)
    if kind == LONGITUDINAL:
        return load_longitudinal(held, limited=limited)
    if kind == DEPLOYMENT:
        return load_deployment(held, limited=limited)
    if kind == SAMPLED_VARIANTS:
        return load_sampled_variants(held)
    return load_sampled_tables(held) if kind == SAMPLED_TABLES else load_design(held, limited=limited)


def verify(made: Design | Given, design: Given | None = None, *, limited: bool = True) -> Verification:
    """Recompute every number of a design, or of a file of ours, from its law and certificate alone (design §3.4).

    Parameters
    ----------
    design
        of a deployment file: the file of the design, or of the sampled tables, that it should belong to.
    limited
        refuse a file of more than 64 MB, and one whose checks take longer, or more memory, than
        :class:`optrr.core.design.verification.Limits` allows to a file of its size.

    Raises
    ------
    InvalidInput
        where a file cannot be read as what it should be, or its checks take too long; a number that does not hold is in the
        result.
    """
    if isinstance(made, Design):
        return verification(made)
    kind = kind_of(made)
    if kind == DEPLOYMENT:
        if design is not None and kind_of(design) == SAMPLED_TABLES:
            return verify_deployment(made, questions_of(load_sampled_tables(design)), limited=limited)
        return verify_deployment(made, design, limited=limited)
    if design is not None:
        raise InvalidInput(f"{made} is no deployment file; --design is for files from optrr export")
    if kind == SAMPLED_TABLES:
        return verify_sampled_tables(made)
    if kind == SAMPLED_VARIANTS:
        return verify_sampled_variants(made)
    verified = verify_longitudinal if kind == LONGITUDINAL else verify_design
    return verified(made, limited=limited)


def reports(data: Any, design: Asking | Given) -> Reports:
    """Records or answers, opened once, bound to what they were asked by, or its file; every analysis starts from them.

    Parameters
    ----------
    data
        what :func:`optrr.count` takes: a file, several, a frame, or a table of a database.

    Raises
    ------
    InvalidInput
        as :func:`load`; and, as soon as something is asked of them, where the records were randomized by another design, twice,
        or not at all.
    """
    made = design if isinstance(design, Asking) else load(design)
    if not isinstance(made, Asking):
        raise InvalidInput(
            f"{design} is read by commands of its own, not by tables; give a design file, or one of sampled tables"
        )
    return made.reports(data)
