"""The command line's reference: a page for each command, from its own help."""

from pathlib import Path

from optrr.cli.main import COMMANDS

FOLDER = Path(__file__).resolve().parents[1] / "reference" / "commands"


def page(name: str) -> str:
    """A command's page; its heading comes with its help."""
    _, place, _ = COMMANDS[name]
    return f".. click:: {place}\n   :prog: optrr {name}\n"


def file_of(name: str) -> str:
    """The page of a command, without its folder and suffix."""
    return name.replace(" ", "-")


def pages() -> dict[Path, str]:
    """Every page and its text."""
    rows = "".join(f"   * - :doc:`optrr {n} <{file_of(n)}>`\n     - {text}\n" for n, (_, _, text) in COMMANDS.items())
    index = (
        "Commands\n========\n\n"
        f".. list-table::\n   :widths: 35 65\n\n{rows}\n"
        ".. toctree::\n   :hidden:\n\n" + "".join(f"   optrr {n} <{file_of(n)}>\n" for n in COMMANDS)
    )
    return {FOLDER / "index.rst": index} | {FOLDER / f"{file_of(n)}.rst": page(n) for n in COMMANDS}
