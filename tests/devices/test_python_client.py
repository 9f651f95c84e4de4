"""The Python client: the vectors, what it refuses, planted errors, its draws, and one answer for each design."""

import io
import itertools
import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, getcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from conformance import FALSE_ALARM, Conformance, chi_square
from scipy.stats import chi2

from optrr.allocation.sampled_tables import SampledTables
from optrr.allocation.sampled_uses import questions_of
from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.devices.deployment_file import Deployment, canonical, decoded_deployment, digest_of
from optrr.devices.exact import MOST_WORK, total_epsilon, work
from optrr_solvers.allocation.questions import SubsetReport
from tests import vectors
from tests.questions import enumerated, random_asking

CLIENT = vectors.CLIENTS / "python" / "optrr_client.py"
client = vectors.load_script(CLIENT)
SMALL = vectors.read("small")["deployment"].encode()
ANSWERS = {"Größe": "1", "a1": None}


class Stream:
    """Given bytes, in order; short at the end."""

    def __init__(self, data: bytes) -> None:
        self.left = data

    def take(self, n: int) -> bytes:
        out, self.left = self.left[:n], self.left[n:]
        return out


def failures(module: object, name: str) -> int:
    """Cases of a vector file in which a client's result or use of the stream is not what is written there."""
    vector = vectors.read(name)
    try:
        sampler = module.Sampler(vector["deployment"].encode())  # type: ignore[attr-defined]
    except module.Refused:  # type: ignore[attr-defined]
        return len(vector["cases"])
    wrong = 0
    for case in vector["cases"]:
        stream = Stream(bytes.fromhex(case["bytes"]))
        record = dict(zip(sampler.names, case["record"], strict=True))
        try:
            out = sampler.draw(sampler.codes(record), stream.take)
        except module.Refused:  # type: ignore[attr-defined]
            wrong += 1
            continue
        wrong += not (out.get("values", out) == case["randomized"] and not stream.left)
    return wrong


@pytest.mark.parametrize("name", [*vectors.NAMES, *vectors.QUESTIONS, *vectors.TRIALS])
def test_passes_the_vectors_and_fails_if_the_stream_is_short_by_a_byte(name: str) -> None:
    assert failures(client, name) == 0
    vector = vectors.read(name)
    sampler = client.Sampler(vector["deployment"].encode())
    for case in vector["cases"]:
        codes = sampler.codes(dict(zip(sampler.names, case["record"], strict=True)))
        with pytest.raises(client.Refused):
            sampler.draw(codes, Stream(bytes.fromhex(case["bytes"])[:-1]).take)


def test_a_record_of_a_file_of_questions_is_not_sent_as_it_is() -> None:
    sampler = client.Sampler(vectors.read("questions-small")["deployment"].encode())
    with pytest.raises(client.Refused, match=r"use draw\(\)"):
        sampler.randomized([0, 0])


def test_refuses_files_and_records() -> None:
    for file in vectors.read("refused-files")["files"]:
        with pytest.raises(client.Refused):
            client.Sampler(file["text"].encode())
    refused = vectors.read("refused-records")
    sampler = client.Sampler(refused["deployment"].encode())
    for case in refused["records"]:
        with pytest.raises(client.Refused) as error:
            sampler.codes(case["record"])
        assert "not declared" not in str(error.value)


