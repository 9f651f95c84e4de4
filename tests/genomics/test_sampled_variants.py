"""Questions about a few variants each: labels by enumeration, answers by their channel, tests by likelihood, files."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import genotypes
import mpmath
import numpy as np
import pyarrow.csv as pa_csv
import pytest
from scipy.optimize import minimize
from scipy.stats import chisquare

import optrr
from optrr.cli.main import run
from optrr.core.errors import InvalidInput, TooFewRecords
from optrr.core.mechanisms.kernel import EffectKernel, unrandomized
from optrr.genomics import Variants, association_design, sampled_scan
from optrr.genomics.designing import Wanted, sampled_variants
from optrr.genomics.genotypes import MISSING
from optrr.genomics.sampled_variants import (
    SampledVariants,
    Told,
    load_sampled_variants,
    save_sampled_variants,
    verify_sampled_variants,
)
from optrr.genomics.score_tests import noncentralities, score_test
from optrr.genomics.study import StudyOptions, run_study
from optrr.genomics.study.ways import METHODS, StudiedPanel
from optrr_solvers.allocation.association import SetReport
from optrr_solvers.randomness import as_source


def names(count):
    return [f"rs{k}" for k in range(1, count + 1)]


def people(rng, n, frequencies, cases, log_odds):
    """Records (n, 1 + V), the status first: Hardy–Weinberg controls, an odds ratio per copy in cases."""
    status = (rng.random(n) < cases).astype(np.int8)
    odds = frequencies / (1 - frequencies) * np.exp(log_odds)
    each = np.where(status[:, None] == 1, odds / (1 + odds), frequencies)
    return np.concatenate([status[:, None], rng.binomial(2, each)], axis=1).astype(np.int8)


def cohort_of(records):
    return genotypes.cohort_of(records[:, 1:], records[:, 0], names=names(records.shape[1] - 1))


def channel_of(asking, variant):
    """P(answer | cell 2·genotype + status) of a variant, by the definition of the reports, and of the status alone."""
    e = math.exp(asking.answer_epsilon)
    if asking.reports:
        report = asking.reports[asking.report_of[variant]]
        return np.array(
            [[w * (e if c in s else 1) for c in range(6)] for s, w in zip(report.sets, report.weights, strict=True)]
        )
    cells = 2 * 3**asking.each
    same, other = e / (e + cells - 1), 1 / (e + cells - 1)
    return np.eye(6) * (same - other) + other * cells / 6


def exact_chances(asking, variant):
    """The chance of every answer by the true cell, in exact rationals, from the 64-bit thresholds that are drawn by."""
    e = math.exp(asking.answer_epsilon)
    report = asking.reports[asking.report_of[variant]]
    rows = []
    for cell in range(6):
        held = [e if cell in cells else 1.0 for cells in report.sets]
        row = [int(Fraction(w * x) * 2**64) for w, x in zip(report.weights, held, strict=True)]
        row[row.index(max(row))] += 2**64 - sum(row)
        rows.append(row)
    return rows


class _Words:
    """Hands out the words that it is given."""

    def __init__(self, words):
        self.given = iter(words)

    def words(self, count):
        return np.array([next(self.given) for _ in range(count)], dtype=np.uint64)


def random_design(rng):
    count, total = int(rng.integers(1, 30)), float(np.exp(rng.uniform(np.log(0.05), np.log(12))))
    frequencies = rng.uniform(0.01, 0.99, count) if rng.random() < 0.5 else None
    cases = float(rng.uniform(0.05, 0.95)) if rng.random() < 0.5 else None
    return sampled_variants(Wanted(names(count)), total, cases=cases, frequencies=frequencies), total


def check_label(asking, total):
    assert asking.epsilon <= total
    ratios = [Fraction(1)]
    for variant in range(len(asking.names) if asking.reports else 0):
        rows = exact_chances(asking, variant)
        ratios += [Fraction(max(column), min(column)) for column in zip(*rows, strict=True)]
    largest = max(ratios)
    # e^label is at least the ratio: compared without a logarithm, in many digits
    with mpmath.workdps(40):
        assert mpmath.e ** mpmath.mpf(asking.epsilon) >= mpmath.mpf(largest.numerator) / largest.denominator


@pytest.mark.slow
def test_labels_are_never_below_what_is_drawn():
    rng = np.random.default_rng(8)
    for _ in range(20):
        check_label(*random_design(rng))


def test_sets_are_drawn_by_their_thresholds():
    """Words just below and at each threshold give the set before and after it, for every true cell."""
    asking = sampled_variants(Wanted(names(1)), 1.0)
    rows = exact_chances(asking, 0)
    for cell in range(6):
        record = np.array([[cell % 2, cell // 2]], dtype=np.int8)
        end = 0
        for number, chance in enumerate(rows[cell][:-1]):
            end += chance
            for word, named in ((end - 1, number), (end, number + 1)):
                assert asking.answered(record, _Words([word]))[1] == [named]


@pytest.mark.parametrize(("count", "total"), [(3, 1.0), (4, 6.0), (1, 3.0), (2, 9.0)])
def test_answers_follow_their_channel(count, total):
    """Pearson's χ² of 60,000 answers about each true record; 1e-4 a test, 12 tests at most."""
    asking = sampled_variants(Wanted(names(count)), total)
    rng = np.random.default_rng(7)
    record = rng.integers(0, 2, (1, 1 + count)).astype(np.int8)
    n = 60_000 * count
    question, answer = asking.answered(np.repeat(record, n, axis=0), as_source(11))
    for variant in range(count):
        own = answer[question == variant]
        if asking.reports:
            chances = channel_of(asking, variant)[:, 2 * record[0, 1 + variant] + record[0, 0]]
        else:
            shape = (2, *[3] * asking.each)
            true = np.ravel_multi_index(
                (record[0, 0], *(record[0, 1 + (variant + k) % count] for k in range(asking.each))), shape
            )
            e = math.exp(asking.answer_epsilon)
            chances = np.full(math.prod(shape), 1 / (e + math.prod(shape) - 1))
            chances[true] *= e
        expected = chances / chances.sum() * own.size
        assert chisquare(np.bincount(own, minlength=expected.size), expected).pvalue > 1e-4
    if asking.status_share > 0:
        alone = np.count_nonzero(question == count) / n
        assert abs(alone - asking.status_share) < 4 * math.sqrt(asking.status_share / n)


