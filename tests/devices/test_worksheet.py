"""Evaluation worksheets: what is stated is what the design states, and what only a deployer can know stays a question."""

import math
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import optrr
from optrr.allocation.sampled_tables import SampledTables
from optrr.cli.main import run
from optrr.core.design.design_file import load_design
from optrr.core.design.designs import Asking, Design
from optrr.core.design.pages import design_page
from optrr.core.display.parts import page_html
from optrr.core.display.text import bound_text
from optrr.core.provenance.accounting import Release
from optrr.devices.worksheet import worksheet
from optrr_solvers.allocation.questions import SubsetReport

TOPICS = {
    "epsilon", "unit of privacy", "composition", "trust model", "correct implementation", "side channels", "utility", "bias",
    "security and access", "data collection exposure",
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    optrr.save(
        optrr.design({"sex": ["F", "M"], "age": 5, "smokes": ["no", "yes", None]}, [0.5, 1.0, 0.8]), tmp_path / "d.json"
    )
    return tmp_path / "d.json"


def sections(sheet: str) -> list[tuple[str, list[str], list[str]]]:
    """Topic, what holds and what must be answered of each section of a worksheet."""
    out = []
    for section in sheet.split("\n## ")[1:]:
        heading, *lines = section.splitlines()
        holds = [unescape(line[2:]) for line in lines if line.startswith("- ") and not line.startswith("- [ ] ")]
        asked = [line.removeprefix("- [ ] ") for line in lines if line.startswith("- [ ] ")]
        out.append((heading.partition(": ")[0].lower(), holds, asked))
    return out


def said(design: Asking, topic: str, n: int = 1000) -> str:
    return "\n".join(line for name, holds, _ in sections(worksheet(design, n)) if name == topic for line in holds)


def test_every_topic_has_what_holds_and_what_must_be_answered(file: Path) -> None:
    sheet = file.with_name("sheet.md")
    assert run(["verify", str(file), "--worksheet", str(sheet)]) == 0
    text = sheet.read_text(encoding="utf-8")
    assert {topic for topic, _, _ in sections(text)} == TOPICS
    assert all(holds and asked for _, holds, asked in sections(text))
    assert all(line.endswith(("?", ".")) and "?" in line for _, _, asked in sections(text) for line in asked)
    assert load_design(file).digest in text and "assumes 10000" in text


def test_its_numbers_are_those_of_the_design(file: Path) -> None:
    design = load_design(file)
    shown = said(design, "epsilon")
    total = float(shown.split("total epsilon ")[1].split()[0])
    assert design.epsilon <= total <= design.epsilon + 1e-6
    factor = float(shown.split("at most ")[1].split()[0])
    assert math.exp(design.epsilon) <= factor <= math.exp(design.epsilon) + 1.1e-3
    bound = float(shown.split("below ")[1].split()[0])
    assert design.lower_bound - 1e-6 <= bound <= design.lower_bound
    for name, own, conditional in zip(
        design.domain.names, design.attribute_epsilons, design.conditional_epsilons, strict=True
    ):
        line = next(x for x in shown.splitlines() if x.startswith(repr(name)))
        numbers = [float(x.split()[0]) for x in (line.split("response at ")[1], line.split("at most ")[1])]
        assert own - 1e-6 <= numbers[0] <= own and conditional <= numbers[1] <= conditional + 1e-6
    errors = said(design, "utility", n=400)
    for name in design.domain.names:
        line = next(x for x in errors.splitlines() if x.startswith(repr(name)))
        # a share's standard error under the mechanism of one attribute, √((c/λ²)/(n r)), c = (r−1)/r
        lam, r = design.law.one_way_eigenvalues()[design.domain.index(name)], design.domain[name].size
        assert float(line.split("of at most ")[1].split()[0]) == pytest.approx(
            math.sqrt((r - 1) / r / lam**2 / (400 * r)), rel=0.05
        )


def test_what_does_not_hold_for_a_design_is_not_said() -> None:
    small, optimum = {"a": 2, "b": 3}, optrr.design({"a": 2, "b": 3}, 1.0)
    baseline = optrr.design(small, 1.0, method="kronecker")
    assert "claims no optimality" in said(baseline, "epsilon")
    assert "claims no optimality" not in said(optimum, "epsilon")
    assert "names no earlier release" in said(optimum, "composition")
    followed = Design(optimum.domain, optimum.solution, (Release(optimum.digest, "", 0.75),))
    assert f"{optimum.epsilon + 0.75:.4f}"[:-1] in said(followed, "composition")
    assert "drawn from whole numbers of 64 bits" in said(optimum, "correct implementation")
    # above 2^14 attributes nothing is drawn from an automaton
    large = optrr.design({f"a{i}": 2 for i in range((1 << 14) + 1)}, 0.01, method="kronecker")
    assert "drawn from whole numbers of" not in said(large, "correct implementation")
    assert "drawn by a slower sampler" in said(large, "correct implementation")


@pytest.mark.slow
def test_what_the_lower_bound_takes_for_granted_is_said() -> None:
    """With pairs preserved it lies above the total of a mechanism of the same accuracies."""
    domain = {"a": 2, "b": 2, "c": 2}
    plain, kept = optrr.design(domain, 0.5), optrr.design(domain, 0.5, constraints=optrr.Constraints(preserve="pairs"))
    assert kept.lower_bound > plain.epsilon
    capped = optrr.design(domain, 0.5, constraints=optrr.Constraints(conditional_cap=0.6))
    for design, wanted in ((plain, ""), (kept, " and preserved pairs"), (capped, " and conditional caps")):
        least = f"has a total below {bound_text(design.lower_bound)}"
        assert f"no mechanism with the requested accuracies{wanted} {least}" in said(design, "epsilon")
        page = page_html(design_page(design))
        assert f"No mechanism with these accuracies{wanted} {least}" in page


def test_names_are_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["[/b]<script>alert(1)</script>", "| a | `b`\n# heading", "\x1b[2J\u202egnp.exe", "x" * 20_000]
    design = optrr.design(dict.fromkeys(names, 2), 1.0)
    optrr.save(design, tmp_path / "d.json")
    assert run(["verify", str(tmp_path / "d.json"), "--worksheet", str(tmp_path / "sheet.md")]) == 0
    capsys.readouterr()
    text = (tmp_path / "sheet.md").read_text(encoding="utf-8")
    for forbidden in ("<script>", "[/b]", "`", "\x1b", "\u202e", "\n# heading"):
        assert forbidden not in text
    assert len(text) < 60_000
    assert optrr.worksheet(design) == text


def test_the_design_is_not_written_over(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, same = file.read_bytes(), file.with_suffix(".md")
    same.write_bytes(before)
    assert run(["verify", str(same), "--worksheet", str(same)]) == 2
    assert "is the design itself" in capsys.readouterr().err and same.read_bytes() == before


def test_of_sampled_tables_the_same_questions_are_answered() -> None:
    domain = optrr.Domain.of({"sex": ["F", "M"], "age": 5, "smokes": 3})
    reports = (SubsetReport((1, 2), (1, 3)), SubsetReport((1,)))
    asking = SampledTables(domain, (("sex", "age"), ("age",)), np.array([0.75, 0.25]), 1.25, reports)
    sheet = worksheet(asking, 400)
    assert {topic for topic, _, _ in sections(sheet)} == TOPICS and asking.digest in sheet
    assert (
        asking.epsilon <= float(said(asking, "epsilon").split("total epsilon ")[1].split()[0]) <= asking.epsilon + 1e-6
    )
    utility = said(asking, "utility", 400)
    assert f"{asking.standard_error('age', 400):.2g}" in utility and "sex × age: asked of a share of 0.75" in utility
    assert "'smokes': proportions cannot be estimated" in utility
    assert "1 of 1 checks held" in said(asking, "correct implementation")
