"""The group against OpenSSL and slow curve arithmetic; seals: only single ones get through, and nothing can be reused."""

import hashlib

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from known_logarithms import KnownLogarithms

from optrr.errors import InvalidInput
from optrr.studies.secure_sum import group as group_module
from optrr.studies.secure_sum.group import NotInGroup, edwards25519, scalars
from optrr.studies.secure_sum.sealed import (
    Proof,
    PublicChecks,
    SealBroken,
    Statement,
    accepts,
    check_seal,
    commit,
    packed,
    points_of,
    prove,
    seal,
    unpacked,
)
from optrr_solvers.randomness import SystemSource, as_source

GROUP = edwards25519()
P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
ZERO = (0, 1)


def slow_sum(one, other):
    """Affine addition on −x² + y² = 1 + d x² y²."""
    (x1, y1), (x2, y2) = one, other
    share = D * x1 * x2 * y1 * y2
    x = (x1 * y2 + x2 * y1) * pow(1 + share, -1, P) % P
    return x, (y1 * y2 + x1 * x2) * pow(1 - share, -1, P) % P


def slow_times(k, point):
    out = ZERO
    while k:
        out, point, k = slow_sum(out, point) if k & 1 else out, slow_sum(point, point), k >> 1
    return out


def decoded(raw):
    """RFC 8032, 5.1.3."""
    y, sign = int.from_bytes(raw, "little") & (2**255 - 1), raw[31] >> 7
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    assert x * x % P == square
    return (P - x if x & 1 != sign else x), y


def encoded(point):
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def test_the_base_is_ed25519s():
    # OpenSSL's public key is G times the clamped hash of the private key
    for _ in range(5):
        key = Ed25519PrivateKey.generate()
        raw = key.private_bytes(
            serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()
        )
        clamped = int.from_bytes(hashlib.sha512(raw).digest()[:32], "little") & ~7 & (2**254 - 1) | 2**254
        public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        assert GROUP.base(clamped % GROUP.order) == public


def test_the_group_is_the_curves():
    a, b, k = scalars(as_source(1), 3, GROUP.order)
    one, other = GROUP.base(a), GROUP.base(b)
    assert GROUP.add(one, other) == encoded(slow_sum(decoded(one), decoded(other)))
    assert GROUP.times(k, one) == encoded(slow_times(k, decoded(one)))
    assert GROUP.add(GROUP.subtract(one, other), other) == one
    zero = encoded(ZERO)
    assert GROUP.base(0) == GROUP.times(0, one) == GROUP.times(k, zero) == GROUP.subtract(one, one) == zero
    assert GROUP.add(one, zero) == one


def test_the_second_base_is_of_the_group_and_no_small_multiple_of_the_first():
    assert GROUP.checked(GROUP.second) == GROUP.second
    # the order is ℓ: (ℓ−1) H + H = 0
    assert GROUP.add(GROUP.times(GROUP.order - 1, GROUP.second), GROUP.second) == encoded(ZERO)
    assert all(GROUP.second != GROUP.base(k % GROUP.order) for k in range(-50, 51))


def of_order_eight():
    """A point of the curve outside the main subgroup: ℓ times any point of full order."""
    for y in range(2, 50):
        try:
            point = slow_times(GROUP.order, decoded(y.to_bytes(32, "little")))
        except AssertionError:
            continue
        if slow_times(4, point) != ZERO:
            return point
    raise AssertionError


def test_points_outside_the_group_are_refused():
    small = of_order_eight()
    mixed = encoded(slow_sum(small, decoded(GROUP.base(5))))
    for raw in (encoded(ZERO), encoded(small), mixed, b"\x05" * 32, b"\xff" * 32, b"", GROUP.base(3) + b"\0"):
        with pytest.raises(NotInGroup):
            GROUP.checked(raw)


