"""Executed code blocks: what they run in, and how commands look.

A page's commands are cells that open with ``%%sh`` or ``%%bash``, so that a page is executed from top to bottom in one folder
of its own:

    ```{code-cell}
    %%sh
    optrr design spec.toml -o design.json
    ```

The site shows them as a person types them, without that first line. A command that fails fails the build, each one of a cell;
where the page is about a failure, the cell opens with ``%%sh --no-raise-error``.
"""

import hashlib
import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

from docutils import nodes

ROOT = Path(__file__).resolve().parents[2]
SHELLS = ("%%sh", "%%bash")
# Numbers of columns of a command's table: what fits beside the navigation.
COLUMNS = "88"

_COMMAND = """#!/bin/sh
exec "{python}" -c 'from optrr.cli import main; main()' "$@"
"""
_KERNEL = """c = get_config()
c.Application.log_level = "ERROR"
c.InlineBackend.figure_formats = {"svg"}
"""
# What every kernel runs when it starts.
_STARTUP = Path(__file__).with_name("shell.py")


def digest_of_code() -> str:
    """A digest of all that a page may run, so that what an older version printed is not shown."""
    digest = hashlib.sha256(sys.version.encode())
    for folder in ("optrr", "solvers"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            digest.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def prepare_kernel(folder: Path) -> None:
    """Write what a page's kernel reads when it starts, and put this interpreter's `optrr` first on the path.

    Pictures are drawn as SVG, a failing command ends its cell, and no settings of whoever builds the site are read.
    """
    programs, profile = folder / "bin", folder / "profile_default"
    for made in (programs, profile / "startup"):
        made.mkdir(parents=True, exist_ok=True)
    command = programs / "optrr"
    command.write_text(_COMMAND.format(python=sys.executable), encoding="utf-8")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    (profile / "ipython_kernel_config.py").write_text(_KERNEL, encoding="utf-8")
    shutil.copy(_STARTUP, profile / "startup" / _STARTUP.name)
    os.environ |= {
        # where cells find files of the checkout: the package may be installed elsewhere
        "OPTRR_CHECKOUT": str(ROOT),
        "IPYTHONDIR": str(folder),
        "PATH": f"{programs}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": COLUMNS,
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": "1",
    }


def show_commands(app: Any, document: nodes.document) -> None:
    """Show a cell of commands without its first line, and as what it is."""
    for block in document.findall(nodes.literal_block):
        first, _, commands = block.astext().partition("\n")
        if first.startswith(SHELLS):
            block.children = [nodes.Text(commands)]
            block.rawsource = commands
            block["language"] = "sh"
