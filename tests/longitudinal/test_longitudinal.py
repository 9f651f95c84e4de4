"""Longitudinal designs: what reports cost against the list of all their sequences, laws, keys, rounds, panels and files."""

import hashlib
import json
from fractions import Fraction
from itertools import pairwise

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom, chisquare
from statsmodels.stats.proportion import confint_proportions_2indep

import optrr
from optrr import longitudinal
from optrr.cli.main import run
from optrr.core.design.design_file import encoded_design, load_design
from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.longitudinal.design import load_longitudinal
from optrr.longitudinal.panel import ABSENT
from optrr.longitudinal.rounds import permanent_answers, reports
from optrr.longitudinal.stages import sharpened
from optrr_solvers.laws import BallLaw, CountLaw, ProductLaw, TableLaw
from tests import naive
from tests.longitudinal import longitudinal_truth as truth

ROUNDING = 1e-11
KEY = longitudinal.Key(bytes(range(32)))


def random_design(rng, sizes):
    """A design over these sizes at random accuracies, at a random total for ever."""
    domain = {f"a{i}": int(r) for i, r in enumerate(sizes)}
    asked = rng.uniform(0.1, 1.2, len(sizes))
    least = optrr.design(domain, asked).epsilon
    return longitudinal.longitudinal(domain, asked, least * rng.uniform(1.2, 3))


