"""Pages: escaped, self-contained, the same bytes for the same content, and readable in a real browser."""

import html.parser
import re

import numpy as np
import pytest

from optrr import allocate, design
from optrr.cli.main import run
from optrr.domain.domain import Domain
from optrr.pages.design_pages import allocation_page, comparison_page, curves_around
from optrr.pages.sections import write_page
from optrr.show.charts import figure_svg, new_figure
from optrr.show.parts import Chart, Page, Section, Table, Text, page_html


def chart(label="rising"):
    figure = new_figure()
    axes = figure.subplots()
    axes.plot([1, 2, 3], [1, 4, 9], "o-", label=label)
    axes.set_xlabel("total epsilon")
    axes.legend()
    return figure_svg(figure)


def page():
    table = Table(["name", "error"], [["<script>alert(1)</script>", 0.123456], ["b", None]], title="Errors", strong=[0])
    charts = [Chart(chart(), 'One "chart"'), Chart(chart("falling"), "Two")]
    parts = [Text("5 < 6 & 'so on'"), table, *charts]
    return Page("A <page>", [Section("Numbers", parts)], lead=["first of all"])


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
    markup = page_html(page())
    seen = read(markup)
    assert "script" not in seen.tags and "<script>alert(1)</script>" in seen.text
    assert "A <page>" in seen.text and "5 < 6 & 'so on'" in seen.text
    assert seen.tags.count("svg") == 2 and not {"link", "img", "iframe", "object"} & set(seen.tags)
    assert all(r.startswith("#") for r in seen.references)
    assert set(re.findall(r"https?://[^\"'\s<]+", markup)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert not re.search(r"url\((?!#)", markup) and "@import" not in markup
    assert "default-src 'none'" in markup


def test_ids_are_unique_and_every_reference_has_its_target():
    markup = page_html(page())
    seen = read(markup)
    assert len(seen.ids) == len(set(seen.ids)) > 20
    targets = {r[1:] for r in seen.references} | set(re.findall(r"url\(#([^)]+)\)", markup))
    assert len(targets) > 2 and targets <= set(seen.ids)


def test_the_same_content_gives_the_same_bytes():
    assert page_html(page()) == page_html(page())


def test_cells():
    table = Table(["a", "b", "c", "d"], [[1, 0.5, "x", None], [np.int64(20000), np.float64(1e-7), 3, None]])
    assert table.cells == [["1", "0.5", "x", ""], ["20\u202f000", "1e-07", "3", ""]]
    assert table.numeric == [True, True, False, False]


@pytest.mark.slow
def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "page.html"
    write_page(target, page())
    assert target.read_text(encoding="utf-8") == page_html(page())
    with pytest.raises(ValueError, match="no directory"):
        write_page(tmp_path / "missing" / "page.html", page())
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def written_pages():
    """What allocate and compare write, on a domain whose names would break a careless page."""
    domain = Domain.of({"<b>": 2, "c&d": 3})
    allocation = allocate(domain, 2.0, n=1000, clusters=[["<b>", "c&d"]])
    made = [design(domain, 1.0, method=m) for m in ("reduced", "kronecker")]
    yield allocation_page(allocate(domain, 2.0, learn="pairs", n=1000, keep="records")), 2
    yield allocation_page(allocate(domain, learn="marginals", standard_error=0.05, n=1000)), 1
    yield allocation_page(allocation, curves_around(allocation)), 4
    yield comparison_page(made, [("ball", "too small")]), 1


@pytest.mark.slow
def test_the_commands_pages_hold_their_numbers():
    for written, charts in written_pages():
        markup = page_html(written)
        seen = read(markup)
        assert seen.tags.count("svg") == charts and "b" not in seen.tags and "<b>" in seen.text
        assert all(r.startswith("#") for r in seen.references) and len(seen.ids) == len(set(seen.ids))
        for section in written.sections:
            for part in section.parts:
                if isinstance(part, Table):
                    assert all(cell in seen.text for row in part.cells for cell in row)


@pytest.mark.slow
def test_pages_from_the_command_line(tmp_path):
    spec = tmp_path / "spec.json"
    spec.write_text('{"epsilon": 1.0, "attributes": [{"name": "a", "size": 2}, {"name": "b", "size": 3}]}')
    for k, command in enumerate((["allocate", "--total-epsilon", "1.5"], ["compare"])):
        target = tmp_path / f"{k}.html"
        assert run([command[0], str(spec), *command[1:], "--report", str(target), "--json"]) == 0
        assert "</html>" in target.read_text(encoding="utf-8")
