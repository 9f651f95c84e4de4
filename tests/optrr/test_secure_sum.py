"""The secure sum: exact, nothing but sums revealed, cheats and silences detected; also over real sockets."""

import asyncio
import datetime
import ipaddress
import ssl
from collections import Counter
from itertools import product

import msgspec
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from optrr.dependence.secure_sum import (
    Commitment,
    Partial,
    SecureSumFailed,
    SecureSumParty,
    Share,
    decode,
    encode,
    run_in_memory,
)
from optrr.dependence.secure_sum_network import SecureSumPeer


def one_hot(cell, cells):
    return np.eye(cells, dtype=np.int64)[cell]


def parties_of(choices, cells=4, source=None, session="s"):
    n = len(choices)
    return [SecureSumParty(i, n, one_hot(c, cells), session, source=source) for i, c in enumerate(choices)]


def test_fifty_parties_get_exact_counts():
    choices = np.random.default_rng(1).integers(0, 6, 50)
    assert np.array_equal(run_in_memory(parties_of(choices, 6)), np.bincount(choices, minlength=6))


def test_all_in_one_cell_counts_n_and_not_zero():
    assert run_in_memory(parties_of([2] * 50)).tolist() == [0, 0, 50, 0]


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
            seen.append((recipient, type(message).__name__, message.sender, message.values))

    run_in_memory(made, watch)
    return tuple(seen)


def first_cell(view):
    return tuple((recipient, kind, sender, values[0]) for recipient, kind, sender, values in view)


def test_what_a_party_sees_depends_on_the_others_sum_only():
    # n = 3, arithmetic modulo 4: all random numbers of the two other parties' first cell are played out, 4^4 runs. The second
    # cell is masked by numbers of its own, fixed here
    def distribution(choices):
        found = Counter()
        for a, b, c, d in product(range(4), repeat=4):
            draws = [[a, 1, b, 2], [c, 3, d, 0], [1, 2, 3, 0]]
            found[first_cell(view_of(choices, draws, watchers={2}))] += 1
        return found

    assert distribution((0, 1, 0)) == distribution((1, 0, 0))
    # and the test would notice a difference: another sum gives another distribution
    assert distribution((0, 1, 0)) != distribution((0, 0, 0))


def test_a_coalition_of_all_but_two_sees_their_sum_only():
    # n = 4, modulo 5; parties 2 and 3 pool what they see. Only the two honest parties' randomness matters: 5^6 runs would
    # be slow, so three of the six numbers run over everything, which already hides the inputs
    def distribution(choices):
        found = Counter()
        for a, b, c in product(range(5), repeat=3):
            draws = [[a, 0, b, 0, 2, 0], [3, 0, c, 0, 1, 0], [1] * 6, [2] * 6]
            found[first_cell(view_of(choices, draws, watchers={2, 3}))] += 1
        return found

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


def test_shares_and_partial_sums_are_uniform():
    # 3 parties, one of 4 residues: χ² with 3 degrees of freedom stays below 16.3 but for one seed in 1000
    shares, partials = np.zeros(4), np.zeros(4)
    for _ in range(2000):
        made = parties_of([0, 0, 1], cells=2, session="u")

        def note(recipient, message):
            if recipient == 2 and isinstance(message, Share) and message.sender == 0:
                shares[message.values[0]] += 1
            if recipient == 2 and isinstance(message, Partial) and message.sender == 0:
                partials[message.values[0]] += 1

        run_in_memory(made, note)
    for counts in (shares, partials):
        assert ((counts - 500) ** 2 / 500).sum() < 30  # false alarm 1.4e-6 each


def exchange(made):
    """Commitments delivered; the shares made."""
    for message in [c for p in made for c in p.commitments()]:
        made[message.recipient].receive(message)
    return [s for p in made for s in p.shares()]


def test_a_missing_share_is_named():
    made = parties_of([0, 1, 2])
    for share in exchange(made):
        if (share.sender, share.recipient) != (1, 2):
            made[share.recipient].receive(share)
    with pytest.raises(SecureSumFailed, match="party 2 has no share from party 1"):
        made[2].partial()


def test_a_missing_partial_sum_is_named():
    made = parties_of([0, 1, 2])
    for share in exchange(made):
        made[share.recipient].receive(share)
    partials = [p.partial() for p in made]
    made[0].receive(partials[1])
    with pytest.raises(SecureSumFailed, match="no partial sum from party 2"):
        made[0].counts()


def test_shares_wait_for_all_commitments():
    made = parties_of([0, 1, 2])
    made[0].commitments()
    with pytest.raises(SecureSumFailed, match="no commitment from party 1 and 1 more"):
        made[0].shares()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"values": (1, 0, 0, 0)}, "differs from its commitment"),
        ({"salt": b"0" * 32}, "differs from its commitment"),
        ({"values": (9, 0, 0, 0)}, "outside 0..3"),
        ({"values": (-1, 0, 0, 0)}, "outside 0..3"),
        ({"values": (0, 0)}, "2 numbers for 4 cells"),
        ({"session": "other"}, "session 'other'"),
        ({"sender": 7}, "no other party's"),
        ({"sender": 2}, "no other party's"),
        ({"recipient": 0}, "meant for party 0"),
    ],
)
def test_a_wrong_share_is_refused_with_its_reason(change, why):
    made = parties_of([0, 1, 2])
    share = next(s for s in exchange(made) if (s.sender, s.recipient) == (1, 2))
    values = (share.values[0] + 1) % 4, *share.values[1:]
    replaced = {"values": values} if change.get("values") == (1, 0, 0, 0) else change
    with pytest.raises(SecureSumFailed, match=why):
        made[2].receive(msgspec.structs.replace(share, **replaced))
    made[2].receive(share)
    with pytest.raises(SecureSumFailed, match="a second share"):
        made[2].receive(share)


