"""The kept corpus: for every target a few small inputs, one JSON text a line, each character a byte.

Some were written by hand to start from, some reached code that no other did, and some once brought a defect to light.
"""

import json
from pathlib import Path

FOLDER = Path(__file__).with_name("corpus")


def kept(name: str) -> list[bytes]:
    """The kept inputs of a target; none where there is no file yet."""
    path = FOLDER / f"{name}.jsonl"
    return [json.loads(line).encode("latin-1") for line in path.read_text().splitlines()] if path.exists() else []


def keep(name: str, inputs: list[bytes]) -> None:
    """Keep these inputs, each once, in an order that later runs leave alone."""
    lines = [json.dumps(data.decode("latin-1")) for data in dict.fromkeys(inputs)]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
