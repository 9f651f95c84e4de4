"""How many files a value passes on its way: ``python docs/journeys.py [--solvers] [TREE …]``, by default for this checkout.

Three journeys are watched, on small data that the tree's own commands randomize: ``optrr estimate --json`` of a CSV of 500
records; ``optrr gwas --json`` of the variants of a VCF (20 variants, 60 people); and ``optrr.test(counts, mechanism)``. Each
tree runs in a process of its own, in which TREE and TREE/solvers come first on the path. What is counted of each journey is
the calls of functions whose file lies in ``optrr``:

- entered: the files in which any function ran.
- handing on: those of them that were called from another file and called a further one. A helper that only answers is none.
- returns: walk along the called files, calls that follow each other in one file being one step, and count the steps to a file
  that was left before. "First" walks along the first call of each pair of files of which one calls the other; "all" along
  every call, also those within a file. A generator that goes on is called again.

Frames of other packages are passed over: what click calls is called by the file of ours above click. Not seen are what runs
while a module is imported, methods that dataclasses write, other threads, and other processes, such as the one that checks a
design apart. ``--solvers`` watches ``optrr_solvers``, too. Caches are as warm as what ran before leaves them.

An audit by hand followed one value at 4be320c8: 44 files and 64 returns (estimate), 36 and 52 (gwas), 15 files (test). Nearest
are the files that hand on, 41, 41 and 12, and the returns by first calls, 57 and 62. They were chosen for that among some
ten definitions, so they do not confirm the audit; but they count two trees alike.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

FIGURES = ("entered", "handing on", "returns, first", "returns, all")
Calls = list[tuple[str, str]]  # the file that calls, empty where none of ours does, and the file that is called
Figures = dict[str, dict[str, int]]  # of each journey, each of `FIGURES`


def watched(run: Callable[[], object], folders: tuple[str, ...]) -> Calls:
    """The calls of functions whose file lies in these folders, in order."""
    calls: Calls = []
    importing = 0

    def see(frame: FrameType, event: str, _: object) -> None:
        nonlocal importing
        file = frame.f_code.co_filename
        if event not in ("call", "return") or not file.startswith(folders):
            return
        if frame.f_code.co_name == "<module>":
            importing += 1 if event == "call" else -1
        elif event == "call" and not importing:
            above = frame.f_back
            while above is not None and not above.f_code.co_filename.startswith(folders):
                above = above.f_back
            calls.append((above.f_code.co_filename if above is not None else "", file))

    sys.setprofile(see)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


def figures(calls: Calls) -> dict[str, int]:
    """What is counted of the calls, by the names in `FIGURES`."""
    first = list(dict.fromkeys((caller, file) for caller, file in calls if caller != file))
    handing_on = {file for _, file in first} & {caller for caller, _ in first}
    entered = {file for _, file in calls}
    numbers = (len(entered), len(handing_on), returns(file for _, file in first), returns(file for _, file in calls))
    return dict(zip(FIGURES, numbers, strict=True))


def returns(files: Iterable[str]) -> int:
    """How often a sequence of files goes to one that it had left before."""
    steps = [file for file, _ in groupby(files)]
    return len(steps) - len(set(steps))


def command(*arguments: object) -> None:
    """Run an optrr command in this process; what it prints is shown only if it fails."""
    from optrr.cli import main  # noqa: PLC0415 (the tree's own, in its process alone)

    printed = io.StringIO()
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            main([str(a) for a in arguments])
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"optrr {arguments[0]} ended with {end.code}: {printed.getvalue()}") from end


def table(path: Path, head: list[str], rows: Iterable[list[str]], separator: str = ",") -> Path:
    """Write a text table; returns where."""
    path.write_text("".join(separator.join(row) + "\n" for row in (head, *rows)), encoding="utf-8")
    return path


def journeys(folder: Path) -> dict[str, Callable[[], object]]:
    """The journeys by name, their data made in a folder, from seeds, so that every run counts the same."""
    import optrr  # noqa: PLC0415 (the tree's own, in its process alone)

    draw, seed = random.Random(1), ("--random-state", 1)
    truth = table(folder / "true.csv", ["a", "b"], ([draw.choice("01"), draw.choice("012")] for _ in range(500)))
    records, design_file = folder / "records.csv", folder / "design.json"
    command("design", "--attribute=a=2:1", "--attribute=b=3:1", "-o", design_file)
    command("perturb", truth, "--design", design_file, "-o", records, *seed)

    people = [f"person{k}" for k in range(60)]
    status = ([person, ("case", "control")[k % 2]] for k, person in enumerate(people))
    phenotypes = table(folder / "status.csv", ["sample", "status"], status)
    asked = ("--phenotype", phenotypes, "--phenotype-column", "status", "--case", "case")
    head = ["##fileformat=VCFv4.2\n##contig=<ID=1>\n##FORMAT=<ID=GT,Number=1,Type=String,Description=Genotype>\n#CHROM"]
    head += ["POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *people]
    calls = ([draw.choice(("0/0", "0/1", "1/1")) for _ in people] for _ in range(20))
    rows = (["1", str(k), f"rs{k}", "A", "G", ".", ".", ".", "GT", *called] for k, called in enumerate(calls, 1))
    variants, genomic_file = table(folder / "true.vcf", head, rows, "\t"), folder / "genomic.json"
    command("gwas-design", variants, "--total-epsilon", 20, "-o", genomic_file, *asked)
    command("gwas-perturb", variants, "--design", genomic_file, "-o", folder / "variants.bed", *seed, *asked)

    # older trees load a design by its class
    load = getattr(optrr, "load", None) or optrr.Design.load
    design, test = load(design_file), optrr.test
    counts, mechanism = optrr.count(records, design.domain, ("a", "b")), design.mechanism
    return {
        "estimate": lambda: command("estimate", records, "--design", design_file, "--attributes", "a,b", "--json"),
        "gwas": lambda: command("gwas", folder / "variants.bed", "--design", genomic_file, "--json"),
        "test": lambda: test(counts, mechanism),
    }


def counted_here(tree: Path, solvers: bool) -> Figures:
    """Each journey's figures, in the process in which the tree comes first on the path."""
    import optrr  # noqa: PLC0415 (the tree's own, in its process alone)

    if not Path(optrr.__file__).is_relative_to(tree):
        raise ValueError(f"{tree} has no package optrr, {optrr.__file__} was imported; name a checkout's root")
    folders = tuple(f"{tree / package}{os.sep}" for package in ("optrr", "solvers/optrr_solvers")[: 1 + solvers])
    warnings.simplefilter("ignore", optrr.OptrrWarning)  # records drawn from a seed are not private
    with TemporaryDirectory() as folder:
        return {name: figures(watched(run, folders)) for name, run in journeys(Path(folder)).items()}


def counted(tree: Path, options: list[str]) -> Figures:
    """Each journey's figures, counted in a process of the tree's own."""
    path = os.pathsep.join((str(tree), str(tree / "solvers")))
    run = [sys.executable, __file__, "--here", *options, str(tree)]
    ended = subprocess.run(run, env=os.environ | {"PYTHONPATH": path}, check=True, stdout=subprocess.PIPE)
    figures_of: Figures = json.loads(ended.stdout)
    return figures_of


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trees", metavar="TREE", type=Path, nargs="*", default=[Path(__file__).parents[1]])
    parser.add_argument("--solvers", action="store_true", help="watch optrr_solvers, too")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    trees = [tree.resolve() for tree in given.trees]
    if given.here:
        print(json.dumps(counted_here(trees[0], given.solvers)))
    else:
        columns = [counted(tree, ["--solvers"] * given.solvers) for tree in trees]
        print("| journey | " + " | ".join(tree.name for tree in trees) + " |\n|" + "---|" * (1 + len(trees)))
        for name in columns[0]:
            for what in FIGURES:
                print(f"| {name}: {what} | " + " | ".join(f"{column[name][what]:,}" for column in columns) + " |")
