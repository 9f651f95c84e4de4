"""The JavaScript client against the specification: vectors, refusals, planted errors, exact probabilities."""

import gzip
import hashlib
import io
import json
import re
import subprocess
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance import FALSE_ALARM, Conformance

from optrr.allocation.sampled_uses import questions_of
from optrr.core.domain.domain import Attribute, Domain
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.devices.deployment_file import canonical, digest_of
from optrr.devices.export import deployment_of
from optrr_solvers.laws import ProductLaw
from tests import browsers, vectors
from tests.devices.test_labels import ENUMERATED, random_files
from tests.javascript import CLIENT, TESTS, run
from tests.questions import random_asking

OPTRR = CLIENT / "optrr.js"
SOURCE = OPTRR.read_text(encoding="utf-8")
python_client = vectors.load_script(vectors.CLIENTS / "python" / "optrr_client.py")
MOST_BYTES = 6500


def test_the_client_is_below_six_and_a_half_kilobytes_compressed():
    assert len(gzip.compress(SOURCE.encode(), 9)) < MOST_BYTES


@pytest.fixture(scope="module")
def all_vectors() -> dict[str, Any]:
    return {name: vectors.read(name) for name in (*vectors.NAMES, *vectors.QUESTIONS, *vectors.TRIALS)}


def missed(vector: dict[str, Any], results: list[dict[str, Any]]) -> list[int]:
    """Cases in which the record, or what was taken of the stream, is not the vector's."""
    return [
        k
        for k, (case, result) in enumerate(zip(vector["cases"], results, strict=True))
        if result["randomized"] != case["randomized"] or 2 * result["taken"] != len(case["bytes"])
    ]


def test_every_vector_comes_out_and_a_shorter_stream_is_noticed(all_vectors):
    for (name, vector), results in zip(all_vectors.items(), run("vectors", list(all_vectors.values())), strict=True):
        assert results
        assert not missed(vector, results), name
        assert {x["shorter"] for x in results} == {"the stream is used up"}, name
        # whoever is asked one question only, drawn beforehand, answers as one who was asked everything
        asked = [x.get("asked") for x in results]
        assert asked == [x["randomized"] if name in vectors.QUESTIONS else None for x in vector["cases"]], name


def test_every_file_that_must_be_refused_is_refused():
    files = vectors.read("refused-files")["files"]
    results = run("refusedFiles", {"files": files})
    taken = [file["why"] for file, result in zip(files, results, strict=True) if result is None]
    assert not taken
    assert all(refused for refused, message in results), results


def test_a_refused_record_takes_no_bytes_and_is_not_in_the_message():
    vector = vectors.read("refused-records")
    results = run("refusedRecords", vector)
    assert [result and result[0] for result in results] == [True] * len(vector["records"])
    assert not any("not declared" in message for _, message in results)
    assert "Größe" in results[0][1]
    said = [message for _, message in results]
    assert [
        any(part in x for x in said) for part in ("is missing", "is not one of", "keys that are not attributes")
    ] == [True] * 3


def test_booleans_and_numbers_are_the_categories_of_their_text_in_both_clients():
    domain = Domain([Attribute("ok", (True, False)), Attribute("n", (1, 2.5, 3)), Attribute("m", ("01", "1", None))])
    law = ProductLaw(np.array([2, 3, 3]), np.array([2.0, 3.0, 3.0]))
    text = canonical(deployment_of(Mechanism(domain, law)).content())
    texts = {"ok": "true", "n": "2.5", "m": "1"}
    plain = [texts, {"ok": True, "n": 2.5, "m": 1}, {**texts, "n": "3"}, {**texts, "n": 3}, {**texts, "m": None}]
    sampler, stream = python_client.Sampler(text), list(range(7, 247))
    drawn = [
        sampler.randomized(sampler.codes(r), io.BytesIO(bytes(stream)).read) for r in [*plain, {**texts, "n": 3.0}]
    ]
    expected = [[c[k] for c, k in zip(sampler.categories, codes, strict=True)] for codes in drawn]
    assert expected[0] == expected[1] and expected[2] == expected[3] == expected[5]
    assert run("plainAnswers", {"text": text.decode(), "records": plain, "stream": stream}) == expected[:5]
    for wrong in (float("nan"), float("inf"), 4, False):
        with pytest.raises(python_client.Refused, match="'n' is not one of its declared categories"):
            sampler.codes({**texts, "n": wrong})


def test_every_vector_comes_out_in_chromium(browser, all_vectors):
    results = browsers.run(browser, "vectors", list(all_vectors.values()), OPTRR)
    assert not [name for (name, v), r in zip(all_vectors.items(), results, strict=True) if missed(v, r)]