def test_told_is_what_was_counted_by_hand():
    rng = np.random.default_rng(8)
    records = people(rng, 3000, np.full(5, 0.3), 0.4, np.zeros(5))
    for total in (1.0, 6.0):
        asking = sampled_variants(Wanted(names(5)), total)
        question, answer = asking.answered(records, as_source(3))
        for at, answers in asking.told([(question[:1000], answer[:1000]), (question[1000:], answer[1000:])]):
            for row, variant in enumerate(at):
                own, status = np.zeros(answers.counts.shape[1]), np.zeros(2)
                for q, a in zip(question.tolist(), answer.tolist(), strict=True):
                    if asking.reports:
                        own[a] += q == variant
                        if q == 5:
                            status[a] += 1
                        continue
                    cell = np.unravel_index(a, (2, *[3] * asking.each))
                    about = [(q + k) % 5 for k in range(asking.each)]
                    if variant in about:
                        own[2 * cell[1 + about.index(variant)] + cell[0]] += 1
                    else:
                        status[cell[0]] += 1
                assert own.tolist() == answers.counts[row].tolist()
                assert status.tolist() == answers.status[row].tolist()
            assert np.allclose(answers.channel, channel_of(asking, at[0]), rtol=1e-9)


def random_answers(rng, log_odds=0.0):
    asking = sampled_variants(Wanted(names(3)), float(rng.uniform(0.5, 5)))
    records = people(rng, 6000, rng.uniform(0.1, 0.5, 3), rng.uniform(0.2, 0.6), np.full(3, log_odds))
    return asking.told([asking.answered(records, as_source(int(rng.integers(1 << 30))))])[0][1]


