"""The source distribution is the whole project: what its documents point to is in it, and its tests have what they read."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# How this checkout is tested elsewhere says nothing to whoever has the distribution.
LEFT_OUT = {".ci/run"}


@pytest.mark.slow
def test_the_source_distribution_holds_every_file_of_the_checkout(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed (pip install hatchling)")
    from hatchling.builders.sdist import SdistBuilder  # noqa: PLC0415

    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no checkout, so nobody says which files belong to it")
    (built,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    with tarfile.open(built) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {name for name in listed.stdout.split("\0") if (ROOT / name).is_file()}
    assert len(wanted) > 100
    assert wanted - held == LEFT_OUT


def commands(target: str, folder: Path) -> str:
    """What make would run in a folder with this Makefile, whatever make runs this test with."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "WHEEL"))}
    asked = ["make", "-n", target]
    return subprocess.run(asked, cwd=folder, env=plain, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_demonstration_needs_the_package_and_what_draws_its_charts(tmp_path: Path) -> None:
    """In either order with the tests, which need all that developers use."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    assert '".[reports]"' in commands("demo", tmp_path) and "[dev]" not in commands("demo", tmp_path)
    assert '".[reports]"' in commands("test", tmp_path) and '".[dev]"' in commands("test", tmp_path)
    (tmp_path / ".venv").mkdir()
    for made, left in (("base", ("", '".[dev]"')), ("ready", ("-e .", "-e .")), ("editable", ("", ""))):
        (tmp_path / ".venv" / made).touch()
        for target, install in zip(("demo", "test"), left, strict=True):
            said = commands(target, tmp_path)
            assert install in said and ("pip install" in said) == bool(install), (made, target)
