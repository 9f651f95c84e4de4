"""The secure sum with proofs: every way of moving counts is detected, and the seals reveal nothing."""

import msgspec
import numpy as np
import pytest
from known_logarithms import KnownLogarithms, PlayedScalars

from optrr.errors import InvalidInput
from optrr.studies.secure_sum import party as secure_sum
from optrr.studies.secure_sum.group import edwards25519
from optrr.studies.secure_sum.in_memory import run_in_memory
from optrr.studies.secure_sum.messages import Commitment, Partial, SecureSumFailed, Share
from optrr.studies.secure_sum.party import SecureSumParty
from optrr.studies.secure_sum.sealed import PublicChecks, points_of, seal, unpacked

CHOICES = (1, 1, 1, 1, 1, 0)
CHEAT = 5


def parties_of(choices=CHOICES, cells=3, proofs=True):
    rows, checks = np.eye(cells, dtype=np.int64), PublicChecks()
    return [SecureSumParty(i, len(choices), rows[c], "s", proofs=proofs, checks=checks) for i, c in enumerate(choices)]


def add(numbers, changes, modulus):
    for cell, change in changes.items():
        numbers[cell] = (numbers[cell] + change) % modulus


# moves three counts from cell 1 to cell 0, which nobody would see if only totals were checked
MOVED = {0: 3, 1: -3}


def moved_vector(made):
    add(made[CHEAT]._own, MOVED, made[0].modulus)


def moved_share_set(made):
    shares = made[CHEAT]._shares.copy()
    add(shares[2], MOVED, made[0].modulus)
    made[CHEAT]._shares = shares


def moved_partial(made):
    honest = made[CHEAT].partial

    def partial():
        message = honest()
        numbers = made[CHEAT]._numbers_of(message.numbers).copy()
        add(numbers, MOVED, made[0].modulus)
        made[CHEAT]._partials[CHEAT] = numbers
        return msgspec.structs.replace(message, numbers=made[CHEAT]._bytes_of(numbers))

    made[CHEAT].partial = partial


WAYS = (moved_vector, moved_share_set, moved_partial)


@pytest.mark.parametrize("way", WAYS)
def test_moved_counts_are_detected_by_everybody_and_nobody_is_blamed(way):
    # who moved them could be shown to a third party with signed messages only, so that nobody is named
    made = parties_of()
    way(made)
    with pytest.raises(SecureSumFailed, match="cell 0 does not open the parties' seals: some party broke"):
        run_in_memory(made)
    for party in made:
        with pytest.raises(SecureSumFailed, match="some party broke the protocol"):
            party.counts()


@pytest.mark.parametrize("kind", ["commitments", "shares", "partial"])
def test_a_party_cannot_have_another_blamed_for_its_messages(kind):
    made = parties_of()
    honest = getattr(made[2], kind)

    def forged():
        messages = honest()
        changed = [msgspec.structs.replace(m, sender=1) for m in (messages if kind != "partial" else [messages])]
        return changed if kind != "partial" else changed[0]

    setattr(made[2], kind, forged)
    with pytest.raises(SecureSumFailed, match="party 2 sent a message as party 1; stop the session"):
        run_in_memory(made)


@pytest.mark.parametrize("way", WAYS)
def test_without_proofs_they_pass_as_documented(way):
    made = parties_of(proofs=False)
    way(made)
    assert run_in_memory(made).tolist() == [4, 2, 0]


def test_without_proofs_totals_are_still_checked():
    made = parties_of(proofs=False)
    made[CHEAT]._own = np.array([1, 1, 0])
    with pytest.raises(SecureSumFailed, match="of 6 parties: some party broke the protocol"):
        run_in_memory(made)


@pytest.mark.slow
@pytest.mark.parametrize("cell", range(6))
def test_any_number_of_a_share_set_or_partial_sum_matters(cell):
    # counts and factors, one at a time, by any amount
    for change in (1, edwards25519().order - 1, 12345):
        made = parties_of()
        shares = made[CHEAT]._shares.copy()
        add(shares[0], {cell: change}, made[0].modulus)
        made[CHEAT]._shares = shares
        with pytest.raises(SecureSumFailed, match=f"cell {cell % 3} does not open"):
            run_in_memory(made)


