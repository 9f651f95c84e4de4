"""The survey page: static files that fetch a deployment file, randomize in the browser and send only the result.

A server of the page must offer these requests below one address that ends in a slash; the page contacts no other
server.

Requests:

==========  ====================  =====================================================================================
request     answers with          remarks
==========  ====================  =====================================================================================
GET ./…     the files of          with :data:`HEADERS` and the file's media type; ``""`` is the page itself
            :func:`page_files`
GET         the deployment file   ``application/json``, byte for byte as ``optrr export`` wrote it (the deployment format)
sampler.json
GET         the texts and         ``application/json``, see below
survey.json settings
GET words-  the page's sentences  ``{"language": "ar", "direction": "rtl", "plurals": {"one": 1, …}, "messages": {English text:
XX.json     in a language         [form, …]}}`` for each language XX of the survey but English; ``plurals`` maps the categories
                                  of ``Intl.PluralRules`` to forms
POST        see below             the report, ``application/json``
reports
POST        ``{"signature":       ``{"token", "blinded"}``, if the survey has personal links (``invitation.js``): 403 for an
invitations hex}``                unknown token, 409 for one that another value was signed for
==========  ====================  =====================================================================================

``survey.json`` has the digest of all that is asked, 64 hexadecimal digits; the languages, the default one first; and the
texts in each of them: ``title``, ``asker``, ``introduction``, ``thanks``, ``questions`` (attribute's name → text) and
``labels`` (attribute's name → one text for each category). Missing texts are those of the default language, then the
attribute's name and its categories. Optional: ``boxes`` (attribute → column and option of a question with check boxes),
``numbers`` (attribute → edges, null for infinity, and the closed side: the page asks for a number), ``branches`` (attribute →
``when``, the categories of earlier attributes with which it is asked, and the category ``otherwise``), ``kiosk`` (many people
answer on one device), ``invitations`` (the public key of personal links).

The page asks one question after another and keeps the answers in memory. Before the report it stores and sends nothing,
except for the number of a query that it drew and what a personal link needs. On a shared device it stores reports until they
are delivered, and nothing else. A report that is not delivered is sent again when the device is online, when the page is
seen, after 5, 10, … 600 seconds, and at the next visit.

The body of a report is that of the deployment format with the wording's digest: ``{"format": "optrr-report/1", "design": "…",
"id": "…", "values": ["low", null, "F"], "wording": "…"}`` with the file's digest of the design; the report's identifier, 128
random bits as 32 lower-case hexadecimal digits, drawn once and sent again with every repetition; and the randomized record,
one category (text, or null for "missing") for each attribute in the file's order. If the file has questions, ``table`` and
``cells`` replace ``values``: the page draws one question before it asks, keeps its number in the browser, and asks about its
attributes only. With a personal link, the report has the ``invitation``, the unblinded signature of its identifier. No cookie,
no other header, no address. Surveys that ask different questions may have the same design: the
browser keeps an entry for each design and wording, and a respondent to another wording is asked again.

Effect of the answer on the page:

=====================================  ================================================================================
2xx with JSON ``{"kept": true}``       sent: the person sees the sent record next to the answers. The
                                       collector has the report on disk before it says so
any other 2xx                          not sent yet: another server answered, such as the sign-in page of a network
409                                    refused: another report has this identifier
410                                    refused: the survey is closed
any other 4xx (400, 404, 413, 415,     refused, with the collector's sentence: the body's ``error``, if it is JSON
422)                                   ``{"error": "one line"}``; the record stays and can be sent again
408, 425, 429, 5xx, no answer          not sent yet: the same record can be sent again, now or at the next visit
=====================================  ================================================================================
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
