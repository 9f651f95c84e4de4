"""What a scan will see, against people who are drawn, randomized and scanned; one statistic for one file."""

import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from scipy.stats import chi2_contingency, norm

from optrr import genomics
from optrr.cli.main import run
from optrr.core.design.design_file import save_design
from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.inference.power_analysis import alternative_of, power
from optrr.core.inference.testing import test as pair_test
from optrr.core.mechanisms.kernel import unrandomized
from optrr.core.records.counts import Counts
from optrr.genomics.designing import sampled_variants
from optrr.genomics.layout import star_kernel
from optrr.genomics.power import people_needed, power_seen, smallest_odds
from optrr.genomics.power import tests_of as tests_seen
from optrr.genomics.score_tests import genotype_tests, score_test

LEVELS = (0.05, 5e-8)


def drawn_cohort(rng, people, variants, cases, frequency, odds):
    """Two alleles a person, each on its own: of cases more often the risk allele, by its odds ratio."""
    status = (rng.random(people) < cases).astype(np.int8)
    raised = frequency * odds / (1 - frequency + frequency * odds)
    genotypes = rng.binomial(2, np.where(status == 1, raised, frequency)[:, None], (people, variants)).astype(np.int8)
    names = genomics.Variants.named([f"v{k}" for k in range(variants)])
    who = np.array([f"p{k}" for k in range(people)], dtype=object)
    return genomics.Cohort(genomics.MatrixGenotypes(names, who, genotypes), np.arange(people), status)


def test_table_is_of_independent_alleles():
    scan = genomics.PlannedScan(100, 0.3)
    table = scan.table(2.5, 0.2)
    raised = 0.2 * 2.5 / (0.8 + 0.2 * 2.5)
    for status, (share, f) in enumerate([(0.7, 0.2), (0.3, raised)]):
        np.testing.assert_allclose(table[:, status], share * np.array([(1 - f) ** 2, 2 * f * (1 - f), f**2]))
    # a frequent risk allele is the other one
    np.testing.assert_allclose(scan.table(2.0, 0.8)[0, 0], 0.7 * 0.8**2)


@pytest.mark.parametrize(("frequency", "cases"), [(0.05, 0.5), (0.3, 0.2), (0.5, 0.5)])
def test_without_randomization_it_is_armitages_test(frequency, cases):
    """Smallest odds ratio and people needed, against the trend test's textbook formula on drawn tables.

    4,000 tables: a standard error of .63 points at 80 %; a false alarm, beyond 2.5 points, in 7e-5 of the seeds.
    """
    rng = np.random.default_rng(4)
    cohort = drawn_cohort(rng, 10, 1, cases, frequency, 1.0)
    test = tests_seen(genomics.design(cohort, 50.0).design)[0]
    scan = genomics.PlannedScan(2000, cases, (frequency,), odds_ratio=1.5)
    for level in LEVELS:
        odds = smallest_odds(test, scan, frequency, level)
        asked = people_needed(test, scan, frequency, level)
        for n, ratio in ((scan.people, odds), (int(asked), scan.odds_ratio)):
            f = frequency * ratio / (1 - frequency + frequency * ratio)
            laws = [
                s * np.array([(1 - x) ** 2, 2 * x * (1 - x), x**2]) for s, x in ((1 - cases, frequency), (cases, f))
            ]
            counts = rng.multinomial(n, np.concatenate(laws), size=4000).reshape(-1, 2, 3).astype(float)
            g, total = np.arange(3), counts.sum(axis=1)
            share = counts[:, 1].sum(axis=1) / n
            effect = counts[:, 1] @ g - share * (total @ g)
            variance = share * (1 - share) * (total @ g**2 - (total @ g) ** 2 / n)
            seen = np.mean(effect**2 / variance >= norm.isf(level / 2) ** 2)
            assert seen == pytest.approx(0.8, abs=0.025)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "total", "people", "frequency", "level"),
    [
        ("association", 2.0, 6000, 0.2, 0.05),
        ("association", 8.0, 3000, 0.05, 5e-8),
        ("association", 6.0, 2000, 0.5, 0.05),
        ("optimum", 8.0, 3000, 0.3, 0.05),
        ("optimum", 16.0, 2000, 0.05, 5e-8),
        ("association", 0.5, 2000, 0.2, 0.05),
    ],
)
def test_power_is_that_of_the_scan(way, total, people, frequency, level):
    """60 scans of 20 variants: standard error 1.2 points at 80 %, 1.4 with what the runs share; beyond 5 points in 4e-4."""
    rng = np.random.default_rng(5)
    cases, variants = 0.4, 20
    some = drawn_cohort(rng, 20, variants, cases, frequency, 1.0)
    made = genomics.association_design(some, total) if way == "association" else genomics.design(some, total)
    test = tests_seen(made.design)[0]
    scan = genomics.PlannedScan(people, cases, (frequency,))
    odds = smallest_odds(test, scan, frequency, level)
    at = odds if math.isfinite(odds) else 5.0
    predicted = power_seen(test, scan, at, frequency, level)
    p = [
        made.randomize(drawn_cohort(rng, people, variants, cases, frequency, at), random_state=rng)
        .scan()
        .scores.p_value
        for _ in range(60)
    ]
    assert math.isfinite(odds) == (total > 0.5)
    assert np.mean(np.concatenate(p) <= level) == pytest.approx(predicted, abs=0.05)
    if math.isfinite(odds):
        assert predicted == pytest.approx(0.8, abs=0.02)


