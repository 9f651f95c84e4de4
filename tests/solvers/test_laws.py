"""Laws against sums over all change sets, clusters' matrices against their definitions, and the randomness drawn with."""

import itertools
import math
import os
from fractions import Fraction
from itertools import combinations, product

import mpmath as mp
import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Scripted

from optrr_solvers import randomness
from optrr_solvers.errors import InvalidProblem, MethodTooLarge
from optrr_solvers.laws import BlockLaw, CountLaw, FewChangesLaw, Law, ProductLaw, TableLaw
from optrr_solvers.laws.base import effect_transform, inverse_effect_transform, log_uniform
from optrr_solvers.laws.count import log_change_counts, log_change_counts_error, log_uniform_counts, random_subsets
from optrr_solvers.laws.excess import ExcessTable
from optrr_solvers.laws.few_changes import (
    inverse_distance_law,
    inverse_distance_normaliser,
    inverse_distance_retention,
    joint_law,
    records_at_distance,
    retention_epsilons,
)

RNG = np.random.default_rng(20)


def table(sizes, scale=2.0):
    return TableLaw(np.array(sizes), RNG.uniform(-scale, scale, 1 << len(sizes)))


def count(sizes, classes, scale=2.0):
    shape = [len(c) + 1 for c in classes]
    return CountLaw(np.array(sizes), [np.array(c) for c in classes], RNG.uniform(-scale, scale, shape))


LAWS: dict[str, Law] = {
    "product": ProductLaw(np.array([2, 3, 4]), np.array([0.5, 1.0, 2.0])),
    "product-one": ProductLaw(np.array([5]), np.array([1.3])),
    "product-uniform": ProductLaw(np.array([2, 3]), np.array([0.0, 1.0])),
    "table": table([2, 3, 4]),
    "table-one": table([3]),
    "table-four": table([2, 3, 2, 3]),
    "table-flat": TableLaw(np.array([2, 3]), np.zeros(4)),
    "count-one-class": count([3, 3, 3], [[0, 1, 2]]),
    "count-classes": count([2, 3, 2, 3], [[2, 0], [1, 3]]),
    "count-mixed": count([2, 4, 2, 3], [[0, 2], [1], [3]]),
    "count-single": count([4], [[0]]),
    "few": FewChangesLaw(np.array([2, 3, 4]), 2.5, np.array([0.0, 1.5, 1.0])),
    "few-two": FewChangesLaw(np.array([4, 3]), 1.5, np.array([0.4, 0.0])),
    "few-tall-single": FewChangesLaw(np.array([3, 3, 2]), 0.5, np.array([0.7, 0.7, 0.1])),
    "block": BlockLaw([((2, 0), table([2, 3])), ((1, 3), count([2, 2], [[0, 1]]))]),
    "block-one": BlockLaw([((0, 1), table([2, 3]))]),
}


@pytest.fixture(params=LAWS, scope="module")
def case(request):
    law = LAWS[request.param]
    q = naive.density(law)
    return law, q, naive.matrix(law.sizes, q)


def test_every_marginal_equals_the_sum_over_outputs(case):
    law, q, p = case
    whole = naive.change_table(law.sizes, q)
    for k in range(law.m + 1):
        for subset in itertools.permutations(range(law.m), k):
            rest = tuple(i for i in range(law.m) if i not in subset)
            kept = sorted(subset)
            expected = np.transpose(whole.sum(axis=rest), [kept.index(i) for i in subset])
            np.testing.assert_allclose(law.marginal(subset), expected, rtol=1e-12, err_msg=str(subset))
    subset = tuple(range(law.m))[:2]
    merged = naive.marginal_matrix(law.sizes, p, subset)
    np.testing.assert_allclose(
        naive.change_table_of(merged, law.sizes[: len(subset)]), law.marginal(subset), rtol=1e-12
    )


def test_one_way_rows_and_attribute_epsilons(case):
    law, _, p = case
    for i, row in enumerate(law.one_way()):
        one = naive.marginal_matrix(law.sizes, p, (i,))
        assert law.attribute_epsilons()[i] == pytest.approx(np.log(one[0, 0] / one[0, 1]), abs=1e-12)
        np.testing.assert_allclose(row, [one[0, 0], 1 - one[0, 0]], rtol=1e-12)


