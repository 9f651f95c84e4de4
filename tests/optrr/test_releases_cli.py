"""The command line on releases: what is bound, refused, warned of, added up; accounts and limits; seeds; second rounds."""

import csv
import dataclasses
import io
import json
import math
import signal
import stat
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import optrr
from optrr.cli.main import run
from optrr.designs.design_file import load_design
from optrr.domain.domain import Domain
from optrr.domain.public import PublicColumns
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import MatrixGenotypes, Variants
from optrr.genomics.writing import write_plink
from optrr.mechanisms.perturb import release_pipe

N = 3000


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    party = rng.choice(["a", "b", "c"], N, p=[0.9, 0.07, 0.03])
    table = pa.table({"party": party, "sex": np.where(rng.random(N) < 0.8, party == "a", party == "b").astype(str)})
    table = table.set_column(1, "sex", pa.array(np.where(table["sex"].to_numpy() == "True", "F", "M")))
    pa_csv.write_csv(table, "true.csv")
    pq.write_table(table, "true.parquet")
    domain = {"party": ["a", "b", "c"], "sex": ["F", "M"]}
    optrr.save(optrr.design(domain, 0.75, method="kronecker"), "one.json")
    optrr.save(optrr.design(domain, 1.0, method="kronecker"), "two.json")
    return tmp_path


def said(capsys, *arguments, code=0):
    capsys.readouterr()
    assert run(list(map(str, arguments))) == code, capsys.readouterr().err
    captured = capsys.readouterr()
    return captured.out, captured.err


def as_json(capsys, *arguments, code=0):
    return json.loads(said(capsys, *arguments, "--json", code=code)[0])


def estimate(capsys, file, design="one.json", code=0):
    return said(capsys, "estimate", file, "--design", design, "--attributes", "party", code=code)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_five_silent_mistakes(here, capsys, kind):
    out = f"out.{kind}"
    made = as_json(capsys, "perturb", f"true.{kind}", "--design", "one.json", "-o", out)
    assert made["private"] and not made["seeded"] and made["randomizations"] == 1
    assert made["epsilon"] == made["release_epsilon"] == pytest.approx(1.5)
    assert estimate(capsys, out)[1] == ""
    # an unrandomized file
    err = estimate(capsys, f"true.{kind}")[1]
    assert "is not bound to a design" in err and "this does not look like data randomized by this design" in err
    # another design's
    assert "randomized by another design" in estimate(capsys, out, "two.json", code=2)[1]
    # randomized twice: refused, and if meant, not estimated as if it were once
    perturb = ("perturb", out, "--design", "one.json", "-o", f"twice.{kind}")
    assert "already randomized (once, epsilon 1.5" in said(capsys, *perturb, code=2)[1]
    assert not Path(f"twice.{kind}").exists()
    twice = as_json(capsys, *perturb, "--again")
    assert twice["epsilon"] == pytest.approx(3) and twice["randomizations"] == 2
    assert "was randomized twice" in estimate(capsys, f"twice.{kind}", code=2)[1]
    # a file that lost what it said, and one whose content was exchanged
    Path("elsewhere").mkdir()  # beside the release, its sidecar would tell what the copy is
    Path(f"elsewhere/lost.{kind}").write_bytes(Path("out.csv" if kind == "csv" else "true.parquet").read_bytes())
    assert "is not bound" in estimate(capsys, f"elsewhere/lost.{kind}")[1]
    if kind == "csv":
        Path(out).write_text(Path(out).read_text() + "a,F\n")
        assert "written for other content" in estimate(capsys, out)[1]


def test_every_command_that_reads_randomized_records_refuses_another_design(here, capsys):
    said(capsys, "perturb", "true.csv", "--design", "one.json", "-o", "out.csv")
    for command in (
        ("test", "out.csv", "--attributes", "party,sex"),
        ("cluster", "out.csv", "--max-combinations", "6", "--min-dependence", "0.1"),
    ):
        assert "another design" in said(capsys, *command, "--design", "two.json", code=2)[1]
        assert said(capsys, *command, "--design", "one.json")[1] == ""
        true = (command[0], "true.csv", *command[2:])
        assert "is not bound" in said(capsys, *true, "--design", "one.json")[1]
        assert as_json(capsys, *true, "--design", "one.json")["doubts"]


