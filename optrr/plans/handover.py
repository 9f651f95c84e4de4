"""What a plan hands over: one folder with everything from the specification to the analysis, whole or not at all.

Files of an earlier plan are replaced, and no others. ``sampler.design.json`` is there where the sampler's law is another one
than the design's, and ``tables.toml`` where the tables have no name of their own.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from optrr import files
from optrr.designs.design import Asking, Design
from optrr.designs.specification import toml_text
from optrr.errors import InvalidInput
from optrr.plans.plan_file import digest_of, is_plan, read_plan
from optrr.plans.preview import Preview
from optrr.records.whole_files import whole_files
from optrr.show.text import brief
from optrr.ways.protocols.sampled_tables import SampledTables

_PLAN = "plan.toml"
_TABLES = "tables.toml"
# What each file is, as README.txt says.
_ABOUT = {
    _PLAN: "the decision: what was asked, what else was considered, the choice and its reason.\n"
    "  Recompute it: optrr plan --check plan.toml",
    "specification.toml": "the questions, their answers and their texts.",
    _TABLES: "the tables that are wanted, for optrr allocate --workload.",
    "design.json": "the way of asking.  Recompute its numbers: optrr verify design.json\n"
    "  Ask on a web page: optrr serve design.json --wording specification.toml\n"
    "  Randomize a file: optrr perturb true.csv --design design.json -o reports.parquet\n"
    "  Estimate a table: optrr estimate reports.parquet --design design.json --attributes {names}",
    "sampler.json": "what a device needs to randomize for one person (docs/deployment-format.md).",
    "sampler.design.json": "estimate what devices send with this one: python analysis.py reports.parquet sampler.design.json",
    "statement.html": "for the ethics board; it prints on two sheets.",
    "analysis.py": "every table with intervals, and a test of each pair: python analysis.py reports.parquet",
}
_NAMES = (*_ABOUT, "README.txt")
_ANALYSIS = '''"""Every table of the plan with 95 % intervals, and a test of each pair.

    python analysis.py [reports.parquet [design.json]]

The reports are what optrr perturb wrote, or what a survey's results offer for download. The tables are printed, and written
to results.json beside the reports.
"""

import json
import sys
from pathlib import Path

import optrr

HERE = Path(__file__).parent
TABLES = {tables}


def main(records=HERE / "reports.parquet", design=HERE / "design.json"):
    """The tables and the tests, printed and written."""
    reports = optrr.reports(records, design)
    tables = [reports.table(*names) for names in TABLES]
    tests = [reports.test(*names) for names in TABLES if len(names) == 2]
    for table in tables:
        print(table.headline())
        for *cell, estimate, _, lower, upper in (row.values() for row in table.to_arrow().to_pylist()):
            shares = f"{{100 * estimate:.1f}} %, from {{100 * lower:.1f}} to {{100 * upper:.1f}}"
            print(f"    {{' × '.join(map(str, cell))}}: {{shares}}")
    for test in tests:
        print(test.headline())
    results = {{"tables": [each.summary() for each in tables], "tests": [each.summary() for each in tests]}}
    Path(records).with_name("results.json").write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
'''


def hand_over(folder: str | Path, preview: Preview, asking: Asking, toml: str, statement: str) -> tuple[Path, ...]:
    """Write everything into a folder, which is made where it is missing; returns the files, the plan first.

    ``toml`` is the decision, and ``statement`` the page for the board, as HTML.

    Raises InvalidInput where a file of one of these names is no plan's, where reports may have been gathered by the plan that
    stands there, and where the way of asking is for studies and has no file.
    """
    place = Path(folder)
    if not isinstance(asking, Design | SampledTables):
        raise InvalidInput(
            f"way {preview.point.way.name!r} is for studies and has no file; choose another way of asking"
        )
    refuse_foreign(place, digest_of(asking))
    with TemporaryDirectory(prefix="optrr-plan-") as name:
        made = Path(name)
        (made / _PLAN).write_text(toml, encoding="utf-8")
        (made / "statement.html").write_text(statement, encoding="utf-8")
        _write(made, preview, asking)
        written = [each for each in _NAMES if (made / each).exists()]
        new = not place.exists()
        try:
            place.mkdir(exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"cannot make the folder {place}: {error.strerror}; choose another") from error
        try:
            with whole_files([place / each for each in written]) as paths:
                for path in paths:
                    shutil.copyfile(made / path.name, path)
        except BaseException:
            if new and not any(place.iterdir()):
                place.rmdir()
            raise
    for each in _NAMES:
        # an earlier plan's, which this one does not need
        if each not in written:
            (place / each).unlink(missing_ok=True)
    return tuple(place / each for each in written)


def refuse_foreign(place: Path, digest: str | None = None) -> None:
    """Raise InvalidInput where what no plan wrote would be lost, or, given a digest, another design that reports may need."""
    if place.exists() and not place.is_dir():
        raise InvalidInput(f"{place} is a file; name a folder for the plan")
    there = [name for name in _NAMES if (place / name).exists()]
    if not there:
        return
    if not is_plan(place / _PLAN):
        raise InvalidInput(f"{place / there[0]} was written by no plan and would be lost; choose another folder")
    others = sorted(
        each.name for each in place.iterdir() if each.name not in _NAMES and not each.name.startswith((".", "_"))
    )
    if others and digest is not None and read_plan(place / _PLAN).choice.get("digest") != digest:
        raise InvalidInput(
            f"{place} holds {brief(others[0])} beside another plan, whose reports may need its design; choose another folder"
        )


def _write(made: Path, preview: Preview, asking: Design | SampledTables) -> None:
    question = preview.question
    (made / "specification.toml").write_text(question.specification.to_toml(), encoding="utf-8")
    if question.learn.name not in ("marginals", "pairs"):
        wanted = [{"attributes": list(t.attributes)} for t in question.learn.tables]
        (made / _TABLES).write_text(toml_text({"tables": wanted}), encoding="utf-8")
    files.save(asking, made / "design.json")
    refusal = ""
    try:
        files.export(asking, made / "sampler.json")
    except InvalidInput as error:
        refusal = f"sampler.json is missing: {error}\n"
    known = [table.attributes for table in preview.point.tables if table.error < float("inf")]
    tables = "[\n" + "".join(f"    {tuple(names)!r},\n" for names in known) + "]"
    (made / "analysis.py").write_text(_ANALYSIS.format(tables=tables), encoding="utf-8")
    named = ",".join(name.replace(",", ",,") for name in known[0]) if known else "NAME"
    lines = [f"{name}: {about.replace('{names}', named)}\n" for name, about in _ABOUT.items() if (made / name).exists()]
    (made / "README.txt").write_text("".join(lines) + refusal, encoding="utf-8")