@pytest.mark.parametrize("seed", range(6))
def test_what_reports_cost_is_what_all_their_sequences_tell(seed):
    """The label is the truth, rounded up; conditional ε are never below it."""
    rng = np.random.default_rng([1, seed])
    design = random_design(rng, rng.integers(2, 4, int(rng.integers(1, 3))))
    for count in (1, 2, int(rng.integers(3, 6))):
        label, (total, conditional) = design.spent(count), truth.spent(design, count)
        assert label.exact and 0 <= label.epsilon - total <= ROUNDING
        assert all(x >= y for x, y in zip(label.conditional, conditional, strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_for_laws_without_an_automaton(seed):
    rng = np.random.default_rng([3, seed])
    design = random_design(rng, rng.integers(2, 4, 2))
    vars(design.mechanism)["_range"] = None
    for count in (1, 2, 4):
        total, conditional = truth.spent(design, count)
        bound = design.spent(count)
        assert not bound.exact
        assert bound.epsilon >= total and all(x >= y for x, y in zip(bound.conditional, conditional, strict=True))
        assert bound.epsilon <= min(design.epsilon, count * design.instantaneous.epsilon)


def test_more_reports_cost_more_and_never_more_than_all():
    design = random_design(np.random.default_rng(4), (3, 2))
    spent = [design.spent(count).epsilon for count in (1, 2, 3, 5, 9)]
    assert all(a < b for a, b in pairwise(spent)) and spent[-1] <= design.spent().epsilon == design.epsilon
    assert design.spent(5000).epsilon <= design.epsilon
    with pytest.raises(InvalidInput, match="at least 1"):
        design.spent(0)


def test_tables_of_a_longitudinal_design_are_refused_in_one_line():
    design = longitudinal.longitudinal({"a": 2}, 1.0, 2.0)
    with pytest.raises(InvalidInput, match=r"^an object of type LongitudinalDesign is read by other commands.*tables$"):
        optrr.reports(pa.table({"a": [0, 1]}), design)


@pytest.mark.parametrize("seed", range(5))
def test_one_report_is_the_certified_optimum(seed):
    rng = np.random.default_rng([5, seed])
    m = int(rng.integers(1, 8))
    domain = {f"a{i}": int(r) for i, r in enumerate(rng.integers(2, 9, m))}
    asked = rng.uniform(0.05, 2, m)
    optimum = optrr.design(domain, asked)
    design = longitudinal.longitudinal(domain, asked, optimum.epsilon * 1.5)
    assert optimum.epsilon - ROUNDING <= design.spent(1).epsilon <= optimum.epsilon * (1 + 1e-9)
    assert design.epsilon <= optimum.epsilon * 1.5
    assert np.all(design.mechanism.attribute_epsilons >= asked - 1e-12)
    names = list(domain)[: min(m, 4)]
    np.testing.assert_allclose(
        design.mechanism.kernel(names).eigenvalues, optimum.mechanism.kernel(names).eigenvalues, atol=1e-10
    )


def test_accuracies_near_certainty_are_not_understated():
    """Where λ is near 1 its distance from 1 must not cancel; the reference is in rationals of what is drawn."""
    design = longitudinal.longitudinal({"a": 3, "b": 5, "c": 2}, [8.6, 10.1, 9.0], 100.0)
    one, two = (truth.stage_matrix(stage) for stage in (design.permanent, design.instantaneous))
    chances = [sum(p * row[z] for p, row in zip(one[0], two, strict=True)) for z in range(30)]
    for i, (label, size) in enumerate(zip(design.mechanism.attribute_epsilons, (3, 5, 2), strict=True)):
        kept = sum(p for p, z in zip(chances, naive.outputs((3, 5, 2)), strict=True) if z[i] == 0)
        assert 0 <= label - naive.log_of((size - 1) * kept / (1 - kept)) < 1e-9


def test_both_totals_are_kept():
    for total, forever in ((0.4, 0.9), (1.5, 4.0)):
        design = longitudinal.longitudinal({"a": 3, "b": 4, "c": 2}, 1.0, forever, report_epsilon=total)
        assert total - 1e-5 <= design.spent(1).epsilon <= total and forever * (1 - 1e-5) <= design.epsilon <= forever


@pytest.mark.parametrize("one_report", [0.3078437979303667, 2.526212166305462, 20.0])
def test_one_report_of_one_attribute_stays_within_its_total(one_report):
    design = longitudinal.longitudinal({"a": 2}, 1.0, 1.1 * one_report, report_epsilon=one_report)
    assert one_report * (1 - 1e-6) <= design.spent(1).epsilon <= one_report


@pytest.mark.parametrize(("sizes", "asked", "forever"), [((2,), (20.0,), 40.0), ((2, 3), (22.0, 3e-6), 30.0)])
def test_accuracies_near_certainty_are_met_at_the_least_that_they_cost(sizes, asked, forever, tmp_path):
    """What a second stage loses of an eigenvalue near 1 must not cancel: a report has what was asked for, and is no dearer."""
    domain = {f"a{i}": r for i, r in enumerate(sizes)}
    design = longitudinal.longitudinal(domain, asked, forever)
    np.testing.assert_allclose(design.mechanism.attribute_epsilons, asked, rtol=1e-9, atol=1e-11)
    assert design.spent(1).epsilon <= design.epsilon
    assert design.spent(1).epsilon <= design.optimum.epsilon * (1 + 1e-9)
    optrr.save(design, tmp_path / "long.json")
    back = load_longitudinal(tmp_path / "long.json")
    assert (back.digest, back.epsilon, back.spent(3).epsilon) == (
        design.digest,
        design.epsilon,
        design.spent(3).epsilon,
    )
    assert longitudinal.verify_longitudinal(tmp_path / "long.json").holds


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (({"a": 2}, 1.0, 0.5), {}, "must be larger"),
        (({"a": 2}, 1.0, -1.0), {}, "``lifetime_epsilon`` -1.0"),
        (({"a": 2}, 1.0, 1.0), {"report_epsilon": 2.0}, "``report_epsilon`` 2: must be less"),
        (({"a": 2}, 46.0, 240.0), {}, "a coin of more than 64 bits"),
        (({"a": 2}, 1.0, 501.0), {}, "give at most 500 nats per attribute"),
        (({"a": 2, "b": 2}, 24.0, 48.48), {"report_epsilon": 43.632}, "a coin of more than 64 bits"),
    ],
)
def test_what_cannot_be_is_refused(arguments, options, message):
    with pytest.raises(InvalidInput, match=message):
        longitudinal.longitudinal(*arguments, **options)