# A line of the client, and the same line with a mistake.
PLANTED = {
    "the bytes of a word in the other order": ('_taken(take, width), "big")', '_taken(take, width), "little")'),
    "the bytes of a number in the other order": ('_taken(take, size), "big")', '_taken(take, size), "little")'),
    "bits turned around": (
        'w = int.from_bytes(_taken(take, width), "big")\n            # taken',
        "w = int(f'{int.from_bytes(_taken(take, width), \"big\"):0{self.bits}b}'[::-1], 2)\n            # taken",
    ),
    "a threshold that counts as below itself": ("if w < thresholds[s]:", "if w <= thresholds[s]:"),
    "a threshold too low by one": ("if w < thresholds[s]:", "if w + 1 < thresholds[s]:"),
    "a second threshold off by one": ("w < seconds[s]", "w <= seconds[s]"),
    "an end off by one": ("sum(end <= w for", "sum(end < w for"),
    "the remainder without refusal": ("(1 << 8 * size) % n\n", "0\n"),
    "a refusal too many": ("(1 << 8 * size) % n\n", "(1 << 8 * size) % n - 1\n"),
    "the word used again as the number": ("d = _below(r - 1, take)", "d = w % (r - 1)"),
    "a number only where the attribute changes": (
        "d = _below(r - 1, take)",
        "d = _below(r - 1, take) if w < thresholds[s] else 0",
    ),
    "the value itself among its replacements": ("(codes[i] + 1 + d) % r", "(codes[i] + d) % r"),
    "changed and kept exchanged": ("s = ways[0][s]\n        return out", "s = ways[1][s]\n        return out"),
    "a uniform answer that depends on the truth": (
        "out[i] = _below(r, take)",
        "out[i] = (codes[i] + _below(r, take)) % r",
    ),
    # where queries are answered
    "an end that counts as not reached": ("sum(end <= w for end in self._ends)", "sum(end < w for end in self._ends)"),
    "an unlikely threshold off by one": ("v >= question.threshold", "v > question.threshold"),
    "question and pattern exchanged": ("w, v = (int", "v, w = (int"),
    "a wide number of four bytes": ("for _, weight in kind), take, 8)", "for _, weight in kind), take, 4)"),
    "only the number that is used": ("for kind in kinds]", "for kind in [kinds[held]] * 2]"),
    "unlikely patterns for likely ones": ("(p in likely) == held]", "(p in likely) != held]"),
    "weights of matches exchanged": (
        "[w * (r - k) for w in weights] + [w * k",
        "[w * k for w in weights] + [w * (r - k)",
    ),
    "a pattern too late": ("while number >= weight:", "while number > weight:"),
    "a shuffle that is not uniform": ("d = _below(r - 1 - j, take)", "d = _below(r - 1, take) % (r - 1 - j)"),
    "the truth among the others": ("for c in range(r) if c != own[i]]", "for c in range(r - 1)]"),
    "one member too many on a match": ("others[: k - 1]]", "others[:k]]"),
    "members in the order of the draw": ("yield sorted(", "yield ("),
    "tables numbered from 0": ('{"table": asked + 1', '{"table": asked'),
}


def mutated(before: str, after: str, tmp_path: Path) -> object:
    source = CLIENT.read_text(encoding="utf-8")
    assert before in source
    path = tmp_path / f"planted_{abs(hash(after))}.py"
    path.write_text(source.replace(before, after), encoding="utf-8")
    return vectors.load_script(path)


@pytest.mark.parametrize("error", PLANTED)
def test_vectors_catch_planted_errors(error: str, tmp_path: Path) -> None:
    wrong = mutated(*PLANTED[error], tmp_path)
    assert any(failures(wrong, name) for name in (*vectors.NAMES, *vectors.QUESTIONS, *vectors.TRIALS))


