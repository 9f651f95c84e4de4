"""The change automaton against exact enumeration, and POR's program against the authors' construction."""

import doctest
import itertools

import mpmath as mp
import naive
import numpy as np
import pytest
from scripted import Scripted

import optrr_solvers.programs.lp as module
from optrr_solvers import InvalidProblem, MethodTooLarge, Problem, Status, baselines, event_program, solve
from optrr_solvers.laws import BallLaw, BlockLaw, CountLaw, FewChangesLaw, MixedBall, ProductLaw, TableLaw, WeightedBall
from optrr_solvers.laws.few_changes import inverse_distance_law, joint_law
from optrr_solvers.randomness import SeededSource, SystemSource, words_below
from optrr_solvers.sampling import draw
from optrr_solvers.sampling.build import automaton_of
from optrr_solvers.sampling.diagram import ChoiceLayer, Layer, Layers, Totals, mixture, totals_diagram
from optrr_solvers.sampling.draw import Sampler

KINDS = ("product", "table", "count", "few", "ball", "balls", "shell", "blocks", "joint", "distance", "solved", "pairs")


def random_law(kind, rng, m):
    sizes = rng.integers(2, 8, m)
    scale = 10 ** rng.uniform(-3, 1)
    if kind == "product":
        return ProductLaw(sizes, rng.uniform(0, scale, m) * (rng.random(m) < 0.8))
    if kind == "table":
        return TableLaw(sizes, rng.normal(0, scale, 1 << m).round(int(rng.integers(0, 4))))
    if kind == "count":
        size = np.full(m, int(rng.integers(2, 8)))
        classes = np.array_split(rng.permutation(m), int(rng.integers(1, m + 1)))
        return CountLaw(size, classes, rng.normal(0, scale, tuple(c.size + 1 for c in classes)))
    if kind == "few" and m > 1:
        singles = rng.uniform(0, scale, m).round(2)
        return FewChangesLaw(sizes, float(rng.uniform(0, 3 * scale)), singles)
    if kind in ("ball", "balls", "shell"):
        return random_ball(kind, rng, sizes)
    if kind == "blocks" and m > 1:
        parts = np.array_split(rng.permutation(m), 2)
        kinds = rng.choice(["product", "table", "count", "ball", "balls"], 2)
        return BlockLaw([(p, random_law(k, rng, p.size)) for p, k in zip(parts, kinds, strict=True)])
    if kind == "joint":
        return joint_law(sizes, float(scale))
    if kind == "distance" and m > 1:
        return inverse_distance_law(sizes, float(rng.uniform(0.05, 0.95)))
    pairs = tuple(itertools.combinations(range(m), 2)) if kind == "pairs" else ()
    return solve(Problem(sizes, rng.uniform(0.05, 3, m), pairs=pairs), "auto").law


def random_ball(kind, rng, sizes):
    m = sizes.size

    def ball():
        fractions = rng.random(m) * (rng.random(m) < 0.6)
        knots = np.sort(rng.choice(np.arange(-1, 30), 5, replace=False))
        levels = np.append(rng.random(4) if kind == "shell" else np.sort(rng.random(4))[::-1], 0.0)
        return WeightedBall(rng.integers(0, 8, m), fractions, knots, levels)

    count = 1 if kind == "ball" else int(rng.integers(2, 4))
    shares = rng.dirichlet(np.ones(count)) * rng.choice([1 - 2.0**-50, 0.7])
    classes = [np.array([i]) for i in range(m)]
    return BallLaw(sizes, classes, [MixedBall(float(p), ball()) for p in shares], float(10 ** rng.uniform(-2, 1.2)))


