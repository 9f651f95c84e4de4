"""The clients' test vectors, and the scripts beside them, for tests."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

CLIENTS = Path(__file__).parents[1] / "clients"
VECTORS = CLIENTS / "vectors"


def load_script(path: Path) -> ModuleType:
    """A module from its file, under a name that hides no other."""
    name = f"clients_{path.parent.name}_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def read(name: str) -> Any:
    """One vector file."""
    return json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))


# The files with cases: one for every kind of law, and for every kind of questions.
NAMES = sorted(p.stem for p in VECTORS.glob("*.json") if not p.stem.startswith(("refused-", "questions-", "trials-")))
QUESTIONS = sorted(p.stem for p in VECTORS.glob("questions-*.json"))
TRIALS = sorted(p.stem for p in VECTORS.glob("trials-*.json"))
# Checking this file in exact rationals takes seconds.
LONG = "questions-everything"
