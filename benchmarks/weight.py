"""What `pip install optrr` brings and how long commands take, of this tree and of an earlier commit: weight.csv, weight.md.

    python benchmarks/weight.py [COMMIT]

Each version goes into a virtual environment of its own, with the versions of its constraints.txt. Sizes are those of the whole
environment. Times are the processor's, user and system, the least of seven runs: other work on the machine hardly moves them.
"""

from __future__ import annotations

import csv
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import optrr

HERE = Path(__file__).parent
# The checkout that is measured: benchmarks run in a scratch copy of their folder.
ROOT = Path(optrr.__file__).resolve().parent.parent
RESULTS = HERE / "results"
# The last commit before its heavy parts became extras.
BEFORE = "7b33154"
RUNS = 7
RECORDS = 3_000
SPECIFICATION = (
    'epsilon = 1.0\n[[attributes]]\nname = "sex"\ncategories = ["F", "M"]\n[[attributes]]\nname = "age"\nsize = 5\n'
)
COMMANDS = {
    "optrr --version": ["--version"],
    "optrr --help": ["--help"],
    "optrr design, two attributes": ["design", "spec.toml", "-o", "design.json", "--preserve", "pairs"],
    "optrr perturb, 3,000 records": ["perturb", "records.csv", "--design", "design.json", "-o", "released.parquet"],
    "optrr estimate, 3,000 records": [
        "estimate",
        "released.parquet",
        "--design",
        "design.json",
        "--attributes",
        "sex,age",
    ],
    "optrr test, 3,000 records": ["test", "released.parquet", "--design", "design.json", "--attributes", "sex,age"],
}
IMPORTS = (
    "optrr",
    "optrr.cli.main",
    "optrr.designs.design",
    "optrr.tables.estimation.estimator",
    "optrr.models.tests",
    "cvxpy",
)


def installed(commit: str | None, folder: Path) -> Path:
    """The Python of a fresh environment with the base install of a commit, or of this tree."""
    tree = folder / "tree"
    tree.mkdir(parents=True)
    named = ["archive", commit or "HEAD"]
    packed = subprocess.run(["git", "-C", str(ROOT), *named], capture_output=True, check=True).stdout
    subprocess.run(["tar", "x", "-C", str(tree)], input=packed, check=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    pip = [str(folder / "venv/bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", str(tree / "constraints.txt"), str(tree)], check=True)
    return folder / "venv/bin/python"


def megabytes(folder: Path) -> float:
    """What the files take on disk."""
    done = subprocess.run(["du", "-sk", str(folder)], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0]) / 1024


def processor_seconds(command: list[str], folder: Path) -> float:
    """User and system time of the quickest of seven runs."""
    times = []
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def measured(commit: str | None) -> dict[str, float]:
    """Sizes in MB and times in s of one version."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        python = installed(commit, folder / "install")
        out = {"base install, MB": megabytes(folder / "install/venv")}
        for path in sorted((folder / "install/venv/lib").glob("python*/site-packages/*")):
            size = megabytes(path)
            if size > 20:
                out[f"… {path.name}, MB"] = size
        (folder / "spec.toml").write_text(SPECIFICATION)
        rows = "".join(f"{'FM'[k % 2]},{k % 5}\n" for k in range(RECORDS))
        (folder / "records.csv").write_text("sex,age\n" + rows)
        for name, arguments in COMMANDS.items():
            if arguments[0] == "perturb":  # what is written is bound to its design, and written anew each time
                (folder / "released.parquet").unlink(missing_ok=True)
            out[f"{name}, s"] = processor_seconds([str(python.with_name("optrr")), *arguments], folder)
        bare = processor_seconds([str(python), "-c", "pass"], folder)
        out["python -c pass, s"] = bare
        for name in IMPORTS:
            try:
                out[f"import {name}, s"] = processor_seconds([str(python), "-c", f"import {name}"], folder) - bare
            except subprocess.CalledProcessError:
                continue  # this version has it under another name
        return out


def write(before: dict[str, float], after: dict[str, float], commit: str) -> None:
    names = list(dict.fromkeys([*after, *before]))
    rows = [(name, before.get(name), after.get(name)) for name in names]
    with (RESULTS / "weight.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("what", "before", "now"), *rows])
    lines = [f"| what | before ({commit}) | now |", "|---|---|---|"]
    lines += [f"| {name} | {_shown(a, name)} | {_shown(b, name)} |" for name, a, b in rows]
    text = "Base install and commands; times are the processor's, the least of seven runs (benchmarks/weight.py).\n\n"
    (RESULTS / "weight.md").write_text(text + "\n".join(lines) + "\n")


def _shown(value: float | None, name: str) -> str:
    return "–" if value is None else f"{value:.0f}" if name.endswith("MB") else f"{value:.2f}"


if __name__ == "__main__":
    commit = sys.argv[1] if len(sys.argv) > 1 else BEFORE
    write(measured(commit), measured(None), commit)
