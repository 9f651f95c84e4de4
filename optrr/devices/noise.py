"""Does the noise have the label's law, and is one answer's independent of another's? By exact tests.

How often attributes change, which change together, and what replaces them: every count is compared with its exact binomial law;
whole tables also by their relative entropy. All hold for any records that were planted, because a right client's noise does not
depend on them.

Neighbours, stretches, two runs, and people who are asked again: two independent answers have the same noise with probability
c = Σ_S ν_S²/n_S. For each distance the pairs that are compared have no record in common, so that the number of equal ones is
exactly binomial.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from optrr.devices.clients import Answers, BoolArray, RecordKinds
from optrr.devices.label import Codes, Label
from optrr.devices.result import Worst, at_least, table_bound, two_sided
from optrr_solvers.arrays import FloatArray, IntArray

# Sets of attributes beyond those side by side whose changes are tabled, drawn at random.
_DRAWN_SETS = 32
# Pairs of attributes are all looked at up to this many attributes.
_MOST_PAIRED = 24
# Combinations of two attributes' categories are looked at up to this many attributes.
_MOST_COMBINED = 8
# Categories up to which each is looked at on its own, and parts that more of them are looked at in.
_MOST_CATEGORIES, _PARTS = 256, 64
# Cells of a table of two attributes' replacements, or of records and answers.
_MOST_CELLS = 1 << 10


def changes_together(label: Label, answers: Answers) -> Worst:
    """Tables of which attributes change, against the label's."""
    worst = Worst()
    for chosen in sets_of_attributes(label):
        expected = np.maximum(label.changes(chosen).ravel(), 0.0)
        counts = np.bincount(answers.pattern(chosen), minlength=expected.size)
        names = [label.domain.names[i] for i in chosen]

        def describe(k: int, names: Sequence[str] = names, counts: IntArray = counts, p: FloatArray = expected) -> str:
            return f"{changed_names(names, k)} in {counts[k]} of {answers.count} records; its label says {p[k]:.6g} of them"

        worst.add(two_sided(counts, answers.count, expected), describe)
        worst.add(
            table_bound(counts, expected),
            lambda _, names=names: f"which of {_listed(names)} change together is not as its label says",  # type: ignore[misc]
        )
    return worst


def sets_of_attributes(label: Label) -> Iterator[Sequence[int]]:
    """All attributes in pieces side by side; pairs, where there are few; sets drawn at random, where there are more."""
    m, k = label.domain.m, label.tabled
    for start in range(0, m, k):
        yield range(start, min(start + k, m))
    if m <= k:
        return
    if m <= _MOST_PAIRED and k > 1:
        yield from combinations(range(m), 2)
    # which sets these are need not be secret, and the same audit should look at the same ones
    rng = np.random.default_rng(m)
    for _ in range(_DRAWN_SETS):
        yield sorted(rng.choice(m, k, replace=False).tolist())


def changed_names(names: Sequence[str], pattern: int) -> str:
    """``of a, b, c exactly a, b changed``, for a pattern whose highest bit is the first name's."""
    bits = [(pattern >> (len(names) - 1 - k)) & 1 for k in range(len(names))]
    changed = [n for n, b in zip(names, bits, strict=True) if b]
    return f"of {_listed(names)} exactly {_listed(changed) if changed else 'none'} changed"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:10])
    return shown if len(names) <= 10 else f"{shown}, … ({len(names)})"


def replacements(label: Label, answers: Answers) -> Worst:
    """Every other category must be as likely: by its distance from the true one, and by its rank among the others."""
    worst = Worst()
    for i, r in enumerate(label.sizes.tolist()):
        if r == 2:
            continue
        rows = answers.changed[i]
        noise = answers.noise[i, rows].astype(np.int64)
        reported = (answers.records[i, rows] + noise) % r
        rank = reported - (reported > answers.records[i, rows])
        name = label.domain.names[i]
        _uniform(worst, noise - 1, r - 1, f"the distance of a changed {name!r} from the truth")
        _uniform(worst, rank, r - 1, f"the place of a changed {name!r} among the other categories")
    for i, j in _pairs(label):
        rows = answers.changed[i] & answers.changed[j]
        ri, rj = int(label.sizes[i]) - 1, int(label.sizes[j]) - 1
        cells = (answers.noise[i, rows].astype(np.int64) - 1) * rj + answers.noise[j, rows] - 1
        text = f"what replaces {label.domain.names[i]!r} and {label.domain.names[j]!r} where both change"
        _uniform(worst, cells, ri * rj, text, whole=True)
    return worst


