"""Seals: complete, sound by extraction, perfectly hiding; and what the counts that open them must be.

In logarithms to G the group is the field Z_ℓ and H is a number h: points are linear in the secrets, so every identity is one
of polynomials (sympy), and the code itself can be run over all of a small field, where points are their logarithms.

Soundness is computational where "or log_G H is known" appears: the proofs compute that logarithm from a cheat. With the hash as
a random oracle, two accepted proofs with one first half and two challenges are what rewinding a successful cheat yields
(Bellare & Neven's forking lemma); that step is theirs and not repeated here.
"""

from collections import Counter
from itertools import product

import sympy as sp
from known_logarithms import KnownLogarithms, PlayedScalars

from optrr.studies.secure_sum.sealed import Proof, accepts, commit, prove

BACKS = (
    "optrr.studies.secure_sum.sealed.commit",
    "optrr.studies.secure_sum.sealed.prove",
    "optrr.studies.secure_sum.sealed.accepts",
    "optrr.studies.secure_sum.sealed.seal",
    "optrr.studies.secure_sum.sealed.check_seal",
    "optrr.studies.secure_sum.party.SecureSumParty._that_open_the_seals",
    "optrr.studies.secure_sum.sealed.committed",
)

ELL = 5
FIELD = range(ELL)
GROUPS = [KnownLogarithms(ELL, h) for h in range(1, ELL)]


def prove_completeness_as_polynomials():
    h, t, k, e, z, total = sp.symbols("h t k e z total")
    for bit in (0, 1):
        x = bit * h + t
        mine = total - e
        answer = k + mine * t
        # first half as the prover makes it, and as the verifier recomputes it from the answers
        known, simulated = k, (z - e * t) + (-e * h if bit else e * h)
        assert sp.expand(answer - mine * (x - bit * h) - known) == 0
        assert sp.expand(z - e * (x - (1 - bit) * h) - simulated) == 0
        assert sp.expand(mine + e - total) == 0


def prove_completeness_in_the_code():
    # every secret, every random number and every answer of the hash
    for group in GROUPS:
        for bit, factor, k, e, z, total in product((0, 1), *[FIELD] * 5):
            proof = prove(group, bit, factor, lambda a0, a1, c=total: c, PlayedScalars([k, e, z]))
            assert accepts(group, commit(group, bit, factor), proof, lambda a0, a1, c=total: c)


def oracle(a0, a1):
    """Some fixed function of the first half."""
    return (3 * a0[0] ** 2 + a0[0] * a1[0] + 2 * a1[0] + 1) % ELL


def prove_that_a_proof_says_nothing_but_zero_or_one():
    # every point is both a sealed 0 and a sealed 1; over the prover's random numbers the proofs have one distribution
    for group in GROUPS:
        for factor in FIELD:
            point = commit(group, 0, factor)
            as_one = (factor - group.log_h) % ELL
            assert commit(group, 1, as_one) == point
            views = [
                Counter(prove(group, bit, t, oracle, PlayedScalars(draws)) for draws in product(*[FIELD] * 3))
                for bit, t in ((0, factor), (1, as_one))
            ]
            assert views[0] == views[1]
            assert set(views[0].values()) == {1}


def extracted(group, first, second):
    """The opening (bit, factor) that two proofs with one first half and different challenges give away."""
    ell = group.order
    for bit, e, other_e, z, other_z in (
        (0, first.e0, second.e0, first.z0, second.z0),
        (1, first.e1, second.e1, first.z1, second.z1),
    ):
        if e != other_e:
            return bit, (z - other_z) * pow(e - other_e, -1, ell) % ell
    raise AssertionError("the challenges are equal")


def prove_that_two_answers_give_the_opening_away():
    e, other_e, z, other_z, s = sp.symbols("e e' z z' s")
    # z G − e S = z' G − e' S determines the logarithm s of S = X − b H
    openings = sp.solve(sp.Eq(z - e * s, other_z - other_e * s), s)
    assert sp.simplify(openings[0] - (z - other_z) / (e - other_e)) == 0
    group = GROUPS[1]
    for point_log in FIELD:
        point = group.base(point_log)
        by_half = {}
        for numbers in product(*[FIELD] * 4):
            proof = Proof(*numbers)
            half = (proof.z0 - proof.e0 * point_log) % ELL, (proof.z1 - proof.e1 * (point_log - group.log_h)) % ELL
            total = (proof.e0 + proof.e1) % ELL
            assert accepts(group, point, proof, lambda a0, a1, c=total: c)
            assert not accepts(group, point, proof, lambda a0, a1, c=total: (c + 1) % ELL)
            by_half.setdefault(half, []).append((total, proof))
        for answers in by_half.values():
            for (one, first), (other, second) in product(answers, repeat=2):
                if one != other:
                    bit, factor = extracted(group, first, second)
                    assert commit(group, bit, factor) == point


def prove_that_an_opening_of_other_bits_is_the_logarithm():
    # a table's cells hold extracted (b_c, t_c); Σ X_c = H + s G with Σ b_c ≠ 1 gives h = (s − Σ t_c) / (Σ b_c − 1)
    h, s, bits, factors = sp.symbols("h s B T")
    solved = sp.solve(sp.Eq(bits * h + factors, h + s), h)
    assert sp.simplify(solved[0] - (s - factors) / (bits - 1)) == 0
    # bits are zeros and ones and a table has fewer than ℓ cells, so Σ b_c = 1 modulo ℓ only with a single 1


def prove_that_counts_which_open_the_seals_are_their_sums():
    # Σ_j X_j = c H + T G where X_j = x_j H + t_j G was extracted: c = Σ x_j, or h = (T − Σ t_j) / (Σ x_j − c)
    h, c, total, x, t = sp.symbols("h c T x t")
    solved = sp.solve(sp.Eq(x * h + t, c * h + total), h)
    assert sp.simplify(solved[0] - (total - t) / (x - c)) == 0
    # honest parties: shares cancel, c = Σ x_j and T = Σ t_j, and the equation holds
    assert sp.expand((x * h + t) - (c * h + total)).subs({c: x, total: t}) == 0


def prove_that_swapped_vectors_look_alike():
    # two honest parties' vectors x_1, x_2 with sum x_1 + x_2 = y_1 + y_2: factors t_j + (x_j − y_j) h, and shares to
    # themselves raised by what their own numbers lost, give the same seals, openings, partial sums and totals
    h, x1, x2, y1, t1, t2, r1, r2 = sp.symbols("h x1 x2 y1 t1 t2 r1 r2")
    y2 = x1 + x2 - y1
    u1, u2 = t1 + (x1 - y1) * h, t2 + (x2 - y2) * h
    for x, t, y, u in ((x1, t1, y1, u1), (x2, t2, y2, u2)):
        assert sp.expand(x * h + t - y * h - u) == 0
    assert sp.expand(t1 + t2 - u1 - u2) == 0
    # party 1's shares to itself and to party 2; they still sum to zero with the rest, and both partial sums are unchanged
    for a1, a2, b1, b2 in ((x1, x2, y1, y2), (t1, t2, u1, u2)):
        s1, s2 = r1 + a1 - b1, r2 + a2 - b2
        assert sp.expand(s1 + s2 - r1 - r2) == 0
        assert sp.expand(s1 + b1 - r1 - a1) == 0
        assert sp.expand(s2 + b2 - r2 - a2) == 0
    # openings: Σ over a table's cells of x − y is 1 − 1