def test_total_epsilon_is_the_largest_log_ratio_and_not_below_it(case):
    law, q, p = case
    assert law.epsilon == pytest.approx(naive.ldp_epsilon(p), abs=1e-12)
    low, high = law.log_density_range()
    assert high - low >= float(np.log(q.max() / q.min())) - 1e-14


def test_conditional_epsilons_compare_neighbouring_inputs(case):
    law, _, p = case
    expected = [naive.conditional_epsilon(law.sizes, p, i) for i in range(law.m)]
    np.testing.assert_allclose(law.conditional_epsilons(), expected, atol=1e-12)


def test_eigenvalues_are_those_of_the_matrix_with_their_multiplicities(case):
    law, q, p = case
    whole = naive.change_table(law.sizes, q)
    lam, eigenvalues = law.eigenvalues(range(law.m)), []
    for u in naive.change_sets(law.m):
        chosen = [i for i in range(law.m) if u[i]]
        assert lam[u] == pytest.approx(naive.eigenvalue(law.sizes, whole, chosen), abs=1e-13)
        eigenvalues += [lam[u]] * int(np.prod([law.sizes[i] - 1 for i in chosen]))
    np.testing.assert_allclose(np.sort(eigenvalues), np.sort(np.linalg.eigvalsh(p)), atol=1e-12)
    expected = [[naive.eigenvalue(law.sizes, whole, {i, j}) for j in range(law.m)] for i in range(law.m)]
    np.testing.assert_allclose(law.pair_eigenvalues(), expected, atol=1e-13)
    np.testing.assert_allclose(law.one_way_eigenvalues(), np.diag(expected), atol=1e-13)


class Bare(Law):
    """A law that gives its marginal alone."""

    def __init__(self, law):
        self.sizes, self._law = law.sizes, law

    def marginal(self, subset):
        return self._law.marginal(subset)


def test_everything_follows_from_the_marginal(case):
    law, bare = case[0], Bare(case[0])
    truth = naive.ExactTruth(law.sizes.tolist(), naive.drawn_probabilities(bare.automaton.layers))
    assert law.epsilon - 1e-13 <= bare.epsilon <= law.epsilon + 1e-11
    assert mp.mpf(bare.labels.epsilon) >= naive.log_of(truth.total)
    assert all(mp.mpf(x) >= naive.log_of(q) for x, q in zip(bare.labels.conditional, truth.conditional, strict=True))
    np.testing.assert_allclose(bare.conditional_epsilons(), law.conditional_epsilons(), atol=1e-11)
    np.testing.assert_allclose(bare.labels.attribute, law.labels.attribute, atol=1e-9)
    np.testing.assert_allclose(bare.pair_eigenvalues(), law.pair_eigenvalues(), atol=1e-13)
    if law.epsilon > 0:
        one, other = bare.sharpened(2 * law.epsilon), law.sharpened(2 * law.epsilon)
        assert other.epsilon == pytest.approx(2 * law.epsilon)
        np.testing.assert_allclose(one.one_way(), other.one_way(), atol=1e-9)


# Sixteen laws at a level of 1e-6: a sound sampler fails this once in 60,000 choices of seed.
LEVEL = 1e-6
DRAWS = 100_000


def test_samples_follow_the_law_over_all_change_sets(case):
    law, q, _ = case
    samples = law.sample(DRAWS, randomness.SeededSource(np.random.default_rng(7)))
    assert samples.shape == (DRAWS, law.m) and samples.dtype == np.bool_
    assert naive.changes_p_value(samples, naive.change_table(law.sizes, q)) > LEVEL


def test_the_chi_square_would_notice_a_wrong_law():
    law = LAWS["table"]
    samples = law.sample(DRAWS, randomness.SeededSource(np.random.default_rng(7)))
    nearby = TableLaw(law.sizes, law.log_density + np.linspace(0, 0.2, 8).reshape(2, 2, 2))
    assert naive.changes_p_value(samples, nearby.probabilities) < LEVEL


def test_system_randomness_serves_the_samplers():
    """Fails once in a billion runs."""
    law = LAWS["count-classes"]
    whole = naive.change_table(law.sizes, naive.density(law))
    assert naive.changes_p_value(law.sample(DRAWS, randomness.SystemSource()), whole) > 1e-9


