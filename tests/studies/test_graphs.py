"""Graph statistics against enumeration of every output, brute force and simulations."""

import math
from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest
from cases import spread
from scipy.stats import chi2, gamma

from optrr.core.errors import InvalidInput
from optrr.studies import graphs


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


def test_networkx_graphs_and_arrays_give_one_graph():
    named = nx.Graph()
    named.add_nodes_from(["d", "a", "c", "b"])
    named.add_edges_from([("b", "a"), ("c", "d")])
    from_numbers = graphs.as_graph(np.array([[3, 1], [0, 2]]), nodes=4)
    for graph in (graphs.as_graph(named), from_numbers):
        np.testing.assert_array_equal(graph.edges, [[0, 2], [1, 3]])
    assert graphs.as_graph([], nodes=3).degrees().tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("source", "nodes", "said"),
    [
        (nx.DiGraph([(0, 1)]), None, "directed"),
        (nx.MultiGraph([(0, 1), (0, 1)]), None, "several edges"),
        (nx.Graph([(0, 1), (1, 1)]), None, "self-loop"),
        ([(0, 1), (2, 2)], 3, "edge 2, (2, 2), is a self-loop"),
        ([(0, 1), (1, 0)], 3, "edge 2, (1, 0), is listed twice"),
        ([(0, 3)], 3, "outside 0..2"),
        ([(0, -1)], 3, "outside 0..2"),
        ([(0, 1)], None, "pass nodes="),
        ([(0, 1, 2)], 3, "pairs of whole numbers"),
        ([(0.5, 1.0)], 3, "pairs of whole numbers"),
        ([], 1, "at least two nodes"),
    ],
)
def test_bad_graphs_are_refused(source, nodes, said):
    with pytest.raises(InvalidInput) as error:
        graphs.as_graph(source, nodes)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_bad_epsilons_and_deltas_are_refused(epsilon):
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
    for bad in (1.0, -0.1, math.nan):
        with pytest.raises(InvalidInput, match="delta"):
            graphs.smooth_triangle_query(graph, 1.0, delta=bad)


def test_too_dense_a_collection_is_refused_before_it_starts():
    with pytest.raises(InvalidInput, match="raise epsilon"):
        graphs.randomize(graphs.as_graph([], 100_000), graphs.response_channel(1.0))


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