def slow_objective(theta, delta, answers, row):
    """Log likelihood with one answer beside each category, by a loop over answers."""
    status, one, two = theta
    reference, copies = answers.cases[row], np.arange(3)
    p = np.exp([0, one, two])
    p /= p.sum()
    controls, cases = p * np.exp(-reference * delta * copies), p * np.exp((1 - reference) * delta * copies)
    w = 1 / (1 + math.exp(-status))
    cells = np.stack([(1 - w) * controls / controls.sum(), w * cases / cases.sum()], axis=1).ravel()
    value = np.log(p).sum() + math.log(w) + math.log(1 - w)
    for chances, count in zip(answers.channel, answers.counts[row], strict=True):
        value += count * math.log(chances @ cells)
    for chances, count in zip(answers.status_channel, answers.status[row], strict=True):
        value += count * math.log(chances @ [1 - w, w])
    return value


@pytest.mark.slow
def test_fit_is_the_likeliest_one():
    rng = np.random.default_rng(9)
    for _ in range(6):
        answers, delta = random_answers(rng), float(rng.uniform(-0.5, 0.5))
        fit = sampled_scan.answers_fit(answers, np.full(len(answers.counts), delta))
        for row in range(len(answers.counts)):
            ours = slow_objective(fit.theta[row], delta, answers, row)
            for start in (fit.theta[row], np.zeros(3), fit.theta[row] + 0.3):
                other = minimize(
                    lambda t, row=row, a=answers, d=delta: -slow_objective(t, d, a, row), start, method="Nelder-Mead"
                )
                assert ours >= -other.fun - 1e-5


def test_score_is_a_derivative():
    """At the fit the score of ln ψ is the slope of the profile, the nuisances' own slopes but the prior's being 0."""
    rng = np.random.default_rng(10)
    for _ in range(5):
        answers = random_answers(rng, 0.4)
        fit = sampled_scan.answers_fit(answers, np.zeros(len(answers.counts)))
        for row in range(len(answers.counts)):
            h = 1e-4
            up, down = (slow_objective(fit.theta[row], x, answers, row) for x in (h, -h))
            taken = fit.score[row] - (up - down) / (2 * h)
            # what the efficient score takes off is the nuisances' gradient, which is the prior's only
            assert abs(taken) < 0.1 * math.sqrt(fit.variance[row]) + 0.5


def test_variance_is_that_of_the_score():
    """Over answers drawn anew from the fit, the efficient score at the same weights has this variance."""
    rng = np.random.default_rng(12)
    answers = random_answers(rng)
    fit = sampled_scan.answers_fit(answers, np.zeros(len(answers.counts)))
    own = answers.counts.shape[1]
    for row in range(len(answers.counts)):
        weights, chances = fit.weights[row], fit.chances[row]
        parts = [(weights[:own], chances[:own], answers.counts[row].sum())]
        parts.append((weights[own:], chances[own:], answers.status[row].sum()))
        exact = sum(n * (c @ w**2 - (c @ w) ** 2) for w, c, n in parts)
        assert fit.variance[row] == pytest.approx(exact, rel=1e-6)


def test_without_noise_the_statistic_is_that_of_true_records():
    """At ε = 30 both variants of two are in every answer: within 1 % of the trend test of the true tables."""
    rng = np.random.default_rng(13)
    records = people(rng, 4000, np.array([0.3, 0.4]), 0.5, np.array([0.1, -0.15]))
    asking = sampled_variants(Wanted(names(2)), 30.0)
    assert asking.each == 2
    ours = sampled_scan.associations_of(asking, asking.told([asking.answered(records, as_source(1))]))
    tables = np.stack([[[np.sum((records[:, 1 + v] == g) & (records[:, 0] == s)) for s in (0, 1)] for g in range(3)]
                       for v in range(2)])  # fmt: skip
    assert np.allclose(ours.scores.statistic, score_test(tables, unrandomized((3, 2))).statistic, rtol=0.01)
    odds = ours.odds_of(slice(None))
    assert np.all((odds.low < np.exp([0.1, -0.15])) & (np.exp([0.1, -0.15]) < odds.high))


