"""Atomic writes: a file and its companions appear complete or not at all, however the run ends.

New files are written into a folder beside the target, ``.NAME.partial``, that only its owner can enter, under a lock.
When all are complete, those that they replace are removed, the target first, and they are moved into place, the target
last. So a target never has companions of another run, and readers refuse companions without their target. A run that
fails or is interrupted removes its folder. One that is killed outright cannot: only its owner can read its remains, and
the next run to the same target removes it before it writes. Where a move fails, or a kill comes between two, the old
set is gone and no new target stands.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from optrr.core.errors import InvalidInput, in_one_line

try:
    import fcntl
except ImportError:  # Windows has no such locks; two runs to one target are not detected there
    fcntl = None  # type: ignore[assignment]

_PRIVATE = 0o700


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Yield a path to write, moved to ``target`` on success and removed on failure.

    It has the target's name.

    An existing target stays untouched until then, and hands on its permissions, also to new files beside it. Raises
    InvalidInput if the system does not let the file be written (no such directory, no permission, no space), or another run
    is writing it.
    """
    with whole_files([target]) as (path,):
        yield path


@contextmanager
def whole_files(targets: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """Yield a path for each of several files in one directory, the target first.

    All are moved into place at the end.

    If the block fails, no file is moved; if a move fails, those before it are removed, and the old set is gone.

    Raises InvalidInput as :func:`whole_file`.
    """
    target = targets[0]
    for path in targets:
        check_target(path)
    try:
        with ExitStack() as own:
            # what is held back keeps its folder until everything is moved, or nothing
            folder = (_held[-1][0] if _held else own).enter_context(_private_folder(target))
            yield tuple(folder / path.name for path in targets)
            move = partial(_move, folder, targets)
            if _held:
                _held[-1][1].append(move)
            else:
                move()
    except OSError as error:
        reason = in_one_line(error.strerror or error)
        raise InvalidInput(f"cannot write {target}: {reason}; choose another path") from error


# Of the block that holds files back: their folders, and their moves in order.
_held: list[tuple[ExitStack, list[Callable[[], None]]]] = []


@contextmanager
def held_back() -> Iterator[None]:
    """Move files written in this block into place only when it succeeds.

    Inside another such block, that one's end is waited for.
    """
    if _held:
        yield
        return
    with ExitStack() as folders:
        _held.append((folders, []))
        try:
            yield
        finally:
            _, moves = _held.pop()
        for move in moves:
            move()


def refuse_replacing(target: Path, inputs: Iterable[Path], message: str) -> None:
    """Raise InvalidInput if the target is one of the files that were read."""
    if target.exists() and any(path.exists() and target.samefile(path) for path in inputs):
        raise InvalidInput(message)


def check_target(path: Path) -> None:
    """Raise InvalidInput if no file can be moved to ``path``.

    As far as that is known before anything is written.
    """
    if not path.name or path.is_dir():
        raise InvalidInput(f"cannot write {path}: it is a directory; name a file in it")
    if path.is_symlink():
        # a move would replace the link, and leave what it points to: possibly an earlier release
        raise InvalidInput(
            f"cannot write {path}: it is a symbolic link; name the file that it points to, {path.resolve()}"
        )
    if path.exists() and not path.is_file():
        # a move would put a file in the place of the pipe or the device
        raise InvalidInput(f"cannot write {path}: it is a pipe or a device; name a file")
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot write {path}: there is no directory {path.parent}; create it first")


def was_killed(target: Path) -> bool:
    """Check whether a run was killed between removing and replacing the target."""
    return not target.exists() and target.with_name(f".{target.name}.partial").is_dir()


# Of each file that is being written: its folder, itself, and the handle that locks the folder.
_unfinished: list[tuple[Path, Path, list[int]]] = []
# Whether files are being moved into place, and what is to be done when they are.
_moving: list[bool] = []
_when_moved: list[Callable[[], None]] = []


def remove_unfinished() -> None:
    """Remove unfinished files; safe in a signal handler."""
    for folder, target, held in _unfinished:
        _clean(folder, target, held)


def when_moved(do: Callable[[], None]) -> None:
    """Call a function now, or once all files of the block are in place."""
    if _moving:
        _when_moved.append(do)
    else:
        do()


@contextmanager
def _private_folder(target: Path) -> Iterator[Path]:
    """Yield the target's own folder, empty and locked; remove it at the end."""
    folder = target.with_name(f".{target.name}.partial")
    held: list[int] = []
    cleaned = False
    _unfinished.append((folder, target, held))
    try:
        try:
            _lock(folder, target, held)
            _empty(folder)
            yield folder
        finally:
            _clean(folder, target, held)
            cleaned = True
    finally:
        if not cleaned:  # an interrupt came while cleaning up
            _clean(folder, target, held)
        _release(held)
        _unfinished.remove((folder, target, held))


def _clean(folder: Path, target: Path, held: list[int]) -> None:
    """Remove the folder unless another run holds it.

    A run that was ended while it waited for the lock waits again.
    """
    if not folder.is_dir():
        return
    with suppress(OSError, InvalidInput):
        _lock(folder, target, held)
        _empty(folder)
        folder.rmdir()


def _lock(folder: Path, target: Path, held: list[int]) -> None:
    """Create the folder and lock it.

    Its handle is in ``held`` before it locks, so that no interrupt leaves it locked.

    Raises InvalidInput if another run holds it, and if something else has the folder's name.
    """
    while True:
        with suppress(FileExistsError):
            os.mkdir(folder, _PRIVATE)
        try:
            known = folder.lstat()
            if not stat.S_ISDIR(known.st_mode):
                raise InvalidInput(f"cannot write {target}: {folder} is in the way; remove it, or choose another path")
            if fcntl is None:
                return
            if known.st_uid != os.getuid():
                raise InvalidInput(f"cannot write {target}: {folder} belongs to another user; choose another path")
            if not held:
                held.append(os.open(folder, os.O_RDONLY))
            with suppress(OSError):  # some file systems know no locks
                _require_lock(held[0], target)
            if os.path.samestat(os.fstat(held[0]), folder.stat()):
                return
        except FileNotFoundError:
            pass
        _release(held)  # the run that held it has just ended and removed the folder


def _require_lock(handle: int, target: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InvalidInput(f"another run is writing {target}; wait for it, or choose another path") from error


def _release(held: list[int]) -> None:
    while held:
        os.close(held.pop())


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _move(folder: Path, targets: Sequence[Path]) -> None:
    """Set permissions, move the files and sync them to disk.

    If a move fails, none of the new files stays.
    """
    first, *beside = targets
    for path in targets:
        new = folder / path.name
        with new.open("rb+") as file:
            os.fsync(file.fileno())  # or a power failure after the move could leave an empty target
        # a companion that is new beside an old target is for the same readers
        model = path if path.exists() else first
        if model.exists():
            new.chmod(stat.S_IMODE(model.stat().st_mode))
    _moving.append(True)
    try:
        for path in targets if beside else ():
            path.unlink(missing_ok=True)
        for path in reversed(targets):
            os.replace(folder / path.name, path)
    except BaseException:
        if (folder / first.name).exists():
            for path in beside:
                path.unlink(missing_ok=True)
        raise
    finally:
        _moving.pop()
        while _when_moved:
            _when_moved.pop()()
    # or a power failure could undo the moves after the file has been sent
    with suppress(OSError):  # some systems cannot do that with a folder
        handle = os.open(first.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
