"""The secure sum between peers over loopback sockets, plain and TLS: exact, and whoever breaks it is refused."""

import asyncio
import datetime
import ipaddress
import ssl
from collections import Counter

import msgspec
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from optrr.studies.secure_sum.messages import Audit, Commitment, Partial, SecureSumFailed, Share
from optrr.studies.secure_sum.network import SecureSumPeer
from optrr.studies.secure_sum.party import SecureSumParty


def parties_of(choices, cells=4, proofs=True):
    rows = np.eye(cells, dtype=np.int64)[list(choices)]
    return [SecureSumParty(i, len(rows), row, "s", proofs=proofs) for i, row in enumerate(rows)]


async def over_sockets(choices, spoil=None, timeout=20.0, proofs=True):
    peers = [SecureSumPeer(p) for p in parties_of(choices, proofs=proofs)]
    seen = [[] for _ in peers]
    for peer, messages in zip(peers, seen, strict=True):
        peer.seen = messages.append
    addresses = [await peer.listen() for peer in peers]
    running = peers if spoil is None else await spoil(peers, addresses)
    results = await asyncio.gather(*(p.run(addresses, timeout) for p in running), return_exceptions=True)
    return results, seen


@pytest.mark.parametrize("proofs", [True, False])
def test_peers_over_loopback_sockets(proofs):
    choices = [0, 1, 2, 3, 0, 1, 1, 2]
    results, seen = asyncio.run(over_sockets(choices, proofs=proofs))
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


def changed_before_sending(index, kind, change):
    """Peer ``index`` sends every message of this kind changed."""

    async def spoil(peers, addresses):
        honest = peers[index]._send

        async def send(message, address):
            await honest(change(message) if isinstance(message, kind) else message, address)

        peers[index]._send = send
        return peers

    return spoil


def moved(message):
    """One count from cell 0 to cell 1, for all it says."""
    cells = len(message.numbers) // 64
    numbers = [int.from_bytes(message.numbers[32 * k : 32 * k + 32], "little") for k in range(2 * cells)]
    order = (1 << 252) + 27742317777372353535851937790883648493
    numbers[0], numbers[1] = (numbers[0] - 1) % order, (numbers[1] + 1) % order
    return msgspec.structs.replace(message, numbers=b"".join(v.to_bytes(32, "little") for v in numbers))


def test_a_peer_that_broadcasts_a_moved_partial_sum_is_detected_by_the_others():
    results, _ = asyncio.run(over_sockets([0, 1, 2, 3], changed_before_sending(2, Partial, moved), timeout=1.0))
    # it lied to the others only, so its own sums open the seals, and it leaves
    for k in (0, 1, 3):
        assert "does not open the parties' seals" in str(results[k])
        assert str(results[k]).endswith("; party 2 took no part in the audit")
    assert results[2].tolist() == [1, 1, 1, 1]


def test_a_peer_whose_shares_do_not_cancel_is_named_by_the_audit():
    async def spoil(peers, addresses):
        shares = peers[2].party._shares.copy()
        shares[0, 1] += 1
        peers[2].party._shares = shares
        return peers

    results, seen = asyncio.run(over_sockets([0, 1, 2, 3], spoil))
    assert all(str(r).endswith("; the shares of party 2 do not add up to zero") for r in results)
    assert all(Counter(type(m) for m in messages)[Audit] == 3 for messages in seen)


def test_a_peer_that_sends_a_moved_share_is_refused_by_name():
    results, _ = asyncio.run(over_sockets([0, 1, 2, 3], changed_before_sending(2, Share, moved), timeout=1.0))
    assert all("from party 2 a share that differs from its commitment" in str(results[k]) for k in (0, 1, 3))


def test_a_peer_that_sends_a_broken_proof_is_refused_by_name():
    def spoil(message):
        proofs = message.seal.proofs[32:] + message.seal.proofs[:32]
        return msgspec.structs.replace(message, seal=msgspec.structs.replace(message.seal, proofs=proofs))

    results, _ = asyncio.run(over_sockets([0, 1, 2, 3], changed_before_sending(1, Commitment, spoil), timeout=1.0))
    assert all("from party 1 no valid proof" in str(results[k]) for k in (0, 2, 3))


@pytest.mark.parametrize("wrong", [{"sender": 77}, {"sender": 0}, {"session": "other"}, {"recipient": 3}])
def test_an_early_share_from_nobody_is_refused_and_not_kept(wrong):
    peer = SecureSumPeer(parties_of([0, 1, 2])[0])
    share = Share("s", 1, 0, b"", b"")
    with pytest.raises(SecureSumFailed, match="received from party"):
        peer._deliver(msgspec.structs.replace(share, **wrong))
    assert not peer._early
    peer._deliver(share)
    assert peer._early == [share]
    with pytest.raises(SecureSumFailed, match="two shares"):
        peer._deliver(share)
