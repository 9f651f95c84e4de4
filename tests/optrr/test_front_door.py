"""What a person meets first: names, reprs, tables and files."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

import optrr
from optrr import InvalidInput, OptrrError


def made(m=3):
    return optrr.design({f"q{i}": 2 + i % 3 for i in range(m)}, 1.0)


def test_every_name_of_the_front_door_is_there_and_documented():
    assert set(dir(optrr)) == {*optrr.__all__, "__version__"}
    for name in optrr.__all__:
        assert getattr(optrr, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        optrr.nothing  # noqa: B018


@pytest.mark.slow
def test_the_functions_stay_functions_whatever_is_imported():
    code = (
        "import optrr, optrr.tables.estimation, optrr.models.tests, optrr.designs.design, optrr.budgets.advice\n"
        "assert all(callable(getattr(optrr, n)) for n in optrr.__all__)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_loads_nothing_heavy():
    code = "import sys, optrr; assert not {'numpy', 'scipy', 'highspy', 'pyarrow', 'cvxpy'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_one_root_for_every_refusal():
    for refused in (
        lambda: optrr.design({"a": 2}, 100.0),
        lambda: optrr.design({"a": 1}, 1.0),
        lambda: optrr.design({"a": 2, "b": 2}, 1.0, conditional_cap=0.5),
        lambda: optrr.design({f"a{i}": 2 + i % 7 for i in range(30)}, 1.0, method="lp"),
        lambda: optrr.design({"a": 2}, 1.0, method="best"),
    ):
        with pytest.raises(InvalidInput) as caught:
            refused()
        assert isinstance(caught.value, OptrrError) and isinstance(caught.value, ValueError)
    assert issubclass(optrr.SolveFailed, OptrrError) and not issubclass(optrr.SolveFailed, InvalidInput)


@pytest.mark.slow
@pytest.mark.parametrize("m", [2, 3000])
def test_reprs_are_short_and_show_no_addresses(m):
    design = made(m)
    data = np.zeros((4, m), dtype=int)
    counts = optrr.count(data, design.domain, ["q0", "q1"])
    for shown in (design, design.domain, design.mechanism, counts):
        assert len(repr(shown)) < 300 and "0x" not in repr(shown)


@pytest.mark.slow
def test_results_are_tables_for_everyone():
    design = made()
    codes = np.random.default_rng(1).integers(0, 2, (500, 3))
    results = (
        design,
        design.verify(),
        optrr.count(codes, design.domain, ["q0", "q1"]),
        optrr.allocate(design.domain, 2.0, n=100),
        optrr.advise(design.domain, 2.0),
        optrr.tradeoff(design.domain, [1.0, 2.0]),
    )
    for result in results:
        table = result.to_arrow()
        assert table.num_rows
        assert isinstance(result.to_pandas(), pd.DataFrame) and len(result.to_pandas()) == table.num_rows
        assert isinstance(result.to_polars(), pl.DataFrame)
        assert repr(result).startswith(f"<{type(result).__name__}: ")
        assert "<table>" in result._repr_html_()


def test_what_a_notebook_shows_is_escaped():
    counts = optrr.Counts(optrr.Domain.of({"<b>": ["<script>", "x"]}), np.array([1, 2]))
    assert "<script>" not in counts._repr_html_() and "&lt;script&gt;" in counts._repr_html_()


def test_a_design_saves_loads_and_verifies(tmp_path):
    path = tmp_path / "design.json"
    made().save(path)
    assert optrr.Design.load(path).epsilon == made().epsilon
    verification = optrr.verify(path)
    assert verification.holds and "hold" in verification.headline()
    path.write_text(path.read_text().replace('"status": "optimal"', '"status": "bracketed"'))
    assert not optrr.verify(path).holds and "digest" in optrr.verify(path).headline()


def test_perturb_takes_frames_and_files(tmp_path):
    mechanism = made().mechanism
    frame = pd.DataFrame({"q0": [0, 1], "q1": [2, 0], "q2": [3, 1]})
    assert list(optrr.perturb(frame, mechanism).columns) == ["q0", "q1", "q2"]
    frame.to_csv(tmp_path / "in.csv", index=False)
    assert optrr.perturb(tmp_path / "in.csv", mechanism, tmp_path / "out.csv") == 2
    with pytest.raises(InvalidInput, match="say which file"):
        optrr.perturb(tmp_path / "in.csv", mechanism)
    assert optrr.perturb(frame, mechanism, tmp_path / "frame.csv") == 2
    assert optrr.count(tmp_path / "frame.csv", mechanism.domain, "q0").n == 2


@pytest.mark.slow
def test_plots_are_figures():
    design = made()
    assert design.plot().axes and optrr.tradeoff(design.domain, [1.0, 2.0]).plot().axes
