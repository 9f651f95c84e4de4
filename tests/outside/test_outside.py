"""What somebody adds in one file of their own goes everywhere; each file is imported by a program of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optrr
from optrr.core.errors import InvalidInput

HERE = Path(__file__).parent


def outside(module: str, code: str, folder: Path) -> Any:
    """What a program prints, as JSON, that imports one of the files beside this one."""
    lines = f"import json, sys\nimport numpy as np\nimport {module}, optrr\n{code}"
    path = os.pathsep.join([str(HERE), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", lines],
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def command(module: str, *arguments: str) -> str:
    """Code that runs a command, which prints JSON, after importing the file."""
    return f"from optrr.cli.main import run\nassert run({[*arguments, '--json']!r}) == 0"


def test_a_noise_distribution_is_designed_saved_drawn_estimated_exported_and_verified(tmp_path: Path) -> None:
    made = outside(
        "near",
        """
asked = [0.5, 0.9, 0.7]
design = optrr.design({"sex": ["f", "m"], "class": 4, "age": 5}, asked, method="near")
optrr.save(design, "d.json")
read = optrr.load("d.json")
rng = np.random.default_rng(3)
import pandas as pd
true = pd.DataFrame({"sex": rng.choice(["f", "m"], 200_000, p=[0.3, 0.7]), "class": rng.integers(0, 4, 200_000) ** 2 // 3,
                     "age": np.zeros(200_000, int)})
estimated = read.reports(read.randomize(true, random_state=4)).table("sex", "class")
wanted = pd.crosstab(true["sex"], true["class"]).reindex(columns=range(4), fill_value=0).to_numpy() / 200_000
optrr.export(read, "sampler.json")
print(json.dumps({
    "law": [type(read.law).__name__, read.epsilon, read.law.nats],
    "spare": float((read.attribute_epsilons - asked).min()),
    "errors": np.abs((estimated.estimate - wanted) / estimated.standard_error).ravel().tolist(),
    "holds": [optrr.verify("d.json").holds, optrr.verify("sampler.json", "d.json").holds],
}))""",
        tmp_path,
    )
    name, epsilon, nats = made["law"]
    assert name == "NearLaw" and nats <= epsilon <= nats + 1e-9 and -1e-9 <= made["spare"] < 1e-6
    # 8 cells beyond 5.5 standard errors: 3e-7
    assert max(made["errors"]) < 5.5 and made["holds"] == [True, True]
    # nobody else knows it
    with pytest.raises(InvalidInput, match="kind 'near'; give one of ball, blocks"):
        optrr.load(tmp_path / "d.json")


def test_a_method_is_one_of_the_commands_and_auto_leaves_it_alone(tmp_path: Path) -> None:
    asked = ["--attribute", "a=2:0.5", "--attribute", "b=3:0.5", "--attribute", "c=4:0.5"]
    made = outside("near", command("near", "design", *asked, "--method", "near", "-o", "d.json"), tmp_path)
    assert made["method"] == "near" and made["status"] == "baseline"
    assert outside("near", command("near", "verify", "d.json"), tmp_path)["holds"] is True
    compared = outside("near", command("near", "compare", *asked), tmp_path)["methods"]
    assert "near" in [each["method"] for each in compared]
    assert outside("near", command("near", "design", *asked), tmp_path)["method"] != "near"


def test_a_workload_is_allocated_for_bounded_and_one_of_the_commands(tmp_path: Path) -> None:
    domain, others = {"status": 2, "a": 3, "b": 4}, [("status", "a"), ("status", "b")]
    (tmp_path / "spec.toml").write_text(optrr.Specification(optrr.Domain.of(domain), np.full(3, np.nan)).to_toml())
    said = outside(
        "star",
        f"made = optrr.allocate({domain!r}, 2.0, workload='star', n=1000)\n"
        "print(json.dumps([made.error, made.error_bound, made.workload.name, made.protocol.name]))",
        tmp_path,
    )
    expected = optrr.allocate(domain, 2.0, workload=others, n=1000)
    assert said[:2] == pytest.approx([expected.error, expected.error_bound], rel=1e-9) and said[2] == "star"
    assert said[1] <= said[0]
    call = ("allocate", "spec.toml", "--total-epsilon", "2", "--workload", "star", "--n", "1000", "-o", "d.json")
    printed = outside("star", command("star", *call), tmp_path)
    assert printed["workload"] == "star" and printed["error_bound"] == pytest.approx(expected.error_bound)
    assert optrr.verify(tmp_path / "d.json").holds
    planned = f"print(json.dumps(optrr.plan({domain!r}, 2.0, workload='star').question.state()['learn']))"
    assert outside("star", planned, tmp_path) == "star"


def test_a_file_format_is_written_read_and_verified(tmp_path: Path) -> None:
    code = "optrr.save(tallies.Tally(7), 't.json')\nprint(json.dumps([optrr.load('t.json').wanted]))"
    assert outside("tallies", code, tmp_path) == [7]
    assert outside("tallies", command("tallies", "verify", "t.json"), tmp_path)["holds"] is True
    with pytest.raises(InvalidInput, match="has format 'optrr-tally/1', not 'optrr-design/1'"):
        optrr.load(tmp_path / "t.json")
