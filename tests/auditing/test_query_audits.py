"""Clients that answer local queries: right ones are consistent with their file, broken ones are not."""

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import javascript
import numpy as np
import pytest
from scipy import stats
from vectors import CLIENTS, load_script

import optrr
from optrr.cli.main import run
from optrr.devices.audit import AuditOptions
from optrr.devices.deployment_file import DeployedQuestions
from optrr.devices.result import Audit
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.ways.protocols.sampled_tables import SampledTables
from optrr.ways.protocols.sampled_uses import questions_of
from optrr_solvers.allocating.questions import SubsetReport
from tests.questions import random_asking

client = load_script(CLIENTS / "python" / "optrr_client.py")

Replying = Callable[[Any, Any], Sequence[Any]]


def asking() -> SampledTables:
    """Three questions of each kind: subsets of two attributes, of a table's cells, and of one attribute."""
    domain = Domain.of({"a": ["x", "y", "z"], "b": 4, "c": ["no", None]})
    reports = (SubsetReport((1, 2), (1, 3)), SubsetReport((3,)), SubsetReport((1,)))
    return SampledTables(domain, (("a", "b"), ("c", "b"), ("c",)), np.array([0.5, 0.3, 0.2]), 1.0, reports)


@pytest.fixture(scope="module")
def deployed() -> DeployedQuestions:
    return questions_of(asking())


def answering(deployed: DeployedQuestions, changed: Callable[[Any], Any] = lambda sampler: sampler) -> Replying:
    """The Python client's answers, of a sampler that may be changed."""
    sampler = changed(client.Sampler(deployed.to_bytes()))
    return lambda _people, records: [sampler.draw(record) for record in records.tolist()]


def violated(result: Audit) -> set[str]:
    return {f.check for f in result.findings if f.violates}


def test_a_right_client_is_consistent_and_its_bound_is_near(deployed: DeployedQuestions) -> None:
    """False alarm: 1e-6 by the level. The bound's distance from the label was 0.2 in ten runs."""
    result = optrr.audit(deployed, answering(deployed), AuditOptions(20_000))
    assert result.holds, [f.line() for f in result.findings if f.violates]
    assert 0.5 < result.epsilon_bound < result.epsilon == float(deployed.total)
    assert "each is a release" in result.findings[-1].says