def _pairs(label: Label) -> Iterator[tuple[int, int]]:
    m, sizes = label.domain.m, label.sizes
    if m > _MOST_PAIRED:
        return
    for i, j in combinations(range(m), 2):
        if 2 < (sizes[i] - 1) * (sizes[j] - 1) <= _MOST_CELLS and min(sizes[i], sizes[j]) > 2:
            yield i, j


def _uniform(worst: Worst, values: IntArray, size: int, what: str, *, whole: bool = False) -> None:
    """Values must be uniform on 0..size−1: each, the lower part of them, and each bit; ``whole``: as one table only."""
    n = values.size
    counts = np.bincount(values, minlength=size)
    if size <= _MOST_CELLS:
        worst.add(table_bound(counts, np.full(size, 1 / size)), lambda _: f"{what} is not uniform, in {n} records")
    if whole:
        return
    if size <= _MOST_CATEGORIES:
        worst.add(
            two_sided(counts, n, 1 / size),
            lambda k: f"{what} is {k} of 0..{size - 1} in {counts[k]} of {n} records; {n / size:.1f} are expected",
        )
    ends = np.unique(np.linspace(0, size, min(_PARTS, size) + 1).astype(np.int64))[1:-1]
    below = np.cumsum(counts)[ends - 1]
    worst.add(
        two_sided(below, n, ends / size),
        lambda k: (
            f"{what} is below {ends[k]} of {size} in {below[k]} of {n} records; {n * ends[k] / size:.1f} are expected"
        ),
    )
    bits = [(np.arange(size) >> b) & 1 for b in range((size - 1).bit_length())]
    ones = np.array([counts[bit == 1].sum() for bit in bits], dtype=np.int64)
    share = np.array([bit.mean() for bit in bits])
    worst.add(two_sided(ones, n, share), lambda k: f"bit {k} of {what} is 1 in {ones[k]} of {n} records")


def true_values(label: Label, answers: Answers) -> Worst:
    """Whether and how an attribute changes must not depend on the record: its own category, another's, or those of two."""
    worst, m, names = Worst(), label.domain.m, label.domain.names
    for j, r in enumerate(label.sizes.tolist()):
        groups, parts = record_groups(answers.records[j], r)
        text = f"one {'category' if parts == r else 'group of categories'} of {names[j]!r}"
        of = _Groups(groups, parts, text)
        for i in range(m) if m <= _MOST_PAIRED else [j]:
            _by_group(worst, label, answers, of, i)
        if r * r <= _MOST_CELLS:
            _own_table(worst, label, answers, j)
    if m > _MOST_COMBINED:
        return worst
    for j, k in combinations(range(m), 2):
        parts = int(label.sizes[j] * label.sizes[k])
        if parts <= _MOST_CATEGORIES:
            groups = answers.records[j].astype(np.int64) * label.sizes[k] + answers.records[k]
            of = _Groups(groups, parts, f"one combination of {names[j]!r} and {names[k]!r}")
            for i in range(m):
                _by_group(worst, label, answers, of, i)
    return worst


@dataclass(frozen=True, eq=False)
class _Groups:
    """Records in ``parts`` groups, shape (n,), and what a group is."""

    groups: IntArray
    parts: int
    text: str


def _by_group(worst: Worst, label: Label, answers: Answers, of: _Groups, i: int) -> None:
    """How often attribute i changes in each group of records."""
    n = np.bincount(of.groups, minlength=of.parts)
    counts = np.bincount(of.groups[answers.changed[i]], minlength=of.parts)
    worst.add(
        two_sided(counts, n, label.flips[i]),
        lambda k: (
            f"{label.domain.names[i]!r} changes in {counts[k]} of the {n[k]} records of {of.text} (number {k}); "
            f"its label says {label.flips[i]:.6g} of them"
        ),
    )


def record_groups(codes: Codes, size: int) -> tuple[IntArray, int]:
    """Categories, or 66 groups of many: the first, the last, and stretches between them."""
    if size <= _MOST_CATEGORIES:
        return codes.astype(np.int64), size
    inner = 1 + (codes.astype(np.int64) - 1) * _PARTS // (size - 2)
    return np.where(codes == 0, 0, np.where(codes == size - 1, _PARTS + 1, inner)), _PARTS + 2


