"""optrr audit: commands that are asked, logs that are read, and exit codes."""

import json
import shlex
import sys
from pathlib import Path

import pytest
from vectors import CLIENTS

import optrr
import optrr.devices.audit
from optrr.cli.main import run
from optrr.designs.design_file import load_design
from optrr.devices.clients import LogClient
from optrr.devices.label import label_of
from optrr.devices.planting import read_planted

# A client in ten lines: the plain Python client behind the protocol of lines.
CLIENT = f"""
import json, sys
sys.path.insert(0, {str(CLIENTS / "python")!r})
from optrr_client import Sampler
sampler = Sampler.load(sys.argv[1])
for line in sys.stdin:
    values = json.loads(line)["values"]
    codes = sampler.codes(dict(zip(sampler.names, values)))
    report = [c[k] for c, k in zip(sampler.categories, sampler.randomized(codes))]
    WRONG
    print(json.dumps({{"format": "optrr-report/1", "values": report}}))
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("audit")
    domain = optrr.Domain.of({"sex": ["F", "M"], "age": ["young", "old", None], "[b]": 4})
    design = optrr.design(domain, 1.0)
    optrr.save(design, folder / "design.json")
    optrr_export = ["export", str(folder / "design.json"), "-o", str(folder / "sampler.json")]
    assert run(optrr_export) == 0
    return folder / "design.json", folder / "sampler.json"


def command(folder: Path, sampler: Path, wrong: str = "pass") -> str:
    script = folder / "client.py"
    script.write_text(CLIENT.replace("WRONG", wrong))
    return shlex.join([sys.executable, str(script), str(sampler)])


@pytest.mark.slow
def test_a_command_that_is_right(files, tmp_path, capsys) -> None:
    design, sampler = files
    capsys.readouterr()
    words = ["audit", str(sampler), "--command", command(tmp_path, sampler), "--queries", "4000", "--json"]
    assert run(words) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["holds"] and result["queries"] == 4000 and result["level"] == 1e-6
    # at this level so few queries may show nothing at all
    assert 0 <= result["epsilon_bound"] < result["epsilon"]
    assert run(["audit", str(design), "--command", command(tmp_path, sampler), "--queries", "1000"]) == 0
    assert "consistent with its label at 1e-06" in capsys.readouterr().out


@pytest.mark.slow
def test_a_command_that_is_wrong(files, tmp_path, capsys) -> None:
    _, sampler = files
    capsys.readouterr()
    wrong = "report[0] = values[0]"
    words = ["audit", str(sampler), "--command", command(tmp_path, sampler, wrong), "--queries", "1000"]
    assert run(words) == 1
    said = capsys.readouterr().out
    assert "total epsilon VIOLATES" in said and said.splitlines()[-1].startswith("VIOLATES its label")
    for wrong in ("report[0] = 'X'", "report[2] = None"):
        words[3] = command(tmp_path, sampler, wrong)
        assert run(words) == 1
        assert "outside the label's categories" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("sys.exit('no bits')", "ended with code 1: 'no bits'"),
        ("continue", "answered 0 of 200 records"),
        ("print('{]')", "answered 400 of 200 records"),
        ("print('{]'); continue", "line 1 is no answer"),
        ("report.pop()", "line 1 has 2 values for 3 attributes"),
    ],
)
def test_a_command_that_fails(files, tmp_path, capsys, wrong: str, message: str) -> None:
    _, sampler = files
    words = ["audit", str(sampler), "--command", command(tmp_path, sampler, wrong), "--queries", "400"]
    assert run(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and message in said and said.count("\n") == 1


def test_a_command_that_cannot_be_started_or_is_slow(files, capsys) -> None:
    _, sampler = files
    base, few = ["audit", str(sampler)], ["--queries", "200"]
    for words, message in (
        ([*few, "--command", "/nowhere/client"], "cannot start '/nowhere/client'"),
        ([*few, "--command", "sleep 30", "--timeout", "0.2"], "took more than 0.2 s"),
        (["--command", "'"], "cannot be split"),
        (["--command", " "], "is empty"),
        (["--planted", "x"], "--planted and --received together"),
        (["--planted", "/nowhere/x", "--received", "y"], "cannot read /nowhere/x"),
    ):
        assert run([*base, *words]) == 2
        assert message in capsys.readouterr().err


# Remembers what it answered, in a file for each person or only while it runs.
REMEMBERING = """
import json, os, pathlib, random, sys
place, lasting = pathlib.Path(sys.argv[1]), sys.argv[2] == "lasting"
memory = {}
for line in sys.stdin:
    asked = json.loads(line)
    kept = place / str(asked["person"])
    if lasting and kept.exists():
        memory[asked["person"]] = kept.read_text()
    if asked["person"] not in memory:
        values = [random.SystemRandom().choice(["0", "1", "2"]) for _ in asked["values"]]
        memory[asked["person"]] = json.dumps(values)
        kept.write_text(memory[asked["person"]])
    print(memory[asked["person"]])
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lasting", "forgetful"])
def test_a_memory_must_outlast_the_process(tmp_path, capsys, kind: str) -> None:
    """Answers are uniform here, which is what three categories at 1e-6 nats look like to a thousand queries."""
    optrr.save(optrr.design(optrr.Domain.of({f"a{i}": 3 for i in range(4)}), 1e-6), tmp_path / "design.json")
    script, place = tmp_path / "client.py", tmp_path / "memory"
    script.write_text(REMEMBERING)
    place.mkdir()
    words = ["audit", str(tmp_path / "design.json"), "--queries", "1000"]
    words += ["--command", shlex.join([sys.executable, str(script), str(place), kind])]
    assert run([*words, "--once"]) == (0 if kind == "lasting" else 1)
    said = capsys.readouterr().out
    assert ("got the same answer" in said) == (kind == "lasting")
    assert ("got another answer" in said) == (kind == "forgetful")