def same_bytes(name: str, count: int, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Random records and a random stream in files, for the harness, and what the Python client makes of them."""
    text = vectors.read(name)["deployment"]
    sampler = python_client.Sampler(text.encode())
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    sizes = [len(x) for x in sampler.categories]
    codes = rng.integers(0, sizes, (count, len(sizes))).astype("<u4")
    # a word and two numbers for each attribute are more than enough: few numbers are refused
    stream = rng.bytes(count * (len(sizes) + 4) * (sampler.bits // 8 + 8))
    (folder / "codes").write_bytes(codes.tobytes())
    (folder / "stream").write_bytes(stream)
    source = io.BytesIO(stream)
    out = np.array([sampler.randomized(record, source.read) for record in codes.tolist()], dtype="<u4")
    given = {"text": text, "codesFile": str(folder / "codes"), "streamFile": str(folder / "stream")}
    return given, {"taken": source.tell(), "digest": hashlib.sha256(out.tobytes()).hexdigest()}


@pytest.mark.parametrize("name", ["small", "rare", "blocks"])
def test_the_same_bytes_give_the_same_records_as_in_python(name, tmp_path):
    given, expected = same_bytes(name, 300, tmp_path)
    assert run("many", given) == expected


def understated(content: dict[str, Any]) -> str:
    """The file with a total that is below the truth by three times what a client may overlook."""
    total = Decimal(content["epsilon"]["total"])
    less = f"{total - Decimal('3e-9') * (1 + total):.15f}"
    epsilon = {**content["epsilon"], "total": less}
    if "conditional" in epsilon:
        epsilon["conditional"] = ["0.000000000000000"] * len(content["attributes"])
    wrong = content | {"epsilon": epsilon}
    return canonical(wrong | {"digest": digest_of(wrong)}).decode()


@pytest.mark.slow
def test_random_laws_are_read_drawn_as_in_python_and_refused_with_a_smaller_epsilon():
    rng = np.random.default_rng(91)
    contents = [content for kind in (*ENUMERATED, "many") for content in random_files(kind, 5)]
    laws, expected = [], []
    for content in contents:
        sampler = python_client.Sampler(canonical(content))
        codes = rng.integers(0, [len(x) for x in sampler.categories], (20, len(sampler.categories)))
        draws = len(codes) * content.get("trials", {"count": 1})["count"]
        source = io.BytesIO(rng.bytes(draws * (len(sampler.categories) + 4) * (sampler.bits // 8 + 20)))
        out = np.array([sampler.randomized(record, source.read) for record in codes.tolist()], dtype="<u4")
        expected.append({"taken": source.tell(), "digest": hashlib.sha256(out.tobytes()).hexdigest()})
        text = canonical(content).decode()
        laws.append({"text": text, "codes": codes.ravel().tolist(), "stream": source.getvalue().hex()})
    assert run("manyLaws", laws) == expected
    spending = [x for x in contents if Decimal(x["epsilon"]["total"]) > Decimal("1e-8")]
    assert len(spending) > len(contents) / 2
    refused = run("refusedFiles", {"files": [{"text": understated(x)} for x in spending]})
    assert all(x and x[1].endswith("epsilon is too small") for x in refused), refused


def random_case(rng: np.random.Generator, sampler: Any) -> dict[str, Any]:
    """A record and a stream with what the Python client makes of them, as in a vector file."""
    codes = [int(rng.integers(len(x))) for x in sampler.categories]
    stream = io.BytesIO(rng.bytes(4000))
    out = sampler.draw(codes, stream.read)
    record = [x[c] for x, c in zip(sampler.categories, codes, strict=True)]
    return {"bytes": stream.getvalue()[: stream.tell()].hex(), "record": record, "randomized": out}


def test_random_queries_are_answered_as_in_python_and_refused_with_a_smaller_epsilon():
    rng, count = np.random.default_rng(92), 50
    contents = [questions_of(random_asking(rng)).content() for _ in range(count)]
    samplers = [python_client.Sampler(canonical(content)) for content in contents]
    given = [
        {"deployment": canonical(content).decode(), "cases": [random_case(rng, sampler) for _ in range(20)]}
        for content, sampler in zip(contents, samplers, strict=True)
    ]
    for vector, results in zip(given, run("vectors", given), strict=True):
        assert not missed(vector, results)
    refused = run("refusedFiles", {"files": [{"text": understated(x)} for x in contents]})
    assert all(x and x[1].endswith("epsilon is too small") for x in refused), refused


@pytest.mark.slow
@pytest.mark.parametrize("name", vectors.NAMES)
def test_the_same_bytes_give_the_same_records_in_node_chromium_and_python(name, browser, tmp_path):
    given, expected = same_bytes(name, 20_000, tmp_path)
    assert run("many", given) == expected
    assert browsers.run(browser, "many", given, OPTRR) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", vectors.NAMES)
def test_draws_follow_the_exact_probabilities(name):
    """20,000 draws with the system's bytes."""
    conformance = Conformance.of(name)
    lists = [a["categories"] for a in conformance.content["attributes"]]
    given = {"deployment": vectors.read(name)["deployment"], "record": list(conformance.record.values())}
    drawn = run("draws", given | {"count": 20_000})
    seen = {tuple(x.index(v) for x, v in zip(lists, values, strict=True)): times for values, times in drawn}
    assert min(conformance.p_values(seen).values()) > FALSE_ALARM


@pytest.fixture
def with_store(tmp_path: Path) -> dict[str, str]:
    """The store that the README shows, and a file for it."""
    readme = (CLIENT / "README.md").read_text(encoding="utf-8")
    (store,) = (x for x in re.findall(r"```js\n(.*?)```", readme, re.DOTALL) if "fileStore" in x)
    module = tmp_path / "store.mjs"
    module.write_text(store, encoding="utf-8")
    return {"storeModule": module.as_uri(), "path": str(tmp_path / "answers.json")}


@pytest.mark.parametrize(("less", "answered"), [(0.0, [True, True, False]), (1e-12, [True, False, True])])
def test_a_limit_is_reached_and_never_passed(less, answered, with_store):
    # the second design fits where nothing is missing of the limit, else the smaller third one does
    texts = [vectors.read(name)["deployment"] for name in ("small", "joint", "optimum-1")]
    totals = [Decimal(json.loads(text)["epsilon"]["total"]) for text in texts]
    assert totals[2] < totals[1]
    # a double holds the sum to 1e-15 at most
    limit = float(totals[0] + totals[1] + Decimal("1e-15")) - less
    result = run("limited", {"deployments": texts, "limit": limit, **with_store})
    assert [x is None for x in result["refused"]] == answered
    assert [x for x in result["refused"] if x] == [
        [True, "with this design, the total epsilon would be above the limit", 0]
    ]
    spent = sum(total for total, done in zip(totals, answered, strict=True) if done)
    assert result["ledger"]["epsilon"] == str(spent)


# As the program writes it, and what the message says of it; nothing of what is a limit.
LIMITS = {
    "-1e-20": "-1e-20 (number)",
    "1e21": "1e+21 (number)",
    "NaN": "NaN (number)",
    '"4"': "4 (string)",
    "null": "null (object)",
    "4n": "4 (bigint)",
    "[4]": "4 (object)",
    "undefined": None,
    "1e20": None,
}


@pytest.mark.parametrize("limit", LIMITS)
def test_what_is_no_limit_is_refused_with_a_remedy_before_anything_is_drawn(limit, with_store):
    given = {"deployments": [vectors.read("small")["deployment"]], "written": limit, **with_store}
    result, said = run("limited", given), LIMITS[limit]
    assert result["refused"] == [said and [True, f"limit {said}: give a number of nats from 0 to 1e20", 0]]
    assert len(result["ledger"]["entries"]) == (said is None)


TABS = "http://localhost/"
# In one tab an answer within a limit takes half a second to draw; in another, one without a limit is given meanwhile.
IN_A_TAB = """
async ([text, limit]) => {
  const { answerOnce, readDeployment } = await import("./optrr.js");
  const { browserStore } = await import("./browser-store.js");
  const deployment = await readDeployment(new TextEncoder().encode(text));
  const answers = Object.fromEntries(deployment.attributes.map((x) => [x.name, x.categories[0]]));
  const store = browserStore();
  const drawing = new BroadcastChannel("drawing");
  if (limit !== null) {
    const system = crypto.getRandomValues.bind(crypto);
    crypto.getRandomValues = (array) => {
      crypto.getRandomValues = system;
      drawing.postMessage("now");
      for (const until = Date.now() + 500; Date.now() < until; );
      return system(array);
    };
    return answerOnce(deployment, answers, store, limit);
  }
  globalThis.storedBefore = new Promise((done) => {
    const update = (key, change) => store.update(key, (kept, all) => (done(all.length), change(kept, all)));
    drawing.onmessage = () => answerOnce(deployment, answers, { update });
  });
}
"""


def test_nothing_is_added_between_the_comparison_and_the_storing_in_two_tabs(browser):
    texts = [vectors.read(name)["deployment"] for name in ("small", "joint")]
    context = browser.new_context()
    context.route(TABS + "**", served)
    tabs = [context.new_page(), context.new_page()]
    for tab in tabs:
        tab.goto(TABS)
    tabs[1].evaluate(IN_A_TAB, [texts[1], None])
    tabs[0].evaluate(IN_A_TAB, [texts[0], 2])
    # the one without a limit was given while the other one drew, and found it stored
    assert tabs[1].evaluate("storedBefore") == 1
    context.close()


def served(route):
    file = CLIENT / route.request.url.removeprefix(TABS)
    if file.is_file():
        route.fulfill(body=file.read_text(encoding="utf-8"), content_type="text/javascript")
    else:
        route.fulfill(body="<!doctype html>", content_type="text/html")


def test_a_design_is_answered_once_and_the_ledger_adds_up_exactly(with_store):
    texts = [vectors.read(name)["deployment"] for name in (*vectors.NAMES, *vectors.QUESTIONS, *vectors.TRIALS)]
    kept = Path(with_store["path"])
    result = run("answering", {"deployments": texts, **with_store})
    first, second = result["rounds"][: len(texts)], result["rounds"][len(texts) :]
    assert [x["isNew"] for x in first] == [True] * len(texts)
    assert [x["isNew"] for x in second] == [False] * len(texts)
    assert [x["report"] for x in first] == [x["report"] for x in second]
    contents = [json.loads(text) for text in texts]
    for content, entry in zip(contents, first, strict=True):
        report = entry["report"]
        said = {"table", "cells"} if "questions" in content else {"values"}
        assert set(report) == {"format", "design", "id", *said}
        assert (report["format"], report["design"]) == ("optrr-report/1", content["design"])
        assert re.fullmatch("[0-9a-f]{32}", report["id"])
        allowed = [a["categories"] for a in content["attributes"] if "values" in report]
        assert all(v in x for v, x in zip(report.get("values", ()), allowed, strict=True))
    assert len({x["report"]["id"] for x in first}) == len(texts)
    total = sum(Decimal(content["epsilon"]["total"]) for content in contents)
    assert result["ledger"]["epsilon"] == str(total)
    # reports and their ε are kept, nothing else
    stored = json.loads(kept.read_text(encoding="utf-8"))
    assert all(set(entry) == {"epsilon", "report"} for entry in stored.values())


def test_what_cannot_be_stored_is_not_answered_and_what_is_stored_is_not_drawn_again():
    result = run("notAnswering", {"text": vectors.read("small")["deployment"]})
    assert result["failed"] == "the disk is full"
    assert result["again"] == {"epsilon": "1.000000000000000", "report": {"id": "kept"}, "isNew": False}


@pytest.mark.slow
def test_the_types_are_those_of_the_code(tmp_path):
    compiler = TESTS / "node_modules" / ".bin" / "tsc"
    if not compiler.exists():
        pytest.skip("TypeScript is not installed (npm install --prefix tests --no-package-lock)")
    use = tmp_path / "use.ts"
    use.write_text(USE.replace("CLIENT", str(CLIENT)), encoding="utf-8")
    target, known = ["--target", "es2022", "--module", "nodenext"], ["--lib", "es2022,dom", "--types", ""]
    command = [compiler, "--noEmit", "--strict", *target, *known, use]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    for name in ("optrr", "browser-store"):
        declared = set(re.findall(r"export (?:function|class) (\w+)", (CLIENT / f"{name}.d.ts").read_text()))
        written = set(re.findall(r"export (?:async )?(?:function|class) (\w+)", (CLIENT / f"{name}.js").read_text()))
        assert declared == written


USE = """
import { answerOnce, draw, ledger, randomize, readDeployment, Refused } from "CLIENT/optrr.js";
import type { Answer, Entry, Report, Store } from "CLIENT/optrr.js";
import { browserStore } from "CLIENT/browser-store.js";

const memory = new Map<string, Entry>();
const store: Store = {
  all: async () => [...memory.values()],
  update: async (key, change) => {
    const changed = change(memory.get(key), [...memory.values()]);
    if (changed) memory.set(key, changed);
    return changed;
  },
};

export async function use(bytes: ArrayBuffer): Promise<Report> {
  const deployment = await readDeployment(bytes);
  const drawn = draw(deployment, { sex: "F" });
  const asked: Answer | null = "table" in drawn ? drawn : null;
  if (asked) throw new Refused(asked.cells + asked.table);
  const values: (string | null)[] = randomize(deployment, { sex: "F", income: null });
  const { report, isNew, epsilon } = await answerOnce(deployment, { sex: values[0] ?? null, income: null }, browserStore(), 4);
  const spent: { entries: Entry[]; epsilon: string } = await ledger(store);
  // @ts-expect-error: an answer is a text, a number, a boolean or null
  randomize(deployment, { sex: [] });
  if (!isNew || Number(epsilon) > Number(spent.epsilon)) throw new Refused("no");
  return report;
}
"""