def laws():
    yield TableLaw(np.array([2, 3]), np.array([[1.3, 0.2], [0.4, -0.5]]))
    yield ProductLaw(np.array([4]), np.array([0.7]))
    yield ProductLaw(np.array([2, 3]), np.array([0.7, 0.2]))
    yield optrr.design({f"a{i}": 3 for i in range(6)}, 0.4, method="classes").law
    yield optrr.design({f"a{i}": 2 + i for i in range(5)}, 0.4, method="ball").law


@pytest.mark.parametrize("law", list(laws()), ids=lambda law: f"{law.kind}-{law.m}")
def test_a_sharper_law_mixed_with_uniform_answers_is_the_law(law):
    assert isinstance(law, TableLaw | ProductLaw | CountLaw | BallLaw)
    sharper = sharpened(law, 2.5 * law.epsilon)
    assert sharper.epsilon == pytest.approx(2.5 * law.epsilon, abs=1e-12)
    one, other = law.marginal(range(law.m)), sharper.marginal(range(law.m))
    share = law.one_way_eigenvalues()[0] / sharper.one_way_eigenvalues()[0]
    uniform = np.array(1.0)
    for r in law.sizes:
        uniform = np.multiply.outer(uniform, [1 / r, 1 - 1 / r])
    assert 0 < share < 1
    np.testing.assert_allclose(one, share * other + (1 - share) * uniform, atol=1e-12)


def small_design():
    return longitudinal.longitudinal({"a": 2, "b": 3}, 0.8, 3.0)


def test_keyed_answers_are_repeated_and_others_are_independent():
    design, people = small_design(), [str(i) for i in range(4000)]
    codes = np.tile([0, 2], (len(people), 1))
    answers = permanent_answers(design, KEY, people, codes)
    assert np.array_equal(answers, permanent_answers(design, KEY, people, codes))
    back = permanent_answers(design, KEY, people[::-1], codes)[::-1]
    assert np.array_equal(answers, back)
    other_key = permanent_answers(design, longitudinal.Key(bytes(32)), people, codes)
    other_people = permanent_answers(design, KEY, [f"{p}." for p in people], codes)
    first, again, second_round = (reports(design, KEY, name, people, answers) for name in ("1", "1", "2"))
    assert np.array_equal(first, again)
    matrix = design.permanent.matrix()[2]
    agree = float(matrix @ matrix)
    for other in (other_key, other_people):
        # two independent answers to one record agree this often; false alarm 1e-6 on either side
        same = int((answers == other).all(axis=1).sum())
        assert binom.ppf(1e-6, len(people), agree) <= same <= binom.isf(1e-6, len(people), agree)
    assert not np.array_equal(first, second_round)


def test_keyed_answers_follow_the_law():
    design, people = small_design(), [str(i) for i in range(30_000)]
    codes = np.tile([1, 0], (len(people), 1))
    answers = permanent_answers(design, KEY, people, codes)
    sent = reports(design, KEY, "r", people, codes)
    for drawn, stage in ((answers, design.permanent), (sent, design.instantaneous)):
        counts = np.bincount(drawn @ [3, 1], minlength=6)
        # false alarm 1e-6
        assert chisquare(counts, stage.matrix()[3] * len(people)).pvalue > 1e-6


def test_a_changed_record_gets_an_answer_of_its_own():
    """The difference of two answers must not be that of the records, as it would be with one noise for both."""
    design, people = small_design(), [str(i) for i in range(5000)]
    one, two = (permanent_answers(design, KEY, people, np.tile([0, b], (5000, 1)))[:, 1] for b in (0, 1))
    joint = np.zeros((3, 3))
    np.add.at(joint, (one, two), 1)
    marginal = design.permanent.kernel("b").matrix()
    # false alarm 1e-6
    assert chisquare(joint.ravel(), 5000 * np.outer(marginal[0], marginal[1]).ravel()).pvalue > 1e-6


