"""A right client, written plainly, and twelve ways to get it wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from optrr.domain.domain import Domain
from optrr.mechanisms.mechanism import Mechanism
from optrr_solvers import Problem, solve
from optrr_solvers.automaton.draw import Sampler
from optrr_solvers.automaton.layers import Layer

# Records for which a reused key hands out the same stream.
BATCH = 1000


def mechanism_of(sizes, epsilons, method="auto"):
    """The optimum for attributes of these sizes."""
    domain = Domain.of({f"a{i}": int(r) for i, r in enumerate(sizes)})
    return Mechanism(domain, solve(Problem(sizes, epsilons), method).law)


class PlainClient:
    """Draws the change set from a table of all of them, and each replacement on its own, with numpy's generators."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self.sizes = mechanism.domain.sizes
        self.m = mechanism.domain.m
        self.probabilities = self.table()

    def table(self):
        """Probability of each change set, the first attribute in the highest bit."""
        return self.mechanism.law.marginal(range(self.m)).ravel()

    def generator(self):
        """Fresh random bits of the operating system for each process."""
        return np.random.default_rng(int.from_bytes(os.urandom(16), "big"))

    def changes(self, n, rng):
        """Change sets, shape (n, m)."""
        ends = np.cumsum(self.probabilities)
        patterns = np.minimum(np.searchsorted(ends, rng.random(n) * ends[-1], side="right"), ends.size - 1)
        return (patterns[:, None] >> np.arange(self.m - 1, -1, -1)) & 1

    def moves(self, n, rng):
        """By how much a changed code moves on, 1..r−1, shape (n, m)."""
        return np.column_stack([rng.integers(1, r, n) for r in self.sizes])

    def __call__(self, people, records):
        """Randomized codes."""
        del people
        rng = self.generator()
        return (records + self.changes(len(records), rng) * self.moves(len(records), rng)) % self.sizes


class _SwappedThresholds(PlainClient):
    """Two states of the automaton take each other's thresholds."""

    def __init__(self, mechanism):
        super().__init__(mechanism)
        automaton = mechanism.law.automaton.layers
        layers = list(automaton.layers)
        k = next(k for k, x in enumerate(layers) if isinstance(x, Layer) and not x.uniform and x.states > 1)
        words = layers[k].words.copy()
        words[:, [0, 1]] = words[:, [1, 0]]
        layers[k] = replace(layers[k], words=words, high=None, high_words=None)
        self.sampler = Sampler(replace(automaton, layers=tuple(layers)))

    def changes(self, n, rng):
        class Source:
            def words(self, count):
                return rng.integers(0, 1 << 64, count, dtype=np.uint64)

        return self.sampler.changes(n, Source())


class _BiasedModulo(PlainClient):
    """A byte modulo r − 1 chooses the other category."""

    def moves(self, n, rng):
        return 1 + rng.integers(0, 256, (n, self.m)) % (self.sizes - 1)


class _ReusedKey(PlainClient):
    """Every thousand records the stream starts again."""

    def __call__(self, people, records):
        seed = self.generator().integers(1 << 62)
        parts = []
        for start in range(0, len(records), BATCH):
            rng, part = np.random.default_rng(seed), records[start : start + BATCH]
            parts.append((part + self.changes(len(part), rng) * self.moves(len(part), rng)) % self.sizes)
        return np.concatenate(parts)


class _SeededSource(PlainClient):
    """Every process starts from one seed."""

    def generator(self):
        return np.random.default_rng(20)


class _ForgottenUniform(PlainClient):
    """The law is a uniform answer mixed with something else; only the something else is drawn."""

    def table(self):
        outputs = np.ones(1)
        for r in self.sizes:
            outputs = np.multiply.outer(outputs, [1.0, r - 1.0]).ravel()
        whole = super().table()
        return np.maximum(whole - outputs * (whole / outputs).min(), 0.0)


class _WrongOrder(PlainClient):
    """Two attributes of one size stand in each other's column."""

    def __call__(self, people, records):
        out = super().__call__(people, records)
        i, j = next((i, j) for i in range(self.m) for j in range(i + 1, self.m) if self.sizes[i] == self.sizes[j])
        out[:, [i, j]] = out[:, [j, i]]
        return out


class _ClippedCategory(PlainClient):
    """The last category of the largest attribute is never answered."""

    def __call__(self, people, records):
        out = super().__call__(people, records)
        i = int(np.argmax(self.sizes))
        out[:, i] = np.minimum(out[:, i], self.sizes[i] - 2)
        return out


class _SameAfterFork(PlainClient):
    """A stream that is keyed once, and does not notice that its process was forked."""

    def __init__(self, mechanism):
        super().__init__(mechanism)
        self.stream = None

    def generator(self):
        if self.stream is None:
            secret = os.urandom(48)
            self.stream = Cipher(algorithms.AES(secret[:32]), modes.CTR(secret[32:])).encryptor()
        return np.random.default_rng(int.from_bytes(self.stream.update(bytes(16)), "big"))


class _AnotherDesign(PlainClient):
    """The mechanism of another file, whose first attribute is a tenth more accurate."""

    def table(self):
        epsilons = self.mechanism.law.attribute_epsilons() * np.where(np.arange(self.m) == 0, 1.1, 1.0)
        return solve(Problem(self.sizes, epsilons), "auto").law.marginal(range(self.m)).ravel()


class _OffByOne(PlainClient):
    """A changed code moves on by 0..r−2 in place of 1..r−1."""

    def moves(self, n, rng):
        return super().moves(n, rng) - 1


class _CorrelatedRecords(PlainClient):
    """One record in ten has the changes of the record before."""

    def changes(self, n, rng):
        out = super().changes(n, rng)
        again = np.flatnonzero(rng.random(n) < 0.1)[1:]
        out[again] = out[again - 1]
        return out


def remembering(client: Callable) -> Callable:
    """The same client with a memory of what each person was answered, within a process."""

    def answer(people, records):
        _, first = np.unique(people, return_index=True)
        told = dict(zip(people[first].tolist(), client(people[first], records[first]), strict=True))
        return np.array([told[p] for p in people.tolist()])

    return answer


# Bugs by name; the second answer drawn afresh is a right client that had promised to answer once.
BUGS = {
    "swapped thresholds": _SwappedThresholds,
    "biased modulo": _BiasedModulo,
    "reused key": _ReusedKey,
    "seeded source": _SeededSource,
    "forgotten uniform part": _ForgottenUniform,
    "wrong attribute order": _WrongOrder,
    "clipped category": _ClippedCategory,
    "identical noise after fork": _SameAfterFork,
    "second answer drawn afresh": PlainClient,
    "label of another design": _AnotherDesign,
    "off-by-one categories": _OffByOne,
    "correlated records": _CorrelatedRecords,
}
PROMISES_ONCE = {"second answer drawn afresh"}
