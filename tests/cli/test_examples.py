"""The example that ends each command's help runs, and prints the JSON object that its schema describes.

``python -m tests.cli.test_examples`` writes the schemas of all commands anew.
"""

import json
import shlex
import shutil
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest

import optrr
from optrr.cli.main import COMMANDS, run
from tests.fuzz.commands import PRIVATE

SCHEMAS = Path(optrr.__file__).with_name("cli") / "schemas"
SPEC = """epsilon = 1.0
[[attributes]]
name = "sex"
categories = ["F", "M"]
[[attributes]]
name = "age"
categories = ["18-39", "40-64", "65+"]
[[attributes]]
name = "income"
categories = ["low", "high"]
"""
# What the examples read, in the order in which it is made.
MADE = """
optrr design spec.toml --preserve pairs -o design.json
optrr randomize records.csv --design design.json -o randomized.csv
optrr randomize weighted-records.csv --design design.json --public weight=w --public group=g -o weighted.csv
optrr export design.json -o sampler.json
optrr synthesize randomized.csv --design design.json --sets 3 -o synthetic.csv
optrr gwas design genotypes.csv --phenotype-column status --case case --total-epsilon 20 -o gwas.json
optrr gwas randomize genotypes.csv --phenotype-column status --case case --design gwas.json -o randomized-genotypes.csv
optrr waves design spec.toml --lifetime-epsilon 3 -o waves.json
optrr waves randomize people.csv --design waves.json --secret secret --new-secret --id-column id --wave 1 -o wave1.csv
"""
# It goes on until it is ended.
UNENDING = ("serve",)
# Calls whose object has other keys than that of the command's example.
ANALYSED = "--design design.json --attributes sex,income"
OTHERS = {
    "estimate-weighted": "optrr estimate weighted.csv --design design.json --attributes income",
    "estimate-rows": f"optrr estimate randomized.csv {ANALYSED} --statistic risk-difference",
    "estimate-number": f"optrr estimate randomized.csv {ANALYSED} --statistic cramers-v",
    "test-family": f"optrr test randomized.csv {ANALYSED} --also sex,age",
    "power-width": f"optrr power {ANALYSED} --truth 0.25,0.25,0.25,0.25 --width 0.05",
    "synthesize-combine": "optrr synthesize estimates.csv --combine",
}


def example(name: str) -> str:
    text: str = resolve_name(COMMANDS[name][1]).example
    return " ".join(text.split())


def calls() -> dict[str, str]:
    """Every call, by the name of its schema."""
    return {name.replace(" ", "-"): example(name) for name in COMMANDS if name not in UNENDING} | OTHERS


def prepare(folder: Path) -> None:
    """Write into the working folder what the examples read."""
    rng = np.random.default_rng(1)
    (folder / "spec.toml").write_text(SPEC)
    (folder / "key.pem").write_text(PRIVATE)
    (folder / "workload.toml").write_text('[[tables]]\nattributes = ["sex", "income"]\n')
    columns = {"sex": ["F", "M"], "age": ["18-39", "40-64", "65+"], "income": ["low", "high"]}
    records = pd.DataFrame({name: rng.choice(values, 3000) for name, values in columns.items()})
    records.to_csv(folder / "records.csv", index=False)
    records.assign(w=1.5, g="north").to_csv(folder / "weighted-records.csv", index=False)
    records.assign(id=[f"p{k}" for k in range(3000)]).to_csv(folder / "people.csv", index=False)
    genotypes = pd.DataFrame(rng.binomial(2, 0.4, (400, 3)), columns=["rs1", "rs2", "rs3"])
    genotypes.insert(0, "status", rng.choice(["case", "control"], 400))
    genotypes.to_csv(folder / "genotypes.csv", index=False)
    sets = [("mean", x) for x in rng.normal(1, 0.1, 20)]
    pd.DataFrame(sets, columns=["parameter", "estimate"]).to_csv(folder / "estimates.csv", index=False)
    for line in MADE.strip().split("\n"):
        assert run(shlex.split(line)[1:]) == 0, line


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        prepare(here)
    return here


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_of_itself(name):
    assert example(name).startswith(f"optrr {name} ")


@pytest.mark.slow
@pytest.mark.parametrize("name", calls())
def test_the_example_runs_and_prints_what_the_schema_says(name, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(shutil.copytree(folder, tmp_path / "json"))
    assert run([*shlex.split(calls()[name])[1:], "--json"]) == 0, capsys.readouterr().err
    printed = json.loads(capsys.readouterr().out)
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(printed, schema)
    # nothing is left undescribed
    assert set(printed) <= {key for key, of in schema["properties"].items() if of.get("description")}
    monkeypatch.chdir(shutil.copytree(folder, tmp_path / "text"))
    assert run(shlex.split(calls()[name])[1:]) == 0
    assert len(capsys.readouterr().out) > 0


def schema_of(value: Any, depth: int = 2) -> dict[str, Any]:
    """The schema of a value, with the keys of objects down to this depth; a number that is not finite is null."""
    if isinstance(value, dict):
        if not depth or not value:
            return {"type": "object"}
        return {"type": "object", "properties": {key: schema_of(each, depth - 1) for key, each in value.items()}}
    if isinstance(value, list):
        return {"type": "array"} | ({"items": schema_of(value[0], depth)} if value else {})
    if value is None:
        return {}
    kinds = {bool: "boolean", int: "integer", float: ["number", "null"], str: "string"}
    return {"type": kinds[type(value)]}


def described(call: str, printed: dict[str, Any], file: Path) -> dict[str, Any]:
    """The schema, with the descriptions that the file has already."""
    schema = schema_of(printed)
    known = json.loads(file.read_text())["properties"] if file.exists() else {}
    for key, of in schema["properties"].items():
        of.update({"description": known[key]["description"]} if "description" in known.get(key, {}) else {})
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"{call} --json"}
    return {**head, **schema, "required": list(printed)}


def written(value: Any, indent: str = "") -> str:
    """JSON with what fits on a line on one."""
    line = json.dumps(value)
    if not isinstance(value, dict) or len(indent + line) < 116:
        return line
    inner = indent + "  "
    rows = ",\n".join(f"{inner}{json.dumps(key)}: {written(each, inner)}" for key, each in value.items())
    return f"{{\n{rows}\n{indent}}}"


if __name__ == "__main__":
    import contextlib
    import io
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as copies:
        os.chdir(place)
        prepare(Path(place))
        for each, call in calls().items():
            os.chdir(shutil.copytree(place, Path(copies, each)))
            out, file = io.StringIO(), SCHEMAS / f"{each}.json"
            with contextlib.redirect_stdout(out):
                assert run([*shlex.split(call)[1:], "--json"]) == 0, call
            file.write_text(written(described(call, json.loads(out.getvalue()), file)) + "\n")