def sharper(sampler: Any) -> Any:
    """Half of the unlikely patterns that the label is for."""
    sampler._questions = [q._replace(threshold=q.threshold // 2) for q in sampler._questions]
    return sampler


def other_likely(sampler: Any) -> Any:
    """The second attribute's matches for the first one's."""
    first, *others = sampler._questions
    sampler._questions = [first._replace(likely=[2, 3]), *others]
    return sampler


def exchanged(sampler: Any) -> Any:
    """The attributes of a question in another order than its label says; both have answers of the same form."""
    sampler.draw = lambda codes, draw=sampler.draw: draw([codes[0], codes[1], (codes[1] + codes[2]) % 2])
    return sampler


def seeded(sampler: Any) -> Any:
    """Bytes from a seed that every start of the client has."""
    take = np.random.default_rng(7).bytes
    sampler.draw = lambda codes, draw=sampler.draw: draw(codes, take)
    return sampler


def asked_by_truth(sampler: Any) -> Any:
    """Whoever has the first category is asked the first question more often."""

    def draw(codes: Any, draw: Any = sampler.draw) -> Any:
        answers = [draw(codes) for _ in range(2)]
        return min(answers, key=lambda x: x["table"]) if codes[0] == 0 else answers[0]

    sampler.draw = draw
    return sampler


def first_others(sampler: Any) -> Any:
    """No shuffle: the other members are the first categories."""
    sampler.draw = lambda codes, draw=sampler.draw: unshuffled(draw(codes), codes, sampler)
    return sampler


def unshuffled(answer: dict[str, Any], codes: Any, sampler: Any) -> dict[str, Any]:
    question = sampler._questions[answer["table"] - 1]
    if answer["table"] != 1:
        return answer
    texts = answer["cells"].split("|")
    own = codes[question.attributes[1]]
    held = str(own) in texts[1].split()
    others = [c for c in range(question.parts[1]) if c != own][: question.subset_sizes[1] - held]
    texts[1] = " ".join(str(c) for c in sorted([own, *others] if held else others))
    return {**answer, "cells": "|".join(texts)}


def one_bare_record(sampler: Any) -> Any:
    """Of one combination of categories the answer to a question is always the same, and names the truth."""

    def draw(codes: Any, draw: Any = sampler.draw) -> Any:
        answer = draw(codes)
        return {"table": 1, "cells": "2|2 3"} if answer["table"] == 1 and codes[:2] == [2, 3] else answer

    sampler.draw = draw
    return sampler


# What is planted, queries within which it is caught, and one check that catches it.
PLANTED: dict[str, tuple[Callable[[Any], Any], int, str]] = {
    "too sharp a law": (sharper, 4_000, "total epsilon"),
    "another pattern": (other_likely, 2_000, "joint flips"),
    "another attribute": (exchanged, 10_000, "joint flips"),
    "a seeded source": (seeded, 2_000, "repeats and lags"),
    "a question that depends on the truth": (asked_by_truth, 4_000, "joint flips"),
    "subsets that are not shuffled": (first_others, 2_000, "replacements"),
    "one record that is not protected": (one_bare_record, 40_000, "total epsilon"),
}


@pytest.mark.parametrize(
    "error", [pytest.param(k, marks=[pytest.mark.slow] if x[1] > 10_000 else []) for k, x in PLANTED.items()]
)
def test_a_planted_error_is_caught(error: str, deployed: DeployedQuestions) -> None:
    change, queries, check = PLANTED[error]
    result = optrr.audit(deployed, answering(deployed, change), AuditOptions(queries))
    assert check in violated(result), [f.line() for f in result.findings]
    assert "VIOLATES" in result.headline()


def remembering(deployed: DeployedQuestions) -> Replying:
    def answer(people: Any, records: Any) -> list[Any]:
        known: dict[int, Any] = {}
        answers = answering(deployed)(people, records)
        return [known.setdefault(p, x) for p, x in zip(people.tolist(), answers, strict=True)]

    return answer


@pytest.mark.parametrize("once", [True, False])
def test_a_memory_is_no_noise_that_repeats(once: bool) -> None:
    """Queries about one attribute of four: for another record the remembered answer often has the same noise."""
    domain = Domain.of({f"a{i}": 2 for i in range(4)})
    tables = SampledTables(
        domain, tuple((f"a{i}",) for i in range(4)), np.full(4, 0.25), 1.0, (SubsetReport((1,)),) * 4
    )
    deployed = questions_of(tables)
    result = optrr.audit(deployed, remembering(deployed), AuditOptions(4_000, once=once))
    assert result.holds and "got the same answer" in result.findings[-1].says


def test_a_promise_to_answer_once_is_tested(deployed: DeployedQuestions) -> None:
    result = optrr.audit(deployed, answering(deployed), AuditOptions(1_000, once=True))
    assert violated(result) == {"repeats and lags"}


@pytest.mark.slow
def test_false_alarms_are_within_the_level() -> None:
    """At a level of 0.2 for each audit of a random file; this test fails with probability below 1e-6 where that is kept."""
    rng, count, alarms = np.random.default_rng(6), 100, 0
    for _ in range(count):
        made = questions_of(random_asking(rng))
        alarms += not optrr.audit(made, answering(made), AuditOptions(int(rng.integers(200, 1500)), 0.2)).holds
    assert stats.binom.sf(alarms - 1, count, 0.2) > 1e-6


BAD = [
    {"table": 0, "cells": "0|0 1"},
    {"table": 4, "cells": "0"},
    {"table": 1, "cells": "0"},
    {"table": 1, "cells": "0|1 0"},
    {"table": 1, "cells": "0|1 1"},
    {"table": 1, "cells": "3|0 1"},
    {"table": 1, "cells": "0|0 01"},
    {"table": 1, "cells": "0|0  1"},
    {"table": 1, "cells": "0|0 ²"},
    {"table": 2, "cells": ""},
]


@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_answer_is_a_violation_by_itself(bad: dict[str, Any], deployed: DeployedQuestions) -> None:
    def answer(people: Any, records: Any) -> list[Any]:
        return [bad, *answering(deployed)(people, records)[1:]]

    result = optrr.audit(deployed, answer, AuditOptions(400))
    assert [f.check for f in result.findings] == ["categories"] and not result.holds


def test_what_cannot_be_audited_is_refused_with_a_remedy(deployed: DeployedQuestions, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="optrr audit --command"):
        optrr.audit(deployed)
    optrr.save(asking(), tmp_path / "asking.json")
    with pytest.raises(InvalidInput, match="audit the file that optrr export makes of it"):
        optrr.audit(tmp_path / "asking.json")
    with pytest.raises(InvalidInput, match="the client failed: InvalidInput: function: line 1 is no answer"):
        optrr.audit(
            deployed, lambda people, _records: ["0"] * people.size if people.size > 1 else BAD[:1], AuditOptions(400)
        )


# The Python client behind the protocol of lines.
PYTHON = f"""
import json, sys
sys.path.insert(0, {str(CLIENTS / "python")!r})
from optrr_client import Sampler
sampler = Sampler.load(sys.argv[1])
for line in sys.stdin:
    report = sampler.report(dict(zip(sampler.names, json.loads(line)["values"])))
    WRONG
    print(json.dumps(report))
"""
JAVASCRIPT = """
import { draw, readDeployment } from CLIENT;
import { readFileSync } from "node:fs";
const deployment = await readDeployment(readFileSync(process.argv[2]));
const names = deployment.attributes.map((a) => a.name);
for (const line of readFileSync(0, "utf-8").trim().split("\\n")) {
  const { values } = JSON.parse(line);
  console.log(JSON.stringify(draw(deployment, Object.fromEntries(names.map((name, k) => [name, values[k]])))));
}
"""


@pytest.fixture
def sampler(tmp_path: Path) -> Path:
    optrr.save(asking(), tmp_path / "asking.json")
    assert run(["export", str(tmp_path / "asking.json"), "-o", str(tmp_path / "sampler.json")]) == 0
    return tmp_path / "sampler.json"


def python(sampler: Path, wrong: str = "pass") -> list[str]:
    script = sampler.with_name("client.py")
    script.write_text(PYTHON.replace("WRONG", wrong))
    return [sys.executable, str(script), str(sampler)]


@pytest.mark.slow
def test_commands_are_asked(sampler: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["audit", str(sampler), "--queries", "2000", "--command"]
    assert run([*words, shlex.join(python(sampler))]) == 0
    script = sampler.with_name("client.mjs")
    script.write_text(JAVASCRIPT.replace("CLIENT", json.dumps((javascript.CLIENT / "optrr.js").as_uri())))
    assert run([*words, shlex.join([javascript.node(), str(script), str(sampler)])]) == 0
    assert run([*words, shlex.join(python(sampler, "report['table'] = 3; report['cells'] = '0'"))]) == 1
    capsys.readouterr()
    assert run([*words, shlex.join(python(sampler, "report = {'values': []}"))]) == 2
    said = capsys.readouterr().err
    assert "line 1 is no answer" in said and said.count("\n") == 1
    assert run(words[:2]) == 2