def test_scalars_are_uniform_and_below_the_order():
    # χ² with 9 degrees of freedom above 45: 1e-6 of seeds
    for order in (10, GROUP.order):
        drawn = scalars(as_source(3), 2000, order)
        assert len(drawn) == 2000
        assert max(drawn) < order
        counts = np.bincount([v * 10 // order for v in drawn], minlength=10)
        assert ((counts - 200) ** 2 / 200).sum() < 45


class First:
    """A source whose first number is given, and whose others are 7."""

    def __init__(self, number):
        self.number = number

    def words(self, count):
        out = np.frombuffer(b"".join(v.to_bytes(32, "little") for v in [self.number] + [7] * (count // 4 - 1)), "<u8")
        self.number = 7
        return out.astype(np.uint64)


def test_the_uneven_last_stretch_is_drawn_again():
    last = (1 << 256) - (1 << 256) % GROUP.order
    assert scalars(First(last - 1), 1, GROUP.order) == [GROUP.order - 1]
    assert scalars(First(last), 1, GROUP.order) == [7]


def test_without_pynacl_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "nacl", None)
    with pytest.raises(InvalidInput, match=r"pip install 'optrr\[secure\]', or run it without proofs"):
        group_module.Edwards25519()


STATEMENT = Statement("s", 5, (3, 2))
SOURCE = SystemSource()


def sealed(values=(0, 1, 0, 1, 0), sender=2, statement=STATEMENT):
    return seal(GROUP, statement, sender, values, SOURCE)


def test_a_seal_is_accepted_and_its_factors_open_it():
    seal, factors = sealed()
    check_seal(GROUP, STATEMENT, 2, seal)
    for point, bit, factor in zip(points_of(GROUP, seal), (0, 1, 0, 1, 0), factors, strict=True):
        assert point == commit(GROUP, bit, factor)
    assert len(seal.points) + len(seal.proofs) == 160 * 5
    assert sealed()[0] != seal


@pytest.mark.parametrize(
    ("sender", "statement"),
    [
        (1, STATEMENT),
        (2, Statement("t", 5, (3, 2))),
        (2, Statement("s", 6, (3, 2))),
        (2, Statement("s", 5, (2, 3))),
        (2, Statement("s", 5, (5,))),
    ],
)
def test_a_seal_from_another_party_or_session_is_refused(sender, statement):
    seal, _ = sealed()
    with pytest.raises(SealBroken):
        check_seal(GROUP, statement, sender, seal)


def test_a_proof_moved_to_another_cell_is_refused():
    seal, _ = sealed()
    swapped = seal.points[32:64] + seal.points[:32] + seal.points[64:]
    proofs = seal.proofs[128:256] + seal.proofs[:128] + seal.proofs[256:]
    with pytest.raises(SealBroken, match="no valid proof that cell 0 holds 0 or 1"):
        check_seal(GROUP, STATEMENT, 2, msgspec.structs.replace(seal, points=swapped, proofs=proofs))


@pytest.mark.parametrize("values", [(0, 0, 0, 1, 0), (1, 1, 0, 1, 0), (1, 1, 1, 1, 0)])
def test_no_or_two_ones_in_a_table_are_refused(values):
    with pytest.raises(SealBroken, match="table 0 holds a single 1"):
        check_seal(GROUP, STATEMENT, 2, sealed(values)[0])


def forged(value, factor, challenge):
    """The best that somebody who sealed another value can send: one branch answered honestly, one made up."""
    k, e, z = scalars(SOURCE, 3, GROUP.order)
    point = GROUP.add(GROUP.times(value % GROUP.order, GROUP.second), GROUP.base(factor))
    known = GROUP.base(k)
    made_up = GROUP.subtract(GROUP.base(z), GROUP.times(e, GROUP.subtract(point, GROUP.second)))
    mine = (challenge(point)(known, made_up) - e) % GROUP.order
    return point, Proof(mine, e, (k + mine * factor) % GROUP.order, z)


@pytest.mark.parametrize("value", [2, 4, -1, -3, GROUP.order - 1])
def test_a_seal_of_anything_but_zero_or_one_is_refused(value):
    def challenge(point):
        return STATEMENT.challenge(GROUP, 2, 0, point)

    point, proof = forged(value, 11, challenge)
    assert not accepts(GROUP, point, proof, challenge(point))
    # for a zero, the same construction is an honest proof
    point, proof = forged(0, 11, challenge)
    assert accepts(GROUP, point, proof, challenge(point))
    # a table that sums to one with numbers outside 0..1, opened truthfully
    seal, factors = sealed((0, 0, 1, 0, 1))
    points = points_of(GROUP, seal)
    points[0] = GROUP.add(points[0], GROUP.times(value % GROUP.order, GROUP.second))
    points[2] = GROUP.subtract(points[2], GROUP.times(value % GROUP.order, GROUP.second))
    with pytest.raises(SealBroken, match="cell 0 holds 0 or 1"):
        check_seal(GROUP, STATEMENT, 2, msgspec.structs.replace(seal, points=b"".join(points)))
    assert sum(factors[:3]) % GROUP.order == unpacked(seal.openings, 32)[0]


def test_every_number_of_a_proof_matters():
    factor = 5
    point = commit(GROUP, 1, factor)
    challenge = STATEMENT.challenge(GROUP, 0, 0, point)
    proof = prove(GROUP, 1, factor, challenge, SOURCE)
    assert accepts(GROUP, point, proof, challenge)
    for field in ("e0", "e1", "z0", "z1"):
        changed = Proof(**{**vars(proof), field: (getattr(proof, field) + 1) % GROUP.order})
        assert not accepts(GROUP, point, changed, challenge)


def test_the_hash_binds_everything_that_could_be_chosen_after_it():
    # if the hash left out the point, one could choose A_0 and A_1, hash them, and then solve for a point that hides any number
    points = [GROUP.base(k) for k in (3, 4, 5, 6)]
    challenges = {
        statement.challenge(GROUP, sender, cell, points[point])(points[a0], points[a1])
        for statement in (STATEMENT, Statement("t", 5, (3, 2)), Statement("s", 6, (3, 2)), Statement("s", 5, (5,)))
        for sender in (0, 1)
        for cell in (0, 1)
        for point in (0, 1)
        for a0 in (2, 3)
        for a1 in (2, 3)
    }
    assert len(challenges) == 4 * 2**5
    other = KnownLogarithms(10007, 4), KnownLogarithms(10007, 5)
    assert len({STATEMENT.challenge(g, 0, 0, b"xx")(b"aa", b"bb") for g in other}) == 2


def test_malformed_seals_are_refused_with_the_reason():
    seal, _ = sealed()
    beyond = packed([v + GROUP.order for v in unpacked(seal.proofs[:32], 32)], 32) + seal.proofs[32:]
    cases = [
        ({"points": seal.points[:-1]}, "commitments of 159 bytes for 5 cells"),
        ({"points": seal.points[:-32] + encoded(of_order_eight())}, "cell 4 that is no point"),
        ({"points": seal.points[:-32] + b"\x05" * 32}, "cell 4 that is no point"),
        ({"proofs": seal.proofs[:-32]}, "proofs of 608 bytes where 640 belong"),
        ({"proofs": beyond}, "proofs with a number beyond the group's order"),
        ({"openings": b""}, "openings of 0 bytes where 64 belong"),
        ({"openings": seal.openings[32:] + seal.openings[:32]}, "table 0 holds a single 1"),
    ]
    for change, why in cases:
        with pytest.raises(SealBroken, match=why):
            check_seal(GROUP, STATEMENT, 2, msgspec.structs.replace(seal, **change))


def test_shared_checks_are_of_the_whole_seal_sender_and_session():
    checks, (seal, _) = PublicChecks(), sealed()
    assert checks.check(GROUP, STATEMENT, 2, seal) == PublicChecks().check(GROUP, STATEMENT, 2, seal)
    for sender, statement, seal_ in (
        (1, STATEMENT, seal),
        (2, Statement("t", 5, (3, 2)), seal),
        (2, STATEMENT, msgspec.structs.replace(seal, openings=bytes(64))),
    ):
        with pytest.raises(SealBroken):
            checks.check(GROUP, statement, sender, seal_)
