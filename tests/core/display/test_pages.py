"""Pages and charts: escaped, self-contained, with the numbers of their results, and readable in a real browser."""

import html.parser
import json
import re
import shlex
from collections.abc import Iterator
from math import exp
from pathlib import Path
from typing import Any

import browsers
import numpy as np
import pytest
from html_page import Read
from matplotlib.figure import Figure
from scipy.stats import chi2

import optrr
import optrr.analysis.loglinear
import optrr.analysis.measures
import optrr.core.estimation
from optrr.allocation.pages import allocation_page
from optrr.cli.main import run
from optrr.core.design.design_file import load_design
from optrr.core.display import parts, text
from optrr.core.display.charts import figure_svg, interval_figure, new_figure
from optrr.core.display.parts import Chart, Page, Section, Table, Text, page_html
from optrr.core.estimation.table import counted_table
from optrr.core.inference.result import TestResult
from optrr.core.records.reading.source import RecordsAt
from optrr.longitudinal import Panel, longitudinal
from tests.javascript import called, of_the_page

WORDS = of_the_page("words.js")
ODD = "<b>$x^ & 'y'</b>"
CALL = ("--design", "design.json", "--attributes")


def chart(label="rising"):
    figure = new_figure()
    axes = figure.subplots()
    axes.plot([1, 2, 3], [1, 4, 9], "o-", label=label)
    axes.set_xlabel("total epsilon")
    axes.legend()
    return figure_svg(figure)


def a_page():
    table = Table(["name", "error"], [["<script>alert(1)</script>", 0.123456], ["b", None]], title="Errors", strong=[0])
    charts = [Chart(chart(), 'One "chart"'), Chart(chart("falling"), "Two")]
    parts = [Text("5 < 6 & 'so on'"), table, *charts]
    return Page("A <page>", [Section("Numbers", parts)], lead=["first of all"])


def test_text_is_escaped_and_nothing_is_fetched() -> None:
    markup = page_html(a_page())
    seen = Read(markup)
    assert "script" not in seen.tags and "<script>alert(1)</script>" in seen.text
    assert "A <page>" in seen.text and "5 < 6 & 'so on'" in seen.text
    assert seen.tags.count("svg") == 2 and not {"link", "img", "iframe", "object"} & set(seen.tags)
    assert set(re.findall(r"https?://[^\"'\s<]+", markup)) <= {
        f"http://www.w3.org/{x}" for x in ("2000/svg", "1999/xlink")
    }
    assert not re.search(r"url\((?!#)", markup) and "@import" not in markup
    assert "default-src 'none'" in markup
    # every id is there once, and every reference has its target
    assert len(seen.ids) == len(set(seen.ids)) > 20
    assert all(r.startswith("#") for r in seen.references)
    targets = {r[1:] for r in seen.references} | set(re.findall(r"url\(#([^)]+)\)", markup))
    assert len(targets) > 2 and targets <= set(seen.ids)


def test_cells() -> None:
    table = Table(["a", "b", "c", "d"], [[1, 0.5, "x", None], [np.int64(20000), np.float64(1e-7), 3, None]])
    assert table.cells == [["1", "0.5000", "x", ""], ["20\u202f000", "1.000e-07", "3", ""]]
    assert table.numeric == [True, True, False, False]


def written_pages() -> Iterator[tuple[Page, int]]:
    """What allocate and compare write, on a domain whose names would break a careless page, and how many charts there are."""
    domain = optrr.Domain.of({"<b>": 2, "c&d": 3})
    allocation = optrr.allocate(domain, 2.0, n=1000)
    yield allocation_page(optrr.allocate(domain, 2.0, n=1000, records_only=True)), 1
    yield allocation_page(optrr.allocate(domain, standard_error=0.05, n=1000)), 1
    yield allocation_page(allocation), 1


