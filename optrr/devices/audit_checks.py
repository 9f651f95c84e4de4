"""Exact tests of a client's answers: counts against the label, and repeats of noise.

The noise of an attribute is (answer − record) mod r: 0 where it is kept. Under any label it has the same distribution for
every record, so the tests hold for whatever records were planted.

Counts: each is compared with its binomial distribution, and a table of exclusive cells also as a whole by its relative
entropy.

Repeats: two independent answers have the same noise with a known probability c. Records that a test compares at one distance
form disjoint pairs, so the number of equal pairs is exactly binomial.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from optrr.devices.planting import Codes, PlantedRecords
from optrr.devices.result import Worst, at_least, table_bound, two_sided
from optrr_solvers.arrays import FloatArray, IntArray

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts in n trials with their stated probabilities, shape (K,) each.

    With words for the table and for a cell.
    """

    title: str
    counts: IntArray
    n: int
    expected: FloatArray
    cell: Callable[[int], str]


@dataclass(frozen=True, eq=False)
class Fingerprints:
    """One number for the noise of each answer, shape (n,).

    With the probability that two independent answers share it.
    """

    numbers: IntArray
    chance: float
    what: str


def tested(tallies: Iterable[Tally]) -> Worst:
    """Test every count, and every table of exclusive cells."""
    worst = Worst()
    for tally in tallies:

        def describe(k: int, of: Tally = tally) -> str:
            share = of.expected[k]
            return f"{of.cell(k)} in {of.counts[k]} of {of.n} cases; the label states {share:.6g} of them"

        worst.add(two_sided(tally.counts, tally.n, tally.expected), describe)
        if tally.counts.sum() == tally.n:
            worst.add(
                table_bound(tally.counts, tally.expected),
                lambda _, of=tally: f"{of.title} differ from the label, in {of.n} cases",  # type: ignore[misc]
            )
    return worst


def fingerprints_of(columns: Sequence[IntArray]) -> IntArray:
    """Sum the columns, shape (n,) each, with random odd multipliers.

    The client cannot know them.

    Different rows get equal numbers with probability below 2⁻⁶⁰.
    """
    out = np.zeros(columns[0].size, dtype=np.uint64)
    for column in columns:
        factor = np.random.default_rng().integers(0, 1 << 63, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        out += column.astype(np.uint64) * factor
    return out.view(np.int64)


# Distances between compared answers of a run.
_LAGS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256, 512, 1024)
# Number of tested shifts, those with the highest correlation of the noise.
_CANDIDATES = 4
# Probability below which identical answers of all people count as memory instead of chance.
_BY_CHANCE = 1e-6


def lags_and_shifts(worst: Worst, of: Fingerprints, layout: PlantedRecords) -> None:
    """Test whether answers share their noise.

    Answers near each other, of both runs, or of both halves of a run.
    """
    first, second = (of.numbers[rows] for rows in layout.runs)
    half = layout.once // 2
    for run, numbers in enumerate((first, second), 1):
        _lags(worst, of, numbers, run)
        _shifts(worst, of, (numbers[:half], numbers[half : 2 * half]), f"the halves of run {run}")
    _shifts(worst, of, (first, second), "the two runs")


