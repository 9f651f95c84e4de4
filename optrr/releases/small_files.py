"""Files that are read whole: specifications, designs, sidecars, keys. They are read up to a size and not beyond it.

A device or a pipe has no size before it is read, so the limit is on what is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from optrr.errors import InvalidInput, in_one_line

# Twice the design file of a million different attributes; a deployment with as many states as its format allows takes as much.
MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class Content:
    """A file that has been read: whoever is given this in place of a path looks at these bytes, and opens nothing.

    So what is checked, what is signed and what is used are the same bytes, whatever becomes of the file meanwhile.
    """

    path: Path
    raw: bytes = field(repr=False)

    def __str__(self) -> str:
        return str(self.path)


# A file that is still to be read, or has been.
Given = str | Path | Content


def content_of(given: Given, what: str) -> Content:
    """The file's content, read now unless it has been; ``what`` it should be, for messages.

    Raises
    ------
    InvalidInput
        where the file cannot be opened, and for a pipe.
    """
    if isinstance(given, Content):
        return given
    refuse_pipe(given)
    return Content(Path(given), read_named(given, what))


def path_of(given: Given) -> Path:
    """Where the file is."""
    return given.path if isinstance(given, Content) else Path(given)


def read_small(path: Given, most: int = MOST_BYTES) -> bytes:
    """All bytes of a file. Raises OSError as opening it does, and InvalidInput where it holds more than ``most`` bytes."""
    if isinstance(path, Content):
        return path.raw
    with Path(path).open("rb") as file:
        held = file.read(most + 1)
    if len(held) > most:
        raise InvalidInput(f"{path} has more than {most} bytes, which no file of this kind has; check the path")
    return held


def refuse_pipe(path: Given) -> None:
    """Raise InvalidInput for a pipe where a file is looked at before it is read: what was looked at would be gone."""
    if not isinstance(path, Content) and Path(path).is_fifo():
        raise InvalidInput(f"{path} is a pipe, and this file is read more than once; save it first, and give its name")


def read_named(path: Given, what: str) -> bytes:
    """The same. Raises InvalidInput where the file cannot be opened, too, with ``what`` it should be."""
    try:
        return read_small(path)
    except OSError as error:
        raise InvalidInput(
            f"cannot read {what} {path}: {in_one_line(error.strerror or error)}; check the path"
        ) from error
