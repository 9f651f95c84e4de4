"""The label of a mechanism of records, and answers to it as evidence."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from optrr.core.domain import Domain
from optrr.devices.audit_checks import BoolArray, Fingerprints, Tally, fingerprints_of
from optrr.devices.epsilon_bounds import Cells
from optrr.devices.planting import Codes, answered_codes
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.programs.lp import event_sizes

# Sets of attributes beyond those side by side whose changes are tabled, drawn at random.
_DRAWN_SETS = 32
# All pairs of attributes are tested up to this many attributes.
_MOST_PAIRED = 24
# Cells of a table of replacements.
_MOST_CELLS = 1 << 10
# Attributes of more categories, and records of more combinations, do not bound ε one by one.
_MOST_CATEGORIES = 64


@dataclass(frozen=True, eq=False)
class Label:
    """The promises of a design or deployment file.

    ``epsilon`` is the total ε, nats; ``flips`` the probabilities that each attribute changes, shape (m,). ``changes`` takes k
    attributes, at most ``tabled``, and returns the probability of each set of them that changes, shape (2,)*k. ``randomize``
    is our own randomizer of codes in place, with random bits of the operating system.
    """

    domain: Domain
    epsilon: float
    flips: FloatArray
    changes: Callable[[Sequence[int]], FloatArray]
    tabled: int
    randomize: Callable[[Codes], None]

    @property
    def sizes(self) -> IntArray:
        """r_i, shape (m,)."""
        return self.domain.sizes

    @property
    def width(self) -> int:
        """Codes of an answer."""
        return self.domain.m

    def foreign(self, codes: Codes) -> int:
        """Count answers that hold another value than the label's categories."""
        return int(np.count_nonzero(((codes < 0) | (codes >= self.sizes)).any(axis=1)))

    def read(self, lines: Sequence[bytes], count: int, name: str) -> Codes:
        """Read the codes of ``count`` lines; see :func:`answered_codes`."""
        return answered_codes(lines, self.domain, count, name)

    def answers(self, records: Codes, codes: Codes) -> "RecordAnswers":
        """Compare records with answers, shape (n, m) each."""
        noise = np.empty((self.domain.m, len(records)), dtype=np.min_scalar_type(int(self.sizes.max())))
        for i, r in enumerate(self.sizes.tolist()):
            noise[i] = (codes[:, i].astype(np.int64) - records[:, i]) % r
        return RecordAnswers(self, np.ascontiguousarray(records.T.astype(noise.dtype)), noise, noise != 0)


