"""One randomized file has one statistic and one p-value, whether `optrr test` or `optrr gwas` looks at it."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from scipy.stats import chi2_contingency

from optrr.cli.main import run
from optrr.designs.design_file import save_design
from optrr.domain.domain import Domain
from optrr.genomics.designing import Budget, Wanted, genomic_design
from optrr.genomics.layout import star_kernel
from optrr.genomics.tests import score_test
from optrr.mechanisms.kernel import unrandomized
from optrr.models.tests.power_analysis import alternative_of
from optrr.models.tests.testing import GENOTYPE_TESTS
from optrr.models.tests.testing import test as pair_test
from optrr.records.counts import Counts

VARIANTS = ["common", "rare", "strong", "none"]
# A1's frequency in controls and cases.
FREQUENCIES = {"common": (0.30, 0.33), "rare": (0.01, 0.02), "strong": (0.15, 0.40), "none": (0.4, 0.4)}


def answers(capsys: pytest.CaptureFixture, *arguments: str) -> dict:
    assert run(list(arguments)) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module", params=["auto", "kronecker"])
def design(request):
    return genomic_design(Wanted(VARIANTS, method=request.param), Budget(variants=2.5, status=3.0))


def true_records(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    status = (rng.random(n) < 0.3).astype(int)
    f = np.array([FREQUENCIES[v] for v in VARIANTS])[:, status].T
    return np.concatenate([status[:, None], rng.binomial(2, f)], axis=1).astype(np.int8)


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 20_000])
def test_the_commands_print_the_same(design, n, tmp_path, capsys):
    records = design.mechanism.perturb_codes(true_records(n, 1), random_state=2)
    columns = {name: records[:, k] for k, name in enumerate(design.domain.names)}
    columns["status"] = np.array(["control", "case"])[columns["status"]]
    table = pa.table(columns)
    save_design(design, tmp_path / "d.json")
    pa_csv.write_csv(table, tmp_path / "pairs.csv")
    named = table.append_column("sample", pa.array([f"p{k}" for k in range(n)]))
    pa_csv.write_csv(named, tmp_path / "people.csv")
    for name in GENOTYPE_TESTS:
        scan = answers(
            capsys, "gwas", str(tmp_path / "people.csv"), "--design", str(tmp_path / "d.json"), "--test", name, "--json"
        )
        assert len(scan["top"]) == len(VARIANTS)
        for row in scan["top"]:
            one = answers(
                capsys, "test", str(tmp_path / "pairs.csv"), "--design", str(tmp_path / "d.json"),
                "--attributes", f"{row['SNP']},status", "--test", name, "--json",
            )  # fmt: skip
            assert row["STAT"] == pytest.approx(one["statistic"], rel=1e-9)
            assert row["P"] == pytest.approx(one["p_value"], rel=1e-9)


@pytest.mark.parametrize("n", [300, 3000, 1_000_000])
def test_one_table_and_a_scan_agree(design, n):
    """Weak to overwhelming, rare and common, sparse where the χ² limit is far off: drawn tables of every strength."""
    rng = np.random.default_rng(3)
    center = design.domain.index("status")
    kernel = star_kernel(design.law, np.array([design.domain.index(v) for v in VARIANTS]), center)
    f = np.array([FREQUENCIES[v] for v in VARIANTS])
    shares = np.stack([(1 - f) ** 2, 2 * f * (1 - f), f**2], axis=1) * [0.9, 0.1]
    # between no association and a stronger one than the one stated
    for strength in (0.0, 1.0, 1.5):
        mean = shares.sum(axis=2, keepdims=True) * [0.9, 0.1]
        true = np.maximum(mean + strength * (shares - mean), 0)
        law = kernel.forward(true / true.sum(axis=(1, 2), keepdims=True)).reshape(-1, 6)
        counts = rng.multinomial(n, law / law.sum(axis=1, keepdims=True)).reshape(-1, 3, 2)
        for name in GENOTYPE_TESTS:
            scan = score_test(counts, kernel, name)
            for k, variant in enumerate(VARIANTS):
                pair = Counts(design.domain.subset([variant, "status"]), counts[k])
                one = pair_test(pair, design.mechanism, name)
                assert scan.statistic[k] == pytest.approx(one.statistic, rel=1e-9, abs=1e-12)
                assert scan.p_value[k] == pytest.approx(one.p_value, rel=1e-9, abs=1e-300)


def test_a_genotype_that_nobody_has_takes_no_degree_of_freedom():
    domain = Domain.of({"g": 3, "status": 2})
    for table in ([[300, 250], [90, 130], [0, 0]], [[0, 0], [90, 130], [300, 250]], [[300, 250], [0, 0], [90, 130]]):
        tested = pair_test(Counts(domain, np.array(table)), unrandomized((3, 2)), "genotypic")
        pearson = chi2_contingency([row for row in table if sum(row)], correction=False)
        assert tested.df == 1 and any("does not show" in w for w in tested.warnings)
        assert tested.statistic == pytest.approx(pearson.statistic, rel=1e-6)
        planned = alternative_of("genotypic", np.array(table) / np.sum(table), unrandomized((3, 2)))
        assert planned.df == 1
        assert planned.noncentrality * np.sum(table) == pytest.approx(pearson.statistic, rel=1e-4)
