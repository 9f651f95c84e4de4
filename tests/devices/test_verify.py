"""optrr export and verify: what is written verifies, every lie is refused, and labels of every kind of law hold."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optrr
from optrr.allocation.sampled_tables import SampledTables
from optrr.allocation.sampled_uses import questions_of
from optrr.cli.main import run
from optrr.core.design.design_file import load_design
from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.devices import exact
from optrr.devices.deployment_file import DeployedQuestions, canonical, decoded_deployment, digest_of
from optrr.devices.verify import load_deployment, verify_deployment
from optrr_solvers.allocation.questions import SubsetReport


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A design and its deployment."""
    made = optrr.design({"sex": ["F", "M"], "age": 5, "smokes": ["no", "yes", None]}, [0.5, 1.0, 0.8])
    optrr.save(made, tmp_path / "design.json")
    assert run(["export", str(tmp_path / "design.json"), "-o", str(tmp_path / "sampler.json")]) == 0
    return tmp_path / "design.json", tmp_path / "sampler.json"


def rewritten(path: Path, spoil: Callable[[dict[str, Any]], None]) -> Path:
    """The file with something else in it, and the digest of that."""
    content = json.loads(path.read_text(encoding="utf-8"))
    spoil(content)
    path.write_bytes(canonical(content | {"digest": digest_of(content)}))
    return path