@pytest.mark.parametrize("name", ["count-classes", "few", "few-tall-single"])
def test_the_mechanism_sampled_directly_is_at_most_as_revealing_as_the_label(name):
    law = LAWS[name]
    cells, whole = law._excess._cells, np.diff(law._excess._cumulative, prepend=np.uint64(0))
    excess = dict(zip(cells.tolist(), (Fraction(int(w), 1 << 64) for w in whole), strict=True))
    uniform = 1 - sum(excess.values(), Fraction(0))
    worst = Fraction(1)
    for cell, mass in excess.items():
        mu = Fraction(1)
        sizes = law.sizes.tolist()
        if isinstance(law, FewChangesLaw):
            share = Fraction(int(sizes[cell - 1]) - 1 if cell else 1)
            mu = share / int(np.prod(sizes))
        elif isinstance(law, CountLaw):
            counts = np.unravel_index(cell, law.log_density.shape)
            for c, k in zip(law.classes, counts, strict=True):
                r = int(law.sizes[c[0]])
                mu *= Fraction(int(mp.binomial(c.size, int(k))) * (r - 1) ** int(k), r**c.size)
        else:
            for r, changed in zip(sizes, naive.change_sets(law.m)[cell], strict=True):
                mu *= Fraction(r - 1, r) if changed else Fraction(1, r)
        worst = max(worst, 1 + mass / (mu * uniform))
    with mp.workdps(40):
        true = mp.log(mp.mpf(worst.numerator) / worst.denominator)
        assert true <= mp.mpf(law.epsilon)
        assert true >= mp.mpf(law.epsilon) - 1e-10


def test_sums_of_epsilons_round_up():
    rng = np.random.default_rng(12)
    for _ in range(200):
        e = rng.uniform(0, 10, 50)
        exact = sum((Fraction(float(x)) for x in e), Fraction(0))
        assert exact <= Fraction(ProductLaw(np.full(50, 3), e).epsilon) <= exact * (1 + Fraction(1, 10**13))
        parts = [((i,), TableLaw(np.array([3]), np.array([e[i], 0.0]))) for i in range(50)]
        assert exact <= Fraction(BlockLaw(parts).epsilon) <= exact * (1 + Fraction(1, 10**12))


def test_no_epsilon_at_all_is_exactly_the_uniform_answer():
    law = ProductLaw(np.array([3, 2]), np.array([0.0, 1.0]))
    truth = naive.ExactTruth(law.sizes.tolist(), naive.drawn_probabilities(law.automaton.layers))
    assert truth.conditional[0] == 1 and truth.flips[0] == Fraction(2, 3) and law.labels.conditional[0] == 0


def test_product_thresholds_are_never_below_the_flip_probability():
    for r, e in itertools.product((2, 3, 10**6), (1e-6, 0.1, 13.0, 50.0)):
        with mp.workdps(40):
            f = mp.mpf(r - 1) / (r - 1 + mp.exp(mp.mpf(e)))
            law = ProductLaw(np.array([r]), np.array([e]))
            drawn = naive.drawn_probabilities(law.automaton.layers)[1,]
            assert f <= mp.mpf(drawn.numerator) / drawn.denominator <= f * (1 + mp.mpf(2) ** -44)


@pytest.mark.parametrize("nats", [1e-6, 0.1, 13.0, 44.0, 50.0, 200.0, 690.0])
@pytest.mark.parametrize("size", [2, 3, 10**6])
def test_products_of_very_many_attributes_are_as_accurate_as_labelled(size, nats):
    """What draws them beside the automaton, bisected: the least number of 17 words at which the attribute is kept."""
    law, words = ProductLaw(np.array([size]), np.array([nats])), 17

    def changes(number):
        own = [(number >> 64 * k) & (2**64 - 1) for k in reversed(range(words))]
        return bool(law.sample_directly(1, Scripted(own))[0, 0])

    with mp.workdps(400):
        f = mp.mpf(size - 1) / (size - 1 + mp.exp(mp.mpf(nats)))
        if f * (1 + mp.mpf(2) ** -45) >= 1 - mp.mpf(1) / size:
            return  # a uniform answer, which is drawn as one
        low, high = 0, 1 << 64 * words
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if changes(middle) else (low, middle)
        drawn = mp.mpf(high) / 2 ** (64 * words)
        assert f <= drawn <= f * (1 + mp.mpf(2) ** -45 + nats * mp.mpf(2) ** -50)


