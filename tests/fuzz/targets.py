"""What is fuzzed: everything that reads what others wrote. A target takes bytes; refusing them in one line is right."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

import optrr
from optrr.budgets.workload import workload_of
from optrr.cli.inputs import read_proportions
from optrr.designs import design_file
from optrr.designs.design import Design
from optrr.designs.signing import sign_file, signature_check
from optrr.designs.specification import Specification, parse_attributes, read_specification
from optrr.devices.clients import LogClient
from optrr.devices.deployment_file import canonical, digest_of
from optrr.devices.export import deployment_of
from optrr.devices.label import label_of
from optrr.devices.planting import Layout, answered_codes, planned, plant, read_planted
from optrr.devices.verify import load_deployment, verify_deployment
from optrr.domain.domain import Domain
from optrr.errors import OptrrError
from optrr.files import verify
from optrr.genomics.cohort import read_cohort
from optrr.genomics.filters import GenotypeFilter
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.plans.plan_file import read_plan
from optrr.records.counts import count
from optrr.records.reading.registry import origins_of
from optrr.records.reading.source import RecordsAt
from optrr.releases.accounting import Release
from optrr.releases.provenance import Provenance, sidecar_path, write_sidecar
from optrr.releases.sealed import sha256_of
from optrr.ways.longitudinal import Key, longitudinal, verify_longitudinal
from optrr.ways.longitudinal import design as longitudinal_file
from optrr.ways.longitudinal.design import load_longitudinal
from optrr.ways.protocols.protocol import Message
from optrr.ways.protocols.sampled_tables import SampledTables, load_asking, load_sampled_tables
from optrr.ways.protocols.sampled_uses import questions_of
from optrr_solvers.allocating.questions import SubsetReport
from tests.fuzz import commands, web
from tests.fuzz.engine import Feed
from tests.fuzz.kept import kept

DOMAIN = Domain.of({"sex": ["F", "M"], "age": 5, "answer": ["yes", "no", None]})
TABLE = b"sex,age,answer,other\nF,0,yes,1\nM,4,no,2\nF,2,,3\n"
LINES = b'{"sex": "F", "age": 0, "answer": "yes"}\n{"sex": "M", "age": 4, "answer": null}\n'
RELEASE = Release("sha256:" + "0" * 64, "flip pattern", 1.5, id="1" * 32)


@dataclass(frozen=True)
class Target:
    """Something that reads: ``share`` of all inputs, relative to the others', and the longest input in bytes."""

    name: str
    feed: Feed
    seeds: Callable[[], list[bytes]]
    share: float = 1.0
    longest: int = 4096

    def corpus(self) -> list[bytes]:
        """What there is to start from."""
        return list(dict.fromkeys([*self.seeds(), *kept(self.name)]))


def refusing(*calls: Callable[[], object]) -> None:
    """Each of them succeeds, or refuses in one line of reasonable length."""
    for call in calls:
        try:
            call()
        except OptrrError as error:
            text = str(error)
            assert "\n" not in text and len(text) < 4000, (
                f"a message of {len(text)} characters in {text.count(chr(10))} lines"
            )


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def _records(name: str) -> Feed:
    def feed(data: bytes, folder: Path) -> None:
        path = written(folder, name, data)
        refusing(
            lambda: count(path, DOMAIN, ["sex", "age"], allow_extra=True),
            lambda: count(path, DOMAIN, DOMAIN.names),
            lambda: Specification.from_frame(path),
            lambda: origins_of(path),
        )

    return feed


def _dialects(data: bytes, folder: Path) -> None:
    """A first line that says delimiter and encoding, then the file."""
    head, _, rest = data.partition(b"\n")
    delimiter, _, encoding = head.decode("utf-8", "replace").partition(" ")
    place = RecordsAt(written(folder, "said.csv", rest), delimiter=delimiter or None, encoding=encoding or None)
    refusing(lambda: count(place, DOMAIN, ["sex"], allow_extra=True))


def _parts(data: bytes) -> list[bytes]:
    """Three parts, divided by a line of three dashes."""
    return [*data.split(b"\n---\n", 2), b"", b""][:3]