def test_a_command_that_is_started_for_every_record(files, tmp_path, capsys) -> None:
    """The same answer from every start: a seed, which one process for all records would hide. It has no line feed."""
    _, sampler = files
    script = tmp_path / "seeded.sh"
    script.write_text('#!/bin/sh\nread line\nprintf \'["F", null, "3"]\'\n')
    script.chmod(0o700)
    words = ["audit", str(sampler), "--command", str(script), "--each", "--queries", "200"]
    assert run(words) == 1
    assert "VIOLATES" in capsys.readouterr().out


def test_a_log_of_planted_records(files, tmp_path, capsys) -> None:
    design, sampler = files
    planted, received = tmp_path / "planted.jsonl", tmp_path / "received.jsonl"
    assert run(["audit", str(sampler), "--plant", str(planted), "--queries", "2000"]) == 0
    told = [json.loads(line) for line in planted.read_text().splitlines()]
    assert len(told) == 2000 and set(told[0]) == {"person", "values"}
    kernel = load_design(design).mechanism
    label = label_of(sampler)
    _, runs = read_planted(planted, label.domain)
    texts = [a.texts for a in label.domain]
    with received.open("w") as file:
        for asked in runs:
            for record in kernel.perturb_codes(asked.records.astype(int)).tolist():
                file.write(json.dumps([known[c] for known, c in zip(texts, record, strict=True)]) + "\n")
    both = ["audit", str(sampler), "--planted", str(planted), "--received", str(received)]
    assert run(both) == 0
    log = LogClient(received, label)
    assert optrr.audit(label, log, optrr.devices.audit.AuditOptions(planted=planted)).queries == 2000
    with pytest.raises(optrr.InvalidInput, match="name their file"):
        optrr.audit(label, log)
    # nothing was randomized
    received.write_text("".join(json.dumps(x["values"]) + "\n" for x in told))
    assert run(both) == 1
    capsys.readouterr()
    # records that somebody chose do not bound epsilon
    planted.write_text("".join(json.dumps({"person": k, "values": ["F", None, "0"]}) + "\n" for k in range(2000)))
    assert run(both) == 2
    assert "not uniformly random" in capsys.readouterr().err
    planted.write_text(planted.read_text()[:-40])
    assert run(both) == 2


def test_the_default_is_our_own_randomizer(files, capsys) -> None:
    design, _ = files
    assert run(["audit", str(design), "--queries", "1000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("not seen from outside: ") for line in lines) == 3
    assert lines[-1].startswith("consistent with its label") and lines[-1].endswith("optrr's own randomizer")
