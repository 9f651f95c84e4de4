"""Stand-in data for the RVL benchmarks: the YesiWell records are not public, so data of the same shape are made here.

248 people with LDL cholesterol in six levels and total cholesterol in three: a bivariate normal of correlation 0.85 (LDL
mean 120, deviation 35 mg/dl; total 195, 40), cut at clinical levels, from a fixed seed. A friendship graph of 185 nodes and
684 edges: Holme and Kim's growing clustered graph, thinned at random to that many edges, from fixed seeds. Wherever results
are shown it must be said that they are on these stand-ins: orders of magnitude carry over, single values do not.
"""

import networkx as nx
import numpy as np
from paper_settings import RVL_EDGES, RVL_NODES, RVL_PEOPLE

from optrr.core.domain.domain import Domain
from optrr.core.records.counts import Counts, count
from optrr.studies.graphs import Graph, as_graph

STAND_IN = "on synthetic stand-in data of the same shape as RVL's (248 people; 185 nodes, 684 edges), not on RVL's data"

# As RVL drew them, alike in every panel.
COLOURS = {"true": "tab:green", "randomized response": "tab:red", "Laplace": "tab:blue"}

LDL = ("below 70", "70-99", "100-129", "130-159", "160-189", "190 and above")
TC = ("below 200", "200-239", "240 and above")
_LDL_CUTS = (70, 100, 130, 160, 190)
_TC_CUTS = (200, 240)


def domain() -> Domain:
    return Domain.of({"LDL": LDL, "TC": TC})


def biomarkers() -> np.ndarray:
    """Codes of (LDL, TC), shape (248, 2)."""
    rng = np.random.default_rng(2016)
    means, deviations = np.array([120.0, 195.0]), np.array([35.0, 40.0])
    first, second = rng.standard_normal((2, RVL_PEOPLE))
    standard = np.column_stack([first, 0.85 * first + np.sqrt(1 - 0.85**2) * second])
    ldl, tc = (means + deviations * standard).T
    return np.column_stack([np.searchsorted(_LDL_CUTS, ldl, "right"), np.searchsorted(_TC_CUTS, tc, "right")])


def table() -> Counts:
    """The true counts, shape (6, 3)."""
    return count(biomarkers(), domain(), ("LDL", "TC"))


def friendships() -> Graph:
    """185 nodes, 684 edges."""
    grown = nx.powerlaw_cluster_graph(RVL_NODES, 4, 0.7, seed=3)
    edges = np.array(sorted(tuple(sorted(e)) for e in grown.edges()))
    kept = np.random.default_rng(4).permutation(len(edges))[:RVL_EDGES]
    graph = as_graph(edges[kept], nodes=RVL_NODES)
    assert len(graph.edges) == RVL_EDGES
    return graph
