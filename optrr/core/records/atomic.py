"""Files that appear whole or not at all, together with what belongs to them, whatever ends the run.

New files are written into a folder beside the target, ``.NAME.partial``, that only its owner can enter, under a lock. When
all are complete they are moved into place, the target last, and the folder is removed; a run that fails or is interrupted
removes it, too. One that is killed outright cannot. What it leaves can be read by nobody else, and the next run to the same
target removes it before it writes. So there are never two releases of the same people on disk unless somebody wrote two.

Several files cannot be moved by one step. So their names are written down first (``moves``), and the old files are kept in the
folder until the target has moved. Until then a run that failed, or was killed, is undone: by itself, by the next run, or by
:func:`undo_killed_run`.
"""

import json
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
except ImportError:  # Windows has no such locks; two runs to one target are not told apart there
    fcntl = None  # type: ignore[assignment]

_MOVES = "moves"
_OLD = "old"
_LOCK = "lock"
_PRIVATE_FOLDER = 0o700
_PRIVATE_FILE = 0o600


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A path to write to, of the target's name; moved to ``target`` when the block ends, removed when it fails.

    An existing target stays untouched until then, and hands on its permissions, also to new files beside it. Raises
    InvalidInput where the system does not let the file be written (no such directory, no permission, no space), or another run
    is writing it.
    """
    with whole_files([target]) as (path,):
        yield path


@contextmanager
def whole_files(targets: Sequence[Path], *, withdraw: bool = False) -> Iterator[tuple[Path, ...]]:
    """A path for each of several files in one directory, the target first; all are moved in place together, or none is.

    The target is moved last. ``withdraw`` takes the old files away before anything is moved, so that none of them ever stands
    beside new ones; for files whose readers would not notice. Raises InvalidInput as :func:`whole_file`.
    """
    target = targets[0]
    for path in targets:
        check_target(path)
    try:
        with ExitStack() as own:
            # what is held back keeps its folder until everything is moved, or nothing
            folder = (_held[-1][0] if _held else own).enter_context(_locked_folder(target))
            yield tuple(folder / path.name for path in targets)
            move = partial(_finish, folder, targets, withdraw)
            if _held:
                _held[-1][1].append(move)
            else:
                move()
    except OSError as error:
        reason = in_one_line(error.strerror or error)
        raise InvalidInput(f"cannot write {target}: {reason}; choose another path") from error


# Of each block that holds files back: their folders, and their moves in order.
_held: list[tuple[ExitStack, list[Callable[[], None]]]] = []


@contextmanager
def held_back() -> Iterator[None]:
    """No file that is written in this block is moved into place before its end, and none where it fails.

    Inside another such block, that one's end is waited for.
    """
    if _held:
        _, moves = _held[-1]
        before = len(moves)
        try:
            yield
        except BaseException:
            del moves[before:]
            raise
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
    """Raise InvalidInput with this message where the target is one of the files that were read."""
    if target.exists() and any(path.exists() and target.samefile(path) for path in inputs):
        raise InvalidInput(message)


def check_target(path: Path) -> None:
    """Raise InvalidInput where no file can be moved to ``path``, as far as that is known before anything is written."""
    if not path.name or path.is_dir():
        raise InvalidInput(f"cannot write {path}: it is a directory; name a file in it")
    try:
        kind = path.stat().st_mode  # asked once, since other runs move files
    except OSError:
        kind = stat.S_IFREG  # nothing is there, or writing says what is wrong
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        # a move would put a file in the place of the pipe or the device
        raise InvalidInput(f"cannot write {path}: it is a pipe or a device; name a file")
    if path.is_symlink():
        # a move would replace the link, and leave what it points to: an earlier release, perhaps
        raise InvalidInput(
            f"cannot write {path}: it is a symbolic link; name the file that it points to, {path.resolve()}"
        )
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot write {path}: there is no directory {path.parent}; create it first")


def undo_killed_run(target: Path) -> None:
    """Put back what a killed run to this target took away, and remove what it left; nothing while a run goes on."""
    if _folder_of(target).is_dir():
        with suppress(OSError, InvalidInput), _locked_folder(target):
            pass


def _folder_of(target: Path) -> Path:
    return target.with_name(f".{target.name}.partial")


@contextmanager
def _locked_folder(target: Path) -> Iterator[Path]:
    """The target's own folder, empty but for the lock; removed in the end."""
    folder = _folder_of(target)
    held: list[int] = []
    cleaned = False
    try:
        try:
            _lock(folder, target, held)
            _undo(folder)
            _empty(folder)
            yield folder
        finally:
            _clean(folder, target, held)
            cleaned = True
    finally:
        if not cleaned:  # an interrupt came while cleaning up
            _clean(folder, target, held)
        _release(held)


