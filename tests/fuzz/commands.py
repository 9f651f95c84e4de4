"""The command line as a target: a command, its options and their values, one a line, among files of a small project."""

import contextlib
import io
import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import optrr
from optrr.cli.main import run
from optrr.longitudinal import Key, longitudinal

# These listen, take long by their nature, or start what they are told to.
_LEFT_OUT = ("serve", "demo", "study", "compare", "--command", "--query")
# Values in which a place outside the folder, or a network's, may hide.
_OUTSIDE = ("/", "\\", "~", "..", ":memory", "duckdb:", "sqlite:", "postgres")
_MOST_OUTPUT = 1 << 22
_SPEC = '{"attributes": [{"name": "sex", "categories": ["F", "M"]}, {"name": "age", "size": 3, "epsilon": 0.5}], "epsilon": 1}'
_RECORDS = "person,sex,age\n" + "".join(f"p{k},{'FM'[k % 2]},{k % 3}\n" for k in range(40))
_TRUE = "sex,age\n" + "".join(f"{'FM'[k % 2]},{k % 3}\n" for k in range(40))
_GENOTYPES = "sample,diagnosis,rs0,rs1\n" + "".join(
    f"p{k},{('ill', 'well')[k % 2]},{k % 3},{k % 2}\n" for k in range(20)
)


# A pair of keys for tests alone.
PRIVATE = """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
"""
PUBLIC = """-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
"""


@cache
def project() -> dict[str, bytes]:
    """Files by name: whatever the commands read."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "spec.json").write_text(_SPEC)
        (folder / "spec.toml").write_text('epsilon = 1\n[[attributes]]\nname = "sex"\ncategories = ["F", "M"]\n')
        (folder / "tables.json").write_text(json.dumps({"tables": [{"attributes": ["sex", "age"]}]}))
        (folder / "r.csv").write_text(_RECORDS)
        (folder / "t.csv").write_text(_TRUE)
        (folder / "x.csv").write_text(_GENOTYPES)
        made = optrr.design({"sex": ["F", "M"], "age": 3}, [1.0, 0.5])
        optrr.save(made, folder / "d.json")
        optrr.save(longitudinal({"sex": ["F", "M"], "age": 3}, 0.5, 2.0), folder / "long.json")
        Key.new().save(folder / "k")
        (folder / "key.pem").write_text(PRIVATE)
        (folder / "public.pem").write_text(PUBLIC)
        here = Path.cwd()
        os.chdir(folder)
        try:
            for line in _LINES_BEFORE:
                code, _, said = _said(line.split())
                assert code == 0, said
        finally:
            os.chdir(here)
        return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


_LINES_BEFORE = (
    "randomize t.csv --design d.json -o out.csv",
    "randomize t.csv --design d.json -o out.parquet",
    "export d.json -o s.json",
    "waves randomize r.csv --design long.json --secret k --id-column person --wave one -o one.csv",
    "waves randomize r.csv --design long.json --secret k --id-column person --wave two -o two.csv",
    "gwas design x.csv --phenotype-column diagnosis --case ill --id-column sample --total-epsilon 4 -o g.json",
    "gwas randomize x.csv --phenotype-column diagnosis --case ill --id-column sample --design g.json -o gout.csv",
)
_LINES = (
    *_LINES_BEFORE,
    "plan spec.toml --total-epsilon 1 --n 500 --protocol optimum -o p --write --json",
    "spec r.csv -o new.toml --bins age=2 --missing NA --rare 3 --json",
    "design spec.json -o new.json --method auto --preserve pairs --conditional-cap 3 --json",
    "design --attribute a=3:0.5 --attribute b=4:1 --total-epsilon 2 --tolerance 1e-6 --time-limit 1",
    "allocate spec.json --total-epsilon 2 --workload tables.json -o new.json --json",
    "randomize t.csv --design d.json -o new.csv --after out.csv --limit 9 --random-state 5 --json",
    "estimate out.csv --design d.json --attributes sex,age --method norm-sub --confidence 0.9 --simultaneous --json",
    "estimate out.parquet --design d.json --attributes sex --method unbiased --fakes 3",
    "test out.csv --design d.json --attributes sex,age --hypothesis independence --json",
    "test out.csv --design d.json --attributes sex --hypothesis goodness-of-fit --proportions 0.5,0.5",
    "estimate out.csv --design d.json --attributes sex,age --statistic means --scores age=1,2,3 --json",
    "model out.csv --design d.json --attributes sex,age --terms sex+age --json",
    "power --design d.json --attributes sex,age --proportions 0.2,0.1,0.2,0.1,0.2,0.2 --json",
    "cluster out.csv --design d.json --max-combinations 6 --min-dependence 0.1 --json",
    "export d.json --form matrix --attributes sex,age -o m.csv",
    "export d.json --form events --attributes sex -o m.json",
    "account out.csv out.parquet --limit 3 --json",
    "verify d.json --json",
    "verify s.json --design d.json",
    "verify long.json --public-key public.pem",
    "audit d.json --n 200 --alpha 0.01 --json",
    "sign d.json --private-key key.pem --json",
    "verify d.json --worksheet new.md --n 100 --json",
    "waves design spec.json --lifetime-epsilon 4 --report-epsilon 1 -o new.json --json",
    "waves estimate one.csv two.csv --design long.json --id-column person --attributes sex,age --change --json",
    "gwas scan gout.csv --design g.json --test trend --maf 0.05 --hwe 1e-6 --json",
    "gwas variants gout.csv --design g.json --by-status --json",
    "estimate one.csv --design long.json --attributes sex --format csv --delimiter ; --encoding latin-1",
)  # fmt: skip


def seeds() -> list[bytes]:
    """Every command with most of its options."""
    return ["\n".join(line.split()).encode() for line in _LINES]


def feed(data: bytes, folder: Path) -> None:
    """A command ends with 0, 1 or 2, and with one line where it refuses."""
    # no shell can give a program a zero byte
    arguments = data.replace(b"\0", b"").decode("utf-8", "surrogateescape").split("\n")
    if any(word in argument for argument in arguments for word in (*_LEFT_OUT, *_OUTSIDE)):
        return
    if "plan" in arguments and "--write" not in arguments:
        return  # a page is served until somebody ends it
    for name, content in project().items():
        (folder / name).write_bytes(content)
    code, out, said = _said(arguments)
    assert code in (0, 1, 2), code
    assert len(out) + len(said) < _MOST_OUTPUT, f"{len(out) + len(said)} characters of output"
    # atheris tells of each module that it prepares
    errors = [line for line in said.splitlines() if not line.startswith(("warning: ", "INFO: Instrumenting"))]
    assert code != 2 or (len(errors) == 1 and errors[0].startswith("error: ")), said[:1000]
    if "--json" in arguments and code == 0 and out.startswith("{"):
        json.loads(out)
    for each in folder.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        elif each.name not in project():
            each.unlink()


def _said(arguments: list[str]) -> tuple[int, str, str]:
    out, error = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = run(arguments)
    return code, *(stream.buffer.getvalue().decode() for stream in (out, error))  # type: ignore[attr-defined]
