"""allocate: what is said of promises that are useless, of files that are large, and of what goes on."""

import pytest

from optrr import Constraints, InvalidInput, allocate, plan
from optrr.allocation.pages import allocation_page
from optrr.cli.main import run
from optrr.core.display.parts import page_html

DOMAIN = {"a": 2, "b": 3, "c": 4}


@pytest.mark.parametrize(("total", "n", "useless"), [(0.01, 1000, True), (2.0, 1000, False), (0.01, 10**9, False)])
def test_a_promise_above_a_proportion_s_range_is_said_to_be_useless(total, n, useless):
    allocation = allocate(DOMAIN, total, n=n)
    worst = max(p.standard_error for p in allocation.predictions)
    assert (worst > 0.5) == useless
    assert any("nothing can be learned" in w for w in allocation.warnings) == useless


def test_a_large_file_is_announced_before_it_is_written(tmp_path, capsys):
    large = ["--attribute", "a=200000:1", "--attribute", "b=2:1"]
    assert run(["allocate", *large, "--total-epsilon", "2", "-o", str(tmp_path / "d.json"), "--json"]) == 0
    captured = capsys.readouterr()
    assert "lists every category: 200002 here, some 2 MB" in captured.err
    assert (tmp_path / "d.json").stat().st_size == pytest.approx(200_002 * 12, rel=0.3)
    assert not any("lists every category" in w for w in allocate(DOMAIN, 1.0).warnings)


def test_whoever_watches_sees_the_bracket_close():
    seen = []
    allocation = allocate(DOMAIN, 1.0, progress=lambda error, lower: seen.append((error, lower)))
    assert seen and all(lower <= error * (1 + 1e-12) for error, lower in seen)
    assert seen[-1][0] == pytest.approx(allocation.error, rel=1e-4)


@pytest.mark.parametrize("total", [0.3, 3.8122461836596644, 11.926961393471055])
def test_no_way_spends_more_than_the_total(total):
    for way in allocate(DOMAIN, total).protocols:
        assert total * (1 - 1e-4) <= way.asking.epsilon <= total, way.name


def test_a_way_that_tells_too_little_of_an_attribute_is_compared_and_not_taken():
    domain = {"a": 1000, "b": 1000, "c": 3}
    allocation = allocate(domain, 0.5)
    assert {way.name for way in allocation.protocols if not way.suits} == {"whole-record"}
    with pytest.raises(InvalidInput, match="raise the total, or choose another protocol"):
        _ = allocation.choosing("whole-record").asking
    # a plan looks at every way that suits
    assert plan(domain, 0.5, margin=40).point.total == 0.5


@pytest.mark.parametrize("total", [360.0, 499.0])
def test_the_largest_totals_have_an_answer(total):
    allocation = allocate({"a": 3, "b": 3}, total)
    assert allocation.error_bound <= allocation.error <= allocation.error_bound * (1 + 1e-6)


@pytest.mark.parametrize("n", [float("nan"), float("inf"), "5", 2.5, 0, True])
def test_what_is_no_number_of_people_is_refused_in_one_line(n):
    with pytest.raises(InvalidInput, match="is not a number of respondents"):
        allocate(DOMAIN, 1.0, n=n)


@pytest.mark.slow
@pytest.mark.parametrize("limits", [{"min_epsilon": {"a": 1.2}}, {"max_epsilon": {"b": 0.3}}, {"conditional_cap": 0.7}])
def test_a_bound_on_errors_says_that_it_is_one_under_limits(limits, tmp_path, capsys):
    """A law of the same total without them has a smaller error."""
    free, limited = allocate(DOMAIN, 1.5), allocate(DOMAIN, 1.5, constraints=Constraints(**limits))
    assert limited.law.lower_error > free.law.error
    (note,) = (n for n in limited.design.solution.notes if "no noise distribution" in n)
    assert "no noise distribution of this total and these limits has an error below" in note
    assert "no noise distribution of this total has an error below" in free.design.solution.notes[-1]
    said = page_html(allocation_page(limited))
    assert "of its total and these limits" in said
    assert "of its total and these limits" not in page_html(allocation_page(free))