class Repeating(Stream):
    """Hands out the same bytes twice: those of every second request once more for the next one, where they are enough."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._last = b""

    def take(self, n: int) -> bytes:
        if len(self._last) >= n:
            out, self._last = self._last[:n], b""
            return out
        self._last = super().take(n)
        return self._last


def test_vectors_catch_a_stream_that_hands_out_bytes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "Stream", Repeating)
    assert all(failures(client, name) for name in vectors.NAMES if name != "optimum-1")


@pytest.mark.parametrize("name", vectors.NAMES)
def test_total_and_work_are_those_of_verify(name: str) -> None:
    text = vectors.read(name)["deployment"].encode()
    sampler, deployed = client.Sampler(text), Deployment.read(text)
    assert f"{sampler.total():.15f}" == deployed.stated.total
    assert sampler._work() == work(deployed.automaton)


@pytest.mark.parametrize("name", vectors.QUESTIONS)
def test_total_and_size_of_queries_are_those_of_verify(name: str) -> None:
    text = vectors.read(name)["deployment"].encode()
    deployed = decoded_deployment(text, name)
    assert f"{client.Sampler(text).total():.15f}" == deployed.total
    frame = {"format": client.REPORT, "design": deployed.design, "id": "0" * 32}
    sizes = [len(json.dumps(frame | case["randomized"])) for case in vectors.read(name)["cases"]]
    assert max(sizes) <= deployed.most_report_bytes


@pytest.mark.parametrize(("r", "k"), [(r, k) for r in range(2, 6) for k in range(1, r)])
def test_every_subset_of_a_kind_is_as_likely(r: int, k: int) -> None:
    """All sequences of numbers that the shuffle may draw, each once, by the first bytes that give them."""
    question = client._Question((0,), (r,), (r,), (k,), 1, (1,))
    sequences = list(itertools.product(*(range(r - 1 - j) for j in range(k))))
    for truth, held in itertools.product(range(r), (True, False)):
        seen: Counter[tuple[int, ...]] = Counter()
        for numbers in sequences:
            # no byte is taken for a number below 1
            drawn = [x for j, x in enumerate(numbers) if r - 1 - j > 1]
            weights = b"".join(bytes(8) for weight in (r - k, k) if weight > 1)
            stream = Stream(weights + b"".join(x.to_bytes(4, "big") for x in drawn))
            (members,) = question.subsets([truth], held, stream.take)
            assert not stream.left and (truth in members) == held and len(set(members)) == k
            seen[tuple(members)] += 1
        assert len(set(seen.values())) == 1 and len(seen) == math.comb(r - 1, k - held)


@pytest.mark.slow
def test_draws_of_queries_follow_the_exact_probabilities() -> None:
    """χ² of 20,000 answers to each of four random files against the enumeration; false alarm 4e-7 at most."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        deployed = questions_of(random_asking(rng))
        sampler = client.Sampler(deployed.to_bytes())
        codes, n = [int(rng.integers(len(x))) for x in sampler.categories], 20_000
        seen = Counter(tuple(sampler.draw(codes, os.urandom).values()) for _ in range(n))
        ends, full = [0, *deployed.ends, 1 << deployed.bits], 1 << deployed.bits
        chances: dict[Hashable, Fraction | float] = {}
        for k, (question, shape) in enumerate(zip(deployed.questions, deployed.shapes, strict=True)):
            own = tuple(codes[i] for i in question.attributes)
            _, reports, each = enumerated(shape, 0.0, question.report, Fraction(question.threshold, full))
            for y in reports:
                text = "|".join(" ".join(map(str, members)) for members in y)
                chances[k + 1, text] = Fraction(ends[k + 1] - ends[k], full) * each[y, own]
        assert set(seen) <= set(chances) and sum(chances.values()) == 1
        statistic, freedom = chi_square(seen, chances)
        assert chi2.sf(statistic, freedom) > FALSE_ALARM


def test_reports_of_devices_are_estimated_from_the_file_they_are_collected_in(tmp_path: Path) -> None:
    """As the same reports in memory; some were sent twice, and count once."""
    domain, ways = Domain.of({"a": ["x", "y", "z"], "b": 4}), (SubsetReport((1, 2), (1, 2, 3)), SubsetReport((2,)))
    asking = SampledTables(domain, (("a", "b"), ("b",)), np.array([0.6, 0.4]), 1.5, ways)
    sampler, rng = client.Sampler(questions_of(asking).to_bytes()), np.random.default_rng(4)
    drawn = [sampler.draw(codes, rng.bytes) for codes in rng.integers(0, domain.sizes, (300, 2)).tolist()]
    reports = [{"design": sampler.design, "id": f"{k:032x}", **answer} for k, answer in enumerate(drawn)]
    path = tmp_path / "reports.jsonl"
    path.write_text("".join(json.dumps(x) + "\n" for x in [*reports, *reports[:100]]))
    for names in (("a", "b"), ("b",)):
        estimate, memory = asking.estimate(path, names), asking.estimate(pa.Table.from_pylist(reports), names)
        assert estimate.n == memory.n and np.array_equal(estimate.estimate, memory.estimate)
    path.write_text(json.dumps(reports[0] | {"design": "0" * 64}) + "\n")
    with pytest.raises(InvalidInput, match="a report is of another design"):
        asking.estimate(path, "a")


def pool() -> Callable[[int], bytes]:
    """Hands out the system's random bytes: asking for a few at a time takes most of the time of many draws."""
    held = io.BytesIO()

    def take(n: int) -> bytes:
        nonlocal held
        out = held.read(n)
        if len(out) < n:
            held = io.BytesIO(os.urandom(1 << 16))
            out = held.read(n)
        return out

    return take


FEW = [(name, 5_000) for name in ("small", "joint", "uniform", "many")]
MANY = [pytest.param(name, 50_000, marks=pytest.mark.slow) for name in vectors.NAMES]


@pytest.mark.parametrize(("name", "n"), [*FEW, *MANY])
def test_draws_follow_the_exact_probabilities(name: str, n: int) -> None:
    conformance = Conformance.of(name)
    sampler, take = client.Sampler(canonical(conformance.content)), pool()
    codes = sampler.codes(conformance.record)
    seen = Counter(tuple(sampler.randomized(codes, take)) for _ in range(n))
    assert min(conformance.p_values(seen).values()) > FALSE_ALARM


