"""Examples in the docstrings of the public API run; every public name, and every analysis, has one."""

import doctest
import inspect

import pytest

import optrr
from optrr.core.reports import ANALYSES

# Every public name, and every method of designs and reports that documents its parameters.
NAMES = {name: getattr(optrr, name) for name in optrr.__all__} | {
    f"{owner.__name__}.{name}": getattr(owner, name)
    for owner in (optrr.Design, optrr.Reports)
    for name in dir(owner)
    if not name.startswith("_") and "\nParameters\n" in (inspect.getdoc(getattr(owner, name)) or "")
}


@pytest.mark.parametrize("name", NAMES)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = doctest.DocTestParser().get_doctest(inspect.getdoc(NAMES[name]) or "", {}, name, None, None)
    assert examples.examples, f"{name} has no example"
    said: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(
        examples, out=said.append
    )
    assert not failed, "".join(said)


def test_every_analysis_is_among_the_examples():
    assert {f"Reports.{name}" for name in ANALYSES} <= NAMES.keys()
