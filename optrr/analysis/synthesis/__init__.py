"""Synthetic records: drawn from a model of pairs in randomized records, and of other tables to keep.

``laws`` parses the tables to keep and makes the distribution that records are drawn from, ``drawing`` has the public
function and compares, and ``combined`` makes intervals from several sets.
"""