def test_seeded_releases_are_marked_wherever_they_go(here, capsys):
    perturb = ("perturb", "true.csv", "--design", "one.json", "-o", "out.parquet", "--random-state", "5")
    out, err = said(capsys, *perturb)
    assert "not private" in err and "1.500000" in out
    made = as_json(capsys, *perturb)
    assert made["seeded"] and not made["private"]
    assert "not private" in estimate(capsys, "out.parquet")[1]
    total = as_json(capsys, "account", "out.parquet")
    assert total["epsilon"] is None and not total["private"]
    assert said(capsys, "account", "out.parquet", "--limit", "100", code=1)[1].count("not private") == 1


def test_accounts_add_up_distinct_releases(here, capsys):
    said(capsys, "perturb", "true.csv", "--design", "one.json", "-o", "first.csv")
    said(capsys, "perturb", "true.csv", "--design", "two.json", "-o", "second.parquet", "--after", "first.csv")
    Path("copy.csv").write_bytes(Path("first.csv").read_bytes())
    Path("copy.csv.optrr.json").write_bytes(Path("first.csv.optrr.json").read_bytes())
    for files, total in (
        (("first.csv",), 1.5),
        (("first.csv", "copy.csv"), 1.5),
        (("second.parquet", "copy.csv"), 3.5),
    ):
        account = as_json(capsys, "account", *files)
        assert account["epsilon"] == pytest.approx(total) and account["epsilon"] >= total - 1e-15
        assert account["unit"] == "record" and account["within_limit"]
        exact = math.fsum(r["epsilon"] for r in account["releases"])
        assert exact <= account["epsilon"] <= math.nextafter(exact, math.inf)
    out, err = said(capsys, "account", "first.csv", "second.parquet", "--limit", "3", code=1)
    assert "for each record" in out and "above the limit of 3" in err
    assert said(capsys, "account", "first.csv", "--limit", "1.51")[1] == ""
    assert "does not say what was spent" in said(capsys, "account", "true.csv", code=2)[1]
    assert "cannot read absent.csv: No such file" in said(capsys, "account", "absent.csv", code=2)[1]


def edited(file, **release):
    """The sidecar of a file with another release in it, consistently."""
    path = Path(f"{file}.optrr.json")
    note = json.loads(path.read_text())
    note["provenance"]["randomizations"][0].update(release)
    note["provenance"]["epsilon"] = sum(r["epsilon"] for r in note["provenance"]["randomizations"])
    path.write_text(json.dumps(note))


def test_the_account_recomputes_what_a_sidecar_states(here, capsys):
    said(capsys, "perturb", "true.csv", "--design", "one.json", "-o", "first.csv")
    honest = as_json(capsys, "account", "first.csv", "--design", "one.json", "--design", "two.json")
    assert honest["epsilon"] == pytest.approx(1.5) and honest["differs"] == []
    assert not any("is what the files state" in line for line in honest["unknown"])
    edited("first.csv", epsilon=0.001)
    believed = as_json(capsys, "account", "first.csv")
    assert believed["epsilon"] == 0.001 and "--design recomputes it" in believed["unknown"][0]
    assert "not known: whoever edits a file" in said(capsys, "account", "first.csv")[0]
    counted = as_json(capsys, "account", "first.csv", "--design", "one.json", code=1)
    assert counted["epsilon"] == honest["epsilon"] and len(counted["differs"]) == 1
    err = said(capsys, "account", "first.csv", "--design", "one.json", "--limit", "1", code=1)[1]
    assert "a file states epsilon 0.001" in err and "above the limit of 1" in err
    # another design's digest says nothing about this one
    assert as_json(capsys, "account", "first.csv", "--design", "two.json")["epsilon"] == 0.001


def test_one_id_with_two_contents_is_refused(here, capsys):
    for name, design in (("first", "one"), ("second", "one"), ("third", "two")):
        said(capsys, "perturb", "true.csv", "--design", f"{design}.json", "-o", f"{name}.csv")
    known = as_json(capsys, "account", "first.csv")["releases"][0]["id"]
    assert as_json(capsys, "account", "first.csv", "second.csv")["epsilon"] == pytest.approx(3)
    edited("second.csv", id=known)
    assert "hold different records under the id" in said(capsys, "account", "first.csv", "second.csv", code=2)[1]
    edited("third.csv", id=known)
    assert "stands for two releases" in said(capsys, "account", "first.csv", "third.csv", code=2)[1]
    after = (
        "perturb",
        "true.csv",
        "--design",
        "one.json",
        "-o",
        "out.csv",
        "--after",
        "first.csv",
        "--after",
        "third.csv",
    )
    assert "stands for two releases" in said(capsys, *after, code=2)[1]
    assert not Path("out.csv").exists()


