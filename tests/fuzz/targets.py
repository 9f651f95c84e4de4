"""What is fuzzed: everything that reads what others wrote. A target takes bytes; refusing them in one line is right."""

import io
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

import optrr
from optrr.allocation.sampled_tables import SampledTables, load_asking, load_sampled_tables
from optrr.allocation.sampled_uses import questions_of
from optrr.allocation.workload import workload_of
from optrr.cli.inputs import read_proportions
from optrr.core.design import design_file
from optrr.core.design.design_file import encoded_design
from optrr.core.design.designs import Design
from optrr.core.design.signing import sign_file, signature_check
from optrr.core.design.specification import Specification, parse_attributes, read_specification
from optrr.core.domain.domain import Domain
from optrr.core.errors import OptrrError
from optrr.core.files import verify
from optrr.core.provenance.accounting import Release
from optrr.core.provenance.provenance import Provenance, sidecar_path
from optrr.core.provenance.sealed import sha256_of
from optrr.core.records.counts import count
from optrr.core.records.reading.registry import origins_of
from optrr.core.records.reading.source import RecordsAt
from optrr.devices.deployment_file import canonical, digest_of
from optrr.devices.export import deployment_of
from optrr.devices.planting import answered_codes
from optrr.devices.verify import load_deployment, verify_deployment
from optrr.genomics.cohort import read_cohort
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.longitudinal import Key, longitudinal, verify_longitudinal
from optrr.longitudinal import design as longitudinal_file
from optrr.longitudinal.design import load_longitudinal
from optrr.planner.plan_file import read_plan
from optrr_solvers.allocation.questions import SubsetReport
from tests.fuzz import commands, web
from tests.fuzz.engine import Feed
from tests.fuzz.kept import kept

DOMAIN = Domain.of({"sex": ["F", "M"], "age": 5, "answer": ["yes", "no", None]})
TABLE = b"sex,age,answer,other\nF,0,yes,1\nM,4,no,2\nF,2,,3\n"
RELEASE = Release("sha256:" + "0" * 64, "flip pattern", 1.5, id="1" * 32)
NOTE = Provenance(RELEASE).to_json()


@dataclass(frozen=True)
class Target:
    """Something that reads: ``share`` of all inputs, relative to the others', and the longest input in bytes."""

    name: str
    feed: Feed
    share: float = 1.0
    longest: int = 4096
    # beside the kept ones, inputs to start from that are made by this version
    seeds: Callable[[], list[bytes]] = list

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
            assert "\n" not in text and len(text) < 4000, f"a message of {len(text)} characters"


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def reads(name: str, *calls: Callable[[Path], object], reseal: Callable[[bytes], bytes] = bytes) -> Feed:
    """A file of this name, as it is and with the digest that it should have, for each of these readers."""

    def feed(data: bytes, folder: Path) -> None:
        for each in dict.fromkeys([data, reseal(data)]):
            path = written(folder, name, each)
            refusing(*(partial(call, path) for call in calls))

    return feed


RECORDS = (
    lambda path: count(path, DOMAIN, ["sex", "age"], allow_extra=True),
    lambda path: count(path, DOMAIN, DOMAIN.names),
    Specification.from_frame,
    origins_of,
)


def workload(name: str) -> Feed:
    return reads(
        name,
        lambda path: workload_of(path, DOMAIN).arrays(DOMAIN),
        lambda path: workload_of(path, DOMAIN).limits(DOMAIN, workload_of(path, DOMAIN).arrays(DOMAIN), 1000),
    )


def panel(*suffixes: str) -> Feed:
    """Three files, divided by lines of three dashes."""

    def feed(data: bytes, folder: Path) -> None:
        for suffix, part in zip(suffixes, [*data.split(b"\n---\n", 2), b"", b""][:3], strict=True):
            written(folder, f"x{suffix}", part)
        refusing(lambda: [list(read_cohort(folder / f"x{suffixes[-1]}").blocks())])

    return feed


def _dialects(data: bytes, folder: Path) -> None:
    """A first line that says delimiter and encoding, then the file."""
    head, _, rest = data.partition(b"\n")
    delimiter, _, encoding = head.decode("utf-8", "replace").partition(" ")
    place = RecordsAt(written(folder, "said.csv", rest), delimiter=delimiter or None, encoding=encoding or None)
    refusing(lambda: count(place, DOMAIN, ["sex"], allow_extra=True))


def _plink_table(data: bytes, folder: Path) -> None:
    table, genotypes = written(folder, "x.pheno", data), written(folder, "x.csv", b"sample,rs0\np0,1\np1,2\n")
    refusing(lambda: read_cohort(genotypes, PhenotypeColumns(table, column="D")).status)


def _cohort(name: str) -> Feed:
    def feed(data: bytes, folder: Path) -> None:
        table, _, genotypes = data.partition(b"\n---\n")
        people = written(folder, "people.csv", table)
        phenotype = PhenotypeColumns(people, None, "diagnosis", ("ill",))
        refusing(lambda: list(read_cohort(written(folder, name, genotypes), phenotype).blocks()))

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
    written(folder, "d.json.sig", data)
    refusing(
        lambda: signature_check(design, key),
        lambda: sign_file(design, key, lambda: "passphrase"),
        lambda: Key.load(key),
    )


