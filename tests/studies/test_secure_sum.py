"""The secure sum: exact, nothing but sums revealed, broken messages refused, and what is not detected."""

from collections import Counter
from itertools import product

import msgspec
import numpy as np
import pytest

from optrr.studies.secure_sum import Commitment, Partial, SecureSumFailed, SecureSumParty, Share, run_in_memory


def one_hot(cell, cells):
    return np.eye(cells, dtype=np.int64)[cell]


def parties_of(choices, cells=4, session="s"):
    n, rows = len(choices), np.eye(cells, dtype=np.int64)
    return [SecureSumParty(i, n, rows[c], session) for i, c in enumerate(choices)]


def test_parties_get_exact_counts():
    choices = np.random.default_rng(1).integers(0, 20, 50)
    assert np.array_equal(run_in_memory(parties_of(choices, 20)), np.bincount(choices, minlength=20))
    # n and not zero
    assert run_in_memory(parties_of([2] * 12)).tolist() == [0, 0, 12, 0]


@pytest.mark.parametrize("n", [254, 255, 256])
def test_counts_of_more_parties_than_fit_a_byte(n):
    made = parties_of([0] * (n - 1) + [1], 2)
    for j, party in enumerate(made):
        for sender in range(n):
            party._received[sender] = made[sender]._shares[j]
    for message in [p.partial() for p in made]:
        if message.sender:
            made[0].receive(message)
    assert made[0].counts().tolist() == [n - 1, 1]


class Scripted:
    """A bit source that plays given shares (small integers stay themselves under the uniform draw) and zero salts."""

    def __init__(self, draws):
        self.draws = list(draws)

    def words(self, count):
        if self.draws:
            out, self.draws = self.draws[:count], self.draws[count:]
            assert len(out) == count
            return np.asarray(out, dtype=np.uint64)
        return np.zeros(count, dtype=np.uint64)


def view_of(choices, draws, watchers):
    """Everything the watchers are sent (salted digests aside) in one run with the given random shares."""
    n = len(choices)
    # two cells that sum to 1: the second is determined, so watch both
    made = []
    for i, c in enumerate(choices):
        made.append(SecureSumParty(i, n, one_hot(c, 2), "s", source=Scripted(draws[i])))
    seen = []

    def watch(recipient, message):
        if recipient in watchers and not isinstance(message, Commitment):
            seen.append((recipient, type(message).__name__, message.sender, tuple(message.numbers)))

    run_in_memory(made, watch)
    return tuple(seen)


def first_cell(view):
    return tuple((recipient, kind, sender, values[0]) for recipient, kind, sender, values in view)


def test_what_a_party_sees_depends_on_the_others_sum_only():
    # n = 3, arithmetic modulo 4: all random numbers of the two other parties' first cell are played out, 4^4 runs. The second
    # cell is masked by numbers of its own, fixed here
    def distribution(choices):
        seen = Counter()
        for a, b, c, d in product(range(4), repeat=4):
            draws = [[a, 1, b, 2], [c, 3, d, 0], [1, 2, 3, 0]]
            seen[first_cell(view_of(choices, draws, watchers={2}))] += 1
        return seen

    assert distribution((0, 1, 0)) == distribution((1, 0, 0))
    # this check could fail: another sum gives another distribution
    assert distribution((0, 1, 0)) != distribution((0, 0, 0))


def test_a_coalition_of_all_but_two_sees_their_sum_only():
    # n = 4, modulo 5; parties 2 and 3 pool what they see. Only the two honest parties' randomness matters: 5^6 runs would
    # be slow, so three of the six numbers run over everything, which already hides the inputs
    def distribution(choices):
        seen = Counter()
        for a, b, c in product(range(5), repeat=3):
            draws = [[a, 0, b, 0, 2, 0], [3, 0, c, 0, 1, 0], [1] * 6, [2] * 6]
            seen[first_cell(view_of(choices, draws, watchers={2, 3}))] += 1
        return seen

    assert distribution((0, 1, 0, 1)) == distribution((1, 0, 0, 1))
    assert distribution((0, 1, 0, 1)) != distribution((0, 0, 0, 1))


def test_no_message_holds_another_partys_vector_or_a_share_for_somebody_else():
    choices = [0, 1, 2, 3, 0]
    made = parties_of(choices)
    seen = {i: [] for i in range(5)}
    run_in_memory(made, lambda recipient, message: seen[recipient].append(message))
    for i, messages in seen.items():
        kinds = Counter(type(m) for m in messages)
        assert kinds == {Commitment: 4, Share: 4, Partial: 4}
        assert all(m.recipient == i for m in messages if not isinstance(m, Partial))
        assert all(m.sender != i for m in messages)
        # commitments are digests only
        assert all(len(m.digest) == 32 for m in messages if isinstance(m, Commitment))