def test_equal_keys_at_the_border_are_drawn_again():
    # two places, one to choose, by keys of half a word: equal ones first, then 5 < 9 picks the first place
    words = np.array([7, 7, 5, 9], dtype=np.uint32).view(np.uint64)
    from_ties = random_subsets(np.array([1]), 2, Scripted(words.tolist()))
    assert from_ties.tolist() == [[True, False]]


@pytest.mark.slow
def test_excess_larger_than_a_double_can_hold_is_sampled():
    law = TableLaw(np.array([2, 3]), np.array([2000.0, 1999.0, 0.0, 0.0]))
    samples = law.sample(1000, randomness.SeededSource(np.random.default_rng(1)))
    assert not samples[:, 0].any() and samples[:, 1].any()
    few = FewChangesLaw(np.full(1000, 5), 1600.0, np.zeros(1000))
    assert few.epsilon == pytest.approx(1600.0)
    assert few.sample(5, randomness.SeededSource(np.random.default_rng(1))).shape == (5, 1000)


def test_all_mass_uniform_or_none():
    assert (ExcessTable(np.array([-np.inf, -np.inf]), 0.0).draw(5, randomness.SystemSource()) == -1).all()
    drawn = ExcessTable(np.array([800.0, -np.inf]), 0.0).draw(1000, randomness.SystemSource())
    assert (drawn == 0).all()  # a stray uniform answer has chance 2^-48 each


@pytest.mark.parametrize(
    ("n", "size"),
    [(1, 2), (2, 10**6), (17, 2), (40, 5), (1000, 10**6), (20_000, 3), pytest.param(10**6, 2, marks=pytest.mark.slow)],
)
def test_binomial_logarithms_against_40_digits(n, size):
    logarithms, bound = log_change_counts(n, size), log_change_counts_error(n, size)
    ends = np.arange(min(n + 1, 40))
    ks = np.unique(np.concatenate([ends, n - ends, RNG.integers(0, n + 1, 100)]))
    with mp.workdps(40):
        for k in ks.tolist():
            exact = mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)
            exact += k * mp.log(mp.mpf(size - 1) / size) - (n - k) * mp.log(size)
            assert abs(exact - mp.mpf(float(logarithms[k]))) <= bound[k] / 2, k
    assert np.exp(logarithms).sum() == pytest.approx(1, abs=1e-11)


def test_uniform_logarithms_agree_between_table_and_counts():
    sizes = np.array([2, 5, 5, 7])
    counts = log_uniform_counts(sizes, [np.array([0]), np.array([1, 2]), np.array([3])])
    t = np.exp(log_uniform(sizes))
    merged = np.stack([t[:, 0, 0], t[:, 0, 1] + t[:, 1, 0], t[:, 1, 1]], axis=1)
    np.testing.assert_allclose(np.exp(counts), merged, rtol=1e-13)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(st.lists(st.integers(2, 50), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_effect_transform_round_trip(sizes, seed):
    t = np.random.default_rng(seed).dirichlet(np.ones(1 << len(sizes))).reshape((2,) * len(sizes))
    lam = effect_transform(t, np.array(sizes))
    np.testing.assert_allclose(inverse_effect_transform(lam, np.array(sizes)), t, atol=1e-14)
    assert lam.flat[0] == pytest.approx(1)


def test_a_large_size_loses_no_digits():
    law = ProductLaw(np.array([10**6, 2]), np.array([1e-6, 50.0]))
    np.testing.assert_allclose(law.attribute_epsilons(), [1e-6, 50.0], rtol=0, atol=1e-14)
    with mp.workdps(40):
        keep = mp.exp(mp.mpf(1e-6)) / (10**6 - 1 + mp.exp(mp.mpf(1e-6)))
        assert law.one_way()[0, 0] == pytest.approx(float(keep), rel=1e-14)


def test_huge_m():
    m = 200_000
    few = FewChangesLaw(np.full(m, 3), 1000.0, np.zeros(m))
    assert np.isfinite(few.attribute_epsilons()).all()
    assert few.marginal((5, m - 1)).sum() == pytest.approx(1)
    density = np.where(np.arange(m + 1) < m // 2, 3.0, 0.0)
    alike = CountLaw(np.full(m, 3), [np.arange(m)], density)
    assert np.isfinite(alike.attribute_epsilons()).all()
    assert alike.marginal((0, 7)).sum() == pytest.approx(1)
    assert alike.epsilon == pytest.approx(3.0)
    assert alike.sample(3, randomness.SeededSource(np.random.default_rng(3))).shape == (3, m)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: TableLaw(np.array([2, 2]), np.zeros(3)), "needs 4 finite log densities, got 3"),
        (lambda: TableLaw(np.array([2]), np.array([0.0, np.nan])), "finite"),
        (lambda: TableLaw(np.full(21, 2), np.zeros(2)), "20 at most"),
        (lambda: CountLaw(np.array([2, 2]), [np.array([0])], np.zeros(2)), "exactly once"),
        (lambda: CountLaw(np.array([2, 3]), [np.array([0, 1])], np.zeros(3)), "same size"),
        (lambda: CountLaw(np.array([2, 2]), [np.array([0, 1])], np.zeros(2)), "shape"),
        (lambda: FewChangesLaw(np.array([2]), 1.0, np.array([0.0])), "at least two"),
        (lambda: FewChangesLaw(np.array([2, 2]), -1.0, np.zeros(2)), "at least 0"),
        (lambda: ProductLaw(np.array([2]), np.array([-1.0])), "at least 0"),
        (lambda: BlockLaw([((0,), LAWS["product-one"]), ((0,), LAWS["product-one"])]), "exactly once"),
        (lambda: BlockLaw([((0, 1), LAWS["product-one"])]), "as many attributes"),
        (lambda: LAWS["table"].marginal((0, 0)), "different attributes"),
        (lambda: LAWS["table"].marginal((3,)), "different attributes"),
        (lambda: ProductLaw(np.full(30, 2), np.ones(30)).marginal(range(21)), "20 at most"),
    ],
)
def test_bad_input_is_refused_in_one_line(build, words):
    with pytest.raises(ValueError, match=words) as error:
        build()
    assert "\n" not in str(error.value)


