"""Files of one or two records, of records all alike, and without some category: an answer or a line, and no warnings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import optrr
from optrr import Domain, InvalidInput, count, design, estimate
from optrr.cli.main import main
from optrr.models.synthesis.drawing import synthesize
from optrr.tables.estimation.estimator import estimate_adjusted

DOMAIN = Domain.of({"a": 2, "b": ["x", "y", "z"], "k": [1, 2, 3]})
FILES = {
    "one": [[0, 1, 2]],
    "two": [[0, 1, 2], [1, 0, 0]],
    "alike": [[1, 1, 1]] * 40,
    "no z": [[i % 2, i % 2, i // 2 % 3] for i in range(40)],
}
COMMANDS = [
    "estimate --attributes a",
    "estimate --attributes a,b --method adjusted",
    "estimate --attributes a,b --method mle",
    "estimate --attributes a,b --method projection",
    "estimate --attributes a,k --simultaneous",
    "estimate --attributes a,k --derive correlation",
    "estimate --attributes a,b --derive cramers-v",
    "estimate --attributes a,b --derive mutual-information",
    pytest.param("test --attributes a,b", marks=pytest.mark.slow),
    "test --attributes a,k --test trend",
    pytest.param("test --attributes a,b --given k", marks=pytest.mark.slow),
    "measure --measure odds-ratio --attributes a,k",
    "measure --measure means --attributes a,k",
    "model --attributes a,b --terms a*b",
    "model --attributes a,b,k --stepwise 2",
    "regress --formula k~1",
    "regress --formula k~a",
    "regress --formula a~b+k",
    "regress --formula a~1",
    "synthesize -o drawn.csv",
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.filterwarnings("error")
def test_every_command_answers_or_refuses_in_a_line(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made = design(DOMAIN, [1.0, 1.5, 2.0], preserve="pairs")
    optrr.save(made, "design.json")
    for name, codes in FILES.items():
        frame = {a.name: [a.categories[c] for c in np.array(codes)[:, i]] for i, a in enumerate(DOMAIN)}
        pd.DataFrame(frame).to_csv("records.csv", index=False)
        action, *options = command.split()
        with pytest.raises(SystemExit) as ended:
            main([action, "records.csv", "--design", "design.json", *options])
        said, code = capsys.readouterr().err, ended.value.code
        # 1 where the records say too little, 2 where a command cannot use such records at all
        assert not code or (code in (1, 2) and len(said.strip().splitlines()) == 1), (name, said)
        assert "No such option" not in said and "Invalid value" not in said


def test_one_record_has_no_estimate_and_makes_no_records() -> None:
    mechanism = design(DOMAIN, 2.0, preserve="pairs").mechanism
    one = np.array(FILES["one"])
    for refused in (
        lambda: estimate(count(one, DOMAIN, "a"), mechanism),
        lambda: estimate_adjusted(one, mechanism, ["a", "b"]),
        lambda: synthesize(one, mechanism),
    ):
        with pytest.raises(InvalidInput, match="1 record has no standard error; count at least 2"):
            refused()