def test_a_copy_without_its_sidecar_is_known_beside_the_release(here, capsys):
    said(capsys, "perturb", "true.csv", "--design", "one.json", "-o", "first.csv")
    Path("copy.csv").write_bytes(Path("first.csv").read_bytes())
    again = ("perturb", "copy.csv", "--design", "one.json", "-o", "twice.csv")
    assert "copy.csv is already randomized (once, epsilon 1.5" in said(capsys, *again, code=2)[1]
    assert not Path("twice.csv").exists()
    assert as_json(capsys, *again, "--again")["epsilon"] == pytest.approx(3)
    # one letter of it makes it other content, which no sidecar speaks of
    Path("copy.csv").write_bytes(Path("first.csv").read_bytes().replace(b"F", b"M", 1))
    assert as_json(capsys, *again)["epsilon"] == pytest.approx(1.5)


def test_what_a_release_says_of_itself_can_be_signed(here, capsys):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    Path("key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    Path("public.pem").write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    said(capsys, "perturb", "true.csv", "--design", "one.json", "-o", "first.csv")
    said(capsys, "sign", "first.csv.optrr.json", "--key", "key.pem")
    said(capsys, "verify", "first.csv.optrr.json", "--key", "public.pem")
    signed = as_json(capsys, "account", "first.csv", "--key", "public.pem")
    assert signed["epsilon"] == pytest.approx(1.5)
    assert not any("--key asks" in line for line in signed["unknown"])
    edited("first.csv", epsilon=0.001)
    assert "was not signed by key" in said(capsys, "account", "first.csv", "--key", "public.pem", code=2)[1]
    assert "has no sidecar" in said(capsys, "account", "true.parquet", "--key", "public.pem", code=2)[1]
    # a sidecar of other content is not signed
    Path("first.csv").write_bytes(Path("first.csv").read_bytes() + b"a,F\n")
    Path("first.csv.optrr.json.sig").unlink()
    said(capsys, "sign", "first.csv.optrr.json", "--key", "key.pem", code=1)
    assert not Path("first.csv.optrr.json.sig").exists()


def test_epsilons_too_large_to_be_added_up_are_infinite(here, capsys):
    said(capsys, "perturb", "true.csv", "--design", "one.json", "-o", "first.csv")
    note = json.loads(Path("first.csv.optrr.json").read_text())
    note["provenance"]["epsilon"] = None
    note["provenance"]["randomizations"] = [
        {**note["provenance"]["randomizations"][0], "epsilon": 1.7e308, "id": f"{k:032x}"} for k in range(2)
    ]
    Path("first.csv.optrr.json").write_text(json.dumps(note))
    account = as_json(capsys, "account", "first.csv")
    assert account["epsilon"] is None and len(account["releases"]) == 2


@pytest.mark.parametrize("suffix", ["csv", "a/.csv", f".{'x' * 300}", ".\0"])
def test_a_sidecar_of_files_that_cannot_be_is_for_other_content(here, capsys, suffix):
    said(capsys, "perturb", "true.csv", "--design", "one.json", "-o", "first.csv")
    note = json.loads(Path("first.csv.optrr.json").read_text())
    note["content"][suffix] = note["content"][".csv"]
    Path("first.csv.optrr.json").write_text(json.dumps(note))
    assert "was written for other content" in said(capsys, "account", "first.csv", code=2)[1]


def test_a_limit_is_kept_before_anything_is_written(here, capsys):
    said(capsys, "perturb", "true.csv", "--design", "one.json", "-o", "first.csv")
    second = ("perturb", "true.csv", "--design", "two.json", "-o", "second.csv", "--after", "first.csv")
    before = sorted(p.name for p in Path().iterdir())
    assert "above the limit of 3" in said(capsys, *second, "--limit", "3", code=2)[1]
    assert "keeps to no limit" in said(capsys, *second, "--limit", "9", "--random-state", "1", code=2)[1]
    assert sorted(p.name for p in Path().iterdir()) == before
    assert as_json(capsys, *second, "--limit", "3.51")["epsilon"] == pytest.approx(3.5)


def test_a_limit_that_is_no_number_limits_nothing_and_is_refused(here, capsys):
    perturb = ("perturb", "true.csv", "--design", "one.json", "-o", "out.csv", "--limit", "nan")
    assert "above the limit of nan" in said(capsys, *perturb, code=2)[1]
    assert not Path("out.csv").exists()


def through_a_pipe(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))


