"""Frequencies, call rates and Hardy–Weinberg tests of randomized genotypes, and the filters of a scan that follow from them."""

import json
import shutil
import subprocess
from math import lgamma
from pathlib import Path

import numpy as np
import pytest
from genotypes import cohort_of, command
from scipy.optimize import minimize
from scipy.stats import binom, chisquare

from optrr import genomics
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.kernel import EffectKernel, unrandomized
from optrr.genomics.proportions import (
    CASES,
    CONTROLS,
    STEPPED,
    Group,
    call_rates,
    everybody,
    frequencies,
    in_proportions,
    proportions_test,
)
from optrr.genomics.scan import associations, cohort_kernel, filtered
from optrr.genomics.score_tests import CopyTables, copy_tables
from optrr.genomics.variant_report import variant_report
from optrr.genomics.writing import write_plink
from optrr_solvers import ProductLaw

PLAIN = unrandomized((3, 2))
# people, frequency of A1, inbreeding, epsilon of the variant and of the status, share of missing calls, of cases
SETTINGS = [
    (300, 0.5, 0.0, 2.0, 2.0, 0.05, 0.5),
    (2000, 0.005, 0.0, 1.0, 2.0, 0.0, 0.3),
    (1000, 0.02, 0.1, 4.0, 1.0, 0.1, 0.5),
    (3000, 0.01, 0.0, 30.0, 30.0, 0.03, 0.2),
    (1000, 0.3, 0.2, 30.0, 2.0, 0.0, 0.4),
    (3000, 0.9, 0.0, 3.0, 4.0, 0.0, 0.5),
]


def eigenvalue(epsilon: float, size: int) -> float:
    return float((np.exp(epsilon) - 1) / (np.exp(epsilon) + size - 1))


def kernel_of(rows: int, of_variant: float, of_status: float, more: float = 1.0) -> EffectKernel:
    """Of k-ary randomized response on both, whose joint effect is ``more`` visible than where they are independent."""
    g, s = eigenvalue(of_variant, rows), eigenvalue(of_status, 2)
    return EffectKernel((rows, 2), [[1.0, s], [g, g * s * more]])


def table(f: float, inbreeding: float, missing: float, cases: float) -> np.ndarray:
    """True shares of genotype × status, with a row of missing calls where there are any."""
    genotypes = in_proportions(np.array([f]), inbreeding)[0] * (1 - missing)
    rows = np.append(genotypes, missing) if missing else genotypes
    return np.multiply.outer(rows, [1 - cases, cases])


def drawn(kernel: EffectKernel, shares: np.ndarray, n: int, times: int, seed: int) -> CopyTables:
    law = np.clip(kernel.forward(shares), 0, 1).ravel()
    two = np.random.default_rng(seed).multinomial(n, law / law.sum(), size=times).reshape(times, *shares.shape)
    return CopyTables(two, np.zeros_like(two))


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_frequencies_and_call_rates_are_unbiased_with_the_errors_and_coverage_they_say(setting):
    n, f, inbreeding, epsilon, of_status, missing, cases = setting
    times, rows = 600, 4 if missing else 3
    kernel = kernel_of(rows, epsilon, of_status)
    tables = drawn(kernel, table(f, inbreeding, missing, cases), n, times, 1)
    estimates = [(f, frequencies(Group.of(tables, kernel, status))) for status in (None, CASES, CONTROLS)]
    if missing:
        estimates.append((1 - missing, call_rates(everybody(tables, kernel))))
    for true, got in estimates:
        spread = got.estimate.std()
        # five standard errors of a mean of 600; ratios of noisy shares are biased by less than a tenth of their own error
        assert abs(got.estimate.mean() - true) < (5 / np.sqrt(times) + 0.1) * spread
        assert np.median(got.standard_error) == pytest.approx(spread, rel=0.15)
        covered = np.sum((got.low <= true) & (true <= got.high))
        # a fair interval of 95 % falls below this once in 1000 settings
        assert covered >= binom.ppf(0.001, times, 0.94)
        assert np.all((got.low >= 0) & (got.high <= 1) & (got.low <= got.high))


