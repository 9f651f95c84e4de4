"""Graph statistics and the field's protocols against enumeration of every output, brute force and simulations."""

import math
from fractions import Fraction
from itertools import combinations, product

import mpmath
import networkx as nx
import numpy as np
import pytest
from cases import spread
from scipy.stats import binom, chi2, gamma

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Mechanism
from optrr.mechanisms.supports import drawn_epsilon
from optrr.tables.estimation.accuracy import expected_squared_error
from optrr.ways import baselines, graphs
from optrr_solvers.laws import ProductLaw
from optrr_solvers.randomness import threshold


def stand_in() -> nx.Graph:
    """185 nodes, 684 edges, clustered: the shape of the graph RVL used."""
    graph = nx.powerlaw_cluster_graph(185, 4, 0.7, seed=3)
    rng = np.random.default_rng(4)
    edges = sorted(graph.edges())
    graph.remove_edges_from([edges[k] for k in rng.permutation(len(edges))[: len(edges) - 684]])
    return graph


def triangles_by_loops(n, edges):
    joined = {frozenset(e) for e in edges}
    out = [0] * n
    for trio in combinations(range(n), 3):
        if all(frozenset(pair) in joined for pair in combinations(trio, 2)):
            for node in trio:
                out[node] += 1
    return out


def all_outcomes(graph: graphs.Graph, channel: graphs.EdgeChannel):
    """Every reported graph on few nodes, with its probability."""
    true = set(graph.edge_slots().tolist())
    for bits in product((0, 1), repeat=graph.slots):
        slots = np.array([s for s, bit in enumerate(bits) if bit], dtype=np.int64)
        flips = sum((s in true) != bool(bit) for s, bit in enumerate(bits))
        chance = channel.flip**flips * (1 - channel.flip) ** (graph.slots - flips)
        yield graphs.RandomizedGraph(graphs.from_slots(graph.n, slots), channel), chance


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edges", "epsilon"),
    spread([[], [(0, 1), (1, 2), (0, 2)], [(0, 1), (1, 2), (2, 3), (3, 4), (0, 2), (1, 3)]], [0.7, 2.0], every=2),
)
def test_estimates_and_variances_by_enumerating_all_outcomes(edges, epsilon):
    graph, channel = graphs.as_graph(edges, nodes=5), graphs.response_channel(epsilon)
    outcomes = [
        (graphs.estimate_degrees(r), graphs.estimate_triangles(r), chance) for r, chance in all_outcomes(graph, channel)
    ]
    chances = np.array([chance for _, _, chance in outcomes])
    assert chances.sum() == pytest.approx(1, rel=1e-12)
    for reported, _ in list(all_outcomes(graph, channel))[::100]:
        edges_of = reported.reported.edges.tolist()
        assert graphs.estimate_triangles(reported).naive.tolist() == triangles_by_loops(5, edges_of)
    cases = [
        (0, graph.degrees(), np.full(5, 4 * channel.noise)),
        (1, np.array(triangles_by_loops(5, edges)), graphs.triangle_variance(graph, channel)),
    ]
    for which, truth, variance in cases:
        values = np.array([o[which].values for o in outcomes])
        mean = chances @ values
        np.testing.assert_allclose(mean, truth, atol=1e-10)
        np.testing.assert_allclose(chances @ (values - mean) ** 2, variance, rtol=1e-9)
        stated = chances @ np.array([np.broadcast_to(o[which].variances, 5) for o in outcomes])
        np.testing.assert_allclose(stated, variance, rtol=1e-9)


def test_triangles_agree_with_networkx_and_loops():
    graph = stand_in()
    expected = [nx.triangles(graph)[node] for node in graph.nodes()]
    np.testing.assert_array_equal(graphs.triangles(graph), expected)
    small = nx.gnp_random_graph(12, 0.5, seed=1)
    np.testing.assert_array_equal(graphs.triangles(small), triangles_by_loops(12, small.edges()))