@pytest.mark.parametrize("output", ["again.csv", "-"])
def test_what_comes_through_a_pipe_is_not_randomized_twice_either(here, capsys, monkeypatch, output):
    table = pa_csv.read_csv("true.csv")
    randomized = load_design("one.json").mechanism.perturb(table)
    note = randomized.schema.metadata[b"optrr"].decode()
    streamed, written = io.BytesIO(), io.BytesIO()
    with pa.ipc.new_stream(streamed, randomized.schema) as writer:
        writer.write_table(randomized)
    pa_csv.write_csv(randomized.append_column("optrr_provenance", pa.array([note] * N)), written)
    perturb = ("perturb", "-", "--design", "two.json", "-o", output)
    through_a_pipe(monkeypatch, streamed.getvalue())
    out, err = said(capsys, *perturb, code=2)
    assert "standard input is already randomized (once, epsilon 1.500" in err and out == ""
    through_a_pipe(monkeypatch, written.getvalue())
    out, err = said(capsys, *perturb, code=2)
    assert "has a column 'optrr_provenance'" in err and out == ""
    assert not Path("again.csv").exists()
    through_a_pipe(monkeypatch, streamed.getvalue())
    if output == "again.csv":
        assert as_json(capsys, *perturb, "--again")["epsilon"] == pytest.approx(3.5)
        through_a_pipe(monkeypatch, Path("true.csv").read_bytes())
        assert as_json(capsys, *perturb)["randomizations"] == 1


def test_a_signal_that_ends_a_release_into_a_pipe_is_not_said_to_leave_nothing(here, capsys, monkeypatch):
    def release(place, mechanism, sink, random_state, options):
        handlers.append(signal.getsignal(signal.SIGTERM))
        return release_pipe(place, mechanism, sink, random_state, options)

    handlers = []
    monkeypatch.setattr("optrr.mechanisms.perturb.release_pipe", release)
    said(capsys, "perturb", "true.csv", "--design", "one.json", "-o", "-")
    assert handlers == [signal.getsignal(signal.SIGTERM)]


def test_a_second_round_prints_the_sum(here, capsys):
    said(capsys, "perturb", "true.csv", "--design", "one.json", "-o", "round1.parquet")
    cluster = (
        "cluster",
        "round1.parquet",
        "--design",
        "one.json",
        "--max-combinations",
        "6",
        "--min-dependence",
        "0.1",
    )
    said(capsys, *cluster, "-o", "second.json")
    second = load_design("second.json")
    assert second.epsilon == pytest.approx(1.5, abs=1e-6) and second.epsilon_in_all == pytest.approx(3, abs=1e-6)
    assert "in all with earlier releases" in repr(second) and second.summary()["epsilon_in_all"] >= 3 - 1e-6
    out, _ = said(capsys, "perturb", "true.csv", "--design", "second.json", "-o", "round2.csv")
    assert "total epsilon 3.0000" in out and "1.5" in out
    # the first round counts once, whether its file is named or not
    for files in (("round2.csv",), ("round1.parquet", "round2.csv")):
        assert as_json(capsys, "account", *files)["epsilon"] == pytest.approx(3, abs=1e-6)
    assert estimate(capsys, "round2.csv", "second.json")[1] == ""


def test_outputs_keep_the_permissions_of_what_they_replace(here, capsys):
    for name in ("out.csv", "out.parquet", "d.json"):
        for mode in (0o600, 0o640):
            Path(name).touch()
            Path(name).chmod(mode)
            if name == "d.json":
                said(capsys, "design", "--attribute", "a=2:1", "-o", name)
            else:
                said(capsys, "perturb", "true.csv", "--design", "one.json", "-o", name)
            assert stat.S_IMODE(Path(name).stat().st_mode) == mode


