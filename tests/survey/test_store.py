"""The store of a survey: packed records, durable batches, one database for many collectors."""

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from postgresql_server import postgresql, reason_to_skip

import optrr

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

import sqlalchemy as sa
from survey_client import kept_reports

from optrr.cli.main import run as run_command
from optrr.core.design.designs import Design
from optrr.core.design.solving import design
from optrr.core.design.specification import read_specification
from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.estimation.estimator import estimate
from optrr.core.provenance.accounting import Release
from optrr.core.provenance.provenance import Provenance
from optrr.core.records.counts import count
from optrr.core.records.reading.registry import open_source
from optrr.core.records.reading.source import RecordsAt
from optrr.survey import store
from optrr.survey.preparing import prepared
from optrr.survey.store import (
    GroupCommit,
    Receipt,
    Report,
    Store,
    StoreUnavailable,
    SurveyFiles,
    begin_survey,
    database_url,
    held_survey,
    open_database,
    reports,
    shown,
)
from optrr.survey.stored_records import Packing, StoredRecords, is_sqlite

DOMAIN = Domain.of({"income": ["low", "high", None], "age": 300, "member": [True, False], "mixed": [1, "one"]})
OTHERS = iter(range(1_000_000))


@pytest.fixture(scope="module")
def made() -> Design:
    return design(DOMAIN, 1.0)