def _own_table(worst: Worst, label: Label, answers: Answers, i: int) -> None:
    """How often category v is answered for a record of category u, for each u and v."""
    r = int(label.sizes[i])
    cells = answers.records[i].astype(np.int64) * r + answers.reported(i)
    counts = np.bincount(cells, minlength=r * r).reshape(r, r)
    flip = label.flips[i]
    expected = np.where(np.eye(r, dtype=np.bool_), 1 - flip, flip / (r - 1))
    name, n = label.domain.names[i], np.repeat(counts.sum(axis=1), r)
    flat, share = counts.ravel(), expected.ravel()
    worst.add(
        two_sided(flat, n, share),
        lambda k: (
            f"for category number {k // r} of {name!r}, number {k % r} is answered {flat[k]} times in {n[k]}; "
            f"its label says {share[k]:.6g} of them"
        ),
    )


def uniformly_planted(sizes: IntArray, records: Codes, layout: RecordKinds) -> float:
    """A p-value of the planted random records' being uniform, which the bounds of ε rest on; ``records`` of shape (m, n)."""
    worst = Worst()
    for rows in layout.uniform:
        for i, r in enumerate(sizes.tolist()):
            groups, parts = record_groups(records[i, rows], r)
            if parts == r:
                counts = np.bincount(groups, minlength=parts)
                worst.add(2 * at_least(counts.max(), groups.size, 1 / r) * parts, lambda _: "")
    return worst.adjusted


# Distances at which records are compared attribute by attribute, and lengths of stretches whose changes are counted.
_LAGS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256, 512, 1024)
_STRETCHES = (64, 1024)
# Up to this many attributes are each compared with every other of the next record.
_MOST_CROSSED = 16
# Records of one turn at least, and the longest turn that is looked at.
_FEWEST_TURNS, _LONGEST_TURN = 32, 2048
# Shifts that are looked at closely, those at which the noises correlate most.
_CANDIDATES = 4
# People who all get one answer have it by chance more often than this only where they are few, or the answers are.
_BY_CHANCE = 1e-6


def records_in_a_row(label: Label, answers: Answers) -> Worst:
    """Changes of neighbours and of stretches of records, and true values that appear in the next answer."""
    worst = Worst()
    noise, chosen = _noise_numbers(answers, label)
    add_neighbours(worst, noise, label.agreement(chosen), answers.layout)
    for rows in answers.layout.runs:
        changed = answers.changed[:, rows]
        for lag, first in _firsts(changed.shape[1]):
            _lagged(worst, label, changed, first, lag)
        _stretches(worst, label, changed)
        _stale(worst, label, answers, rows)
    return worst