def test_moving_count_and_factor_together_needs_the_logarithm(monkeypatch):
    # with log_G H = 4 known, (c + 1) H + (T − 4) G opens the same point: the check rests on nobody knowing it
    monkeypatch.setattr(secure_sum, "edwards25519", lambda: KnownLogarithms(10007, 4))
    made = parties_of()
    add(made[CHEAT]._own, {0: 1, 3: -4}, 10007)
    assert run_in_memory(made).tolist() == [2, 5, 0]
    made = parties_of()
    add(made[CHEAT]._own, {0: 1, 3: -5}, 10007)
    with pytest.raises(SecureSumFailed, match="cell 0 does not open"):
        run_in_memory(made)


def first_commitment(made, sender=CHEAT, recipient=0):
    return next(c for c in made[sender].commitments() if c.recipient == recipient)


@pytest.mark.parametrize("values", [(1, 1, 1), (1, 1, 0), (0, 0, 0)])
def test_a_vector_that_is_no_single_one_is_refused_by_name(values):
    made = parties_of()
    cheat = made[CHEAT]
    bad, _ = seal(edwards25519(), cheat._statement, CHEAT, values, cheat._source)
    message = msgspec.structs.replace(first_commitment(made), seal=bad)
    with pytest.raises(SecureSumFailed, match="party 0 received from party 5 no proof that table 0 holds a single 1"):
        made[0].receive(message)


def test_a_copied_seal_is_refused_by_name():
    made, others = parties_of(), parties_of()
    own = first_commitment(made)
    from_another_party = first_commitment(made, sender=1).seal
    other_session = SecureSumParty(CHEAT, 6, np.eye(3, dtype=np.int64)[0], "another").commitments()[0].seal
    for copied in (from_another_party, other_session):
        with pytest.raises(SecureSumFailed, match="from party 5 no valid proof that cell 0"):
            made[0].receive(msgspec.structs.replace(own, seal=copied))
    made[0].receive(own)
    with pytest.raises(SecureSumFailed, match="a second commitment"):
        made[0].receive(own)
    # the same party in a session of the same name may come back with another seal, if nothing was received from it yet
    others[0].receive(own)


def test_a_missing_or_an_unwanted_seal_is_refused():
    made = parties_of()
    with pytest.raises(SecureSumFailed, match="from party 5 a commitment without a seal"):
        made[0].receive(msgspec.structs.replace(first_commitment(made), seal=None))
    plain = parties_of(proofs=False)
    with pytest.raises(SecureSumFailed, match="from party 5 a commitment with a seal"):
        plain[0].receive(first_commitment(made))


def test_different_seals_to_different_parties_are_detected():
    made = parties_of()
    cheat = made[CHEAT]
    other, factors = seal(edwards25519(), cheat._statement, CHEAT, [0, 1, 0], cheat._source)
    honest = cheat.commitments

    def commitments():
        return [msgspec.structs.replace(c, seal=other) if c.recipient == 3 else c for c in honest()]

    cheat.commitments = commitments
    # even if it also sends party 3 the partial sum that belongs to the other seal
    for message in [c for p in made for c in p.commitments()]:
        made[message.recipient].receive(message)
    for share in [s for p in made for s in p.shares()]:
        made[share.recipient].receive(share)
    for message in [p.partial() for p in made]:
        for party in made:
            if party.index == message.sender:
                continue
            sent = message
            if (message.sender, party.index) == (CHEAT, 3):
                difference = np.array([0, 1, 0, *factors], dtype=object) - cheat._own
                numbers = (cheat._numbers_of(message.numbers) + difference) % cheat.modulus
                sent = Partial("s", CHEAT, cheat._bytes_of(numbers), party._all_seals())
            party.receive(sent)
    with pytest.raises(SecureSumFailed, match="saw other seals than party 3"):
        made[3].counts()
    with pytest.raises(SecureSumFailed, match="party 3 saw other seals than party 0"):
        made[0].counts()


def test_without_pynacl_a_party_says_what_to_do(monkeypatch):
    def missing():
        raise InvalidInput("needs PyNaCl")

    monkeypatch.setattr(secure_sum, "edwards25519", missing)
    with pytest.raises(InvalidInput, match="PyNaCl"):
        SecureSumParty(0, 3, [1, 0], "s")
    assert SecureSumParty(0, 3, [1, 0], "s", proofs=False).modulus == 4


