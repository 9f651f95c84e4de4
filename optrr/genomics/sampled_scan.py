"""Likelihood tests of association of status and genotype, from answers that name sets of cells of their table.

An answer y to a question about a variant has the chance Σ_x C_yx π_x, x a cell of genotype × status; further answers,
to other queries, are about the status alone. With ψ the odds ratio per copy of A1, φ the proportion of cases and p
frequencies of the genotypes, which are free, and a about as large as φ,

    π_g0 = (1 − φ) p_g ψ^(−ag) / Σ_h p_h ψ^(−ah),      π_g1 = φ p_g ψ^((1−a)g) / Σ_h p_h ψ^((1−a)h),

so that ψ moves controls and cases apart and leaves all people where they are. For a given ψ, φ and p are the likeliest
ones (Fisher scoring), with one answer more for each category, so that no frequency ends at 0: if answers have little
information on them, that made levels of 4.4 to 5.6 %, and half an answer 3.9 to 5.2 %. The statistic is that of the
efficient score: the projection of the score of ln ψ on those of φ and p is subtracted, and its square is divided by its
variance. With I the information on θ, P the additional information of those answers, and m that on ln ψ and θ together,
the coefficient of θ's score is

    m (I + P)⁻¹ (1 + P (I + P)⁻¹),

because the fit moves by (I + P)⁻¹ as that score does, and the prior's own pull is taken back at the fit. Where the
answers do not know twice as much of φ as the prior, they are too few, and there is no test. At ψ = 1 it is the test of
association (the trend test, for it is locally best against an effect per copy); the odds ratio is where it is 0, and
its interval holds every ψ that it does not reject, up to the first one on each side that it does.

Letters: C channel, y answer, x cell, π its chance, ψ odds ratio, φ proportion of cases, p genotypes, a reference, θ =
(logit φ, ln p_1/p_0, ln p_2/p_0), B variants of a batch.

It is the trend test of a scan of answers, which has no other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from optrr.core.display import amount
from optrr.core.errors import TooFewRecords
from optrr.core.records import OpenedRecords
from optrr.genomics.genotypes import GENOTYPES
from optrr.genomics.odds import REACH, OddsRatios, crossings
from optrr.genomics.sampled_variants import SampledVariants, Told, read_answers
from optrr.genomics.scan import Associations, doubts_of_genotypes
from optrr.genomics.score_tests import Scores, about_inflation
from optrr.genomics.tail import tail_of_one
from optrr_solvers.arrays import FloatArray, IntArray

# Pseudo-answers added to each category of the free parameters.
_PRIOR = 1.0
# Fisher scoring ends where no step is longer, or after so many; five to thirty were needed.
_STEP, _ROUNDS = 1e-9, 200
# No step is longer, so that no chance is left at 0 on the way.
_LONGEST = 2.0
# ln ψ is looked for to this distance on both sides of 0; beyond, the limit is 0 or infinity.
_FARTHEST = 12.0
_PRECISION = 1e-6
# Smallest ratio of the answers' information on the proportion of cases to the prior's.
_LEAST_KNOWN = 1.5
_TINY = 1e-300
# Fraction of all information that counts as none.
_UNSEEN = 1e-12


@dataclass(frozen=True, eq=False)
class AnswersFit:
    """The likeliest θ (B, 3) for given ln ψ, and the test of that ψ.

    ``weights`` (B, Y + 2) are the contributions of an answer to the efficient score, ``chances`` its probability,
    ``variance`` (B,) the score's; ``whole`` the same of true records of the respondents about the variant; ``usable``,
    whether the answers are enough.
    """

    theta: FloatArray
    weights: FloatArray
    chances: FloatArray
    score: FloatArray
    variance: FloatArray
    whole: FloatArray
    usable: NDArray[np.bool_]

    @property
    def z(self) -> FloatArray:
        """The signed root of the statistic, (B,), 0 without answers."""
        return np.asarray(self.score / np.sqrt(np.maximum(self.variance, _TINY)))


def answers_fit(answers: Told, log_ratio: FloatArray, start: FloatArray | None = None) -> AnswersFit:
    """Fit the model at ln ψ, (B,); O(B Y) per round."""
    counts, channel, reference = answers.all_counts, answers.likelihoods, answers.cases
    tilt = log_ratio[:, None] * np.stack([-reference, 1 - reference], axis=1)
    if start is None:
        theta = np.zeros((log_ratio.size, 3))
        theta[:, 0] = np.log(reference / (1 - reference))
    else:
        theta = start.copy()
    damping, value = np.ones(log_ratio.size), _objective(theta, tilt, counts, channel)
    moving = np.arange(log_ratio.size)
    for _ in range(_ROUNDS):
        at = _Slope.of(theta[moving], tilt[moving], answers.part(moving), channel)
        information = _regular(at.information[:, 1:, 1:] + at.prior)
        step = np.linalg.solve(information, (at.gradient + at.pull)[:, :, None])[:, :, 0]
        step = np.clip(step, -_LONGEST, _LONGEST) * damping[moving, None]
        tried = theta[moving] + step
        reached = _objective(tried, tilt[moving], counts[moving], channel)
        better = reached >= value[moving]
        theta[moving[better]], value[moving[better]] = tried[better], reached[better]
        damping[moving] = np.where(better, np.minimum(1.0, 2 * damping[moving]), damping[moving] / 4)
        moving = moving[np.abs(step).max(axis=1) > _STEP]
        if not moving.size:
            break
    return _tested(theta, tilt, answers, channel)


def _cells(theta: FloatArray, tilt: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute φ (B,) and the genotypes among controls and cases, (B, 3) each.

    ``tilt`` is ln ψ of both, (B, 2).
    """
    logits = np.concatenate([np.zeros((len(theta), 1)), theta[:, 1:]], axis=1)
    copies = np.arange(GENOTYPES)
    controls, cases = (softmax(logits + tilt[:, k, None] * copies, axis=1) for k in (0, 1))
    return expit(theta[:, 0]), controls, cases


