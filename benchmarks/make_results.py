"""Run the scripts whose results are kept, and record the origin of each file in results/index.csv.

    python benchmarks/make_results.py            the quick scripts
    python benchmarks/make_results.py --all      every script, each after those whose results it reads
    python benchmarks/make_results.py NAME ...   these scripts

A script takes no arguments and writes into results/. It states ``QUICK = True`` at its top if it takes less than a minute and
gives the same numbers every time, and its ``SEED`` if it draws random numbers.
"""

import csv
import datetime
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
INDEX = FOLDER / "results" / "index.csv"
COLUMNS = ("file", "script", "seed", "versions", "commit", "date")
# These read what others write, each what those before it write.
LAST = ("paper_claims", "readme", "pages")


def scripts() -> dict[str, str]:
    """The text of every script by its name, in the order in which they run."""
    texts = {f.stem: f.read_text(encoding="utf-8") for f in sorted(FOLDER.glob("*.py")) if f != Path(__file__)}
    runnable = [name for name, text in texts.items() if "\nif __name__ ==" in text and name != "make_data"]
    return {name: texts[name] for name in sorted(runnable, key=lambda n: LAST.index(n) + 1 if n in LAST else 0)}


def quick() -> list[str]:
    """Names of the scripts that take less than a minute."""
    return [name for name, text in scripts().items() if "\nQUICK = True\n" in text]


def run(script: str, folder: Path = FOLDER) -> set[Path]:
    """Run a script that lies in this folder, or in a copy of it; the files that it wrote there and in docs/papers."""
    places = (folder / "results", folder.parent / "docs" / "papers")

    def times() -> set[tuple[Path, int]]:
        return {(f, f.stat().st_mtime_ns) for place in places if place.is_dir() for f in place.iterdir()}

    before = times()
    one_thread = os.environ | {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    subprocess.run([sys.executable, f"benchmarks/{script}.py"], cwd=folder.parent, env=one_thread, check=True)
    return {file for file, _ in times() - before}


def index() -> dict[str, dict[str, str]]:
    """What made each result, by file."""
    with INDEX.open(newline="", encoding="utf-8") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


def write_index(rows: dict[str, dict[str, str]]) -> None:
    with INDEX.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for name, row in sorted(rows.items()) if (INDEX.parent / name).is_file())


def main(chosen: list[str]) -> int:
    """Run scripts, and state in the index what each wrote; 1 if one failed."""
    described = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(described, cwd=FOLDER, capture_output=True, text=True, check=True).stdout.strip()
    versions = "; ".join(f"{name} {version(name)}" for name in ("optrr", "numpy", "scipy", "highspy"))
    failed = []
    for script in chosen:
        print(script, flush=True)
        try:
            written = run(script)
        except subprocess.CalledProcessError:
            failed.append(script)
            continue
        seed = re.search(r"^SEED = (.*)$", scripts()[script], flags=re.MULTILINE)
        made = (script, seed[1] if seed else "", versions, commit, str(datetime.date.today()))
        results = [f.name for f in written if f.parent == INDEX.parent]
        write_index(index() | {name: dict(zip(COLUMNS, (name, *made), strict=True)) for name in results})
    print("failed:", ", ".join(failed) or "none")
    return 1 if failed else 0


if __name__ == "__main__":
    asked = list(scripts()) if sys.argv[1:] == ["--all"] else sys.argv[1:] or quick()
    unknown = sorted(set(asked) - set(scripts()))
    sys.exit(f"no script {', '.join(unknown)}" if unknown else main(asked))