@pytest.mark.slow
def test_people_needed_are_enough():
    """Few see a strong effect, where answers are rare: by drawn surveys with the test's own p-values."""
    for total in (1.0, 8.0):
        test = tests_seen(sampled_variants(genomics.Wanted(["a", "b", "c"]), total))[0]
        scan = genomics.PlannedScan(1000, odds_ratio=2.0)
        for level in LEVELS:
            n = int(people_needed(test, scan, 0.2, level))
            effect = test.effect(scan.table(2.0, 0.2), n)
            assert effect.surveys is not None
            assert power(replace(effect, surveys=None), n, level) == pytest.approx(0.8, abs=0.01)
            assert effect.surveys.power(n, level).power == pytest.approx(0.8, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variants", "total", "plan"),
    [(90, 8.0, genomics.PlannedScan(1580, alpha=5e-8)), (400, 2.0, genomics.PlannedScan(20_000, frequencies=(0.3,)))],
)
def test_the_sentence_proposes_just_enough(variants, total, plan):
    """Scans of what it proposes see an odds ratio of 5, and those of a fifth more variants or a tenth less ε do not."""
    names = [f"v{k}" for k in range(variants)]

    def smallest(count, epsilon):
        ways = (
            sampled_variants(genomics.Wanted(names[:count]), epsilon),
            genomics.genomic_design(genomics.Wanted(names[:count]), genomics.Budget(epsilon)),
        )
        level = plan.alpha or 0.05 / count
        return min(smallest_odds(tests_seen(way)[0], plan, f, level) for way in ways for f in plan.frequencies)

    said = genomics.sight(genomics.Wanted(names), total, plan).said
    assert "no odds ratio below 5 is detectable" in said
    fewer, enough = int(said.split("use at most ")[1].split(",")[0]), float(said.split("raise ε to ")[1])
    for count, epsilon in ((fewer, total), (variants, enough)):
        assert smallest(count, epsilon) < 5
    for count, epsilon in ((int(1.2 * fewer) + 1, total), (variants, 0.9 * enough)):
        assert smallest(count, epsilon) > 5


