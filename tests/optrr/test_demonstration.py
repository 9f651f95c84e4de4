"""The main job on the bundled data, end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from optrr.cli.demo import TABLES, demonstrate
from optrr.cli.main import run

# Fixed seed; estimates lie within 5 standard errors of the truth but for a false-alarm rate below 1e-4 over all cells.
SEED = 11


def test_estimates_lie_near_the_truth_and_the_optimum_wins() -> None:
    shown = demonstrate(SEED)
    assert shown.records == 32561
    assert shown.used["Kronecker"].epsilon == pytest.approx(shown.used["optimum"].epsilon, abs=1e-9)
    assert [t.domain.names for t in shown.tables] == [tuple(t) for t in TABLES]
    for table in shown.tables:
        assert table.truth.sum() == pytest.approx(1)
        for name in ("optimum", "Kronecker"):
            assert np.all(np.abs(table.estimates[name] - table.truth) < 5 * table.standard_errors[name])
        assert table.expected_error("Kronecker") > 3 * table.expected_error("optimum")
    totals = {name: d.epsilon for name, d in shown.compared.items()}
    assert totals["optimum"] < totals["optimum, pairs kept"] < totals["Kronecker"] == pytest.approx(8.0)


@pytest.mark.slow
def test_demo_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    assert run(["demo", "-o", str(page), "--random-state", "1"]) == 0
    out = capsys.readouterr().out
    for word in ("32561 records", "sex × income", "education × income", "truth", "times as much"):
        assert word in out
    assert page.read_text().count("<svg ") == 2
    assert run(["demo", "--json", "--random-state", "1"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["seconds"] > 0
    assert all(t["error_ratio"] > 0 for t in printed["tables"])
