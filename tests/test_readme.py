"""README's code runs and prints what stands below it, and its numbers are what the product computes."""

import csv
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import readme

import optrr
from optrr.core.domain.datasets import adult_domain

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
with (ROOT / "benchmarks" / "results" / "readme.csv").open() as file:
    ROWS = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)
    return str(found)


@pytest.mark.slow
def test_python_block_prints_its_output(tmp_path: Path) -> None:
    """The line of ε is printed to the last digit; in the others, estimates differ from draw to draw."""
    code = block("python")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed, shown = done.stdout.splitlines(), block("text").splitlines()
    assert printed[0] == shown[0]
    words = [[re.sub(r"[\d.]+(e-\d+)?|─| ", "", line) for line in lines] for lines in (printed, shown)]
    assert words[0][: len(shown)] == words[1]
    assert len([line for line in code.splitlines() if line and "import" not in line]) <= 8


def test_claims_are_those_of_the_results() -> None:
    domain = adult_domain()
    plain = optrr.design(domain, 1.0)
    lines = readme.claim_lines({"optimum": plain.epsilon, "kronecker": plain.kronecker_epsilon})
    assert "\n".join([readme.BEGIN, *lines, readme.END]) in README
    assert plain.lower_bound == pytest.approx(plain.epsilon, abs=1e-4)


@pytest.mark.parametrize("row", ROWS[::8], ids=lambda row: f"{row['epsilon_i']:.3g}")
def test_curve_is_current(row: dict[str, float]) -> None:
    domain, requested = adult_domain(), row["epsilon_i"]
    plain = optrr.design(domain, requested)
    kept = optrr.design(domain, requested, constraints=optrr.Constraints(preserve="pairs"))
    computed = (plain.kronecker_epsilon, kept.epsilon, plain.epsilon, plain.conditional_epsilons.max())
    stated = [row[key] for key in ("kronecker", "pairs_kept", "optimum", "conditional")]
    assert computed == pytest.approx(stated, rel=1e-4)
    # Σ (r−1) λ² with λ = (e^ε − 1)/(e^ε − 1 + r), as in theory §3.9
    gain = np.expm1(requested) / (np.expm1(requested) + domain.sizes)
    energy = np.sum((domain.sizes - 1) * gain**2)
    # no lower than the energies alone prove, and no higher than a mechanism that meets every accuracy
    assert 2 * np.arcsinh(np.sqrt(energy)) - 1e-3 <= row["any_mechanism"] <= plain.epsilon