@pytest.fixture(scope="module")
def files(made: Design, tmp_path_factory: pytest.TempPathFactory) -> SurveyFiles:
    path = tmp_path_factory.mktemp("design") / "design.json"
    optrr.save(made, path)
    released = Provenance(Release.drawn(made.mechanism))
    return SurveyFiles("a" * 64, "w" * 64, path.read_bytes(), b"sampler", released.to_json())


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    reason = reason_to_skip()
    if reason:
        pytest.skip(reason)
    with postgresql() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that is there and empty."""
    if request.param == "sqlite":
        return str(tmp_path / "survey with a ? and 100%.db")
    url: str = request.getfixturevalue("server")
    name = f"survey_{next(OTHERS)}"
    engine = sa.create_engine(database_url(url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return url.rsplit("/", 1)[0] + f"/{name}"


@pytest.fixture
def opened(new_url: str, files: SurveyFiles) -> Iterator[Callable[[], sa.Engine]]:
    engines: list[sa.Engine] = []

    def open_again() -> sa.Engine:
        engines.append(open_database(database_url(new_url)))
        begin_survey(engines[-1], files)
        return engines[-1]

    yield open_again
    for engine in engines:
        engine.dispose()


@pytest.fixture
def sqlite(tmp_path: Path, files: SurveyFiles) -> Iterator[sa.Engine]:
    engine = open_database(database_url(str(tmp_path / "s.db")))
    begin_survey(engine, files)
    yield engine
    engine.dispose()


def random_reports(rng: np.random.Generator, n: int) -> tuple[list[Report], np.ndarray]:
    codes = rng.integers(0, DOMAIN.sizes, (n, DOMAIN.m))
    packing = Packing(DOMAIN)
    return [Report(rng.bytes(16), packing.pack(row)) for row in codes.tolist()], codes


def held(engine: sa.Engine) -> dict[bytes, bytes]:
    with engine.connect() as connection:
        rows = connection.execute(sa.select(reports)).all()
    assert len({bytes(r.identifier) for r in rows}) == len(rows)
    return {bytes(r.identifier): bytes(r.record) for r in rows}


def test_a_file_keeps_no_order_of_arrival_once_the_collector_has_stopped(tmp_path: Path, files: SurveyFiles) -> None:
    """Pages of SQLite list their rows by key, but fill up in the order in which rows come."""
    rng = np.random.default_rng(4)
    tokens, hidden = [rng.bytes(32) for _ in range(60)], [rng.bytes(256) for _ in range(60)]
    came, _ = random_reports(rng, 60)
    places = []
    for order in (range(60), rng.permutation(60)):
        path = tmp_path / f"{len(places)}.db"
        engine = open_database(database_url(str(path)))
        begin_survey(engine, files, lambda: (b"key", sorted(tokens)))
        store = Store(engine)
        for k in order:
            assert store.claim(tokens[k], hidden[k]) == hidden[k]
            assert store.add([came[k]]) == [Receipt.KEPT]
        store.files.close()
        assert held(engine) == {report.identifier: report.record for report in came}
        engine.dispose()
        content = path.read_bytes()
        keys = [*tokens, *(report.identifier for report in came)]
        assert {content.count(key) for key in keys} == {1}
        places.append([content.find(key) for key in keys])
    assert places[0] == places[1]


@pytest.mark.parametrize("seed", range(10))
def test_packing_comes_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.choice([2, 3, 255, 256, 257, 65536, 65537, 1_000_000], rng.integers(1, 13))
    packing = Packing(Domain.of({f"a{i}": int(r) for i, r in enumerate(sizes)}))
    codes = np.concatenate([rng.integers(0, sizes, (50, sizes.size)), sizes[None] - 1, 0 * sizes[None]])
    packed = [packing.pack(row) for row in codes.tolist()]
    assert {len(p) for p in packed} == {packing.width}
    assert packing.width == sum(1 if r <= 256 else 2 if r <= 65536 else 4 for r in sizes)
    assert np.array_equal(packing.unpack(packed), codes)
    assert packing.unpack([]).shape == (0, sizes.size)


def test_changed_records_are_refused() -> None:
    packing = Packing(Domain.of({"a": 3, "b": 2}))
    for records, message in (
        ([b"\0\0", b"\0"], "does not have the width"),
        ([b"\0\0\0", b"\0"], "does not have the width"),
        ([b"\0\0", b"\3\0"], "a category"),
    ):
        with pytest.raises(InvalidInput, match=message):
            packing.unpack(records)


@pytest.mark.slow
def test_a_report_is_kept_once(opened: Callable[[], sa.Engine]) -> None:
    engine = opened()
    store = Store(engine)
    sent, _ = random_reports(np.random.default_rng(0), 30)
    assert store.add(sent[:20]) == [Receipt.KEPT] * 20
    assert store.add(sent[10:] + sent[:5]) == [Receipt.KEPT] * 25
    other = Report(sent[0].identifier, sent[1].record)
    assert store.add([sent[0], other, sent[2]]) == [Receipt.KEPT, Receipt.CONFLICT, Receipt.KEPT]
    twice = [Report(b"n" * 16, sent[0].record), Report(b"n" * 16, sent[0].record), Report(b"n" * 16, sent[1].record)]
    assert store.add(twice) == [Receipt.KEPT, Receipt.KEPT, Receipt.CONFLICT]
    assert held(engine) == {r.identifier: r.record for r in [*sent, twice[0]]}
    assert kept_reports(engine) == 31


@pytest.mark.slow
def test_two_collectors_count_a_resent_report_once(opened: Callable[[], sa.Engine]) -> None:
    """Each gets every report, in its own order and in batches of its own: no lock waits for another, nothing is there twice."""
    sent, _ = random_reports(np.random.default_rng(1), 600)
    outcomes: list[list[Receipt]] = [[], []]
    start = threading.Barrier(2)
    stores = [Store(opened()) for _ in outcomes]

    def collect(k: int) -> None:
        order = np.random.default_rng(k).permutation(len(sent))
        start.wait()
        for at in range(0, len(sent), 37):
            outcomes[k] += stores[k].add([sent[i] for i in order[at : at + 37]])

    threads = [threading.Thread(target=collect, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [[Receipt.KEPT] * len(sent)] * 2
    assert held(opened()) == {r.identifier: r.record for r in sent}


@pytest.mark.slow
def test_reports_come_back_as_arrow(opened: Callable[[], sa.Engine], new_url: str, made: Design) -> None:
    sent, codes = random_reports(np.random.default_rng(2), 200)
    Store(opened()).add(sent)
    records = open_source(new_url)
    assert isinstance(records, StoredRecords)
    assert records.digest == "a" * 64
    assert records.domain == DOMAIN
    table = pa.Table.from_batches(list(records.batches(records.column_names())))
    assert [str(t) for t in table.schema.types] == ["string", "int64", "bool", "string"]
    order = sorted(range(len(sent)), key=lambda i: sent[i].identifier)
    assert table.to_pylist() == [
        {"income": ["low", "high", None][a], "age": b, "member": [True, False][c], "mixed": ["1", "one"][d]}
        for a, b, c, d in codes[order].tolist()
    ]
    # a stream may be read as often as wanted, and it sees what came meanwhile
    assert np.array_equal(count(records, DOMAIN, "age").table, np.bincount(codes[:, 1], minlength=300))
    Store(opened()).add(random_reports(np.random.default_rng(3), 10)[0])
    assert count(new_url, DOMAIN, ("income", "member")).n == 210


def test_a_database_belongs_to_one_design_and_one_wording(opened: Callable[[], sa.Engine], files: SurveyFiles) -> None:
    engine = opened()
    assert held_survey(engine) == files
    begin_survey(engine, files)
    with pytest.raises(InvalidInput, match="holds the reports of another design"):
        begin_survey(engine, SurveyFiles("b" * 64, "w" * 64, b"", b"", ""))
    with pytest.raises(InvalidInput, match=r"holds answers to other questions: .* give another database"):
        begin_survey(engine, replace(files, wording="v" * 64))
    assert held_survey(engine) == files


FORMER = {
    "optrr-survey/1": "(key INTEGER, format TEXT, digest TEXT, design BLOB, sampler BLOB, provenance TEXT)",
    "optrr-survey/2": "(key INTEGER, format TEXT, digest TEXT, wording TEXT, design BLOB, sampler BLOB, provenance TEXT)",
}


@pytest.mark.parametrize("former", FORMER)
def test_a_database_of_a_former_format_is_refused_in_one_line(former: str, new_url: str, files: SurveyFiles) -> None:
    engine = open_database(database_url(new_url))
    columns = FORMER[former].replace("BLOB", "BYTEA") if engine.dialect.name == "postgresql" else FORMER[former]
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE TABLE survey {columns}"))
        connection.execute(sa.text(f"INSERT INTO survey (key, format, digest) VALUES (1, '{former}', 'd')"))
    said = "give a new database", "read it with the version that wrote it"
    for refused, remedy in zip((lambda: begin_survey(engine, files), lambda: StoredRecords(engine)), said, strict=True):
        with pytest.raises(InvalidInput, match=rf"has format '{former}'.*{remedy}$") as caught:
            refused()
        assert "\n" not in str(caught.value)
    engine.dispose()


ASKED = {
    "title": "Drinks",
    "asker": "the office",
    "introduction": "Two questions.",
    "language": "en",
    "epsilon": 1.0,
    "attributes": [
        {"name": "q1", "question": "Do you like tea?", "categories": ["yes", "no"]},
        {"name": "q2", "categories": ["yes", "no"]},
    ],
}


def test_the_wording_is_what_people_are_asked(tmp_path: Path) -> None:
    """Other questions, labels, order or title make another survey; the rest may be corrected."""
    path = tmp_path / "q.json"

    def asked(**changed: object) -> str:
        path.write_text(json.dumps({**ASKED, **changed}))
        (tmp_path / "q.design.json").unlink(missing_ok=True)
        return prepared(path).asked

    first, second = ASKED["attributes"]
    same = {asked(), asked(asker="another office"), asked(introduction="Zwei Fragen."), asked(language="de")}
    assert len(same) == 1
    others = {
        asked(title="Drugs"),
        asked(attributes=[{**first, "question": "Have you ever taken heroin?"}, second]),
        asked(attributes=[first, {**second, "question": "Why?"}]),
        asked(attributes=[first, {**second, "categories": ["yes", "never"]}]),
        asked(attributes=[second, first]),
    }
    assert len(others) == 5
    assert not same & others


def test_what_is_committed_is_synced(opened: Callable[[], sa.Engine]) -> None:
    engine = opened()
    wanted = {"PRAGMA journal_mode": "wal", "PRAGMA synchronous": 2}
    if engine.dialect.name == "postgresql":
        wanted = {"SHOW synchronous_commit": "on", "SHOW fsync": "on"}
        # a user's own default does not weaken it
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("ALTER ROLE optrr SET synchronous_commit = off"))
        engine = opened()
    with engine.connect() as connection:
        assert {question: connection.execute(sa.text(question)).scalar_one() for question in wanted} == wanted


def test_columns_hold_neither_time_nor_address(opened: Callable[[], sa.Engine]) -> None:
    columns = {
        t: [c["name"] for c in sa.inspect(opened()).get_columns(t)] for t in ("survey", "reports", "invitations")
    }
    assert columns == {
        "survey": ["key", "format", "digest", "wording", "design", "sampler", "provenance", "signer"],
        "reports": ["identifier", "record"],
        "invitations": ["digest", "hidden"],
    }
    assert sorted(sa.inspect(opened()).get_table_names()) == ["invitations", "reports", "survey"]


def test_sqlite_keeps_no_order_of_arrival(tmp_path: Path, sqlite: sa.Engine) -> None:
    sent, _ = random_reports(np.random.default_rng(4), 50)
    for report in sent:
        Store(sqlite).add([report])
    sqlite.dispose()
    plain = sqlite3.connect(tmp_path / "s.db")
    with pytest.raises(sqlite3.OperationalError, match="no such column: rowid"):
        plain.execute("SELECT rowid FROM reports")
    assert [r[0] for r in plain.execute("SELECT identifier FROM reports")] == sorted(r.identifier for r in sent)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mysql://root:secret@host/x", "'mysql'"),
        ("sqlite://", "without a file"),
        ("sqlite:///:memory:", "cannot be stored"),
        (":memory:", "cannot be stored in memory"),
        ("sqlite:", "cannot be stored in memory"),
        ("sqlite::memory:", "cannot be stored in memory"),
        ("postgresql://a:secret@host:port/x", "cannot be read"),
    ],
)
def test_unusable_addresses_are_refused_without_their_password(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        database_url(text)
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_named_without_its_password(files: SurveyFiles) -> None:
    pytest.importorskip("psycopg")
    engine = open_database(database_url("postgresql://optrr:secret@127.0.0.1:1/x"))
    with pytest.raises(InvalidInput, match=r"127\.0\.0\.1") as caught:
        begin_survey(engine, files)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("; check the server and the address")
    assert shown(engine.url) == "postgresql://optrr:***@127.0.0.1:1/x"
    assert shown(database_url("postgresql://a@h/x?password=secret")) == "postgresql://a@h/x?password=hidden"


@pytest.mark.parametrize(
    "changed", ["design = 4611686018427387904", "sampler = 'text'", "digest = x'ff'", "provenance = NULL"]
)
def test_a_survey_that_was_changed_is_refused_in_one_line(changed: str, tmp_path: Path, files: SurveyFiles) -> None:
    path = tmp_path / "a.db"
    engine = open_database(database_url(str(path)), lasting=False)
    begin_survey(engine, files)
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE survey RENAME TO before")
        connection.execute("CREATE TABLE survey AS SELECT * FROM before")
        connection.execute(f"UPDATE survey SET {changed}")
    for refused in (lambda: begin_survey(engine, files), lambda: held_survey(engine)):
        with pytest.raises(InvalidInput, match=r"a\.db is damaged: .*; restore a backup$"):
            refused()


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    text, empty = tmp_path / "a.db", tmp_path / "b.db"
    text.write_text("income\nlow\n")
    sqlite3.connect(empty).execute("CREATE TABLE t (a)")
    assert not is_sqlite(text)
    assert is_sqlite(empty)
    for path, message in (
        (text, "no survey database"),
        (tmp_path / "none.db", "no survey database"),
        (empty, r"b\.db is an SQLite database without a survey; .*sqlite:.*b\.db and ``query``"),
        (f"sqlite:{empty}", "b.db is an SQLite database without a survey"),
        (RecordsAt(str(empty), query="SELECT a FROM t"), r"leave the query out; .* write sqlite:.*b\.db$"),
    ):
        with pytest.raises(InvalidInput, match=message):
            open_source(path)
    assert not (tmp_path / "none.db").exists()


def gathered(store: Store, sent: list[Report]) -> list[Receipt | BaseException]:
    async def send() -> list[Receipt | BaseException]:
        commits = GroupCommit(store)
        outcomes = await asyncio.gather(*(commits.add(r) for r in sent), return_exceptions=True)
        await commits.close()
        return outcomes

    return asyncio.run(send())


def test_reports_that_come_together_share_a_transaction(sqlite: sa.Engine) -> None:
    commits: list[object] = []
    sa.event.listen(sqlite, "commit", commits.append)
    sent, _ = random_reports(np.random.default_rng(5), 2500)
    assert gathered(Store(sqlite), sent) == [Receipt.KEPT] * 2500
    # all 2,500 wait when the writer first looks; 1,000 go into a transaction
    assert len(commits) == 3
    assert held(sqlite) == {r.identifier: r.record for r in sent}


def test_a_failing_database_acknowledges_nothing(sqlite: sa.Engine) -> None:
    with sqlite.begin() as connection:
        connection.execute(sa.text("DROP TABLE reports"))
    sent, _ = random_reports(np.random.default_rng(6), 5)
    assert all(isinstance(outcome, StoreUnavailable) for outcome in gathered(Store(sqlite), sent))


def test_too_many_waiting_reports_are_told_to_come_again(sqlite: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_WAITING", 10)
    sent, _ = random_reports(np.random.default_rng(7), 30)
    outcomes = gathered(Store(sqlite), sent)
    kept = {r.identifier for r, outcome in zip(sent, outcomes, strict=True) if outcome is Receipt.KEPT}
    assert len(kept) == 10
    assert kept == set(held(sqlite))


@pytest.mark.slow
def test_a_report_that_comes_while_the_collector_ends_is_refused(sqlite: sa.Engine) -> None:
    """What waits is written; what comes afterwards may not be acknowledged, and is told so instead of failing."""
    sent, _ = random_reports(np.random.default_rng(10), 3)

    async def end() -> list[Receipt | BaseException]:
        commits = GroupCommit(Store(sqlite))
        first = asyncio.create_task(commits.add(sent[0]))
        await asyncio.sleep(0)
        ending = asyncio.create_task(commits.close())
        await asyncio.sleep(0)
        during = await asyncio.gather(commits.add(sent[1]), return_exceptions=True)
        await ending
        after = await asyncio.gather(commits.add(sent[2]), return_exceptions=True)
        await commits.close()
        return [await first, *during, *after]

    kept, during, after = asyncio.run(end())
    assert kept is Receipt.KEPT
    assert isinstance(during, StoreUnavailable) and isinstance(after, StoreUnavailable)
    assert held(sqlite) == {sent[0].identifier: sent[0].record}


@pytest.mark.slow
def test_the_command_line_estimates_from_a_database(opened, new_url, made, tmp_path, capsys):
    sent, codes = random_reports(np.random.default_rng(8), 400)
    Store(opened()).add(sent)
    optrr.save(made, tmp_path / "d.json")
    read = ["--design", str(tmp_path / "d.json"), "--json", "--attributes"]
    assert run_command(["estimate", new_url, *read, "income,member"]) == 0
    expected = estimate(count(codes, DOMAIN, ("income", "member")), made.mechanism)
    said = capsys.readouterr()
    assert json.loads(said.out)["estimate"] == expected.estimate.tolist()
    # the records say whose they are: no doubt beside the estimate, and another design is refused
    assert json.loads(said.out)["doubts"] == []
    assert said.err == ""
    optrr.save(design(DOMAIN, 2.0), tmp_path / "other.json")
    asked = ["--design", str(tmp_path / "other.json"), "--attributes", "income"]
    assert run_command(["estimate", new_url, *asked]) == 2
    assert "another design" in capsys.readouterr().err
    again = ["randomize", new_url, "--design", str(tmp_path / "d.json"), "-o", str(tmp_path / "twice.csv")]
    assert run_command(again) == 2
    assert "already randomized" in capsys.readouterr().err


def autocommitting(url: str) -> sa.Engine:
    return sa.create_engine(database_url(url), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)


@pytest.mark.slow
def test_a_server_that_does_not_sync_is_refused(server: str, files: SurveyFiles) -> None:
    with autocommitting(server).connect() as admin:
        admin.execute(sa.text("ALTER SYSTEM SET fsync = off"))
        admin.execute(sa.text("SELECT pg_reload_conf()"))
        try:
            with pytest.raises(InvalidInput, match="fsync off"):
                for _ in range(100):  # the server reads its settings a moment later
                    open_database(database_url(server), lasting=False).connect().close()
                    time.sleep(0.05)
        finally:
            admin.execute(sa.text("ALTER SYSTEM RESET fsync"))
            admin.execute(sa.text("SELECT pg_reload_conf()"))
            while admin.execute(sa.text("SHOW fsync")).scalar_one() != "on":
                time.sleep(0.05)


@pytest.mark.slow
def test_a_collector_outlives_its_connections(server: str, files: SurveyFiles) -> None:
    """As after a restart of the database."""
    engine = open_database(database_url(server))
    begin_survey(engine, files)
    sent, _ = random_reports(np.random.default_rng(9), 2)
    store = Store(engine)
    store.add(sent[:1])
    with autocommitting(server).connect() as admin:
        others = "FROM pg_stat_activity WHERE usename = 'optrr' AND pid <> pg_backend_pid()"
        admin.execute(sa.text(f"SELECT pg_terminate_backend(pid, 5000) {others}"))
    assert store.add(sent) == [Receipt.KEPT] * 2
    assert kept_reports(engine) == 2
    engine.dispose()


# Everything that a specification declares.
SPECIFICATION = """
epsilon = 1.5
[[attributes]]
name = "age"
bins = [-inf, 18, 40, 65, inf]
missing = ["NA", "99"]
[[attributes]]
name = "grade"
categories = ["low", "middle", "high"]
ordered = true
rest = "low"
[[attributes]]
name = "dose"
categories = [0, 0.5, 1]
[[attributes]]
name = "member"
categories = [true, false]
missing = ["?"]
[[attributes]]
name = "born"
bins = [1900-01-01, 1970-01-01, 2000-01-01]
[[attributes]]
name = "mixed"
categories = [1, "one"]
[[attributes]]
name = "huge"
categories = [1, 36893488147419103232]
"""


def test_everything_declared_is_there(tmp_path: Path, engine: sa.Engine) -> None:
    path, n = tmp_path / "questions.toml", 300
    path.write_text(SPECIFICATION)
    survey = prepared(path)
    begin_survey(engine, survey.files)
    domain, rng = survey.design.domain, np.random.default_rng(0)
    codes = rng.integers(0, domain.sizes, (n, domain.m))
    packing = Packing(domain)
    Store(engine).add([Report(rng.bytes(16), packing.pack(row)) for row in codes.tolist()])
    records = open_source(tmp_path / "survey.db")
    # bins, order, marks and the rest take part in this comparison
    assert records.domain == read_specification(path).domain
    for k, name in enumerate(domain.names):
        assert (
            count(records, domain, name).table.tolist()
            == np.bincount(codes[:, k], minlength=domain[name].size).tolist()
        )
    ordered = pa.dictionary(pa.int32(), pa.string(), ordered=True)
    types = [ordered, ordered, pa.float64(), pa.bool_(), ordered, pa.string(), pa.string()]
    assert records.schema.types == types
    table = pa.Table.from_batches(list(records.batches(records.column_names())), records.schema)
    pq.write_table(table, tmp_path / "reports.parquet")
    frame = pq.read_table(tmp_path / "reports.parquet").to_pandas()
    assert list(frame["age"].cat.categories) == ["< 18", "[18, 40)", "[40, 65)", ">= 65"]
    assert frame["grade"].cat.ordered and list(frame["grade"].cat.categories) == ["low", "middle", "high"]
    assert table.num_rows == n
