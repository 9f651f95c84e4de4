"""README's code runs as printed, and its numbers are what the product computes."""

import csv
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import optrr
from optrr.cli.main import run
from optrr.core.domain.datasets import adult_domain

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_there_are_blocks_to_run() -> None:
    assert len(blocks("python")) >= 1
    assert len(blocks("toml")) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("code", blocks("python"))
def test_python_block_runs(code: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(code.splitlines()) <= 12


def test_command_line_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of the command block, in order, on records drawn for the specification that README shows."""
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text(blocks("toml")[0], encoding="utf-8")
    people = "".join(f"{'FM'[k % 2]},{k % 9}\n" for k in range(4000))
    for name in ("records.csv", "public.csv"):
        Path(name).write_text("sex,age\n" + people, encoding="utf-8")
    lines = [line for line in blocks("sh")[1].splitlines() if line.startswith("optrr")]
    assert len(lines) >= 6
    for line in lines:
        arguments = line.split("#")[0].split()[1:]
        assert run(arguments) == 0, line


def test_table_of_numbers_is_current() -> None:
    rows = re.findall("^" + r"\| ([\d.]+) " * 6 + r"\|$", README, flags=re.MULTILINE)
    assert len(rows) == 5
    for row in rows:
        asked, kronecker, pairs, optimum, conditional, any_mechanism = map(float, row)
        plain = optrr.design(adult_domain(), asked)
        kept = optrr.design(adult_domain(), asked, constraints=optrr.Constraints(preserve="pairs"))
        computed = (plain.kronecker_epsilon, kept.epsilon, plain.epsilon, plain.conditional_epsilons.max())
        assert computed == pytest.approx((kronecker, pairs, optimum, conditional), abs=6e-4)
        # Σ (r−1) λ² with λ = (e^ε − 1)/(e^ε − 1 + r), as in the design, §3.9
        gain = np.expm1(asked) / (np.expm1(asked) + adult_domain().sizes)
        energy = np.sum((adult_domain().sizes - 1) * gain**2)
        # no lower than the energies alone prove, and no higher than a mechanism that meets every accuracy
        assert 2 * np.arcsinh(np.sqrt(energy)) - 1e-3 <= any_mechanism <= plain.epsilon


def test_picture_is_drawn_from_the_current_numbers() -> None:
    with (ROOT / "benchmarks" / "results" / "readme.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows[::8]:
        made = optrr.design(adult_domain(), float(row["epsilon_i"]))
        assert float(row["optimum"]) == pytest.approx(made.epsilon, rel=1e-4)
    assert (ROOT / "benchmarks" / "results" / "readme.svg").stat().st_size > 10_000