def test_answers_once_and_sends_the_same_again(tmp_path: Path) -> None:
    sampler = client.Sampler(SMALL)
    diary = client.Diary(tmp_path / "diary")
    assert diary.report(sampler) is None
    report = diary.answer(sampler, ANSWERS)
    assert set(report) == {"format", "design", "id", "values"}
    for other in (ANSWERS, {"Größe": "2", "a1": "no"}):
        with pytest.raises(client.AlreadyAnswered):
            client.Diary(tmp_path / "diary").answer(sampler, other)
    assert client.Diary(tmp_path / "diary").report(sampler) == report
    assert {p.name for p in (tmp_path / "diary").iterdir()} == {f"{sampler.design}.json", "lock"}


def test_keeps_nothing_of_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = client.Sampler(vectors.read("product")["deployment"].encode())
    # words of zeros are below every threshold, so that every answer changes
    monkeypatch.setattr(sampler.draw.__func__, "__defaults__", (bytes,))
    truth = {n: x[-1] for n, x in zip(sampler.names, sampler.categories, strict=True)}
    client.Diary(tmp_path).answer(sampler, truth)
    (path,) = tmp_path.glob("*.json")
    values = json.loads(path.read_text(encoding="utf-8"))["report"]["values"]
    assert all(v != t for v, t in zip(values, truth.values(), strict=True))
    assert '"299"' not in path.read_text(encoding="utf-8")


def test_the_ledger_adds_up_exactly(tmp_path: Path) -> None:
    diary = client.Diary(tmp_path)
    chosen = ["small", "joint", "pairs"]
    for name in chosen:
        sampler = client.Sampler(vectors.read(name)["deployment"].encode())
        diary.answer(sampler, dict(zip(sampler.names, vectors.read(name)["cases"][0]["record"], strict=True)))
    stated = [Decimal(json.loads(vectors.read(n)["deployment"])["epsilon"]["total"]) for n in chosen]
    ledger = diary.ledger()
    assert sorted(e for _, e in ledger.entries) == sorted(stated)
    assert ledger.total == sum(stated)


def test_a_damaged_entry_is_no_reason_to_draw_again(tmp_path: Path) -> None:
    sampler = client.Sampler(SMALL)
    diary = client.Diary(tmp_path)
    diary.answer(sampler, ANSWERS)
    (path,) = tmp_path.glob("*.json")
    path.write_text(path.read_text(encoding="utf-8")[:-9], encoding="utf-8")
    with pytest.raises(client.Refused):
        diary.report(sampler)
    with pytest.raises(client.AlreadyAnswered):
        diary.answer(sampler, ANSWERS)
    # nor to answer another design within a limit that cannot be compared
    ((other, more),) = records(["joint"])
    with pytest.raises(client.Refused, match="not an entry"):
        client.Diary(tmp_path, 100).answer(other, more)


def test_a_source_that_runs_short_draws_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = client.Sampler(SMALL)
    short: Callable[[int], bytes] = lambda n: b"\x01" * (n - 1)  # noqa: E731
    monkeypatch.setattr(sampler.draw.__func__, "__defaults__", (short,))
    with pytest.raises(client.Refused, match="ended early"):
        client.Diary(tmp_path).answer(sampler, ANSWERS)
    assert client.Diary(tmp_path).report(sampler) is None
    assert client.Diary(tmp_path).ledger().entries == []


def records(names: list[str]) -> list[tuple[Any, dict[str, Any]]]:
    """Samplers of vector files, each with a record."""
    samplers = [client.Sampler(vectors.read(name)["deployment"].encode()) for name in names]
    return [(s, {n: x[0] for n, x in zip(s.names, s.categories, strict=True)}) for s in samplers]