@pytest.mark.slow
def test_compared_ways_and_rows():
    wanted = genomics.Wanted([f"v{k}" for k in range(6)])
    made = {"mine": sampled_variants(wanted, 4.0)}
    seen = genomics.sight(wanted, 4.0, genomics.PlannedScan(4000, frequencies=(0.1, 0.4)), made=made)
    frame = seen.to_pandas()
    assert list(frame["way"].unique()) == ["mine", "optimum", "association"]
    assert (frame["kept"] < 1).all()
    np.testing.assert_allclose(frame["effective_people"], 4000 * frame["kept"])
    for what in ("odds", "people"):
        assert (frame[f"{what}_5pct"] < frame[f"{what}_alpha"]).all()
        assert (frame[f"{what}_alpha"] < frame[f"{what}_genome_wide"]).all()
    assert seen.alpha == pytest.approx(0.05 / 6) and len(seen.summary()["rows"]) == 6
    # more people see smaller odds ratios
    more = genomics.sight(wanted, 4.0, genomics.PlannedScan(40_000, frequencies=(0.1, 0.4)), made=made).to_pandas()
    assert (more["odds_5pct"] < frame["odds_5pct"]).all()


@pytest.mark.slow
def test_nothing_helps():
    seen = genomics.sight(genomics.Wanted([f"v{k}" for k in range(3000)]), 1.0, genomics.PlannedScan(100))
    assert "no ε up to 50 suffices" in seen.said
    assert all(row["odds_genome_wide"] is None for row in seen.summary()["rows"])


@pytest.mark.parametrize(
    "given",
    [
        {"people": 1},
        {"cases": 0.0},
        {"cases": math.nan},
        {"frequencies": ()},
        {"frequencies": (1.0,)},
        {"odds_ratio": 1.0},
        {"wanted": 0.05},
        {"alpha": 0.0},
        {"alpha": 0.8},
    ],
)
def test_plans_refused(given):
    with pytest.raises(InvalidInput):
        genomics.PlannedScan(**{"people": 100} | given)


@pytest.mark.slow
def test_command(tmp_path, capsys):
    rng, file = np.random.default_rng(6), tmp_path / "people.csv"
    rows = [f"p{k},{k % 2}," + ",".join(map(str, rng.integers(0, 3, 5))) for k in range(20)]
    file.write_text("\n".join(["sample,kind,a,b,c,d,e", *rows]) + "\n")
    base = ["gwas", "design", str(file), "--phenotype-column", "kind", "--total-epsilon", "6"]
    given = ["--n", "3000", "--case-share", "0.4", "--odds-ratio", "2", "--alpha", "0.001"]
    for purpose in ([], ["--for", "association"]):
        assert run([*base, *purpose, *given, "--json"]) == 0
        seen = json.loads(capsys.readouterr().out)["sight"]
        plan = {"people": 3000, "cases": 0.4, "frequencies": [0.05, 0.2, 0.5], "odds_ratio": 2.0}
        assert seen["scan"] == plan | {"wanted": 0.8, "alpha": 0.001} and seen["alpha"] == 0.001
        assert {row["way"] for row in seen["rows"]} == {"optimum", "association"}
        assert run([*base, *purpose, *given]) == 0
        assert "odds ratios from" in capsys.readouterr().out
    for wrong, said in ((["--odds-ratio", "2"], "--odds-ratio requires --n"), (["--n", "1"], "must be from 2")):
        assert run([*base, *wrong]) == 2
        assert said in capsys.readouterr().err


VARIANTS = ["common", "rare", "strong", "none"]
# A1's frequency in controls and cases.
FREQUENCIES = {"common": (0.30, 0.33), "rare": (0.01, 0.02), "strong": (0.15, 0.40), "none": (0.4, 0.4)}


def answers(capsys: pytest.CaptureFixture, *arguments: str) -> dict:
    assert run(list(arguments)) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module", params=["auto", "kronecker"])
def one_design(request):
    return genomics.genomic_design(
        genomics.Wanted(VARIANTS, method=request.param), genomics.Budget(variants=2.5, status=3.0)
    )