def test_replacing_a_release_says_so(here, capsys):
    perturb = ("perturb", "true.csv", "--design", "one.json", "-o", "out.csv")
    assert said(capsys, *perturb)[1] == ""
    assert "out.csv held a release of epsilon 1.500" in said(capsys, *perturb)[1]


def test_an_estimate_is_not_written_over_the_records(here, capsys):
    said(capsys, "perturb", "true.csv", "--design", "one.json", "-o", "out.parquet")
    before = Path("out.parquet").read_bytes()
    for place in (["out.parquet"], ["*.parquet"], ["true.parquet", "out.parquet"]):
        arguments = ("estimate", *place, "--design", "one.json", "--attributes", "party", "-o", "out.parquet")
        assert "out.parquet is an input of this command" in said(capsys, *arguments, code=2)[1]
    assert Path("out.parquet").read_bytes() == before


def test_sampled_tables_are_bound_too(here, capsys):
    domain = optrr.Domain.of({"party": ["a", "b", "c"], "sex": ["F", "M"]})
    for name, epsilon in (("asked.json", 3.0), ("other.json", 2.0)):
        optrr.save(optrr.SampledTables(domain, (("party",), ("sex",)), np.array([0.5, 0.5]), epsilon), name)
    said(capsys, "perturb", "true.csv", "--design", "asked.json", "-o", "out.csv")
    assert estimate(capsys, "out.csv", "asked.json")[1] == ""
    assert "another design" in estimate(capsys, "out.csv", "other.json", code=2)[1]
    assert (
        "already randomized" in said(capsys, "perturb", "out.csv", "--design", "asked.json", "-o", "x.csv", code=2)[1]
    )
    true = Path("true.csv").read_bytes()
    err = said(capsys, "perturb", "true.csv", "--design", "asked.json", "-o", "true.csv", code=2)[1]
    assert "is the input itself" in err and Path("true.csv").read_bytes() == true
    # reports that no randomization would give: everybody supports the same cell
    Path("lie.csv").write_text("table,cells\n" + "1,0\n" * N)
    err = estimate(capsys, "lie.csv", "asked.json")[1]
    assert "is not bound" in err and "does not look like data randomized by this design" in err


def test_answers_of_devices_cost_what_their_design_does(here, capsys):
    """They name it, and state no epsilon; the same identifiers count once, in whatever order and however often."""
    made = optrr.SampledTables(Domain.of({"party": 3, "sex": 2}), (("party",), ("sex",)), np.array([0.5, 0.5]), 1.0)
    optrr.save(made, "tables.json")
    deployed = optrr.export(made, "sampler.json")
    lines = [
        json.dumps(
            {"format": "optrr-report/1", "design": deployed.design, "id": f"{k:032x}", "table": 2, "cells": str(k % 2)}
        )
        for k in range(50)
    ]
    Path("sent.jsonl").write_text("\n".join(lines))
    Path("again.jsonl").write_text("\n".join([*lines[::-1], lines[3]]))
    Path("part.jsonl").write_text("\n".join(lines[:20]))
    told = as_json(capsys, "account", "sent.jsonl", "again.jsonl", "--design", "tables.json")
    assert told["epsilon"] == made.epsilon
    (release,) = told["releases"]
    assert (release["design"], release["seeded"]) == (made.digest, False)
    assert any("do not show whether each was drawn once" in line for line in told["unknown"])
    # what may be further answers of the same people is added, beside releases of another kind, too
    told = as_json(capsys, "account", "sent.jsonl", "part.jsonl", "--design", "tables.json", "--limit", 1.5, code=1)
    assert told["epsilon"] == pytest.approx(2 * made.epsilon, abs=1e-12) and told["epsilon"] >= 2 * made.epsilon
    said(capsys, "perturb", "true.csv", "--design", "one.json", "-o", "out.csv")
    told = as_json(capsys, "account", "sent.jsonl", "out.csv", "--design", "tables.json", "--design", "one.json")
    assert told["epsilon"] == pytest.approx(made.epsilon + load_design("one.json").epsilon, abs=1e-12)
    # which design it was must be known, and be one
    Path("other.jsonl").write_text(lines[0].replace(deployed.design, "0" * 64))
    Path("mixed.jsonl").write_text("\n".join([lines[0], Path("other.jsonl").read_text()]))
    for files, wrong in [
        (["sent.jsonl"], "say their design"),
        (["sent.jsonl", "--design", "one.json"], "give its file with --design"),
        (["other.jsonl", "--design", "tables.json"], "000000000000"),
        (["mixed.jsonl", "--design", "tables.json"], "answers to 2 designs"),
    ]:
        _, error = said(capsys, "account", *files, code=2)
        assert wrong in error and error.count("\n") == 1