@dataclass(frozen=True, eq=False)
class RecordAnswers:
    """Records, noise, and whether the noise is not 0, shape (m, n) each."""

    label: Label
    records: Codes
    noise: Codes
    changed: BoolArray

    def reported(self, i: int, rows: slice | BoolArray) -> IntArray:
        """Return the answers' codes of one attribute."""
        return np.asarray((self.records[i, rows].astype(np.int64) + self.noise[i, rows]) % self.label.sizes[i])

    def pattern(self, chosen: Sequence[int], rows: slice = slice(None)) -> IntArray:
        """Return the number of each pattern of changes, shape (n,).

        The highest bit is the first attribute.
        """
        out = np.zeros(self.changed[0, rows].size, dtype=np.int64)
        for i in chosen:
            out = (out << 1) | self.changed[i, rows]
        return out

    def flips(self) -> Iterator[Tally]:
        """Tally joint tables of changed attributes."""
        for chosen in self._sets():
            expected = np.maximum(self.label.changes(chosen).ravel(), 0.0)
            counts = np.bincount(self.pattern(chosen), minlength=expected.size)
            names = [self.label.domain.names[i] for i in chosen]
            title = f"joint changes of {_listed(names)}"
            yield Tally(title, counts, self.noise.shape[1], expected, lambda k, names=names: changed_names(names, k))  # type: ignore[misc]

    def _sets(self) -> Iterator[Sequence[int]]:
        """Iterate over sets of attributes to test jointly.

        All attributes in adjacent pieces; pairs, if there are few; random sets, if there are more.
        """
        m, k = self.label.domain.m, self.label.tabled
        yield from self._pieces()
        if m <= k:
            return
        if m <= _MOST_PAIRED and k > 1:
            yield from combinations(range(m), 2)
        # these sets need not be secret, and the same audit should test the same ones
        rng = np.random.default_rng(m)
        for _ in range(_DRAWN_SETS):
            yield sorted(rng.choice(m, k, replace=False).tolist())

    def _pieces(self) -> Iterator[range]:
        m, k = self.label.domain.m, self.label.tabled
        return (range(start, min(start + k, m)) for start in range(0, m, k))

    def replacements(self) -> Iterator[Tally]:
        """Tally replacements by distance from the true category and by place.

        Also of two attributes together.
        """
        names, sizes = self.label.domain.names, self.label.sizes.tolist()
        for i, r in enumerate(sizes):
            rows = self.changed[i]
            distance, reported = self.noise[i, rows].astype(np.int64) - 1, self.reported(i, rows)
            place = reported - (reported > self.records[i, rows])
            if r > 2:
                yield _uniform(distance, r - 1, f"distances of a changed {names[i]!r} from the truth")
                yield _uniform(place, r - 1, f"places of a changed {names[i]!r} among the other categories")
        for i, j in combinations(range(len(sizes)), 2) if len(sizes) <= _MOST_PAIRED else ():
            cells = (sizes[i] - 1) * (sizes[j] - 1)
            if min(sizes[i], sizes[j]) > 2 and cells <= _MOST_CELLS:
                rows = self.changed[i] & self.changed[j]
                pair = (self.noise[i, rows].astype(np.int64) - 1) * (sizes[j] - 1) + self.noise[j, rows] - 1
                yield _uniform(pair, cells, f"replacements of {names[i]!r} and {names[j]!r} where both change")

    def fingerprints(self) -> list[Fingerprints]:
        """Return fingerprints of the noise and changes of the noisiest attributes.

        As many as can be tabulated.
        """
        order = np.argsort(-np.minimum(self.label.flips, 1 - self.label.flips), kind="stable")
        chosen = sorted(order[: self.label.tabled].tolist())
        chances = self.label.changes(chosen).ravel() ** 2
        same = float((chances / event_sizes(self.label.sizes[chosen])).sum())
        return [
            Fingerprints(fingerprints_of([self.noise[i] for i in chosen]), same, "noise"),
            Fingerprints(self.pattern(chosen), float(chances.sum()), "changes"),
        ]

    def events(self, parts: Sequence[slice]) -> list[Iterable[Cells]]:
        """List two families: changes by set and number, answers by true category."""
        m = self.label.domain.m
        changes = [self._change_sets(chosen, parts) for chosen in self._pieces()]
        if m > 1:
            changes.append(self._change_numbers(parts))
        members = {(i,) for i in range(m)} | {tuple(range(m))}
        given = [cells for each in members for cells in self._by_category(each, parts)]
        return [family for family in (changes, given) if family]

    def _change_sets(self, chosen: Sequence[int], parts: Sequence[slice]) -> Cells:
        sizes = event_sizes(self.label.sizes[list(chosen)])
        names = [self.label.domain.names[i] for i in chosen]
        counts = np.array([np.bincount(self.pattern(chosen, rows), minlength=sizes.size) for rows in parts])
        return Cells(sizes / sizes.sum(), counts, lambda k: changed_names(names, k))

    def _change_numbers(self, parts: Sequence[slice]) -> Cells:
        share = np.ones(1)
        for r in self.label.sizes:
            share = np.convolve(share, [1 / r, 1 - 1 / r])
        counts = np.array([np.bincount(self.changed[:, rows].sum(axis=0), minlength=share.size) for rows in parts])
        usable = np.flatnonzero(share > 0)
        return Cells(share[usable], counts[:, usable], lambda k: f"{usable[k]} attributes changed")

    def _by_category(self, members: Sequence[int], parts: Sequence[slice]) -> list[Cells]:
        """Count the true categories behind each answer about these attributes."""
        sizes = self.label.sizes[list(members)]
        size = int(np.prod(sizes, dtype=object))
        if size > _MOST_CATEGORIES:
            return []

        def table(rows: slice) -> IntArray:
            true = reported = np.zeros(1, dtype=np.int64)
            for i, r in zip(members, sizes, strict=True):
                true, reported = true * r + self.records[i, rows], reported * r + self.reported(i, rows)
            return np.bincount(reported * size + true, minlength=size**2).reshape(size, size)

        def texts(code: int) -> str:
            of = zip(members, np.unravel_index(code, tuple(sizes)), strict=True)
            attributes = [(self.label.domain.attributes[i], int(k)) for i, k in of]
            return ", ".join(f"{a.name} = {a.texts[k]!r}" for a, k in attributes)

        counts = np.array([table(rows) for rows in parts])
        return [
            Cells(np.ones(size), counts[:, v], lambda k, v=v: f"answered {texts(v)} for {texts(k)}")  # type: ignore[misc]
            for v in range(size)
        ]


def _uniform(values: IntArray, size: int, title: str) -> Tally:
    counts = np.bincount(values, minlength=size)
    return Tally(title, counts, values.size, np.full(size, 1 / size), lambda k: f"{title}: number {k + 1} of {size}")


def changed_names(names: Sequence[str], pattern: int) -> str:
    """Describe a pattern: ``of a, b, c exactly a, b changed``.

    Its highest bit is the first name's.
    """
    bits = [(pattern >> (len(names) - 1 - k)) & 1 for k in range(len(names))]
    changed = [n for n, b in zip(names, bits, strict=True) if b]
    return f"of {_listed(names)} exactly {_listed(changed) if changed else 'none'} changed"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:10])
    return shown if len(names) <= 10 else f"{shown}, … ({len(names)})"