def naive_walk(design, person, record):
    """One permanent answer of a design whose permanent law has thresholds only, number by number."""
    layers = design.permanent.law.automaton.layers
    hashed = hashlib.shake_256(KEY.secret.ljust(136, b"\0"))
    parts = [b"optrr-permanent/1", b"permanent", design.digest.encode(), person.encode()]
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big") + part)
    hashed.update(b"".join(int(x).to_bytes(4, "little") for x in record))
    stream, at, state, out = hashed.digest(8 * 1000), 0, 0, list(record)

    def word():
        nonlocal at
        at += 8
        return int.from_bytes(stream[at - 8 : at], "little")

    for layer in layers.layers:
        digits = layer.words.shape[0]
        drawn = sum(word() << 64 * (digits - 1 - d) for d in range(digits))
        bound = sum(int(w) << 64 * (digits - 1 - d) for d, w in enumerate(layer.words[:, state]))
        other = (word() << 64) + word()
        size = int(layers.sizes[layer.attribute])
        if drawn < bound:
            out[layer.attribute] = (out[layer.attribute] + 1 + other % (size - 1)) % size
        state = int((layer.changed if drawn < bound else layer.kept)[state])
    return out


def test_the_walk_is_the_documented_one():
    design, rng = longitudinal.longitudinal({"a": 2, "b": 3, "c": 5}, 0.8, 5.0), np.random.default_rng(6)
    codes = rng.integers(0, [2, 3, 5], (200, 3))
    people = [f"p{i}" for i in range(200)]
    answers = permanent_answers(design, KEY, people, codes)
    assert answers.tolist() == [naive_walk(design, p, c.tolist()) for p, c in zip(people, codes, strict=True)]


