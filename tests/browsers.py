"""Chromium for tests: the system's own, driven by Playwright; a test is skipped where either is missing."""

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# No sandbox, because tests may run as root; the rest keeps Chromium from asking anybody on the network by itself.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HARNESS = Path(__file__).parent / "devices" / "harness.js"
AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"


@cache
def chromium() -> str:
    """Chromium's program."""
    pytest.importorskip("playwright", reason="Playwright is not installed (pip install playwright)")
    for name in _NAMES:
        program = shutil.which(name)
        if program:
            return program
    pytest.skip("Chromium is not installed (apt install chromium)")


@contextmanager
def launched(*arguments: str) -> Iterator[Any]:
    """A browser without a window."""
    program = chromium()
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (where it is missing, tests are skipped)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*ARGUMENTS, *arguments])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def at_home(browser: Any, folder: Path, **options: Any) -> Iterator[Any]:
    """A browser whose data stay in a folder from one start to the next, as they do on a person's device."""
    context = browser.browser_type.launch_persistent_context(
        str(folder), executable_path=chromium(), args=ARGUMENTS, **options
    )
    try:
        yield context
    finally:
        context.close()


def axe() -> str:
    """The accessibility checker's program, for a page to run."""
    if not AXE.is_file():
        pytest.skip("axe-core is not installed (npm install --prefix tests --no-package-lock)")
    return AXE.read_text(encoding="utf-8")


def faults(page: Any, least: int = 20) -> list[tuple[str, str]]:
    """What the accessibility checker finds: by all rules in light, and in dark by the one that looks at colours."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe())
    found, is_arabic = [], page.locator("html").get_attribute("lang") == "ar"
    for scheme, options in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
        page.emulate_media(color_scheme=scheme)
        result = page.evaluate("(options) => axe.run(document, options)", options)
        # it does not judge the contrast of Arabic letters
        assert len(result["passes"]) >= (least if not options else not is_arabic)
        found += [(x["id"], x["nodes"][0]["html"]) for x in result["violations"]]
    return found


def tab_to(page: Any, selector: str) -> None:
    """Reach an element by the keyboard alone."""
    for _ in range(1000):
        if page.evaluate("(s) => document.activeElement.matches(s)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{selector} cannot be reached")


def run(browser: Any, task: str, given: Any, client: Path) -> Any:
    """The result of a task of devices/harness.js in a browser; files that ``given`` names are fetched by the page."""
    files = {"/": None, "/optrr.js": client, "/harness.js": HARNESS}
    files |= {f"/{key}": Path(given[key]) for key in ("codesFile", "streamFile") if key in given}
    with _served(files) as address:
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        result = page.evaluate(_TASK, [task, given])
        context.close()
    return result


@contextmanager
def _served(files: dict[str, Path | None]) -> Iterator[str]:
    """Files on localhost, which counts as secure, so that Web Crypto is whole; None is an empty page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in files:
                self.send_error(404)
                return
            file = files[self.path]
            self.send_response(200)
            self.send_header("Content-Type", "text/javascript" if self.path.endswith(".js") else "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html>" if file is None else file.read_bytes())

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


_TASK = """
async ([task, input]) => {
  const [harness, client] = await Promise.all([import("/harness.js"), import("/optrr.js")]);
  if (input.codesFile) {
    input.codes = new Uint32Array(await (await fetch("/codesFile")).arrayBuffer());
    input.stream = new Uint8Array(await (await fetch("/streamFile")).arrayBuffer());
  }
  return harness[task](client, input);
}
"""


class Tap:
    """Stands between a browser and a server and keeps every byte that is sent, also those that the browser does not report."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._pieces: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def sent(self) -> bytes:
        """All that browsers sent so far."""
        return b"".join(self._pieces)

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._to))
            for source, target, kept in ((near, far, self._pieces), (far, near, None)):
                threading.Thread(target=self._pass_on, args=(source, target, kept), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket, kept: list[bytes] | None) -> None:
        try:
            while piece := source.recv(1 << 16):
                if kept is not None:
                    kept.append(piece)
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            target.close()