# total, variants, people, frequency and share of cases: most are cases, few are, or next to nothing is told
CORNERS = [
    (1, 1000, 200_000, 0.05, 0.9),
    (1, 1000, 200_000, 0.05, 0.99),
    (4, 100, 2_000, 0.05, 0.99),
    (4, 100, 20_000, 0.05, 0.99),
    (8, 1000, 3_000, 0.05, 0.99),
    (0.1, 1, 3_000, 0.02, 0.5),
    (0.1, 1, 3_000, 0.05, 0.999),
    (1, 20, 6_000, 0.05, 0.05),
    (2, 20, 20_000, 0.02, 0.02),
    (1, 55, 50_000, 0.1, 0.01),
]


@pytest.mark.slow
@pytest.mark.parametrize("corner", CORNERS)
def test_level_in_corners(corner):
    """Of 1,500 tests of no association that are made, at most 6.5 % and 5 standard errors (1e-7 each) have p ≤ 5 %."""
    total, count, n, frequency, cases = corner
    rng = np.random.default_rng(99)
    asking = sampled_variants(Wanted(names(count)), total)
    blank = asking.answers(0, np.empty((0, 0)), np.empty((0, 2)))
    cells = blank.channel @ true_table(frequency, cases, 0.0).ravel()
    asked = rng.binomial(n, asking.asked_share, 1500)
    others = rng.binomial(n, asking.status_share, 1500) if asking.reports else n - asked
    own = rng.multinomial(asked, cells / cells.sum()).astype(float)
    status = rng.multinomial(others, blank.status_channel @ [1 - cases, cases]).astype(float)
    p_values = sampled_scan.answers_test(asking.answers(0, own, status)).p_value
    made = p_values[np.isfinite(p_values)]
    if made.size:
        assert np.mean(made <= 0.05) < 0.065 + 5 * math.sqrt(0.05 * 0.95 / made.size)
    # nobody is left without a test but where there is next to nothing to tell
    assert made.size > 900 or total < 0.5


SETTINGS = [
    (20, 0.5, 30_000, 0.5),
    (20, 1.0, 12_000, 0.3),
    (8, 2.0, 3_000, 0.5),
    (30, 4.0, 3_000, 0.2),
    (12, 8.0, 800, 0.5),
]


@pytest.mark.slow
@pytest.mark.parametrize(("count", "total", "n", "cases"), SETTINGS)
def test_level_and_power_are_as_promised(count, total, n, cases):
    """Level of 5 %: within 5.5 standard errors of 4 to 6 % (1e-7 a setting); power: within 5 standard errors of 97 to 103 %."""
    rng = np.random.default_rng(count)
    frequencies = rng.uniform(0.1, 0.5, count)
    asking = sampled_variants(Wanted(names(count)), total, cases=cases)
    kept = sampled_scan.expected_noncentralities(
        asking, np.stack([true_table(f, cases, 0.01) for f in frequencies]), np.arange(count)
    )
    log_odds = np.sqrt(8 / (n * kept / 0.01**2))
    log_odds[::2] = 0
    tables = np.stack([true_table(f, cases, b) for f, b in zip(frequencies, log_odds, strict=True)])
    promised = n * sampled_scan.expected_noncentralities(asking, tables, np.arange(count), people=n)
    p_values, statistics = [], []
    for run_ in range(60):
        records = people(rng, n, frequencies, cases, log_odds)
        scores = sampled_scan.associations_of(asking, asking.told([asking.answered(records, as_source(run_))])).scores
        p_values.append(scores.p_value[::2])
        statistics.append(scores.statistic[1::2] - 1)
    p_values, statistics = np.concatenate(p_values), np.stack(statistics)
    slack = 5.5 * math.sqrt(0.05 * 0.95 / p_values.size)
    assert 0.04 - slack < np.mean(p_values <= 0.05) < 0.06 + slack
    mean = statistics.mean()
    error = statistics.mean(axis=1).std(ddof=1) / math.sqrt(60)
    low, high = 0.97 * promised[1::2].mean() - 5 * error, 1.03 * promised[1::2].mean() + 5 * error
    assert low < mean < high


