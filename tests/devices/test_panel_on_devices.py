"""A panel's deployment file: exported as any design's is, drawn by the JavaScript client, and scanned."""

import json
from pathlib import Path

import pytest
from javascript import run as javascript

from optrr.cli.main import run
from optrr.core.design.design_file import save_design
from optrr.core.design.designs import Design
from optrr.genomics import Budget, GenomicDesign, Wanted, genomic_design

ALLELES = (("A", "G"), ("C", "T"), ("G", "A"))


def panel(variants: int, total: float, missing: bool = False) -> Design:
    """Variants that name their alleles."""
    names = [f"rs{k + 1}" for k in range(variants)]
    alleles = [ALLELES[k % 3] for k in range(variants)]
    return genomic_design(Wanted(names, missing=missing, alleles=alleles), Budget(total))


def exported(design: Design, folder: Path, *more: str) -> dict:
    """The deployment file, after optrr verify."""
    save_design(design, folder / "d.json")
    assert run(["export", str(folder / "d.json"), "-o", str(folder / "s.json"), *more]) == 0
    beside = folder / "s.design.json"
    used = beside if beside.exists() else folder / "d.json"
    assert run(["verify", str(folder / "s.json"), "--design", str(used)]) == 0
    return json.loads((folder / "s.json").read_text())


@pytest.mark.slow
def test_the_javascript_clients_reports_are_collected(tmp_path):
    """What answerOnce returns is what a scan reads."""
    design = panel(4, 3.0, missing=True)
    content = exported(design, tmp_path)
    assert float(content["epsilon"]["total"]) == pytest.approx(design.epsilon, abs=2e-9)
    assert content["attributes"][1] == {"name": "rs1", "categories": ["G/G", "A/G", "A/A", None]}
    store = tmp_path / "store.mjs"
    store.write_text(
        "const kept = new Map();\n"
        "export const fileStore = () => ({ all: async () => [...kept.values()], update: async (key, change) => {\n"
        "  const changed = change(kept.get(key), [...kept.values()]); kept.set(key, changed); return changed; } });\n"
    )
    given = {"deployments": [(tmp_path / "s.json").read_text()], "storeModule": store.as_uri(), "path": ""}
    report = javascript("answering", given)["rounds"][0]["report"]
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "javascript.json").write_text(json.dumps(report))
    own = [a.texts.index(v) for a, v in zip(design.domain, report["values"], strict=True)]
    assert GenomicDesign(design).collected(tmp_path / "reports").rows.tolist() == [own]


@pytest.mark.slow
def test_two_hundred_variants_cost_a_hundredth_more_at_most(tmp_path, capsys):
    """In a file of a few kilobytes, by trials of a ball, which the JavaScript client draws."""
    design = panel(200, 4.0)
    content = exported(design, tmp_path)
    assert "estimate with" in capsys.readouterr().err
    assert design.epsilon < float(content["epsilon"]["total"]) < 1.01 * design.epsilon
    assert (tmp_path / "s.json").stat().st_size < 1 << 16
    record = [a["categories"][0] for a in content["attributes"]]
    given = {"deployment": (tmp_path / "s.json").read_text(), "record": record, "count": 3, "pooled": False}
    assert all(len(values) == 201 for values, _ in javascript("draws", given))


@pytest.mark.slow
def test_a_design_for_association_is_not_for_devices_and_says_what_takes_it(tmp_path, capsys):
    (tmp_path / "g.csv").write_text("rs1,rs2\n0,1\n1,2\n")
    asked = ["--total-epsilon", "1", "--for", "association", "-o", str(tmp_path / "q.json")]
    assert run(["gwas", "design", str(tmp_path / "g.csv"), *asked]) == 0
    capsys.readouterr()
    assert run(["export", str(tmp_path / "q.json"), "-o", str(tmp_path / "s.json")]) == 2
    assert "which gwas randomize, gwas scan and verify support" in capsys.readouterr().err
