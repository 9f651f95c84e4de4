"""Bounds that are computed without any backend: lower bounds by weak duality, and exact upper sides.

``certificate`` holds the multipliers and computes the lower bound: by counting where change sets can be counted, else
by ``grid_bound``, and by ``rank_one`` where pairs are kept. Every solution is checked against it.
"""