def test_plink_is_bound_too(tmp_path, monkeypatch, capsys):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    variants = Variants.of([("1", k, f"rs{k}", "A", "G") for k in range(4)])
    people = np.array([f"p{i}" for i in range(2000)], dtype=object)
    codes = rng.binomial(2, 0.05, (2000, 4)).astype(np.int8)
    status = rng.integers(0, 2, 2000).astype(np.int8)
    write_plink(Cohort(MatrixGenotypes(variants, people, codes), np.arange(2000), status), Path("true.bed"))
    for name, total in (("one.json", 4), ("two.json", 5)):
        said(capsys, "gwas-design", "true.bed", "--total-epsilon", total, "--method", "kronecker", "-o", name)
    made = as_json(capsys, "gwas-perturb", "true.bed", "--design", "one.json", "-o", "out.bed")
    assert made["private"] and made["epsilon"] == pytest.approx(4, rel=1e-5)
    assert sorted(p.name for p in Path().glob("out*")) == ["out.bed", "out.bed.optrr.json", "out.bim", "out.fam"]
    assert as_json(capsys, "gwas", "out.bed", "--design", "one.json")["doubts"] == []
    assert "another design" in said(capsys, "gwas", "out.bed", "--design", "two.json", code=2)[1]
    replacing = said(capsys, "gwas-perturb", "true.bed", "--design", "one.json", "-o", "out.bed")[1]
    assert "out.bed held a release of epsilon 4.0000" in replacing
    again = ("gwas-perturb", "out.bed", "--design", "one.json", "-o", "x.bed")
    assert "already randomized" in said(capsys, *again, code=2)[1]
    err = said(capsys, "gwas", "true.bed", "--design", "one.json")[1]
    assert "is not bound" in err and "does not look like data randomized by this design" in err
    # the status is randomized, too: a fam file of others is noticed
    lines = Path("out.fam").read_text().splitlines()
    Path("out.fam").write_text("\n".join([lines[0][:-1] + "12"["1" in lines[0][-1]], *lines[1:]]) + "\n")
    assert "written for other content" in said(capsys, "gwas", "out.bed", "--design", "one.json")[1]


def test_after_a_seeded_release_every_place_says_what_the_account_says(here, capsys):
    first = ("perturb", "true.csv", "--design", "one.json", "-o", "first.csv", "--random-state", "1")
    second = ("perturb", "true.csv", "--design", "two.json", "-o", "second.csv", "--after", "first.csv")
    said(capsys, *first)
    err = said(capsys, *second, "--limit", "100", code=2)[1]
    assert "an earlier release of these people was drawn from a seed" in err and "leave out the limit" in err
    assert "leave out the seed" not in err and not Path("second.csv").exists()
    out, err = said(capsys, *second)
    assert "total epsilon inf in all" in out and "second.csv was drawn" not in err
    assert err.count("second.csv follows a release of the same people that was drawn from a seed") == 1
    made, account = as_json(capsys, *second), as_json(capsys, "account", "second.csv")
    assert made["epsilon"] is None and account["epsilon"] is None and not account["private"]
    assert [r["seeded"] for r in account["releases"]] == [True, False]
    err = estimate(capsys, "second.csv", "two.json")[1]
    assert "second.csv was drawn" not in err and "follows a release of the same people that was drawn" in err
    both = said(capsys, *second, "--random-state", "2")[1]
    assert "second.csv was drawn from a seed" in both and "second.csv follows a release" in both


