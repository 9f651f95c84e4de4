"""Report pages: escaped, self-contained, the same bytes for the same content, and readable in a real browser."""

import html.parser
import re
import shutil
import subprocess

import numpy as np
import pytest

from optrr import report

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "chrome-headless-shell")


def chart(label="rising"):
    figure = report.new_figure()
    axes = figure.subplots()
    axes.plot([1, 2, 3], [1, 4, 9], "o-", label=label)
    axes.set_xlabel("total epsilon")
    axes.legend()
    return report.figure_svg(figure)


def page():
    table = report.Table(["name", "error"], [["<script>alert(1)</script>", 0.123456], ["b", None]], title="Errors", strong=[0])
    parts = [report.Text("5 < 6 & 'so on'"), table, report.Chart(chart(), "One \"chart\""), report.Chart(chart("falling"), "Two")]
    return report.Page("A <page>", [report.Section("Numbers", parts)], lead=["first of all"])


class Seen(html.parser.HTMLParser):
    """Tags, ids, references and text of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.ids, self.references, self.text, self.open = [], [], [], "", []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "data", "action", "srcset"):
                self.references.append(value)

    def handle_data(self, data):
        self.text += data


def read(markup):
    seen = Seen()
    seen.feed(markup)
    return seen


def test_text_is_escaped_and_nothing_is_fetched():
    markup = report.page_html(page())
    seen = read(markup)
    assert "script" not in seen.tags and "<script>alert(1)</script>" in seen.text
    assert "A <page>" in seen.text and "5 < 6 & 'so on'" in seen.text
    assert seen.tags.count("svg") == 2 and not {"link", "img", "iframe", "object"} & set(seen.tags)
    assert all(r.startswith("#") for r in seen.references)
    assert set(re.findall(r"https?://[^\"'\s<]+", markup)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"url\((?!#)", markup) and "@import" not in markup
    assert "default-src 'none'" in markup


def test_ids_are_unique_and_every_reference_has_its_target():
    markup = report.page_html(page())
    seen = read(markup)
    assert len(seen.ids) == len(set(seen.ids)) > 20
    targets = {r[1:] for r in seen.references} | set(re.findall(r"url\(#([^)]+)\)", markup))
    assert len(targets) > 2 and targets <= set(seen.ids)


def test_the_same_content_gives_the_same_bytes():
    assert report.page_html(page()) == report.page_html(page())


def test_cells():
    table = report.Table(["a", "b", "c", "d"], [[1, 0.5, "x", None], [np.int64(20000), np.float64(1e-7), 3, None]])
    assert table.cells == [["1", "0.5", "x", ""], ["20\u202f000", "1e-07", "3", ""]]
    assert table.numeric == [True, True, False, False]


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "page.html"
    report.write_page(target, page())
    assert target.read_text(encoding="utf-8") == report.page_html(page())
    with pytest.raises(ValueError, match="no directory"):
        report.write_page(tmp_path / "missing" / "page.html", page())
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def browser():
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    return found


def rendered(path, tmp_path):
    """The document after a headless browser has laid it out."""
    command = [browser(), "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_a_browser_shows_tables_and_charts(tmp_path):
    browser()
    target = tmp_path / "page.html"
    report.write_page(target, page())
    dom = read(rendered(target, tmp_path))
    assert dom.tags.count("svg") == 2 and dom.tags.count("table") == 1
    assert "total epsilon" in dom.text and "0.1235" in dom.text and "script" not in dom.tags