@pytest.mark.parametrize("digits", [3, 28])
def test_a_limit_is_reached_exactly_and_never_passed(
    digits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a program that computes with few decimal digits."""
    (first, answers), (second, more) = records(["small", "joint"])
    limit = first.epsilon + second.epsilon
    below = client.Diary(tmp_path, limit - Decimal("1e-15"))
    monkeypatch.setattr(getcontext(), "prec", digits)
    below.answer(first, answers)
    with monkeypatch.context() as drawing:
        drawing.setattr(client.Sampler, "report", None)  # nothing is drawn
        with pytest.raises(client.BeyondLimit, match="above the limit"):
            below.answer(second, more)
        with pytest.raises(client.AlreadyAnswered):
            client.Diary(tmp_path, 0).answer(first, answers)
    # what was sent before can be sent again, whatever the limit is
    assert client.Diary(tmp_path, 0).report(first) == below.report(first)
    client.Diary(tmp_path, str(limit)).answer(second, more)
    assert client.Diary(tmp_path).ledger().total == limit


@pytest.mark.parametrize("limit", ["-1", "nan", "inf", "four", "", -0.5, math.nan, math.inf, True, np.True_, [4]])
def test_what_is_no_limit_is_refused_in_one_line_with_a_remedy(limit: object, tmp_path: Path) -> None:
    with pytest.raises(client.Refused) as error:
        client.Diary(tmp_path, limit)
    assert str(error.value).startswith(
        f"the diary's limit {limit!r} is not a privacy budget; give a number of nats, 0 or more"
    )
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("limit", [2, 1.5, "1.5", Decimal("1.5"), np.float32(1.5), np.int64(2)])
def test_a_number_of_any_kind_is_a_limit(limit: object, tmp_path: Path) -> None:
    (first, answers), (second, more) = records(["small", "joint"])
    diary = client.Diary(tmp_path, limit)
    diary.answer(first, answers)
    with pytest.raises(client.BeyondLimit, match=f"above the limit {limit}"):
        diary.answer(second, more)


def test_answers_at_the_same_moment_are_made_once_and_stay_within_the_limit(tmp_path: Path) -> None:
    pytest.importorskip("fcntl", reason="this system has no locks of files")
    asked = records([name for name in vectors.NAMES if name.startswith("optimum")])
    limit = sum((sampler.epsilon for sampler, _ in asked), Decimal(0)) / 3

    def answer(given: tuple[Any, dict[str, Any]]) -> bool:
        try:
            client.Diary(tmp_path, limit).answer(*given)
        except (client.BeyondLimit, client.AlreadyAnswered):
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        each = list(pool.map(answer, [x for x in asked for _ in range(4)]))
    made = [sum(each[k : k + 4]) for k in range(0, len(each), 4)]
    ledger = client.Diary(tmp_path).ledger()
    assert len(ledger.entries) == sum(made)
    assert set(made) == {0, 1}
    assert ledger.total <= limit
    # nobody was refused without need
    assert all(ledger.total + s.epsilon > limit for (s, _), done in zip(asked, made, strict=True) if not done)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The client as a script, without the project's packages."""
    (tmp_path / "sampler.json").write_bytes(SMALL)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def started(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", str(CLIENT), *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, input=given, encoding="utf-8", check=False
        )

    return started


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.slow
def test_runs_by_itself(run: Run, tmp_path: Path) -> None:
    """Report, the same report again, ledger, limit."""
    first = run("sampler.json", "diary", given=json.dumps(ANSWERS))
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["format"] == "optrr-report/1"
    assert run("sampler.json", "diary").stdout == first.stdout
    (tmp_path / "answers.json").write_text("\ufeff" + json.dumps(ANSWERS), encoding="utf-8")
    assert run("sampler.json", "from a file", "answers.json").returncode == 0
    assert "total epsilon 1.1" in run("diary").stdout
    # the diary may be the folder in which everything lies
    assert run("--limit", "1.5", "sampler.json", ".", "answers.json").returncode == 0
    assert run(".").stdout == run("diary").stdout
    limited = run("--limit", "1", "sampler.json", "other", "answers.json")
    assert limited.returncode == 2 and "above the limit 1" in limited.stderr
    mistyped = run("dairy")
    assert (mistyped.returncode, mistyped.stdout) == (2, "") and "no such folder" in mistyped.stderr
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / f"{'0' * 64}.json").write_text("{")
    torn = run("torn")
    assert torn.returncode == 2 and torn.stderr.startswith("error: ") and torn.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        # as arguments, in the way that others' programs take values
        (["Größe=secret", "a1=secret"], "{}"),
        (["Größe=secret"], json.dumps(ANSWERS)),
        (["--Größe", "secret"], json.dumps(ANSWERS)),
        (["--Größe=secret"], json.dumps(ANSWERS)),
        ([], "secret"),
        ([], '["secret"]'),
        ([], '{"Größe": "1", "a1": null, "a1": "secret"}'),
        ([], '{"Größe": "1", "a1": "secret"}'),
        ([], '{"Größe": "1", "secret": null}'),
        ([], '{"Größe": "1", "a1": ["secret"]}'),
        ([], ""),
    ],
)
def test_what_cannot_be_answered_is_one_line_and_shows_no_answer(arguments: list[str], given: str, run: Run) -> None:
    refused = run("sampler.json", "diary", *arguments, given=given)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: ") and refused.stderr.count("\n") == 1
    assert "secret" not in refused.stderr
    assert "no such folder" in run("diary").stderr


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="this system has no way to refuse links")
@pytest.mark.parametrize("kind", ["lock", "entry", "nowhere", "pipe"])
def test_a_diary_follows_no_links(kind: str, tmp_path: Path) -> None:
    """Somebody who may write to the folder gets nothing emptied, read or made elsewhere, and nobody waits for a pipe."""
    other, folder = tmp_path / "other", tmp_path / "diary"
    other.write_text("kept")
    folder.mkdir()
    sampler, diary = client.Sampler(SMALL), client.Diary(folder)
    place = folder / (f"{sampler.design}.json" if kind in ("entry", "nowhere") else "lock")
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(tmp_path / "none" if kind == "nowhere" else other)
    with pytest.raises(client.Refused):
        diary.answer(sampler, ANSWERS)
    if kind != "pipe":
        with pytest.raises(client.Refused):
            diary.report(sampler) if kind in ("entry", "nowhere") else diary.answer(sampler, ANSWERS)
    assert other.read_text() == "kept" and not (tmp_path / "none").exists()
    assert os.listdir(folder) == [place.name] or kind in ("entry", "nowhere")