def test_channels_flip_at_least_as_often_as_asked():
    for epsilon in (1e-5, 0.3, 1.0, 4.0, 20.0, 50.0):
        response, cut = graphs.response_channel(epsilon), graphs.laplace_channel(epsilon)
        assert response.flip == pytest.approx(1 / (1 + math.exp(epsilon)), rel=1e-9)
        assert cut.flip == pytest.approx(math.exp(-epsilon / 2) / 2, rel=1e-9)
        assert response.epsilon <= epsilon * (1 + 1e-15)
        assert cut.epsilon == pytest.approx(math.log(2 * math.exp(epsilon / 2) - 1), rel=1e-9)
        assert cut.epsilon < epsilon
        for channel in (response, cut):
            assert 0 < channel.coarse <= 1 << 15 and 0 < channel.fine < 1 << 64


@pytest.mark.slow
def test_draws_flip_every_slot_alike():
    """Chi-square over 45 slots and both kinds of bit of 4,000 collections; false alarm 1e-4."""
    graph, channel = graphs.as_graph(nx.path_graph(10)), graphs.response_channel(1.0)
    runs, rng = 4000, np.random.default_rng(9)
    seen = np.zeros(graph.slots)
    for _ in range(runs):
        seen[graphs.randomize(graph, channel, random_state=rng).reported.edge_slots()] += 1
    edge = np.isin(np.arange(graph.slots), graph.edge_slots())
    expected = runs * np.where(edge, 1 - channel.flip, channel.flip)
    assert chi2.sf(np.sum((seen - expected) ** 2) / (runs * channel.flip * (1 - channel.flip)), graph.slots) > 1e-4