def true_table(frequency, cases, log_odds):
    p = np.array([(1 - frequency) ** 2, 2 * frequency * (1 - frequency), frequency**2])
    q = p * np.exp(log_odds * np.arange(3))
    return np.stack([(1 - cases) * p, cases * q / q.sum()], axis=1)


def test_expected_noncentrality_is_that_of_the_prototype():
    """One variant, balanced cases: information kept is what the report says, of a weak association."""
    asking = sampled_variants(Wanted(names(1)), 2.0, cases=0.5, frequencies=[0.3])
    table = true_table(0.3, 0.5, 1e-3)[None]
    kept = sampled_scan.expected_noncentralities(asking, table, np.array([0]))[0] / (1e-6 * 2 * 0.3 * 0.7 * 0.25)
    # the report was made for frequencies and shares of cases around these
    assert 0.8 * 0.4666 < kept < 0.4705


@pytest.mark.slow
@pytest.mark.parametrize(("total", "cases"), [(0.5, 0.2), (1.0, 0.5), (2.0, 0.3), (4.0, 0.5), (8.0, 0.2)])
def test_never_far_below_other_ways(total, cases):
    """Predicted noncentrality at least 0.98 of that of the optimum, and of randomized response over any number of variants."""
    rng, count = np.random.default_rng(14), 20
    frequencies = rng.uniform(0.05, 0.5, count)
    tables = np.stack([true_table(f, cases, rng.normal(0, 0.2)) for f in frequencies])
    ours = sampled_variants(Wanted(names(count)), total, cases=cases, frequencies=frequencies)
    kept = sampled_scan.expected_noncentralities(ours, tables, np.arange(count)).mean()
    other = METHODS["optimum"](StudiedPanel(np.array(names(count), dtype=object), total))
    assert kept >= 0.98 * other.expected(tables, np.arange(count), "trend").mean()
    for each in range(1, 7):
        seen = math.expm1(total) / (math.exp(total) + 2 * 3**each - 1)
        kernel = EffectKernel((3, 2), [[1.0, seen], [seen, seen]])
        assert kept >= 0.98 * (noncentralities(tables, kernel) * each / count).mean()


@pytest.mark.slow
def test_odds_ratio_interval_holds_what_is_not_rejected():
    rng = np.random.default_rng(15)
    for _ in range(3):
        answers = random_answers(rng, 0.8)
        odds, z = sampled_scan.answers_odds(answers), sampled_scan.answers_fit(answers, np.zeros(len(answers.counts))).z
        rejected = np.abs(z) > 1.959964
        assert np.array_equal(rejected, (odds.low > 1) | (odds.high < 1))
        for end, goal in ((odds.low, 1.959964), (odds.high, -1.959964), (odds.ratio, 0.0)):
            at = np.flatnonzero((end > 0) & np.isfinite(end))
            if at.size:
                there = sampled_scan.answers_fit(answers.part(at), np.log(end[at])).z
                assert np.allclose(there, goal, atol=2e-3)


def test_nobody_asked_is_undefined():
    some = sampled_variants(Wanted(names(2)), 1.0, cases=0.5).answers(0, np.zeros((2, 0)), np.zeros((2, 2)))
    blank = Told(np.zeros((2, len(some.channel))), some.channel, some.status, some.status_channel)
    assert np.isnan(sampled_scan.answers_test(blank).p_value).all()


