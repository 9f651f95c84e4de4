"""A file that is written again stays as private as it was, whatever command writes it, and so does what is new beside it."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from genotypes import cohort_of

import optrr
from optrr.cli.main import run
from optrr.genomics import write_plink
from tests.fuzz.commands import PRIVATE

COMMANDS = {
    "design": ("design s.toml -o made.json", "made.json"),
    "spec": ("spec true.csv -o proposed.toml", "proposed.toml"),
    "allocate": ("allocate s.toml --total-epsilon 2 -o allocated.json", "allocated.json"),
    "page": ("compare s.toml --report page.html", "page.html"),
    "plan": (
        "plan s.toml --total-epsilon 2 --write -o .",
        "plan.toml specification.toml design.json sampler.json statement.html analysis.py README.txt",
    ),
    "perturb to CSV": ("perturb true.csv --design d.json -o out.csv", "out.csv out.csv.optrr.json"),
    "perturb to Parquet": ("perturb true.csv --design d.json -o out.parquet", "out.parquet"),
    "estimate": ("estimate given.csv --design d.json --attributes a -o table.csv", "table.csv"),
    "export": ("export d.json -o sampler.json", "sampler.json"),
    "export of a matrix": ("export d.json --matrix a -o matrix.csv", "matrix.csv"),
    "sign": ("sign d.json --key key.pem -o d.sig", "d.sig"),
    "worksheet": ("worksheet d.json -o sheet.md", "sheet.md"),
    "genotypes": ("gwas-perturb given.bed --design g.json -o out.bed", "out.bed out.bim out.fam out.bed.optrr.json"),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    (folder / "s.toml").write_text(
        'epsilon = 1.0\n[[attributes]]\nname = "a"\nsize = 2\n[[attributes]]\nname = "b"\nsize = 3\n'
    )
    made = optrr.design({"a": 2, "b": 3}, 1.0)
    optrr.save(made, folder / "d.json")
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.integers(0, 2, 50), "b": rng.integers(0, 3, 50)})
    frame.to_csv(folder / "true.csv", index=False)
    made.randomize(folder / "true.csv", folder / "given.csv")
    (folder / "key.pem").write_text(PRIVATE)
    return folder


@pytest.fixture
def usual_mask() -> Iterator[None]:
    """New files are readable by everybody, as on most machines."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_written_again_stays_as_private_as_it_was(command, prepared, tmp_path, monkeypatch, usual_mask):
    del usual_mask
    words, names = COMMANDS[command]
    written = names.split()
    folder = tmp_path / "here"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    if "gwas" in words:
        plink(folder)
    assert run(words.split()) == 0
    assert {mode(folder / name) for name in written} == {0o644}
    for name in written:
        (folder / name).chmod(0o600)
    before = {name: (folder / name).stat().st_ino for name in written}
    assert run(words.split()) == 0
    assert {mode(folder / name) for name in written} == {0o600}
    assert all((folder / name).stat().st_ino != before[name] for name in written)
    # what is new beside a private file is private, too
    for name in written[1:]:
        (folder / name).unlink()
    assert run(words.split()) == 0
    assert {mode(folder / name) for name in written} == {0o600}


def plink(folder: Path) -> None:
    """Genotypes of a few people and a design for them."""
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    write_plink(cohort_of(np.arange(16).reshape(8, 2) % 3), folder / "given.bed")
    assert run(["gwas-design", "given.bed", "--total-epsilon", "4", "--method", "kronecker", "-o", "g.json"]) == 0
