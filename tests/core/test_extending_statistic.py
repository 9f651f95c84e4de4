"""A statistic of association that is added from outside: one small module, and a line in the table of statistics."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import optrr
from optrr import Counts, Domain, design
from optrr.core.design.design_file import save_design
from optrr.core.inference.associations import ASSOCIATIONS
from optrr.core.inference.power_analysis import alternative_of
from optrr.core.mechanisms.kernel import unrandomized
from optrr.genomics.score_tests import genotype_tests, score_test

# The whole extension: dominance, the carriers of an allele against all others.
MODULE = '''
from functools import cached_property

import numpy as np

from optrr.core.inference.associations import ASSOCIATIONS, Association
from optrr.core.inference.nullfit import trend_contrast


class Carriers(Association):
    """Whether carriers of the first category differ from others in the categories' order of the second attribute."""

    name = "carriers"
    of_genotypes = "one effect of any copy of A1"

    @cached_property
    def contrasts(self):
        rows, columns = self.sizes
        return trend_contrast(np.arange(rows) > 0, np.arange(columns))


ASSOCIATIONS["carriers"] = "carriers:Carriers"
'''
TABLE = np.array([[240, 160], [150, 150], [30, 40]])
DOMAIN = Domain.of({"g": 3, "status": 2})


@pytest.fixture
def carriers(tmp_path, monkeypatch):
    (tmp_path / "carriers.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("carriers")
    yield tmp_path
    del ASSOCIATIONS["carriers"], sys.modules["carriers"]


def correlated(table):
    """n times the squared correlation of being a carrier and the status, by the people one by one."""
    g, s = np.repeat(np.argwhere(table >= 0), table.ravel(), axis=0).T
    return table.sum() * np.corrcoef(g > 0, s)[0, 1] ** 2


def test_it_is_tested_planned_and_scanned_by_name(carriers):
    plain = unrandomized((3, 2))
    one = optrr.test(Counts(DOMAIN, TABLE), plain, "carriers")
    assert one.test == "carriers" and one.df == 1 and one.statistic == pytest.approx(correlated(TABLE))
    planned = alternative_of("carriers", TABLE / TABLE.sum(), plain)
    assert TABLE.sum() * planned.noncentrality == pytest.approx(correlated(TABLE), rel=1e-6)
    assert genotype_tests()["carriers"] == "one effect of any copy of A1"
    scanned = score_test(np.stack([TABLE, TABLE[:, ::-1]]), plain, "carriers")
    np.testing.assert_allclose(scanned.statistic, correlated(TABLE), rtol=1e-9)
    with pytest.raises(optrr.InvalidInput, match="carriers"):
        optrr.test(Counts(DOMAIN, TABLE), plain, "nonsense")


def test_reports_and_commands_take_it(carriers):
    made = design(DOMAIN, {"g": 6.0, "status": 6.0})
    save_design(made, carriers / "d.json")
    g, s = np.repeat(np.argwhere(TABLE >= 0), TABLE.ravel(), axis=0).T
    randomized = made.mechanism.randomize_codes(np.stack([g, s], axis=1).astype(np.int8), random_state=1)
    lines = ["g,status", *(",".join(map(str, row)) for row in randomized)]
    (carriers / "r.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run = "import sys, carriers; from optrr.cli.main import run; sys.exit(run(sys.argv[1:]))"

    def said(*arguments):
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(carriers), *filter(None, sys.path)])}
        done = subprocess.run(
            [sys.executable, "-c", run, *arguments], cwd=carriers, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    reports = optrr.reports(str(carriers / "r.csv"), made)
    wanted = reports.test("g", "status", hypothesis="carriers")
    got = json.loads(
        said("test", "r.csv", "--design", "d.json", "--attributes", "g,status", "--hypothesis", "carriers", "--json")
    )
    assert (got["test"], got["statistic"]) == ("carriers", pytest.approx(wanted.statistic))
    assert "carriers" in said("test", "--help") and "carriers: one effect of any copy of A1" in " ".join(
        said("gwas", "scan", "--help").split()
    )
    truth = ",".join(str(x / TABLE.sum()) for x in TABLE.ravel())
    arguments = (
        "--design",
        "d.json",
        "--attributes",
        "g,status",
        "--truth",
        truth,
        "--hypothesis",
        "carriers",
        "--json",
    )
    assert json.loads(said("power", *arguments))["df"] == 1
