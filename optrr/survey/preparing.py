"""What a survey serves: a design with its deployment file and the texts of its page, from a specification or a design file.

A design is one of whole records, or sampled tables, of which everybody answers one.
"""

import os
import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from optrr.allocation.sampled_tables import SampledTables, load_sampled_tables
from optrr.allocation.sampled_uses import questions_of
from optrr.core.design import FORMAT as DESIGN_FORMAT
from optrr.core.design import (
    Design,
    Specification,
    Wording,
    design,
    load_design,
    read_specification,
    save_design,
)
from optrr.core.errors import InvalidInput
from optrr.core.provenance import (
    SAMPLED_TABLES,
    Content,
    Given,
    Provenance,
    Release,
    content_of,
    format_of,
    instead_of_design,
    kind_of,
)
from optrr.devices.deployment_file import Deployed, digest_of
from optrr.devices.export import Fitted, compressed_size, fitted_deployment
from optrr.survey.store import SurveyFiles
from optrr_solvers import SolveOptions

# Bytes of the deployment file that a page fetches, compressed: as much as a picture. A larger mechanism is solved again.
_MOST_BYTES = 1 << 18


@dataclass(frozen=True, eq=False)
class Survey:
    """A design with its file, the page's texts, the deployment file and warnings."""

    design: Design | SampledTables
    design_file: Content
    wording: Wording
    deployment: Deployed
    warnings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The survey's title for people."""
        return self.wording.title or "Survey"

    @cached_property
    def files(self) -> SurveyFiles:
        """What the database keeps beside the reports."""
        # each person draws at home from their own randomness, once
        released = Provenance(Release.drawn(self.design))
        return SurveyFiles(
            self.deployment.design,
            self.asked,
            self.design_file.raw,
            self.deployment.to_bytes(),
            released.to_json(),
        )

    @cached_property
    def asked(self) -> str:
        """Digest of the title and of all questions and answer labels, in order.

        The title counts because it may be all that says what questions without a text of their own are about. Who asks, the
        introduction and the language do not: they can be corrected while a survey runs.
        """
        questions = [
            {"question": self.wording.questions.get(a.name, a.name), "labels": list(a.texts)}
            for a in self.deployment.domain
        ]
        return digest_of({"title": self.wording.title, "questions": questions, **self._boxes})

    @property
    def wording_json(self) -> bytes:
        """Texts for the page as JSON, with their digest; missing ones are left out."""
        return msgspec.json.encode({**msgspec.to_builtins(self.wording), **self._boxes, "digest": self.asked})

    @property
    def _boxes(self) -> dict[str, dict[str, list[str]]]:
        """Column and option of each attribute that is a check box of one question, if there are any.

        A box that is not ticked says no, so an option with a missing value is a question of its own.
        """
        chosen = {a.name: a.multi_select for a in self.design.domain if a.size == 2}
        options = {name: [each.column, each.option] for name, each in chosen.items() if each is not None}
        return {"options": options} if options else {}


def prepared(
    path: Given,
    wording_from: Path | None = None,
    options: SolveOptions = SolveOptions(),
) -> Survey:
    """Prepare the survey of a specification, design file or sampled tables.

    A specification is designed, on a grid so coarse that a page can fetch the mechanism, and the design saved beside it as
    ``NAME.design.json``; where that file is there already, it is served, so that a survey that is started again goes on with
    its design. ``wording_from`` is a specification whose texts are shown with a file; ``options`` are the solver's;

    Raises InvalidInput where the file is neither, the saved design is another specification's, or no device could draw from it.
    SolveFailed where no design is reached.
    """
    path = content_of(path, "specification or design")
    sampled = kind_of(path) == SAMPLED_TABLES
    if sampled or _is_design(path):
        if sampled:
            return _asking(path, wording_from)
        kept, fitted = path, _unchanged(fitted_deployment(load_design(path), _MOST_BYTES), path)
        wording = Wording() if wording_from is None else _wording_for(fitted.design, wording_from)
        public = fitted.design.public
    else:
        if wording_from is not None:
            raise InvalidInput(
                f"``wording`` {wording_from} is for a design, and {path} is a specification with texts of its own; leave it out"
            )
        wanted = read_specification(path)
        wording, public = wanted.wording, wanted.public
        kept, fitted = _designed(wanted, path.path, options)
    return Survey(fitted.design, kept, wording, fitted.deployment, tuple(public.left_out("a survey's page")))


def _asking(held: Content, wording_from: Path | None) -> Survey:
    asking = load_sampled_tables(held)
    deployed = questions_of(asking)
    if (size := compressed_size(deployed)) > _MOST_BYTES:
        raise InvalidInput(
            f"the {len(deployed.questions)} questions of {held} take {size} compressed bytes, too many for a page "
            f"({_MOST_BYTES}); ask about fewer tables"
        )
    wording = Wording() if wording_from is None else _wording_for(asking, wording_from)
    return Survey(asking, held, wording, deployed)


def _is_design(held: Content) -> bool:
    if held.path.suffix.lower() != ".json":
        return False
    # whoever reads what states none as a specification says what is wrong
    form = format_of(held.raw)
    if form and form != DESIGN_FORMAT:
        raise InvalidInput(f"{held} has format {form!r}: {instead_of_design(form)}")
    return bool(form)


def _designed(wanted: Specification, path: Path, options: SolveOptions) -> tuple[Content, Fitted]:
    """Make or load the design, and return the content to serve with its file."""
    file = path.with_name(f"{path.stem}.design.json")
    epsilons = wanted.required_epsilons()
    if not file.exists():
        made = design(wanted.domain, epsilons, options=options)
        _save_first(fitted_deployment(made, _MOST_BYTES).design, file)
    saved = content_of(file, "design file")
    kept = load_design(saved)
    if kept.domain != wanted.domain or not np.array_equal(kept.requested_epsilons, epsilons):
        raise InvalidInput(
            f"{file} is the design of another specification than {path}; serve {file} itself, or move it away to design again"
        )
    return saved, _unchanged(fitted_deployment(kept, _MOST_BYTES), saved)


def _save_first(made: Design, file: Path) -> None:
    """Save a design unless the file exists.

    Of collectors that start at the same time, all continue with the design saved first.
    """
    own = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        save_design(made, own)
        # unlike a move, a link fails where its name is taken
        os.link(own, file)
    except FileExistsError:
        return
    except InvalidInput as error:
        # the message names the file that people know, not the one beside it
        raise InvalidInput(str(error).replace(own.name, file.name)) from error
    except OSError:  # some file systems know no links
        if not file.exists():
            save_design(made, file)
    finally:
        own.unlink(missing_ok=True)


def _unchanged(fitted: Fitted, file: Given) -> Fitted:
    """Return the deployment of exactly this design.

    Estimates must use the mechanism that drew the reports.
    """
    if fitted.anew:
        raise InvalidInput(
            f"the mechanism of {file} is too large for a page; `optrr export {file} -o sampler.json` "
            "writes a smaller design beside sampler.json: serve that"
        )
    return fitted


def _wording_for(chosen: Design | SampledTables, path: Path) -> Wording:
    wanted = read_specification(path)
    if wanted.domain != chosen.domain:
        raise InvalidInput(
            f"specification {path} has other attributes or categories than the design; give the design's own"
        )
    return wanted.wording
