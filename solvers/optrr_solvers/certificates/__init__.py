"""Bounds that are computed without any backend: lower bounds by weak duality, and exact upper sides."""