def _table(theta: FloatArray, tilt: FloatArray) -> FloatArray:
    """Compute the joint probabilities π of genotype and status, (B, 6)."""
    cases, controls, others = _cells(theta, tilt)
    both = np.stack([(1 - cases)[:, None] * controls, cases[:, None] * others], axis=2)
    return np.asarray(both.reshape(-1, 2 * GENOTYPES))


def _objective(theta: FloatArray, tilt: FloatArray, counts: FloatArray, channel: FloatArray) -> FloatArray:
    """Compute the penalized log likelihood, (B,)."""
    cases, everybody, _ = _cells(theta, np.zeros_like(tilt))
    prior = np.log(np.maximum(everybody, _TINY)).sum(axis=1) + np.log(np.maximum(cases * (1 - cases), _TINY))
    chances = np.maximum(_table(theta, tilt) @ channel.T, _TINY)
    return np.asarray(np.sum(counts * np.log(chances), axis=1) + _PRIOR * prior)


def _scores(theta: FloatArray, tilt: FloatArray, reference: FloatArray) -> FloatArray:
    """Compute the scores of ln ψ and θ in each cell, (B, 4, 6)."""
    cases, controls, others = _cells(theta, tilt)
    copies, status = np.repeat(np.arange(GENOTYPES), 2), np.tile([0, 1], GENOTYPES)
    mean = np.where(status == 1, (others @ np.arange(GENOTYPES))[:, None], (controls @ np.arange(GENOTYPES))[:, None])
    out = np.empty((len(theta), 4, 2 * GENOTYPES))
    out[:, 0] = (status - reference[:, None]) * (copies - mean)
    out[:, 1] = status - cases[:, None]
    for genotype in (1, 2):
        of_status = np.where(status == 1, others[:, genotype, None], controls[:, genotype, None])
        out[:, 1 + genotype] = (copies == genotype) - of_status
    return out


