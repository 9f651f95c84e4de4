"""What is served: a design with its deployment file and the texts of its page, from a specification or a design file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from optrr.deployment.deployment_file import Deployment
from optrr.deployment.export import deployment_of
from optrr.designing.design import Design
from optrr.designing.design_file import FORMAT as DESIGN_FORMAT
from optrr.designing.solving import design
from optrr.designing.specification import Specification, Wording, read_specification
from optrr.errors import InvalidInput
from optrr.records.provenance import Provenance, Release
from optrr.survey.database import SurveyFiles


class _Named(msgspec.Struct):
    format: str = ""


@dataclass(frozen=True, eq=False)
class Survey:
    """A design, the bytes of its file, what its page says, and the deployment file that the page draws with."""

    design: Design
    design_file: Path
    wording: Wording
    deployment: Deployment

    @property
    def title(self) -> str:
        """The survey's title for people."""
        return self.wording.title or "Survey"

    @cached_property
    def files(self) -> SurveyFiles:
        """What the database keeps beside the reports."""
        mechanism = self.design.mechanism
        # each person draws at home from their own randomness, once
        released = Provenance((Release.drawn(mechanism.digest, mechanism.epsilon, seeded=False),))
        return SurveyFiles(
            self.deployment.design, self.design_file.read_bytes(), self.deployment.to_bytes(), released.to_json()
        )

    @property
    def wording_json(self) -> bytes:
        """The texts as the page reads them; those that are not given are left out."""
        return msgspec.json.encode(self.wording)


def prepared(path: Path, wording_from: Path | None = None) -> Survey:
    """The survey of a specification or a design file.

    A specification is designed, and the design saved beside it as ``NAME.design.json``; where that file is there already, it
    is served, so that a survey that is started again goes on with its design. ``wording_from`` is a specification whose texts
    are shown with a design file.

    Raises
    ------
    InvalidInput
        where the file is neither, the saved design is another specification's, or no device could draw from it. SolveFailed
        where no design is reached.
    """
    if _is_design(path):
        chosen, file = Design.load(path), path
        wording = Wording() if wording_from is None else _wording_for(chosen, wording_from)
    else:
        if wording_from is not None:
            raise InvalidInput(
                f"{path} is a specification and has texts of its own; leave out --wording {wording_from}"
            )
        wanted = read_specification(path)
        file = path.with_name(f"{path.stem}.design.json")
        chosen, wording = _designed(wanted, path, file), wanted.wording
    return Survey(chosen, file, wording, deployment_of(chosen.mechanism))


def _is_design(path: Path) -> bool:
    if path.suffix.lower() != ".json":
        return False
    try:
        form = msgspec.json.decode(path.read_bytes(), type=_Named).format
    except (OSError, msgspec.DecodeError, RecursionError):
        return False  # whoever reads it as a specification says what is wrong
    if form and form != DESIGN_FORMAT:
        raise InvalidInput(f"{path} has format {form!r}; serve a specification or a design of {DESIGN_FORMAT!r}")
    return bool(form)


def _designed(wanted: Specification, path: Path, file: Path) -> Design:
    epsilons = wanted.required_epsilons()
    if not file.exists():
        made = design(wanted.domain, epsilons)
        made.save(file)
        return Design.load(file)
    kept = Design.load(file)
    if kept.domain != wanted.domain or not np.array_equal(kept.requested_epsilons, epsilons):
        raise InvalidInput(
            f"{file} is the design of another specification than {path}; serve {file} itself, or move it away to design again"
        )
    return kept


def _wording_for(chosen: Design, path: Path) -> Wording:
    wanted = read_specification(path)
    if wanted.domain != chosen.domain:
        raise InvalidInput(
            f"specification {path} has other attributes or categories than the design; give the design's own"
        )
    return wanted.wording