def _answers(data: bytes, folder: Path) -> None:
    del folder
    lines = data.splitlines()
    refusing(lambda: answered_codes(lines, DOMAIN, len(lines), "client"))


@cache
def table() -> pa.Table:
    rows = pa.table({"sex": ["F", "M", "F"], "age": [0, 4, 2], "answer": ["yes", None, "no"]})
    return rows.replace_schema_metadata(Provenance(RELEASE).metadata())


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
        optrr.design(
            DOMAIN, [1.0, 0.5, 2.0], constraints=optrr.Constraints(preserve="pairs", conditional_cap={"age": 0.8})
        ),
        optrr.design({f"a{i}": 3 for i in range(4)}, 0.5),
        optrr.design(DOMAIN, 1.0, method="kronecker"),
        optrr.design({f"a{i}": 2 + i for i in range(4)}, [0.4, 0.6, 0.8, 1.0], method="ball"),
        optrr.design({f"a{i}": 2 + i for i in range(4)}, 0.5, method="inductive"),
    ]


def _longitudinal_seeds() -> list[bytes]:
    return [_saved(partial(optrr.save, longitudinal({"a": 2, "b": 3}, 0.5, 2.0)))]


def _deployment_seeds() -> list[bytes]:
    reports = (SubsetReport((1, 2), (1, 3)), SubsetReport((2,)))
    domain = Domain.of({"a": 3, "b": ["x", "y", None]})
    asking = SampledTables(domain, (("a", "b"), ("b",)), np.array([0.5, 0.5]), 1.0, reports)
    return [*(deployment_of(d.mechanism).to_bytes() for d in _some_designs()), questions_of(asking).to_bytes()]


# Answers of a client.
_ANSWERS = b'{"values":["F","3",null]}\n["M",4,"yes"]\n'


# Inputs that take long are fewer: a command takes ten times as long as a table, and a report's body a tenth.
TARGETS = (
    *(Target(name, reads(f"r.{name}", *RECORDS), 0.7) for name in ("csv", "jsonl")),
    *(Target(name, reads(f"r.{name}", *RECORDS), 0.25) for name in ("csv.gz", "csv.bz2", "csv.zst")),
    Target("dialects", _dialects, 0.7),
    Target("parquet", reads("r.parquet", *RECORDS), 2, seeds=_parquet),
    Target("arrow", reads("r.arrow", *RECORDS), 2, seeds=lambda: _arrow(False)),
    Target("arrow-stream", reads("r.arrows", *RECORDS), 2, seeds=lambda: _arrow(True)),
    Target("survey-database", reads("survey.db", RECORDS[0], origins_of), 0.4, 1 << 17, web.database_seeds),
    Target("genotype-table", _cohort("x.csv"), 1.5),
    Target("plink", panel(".bim", ".fam", ".bed"), 1.5),
    Target("plink-2", panel(".pvar", ".psam", ".pgen"), 1.5),
    Target("plink-tables", _plink_table, 2),
    Target("vcf", _cohort("x.vcf"), 0.005),
    Target("specification-toml", reads("spec.toml", lambda path: read_specification(path).to_toml()), 2),
    Target("specification-json", reads("spec.json", lambda path: read_specification(path).to_toml()), 2),
    Target("workload-toml", workload("workload.toml"), 1.5),
    Target("workload-json", workload("workload.json"), 1.5),
    Target("texts", _texts, 3),
    Target(
        "plans",
        reads("plan.toml", read_plan),
        0.5,
        seeds=lambda: [optrr.plan({"a": 2, "b": 3}, 1.0).to_toml().encode()],
    ),
    Target("proportions", reads("p.json", lambda path: read_proportions(str(path), DOMAIN)), 2),
    Target(
        "designs",
        reads("d.json", verify, load_asking, reseal=_resealed_design),
        0.5,
        1 << 14,
        lambda: [*map(encoded_design, _some_designs())],
    ),
    Target(
        "longitudinal",
        reads("long.json", verify_longitudinal, load_longitudinal, reseal=_resealed_longitudinal),
        *(0.05, 1 << 14, _longitudinal_seeds),
    ),
    Target(
        "deployments",
        reads("s.json", verify_deployment, load_deployment, reseal=_resealed_deployment),
        *(1.5, 1 << 14, _deployment_seeds),
    ),
    Target("sampled-tables", reads("a.json", load_sampled_tables), 2),
    Target("sidecars", _sidecars, 2, seeds=lambda: [Provenance(RELEASE, (RELEASE,)).to_json().encode()]),
    Target("metadata", _metadata, 0.7, seeds=lambda: [NOTE.encode(), b"p" + json.dumps({"optrr": NOTE}).encode()]),
    Target("keys", _keys, 2, seeds=lambda: [commands.PRIVATE.encode(), commands.PUBLIC.encode(), b"0" * 64 + b"\n"]),
    Target("answers", _answers, 1.5, 1 << 15, lambda: [_ANSWERS]),
    Target("report-bodies", web.bodies, 3, seeds=web.body_seeds),
    Target("claims", web.claims, 1, seeds=web.claim_seeds),
    Target("requests", web.requests, 1.5, seeds=web.request_seeds),
    Target("commands", commands.feed, 0.25, seeds=commands.seeds),
)
