"""Questions that depend on answers: what is sent has the design's law of the derived record, and nothing else of the path."""

import itertools
import json
import math
import subprocess
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

from conformance import Conformance
from javascript import CLIENT, node, of_the_page

from optrr.survey.preparing import Survey, prepared

THEFT = {"name": "theft", "categories": ["yes", "no"]}
OFTEN = {"name": "often", "categories": ["not asked", "once", "more"], "ask_if": {"theft": ["yes"]}}
# a child; a child of a child; two parents, of which one may be missing, and a category in the middle; nothing but a child
SURVEYS: dict[str, list[dict[str, Any]]] = {
    "child": [THEFT, OFTEN],
    "grandchild": [
        THEFT,
        OFTEN,
        {"name": "where", "categories": ["class", "yard", "not asked"], "ask_if": {"often": ["once", "more"]}},
    ],
    "two parents": [
        {"name": "ill", "categories": ["no", "yes"], "missing": True},
        {"name": "age", "size": 3},
        {
            "name": "work",
            "categories": ["none", "-", "some"],
            "not_asked": "-",
            "ask_if": {"ill": ["no"], "age": [1, 2]},
        },
    ],
    "siblings": [
        {**THEFT, "epsilon": 2},
        OFTEN,
        {**OFTEN, "name": "fear", "ask_if": {"theft": ["no"]}, "epsilon": 0.3},
    ],
}
# From every state of the form, and every stream that chooses another way through the automaton, what the page's modules send.
SCRIPT = """
import {{ readFileSync }} from "node:fs";
import {{ answerOnce, readDeployment }} from {client};
import {{ pathOf }} from {path};
const {{ file, wording, states, streams }} = JSON.parse(readFileSync(0, "utf-8"));
const deployment = await readDeployment(new TextEncoder().encode(file));
const sent = async (answers, stream) => {{
  let at = 0;
  crypto.getRandomValues = (array) => {{
    // what follows the draw is the report's id
    array.set(at + array.length <= stream.length ? stream.slice(at, at + array.length) : new Uint8Array(array.length));
    at += array.length;
    return array;
  }};
  const {{ report }} = await answerOnce(deployment, answers, {{ update: async (_, change) => change(undefined, []) }});
  return [JSON.stringify(report), at];
}};
const results = [];
for (const entered of states) {{
  const answers = pathOf(deployment.attributes, wording, new Map(Object.entries(entered))).record(deployment.attributes);
  const list = [];
  for (const stream of streams) list.push(await sent(answers, stream));
  results.push([answers, list]);
}}
process.stdout.write(JSON.stringify(results));
"""


@pytest.fixture(scope="module", params=SURVEYS)
def survey(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Survey:
    path = tmp_path_factory.mktemp("branches") / "s.json"
    path.write_text(json.dumps({"epsilon": 1.0, "attributes": SURVEYS[request.param]}))
    return prepared(path)


def states_of(survey: Survey) -> list[dict[str, int]]:
    """All codes that a form can hold: also those of questions that are not asked any more, since a person went back."""
    offered = []
    for attribute in survey.design.domain:
        branch = survey.branches.get(attribute.name)
        hidden = [] if branch is None else [attribute.codes[branch.otherwise]]
        offered.append([code for code in range(attribute.size) if code not in hidden])
    names = survey.design.domain.names
    return [dict(zip(names, codes, strict=True)) for codes in itertools.product(*offered)]


def derived(survey: Survey, entered: dict[str, int]) -> dict[str, str | None]:
    """The record of these answers, by a plain walk."""
    record: dict[str, str | None] = {}
    for attribute in survey.design.domain:
        branch = survey.branches.get(attribute.name)
        asked = branch is None or all(record[parent] in texts for parent, texts in branch.when.items())
        record[attribute.name] = attribute.texts[entered[attribute.name]] if asked else branch.otherwise  # type: ignore[union-attr]
    return record


def streams_of(content: dict[str, Any]) -> list[tuple[Fraction, bytes]]:
    """Every run of the automaton: a stream of bytes, and the probability of all streams that do the same."""
    digits, choices = content["bits"] // 4, []
    for layer in content["layers"]:
        assert layer["kind"] == "change"
        texts = [text for key, text in layer.items() if key.endswith("threshold")]
        cuts = {0, 16**digits} | {int(t[k : k + digits], 16) for t in texts for k in range(0, len(t), digits)}
        steps = len(content["attributes"][layer["attribute"]]["categories"]) - 1
        numbers = [k.to_bytes(4, "big") for k in range(steps)] if steps > 1 else [b""]
        choices.append(
            [
                (Fraction(high - low, 16**digits * steps), low.to_bytes(digits // 2, "big") + number)
                for low, high in itertools.pairwise(sorted(cuts))
                for number in numbers
            ]
        )
    runs = itertools.product(*choices)
    return [(math.prod((p for p, _ in run), start=Fraction(1)), b"".join(part for _, part in run)) for run in runs]


def test_what_is_sent_has_the_law_of_the_derived_record_and_nothing_of_the_path(survey: Survey) -> None:
    file = survey.deployment.to_bytes().decode()
    content, states = json.loads(file), states_of(survey)
    runs = streams_of(content)
    assert sum(chance for chance, _ in runs) == 1
    modules = {
        "client": json.dumps((CLIENT / "optrr.js").as_uri()),
        "path": json.dumps(of_the_page("path.js").as_uri()),
    }
    wording = json.loads(survey.page_json())
    given = {"file": file, "wording": wording, "states": states, "streams": [list(stream) for _, stream in runs]}
    command = [node(), "--input-type=module", "-e", SCRIPT.format(**modules)]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    sets = Conformance(content).exact_sets()
    names = survey.design.domain.names
    bodies: dict[tuple[str | None, ...], set[str]] = defaultdict(set)
    paths = set()
    for entered, (answers, sent) in zip(states, results, strict=True):
        assert answers == derived(survey, entered)
        paths.add(tuple(answers[name] for name in names))
        # neither how many random bytes are taken nor the form of a report tells the path
        assert {taken for _, taken in sent} == {len(runs[0][1]) + 16}
        law: dict[tuple[str | None, ...], Fraction] = defaultdict(Fraction)
        for (body, _), (chance, _) in zip(sent, runs, strict=True):
            report = json.loads(body)
            assert list(report) == ["format", "design", "id", "values"] and len(report["values"]) == len(names)
            law[tuple(report["values"])] += chance
            bodies[tuple(report["values"])].add(body)
        assert law == law_of(survey, sets, tuple(answers[name] for name in names))
    # the same values are the same bytes, whichever path led there
    assert all(len(same) == 1 for same in bodies.values())
    assert len(bodies) == math.prod(survey.design.domain.sizes.tolist()) and len(paths) > 2


def law_of(survey: Survey, sets: Any, record: tuple[str | None, ...]) -> dict[tuple[str | None, ...], Fraction]:
    """The exact law of the design's file, and that of the design within the rounding of its weights."""
    domain, out = survey.design.domain, {}
    for values in itertools.product(*(a.texts for a in domain)):
        changed = tuple(int(a != b) for a, b in zip(values, record, strict=True))
        others = math.prod(r - 1 for r, c in zip(domain.sizes.tolist(), changed, strict=True) if c)
        out[values] = Fraction(sets[changed]) / others
    kernel = survey.design.mechanism.kernel(domain.names).matrix()
    row = np.ravel_multi_index([a.codes[v] for a, v in zip(domain, record, strict=True)], domain.sizes)
    assert np.allclose(kernel[row], [float(p) for p in out.values()], rtol=0, atol=1e-12)
    return out
