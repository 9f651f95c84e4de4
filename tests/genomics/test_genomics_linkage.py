"""r² of pairs of variants from randomized genotypes: without noise PLINK's, with it unbiased and with honest errors."""

import shutil
import subprocess

import numpy as np
import pytest
from genotypes import cohort_of
from scipy.stats import binom

from optrr import genomics
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.kernel import EffectKernel, unrandomized
from optrr.genomics.layout import Layout
from optrr.genomics.linkage import linkage, pair_tables, squared_correlations
from optrr.genomics.writing import write_plink
from optrr_solvers import ProductLaw


def eigenvalue(epsilon: float, size: int) -> float:
    return float((np.exp(epsilon) - 1) / (np.exp(epsilon) + size - 1))


def linked(n: int, variants: int, seed: int, chromosomes: int = 1, missing: float = 0.0) -> genomics.Cohort:
    """People whose variants are linked to the one before, on so many chromosomes, one after the other."""
    rng = np.random.default_rng(seed)
    haplotypes = np.empty((2, n, variants), dtype=np.int8)
    for k in range(variants):
        fresh = rng.random((2, n)) < rng.uniform(0.05, 0.5)
        same = rng.random((2, n)) < 0.7
        haplotypes[:, :, k] = np.where(same & (k > 0), haplotypes[:, :, k - 1], fresh)
    codes = haplotypes.sum(axis=0).astype(np.int8)
    codes[rng.random(codes.shape) < missing] = -1
    where = [str(1 + k * chromosomes // variants) for k in range(variants)]
    return cohort_of(codes, rng.random(n) < 0.5, where)


def design_of(variants: int, epsilon: float) -> tuple[ProductLaw, Layout]:
    layout = genomics.layout_of(genomics.genomic_domain([f"rs{k}" for k in range(variants)]))
    return ProductLaw(np.array([2] + [3] * variants), np.full(variants + 1, epsilon)), layout


def correlation(codes: np.ndarray, i: int, j: int) -> float:
    both = (codes[:, i] >= 0) & (codes[:, j] >= 0)
    return float(np.corrcoef(codes[both, i], codes[both, j])[0, 1] ** 2)


@pytest.mark.parametrize("size", [7, 2048])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_every_pair_of_the_window_is_counted_once(size, missing, monkeypatch):
    cohort, window = linked(300, 150, 1, chromosomes=4, missing=missing), 9
    codes, chromosome = cohort.genotypes.codes, cohort.variants.chromosome
    monkeypatch.setattr(type(cohort), "blocks", lambda self: self.genotypes.blocks(size))
    for category in (False, True):
        seen = {}
        for first, second, counts in pair_tables(cohort, window, category):
            seen |= {(int(i), int(j)): t for i, j, t in zip(first, second, counts, strict=True)}
        wanted = {
            (i, j) for i in range(150) for j in range(i + 1, min(i + window + 1, 150)) if chromosome[i] == chromosome[j]
        }
        assert set(seen) == wanted
        for i, j in list(wanted)[::37]:
            table = np.zeros((4, 4))
            np.add.at(table, (codes[:, i] % 4, codes[:, j] % 4), 1)
            np.testing.assert_array_equal(seen[i, j], table if category else table[:3, :3])


def test_pairs_of_chromosome_x_are_of_women_and_those_of_y_are_none():
    plain = linked(400, 6, 2)
    male = np.random.default_rng(3).random(400) < 0.5
    rows = [(c, 10 + k, f"rs{k}", "A", "G") for k, c in enumerate(("X", "X", "X", "Y", "Y", "1"))]
    matrix = genomics.MatrixGenotypes(genomics.Variants.of(rows), plain.people, plain.genotypes.codes)
    cohort = genomics.Cohort(matrix, np.arange(400), plain.status, {}, male)
    law, layout = design_of(6, 30.0)
    got = linkage(cohort, law, layout, 5)
    assert list(zip(got.first, got.second, strict=True)) == [(0, 1), (0, 2), (1, 2)]
    women = plain.genotypes.codes[~male]
    assert (got.n == len(women)).all()
    assert got.correlations.r2[0] == pytest.approx(correlation(women, 0, 1), rel=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.05])
def test_without_noise_r2_is_the_squared_correlation_of_dosages(missing):
    cohort = linked(500, 30, 4, missing=missing)
    law, layout = design_of(30, 30.0)
    got = linkage(cohort, law, layout, 10)
    expected = [correlation(cohort.genotypes.codes, i, j) for i, j in zip(got.first, got.second, strict=True)]
    np.testing.assert_allclose(got.correlations.r2, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.skipif(shutil.which("plink1.9") is None, reason="plink1.9 is not installed")
def test_without_noise_r2_is_plinks(tmp_path):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    cohort = linked(400, 40, 5, chromosomes=2, missing=0.02)
    write_plink(cohort, tmp_path / "true.bed")
    asked = ["--r2", "--ld-window", "6", "--ld-window-kb", "1000", "--ld-window-r2", "0", "--nonfounders"]
    done = subprocess.run(
        ["plink1.9", "--bfile", "true", *asked, "--allow-no-sex", "--out", "by"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in (tmp_path / "by.ld").read_text().splitlines()[1:]]
    law, layout = design_of(40, 30.0)
    # plink's window counts both ends
    got = linkage(cohort, law, layout, 5).columns
    ours = {(a, b): r for a, b, r in zip(got["SNP_A"], got["SNP_B"], got["R2"], strict=True)}
    assert set(ours) == {(r[2], r[5]) for r in rows}
    np.testing.assert_allclose([ours[r[2], r[5]] for r in rows], [float(r[6]) for r in rows], rtol=1e-4, atol=1e-6)


def haplotype_table(p: float, q: float, share: float, rows: int, missing: float) -> tuple[np.ndarray, float]:
    """True shares of genotype × genotype at this share of the largest disequilibrium, and r²."""
    d = share * min(p * (1 - q), q * (1 - p))
    haplotypes = np.array([[(1 - p) * (1 - q) + d, (1 - p) * q - d], [p * (1 - q) - d, p * q + d]])
    genotypes = np.zeros((3, 3))
    for a, b in np.ndindex(4, 4):
        x, y = np.unravel_index(a, (2, 2)), np.unravel_index(b, (2, 2))
        genotypes[x[0] + y[0], x[1] + y[1]] += haplotypes[x] * haplotypes[y]
    out = np.zeros((rows, rows))
    out[:3, :3] = genotypes * (1 - missing) ** 2
    if rows == 4:
        out[3, :3], out[:3, 3], out[3, 3] = (
            genotypes.sum(0) * missing * (1 - missing),
            genotypes.sum(1) * missing * (1 - missing),
            missing**2,
        )
    return out, d**2 / (p * (1 - p) * q * (1 - q))


@pytest.mark.parametrize(
    ("n", "p", "q", "share", "epsilon", "missing"),
    [
        (2000, 0.5, 0.4, 0.6, 1.5, 0.0),
        (5000, 0.2, 0.3, 0.0, 2.0, 0.05),
        (3000, 0.05, 0.05, 0.8, 4.0, 0.0),
        (5000, 0.3, 0.5, 0.9, 2.0, 0.05),
        (2000, 0.5, 0.5, 1.0, 3.0, 0.0),
        (12000, 0.02, 0.2, 0.5, 4.0, 0.0),
    ],
)
def test_r2_is_unbiased_and_its_interval_covers(n, p, q, share, epsilon, missing):
    rows, times = 4 if missing else 3, 2000
    table, true = haplotype_table(p, q, share, rows, missing)
    one = eigenvalue(epsilon, rows)
    kernel = EffectKernel((rows, rows), [[1.0, one], [one, 1.02 * one * one]])
    law = np.clip(kernel.forward(table), 0, 1).ravel()
    counts = np.random.default_rng(6).multinomial(n, law / law.sum(), size=times).reshape(-1, rows, rows)
    got = squared_correlations(counts.astype(np.float64), kernel)
    known = np.isfinite(got.r2)
    assert known.mean() > 0.99
    spread = got.r2[known].std()
    # sampling people adds at most 1/n; the rest of a bias is below a tenth of the error, and five errors of the mean
    assert abs(got.r2[known].mean() - true) < 1 / n + (0.1 + 5 / np.sqrt(times)) * spread
    root_mean = np.sqrt(np.mean(got.standard_error[known] ** 2))
    assert root_mean == pytest.approx(spread, rel=0.3)
    covered = np.sum((got.low <= true + 1e-9) & (true - 1e-9 <= got.high))
    # once in 1000 settings, were it 94 %
    assert covered >= binom.ppf(0.001, times, 0.94)
    # uncorrected, the square of the correlation is too large by most of its error
    naive = got.r2[known].mean()
    assert naive < np.mean(squares_of_noisy(counts[known], kernel)) or true == 1


def squares_of_noisy(counts: np.ndarray, kernel: EffectKernel) -> np.ndarray:
    """Squared correlations of the unbiased tables, as they are."""
    shares = kernel.solve(counts / counts.sum(axis=(1, 2), keepdims=True))[:, :3, :3]
    shares = shares / shares.sum(axis=(1, 2), keepdims=True)
    x = np.arange(3)
    mx, my = shares.sum(axis=2) @ x, shares.sum(axis=1) @ x
    vx, vy = shares.sum(axis=2) @ x**2 - mx**2, shares.sum(axis=1) @ x**2 - my**2
    return np.asarray((np.einsum("pij,i,j->p", shares, x, x) - mx * my) ** 2 / (vx * vy))


@pytest.mark.slow
def test_what_is_printed_is_hardly_biased_by_which_pairs_are_printed():
    """Random settings against r² of people drawn without a mechanism: printed values, and those of pairs near the border.

    600 data sets each, fixed seed: a bias is measured to .04 standard errors or, near the border, to .1. A border of Ŝ alone at
    3 standard errors has .7 within .2 and a mean of −.2.
    """
    rng, times = np.random.default_rng(12), 600
    weights, biases = [], []
    for k in range(150):
        rows, n = 3 + k % 2, int(rng.choice([1000, 3000, 6000]))
        p, q = np.exp(rng.uniform(np.log(0.005), np.log(0.5), 2))
        if k % 4 == 3:
            q = p
        missing = 0.05 * (rows == 4)
        table, _ = haplotype_table(p, q, float(rng.choice([0.0, 0.5, 0.95, 1.0])), rows, missing)
        one, other = (eigenvalue(e, rows) for e in rng.uniform(1, 4, 2))
        kernel = EffectKernel((rows, rows), [[1.0, other], [one, one * other]])
        law = np.clip(kernel.forward(table), 0, 1).ravel()
        counts = rng.multinomial(n, law / law.sum(), size=times).reshape(-1, rows, rows).astype(np.float64)
        got = squared_correlations(counts, kernel)
        known = np.isfinite(got.r2)
        # intervals are there where values are not
        assert np.isfinite(got.low).all() and np.isfinite(got.high).all()
        if known.sum() < 60:
            continue
        people = rng.multinomial(n, table[:3, :3].ravel() / table[:3, :3].sum(), size=times).reshape(-1, 3, 3)
        varying = (np.count_nonzero(people.sum(axis=1), axis=1) > 1) & (
            np.count_nonzero(people.sum(axis=2), axis=1) > 1
        )
        plain = squares_of_noisy(people[varying], unrandomized((3, 3))).mean()
        error = np.sqrt(np.mean(got.standard_error[known] ** 2))
        weights.append(known.mean())
        biases.append((got.r2[known].mean() - plain) / error)
    bias = np.array(biases)
    assert len(bias) > 30
    assert np.average(np.abs(bias) < 0.2, weights=weights) > 0.9
    assert abs(np.average(bias, weights=weights)) < 0.06


def test_the_border_is_a_distance_in_errors_of_the_mechanisms_noise():
    """Printed just where (Ĉ, Ŝ) is 10 of them from 0, by the inverse matrix, of a covariance made by differences."""
    table, _ = haplotype_table(0.1, 0.2, 0.6, 3, 0.0)
    kernel = EffectKernel((3, 3), [[1.0, 0.6], [0.5, 0.3]])
    law = np.clip(kernel.forward(table), 0, 1).ravel()
    x, y = (each.ravel() for each in np.meshgrid(np.arange(3), np.arange(3), indexing="ij"))

    def point(shares: np.ndarray) -> np.ndarray:
        moment = [shares @ f for f in (x, y, x * x, y * y, x * y)]
        product = (moment[2] - moment[0] ** 2) * (moment[3] - moment[1] ** 2)
        return np.array([moment[4] - moment[0] * moment[1], np.sqrt(product)])

    def covariance(shares: np.ndarray, of_cells: np.ndarray, n: float) -> np.ndarray:
        slopes = np.array(
            [(point(of_cells @ (shares + h)) - point(of_cells @ (shares - h))) / 2e-6 for h in 1e-6 * np.eye(9)]
        )
        return (slopes.T * shares @ slopes - np.outer(shares @ slopes, shares @ slopes)) / n

    inverse = kernel.solve(np.eye(9).reshape(9, 3, 3)).reshape(9, 9).T
    both = []
    for seed, n in enumerate([1500, 2500, 3500, 4500] * 5):
        counts = np.random.default_rng(seed).multinomial(n, law / law.sum()).astype(np.float64)
        seen, unbiased = counts / n, inverse @ counts / n
        added = covariance(seen, inverse, n) - covariance(unbiased, np.eye(9), n)
        at = point(unbiased)
        wanted = np.sqrt(at @ np.linalg.solve(added, at))
        known = np.isfinite(squared_correlations(counts.reshape(1, 3, 3), kernel).r2[0])
        assert known == (wanted >= 10), wanted
        both.append(known)
    assert 3 < sum(both) < 17


def test_where_noise_hides_a_variant_r2_is_undefined_and_its_interval_everything():
    table, _ = haplotype_table(0.005, 0.3, 0.5, 3, 0.0)
    one = eigenvalue(0.5, 3)
    kernel = EffectKernel((3, 3), [[1.0, one], [one, one * one]])
    law = np.clip(kernel.forward(table), 0, 1).ravel()
    counts = np.random.default_rng(7).multinomial(500, law / law.sum(), size=200).reshape(-1, 3, 3)
    got = squared_correlations(counts.astype(np.float64), kernel)
    undefined = np.isnan(got.r2)
    assert undefined.mean() > 0.95 and np.isnan(got.standard_error[undefined]).all()
    assert np.median(got.high - got.low) == 1.0
    nobody = squared_correlations(np.array([[[9.0, 0, 0], [0, 0, 0], [0, 0, 0]]]), unrandomized((3, 3)))
    assert np.isnan(nobody.r2[0]) and (nobody.low[0], nobody.high[0]) == (0, 1)


def test_each_pair_is_seen_through_the_kernel_of_its_own_law():
    cohort = linked(3000, 5, 8)
    reports = genomics.design(cohort, variants=np.array([1.0, 2.0, 3.0, 4.0, 2.5]), status=2.0).randomize(cohort, 1)
    got, law, layout = reports.linkage(4), reports.asking.design.law, reports.asking.layout
    codes = reports.cohort.genotypes.codes
    for k, (i, j) in enumerate(zip(got.first, got.second, strict=True)):
        pair = (int(layout.attributes[i]), int(layout.attributes[j]))
        kernel = EffectKernel((3, 3), law.eigenvalues(pair))
        counts = np.zeros((1, 3, 3))
        np.add.at(counts, (0, codes[:, i], codes[:, j]), 1)
        alone = squared_correlations(counts, kernel)
        for name in ("r2", "standard_error", "low", "high"):
            np.testing.assert_allclose(getattr(got.correlations, name)[k], getattr(alone, name)[0], rtol=1e-9)
    assert "10 pairs" in repr(got) and got.plot() is not None
    assert got.to_arrow().column_names[-4:] == ["R2", "SE", "L95", "U95"]


def test_refusals_say_what_to_do():
    cohort = linked(50, 3, 9, chromosomes=3)
    law, layout = design_of(3, 3.0)
    with pytest.raises(InvalidInput, match="give at least 1"):
        linkage(cohort, law, layout, 0)
    with pytest.raises(InvalidInput, match="there is no pair"):
        linkage(cohort, law, layout, 2)
    with pytest.raises(InvalidInput, match="did not randomize"):
        linkage(linked(50, 4, 9), law, layout, 2)
