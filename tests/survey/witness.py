"""A survey whose every trace is recorded: bytes that browsers send, addresses, storage, console and the server's log."""

import io
import json
import re
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import browsers
import numpy as np
import vectors
from survey_client import Server, free_port

from optrr.survey.words import words_of
from tests.survey.test_page import PATIENCE, STORED, answering

STORIES = Path(__file__).parent / "stories"
WIDTHS = (360, 768, 1280)
HIGH = 740
# Values of a report, which are randomized: all that may be a category.
VALUES = re.compile(r'"values":\[[^\]]*\]')
# Bytes that the page takes for its random ones, once; then the browser's own.
GIVEN = """
let given = [];
const real = Crypto.prototype.getRandomValues;
globalThis.give = (bytes) => { given = bytes; };
Crypto.prototype.getRandomValues = function (array) {
  if (given.length < array.byteLength) return real.call(this, array);
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(given.splice(0, array.byteLength));
  return array;
};
"""


class Witness:
    """A running survey behind a tap, and what was seen of it."""

    def __init__(self, server: Server, tap: browsers.Tap, specification: dict[str, Any]) -> None:
        self.server, self.tap, self.specification = server, tap, specification
        self.address = f"http://127.0.0.1:{tap.port}"
        self.urls: list[str] = []
        self.sent: list[tuple[str, str, str]] = []
        self.console: list[str] = []
        self.stored: list[str] = []
        self.sampler = json.loads(server.get("/sampler.json"))
        self.deployed = [attribute["categories"] for attribute in self.sampler["attributes"]]

    def watch(self, context: Any) -> Any:
        """Record a browser from now on; it takes random bytes from ``give``."""
        context.set_default_timeout(PATIENCE)
        context.add_init_script(GIVEN)
        context.on("request", self._requested)
        context.on("console", lambda message: self.console.append(message.text))
        context.on("weberror", lambda error: self.console.append(str(error.error)))
        return context

    def _requested(self, request: Any) -> None:
        self.urls.append(request.url)
        self.sent.append((request.method, request.url.removeprefix(self.address), request.post_data or ""))

    def look_into(self, page: Any) -> str:
        """Return all that the browser stores, and keep it."""
        text: str = page.evaluate(STORED)
        self.stored.append(text)
        return text

    def posts(self, to: str = "/reports") -> list[dict[str, Any]]:
        """The distinct contents that were posted to this path, in order."""
        bodies = dict.fromkeys(body for method, path, body in self.sent if method == "POST" and path == to)
        return [json.loads(body) for body in bodies]

    def kept(self) -> set[str]:
        """Identifiers of the reports in the collector's database."""
        return {identifier for identifier, _ in self.rows("reports")}

    def rows(self, table: str) -> list[tuple[str, bytes]]:
        """The rows of a table whose first column is a digest or an identifier."""
        import sqlite3  # noqa: PLC0415

        with sqlite3.connect(self.server.database) as connection:  # type: ignore[attr-defined]
            return [(row[0].hex(), row[1]) for row in connection.execute(f"SELECT * FROM {table}")]

    def wait_for(self, count: int) -> None:
        """Wait until the collector has this many reports."""
        for _ in range(PATIENCE // 20):
            if len(self.kept()) >= count:
                return
            time.sleep(0.02)
        raise TimeoutError(f"{len(self.kept())} of {count} reports")

    def drawn(self, codes: list[int], seed: int, skip: int = 0) -> tuple[list[int], list[str | None]]:
        """Random bytes with which as many answers change as in any of 60 draws, and the record, by the slow reference.

        ``skip`` bytes are drawn for something else before.
        """
        reference = vectors.load_script(vectors.VECTORS / "reference.py")
        rng = np.random.default_rng(seed)
        streams = [rng.bytes(400) for _ in range(60)]
        records = [reference.randomized(self.sampler, codes, reference.Bytes(io.BytesIO(s).read)) for s in streams]
        k = max(range(60), key=lambda k: sum(a != b for a, b in zip(records[k], codes, strict=True)))
        record = [categories[code] for categories, code in zip(self.deployed, records[k], strict=True)]
        return [*rng.bytes(skip), *streams[k]], record

    def secrets(self) -> set[str]:
        """Categories and labels, which occur nowhere by chance."""
        found: set[str] = set()
        for attribute in self.specification["attributes"]:
            found |= {text for text in attribute.get("categories", []) if "-" in text}
            for language, texts in attribute.get("labels", {}).items():
                # short answers are part of other words
                found |= {text for text in texts if len(text) > (3 if language == "ja" else 12)}
        return found

    def traces(self) -> dict[str, str]:
        """All that was seen, by place; ``sent`` are the bytes of every browser, without the values of reports."""
        sent = self.tap.sent.decode("utf-8", "replace")
        return {
            "sent": VALUES.sub("", sent),
            "urls": "\n".join(self.urls),
            "console": "\n".join(self.console),
            "stored": VALUES.sub("", "\n".join(self.stored)),
            "log": self.server.log.read_text() + self.server.out.read_text(),
        }

    def nothing_is_told(self) -> None:
        """Check that no trace holds an answer, and that browsers asked nobody else."""
        traces = self.traces()
        forms = {
            form for text in self.secrets() for form in (text, quote(text), quote_plus(text), json.dumps(text)[1:-1])
        }
        assert len(self.secrets()) > 10
        found = {(place, form) for place, seen in traces.items() for form in forms if form in seen}
        assert not found
        # requests that were meant to fail, and Chromium's advice on forms with a token
        complaints = [text for text in self.console if not text.startswith(("Failed to load resource", "[DOM]"))]
        assert not complaints, complaints
        assert all(url.startswith(f"{self.address}/") for url in self.urls)


@contextmanager
def witnessed(story: str, folder: Path, *options: str) -> Iterator[Witness]:
    """The survey of stories/STORY.toml in a process of its own; ends with a check of all traces."""
    folder.mkdir(exist_ok=True)
    source = folder / f"{story}.toml"
    source.write_bytes((STORIES / source.name).read_bytes())
    port = free_port()
    tap = browsers.Tap(port)
    database = folder / "reports.db"
    options = tuple(option.replace("{address}", f"http://127.0.0.1:{tap.port}/") for option in options)
    server = Server(source, "--database", f"sqlite:///{database}", *options, port=port)
    server.database = database  # type: ignore[attr-defined]
    answering(server)
    seen = Witness(server, tap, tomllib.loads(source.read_text()))
    yield seen
    assert server.stop() == 0
    tap.close()
    seen.nothing_is_told()


class Person:
    """A person at a page in a language, whose texts are the catalogue's."""

    def __init__(self, page: Any, language: str) -> None:
        self.page = page
        self.words = words_of(language)

    def press(self, text: str) -> None:
        """Press a button with this English text."""
        self.page.get_by_role("button", name=self.words(text), exact=True).click()

    def begin(self) -> None:
        """Give consent, and go to the first question."""
        self.page.locator("#consent").check()
        self.press("Start")
        self.page.locator("#question").wait_for()

    def answer(self, answer: int | str | tuple[int, ...]) -> None:
        """Answer the question by the code of a category, a number, or the boxes that are ticked."""
        field = self.page.locator("form select, form input").first
        kind = field.evaluate("x => x.type")
        if isinstance(answer, tuple):
            for k, box in enumerate(self.page.locator("form input[type=checkbox]").all()):
                box.set_checked(k in answer)
        elif kind == "text" and isinstance(answer, str):
            field.fill(answer)
        elif kind == "select-one":
            field.select_option(str(answer))
        else:
            self.page.locator(f"form input:not([type=text])[id$='-{answer}']").check()

    def go_on(self) -> None:
        """Go to the next question."""
        before = self.page.locator("#question").inner_text()
        self.page.locator("form button[type=submit]").click()
        self.page.wait_for_function("x => document.getElementById('question')?.innerText !== x", arg=before)

    def answer_all(self, answers: list[Any], given: list[int] | None = None) -> None:
        """Answer every question, and send."""
        for k, answer in enumerate(answers):
            if k:
                self.go_on()
            self.answer(answer)
        self.send(given)

    def send(self, given: list[int] | None = None) -> None:
        """Press the last button, with these random bytes."""
        if given:
            self.page.evaluate("bytes => give(bytes)", given)
        self.press("Randomize my answers and send the result")
        self.page.locator("#outcome").wait_for()
        self.page.evaluate("give([])")

    def sees(self, text: str) -> None:
        """Wait for the heading with this English text."""
        self.page.get_by_role("heading", name=self.words(text)).wait_for()


def tree(page: Any) -> str:
    """The accessibility tree as a screen reader walks through it."""
    return str(page.locator("body").aria_snapshot())


def usable(page: Any, language: str, least: int = 5) -> None:
    """Check a view: nothing scrolls sideways, and the accessibility checker finds nothing, at three widths, light and dark."""
    html = page.locator("html")
    assert html.get_attribute("lang") == language
    assert (html.get_attribute("dir") or "ltr") == words_of(language).direction
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": HIGH})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert not browsers.faults(page, least)
    assert len(re.findall(r"heading .*\[level=1\]", tree(page))) == 1