def test_reports_that_all_tell_of_the_allele_are_no_more_than_all_of_them():
    """Rounding took their chance above 1, and numpy warned of the root of a negative variance."""
    for counts, status in (([[0, 0], [0, 1], [1, 0]], CASES), ([[0, 3], [2, 0], [0, 0]], CONTROLS)):
        two = np.array([counts])
        # underflow to 0 is no fault, and which processor reports it differs
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            made = frequencies(Group.of(CopyTables(two, np.zeros_like(two)), PLAIN, status))
        assert 0 <= made.low[0] <= made.estimate[0] <= made.high[0] <= 1


def test_men_count_one_copy_of_chromosome_x():
    rng = np.random.default_rng(2)
    n, times, f, missing = 800, 300, 0.15, 0.04
    kernel = kernel_of(4, 2.5, 3.0)
    two = table(f, 0.0, missing, 0.5)
    one = two.copy()
    one[:3] = np.multiply.outer([(1 - f) * (1 - missing), 0, f * (1 - missing)], [0.5, 0.5])
    laws = [np.clip(kernel.forward(part), 0, 1).ravel() for part in (two, one)]
    women = rng.binomial(n, 0.6, times)
    counts = [
        np.stack([rng.multinomial(k, law / law.sum()) for k in number]).reshape(-1, 4, 2)
        for number, law in zip((women, n - women), laws, strict=True)
    ]
    tables = CopyTables(*counts)
    for got, true in (
        (frequencies(everybody(tables, kernel)), f),
        (call_rates(everybody(tables, kernel)), 1 - missing),
    ):
        assert abs(got.estimate.mean() - true) < 5 * got.estimate.std() / np.sqrt(times)
        assert np.median(got.standard_error) == pytest.approx(got.estimate.std(), rel=0.15)
        assert np.mean((got.low <= true) & (true <= got.high)) > binom.ppf(0.001, times, 0.94) / times
    # without a mechanism alleles are counted one by one
    plain = frequencies(Group.of(tables, unrandomized((4, 2)), CASES, (2, 1)), intervals=False)
    a1 = counts[0][:, 1, 1] + 2 * counts[0][:, 2, 1] + (counts[1][:, 1, 1] / 2 + counts[1][:, 2, 1])
    every = 2 * counts[0][:, :3, 1].sum(axis=1) + counts[1][:, :3, 1].sum(axis=1)
    np.testing.assert_allclose(plain.estimate, a1 / every, rtol=1e-12)


def test_a_kernel_for_each_variant_gives_what_each_gives_alone():
    rng = np.random.default_rng(3)
    kernels = [
        kernel_of(4, e, 2.0, more) for e, more in zip(rng.uniform(1, 4, 6), rng.uniform(0.9, 1.05, 6), strict=True)
    ]
    together = EffectKernel((4, 2), np.stack([k.eigenvalues for k in kernels]))
    two = np.stack(
        [
            drawn(k, table(f, 0.1, 0.05, 0.4), 900, 1, 4).two[0]
            for k, f in zip(kernels, rng.uniform(0.01, 0.5, 6), strict=True)
        ]
    )
    tables = CopyTables(two, np.zeros_like(two))
    for status in (None, CONTROLS):
        group = Group.of(tables, together, status)
        got, tested = frequencies(group), proportions_test(group)
        for v, kernel in enumerate(kernels):
            alone = Group.of(tables.part(slice(v, v + 1)), kernel, status)
            each, test = frequencies(alone), proportions_test(alone)
            for name in ("estimate", "standard_error", "low", "high"):
                np.testing.assert_allclose(getattr(got, name)[v], getattr(each, name)[0], rtol=1e-9)
            np.testing.assert_allclose(tested.p_value[v], test.p_value[0], rtol=1e-6)


def exact_p(counts: np.ndarray) -> float:
    """Mid-p of the exact test of Hardy–Weinberg proportions, every table of these alleles enumerated."""
    n, a1 = int(counts.sum()), int(counts[1] + 2 * counts[2])
    hets = np.arange(a1 % 2, min(a1, 2 * n - a1) + 1, 2)
    rare = (a1 - hets) // 2
    logs = np.array(
        [h * np.log(2) - lgamma(n - h - r + 1) - lgamma(h + 1) - lgamma(r + 1) for h, r in zip(hets, rare, strict=True)]
    )
    chances = np.exp(logs - logs.max())
    own = chances[hets == counts[1]][0]
    below = chances[chances < own * (1 - 1e-9)].sum()
    equal = chances[np.abs(chances / own - 1) <= 1e-9].sum()
    return float((below + equal / 2) / chances.sum())