def test_slots_and_edges_are_inverse():
    for n in (2, 3, 7, 40):
        graph = graphs.from_slots(n, np.arange(n * (n - 1) // 2))
        np.testing.assert_array_equal(graph.edges, list(combinations(range(n), 2)))
        np.testing.assert_array_equal(graph.edge_slots(), np.arange(graph.slots))


def test_networkx_labels_edge_lists_and_arrays_give_one_graph():
    named = nx.Graph()
    named.add_nodes_from(["d", "a", "c", "b"])
    named.add_edges_from([("b", "a"), ("c", "d")])
    from_names = graphs.as_graph([("a", "b"), ("d", "c")], nodes=["d", "a", "c", "b"])
    from_numbers = graphs.as_graph(np.array([[3, 1], [0, 2]]), nodes=4)
    for graph in (graphs.as_graph(named), from_names, from_numbers):
        np.testing.assert_array_equal(graph.edges, [[0, 2], [1, 3]])
    assert graphs.as_graph(named).labels == ("d", "a", "c", "b")
    assert graphs.as_graph([], nodes=3).degrees().tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("source", "nodes", "said"),
    [
        (nx.DiGraph([(0, 1)]), None, "directed"),
        (nx.MultiGraph([(0, 1), (0, 1)]), None, "several edges"),
        (nx.Graph([(0, 1), (1, 1)]), None, "self-loop"),
        ([(0, 1), (2, 2)], 3, "edge 2 is a self-loop at 2"),
        ([(0, 1), (1, 0)], 3, "edge 2 between 0 and 1 is listed twice"),
        ([("a", "b"), ("b", "a")], ["a", "b"], "between 'a' and 'b' is listed twice"),
        ([(0, 3)], 3, "nodes are numbered 0..2"),
        ([(0, -1)], 3, "nodes are numbered 0..2"),
        ([("a", "z")], ["a", "b"], "names 'z'"),
        ([(0, 1)], None, "pass nodes="),
        ([(0, 1, 2)], 3, "pairs of whole numbers"),
        ([("a", "b", "c")], ["a", "b", "c"], "an edge is a pair"),
        ([(0.5, 1.0)], 3, "pairs of whole numbers"),
        ([(0, 1), (1,)], 3, "sequence of pairs"),
        *((edges, ["a", "b", "c"], "edge 1 is") for edges in ([1, 2], [("a",)], [None])),
        ([], 1, "at least two nodes"),
        ([], ["a", "a"], "one label"),
    ],
)
def test_bad_graphs_are_refused(source, nodes, said):
    with pytest.raises(InvalidInput) as error:
        graphs.as_graph(source, nodes)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_bad_epsilons_are_refused(epsilon):
    graph = nx.path_graph(4)
    calls = [
        lambda: graphs.response_channel(epsilon),
        lambda: graphs.laplace_channel(epsilon),
        lambda: graphs.degree_query(graph, epsilon),
        lambda: graphs.triangle_query(graph, epsilon),
        lambda: graphs.smooth_triangle_query(graph, epsilon),
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match="epsilon ="):
            call()


def test_too_dense_a_collection_is_refused_before_it_starts():
    with pytest.raises(InvalidInput, match="raise epsilon"):
        graphs.randomize([], graphs.response_channel(1.0), nodes=100_000)


def local_sensitivities_by_enumeration(graph: graphs.Graph) -> list[float]:
    """A_k over all graphs of these nodes, from triangle sequences counted by loops."""
    n, slots = graph.n, graph.slots
    pairs = list(combinations(range(n), 2))
    sequences = [
        np.array(triangles_by_loops(n, [p for s, p in enumerate(pairs) if code >> s & 1])) for code in range(1 << slots)
    ]
    local = [
        max(int(np.abs(sequences[code] - sequences[code ^ (1 << s)]).sum()) for s in range(slots))
        for code in range(1 << slots)
    ]
    here = sum(1 << int(s) for s in graph.edge_slots())
    return [max(local[c] for c in range(1 << slots) if (c ^ here).bit_count() <= k) for k in range(slots + 1)]


@pytest.mark.parametrize("edges", [[], [(0, 1), (1, 2)], [(0, 1), (0, 2), (0, 3), (1, 2), (3, 4)], [(0, 4)]])
def test_local_sensitivities_at_every_distance_by_enumeration(edges):
    graph = graphs.as_graph(edges, nodes=5)
    expected = local_sensitivities_by_enumeration(graph)
    sensitivities = graphs.local_triangle_sensitivities(graph)
    assert sensitivities.tolist() == expected[: sensitivities.size]
    assert all(value == sensitivities[-1] for value in expected[sensitivities.size :])
    for beta in (0.01, 0.3, 2.0):
        largest = max(math.exp(-beta * k) * a for k, a in enumerate(expected))
        assert graphs.smooth_triangle_sensitivity(graph, beta) == pytest.approx(largest, rel=1e-12)


@pytest.mark.parametrize("dimension", [1, 5, 185])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_dilation_hides_norms_and_beats_the_sufficient_value(dimension, epsilon):
    delta = 1e-6
    beta = graphs.laplace_dilation(dimension, epsilon, delta)
    assert beta >= epsilon / (4 * (dimension + math.log(2 / delta)))
    norms = gamma(dimension).ppf(np.concatenate([np.geomspace(1e-12, 0.5, 4000), 1 - np.geomspace(1e-12, 0.5, 4000)]))
    for scale in np.linspace(-beta, beta, 21):
        loss = np.expm1(scale) * norms - dimension * scale
        bad = norms[loss > epsilon / 2]
        if bad.size:
            inside = gamma(dimension).cdf(bad.max()) if scale < 0 else gamma(dimension).sf(bad.min())
            assert inside <= delta * 1.01


@pytest.mark.parametrize("bad", [1.0, -0.1, math.nan])
def test_bad_delta_is_refused(bad):
    with pytest.raises(InvalidInput, match="delta"):
        graphs.smooth_triangle_query(nx.path_graph(4), 1.0, delta=bad)


@pytest.mark.slow
def test_queries_add_noise_of_their_scale_and_say_what_it_costs():
    graph = stand_in()
    truth, n = graphs.triangles(graph), 185
    rng = np.random.default_rng(5)
    degree = [graphs.degree_query(graph, 2.0, random_state=rng) for _ in range(200)]
    errors = np.concatenate([d.values - graphs.as_graph(graph).degrees() for d in degree])
    assert degree[0].scale == 1.0 and degree[0].delta == 0
    # 37,000 Laplace draws: relative standard error of the mean absolute value 0.5 %; 4.5 of them
    assert np.abs(errors).mean() == pytest.approx(1.0, rel=0.025)
    assert abs(errors.mean()) < 4.5 * math.sqrt(2 / errors.size)
    answer = graphs.triangle_query(graph, 3.0, random_state=rng)
    assert answer.scale == 3 * (n - 2) / 3.0 and answer.delta == 0
    smooth = graphs.smooth_triangle_query(graph, 3.0, 1e-6, random_state=rng)
    assert smooth.delta == 1e-6
    beta = graphs.laplace_dilation(n, 3.0, 1e-6)
    assert smooth.scale == pytest.approx(2 * graphs.smooth_triangle_sensitivity(graph, beta) / 3.0)
    pure = [graphs.smooth_triangle_query(graph, 3.0, 0.0, random_state=rng) for _ in range(100)]
    assert pure[0].delta == 0
    spread = np.concatenate([p.values - truth for p in pure]) / pure[0].scale
    # the median of |Cauchy| is 1, its standard error over 18,500 draws 1.2 %
    assert np.median(np.abs(spread)) == pytest.approx(1.0, rel=0.05)


@pytest.mark.slow
def test_five_thousand_nodes():
    """Sparse from end to end: a ring of squares at ε = 5, about 85,000 reported edges.

    Degrees: mean squared error within 8 % (standard error 2 %). Triangles: the variance comes from some 100 lost edges, so
    a realised mean square scatters by 10 %, and 40 % is four standard errors.
    """
    n, rng = 5_000, np.random.default_rng(1)
    ends = np.arange(n)
    ring = np.concatenate([np.column_stack([ends, (ends + step) % n]) for step in (1, 2, 3)])
    graph, channel = graphs.as_graph(ring, nodes=n), graphs.response_channel(5.0)
    randomized = graphs.randomize(graph, channel, random_state=rng)
    degree, triangle = graphs.estimate_degrees(randomized), graphs.estimate_triangles(randomized)
    assert np.mean((degree.values - 6) ** 2) == pytest.approx((n - 1) * channel.noise, rel=0.08)
    truth = graphs.triangles(graph)
    assert truth.tolist() == [9] * n
    variance = graphs.triangle_variance(graph, channel)
    assert np.mean((triangle.values - truth) ** 2) == pytest.approx(variance.mean(), rel=0.4)
    assert np.mean(triangle.variances) == pytest.approx(variance.mean(), rel=0.4)


SIZES = (2, 3, 4)
PRIORS = ([0.7, 0.3], [0.2, 0.5, 0.3], [0.1, 0.2, 0.3, 0.4])
EPSILON = 1.3


def protocols() -> dict[str, baselines.FieldProtocol]:
    return {
        "spl grr": baselines.split(SIZES, EPSILON, "grr"),
        "spl oue": baselines.split(SIZES, EPSILON, "oue"),
        "spl best": baselines.split(SIZES, 6.0),
        "smp grr": baselines.sample(SIZES, EPSILON, "grr"),
        "smp oue": baselines.sample(SIZES, EPSILON, "oue"),
        "rsfd grr": baselines.fake_data(SIZES, EPSILON, "grr"),
        "rsfd oue-z": baselines.fake_data(SIZES, EPSILON, "oue", fakes="zero"),
        "rsfd oue-r": baselines.fake_data(SIZES, EPSILON, "oue"),
        "rsrfd grr": baselines.fake_data(SIZES, EPSILON, "grr", fakes=PRIORS),
        "rsrfd oue": baselines.fake_data(SIZES, EPSILON, "oue", fakes=PRIORS),
    }


NAMES = sorted(protocols())


def answer_law(oracle: str, size: int, epsilon: float, true: int | None) -> dict:
    """Pr(answer) by enumeration; true None is OUE of the zero vector."""
    e = math.exp(epsilon)
    if oracle == "grr":
        return {y: (e if y == true else 1) / (e + size - 1) for y in range(size)}
    law = {}
    for bits in product((0, 1), repeat=size):
        chances = [0.5 if v == true else 1 / (e + 1) for v in range(size)]
        law[bits] = math.prod(c if b else 1 - c for b, c in zip(bits, chances, strict=True))
    return law


def fake_law(oracle: str, size: int, epsilon: float, fake) -> dict:
    if fake is None:
        return answer_law(oracle, size, epsilon, None)
    if oracle == "grr":
        return dict(enumerate(fake))
    parts = [answer_law(oracle, size, epsilon, v) for v in range(size)]
    return {y: sum(f * part[y] for f, part in zip(fake, parts, strict=True)) for y in parts[0]}


def record_epsilon(protocol: baselines.FieldProtocol) -> float:
    """ln of the largest ratio of report probabilities over all pairs of records, by enumerating everything."""
    sizes, e = protocol.sizes.tolist(), protocol.answer_epsilon
    true = [[answer_law(o, r, e, v) for v in range(r)] for o, r in zip(protocol.oracles, sizes, strict=True)]
    fakes = protocol.fakes
    fake = [fake_law(o, r, e, f) for o, r, f in zip(protocol.oracles, sizes, fakes, strict=True)] if fakes else []
    worst = 1.0
    for y in product(*(t[0] for t in true)):
        chances = []
        for x in product(*(range(r) for r in sizes)):
            own = [true[i][x[i]][y[i]] for i in range(len(sizes))]
            if not fakes:
                chances.append(math.prod(own))
                continue
            others = [fake[i][y[i]] for i in range(len(sizes))]
            mixed = (own[j] * math.prod(others[:j] + others[j + 1 :]) for j in range(len(sizes)))
            chances.append(sum(mixed) / len(sizes))
        worst = max(worst, max(chances) / min(chances))
    return math.log(worst)


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("smp")])
def test_epsilon_is_the_whole_records(name):
    protocol = protocols()[name]
    assert record_epsilon(protocol) == pytest.approx(protocol.epsilon, rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 1.0, 8.0, 20.0, 45.0])
