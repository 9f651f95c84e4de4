"""Files that are read whole are read up to a size: a device that never ends is refused by every reader of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from optrr.budgets.workload import read_workload
from optrr.cli.main import main
from optrr.designs.design_file import load_design
from optrr.designs.specification import read_specification
from optrr.devices.verify import load_deployment
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.releases import sealed
from optrr.releases.sealed import read_small
from optrr.ways.longitudinal.design import load_longitudinal
from optrr.ways.longitudinal.rounds import Key
from optrr.ways.protocols.sampled_tables import load_sampled_tables

ENDLESS = Path("/dev/zero")
READERS: list[Callable[[Path], object]] = [
    read_specification,
    load_design,
    load_longitudinal,
    load_sampled_tables,
    load_deployment,
    Key.load,
    lambda path: read_workload(path, Domain.of({"a": 2})),
]


def test_the_limit_is_the_last_size_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ten"
    path.write_bytes(b"0123456789")
    assert read_small(path, 10) == b"0123456789"
    with pytest.raises(InvalidInput, match="more than 9 bytes"):
        read_small(path, 9)


@pytest.mark.skipif(not ENDLESS.exists(), reason="there is no /dev/zero")
@pytest.mark.parametrize("reader", READERS)
def test_what_never_ends_is_refused(reader: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch) -> None:
    # the default is bound when the function is made, so it is lowered there
    monkeypatch.setattr(sealed.read_small, "__defaults__", (1 << 20,))
    with pytest.raises(InvalidInput, match="more than"):
        reader(ENDLESS)


@pytest.mark.skipif(not ENDLESS.exists(), reason="there is no /dev/zero")
@pytest.mark.parametrize("command", [["design"], ["verify"], ["worksheet"], ["serve"]])
def test_a_command_says_so_in_a_line(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, str(ENDLESS)])
    said = capsys.readouterr().err.strip()
    assert ended.value.code == 2
    assert len(said.splitlines()) == 1
    assert str(ENDLESS) in said