def _plink(data: bytes, folder: Path) -> None:
    for suffix, part in zip((".bim", ".fam", ".bed"), _parts(data), strict=True):
        written(folder, f"x{suffix}", part)
    refusing(lambda: [list(read_cohort(folder / "x.bed").blocks())])


def _pgen(data: bytes, folder: Path) -> None:
    for suffix, part in zip((".pvar", ".psam", ".pgen"), _parts(data), strict=True):
        written(folder, f"x{suffix}", part)
    refusing(lambda: [list(read_cohort(folder / "x.pgen").blocks())])


def _plink_table(data: bytes, folder: Path) -> None:
    table, genotypes = written(folder, "x.pheno", data), written(folder, "x.csv", b"sample,rs0\np0,1\np1,2\n")
    refusing(
        lambda: read_cohort(genotypes, PhenotypeColumns(table, column="D")).status,
        lambda: read_cohort(genotypes, PhenotypeColumns(table, column="D"), chosen=GenotypeFilter(keep=table)).status,
    )


def _cohort(name: str) -> Feed:
    def feed(data: bytes, folder: Path) -> None:
        table, _, genotypes = data.partition(b"\n---\n")
        people = written(folder, "people.csv", table)
        phenotype = PhenotypeColumns(people, None, "diagnosis", ("ill",))
        refusing(lambda: list(read_cohort(written(folder, name, genotypes), phenotype).blocks()))

    return feed


def _specification(suffix: str) -> Feed:
    def feed(data: bytes, folder: Path) -> None:
        path = written(folder, f"spec{suffix}", data)
        refusing(lambda: read_specification(path).to_toml())

    return feed


def _workload(suffix: str) -> Feed:
    def feed(data: bytes, folder: Path) -> None:
        path = written(folder, f"workload{suffix}", data)
        refusing(
            lambda: workload_of(path, DOMAIN).arrays(DOMAIN),
            lambda: workload_of(path, DOMAIN).limits(DOMAIN, workload_of(path, DOMAIN).arrays(DOMAIN), 1000),
        )

    return feed


def _texts(data: bytes, folder: Path) -> None:
    del folder
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    refusing(lambda: parse_attributes(lines), lambda: read_proportions(lines[0].removesuffix(".json"), DOMAIN))


def _resealed_design(data: bytes) -> bytes:
    """With the digest that it should have, where it can have one."""
    try:
        record = msgspec.json.decode(data, type=design_file._DesignContent)
        return json.dumps(
            {**json.loads(data), "digest": sha256_of(msgspec.structs.replace(record, digest=""))}
        ).encode()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return data


def _resealed_longitudinal(data: bytes) -> bytes:
    try:
        content = json.loads(data)
        optimum = json.loads(_resealed_design(json.dumps(content["optimum"]).encode()))
        content = {**content, "optimum": optimum}
        record = msgspec.json.decode(json.dumps(content), type=longitudinal_file._LongitudinalContent)
        return json.dumps({**content, "digest": longitudinal_file._digest(record)}).encode()
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, RecursionError):
        return data


def _resealed_deployment(data: bytes) -> bytes:
    try:
        content = json.loads(data)
        return canonical(content | {"digest": digest_of(content)}) if isinstance(content, dict) else data
    except (ValueError, TypeError, RecursionError):
        return data


def _designs(data: bytes, folder: Path) -> None:
    for each in dict.fromkeys([data, _resealed_design(data)]):
        path = written(folder, "d.json", each)
        refusing(lambda path=path: verify(path), lambda path=path: load_asking(path))  # type: ignore[misc]


def _longitudinal_designs(data: bytes, folder: Path) -> None:
    for each in dict.fromkeys([data, _resealed_longitudinal(data)]):
        path = written(folder, "long.json", each)
        refusing(lambda path=path: verify_longitudinal(path), lambda path=path: load_longitudinal(path))  # type: ignore[misc]


def _deployments(data: bytes, folder: Path) -> None:
    for each in dict.fromkeys([data, _resealed_deployment(data)]):
        path = written(folder, "s.json", each)
        refusing(lambda path=path: verify_deployment(path), lambda path=path: load_deployment(path))  # type: ignore[misc]


