"""The documentation site: every public name, command, figure and format has its place, and what was built can be read.

What needs the built site (``make docs``) is skipped where there is none.
"""

import ast
import html.parser
import importlib
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import browsers
import click
import pytest

import optrr
import optrr.core.errors
from optrr.cli.main import COMMANDS, cli, run

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "docs" / "html"
RESULTS = ROOT / "benchmarks" / "results"
PAGES = sorted(f for f in DOCS.rglob("*.md") if "source" not in f.relative_to(DOCS).parts)
WITH_CELLS = [f for f in PAGES if "\n```{code-cell}" in f.read_text(encoding="utf-8")]
SPECIFICATION = (DOCS / "reference" / "specification.md").read_text(encoding="utf-8")
# What generates pages; needs Sphinx.
pytest.importorskip("sphinx", reason="the extra docs is not installed")
built = pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="the site is not built (make docs)")


def generated(module: str) -> dict[str, str]:
    """The pages that a module of docs/site_pages makes, by their paths."""
    pages = importlib.import_module(f"site_pages.{module}").pages()
    return {path.relative_to(DOCS).as_posix(): text for path, text in pages.items()}


def public_names() -> set[str]:
    """Every name that a package of optrr declares public, read from the sources and not by importing."""
    names = set()
    for package in ("optrr", "solvers/optrr_solvers"):
        for file in (ROOT / package).rglob("__init__.py"):
            module = ".".join(file.parent.relative_to(ROOT / "solvers" if "solvers" in package else ROOT).parts)
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__" and module != "optrr.cli":
                    names |= {f"{module}.{name}" for name in ast.literal_eval(node.value)}
    return names