def _clean(folder: Path, target: Path, held: list[int]) -> None:
    """Undo what is not finished and remove the folder.

    Where undoing fails the folder stays: it may hold the files that were there before. A run that was ended while it asked for
    the lock asks again; if another run holds it, the folder is that run's.
    """
    if not folder.is_dir():
        return
    try:
        _lock(folder, target, held)
    except (OSError, InvalidInput):
        return
    _undo(folder)
    with suppress(OSError):
        # the lock goes last, so that nobody starts in a folder that is about to go
        if _is_at(held[0], folder / _LOCK):
            _empty(folder)
            (folder / _LOCK).unlink()
        folder.rmdir()


def _release(held: list[int]) -> None:
    while held:
        os.close(held.pop())


def _lock(folder: Path, target: Path, held: list[int]) -> None:
    """Hold the lock: its handle is put into ``held`` before it locks anything, so that no interrupt leaves one locked.

    Raises InvalidInput where another run holds it, and where something else stands in the folder's place.
    """
    while True:
        with suppress(FileExistsError):
            os.mkdir(folder, _PRIVATE_FOLDER)
        try:
            known = folder.lstat()
            if not stat.S_ISDIR(known.st_mode):
                raise InvalidInput(f"cannot write {target}: {folder} is in the way; remove it, or choose another path")
            if hasattr(os, "getuid") and known.st_uid != os.getuid():
                raise InvalidInput(f"cannot write {target}: {folder} belongs to somebody else; choose another path")
            if not held:
                held.append(os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, _PRIVATE_FILE))
        except FileNotFoundError:
            continue  # the run that held it has just ended and removed the folder
        try:
            if fcntl is not None:
                fcntl.flock(held[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            _release(held)
            raise InvalidInput(f"another run is writing {target}; wait for it, or choose another path") from error
        except OSError:
            pass  # the file system knows no locks
        if _is_at(held[0], folder / _LOCK):
            return
        _release(held)


def _is_at(handle: int, path: Path) -> bool:
    """Whether the locked file is the one at its path: the run before may have removed it between opening and locking."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != _LOCK:
            path.unlink()


def _finish(folder: Path, targets: Sequence[Path], withdraw: bool) -> None:
    """Permissions, the moves (old files into the folder, new ones into place, the target last), and all of it on disk."""
    first = targets[0]
    for path in targets:
        new = folder / path.name
        with new.open("rb+") as file:
            os.fsync(file.fileno())  # or a power failure after the move could leave an empty target
        # a companion that is new beside an old target is for the same readers
        model = path if path.exists() else first
        if model.exists():
            new.chmod(stat.S_IMODE(model.stat().st_mode))
    if len(targets) == 1:
        os.replace(folder / first.name, first)
    else:
        _move_together(folder, targets, withdraw)
    # or a power failure could take the moves back, after what was written has been sent
    with suppress(OSError):  # some systems cannot do that with a folder
        handle = os.open(first.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _move_together(folder: Path, targets: Sequence[Path], withdraw: bool) -> None:
    kept = [path for path in targets if path.exists()]
    unfinished = folder / f"{_MOVES}.new"
    with unfinished.open("w", encoding="utf-8") as moves:
        json.dump({"names": [p.name for p in targets], "kept": [p.name for p in kept]}, moves)
        moves.flush()
        os.fsync(moves.fileno())
    (folder / _OLD).mkdir()
    os.replace(unfinished, folder / _MOVES)
    for path in kept:
        _set_aside(path, folder / _OLD / path.name, withdraw)
    for path in reversed(targets):
        os.replace(folder / path.name, path)


def _set_aside(path: Path, keep: Path, withdraw: bool) -> None:
    """Keep an old file, under its own name as well unless it is to be withdrawn or the file system knows no links."""
    if not withdraw:
        with suppress(OSError):
            os.link(path, keep)
            return
    os.replace(path, keep)


def _undo(folder: Path) -> None:
    """Put everything back as it was, unless the target has moved, which is the end of all moves; may be repeated."""
    try:
        moves = json.loads((folder / _MOVES).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    target, place = moves["names"][0], folder.parent
    if (folder / target).exists():
        for name in reversed(moves["names"]):
            if (folder / _OLD / name).exists():
                os.replace(folder / _OLD / name, place / name)
            elif name not in moves["kept"]:
                (place / name).unlink(missing_ok=True)
    (folder / _MOVES).unlink()