def _askings(data: bytes, folder: Path) -> None:
    path = written(folder, "asking.json", data)
    refusing(lambda: load_sampled_tables(path), lambda: Message.from_bytes(data))


def _plans(data: bytes, folder: Path) -> None:
    path = written(folder, "plan.toml", data)
    refusing(lambda: read_plan(path))


def _proportions(data: bytes, folder: Path) -> None:
    path = written(folder, "p.json", data)
    refusing(lambda: read_proportions(str(path), DOMAIN))


def _sidecars(data: bytes, folder: Path) -> None:
    path = written(folder, "r.csv", TABLE)
    sidecar_path(path).write_bytes(data)
    refusing(lambda: origins_of(path))


def _metadata(data: bytes, folder: Path) -> None:
    """What Parquet or pandas keeps beside a table, by the first byte."""
    key = {b"p": b"PANDAS_ATTRS", b"i": b"pandas"}.get(data[:1], b"optrr")
    table = pa.table({"sex": ["F"], "age": [1], "answer": [None]}).replace_schema_metadata(
        {key: data[1:] if key != b"optrr" else data}
    )
    path = folder / "r.parquet"
    pq.write_table(table, path)
    refusing(lambda: origins_of(path), lambda: origins_of(table), lambda: count(path, DOMAIN, ["sex"]))


def _keys(data: bytes, folder: Path) -> None:
    key, design = written(folder, "key.pem", data), written(folder, "d.json", b"{}")
    signature = written(folder, "d.json.sig", data)
    refusing(
        lambda: signature_check(design, key, signature),
        lambda: sign_file(design, key, folder / "new.sig", lambda: "passphrase"),
        lambda: Key.load(key),
    )


def _logs(data: bytes, folder: Path) -> None:
    path = written(folder, "log.jsonl", data)
    lines = data.splitlines()

    def log() -> None:
        layout, runs = read_planted(path, DOMAIN)
        del layout
        LogClient(path, label_of(_some_designs()[0])).answers(runs)

    refusing(log, lambda: answered_codes(lines, DOMAIN, len(lines), "log"))


def _surveys(data: bytes, folder: Path) -> None:
    path = written(folder, "survey.db", data)
    refusing(lambda: count(path, DOMAIN, ["sex"], allow_extra=True), lambda: origins_of(path))


@cache
def table() -> pa.Table:
    note = Provenance(RELEASE).metadata()
    return pa.table({"sex": ["F", "M", "F"], "age": [0, 4, 2], "answer": ["yes", None, "no"]}).replace_schema_metadata(
        note
    )


def _parquet() -> list[bytes]:
    out = []
    for options in ({}, {"compression": "none", "use_dictionary": False}, {"compression": "zstd"}):
        buffer = io.BytesIO()
        pq.write_table(table(), buffer, **options)
        out.append(buffer.getvalue())
    return out


def _arrow(stream: bool) -> list[bytes]:
    buffer = io.BytesIO()
    opened = pa.ipc.new_stream if stream else pa.ipc.new_file
    with opened(buffer, table().schema) as writer:
        writer.write_table(table())
    other = io.BytesIO()
    if not stream:
        pyarrow.feather.write_feather(table(), other, compression="lz4")
    return [buffer.getvalue(), *([other.getvalue()] if not stream else [])]


