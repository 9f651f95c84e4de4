"""Which functions the proofs back, and whether they changed since.

Every ``prove_*.py`` names in BACKS the functions whose formulas it proves. ``backed.json`` beside it holds, per proof, a
digest of each function's syntax tree without docstrings, comments and layout. ``make test`` fails where one differs. Then
read the function again, adapt the proof to it, and record the new digests; this runs the proof first and records nothing
where it fails:

    python proofs/current.py prove_two_attributes
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from syntax import digest_of_trees

FOLDER = Path(__file__).parent
RECORD = FOLDER / "backed.json"


def proofs() -> list[str]:
    """Names of all proof files, without suffix."""
    return sorted(file.stem for file in FOLDER.glob("prove_*.py"))


def backs(proof: str) -> tuple[str, ...]:
    """The functions that a proof names in BACKS."""
    for node in ast.parse((FOLDER / f"{proof}.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "BACKS":
            return tuple(ast.literal_eval(node.value))
    raise ValueError(f"{proof}.py names no functions in BACKS")


def digest(function: str) -> str:
    """Digest of the syntax tree of ``package.module.name`` or ``package.module.Class.name``."""
    parts = function.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        spec = _find(".".join(parts[:cut]))
        if spec is not None and spec.origin is not None:
            tree: ast.AST = ast.parse(Path(spec.origin).read_text())
            for name in parts[cut:]:
                tree = next(x for x in ast.iter_child_nodes(tree) if getattr(x, "name", None) == name)
            return digest_of_trees([tree])
    raise ValueError(f"no module holds {function}")


def _find(module: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None


def recorded() -> dict[str, dict[str, str]]:
    """Digests by proof and function, as last checked."""
    return dict(json.loads(RECORD.read_text()))


def record(chosen: list[str]) -> None:
    """Write the present digests of the chosen proofs."""
    kept = recorded() if RECORD.exists() else {}
    kept = {proof: kept[proof] for proof in proofs() if proof in kept}
    kept |= {proof: {function: digest(function) for function in backs(proof)} for proof in chosen}
    RECORD.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    if not sys.argv[1:] or set(sys.argv[1:]) - set(proofs()):
        sys.exit(f"usage: python proofs/current.py PROOF...; proofs: {' '.join(proofs())}")
    files = [str(FOLDER / f"{proof}.py") for proof in sys.argv[1:]]
    if subprocess.run([sys.executable, "-m", "pytest", "-q", *files], check=False).returncode:
        sys.exit("a proof fails; nothing was recorded")
    record(sys.argv[1:])