def weighted_release(name, public, design="bd.json", keep=("w", "v")):
    """500 people with y = 1 and weight 9, 500 with y = 0 and weight 1; v is the other way round."""
    y = np.arange(1000) % 2
    columns = {"y": y, "w": np.where(y == 1, 9.0, 1.0), "v": np.where(y == 1, 1.0, 9.0)}
    pa_csv.write_csv(pa.table({c: columns[c] for c in ("y", *keep)}), f"{name}-true.csv")
    options = [part for text in public for part in ("--public", text)]
    dropped = [part for c in keep if f"weight={c}" not in public for part in ("--drop", c)]
    assert run(["perturb", f"{name}-true.csv", "--design", design, "-o", f"{name}.csv", *options, *dropped]) == 0


def share(capsys, *arguments):
    return as_json(capsys, "estimate", *arguments, "--design", "bd.json", "--attributes", "y")


def test_weights_that_a_release_names_are_used_as_those_of_its_design(here, capsys):
    optrr.save(optrr.design({"y": 2}, 4.0), "bd.json")
    weighted_release("br", ["weight=w"])
    by_option = share(capsys, "br.csv", "--weight", "w")
    of_release = share(capsys, "br.csv")
    assert of_release["estimate"] == by_option["estimate"]
    # drawn from the operating system; ±0.1 is six standard errors of a weighted share, seven of the other
    assert of_release["estimate"][1] == pytest.approx(0.9, abs=0.1)
    plain = share(capsys, "br.csv", "--unweighted")
    assert plain["estimate"][1] == pytest.approx(0.5, abs=0.15)
    assert ["sampled by weight 'w', which is ignored here" in line for line in plain["doubts"]] == [True]
    proportions = ("--attributes", "y", "--test", "goodness-of-fit", "--proportions", "0.5,0.5")
    doubts = as_json(capsys, "test", "br.csv", "--design", "bd.json", *proportions)["doubts"]
    assert any("sampled by weight 'w', which is ignored here" in line for line in doubts)


def test_releases_that_name_different_weights_need_a_word(here, capsys):
    optrr.save(optrr.design({"y": 2}, 4.0), "bd.json")
    weighted_release("one", ["weight=w"])
    weighted_release("other", ["weight=v"])
    command = ("estimate", "one.csv", "other.csv", "--design", "bd.json", "--attributes", "y")
    err = said(capsys, *command, code=2)[1]
    assert "different columns as weight" in err and err.count("\n") == 1
    design = load_design("bd.json")
    optrr.save(dataclasses.replace(design, public=PublicColumns("v")), "bd.json")
    command = ("estimate", "one.csv", "--design", "bd.json", "--attributes", "y")
    assert "different columns as weight" in said(capsys, *command, code=2)[1]
    assert share(capsys, "one.csv", "--weight", "w")["estimate"][1] == pytest.approx(0.9, abs=0.1)
    assert share(capsys, "one.csv", "--unweighted")["estimate"][1] == pytest.approx(0.5, abs=0.15)


def test_what_a_spreadsheet_would_compute(here, capsys):
    """A table for people has an apostrophe before it; randomized records stay what they are, with a warning."""
    texts = ["=CMD|' /C calc'!A0", "-", "+1+2", "low", "-9"]
    domain = {"=answer": texts, "sex": ["F", "M"]}
    optrr.save(optrr.design(domain, 3.0, method="kronecker"), "f.json")
    rng = np.random.default_rng(5)
    table = pa.table({"=answer": rng.choice(texts, 500), "sex": rng.choice(["F", "M"], 500)})
    pq.write_table(table, "f.parquet")
    warned = said(capsys, "perturb", "f.parquet", "--design", "f.json", "-o", "out.csv")[1]
    assert "a spreadsheet would compute '=answer' and others of out.csv" in warned
    assert "spreadsheet" not in said(capsys, "perturb", "f.parquet", "--design", "f.json", "-o", "out.parquet")[1]
    assert "spreadsheet" not in said(capsys, "perturb", "true.csv", "--design", "one.json", "-o", "plain.csv")[1]
    # what was written is read again as the same categories
    assert set(pa_csv.read_csv("out.csv")["=answer"].to_pylist()) == set(texts)
    said(capsys, "estimate", "out.csv", "--design", "f.json", "--attributes", "=answer", "-o", "table.csv")
    with open("table.csv", newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head[0] == "'=answer"
    assert [row[0] for row in rows] == [f"'{text}" for text in texts[:3]] + texts[3:]
    warned = said(capsys, "export", "f.json", "--matrix", "sex", "-o", "matrix.csv")[1]
    assert "spreadsheet" in warned