def _saved(save: Callable[[Path], Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved"
        save(path)
        return path.read_bytes()


@cache
def _some_designs() -> Sequence[Design]:
    return [
        optrr.design(DOMAIN, [1.0, 0.5, 2.0]),
        optrr.design(DOMAIN, [1.0, 0.5, 2.0], preserve="pairs", conditional_cap={"age": 0.8}),
        optrr.design({f"a{i}": 3 for i in range(4)}, 0.5),
        optrr.design(DOMAIN, 1.0, method="kronecker"),
        optrr.design({f"a{i}": 2 + i for i in range(4)}, [0.4, 0.6, 0.8, 1.0], method="ball"),
        optrr.design({f"a{i}": 2 + i for i in range(4)}, 0.5, method="inductive"),
    ]


def _design_seeds() -> list[bytes]:
    return [
        json.dumps(json.loads(_saved(lambda path, made=d: optrr.save(made, path)))).encode() for d in _some_designs()
    ]


def _longitudinal_seeds() -> list[bytes]:
    made = [
        longitudinal({"a": 2, "b": 3}, 0.5, 2.0, stages=optrr.ways.longitudinal.Stages(second))
        for second in ("whole", "kronecker")
    ]  # type: ignore[arg-type]
    return [json.dumps(json.loads(_saved(lambda path, made=d: optrr.save(made, path)))).encode() for d in made]


def _deployment_seeds() -> list[bytes]:
    reports = (SubsetReport((1, 2), (1, 3)), SubsetReport((2,)))
    domain = Domain.of({"a": 3, "b": ["x", "y", None]})
    asking = SampledTables(domain, (("a", "b"), ("b",)), np.array([0.5, 0.5]), 1.0, reports)
    return [*(deployment_of(d.mechanism).to_bytes() for d in _some_designs()), questions_of(asking).to_bytes()]


def _log_seeds() -> list[bytes]:
    layout = Layout.of(200, DOMAIN.m)
    return [
        b'{"values":["F","3",null]}\n["M",4,"yes"]\n',
        _saved(lambda p: plant(p, planned(layout, DOMAIN.sizes, 1), DOMAIN)),
    ]


def _sidecar_seeds() -> list[bytes]:
    return [_saved(lambda path: write_sidecar(path, Provenance(RELEASE, (RELEASE,))))]


def _metadata_seeds() -> list[bytes]:
    note = Provenance(RELEASE).to_json()
    return [note.encode(), b"p" + json.dumps({"optrr": note}).encode()]


_TOML = b"""epsilon = 1.0
title = "t"
[[attributes]]
name = "age"
bins = [0, 18, 65, inf]
closed = "right"
missing = ["", "NA"]
rest = "other"
[[attributes]]
name = "since"
bins = [2020-01-01, 2021-01-01]
epsilon = 0.5
[[attributes]]
name = "sex"
categories = ["F", "M"]
question = "?"
"""
_JSON = (
    b'{"attributes": [{"name": "sex", "categories": ["F", "M"], "epsilon": 1.0}, '
    b'{"name": "age", "size": 9, "epsilon": 0.5, "ordered": true}]}'
)
_TABLES = (
    b'{"tables": [{"attributes": ["sex", "age"], "weight": 2, "standard_error": 0.05}, {"attributes": "answer"}], '
    b'"marginals": 1, "pairs": 0.5}'
)
_MESSAGE = b'{"mechanism": "a", "serial": "b", "values": ["x", 1]}'
_TABLES_TOML = b'marginals = 1\n[[tables]]\nattributes = ["sex", "age"]\nweight = 2.5\n'
_ESTIMATE = (
    b'{"attributes": ["sex", "age", "answer"], "categories": [["F", "M"], [0, 1, 2, 3, 4], ["yes", "no", null]], '
    b'"estimate": [[[0.1]]]}'
)
_VCF = (
    b'##fileformat=VCFv4.2\n##contig=<ID=1>\n##FORMAT=<ID=GT,Number=1,Type=String,Description="g">\n'
    b"#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tp0\tp1\n1\t10\trs0\tA\tC\t.\t.\t.\tGT\t0/1\t1/1\n"
)
_PEOPLE = b"sample,diagnosis\np0,ill\np1,well\n---\n"
_PLINK = b"1\trs0\t0\t10\tC\tA\n1\trs1\t0\t20\tT\tG\n---\nf p0 0 0 1 2\nf p1 0 0 2 1\n---\n\x6c\x1b\x01\x0b\x0b"
_PGEN = (
    b"##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\n1\t10\trs0\tA\tC\n1\t20\trs1\tT\tG,A\n---\n"
    b"#IID\tSEX\tD\np0\t1\t2\np1\t2\t1\n---\n\x6c\x1b\x02\x02\0\0\0\x02\0\0\0\x40\x06\x0b"
)
_SAMPLED = (
    b'{"format": "optrr-sampled-tables/2", "software": "optrr 0.1.0", "epsilon": 1.0, "answer_epsilon": 1.0, "attributes": '
    b'[{"name": "sex", "categories": ["F", "M"]}], "tables": [{"attributes": ["sex"], "share": 1.0, "likely": [1]}]}'
)


def _mixed_seeds() -> list[bytes]:
    return [TABLE, TABLE.replace(b",", b";").decode().encode("utf-16"), b'"sex"\t"age"\n']


def _dialect_seeds() -> list[bytes]:
    return [b"; latin-1\nsex;age\nF;1\n", b"\t utf-16\n" + "sex\tage\nF\t1".encode("utf-16")]


# Inputs that take long are fewer: a command takes ten times as long as a table, and a report's body a tenth.
TARGETS = (
    Target("csv", _records("r.csv"), _mixed_seeds, 0.7),
    Target("dialects", _dialects, _dialect_seeds, 0.7),
    Target("csv.gz", _records("r.csv.gz"), lambda: [gzip.compress(TABLE, mtime=0)], 0.25),
    Target("csv.bz2", _records("r.csv.bz2"), lambda: [bz2.compress(TABLE)], 0.25),
    Target("csv.zst", _records("r.csv.zst"), lambda: [pa.compress(TABLE, "zstd", asbytes=True)], 0.25),
    Target("jsonl", _records("r.jsonl"), lambda: [LINES, b'{"sex": {"a": [1]}, "age": "2020-01-01"}\n'], 0.7),
    Target("parquet", _records("r.parquet"), _parquet, 2),
    Target("arrow", _records("r.arrow"), lambda: _arrow(False), 2),
    Target("arrow-stream", _records("r.arrows"), lambda: _arrow(True), 2),
    Target("survey-database", _surveys, web.database_seeds, 0.4, 1 << 17),
    Target("genotype-table", _cohort("x.csv"), lambda: [_PEOPLE + b"sample,rs0,rs1\np0,1,0\np1,2,\n"], 1.5),
    Target("plink", _plink, lambda: [_PLINK], 1.5),
    Target("plink-2", _pgen, lambda: [_PGEN], 1.5),
    Target(
        "plink-tables", _plink_table, lambda: [b"FID IID D SEX\nf p0 1 M\nf p1 NA 2\n", b"##a\n#IID\tD\np0\t2\n"], 2
    ),
    Target("vcf", _cohort("x.vcf"), lambda: [_PEOPLE + _VCF], 0.005),
    Target("specification-toml", _specification(".toml"), lambda: [_TOML], 2),
    Target("specification-json", _specification(".json"), lambda: [_JSON], 2),
    Target("workload-toml", _workload(".toml"), lambda: [_TABLES_TOML], 1.5),
    Target("workload-json", _workload(".json"), lambda: [_TABLES], 1.5),
    Target("texts", _texts, lambda: [b"age=9:0.5\nsex=2", b"0.1,0.2,0.7"], 3),
    Target("plans", _plans, lambda: [optrr.plan({"a": 2, "b": 3}, 1.0).to_toml().encode()], 0.5),
    Target("proportions", _proportions, lambda: [_ESTIMATE, b"[0.1, 0.2]"], 2),
    Target("designs", _designs, _design_seeds, 0.5, 1 << 14),
    Target("longitudinal", _longitudinal_designs, _longitudinal_seeds, 0.05, 1 << 14),
    Target("deployments", _deployments, _deployment_seeds, 1.5, 1 << 14),
    Target("sampled-tables", _askings, lambda: [_SAMPLED, _MESSAGE], 2),
    Target("sidecars", _sidecars, _sidecar_seeds, 2),
    Target("metadata", _metadata, _metadata_seeds, 0.7),
    Target("keys", _keys, lambda: [commands.PRIVATE.encode(), commands.PUBLIC.encode(), b"0" * 64 + b"\n"], 2),
    Target("logs", _logs, _log_seeds, 1.5, 1 << 15),
    Target("report-bodies", web.bodies, web.body_seeds, 3),
    Target("requests", web.requests, web.request_seeds, 1.5),
    Target("commands", commands.feed, commands.seeds, 0.25),
)
