"""Does the noise have the label's law? How often attributes change, which change together, and what replaces them.

Every count is compared with its exact binomial law; whole tables also by their relative entropy. All hold for any records
that were planted, because a right client's noise does not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from optrr.devices.clients import Answers, RecordKinds
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
        yield from ((i, j) for i in range(m) for j in range(i + 1, m))
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
    for i in range(m):
        for j in range(i + 1, m):
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
        _by_group(worst, label, answers, _Groups(groups, parts, text, range(m) if m <= _MOST_PAIRED else [j]))
        if r * r <= _MOST_CELLS:
            _own_table(worst, label, answers, j)
    for j in range(m if m <= _MOST_COMBINED else 0):
        for k in range(j + 1, m):
            parts = int(label.sizes[j] * label.sizes[k])
            if parts <= _MOST_CATEGORIES:
                groups = answers.records[j].astype(np.int64) * label.sizes[k] + answers.records[k]
                text = f"one combination of {names[j]!r} and {names[k]!r}"
                _by_group(worst, label, answers, _Groups(groups, parts, text, range(m)))
    return worst


@dataclass(frozen=True, eq=False)
class _Groups:
    """Records in ``parts`` groups, shape (n,), what a group is, and which attributes' changes are counted in each."""

    groups: IntArray
    parts: int
    text: str
    attributes: Sequence[int]


def _by_group(worst: Worst, label: Label, answers: Answers, by: _Groups) -> None:
    n = np.bincount(by.groups, minlength=by.parts)
    for i in by.attributes:
        counts = np.bincount(by.groups[answers.changed[i]], minlength=by.parts)

        def describe(k: int, i: int = i, counts: IntArray = counts) -> str:
            return (
                f"{label.domain.names[i]!r} changes in {counts[k]} of the {n[k]} records of {by.text} (number {k}); "
                f"its label says {label.flips[i]:.6g} of them"
            )

        worst.add(two_sided(counts, n, label.flips[i]), describe)


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
