"""A file format in one file of somebody else: how many records a collector wants, which no file of ours holds."""

import json
from dataclasses import dataclass
from pathlib import Path

from optrr.core.design.verification import Check, Verification
from optrr.core.provenance.formats import FORMATS
from optrr.core.provenance.sealed import content_of


@dataclass(frozen=True)
class Tally:
    wanted: int
    file_format = "optrr-tally"


def load(file, *, limited=True):
    return Tally(json.loads(content_of(file, "tally").raw)["wanted"])


def save(made, path):
    Path(path).write_text(json.dumps({"format": "optrr-tally/1", "wanted": made.wanted}))


def verify(file, *, limited=True):
    wanted = load(file).wanted
    return Verification((Check("wanted", str(wanted), "more than 0", "by its sign", wanted > 0),))


FORMATS["optrr-tally"] = {"load": "tallies:load", "save": "tallies:save", "verify": "tallies:verify", "instead": "no"}
