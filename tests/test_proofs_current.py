"""A proof holds for the function that was read when it was written: fail when that function has changed since."""

import ast

import current
import pytest


@pytest.mark.slow
@pytest.mark.parametrize("proof", current.proofs())
def test_the_functions_are_as_they_were_when_proved(proof):
    kept = set(current.recorded().get(proof, {}).values())
    now = {function: current.digest(function) for function in current.backs(proof)}
    changed = [function for function, value in now.items() if value not in kept]
    assert not changed, f"changed after the proof; check {proof}.py, then run: python proofs/current.py {proof}"
    assert kept == set(now.values()), f"run: python proofs/current.py {proof}"


def test_every_proof_is_recorded_and_proves_something():
    assert set(current.recorded()) == set(current.proofs())
    for proof in current.proofs():
        body = ast.parse((current.FOLDER / f"{proof}.py").read_text()).body
        assert any(isinstance(x, ast.FunctionDef) and x.name.startswith("prove_") for x in body), proof


def test_the_digest_sees_code_and_not_layout(tmp_path, monkeypatch):
    values = []
    for k, body in enumerate(["x + 1", "(x  +  1)  # why", "x + 2"]):
        source = f'class A:\n    def f(self, x):\n        """Doc {k}."""\n        return {body}\n'
        folder = tmp_path / str(k)
        folder.mkdir()
        (folder / "a.py").write_text(source)
        monkeypatch.setattr(current, "project", lambda folder=folder: current.Project({"sample": folder}))
        values.append(current.digest("sample.a.A.f"))
    assert values[0] == values[1] != values[2]


def test_a_proof_without_its_function_is_an_error():
    with pytest.raises(ValueError, match="no module holds"):
        current.digest("nowhere.f")