def value_of(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_the_reference_shows_every_public_name() -> None:
    text = "\n".join(generated("python").values())
    shown = set(re.findall(r"^\.\. (?:auto(?:class|function)|py:data):: ([\w.]+)$", text, re.MULTILINE))
    by_identity = {id(value_of(name)) for name in shown}
    names = public_names()
    assert len(names) > 100
    assert [name for name in sorted(names) if name not in shown and id(value_of(name)) not in by_identity] == []
    assert {f"optrr.{name}" for name in optrr.__all__} <= shown


def test_every_figure_is_in_the_gallery_with_its_script_and_a_sentence() -> None:
    (text,) = generated("gallery").values()
    figures = re.findall(r"^\.\. figure:: \.\./benchmarks/results/(.*\.svg)\n   :alt: (.+)$", text, re.MULTILINE)
    assert {name for name, _ in figures} == {file.name for file in RESULTS.glob("*.svg")}
    assert all(len(said) > 20 for _, said in figures)
    for script in re.findall(r":doc:`(\w+)\.py ", text):
        assert (ROOT / "benchmarks" / f"{script}.py").is_file()
    written = {name for group in tomllib.loads((DOCS / "gallery.toml").read_text("utf-8")).values() for name in group}
    assert {f"{name}.svg" for name in written} <= {name for name, _ in figures}


def test_every_format_is_described() -> None:
    sources = [*(ROOT / "optrr").rglob("*.py"), *(ROOT / "clients").rglob("*.py"), *(ROOT / "clients").rglob("*.js")]
    declared = set()
    for file in sources:
        if "vectors" not in file.parts and "node_modules" not in file.parts:
            declared |= set(re.findall(r'"(optrr-[a-z-]+/\d+)"', file.read_text(encoding="utf-8")))
    assert len(declared) >= 8
    described = set(re.findall(r"`(optrr-[a-z-]+/\d+)`", (DOCS / "reference" / "files.md").read_text(encoding="utf-8")))
    assert described == declared


@pytest.mark.parametrize(
    "error",
    [
        optrr.SingularMarginal,
        *(v for v in vars(optrr.core.errors).values() if isinstance(v, type) and issubclass(v, optrr.OptrrError)),
    ],
    ids=lambda error: error.__name__,
)
def test_every_kind_of_error_is_described_with_its_exit_code(error: type, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| `{error.__name__}` \| .* \| `(\w+)` \| (\d) \|$", page, re.MULTILINE)

    @click.command("raising")
    def raising() -> None:
        raise error("it says why")

    monkeypatch.setattr(cli, "get_command", lambda context, name: raising)
    assert run(["raising"]) == int(row[1])
    assert row[0] in {base.__name__ for base in error.__mro__[1:]}


class Page(html.parser.HTMLParser):
    """What a built page points to, what it loads, and its anchors."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {name for key in ("id", "name") if (name := given.get(key))}
        target = given.get("src") or given.get("href")
        if target and tag == "a":
            self.links.add(target)
        elif target and not (tag == "link" and given.get("rel") in {"next", "prev", "index", "search", "author"}):
            self.loads.add(target)


@cache
def parsed(page: Path) -> Page:
    return Page(page)


def pages() -> list[Path]:
    return sorted(file for file in SITE.rglob("*.html") if "_static" not in file.parts)


@built
@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere() -> None:
    assert len(pages()) > 100
    loaded = {
        f"{page.relative_to(SITE)}: {t}" for page in pages() for t in parsed(page).loads if re.match(r"(\w+:)?//", t)
    }
    assert loaded == set()
    # Sphinx knows addresses of scripts for formulas and widgets, which no page here may ask for
    styles = "".join(file.read_text(encoding="utf-8") for file in (SITE / "_static").rglob("*.css"))
    assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", styles)


def internal(page: Path) -> Iterator[tuple[str, Path, str]]:
    """A page's links within the site: as written, the file, the anchor."""
    for link in parsed(page).links:
        if not re.match(r"\w+:|//", link):
            path, _, anchor = unquote(link).partition("#")
            yield link, (page.parent / path.partition("?")[0]).resolve() if path else page, anchor


@built
@pytest.mark.slow
def test_every_link_leads_somewhere() -> None:
    broken = []
    for page in pages():
        for link, file, anchor in internal(page):
            there = file / "index.html" if file.is_dir() else file
            if not there.is_file() or (anchor and there.suffix == ".html" and anchor not in parsed(there).anchors):
                broken.append(f"{page.relative_to(SITE)}: {link}")
    assert broken == []


@built
@pytest.mark.slow
def test_every_name_and_command_is_reached_from_the_front_page() -> None:
    waiting, reached = [SITE / "index.html"], {SITE / "index.html"}
    while waiting:
        new = {file for _, file, _ in internal(waiting.pop()) if file.suffix == ".html" and file.is_file()} - reached
        reached |= new
        waiting += new
    anchors = set().union(*(parsed(page).anchors for page in reached))
    assert {f"optrr.{name}" for name in optrr.__all__} - anchors == set()
    for name in COMMANDS:
        assert SITE / "reference" / "commands" / f"{name.replace(' ', '-')}.html" in reached, name
    for figure in RESULTS.glob("*.svg"):
        assert any(figure.name in target for target in parsed(SITE / "gallery.html").loads), figure.name


@built
@pytest.mark.parametrize("name", ["any-mechanism", "lower-bound"])
def test_formulas_are_mathml(name: str) -> None:
    page = (SITE / "how-it-works" / f"{name}.html").read_text(encoding="utf-8")
    assert (
        page.count("<math ") > 10 and "\\lambda" not in page and "$" not in re.sub(r"(?s)<script.*?</script>", "", page)
    )


@built
@pytest.mark.parametrize("source", WITH_CELLS, ids=lambda source: source.stem)
def test_cells_were_executed(source: Path) -> None:
    page = (SITE / source.relative_to(DOCS).with_suffix(".html")).read_text(encoding="utf-8")
    assert '"cell_output' in page
    assert not re.search(r"Traceback \(most recent call last\)|class=\"output traceback", page)


@pytest.mark.parametrize("page", [p for p in PAGES if p.stem != "survey"], ids=lambda page: page.stem)
def test_code_that_is_not_executed_is_tested_elsewhere(page: Path) -> None:
    """Whatever is fenced as a language runs when the site is built; the exceptions are named with the test that has them."""
    text = page.read_text(encoding="utf-8")
    fences = set(re.findall(r"^```([a-z]+)$", text, re.MULTILINE))
    elsewhere = {
        "phones-and-web": {"js"},  # below: the code of the client's own page, whose tests run it
        "specification": {"toml"},  # below
    }
    assert fences <= elsewhere.get(page.stem, set())
    # blocks by indent would not be executed: those of commands belong into cells
    assert not re.search(
        r"^    (optrr|python|pip|openssl) ", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M
    )


def test_the_javascript_of_the_tutorial_is_that_of_the_client_page() -> None:
    tutorial = (DOCS / "tutorials" / "phones-and-web.md").read_text(encoding="utf-8")
    client = (ROOT / "clients" / "javascript" / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```js\n(.*?)^```$", tutorial, re.MULTILINE | re.DOTALL)
    assert blocks and all(block in client for block in blocks)


@pytest.mark.parametrize("page", WITH_CELLS, ids=lambda page: page.stem)
def test_plots_of_a_page_have_an_alt_text(page: Path) -> None:
    for cell in re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        if "plt.show()" in cell or ".plot()" in cell:
            assert re.search(r"^    alt: .{40}", cell, re.MULTILINE), cell


@pytest.mark.parametrize("block", re.findall(r"^```toml\n(.*?)^```$", SPECIFICATION, re.MULTILINE | re.DOTALL))
def test_a_part_of_a_specification_is_read_as_printed(block: str, tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(block + '[[attributes]]\nname = "asked"\nsize = 2\nepsilon = 1.0\n', encoding="utf-8")
    assert optrr.read_specification(file).domain.names[-1] == "asked"


SHOWN = [
    "index",
    "quick-start",
    "papers/por",
    "reference/python/optrr.core.design",
    "tutorials/how-much-epsilon",
    "gallery",
]
# Milliseconds that a page may take on a busy machine.
PATIENCE = 120_000
SCREENS = {"wide": {"width": 1280, "height": 900}, "phone": {"width": 360, "height": 740}}


@built
@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS)
def test_a_page_fits_phones_and_paper_and_asks_nobody(browser: Any, name: str, screen: dict[str, int]) -> None:
    context = browser.new_context(viewport=screen, color_scheme="dark")
    context.set_default_timeout(PATIENCE)
    page, asked, failed = context.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto((SITE / f"{name}.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= screen["width"]
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.locator("header.bd-header").is_hidden()
    assert page.locator("article h1").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= screen["width"]
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert failed == []
    context.close()


@built
@pytest.mark.slow
def test_the_search_answers_without_a_network(browser: Any) -> None:
    page = browser.new_page()
    page.goto((SITE / "search.html").as_uri() + "?q=conditional+epsilon")
    page.locator("#search-results li a").first.wait_for(timeout=PATIENCE)
    assert "conditional" in page.locator("#search-results").inner_text()


@built
@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize(("screen", "scheme"), [("wide", "light"), ("phone", "light"), ("wide", "dark")])
def test_an_accessibility_checker_finds_nothing_serious(browser: Any, name: str, screen: str, scheme: str) -> None:
    """All rules on both screens in light; in dark the one that looks at colours."""
    context = browser.new_context(viewport=SCREENS[screen], color_scheme=scheme)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto((SITE / f"{name}.html").as_uri())
    page.evaluate(browsers.axe())
    options = {"runOnly": ["color-contrast"]} if scheme == "dark" else {}
    report = page.evaluate("(options) => axe.run(document, options)", options)
    serious = [v for v in report["violations"] if v["impact"] in ("serious", "critical")]
    assert [(v["id"], [n["html"] for n in v["nodes"]][:3]) for v in serious] == []
    context.close()
