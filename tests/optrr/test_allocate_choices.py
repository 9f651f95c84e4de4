"""allocate: what is said of promises that are useless, of files that are large, and when sampling may be chosen."""

import json

import numpy as np
import pytest

import optrr
from optrr import InvalidInput, allocate
from optrr.cli.main import run
from optrr.ways.protocols.sampled_tables import SampledTables

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


@pytest.mark.parametrize("seed", range(4))
def test_sampling_is_chosen_where_it_is_more_accurate_and_allowed(seed):
    rng = np.random.default_rng(seed)
    sizes = {f"a{i}": int(rng.integers(2, 7)) for i in range(rng.integers(2, 5))}
    total = float(rng.uniform(0.3, 9.0))
    plain, allowed = allocate(sizes, total, n=500), allocate(sizes, total, n=500, sampling=True)
    assert plain.asking is plain.design and plain.summary()["keeps_records"]
    # everybody answers one attribute with all of the total: Σ over attributes of the roots, squared (Cauchy–Schwarz)
    e = np.exp(total)
    best = []
    for r in sizes.values():
        unary = 4 * r * e / (e - 1) ** 2 + 2 - 1 / r
        subsets = []
        for k in range(1, r):
            p = k * e / (k * e + r - k)
            q = (p * (k - 1) + (1 - p) * k) / (r - 1)
            subsets.append(k * (1 - k / r) / (p - q) ** 2)
        best.append(min(unary, *subsets))
    sampled = np.sum(np.sqrt(best)) ** 2
    # a mixture of questions on several attributes may do better, but never than any mechanism can
    assert allowed.error_bound <= allowed.error <= min(sampled, plain.error) * (1 + 1e-6)
    assert isinstance(allowed.asking, SampledTables) == (allowed.error < plain.error)
    weighted = sum(p.weight * p.error for p in allowed.predictions)
    assert weighted == pytest.approx(allowed.error, rel=1e-9)
    for p in allowed.predictions:
        assert p.standard_error == pytest.approx(allowed.asking.standard_error(p.attributes, 500), rel=1e-9)


def test_sampling_from_the_command_line(tmp_path, capsys):
    spec = ["--attribute", "a=4:1", "--attribute", "b=5:1"]
    path = tmp_path / "asking.json"
    assert run(["allocate", *spec, "--total-epsilon", "1", "--sampling", "-o", str(path), "--json"]) == 0
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    assert not printed["keeps_records"] and printed["method"] == "sampling" and "no records are kept" in captured.err
    assert optrr.load(path).epsilon == printed["epsilon"] <= 1 + 1e-9
    assert run(["allocate", *spec, "--total-epsilon", "1", "--sampling"]) == 0
    assert "predicted errors" in capsys.readouterr().out


def test_limits_and_sampling_exclude_each_other():
    for wishes in ({"floors": 0.1}, {"preserve": "pairs"}, {"ceilings": 1.0}):
        with pytest.raises(InvalidInput, match="leave sampling out"):
            allocate(DOMAIN, 1.0, sampling=True, **wishes)
    with pytest.raises(InvalidInput, match="leave sampling out"):
        allocate(DOMAIN, n=100, standard_error=0.1, sampling=True)


def test_whoever_watches_sees_the_bracket_close():
    seen = []
    allocation = allocate(DOMAIN, 1.0, progress=lambda error, lower: seen.append((error, lower)))
    assert seen and all(lower <= error * (1 + 1e-12) for error, lower in seen)
    assert seen[-1][0] == pytest.approx(allocation.error, rel=1e-4)
