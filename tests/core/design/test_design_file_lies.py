"""Design files that lie, each with a digest of its own: by name, and some hundred at random against enumerated laws."""

import json
import math
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import optrr
from optrr.cli.main import run
from optrr.core.design import design_file
from optrr.core.design import verification as checks
from optrr.core.design.design_file import OPTIMAL_GAP, decoded_design, load_design, recomputed_design
from optrr.core.design.designs import Design
from optrr.core.errors import InvalidInput
from optrr.core.files import verify
from optrr.core.provenance.sealed import sha256_of
from optrr_solvers import Law, Problem, ProductLaw, SolveOptions, TableLaw
from optrr_solvers.laws.block import BlockLaw
from optrr_solvers.solution import checked
from tests.mutations import Content, measured, mutated

SMALL = {"sex": ["F", "M"], "age": 5, "answer": ["yes", "no", None]}


@cache
def files() -> dict[str, str]:
    """One small file for each kind of law, status and certificate."""
    made = {
        "table": optrr.design(SMALL, [1.0, 0.5, 2.0]),
        "pairs and caps": optrr.design(
            SMALL, [1.0, 0.5, 2.0], constraints=optrr.Constraints(preserve="pairs", conditional_cap={"age": 0.8})
        ),
        "count": optrr.design({f"a{i}": 3 for i in range(4)}, 0.5),
        "product": optrr.design(SMALL, 1.0, method="kronecker"),
        "ball": optrr.design({f"a{i}": 2 + i for i in range(4)}, [0.4, 0.6, 0.8, 1.0], method="ball"),
        "few changes": optrr.design({f"a{i}": 2 + i for i in range(4)}, 0.5, method="inductive"),
        "blocks": _of_blocks(),
    }
    return {name: _text(each) for name, each in made.items()}


def _of_blocks() -> Design:
    """Two attributes that change together, beside two on their own, as a baseline."""
    together = TableLaw(np.array([2, 4]), np.array([1.0, 0.2, 0.1, 0.0]))
    alone = ProductLaw(np.array([3, 2]), np.array([0.5, 0.7]))
    law, domain = BlockLaw([((0, 2), together), ((1, 3), alone)]), optrr.Domain.of({"a": 2, "b": 3, "c": 4, "d": 2})
    problem = Problem(domain.sizes, law.attribute_epsilons())
    return Design(domain, checked(problem, "blocks", law, None, started=time.perf_counter(), tolerance=None))


def _text(design: Design) -> str:
    with tempfile.TemporaryDirectory() as folder:
        optrr.save(design, Path(folder) / "d.json")
        return (Path(folder) / "d.json").read_text(encoding="utf-8")


def resealed(content: Content, path: Path) -> Path:
    """The content with the digest that it should have, where it can have one."""
    try:
        record = msgspec.json.decode(json.dumps(content), type=design_file._DesignContent)
        content = {**content, "digest": sha256_of(msgspec.structs.replace(record, digest=""))}
    except msgspec.DecodeError:
        pass
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def verified(path: Path) -> bool:
    """Whether the file can be read and every number in it holds."""
    try:
        return verify(path).holds
    except InvalidInput as error:
        assert "\n" not in str(error)
        return False


def each_ball(c: Content, field: str, change: Callable[[list[Any]], list[Any]]) -> None:
    for ball in c["law"]["balls"]:
        ball[field] = change(ball[field])


def wider(c: Content) -> None:
    for field in ("floors", "knots"):
        each_ball(c, field, lambda numbers: [x << 18 for x in numbers])


def nudged(field: str, by: float) -> Callable[[Content], None]:
    return lambda c: c["attributes"][1].update({field: c["attributes"][1][field] + by})