ELL, H = 101, 7


def view_of_the_last(vectors, draws):
    """All bytes that the last party is sent when the parties hold these vectors and draw these numbers."""
    made = [
        SecureSumParty(i, len(vectors), v, "s", source=PlayedScalars(d))
        for i, (v, d) in enumerate(zip(vectors, draws, strict=True))
    ]
    for party in made:
        # salts are drawn last: zeros here
        assert not any(b"".join(party._salts))
    seen = []
    counts = run_in_memory(
        made, lambda recipient, m: seen.append(msgspec.msgpack.encode(m)) if recipient == 2 else None
    )
    return seen, counts.tolist()


def draws_of(rng, cells, parties=3):
    """Numbers a party draws: factors, three per proof, shares for all but the last party."""
    return rng.integers(0, ELL, cells + 3 * cells + (parties - 1) * 2 * cells).tolist()


def other_draws(group, party, old, new, draws):
    """The draws with which a party holding ``new`` sends what it sent holding ``old``: see proofs/prove_sealed.py."""
    cells = len(old)
    factors = [(t + (x - y) * group.log_h) % ELL for t, x, y in zip(draws, old, new, strict=False)]
    answers, proofs = unpacked(party._seals[party.index].proofs, 32), []
    for cell, bit in enumerate(new):
        e, z = answers[4 * cell : 4 * cell + 2], answers[4 * cell + 2 : 4 * cell + 4]
        k = (z[bit] - e[bit] * factors[cell]) % ELL
        proofs += [k, e[1 - bit], z[1 - bit]]
    shares = np.array(draws[4 * cells :]).reshape(-1, 2 * cells)
    lost = [x - y for x, y in zip(old, new, strict=True)] + [t - u for t, u in zip(draws[:cells], factors, strict=True)]
    return factors, proofs, shares, np.array(lost)


def test_a_party_sees_byte_for_byte_the_same_whoever_holds_which_vector(monkeypatch):
    # where logarithms are known one can compute the other randomness: for every run there is one, as likely, with the vectors
    # of the two other parties exchanged, in which the third party is sent exactly the same
    group = KnownLogarithms(ELL, H)
    monkeypatch.setattr(secure_sum, "edwards25519", lambda: group)
    rng = np.random.default_rng(1)
    for _ in range(20):
        first, second, watcher = np.eye(3, dtype=int)[rng.integers(0, 3, 3)].tolist()
        draws = [draws_of(rng, 3) for _ in range(3)]
        seen, counts = view_of_the_last([first, second, watcher], draws)
        changed = []
        lost = []
        for i, (old, new) in enumerate(((first, second), (second, first))):
            party = SecureSumParty(i, 3, old, "s", source=PlayedScalars(draws[i]))
            factors, proofs, shares, gone = other_draws(group, party, old, new, draws[i])
            changed.append([factors, proofs, shares])
            lost.append(gone)
        # the first party's shares to itself and to the second one take up what both lost
        changed[0][2][0] = (changed[0][2][0] + lost[0]) % ELL
        changed[0][2][1] = (changed[0][2][1] + lost[1]) % ELL
        other = [[*f, *p, *s.ravel().tolist()] for f, p, s in changed]
        again, same_counts = view_of_the_last([second, first, watcher], [*other, draws[2]])
        assert again == seen
        assert same_counts == counts
        if first != second:
            assert other[0] != draws[0]


def test_seals_and_partial_sums_are_all_that_is_broadcast():
    made = parties_of()
    seen = []
    run_in_memory(made, lambda recipient, message: seen.append((recipient, message)))
    for recipient, message in seen:
        assert isinstance(message, Commitment | Share | Partial)
        assert message.sender != recipient
        numbers = getattr(message, "numbers", b"")
        # two uniform numbers per cell: none of a few hundred is small by chance (2^-200)
        assert all(v > 2**50 for v in unpacked(numbers, 32))
    seals = {m.sender: m.seal for _, m in seen if isinstance(m, Commitment)}
    points = [p for s in seals.values() for p in points_of(edwards25519(), s)]
    # sealed zeros and ones look alike: no point comes twice, none is a bare base
    assert len(set(points)) == 18
    assert edwards25519().second not in points
