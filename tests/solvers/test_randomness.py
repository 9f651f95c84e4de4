import itertools
import os
from fractions import Fraction

import naive
import numpy as np
import pytest
from scripted import Scripted

from optrr_solvers import randomness
from optrr_solvers.randomness import (
    SeededSource,
    SystemSource,
    as_source,
    bounded,
    permutation,
    split,
    threshold,
    words_below,
)


def test_none_is_the_operating_system_and_seeds_repeat():
    assert isinstance(as_source(None), SystemSource)
    a, b = as_source(5).words(100), as_source(5).words(100)
    np.testing.assert_array_equal(a, b)
    generator = np.random.default_rng(5)
    handed_on = as_source(generator).words(100)
    np.testing.assert_array_equal(handed_on, SeededSource(np.random.default_rng(5)).words(100))
    # records drawn by numpy with seed 5 must not meet the noise of seed 5; a shared word has chance 1e-15
    assert not np.intersect1d(handed_on, a).size
    source = SeededSource(np.random.default_rng(1))
    assert as_source(source) is source


@pytest.mark.parametrize("bad", [True, 1.5, "7", -1])
def test_other_random_states_are_refused(bad):
    with pytest.raises(TypeError, match="give None, an int from 0 or a numpy Generator"):
        as_source(bad)


def test_system_streams_differ_and_go_on():
    one, two = SystemSource(), SystemSource()
    first, second, other = one.words(64), one.words(64), two.words(64)
    assert len({*first.tolist(), *second.tolist(), *other.tolist()}) == 192  # a repeat has chance 2^-50


def test_system_words_are_uniform_in_every_bit():
    words = SystemSource().words((1 << 19) + 12_345)  # more than one piece of key stream
    ones = np.array([np.count_nonzero(words >> np.uint64(b) & np.uint64(1)) for b in range(64)])
    z = (ones - words.size / 2) / np.sqrt(words.size / 4)
    assert np.abs(z).max() < 8  # fails once in 10^13 runs


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 8, 1000])
def test_bounded_is_uniform(bound):
    """False alarm 1e-6 for each of six bounds."""
    draws = bounded(SeededSource(np.random.default_rng(8)), 50_000, bound)
    assert draws.max() < bound and naive.fit_p_value(draws, np.full(bound, 1 / bound)) > 1e-6


def test_bounded_rejects_the_uneven_last_stretch():
    # 2^64 = 3·k + 1: only the largest word is uneven, and is drawn again
    top = (1 << 64) - 1
    assert bounded(Scripted([top, 4, top, 5]), 2, 3).tolist() == [2, 1]


@pytest.mark.parametrize("p", [0.0, 1e-22, 3e-12, 0.1, 1 / 3, 0.5, 1 - 2.0**-53, 1.0])
def test_thresholds_are_never_below_the_probability(p):
    reached = Fraction(int(threshold(p)), 1 << 64)
    assert Fraction(p) - Fraction(1, 1 << 64) * (p == 1.0) <= reached <= Fraction(p) + Fraction(1, 1 << 64)


def test_a_forked_process_draws_bits_of_its_own():
    source = SystemSource()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, source.words(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reader, 32), dtype=np.uint64)
    assert not np.intersect1d(theirs, source.words(4)).size


def test_children_and_words_drawn_ahead_are_even_and_repeat_with_a_seed():
    a, b = (split(SeededSource(np.random.default_rng(3)), 3) for _ in range(2))
    drawn = [np.concatenate([x.words(5), x.words(70_000), x.words(7)]) for x in a]
    for x, words in zip(b, drawn, strict=True):
        np.testing.assert_array_equal(np.concatenate([x.words(5), x.words(70_000), x.words(7)]), words)
    assert np.unique(np.concatenate(drawn)).size == 3 * 70_012
    assert len({int(x.words(1)[0]) for x in split(SystemSource(), 4)}) == 4


@pytest.mark.parametrize("bound", [2, 3, 7, 4095, 4097, 70_001])
def test_short_words_below_a_bound_are_even(bound):
    """False alarm 1e-9; 64 cells for large bounds."""
    draws = words_below(SeededSource(np.random.default_rng(bound)), 200_000, bound).astype(np.int64)
    assert draws.min() >= 0 and draws.max() < bound
    edges = np.arange(min(bound, 64) + 1) * bound // min(bound, 64)
    assert naive.fit_p_value(np.searchsorted(edges, draws, side="right") - 1, np.diff(edges)) > 1e-9


def test_products_that_would_favour_a_value_are_drawn_again():
    # 16-bit words times 3: 0 has lower half 0, below 65536 mod 3 = 1, and is rejected; 21846 gives 1
    assert words_below(Scripted([21846 << 16 | 0, 43691]), 2, 3).tolist() == [2, 1]


def test_a_key_that_was_given_is_remembered():
    assert not SystemSource().keyed and SystemSource(b"\0" * 48).keyed
    for keyed, source in ((False, SystemSource()), (True, SystemSource(b"\0" * 48))):
        children = source.children(3)
        assert [child.keyed for child in children] == [keyed] * 3
        assert [grandchild.keyed for grandchild in children[0].children(2)] == [keyed] * 2


@pytest.mark.parametrize("packed", [20, 0], ids=["with their places", "by sorting places"])
def test_every_permutation_is_equally_likely(monkeypatch, packed):
    """By chance it fails for once in a million seeds."""
    monkeypatch.setattr(randomness, "_PACKED_PLACES", packed)
    source, every = as_source(3), {order: k for k, order in enumerate(itertools.permutations(range(4)))}
    seen = np.array([every[tuple(permutation(source, 4).tolist())] for _ in range(2400)])
    assert naive.fit_p_value(seen, np.ones(24)) > 1e-6
    assert sorted(permutation(source, 70_001).tolist()) == list(range(70_001))
    assert permutation(source, 0).size == 0 and permutation(source, 1).tolist() == [0]


@pytest.mark.parametrize("packed", [20, 0], ids=["with their places", "by sorting places"])
def test_a_permutation_is_drawn_again_where_words_are_alike(monkeypatch, packed):
    monkeypatch.setattr(randomness, "_PACKED_PLACES", packed)

    class Words:
        given = iter([np.array([5, 5, 1], dtype=np.uint64), np.array([3, 1, 2], dtype=np.uint64)])

        def words(self, count):
            return next(self.given)

    assert permutation(Words(), 3).tolist() == [1, 2, 0]
