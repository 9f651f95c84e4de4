"""Prepare a survey: a design with its deployment file and the texts of its page, from a specification or a design file.

The design randomizes whole records, or consists of sampled tables, of which each respondent answers one.
"""

import math
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from optrr.allocation.sampled_tables import SampledTables, load_sampled_tables
from optrr.allocation.sampled_uses import questions_of
from optrr.core.design import FORMAT as DESIGN_FORMAT
from optrr.core.design import (
    Branch,
    Design,
    Specification,
    Wording,
    design,
    load_design,
    read_specification,
    save_design,
)
from optrr.core.display import ENGLISH
from optrr.core.domain import NONE, listed
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
from optrr.devices.export import compressed_size, fitted_deployment
from optrr.survey.store import SurveyFiles
from optrr.survey.words import words_of
from optrr_solvers import SolveOptions

# Maximum compressed bytes of a page's deployment file, as many as a picture has. A larger mechanism is solved again.
_MOST_BYTES = 1 << 18


@dataclass(frozen=True, eq=False)
class Survey:
    """A design with its file, the page's texts, the deployment file, warnings, conditions of questions, and settings."""

    design: Design | SampledTables
    design_file: Content
    wording: Wording
    deployment: Deployed
    warnings: tuple[str, ...] = ()
    branches: Mapping[str, Branch] = field(default_factory=dict)
    kiosk: bool = False

    @property
    def title(self) -> str:
        """The survey's title for people."""
        return str(self.wording.text(self.wording.title)[0] or "Survey")

    @cached_property
    def files(self) -> SurveyFiles:
        """Files that the database keeps in addition to the reports."""
        # each person's device draws once, from its own randomness
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
        """Digest of the title, all questions, answers and conditions, in order and in all languages.

        The title counts, because questions without texts may depend on it. The data collector, the introduction, the
        thanks and the language do not count, so that they can be corrected during a survey.
        """
        questions, labels = self.wording.questions, self.wording.labels
        each = [
            {"question": questions.get(a.name, a.name), "labels": labels.get(a.name), "categories": list(a.texts)}
            for a in self.deployment.domain
        ]
        columns = {"columns": self.wording.columns} if self.wording.columns else {}
        return digest_of({"title": self.wording.title, "questions": each, **columns, **self._form})

    def page_json(self, invitations: Mapping[str, str | int] | None = None) -> bytes:
        """Return the page's texts, with their digest, and its settings as JSON; missing texts are left out."""
        languages = self.wording.languages
        texts = {language: self.wording.given(language) for language in languages}
        settings = {"kiosk": self.kiosk, "invitations": invitations, **self._form}
        return msgspec.json.encode({"digest": self.asked, "languages": languages, "texts": texts, **settings})

    @property
    def _form(self) -> dict[str, Any]:
        """Attributes with check boxes, with numbers and with conditions, each only if there are any.

        An empty box means no, so an option with a missing value becomes a separate question.
        """
        domain = self.design.domain
        boxes = {a.name: list(a.multi_select[::2]) for a in domain if a.multi_select is not None and a.size == 2}
        # dates are a choice of bins
        bins = {a.name: a.bins for a in domain if a.bins is not None and not a.bins.of_dates}
        numbers = {
            name: {"edges": [None if e in (-math.inf, math.inf) else e for e in each.edges], "closed": each.closed}
            for name, each in bins.items()
        }
        parts = {"boxes": boxes, "numbers": numbers, "branches": msgspec.to_builtins(dict(self.branches))}
        return {key: part for key, part in parts.items() if part}

    def unworded(self) -> list[str]:
        """List warnings about missing texts, and about catalogues that nobody has read."""
        wording, form = self.wording, self._form
        names, boxes = self.deployment.domain.names, form.get("boxes", {})
        out = list[str]()
        bare = [name for name in names if name not in wording.questions and name not in boxes]
        bare += [column for column in dict.fromkeys(box[0] for box in boxes.values()) if column not in wording.columns]
        if bare:
            out.append(
                f"respondents read the names of attributes in place of questions; give a question to {listed(bare)}"
            )
        labelled = [name for name in names if name not in boxes and name not in form.get("numbers", {})]
        for language in wording.languages[len(wording.languages) == 1 :]:
            if lack := wording.lacking(language, labelled):
                out.append(f"respondents who read {language} find other texts there; add {', '.join(lack)}")
        if drafts := [name for name in wording.languages if not words_of(name).reviewed]:
            unread = "machine drafts that no speaker has reviewed; let one read the page before the survey begins"
            out.append(f"the page's own sentences in {', '.join(drafts)} are {unread}")
        if lost := [name for name in wording.languages if words_of(name) is ENGLISH and name.partition("-")[0] != "en"]:
            out.append(f"the page's own sentences are English, because there is no catalogue of {', '.join(lost)}")
        return out


