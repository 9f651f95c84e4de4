"""Files appear whole or not at all, and stay as private as they were: failures, kills, permissions, two runs at once."""

import itertools
import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from optrr.core.errors import InvalidInput
from optrr.core.records.atomic import held_back, whole_file, whole_files

NAMES = ("y.bed", "y.fam", "y.bim")

# Calls that change the disk, before each of which a run may die.
CHANGING = ("replace", "unlink", "fsync", "mkdir", "rmdir")
DIED = 9


def content(folder: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in sorted(folder.iterdir()) if p.is_file()}


def died(folder: Path, step: int, names: tuple[str, ...]) -> bool:
    """Write files in a process that dies without a word just before so many calls that change the disk; whether it did."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == DIED
    calls = itertools.count(1)

    def counted(function):
        def call(*arguments, **named):
            if next(calls) == step:
                os._exit(DIED)
            return function(*arguments, **named)

        return call

    try:
        with whole_files([folder / n for n in names]) as paths:
            for path in paths:
                path.write_text("new")
            for name in CHANGING:
                setattr(os, name, counted(getattr(os, name)))
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.parametrize("before", [(), ("y.bed",), NAMES])
def test_killed_at_every_step_a_target_stands_among_its_own_files_alone(tmp_path, before):
    new = dict.fromkeys(sorted(NAMES), "new")
    kills = 0
    for step in itertools.count(1):
        folder = tmp_path / str(step)
        folder.mkdir()
        for name in before:
            (folder / name).write_text("old")
        if not died(folder, step, NAMES):
            break
        kills += 1
        seen = content(folder)
        assert seen in (dict.fromkeys(sorted(before), "old"), new) or "y.bed" not in seen
        with whole_files([folder / name for name in NAMES]) as paths:
            for path in paths:
                path.write_text("again")
        assert content(folder) == dict.fromkeys(sorted(NAMES), "again")
        assert sorted(os.listdir(folder)) == sorted(NAMES)
    assert kills >= 8
    assert content(folder) == new


def test_the_next_run_removes_what_a_killed_one_left(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    assert died(tmp_path, 1, ("a.txt",))
    assert len(list(tmp_path.iterdir())) == 2
    assert stat.S_IMODE((tmp_path / ".a.txt.partial").stat().st_mode) == 0o700
    with whole_file(target) as path:
        path.write_text("new")
    assert content(tmp_path) == {"a.txt": "new"} and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("names", [("a.txt",), NAMES])
def test_the_moves_are_on_disk_before_the_block_is_over(tmp_path, monkeypatch, names):
    calls, replace, fsync = [], os.replace, os.fsync
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append(Path(b).parent), replace(a, b)))
    monkeypatch.setattr(os, "fsync", lambda h: (calls.append(os.fstat(h).st_ino), fsync(h)))
    with whole_files([tmp_path / name for name in names]) as paths:
        for path in paths:
            path.write_text("new")
    assert calls[-2:] == [tmp_path, tmp_path.stat().st_ino]


def test_failures_leave_nothing(tmp_path):
    (tmp_path / "y.bed").write_text("old")
    with pytest.raises(KeyboardInterrupt), whole_files([tmp_path / n for n in NAMES]) as (path, *_):
        path.write_text("new")
        raise KeyboardInterrupt
    # the block forgot two of the files
    with (
        pytest.raises(InvalidInput, match=r"cannot write .*y\.bed: No such file"),
        whole_files([tmp_path / n for n in NAMES]) as (path, *_),
    ):
        path.write_text("new")
    assert content(tmp_path) == {"y.bed": "old"} and len(list(tmp_path.iterdir())) == 1


def test_two_runs_to_one_target_are_told_apart(tmp_path):
    with whole_file(tmp_path / "a") as first:
        first.write_text("first")
        with pytest.raises(InvalidInput, match="another run is writing"), whole_file(tmp_path / "a") as second:
            second.write_text("second")
        assert first.read_text() == "first"
    assert content(tmp_path) == {"a": "first"}


def test_a_run_that_ends_while_another_begins_is_not_in_its_way(tmp_path, monkeypatch):
    def mkdir(path, *arguments):
        if not refused:
            refused.append(path)
            raise FileExistsError  # the other run's folder, which is gone a moment later
        return made(path, *arguments)

    refused, made = [], os.mkdir
    monkeypatch.setattr(os, "mkdir", mkdir)
    with whole_file(tmp_path / "a") as path:
        path.write_text("new")
    assert content(tmp_path) == {"a": "new"} and refused


@pytest.mark.parametrize(
    ("planted", "at", "message"),
    [
        (lambda path: path.symlink_to("nowhere"), ".a.partial", r"\.a\.partial is in the way"),
        (os.mkfifo, "a", "is a pipe or a device"),
        (
            lambda path: path.symlink_to("release.csv"),
            "a",
            r"symbolic link; name the file that it points to, .*release\.csv",
        ),
        (lambda path: path.mkdir(), "a", "it is a directory; name a file in it"),
    ],
)
def test_what_stands_in_the_way_is_named_and_left(tmp_path, planted, at, message):
    (tmp_path / "release.csv").write_text("earlier\n")
    planted(tmp_path / at)
    before = {p.name: p.lstat().st_ino for p in tmp_path.iterdir()}
    with pytest.raises(InvalidInput, match=message), whole_file(tmp_path / "a") as path:
        path.write_text("new")
    assert {p.name: p.lstat().st_ino for p in tmp_path.iterdir()} == before
    assert (tmp_path / "release.csv").read_text() == "earlier\n"


@pytest.mark.parametrize("fails", [True, False])
def test_what_is_held_back_waits_for_the_end_of_the_outermost_block(fails, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    with suppress(LookupError), held_back():
        for path in (one, two):
            with held_back(), whole_file(path) as partial:
                partial.write_text("x")
        assert not one.exists() and not two.exists()
        if fails:
            raise LookupError
    assert sorted(tmp_path.iterdir()) == ([] if fails else [one, two])


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_move_that_fails_leaves_no_companion_without_its_target(tmp_path, monkeypatch, at, before):
    for name in NAMES if before else ():
        (tmp_path / name).write_text("old")
    calls, replace = itertools.count(1), os.replace

    def full(a, b):
        if next(calls) == at:
            raise OSError("disk full")
        replace(a, b)

    monkeypatch.setattr(os, "replace", full)
    with (
        pytest.raises(InvalidInput, match="disk full"),
        whole_files([tmp_path / name for name in NAMES]) as paths,
    ):
        for path in paths:
            path.write_text("new")
    assert list(tmp_path.iterdir()) == []


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_written_again_stays_as_private_as_it_was(tmp_path):
    """New files are readable by everybody, as on most machines; what is new beside a private file is private, too."""
    files = [tmp_path / name for name in NAMES]

    def write() -> None:
        with whole_files(files) as paths:
            for path in paths:
                path.write_text("new")

    mask = os.umask(0o022)
    try:
        write()
        assert {mode(file) for file in files} == {0o644}
        for file in files:
            file.chmod(0o600)
        before = [file.stat().st_ino for file in files]
        write()
        assert {mode(file) for file in files} == {0o600}
        assert all(file.stat().st_ino != node for file, node in zip(files, before, strict=True))
        for file in files[1:]:
            file.unlink()
        write()
        assert {mode(file) for file in files} == {0o600}
    finally:
        os.umask(mask)
