"""Size of the installation of optrr, and times of commands: weight.csv, weight.md.

The last commit is installed into a separate virtual environment, with the versions of constraints.txt. Sizes are those of the
whole environment. Times are the processor's, user and system, the least of seven runs: other work on the machine hardly moves
them.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from writing import markdown, write_csv, write_text

ROOT = Path(__file__).resolve().parent.parent
RUNS = 7
RECORDS = 3_000
SPECIFICATION = (
    'epsilon = 1.0\n[[attributes]]\nname = "sex"\ncategories = ["F", "M"]\n[[attributes]]\nname = "age"\nsize = 5\n'
)
COMMANDS = {
    "optrr --version": "--version",
    "optrr --help": "--help",
    "optrr design, two attributes": "design spec.toml -o design.json --preserve pairs",
    "optrr randomize, 3,000 records": "randomize records.csv --design design.json -o released.parquet",
    "optrr estimate, 3,000 records": "estimate released.parquet --design design.json --attributes sex,age",
    "optrr test, 3,000 records": "test released.parquet --design design.json --attributes sex,age",
}
IMPORTS = (
    "optrr",
    "optrr.cli.main",
    "optrr.core.design.designs",
    "optrr.core.estimation.estimator",
    "optrr.core.inference",
    "cvxpy",
)


def installed(folder: Path) -> Path:
    """The Python of a fresh environment with the base install."""
    tree = folder / "tree"
    tree.mkdir(parents=True)
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", "HEAD"], capture_output=True, check=True).stdout
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


def measured() -> dict[str, float]:
    """Sizes in MB and times in s."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        python = installed(folder / "install")
        out = {"base install, MB": megabytes(folder / "install/venv")}
        for path in sorted((folder / "install/venv/lib").glob("python*/site-packages/*")):
            size = megabytes(path)
            if size > 20:
                out[f"… {path.name}, MB"] = size
        (folder / "spec.toml").write_text(SPECIFICATION)
        rows = "".join(f"{'FM'[k % 2]},{k % 5}\n" for k in range(RECORDS))
        (folder / "records.csv").write_text("sex,age\n" + rows)
        for name, arguments in COMMANDS.items():
            if arguments.startswith("randomize"):  # what is written is bound to its design, and written anew each time
                (folder / "released.parquet").unlink(missing_ok=True)
            out[f"{name}, s"] = processor_seconds([str(python.with_name("optrr")), *arguments.split()], folder)
        bare = processor_seconds([str(python), "-c", "pass"], folder)
        out["python -c pass, s"] = bare
        for name in IMPORTS:
            out[f"import {name}, s"] = processor_seconds([str(python), "-c", f"import {name}"], folder) - bare
        return out


def main() -> None:
    sizes = measured()
    write_csv("weight.csv", [{"what": name, "now": value} for name, value in sizes.items()])
    shown = [{"what": name, "now": f"{v:.{0 if name.endswith('MB') else 2}f}"} for name, v in sizes.items()]
    write_text(
        "weight.md",
        "Base install and commands; times are the processor's, the least of seven runs (benchmarks/weight.py).",
        markdown(shown),
    )


if __name__ == "__main__":
    main()
