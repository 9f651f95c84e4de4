"""The survey page: static files that fetch a deployment file, randomize in the browser and send only the result.

docs/survey.md, §9, has the requests of the page, and what it does on each answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from optrr.core.display import Words
from optrr.survey.guard import MEDIA_TYPES, PAGE_POLICY, STRICT_HEADERS
from optrr.survey.words import words_of

# Headers of every file of the page: nothing from other servers runs, nothing is sent to them, no other page embeds this one.
HEADERS = {**STRICT_HEADERS, "Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-cache"}
_CLIENT = ("optrr.js", "browser-store.js")


@dataclass(frozen=True)
class PageFile:
    """One file as it is served."""

    media_type: str
    body: bytes


def page_files(languages: Sequence[str] = ("en",)) -> dict[str, PageFile]:
    """Map paths below the survey's address to the page's files; the page is ``""``.

    It says in all ``languages`` what it needs.
    """
    here = files(__name__)
    sources = {file.name: file for file in here.iterdir() if Path(file.name).suffix in MEDIA_TYPES}
    sources |= {name: _client_file(here, name) for name in _CLIENT}
    served = {name: PageFile(MEDIA_TYPES[Path(name).suffix], file.read_bytes()) for name, file in sources.items()}
    page = served.pop("survey.html")
    needs = "".join(map(_needs, map(words_of, languages))).encode()
    served[""] = replace(page, body=page.body.replace(b"<noscript>", b"<noscript>\n" + needs))
    return served


def _needs(words: Words) -> str:
    said = words(
        "This page needs JavaScript, which is switched off. A small program changes your answers by chance, here in your "
        "browser, before anything is sent. Without it, nothing can be asked or sent."
    )
    return f'    <p class="notice" lang="{words.language}" dir="{words.direction}">{escape(said)}</p>\n'


def _client_file(here: Traversable, name: str) -> Traversable:
    """Find a file of the JavaScript client.

    In a wheel, it is in the folder of the page; in a checkout, in ``clients/javascript``.
    """
    packed = here / name
    return packed if packed.is_file() else Path(__file__).parents[3] / "clients" / "javascript" / name