@pytest.mark.slow
def test_file_round_trip(tmp_path):
    rng = np.random.default_rng(16)
    for k in range(3):
        asking, _ = random_design(rng)
        path = tmp_path / f"{k}.json"
        save_sampled_variants(asking, path)
        again = load_sampled_variants(path)
        assert again.digest == asking.digest
        assert again.epsilon == asking.epsilon
        assert verify_sampled_variants(path).holds
        assert optrr.verify(path).holds
        assert optrr.load(path).digest == asking.digest
        optrr.save(again, tmp_path / "other.json")
        assert (tmp_path / "other.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("epsilon", 0.5, "consume"),
        ("epsilon", 1e300, "consume"),
        ("status_share", 0.5, "changed"),
        ("answer_epsilon", 3.0, "do not add up to the same"),
        ("each", 2, "one variant and the status"),
        ("format", "optrr-sampled-variants/9", "format"),
        ("variants", [{"name": f"rs{k}", "a1": "A", "a2": "", "report": 0} for k in range(1, 5)], "changed"),
        ("variants", [{"name": "rs1", "a1": "", "a2": "", "report": 10**30}], "cannot be read"),
    ],
)
def test_changed_files_are_refused(tmp_path, key, value, said):
    path = tmp_path / "d.json"
    save_sampled_variants(sampled_variants(Wanted(names(4)), 1.0), path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(InvalidInput, match=said):
        optrr.load(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"report_of": np.array([0, 1])}, "unknown report"),
        ({"reports": (SetReport(((0, 1, 2, 3, 4, 5),), (1.0,)),)}, "some, but not all"),
        ({"reports": (SetReport(((0,), (1, 2, 3, 4, 5)), (0.5, -0.5)),)}, "positive"),
        ({"reports": (SetReport(((0,),), (1.0,)),)}, "add up to the same"),
        ({"each": 3, "reports": ()}, "variants in a question"),
        ({"status_share": 1.0}, "less than 1"),
        ({"answer_epsilon": -1.0}, "epsilon"),
        ({"reports": (), "status_share": 0.1}, "every report on one variant covers the status"),
        ({"reports": (SetReport(((0,), (0,)), (0.5, 0.5)),)}, "same set twice"),
    ],
)
def test_designs_that_cannot_be(change, said):
    made = sampled_variants(Wanted(names(2)), 1.0)
    given = {
        k: getattr(made, k)
        for k in ("names", "alleles", "answer_epsilon", "each", "status_share", "reports", "report_of")
    }
    with pytest.raises(InvalidInput, match=said):
        SampledVariants(**(given | change))


@pytest.mark.parametrize("answers", [([9], [0]), ([0], [99]), ([-1], [0]), ([0], [-1])])
def test_answers_that_cannot_be(answers):
    with pytest.raises(InvalidInput, match="gwas randomize"):
        sampled_variants(Wanted(names(3)), 1.0).told([(np.array(answers[0]), np.array(answers[1]))])


@pytest.mark.slow
@pytest.mark.parametrize("total", [1e-6, 1e-3, 0.01, 11.9, 14.0, 22.0, 30.0, 40.0, 50.0])
@pytest.mark.parametrize("count", [1, 3, 12])
def test_every_total_has_a_design(total, count):
    asking = sampled_variants(Wanted(names(count)), total, frequencies=[0.01 if k % 2 else 0.4 for k in range(count)])
    assert asking.epsilon <= total or total == 1e-6
    # thresholds of 64 bits are coarse where e^ε is near 2^64
    assert asking.epsilon == pytest.approx(total, rel=1e-6 if total < 40 else 0.1)
    assert 0 < asking.kept <= 1
    assert not asking.bound < asking.kept


@pytest.mark.slow
def test_nobody_asked_about_any_variant():
    with pytest.raises(TooFewRecords):
        asking = sampled_variants(Wanted(names(3)), 1.0)
        sampled_scan.associations_of(asking, asking.told([(np.array([3, 3]), np.array([0, 1]))]))


@pytest.mark.slow
def test_other_tests_of_a_study_stand_beside_it():
    """Where sets are named there is the trend test only, and the study goes on."""
    rng = np.random.default_rng(24)
    cohort = cohort_of(people(rng, 300, np.full(3, 0.4), 0.5, np.full(3, 1.0)))
    options = StudyOptions([1.0], repeats=2, methods=("kronecker", "association"), test="genotypic", top=3)
    study = run_study(cohort, options)
    assert [o.method for o in study.outcomes] == ["kronecker"]
    assert "no genotypic test" in study.unavailable[0][2]


@pytest.mark.slow
def test_variants_of_one_copy_are_refused():
    rng = np.random.default_rng(25)
    cohort = cohort_of(people(rng, 50, np.full(2, 0.4), 0.5, np.zeros(2)))
    variants = Variants.of([("X", k + 1, f"rs{k + 1}", "A", "C") for k in range(2)])
    male = np.zeros(cohort.n, dtype=bool)
    of_x = replace(cohort, genotypes=replace(cohort.genotypes, variants=variants), male=male)
    with pytest.raises(InvalidInput, match="two copies"):
        association_design(of_x, 1.0).randomize(of_x, random_state=1)


