"""Surveys that ask everybody one question of several: the page in Chromium, the collector, results and estimates."""

import asyncio
import io
import itertools
import json
import random
import re
import secrets
import sqlite3
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import vectors
from survey_client import JSON, TOKEN, Server, call, called, entered, kept_reports

import optrr
from optrr.allocation.sampled_tables import SampledTables
from optrr.allocation.sampled_uses import questions_of
from optrr.cli.main import run as run_command
from optrr.core.domain.domain import Attribute, Domain
from optrr.core.errors import InvalidInput
from optrr.devices.deployment_file import DeployedQuestions
from optrr_solvers.allocation.questions import SubsetReport
from tests.fuzz.changes import changed
from tests.fuzz.commands import PRIVATE, PUBLIC
from tests.javascript import called as in_node
from tests.javascript import of_the_page
from tests.questions import enumerated, random_asking

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

import sqlalchemy as sa

from optrr.survey import results
from optrr.survey.app import ReportReader, survey_app
from optrr.survey.preparing import Survey, prepared
from optrr.survey.results import Admission

CLIENT = vectors.load_script(vectors.CLIENTS / "python" / "optrr_client.py")
# Labels that occur nowhere by chance; a question of each kind, and one that asks about everything.
DOMAIN = Domain(
    (
        Attribute("travel", ("foot-kwxq", "bicycle-jzvp", "train-qqhd")),
        Attribute("ill", ("yes-vvbx", "no-wwcj", None)),
        Attribute("age", tuple(f"years-{k}-pfgh" for k in range(12))),
        Attribute("<i>smokes</i>", ("<script>alert(1)</script>", "never-ttbn")),
    )
)
TABLES = (("travel",), ("ill", "age"), ("age", "travel"), DOMAIN.names)
REPORTS = (
    SubsetReport((1,)),
    SubsetReport((1, 5), (1, 2, 3)),
    SubsetReport((9,)),
    SubsetReport((1, 1, 5, 1), tuple(p for p in range(16) if p.bit_count() > 1)),
)
QUESTIONS = {"travel": "How do you travel?", "ill": "Are you ill?", "age": "How old are you?"}
PEOPLE = 200


def asking() -> SampledTables:
    return SampledTables(DOMAIN, TABLES, np.full(4, 0.25), 1.0, REPORTS)


def files(folder: Path, made: SampledTables) -> tuple[Path, Path]:
    """The file of sampled tables, and a specification with the texts that are shown."""
    design, wording = folder / "asked.json", folder / "wording.json"
    optrr.save(made, design)
    attributes: list[dict[str, Any]] = [{"name": a.name, "categories": list(a.categories)} for a in made.domain]
    for attribute in attributes:
        if attribute["name"] in QUESTIONS:
            attribute["question"] = QUESTIONS[attribute["name"]]
    wording.write_text(json.dumps({"title": "Getting around", "language": "en", "attributes": attributes}))
    return design, wording


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    return prepared(*files(tmp_path_factory.mktemp("questions"), asking()))


def body(survey: Survey, table: Any = 2, cells: Any = "1|0 2 5 7 11", **more: Any) -> dict[str, Any]:
    report = {"format": "optrr-report/1", "design": survey.deployment.design, "id": secrets.token_hex(16)}
    return {**report, "table": table, "cells": cells, **more}


def test_the_page_is_served_with_the_questions_and_their_wording(app: Any, survey: Survey) -> None:
    assert call(app, "GET", "/sampler.json").body == questions_of(asking()).to_bytes()
    said = call(app, "GET", "/survey.json").json
    assert (said["texts"]["en"]["questions"], said["digest"]) == (QUESTIONS, survey.asked)