def test_a_key_is_a_secret_file(tmp_path):
    longitudinal.Key.new().save(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    read = longitudinal.Key.load(tmp_path / "key")
    assert len(read.secret) == 32 and read.secret.hex() not in repr(read)
    with pytest.raises(InvalidInput, match="exists already"):
        longitudinal.Key.new().save(tmp_path / "key")
    (tmp_path / "none").write_text("not a key")
    for name in ("none", "absent"):
        with pytest.raises(InvalidInput):
            longitudinal.Key.load(tmp_path / name)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    n = 500
    table = pa.table(
        {"who": np.arange(n), "a": rng.choice(["x", "y"], n, p=[0.8, 0.2]), "b": rng.choice(["1", "2", "3"], n)}
    )
    pa_csv.write_csv(table, "true.csv")
    pq.write_table(table, "true.parquet")
    optrr.save(longitudinal.longitudinal({"a": ["x", "y"], "b": ["1", "2", "3"]}, 1.0, 4.0), "design.json")
    KEY.save("key")
    return tmp_path


def rounds(names=("one", "two"), source="true.csv", suffix="csv"):
    design = load_longitudinal("design.json")
    files = [f"{name}.{suffix}" for name in names]
    for name, file in zip(names, files, strict=True):
        longitudinal.randomize_wave(source, design, file, key=KEY, wave=name, id_column="who")
    return design, files


def test_a_round_made_again_replaces_no_other_release(here, capsys):
    command = ("waves", "randomize", "true.csv", "--design", "design.json", "--id-column", "who")
    said(capsys, *command, "--wave", "1", "--secret", "key", "-o", "one.csv")
    for again in (("--secret", "key", "--wave", "1"), ("--secret", "key", "--wave", "2")):
        assert "held a release" not in said(capsys, *command, *again, "-o", "one.csv").err
    # whoever has rounds of two keys has two permanent answers
    assert (
        "which this one replaces"
        in said(capsys, *command, "--wave", "1", "--secret", "other", "--new-secret", "-o", "one.csv").err
    )


def test_a_round_made_again_is_the_same_reports(here):
    _, (one, two) = rounds()
    first = by_person(here / one)
    rounds()
    assert by_person(here / one) == first != by_person(here / two)
    rounds(("one",), "true.parquet", "parquet")
    again = pq.read_table("one.parquet").sort_by("who")
    assert again["who"].to_pylist() == list(range(500))
    csv = pa_csv.read_csv("one.csv", convert_options=pa_csv.ConvertOptions(column_types={"b": pa.string()}))
    assert again["b"].to_pylist() == csv.sort_by("who")["b"].to_pylist()


def by_person(path):
    """The lines of a round's file without their order, which is drawn anew each time."""
    return sorted(path.read_text().splitlines())


def said(capsys, *arguments, code=0):
    capsys.readouterr()
    assert run(list(arguments)) == code, capsys.readouterr().err
    return capsys.readouterr()


def test_the_account_counts_a_person_once_whatever_the_rounds(here, capsys):
    design, files = rounds()
    spent = json.loads(said(capsys, "account", *files, "--json").out)
    assert spent["epsilon"] == design.epsilon and len(spent["releases"]) == 1
    assert spent["unit"] == "person over time"
    assert "for each person over time" in said(capsys, "account", *files).out
    # records that another design randomized come on top
    optrr.save(optrr.design({"a": ["x", "y"], "b": ["1", "2", "3"]}, 0.5), "other.json")
    said(capsys, "randomize", "true.csv", "--design", "other.json", "-o", "other.csv", "--drop-undeclared")
    both = json.loads(said(capsys, "account", *files, "other.csv", "--json").out)
    assert both["unit"] == "person over time"
    # what follows rounds is of the person, too
    followed = ("--design", "other.json", "-o", "then.csv", "--drop-undeclared", "--after", files[0])
    assert "over a lifetime in all" in said(capsys, "randomize", "true.csv", *followed).out
    assert json.loads(said(capsys, "account", "then.csv", "--json").out)["unit"] == "person over time"
    assert both["epsilon"] == pytest.approx(design.epsilon + load_design("other.json").epsilon)
    arguments = ("--design", "design.json", "--secret", "key", "--id-column", "who", "--wave", "3", "-o", "three.csv")
    limit = ("--after", "one.csv", "--limit", str(design.epsilon))
    said(capsys, "waves", "randomize", "true.csv", *arguments, *limit)
    assert (
        "above the limit"
        in said(capsys, "waves", "randomize", "true.csv", *arguments, *limit, "--after", "other.csv", code=2).err
    )


def test_people_and_designs_that_do_not_fit_are_refused(here):
    design, files = rounds()
    keyed = {"key": KEY, "wave": "1"}
    for person, message in (("a", "is an attribute"), ("nobody", "is not in the data")):
        with pytest.raises(InvalidInput, match=message):
            longitudinal.randomize_wave("true.csv", design, "out.csv", id_column=person, **keyed)
    pa_csv.write_csv(pa.table({"who": [1, 1], "a": ["x", "x"], "b": ["1", "2"]}), "twice.csv")
    with pytest.raises(InvalidInput, match="record 2 occurs twice in the data"):
        longitudinal.randomize_wave("twice.csv", design, "out.csv", id_column="who", **keyed)
    (here / "nameless.csv").write_text("who,a,b\n1,x,1\n,y,2\n")
    with pytest.raises(InvalidInput, match="record 2 has no person's name"):
        longitudinal.randomize_wave("nameless.csv", design, "out.csv", id_column="who", **keyed)
    assert not (here / "out.csv").exists()
    with pytest.raises(InvalidInput, match="already randomized"):
        longitudinal.randomize_wave(files[0], design, "out.csv", id_column="who", **keyed)
    with pytest.raises(InvalidInput, match="another design"):
        longitudinal.estimate_waves(files, longitudinal.longitudinal(design.domain, 0.5, 4.0), ["a"], id_column="who")


@pytest.mark.slow
def test_from_the_command_line(here, capsys):
    attributes = ("--attribute", "a=2:1", "--attribute", "b=3:1")
    made = json.loads(
        said(capsys, "waves", "design", *attributes, "--lifetime-epsilon", "4", "-o", "made.json", "--json").out
    )
    assert made["one_report_epsilon"] < made["reports"][1]["epsilon"] < made["epsilon"] <= 4
    assert "over a lifetime" in said(capsys, "waves", "design", *attributes, "--lifetime-epsilon", "4").out
    assert json.loads(said(capsys, "verify", "made.json", "--json").out)["holds"]
    files = []
    for name in ("1", "2", "3"):
        files.append(f"{name}.csv")
        new = ("--new-secret",) if name == "1" else ()
        said(
            *(capsys, "waves", "randomize", "true.csv", "--design", "design.json", "--secret", "fresh", *new),
            *("--id-column", "who", "--wave", name, "-o", files[-1]),
        )
    arguments = ("--design", "design.json", "--id-column", "who", "--attributes", "a")
    out = json.loads(said(capsys, "waves", "estimate", *files, *arguments, "--change", "--json").out)
    assert sum(out["average"]["estimate"]) == pytest.approx(1) and out["average"]["people"] == 500
    assert sum(out["change"]["estimate"]) == pytest.approx(0, abs=1e-12)
    assert "average of a over 3 waves" in said(capsys, "waves", "estimate", *files, *arguments).out


def test_other_commands_say_where_the_file_belongs(here, capsys):
    for command in (("randomize", "true.csv", "-o", "out.csv"), ("estimate", "true.csv", "--attributes", "a")):
        assert "optrr waves randomize" in said(capsys, *command, "--design", "design.json", code=2).err


@pytest.mark.parametrize(
    "command",
    [("export", "-o", "sampler.json"), ("export", "--form", "matrix", "--attributes", "a", "-o", "m.csv"), ("serve",)],
)
def test_what_would_draw_on_a_device_says_what_to_do_instead(command, here, capsys):
    kept = sorted(here.iterdir())
    error = said(capsys, command[0], "design.json", *command[1:], code=2).err
    assert error.count("\n") == 1
    assert "`optrr waves randomize`" in error and "`optrr design`" in error
    assert sorted(here.iterdir()) == kept


def lies():
    yield "epsilon", lambda r: r.update(epsilon=r["epsilon"] - 1e-6)
    yield "one report", lambda r: r.update(one_report=r["one_report"] * 0.99)
    yield "accuracies", lambda r: r["attributes"].__setitem__(0, r["attributes"][0] + 0.1)
    yield "asked for", lambda r: r["requested"].__setitem__(0, 2.0)
    yield "coin", lambda r: r.update(threshold=str(int(r["threshold"]) + (1 << 60)))
    # a more accurate design, whose lower bound would not be one of these reports
    better = encoded_design(optrr.design({"a": ["x", "y"], "b": ["1", "2", "3"]}, 1.1))
    yield "optimum", lambda r: r.update(optimum=json.loads(better))
    yield "permanent", lambda r: r["permanent"].update(log_density=[9.0 for _ in r["permanent"]["log_density"]])


@pytest.mark.parametrize(("name", "lie"), list(lies()), ids=[name for name, _ in lies()])
def test_a_file_that_lies_is_refused_and_does_not_verify(here, monkeypatch, name, lie):
    record = json.loads((here / "design.json").read_text())
    lie(record)
    (here / "lie.json").write_text(json.dumps(record))
    with pytest.raises(InvalidInput):
        load_longitudinal("lie.json")
    assert not longitudinal.verify_longitudinal("lie.json").holds
    # whoever makes the digest right again does not pass either
    content = {k: v for k, v in record.items() if k != "digest"}
    record["digest"] = hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()
    (here / "lie.json").write_text(json.dumps(record))
    result = longitudinal.verify_longitudinal("lie.json")
    assert result.digest and not result.holds
    with pytest.raises(InvalidInput, match="does not verify"):
        load_longitudinal("lie.json")


def simulated(design, codes, count, rng):
    """Flat cells of everybody's reports in several rounds, shape (n, R); codes of shape (R, n, m), answers kept while alike."""
    answers = design.permanent.randomize_codes(codes[0], rng)
    out = []
    for t in range(count):
        moved = (codes[t] != codes[t - 1]).any(axis=1) if t else np.zeros(len(answers), dtype=bool)
        answers = np.where(moved[:, None], design.permanent.randomize_codes(codes[t], rng), answers)
        out.append(
            np.ravel_multi_index(
                tuple(design.instantaneous.randomize_codes(answers, rng).T), tuple(design.domain.sizes)
            )
        )
    return np.stack(out, axis=1)


@pytest.mark.slow
def test_averages_and_changes_are_unbiased_and_covered():
    """Panels of 300 people in 4 rounds; a fifth of them changes between the second round and the third."""
    design, n, runs = small_design(), 300, 100
    rng = np.random.default_rng([8, 5])
    shares = np.array([[0.5, 0.2, 0.1], [0.1, 0.1, 0.0]]).ravel()
    later = np.array([[0.3, 0.2, 0.1], [0.1, 0.1, 0.2]]).ravel()
    errors, inside = [], np.zeros(2)
    for _ in range(runs):
        first = rng.choice(6, n, p=shares)
        last = np.where((first == 0) & (rng.random(n) < 0.4), 5, first)
        codes = np.stack([np.stack(np.divmod(c, 3), axis=1) for c in (first, first, last, last)])
        panel = longitudinal.Panel(design.domain, design.mechanism, simulated(design, codes, 4, rng))
        for k, (result, target) in enumerate(
            ((panel.average(), (shares + later) / 2), (panel.change(), later - shares))
        ):
            errors.append((result.estimate.ravel() - target) / result.standard_errors.ravel())
            inside[k] += ((result.lower.ravel() <= target) & (target <= result.upper.ravel())).sum()
    # means of standardised errors: false alarm 12 · 2e-6
    assert np.abs(np.array(errors).reshape(runs, 2, 6).mean(axis=0)).max() < 5 / np.sqrt(runs)
    # six intervals a panel, dependent: their effective number is at least that of panels, of which fewer than 87 cover with
    # probability 4e-4; above the other bound they would be far too wide
    assert np.all(inside / (6 * runs) > 0.87) and np.all(inside / (6 * runs) < 0.995)


def test_variances_of_rounds_are_those_of_the_mechanism():
    """With everybody's record alike, the covariance within and between rounds is the kernels', to sampling error."""
    design, n = small_design(), 200_000
    rng = np.random.default_rng(9)
    codes = np.tile([0, 1], (3, n, 1))
    panel = longitudinal.Panel(design.domain, design.mechanism, simulated(design, codes, 3, rng))
    means, covariances = panel.by_round
    permanent, second = design.permanent.matrix()[1], design.instantaneous.matrix()
    inverse = np.linalg.inv(design.mechanism.matrix())
    for cell, weights in enumerate(inverse.T):
        given = second @ weights
        between = permanent @ given**2 - (permanent @ given) ** 2
        within = permanent @ (second @ weights**2) - (permanent @ given) ** 2
        expected = (between + (within - between) * np.eye(3)) / n
        # covariances of 200,000 people are right to about a percent; five times that
        np.testing.assert_allclose(covariances[cell], expected, rtol=0.05, atol=0.02 * within / n)
        assert np.all(np.abs(means[cell] - (cell == 1)) < 5 * np.sqrt(within / n))


def test_people_who_miss_rounds_are_left_out_of_these_only():
    design = small_design()
    cells = np.array([[0, 1], [2, -1], [-1, 4], [3, 3]])
    panel = longitudinal.Panel(design.domain, design.mechanism, cells)
    means, _ = panel.by_round
    inverse = np.linalg.inv(design.mechanism.matrix())
    np.testing.assert_allclose(means[:, 0], inverse[[0, 2, 3]].mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(means[:, 1], inverse[[1, 4, 3]].mean(axis=0), atol=1e-10)
    with pytest.raises(InvalidInput, match="fewer than two people"):
        longitudinal.Panel(design.domain, design.mechanism, np.array([[0, -1], [1, -1]])).average()
    for first, last in ((0, 2), (-3, 0)):
        with pytest.raises(InvalidInput, match="number waves"):
            panel.change(first, last)


def test_a_coin_is_exact():
    domain = Domain.of({"a": 2, "b": 3})
    coin = longitudinal.WholeOrUniform(domain, 3 << 62)
    assert coin.share == Fraction(3, 4) and coin.growth == 1 + 6 * 3
    assert coin.epsilon == pytest.approx(np.log(19), abs=1e-14) and coin.epsilon >= np.log(19)
    np.testing.assert_allclose(coin.matrix(), 0.75 * np.eye(6) + 0.25 / 6)
    with pytest.raises(InvalidInput, match="above 0 and below 1"):
        longitudinal.WholeOrUniform(domain, 1 << 64)


def two_rounds(epsilon, counts, sizes):
    """A panel of two groups of people, ``counts`` of whose reports are of the second of two categories."""
    design = longitudinal.longitudinal({"a": 2}, [epsilon], epsilon + 1)
    cells = np.full((sum(sizes), 2), ABSENT)
    cells[: sizes[0], 0] = np.arange(sizes[0]) < counts[0]
    cells[sizes[0] :, 1] = np.arange(sizes[1]) < counts[1]
    return longitudinal.Panel(design.domain, design.mechanism, cells)


@pytest.mark.parametrize("share", [0.02, 0.06])
def test_a_small_round_beside_a_large_one_is_covered(share):
    """The sum over all numbers of reports in a round of 20 people; the round of 2000 is as expected, nearly without error."""
    small, large = 20, 2000
    kernel = two_rounds(5.0, (0, 0), (2, 2)).mechanism.kernel(["a"])
    chance = kernel.expected(np.array([1 - share, share]))[1]
    covered = np.zeros(2)
    # what is left out of the sum counts as not covered
    for sent in range(8):
        panel = two_rounds(5.0, (round(large * chance), sent), (large, small))
        for k, (result, true) in enumerate(((panel.average(), share), (panel.change(), 0.0))):
            inside = result.lower[1] <= true <= result.upper[1]
            covered[k] += inside * binom.pmf(sent, small, chance)
    assert np.all(covered > 0.93)


@pytest.mark.parametrize(("counts", "sizes"), [((300, 200), (500, 400)), ((40, 160), (200, 300))])
def test_changes_of_large_rounds_are_score_intervals(counts, sizes):
    """Reports that are nearly never randomized: Miettinen and Nurminen's interval, within 4 % of its length."""
    result = two_rounds(25.0, counts, sizes).change()
    low, high = confint_proportions_2indep(counts[1], sizes[1], counts[0], sizes[0], method="score", compare="diff")
    np.testing.assert_allclose([result.lower[1], result.upper[1]], [low, high], rtol=0, atol=0.04 * (high - low))


def test_rounds_of_the_same_reports_say_no_more_than_one():
    """Nobody of 20 reported the cell, four times: the average is no better known than one round's share."""
    design = longitudinal.longitudinal({"a": 2}, [5.0], 5.2)
    upper = [
        longitudinal.Panel(design.domain, design.mechanism, np.zeros((20, rounds), dtype=np.int64)).average().upper[1]
        for rounds in (1, 4)
    ]
    # the second stage is drawn anew in every round, so a little is learnt
    assert 0.7 * upper[0] < upper[1] <= 1.01 * upper[0]