@pytest.mark.slow
def test_the_commands_pages_hold_their_numbers() -> None:
    for written, charts in written_pages():
        markup = page_html(written)
        seen = Read(markup)
        assert seen.tags.count("svg") == charts and "b" not in seen.tags and "<b>" in seen.text
        assert all(r.startswith("#") for r in seen.references) and len(seen.ids) == len(set(seen.ids))
        for section in written.sections:
            for part in section.parts:
                if isinstance(part, Table):
                    assert all(cell in seen.text for row in part.cells for cell in row)


def numbers(table: list[list[str]], *columns: str) -> np.ndarray:
    """Columns of a table as numbers; an empty cell is NaN."""
    at = [table[0].index(c) for c in columns]
    return np.array([[float(row[k].replace("\u202f", "") or "nan") for k in at] for row in table[1:]])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A design, records randomized by it, by a seed, and such as say nothing."""
    here = tmp_path_factory.mktemp("secret-folder")
    domain = optrr.Domain.of({"grade": 3, ODD: ["F", "<i>M</i>", None], "other": 4})
    design = optrr.design(domain, [1.5, 2.0, 1.0], constraints=optrr.Constraints(preserve="pairs"))
    optrr.save(design, here / "design.json")
    rng = np.random.default_rng(5)
    true = rng.integers(0, (3, 3, 4), (3000, 3))
    true[:, 1] = np.where(rng.random(3000) < 0.5, true[:, 0], true[:, 1])
    rows = [",".join(a.texts[c] or "" for a, c in zip(domain, r, strict=True)) for r in true]
    header = ",".join(["grade", f'"{ODD}"', "other"])
    (here / "true.csv").write_text("\n".join([header, *rows]) + "\n")
    design.randomize(here / "true.csv", here / "out.csv")
    design.randomize(here / "true.csv", here / "seeded.csv", 3)
    # a copy in the same folder is known for what it is, so this one has a line less
    (here / "unbound.csv").write_text("".join((here / "out.csv").read_text().splitlines(keepends=True)[:-1]))
    attributes = [{"name": a.name, "categories": list(a.categories), "epsilon": 1.0} for a in domain]
    (here / "spec.json").write_text(json.dumps({"attributes": attributes}))
    return here, design


def report(place: Any, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Read:
    monkeypatch.chdir(place[0])
    assert run([*arguments, "--html", "page.html"]) == 0
    markup = Path("page.html").read_text(encoding="utf-8")
    # nothing is fetched, markup from outside is text, and no folder of this machine is named
    assert not re.search(r"url\((?!#)|(src|href)=\"(?!#)|@import", markup) and "secret-folder" not in markup
    page = Read(markup)
    assert not {"b", "i", "script", "link", "img", "iframe"} & set(page.tags)
    return page


def counted(place: Any, *names: str) -> optrr.Counts:
    return optrr.count(place[0] / "out.csv", place[1].domain, names, allow_extra=True)


@pytest.mark.slow
def test_a_design_s_page(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page = report(place, monkeypatch, "design", "spec.json", "-o", "made.json", "--preserve", "pairs")
    made = load_design(place[0] / "made.json")
    (bought,) = page.tables["Accuracy and privacy"]
    shown = numbers(bought, "categories", "requested epsilon", "attribute epsilon", "conditional epsilon")
    assert shown[:, 0].tolist() == [3, 3, 4]
    assert np.allclose(
        shown[:, 1:3], np.stack([made.requested_epsilons, made.attribute_epsilons], 1), rtol=1e-3, atol=6e-5
    )
    assert np.all((shown[:, 3] >= made.conditional_epsilons) & (shown[:, 3] <= made.conditional_epsilons + 1.01e-4))
    # of a hundred answers, counted from the mechanism's own distortion matrix
    flips = [1 - made.mechanism.kernel([name]).matrix()[0, 0] for name in made.domain.names]
    assert np.abs(numbers(bought, "replaced, of 100 answers")[:, 0] - 100 * np.array(flips)).max() <= 0.5 + 1e-9
    assert ["pairs to preserve", "every pair"] in page.tables["Request"][0]
    assert page.quotes[0].strip() == text.promise(made.epsilon)
    assert made.digest in page.text and "optrr verify made.json" in page.text
    assert ODD in page.text and f"Most attenuated: {made.faintest_pair[1]}" in page.text
    assert page.tags.count("svg") == 2
    # a baseline warns on the page as in the terminal
    page = report(place, monkeypatch, "design", "spec.json", "--method", "kronecker")
    assert any("is a baseline, not certified" in line for line in page.warnings) and "baseline" in page.text


def test_the_digest_on_a_page_is_what_verify_prints(place: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(place[0] / "design.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["design"] == place[1].digest


def test_an_estimate_s_page(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wished = ("--fakes", "4", "--confidence", "0.9")
    page = report(place, monkeypatch, "estimate", "out.csv", *CALL, f"grade,{ODD}", *wished)
    counts = counted(place, "grade", ODD)
    # unbiased proportions by the plain inverse of the distortion matrix
    plain = np.linalg.solve(place[1].mechanism.kernel(["grade", ODD]).matrix().T, counts.proportions.ravel())
    (table,) = page.tables["Estimate"]
    assert [row[:2] for row in table[1:4]] == [["0", "F"], ["0", "<i>M</i>"], ["0", "(missing)"]]
    shown = numbers(table, "estimate", "lower", "upper")
    assert np.allclose(shown[:, 0], plain, rtol=1e-3, atol=6e-5)
    assert np.all((shown[:, 1] <= np.maximum(plain, 0) + 1e-3) & (shown[:, 2] >= plain - 1e-3))
    moved = optrr.core.estimation.poisoning(counts, place[1].mechanism, 4)
    (fakes,) = page.tables["Fake reports"]
    ends = np.array([[float(x) for x in row[fakes[0].index("added")].split("..")] for row in fakes[1:]])
    assert np.allclose(ends, np.stack([moved.added.lower.ravel(), moved.added.upper.ravel()], 1), atol=5.1e-5)
    assert page.warnings == [] and page.quotes[0].strip() == text.promise(place[1].epsilon)
    command = next(line for line in page.text.splitlines() if line.startswith("optrr estimate"))
    assert "--confidence 0.9" in command and "--method" not in command
    # the same command makes the same page again
    before = Path("page.html").read_bytes()
    assert run(shlex.split(command)[1:]) == 0
    assert Path("page.html").read_bytes() == before


def test_the_page_of_a_statistic(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page = report(place, monkeypatch, "estimate", "out.csv", *CALL, f"grade,{ODD}", "--statistic", "cramers-v")
    derived = optrr.core.estimation.derive(counted_table(counted(place, "grade", ODD), place[1].mechanism), "cramers-v")
    shown = numbers(page.tables["Statistic"][0], "value", "lower", "upper")
    assert np.allclose(shown, [[derived.value, derived.lower, derived.upper]], rtol=1e-3)


@pytest.mark.slow
def test_a_page_repeats_what_is_in_doubt(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page = report(place, monkeypatch, "estimate", "seeded.csv", *CALL, "grade")
    assert "seeded.csv was drawn from a seed" in page.warnings[0]
    assert page.quotes == [] and any("nothing is promised" in line for line in page.warnings)
    folder = place[0]
    page = report(place, monkeypatch, "estimate", str(folder / "unbound.csv"), *CALL, "grade")
    assert any("if unbound.csv was not randomized by this design" in line for line in page.warnings)
    page = report(place, monkeypatch, "estimate", "true.csv", *CALL, f"grade,{ODD}")
    assert any("has no provenance metadata" in line for line in page.warnings)
    # a table that the mechanism cannot have made: everybody in one cell
    (folder / "impossible.csv").write_text(f'grade,"{ODD}",other\n' + "0,F,1\n" * 2000)
    page = report(place, monkeypatch, "estimate", "impossible.csv", *CALL, "grade")
    assert any("does not look like data randomized by this design" in line for line in page.warnings)


@pytest.mark.slow
def test_a_test_s_page(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page = report(place, monkeypatch, "test", "out.csv", *CALL, f"grade,{ODD}", "--calibration", "asymptotic")
    tested = optrr.test(counted(place, "grade", ODD), place[1].mechanism, calibration="asymptotic")
    rows = dict(row for row in page.tables["The test"][0] if len(row) == 2)
    assert float(rows["statistic"]) == pytest.approx(tested.statistic, rel=1e-3)
    assert float(rows["p-value"]) == pytest.approx(tested.p_value, rel=1e-3)
    assert "the two attributes are independent" in page.text and page.tags.count("svg") == 2
    groups = ("--hypothesis", "homogeneity", "--group", "seeded.csv", "--random-state", "1")
    page = report(place, monkeypatch, "test", "out.csv", *CALL, "grade", *groups)
    assert {"The table of group 1", "The table of group 2"} <= set(page.tables)
    # a seed of 0 is a seed
    page = report(place, monkeypatch, "test", "out.csv", *CALL, f"grade,{ODD}", "--random-state", "0")
    assert "--random-state 0 --html" in page.text


@pytest.mark.slow
def test_pages_of_measures_and_models(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page = report(place, monkeypatch, "estimate", "out.csv", *CALL, f"grade,{ODD}", "--statistic", "risk-ratio")
    measured = optrr.analysis.measures.measure(
        counted_table(counted(place, "grade", ODD), place[1].mechanism), "risk-ratio"
    )
    expected = [[r.estimate, r.lower, r.upper] for r in measured.rows]
    shown = numbers(page.tables["Comparisons"][0], "estimate", "lower", "upper")
    assert np.allclose(shown, expected, rtol=1e-3, atol=6e-5) and page.tags.count("svg") == 1
    formula = ("--design", "design.json", "--formula", "other ~ C(grade)", "--family", "linear")
    page = report(place, monkeypatch, "regress", "out.csv", *formula)
    regression = place[1].reports(place[0] / "out.csv").regress("other ~ C(grade)", family="linear")
    expected = [[c.estimate, c.lower, c.upper] for c in regression.coefficients]
    shown = numbers(page.tables["Coefficients"][0], "estimate", "lower", "upper")
    assert np.allclose(shown, expected, rtol=1e-3, atol=6e-5) and page.tags.count("svg") == 1
    page = report(place, monkeypatch, "model", "out.csv", *CALL, "grade,other", "--terms", "grade+other")
    model = optrr.analysis.fit_loglinear(counted(place, "grade", "other"), place[1].mechanism, [["grade"], ["other"]])
    shown = numbers(page.tables["Coefficients"][0], "estimate", "standard error")
    assert np.allclose(shown, np.stack([model.coefficients, model.standard_errors], 1), rtol=1e-3, atol=6e-5)
    assert page.tags.count("svg") == 1
    axes = model.plot().axes[0]
    assert np.array_equal(axes.lines[0].get_xdata(), model.coefficients)
    drawn = np.array(axes.collections[0].get_segments())[:, :, 0]
    assert np.isfinite(model.limits).all() and np.array_equal(drawn, model.limits)


@pytest.mark.parametrize(
    "command",
    [
        ("estimate", "out.csv", *CALL, "grade", "-o", "new.json"),
        ("design", "spec.json", "-o", "new.json"),
        pytest.param(("allocate", "spec.json", "--total-epsilon", "1", "-o", "new.json"), marks=pytest.mark.slow),
    ],
)
def test_where_no_page_can_be_written_nothing_is(command: Any, place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place[0])
    way = Path(".late.html.partial")
    way.touch()
    assert run([*command, "--html", "late.html"]) == 2
    way.unlink()
    assert not Path("new.json").exists() and not Path("late.html").exists()


def test_addresses_of_databases_and_folders_stay_at_home(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from optrr.cli.outputs import _public, public_name  # noqa: PLC0415

    page = report(place, monkeypatch, "estimate", str(place[0] / "unb*.csv"), *CALL, "grade")
    assert "if unbound.csv was not randomized by this design" in page.text
    for named, said, told in (
        ("sqlite:/home/me/a.db", "/home/me/a.db", "a.db"),
        ("sqlite:////home/me/a.db", "/home/me/a.db", "a.db"),
        ("postgresql://me:secret@host/a", "postgresql://me:***@host/a", "postgresql:…"),
    ):
        assert _public(f"survey {said} and b hold", [RecordsAt(named)]) == f"survey {told} and b hold"
    # nor do the folders that a pattern leaves open, or that lie in a folder; what is no folder stays
    Path("d/mine").mkdir(parents=True)
    Path("d/mine/a.csv").touch()
    for named in ("d/*/a.csv", "d/mine/*.csv", "d"):
        assert _public("d/mine/a.csv is of and/or", [RecordsAt(named)]) == "a.csv is of and/or"
    assert public_name("postgresql://me:secret@host/db") == "postgresql:…"
    assert public_name("duckdb:/home/me/answers.duckdb") == "duckdb:answers.duckdb"
    assert public_name(Path("/home/me/answers.csv")) == "answers.csv"


def test_a_report_says_what_the_survey_says() -> None:
    rng = np.random.default_rng(7)
    epsilons = [0.0, *map(float, np.concatenate([rng.uniform(0, 14, 200), 10 ** rng.uniform(-12, 3.7, 200)]))]
    for function, ours in (("promise", text.promise), ("example", text.example)):
        assert called(WORDS, function, epsilons) == [ours(x) for x in epsilons]
    sizes, chosen = rng.integers(2, 40, 200), rng.uniform(0, 9, 200)
    flips = [(r - 1) / (r - 1 + exp(x)) for r, x in zip(sizes.tolist(), chosen.tolist(), strict=True)]
    for said, r, x in zip(called(WORDS, "outOf100", flips), sizes.tolist(), chosen.tolist(), strict=True):
        people = text.changed_of_hundred(r, x)
        assert said == {0: "fewer than 1", 100: "nearly all"}.get(people, str(people))


@pytest.mark.parametrize("calibration", ["asymptotic", "exact", "saddlepoint", "tilted", "bootstrap"])
def test_every_calibration_has_words_and_a_chart(calibration: Any) -> None:
    tested = TestResult("trend", 1.5, 1, 0.2, 100, calibration=calibration)
    assert tested.source and "<svg" in figure_svg(tested.plot())


def test_a_far_p_value_of_genotypes_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The trend of genotype and status far in the tail, whose p-value comes from the saddlepoint."""
    domain = optrr.Domain.of({"snp": 3, "status": 2})
    design = optrr.design(domain, 2.0)
    optrr.save(design, tmp_path / "d.json")
    rng = np.random.default_rng(0)
    status = rng.integers(0, 2, 3000)
    codes = np.stack([rng.binomial(2, 0.3 + 0.2 * status), status], axis=1)
    drawn = design.mechanism.randomize_codes(codes, 1)
    (tmp_path / "r.csv").write_text("snp,status\n" + "".join(f"{a},{b}\n" for a, b in drawn))
    call = ["test", str(tmp_path / "r.csv"), "--design", str(tmp_path / "d.json"), "--attributes", "snp,status"]
    call += ["--hypothesis", "trend", "--calibration", "saddlepoint"]
    assert run([*call, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["calibration"] == "saddlepoint"
    assert run(call) == 0
    assert "(saddlepoint)" in capsys.readouterr().out


COMMANDS = {
    "design": ["design", "spec.json", "--preserve", "pairs"],
    "estimate": ["estimate", "out.csv", *CALL, f"grade,{ODD}", "--fakes", "3"],
    "one": ["estimate", "out.csv", *CALL, "grade"],
    "test": ["test", "unbound.csv", *CALL, f"grade,{ODD}", "--calibration", "asymptotic"],
    "measure": ["estimate", "out.csv", *CALL, f"grade,{ODD}", "--statistic", "odds-ratio"],
    "model": ["model", "out.csv", *CALL, "grade,other", "--terms", "grade*other"],
    "regress": ["regress", "out.csv", *CALL[:2], "--formula", "other ~ C(grade)", "--family", "linear"],
    "allocate": ["allocate", "spec.json", "--total-epsilon", "2", "--n", "5000", "--preserve", "pairs"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_browser_shows_prints_and_reads_it_out(name, place, browser, monkeypatch):
    """Under the page's own policy: nothing is refused, fetched or wider than a telephone, and all can be read out."""
    report(place, monkeypatch, *COMMANDS[name])
    path = place[0] / "page.html"
    context = browser.new_context(viewport={"width": 360, "height": 740})
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    # charts of a report fit a telephone, and what they say can still be read there
    heights = "[...document.querySelectorAll('figure svg text')].map(t => t.getBoundingClientRect().height)"
    assert min(page.evaluate(heights)) >= 8
    assert page.pdf(format="A4").startswith(b"%PDF")
    assert said == [] and asked == [path.as_uri()]
    context.close()
    for width in (360, 1280):
        context = browser.new_context(bypass_csp=True, viewport={"width": width, "height": 740})
        page = context.new_page()
        page.goto(path.as_uri())
        assert browsers.faults(page, least=10) == []
        context.close()


DOMAIN = optrr.Domain.of({"a": ["low", None, "high"], "b": ["x", "y"], "c": 2})


@pytest.fixture(scope="module")
def design() -> optrr.Design:
    return optrr.design(DOMAIN, [1.0, 2.0, 1.5], constraints=optrr.Constraints(preserve="pairs"))


def estimated(design: optrr.Design, *names: str):
    codes = np.random.default_rng(3).integers(0, DOMAIN.sizes, (2000, 3))
    return optrr.estimate(optrr.count(codes, DOMAIN, names, allow_extra=True), design.mechanism)


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("names", [("a",), ("a", "b"), ("a", "b", "c")])
def test_tables_are_dots_and_intervals(names: tuple[str, ...], design: optrr.Design) -> None:
    result = estimated(design, *names)
    axes = result.plot().axes[0]
    (dots,) = axes.lines
    assert np.array_equal(dots.get_xdata(), result.estimate.ravel())
    segments = np.array(axes.collections[0].get_segments())
    assert np.array_equal(segments[:, :, 0], np.stack([result.lower.ravel(), result.upper.ravel()], 1))
    labels = [t.get_text().replace("\n", " ") for t in axes.get_yticklabels()]
    assert labels == [" × ".join(map(str, row[: len(names)])) for row in result.shown().rows]


def test_a_test_is_drawn_on_the_density_it_is_judged_by() -> None:
    axes = TestResult("independence", 7.5, 4, float(chi2.sf(7.5, 4)), 1000).plot().axes[0]
    density, statistic = axes.lines
    x, y = density.get_data()
    assert np.allclose(y, chi2.pdf(x, 4)) and set(statistic.get_xdata()) == {7.5}
    shaded = axes.collections[0].get_paths()[0].vertices
    assert shaded[:, 0].min() >= 7.5


def test_pairs_of_a_design(design: optrr.Design) -> None:
    visible = design.pair_visibilities
    assert visible is not None and design.faintest_pair is not None
    names, sizes = design.domain.names, (3, 2, 2)
    flips = [(r - 1) / (r - 1 + np.exp(e)) for r, e in zip(sizes, (1.0, 2.0, 1.5), strict=True)]
    requested = [1 - f / (1 - 1 / r) for f, r in zip(flips, sizes, strict=True)]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        # by what the mechanism's own distortion matrix does to an interaction of the two
        matrix = design.mechanism.kernel([names[i], names[j]]).matrix()
        first, second = np.eye(sizes[i])[0] - np.eye(sizes[i])[1], np.eye(sizes[j])[0] - np.eye(sizes[j])[1]
        effect = np.kron(first, second)
        shrunk = float(effect @ matrix @ effect / (effect @ effect))
        assert visible[i, j] == pytest.approx(shrunk / (requested[i] * requested[j])) == pytest.approx(visible[j, i])
    assert design.faintest_pair[0] == pytest.approx(np.nanmin(np.abs(visible)))
    assert texts(design.plot_pairs().axes[0]) == [
        f"{visible[1, 0]:.2f}", "", f"{visible[2, 0]:.2f}", f"{visible[2, 1]:.2f}"
    ]  # fmt: skip
    with pytest.raises(optrr.InvalidInput, match="no chart of pairs"):
        optrr.design({"a": 2}, 1.0).plot_pairs()


@pytest.mark.parametrize("n", [None, 500])
def test_an_allocation_is_a_dot_for_each_way_that_can_do_it(n: int | None) -> None:
    allocation = optrr.allocate(DOMAIN, 2.0, workload="pairs", n=n)
    axes = allocation.plot().axes[0]
    names = [t.get_text().replace("\n", " ") for t in axes.get_yticklabels()]
    assert names[::-1] == [o.title for o in allocation.protocols]
    drawn = {round(y): x for line in axes.lines for x, y in zip(*line.get_data(), strict=True)}
    for k, option in enumerate(allocation.protocols[::-1]):
        wanted = option.error if n is None else allocation.typical_standard_error(option)
        assert drawn.pop(k) == pytest.approx(wanted)
    assert drawn == {}


def legends(design: optrr.Design) -> dict[str, Figure]:
    return {
        "design": design.plot(),
        "allocation": optrr.allocate(DOMAIN, 2.0).plot(),
        "test": TestResult("trend", 2.0, 1, 0.16, 100).plot(),
    }


@pytest.mark.slow
def test_no_legend_lies_on_the_data(design: optrr.Design) -> None:
    for name, figure in legends(design).items():
        figure.draw_without_rendering()
        (legend,) = figure.legends
        box = legend.get_window_extent()
        assert all(not box.overlaps(axes.get_window_extent()) for axes in figure.axes), name
        assert all(axes.get_legend() is None for axes in figure.axes), name
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, name


def test_averages_and_changes_over_rounds_are_drawn() -> None:
    made = longitudinal(DOMAIN, 1.0, 4.0)
    panel = Panel(made.domain, made.mechanism, np.random.default_rng(4).integers(0, 12, (40, 2)))
    for result in (panel.average(), panel.change()):
        (dots, *line) = result.plot().axes[0].lines
        assert np.array_equal(dots.get_xdata(), result.estimate.ravel())
        assert bool(line) == (result.what == "change")


def test_notebooks_show_the_warnings(design: optrr.Design) -> None:
    faint = optrr.design({"a": 2, "b": 2, "c": 2}, 0.5)
    shown = faint._repr_html_()
    assert shown.count('class="warning"') == len(faint.warnings) > 0
    result = TestResult("trend", 2.0, 1, 0.16, 100, warnings=("mind <this>",))
    assert "mind &lt;this&gt;" in result._repr_html_() and "statistic 2" in result._repr_html_()
    html.parser.HTMLParser().feed(shown)


def test_long_labels_leave_room_for_the_chart() -> None:
    figure = interval_figure(["a very long category of somebody's survey", "b"], [0.1, 0.2], ([0, 0], [1, 1]), "share")
    figure.draw_without_rendering()
    assert figure.axes[0].get_window_extent().width > 0.5 * figure.bbox.width


@pytest.mark.slow
def test_a_picture_inside_a_chart_is_shown_under_the_page_s_policy(tmp_path: Any, browser: Any) -> None:
    """Points of a large scan are a picture; the policy that forbids every request must not refuse it."""
    figure = new_figure()
    figure.subplots().scatter([1, 2], [1, 2], rasterized=True)
    page = parts.Page("A scan", [parts.Section("Points", [parts.Chart(figure_svg(figure), "points")])])
    markup = parts.page_html(page)
    assert "data:image/png" in markup
    (tmp_path / "page.html").write_text(markup, encoding="utf-8")
    opened, said = browser.new_page(), []
    opened.on("console", lambda message: said.append(message.text))
    opened.goto((tmp_path / "page.html").as_uri())
    assert said == []
    opened.close()
