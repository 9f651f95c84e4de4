"""What a person's device draws a plan's answers with, exported once for the plan's files and its statement."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from optrr.core import files
from optrr.core.design import Asking
from optrr.core.errors import InvalidInput


class Device(NamedTuple):
    """Deployment file with its total and conditional ε in nats, or the refusal."""

    raw: bytes
    epsilon: float
    conditional: float
    refusal: str = ""

    @classmethod
    def of(cls, asking: Asking) -> "Device":
        """Export a protocol."""
        with TemporaryDirectory(prefix="optrr-plan-") as folder:
            path = Path(folder) / "sampler.json"
            try:
                total = float(files.export(asking, path).numbers["epsilon"])
            except InvalidInput as error:
                return cls(b"", 0.0, 0.0, str(error))
            raw = path.read_bytes()
        return cls(raw, total, max(map(float, json.loads(raw)["epsilon"].get("conditional", [total]))))