def _firsts(count: int) -> Iterator[tuple[int, IntArray]]:
    """Each distance of two records, and the first ones of pairs that have no record in common."""
    for lag in (k for k in _LAGS if 2 * k <= count):
        yield lag, np.flatnonzero((np.arange(count - lag) // lag) % 2 == 0)


def add_neighbours(worst: Worst, noise: IntArray, same: float, layout: RecordKinds) -> Worst:
    """Test whether records near each other have the same noise, given as numbers, more often than with chance ``same``."""
    for number, rows in enumerate(layout.runs, 1):
        for lag, first in _firsts(layout.once):
            equal = int(np.count_nonzero(noise[rows][first] == noise[rows][first + lag]))
            _add_equal(worst, equal, first.size, same, f"records {lag} apart in run {number}")
    return worst


def _add_equal(worst: Worst, equal: int, pairs: int, share: float, what: str) -> None:
    """Test how many pairs have the same noise, which each has with probability ``share``."""
    worst.add(
        two_sided(equal, pairs, share),
        lambda _: f"{what} have the same noise in {equal} of {pairs} pairs; {pairs * share:.4g} are expected",
    )


def _lagged(worst: Worst, label: Label, changed: BoolArray, first: IntArray, lag: int) -> None:
    """How often attribute i of a record and j of a later one both change or are both kept."""
    m, names = label.domain.m, label.domain.names
    crossed = lag == 1 and m <= _MOST_CROSSED
    now = changed[:, first]
    for shift in range(m if crossed else 1):
        others = (np.arange(m) + shift) % m
        equal = np.array([np.count_nonzero(now[i] == changed[j, first + lag]) for i, j in enumerate(others)])
        f, g = label.flips, label.flips[others]

        def describe(k: int, others: IntArray = others, equal: IntArray = equal) -> str:
            return (
                f"{names[k]!r} of a record and {names[others[k]]!r} of the one {lag} later change or stay together in "
                f"{equal[k]} of {first.size} pairs, which independent answers do not"
            )

        worst.add(two_sided(equal, first.size, f * g + (1 - f) * (1 - g)), describe)


def _stretches(worst: Worst, label: Label, changed: BoolArray) -> None:
    """Changes within each stretch of records: a client that tires, or noise that groups of records share."""
    names = label.domain.names
    for length in (*_STRETCHES, changed.shape[1] // 8):
        if not length or changed.shape[1] < 2 * length:
            continue
        whole = changed[:, : changed.shape[1] // length * length]
        counts = whole.reshape(whole.shape[0], -1, length).sum(axis=2)
        p = two_sided(counts, length, label.flips[:, None])

        def describe(k: int, counts: IntArray = counts, length: int = length) -> str:
            i, stretch = divmod(k, counts.shape[1])
            return (
                f"{names[i]!r} changes {counts[i, stretch]} times in {length} records in a row (stretch {stretch + 1}); "
                f"its label says {length * label.flips[i]:.1f}"
            )

        worst.add(p, describe)


def _stale(worst: Worst, label: Label, answers: Answers, rows: slice) -> None:
    """How often the answer is the true category of the record before, where that differs from its own."""
    for i, r in enumerate(label.sizes.tolist()):
        true, reported = answers.records[i, rows], answers.reported(i, rows)
        differ = true[:-1] != true[1:]
        n, stale = np.count_nonzero(differ), np.count_nonzero(differ & (reported[1:] == true[:-1]))
        worst.add(
            two_sided(stale, n, label.flips[i] / (r - 1)),
            lambda _, i=i, n=n, stale=stale: (  # type: ignore[misc]
                f"the answer for {label.domain.names[i]!r} is the true value of the record before in {stale} of {n} records"
            ),
        )


def _noise_numbers(answers: Answers, label: Label) -> tuple[IntArray, list[int]]:
    """One number for the noise of each record on as many attributes as can be tabled, the noisiest; and which these are."""
    order = np.argsort(-np.minimum(label.flips, 1 - label.flips), kind="stable")
    chosen = sorted(order[: label.tabled].tolist())
    # different noises get equal numbers with probability below 2^-60, by multipliers that the client cannot know
    factors = np.random.default_rng().integers(0, 1 << 63, len(chosen), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    out = np.zeros(answers.count, dtype=np.uint64)
    for i, factor in zip(chosen, factors, strict=True):
        out += answers.noise[i].astype(np.uint64) * factor
    return out.view(np.int64), chosen


def noise_that_repeats(label: Label, answers: Answers) -> Worst:
    """The same noise in both runs, or in both halves of one, at whatever shift: keys and seeds used twice.

    The shifts at which noises correlate most are tested, as if all had been.
    """
    worst = Worst()
    noise, chosen = _noise_numbers(answers, label)
    add_repeats(worst, noise, label.agreement(chosen), answers.layout)
    # how many of the second run have a noise that the first had: more than chance where few seeds make it
    first, second = answers.layout.runs
    known, at = np.unique(noise[first], return_index=True)
    changes, others = label.changes(chosen).ravel(), np.ones(at.size)
    for i in chosen:
        others *= np.where(answers.changed[i, first][at], label.sizes[i] - 1.0, 1.0)
    share = min(1.0, float((changes[answers.pattern(chosen, first)[at]] / others).sum()))
    back, n = int(np.count_nonzero(np.isin(noise[second], known))), noise[second].size
    worst.add(
        at_least(back, n, share),
        lambda _: f"{back} of {n} answers of run 2 have a noise that run 1 had, too; {n * share:.4g} are expected",
    )
    return worst


def add_repeats(worst: Worst, noise: IntArray, same: float, layout: RecordKinds) -> Worst:
    """The same for noise that is given as numbers, which are equal with chance ``same``."""
    half = layout.once // 2
    first, second = (noise[rows] for rows in layout.runs)
    for a, b, what in (
        (first, second, "the two runs"),
        (first[:half], first[half : 2 * half], "the halves of run 1"),
        (second[:half], second[half : 2 * half], "the halves of run 2"),
    ):
        shifts = _candidates(a, b)
        pairs = a.size - np.abs(shifts)
        equal = np.array([_equal_at(a, b, s) for s in shifts.tolist()])

        def describe(k: int, what: str = what, s: IntArray = shifts, e: IntArray = equal, n: IntArray = pairs) -> str:
            return (
                f"records of {what} at shift {s[k]} have the same noise in {e[k]} of {n[k]} pairs; "
                f"{n[k] * same:.4g} are expected"
            )

        worst.add(two_sided(equal, pairs, same), describe, among=2 * a.size - 1)
    return worst


def true_records_in_turns(label: Label, answers: Answers) -> Worst:
    """Whether every k-th record comes back as it is, for every k and from whichever record on.

    Of each k the turn with the most unchanged records is tested, as if all had been.
    """
    worst = Worst()
    noise, chosen = _noise_numbers(answers, label)
    kept = float(label.changes(chosen).ravel()[0])
    for number, rows in enumerate(answers.layout.runs, 1):
        same = noise[rows] == 0
        periods = np.arange(2, min(_LONGEST_TURN, same.size // _FEWEST_TURNS) + 1)
        turns = same.size // periods
        most = np.array(
            [int(same[: n * k].reshape(n, k).sum(axis=0).max()) for k, n in zip(periods, turns, strict=True)]
        )

        def describe(
            at: int, k: IntArray = periods, n: IntArray = turns, most: IntArray = most, run: int = number
        ) -> str:
            return (
                f"of records {k[at]} apart in run {run}, from some record on, {most[at]} of {n[at]} come back unchanged; "
                f"{n[at] * kept:.4g} are expected"
            )

        worst.add(at_least(most, turns, kept), describe, among=int(periods.sum()))
    return worst


def _equal_at(a: IntArray, b: IntArray, shift: int) -> int:
    x, y = (a[: a.size - shift], b[shift:]) if shift >= 0 else (a[-shift:], b[: b.size + shift])
    return int(np.count_nonzero(x == y))


def _candidates(a: IntArray, b: IntArray) -> IntArray:
    """Shifts s at which a_t and b_{t+s} agree more often than elsewhere, and 0."""
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
class Again:
    """First and second records and answers of the same people, shape (n, m) each, and when the second were."""

    records: tuple[Codes, Codes]
    answers: tuple[Codes, Codes]
    when: str = ""


@dataclass(frozen=True)
class Repeated:
    """People who were asked twice: how many, how many got one answer both times, and the chance of that if drawn afresh.

    ``others`` were asked about another record the second time, and ``alike`` of them got the same noise; ``share`` is the
    chance of that if drawn afresh. ``when`` says when they were asked again; ``whole`` whether all of an answer is compared.
    """

    people: int
    same: int
    chance: float
    others: int
    alike: int
    when: str
    whole: bool = True

    @classmethod
    def of(cls, label: Label, again: Again, *, once: bool) -> Repeated:
        """From first and second records and answers; with ``once`` a person's answer is the same whatever the record is."""
        chosen = list(range(min(label.domain.m, label.tabled)))
        # where the records are the same on these attributes, so is the noise of a client that remembers what it answered
        other = (again.records[0][:, chosen] != again.records[1][:, chosen]).any(axis=1)
        noise = [(a.astype(np.int64) - r) % label.sizes for a, r in zip(again.answers, again.records, strict=True)]
        alike = (noise[0][:, chosen] == noise[1][:, chosen]).all(axis=1)
        repeated = cls.counted(again, alike, label.agreement(chosen), once=once, other=other)
        return replace(repeated, whole=label.domain.m <= label.tabled)

    @classmethod
    def counted(
        cls, again: Again, alike: BoolArray, chance: float, *, once: bool, other: BoolArray | None = None
    ) -> Repeated:
        """The same from whose noise was alike; ``other`` says whose records differ, by default on all attributes."""
        one = (again.records[0] == again.records[1]).all(axis=1)
        same = (again.answers[0] == again.answers[1]).all(axis=1)
        compared, other = np.ones_like(one) if once else one, ~one if other is None else other
        counts = (compared, same & compared, other, alike & other)
        people, repeats, others, agree = (int(np.count_nonzero(c)) for c in counts)
        return cls(people, repeats, chance, others, agree, again.when)

    @property
    def remembered(self) -> bool:
        """Whether all got one answer, and not by chance."""
        return self.same == self.people and self.chance**self.people < _BY_CHANCE

    def test(self, worst: Worst, *, once: bool) -> None:
        """A promise to answer once, which one other answer refutes; else answers afresh, or all the same; and fresh noise."""
        if once:
            others = self.people - self.same
            says = f"{others} of {self.people} people got another answer when they were asked again{self.when}"
            worst.add(float(others == 0), lambda _: says)
        elif self.same < self.people and self.whole:
            _add_equal(worst, self.same, self.people, self.chance, f"answers to people who are asked again{self.when}")
        worst.add(
            at_least(self.alike, self.others, self.chance),
            lambda _: (
                f"{self.alike} of {self.others} people who were asked about another record{self.when} got the same noise; "
                f"{self.others * self.chance:.4g} are expected: it is made from who they are"
            ),
        )
