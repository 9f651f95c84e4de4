"""The secure sum: exact, and nothing but sums revealed."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from optrr.core.errors import InvalidInput
from optrr.studies.secure_sum import secure_sum
from tests.scripted import Scripted


@pytest.mark.parametrize(("parties", "cells"), [(3, 1), (50, 20), (255, 2), (256, 2)])
def test_parties_get_exact_counts(parties, cells):
    choices = np.random.default_rng(1).integers(0, cells, parties)
    assert np.array_equal(secure_sum(np.eye(cells)[choices]), np.bincount(choices, minlength=cells))
    # n and not zero
    assert secure_sum(np.eye(2)[[1] * parties]).tolist() == [0, parties]


def test_fewer_than_three_parties_are_refused():
    with pytest.raises(InvalidInput, match="at least 3 parties; there are 2"):
        secure_sum([[1, 0], [0, 1]])


def view_of(choices, draws, watchers):
    """Everything that the watchers are sent of the first cell in one run with the given random shares.

    Two cells sum to 1, so that the second is determined; it is masked by numbers of its own.
    """
    seen = []

    def watch(sender, recipient, numbers):
        if recipient in watchers:
            seen.append((sender, recipient, int(numbers[0])))

    secure_sum(np.eye(2)[list(choices)], Scripted(np.concatenate(draws)), watch)
    return tuple(seen)


def test_what_a_party_sees_depends_on_the_others_sum_only():
    # n = 3, arithmetic modulo 4: all random numbers of the two other parties' first cell are played out, 4^4 runs
    def distribution(choices):
        return Counter(
            view_of(choices, [[a, 1, b, 2], [c, 3, d, 0], [1, 2, 3, 0]], {2})
            for a, b, c, d in product(range(4), repeat=4)
        )

    assert distribution((0, 1, 0)) == distribution((1, 0, 0))
    # this check could fail: another sum gives another distribution
    assert distribution((0, 1, 0)) != distribution((0, 0, 0))


def test_a_coalition_of_all_but_two_sees_their_sum_only():
    # n = 4, modulo 5; parties 2 and 3 pool what they see. Three of the honest parties' six random numbers run over everything,
    # which already hides what they hold
    def distribution(choices):
        return Counter(
            view_of(choices, [[a, 0, b, 0, 2, 0], [3, 0, c, 0, 1, 0], [1] * 6, [2] * 6], {2, 3})
            for a, b, c in product(range(5), repeat=3)
        )

    assert distribution((0, 1, 0, 1)) == distribution((1, 0, 0, 1))
    assert distribution((0, 1, 0, 1)) != distribution((0, 0, 0, 1))


def test_each_party_is_sent_one_share_and_one_broadcast_of_each_other():
    sent = Counter()
    secure_sum(np.eye(3)[[0, 1, 2, 0]], watch=lambda sender, recipient, numbers: sent.update([(sender, recipient)]))
    assert sent == {(i, j): 2 for i, j in product(range(4), repeat=2) if i != j}
