"""allocate: what is said of promises that are useless, of files that are large, and of what goes on."""

import pytest

from optrr import allocate
from optrr.cli.main import run

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