REFUSED = [
    *(({"table": table}, 422, "is not one of 1 to 4") for table in (0, 5, -1, 10**30)),
    *(({"table": table}, 400, "format, design, id, table and cells") for table in ("2", True, 2.0, None)),
    *(({"cells": cells}, 400, "not a report") for cells in (None, [1, 2])),
    ({"values": ["foot-kwxq"]}, 400, "not a report"),
    ({"design": "0" * 64}, 422, "design of another survey"),
    ({"wording": "0" * 64}, 422, "questions of another survey"),
    *(
        ({"cells": cells}, 422, "do not fit its table")
        for cells in [
            # the members of another table, too few, too many, twice, out of order or range
            "1", "1|0 2 5 7", "1|0 2 5 7 9 11", "1|0 2 2 7 11", "1|2 0 5 7 11", "3|0 2 5 7 11", "1|0 2 5 7 12", "0 1|0 2 5 7",
            "1|0 2 5 7 11|0", "|0 2 5 7 11", "1|", "", "|", "1 |0 2 5 7 11", "1|0  2 5 7 11", "1|0 2 5 7 11 ", "01|0 2 5 7 11",
            "+1|0 2 5 7 11", "-1|0 2 5 7 11", "1.0|0 2 5 7 11", "٣|0 2 5 7 11", "1|0 2 5 7 1e1", "1|0,2,5,7,11",
            "1|0 2 5 7 99999999999999999999", "yes-vvbx|0 2 5 7 11", "1\n|0 2 5 7 11",
        ]
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "status", "message"), REFUSED)
def test_what_is_no_answer_to_this_design_is_refused(change, status, message, app, survey, engine):
    reply = call(app, "POST", "/reports", json.dumps(body(survey) | change).encode(), **JSON)
    assert (reply.status, set(reply.json)) == (status, {"error"})
    assert message in reply.json["error"]
    assert "\n" not in reply.json["error"]
    # nothing of what was sent is repeated
    assert "vvbx" not in reply.json["error"]
    assert kept_reports(engine) == 0


def test_an_answer_counts_once_and_another_one_under_its_id_is_refused(app, survey, engine):
    report = body(survey)
    for sent in (report, report, report | {"wording": survey.asked}):
        reply = call(app, "POST", "/reports", json.dumps(sent, indent=2).encode(), **JSON)
        assert (reply.status, reply.json) == (200, {"kept": True})
    other = report | {"cells": "2|0 2 5 7 11"}
    assert call(app, "POST", "/reports", json.dumps(other).encode(), **JSON).status == 409
    assert kept_reports(engine) == 1
    twice = json.dumps(body(survey)).encode()[:-1] + b', "table": 2}'
    assert call(app, "POST", "/reports", twice, **JSON).status == 400


def fits(sent: Any, deployed: DeployedQuestions) -> bool:
    """Slow and obvious: whether it is a report to these questions."""
    if not isinstance(sent, dict) or {*sent} != {"format", "design", "id", "table", "cells"}:
        return False
    table, cells = sent["table"], sent["cells"]
    if type(table) is not int or not 1 <= table <= len(deployed.questions) or not isinstance(cells, str):
        return False
    report, shape = deployed.questions[table - 1].report, deployed.shapes[table - 1]
    subsets = (
        itertools.combinations(range(r), k) for r, k in zip(report.parts(shape), report.subset_sizes, strict=True)
    )
    each = [{" ".join(map(str, s)) for s in of} for of in subsets]
    given = cells.split("|")
    named = len(given) == len(each) and all(text in of for text, of in zip(given, each, strict=True))
    framed = (sent["format"], sent["design"]) == ("optrr-report/1", deployed.design)
    return named and framed and re.fullmatch("[0-9a-f]{32}", str(sent["id"]), re.ASCII) is not None


def test_malformed_answers_are_refused_and_not_kept(engine: sa.Engine, tmp_path: Path) -> None:
    """Changed bytes, random members, and reports to other designs; the few that happen to fit are kept, and no others."""
    small = SampledTables(Domain.of({"a": 3, "b": 4}), (("a", "b"), ("b",)), np.array([0.5, 0.5]), 1.0,
                          (SubsetReport((1, 2), (0, 3)), SubsetReport((2,))))  # fmt: skip
    optrr.save(small, tmp_path / "small.json")
    made = prepared(tmp_path / "small.json")
    app = survey_app(made, engine, Admission(TOKEN), secure=False)
    rng = random.Random(31)
    tried: Counter[tuple[int, bool]] = Counter()
    kept = set()

    async def send(raw: bytes) -> None:
        try:
            sent = json.loads(raw.decode())
            right = fits(sent, made.deployment) and len(json.loads(raw, object_pairs_hook=list)) == len(sent)
        except (ValueError, RecursionError):
            right = False
        reply = await called(app, "POST", "/reports", raw, **JSON)
        assert (reply.status == 200) == right, raw
        said = reply.json
        assert said == {"kept": True} if right else set(said) == {"error"} and "\n" not in said["error"]
        tried[reply.status, right] += 1
        if right:
            kept.add(sent["id"])

    async def send_all() -> None:
        for _ in range(600):
            report = body(made, 1, "1|0 2") | {"id": rng.randbytes(16).hex()}
            await send(changed(json.dumps(report).encode(), rng, 1 << 20))
            await send(rng.randbytes(rng.randint(0, 300)))
            parts = [rng.choices("01234", k=rng.randint(0, 3)) for _ in range(rng.randint(1, 3))]
            answer = {"table": rng.randint(0, 3), "cells": "|".join(map(" ".join, parts))}
            await send(json.dumps(report | answer).encode())
        other = questions_of(asking())
        await send(json.dumps(body(made, 1, "1|0 2") | {"design": other.design}).encode())

    asyncio.run(send_all())
    assert kept_reports(engine) == len(kept) > 5
    assert {400, 413, 422} >= {status for status, right in tried if not right} >= {400, 422}
    assert sum(count for (_, right), count in tried.items() if not right) > 1000