def test_none_is_the_operating_system_and_seeds_repeat():
    assert isinstance(randomness.as_source(None), randomness.SystemSource)
    a, b = randomness.as_source(5).words(100), randomness.as_source(5).words(100)
    np.testing.assert_array_equal(a, b)
    generator = np.random.default_rng(5)
    handed_on = randomness.as_source(generator).words(100)
    np.testing.assert_array_equal(handed_on, randomness.SeededSource(np.random.default_rng(5)).words(100))
    # records drawn by numpy with seed 5 must not meet the noise of seed 5; a shared word has chance 1e-15
    assert not np.intersect1d(handed_on, a).size
    source = randomness.SeededSource(np.random.default_rng(1))
    assert randomness.as_source(source) is source


@pytest.mark.parametrize("bad", [True, 1.5, "7", -1])
def test_other_random_states_are_refused(bad):
    with pytest.raises(TypeError, match="give None, an int from 0 or a numpy Generator"):
        randomness.as_source(bad)


def test_system_streams_differ_and_go_on():
    one, two = randomness.SystemSource(), randomness.SystemSource()
    first, second, other = one.words(64), one.words(64), two.words(64)
    assert len({*first.tolist(), *second.tolist(), *other.tolist()}) == 192  # a repeat has chance 2^-50


def test_system_words_are_uniform_in_every_bit():
    words = randomness.SystemSource().words((1 << 19) + 12_345)  # more than one piece of key stream
    ones = np.array([np.count_nonzero(words >> np.uint64(b) & np.uint64(1)) for b in range(64)])
    z = (ones - words.size / 2) / np.sqrt(words.size / 4)
    assert np.abs(z).max() < 8  # fails once in 10^13 runs


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 8, 1000])
def test_bounded_is_uniform(bound):
    """False alarm 1e-6 for each of six bounds."""
    draws = randomness.bounded(randomness.SeededSource(np.random.default_rng(8)), 50_000, bound)
    assert draws.max() < bound and naive.fit_p_value(draws, np.full(bound, 1 / bound)) > 1e-6


def test_bounded_rejects_the_uneven_last_stretch():
    # 2^64 = 3·k + 1: only the largest word is uneven, and is drawn again
    top = (1 << 64) - 1
    assert randomness.bounded(Scripted([top, 4, top, 5]), 2, 3).tolist() == [2, 1]


@pytest.mark.parametrize("p", [0.0, 1e-22, 3e-12, 0.1, 1 / 3, 0.5, 1 - 2.0**-53, 1.0])
def test_thresholds_are_never_below_the_probability(p):
    reached = Fraction(int(randomness.threshold(p)), 1 << 64)
    assert Fraction(p) - Fraction(1, 1 << 64) * (p == 1.0) <= reached <= Fraction(p) + Fraction(1, 1 << 64)