def check_labels(law):
    """Every label against exact rationals; returns label − truth of the total."""
    labels, automaton = law.labels, law.automaton
    truth = naive.ExactTruth(law.sizes.tolist(), naive.drawn_probabilities(automaton.layers))
    with mp.workdps(60):
        total = mp.mpf(labels.epsilon) - naive.log_of(truth.total)
        assert total >= 0
        assert mp.mpf(automaton.truth.epsilon) >= naive.log_of(truth.total)
        for i in range(law.m):
            assert mp.mpf(labels.conditional[i]) >= naive.log_of(truth.conditional[i])
            # an accuracy is never above the truth
            attribute = naive.log_of(truth.attribute[i]) - mp.mpf(labels.attribute[i])
            assert 0 <= attribute <= 1e-9
            assert abs(mp.mpf(truth.flips[i].numerator) / truth.flips[i].denominator / law.one_way()[i, 1] - 1) < 1e-12
    return float(total)


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_never_below_what_is_drawn_and_hardly_above(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(12):
        law = random_law(kind, rng, int(rng.integers(1, 7)))
        above = check_labels(law)
        # the ε that a ball names is an upper bound where nothing fills it, and so is that of several balls
        if not isinstance(law, BallLaw | BlockLaw):
            assert above <= 1e-9
            assert law.labels.epsilon <= law.epsilon + 1e-15


def test_extremes_are_resolved():
    for sizes, epsilons in (([2, 2], [40, 40]), ([2, 3], [500, 1e-6]), ([10**6, 2, 2], [1e-9, 0, 50])):
        law = ProductLaw(np.array(sizes), np.array(epsilons, dtype=float))
        assert check_labels(law) <= 1e-9
        np.testing.assert_allclose(law.labels.attribute, epsilons, atol=1e-9)


def test_totals_of_two_kinds_give_the_table_that_they_describe():
    rng = np.random.default_rng(5)
    steps, sizes = rng.integers(-2, 4, (6, 2)), rng.integers(2, 5, 6)
    density = lambda x: np.sin(x[:, 0] * 1.3 + x[:, 1] * 0.7)  # noqa: E731
    sets = np.array(naive.change_sets(6))
    table = TableLaw(sizes, density(sets @ steps))
    automaton = automaton_of(sizes, totals_diagram(Totals(steps, density)), table.epsilon, table.conditional_epsilons())
    assert naive.drawn_probabilities(automaton.layers) == naive.drawn_probabilities(table.automaton.layers)
    assert automaton.states == table.automaton.states


def test_a_mixture_of_diagrams_is_the_mixture():
    rng = np.random.default_rng(6)
    sizes = np.array([3, 2, 4])
    a, b = (TableLaw(sizes, rng.normal(size=8)) for _ in range(2))
    both = mixture([(0.25, a.diagram()), (0.75, b.diagram())])
    drawn = naive.drawn_probabilities(automaton_of(sizes, both, 9.0, np.full(3, 9.0)).layers)
    mixed = 0.25 * np.exp(a.log_density) + 0.75 * np.exp(b.log_density)
    expected = naive.change_table(sizes, mixed)
    for s, p in drawn.items():
        assert float(p) == pytest.approx(expected[s], rel=1e-12)


def test_states_with_equal_continuations_are_one():
    # a table that is a product has one state a layer, and a joint one two
    product = np.array([[4.0, 3.0], [2.0, 1.0]])
    assert TableLaw(np.array([2, 2]), product).automaton.states == 2
    assert joint_law([3, 3, 3, 3], 2.0).automaton.states == 7


@pytest.mark.parametrize("kind", KINDS)
def test_draws_follow_the_integers(kind):
    """False alarm 1e-6 for each of 12 kinds."""
    rng = np.random.default_rng(100 + KINDS.index(kind))
    law = random_law(kind, rng, 4)
    exact = naive.drawn_probabilities(law.automaton.layers)
    expected = np.array([float(exact[s]) for s in naive.change_sets(4)])
    assert naive.changes_p_value(law.sample(200_000, SeededSource(rng)), expected) > 1e-6


@pytest.mark.parametrize("sizes", [(2, 3, 4, 7, 14), (2, 60, 5, 2), (2, 88, 7), (2, 3, 7, 300, 5000), (2, 40_000)])
def test_replacements_are_even_and_never_the_value_itself(sizes):
    """False alarm 1e-6 for each of 19 columns; codes of 8, 16 and 32 bits, with parts that leave few numbers out and many."""
    sizes = np.array(sizes)
    law = ProductLaw(sizes, np.resize([0.1, 2.5, 0.2, 0.3, 0.0], sizes.size))
    codes = np.tile((sizes - 1).astype(np.int32), (300_000, 1))
    law.automaton.sampler.randomize(codes, SystemSource())
    for i, r in enumerate(sizes.tolist()):
        kept = float(law.one_way()[i, 0])
        assert naive.fit_p_value(codes[:, i], np.append(np.full(r - 1, (1 - kept) / (r - 1)), kept)) > 1e-6


def large_laws(rng):
    """Laws of up to a hundred attributes, of every kind that has an automaton there."""
    for m in (13, 40, 100):
        sizes = rng.integers(2, 9, m)
        yield ProductLaw(sizes, rng.uniform(0.01, 5, m))
        yield FewChangesLaw(sizes, float(rng.uniform(1, 50)), rng.uniform(0, 1, m).round(1))
        yield CountLaw(np.full(m, 3), np.array_split(np.arange(m), 2), rng.normal(size=(-(-m // 2) + 1, m // 2 + 1)))
        yield joint_law(sizes, 3.0)
        parts = np.array_split(rng.permutation(m), m // 6)
        yield BlockLaw([(p, TableLaw(sizes[p], rng.normal(size=1 << p.size))) for p in parts])
        yield solve(Problem(np.full(m, 4), np.full(m, 0.7)), "auto").law


@pytest.mark.slow
def test_two_passes_bound_the_total_of_many_attributes():
    for law in large_laws(np.random.default_rng(8)):
        truth = law.automaton.truth
        assert 0 <= law.labels.epsilon - truth.epsilon <= 1e-9
        assert law.labels.epsilon <= law.epsilon * (1 + 1e-15)
        np.testing.assert_allclose(truth.flips, law.one_way()[:, 1], rtol=1e-12)
        assert np.all(law.labels.conditional >= law.conditional_epsilons() * (1 - 1e-12))


@pytest.mark.slow
def test_two_passes_bound_the_total_of_balls_on_fine_grids():
    rng = np.random.default_rng(9)
    for m in (22, 40, 100):
        law = solve(Problem(rng.integers(2, 6, m), rng.uniform(0.5, 2, m)), "ball").law
        assert 0 <= law.labels.epsilon - law.automaton.truth.epsilon <= 1e-9
        np.testing.assert_allclose(law.automaton.truth.flips, law.one_way()[:, 1], rtol=1e-12)


def random_layers(rng, m, limbs):
    """Any layers at all, with many thresholds at an end, with some equal to the second, and some that begin alike."""
    layers, states = [], 1
    second, uniform, choice = rng.choice([0.0, 0.3, 1.0]), rng.choice([0.0, 0.3]), rng.choice([0.0, 0.3])
    for attribute in rng.permutation(m) if rng.random() < 0.5 else np.arange(m):
        if rng.random() < choice:
            ends = np.sort(rng.integers(0, 1 << 64, int(rng.integers(0, 4)), dtype=np.uint64))
            states = int(rng.integers(1, 4))
            layers.append(ChoiceLayer(rng.integers(0, states, ends.size + 1), ends))
        after = int(rng.choice([1, 1, 2, 5]))
        words = random_thresholds(rng, limbs, states)
        high, high_words = None, None
        if rng.random() < second:
            high, high_words = rng.integers(0, after, states), smaller(rng, words)
        kept, changed = rng.integers(0, after, states), rng.integers(0, after, states)
        is_uniform = bool(rng.random() < uniform)
        layers.append(
            Layer(int(attribute), kept, changed, high, words=words, high_words=high_words, uniform=is_uniform)
        )
        states = after
    return Layers(rng.integers(2, 8, m), tuple(layers), 64 * limbs)


def random_thresholds(rng, limbs, states):
    words = rng.integers(0, 1 << 64, (limbs, states), dtype=np.uint64)
    # beginnings of all zeros and all ones, and words of all zeros and all ones
    for pick, bits in ((0.1, 0), (0.1, 0xFFFFFFFF)):
        begin = rng.random(states) < pick
        words[0, begin] = words[0, begin] % np.uint64(1 << 32) + np.uint64(bits << 32)
        words[:, rng.random(states) < pick] = np.uint64(bits << 32 | bits)
    return words


def smaller(rng, words):
    """Second thresholds: 0, the first ones, or what begins like them and is smaller, or is smaller from the beginning on."""
    kinds = rng.integers(0, 4, words.shape[1])
    out = np.where(kinds == 0, np.uint64(0), words)
    out[0] -= np.where(
        kinds == 2, rng.integers(0, 1 << 32, kinds.size, dtype=np.uint64) % (words[0] % (1 << 32) + 1), 0
    )
    out[0] = np.where(kinds == 3, rng.integers(0, words[0], dtype=np.uint64, endpoint=True), out[0])
    out[:, kinds == 3] &= words[:, kinds == 3]
    return out


def random_script(rng, layers, n):
    """Words with halves that begin thresholds or are next to that, and whole words that are limbs of thresholds or ends."""
    steps = [x for x in layers.layers if isinstance(x, Layer)]
    limbs = np.concatenate([w.ravel() for x in steps for w in (x.words, x.high_words) if w is not None])
    begins = (limbs >> np.uint64(32)).astype(np.uint32)
    ends = np.concatenate([limbs, *(x.ends for x in layers.layers if isinstance(x, ChoiceLayer))])
    count = n * (len(layers.layers) + 1) * (layers.bits // 64 + 2) + 64
    halves = rng.integers(0, 1 << 32, 2 * count, dtype=np.uint32)
    near(rng, halves, begins, rng.choice([0.02, 0.5, 1.0]))
    words = halves.view(np.uint64)
    near(rng, words, ends, rng.choice([0.0, 0.3]))
    return words.tolist()


def near(rng, numbers, goals, share):
    """Put goals, or what is one beside them, in place of a share of the numbers."""
    places = np.flatnonzero(rng.random(numbers.size) < share)
    beside = rng.choice([-1, 0, 0, 0, 1], places.size).astype(numbers.dtype)
    numbers[places] = rng.choice(goals, places.size) + beside


@pytest.mark.parametrize("at_once", [4, 16, 1 << 18])
def test_any_layers_are_walked_as_integers_would(at_once, monkeypatch):
    monkeypatch.setattr(draw, "_AT_ONCE", at_once)
    rng, completed = np.random.default_rng(at_once), 0
    for _ in range(400):
        layers = random_layers(rng, int(rng.integers(1, 9)), int(rng.choice([1, 1, 2, 4])))
        n = int(rng.choice([1, 2, 3, 7, 16]))
        script = random_script(rng, layers, n)
        source, reference = Scripted(script), Scripted(script)
        drawn = Sampler(layers).changes(n, source)
        expected, used = naive.walked(layers, n, reference, at_once)
        for x in layers.layers:
            if isinstance(x, Layer) and x.uniform:
                expected[:, x.attribute] = words_below(reference, n, int(layers.sizes[x.attribute])) != 0
        np.testing.assert_array_equal(drawn, expected)
        assert source.left == reference.left
        completed += used
    assert completed > 500


@pytest.mark.parametrize("limbs", [1, 2])
@pytest.mark.parametrize("seconds", [(), (0, 1, 2, 3), (1, 3)])
def test_a_tie_of_one_record_in_one_layer_is_seen(seconds, limbs):
    rng, m, n = np.random.default_rng(5), 4, 6
    first = rng.integers(1 << 63, 1 << 64, (m, limbs, 1), dtype=np.uint64)
    second = first // np.uint64(2)

    def layer(i):
        # both states continue alike
        states, nowhere = 1 if i == 0 else 2, np.zeros(1 if i == 0 else 2, dtype=np.int64)
        words = np.repeat(first[i], states, axis=1)
        if i not in seconds:
            return Layer(i, nowhere, nowhere, words=words)
        return Layer(
            i, nowhere, nowhere, nowhere + (i < m - 1), words=words, high_words=np.repeat(second[i], states, axis=1)
        )

    layers = Layers(np.full(m, 3), tuple(map(layer, range(m))), 64 * limbs)
    thresholds = [(i, first[i, :, 0]) for i in range(m)] + [(i, second[i, :, 0]) for i in seconds]
    for i, threshold in thresholds:
        for j in range(n):
            for beside in (-1, 0, 1):
                short = rng.integers(0, 1 << 32, (m, n), dtype=np.uint32)
                short[i, j] = int(threshold[0]) >> 32
                script = [
                    *short.view(np.uint64).ravel().tolist(),
                    *threshold[:-1].tolist(),
                    int(threshold[-1]) + beside,
                ]
                source = Scripted(script)
                drawn = Sampler(layers).changes(n, source)
                np.testing.assert_array_equal(drawn, naive.walked(layers, n, Scripted(script), 1 << 18)[0])
                assert source.left == []


LAWS = {
    "product": ProductLaw(np.array([2, 3, 4, 5]), np.array([1.0, 0.5, 2.0, 0.0])),
    "alike": solve(Problem(np.full(500, 3), np.full(500, 0.2)), "auto").law,
}


@pytest.mark.parametrize(("law", "n", "most"), [("product", 150_001, 1 << 16), ("alike", 9002, 1 << 12)])
def test_every_block_of_records_has_its_own_random_bits(law, n, most, monkeypatch):
    monkeypatch.setattr(draw, "_MOST", most)
    codes = np.zeros((n, LAWS[law].m), dtype=np.int8)
    LAWS[law].automaton.sampler.randomize(codes, SeededSource(np.random.default_rng(4)))
    assert n > 2 * most and codes.any(axis=0).all()
    # of five hundred attributes, each of which changes more often than not, no record is left as it was
    assert law == "product" or codes.any(axis=1).all()
    assert not np.array_equal(codes[:most], codes[most : 2 * most])


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_values_are_moved_modulo_their_sizes(kind, order, monkeypatch):
    rng = np.random.default_rng(3)
    monkeypatch.setattr(draw, "_FEWEST_MOVED", 1)
    for n, m, piece in [(1, 1, 1), (7, 3, 6), (10, 3, 6), (40, 100, 700), (5, 90, 1), (2050, 70, 1 << 20)]:
        monkeypatch.setattr(draw, "_MOVED", piece)
        sizes = rng.integers(2, 128, m)
        codes, steps = rng.integers(0, sizes, (n, m)), rng.integers(0, sizes, (n, m))
        records = np.array(codes, dtype=np.int8, order=order)
        draw.move(records, np.ascontiguousarray(steps.T.astype(kind)), sizes)
        np.testing.assert_array_equal(records, (codes + steps) % sizes)


def drawn(m: int) -> Problem:
    rng = np.random.default_rng(m)
    return Problem(rng.integers(2, 8, m), rng.uniform(0.1, 3, m))


@pytest.mark.parametrize("m", [3, 4, 5, 6, 7])
def test_it_is_the_authors_program_in_another_order(m: int) -> None:
    """POR numbers events by how many attributes change and divides row i of A_eq by r_i − 1."""
    problem = drawn(m)
    program = event_program(problem)
    events, a, b, a_eq, b_eq = naive.por_program(problem.sizes.tolist(), problem.epsilons.tolist())
    number = [sum(1 << (m - 1 - i) for i in event) for event in events]
    assert sorted(number) == list(range((1 << m) - 1))
    ours, scale = program.A.toarray()[:, number], (problem.sizes - 1.0)[:, None]
    rows = sorted(map(tuple, np.column_stack([ours, program.b]).tolist()))
    assert rows == sorted(map(tuple, np.column_stack([a, b]).tolist()))
    assert len(rows) == m * 2 ** (m - 1) == len(set(rows))
    np.testing.assert_allclose(program.A_eq.toarray()[:, number] / scale, a_eq, rtol=1e-14)
    np.testing.assert_allclose(program.b_eq / scale[:, 0], b_eq, rtol=1e-14)


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2, 4), (2, 2, 3, 2)])
def test_its_rows_say_of_a_whole_matrix_what_they_should(sizes: tuple[int, ...]) -> None:
    """Random densities as matrices over all records: A q ≤ b is the published order, A_eq's residual is zero at ε_i alone."""
    rng = np.random.default_rng(sum(sizes))
    m = len(sizes)
    monotone = 0
    for k in range(30):
        q = np.append(np.sort(1 + rng.exponential(2.0, (1 << m) - 1))[::-1], 1.0)
        if k % 2:
            rng.shuffle(q[:-1])
        p = naive.matrix(sizes, q.reshape((2,) * m))
        achieved = []
        for i, r in enumerate(sizes):
            one = naive.marginal_matrix(sizes, p, (i,))
            achieved.append(float(np.log(one[0, 0] / one[0, 1])))
            assert one.shape == (r, r)
        if min(achieved) <= 1e-3:
            continue
        program = event_program(Problem(sizes, achieved))
        scale = np.abs(program.A_eq.toarray()).max(axis=1)
        np.testing.assert_allclose((program.A_eq @ q[:-1] - program.b_eq) / scale, 0, atol=1e-11)
        other = event_program(Problem(sizes, np.asarray(achieved) + 0.1))
        assert np.all(np.abs(other.A_eq @ q[:-1] - other.b_eq) / scale > 1e-4)
        ordered = all(q[s] >= q[s | 1 << i] for s, i in itertools.product(range(1 << m), range(m)) if not s >> i & 1)
        assert bool(np.all(program.A @ q[:-1] <= program.b)) == ordered
        monotone += ordered
    assert monotone > 3  # both outcomes occur


def test_the_example_in_its_docstring() -> None:
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    examples = [t for t in finder.find(module, globs={}) if t.examples]
    assert [t.name.rsplit(".", 1)[-1] for t in examples] == ["event_program"]
    assert runner.run(examples[0]).failed == 0


def test_what_is_no_part_of_it_is_refused() -> None:
    with pytest.raises(InvalidProblem, match="no pairs or caps"):
        event_program(Problem([2, 3], [1.0, 1.0], pairs=((0, 1),)))
    with pytest.raises(MethodTooLarge, match="20"):
        event_program(Problem([2] * 21, [1.0] * 21))


RNG = np.random.default_rng(4)


@pytest.mark.parametrize(
    ("m", "stage"),
    [
        (1, "closed form"),
        (2, "closed form"),
        (3, "linear program"),
        pytest.param(11, "linear program", marks=pytest.mark.slow),
        (12, "heuristic"),
    ],
)
def test_the_stage_and_its_label(m: int, stage: str) -> None:
    problem = Problem(RNG.integers(2, 6, m), RNG.uniform(1, 3, m))
    solution = baselines.solve_por(problem)
    assert solution.method == "por"
    assert stage in solution.notes[0]
    replaced = np.abs(solution.attribute_epsilons - problem.epsilons) > 1e-8
    if m <= baselines.MOST_BY_PROGRAM:
        assert solution.status is Status.OPTIMAL
        assert solution.upper == pytest.approx(solve(problem).upper, abs=1e-8)
        assert not replaced.any()
        assert "every requested epsilon is kept" in solution.notes[0]
    else:
        assert solution.status is Status.BASELINE


def test_the_program_is_solved_at_ten_attributes_as_in_the_paper_s_figures() -> None:
    """Alike attributes, so that the closed form is an independent reference; the heuristic has 11.742."""
    problem = Problem([3] * 10, [2.0] * 10)
    assert baselines.solve_por(problem).upper == pytest.approx(solve(problem, "closed-form").upper, abs=1e-8)
    assert baselines.solve_por(problem).upper == pytest.approx(8.624, abs=5e-4)


def test_beyond_the_program_it_is_the_published_heuristic_and_says_what_it_replaced() -> None:
    problem = Problem(2 + np.arange(30) % 4, np.random.default_rng(1).uniform(1, 8, 30))
    solution = baselines.solve_por(problem)
    total, achieved = naive.por_inductive(problem.sizes.tolist(), problem.epsilons.tolist())
    assert solution.upper == pytest.approx(total, rel=1e-9)
    np.testing.assert_allclose(solution.attribute_epsilons, achieved, rtol=1e-8)
    replaced = int(np.sum(np.abs(np.asarray(achieved) - problem.epsilons) > 1e-8))
    assert replaced > 5
    assert any(note.startswith(f"{replaced} of 30 epsilons were replaced") for note in solution.notes)
    assert "kept" not in solution.notes[0]


def test_where_the_heuristic_replaces_nothing_it_says_so() -> None:
    solution = baselines.solve_por(Problem([2] * 12, np.linspace(6.0, 5.0, 12)))
    assert "every requested epsilon is kept" in solution.notes[0]


def test_pairs_are_refused() -> None:
    with pytest.raises(InvalidProblem, match="no pairs or caps"):
        baselines.solve_por(Problem([2, 3], [1.0, 1.0], pairs=((0, 1),)))