def write_people(path, rng, n=400, missing=False):
    records = people(rng, n, np.array([0.2, 0.3, 0.4]), 0.5, np.zeros(3))
    lines = ["sample,kind,rs1,rs2,rs3"]
    for k, (status, *codes) in enumerate(records.tolist()):
        cells = ["" if missing and k % 10 == 0 and j == 0 else str(g) for j, g in enumerate(codes)]
        lines.append(",".join([f"p{k}", "sick" if status else "well", *cells]))
    path.write_text("\n".join(lines) + "\n")
    return ["--phenotype-column", "kind", "--case", "sick"]


@pytest.mark.slow
def test_frequencies_from_a_file_and_refusals(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    who = " ".join(write_people(tmp_path / "people.csv", np.random.default_rng(20)))
    design = f"gwas design people.csv {who} --total-epsilon 1"
    (tmp_path / "public.csv").write_text("variant,frequency\nrs1,0.2\nrs2,0.9\nrs3,0.4\n")
    (tmp_path / "fewer.csv").write_text("variant,frequency\nrs1,0.2\nrs2,0.9\n")
    assert run(f"{design} --for association --frequencies public.csv -o d.json".split()) == 0
    assert len(optrr.load(tmp_path / "d.json").reports) == 3
    assert run(f"gwas randomize people.csv {who} --design d.json -o a.csv".split()) == 0
    assert run(f"{design} --for association --case-share .3 -o other.json".split()) == 0
    capsys.readouterr()
    for line, said in (
        (f"{design} --for association --frequencies fewer.csv", "no frequency for variant 'rs3'"),
        (f"{design} --frequencies public.csv", "--frequencies requires --for association"),
        (f"{design} --for association --missing category -o x.json", "--missing cannot be combined with"),
        (f"{design} --for association --variant-epsilon 1 -o x.json", "--variant-epsilon cannot be combined with"),
        (f"{design} --for association --case-share 2 -o x.json", "between 0 and 1"),
        ("gwas scan a.csv --design d.json --test genotypic", "only the trend test"),
        ("gwas scan a.csv --design other.json", "another design"),
        ("randomize people.csv --design d.json -o x.csv", "gwas randomize"),
    ):
        genotypes.refused(capsys, line, said)
    assert not list(tmp_path.glob("x.*"))


def test_who_lacks_a_call_gives_no_answer(tmp_path, capsys):
    who = write_people(tmp_path / "people.csv", np.random.default_rng(21), missing=True)
    people_file, made, answers = (str(tmp_path / x) for x in ("people.csv", "d.json", "a.csv"))
    assert run(["gwas", "design", people_file, *who, "--total-epsilon", "1", "--for", "association", "-o", made]) == 0
    assert run(["gwas", "randomize", people_file, *who, "--design", made, "-o", answers]) == 2
    assert "missing calls" in capsys.readouterr().err
    assert run(["gwas", "randomize", people_file, *who, "--design", made, "-o", answers, "--missing", "exclude"]) == 0
    gone = 400 - pa_csv.read_csv(answers).num_rows
    assert 0 < gone <= 40
    assert f"({gone})" in capsys.readouterr().err


@pytest.mark.parametrize("total", [1.0, 9.0])
def test_the_plan_says_how_many_missing_calls_leave_without_an_answer(total):
    """Of 20,000 people with 5 % missing calls; 5 standard errors."""
    asking = sampled_variants(Wanted(names(12)), total)
    records = np.zeros((20_000, 13), dtype=np.int8)
    records[:, 1:] = np.where(np.random.default_rng(8).random((20_000, 12)) < 0.05, MISSING, 0)
    silent = np.mean(asking.answered(records, as_source(9))[1] < 0)
    said = float(asking.sentences()[-1].rpartition(", ")[2].partition(" % at 5% missing calls")[0]) / 100
    assert said == pytest.approx(silent, abs=5 * np.sqrt(silent / 20_000) + 0.005)