def test_a_forked_process_draws_bits_of_its_own():
    source = randomness.SystemSource()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, source.words(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reader, 32), dtype=np.uint64)
    assert not np.intersect1d(theirs, source.words(4)).size


@pytest.mark.parametrize("bound", [2, 3, 7, 4095, 4097])
def test_short_words_below_a_bound_are_even(bound):
    """False alarm 1e-9; 64 cells for large bounds."""
    draws = randomness.words_below(randomness.SeededSource(np.random.default_rng(bound)), 200_000, bound).astype(
        np.int64
    )
    assert draws.min() >= 0 and draws.max() < bound
    edges = np.arange(min(bound, 64) + 1) * bound // min(bound, 64)
    assert naive.fit_p_value(np.searchsorted(edges, draws, side="right") - 1, np.diff(edges)) > 1e-9


def test_products_that_would_favour_a_value_are_drawn_again():
    # 16-bit words times 3: 0 has lower half 0, below 65536 mod 3 = 1, and is rejected; 21846 gives 1
    assert randomness.words_below(Scripted([21846 << 16 | 0, 43691]), 2, 3).tolist() == [2, 1]


def test_every_permutation_is_equally_likely():
    """By chance it fails for once in a million seeds."""
    source, every = randomness.as_source(3), {order: k for k, order in enumerate(itertools.permutations(range(4)))}
    seen = np.array([every[tuple(randomness.permutation(source, 4).tolist())] for _ in range(2400)])
    assert naive.fit_p_value(seen, np.ones(24)) > 1e-6
    assert sorted(randomness.permutation(source, 70_001).tolist()) == list(range(70_001))
    assert randomness.permutation(source, 0).size == 0 and randomness.permutation(source, 1).tolist() == [0]


def test_a_permutation_is_drawn_again_where_words_are_alike():
    class Words:
        given = iter([np.array([5, 5, 1], dtype=np.uint64), np.array([3, 1, 2], dtype=np.uint64)])

        def words(self, count):
            return next(self.given)

    assert randomness.permutation(Words(), 3).tolist() == [1, 2, 0]


SIZES = [(2, 3), (4,), (2, 2, 3), (5, 2, 3, 2)]


def record_probabilities(law) -> dict[tuple[int, ...], float]:
    """Probability of every record, given the record of all zeros, from the law's table."""
    sizes = tuple(law.sizes)
    table = law.marginal(range(law.m))
    out = {}
    for record in product(*(range(r) for r in sizes)):
        changed = tuple(int(v != 0) for v in record)
        ways = math.prod(r - 1 for r, c in zip(sizes, changed, strict=True) if c)
        out[record] = float(table[changed]) / ways
    return out


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("epsilon", [0.3, 2.0, -1.0])
def test_joint_response_keeps_the_record_or_takes_any_other_alike(sizes, epsilon):
    probabilities = record_probabilities(joint_law(sizes, epsilon))
    kept = 1 / (1 + (math.prod(sizes) - 1) * math.exp(-epsilon))
    others = {record: p for record, p in probabilities.items() if any(record)}
    assert probabilities[(0,) * len(sizes)] == pytest.approx(kept, rel=1e-12)
    assert all(p == pytest.approx(kept * math.exp(-epsilon), rel=1e-12) for p in others.values())
    assert joint_law(sizes, epsilon).epsilon == pytest.approx(abs(epsilon), rel=1e-12)


def test_joint_response_on_many_attributes():
    law = joint_law([3] * 500, 800.0)
    assert isinstance(law, FewChangesLaw)
    assert law.epsilon == pytest.approx(800.0, rel=1e-12)
    assert law.epsilon >= 800.0
    # ln(3^500) = 549.3, so at epsilon 800 nearly every record is kept
    assert law.one_way()[0, 0] == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", [0.0, math.nan, math.inf])
def test_joint_response_refuses_what_nothing_can_be_estimated_from(epsilon):
    with pytest.raises(InvalidProblem, match="RR-Joint got epsilon"):
        joint_law([2, 2], epsilon)