def test_the_label_is_the_drawn_reports_own(epsilon):
    # the report's law from its thresholds, words counted exactly: GRR moves for t of 2^64 words, OUE sets bits likewise
    for oracle, size in (("grr", 2), ("grr", 7), ("oue", 3)):
        p, q = baselines.support_probabilities(oracle, size, epsilon)
        if oracle == "grr":
            moved = Fraction(int(threshold((size - 1) * q)), 2**64)
            exact = (1 - moved) / (moved / (size - 1))
        else:
            one, zero = (Fraction(int(threshold(x)), 2**64) for x in (p, q))
            exact = (one * (1 - zero)) / ((1 - one) * zero)
        with mpmath.workdps(50):
            true = mpmath.log(mpmath.mpf(exact.numerator) / exact.denominator)
        label = drawn_epsilon(oracle, size, epsilon)
        assert true <= label <= true + 1e-14 * max(1, epsilon)
        assert label <= epsilon + 1e-9 * epsilon + 1e-14
    for protocol in (
        baselines.split([3, 2], min(epsilon * 2, 50.0)),
        baselines.sample([3, 2], epsilon),
        baselines.fake_data([3, 2], epsilon),
    ):
        assert protocol.epsilon >= max(
            drawn_epsilon(o, int(r), protocol.answer_epsilon)
            for o, r in zip(protocol.oracles, protocol.sizes, strict=True)
        )


