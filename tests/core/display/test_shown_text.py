"""Text from outside in everything that commands show, and inputs at the ends: few records, endless files, huge numbers."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import optrr
from optrr import Constraints, Domain, InvalidInput, count, design, estimate
from optrr.allocation.sampled_tables import load_sampled_tables
from optrr.allocation.workload import read_workload
from optrr.analysis.synthesis.drawing import synthesize
from optrr.cli.main import main, run
from optrr.core.design.design_file import load_design
from optrr.core.design.specification import read_specification
from optrr.core.display.charts import figure_svg, label_text, new_figure
from optrr.core.display.text import LONGEST_LINE, amount, printable
from optrr.core.domain.bins import Bins
from optrr.core.errors import OptrrError
from optrr.core.estimation.estimator import estimate_adjusted
from optrr.core.provenance import sealed
from optrr.core.provenance.sealed import read_small
from optrr.devices.verify import load_deployment
from optrr.longitudinal.design import load_longitudinal
from optrr.longitudinal.rounds import Key

NAMES = [
    "[/b][red]",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202egnp.exe\u2066",
    "n" * 20_000,
    "$x^",
    "<script>alert(1)</script>",
]
CATEGORIES = ["[/i]", "\x1b[31mred", "\u202eright", "c" * 20_000]
SECRET = "positive-for-Zanzibar"  # a true value that must not be told
FORBIDDEN = ["\x1b", "\x07", "\u202e", "\u2066", "n" * 5_000, "c" * 5_000]
FIRST, SECOND = NAMES[0], NAMES[1]


def test_one_is_counted_in_the_singular() -> None:
    assert [amount(k, "table") for k in (0, 1, 2)] == ["0 tables", "1 table", "2 tables"]
    assert [amount(text, "record") for text in ("0.5", "1", "1.5")] == ["0.5 records", "1 record", "1.5 records"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A specification, its design, true and randomized records, all with such names."""
    here = tmp_path_factory.mktemp("shown")
    attributes = [{"name": n, "categories": CATEGORIES[: 2 + k % 3], "epsilon": 2.0} for k, n in enumerate(NAMES)]
    (here / "s.json").write_text(json.dumps({"attributes": attributes}))
    rows = [{n: CATEGORIES[(k + j) % (2 + j % 3)] for j, n in enumerate(NAMES)} for k in range(400)]
    pq.write_table(pa.Table.from_pylist(rows), here / "true.parquet")
    pq.write_table(pa.Table.from_pylist([{**r, SECOND: SECRET} for r in rows]), here / "wrong.parquet")
    made = optrr.design(
        {a["name"]: a["categories"] for a in attributes}, 2.0, constraints=optrr.Constraints(preserve="pairs")
    )
    optrr.save(made, here / "d.json")
    made.randomize(here / "true.parquet", here / "out.parquet")
    return here


DONE = {
    "design": ["design", "s.json", "-o", "made.json"],
    "compare": ["compare", "s.json"],
    "allocate": ["allocate", "s.json", "--total-epsilon", "6"],
    "randomize": ["randomize", "true.parquet", "--design", "d.json", "-o", "again.parquet"],
    "estimate": ["estimate", "out.parquet", "--design", "d.json", "--attributes", FIRST],
    "estimate of the longest": ["estimate", "out.parquet", "--design", "d.json", "--attributes", NAMES[3]],
    "test": ["test", "out.parquet", "--design", "d.json", "--attributes", f"{FIRST},{SECOND}"],
    "cluster": ["cluster", "out.parquet", "--design", "d.json", "--max-combinations", "50", "--min-dependence", "0.1"],
    "export": ["export", "d.json", "-o", "sampler.json"],
    "account": ["account", "out.parquet"],
    "verify": ["verify", "d.json"],
    "spec": ["spec", "true.parquet"],
}
REFUSED = {
    "randomize": ["randomize", "wrong.parquet", "--design", "d.json", "-o", "x.parquet"],
    "estimate": ["estimate", "wrong.parquet", "--design", "d.json", "--attributes", SECOND],
    "test": ["test", "wrong.parquet", "--design", "d.json", "--attributes", f"{FIRST},{SECOND}"],
    "cluster": ["cluster", "wrong.parquet", "--design", "d.json", "--max-combinations", "50", "--min-dependence", "0"],
    "no such attribute": ["estimate", "out.parquet", "--design", "d.json", "--attributes", NAMES[3] + "x"],
    "no such column": [
        "randomize",
        "true.parquet",
        "--design",
        "d.json",
        "-o",
        "x.parquet",
        "--public",
        f"weight={NAMES[2]}x",
    ],
    "no such file": ["verify", f"{NAMES[1]}.json"],
    "no such command": [NAMES[1]],
    "no such option": ["verify", f"--{NAMES[1]}"],
    "no such format": ["design", f"{NAMES[2]}.xls", "-o", "x.json"],
}