def test_garbage_bytes_are_refused():
    for raw in (b"", b"\x00\xff", b"{}", b"\x81\xa4type\xa2\xff\xfe", encode(Share("s", 0, 1, (1,), b"x"))[:-2]):
        with pytest.raises(SecureSumFailed, match="no message of the protocol"):
            decode(raw)
    assert decode(encode(Share("s", 0, 1, (1,), b"x"))) == Share("s", 0, 1, (1,), b"x")


def test_a_party_that_votes_twice_or_shares_a_nonzero_sum_stops_the_protocol():
    made = parties_of([0, 1, 2, 3, 0])
    made[1]._values = np.array([1, 1, 0, 0])
    with pytest.raises(SecureSumFailed, match="of 5 parties: some party broke the protocol"):
        run_in_memory(made)
    made = parties_of([0, 1, 2, 3, 0])
    made[1]._shares = made[1]._shares.copy()
    made[1]._shares[0, 2] = (made[1]._shares[0, 2] + 3) % 6
    with pytest.raises(SecureSumFailed, match="of 5 parties: some party broke the protocol"):
        run_in_memory(made)


def test_the_stated_limit_a_party_can_move_counts_between_cells():
    """What the protocol cannot see, as its documentation says: counts moved within a table by one dishonest party."""
    made = parties_of([1, 1, 1, 1, 1, 0], cells=3)
    made[5]._values = np.array([4, -3, 0])
    np.testing.assert_array_equal(run_in_memory(made), [4, 2, 0])
    made = parties_of([1, 1, 1, 1, 1, 0], cells=3)
    made[5]._values = np.array([2, 0, 0])
    with pytest.raises(SecureSumFailed):
        run_in_memory(made)



@pytest.mark.parametrize("values", [[1, 1], [0, 0], [2, 0], [0.5, 0.5]])
def test_an_honest_party_refuses_a_vector_that_is_no_single_cell(values):
    with pytest.raises(SecureSumFailed, match="single 1"):
        SecureSumParty(0, 3, values, "s")


def test_two_parties_are_too_few():
    with pytest.raises(SecureSumFailed, match="at least 3"):
        SecureSumParty(0, 2, [1, 0], "s")


def test_several_tables_in_one_session():
    values = [np.concatenate([one_hot(i % 2, 2), one_hot(i % 3, 3)]) for i in range(7)]
    made = [SecureSumParty(i, 7, v, "s", tables=[2, 3]) for i, v in enumerate(values)]
    assert run_in_memory(made).tolist() == [4, 3, 3, 2, 2]


async def over_sockets(choices, spoil=None, timeout=20.0):
    peers = [SecureSumPeer(p) for p in parties_of(choices)]
    seen = [[] for _ in peers]
    for peer, messages in zip(peers, seen, strict=True):
        peer.seen = messages.append
    addresses = [await peer.listen() for peer in peers]
    running = peers if spoil is None else await spoil(peers, addresses)
    results = await asyncio.gather(*(p.run(addresses, timeout) for p in running), return_exceptions=True)
    return results, seen


def test_peers_over_loopback_sockets():
    choices = [0, 1, 2, 3, 0, 1, 1, 2]
    results, seen = asyncio.run(over_sockets(choices))
    assert all(np.array_equal(r, np.bincount(choices, minlength=4)) for r in results)
    for i, messages in enumerate(seen):
        assert Counter(type(m) for m in messages) == {Commitment: 7, Share: 7, Partial: 7}
        assert all(m.recipient == i for m in messages if isinstance(m, Share))


def tls_contexts(folder):
    """A self-signed certificate for this machine that both ends show and both ends trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    today = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(certificate.public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(private)
    made = []
    for purpose in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
        context = ssl.SSLContext(purpose)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        context.load_verify_locations(folder / "cert.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        made.append(context)
    return made


def test_peers_over_tls(tmp_path):
    listening, calling = tls_contexts(tmp_path)

    async def run():
        peers = [SecureSumPeer(p, listening=listening, calling=calling) for p in parties_of([0, 1, 1])]
        addresses = [await peer.listen() for peer in peers]
        return await asyncio.gather(*(p.run(addresses, 20.0) for p in peers))

    assert all(r.tolist() == [1, 2, 0, 0] for r in asyncio.run(run()))


def test_a_silent_peer_is_named_by_all():
    async def silence(peers, addresses):
        return peers[:-1]

    results, _ = asyncio.run(over_sockets([0, 1, 2, 3], silence, timeout=0.5))
    assert all(isinstance(r, SecureSumFailed) and "party 3" in str(r) for r in results)


def test_garbage_on_a_socket_stops_the_session():
    async def shout(peers, addresses):
        _, writer = await asyncio.open_connection(*addresses[0])
        writer.write((5).to_bytes(4, "big") + b"hello")
        await writer.drain()
        writer.close()
        return peers

    results, _ = asyncio.run(over_sockets([0, 1, 2, 3], shout, timeout=2.0))
    assert isinstance(results[0], SecureSumFailed)
    assert "no message of the protocol" in str(results[0])