@pytest.mark.parametrize("sizes", SIZES)
def test_inverse_distance_matrix_is_sic_equation_10(sizes):
    weights = {}
    for record in product(*(range(r) for r in sizes)):
        distance = sum(v != 0 for v in record)
        weights[record] = 1 / distance if distance else 0.0
    total = sum(weights.values())
    assert inverse_distance_normaliser(sizes) == pytest.approx(total, rel=1e-13)
    probabilities = record_probabilities(inverse_distance_law(sizes, 0.8))
    for record, weight in weights.items():
        assert probabilities[record] == pytest.approx(0.8 if not any(record) else 0.2 * weight / total, rel=1e-12)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("retention", [0.9, 0.5])
def test_inverse_distance_epsilon_is_the_column_ratio(sizes, retention):
    law = inverse_distance_law(sizes, retention)
    probabilities = record_probabilities(law).values()
    assert law.epsilon == pytest.approx(math.log(max(probabilities) / min(probabilities)), rel=1e-12)
    closed = math.log(retention * len(sizes) * inverse_distance_normaliser(sizes) / (1 - retention))
    if retention >= (1 - retention) / inverse_distance_normaliser(sizes):
        assert law.epsilon == pytest.approx(closed, rel=1e-12)
        assert inverse_distance_retention(sizes, closed) == pytest.approx(retention, rel=1e-12)


def test_inverse_distance_epsilon_where_the_record_is_not_the_likeliest_answer():
    sizes, retention = (2, 2), 0.05
    law = inverse_distance_law(sizes, retention)
    # three answers weigh 1, 1, 1/2 of 0.95; the kept record's 0.05 is the smallest of all
    assert law.epsilon == pytest.approx(math.log(0.95 / 2.5 / 0.05), rel=1e-12)


def test_records_at_distance_count_every_record():
    sizes = [9, 16, 7, 15, 6, 5, 2, 42, 2]
    assert records_at_distance(sizes).sum() == math.prod(sizes) == 76_204_800


def test_the_epsilons_that_sic_prints():
    # Table 1; Adult's sizes: workclass 9, education 16, marital-status 7, race 5, native-country 42, occupation 15, sex 2
    assert inverse_distance_law([9, 16], 0.9).epsilon == pytest.approx(7.309, abs=1e-3)
    assert inverse_distance_law([5, 42], 0.9).epsilon == pytest.approx(7.735, abs=1e-3)
    assert inverse_distance_law([9, 16, 5, 42], 0.8).epsilon == pytest.approx(11.844, abs=1e-3)
    assert inverse_distance_law([15, 2], 0.8).epsilon == pytest.approx(5.171, abs=1e-3)
    assert inverse_distance_law([7, 6, 2], 0.8).epsilon == pytest.approx(6.234, abs=1e-3)
    assert inverse_distance_law([16, 15, 2], 0.7).epsilon == pytest.approx(7.337, abs=1e-3)
    assert inverse_distance_law([9, 5, 42], 0.7).epsilon == pytest.approx(8.569, abs=1e-3)
    assert inverse_distance_law([7, 6, 2], 0.7).epsilon == pytest.approx(5.695, abs=1e-3)


def test_one_epsilon_that_sic_prints_belongs_to_no_five_attributes():
    adult = [9, 16, 7, 15, 6, 5, 2, 42, 2]
    epsilons = [inverse_distance_law(five, 0.9).epsilon for five in combinations(adult, 5)]
    assert min(abs(e - 11.975) for e in epsilons) > 0.03


@pytest.mark.parametrize("retention", [0.0, 1.0, -0.1, math.nan])
def test_inverse_distance_refuses_no_probability(retention):
    with pytest.raises(InvalidProblem, match="retention"):
        inverse_distance_law([2, 3], retention)


def test_inverse_distance_limits():
    with pytest.raises(MethodTooLarge, match="21"):
        inverse_distance_law([2] * 21, 0.5)
    with pytest.raises(InvalidProblem, match="ln 3"):
        inverse_distance_retention([2, 2, 2], 1.0)


def test_retention_epsilons_are_the_ratio_of_the_matrix():
    for r in (2, 5, 16):
        for p in (0.1, 0.3, 0.7):
            off = (1 - p) / (r - 1)
            assert retention_epsilons([r], p)[0] == pytest.approx(abs(math.log(p / off)), rel=1e-12)
            assert retention_epsilons([r], p, signed=True)[0] == pytest.approx(math.log(p / off), rel=1e-12)
    with pytest.raises(InvalidProblem):
        retention_epsilons([2], 1.0)