def true_records(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    status = (rng.random(n) < 0.3).astype(int)
    f = np.array([FREQUENCIES[v] for v in VARIANTS])[:, status].T
    return np.concatenate([status[:, None], rng.binomial(2, f)], axis=1).astype(np.int8)


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 20_000])
def test_the_commands_print_the_same(one_design, n, tmp_path, capsys):
    records = one_design.mechanism.randomize_codes(true_records(n, 1), random_state=2)
    columns = {name: records[:, k] for k, name in enumerate(one_design.domain.names)}
    columns["status"] = np.array(["control", "case"])[columns["status"]]
    table = pa.table(columns)
    save_design(one_design, tmp_path / "d.json")
    pa_csv.write_csv(table, tmp_path / "pairs.csv")
    named = table.append_column("sample", pa.array([f"p{k}" for k in range(n)]))
    pa_csv.write_csv(named, tmp_path / "people.csv")
    for name in genotype_tests():
        scan = answers(
            capsys,
            "gwas",
            "scan",
            str(tmp_path / "people.csv"),
            "--design",
            str(tmp_path / "d.json"),
            "--test",
            name,
            "--json",
        )
        assert len(scan["top"]) == len(VARIANTS)
        for row in scan["top"]:
            one = answers(
                capsys, "test", str(tmp_path / "pairs.csv"), "--design", str(tmp_path / "d.json"),
                "--attributes", f"{row['SNP']},status", "--hypothesis", name, "--calibration", "saddlepoint", "--json",
            )  # fmt: skip
            assert row["STAT"] == pytest.approx(one["statistic"], rel=1e-9)
            assert row["P"] == pytest.approx(one["p_value"], rel=1e-9)


@pytest.mark.parametrize("n", [300, 3000, 1_000_000])
def test_one_table_and_a_scan_agree(one_design, n):
    """Weak to overwhelming, rare and common, sparse where the χ² limit is far off: drawn tables of every strength."""
    rng = np.random.default_rng(3)
    center = one_design.domain.index("status")
    kernel = star_kernel(one_design.law, np.array([one_design.domain.index(v) for v in VARIANTS]), center)
    f = np.array([FREQUENCIES[v] for v in VARIANTS])
    shares = np.stack([(1 - f) ** 2, 2 * f * (1 - f), f**2], axis=1) * [0.9, 0.1]
    # between no association and a stronger one than the one stated
    for strength in (0.0, 1.0, 1.5):
        mean = shares.sum(axis=2, keepdims=True) * [0.9, 0.1]
        true = np.maximum(mean + strength * (shares - mean), 0)
        law = kernel.forward(true / true.sum(axis=(1, 2), keepdims=True)).reshape(-1, 6)
        counts = rng.multinomial(n, law / law.sum(axis=1, keepdims=True)).reshape(-1, 3, 2)
        for name in genotype_tests():
            scan = score_test(counts, kernel, name)
            for k, variant in enumerate(VARIANTS):
                pair = Counts(one_design.domain.subset([variant, "status"]), counts[k])
                one = pair_test(pair, one_design.mechanism, name, calibration="saddlepoint")
                assert scan.statistic[k] == pytest.approx(one.statistic, rel=1e-9, abs=1e-12)
                assert scan.p_value[k] == pytest.approx(one.p_value, rel=1e-9, abs=1e-300)


def test_a_genotype_that_nobody_has_takes_no_degree_of_freedom():
    domain = Domain.of({"g": 3, "status": 2})
    for table in ([[300, 250], [90, 130], [0, 0]], [[0, 0], [90, 130], [300, 250]], [[300, 250], [0, 0], [90, 130]]):
        tested = pair_test(Counts(domain, np.array(table)), unrandomized((3, 2)), "genotypic")
        pearson = chi2_contingency([row for row in table if sum(row)], correction=False)
        assert tested.df == 1 and any("is not observed" in w for w in tested.warnings)
        assert tested.statistic == pytest.approx(pearson.statistic, rel=1e-6)
        planned = alternative_of("genotypic", np.array(table) / np.sum(table), unrandomized((3, 2)))
        assert planned.df == 1
        assert planned.noncentrality * np.sum(table) == pytest.approx(pearson.statistic, rel=1e-4)