LIES: dict[str, tuple[str, Callable[[Content], None]]] = {
    "a product called optimal by a tolerance of its own": ("product", lambda c: c.update(status="optimal", tolerance=5)),
    "a baseline called optimal without a tolerance": ("product", lambda c: c.update(status="optimal")),
    "a total 1e-15 too low": ("table", lambda c: c.update(epsilon=c["epsilon"] * (1 - 1e-15))),
    "a lower bound one place too high": ("table", lambda c: c.update(lower_bound=math.nextafter(c["lower_bound"], 9))),
    "a bound without a certificate 1e-12 too high": ("product", lambda c: c.update(lower_bound=c["lower_bound"] + 1e-12)),
    "a conditional 1e-9 too low": ("table", nudged("conditional_epsilon", -9e-10)),
    "a conditional 1e-15 too low": ("table", nudged("conditional_epsilon", -1e-15)),
    "a ball's conditional 1e-12 too low": ("ball", nudged("conditional_epsilon", -1e-12)),
    "an accuracy 1e-9 too high": ("table", nudged("epsilon", 9e-10)),
    "an accuracy 1e-12 too high": ("count", nudged("epsilon", 1e-12)),
    "a cap too high to compute with": ("pairs and caps", lambda c: c["attributes"][1].update(conditional_cap=1e308)),
    "an unknown key": ("table", lambda c: c.update(colour=1)),
    "an unknown key in the law": ("table", lambda c: c["law"].update(colour=1)),
    "an unknown key in the certificate": ("table", lambda c: c["certificate"].update(colour=1)),
    "an unknown key of an attribute": ("table", lambda c: c["attributes"][0].update(colour=1)),
    "a grid so fine that it takes minutes": ("ball", wider),
}  # fmt: skip


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks in another process are ended after two seconds, so that tests need not wait for more."""
    monkeypatch.setattr(checks, "_SECONDS", 2)


# what takes minutes is ended after two seconds in a process of its own
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.usefixtures("hurried")
def test_a_lie_with_a_digest_of_its_own_is_refused(lie: str, tmp_path: Path) -> None:
    kind, tell = LIES[lie]
    content = json.loads(files()[kind])
    assert verified(resealed(content, tmp_path / "honest.json"))
    tell(content)
    started = time.process_time()
    assert not verified(resealed(content, tmp_path / "lie.json"))
    assert time.process_time() - started < 5  # a file of tens of megabytes takes some of that to be read


@pytest.mark.parametrize("kind", files())
def test_of_a_repeated_key_none_is_taken(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    for key, lie in (("epsilon", "0.01"), ("kind", '"product"'), ("name", '"b"'), ("conditional_epsilon", "0")):
        path.write_text(files()[kind].replace(f'"{key}":', f'"{key}": {lie}, "{key}":', 1), encoding="utf-8")
        with pytest.raises(InvalidInput, match=f"the key '{key}' is given twice"):
            decoded_design(path.read_bytes(), path)


@pytest.mark.parametrize("nats", [900.0, 4900.0])
def test_a_flip_too_small_for_a_double_is_drawn_as_labelled_or_refused(nats: float, tmp_path: Path) -> None:
    made = optrr.design({f"a{i}": 2 for i in range(10)}, 1.0, method="kronecker")
    content = json.loads(_text(made))
    content["law"]["epsilons"][0] = nats
    content["attributes"][0].update(epsilon=nats, conditional_epsilon=nats)
    content["epsilon"] = nats + 9
    path = resealed(content, tmp_path / "d.json")
    automaton = decoded_design(path.read_bytes(), path).design.law.automaton
    # thresholds of 6144 bits resolve 900 nats, and not 4900: there nothing but a threshold of 0 could be drawn with
    assert (automaton is not None) == (nats == 900) == verified(path)
    if automaton is not None:
        assert nats + 9 - 1e-9 <= automaton.truth.epsilon <= nats + 9


def test_a_wide_tolerance_is_no_optimum(tmp_path: Path) -> None:
    problem = optrr.design({"a": 2, "b": 3, "c": 4}, 1.0).solution
    loose = optrr.design({"a": 2, "b": 3, "c": 4}, 1.0, options=SolveOptions(tolerance=0.5))
    assert recomputed_design(loose).holds
    kronecker = optrr.design({"a": 2, "b": 3, "c": 4}, 1.0, method="kronecker").law
    wide = Design(
        loose.domain, checked(problem.problem, "auto", kronecker, problem.certificate, started=0.0, tolerance=1.0)
    )
    assert wide.solution.status == "optimal"
    assert recomputed_design(wide).holds
    optrr.save(wide, tmp_path / "d.json")
    read = load_design(tmp_path / "d.json")
    assert read.solution.status == "bracketed"
    assert "the optimum is only known to lie within" in read.warnings[0]


@pytest.mark.slow
def test_the_limit_can_be_lifted(tmp_path, monkeypatch, capsys):
    path = resealed(json.loads(many_attributes()), tmp_path / "d.json")
    monkeypatch.setattr(checks, "MOST_SECONDS", 1e-9)
    apart_holds = verify(path)
    assert apart_holds.holds and apart_holds == verify(path, limited=False)
    assert load_design(path).epsilon > 0
    # less memory than its arrays of numbers take
    monkeypatch.setattr(checks, "_MEMORY", 1.0)
    assert run(["verify", str(path)]) == 2
    assert "limited=False" in capsys.readouterr().err
    assert optrr.verify(path, limited=False).holds
    with pytest.raises(InvalidInput, match=r"take more than 8 s or 1e-09 GB.*limited=False"):
        load_design(path)
    assert load_design(path, limited=False).epsilon > 0
    monkeypatch.undo()
    monkeypatch.setattr(checks, "MOST_BYTES", 100)
    with pytest.raises(InvalidInput, match="more than 100 bytes"):
        verify(path)


@pytest.mark.slow
def test_a_lie_is_told_from_another_process_as_from_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = json.loads(files()["ball"])
    LIES["a ball's conditional 1e-12 too low"][1](content)
    path = resealed(content, tmp_path / "d.json")
    here = verify(path)
    monkeypatch.setattr(checks, "MOST_SECONDS", 1e-9)
    assert not here.holds and verify(path) == here
    with pytest.raises(InvalidInput, match="does not verify: conditional epsilons FAILS"):
        load_design(path)


def texts(value: str, rng: np.random.Generator) -> str:
    """Another number where it is one, or a word."""
    words = ["", "optimal", "baseline", "ball", "product"]
    numbers = [str(int(value) * 2), str(int(value) + 1), "0", "-1", "9" * 400] if value.isdigit() else []
    return str(rng.choice(numbers or words))


def broken_promises(path: Path) -> list[str]:
    """What a file says that its law, enumerated over all change sets, does not keep; 1e-10 is what the sums may err by."""
    record = decoded_design(path.read_bytes(), path)
    law, problem, stated = record.design.law, record.design.solution.problem, record.stated
    total, accuracy, conditional = enumerated(law)
    out = []
    if not stated["epsilon"][0] >= total - 1e-10:
        out.append("total")
    if not np.all(np.asarray(stated["conditional_epsilons"]) >= conditional - 1e-10):
        out.append("conditional")
    if not np.all(np.asarray(stated["attribute_epsilons"]) <= accuracy + 1e-10 * (1 + np.abs(accuracy))):
        out.append("accuracy")
    if record.design.solution.status != "baseline":
        if not np.all(accuracy >= problem.epsilons - 1e-8):
            out.append("request")
        if problem.caps is not None and not np.all(conditional <= problem.caps + 1e-8):
            out.append("cap")
    # each attribute on its own is a mechanism that meets the accuracies, caps, and pairs up to kappa 1
    if problem.kappa <= 1 and not stated["lower_bound"][0] <= problem.kronecker_epsilon + 1e-10:
        out.append("lower bound")
    if (
        record.design.solution.status == "optimal"
        and not total - stated["lower_bound"][0] <= OPTIMAL_GAP * max(1, total) + 1e-8
    ):
        out.append("optimal")
    return out


def enumerated(law: Law) -> tuple[float, np.ndarray, np.ndarray]:
    """Total, accuracies and conditional ε from the probability of each change set, by slow obvious loops."""
    m = law.m
    probability = law.marginal(range(m))
    logs = {}
    for s in np.ndindex(*probability.shape):
        outputs = sum(math.log(int(r) - 1) for r, changed in zip(law.sizes, s, strict=True) if changed)
        logs[s] = math.log(probability[s]) - outputs if probability[s] > 0 else -math.inf
    accuracy, conditional = np.empty(m), np.zeros(m)
    for i, r in enumerate(law.sizes):
        changed = math.fsum(probability[s] for s in logs if s[i])
        kept = math.fsum(probability[s] for s in logs if not s[i])
        accuracy[i] = math.log((int(r) - 1) * kept / changed) if changed > 0 and kept > 0 else math.inf
        conditional[i] = max(abs(logs[s] - logs[(*s[:i], 1, *s[i + 1 :])]) for s in logs if not s[i])
    return max(logs.values()) - min(logs.values()), accuracy, conditional


def test_honest_files_keep_their_promises(tmp_path: Path) -> None:
    for text in files().values():
        path = resealed(json.loads(text), tmp_path / "d.json")
        assert verified(path)
        assert not broken_promises(path)


@cache
def many_attributes() -> str:
    """A design of 24 different attributes, whose sums are over frequencies."""
    return _text(
        optrr.design({f"a{i}": 2 + i % 7 for i in range(24)}, np.linspace(0.3, 1.2, 24).tolist(), method="ball")
    )


def loaded(path: Path) -> bool:
    try:
        load_design(path)
    except InvalidInput:
        return False
    return True


@pytest.mark.slow
def test_no_mutation_that_verifies_breaks_a_promise(tmp_path: Path) -> None:
    count = 1000
    kinds = list(files())
    originals = {kind: json.loads(text) for kind, text in files().items()}
    passed, seconds, memory = 0, 0.0, 0
    for number in range(count):
        kind = kinds[number % len(kinds)]
        path = resealed(mutated(originals[kind], np.random.default_rng([16, number]), texts), tmp_path / "d.json")
        for read in (verified, loaded):
            with measured() as cost:
                holds = read(path)
            seconds, memory = max(seconds, cost.processor_seconds), max(memory, cost.memory)
            assert cost.processor_seconds < 10 and cost.memory < 1 << 30, number
            if holds:
                passed += read is verified
                assert not broken_promises(path), (number, kind)
    print(f"{count} designs: {passed} verify, at most {seconds:.2f} s and {memory / 1e6:.0f} MB")
    # names, notes, times and milder requests are no promises that a law could break
    assert 0 < passed < count / 2