def exchange(made):
    """Commitments delivered; the shares made."""
    for message in [c for p in made for c in p.commitments()]:
        made[message.recipient].receive(message)
    return [s for p in made for s in p.shares()]


def test_missing_messages_are_named():
    made = parties_of([0, 1, 2])
    made[0].commitments()
    with pytest.raises(SecureSumFailed, match="no commitment from party 1 and 1 more"):
        made[0].shares()
    made = parties_of([0, 1, 2])
    late = None
    for share in exchange(made):
        if (share.sender, share.recipient) == (1, 2):
            late = share
        else:
            made[share.recipient].receive(share)
    with pytest.raises(SecureSumFailed, match="party 2 has no share from party 1"):
        made[2].partial()
    made[2].receive(late)
    partials = [p.partial() for p in made]
    made[0].receive(partials[1])
    with pytest.raises(SecureSumFailed, match="no partial sum from party 2"):
        made[0].counts()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"numbers": "first raised"}, "differs from its commitment"),
        ({"salt": b"0" * 32}, "differs from its commitment"),
        ({"numbers": "first beyond"}, "outside 0.."),
        ({"numbers": b"\0\0"}, "2 bytes of numbers where"),
        ({"session": "other"}, "session 'other'"),
        ({"sender": 7}, "no other party's"),
        ({"sender": 2}, "no other party's"),
        ({"recipient": 0}, "meant for party 0"),
    ],
)
def test_a_wrong_share_is_refused_with_its_reason(change, why):
    made = parties_of([0, 1, 2])
    share = next(s for s in exchange(made) if (s.sender, s.recipient) == (1, 2))
    if isinstance(change.get("numbers"), str):
        first, modulus = share.numbers[0], made[2].modulus
        first = (first + 1) % modulus if "raised" in change["numbers"] else modulus
        change = {"numbers": bytes([first]) + share.numbers[1:]}
    with pytest.raises(SecureSumFailed, match=why):
        made[2].receive(msgspec.structs.replace(share, **change))
    made[2].receive(share)
    with pytest.raises(SecureSumFailed, match="a second share"):
        made[2].receive(share)


@pytest.mark.parametrize("values", [[1, 1], [0, 0], [2, 0], [0.5, 0.5]])
def test_party_refuses_a_vector_that_is_no_single_cell(values):
    with pytest.raises(SecureSumFailed, match="single 1"):
        SecureSumParty(0, 3, values, "s")
    with pytest.raises(SecureSumFailed, match="at least 3"):
        SecureSumParty(0, 2, [1, 0], "s")


def test_several_tables_in_one_session():
    values = [np.concatenate([one_hot(i % 2, 2), one_hot(i % 3, 3)]) for i in range(7)]
    made = [SecureSumParty(i, 7, v, "s", tables=[2, 3]) for i, v in enumerate(values)]
    assert run_in_memory(made).tolist() == [4, 3, 3, 2, 2]


CHOICES = (1, 1, 1, 1, 1, 0)
CHEAT = 5


def test_counts_moved_between_cells_pass_as_documented():
    """Three counts go from cell 1 to cell 0, which nobody sees because only totals are checked."""
    made = parties_of(CHOICES, 3)
    made[CHEAT]._own += [3, -3, 0]
    made[CHEAT]._own %= made[0].modulus
    assert run_in_memory(made).tolist() == [4, 2, 0]


def test_totals_are_checked():
    made = parties_of(CHOICES, 3)
    made[CHEAT]._own = np.array([1, 1, 0])
    with pytest.raises(SecureSumFailed, match="of 6 parties: some party broke the protocol"):
        run_in_memory(made)


@pytest.mark.parametrize("kind", ["commitments", "shares", "partial"])
def test_a_party_cannot_have_another_blamed_for_its_messages(kind):
    made = parties_of(CHOICES, 3)
    honest = getattr(made[2], kind)

    def forged():
        messages = honest()
        changed = [msgspec.structs.replace(m, sender=1) for m in (messages if kind != "partial" else [messages])]
        return changed if kind != "partial" else changed[0]

    setattr(made[2], kind, forged)
    with pytest.raises(SecureSumFailed, match="party 2 sent a message as party 1; stop the session"):
        run_in_memory(made)