def _seen(
    theta: FloatArray, tilt: FloatArray, reference: FloatArray, channel: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Compute the probability of each answer, (B, Y), and its mean scores.

    The latter have shape (B, 4, Y).
    """
    table = _table(theta, tilt)
    chances = np.maximum(table @ channel.T, _TINY)
    return chances, (_scores(theta, tilt, reference) * table[:, None]) @ channel.T / chances[:, None]


@dataclass(frozen=True, eq=False)
class _Slope:
    """Derivatives at θ.

    ``gradient`` of the answers and ``pull`` of the prior, (B, 3); ``information`` on ln ψ and θ, (B, 4, 4).

    ``prior`` is its contribution to θ's information, (B, 3, 3); ``chances`` are the answers', (B, Y), ``seen`` the
    scores' means given them, (B, 4, Y).
    """

    gradient: FloatArray
    pull: FloatArray
    information: FloatArray
    prior: FloatArray
    chances: FloatArray
    seen: FloatArray

    @classmethod
    def of(cls, theta: FloatArray, tilt: FloatArray, answers: Told, channel: FloatArray) -> "_Slope":
        chances, seen = _seen(theta, tilt, answers.cases, channel)
        gradient = np.einsum("by,bky->bk", answers.all_counts, seen[:, 1:])
        information = np.einsum("by,bky,bly->bkl", answers.people * chances, seen, seen)
        cases, everybody, _ = _cells(theta, np.zeros_like(tilt))
        pull = np.empty_like(gradient)
        pull[:, 0] = _PRIOR * (1 - 2 * cases)
        pull[:, 1:] = _PRIOR * (1 - GENOTYPES * everybody[:, 1:])
        prior = np.zeros((len(theta), 3, 3))
        prior[:, 0, 0] = 2 * _PRIOR * cases * (1 - cases)
        prior[:, 1:, 1:] = GENOTYPES * _PRIOR * everybody[:, 1:, None] * (np.eye(2) - everybody[:, None, 1:])
        return cls(gradient, pull, information, prior, chances, seen)


def _regular(information: FloatArray) -> FloatArray:
    """Add a tiny ridge so that unobserved parameters can be divided by."""
    whole = np.trace(information, axis1=1, axis2=2)
    return np.asarray(information + (_UNSEEN * whole + _TINY)[:, None, None] * np.eye(information.shape[1]))


def _tested(theta: FloatArray, tilt: FloatArray, answers: Told, channel: FloatArray) -> AnswersFit:
    at = _Slope.of(theta, tilt, answers, channel)
    inverse = np.linalg.inv(_regular(at.information[:, 1:, 1:] + at.prior))
    moved = at.information[:, :1, 1:] @ inverse
    again = moved @ at.prior @ inverse
    at_fit = at.seen[:, 0] - (moved @ at.seen[:, 1:])[:, 0]
    weights = at_fit - (again @ at.seen[:, 1:])[:, 0]
    expected = answers.people * at.chances
    score = np.einsum("by,by->b", answers.all_counts, at_fit)
    variance = np.einsum("by,by->b", expected, weights**2)
    cases, everybody, _ = _cells(theta, np.zeros_like(tilt))
    copies = np.arange(GENOTYPES)
    spread = everybody @ copies**2 - (everybody @ copies) ** 2
    whole = answers.counts.sum(axis=1) * cases * (1 - cases) * spread
    known = at.information[:, 1, 1] >= _LEAST_KNOWN * at.prior[:, 0, 0]
    usable = (answers.counts.sum(axis=1) > 0) & known
    return AnswersFit(theta, weights, at.chances, score, variance, np.asarray(whole), usable)


@dataclass(frozen=True, eq=False)
class AnswersTest:
    """Tests of no association, (B,): ``statistic`` is χ² with 1 degree of freedom.

    ``kept`` is the information relative to true records of the respondents, ``expected`` the smallest expected count of
    an answer.
    """

    statistic: FloatArray
    p_value: FloatArray
    kept: FloatArray
    expected: FloatArray


def answers_test(answers: Told) -> AnswersTest:
    """Test each variant; NaN if too few people answered."""
    fit = answers_fit(answers, np.zeros(len(answers.counts)))
    statistic = np.where(fit.usable & (fit.variance > 0), fit.z**2, np.nan)
    expected = answers.people * fit.chances
    law = expected / np.maximum(expected.sum(axis=1, keepdims=True), _TINY)
    p = tail_of_one(fit.weights, law, answers.all_counts, statistic)
    own = expected[:, : answers.counts.shape[1]]
    kept = fit.variance / np.maximum(fit.whole, _TINY)
    return AnswersTest(statistic, p, np.where(fit.usable, kept, np.nan), own.min(axis=1))


def answers_odds(answers: Told) -> OddsRatios:
    """Estimate the odds ratio per copy of A1 of each variant.

    The interval inverts the tests of every ratio; about 50 fits a variant.
    """
    b = len(answers.counts)
    null = answers_fit(answers, np.zeros(b))

    def z(log_ratio: FloatArray, which: IntArray) -> FloatArray:
        return answers_fit(answers.part(which), log_ratio, null.theta[which]).z

    ends = crossings(z, b, (REACH, 0.0, -REACH), _FARTHEST, _PRECISION)
    at = np.clip(ends[1], -_FARTHEST, _FARTHEST)
    reference = answers.cases
    tilt = at[:, None] * np.stack([-reference, 1 - reference], axis=1)
    _, controls, others = _cells(answers_fit(answers, at, null.theta).theta, tilt)
    half = np.arange(GENOTYPES) / (GENOTYPES - 1)
    told = null.usable
    ratio, low, high = (np.where(told, np.exp(x), np.nan) for x in (ends[1], ends[0], ends[2]))
    return OddsRatios(ratio, low, high, np.where(told, others @ half, np.nan), np.where(told, controls @ half, np.nan))


# People of whom answers are expected: so many that shares are as good as exact.
_MANY = 1e12
# Drawn answers to a question about a variant, over all variants, for what is expected of fewer.
_DRAWN = 20_000
# Variants tested at once, so that memory stays in tens of megabytes.
_VARIANTS = 1 << 14


def scan_answers(asking: SampledVariants, answers: Any) -> Associations:
    """Test each variant for association with the status, from released answers.

    They are a data frame or a file.

    Raises
    ------
    InvalidInput
        For answers that are impossible under this protocol.
    """
    reports = OpenedRecords.of(asking, answers)
    (opened,) = reports.places
    scanned = associations_of(asking, asking.told(read_answers(opened)))
    return replace(scanned, warnings=(*doubts_of_genotypes(reports.unbound), *scanned.warnings))


def associations_of(asking: SampledVariants, told: Sequence[tuple[IntArray, Told]]) -> Associations:
    """Test the counted answers of :meth:`SampledVariants.told`."""
    n = np.zeros(len(asking.names), dtype=np.int64)
    for at, answers in told:
        n[at] = answers.counts.sum(axis=1)
    if not n.any():
        raise TooFewRecords("no answers about any variant; give the file of the answers")
    test = likelihood_tests(asking, told)
    scores = Scores.of_one(test.statistic, test.p_value, test.expected)
    unasked, few = int(np.count_nonzero(n == 0)), int(np.count_nonzero((n > 0) & ~np.isfinite(scores.p_value)))
    warnings = [f"no answers about {amount(unasked, 'variant')}: P is NA there"] if unasked else []
    if few:
        warnings.append(
            f"the answers about {amount(few, 'variant')} have too little information on genotypes and cases: P is NA "
            "there"
        )
    said = (*about_inflation(scores.statistic, scores.df), *warnings)
    return Associations(
        asking.variants, "trend", n, scores, lambda which: _odds(asking, told, which), {}, said, of_answers=True
    )


def likelihood_tests(asking: SampledVariants, told: Sequence[tuple[IntArray, Told]]) -> AnswersTest:
    """Test all variants, from the answers by kind of report."""
    out = np.full((4, len(asking.names)), np.nan)
    for at, answers in told:
        for start in range(0, at.size, _VARIANTS):
            some = slice(start, start + _VARIANTS)
            test = answers_test(answers.part(some))
            out[:, at[some]] = test.statistic, test.p_value, test.kept, test.expected
    return AnswersTest(*out)


def _odds(asking: SampledVariants, told: Sequence[tuple[IntArray, Told]], which: slice | IntArray) -> OddsRatios:
    """Compute odds ratios of these variants, in this order."""
    wanted = np.arange(len(asking.names))[which]
    out = np.full((5, wanted.size), np.nan)
    for at, answers in told:
        place = {int(v): k for k, v in enumerate(at)}
        rows = np.asarray([k for k, v in enumerate(wanted.tolist()) if v in place], dtype=np.int64)
        if rows.size:
            out[:, rows] = answers_odds(answers.part(np.asarray([place[int(wanted[k])] for k in rows]))).arrays
    return OddsRatios(*out)


def expected_noncentralities(
    asking: SampledVariants, tables: NDArray[np.number], which: IntArray, people: float | None = None
) -> FloatArray:
    """Compute the tests' noncentrality per person of a cohort.

    ``tables`` (B, 3, 2) are the true tables of these variants.

    Of a cohort so large that frequencies are as good as known; with ``people``, of one of so many, whose answers tell
    less of them: the mean χ² − 1 of answers that are drawn for it, always the same ones, some 20,000 in all. Answers
    that are too few for a test add nothing, as in a scan.
    """
    shares = (tables / tables.sum(axis=(1, 2), keepdims=True)).reshape(len(tables), -1)
    # respondents about the status alone for each respondent about a variant
    more = (asking.status_share if asking.reports else 1 - asking.asked_share) / asking.asked_share
    out = np.empty(which.size)
    for report in np.unique(asking.report_of[which]).tolist():
        at = np.flatnonzero(asking.report_of[which] == report)
        blank = asking.answers(report, np.empty((0, 0)), np.empty((0, 2)))
        own = shares[at] @ blank.channel.T
        status = more * (shares[at] @ np.tile(np.eye(2), (GENOTYPES, 1)) @ blank.status_channel.T)
        if people is None:
            out[at] = answers_test(asking.answers(report, _MANY * own, _MANY * status)).statistic / _MANY
            continue
        asked, source = people * asking.asked_share, np.random.default_rng(0)
        times = math.ceil(_DRAWN / which.size)
        drawn = (source.poisson(asked * np.tile(each, (times, 1))).astype(np.float64) for each in (own, status))
        statistic = answers_test(asking.answers(report, *drawn)).statistic.reshape(times, at.size)
        out[at] = np.nan_to_num(statistic - 1).mean(axis=0) / asked
    return out * asking.asked_share