def test_published_accounting_of_fake_data_understates_the_record():
    protocol = baselines.fake_data(SIZES, EPSILON, "grr", accounting="published")
    assert math.log1p(math.expm1(protocol.answer_epsilon) / 3) == pytest.approx(EPSILON, rel=1e-12)
    assert record_epsilon(protocol) == pytest.approx(math.log(3 * math.expm1(EPSILON) + 1), rel=1e-12)
    assert protocol.epsilon > 1.5 * EPSILON


@pytest.mark.parametrize("name", NAMES)
def test_supports_by_enumeration(name):
    protocol = protocols()[name]
    for i, size in enumerate(protocol.sizes.tolist()):
        oracle, m = protocol.oracles[i], protocol.m
        a, b = protocol.support(i)
        for v in range(size):
            for w in range(size):
                law = answer_law(oracle, size, protocol.answer_epsilon, w)
                if protocol.fakes:
                    other = fake_law(oracle, size, protocol.answer_epsilon, protocol.fakes[i])
                    law = {y: (law[y] + (m - 1) * other[y]) / m for y in law}
                supported = sum(c for y, c in law.items() if (y == v if oracle == "grr" else y[v]))
                assert supported == pytest.approx((a if v == w else b)[v], rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_estimates_are_unbiased_with_the_stated_variance(name):
    """2,000 simulations of 300 fixed people: mean within 4.5 standard errors (false alarm 6e-5 over nine cells), summed
    variance within 8 % (about 3.5 standard errors of a variance from 2,000 runs over three nearly independent attributes).
    """
    protocol, n, runs = protocols()[name], 300, 2000
    rng = np.random.default_rng(NAMES.index(name))
    codes = np.column_stack([rng.integers(0, r, n) ** 2 // r for r in SIZES])
    truth = np.concatenate([np.bincount(codes[:, i], minlength=r) / n for i, r in enumerate(SIZES)])
    estimates = np.array([np.concatenate(baselines.collect(protocol, codes, rng).estimate()) for _ in range(runs)])
    per_attribute = np.split(truth, np.cumsum(SIZES)[:-1])
    fixed = np.concatenate(protocol.data_variance(per_attribute, n))
    assert np.all(np.abs(estimates.mean(axis=0) - truth) < 4.5 * np.sqrt(fixed / runs))
    assert estimates.var(axis=0, ddof=1).sum() == pytest.approx(fixed.sum(), rel=0.08)
    drawn = np.concatenate(protocol.variance(per_attribute, n))
    # drawing the people adds the variance of their proportions
    np.testing.assert_allclose(drawn - truth * (1 - truth) / n, fixed, rtol=0.02 if name.startswith("smp") else 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("oracle", ["grr", "oue"])
def test_pairs_under_splitting(oracle):
    """Mean of 2,000 simulations within 4.5 standard errors over twelve cells, summed variance within 8 %."""
    protocol, n, runs = baselines.split((3, 4), 4.0, oracle), 400, 2000
    rng = np.random.default_rng(21)
    joint = rng.dirichlet(np.ones(12)).reshape(3, 4)
    estimates = []
    for _ in range(runs):
        cells = rng.choice(12, size=n, p=joint.ravel())
        estimates.append(baselines.collect(protocol, np.column_stack([cells // 4, cells % 4]), rng).estimate_pair(0, 1))
    expected = baselines.pair_variance(protocol, 0, 1, joint, n)
    assert np.all(np.abs(np.mean(estimates, axis=0) - joint) < 4.5 * np.sqrt(expected / runs))
    assert np.var(estimates, axis=0, ddof=1).sum() == pytest.approx(expected.sum(), rel=0.08)


def test_splitting_with_randomized_response_is_kronecker():
    """The same mechanism, through the effect kernels: exact errors of one-way and two-way tables."""
    n, rng = 1000, np.random.default_rng(3)
    mechanism = Mechanism(Domain.of({"a": 3, "b": 4}), ProductLaw(np.array([3, 4]), np.array([0.7, 0.7])))
    protocol = baselines.split((3, 4), 1.4, "grr")
    joint = rng.dirichlet(np.ones(12)).reshape(3, 4)
    assert protocol.epsilon == pytest.approx(mechanism.epsilon, rel=1e-12)
    margins = [joint.sum(axis=1), joint.sum(axis=0)]
    drawn, fixed = protocol.variance(margins, n), protocol.data_variance(margins, n)
    for i, name in enumerate("ab"):
        kernel = mechanism.kernel(name)
        assert drawn[i].sum() == pytest.approx(expected_squared_error(kernel, n, margins[i]), rel=1e-12)
        assert fixed[i].sum() == pytest.approx(expected_squared_error(kernel, n, target="data"), rel=1e-12)
    both = mechanism.kernel(("a", "b"))
    assert baselines.pair_variance(protocol, 0, 1, joint, n).sum() == pytest.approx(
        expected_squared_error(both, n, joint), rel=1e-12
    )


def test_pairs_that_cannot_be_estimated_say_why():
    codes = np.zeros((50, 3), dtype=int)
    with pytest.raises(InvalidInput, match="sample pairs"):
        baselines.collect(baselines.sample(SIZES, 1.0), codes, 1).estimate_pair(0, 1)
    with pytest.raises(InvalidInput, match="eigenvalue of every pair is 0"):
        baselines.collect(baselines.fake_data(SIZES, 1.0), codes, 1).estimate_pair(0, 1)


def test_best_oracle_follows_wangs_rule():
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        border = 3 * math.exp(epsilon) + 2
        assert baselines.best_oracle(max(2, int(border * 0.8)), epsilon) == "grr"
        assert baselines.best_oracle(int(border * 1.3) + 2, epsilon) == "oue"
    for oracle in ("grr", "oue"):
        p, q = baselines.support_probabilities(oracle, 5, 1.0)
        e = math.e
        assert (p, q) == pytest.approx((0.5, 1 / (e + 1)) if oracle == "oue" else (e / (e + 4), 1 / (e + 4)))


def test_mean_reciprocal_of_a_binomial():
    for n, p in ((5, 0.3), (50, 1 / 9), (400, 0.5)):
        k = np.arange(1, n + 1)
        weights = binom.pmf(k, n, p)
        assert baselines.mean_reciprocal(n, p) == pytest.approx(np.sum(weights / k) / weights.sum(), rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: baselines.split(SIZES, 0.0),
        lambda: baselines.sample(SIZES, math.nan),
        lambda: baselines.split([1, 2], 1.0),
        lambda: baselines.split([], 1.0),
        lambda: baselines.split(SIZES, 1.0, "olh"),
        lambda: baselines.fake_data(SIZES, 1.0, "grr", fakes="zero"),
        lambda: baselines.fake_data(SIZES, 1.0, "best"),
        lambda: baselines.fake_data(SIZES, 1.0, accounting="amplified"),
        lambda: baselines.fake_data(SIZES, 1.0, fakes=PRIORS[:2]),
        lambda: baselines.fake_data(SIZES, 1.0, fakes=[[1.0, 0.0], *PRIORS[1:]]),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.zeros((5, 2), dtype=int)),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.full((5, 3), 3)),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.zeros((0, 3), dtype=int)),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.full((5, 3), 0.5)),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.full((5, 3), math.nan)),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.full((5, 3), "0")),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.zeros((5, 3), dtype=int)).estimate_pair(1, 1),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.zeros((5, 3), dtype=int)).estimate_pair(0, 3),
        lambda: baselines.collect(baselines.sample((2,) * 20, 1.0), np.zeros((3, 20), dtype=int), 1).estimate(),
    ],
)
def test_bad_input_is_refused_on_one_line(make):
    with pytest.raises(InvalidInput) as error:
        make()
    assert "\n" not in str(error.value)
