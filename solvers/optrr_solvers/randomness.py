"""Where random bits come from: the operating system by default, a seed for studies.

Samplers only ever ask for uniform 64-bit words, so one protocol serves the secure stream and numpy's generators, and a
threshold of 64 bits resolves the smallest event probabilities (about 1e-12 at sixteen attributes).
"""

import os
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

RandomState = None | int | np.random.Generator
Words = NDArray[np.uint64]

# Sets a seed's stream apart from the one that numpy draws from the same seed: records that somebody made with
# default_rng(5) and randomizes with seed 5 must not be hit by noise that depends on them.
_STREAM = 0x6F70747272
# Up to this bound 16 random bits are enough: at most one product in 16 is rejected.
_SMALL_BOUND = 1 << 12
# Bytes of key stream made at once: enough to run at the speed of memory, and few enough to stay in the cache.
_CHUNK = 1 << 22
# A view, because a slice of bytes would be a copy.
_ZEROS = memoryview(bytes(_CHUNK))


class BitSource(Protocol):
    """Anything that hands out independent uniform 64-bit words."""

    def words(self, count: int) -> Words:
        """Draw ``count`` uniform uint64 values, shape (count,)."""
        ...


class SystemSource:
    """AES-256 in counter mode, keyed once.

    With random bits of the operating system, or by 48 bytes of another such stream.
    """

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        secret, self._process = os.urandom(48), os.getpid()
        self._stream = Cipher(algorithms.AES(secret[:32]), modes.CTR(secret[32:])).encryptor()

    def words(self, count: int) -> Words:
        """Draw ``count`` uniform uint64 values, shape (count,)."""
        out = np.empty(count, dtype=np.uint64)
        self.fill(out)
        return out

    def fill(self, out: Words) -> None:
        """Fill a contiguous array as :meth:`words` does."""
        if os.getpid() != self._process:
            # a process that was forked would repeat its parent's stream
            self._start()
        view = memoryview(out.data).cast("B")
        for start in range(0, len(view), _CHUNK):
            piece = view[start : start + _CHUNK]
            self._stream.update_into(_ZEROS[: len(piece)], piece)


class SeededSource:
    """A numpy Generator as a bit source: reproducible, for studies only.

    It does not protect people.
    """

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def words(self, count: int) -> Words:
        """Draw ``count`` uniform uint64 values, shape (count,)."""
        return self._generator.integers(0, 1 << 64, size=count, dtype=np.uint64)


def fill(source: BitSource, out: Words) -> None:
    """Fill a contiguous array with uniform 64-bit words."""
    if isinstance(source, SystemSource):
        source.fill(out)
    else:
        out[:] = source.words(out.size)


def as_source(random_state: RandomState | BitSource) -> BitSource:
    """Convert to a bit source.

    None: random bits of the operating system; an int or a numpy Generator: a reproducible stream; a source: itself.
    """
    if random_state is None:
        return SystemSource()
    if isinstance(random_state, np.random.Generator):
        return SeededSource(random_state)
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return SeededSource(np.random.default_rng(np.random.SeedSequence(int(random_state), spawn_key=(_STREAM,))))
    if hasattr(random_state, "words"):
        return random_state
    raise TypeError(f"random_state = {random_state!r}; give None, an int from 0 or a numpy Generator")


def words_below(source: BitSource, count: int, bound: int) -> NDArray[np.integer]:
    """Draw ``count`` integers uniform on 0..bound−1, exactly, shape (count,).

    Uses 16 random bits each for bounds up to 4096.

    Multiply and shift, with rejection of the products that would favour a value (Lemire 2019).
    """
    if bound > _SMALL_BOUND:
        return bounded(source, count, bound)
    products, uneven = _products(source, count, bound), (1 << 16) % bound
    redo = np.flatnonzero(products.astype(np.uint16) < uneven) if uneven else np.zeros(0, dtype=np.intp)
    while redo.size:
        again = _products(source, redo.size, bound)
        products[redo] = again
        redo = redo[again.astype(np.uint16) < uneven]
    return np.right_shift(products, 16, out=products)


def _products(source: BitSource, count: int, bound: int) -> NDArray[np.uint32]:
    """Compute the product of 16 random bits and the bound, for each number."""
    short = source.words(-(-count // 4)).view(np.uint16)[:count]
    return np.multiply(short, bound, dtype=np.uint32)


def threshold(probability: float) -> np.uint64:
    """Convert a probability to a 64-bit threshold, ⌈p·2^64⌉ capped at 2^64−1.

    ``words < threshold`` has probability at least p, within 2^-64 of it.
    """
    return np.uint64(min(int(-((-probability * 2.0**64) // 1)), (1 << 64) - 1))


def bounded(source: BitSource, count: int, bound: int) -> NDArray[np.int64]:
    """Draw ``count`` integers uniform on 0..bound−1, exactly, shape (count,).

    Uses rejection of the uneven last interval.
    """
    if bound == 1:
        return np.zeros(count, dtype=np.int64)
    if bound & (bound - 1) == 0:
        return (source.words(count) & np.uint64(bound - 1)).astype(np.int64)
    limit = np.uint64((1 << 64) - (1 << 64) % bound)
    words = source.words(count)
    redo = np.flatnonzero(words >= limit)
    while redo.size:
        words[redo] = source.words(redo.size)
        redo = redo[words[redo] >= limit]
    return (words % np.uint64(bound)).astype(np.int64)


def permutation(source: BitSource, count: int) -> NDArray[np.int64]:
    """Draw a uniform permutation of 0..count−1, exactly, shape (count,).

    The order of random words; equal words are drawn again.
    """
    while True:
        words = source.words(count)
        order = np.argsort(words)
        if not np.any(np.diff(words[order]) == 0):
            return order
