"""Inputs at the ends: one or two records, records all alike, files without end, numbers that no double holds."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import optrr
from optrr import Domain, InvalidInput, count, design, estimate
from optrr.budgets.workload import read_workload
from optrr.cli.main import main
from optrr.designs.design_file import load_design
from optrr.designs.specification import read_specification
from optrr.devices.verify import load_deployment
from optrr.domain.bins import Bins
from optrr.errors import OptrrError
from optrr.models.synthesis.drawing import synthesize
from optrr.releases import sealed
from optrr.releases.sealed import read_small
from optrr.tables.estimation.estimator import estimate_adjusted
from optrr.ways.longitudinal.design import load_longitudinal
from optrr.ways.longitudinal.rounds import Key
from optrr.ways.protocols.sampled_tables import load_sampled_tables

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


ENDLESS = Path("/dev/zero")
READERS: list[Callable[[Path], object]] = [
    read_specification,
    load_design,
    load_longitudinal,
    load_sampled_tables,
    load_deployment,
    Key.load,
    lambda path: read_workload(path, Domain.of({"a": 2})),
]


def test_the_limit_is_the_last_size_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ten"
    path.write_bytes(b"0123456789")
    assert read_small(path, 10) == b"0123456789"
    with pytest.raises(InvalidInput, match="more than 9 bytes"):
        read_small(path, 9)


@pytest.mark.skipif(not ENDLESS.exists(), reason="there is no /dev/zero")
@pytest.mark.parametrize("reader", READERS)
def test_what_never_ends_is_refused(reader: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch) -> None:
    # the default is bound when the function is made, so it is lowered there
    monkeypatch.setattr(sealed.read_small, "__defaults__", (1 << 20,))
    with pytest.raises(InvalidInput, match="more than"):
        reader(ENDLESS)


SIZES = {"a": 2, "b": 3}
TAKEN: dict[str, Callable[[int], object]] = {
    "epsilon": lambda x: optrr.design(SIZES, x),
    "epsilons": lambda x: optrr.design(SIZES, [x, 1]),
    "named epsilons": lambda x: optrr.design(SIZES, {"a": x, "b": 1.0}),
    "total": lambda x: optrr.design(SIZES, 1.0, total=x),
    "cap": lambda x: optrr.design(SIZES, 1.0, conditional_cap=x),
    "caps": lambda x: optrr.design(SIZES, 1.0, conditional_cap={"a": x}),
    "kappa": lambda x: optrr.design(SIZES, 1.0, preserve="pairs", kappa=x),
    "time limit": lambda x: optrr.SolveOptions(time_limit=x),
    "tolerance": lambda x: optrr.SolveOptions(tolerance=x),
    "total to allocate": lambda x: optrr.allocate(optrr.Domain.of(SIZES), x),
    "floor": lambda x: optrr.allocate(optrr.Domain.of(SIZES), 1.0, floors=x),
    "size": lambda x: optrr.design({"a": 2, "b": x}, 1.0),
    "edge": lambda x: Bins((0, 1, x)),
}


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("what", TAKEN)
def test_a_number_that_no_double_holds(what: str, digits: int) -> None:
    with pytest.raises(OptrrError) as said:
        TAKEN[what](10**digits)
    assert "\n" not in str(said.value) and len(str(said.value)) < 400