def prepared(path: Given, wording_from: Path | None = None, options: SolveOptions = SolveOptions()) -> Survey:
    """Prepare the survey of a specification, design file or sampled tables.

    For a specification, a design is made on a grid that is coarse enough for a page, and saved as ``NAME.design.json``
    in the same folder. If that file exists, it is served, so that a restarted survey keeps its design. ``wording_from``
    is a specification whose texts are shown with a file; ``options`` are the solver's.

    Raises InvalidInput if the file has none of these formats, if the saved design belongs to another specification, or
    if no device could draw from it; SolveFailed if no design is found.
    """
    kept = content_of(path, "specification or design")
    chosen: Design | SampledTables
    deployed: Deployed
    if kind_of(kept) == SAMPLED_TABLES:
        chosen = load_sampled_tables(kept)
        deployed = questions_of(chosen)
        if (size := compressed_size(deployed)) > _MOST_BYTES:
            raise InvalidInput(
                f"{kept}: its {len(deployed.questions)} questions take {size} compressed bytes, more than a page can "
                f"load ({_MOST_BYTES}); ask about fewer tables"
            )
        wanted = _texts_for(chosen, wording_from)
    elif _is_design(kept):
        chosen, deployed = _unchanged(load_design(kept), kept)
        wanted = _texts_for(chosen, wording_from)
    elif wording_from is not None:
        raise InvalidInput(
            f"``wording`` {wording_from}: excluded by the specification {kept}, which has its own texts; leave it out"
        )
    else:
        wanted = read_specification(kept)
        kept, chosen, deployed = _designed(wanted, kept.path, options)
    public = getattr(chosen, "public", NONE) or (wanted.public if wanted else NONE)
    wording, branches = (wanted.wording, wanted.branches) if wanted else (Wording(), {})
    return Survey(chosen, kept, wording, deployed, tuple(public.left_out("a survey's page")), branches)


def _is_design(held: Content) -> bool:
    if held.path.suffix.lower() != ".json":
        return False
    # a file without a format is read as a specification, whose reader explains the error
    form = format_of(held.raw)
    if form and form != DESIGN_FORMAT:
        raise InvalidInput(f"{held} has format {form!r}: {instead_of_design(form)}")
    return bool(form)


def _designed(wanted: Specification, path: Path, options: SolveOptions) -> tuple[Content, Design, Deployed]:
    """Make or load the design, and return its file with it."""
    file = path.with_name(f"{path.stem}.design.json")
    epsilons = wanted.required_epsilons()
    if not file.exists():
        made = design(wanted.domain, epsilons, options=options)
        _save_first(fitted_deployment(made, _MOST_BYTES).design, file)
    saved = content_of(file, "design file")
    kept = load_design(saved)
    if kept.domain != wanted.domain or not np.array_equal(kept.requested_epsilons, epsilons):
        raise InvalidInput(
            f"{file}: belongs to another specification than {path}; serve {file} itself, or move it away to make a "
            "new design"
        )
    return saved, *_unchanged(kept, saved)


def _save_first(made: Design, file: Path) -> None:
    """Save a design unless the file exists.

    If several collectors start at the same time, all use the design saved first.
    """
    own = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        save_design(made, own)
        # unlike a move, a link fails if its name exists
        os.link(own, file)
    except FileExistsError:
        return
    except InvalidInput as error:
        # name the file that the user knows, not the temporary one
        raise InvalidInput(str(error).replace(own.name, file.name)) from error
    except OSError:  # some file systems have no links
        if not file.exists():
            save_design(made, file)
    finally:
        own.unlink(missing_ok=True)


def _unchanged(chosen: Design, file: Given) -> tuple[Design, Deployed]:
    """Return the deployment of this design and no other, as its mechanism makes the estimates."""
    fitted = fitted_deployment(chosen, _MOST_BYTES)
    if fitted.anew:
        raise InvalidInput(
            f"{file}: its mechanism is too large for a page; write a smaller design with `optrr export {file} -o "
            "sampler.json`, and serve that design"
        )
    return fitted.design, fitted.deployment


def _texts_for(chosen: Design | SampledTables, path: Path | None) -> Specification | None:
    wanted = None if path is None else read_specification(path)
    if wanted is not None and wanted.domain != chosen.domain:
        raise InvalidInput(
            f"specification {path}: its attributes or categories differ from the design's; give the specification "
            "of the design"
        )
    return wanted