def test_every_answer_of_a_client_is_read_within_the_bytes_that_are_said() -> None:
    """Of random questions, and of those of the vectors, whose reports are the Python client's to the byte."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        made = random_asking(rng)
        deployed = questions_of(made)
        sampler = CLIENT.Sampler(deployed.to_bytes())
        reader = ReportReader(deployed.design, "e" * 64, deployed)
        for _ in range(20):
            record = {a.name: a.texts[int(rng.integers(a.size))] for a in made.domain}
            report = sampler.report(record)
            sent = json.dumps(report, separators=(",", ":")).encode()
            assert len(sent) <= deployed.most_report_bytes
            assert reader.report(sent).record == f"{report['table']} {report['cells']}".encode()
            longest = json.dumps(report | {"wording": "e" * 64}, indent=8).encode()
            assert len(longest) <= reader.most_bytes
    for name in vectors.QUESTIONS:
        vector = vectors.read(name)
        deployed = DeployedQuestions.read(vector["deployment"].encode())
        assert all(deployed.members(*case["randomized"].values()) for case in vector["cases"]), name


def drawn(sampler: Any, records: list[dict[str, str | None]]) -> list[dict[str, Any]]:
    """Their reports, the same ones every time."""
    rng = np.random.default_rng(5)
    frames = ({"format": "optrr-report/1", "design": sampler.design, "id": rng.bytes(16).hex()} for _ in records)
    return [frame | sampler.draw(sampler.codes(r), rng.bytes) for frame, r in zip(frames, records, strict=True)]


def people(n: int = PEOPLE) -> list[dict[str, str | None]]:
    rng = np.random.default_rng(3)
    return [{a.name: a.texts[int(rng.integers(a.size) ** 2 // a.size)] for a in DOMAIN} for _ in range(n)]


def answers_in_memory(reports: list[dict[str, Any]]) -> pa.Table:
    """The answers as :meth:`SampledTables.randomize` returns them, without what reports have beside."""
    return pa.table({"table": [r["table"] for r in reports], "cells": [r["cells"] for r in reports]})


NAMED = [("travel",), ("ill", "age"), ("age", "travel"), ("<i>smokes</i>",), ("travel", "ill")]


@pytest.mark.slow
def test_two_hundred_people_through_the_collector_are_estimated_as_their_answers_in_memory(tmp_path, capsys):
    made = asking()
    design, wording = files(tmp_path, made)
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    private.write_text(PRIVATE)
    public.write_text(PUBLIC)
    assert run_command(["sign", str(design), "--private-key", str(private)]) == 0
    server = Server(
        design, "--wording", str(wording), "--database", str(tmp_path / "r.db"), "--public-key", str(public)
    )
    sampler = CLIENT.Sampler(server.get("/sampler.json"))
    reports = drawn(sampler, people())
    connection = server.connect()
    for report in [*reports, *reports[:20]]:  # some arrive twice
        connection.request("POST", "/reports", json.dumps(report), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        assert (reply.status, reply.read()) == (200, b'{"kept":true}')
    connection.request("POST", "/reports", json.dumps(reports[0] | {"table": 99}), {"Content-Type": "application/json"})
    assert connection.getresponse().status == 422
    connection.close()
    assert server.stop() == 0
    memory = answers_in_memory(reports)
    for names in NAMED:
        capsys.readouterr()
        told = ["estimate", str(tmp_path / "r.db"), "--design", str(design), "--attributes", ",".join(names), "--json"]
        assert run_command(told) == 0
        said = json.loads(capsys.readouterr().out)
        with pytest.warns(optrr.OptrrWarning):  # that nothing says where answers in memory come from
            expected = made.estimate(memory, names)
        # the same to the last bit: counts do not depend on the order of the reports
        assert np.array_equal(said["estimate"], expected.estimate)
        assert np.array_equal(said["standard_error"], expected.standard_error)
        assert np.array_equal(said["lower"], expected.lower)
        assert said["n"] == expected.n
        assert said["doubts"] == []


def fill(app: Any, survey: Survey, n: int = PEOPLE) -> list[dict[str, Any]]:
    sampler = CLIENT.Sampler(survey.deployment.to_bytes())
    reports = drawn(sampler, people(n))

    async def send() -> None:
        for report in reports:
            assert (await called(app, "POST", "/reports", json.dumps(report).encode(), **JSON)).status == 200

    asyncio.run(send())
    return reports


@pytest.mark.slow
def test_results_show_what_the_answers_tell(app, survey, tmp_path, monkeypatch):
    # what was computed before the reports came must not serve after them, however fast they come
    monkeypatch.setattr(results, "_FRESH", 0.0)
    monkeypatch.setattr(results, "_SHARE", 0.0)
    admitted, made = entered(app), asking()
    assert b"Estimates begin" in call(app, "GET", "/results", **admitted).body
    assert call(app, "GET", "/results/counts.csv", **admitted).status == 400
    reports = fill(app, survey, 600)
    page = call(app, "GET", "/results", **admitted)
    assert page.status == 200
    assert b"600 reports." in page.body
    assert b"Each respondent was asked one of 4 groups of questions, chosen at random." in page.body
    with pytest.warns(optrr.OptrrWarning):
        expected = {names: made.estimate(answers_in_memory(reports), names) for names in NAMED}
    table = pa_csv.read_csv(io.BytesIO(call(app, "GET", "/results/counts.csv", **admitted).body))
    for (name,) in (names for names in NAMED if len(names) == 1):
        rows = [row for row in table.to_pylist() if row["attribute"] == name]
        assert [row["estimate"] for row in rows] == expected[name,].estimate.tolist()
    crossed = "?attribute=ill&attribute=age"
    page = call(app, "GET", f"/results{crossed}", **admitted)
    assert page.status == 200
    assert b"made-up report" not in page.body
    assert f"Estimated from {expected['ill', 'age'].n} reports that tell about this table.".encode() in page.body
    assert b">Unbiased estimates of these tables (CSV)<" in page.body
    assert b"<script>alert" not in page.body
    table = pa_csv.read_csv(io.BytesIO(call(app, "GET", f"/results/counts.csv{crossed}", **admitted).body))
    assert table.column_names[:3] == ["ill", "age", "estimate"]
    assert table["estimate"].to_pylist() == expected["ill", "age"].estimate.ravel().tolist()
    # a table that no question is about is refused in one line; a part of one is told
    refused = call(app, "GET", "/results?attribute=travel&attribute=ill&attribute=age", **admitted)
    assert refused.status == 200
    path = tmp_path / "reports.parquet"
    path.write_bytes(call(app, "GET", "/results/reports.parquet", **admitted).body)
    assert pq.read_table(path).column_names == ["table", "cells"]
    downloaded = made.estimate(path, ("ill", "age"))
    assert np.array_equal(downloaded.estimate, expected["ill", "age"].estimate)


def test_a_table_that_one_question_alone_tells_about_says_how_far_fakes_reach(tmp_path, engine):
    alone = SampledTables(Domain.of({"a": 3, "b": 2}), (("a", "b"),), np.array([1.0]), 1.0)
    optrr.save(alone, tmp_path / "alone.json")
    made = prepared(tmp_path / "alone.json")
    app = survey_app(made, engine, Admission(TOKEN), secure=False)
    sampler = CLIENT.Sampler(made.deployment.to_bytes())
    reports = drawn(sampler, [{"a": str(k % 3), "b": str(k % 2)} for k in range(50)])
    for report in reports:
        assert call(app, "POST", "/reports", json.dumps(report).encode(), **JSON).status == 200
    page = call(app, "GET", "/results?attribute=a&attribute=b", **entered(app)).body.decode()
    fakes = alone.poisoning(answers_in_memory(reports), ("a", "b"), 1).reports_to_move()
    assert f"{fakes} made-up report" in page


def test_a_stored_answer_that_was_changed_is_refused(app, survey, engine, tmp_path):
    fill(app, survey, 3)
    database = tmp_path / "survey.db"
    for stored in (b"", b"1", b"9 1", b"1 7", b"1 \xff", b"0 1", b"2 1|0 2 5 7", "1 1"):
        with sqlite3.connect(database) as connection:
            connection.execute("UPDATE reports SET record = ?", (stored,))
        with pytest.raises(
            InvalidInput, match="a stored answer does not fit the questions of the design; restore a backup"
        ):
            asking().estimate(database, ("travel",))


def test_what_does_not_fit_sampled_tables_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    design, _ = files(tmp_path, asking())
    other = tmp_path / "other.toml"
    other.write_text('[[attributes]]\nname = "a"\nsize = 2\nepsilon = 1')
    with pytest.raises(InvalidInput, match="attributes or categories differ"):
        prepared(design, other)
    design.write_text(design.read_text().replace('"share": 0.25', '"share": 0.2500000001', 1))
    with pytest.raises(InvalidInput, match="was changed after it was written"):
        prepared(design)
    optrr.save(asking(), design)
    monkeypatch.setattr("optrr.survey.preparing._MOST_BYTES", 300)
    with pytest.raises(InvalidInput, match=r"its 4 questions take \d+ compressed bytes, more than a page can load"):
        prepared(design)


def test_a_database_belongs_to_records_or_to_questions(survey: Survey, engine: sa.Engine, tmp_path: Path) -> None:
    survey_app(survey, engine, Admission(TOKEN), secure=False)
    path = tmp_path / "q.toml"
    path.write_text('[[attributes]]\nname = "a"\nsize = 2\nepsilon = 1')
    with pytest.raises(InvalidInput, match="holds the reports of another design"):
        survey_app(prepared(path), engine, Admission(TOKEN), secure=False)


CHANCES = """
import {{ readDeployment }} from {client};
import {{ chancesOf, categoriesOf, listsOf, membersOf, numberOf }} from {question};
export async function looked({{ text, reports }}) {{
  const deployment = await readDeployment(new TextEncoder().encode(text));
  const chances = deployment.questions.map((_, k) => chancesOf(deployment, k + 1));
  const numbers = deployment.questions.flatMap((_, k) =>
    listsOf(deployment, k + 1).map(({{ about, from }}) =>
      Array.from({{ length: from }}, (_, x) => {{
        const words = categoriesOf(about, x);
        const answers = Object.fromEntries(about.map((a, i) => [a.name, words[i]]));
        return numberOf(about, answers) === x && words.every((w, i) => about[i].categories.includes(w));
      }}),
    ),
  );
  return {{ chances, numbers, members: reports.map((report) => membersOf(deployment, report)) }};
}}
"""


def test_what_the_page_says_of_the_lists_is_so(tmp_path: Path) -> None:
    """The chances that a list holds the answer, enumerated for every record; and which reports the page takes for its own."""
    module = tmp_path / "looked.mjs"
    urls = {name: json.dumps(of_the_page(f"{name}.js").as_uri()) for name in ("optrr", "question")}
    module.write_text(CHANCES.format(client=urls["optrr"], question=urls["question"]), encoding="utf-8")
    rng = np.random.default_rng(11)
    deployed = [questions_of(random_asking(rng)) for _ in range(15)]
    wrong: list[dict[str, Any]] = [c for c, _, _ in REFUSED if {*c} & {"table", "cells"}]
    given = []
    for each in deployed:
        record = {a.name: a.texts[0] for a in each.domain}
        own = [CLIENT.Sampler(each.to_bytes()).report(record) for _ in range(5)]
        given.append({"text": each.to_bytes().decode(), "reports": [*own, *(own[0] | change for change in wrong)]})
    for each, result, task in zip(deployed, in_node(module, "looked", given), given, strict=True):
        for question, shape, said in zip(each.questions, each.shapes, result["chances"], strict=True):
            drawn = Fraction(question.threshold, 1 << each.bits)
            records, reports, chances = enumerated(shape, 1.0, question.report, drawn)
            parts = question.report.parts(shape)
            for x in records:
                own = x if len(parts) == len(shape) else (int(np.ravel_multi_index(x, shape)),)
                for i, one in enumerate(said):
                    assert abs(one["match"] - float(sum(chances[y, x] for y in reports if own[i] in y[i]))) < 1e-9
            blind = [k / r for k, r in zip(question.report.subset_sizes, parts, strict=True)]
            assert np.allclose([one["blind"] for one in said], blind, atol=1e-12)
        assert all(all(list_) for list_ in result["numbers"])
        for report, members in zip(task["reports"], result["members"], strict=True):
            table, cells = report["table"], report["cells"]
            # in JavaScript 2.0 is 2
            right = type(table) in (int, float) and isinstance(cells, str) and bool(each.members(int(table), cells))
            assert (members is not None) == right, report
            if members is not None:
                assert "|".join(" ".join(map(str, m)) for m in members) == report["cells"]
