"""Which functions the proofs back, and whether they changed since.

Every ``prove_*.py`` names in BACKS the functions whose formulas it proves. ``backed.json`` beside it holds, per proof, a digest
of what each function does (`items.py`): docstrings, comments and layout do not count, nor where it stands and what it is
called. ``make test`` fails where a digest is nowhere in today's tree. Then read the function again, adapt the proof to it, and
record the new digests; this runs the proof first and records nothing where it fails:

    python proofs/current.py prove_two_attributes

Where functions only moved or have other names, this writes the new places into BACKS:

    python proofs/current.py --moved
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

from items import Item, Project, package_folder

FOLDER = Path(__file__).parent
RECORD = FOLDER / "backed.json"
PACKAGES = ("optrr", "optrr_solvers")


@cache
def project() -> Project:
    """What the proofs are about."""
    return Project({name: package_folder(name) for name in PACKAGES})


def proofs() -> list[str]:
    """Names of all proof files, without suffix."""
    return sorted(file.stem for file in FOLDER.glob("prove_*.py"))


def backs(proof: str) -> tuple[str, ...]:
    """The functions that a proof names in BACKS."""
    for node in ast.parse((FOLDER / f"{proof}.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "BACKS":
            return tuple(ast.literal_eval(node.value))
    raise ValueError(f"{proof}.py names no functions in BACKS")


def item(function: str) -> Item:
    """The item that ``package.module.name`` or ``package.module.Class.name`` means.

    Raises
    ------
    ValueError
        Where there is none.
    """
    parts = function.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        meant = (".".join(parts[:cut]), ".".join(parts[cut:]))
        if project().file(meant[0]) and project().trees(meant):
            return meant
    raise ValueError(f"no module holds {function}; where it only moved, run: python proofs/current.py --moved")


def digest(function: str) -> str:
    """Digest of what a function does and of what it mentions."""
    meant = item(function)
    return project().plain(meant) + project().linked(meant)


@cache
def today() -> dict[str, Item]:
    """Where each digest stands now."""
    return {project().plain(each) + project().linked(each): each for each in project().items}


def recorded() -> dict[str, dict[str, str]]:
    """Digests by proof and function, as last checked."""
    return dict(json.loads(RECORD.read_text()))


def record(chosen: list[str]) -> None:
    """Write the present digests of the chosen proofs."""
    kept = recorded() if RECORD.exists() else {}
    kept = {proof: kept[proof] for proof in proofs() if proof in kept}
    kept |= {proof: {function: digest(function) for function in backs(proof)} for proof in chosen}
    RECORD.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")


def moved(proof: str) -> dict[str, str]:
    """The functions of a proof that stand elsewhere now, by the place that BACKS names."""
    kept = recorded().get(proof, {})
    gone = [function for function in backs(proof) if not _stands(function) and kept.get(function) in today()]
    return {function: ".".join(today()[kept[function]]) for function in gone}


def _stands(function: str) -> bool:
    try:
        return bool(item(function))
    except ValueError:
        return False


def rename(proof: str, places: dict[str, str]) -> None:
    """Write new places into a proof's BACKS and into the record."""
    file = FOLDER / f"{proof}.py"
    text = file.read_text()
    for before, now in places.items():
        text = text.replace(f'"{before}"', f'"{now}"')
    file.write_text(text)
    kept = recorded()
    kept[proof] = {places.get(function, function): value for function, value in kept[proof].items()}
    RECORD.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")


def main(arguments: list[str]) -> None:
    """The command line."""
    if arguments == ["--moved"]:
        for proof in proofs():
            rename(proof, moved(proof))
        return
    if not arguments or set(arguments) - set(proofs()):
        sys.exit(f"usage: python proofs/current.py --moved | PROOF...; proofs: {' '.join(proofs())}")
    files = [str(FOLDER / f"{proof}.py") for proof in arguments]
    if subprocess.run([sys.executable, "-m", "pytest", "-q", *files], check=False).returncode:
        sys.exit("a proof fails; nothing was recorded")
    record(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