def test_what_a_diary_makes_is_for_its_owner(tmp_path: Path) -> None:
    diary = client.Diary(tmp_path / "diary")
    (tmp_path / "diary").mkdir(mode=0o755)
    diary.answer(client.Sampler(SMALL), ANSWERS)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "diary").iterdir()} == {0o600}


def of_layers(m: int, bits: int, total: str = "99999.000000000000000", *, choice: int = 0, states: int = 1) -> bytes:
    """A file in form and with its digest: m attributes of two categories, with random thresholds below 2^(bits−7) and random
    next states, after a choice of components."""
    rng = np.random.default_rng([m, states, bits])
    widths = [min(states, 1 << min(k, 30)) for k in range(m)] + [1]
    layers = [
        {
            "kind": "change",
            "attribute": k,
            "threshold": "".join(f"01{rng.bytes(bits // 8 - 1).hex()}" for _ in range(widths[k])),
            "kept": rng.integers(widths[k + 1], size=widths[k]).tolist(),
            "changed": rng.integers(widths[k + 1], size=widths[k]).tolist(),
        }
        for k in range(m)
    ]
    if choice:
        ends = "".join(f"{k:016x}" + "0" * (bits // 4 - 16) for k in range(1, choice))
        layers.insert(0, {"kind": "choice", "ends": ends, "next": [0] * choice})
    content = {
        "format": client.FORMAT,
        "software": "none",
        "design": "0" * 64,
        "attributes": [{"name": f"a{i}", "categories": ["0", "1"]} for i in range(m)],
        "bits": bits,
        "layers": layers,
        "epsilon": {"total": total, "attributes": ["1.000000000000000"] * m, "conditional": ["1.000000000000000"] * m},
    }
    return canonical(content | {"digest": digest_of(content)})


@pytest.mark.parametrize(("m", "bits", "choice"), [(500, 6144, 0), (1000, 3072, 0), (200, 6144, 1000)])
def test_files_that_take_long_are_refused_before_any_sum(
    m: int, bits: int, choice: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = of_layers(m, bits, choice=choice)
    assert len(text) < client.MOST_BYTES
    monkeypatch.setattr(client.Sampler, "total", lambda _: pytest.fail("the sums were begun"))
    with pytest.raises(client.Refused, match="its exact sums would take too long; export the design to a smaller size"):
        client.Sampler(text)
    assert work(Deployment.read(text).automaton) > MOST_WORK == client.MOST_WORK


def test_the_total_of_many_layers_is_the_exact_one() -> None:
    # 12,288 bits more with every ten layers, so that the client has rounded outward several times
    text = of_layers(60, 1216)
    exact = total_epsilon(Deployment.read(text).automaton)
    assert client.Sampler(text).total() == exact
    client.Sampler(of_layers(60, 1216, total=f"{exact:f}"))
    with pytest.raises(client.Refused, match="total epsilon is larger than stated"):
        client.Sampler(of_layers(60, 1216, total=f"{exact - Decimal('1e-15'):f}"))
