"""Options that a mode of a command has no use for are refused, even with their default values."""

import numpy as np
import pandas as pd
import pytest

import optrr
from optrr.cli.main import run
from optrr.genomics.designing import Budget, Wanted, genomic_design

CALL = ("--design", "design.json", "--attributes", "a,b")
SHARES = ("--proportions", "0.3,0.2,0.1,0.4")
TEST = ("test", "records.csv", *CALL)
GOODNESS = ("--test", "goodness-of-fit", *SHARES)
HOMOGENEITY = ("--test", "homogeneity", "--group", "records.csv")
WEIGHTED = ("--weight", "w")
POWER = ("power", *CALL, *SHARES)
WIDTH = (*POWER, "--width", "0.2")
REFUSED = [
    ("--bootstrap", "7", (*TEST, "--given", "c")),
    ("--bootstrap", "1999", (*TEST, *GOODNESS)),
    ("--bootstrap", "7", (*TEST, *HOMOGENEITY)),
    ("--bootstrap", "7", (*TEST, "--calibration", "asymptotic")),
    ("--random-state", "7", (*TEST, "--calibration", "asymptotic")),
    ("--bootstrap", "7", (*TEST, *WEIGHTED)),
    ("--random-state", "7", (*TEST, *WEIGHTED)),
    ("--single-cluster", "centred", TEST),
    ("--single-cluster", "centred", ("estimate", "records.csv", *CALL)),
    ("--level", "0.05", WIDTH),
    ("--power", "0.8", WIDTH),
    ("--n", "9", WIDTH),
    ("--confidence", "0.95", POWER),
    ("--simultaneous", None, POWER),
    ("--random-state", "1", ("model", "records.csv", *CALL, "--terms", "a*b")),
    ("--clusters", "3", ("cluster", "records.csv", *CALL[:2], "--max-combinations", "9", "--min-dependence", "0.1")),
    ("--case", "yes", ("gwas", "g.csv", "--design", "alleles.json")),
    ("--sample-column", "who", ("gwas", "g.csv", "--design", "alleles.json")),
    ("--control", "no", ("gwas-study", "g.csv", "--total-epsilon", "1")),
    ("--each", None, ("audit", "design.json")),
    ("--timeout", "3", ("audit", "design.json")),
    ("--level", "0.01", ("audit", "design.json", "--plant", "planted.jsonl")),
    ("--queries", "5000", ("audit", "design.json", "--planted", "p.jsonl", "--received", "r.jsonl")),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refusals")
    made = optrr.design(dict.fromkeys("abc", 2), dict.fromkeys("abc", 3.0), method="kronecker")
    optrr.save(made, folder / "design.json")
    optrr.save(genomic_design(Wanted(["v1"], kind="alleles"), Budget(variants=1.0)), folder / "alleles.json")
    pd.DataFrame({"v1": [0, 1, 2]}).to_csv(folder / "g.csv", index=False)
    records = pd.DataFrame(np.random.default_rng(1).integers(0, 2, (400, 3)), columns=list("abc"))
    records.assign(w=1 + np.arange(400) % 2).to_csv(folder / "records.csv", index=False)
    return folder


@pytest.mark.parametrize(("option", "value", "call"), REFUSED)
def test_an_option_without_use_is_refused(place, monkeypatch, capsys, option, value, call):
    monkeypatch.chdir(place)
    assert run([*call, option, *([] if value is None else [value])]) == 2
    out, err = capsys.readouterr()
    assert not out and option in err and err.count("\n") == 1


@pytest.mark.parametrize("call", [TEST, (*TEST, *WEIGHTED), WIDTH])
def test_the_same_call_without_it_is_answered(place, monkeypatch, call):
    monkeypatch.chdir(place)
    assert run([*call]) == 0