def _lags(worst: Worst, of: Fingerprints, numbers: IntArray, run: int) -> None:
    for lag in (k for k in _LAGS if 2 * k <= numbers.size):
        # every other stretch of this length begins pairs, so that no two pairs have a record in common
        at = np.flatnonzero((np.arange(numbers.size - lag) // lag) % 2 == 0)
        equal = np.count_nonzero(numbers[at] == numbers[at + lag])
        worst.add(
            two_sided(equal, at.size, of.chance),
            lambda _, lag=lag, equal=equal, pairs=at.size: (  # type: ignore[misc]
                f"records {lag} apart in run {run} have the same {of.what} in {equal} of {pairs} pairs; "
                f"{pairs * of.chance:.4g} are expected"
            ),
        )


def _shifts(worst: Worst, of: Fingerprints, both: tuple[IntArray, IntArray], where: str) -> None:
    """Test the shifts of highest correlation, counting all shifts as tests."""
    a, b = both
    shifts = _candidates(a, b)
    pairs = a.size - np.abs(shifts)
    equal = np.array([_equal_at(a, b, s) for s in shifts.tolist()])

    def describe(k: int) -> str:
        return (
            f"records of {where} at shift {shifts[k]} have the same {of.what} in {equal[k]} of {pairs[k]} pairs; "
            f"{pairs[k] * of.chance:.4g} are expected"
        )

    worst.add(two_sided(equal, pairs, of.chance), describe, where=2 * a.size - 1)


def _equal_at(a: IntArray, b: IntArray, shift: int) -> int:
    x, y = (a[: a.size - shift], b[shift:]) if shift >= 0 else (a[-shift:], b[: b.size + shift])
    return int(np.count_nonzero(x == y))


def _candidates(a: IntArray, b: IntArray) -> IntArray:
    """Find shifts s at which a_t and b_{t+s} agree most often.

    By the correlation of random features; 0 is included.
    """
    values, place = np.unique(np.concatenate([a, b]), return_inverse=True)
    feature = np.random.default_rng(0).standard_normal(values.size)[place]
    feature -= feature.mean()
    x, y = feature[: a.size], feature[a.size :]
    size = next_fast_len(2 * a.size, real=True)
    products: FloatArray = irfft(np.conj(rfft(x, size)) * rfft(y, size), size)
    shifts = np.concatenate([np.arange(a.size), np.arange(1 - a.size, 0)])
    sums = np.concatenate([products[: a.size], products[size - a.size + 1 :]])
    strength = sums / np.sqrt(a.size - np.abs(shifts) + 1.0)
    return np.unique([0, *shifts[np.argsort(-strength)[:_CANDIDATES]]])


@dataclass(frozen=True, eq=False)
class AskedAgain:
    """First and second records and answers of the same people, (n, m) each.

    With the time of the second ones.
    """

    records: tuple[Codes, Codes]
    answers: tuple[Codes, Codes]
    when: str = ""

    def test(self, worst: Worst, of: Fingerprints) -> str:
        """Test second answers given the noise of the first ones, and vice versa.

        Returns the kinds of answers that people received.

        People with the same record get either fresh answers or, all of them, the first one again. A client that remembers may
        repeat its answer for another record, but no client may repeat its noise there in another answer: the difference of
        both answers would be that of the records.
        """
        noise = np.split(of.numbers, 2)
        equal: BoolArray = noise[0] == noise[1]
        same: BoolArray = (self.answers[0] == self.answers[1]).all(axis=1)
        record: BoolArray = (self.records[0] == self.records[1]).all(axis=1)
        people, others = np.count_nonzero(record), np.count_nonzero(~record)
        remembered = bool(same[record].all())
        if not remembered:
            k = np.count_nonzero(equal & record)
            worst.add(
                two_sided(k, people, of.chance),
                lambda _: (
                    f"{k} of {people} people got the same noise when they were asked again{self.when}; "
                    f"{people * of.chance:.4g} are expected"
                ),
            )
        alike = np.count_nonzero(equal & ~same & ~record)
        worst.add(
            at_least(alike, others, of.chance),
            lambda _: (
                f"{alike} of {others} people who were asked about another record{self.when} got the same noise in "
                f"another answer; at most {others * of.chance:.4g} are expected: the noise depends on the person"
            ),
        )
        if not remembered:
            return f"a fresh answer{self.when}: each is a release, and its epsilon adds up"
        if of.chance**people < _BY_CHANCE:
            return f"the same answer{self.when}, from memory or from noise that depends on the person and the answer"
        return f"the same answer{self.when}, which may be chance: use more queries"
