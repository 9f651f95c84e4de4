"""Random questions with few enough outcomes to write down, and every chance of their reports in exact fractions."""

import itertools
import math
from fractions import Fraction

import numpy as np

from optrr.allocation.sampled_tables import SampledTables
from optrr.allocation.supports import unlikely_threshold
from optrr.core.domain.domain import Domain
from optrr.devices.deployment_file import DeployedQuestions
from optrr_solvers.allocation.questions import SubsetReport

MOST_ENTRIES = 20_000


def random_report(rng, sizes):
    """Any subset of cells, or subsets of each attribute with any likely patterns."""
    if rng.random() < 0.4:
        return SubsetReport((int(rng.integers(1, math.prod(sizes))),), (int(rng.integers(2)),))
    patterns = 1 << len(sizes)
    likely = rng.choice(patterns, int(rng.integers(1, patterns)), replace=False)
    return SubsetReport(tuple(int(rng.integers(1, r)) for r in sizes), tuple(sorted(likely.tolist())))


def random_question(rng):
    """Sizes, ε and a report with few enough outcomes to write down."""
    while True:
        sizes = tuple(int(r) for r in rng.integers(2, 5, int(rng.integers(1, 4))))
        report = random_report(rng, sizes)
        if outcomes(report, sizes) <= MOST_ENTRIES:
            return sizes, float(rng.choice([0.3, 1.0, 2.5, 6.0])), report


def enumerated(sizes, epsilon, report, drawn=None):
    """Records x, reports y, and the exact chance of each y under each x, from the threshold that is drawn.

    ``drawn`` is the chance of an unlikely pattern, by default the one that is drawn with in memory.
    """
    parts, weights = report.parts(sizes), report.weights(sizes)
    out = Fraction(unlikely_threshold(report, sizes, epsilon), 1 << 64) if drawn is None else drawn
    likely = sum(weights[p] for p in report.likely)
    subsets = (itertools.combinations(range(r), k) for r, k in zip(parts, report.subset_sizes, strict=True))
    reports = list(itertools.product(*subsets))
    records = list(itertools.product(*map(range, sizes)))
    chances = {}
    for x in records:
        own = x if len(parts) == len(sizes) else (int(np.ravel_multi_index(x, sizes)),)
        for y in reports:
            held = [own[i] in y[i] for i in range(len(parts))]
            pattern = sum(1 << i for i, match in enumerate(held) if match)
            share = (1 - out) * Fraction(1, likely) if pattern in report.likely else out / (sum(weights) - likely)
            # of the pattern's weight, one for each subset of this kind
            for r, k, match in zip(parts, report.subset_sizes, held, strict=True):
                share *= Fraction(k, math.comb(r - 1, k - 1)) if match else Fraction(r - k, math.comb(r - 1, k))
            chances[y, x] = share
    return records, reports, chances


def random_asking(rng) -> SampledTables:
    """One to three random questions about one to three attributes, with any shares."""
    while True:
        sizes, epsilon, _ = random_question(rng)
        domain = Domain.of({f"a{i}": r for i, r in enumerate(sizes)})
        asked = {}
        for _ in range(int(rng.integers(1, 4))):
            members = tuple(rng.permutation(len(sizes))[: int(rng.integers(1, len(sizes) + 1))].tolist())
            report = random_report(rng, [sizes[i] for i in members])
            asked[frozenset(members), report] = tuple(domain.names[i] for i in members), report
        tables, reports = zip(*asked.values(), strict=True)
        if all(outcomes(r, [domain[n].size for n in names]) <= MOST_ENTRIES for names, r in asked.values()):
            shares = rng.dirichlet(np.full(len(tables), 2.0))
            return SampledTables(domain, tables, shares, epsilon, reports)


def outcomes(report, sizes) -> int:
    """Pairs of a record and a report."""
    parts = zip(report.parts(sizes), report.subset_sizes, strict=True)
    return math.prod(math.comb(r, k) for r, k in parts) * math.prod(sizes)


def truth(deployed: DeployedQuestions) -> Fraction:
    """e^ε of all that a file of questions can send: every chance, of the question's share and of its answer, enumerated."""
    full, worst = 1 << deployed.bits, Fraction(1)
    ends = [0, *deployed.ends, full]
    for question, shape, low, high in zip(deployed.questions, deployed.shapes, ends, ends[1:], strict=False):
        records, reports, chances = enumerated(shape, 0.0, question.report, Fraction(question.threshold, full))
        share = Fraction(high - low, full)
        for y in reports:
            each = [share * chances[y, x] for x in records]
            worst = max(worst, max(each) / min(each))
        assert all(sum(chances[y, x] for y in reports) == 1 for x in records)
    return worst