@pytest.mark.parametrize("command", [pytest.param(c, marks=[pytest.mark.slow] * (c == "allocate")) for c in DONE])
def test_a_command_shows_them_escaped_and_cut(command, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert run(DONE[command]) == 0
    shown = capsys.readouterr()
    text = shown.out + shown.err
    # a specification is shown as the file that it is, so that nothing in it is cut
    whole = command == "spec"
    assert not [bad for bad in FORBIDDEN if bad in text and not (whole and len(bad) > 1)]
    assert len(text) < 60_000 or whole
    # what looks like markup is shown as it is
    assert FIRST in text or command not in ("design", "estimate")
    # as JSON they are whole, and escaped by JSON's own rules
    if command not in ("randomize",):
        assert run([*DONE[command], "--json"]) == 0
        assert "\x1b" not in json.dumps(json.loads(capsys.readouterr().out))


def test_a_proposed_specification_means_what_it_shows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert run(["spec", "true.parquet", "-o", "spec.toml"]) == 0
    text = Path("spec.toml").read_text(encoding="utf-8")
    assert all(c.isprintable() or c == "\n" for c in text)
    assert [a["name"] for a in tomllib.loads(text)["attributes"]] == NAMES


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_refusal_is_one_short_line_without_the_true_value(mistake, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert run(REFUSED[mistake]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("error: ") and shown.err.count("\n") == 1
    assert len(shown.err) < LONGEST_LINE + 100
    assert SECRET not in shown.out + shown.err
    assert not [bad for bad in FORBIDDEN if bad in shown.out + shown.err]


@pytest.mark.slow
def test_pages_and_charts_show_them_as_text(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert run(["allocate", "s.json", "--total-epsilon", "6", "--html", "r.html"]) == 0
    design = load_design("d.json")
    pages = [
        Path("r.html").read_text(encoding="utf-8"),
        design._repr_html_(),
        figure_svg(design.plot()),
        figure_svg(design.reports(pq.read_table("out.parquet")).table(FIRST).plot()),
    ]
    for page in pages:
        assert not [bad for bad in [*FORBIDDEN, "<script>alert"] if bad in page]


def test_a_dollar_starts_no_formula() -> None:
    for text in ("$x^$", "$$", "a$b", "$"):
        assert label_text(text) == text.replace("$", r"\$")
    drawn = new_figure()
    drawn.subplots().set_title(label_text(r"$\frac{$ costs"))
    assert r"$\frac{$ costs" in figure_svg(drawn)


def test_spaces_of_all_widths_are_kept_and_the_rest_escaped() -> None:
    assert printable("1\u202f000\xa0a\nb") == "1\u202f000\xa0a\nb"
    assert printable("\x1b\u202e\u200b\ud800\x00") == r"\x1b\u202e\u200b\ud800\x00"


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
    "estimate --attributes a,k --statistic correlation",
    "estimate --attributes a,b --statistic cramers-v",
    "estimate --attributes a,b --statistic mutual-information",
    pytest.param("test --attributes a,b", marks=pytest.mark.slow),
    "test --attributes a,k --hypothesis trend",
    pytest.param("test --attributes a,b --given k", marks=pytest.mark.slow),
    "estimate --statistic odds-ratio --attributes a,k",
    "estimate --statistic means --attributes a,k",
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
    made = design(DOMAIN, [1.0, 1.5, 2.0], constraints=Constraints(preserve="pairs"))
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
    mechanism = design(DOMAIN, 2.0, constraints=Constraints(preserve="pairs")).mechanism
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
    "cap": lambda x: optrr.design(SIZES, 1.0, constraints=optrr.Constraints(conditional_cap=x)),
    "caps": lambda x: optrr.design(SIZES, 1.0, constraints=optrr.Constraints(conditional_cap={"a": x})),
    "kappa": lambda x: optrr.design(SIZES, 1.0, constraints=optrr.Constraints(preserve="pairs", kappa=x)),
    "time limit": lambda x: optrr.SolveOptions(time_limit=x),
    "tolerance": lambda x: optrr.SolveOptions(tolerance=x),
    "total to allocate": lambda x: optrr.allocate(optrr.Domain.of(SIZES), x),
    "floor": lambda x: optrr.allocate(optrr.Domain.of(SIZES), 1.0, constraints=optrr.Constraints(min_epsilon=x)),
    "size": lambda x: optrr.design({"a": 2, "b": x}, 1.0),
    "edge": lambda x: Bins((0, 1, x)),
}


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("what", TAKEN)
def test_a_number_that_no_double_holds(what: str, digits: int) -> None:
    with pytest.raises(OptrrError) as said:
        TAKEN[what](10**digits)
    assert "\n" not in str(said.value) and len(str(said.value)) < 400
