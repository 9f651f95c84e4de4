"""What comments and documents cite is there: sections of theory and architecture, proofs, files."""

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
# copies of files that the site shows cite what their originals do
DOCUMENTS = [f for f in sorted((ROOT / "docs").rglob("*.md")) if "source" not in f.parent.relative_to(ROOT).parts]
TEXTS = [
    file for folder in ("optrr", "solvers", "proofs", "benchmarks") for file in sorted((ROOT / folder).rglob("*.py"))
] + [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *DOCUMENTS]

SECTION = re.compile(r"§(\d+(?:\.\d+)?)")
CITED = re.compile(r"(?:theory|architecture) (§[\d.]+(?:(?:, |–| and |, and )§?[\d.]*\d)*)")
FILES = re.compile(r"(?<![/\w])(?:proofs|benchmarks|docs|tests|optrr|solvers)/[-\w/]+(?:\.(?:py|md|csv|json|svg))?")
MODULE = re.compile(r":mod:`([\w.]+)`")
PROOF = re.compile(r"\bprove_\w+")


def sections() -> set[str]:
    """Numbers of the headings of theory.md and architecture.md."""
    texts = [(ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("theory", "architecture")]
    return {number for text in texts for number in re.findall(r"^#+ (\d+(?:\.\d+)?)[. ]", text, re.MULTILINE)}


def names_in(file: Path) -> set[str]:
    """Functions that a Python file defines."""
    return {n.name for n in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(n, ast.FunctionDef)}


@functools.cache
def proofs() -> set[str]:
    """Names of all proofs: files and functions."""
    files = list((ROOT / "proofs").glob("prove_*.py"))
    return {f.stem for f in files} | {name for f in files for name in names_in(f)}


def test_theory_and_architecture_have_sections():
    assert {"1", "2", "3.2", "3.7", "4.4", "5.1", "7"} <= sections()


def test_every_cited_section_is_there():
    known, seen = sections(), 0
    for file in TEXTS:
        for cited in CITED.findall(file.read_text(encoding="utf-8")):
            numbers = re.findall(r"\d+(?:\.\d+)?", cited)
            seen += len(numbers)
            assert set(numbers) <= known, f"{file.relative_to(ROOT)} cites theory or architecture {cited}"
    assert seen > 50


def missing(file: Path) -> list[str]:
    """What a file cites and is not there: paths and proofs."""
    text, wrong = file.read_text(encoding="utf-8"), []
    for path in FILES.findall(text):
        if path.startswith("benchmarks/results/") and (ROOT / "benchmarks") in file.parents:
            # what a script writes may not be kept; the results have a test of their own
            continue
        there = ROOT / path
        if not there.exists() and not any(there.parent.glob(there.name + ".*")):
            wrong.append(path)
    if (ROOT / "proofs") not in file.parents:
        wrong += [name for name in PROOF.findall(text) if name not in proofs()]
    return wrong


def test_every_cited_proof_and_file_is_there():
    wrong = {str(file.relative_to(ROOT)): missing(file) for file in TEXTS}
    assert not {file: cited for file, cited in wrong.items() if cited}


def test_every_cited_module_is_there():
    """By its whole name, or by what of it is not the name of a folder around the citing file."""
    seen = 0
    for file in TEXTS:
        for cited in MODULE.findall(file.read_text(encoding="utf-8")):
            seen += 1
            path = cited.replace(".", "/")
            places = [folder / path for folder in (*file.parents, ROOT / "solvers") if folder.is_relative_to(ROOT)]
            there = any(p.with_suffix(".py").is_file() or (p / "__init__.py").is_file() for p in places)
            assert there, f"{file.relative_to(ROOT)} cites the module {cited}"
    assert seen > 30
