"""Graphs under edge privacy: collected bit by bit and debiased, or answered by a trusted server with noise."""

from optrr.studies.graphs.collection import (
    EdgeChannel,
    RandomizedGraph,
    assemble,
    laplace_channel,
    randomize,
    report_ties,
    response_channel,
)
from optrr.studies.graphs.estimates import (
    NodeEstimate,
    estimate_degrees,
    estimate_triangles,
    triangle_variance,
    triangles,
)
from optrr.studies.graphs.graph import Graph, as_graph
from optrr.studies.graphs.queries import (
    NoisyAnswer,
    degree_query,
    laplace_dilation,
    local_triangle_sensitivities,
    smooth_triangle_query,
    smooth_triangle_sensitivity,
    triangle_query,
)

__all__ = [
    "EdgeChannel",
    "Graph",
    "NodeEstimate",
    "NoisyAnswer",
    "RandomizedGraph",
    "as_graph",
    "assemble",
    "degree_query",
    "estimate_degrees",
    "estimate_triangles",
    "laplace_channel",
    "laplace_dilation",
    "local_triangle_sensitivities",
    "randomize",
    "report_ties",
    "response_channel",
    "smooth_triangle_query",
    "smooth_triangle_sensitivity",
    "triangle_query",
    "triangle_variance",
    "triangles",
]
