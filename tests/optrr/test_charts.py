"""Charts of results: what is drawn is what the result holds, and no legend lies on it."""

import html.parser
from typing import Any

import browsers
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import chi2

import optrr
import optrr.tables.estimation
from optrr.models.tests.result import TestResult
from optrr.show import parts
from optrr.show.charts import figure_svg, interval_figure, new_figure
from optrr.ways.longitudinal import Panel, longitudinal

DOMAIN = optrr.Domain.of({"a": ["low", None, "high"], "b": ["x", "y"], "c": 2})


@pytest.fixture(scope="module")
def design() -> optrr.Design:
    return optrr.design(DOMAIN, [1.0, 2.0, 1.5], preserve="pairs")


def estimated(design: optrr.Design, *names: str):
    codes = np.random.default_rng(3).integers(0, DOMAIN.sizes, (2000, 3))
    return optrr.estimate(optrr.count(codes, DOMAIN, names, allow_extra=True), design.mechanism)


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_two_attributes_are_a_shaded_table(design: optrr.Design) -> None:
    result = estimated(design, "a", "b")
    axes = result.plot().axes[0]
    assert np.array_equal(axes.collections[0].get_array().reshape(3, 2), result.proportions)
    expected = [
        f"{p:.3f}\n{low:.3f}–{high:.3f}"
        for p, low, high in zip(result.proportions.flat, result.lower.flat, result.upper.flat, strict=True)
    ]
    assert texts(axes) == expected
    assert [t.get_text() for t in axes.get_yticklabels()] == ["low", "(missing)", "high"]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["x", "y"]
    # rows run downwards, as in the table
    assert axes.get_ylim() == (3, 0)


@pytest.mark.parametrize("names", [("a",), ("a", "b", "c")])
def test_other_tables_are_dots_and_intervals(names: tuple[str, ...], design: optrr.Design) -> None:
    result = estimated(design, *names)
    axes = result.plot().axes[0]
    (dots,) = axes.lines
    assert np.array_equal(dots.get_xdata(), result.proportions.ravel())
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
    allocation = optrr.allocate(DOMAIN, 2.0, learn="pairs", n=n)
    axes = allocation.plot().axes[0]
    names = [t.get_text().replace("\n", " ") for t in axes.get_yticklabels()]
    assert names[::-1] == [o.title for o in allocation.ways]
    drawn = {round(y): x for line in axes.lines for x, y in zip(*line.get_data(), strict=True)}
    for k, option in enumerate(allocation.ways[::-1]):
        wanted = option.error if n is None else allocation.typical_standard_error(option)
        assert drawn.pop(k) == pytest.approx(wanted)
    assert drawn == {}


def legends(design: optrr.Design) -> dict[str, Figure]:
    return {
        "design": design.plot(),
        "allocation": optrr.allocate(DOMAIN, 2.0).plot(),
        "test": TestResult("trend", 2.0, 1, 0.16, 100).plot(),
        "tradeoff": optrr.tradeoff(DOMAIN, [1.0, 2.0]).plot(),
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


@pytest.mark.slow
def test_the_allocation_s_chart_has_the_pairs_it_keeps_and_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    from optrr.pages import design_pages  # noqa: PLC0415

    monkeypatch.setattr(design_pages, "_AROUND", (1.0,))
    domain = {"a": 2, "b": 3, "c": 2}
    for preserve, kept in (
        ("pairs", "every pair kept"),
        ([("a", "b")], "1 pair kept"),
        ("marginals", "every pair kept"),
    ):
        made = optrr.allocate(domain, 2.0, learn="pairs", preserve=preserve)
        page = design_pages.allocation_page(made, design_pages.curves_around(made)[:1])
        described = next(p.description for p in page.sections[-1].parts if isinstance(p, parts.Chart))
        assert (kept in described) and ("kept" in described) == bool(kept) and "this allocation" in described


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
def test_a_picture_inside_a_chart_is_shown_under_the_page_s_policy(tmp_path: Any) -> None:
    """Points of a large scan are a picture; the policy that forbids every request must not refuse it."""
    figure = new_figure()
    figure.subplots().scatter([1, 2], [1, 2], rasterized=True)
    page = parts.Page("A scan", [parts.Section("Points", [parts.Chart(figure_svg(figure), "points")])])
    markup = parts.page_html(page)
    assert "data:image/png" in markup
    (tmp_path / "page.html").write_text(markup, encoding="utf-8")
    with browsers.launched() as browser:
        opened, said = browser.new_page(), []
        opened.on("console", lambda message: said.append(message.text))
        opened.goto((tmp_path / "page.html").as_uri())
        assert said == []