def test_what_is_exported_verifies(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    design, sampler = files
    capsys.readouterr()
    assert run(["verify", str(sampler), "--design", str(design), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["holds"] is True
    assert [c["name"] for c in shown["checks"]] == [
        "total epsilon", "attribute epsilons", "conditional epsilons", "design",
    ]  # fmt: skip
    made = load_design(design)
    stated = decoded_deployment(sampler.read_bytes(), sampler).stated
    assert float(stated.total) == pytest.approx(made.epsilon, abs=1e-9)
    assert [float(x) for x in stated.attributes] == pytest.approx(made.attribute_epsilons, abs=1e-9)
    assert [float(x) for x in stated.conditional] == pytest.approx(made.conditional_epsilons, abs=1e-9)
    assert load_deployment(sampler).domain.names == ("sex", "age", "smokes")


def lowered(text: str, by: str = "0.000000000000001") -> str:
    return f"{Decimal(text) - Decimal(by):f}"


def raised(text: str) -> str:
    return f"{Decimal(text) + Decimal('0.000000002'):f}"


LIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a total one place too low": lambda c: c["epsilon"].update(
        total=lowered(c["epsilon"]["total"]), conditional=["0.000000000000000"] * 3
    ),
    "a total too high": lambda c: c["epsilon"].update(total=raised(c["epsilon"]["total"])),
    "an attribute too low": lambda c: c["epsilon"]["attributes"].__setitem__(1, lowered(c["epsilon"]["attributes"][1])),
    "an attribute too high": lambda c: c["epsilon"]["attributes"].__setitem__(2, raised(c["epsilon"]["attributes"][2])),
    "a conditional too low": lambda c: c["epsilon"]["conditional"].__setitem__(
        0, lowered(c["epsilon"]["conditional"][0])
    ),
    "another threshold": lambda c: c["layers"][0].update(threshold="7" * 16),
    "another way": lambda c: c["layers"][0].update(kept=c["layers"][0]["changed"]),
    "queries: a total one place too low": lambda c: c["epsilon"].update(total=lowered(c["epsilon"]["total"])),
    "queries: a total too high": lambda c: c["epsilon"].update(total=raised(c["epsilon"]["total"])),
    "queries: another threshold": lambda c: c["questions"][0].update(threshold="2" * 16),
    "queries: other likely patterns": lambda c: c["questions"][0].update(likely=[1]),
    "queries: another size": lambda c: c["questions"][1].update(subset_sizes=[3]),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_with_a_digest_of_its_own_is_refused(lie, request, capsys):
    path = rewritten(request.getfixturevalue("asked" if lie.startswith("queries") else "files")[1], LIES[lie])
    assert run(["verify", str(path)]) == 1
    assert "FAILS" in capsys.readouterr().out
    with pytest.raises(InvalidInput, match="does not verify"):
        load_deployment(path)


def test_an_edit_without_its_digest_is_refused(files: tuple[Path, Path]) -> None:
    path = files[1]
    path.write_bytes(path.read_bytes().replace(b'"sex"', b'"six"'))
    assert verify_deployment(path).digest is False
    assert run(["verify", str(path)]) == 1
    with pytest.raises(InvalidInput, match="digest"):
        load_deployment(path)


def test_another_design_is_not_this_one(files: tuple[Path, Path], tmp_path: Path) -> None:
    optrr.save(optrr.design({"sex": ["F", "M"], "age": 5, "smokes": ["no", "yes", None]}, 0.5), tmp_path / "other.json")
    assert run(["verify", str(files[1]), "--design", str(tmp_path / "other.json")]) == 1
    assert run(["verify", str(files[0]), "--design", str(files[0])]) == 2


def test_another_design_under_a_digest_of_its_own_is_said_to_be_unknown(files, capsys):
    """Nothing in the file tells which design it is, so that is said, and comparing finds it."""
    design, exported = files
    changed = rewritten(exported, lambda content: content.update(design="0" * 64))
    result = verify_deployment(changed)
    assert result.holds and "design 000000000000…" in result.unchecked[0] and "``design``" in result.unchecked[0]
    assert result.summary()["unchecked"] == list(result.unchecked)
    assert run(["verify", str(changed)]) == 0
    assert "not checked: that it belongs to design 000000000000" in capsys.readouterr().out
    compared = verify_deployment(changed, design)
    assert not compared.holds and compared.unchecked == ()


def test_the_work_is_known_before_it_starts(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "MOST_WORK", 1)
    monkeypatch.setattr(exact, "total_epsilon", lambda *_: pytest.fail("work was begun"))
    with pytest.raises(InvalidInput, match="too long"):
        verify_deployment(files[1])


def test_where_pairs_are_too_many_the_total_stands_for_them(files, monkeypatch):
    layers = decoded_deployment(files[1].read_bytes(), files[1]).automaton
    monkeypatch.setattr(exact, "MOST_PAIRS", 1)
    numbers = exact.epsilons(layers)
    assert set(numbers.conditional) == {numbers.total}


@pytest.fixture
def asked(tmp_path: Path) -> tuple[Path, Path]:
    """Sampled tables and their deployment."""
    domain = Domain.of({"sex": ["F", "M"], "age": 5, "smokes": ["no", "yes", None]})
    reports = (SubsetReport((1, 2), (1, 3)), SubsetReport((4,)), SubsetReport((1,)))
    tables = (("sex", "age"), ("smokes", "age"), ("sex",))
    optrr.save(SampledTables(domain, tables, np.array([0.5, 0.3, 0.2]), 1.25, reports), tmp_path / "asking.json")
    assert run(["export", str(tmp_path / "asking.json"), "-o", str(tmp_path / "questions.json")]) == 0
    return tmp_path / "asking.json", tmp_path / "questions.json"


def test_exported_questions_verify(asked, files, tmp_path, capsys):
    asking, path = asked
    capsys.readouterr()
    assert run(["verify", str(path), "--design", str(asking), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [c["name"] for c in shown["checks"]] == ["total epsilon", "design"]
    made = optrr.load(path)
    assert isinstance(made, DeployedQuestions) and float(made.total) == pytest.approx(
        optrr.load(asking).epsilon, abs=1e-14
    )
    assert made.design == optrr.load(asking).digest.removeprefix("sha256:")
    optrr.save(made, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    # another design, of whole records too, and one of whole records against the questions
    assert run(["verify", str(path), "--design", str(files[0])]) == 1
    assert run(["verify", str(files[1]), "--design", str(asking)]) == 1
    assert run(["export", str(asking), "-o", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["questions"] == 3 and told["most_report_bytes"] == made.most_report_bytes == 200 + 4 * 3


def test_what_questions_cannot_be_exported_to_is_one_line(asked, tmp_path, capsys):
    asking, path = asked
    base = ["export", str(asking), "-o", str(path)]
    capsys.readouterr()
    for words, said in (
        ([*base, "--form", "matrix", "--attributes", "sex"], "has no matrix; give a design of whole records"),
        ([*base, "--max-bytes", "300"], "--max-bytes 300: the deployment file of 3 questions takes "),
        (["export", str(asking), "-o", str(asking)], "is a design, for which"),
        (["export", str(asking), "-o", str(tmp_path / "x.csv")], ".json"),
    ):
        assert run(words) == 2
        told = capsys.readouterr().err
        assert said in told and told.count("\n") == 1
    other = tmp_path / "other.json"
    optrr.save(optrr.load(asking), other)
    assert run(["export", str(asking), "-o", str(other)]) == 2
    domain = Domain.of({"a": 2, "b": 2})
    rare = SampledTables(domain, (("a",), ("b",)), np.array([1 - 1e-12, 1e-12]), 1.0)
    optrr.export(optrr.load(asking), tmp_path / "made.json")
    assert (tmp_path / "made.json").read_bytes() == path.read_bytes()
    with pytest.raises(InvalidInput, match="give a design or sampled tables"):
        optrr.export(load_deployment(path), tmp_path / "made.json")
    with pytest.raises(InvalidInput, match="the table b has a share below"):
        questions_of(rare)


def test_an_export_writes_over_no_design(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    design, other = tmp_path / "a.json", tmp_path / "b.json"
    made = optrr.design({"a": 2, "b": 3}, 1.0)
    optrr.save(made, design)
    optrr.save(optrr.design({"a": 2, "b": 3}, 2.0), other)
    before = design.read_bytes(), other.read_bytes()
    for target, options in ((design, ()), (other, ()), (other, ("--form", "events")), (design, ("--form", "matrix"))):
        assert run(["export", str(design), "-o", str(target), *options]) == 2
        assert "is a design, for which reports may have been collected" in capsys.readouterr().err
        assert (design.read_bytes(), other.read_bytes()) == before
    # a design that fits is the one to estimate with, and no other stands beside the file
    assert optrr.export(made, tmp_path / "sampler.json").design is made
    assert load_deployment(tmp_path / "sampler.json").stated.total and len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    "raw", [b"", b"NaN", b'\xef\xbb\xbf{"format": "optrr-deployment/1"}', "{}".encode("utf-16"), b"[" * 9000]
)
def test_what_is_damaged_is_not_called_a_design(raw: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_bytes(raw)
    assert run(["verify", str(tmp_path / "x.json")]) == 2
    shown = capsys.readouterr().err
    assert "deployment file" in shown and shown.count("\n") == 1
    assert run(["verify", str(tmp_path / "missing.json")]) == 2
    assert "cannot read file" in capsys.readouterr().err