def test_without_a_mechanism_the_test_is_pearsons_and_its_tails_are_the_exact_ones():
    rng = np.random.default_rng(5)
    for n, f, inbreeding in (
        (200, 0.1, 0.3),
        (1000, 0.02, 0.1),
        (1000, 0.4, 0.1),
        (5000, 0.1, -0.02),
        (300, 0.05, 0.5),
    ):
        counts = rng.multinomial(n, in_proportions(np.array([f]), inbreeding)[0])
        two = np.stack([counts, np.zeros_like(counts)], axis=1)[None]
        got = proportions_test(Group.of(CopyTables(two, np.zeros_like(two)), PLAIN))
        expected = n * in_proportions(np.array([(counts[1] / 2 + counts[2]) / n]))[0]
        assert got.statistic[0] == pytest.approx(chisquare(counts, expected, ddof=1).statistic, rel=1e-9)
        exact = exact_p(counts)
        if exact < 0.05:
            # on a lattice the two conventions for ties differ by a factor of two; χ² is off by orders of magnitude here
            assert 1 / 2.5 < got.p_value[0] / exact < 2.5


@pytest.mark.parametrize("status", [None, CONTROLS])
@pytest.mark.parametrize("rows", [3, 4])
def test_the_statistic_is_pearsons_against_the_likeliest_proportions(status, rows):
    kernel = kernel_of(rows, 2.0, 2.5, 1.02)
    tables = drawn(kernel, table(0.3, 0.05, 0.1 if rows == 4 else 0.0, 0.4), 3000, 1, 6)
    counts = tables.two[0].sum(axis=1, keepdims=True) if status is None else tables.two[0]
    columns, own = counts.shape[1], 0
    forward = kernel.forward if columns == 2 else EffectKernel((rows,), kernel.eigenvalues[:, 0]).forward
    others = [c for c in np.ndindex(rows, columns) if c[0] == 3 or c[1] != own]

    def law(x: np.ndarray) -> np.ndarray:
        true = np.zeros((rows, columns))
        shares = np.exp(np.append(0.0, x[1:])) / np.exp(np.append(0.0, x[1:])).sum()
        true[:3, own] = shares[0] * in_proportions(1 / (1 + np.exp(-x[:1])))[0]
        for cell, share in zip(others, shares[1:], strict=True):
            true[cell] = share
        return forward(true if columns == 2 else true[:, 0]).ravel()

    def loss(x: np.ndarray) -> float:
        return -float(counts.ravel() @ np.log(np.maximum(law(x), 1e-12))) / 3000

    best = minimize(loss, np.zeros(1 + len(others)), method="BFGS", options={"gtol": 1e-10})
    expected = 3000 * law(best.x)
    pearson = np.sum((counts.ravel() - expected) ** 2 / expected)
    got = proportions_test(Group.of(tables, kernel, status))
    assert got.statistic[0] == pytest.approx(pearson, rel=1e-4)
    of_genotypes = expected.reshape(rows, columns)[:3, own]
    assert got.expected[0] == pytest.approx(of_genotypes.min(), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("setting", [s for s in SETTINGS if s[2] == 0])
def test_the_test_keeps_its_level_whatever_the_mechanism(setting):
    n, f, _, epsilon, of_status, missing, cases = setting
    kernel, times = kernel_of(4 if missing else 3, epsilon, of_status), 20_000
    tables = drawn(kernel, table(f, 0.0, missing, cases), n, times, 7)
    for status in (None, CONTROLS):
        p = proportions_test(Group.of(tables, kernel, status)).p_value
        # steps of single reports, and shares that noise takes out of what shares can be, leave 3.5 to 7 % and below 0.25 %
        assert 0.035 * times < np.sum(p <= 0.05) < 0.07 * times
        assert np.sum(p <= 0.001) < 0.0025 * times


def test_a_departure_shows_in_controls_and_not_made_by_an_association():
    kernel = kernel_of(3, 4.0, 4.0)
    shares = np.stack([in_proportions(np.array([0.3]))[0] * 0.5, np.array([0.2, 0.3, 0.5]) * 0.5], axis=1)
    tables = drawn(kernel, shares, 20_000, 50, 8)
    controls, everyone = (proportions_test(Group.of(tables, kernel, s)).p_value for s in (CONTROLS, None))
    assert np.mean(controls < 0.05) < 0.2
    assert np.all(everyone < 1e-6)


def simulated(n: int, frequencies_of: np.ndarray, seed: int, missing: float = 0.0) -> genomics.Cohort:
    rng = np.random.default_rng(seed)
    codes = rng.binomial(2, frequencies_of, (n, len(frequencies_of))).astype(np.int8)
    codes[rng.random(codes.shape) < missing] = -1
    return cohort_of(codes, (rng.random(n) < 0.4).astype(np.int8))


@pytest.mark.parametrize(("frequency", "epsilon", "said"), [(0.01, 8.0, True), (0.01, 2.0, False), (0.4, 8.0, False)])
def test_where_p_values_of_proportions_go_in_steps_it_is_said(frequency, epsilon, said):
    """Homozygotes of a rare allele come one by one, and the mechanism invents no others: 9.3 % of p-values are below 5 %."""
    cohort = simulated(300, np.array([frequency, 0.4]), 18)
    report = genomics.design(cohort, variants=epsilon, status=epsilon).randomize(cohort, random_state=1).variants()
    steps = [line for line in report.warnings if "in 1 variant a reported" in line and "HWE_P is discrete" in line]
    assert len(steps) == said and (report.proportions.expected[0] < STEPPED) == said


@pytest.mark.parametrize("setting", [(4, 0.002, 0.4, 0.4), (3, 0.0, 0.3, 0.004)])
def test_few_missing_calls_and_few_cases_make_no_steps(setting):
    """Reports of them are few, and were counted: of 3,000 tables 4.4 to 5.2 % have p below 5 %, and hardly two the same."""
    rows, missing, f, cases = setting
    tables = drawn(kernel_of(rows, 8.0, 8.0), table(f, 0.0, missing, cases), 1000, 3000, 5)
    for status in (None, CONTROLS):
        made = proportions_test(Group.of(tables, kernel_of(rows, 8.0, 8.0), status))
        # three standard deviations of 3,000 draws are 1.2 %; the seed is fixed
        assert made.expected.min() > STEPPED and 0.038 < np.mean(made.p_value < 0.05) < 0.062


@pytest.mark.skipif(shutil.which("plink1.9") is None, reason="plink1.9 is not installed")
def test_without_noise_frequencies_call_rates_and_proportions_are_plinks(tmp_path):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    f = np.random.default_rng(9).uniform(0.02, 0.5, 40)
    cohort = simulated(700, f, 10, missing=0.03)
    write_plink(cohort, tmp_path / "true.bed")
    asked = ["--freq", "--hardy", "--missing", "--nonfounders", "--keep-allele-order", "--allow-no-sex"]
    done = subprocess.run(
        ["plink1.9", "--bfile", "true", *asked, "--out", "by"], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    names = [f"rs{k}" for k in range(40)]
    layout = genomics.layout_of(genomics.genomic_domain(names))
    law = ProductLaw(np.array([2] + [3] * 40), np.full(41, 30.0))
    report = variant_report(cohort, law, layout)
    rows = [line.split() for line in (tmp_path / "by.frq").read_text().splitlines()[1:]]
    np.testing.assert_allclose(report.frequency.estimate, [float(r[4]) for r in rows], rtol=1e-3)
    lost = [line.split() for line in (tmp_path / "by.lmiss").read_text().splitlines()[1:]]
    np.testing.assert_allclose(1 - report.call_rate.estimate, [float(r[4]) for r in lost], rtol=1e-3)
    assert not report.call_rate.standard_error.any()
    hardy = [line.split() for line in (tmp_path / "by.hwe").read_text().splitlines()[1:]]
    for kind, got in (("ALL", report.proportions), ("UNAFF", report.proportions_in_controls)):
        of_kind = [r for r in hardy if r[2] == kind]
        # A1/A1, A1/A2, A2/A2
        counts = np.array([[int(x) for x in r[5].split("/")] for r in of_kind])[:, ::-1]
        n = counts.sum(axis=1)
        expected = n[:, None] * in_proportions((counts[:, 1] / 2 + counts[:, 2]) / n)
        np.testing.assert_allclose(
            got.statistic, np.sum((counts - expected) ** 2 / expected, axis=1), rtol=1e-6, atol=1e-9
        )
        exact = np.array([float(r[8]) for r in of_kind])
        # plink's exact p-values count ties in full, and are those of a lattice
        small = exact < 0.05
        assert np.all(np.abs(np.log(got.p_value[small] / exact[small])) < np.log(2.5))


def test_filters_leave_out_what_is_below_and_count_why():
    f = np.array([0.005, 0.02, 0.2, 0.3, 0.4])
    cohort = simulated(1000, f, 11)
    codes = cohort.genotypes.codes
    codes[:, 2] = 2 * (codes[:, 2] > 0)
    tables = copy_tables(cohort, False)
    got = filtered(tables, PLAIN, 0.01, 1e-6)
    assert got.kept.tolist() == [False, True, False, True, True]
    assert got.skipped == {
        "with a Hardy-Weinberg p-value in controls below 1e-06": 1,
        "with a minor allele frequency below 0.01": 1,
    }
    result, alone = (associations(cohort, tables, PLAIN, maf=maf, hwe=hwe) for maf, hwe in ((0.01, 1e-6), (0, 0)))
    assert result.variants.name.tolist() == ["rs1", "rs3", "rs4"]
    np.testing.assert_allclose(result.scores.statistic, alone.scores.statistic[[1, 3, 4]])
    np.testing.assert_allclose(result.columns["BONF"], np.minimum(3 * result.scores.p_value, 1))
    np.testing.assert_allclose(result.columns["OR"], alone.columns["OR"][[1, 3, 4]])
    # nothing is left out unless it is asked for
    assert filtered(tables, PLAIN, 0.0, 0.0).kept.all()
    for wrong, said in (
        ({"maf": 0.5}, "no variant is left"),
        ({"maf": 0.6}, "from 0 to"),
        ({"hwe": np.nan}, "from 0 to"),
    ):
        with pytest.raises(InvalidInput, match=said):
            associations(cohort, tables, PLAIN, **wrong)


def test_what_cannot_be_told_from_a_threshold_is_said():
    kernel = kernel_of(4, 1.5, 3.0)
    tables = drawn(kernel, table(0.05, 0.0, 0.03, 0.5), 2000, 400, 12)
    got = filtered(tables, kernel, 0.05, 0.0)
    (line,) = got.warnings
    # a threshold at the true value: 95 % of the estimates are within 1.96 standard errors, and half of them are below; five
    # standard deviations of a binomial number around that
    assert 350 <= int(line.split(" of ")[1].split()[0]) <= 400
    assert 0.35 * 400 < got.kept.sum() < 0.65 * 400
    assert filtered(tables, kernel, 1e-9, 0.0).skipped.get("with a minor allele frequency below 1e-09", 0) < 10


@pytest.mark.slow
def test_the_front_door_reports_and_filters():
    cohort = simulated(600, np.array([0.01, 0.2, 0.4]), 13, missing=0.05)
    reports = genomics.design(cohort, variants=3.0, status=3.0, missing=True).randomize(cohort, random_state=1)
    report = reports.variants(by_status=True)
    assert report.to_arrow().column_names[:7] == ["CHR", "SNP", "BP", "A1", "A2", "N", "FREQ"]
    assert {"F_A", "L95_U", "CALL_SE", "HWE_P_U"} <= set(report.columns)
    assert (report.n == 600).all() and (report.call_rate.standard_error > 0).all()
    kernel = cohort_kernel(reports.cohort, reports.asking.design.law, reports.asking.layout)
    alone = frequencies(everybody(copy_tables(reports.cohort, True), kernel))
    np.testing.assert_array_equal(report.frequency.low, alone.low)
    assert "3 variants" in repr(report) and report.plot() is not None
    scanned = reports.scan(maf=0.1)
    assert sum(scanned.skipped.values()) + len(scanned.variants) == 3
    assert reports.variants().cases is None


@pytest.mark.slow
def test_the_command_writes_what_python_gives(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cohort = simulated(500, np.array([0.02, 0.2, 0.4, 0.5]), 15)
    columns = {f"rs{k}": cohort.genotypes.codes[:, k] for k in range(4)}
    columns |= {"sample": cohort.people, "status": cohort.status}
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    Path("true.csv").write_text("\n".join(lines) + "\n")
    who = ["--phenotype-column", "status", "--case", "1"]
    assert command(capsys, "gwas", "design", "true.csv", *who, "--variant-epsilon", 3, "-o", "d.json")[0] == 0
    assert command(capsys, "gwas", "randomize", "true.csv", *who, "--design", "d.json", "-o", "out.csv")[0] == 0
    # nobody has a copy of A1: noise would have shown some
    raw = [",".join(["0"] * 4 + line.split(",")[4:]) for line in lines[1:]]
    Path("raw.csv").write_text("\n".join([lines[0], *raw]) + "\n")
    assert command(capsys, "gwas", "design", "true.csv", *who, "--variant-epsilon", 1, "-o", "noisy.json")[0] == 0
    for asked in ("scan", "variants"):
        code, _, error = command(capsys, "gwas", asked, "raw.csv", *who, "--design", "noisy.json")
        assert code == 0 and error.count("does not look like data randomized by this design") == 1
    given = ["gwas", "variants", "out.csv", "--design", "d.json", "--by-status"]
    code, out, error = command(capsys, *given, "-o", "table.tsv", "--json")
    assert code == 0, error
    said = json.loads(out)
    header, *rows = [line.split("\t") for line in Path("table.tsv").read_text().splitlines()]
    assert [r[1] for r in rows] == ["rs0", "rs1", "rs2", "rs3"] and header[-1] == "U95_U"
    for row, result in zip(rows, said["results"], strict=True):
        assert float(row[header.index("FREQ")]) == pytest.approx(result["FREQ"], rel=1e-5)
    assert said["variants"] == 4
    code, out, _ = command(capsys, *given, "--html", "page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Hardy-Weinberg tests" in page and str(tmp_path) not in page
    assert code == 0 and "4 variants" in out
    code, out, error = command(capsys, "gwas", "scan", "out.csv", "--design", "d.json", "--maf", 0.1, "--json")
    assert code == 0 and json.loads(out)["variants"] + sum(json.loads(out)["skipped"].values()) == 4
    assert "minor allele frequency" in error


def test_on_chromosome_x_men_count_once_and_proportions_are_of_women():
    rng = np.random.default_rng(16)
    n, male = 900, rng.random(900) < 0.4
    codes = np.where(male[:, None], 2 * rng.binomial(1, 0.3, (n, 3)), rng.binomial(2, 0.3, (n, 3))).astype(np.int8)
    status = (rng.random(n) < np.where(male, 0.7, 0.3)).astype(np.int8)
    layout = genomics.layout_of(genomics.genomic_domain(["rs0", "rs1", "rs2"]))
    law = ProductLaw(np.array([2, 3, 3, 3]), np.full(4, 30.0))
    report = variant_report(cohort_of(codes, status, "X", male), law, layout, by_status=True)
    copies = np.where(male, 1, 2)[:, None]
    for who, got in ((status >= 0, report.frequency), (status == 1, report.cases), (status == 0, report.controls)):
        share = (codes * copies / 2)[who].sum(axis=0) / copies[who].sum()
        np.testing.assert_allclose(got.estimate, share, rtol=1e-8)
    for who, tested in ((~male, report.proportions), (~male & (status == 0), report.proportions_in_controls)):
        counts = np.stack([(codes[who] == g).sum(axis=0) for g in range(3)], axis=1)
        expected = counts.sum(axis=1)[:, None] * in_proportions((counts[:, 1] / 2 + counts[:, 2]) / counts.sum(axis=1))
        np.testing.assert_allclose(tested.statistic, np.sum((counts - expected) ** 2 / expected, axis=1), rtol=1e-6)
    assert np.all(report.call_rate.estimate == 1)
