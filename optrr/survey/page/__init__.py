"""The survey page: static files that fetch a deployment file, randomize in the browser and send only the result.

docs/survey.md, §9, has the requests of the page, and what it does on each answer.
"""

from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from optrr.survey.guard import MEDIA_TYPES, PAGE_POLICY, STRICT_HEADERS

# Headers of every file of the page: nothing from other servers runs, nothing is sent to them, no other page embeds this one.
HEADERS = {**STRICT_HEADERS, "Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-cache"}
_CLIENT = ("optrr.js", "browser-store.js")


@dataclass(frozen=True)
class PageFile:
    """One file as it is served."""

    media_type: str
    body: bytes


def page_files() -> dict[str, PageFile]:
    """Map paths below the survey's address to the page's files; the page is ``""``."""
    here = files(__name__)
    sources = {file.name: file for file in here.iterdir() if Path(file.name).suffix in MEDIA_TYPES}
    sources |= {name: _client_file(here, name) for name in _CLIENT}
    served = {name: PageFile(MEDIA_TYPES[Path(name).suffix], file.read_bytes()) for name, file in sources.items()}
    served[""] = served.pop("survey.html")
    return served


def _client_file(here: Traversable, name: str) -> Traversable:
    """Find a file of the JavaScript client.

    In a wheel, it is in the folder of the page; in a checkout, in ``clients/javascript``.
    """
    packed = here / name
    return packed if packed.is_file() else Path(__file__).parents[3] / "clients" / "javascript" / name
